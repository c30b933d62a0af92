//! Many nodes on one interface: the kernel looks at a frame once for all of them, and each gets its own, whoever joins,
//! leaves or crashes.

use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use emp_link::{Link, LinkAddress, PacketLink, PacketOptions, TxFrame};

use emp_testing::lab::{INTERFACE, Lab};
use emp_wire::Kind;

/// Tells a process of this test that it is a node, and which; it lives until it is killed.
const ROLE: &str = "EMP_TEST_NODE_TAG";

/// How often a frame is sent again, a few milliseconds apart, until whoever it is for has it: more often than there are members.
const TRIES: usize = 40;

fn open(tag: u16) -> PacketLink {
    let options = PacketOptions { group: true, ..PacketOptions::new(INTERFACE, tag) };
    PacketLink::open(&options).expect("root opens it")
}

fn send(sender: &mut PacketLink, tag: u16, number: u8) {
    let mut frame = [number; 64];
    frame[4..6].copy_from_slice(&tag.to_be_bytes());
    let sent =
        sender.send(&[TxFrame { to: LinkAddress::EVERYONE, parts: &[IoSlice::new(&frame)] }]);
    assert_eq!(sent, 1);
}

/// Numbers of the frames that have come, waiting a little for the first.
fn received(link: &mut PacketLink) -> Vec<u8> {
    let mut numbers = Vec::new();
    link.wait(Some(Duration::from_millis(20)));
    while link.receive(16, &mut |bytes, _| numbers.push(bytes[20])) > 0 {}
    numbers
}

/// Sends a frame until the node has it; the others look at what they get meanwhile. Returns how often it took.
fn reach(sender: &mut PacketLink, nodes: &mut [(u16, PacketLink)], which: usize) -> usize {
    for attempt in 1..=TRIES {
        send(sender, nodes[which].0, 9);
        std::thread::sleep(Duration::from_millis(2));
        let mut found = false;
        for (i, (tag, node)) in nodes.iter_mut().enumerate() {
            let numbers = received_now(node);
            assert!(i == which || numbers.is_empty(), "node {tag} is handed another's frame");
            found |= i == which && !numbers.is_empty();
        }
        if found {
            return attempt;
        }
    }
    panic!("node {} was not reached", nodes[which].0);
}

fn received_now(link: &mut PacketLink) -> Vec<u8> {
    let mut numbers = Vec::new();
    while link.receive(16, &mut |bytes, _| numbers.push(bytes[20])) > 0 {}
    numbers
}

/// A node in a process of its own.
fn start_process(lab: &Lab, tag: u16) -> Child {
    lab.inside(0, || {
        let mut command = Command::new(std::env::current_exe().expect("a test has a program"));
        command.args(["--exact", "a_node_of_its_own", "--nocapture"]).env(ROLE, tag.to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.contains("node is open"));
        assert!(ready, "it opens its link");
        child
    })
}

/// The body of such a process. Nothing in an ordinary run of the tests.
#[test]
fn a_node_of_its_own() {
    let Some(tag) = std::env::var(ROLE).ok().and_then(|tag| tag.parse().ok()) else { return };
    let link = open(tag);
    assert!(link.is_grouped());
    println!("node is open");
    // Its parent kills it; if that is gone, it ends by itself.
    std::thread::sleep(Duration::from_secs(30));
}

fn nodes(tags: impl IntoIterator<Item = u16>) -> Vec<(u16, PacketLink)> {
    let nodes: Vec<_> = tags.into_iter().map(|tag| (tag, open(tag))).collect();
    assert!(nodes.iter().all(|(_, node)| node.is_grouped()), "the first as well");
    nodes
}

/// A node that is in no group, as another user's would be.
fn open_outside(tag: u16) -> PacketLink {
    let options = PacketOptions { group: false, ..PacketOptions::new(INTERFACE, tag) };
    PacketLink::open(&options).expect("root opens it")
}

#[test]
fn each_node_gets_its_frames_and_those_for_everyone_reach_some() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut sender = lab.inside(1, || open(1));
    lab.inside(0, || {
        let mut nodes = nodes((0..20).map(|i| 100 + i * 37));
        for round in 0..3 {
            for (tag, node) in &mut nodes {
                send(&mut sender, *tag, *tag as u8);
                assert_eq!(received(node), [*tag as u8]);
            }
            assert!(nodes.iter_mut().all(|(_, node)| received_now(node).is_empty()));
            // Who leaves properly takes no frame of others along.
            nodes.remove(7 * round);
            nodes.push((9000 + round as u16, open(9000 + round as u16)));
        }
        assert!(nodes.iter().all(|(_, node)| node.is_grouped()), "who came later as well");
        // Nobody's, and everyone's.
        send(&mut sender, 55, 1);
        send(&mut sender, 0xFFFF, 2);
        std::thread::sleep(Duration::from_millis(5));
        let taken: Vec<u8> = nodes.iter_mut().flat_map(|(_, node)| received_now(node)).collect();
        assert_eq!(taken, [2], "one of the group");
    });
}

#[test]
fn two_nodes_of_one_tag_both_get_its_frames() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut sender = lab.inside(1, || open(1));
    lab.inside(0, || {
        let (mut first, mut second) = (open(77), open(77));
        assert!(first.is_grouped() && !second.is_grouped());
        send(&mut sender, 77, 5);
        assert_eq!((received(&mut first), received(&mut second)), (vec![5], vec![5]));
    });
}

#[test]
fn the_others_are_reached_again_after_some_have_crashed() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut sender = lab.inside(1, || open(1));
    let mut processes: Vec<Child> = Vec::new();
    let mut nodes: Vec<(u16, PacketLink)> = Vec::new();
    for tag in 200..212 {
        if tag % 4 == 1 {
            processes.push(start_process(&lab, tag));
        } else {
            nodes.push((tag, lab.inside(0, || open(tag))));
        }
    }
    for process in &mut processes {
        process.kill().expect("it is ours");
        process.wait().expect("it ends");
    }
    let tries: Vec<usize> = (0..nodes.len()).map(|i| reach(&mut sender, &mut nodes, i)).collect();
    println!("frames until each was reached: {tries:?}");
    let again: Vec<usize> = (0..nodes.len()).map(|i| reach(&mut sender, &mut nodes, i)).collect();
    assert!(again.iter().all(|tries| *tries == 1), "{again:?}: what was mended stays so");
}

#[test]
fn an_interface_that_was_down_has_its_nodes_again() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut sender = lab.inside(1, || open(1));
    let mut nodes = lab.inside(0, || nodes(300..310));
    // Now the order of the group is not that in which its sockets were made.
    nodes.remove(2);
    nodes.remove(4);
    lab.ip(0, &["link", "set", INTERFACE, "down"]);
    lab.ip(0, &["link", "set", INTERFACE, "up"]);
    // The first frames find no carrier.
    std::thread::sleep(Duration::from_millis(100));
    for i in 0..nodes.len() {
        reach(&mut sender, &mut nodes, i);
    }
    let again: Vec<usize> = (0..nodes.len()).map(|i| reach(&mut sender, &mut nodes, i)).collect();
    assert!(again.iter().all(|tries| *tries == 1), "{again:?}: what was mended stays so");
}

/// A frame for a node that is in no group is handed to some member of it all the same: it must not wake that one, which
/// would cost the node's peers tens of microseconds each time. Greetings may: they are few, and show who has become a member.
#[test]
fn a_member_is_not_woken_by_frames_of_the_node_outside_its_group() {
    const FRAMES: usize = 512;
    let (hello, message) = (Kind::Hello as u8, Kind::Message as u8);
    let Some(lab) = Lab::build(1500) else { return };
    let mut sender = lab.inside(1, || open(1));
    lab.inside(0, || {
        let mut nodes = [(400, open_outside(400)), (401, open(401))];
        // The first show whose they are; what the member looks at is a millisecond apart at least.
        for _ in 0..4 {
            send(&mut sender, 400, message);
            std::thread::sleep(Duration::from_millis(3));
            assert!(received_now(&mut nodes[1].1).is_empty());
        }
        let woken = |member: &mut PacketLink, time| member.wait(Some(time));
        for number in 0..FRAMES {
            send(&mut sender, 400, message);
            let woken = woken(&mut nodes[1].1, Duration::from_micros(20));
            assert!(!woken, "woken by frame {number}");
        }
        send(&mut sender, 400, hello);
        assert!(woken(&mut nodes[1].1, Duration::from_secs(10)));
        assert!(received_now(&mut nodes[1].1).is_empty());
        let mut own = 0;
        while nodes[0].1.receive(64, &mut |_, _| own += 1) > 0 {}
        assert_eq!(own, 4 + FRAMES + 1, "the node that they are for has them all");
        send(&mut sender, 401, message);
        assert_eq!(received(&mut nodes[1].1), [message]);
    });
}

/// Greetings for nodes that are looked for come to every host. They are no reason for a filter, which each later frame would pay for.
#[test]
fn a_lone_node_has_no_filter_for_what_others_look_for() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut sender = lab.inside(1, || open(1));
    let mut node = lab.inside(0, || open(600));
    for number in 0..4 {
        send(&mut sender, 601, Kind::Hello as u8);
        assert!(node.wait(Some(Duration::from_secs(10))), "greeting {number} comes up");
        assert!(received_now(&mut node).is_empty());
        std::thread::sleep(Duration::from_millis(3));
    }
    send(&mut sender, 601, Kind::Message as u8);
    assert!(node.wait(Some(Duration::from_secs(10))), "the first of other frames comes up");
    assert!(received_now(&mut node).is_empty());
    // Whose are passed over from then on.
    send(&mut sender, 601, Kind::Message as u8);
    assert!(!node.wait(Some(Duration::from_millis(50))));
    send(&mut sender, 600, Kind::Message as u8);
    assert_eq!(received(&mut node), [Kind::Message as u8]);
}

/// Who is left of a group gets what it got, though the program that names others is not set anew for it alone; and who joins
/// it is found.
#[test]
fn a_group_of_one_needs_no_program() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut sender = lab.inside(1, || open(1));
    let mut nodes = lab.inside(0, || nodes([700, 701, 702]));
    for left in [2, 1] {
        nodes.remove(0);
        for i in 0..left {
            assert_eq!(reach(&mut sender, &mut nodes, i), 1, "{left} left");
        }
    }
    nodes.push((703, lab.inside(0, || open(703))));
    for i in 0..2 {
        assert_eq!(reach(&mut sender, &mut nodes, i), 1);
    }
}

/// However many open at once, the program that is set last names all of them.
#[test]
fn nodes_that_open_together_are_all_reached() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut sender = lab.inside(1, || open(1));
    let mut nodes: Vec<(u16, PacketLink)> = thread::scope(|scope| {
        let opens = |tag| {
            let lab = &lab;
            scope.spawn(move || (tag, lab.inside(0, || open(tag))))
        };
        let threads: Vec<_> = (500..564).map(opens).collect();
        threads.into_iter().map(|thread| thread.join().expect("it opens")).collect()
    });
    assert!(nodes.iter().all(|(_, node)| node.is_grouped()));
    for i in 0..nodes.len() {
        assert_eq!(reach(&mut sender, &mut nodes, i), 1, "all are where the program says");
    }
}

/// A child has copies of its parent's files from its fork to its `exec`, and with them the locks that the parent held then.
#[test]
fn a_place_that_is_left_while_a_child_starts_can_be_taken() {
    let Some(lab) = Lab::build(1500) else { return };
    lab.inside(0, || {
        // One stays, and with it the table.
        let (_stays, node) = (open(799), open(800));
        let (mut forked, in_child) = std::io::pipe().expect("a pipe");
        let (held_back, go_on) = std::io::pipe().expect("another");
        let mut command = Command::new("true");
        // SAFETY: between fork and `exec` the child sets its end and reads and writes a byte, which allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(move || {
                libc::alarm(30);
                (&in_child).write_all(&[1])?;
                (&held_back).read_exact(&mut [0])
            });
        }
        let starting = thread::spawn(move || command.status());
        forked.read_exact(&mut [0]).expect("the child is there");
        drop(node);
        let next = open(801);
        (&go_on).write_all(&[1]).expect("the child waits for it");
        assert!(starting.join().expect("it ends").expect("it starts").success());
        assert!(next.is_grouped());
    });
}

/// Files of this namespace's groups.
fn tables() -> Vec<PathBuf> {
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").expect("it has a number").ino();
    let runtime =
        std::env::var_os("XDG_RUNTIME_DIR").map(|runtime| PathBuf::from(runtime).join("emp"));
    let places = [runtime, Some(PathBuf::from("/dev/shm/emp-0"))];
    let names =
        places.into_iter().flatten().filter_map(|place| std::fs::read_dir(place).ok()).flatten();
    let is_here = |name: &str| name.starts_with(&format!("packet-3-{namespace}-"));
    names
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(is_here))
        .map(|entry| entry.path())
        .collect()
}

/// What else is written into a group's table: bytes that mean nothing, a table of another version, one that knows nobody, and nothing at all.
/// Members notice, and all are reached, those that join meanwhile and those that leave.
#[test]
fn a_spoiled_table_cuts_nobody_off() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut sender = lab.inside(1, || open(1));
    lab.inside(0, || {
        let mut nodes = nodes((0..6).map(|i| 900 + i * 31));
        let noise: Vec<u8> =
            (0u32..2_000).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let other_version = [&b"EMP9"[..], &[0; 60]].concat();
        let first = [&b"EMP1"[..], &[0; 8]].concat();
        for (round, spoiled) in [noise, other_version, first, Vec::new()].iter().enumerate() {
            let table = tables().pop().expect("it is there");
            std::fs::write(table, spoiled).expect("it is ours");
            // Those that stand still shift the others' places: one leaves, one comes.
            nodes.remove(1);
            let tag = 2_000 + round as u16;
            nodes.push((tag, open(tag)));
            // As a node does, many times a second.
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(2_500) {
                for (tag, node) in &mut nodes {
                    node.condition();
                    send(&mut sender, *tag, 1);
                }
                nodes.iter_mut().for_each(|(_, node)| drop(received_now(node)));
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(nodes.iter().all(|(_, node)| node.is_grouped()), "round {round}");
            let tries: Vec<usize> =
                (0..nodes.len()).map(|i| reach(&mut sender, &mut nodes, i)).collect();
            println!("round {round}: frames until each was reached: {tries:?}");
            let again: Vec<usize> =
                (0..nodes.len()).map(|i| reach(&mut sender, &mut nodes, i)).collect();
            assert!(again.iter().all(|tries| *tries == 1), "round {round}: {again:?}");
        }
    });
}

/// Namespaces come and go; a search for nodes looks at 4,096 names.
#[test]
fn a_table_goes_with_its_last_node() {
    let Some(lab) = Lab::build(1500) else { return };
    lab.inside(0, || {
        let mut nodes = nodes([1, 2, 3]);
        while !nodes.is_empty() {
            assert_eq!(tables().len(), 1);
            nodes.remove(0);
        }
        assert_eq!(tables().len(), 0);
        // The last one is killed: whoever is the first on another interface finds it.
        let first = open(1);
        let mut child = start_process(&lab, 2);
        drop(first);
        child.kill().and_then(|()| child.wait()).expect("it was running");
    });
    lab.inside(1, || drop(open(1)));
    lab.inside(0, || assert_eq!(tables().len(), 0));
}
