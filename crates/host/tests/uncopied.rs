//! Messages that leave with their post, and whose memory stays with the node until they are delivered (decision 31).

mod common;

use std::sync::{Arc, Mutex};

use common::{LONG, Pair, both, pattern, udp_links};
use emp_firmware::Counter;
use emp_host::{CompletionMode, Endpoint, Node, Selector, SendOptions};
use emp_link::{Capabilities, Link, TxFrame, UdpLink};
use emp_wire::{Header, Kind};

/// In one long frame, and an answer long enough for the acknowledgement to leave before it.
const UNCOPIED: usize = 40 << 10;
const ROUNDS: u64 = 60;

/// Notes the kinds of the frames that it sends, and takes every `refuses`-th call's only after it was asked again.
struct Watched {
    inner: UdpLink,
    kinds: Arc<Mutex<Vec<Kind>>>,
    refuses: u64,
    calls: u64,
}

impl Link for Watched {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.calls += 1;
        if self.calls.is_multiple_of(self.refuses) {
            return 0;
        }
        let taken = self.inner.send(batch);
        let kind = |frame: &TxFrame<'_>| {
            let head = frame.parts[0].first_chunk().expect("a frame begins with its header");
            Header::parse_head(head).expect("nodes send nothing else").kind
        };
        self.kinds.lock().unwrap().extend(batch[..taken].iter().map(kind));
        taken
    }

    common::forward_to_inner!();
}

/// Two nodes, the second on a link that is watched, and refuses.
fn nodes(refuses: u64) -> (Pair, Arc<Mutex<Vec<Kind>>>) {
    let [a, b] = udp_links(1500);
    let kinds = Arc::default();
    let b = Watched { inner: b, kinds: Arc::clone(&kinds), refuses, calls: 0 };
    let start = |link: Box<dyn Link>, name: &str| {
        Node::builder().name(name).link_with_peers(link).start().expect("the node starts")
    };
    (Pair { a: start(Box::new(a), "a"), b: start(Box::new(b), "b") }, kinds)
}

/// Sends, and waits until that is delivered: then its memory is the program's own again.
fn send(from: &Endpoint, to: &Endpoint, bits: u64) {
    let options = SendOptions::default().completion(CompletionMode::Delivered);
    let sent = from.send_with(to.address(), bits, pattern(UNCOPIED, bits), options).unwrap();
    sent.wait(LONG).unwrap().buffer.fill(0xFF);
}

fn take(at: &Endpoint, bits: u64) {
    let got = at.receive(Selector::bits(bits), vec![0; UNCOPIED]).unwrap().wait(LONG).unwrap();
    assert!(got.buffer == pattern(UNCOPIED, bits), "message {bits} differs");
}

/// Two programs take turns, each posting its receives when what it has sent is delivered.
fn take_turns(nodes: &Pair) {
    let (a, b) = nodes.endpoints();
    let question = |bits| {
        send(&a, &b, bits);
        take(&a, ROUNDS + bits);
    };
    let answer = |bits| {
        take(&b, bits);
        send(&b, &a, ROUNDS + bits);
    };
    both(nodes, || (0..ROUNDS).for_each(question), || (0..ROUNDS).for_each(answer));
}

#[test]
fn an_acknowledgement_leaves_before_the_answer() {
    let (nodes, kinds) = nodes(u64::MAX);
    take_turns(&nodes);
    let kinds = kinds.lock().unwrap();
    let answers = kinds.iter().filter(|kind| **kind == Kind::Message).count();
    let after_ack = kinds.windows(2).filter(|pair| *pair == [Kind::Ack, Kind::Message]).count();
    assert!(answers >= ROUNDS as usize, "{kinds:?}");
    // The first ones show what the program does; and a busy machine may have some sent again.
    assert!(10 * after_ack >= 8 * answers, "{after_ack} of {answers}: {kinds:?}");
}

/// Their frames wait for the link with the memory that they name, which is not given back before.
#[test]
fn those_that_a_full_link_refuses_wait_where_they_are() {
    let (nodes, _) = nodes(2);
    take_turns(&nodes);
    // Had their memory been given back too early, answers would differ, or their sums. (A frame that was sent again for want of patience
    // may have been changed under way, when the first one had arrived.)
    let [a, b] = [&nodes.a, &nodes.b].map(Node::counters);
    let (harmed, resent) = (a.get(Counter::DropChecksum), b.get(Counter::FramesResent));
    assert!(harmed <= resent, "{harmed} frames were harmed, {resent} sent again");
    assert!(b.get(Counter::FramesLong) >= ROUNDS / 2);
}
