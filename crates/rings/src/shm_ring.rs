//! A ring of frames between two processes: one writes, one reads, nobody locks.
//!
//! The writer owns `head`, the reader `tail`: counts of bytes since the beginning, whose low bits are places in the
//! ring. A record is a word with the frame's length, the frame, and padding to the next multiple of eight.
//!
//! Either process may be hostile and write anything anywhere at any time. So each end trusts only its own private copy
//! of its own count; what it reads of the other's is checked before use, a length is read once and checked before it is
//! used, and a frame is copied out before anyone looks at it. What fails a check is [`Corrupt`], after which the ring is
//! not used any more. No `unsafe` is needed for this: bounds hold whatever was read.
//!
//! The algorithm knows its memory only as a [`RingMemory`], so that the same code runs on a mapping and in loom's model
//! of memory (`tests/shm_loom.rs`).

/// Bytes of the word before each frame. Records start at its multiples, so it never straddles the ring's end.
const WORD_BYTES: usize = 8;

/// The memory of one ring. Its operations are what either process can do to it.
pub trait RingMemory {
    /// Bytes for records: a power of two.
    fn capacity(&self) -> usize;
    /// The writer's count. Acquires what was stored before it.
    fn load_head(&self) -> u64;
    /// Publishes the writer's count and all that was stored before.
    fn store_head(&self, head: u64);
    /// The reader's count. Acquires: what was read before it is read.
    fn load_tail(&self) -> u64;
    /// Publishes the reader's count: what is before it may be overwritten.
    fn store_tail(&self, tail: u64);
    /// True if the reader sleeps or is about to.
    fn asleep(&self) -> bool;
    /// Says whether the reader sleeps; returns what was said before.
    fn set_asleep(&self, asleep: bool) -> bool;
    /// A sequentially consistent fence.
    fn fence(&self);
    /// Frames that the writer dropped because the ring was full.
    fn lost(&self) -> u64;
    /// Publishes that number.
    fn store_lost(&self, lost: u64);
    /// Copies into the ring. `at + bytes.len()` is at most the capacity.
    fn write(&self, at: usize, bytes: &[u8]);
    /// Copies out of the ring. `at + bytes.len()` is at most the capacity.
    fn read(&self, at: usize, bytes: &mut [u8]);
}

/// The other process wrote something into the ring that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

/// Bytes that a frame takes in the ring.
const fn record_bytes(frame: usize) -> usize {
    WORD_BYTES + frame.next_multiple_of(WORD_BYTES)
}

/// The place in the ring of a count.
fn place(memory: &impl RingMemory, count: u64) -> usize {
    count as usize & (memory.capacity() - 1)
}

/// The writing end.
#[derive(Debug)]
pub struct Producer<M> {
    memory: M,
    head: u64,
    /// The reader's count as last seen, checked.
    tail: u64,
    lost: u64,
}

impl<M: RingMemory> Producer<M> {
    /// The writing end of a ring that nobody has written to yet.
    pub const fn new(memory: M) -> Self {
        Self { memory, head: 0, tail: 0, lost: 0 }
    }

    /// Writes a frame of `length` bytes, gathered from `parts`, and publishes it. False: there is no room now.
    ///
    /// # Panics
    ///
    /// Panics if the parts are not `length` bytes long together.
    #[inline]
    pub fn push<'a>(
        &mut self,
        length: usize,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<bool, Corrupt> {
        let record = record_bytes(length) as u64;
        let capacity = self.memory.capacity() as u64;
        if self.head - self.tail + record > capacity {
            self.look()?;
            if self.head - self.tail + record > capacity {
                return Ok(false);
            }
        }
        self.write(self.head, &(length as u64).to_ne_bytes());
        let mut at = self.head + WORD_BYTES as u64;
        let end = at + length as u64;
        for part in parts {
            assert!(part.len() as u64 <= end - at, "parts longer than said");
            self.write(at, part);
            at += part.len() as u64;
        }
        assert!(at == end, "parts shorter than said");
        self.head += record;
        self.memory.store_head(self.head);
        Ok(true)
    }

    /// Reads the other end's count again. Returns it.
    pub fn look(&mut self) -> Result<u64, Corrupt> {
        let tail = self.memory.load_tail();
        if tail < self.tail || tail > self.head {
            return Err(Corrupt);
        }
        self.tail = tail;
        Ok(tail)
    }

    /// Counts a frame that was dropped for want of room, where the reader can see it.
    pub fn count_lost(&mut self) {
        self.lost += 1;
        self.memory.store_lost(self.lost);
    }

    /// True if the reader went to sleep, and this end is the one to wake it. To be asked after pushes; if true, it is
    /// not said again before the reader has said again that it sleeps.
    #[inline]
    pub fn must_wake(&self) -> bool {
        // Pairs with the fence in `Consumer::arm`: either the reader sees the frame, or this end sees that it sleeps.
        self.memory.fence();
        self.memory.asleep() && self.memory.set_asleep(false)
    }

    #[inline]
    fn write(&self, count: u64, bytes: &[u8]) {
        let at = place(&self.memory, count);
        let (first, rest) = bytes.split_at(bytes.len().min(self.memory.capacity() - at));
        self.memory.write(at, first);
        if !rest.is_empty() {
            self.memory.write(0, rest);
        }
    }
}

/// The reading end.
#[derive(Debug)]
pub struct Consumer<M> {
    memory: M,
    tail: u64,
    /// The writer's count as last seen, checked.
    head: u64,
}

impl<M: RingMemory> Consumer<M> {
    /// The reading end of a ring that nobody has read from yet.
    pub const fn new(memory: M) -> Self {
        Self { memory, tail: 0, head: 0 }
    }

    /// Copies the next frame into `buffer` and frees its place. Returns its length in bytes, or `None` if there is no
    /// frame. A frame longer than the buffer is [`Corrupt`], as is an empty one.
    #[inline]
    pub fn pop(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Corrupt> {
        if self.head == self.tail {
            let head = self.memory.load_head();
            let fits = head.wrapping_sub(self.tail) <= self.memory.capacity() as u64;
            if !fits || head < self.tail || !head.is_multiple_of(WORD_BYTES as u64) {
                return Err(Corrupt);
            }
            if head == self.tail {
                return Ok(None);
            }
            self.head = head;
        }
        let mut word = [0; WORD_BYTES];
        self.memory.read(place(&self.memory, self.tail), &mut word);
        // From here on a private copy: the other process can change the ring, but not this.
        let length = usize::try_from(u64::from_ne_bytes(word)).map_err(|_| Corrupt)?;
        let bytes = buffer.get_mut(..length).filter(|bytes| !bytes.is_empty()).ok_or(Corrupt)?;
        let record = record_bytes(length) as u64;
        if record > self.head - self.tail {
            return Err(Corrupt);
        }
        let at = place(&self.memory, self.tail + WORD_BYTES as u64);
        let (first, rest) = bytes.split_at_mut(length.min(self.memory.capacity() - at));
        self.memory.read(at, first);
        if !rest.is_empty() {
            self.memory.read(0, rest);
        }
        self.tail += record;
        self.memory.store_tail(self.tail);
        Ok(Some(length))
    }

    /// True if [`pop`](Self::pop) would find something.
    #[inline]
    pub fn ready(&self) -> bool {
        self.head != self.tail || self.memory.load_head() != self.tail
    }

    /// Says that this end is about to sleep. True: something is there, do not sleep.
    pub fn arm(&self) -> bool {
        self.memory.set_asleep(true);
        self.memory.fence();
        self.ready()
    }

    /// Says that this end is awake: nobody needs to wake it.
    pub fn disarm(&self) {
        self.memory.set_asleep(false);
    }

    /// Bytes that this end has taken so far.
    pub const fn taken(&self) -> u64 {
        self.tail
    }

    /// How far the writer has written, to be asked once it is gone: at most what fits into the ring, whatever it says.
    pub fn end(&self) -> u64 {
        self.memory.load_head().min(self.tail + self.memory.capacity() as u64)
    }

    /// Frames that the writer says it dropped for want of room.
    pub fn lost(&self) -> u64 {
        self.memory.lost()
    }
}

#[cfg(test)]
mod tests;
