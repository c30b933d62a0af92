//! Acknowledgements that wait for a program's answer and ride on it (`ACK-6`), however long it is.

use crate::common::{Pair, frames_of, give};
use emp_firmware::{
    CompletionMode, OpKind, Profile, Segment, SegmentList, Selector, SendDescriptor, Span, Status,
};
use emp_wire::{Header, Kind, NodeId};

const LONG: u64 = 32 << 10;

/// When a program posts the receive for the answer to what it sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Posts {
    /// At once.
    WithSend,
    /// When its send is delivered.
    AfterSend,
}

/// Two programs that answer each other by messages of so many bytes.
struct Turns {
    pair: Pair,
    bytes: u64,
    posts: Posts,
    /// Whose receive is posted.
    posted: [bool; 2],
}

impl Turns {
    fn new(bytes: u64, posts: Posts) -> Self {
        let mut pair = Pair::new(&Profile::DEFAULT);
        pair.receive(1, Selector::ANY, 8);
        pair.send(0, 2, 1, 8);
        pair.run(Span::ms(50));
        pair.nodes.iter_mut().for_each(|node| node.done.clear());
        let mut turns = Self { pair, bytes, posts, posted: [false; 2] };
        turns.receive(1);
        turns
    }

    fn receive(&mut self, at: usize) {
        if !std::mem::replace(&mut self.posted[at], true) {
            self.pair.receive(at, Selector::ANY, self.bytes);
        }
    }

    fn post(&mut self, from: usize) {
        let node = &mut self.pair.nodes[from];
        let send = SendDescriptor {
            to: NodeId(2 - from as u64),
            endpoint: 0,
            to_endpoint: 0,
            match_bits: 5,
            segments: SegmentList::one(Segment { address: 0, bytes: self.bytes }),
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Delivered,
            context: 7,
        };
        node.firmware.post_send(self.pair.now, send, &mut node.memory).unwrap();
    }

    /// `from` sends, and everything happens until the other has that. Returns the kind of the frame that left first.
    fn turn(&mut self, from: usize) -> Kind {
        self.post(from);
        if self.posts == Posts::WithSend {
            self.receive(from);
        }
        let mut first = None;
        for _ in 0..100 {
            for frame in frames_of(&mut self.pair, from) {
                first.get_or_insert(Header::parse(&frame).unwrap().0.kind);
                give(&mut self.pair, 1 - from, &frame);
                if self.program(1 - from) {
                    return first.expect("something left");
                }
                for answer in frames_of(&mut self.pair, 1 - from) {
                    give(&mut self.pair, from, &answer);
                }
            }
            self.pair.now = self.pair.now + Span::us(1);
        }
        panic!("the message did not arrive");
    }

    /// What a program does when it looks. True: it has a message.
    fn program(&mut self, at: usize) -> bool {
        let mut has = false;
        while let Some(end) = self.pair.nodes[at].firmware.poll_completion() {
            assert_eq!(end.status, Status::Ok);
            if end.op.kind() == OpKind::Receive {
                (has, self.posted[at]) = (true, false);
            }
            if end.op.kind() == OpKind::Send {
                self.receive(at);
            }
        }
        has
    }

    /// Kinds of the frames with which so many answers began.
    fn answers(&mut self, count: usize) -> Vec<Kind> {
        (0..count).map(|round| self.turn(round % 2)).collect()
    }
}

#[test]
fn it_rides_on_an_answer_of_any_length_whenever_receives_are_posted() {
    for posts in [Posts::WithSend, Posts::AfterSend] {
        for bytes in [64, LONG - 1, LONG] {
            let mut turns = Turns::new(bytes, posts);
            let kinds = turns.answers(20);
            assert!(
                kinds.iter().all(|kind| *kind == Kind::Message),
                "{posts:?} {bytes}: {kinds:?}"
            );
        }
    }
}

/// A program that computes before it answers keeps its peer waiting no more than a few times, whatever the answer's length.
#[test]
fn late_answers_are_misses_whether_long_or_not() {
    for bytes in [LONG - 1, LONG] {
        let mut turns = Turns::new(bytes, Posts::AfterSend);
        let mut put_off = 0;
        for round in 0..60 {
            let (from, to) = (round % 2, 1 - round % 2);
            turns.turn(from);
            let leaves = frames_of(&mut turns.pair, to);
            put_off += u32::from(leaves.is_empty());
            for frame in leaves {
                give(&mut turns.pair, from, &frame);
            }
            turns.program(from);
            turns.pair.now = turns.pair.now + Span::ms(1);
        }
        // Of each of the two the 1st, 3rd, 7th, and so on: fewer each time.
        assert!((2..=10).contains(&put_off), "{bytes}: {put_off} of 60");
    }
}
