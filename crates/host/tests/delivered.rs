//! What a success means: a blocking send's message is at the other node, and a node that closes well has lost nothing.

mod common;
#[path = "../examples/first.rs"]
mod first;

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{BOARDS, LONG, Pair, impatient, on, pattern};
use emp_host::{
    Board, CallError, CompletionMode, Node, NodeId, Selector, SendOptions, Status, WaitError,
    WaitMode,
};
use emp_link::Fabric;

/// After this a silent node is given up.
const PATIENCE: Duration = Duration::from_millis(200);

const BUFFERED: SendOptions = SendOptions {
    immediate: None,
    synchronous: false,
    completion: CompletionMode::Buffered,
    more: false,
};

fn alone(board: Board) -> (Fabric, Node) {
    let fabric = Fabric::new(2).expect("descriptors");
    let node = on(&fabric, 0, "a").board(board).profile(impatient(PATIENCE));
    let node = node.linger(Duration::from_millis(1)).start().expect("the node starts");
    (fabric, node)
}

#[test]
fn a_message_for_a_name_that_nobody_has_is_an_error() {
    for board in BOARDS {
        let (_fabric, node) = alone(board);
        let endpoint = node.endpoint(1).unwrap();
        for (timeout, least) in [(None, PATIENCE), (Some(PATIENCE * 2), PATIENCE * 2)] {
            let start = Instant::now();
            let error = endpoint.send_wait(("ghost", 1), 0, vec![1u8; 10], timeout).unwrap_err();
            assert!(start.elapsed() >= least && start.elapsed() < LONG, "{:?}", start.elapsed());
            let text = error.to_string();
            assert!(text.starts_with("send to node ghost endpoint 1: no such node"), "{text}");
            assert!(text.contains("asked everyone by sim"), "{text}");
            let CallError::Wait(WaitError::Failed(failed)) = error else { panic!("{text}") };
            assert_eq!(failed.error.status(), Status::NotFound);
            assert_eq!(failed.buffer, vec![1u8; 10], "it comes back");
        }
        assert_eq!(node.host_counters().sends, 0, "nothing goes on");
        assert_eq!(node.close(LONG), Ok(()), "whoever sent it was told");
    }
}

#[test]
fn who_starts_later_is_waited_for() {
    for board in BOARDS {
        let (fabric, a) = alone(board);
        let from = a.endpoint(1).unwrap();
        let sent = std::thread::spawn(move || {
            from.send_wait(("b", 1), 7, "hello", LONG).expect("it is delivered");
        });
        // Longer than a silent node is waited for.
        std::thread::sleep(PATIENCE * 3);
        assert!(!sent.is_finished());
        let b = on(&fabric, 1, "b").start().expect("the node starts");
        let got = b.endpoint(1).unwrap().receive_wait(Selector::bits(7), vec![0; 5], LONG);
        assert_eq!(got.unwrap().buffer, b"hello");
        sent.join().unwrap();
    }
}

/// A node that does not run: nobody makes progress for it.
fn stopped(fabric: &Fabric) -> Node {
    let board = Board::Inline { guardian: false };
    on(fabric, 1, "b").board(board).start().expect("the node starts")
}

#[test]
fn a_blocking_send_to_a_stopped_node_is_an_error() {
    let (fabric, a) = alone(Board::default());
    let b = stopped(&fabric);
    let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    let receive = to.receive(Selector::ANY, vec![0; 10]).unwrap();
    let first = from.send(to.address(), 0, vec![1u8; 10]).unwrap();
    receive.wait(LONG).unwrap();
    b.progress();
    first.wait(LONG).unwrap();
    let error = from.send_wait(to.address(), 0, vec![2u8; 10], LONG).unwrap_err();
    let CallError::Wait(WaitError::Failed(failed)) = error else { panic!("{error}") };
    assert_eq!(failed.error.status(), Status::Unreachable);
    assert!(failed.error.to_string().contains("node b "), "{}", failed.error);
}

#[test]
fn closing_tells_of_buffered_messages_that_never_arrived() {
    for board in BOARDS {
        let (fabric, a) = alone(board);
        let b = stopped(&fabric);
        let from = a.endpoint(1).unwrap();
        for bits in 0..100 {
            from.send_wait_with(("b", 1), bits, vec![3u8; 10], BUFFERED, LONG).unwrap();
        }
        // Before it is given up, and after.
        let wait = [Duration::ZERO, PATIENCE * 4][usize::from(board == Board::Thread)];
        let cut = a.close(wait).expect_err("nobody has taken them");
        assert_eq!((cut.sends, cut.undelivered), (0, 100), "{cut}");
        let text = cut.to_string();
        assert!(
            text.contains("100 messages that are not known") && text.contains("100 to node b"),
            "{text}"
        );
        assert_eq!(a.close(LONG), Ok(()), "it was told");
        drop(b);
    }
}

#[test]
fn closing_tells_of_messages_whose_peer_was_lost_long_before() {
    let (_fabric, a) = alone(Board::Thread);
    let from = a.endpoint(1).unwrap();
    for bits in 0..10 {
        from.send_wait_with(("ghost", 1), bits, vec![3u8; 10], BUFFERED, LONG).unwrap();
    }
    // Its request is dropped: nobody hears of its end either.
    drop(from.send(("ghost", 1), 11, pattern(100_000, 1)).unwrap());
    let lost = std::iter::from_fn(|| a.wait_event(LONG)).next();
    assert_eq!(lost, Some(emp_host::NodeEvent::Unreachable(NodeId::from_name("ghost"))));
    let cut = a.close(LONG).expect_err("they were lost");
    assert_eq!((cut.sends, cut.undelivered), (0, 11), "{cut}");
    assert_eq!(cut.details, ["11 to node ghost: no such node was found"]);
}

#[test]
fn closing_does_not_pass_over_what_waits_for_a_receive() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    let mut send = a.send(b.address(), 1, pattern(1 << 20, 1)).unwrap();
    let start = Instant::now();
    while pair.b.endpoint(2).is_err() && start.elapsed() < LONG {}
    std::thread::sleep(Duration::from_millis(50));
    assert!(!send.test(), "nobody receives it");
    let cut = pair.a.close(Duration::from_millis(20)).expect_err("it is not delivered");
    assert_eq!((cut.sends, cut.undelivered), (1, 0), "{cut}");
}

#[test]
fn closing_well_means_that_all_is_there() {
    for board in BOARDS {
        let fabric = Fabric::new(2).expect("descriptors");
        let a = on(&fabric, 0, "a").board(board).start().expect("the node starts");
        let b = on(&fabric, 1, "b").board(Board::Thread).start().expect("the node starts");
        let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
        for bits in 0..300 {
            drop(from.send(to.address(), bits, pattern(500, bits)).unwrap());
        }
        a.close(LONG).expect("b takes them");
        for bits in 0..300 {
            let got = to.receive_wait(Selector::bits(bits), vec![0; 500], Duration::ZERO).unwrap();
            assert!(got.buffer == pattern(500, bits));
        }
    }
}

#[test]
fn a_buffered_send_does_not_wait() {
    let (_fabric, a) = alone(Board::Inline { guardian: false });
    let from = a.endpoint(1).unwrap();
    let start = Instant::now();
    from.send_wait_with(("ghost", 1), 0, vec![0u8; 10], BUFFERED, None).unwrap();
    assert!(start.elapsed() < PATIENCE);
    let refused = from.send_wait_with(("ghost", 1), 0, vec![0u8; 100_000], BUFFERED, None);
    assert!(refused.unwrap_err().to_string().contains("too long"));
}

/// Set in processes that are the first program: its arguments.
const ROLE: &str = "EMP_TEST_FIRST";

/// Not a test of its own: the first program, in a process of the next test.
#[test]
fn first_program() {
    let Ok(arguments) = std::env::var(ROLE) else { return };
    let arguments: Vec<_> = arguments.split(' ').map(str::to_owned).collect();
    if let Err(error) = first::run(&arguments) {
        eprintln!("{}: {error}", arguments[0]);
        std::process::exit(1);
    }
}

struct Program(Child);

impl Program {
    fn start(name: &str, [own, peer]: [u16; 2]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.args(["first_program", "--exact", "--nocapture"]).stdout(Stdio::null());
        Self(command.env(ROLE, format!("{name} udp {own} {peer}")).spawn().expect("it starts"))
    }

    fn ends_well(&mut self) -> bool {
        self.0.wait().expect("it is ours").success()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Two ports that are free now.
fn ports() -> [u16; 2] {
    let sockets = [(), ()].map(|()| UdpSocket::bind("127.0.0.1:0").expect("anyone may"));
    sockets.map(|socket| socket.local_addr().expect("bound").port())
}

#[test]
fn the_first_program_works_whoever_starts_first() {
    // The last is longer than a silent node is waited for.
    for (first, second, after) in [("a", "b", 500), ("b", "a", 500), ("a", "b", 6_000)] {
        let [one, other] = ports();
        let mut first_one = Program::start(first, [one, other]);
        std::thread::sleep(Duration::from_millis(after));
        let mut second_one = Program::start(second, [other, one]);
        assert!(second_one.ends_well(), "{second}, started after {first}");
        assert!(first_one.ends_well(), "{first}, started before {second}");
    }
}

#[test]
fn pairs_still_close_at_once() {
    let pair = Pair::with(Board::default(), WaitMode::default(), impatient(PATIENCE));
    let (a, b) = pair.endpoints();
    let receive = b.receive(Selector::ANY, vec![0; 10]).unwrap();
    a.send_wait(b.address(), 0, vec![1u8; 10], LONG).unwrap();
    receive.wait(LONG).unwrap();
    let start = Instant::now();
    assert_eq!(pair.a.close(LONG), Ok(()));
    assert_eq!(pair.b.close(LONG), Ok(()));
    assert!(start.elapsed() < LONG / 4, "{:?}", start.elapsed());
}

/// Whoever ends waits for a receiver that is slow, however long it takes for all, but not for one that takes nothing.
#[test]
fn who_drains_waits_for_as_long_as_something_is_taken() {
    const MESSAGES: usize = 12;
    const STALLED: Duration = Duration::from_secs(5);
    let fabric = Fabric::new(2).expect("descriptors");
    let start = |at, name| on(&fabric, at, name).start().expect("the node starts");
    let (a, b) = (start(0, "a"), start(1, "b"));
    let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    let send = |_| from.send(to.address(), 7, vec![5; 100_000]).expect("it is posted");
    let mut sent: Vec<_> = (0..MESSAGES).map(send).collect();
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..MESSAGES {
                std::thread::sleep(STALLED / MESSAGES as u32 + Duration::from_millis(20));
                to.receive_wait(Selector::bits(7), vec![0; 100_000], LONG).expect("it was sent");
            }
        });
        assert!(a.drain(STALLED), "{:?}", start.elapsed());
        assert!(start.elapsed() > STALLED, "{:?}", start.elapsed());
    });
    sent.push(send(0));
    assert!(!a.drain(Duration::from_millis(100)), "nobody takes it");
    let cut = a.close(Duration::ZERO).expect_err("one is left");
    assert_eq!(cut.sends, 1, "{cut}");
}
