//! What the messages are: sizes, tags, scatter lists and contents, all from the seed.

use emp_firmware::limits::SEGMENTS_MAX;

/// Different match bits in use. Few, so that several messages with the same bits are always under way and their order
/// shows.
pub const TAGS: u64 = 5;

/// A small, fast source of numbers (splitmix64), good enough to choose cases and to tell contents apart.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that follow from two others.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ mix(stream.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Less than `limit`, which is not zero. The bias of the remainder does not matter here.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One direction's messages.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// The plan's seed and the direction together.
    seed: u64,
    size_max: usize,
}

/// One message, as both ends know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its place in the direction's order.
    pub index: u64,
    /// Bytes.
    pub size: usize,
    /// Match bits, less than [`TAGS`].
    pub tag: u64,
    /// It goes to the endpoint where receives take anything; otherwise to the one where they name the tag.
    pub wild: bool,
    /// Carries its index as immediate data.
    pub immediate: bool,
    /// Completes only when it is matched.
    pub synchronous: bool,
    /// Lengths of the sender's buffers.
    pub gather: Vec<usize>,
    /// Lengths of the receiver's buffers: all of the message, less of it (truncation), or more.
    pub scatter: Vec<usize>,
}

impl Message {
    /// `17:4096B@2`: which message, how long, to which tag (`w` where any is taken); `!` if it is synchronous.
    pub fn short(&self) -> String {
        let mailbox = if self.wild { "w".to_owned() } else { self.tag.to_string() };
        let mark = if self.synchronous { "!" } else { "" };
        format!("{}:{}B@{mailbox}{mark}", self.index, self.size)
    }
}

impl Script {
    /// The messages of one direction.
    pub fn new(seed: u64, direction: u64, size_max: usize) -> Self {
        Self { seed: Random::new(seed, direction).next(), size_max }
    }

    /// A message.
    pub fn message(&self, index: u64) -> Message {
        let mut random = Random::new(self.seed, index);
        let size = random_size(&mut random, self.size_max);
        let tag = random.below(TAGS);
        let wild = random.one_in(4);
        let immediate = random.one_in(2);
        let synchronous = random.one_in(8);
        let gather = cut(&mut random, size);
        let room = match random.below(8) {
            0 => size / 2,
            1 => size + 1 + random.below(64) as usize,
            _ => size,
        };
        let scatter = cut(&mut random, room);
        Message { index, size, tag, wild, immediate, synchronous, gather, scatter }
    }

    /// Writes the bytes of a message that start `at` bytes in.
    pub fn fill(&self, index: u64, at: usize, into: &mut [u8]) {
        let key = self.key(index);
        let lead = lead(at, into.len());
        for (offset, byte) in into[..lead].iter_mut().enumerate() {
            *byte = byte_at(key, at + offset);
        }
        let first = (at + lead) / 8;
        let (words, rest) = into[lead..].as_chunks_mut::<8>();
        let rest_at = (first + words.len()) * 8;
        for (number, word) in words.iter_mut().enumerate() {
            *word = word_at(key, first + number);
        }
        for (offset, byte) in rest.iter_mut().enumerate() {
            *byte = byte_at(key, rest_at + offset);
        }
    }

    /// The place of the first byte that is not as [`fill`](Self::fill) would have written it.
    pub fn first_wrong(&self, index: u64, at: usize, bytes: &[u8]) -> Option<usize> {
        let key = self.key(index);
        let lead = lead(at, bytes.len());
        let first = (at + lead) / 8;
        let (words, rest) = bytes[lead..].as_chunks::<8>();
        let right = |number: usize| words[number] == word_at(key, first + number);
        let wrong_word = (0..words.len()).find(|number| !right(*number));
        // Only a byte by byte look tells where, and it is not needed unless something is wrong.
        let suspect = match wrong_word {
            Some(number) => 0..lead + 8 * (number + 1),
            None => 0..bytes.len(),
        };
        if wrong_word.is_none() {
            let tail = bytes.len() - rest.len();
            let ends = (0..lead).chain(tail..bytes.len());
            return ends.map(|o| at + o).find(|place| bytes[place - at] != byte_at(key, *place));
        }
        suspect.map(|offset| at + offset).find(|place| bytes[place - at] != byte_at(key, *place))
    }

    fn key(&self, index: u64) -> u64 {
        mix(self.seed ^ mix(index))
    }
}

/// Bytes before the next whole word.
fn lead(at: usize, bytes: usize) -> usize {
    (at.next_multiple_of(8) - at).min(bytes)
}

#[inline]
fn word_at(key: u64, number: usize) -> [u8; 8] {
    let z = (key ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (z ^ (z >> 29)).to_le_bytes()
}

fn byte_at(key: u64, at: usize) -> u8 {
    word_at(key, at / 8)[at % 8]
}

/// Any number of bits is as likely as any other; nothing at all, and the very largest, come up now and then.
fn random_size(random: &mut Random, most: usize) -> usize {
    match random.below(64) {
        0 => 0,
        1 => most,
        _ => {
            let bits = random.below(u64::from(most.ilog2()) + 1) as u32;
            let least = 1u64 << bits;
            (least + random.below(least)).min(most as u64) as usize
        }
    }
}

/// Cuts a length into buffers: mostly one, sometimes a few, now and then as many as there may be. Some are empty.
fn cut(random: &mut Random, bytes: usize) -> Vec<usize> {
    let parts = match random.below(16) {
        0 => SEGMENTS_MAX as u64,
        1..5 => 2 + random.below(7),
        _ => 1,
    };
    let mut places: Vec<usize> =
        (1..parts).map(|_| random.below(bytes as u64 + 1) as usize).collect();
    places.push(bytes);
    places.sort_unstable();
    let starts = std::iter::once(0).chain(places.iter().copied());
    places.iter().zip(starts).map(|(end, start)| end - start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: Script = Script { seed: 7, size_max: 4 << 20 };

    #[test]
    fn contents_do_not_depend_on_how_they_are_cut() {
        let mut whole = vec![0; 1000];
        SCRIPT.fill(3, 0, &mut whole);
        for cut in [0, 1, 7, 8, 9, 500, 999, 1000] {
            let mut parts = vec![0; 1000];
            let (head, tail) = parts.split_at_mut(cut);
            SCRIPT.fill(3, 0, head);
            SCRIPT.fill(3, cut, tail);
            assert_eq!(parts, whole, "cut at {cut}");
            assert_eq!(SCRIPT.first_wrong(3, cut, &whole[cut..]), None);
        }
    }

    #[test]
    fn every_wrong_byte_is_found_at_its_place() {
        for (at, bytes) in [(0, 40), (3, 30), (5, 2), (8, 24)] {
            let mut right = vec![0; bytes];
            SCRIPT.fill(9, at, &mut right);
            for wrong in 0..bytes {
                let mut bad = right.clone();
                bad[wrong] ^= 0x10;
                assert_eq!(SCRIPT.first_wrong(9, at, &bad), Some(at + wrong));
            }
            assert!(SCRIPT.first_wrong(10, at, &right).is_some());
        }
    }

    #[test]
    fn messages_are_of_every_kind_and_stay_in_bounds() {
        let all: Vec<Message> = (0..4000).map(|index| SCRIPT.message(index)).collect();
        for message in &all {
            assert!(message.size <= SCRIPT.size_max);
            assert_eq!(message.gather.iter().sum::<usize>(), message.size);
            assert!(message.gather.len() <= SEGMENTS_MAX && message.scatter.len() <= SEGMENTS_MAX);
        }
        let room = |message: &Message| message.scatter.iter().sum::<usize>();
        let some = |kind: fn(&Message) -> bool| assert!(all.iter().any(kind));
        some(|message| message.size == 0);
        some(|message| message.size == SCRIPT.size_max);
        some(|message| message.gather.len() == SEGMENTS_MAX);
        assert!(all.iter().any(|message| room(message) < message.size));
        assert!(all.iter().any(|message| room(message) > message.size));
        let small = all.iter().filter(|message| message.size < 2048).count();
        assert!((1000..3000).contains(&small), "{small} of 4000 under 2 KiB");
        assert_eq!(SCRIPT.message(17), SCRIPT.message(17));
    }
}
