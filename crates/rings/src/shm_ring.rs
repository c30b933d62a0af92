//! A ring of frames between two processes: one writes, one reads, nobody locks.
//!
//! Records follow each other, each from the beginning of a cache line: a word with the frame's length and a mark that
//! whoever writes may give it, the frame, padding to the end of its last line. The word is written last and says that the record is there; zero says that nothing is yet. So a
//! short frame and the news of it travel in the same lines. For that the word of the record that will come next must be
//! zero before this one is published, whatever lay there a lap ago: the writer clears it, mostly one push ahead, when
//! nobody waits for it. The reader owns `tail`: how many bytes it has taken since the beginning.
//!
//! Either process may be hostile and write anything anywhere at any time. So each end trusts only its own private count;
//! what it reads of the other's is checked before use, a length is read once and checked before it is used, and a frame is
//! copied out before anyone looks at it. What fails a check is [`Corrupt`], after which the ring is not used any more. No
//! `unsafe` is needed for this: bounds hold whatever was read.
//!
//! The algorithm knows its memory only as a [`RingMemory`], so that the same code runs on a mapping and in loom's model
//! of memory (`tests/shm_loom.rs`).

/// Bytes of the word before each frame.
const WORD_BYTES: usize = 8;

/// Bits of that word that are the frame's length; the others are its mark.
const LENGTH_BITS: u32 = 32;

/// Records start at multiples of this: what processors move between each other at once.
pub const LINE_BYTES: usize = 64;

/// Bytes of a frame in its record's first line.
const FIRST_LINE_BYTES: usize = LINE_BYTES - WORD_BYTES;

/// Lines beyond the next record's word that are cleared ahead: a frame of up to 120 bytes, as short messages are, then finds
/// the word behind it cleared.
const LINES_AHEAD: u64 = 2;

/// The memory of one ring. Its operations are what either process can do to it.
pub trait RingMemory {
    /// Bytes for records: a power of two, and several lines.
    fn capacity(&self) -> usize;
    /// The word of the record at `at`, a line's beginning. Acquires what was stored before it.
    fn load_word(&self, at: usize) -> u64;
    /// Publishes a record's word and all that was stored before.
    fn store_word(&self, at: usize, word: u64);
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
    /// The line at `at` is about to be read.
    fn expect(&self, at: usize);
}

/// The other process wrote something into the ring that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

/// Bytes that a frame of so many bytes takes in the ring.
pub const fn record_bytes(frame: usize) -> usize {
    (WORD_BYTES + frame).next_multiple_of(LINE_BYTES)
}

/// The place in the ring of a count.
fn place(memory: &impl RingMemory, count: u64) -> usize {
    count as usize & (memory.capacity() - 1)
}

/// The writing end.
#[derive(Debug)]
pub struct Producer<M> {
    memory: M,
    /// Where the next record begins.
    head: u64,
    /// The words of all lines from `head` to here are zero.
    clear: u64,
    /// The reader's count as last seen, checked.
    tail: u64,
    lost: u64,
}

impl<M: RingMemory> Producer<M> {
    /// The writing end of a ring of zeros.
    pub const fn new(memory: M) -> Self {
        Self { memory, head: 0, clear: LINE_BYTES as u64, tail: 0, lost: 0 }
    }

    /// Writes a frame of `length` bytes, gathered from `parts`, and publishes it. False: there is no room now.
    ///
    /// # Panics
    ///
    /// Panics if the parts are not `length` bytes long together, or have none.
    #[inline]
    pub fn push<'a>(
        &mut self,
        length: usize,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<bool, Corrupt> {
        self.push_marked(0, length, parts)
    }

    /// As [`push`](Self::push), with a mark that the reader gets with the frame.
    ///
    /// # Panics
    ///
    /// As for [`push`](Self::push).
    #[inline]
    pub fn push_marked<'a>(
        &mut self,
        mark: u32,
        length: usize,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<bool, Corrupt> {
        assert!(length > 0, "an empty frame would not be seen");
        let next = self.head + record_bytes(length) as u64;
        if !self.has_room(next) {
            self.look()?;
            if !self.has_room(next) {
                return Ok(false);
            }
        }
        let start = self.head + WORD_BYTES as u64;
        let mut written = 0;
        for part in parts.clone() {
            assert!(part.len() <= length - written, "parts longer than said");
            let first = part.len().min(FIRST_LINE_BYTES.saturating_sub(written));
            self.write(start + (written + first) as u64, &part[first..]);
            written += part.len();
        }
        assert!(written == length, "parts shorter than said");
        self.clear_to(next + LINE_BYTES as u64);
        // The reader looks at the first line all the time, and takes it away each time. So all that is written to it is
        // written at once.
        let mut written = 0;
        for part in parts {
            if written >= FIRST_LINE_BYTES {
                break;
            }
            let first = part.len().min(FIRST_LINE_BYTES - written);
            self.write(start + written as u64, &part[..first]);
            written += part.len();
        }
        let word = u64::from(mark) << LENGTH_BITS | length as u64;
        self.memory.store_word(place(&self.memory, self.head), word);
        self.head = next;
        self.clear_ahead();
        Ok(true)
    }

    /// True if records may reach up to `next`, and the word there is free as well.
    #[inline]
    fn has_room(&self, next: u64) -> bool {
        next + LINE_BYTES as u64 - self.tail <= self.memory.capacity() as u64
    }

    /// Sees to it that the last word before `end` is zero. All before it belongs to the record that is being written, or was
    /// cleared.
    #[inline]
    fn clear_to(&mut self, end: u64) {
        if self.clear < end {
            self.memory.store_word(place(&self.memory, end - LINE_BYTES as u64), 0);
            self.clear = end;
        }
    }

    /// Clears words that later records will need, as far as the reader has freed them.
    #[inline]
    fn clear_ahead(&mut self) {
        let line = LINE_BYTES as u64;
        let free = self.tail + self.memory.capacity() as u64;
        let end = free.min(self.head + (1 + LINES_AHEAD) * line);
        while self.clear < end {
            self.clear_to(self.clear + line);
        }
    }

    /// Reads the other end's count again. Returns it.
    pub fn look(&mut self) -> Result<u64, Corrupt> {
        let tail = self.memory.load_tail();
        let is_line = tail.is_multiple_of(LINE_BYTES as u64);
        if tail < self.tail || tail > self.head || !is_line {
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
}

impl<M: RingMemory> Consumer<M> {
    /// The reading end of a ring that nobody has read from yet.
    pub const fn new(memory: M) -> Self {
        Self { memory, tail: 0 }
    }

    /// Copies the next frame into `buffer` and frees its place. Returns its length in bytes, or `None` if there is no
    /// frame. A frame longer than the buffer is [`Corrupt`].
    #[inline]
    pub fn pop(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Corrupt> {
        match self.pop_marked(buffer)? {
            Some((0, length)) => Ok(Some(length)),
            Some(_) => Err(Corrupt),
            None => Ok(None),
        }
    }

    /// As [`pop`](Self::pop), for frames that may have a mark: returns it and the length. The mark is any number.
    #[inline]
    pub fn pop_marked(&mut self, buffer: &mut [u8]) -> Result<Option<(u32, usize)>, Corrupt> {
        // The frame's second line, or where the next one will begin; and if it has two, where then.
        for lines in 1..=2 {
            self.memory.expect(place(&self.memory, self.tail + lines * LINE_BYTES as u64));
        }
        let word = self.memory.load_word(place(&self.memory, self.tail));
        if word == 0 {
            return Ok(None);
        }
        let (mark, length) = ((word >> LENGTH_BITS) as u32, word as u32 as usize);
        let bytes = buffer.get_mut(..length).filter(|bytes| !bytes.is_empty()).ok_or(Corrupt)?;
        let record = record_bytes(length);
        if record + LINE_BYTES > self.memory.capacity() {
            return Err(Corrupt);
        }
        // From here on a private copy: the other process can change the ring, but not this.
        let at = place(&self.memory, self.tail + WORD_BYTES as u64);
        let (first, rest) = bytes.split_at_mut(length.min(self.memory.capacity() - at));
        self.memory.read(at, first);
        if !rest.is_empty() {
            self.memory.read(0, rest);
        }
        self.tail += record as u64;
        self.memory.store_tail(self.tail);
        Ok(Some((mark, length)))
    }

    /// True if [`pop`](Self::pop) would find something.
    #[inline]
    pub fn ready(&self) -> bool {
        self.memory.load_word(place(&self.memory, self.tail)) != 0
    }

    /// Says that this end is about to sleep. True: something is there, do not sleep.
    pub fn arm(&self) -> bool {
        self.memory.set_asleep(true);
        self.memory.fence();
        self.ready()
    }

    /// Says that this end is awake: nobody needs to wake it. False: the writer has seen that it slept, and wakes it all the same.
    pub fn disarm(&self) -> bool {
        self.memory.set_asleep(false)
    }

    /// Bytes that this end has taken so far.
    pub const fn taken(&self) -> u64 {
        self.tail
    }

    /// How far the writer can have written at most, to be asked once it is gone.
    pub fn end(&self) -> u64 {
        self.tail + self.memory.capacity() as u64
    }

    /// Frames that the writer says it dropped for want of room.
    pub fn lost(&self) -> u64 {
        self.memory.lost()
    }
}

#[cfg(test)]
mod tests;
