//! Every order of memory accesses that the ring between processes allows, by loom. Built only with `--cfg loom`:
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p emp-rings --test shm_loom` (`make loom`).
//!
//! The frames' bytes are cells that loom guards: reading one while the other end writes it, or before the write is visible,
//! fails the test. The records' words lie apart from them here, because loom knows no memory of two kinds; that old bytes
//! are never taken for a word is what the tests beside the ring show.
#![cfg(loom)]

use emp_rings::{Consumer, LINE_BYTES, Producer, RingMemory};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Notify};
use loom::thread;

/// Two records of one line and the word behind them fit; the third waits for room and begins the ring anew.
const CAPACITY: usize = 4 * LINE_BYTES;

/// Bytes of the longest frame here: with it a record takes two lines.
const FRAME_BYTES_MAX: usize = LINE_BYTES;

struct Memory {
    words: Vec<AtomicU64>,
    tail: AtomicU64,
    asleep: AtomicU32,
    lost: AtomicU64,
    records: Vec<UnsafeCell<u8>>,
}

// SAFETY: the cells are what is tested: loom checks that they are never accessed from two threads at once.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

#[derive(Clone)]
struct Model(Arc<Memory>);

impl Model {
    fn new() -> Self {
        Self(Arc::new(Memory {
            words: (0..CAPACITY / LINE_BYTES).map(|_| AtomicU64::new(0)).collect(),
            tail: AtomicU64::new(0),
            asleep: AtomicU32::new(0),
            lost: AtomicU64::new(0),
            records: (0..CAPACITY).map(|_| UnsafeCell::new(0)).collect(),
        }))
    }
}

/// The same orderings as in `ShmHalf`.
impl RingMemory for Model {
    fn capacity(&self) -> usize {
        CAPACITY
    }
    fn load_word(&self, at: usize) -> u64 {
        self.0.words[at / LINE_BYTES].load(Ordering::Acquire)
    }
    fn store_word(&self, at: usize, word: u64) {
        self.0.words[at / LINE_BYTES].store(word, Ordering::Release);
    }
    fn load_tail(&self) -> u64 {
        self.0.tail.load(Ordering::Acquire)
    }
    fn store_tail(&self, tail: u64) {
        self.0.tail.store(tail, Ordering::Release);
    }
    fn asleep(&self) -> bool {
        self.0.asleep.load(Ordering::Relaxed) != 0
    }
    fn set_asleep(&self, asleep: bool) -> bool {
        self.0.asleep.swap(u32::from(asleep), Ordering::AcqRel) != 0
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
    fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }
    fn store_lost(&self, lost: u64) {
        self.0.lost.store(lost, Ordering::Relaxed);
    }
    fn write(&self, at: usize, bytes: &[u8]) {
        for (cell, byte) in self.0.records[at..at + bytes.len()].iter().zip(bytes) {
            // SAFETY: loom fails the test if anybody else accesses the cell meanwhile.
            cell.with_mut(|cell| unsafe { *cell = *byte });
        }
    }
    fn read(&self, at: usize, bytes: &mut [u8]) {
        for (cell, byte) in self.0.records[at..at + bytes.len()].iter().zip(bytes) {
            // SAFETY: as in `write`.
            *byte = cell.with(|cell| unsafe { *cell });
        }
    }
    fn expect(&self, at: usize) {
        assert!(at < CAPACITY);
    }
}

/// A few bytes; the second is of two lines, of which the last bytes are looked at.
fn frame(number: u8) -> Vec<u8> {
    let length = if number == 2 { FRAME_BYTES_MAX } else { 3 };
    vec![number; length]
}

/// Frames come whole and in order, across the ring's end and a full ring.
#[test]
fn frames_come_whole_and_in_order() {
    loom::model(|| {
        let model = Model::new();
        let mut producer = Producer::new(model.clone());
        let writer = thread::spawn(move || {
            for number in 1..=3 {
                let frame = frame(number);
                while !producer.push(frame.len(), [&frame[..]].into_iter()).expect("sound") {
                    thread::yield_now();
                }
            }
        });
        let mut consumer = Consumer::new(model);
        let mut buffer = [0; FRAME_BYTES_MAX];
        for number in 1..=3 {
            let length = loop {
                match consumer.pop(&mut buffer).expect("sound") {
                    Some(length) => break length,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(buffer[..length], frame(number));
        }
        assert_eq!(consumer.pop(&mut buffer), Ok(None));
        writer.join().expect("it ends");
    });
}

/// A reader that goes to sleep is woken for every frame that it did not see before; if it were not, loom would report
/// that nobody can go on.
#[test]
fn no_wakeup_is_lost() {
    loom::model(|| {
        let model = Model::new();
        let bell = Arc::new(Notify::new());
        let mut producer = Producer::new(model.clone());
        let rings = Arc::clone(&bell);
        let writer = thread::spawn(move || {
            for number in 1..=2 {
                let frame = frame(number);
                assert_eq!(producer.push(frame.len(), [&frame[..]].into_iter()), Ok(true));
                if producer.must_wake() {
                    rings.notify();
                }
            }
        });
        let mut consumer = Consumer::new(model);
        let mut buffer = [0; FRAME_BYTES_MAX];
        let mut number = 1;
        while number <= 2 {
            if let Some(length) = consumer.pop(&mut buffer).expect("sound") {
                assert_eq!(buffer[..length], frame(number));
                number += 1;
            } else if !consumer.arm() {
                bell.wait();
                consumer.disarm();
            } else {
                consumer.disarm();
            }
        }
        writer.join().expect("it ends");
    });
}

/// A full ring is never overwritten: what does not fit is dropped and counted, and the rest arrives.
#[test]
fn a_full_ring_keeps_what_it_has() {
    loom::model(|| {
        let model = Model::new();
        let mut producer = Producer::new(model.clone());
        let writer = thread::spawn(move || {
            let mut sent = Vec::new();
            for number in 1..=3 {
                let frame = frame(number);
                if producer.push(frame.len(), [&frame[..]].into_iter()).expect("sound") {
                    sent.push(number);
                } else {
                    producer.count_lost();
                }
            }
            sent
        });
        let mut consumer = Consumer::new(model);
        let mut buffer = [0; FRAME_BYTES_MAX];
        let mut got = Vec::new();
        if let Some(length) = consumer.pop(&mut buffer).expect("sound") {
            got.push(buffer[..length].to_vec());
        }
        let sent = writer.join().expect("it ends");
        while let Some(length) = consumer.pop(&mut buffer).expect("sound") {
            got.push(buffer[..length].to_vec());
        }
        assert_eq!(got, sent.iter().map(|number| frame(*number)).collect::<Vec<_>>());
        assert_eq!(consumer.lost(), 3 - sent.len() as u64);
    });
}
