//! Messages that leave with their post, and whose memory stays with the node until they are delivered (decision 31).

mod common;

use common::{LONG, Pair, both, pattern, udp_links};
use emp_firmware::Counter;
use emp_host::{CompletionMode, Endpoint, Node, Selector, SendOptions};
use emp_link::{Capabilities, Link, TxFrame, UdpLink};

/// In one long frame.
const UNCOPIED: usize = 40 << 10;
const ROUNDS: u64 = 60;

/// Takes every `refuses`-th call's frames only after it was asked again.
struct Refusing {
    inner: UdpLink,
    refuses: u64,
    calls: u64,
}

impl Link for Refusing {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.calls += 1;
        if self.calls.is_multiple_of(self.refuses) { 0 } else { self.inner.send(batch) }
    }

    common::forward_to_inner!();
}

/// Two nodes, the second on a link that refuses.
fn nodes(refuses: u64) -> Pair {
    let [a, b] = udp_links(1500);
    let b = Refusing { inner: b, refuses, calls: 0 };
    let start = |link: Box<dyn Link>, name: &str| {
        Node::builder().name(name).link_with_peers(link).start().expect("the node starts")
    };
    Pair { a: start(Box::new(a), "a"), b: start(Box::new(b), "b") }
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

/// Their frames wait for the link with the memory that they name, which is not given back before.
#[test]
fn those_that_a_full_link_refuses_wait_where_they_are() {
    let nodes = nodes(2);
    take_turns(&nodes);
    // Had their memory been given back too early, answers would differ, or their sums. (A frame that was sent again for want of patience
    // may have been changed under way, when the first one had arrived.)
    let [a, b] = [&nodes.a, &nodes.b].map(Node::counters);
    let (harmed, resent) = (a.get(Counter::DropChecksum), b.get(Counter::FramesResent));
    assert!(harmed <= resent, "{harmed} frames were harmed, {resent} sent again");
    assert!(b.get(Counter::FramesLong) >= ROUNDS / 2);
}
