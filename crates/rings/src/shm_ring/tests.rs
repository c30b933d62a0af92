use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;

/// A ring that one thread can corrupt as it likes.
#[derive(Clone)]
struct Paper(Rc<Shared>);

struct Shared {
    head: Cell<u64>,
    tail: Cell<u64>,
    asleep: Cell<bool>,
    lost: Cell<u64>,
    data: RefCell<Vec<u8>>,
}

impl Paper {
    fn new(capacity: usize) -> Self {
        Self(Rc::new(Shared {
            head: Cell::new(0),
            tail: Cell::new(0),
            asleep: Cell::new(false),
            lost: Cell::new(0),
            data: RefCell::new(vec![0xEE; capacity]),
        }))
    }
}

impl RingMemory for Paper {
    fn capacity(&self) -> usize {
        self.0.data.borrow().len()
    }
    fn load_head(&self) -> u64 {
        self.0.head.get()
    }
    fn store_head(&self, head: u64) {
        self.0.head.set(head);
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
}

fn ends(capacity: usize) -> (Paper, Producer<Paper>, Consumer<Paper>) {
    let paper = Paper::new(capacity);
    (paper.clone(), Producer::new(paper.clone()), Consumer::new(paper))
}

fn push(producer: &mut Producer<Paper>, frame: &[u8]) -> Result<bool, Corrupt> {
    let (head, tail) = frame.split_at(frame.len() / 3);
    producer.push(frame.len(), [head, tail].into_iter())
}

#[test]
fn frames_of_every_length_pass_across_the_end() {
    let (_, mut producer, mut consumer) = ends(128);
    let mut buffer = [0; 120];
    for length in (1..=120).chain((1..=120).rev()) {
        let frame: Vec<u8> = (0..length).map(|place| (place * 7 + length) as u8).collect();
        assert_eq!(push(&mut producer, &frame), Ok(true));
        assert!(consumer.ready());
        assert_eq!(consumer.pop(&mut buffer), Ok(Some(length)));
        assert_eq!(buffer[..length], frame);
        assert_eq!(consumer.pop(&mut buffer), Ok(None));
    }
}

#[test]
fn a_full_ring_takes_nothing_until_there_is_room() {
    let (_, mut producer, mut consumer) = ends(64);
    for number in 0..4 {
        assert_eq!(push(&mut producer, &[number; 8]), Ok(true));
    }
    assert_eq!(push(&mut producer, &[9]), Ok(false));
    producer.count_lost();
    assert_eq!(consumer.lost(), 1);
    assert_eq!((consumer.taken(), consumer.end()), (0, 64));
    let mut buffer = [0; 64];
    assert_eq!(consumer.pop(&mut buffer), Ok(Some(8)));
    assert_eq!(push(&mut producer, &[4; 8]), Ok(true));
    for number in 1..=4 {
        assert_eq!(consumer.pop(&mut buffer), Ok(Some(8)));
        assert_eq!(buffer[..8], [number; 8]);
    }
    assert_eq!((consumer.taken(), consumer.end()), (80, 80));
}

#[test]
fn a_sleeper_is_woken_once() {
    let (_, mut producer, mut consumer) = ends(64);
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
fn a_head_that_cannot_be_is_corrupt() {
    for head in [1, 7, 72, 65, u64::MAX, u64::MAX - 7, 1 << 63] {
        let (paper, _, mut consumer) = ends(64);
        paper.store_head(head);
        assert_eq!(consumer.pop(&mut [0; 64]), Err(Corrupt), "{head}");
        assert!(consumer.end() <= 64);
    }
    // Nor may it go back.
    let (paper, mut producer, mut consumer) = ends(64);
    assert_eq!(push(&mut producer, &[1; 16]), Ok(true));
    assert_eq!(consumer.pop(&mut [0; 64]), Ok(Some(16)));
    paper.store_head(8);
    assert_eq!(consumer.pop(&mut [0; 64]), Err(Corrupt));
}

#[test]
fn a_length_that_cannot_be_is_corrupt() {
    for length in [0u64, 9, 17, 64, 65, 1 << 32, u64::MAX, u64::MAX - 7] {
        let (paper, _, mut consumer) = ends(64);
        paper.write(0, &length.to_ne_bytes());
        paper.store_head(16);
        assert_eq!(consumer.pop(&mut [0; 64]), Err(Corrupt), "{length}");
    }
}

#[test]
fn a_tail_that_cannot_be_is_corrupt() {
    for tail in [65, u64::MAX, 1 << 40] {
        let (paper, mut producer, _) = ends(64);
        assert_eq!(push(&mut producer, &[1; 56]), Ok(true));
        paper.store_tail(tail);
        assert_eq!(push(&mut producer, &[1; 56]), Err(Corrupt), "{tail}");
    }
    let (paper, mut producer, mut consumer) = ends(64);
    assert_eq!(push(&mut producer, &[1; 56]), Ok(true));
    assert_eq!(consumer.pop(&mut [0; 64]), Ok(Some(56)));
    assert_eq!(push(&mut producer, &[1; 56]), Ok(true));
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
    for _ in 0..20_000 {
        let (paper, _, mut consumer) = ends(64);
        for place in (0..64).step_by(8) {
            // Mostly lengths that are nearly right: plain noise would fail at once.
            let word = if random() % 4 == 0 { random() } else { random() % 40 };
            paper.write(place, &word.to_ne_bytes());
        }
        let head = random() % 10 * 8;
        paper.store_head(head);
        let mut buffer = [0; 24];
        let mut popped = 0;
        while let Ok(Some(length)) = consumer.pop(&mut buffer) {
            assert!((1..=24).contains(&length));
            popped += 1;
            assert!(popped <= 8, "more frames than were ever said to be there");
            if random() % 4 == 0 {
                paper.store_head(random() % 16 * 8);
            }
        }
    }
}
