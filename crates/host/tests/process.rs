//! What a node means to its process: signals, forks, other nodes of the same name.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::{BOARDS, LONG, Pair, SPLIT, in_child, on};
use emp_host::{Board, Node, NodeEvent, Selector};
use emp_link::{Fabric, ShmLink, ShmOptions};

/// Signals that the threads of this process with such a name have blocked, a bit each.
fn blocked(thread: &str) -> Vec<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = tasks.filter(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread)
    });
    let mask = |task: std::path::PathBuf| {
        let status = std::fs::read_to_string(task.join("status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?.trim().to_owned();
        u64::from_str_radix(&mask, 16).ok()
    };
    named.filter_map(mask).collect()
}

#[test]
fn threads_of_a_node_leave_signals_to_the_application() {
    let own = blocked("threads_of_a_no");
    for (board, thread) in
        [(Board::default(), "emp-guardian"), (Board::Thread, "emp-board"), (SPLIT, "emp-links")]
    {
        let _pair = Pair::new(board);
        let start = Instant::now();
        while blocked(thread).is_empty() && start.elapsed() < LONG {}
        let masks = blocked(thread);
        assert!(!masks.is_empty(), "there is a thread {thread}");
        for mask in masks {
            let others = [libc::SIGALRM, libc::SIGUSR1, libc::SIGTERM, libc::SIGINT, libc::SIGCHLD];
            for signal in others.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
                assert_ne!(mask & 1 << (signal - 1), 0, "{thread} takes signal {signal}");
            }
            let faults = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1);
            assert_eq!(mask & faults, 0, "handlers of faults are still asked");
        }
    }
    assert_eq!(blocked("threads_of_a_no"), own, "the caller's are as they were");
}

fn say(from: &Node, to: &Node, bits: u64) {
    let (from, to) = (from.endpoint(bits as u16).unwrap(), to.endpoint(bits as u16).unwrap());
    let receive = to.receive(Selector::bits(bits), vec![0; 5]).unwrap();
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            from.send_wait(to.address(), bits, "hello", LONG).unwrap();
        });
        assert_eq!(receive.wait(LONG).unwrap().buffer, b"hello");
        // Where nobody else does, this thread has the acknowledgement leave.
        while !sent.is_finished() {
            to.node().progress();
        }
        sent.join().unwrap();
    });
}

#[test]
fn a_child_that_drops_handles_does_no_harm() {
    for board in BOARDS {
        let directory = tempfile::tempdir().unwrap();
        let start = |name: &str| {
            let tag = emp_host::NodeId::from_name(name).destination_tag();
            let options = ShmOptions {
                directory: Some(directory.path().join("emp")),
                broadcast: true,
                same_network: false,
                number: Some(emp_host::NodeId::from_name(name).0),
                ..ShmOptions::new(tag)
            };
            let link = ShmLink::open(&options).expect("a place in memory");
            Node::builder().name(name).link_with_peers(link).board(board).start().unwrap()
        };
        let (a, b) = (start("a"), start("b"));
        say(&a, &b, 1);
        let names = || std::fs::read_dir(directory.path().join("emp")).unwrap().count();
        let before = names();
        let endpoint = a.endpoint(9).unwrap();
        let request = endpoint.receive(Selector::ANY, vec![0u8; 10]).unwrap();
        let region = a.export(vec![0u8; 100]).unwrap();
        let mut handles = Some((a, b, endpoint, request, region));
        in_child(|| drop(handles.take()));
        let (a, b, endpoint, request, region) = handles.take().expect("they are the parent's");
        assert_eq!(names(), before, "their names are there");
        say(&a, &b, 2);
        // A node that is new finds them by these names.
        let c = start("c");
        say(&c, &a, 3);
        drop((endpoint, request, region));
    }
}

#[test]
fn nodes_without_names_are_different_ones() {
    let unnamed = |board: Board| {
        let options = emp_link::UdpOptions {
            bind: Some([127, 0, 0, 1].into()),
            port: 0,
            ..emp_link::UdpOptions::new(1)
        };
        let link = emp_link::UdpLink::open(&options).expect("anyone may");
        Node::builder().link(link).board(board).start().expect("the node starts")
    };
    let (a, b) = (unnamed(Board::default()), unnamed(Board::Thread));
    assert_ne!(a.id(), b.id());
    assert!(a.name().ends_with(&std::process::id().to_string()), "{}", a.name());
}

#[test]
fn two_nodes_of_one_name_are_told_of() {
    let fabric = Fabric::new(3).expect("descriptors");
    let lines = [(); 3].map(|()| Arc::new(Mutex::new(Vec::<String>::new())));
    let start = |place: usize, name: &str| {
        let lines = Arc::clone(&lines[place]);
        let note = move |line: &str| lines.lock().unwrap().push(line.to_owned());
        let node = on(&fabric, place as u32, name).board(Board::Thread).notices(note);
        node.start().expect("the node starts")
    };
    let (first, c) = (start(0, "twin"), start(2, "c"));
    say(&first, &c, 1);
    let second = start(1, "twin");
    let claims = |event: &NodeEvent| matches!(event, NodeEvent::Claimed { .. });
    for node in [&first, &second] {
        let told = std::iter::from_fn(|| node.wait_event(LONG / 4)).any(|event| claims(&event));
        assert!(told, "each of the two hears of it");
    }
    for lines in &lines[..2] {
        let lines = lines.lock().unwrap();
        let told = |line: &&String| line.starts_with("two nodes claim the identity twin (");
        assert_eq!(lines.iter().filter(told).count(), 1, "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("different names")), "{lines:?}");
    }
    drop((c, second));
}
