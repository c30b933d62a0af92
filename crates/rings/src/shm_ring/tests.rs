use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;

/// A ring that one thread can corrupt as it likes.
#[derive(Clone)]
struct Paper(Rc<Shared>);

struct Shared {
    tail: Cell<u64>,
    asleep: Cell<bool>,
    lost: Cell<u64>,
    data: RefCell<Vec<u8>>,
}

impl Paper {
    fn new(capacity: usize) -> Self {
        Self(Rc::new(Shared {
            tail: Cell::new(0),
            asleep: Cell::new(false),
            lost: Cell::new(0),
            data: RefCell::new(vec![0; capacity]),
        }))
    }
}

impl RingMemory for Paper {
    fn capacity(&self) -> usize {
        self.0.data.borrow().len()
    }
    fn load_word(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(LINE_BYTES));
        u64::from_ne_bytes(*self.0.data.borrow()[at..].first_chunk().expect("inside"))
    }
    fn store_word(&self, at: usize, word: u64) {
        assert!(at.is_multiple_of(LINE_BYTES));
        self.write(at, &word.to_ne_bytes());
    }
    fn load_tail(&self) -> u64 {
        self.0.tail.get()
    }
    fn store_tail(&self, tail: u64) {
        self.0.tail.set(tail);
    }
    fn asleep(&self) -> bool {
        self.0.asleep.get()
    }
    fn set_asleep(&self, asleep: bool) -> bool {
        self.0.asleep.replace(asleep)
    }
    fn fence(&self) {}
    fn lost(&self) -> u64 {
        self.0.lost.get()
    }
    fn store_lost(&self, lost: u64) {
        self.0.lost.set(lost);
    }
    fn write(&self, at: usize, bytes: &[u8]) {
        self.0.data.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }
    fn read(&self, at: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0.data.borrow()[at..at + bytes.len()]);
    }
    fn expect(&self, at: usize) {
        assert!(at + LINE_BYTES <= self.capacity());
    }
}

/// Lengths and capacities here are in lines, of which a frame's word takes eight bytes of the first.
const LINE: usize = LINE_BYTES;

fn ends(lines: usize) -> (Paper, Producer<Paper>, Consumer<Paper>) {
    let paper = Paper::new(lines * LINE);
    (paper.clone(), Producer::new(paper.clone()), Consumer::new(paper))
}

fn push(producer: &mut Producer<Paper>, frame: &[u8]) -> Result<bool, Corrupt> {
    let (head, tail) = frame.split_at(frame.len() / 3);
    producer.push(frame.len(), [head, tail].into_iter())
}

#[test]
fn frames_of_every_length_pass_across_the_end() {
    let (_, mut producer, mut consumer) = ends(8);
    let mut buffer = [0; 7 * LINE];
    let longest = 7 * LINE - WORD_BYTES;
    for length in (1..=longest).chain((1..=longest).rev()) {
        // No byte is zero: what is left of it must not be taken for a word.
        let frame: Vec<u8> = (0..length).map(|place| (place * 7 + length) as u8 | 1).collect();
        assert_eq!(push(&mut producer, &frame), Ok(true));
        assert!(consumer.ready());
        assert_eq!(consumer.pop(&mut buffer), Ok(Some(length)));
        assert_eq!(buffer[..length], frame);
        assert!(!consumer.ready());
        assert_eq!(consumer.pop(&mut buffer), Ok(None));
    }
    assert_eq!(push(&mut producer, &vec![1; longest + 1]), Ok(false), "it never fits");
}

/// Old frames' bytes lie everywhere, and look like words; only what was pushed is seen, however full the ring is.
#[test]
fn old_bytes_are_never_taken_for_a_frame() {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let (_, mut producer, mut consumer) = ends(16);
    let mut buffer = [0; 16 * LINE];
    let mut flying = std::collections::VecDeque::new();
    let bytes: Vec<u8> = 24u64.to_ne_bytes().repeat(2 * LINE);
    for _ in 0..50_000 {
        if random() % 2 == 0 {
            let length = 1 + random() % if random() % 4 == 0 { 6 * LINE } else { 2 * LINE };
            if push(&mut producer, &bytes[..length]) == Ok(true) {
                flying.push_back(length);
            }
        } else {
            assert_eq!(consumer.ready(), !flying.is_empty());
            assert_eq!(consumer.pop(&mut buffer), Ok(flying.pop_front()));
        }
    }
}

#[test]
fn a_full_ring_takes_nothing_until_there_is_room() {
    let (_, mut producer, mut consumer) = ends(4);
    // The line behind the last record is kept for the word that says that there is no further one.
    for number in 0..3 {
        assert_eq!(push(&mut producer, &[number; 8]), Ok(true));
    }
    assert_eq!(push(&mut producer, &[9]), Ok(false));
    producer.count_lost();
    assert_eq!(consumer.lost(), 1);
    assert_eq!((consumer.taken(), consumer.end()), (0, 4 * LINE as u64));
    let mut buffer = [0; LINE];
    assert_eq!(consumer.pop(&mut buffer), Ok(Some(8)));
    assert_eq!(push(&mut producer, &[3; 8]), Ok(true));
    for number in 1..=3 {
        assert_eq!(consumer.pop(&mut buffer), Ok(Some(8)));
        assert_eq!(buffer[..8], [number; 8]);
    }
    assert_eq!(consumer.pop(&mut buffer), Ok(None));
    assert_eq!(consumer.taken(), 4 * LINE as u64);
}

#[test]
fn a_sleeper_is_woken_once() {
    let (_, mut producer, mut consumer) = ends(4);
    assert!(!producer.must_wake());
    assert!(!consumer.arm());
    assert_eq!(push(&mut producer, &[1]), Ok(true));
    assert!(producer.must_wake());
    assert!(!producer.must_wake());
    assert!(consumer.arm(), "a frame is there");
    consumer.disarm();
    assert!(!producer.must_wake());
    assert_eq!(consumer.pop(&mut [0; 8]), Ok(Some(1)));
}

#[test]
fn a_length_that_cannot_be_is_corrupt() {
    for length in [65, 4 * LINE as u64, 1 << 32, 1 << 63, u64::MAX, u64::MAX - 7] {
        let (paper, _, mut consumer) = ends(4);
        paper.store_word(0, length);
        assert_eq!(consumer.pop(&mut [0; 64]), Err(Corrupt), "{length}");
    }
    // One that the buffer could take, and no ring of this size.
    let (paper, _, mut consumer) = ends(4);
    paper.store_word(0, 4 * LINE as u64);
    assert_eq!(consumer.pop(&mut [0; 8 * LINE]), Err(Corrupt));
}

#[test]
fn a_tail_that_cannot_be_is_corrupt() {
    let line = LINE as u64;
    for tail in [1, line - 1, 4 * line, 3 * line + 1, u64::MAX, 1 << 40] {
        let (paper, mut producer, _) = ends(4);
        assert_eq!(push(&mut producer, &[1; 2 * LINE]), Ok(true));
        paper.store_tail(tail);
        assert_eq!(push(&mut producer, &[1]), Err(Corrupt), "{tail}");
    }
    let (paper, mut producer, mut consumer) = ends(4);
    assert_eq!(push(&mut producer, &[1; 2 * LINE]), Ok(true));
    assert_eq!(consumer.pop(&mut [0; 2 * LINE]), Ok(Some(2 * LINE)));
    assert_eq!(push(&mut producer, &[1; 2 * LINE]), Ok(true));
    assert_eq!(push(&mut producer, &[1]), Ok(false));
    paper.store_tail(0);
    assert_eq!(push(&mut producer, &[1]), Err(Corrupt), "it went back");
}

/// Whatever is in the ring, reading it ends, in frames of the allowed size or in an error.
#[test]
fn random_memory_never_panics_or_hangs() {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..5_000 {
        let (paper, _, mut consumer) = ends(8);
        for place in (0..8 * LINE).step_by(8) {
            // Mostly lengths that are nearly right: plain noise would fail at once.
            let word = if random() % 16 == 0 { random() } else { random() % 240 };
            paper.write(place, &word.to_ne_bytes());
        }
        let mut buffer = [0; 3 * LINE];
        let end = consumer.end();
        // What a writer that is gone has left is read up to there at most.
        while consumer.taken() < end {
            let before = consumer.taken();
            let Ok(Some(length)) = consumer.pop(&mut buffer) else { break };
            assert!((1..=3 * LINE).contains(&length));
            assert_eq!(consumer.taken() - before, record_bytes(length) as u64);
            if random() % 4 == 0 {
                let line = random() as usize % 8 * LINE;
                paper.store_word(line, random() % 240);
            }
        }
    }
}
