//! Acknowledgements that leave before a long answer (`ACK-6`), where this node's own program sends before it posts its receives.

use crate::common::{Pair, frames_of, give};
use emp_firmware::{
    CompletionMode, Counter, OpKind, Profile, Segment, SegmentList, Selector, SendDescriptor, Span,
    Status,
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
fn an_acknowledgement_leaves_before_a_long_answer_if_receives_come_after_sends() {
    let mut turns = Turns::new(LONG, Posts::AfterSend);
    let kinds = turns.answers(20);
    // Each of the two has to see it twice of itself.
    assert!(kinds[..4].iter().all(|kind| *kind == Kind::Message), "{kinds:?}");
    assert!(kinds[4..].iter().all(|kind| *kind == Kind::Ack), "{kinds:?}");
}

#[test]
fn it_rides_on_the_answer_if_a_receive_is_posted_before() {
    let mut turns = Turns::new(LONG, Posts::WithSend);
    let kinds = turns.answers(20);
    assert!(kinds.iter().all(|kind| *kind == Kind::Message), "{kinds:?}");
    // A program that changes its habit is believed.
    turns.posts = Posts::AfterSend;
    let changed = turns.answers(20);
    assert_eq!(changed.last(), Some(&Kind::Ack), "{changed:?}");
    turns.posts = Posts::WithSend;
    let again = turns.answers(20);
    assert_eq!(again.last(), Some(&Kind::Message), "{again:?}");
}

#[test]
fn it_rides_on_what_is_shorter() {
    let mut turns = Turns::new(LONG - 1, Posts::AfterSend);
    let kinds = turns.answers(20);
    assert!(kinds.iter().all(|kind| *kind == Kind::Message), "{kinds:?}");
}

/// That it was not waited for without need is as well known as if it had ridden: it goes on being put off.
#[test]
fn one_that_leaves_before_an_answer_is_no_miss() {
    let mut turns = Turns::new(LONG, Posts::AfterSend);
    turns.answers(20);
    let acks =
        |turns: &Turns, at: usize| turns.pair.nodes[at].firmware.counters().get(Counter::AcksSent);
    let before = [acks(&turns, 0), acks(&turns, 1)];
    for round in 0..20 {
        assert_eq!(turns.turn(round % 2), Kind::Ack);
    }
    let window = acks(&turns, 0) - before[0];
    assert_eq!(acks(&turns, 1) - before[1], window);
    turns.bytes = 64;
    let before = [acks(&turns, 0), acks(&turns, 1)];
    turns.answers(20);
    assert_eq!([acks(&turns, 0), acks(&turns, 1)], before, "they ride again");
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

/// Both post a receive, send, and wait for both, at the same time: at its end neither has a receive posted any more, but had.
#[test]
fn who_receives_before_the_send_has_ended_has_posted_before() {
    let mut turns = Turns::new(LONG, Posts::WithSend);
    for _ in 0..10 {
        for at in 0..2 {
            turns.receive(at);
            turns.post(at);
        }
        for _ in 0..20 {
            for at in 0..2 {
                for frame in frames_of(&mut turns.pair, at) {
                    give(&mut turns.pair, 1 - at, &frame);
                }
                turns.pair.nodes[at].firmware.idle(turns.pair.now);
            }
            turns.pair.now = turns.pair.now + Span::us(3);
        }
        for at in 0..2 {
            let firmware = &mut turns.pair.nodes[at].firmware;
            let ends = std::iter::from_fn(|| firmware.poll_completion()).map(|end| end.op.kind());
            assert_eq!(ends.collect::<Vec<_>>(), [OpKind::Receive, OpKind::Send]);
            turns.posted[at] = false;
        }
    }
    turns.receive(1);
    let kinds = turns.answers(8);
    assert!(kinds[1..].iter().all(|kind| *kind == Kind::Message), "{kinds:?}");
}
