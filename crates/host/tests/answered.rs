//! Messages that are not copied, as an answer is counted on to acknowledge them (decision 32), when none comes.

mod common;

use common::{LONG, Pair, pattern, udp_links};
use emp_firmware::Counter;
use emp_host::{Board, Endpoint, Node, ReceiveRequest, Selector, SendRequest};

/// In one long frame, and of those that are copied unless they are answered.
const BYTES: usize = 24 << 10;

/// Exchanges after which one message at least was not copied: three, if nothing stops this process for long.
const EXCHANGES_MAX: u64 = 1_000;

/// Two nodes that nobody looks after but this thread.
fn nodes() -> Pair {
    let [a, b] = udp_links(1500);
    let start = |link, name: &str| {
        let builder = Node::builder().name(name).link_with_peers(link);
        builder.board(Board::Inline { guardian: false }).start().expect("the node starts")
    };
    Pair { a: start(a, "a"), b: start(b, "b") }
}

/// Lets both nodes do what they have to until a request has ended.
fn run(nodes: &Pair, mut has_ended: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !has_ended() {
        nodes.a.progress();
        nodes.b.progress();
        assert!(start.elapsed() < LONG, "it does not end");
    }
}

fn receive(at: &Endpoint, bits: u64) -> ReceiveRequest<Vec<u8>> {
    at.receive(Selector::bits(bits), vec![0; BYTES]).expect("there is room")
}

fn send(from: &Endpoint, to: &Endpoint, bits: u64) -> SendRequest<Vec<u8>> {
    from.send(to.address(), bits, pattern(BYTES, bits)).expect("there is room")
}

/// The other program does not even look. The message is over all the same, and what its memory is used for then is not what arrives.
#[test]
fn a_message_that_is_not_answered_is_over_before_anybody_has_looked_for_it() {
    let nodes = nodes();
    let (a, b) = nodes.endpoints();
    let copied = || nodes.a.counters().get(Counter::BytesCopied);
    let mut answer = receive(&a, 0);
    let mut question = receive(&b, 0);
    let mut leaves_at_once = false;
    for round in 0..EXCHANGES_MAX {
        let before = copied();
        let sent = send(&a, &b, round);
        // At first the nodes have to find each other, and that such frames get through: that takes another way.
        leaves_at_once |= copied() > before;
        if leaves_at_once && copied() == before {
            // The answer is waited for, and there is none.
            sent.wait(LONG).expect("it is over").buffer.fill(0xFF);
            assert_eq!(copied(), before + BYTES as u64, "it was copied after all");
            run(&nodes, || question.test());
            assert!(question.wait(LONG).unwrap().buffer == pattern(BYTES, round));
            return;
        }
        run(&nodes, || question.test());
        assert!(question.wait(LONG).unwrap().buffer == pattern(BYTES, round));
        question = receive(&b, round + 1);
        let answered = send(&b, &a, round);
        run(&nodes, || answer.test());
        assert!(answer.wait(LONG).unwrap().buffer == pattern(BYTES, round));
        answer = receive(&a, round + 1);
        [sent, answered].into_iter().for_each(|mut sent| run(&nodes, || sent.test()));
    }
    panic!("all messages were copied");
}
