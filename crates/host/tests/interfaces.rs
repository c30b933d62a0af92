//! A node whose interface is deleted and made again, is moved to another namespace and back, is renamed, or gets another Ethernet address,
//! while its peers know nothing of that: traffic goes on.
//!
//! Needs root; says so where it is not to be had.

mod common;

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{LONG, pattern};
use emp_host::{AutoLinks, Board, Endpoint, Node, Selector, Want};
use emp_testing::lab::{INTERFACE, Lab};

/// The interface of node `b`: it has an address of its own on the cable's end, and goes without taking that along.
const OWN: &str = "m0";

/// How soon after an interface is back messages may have arrived, however busy the machine is. On a quiet one it takes a tenth of that.
const SOON: Duration = Duration::from_secs(5);

type Lines = Arc<Mutex<Vec<String>>>;

struct World {
    lab: Lab,
    a: Node,
    b: Node,
    lines: [Lines; 2],
    want: Want,
    turn: u64,
}

fn sysctl(lab: &Lab, side: usize, setting: &str) {
    let status = Command::new("ip")
        .args(["netns", "exec", lab.name(side), "sysctl", "-q", setting])
        .status();
    assert!(status.expect("sysctl is installed").success(), "{setting}");
}

fn make_own(lab: &Lab) {
    for line in [
        format!("link add link {INTERFACE} name {OWN} type macvlan mode bridge"),
        format!("link set {OWN} up"),
        format!("address add 10.77.0.2/24 dev {OWN}"),
    ] {
        lab.ip(1, &line.split(' ').collect::<Vec<_>>());
    }
}

fn start(lab: &Lab, side: usize, want: Want) -> (Node, Lines) {
    let other = format!("10.77.0.{}:51966", 2 - side).parse().unwrap();
    let auto = AutoLinks {
        want,
        interfaces: vec![[INTERFACE, OWN][side].into()],
        udp_bind: (want == Want::Udp).then(|| format!("10.77.0.{}", side + 1).parse().unwrap()),
        udp_peers: vec![other],
        memory: false,
        ..AutoLinks::default()
    };
    let lines = Lines::default();
    let written = lines.clone();
    let notices = move |line: &str| written.lock().unwrap().push(line.to_owned());
    let node = Node::builder().name(["a", "b"][side]).auto_links(auto).board(Board::Thread);
    let node = node.notices(notices).unreachable_after(LONG);
    (lab.inside(side, || node.start()).expect("root may"), lines)
}

impl World {
    fn new(want: Want) -> Option<Self> {
        let lab = Lab::build(1500)?;
        lab.ip(1, &["address", "del", "10.77.0.2/24", "dev", INTERFACE]);
        // Who has a new address says so; other machines' kernels believe it. As for TCP.
        (0..2).for_each(|side| sysctl(&lab, side, "net.ipv4.conf.all.arp_notify=1"));
        make_own(&lab);
        std::thread::sleep(Duration::from_millis(100));
        let ((a, a_lines), (b, b_lines)) = (start(&lab, 0, want), start(&lab, 1, want));
        Some(Self { lab, a, b, lines: [a_lines, b_lines], want, turn: 0 })
    }

    /// Small and large messages both ways, posted; `happens` then, and from when it returns all have arrived soon.
    fn go_on(&mut self, what: &str, happens: impl FnOnce(&Lab)) {
        let (one, two) = (self.a.endpoint(1).unwrap(), self.b.endpoint(1).unwrap());
        let mut requests = Vec::new();
        let mut post = |from: &Endpoint, to: &Endpoint, seed: u64, bytes: usize| {
            let receive = to.receive(Selector::bits(seed), vec![0; bytes]).unwrap();
            requests.push((
                receive,
                from.send(to.address(), seed, pattern(bytes, seed)).unwrap(),
                seed,
                bytes,
            ));
        };
        // What is under way meanwhile; then what is posted after it.
        self.lab.ip(1, &["link", "set", "lo", "up"]);
        happens(&self.lab);
        let back = Instant::now();
        for bytes in [100, 5_000, 400_000] {
            for (from, to) in [(&one, &two), (&two, &one)] {
                self.turn += 1;
                post(from, to, self.turn, bytes);
            }
        }
        for (receive, send, seed, bytes) in requests {
            let told = || format!("{what} {:?}: {:?}", self.want, self.lines);
            let sent = send.wait(LONG);
            assert!(
                sent.is_ok(),
                "{} {}",
                sent.err().map(|e| e.to_string()).unwrap_or_default(),
                told()
            );
            let got = receive.wait(LONG).unwrap_or_else(|error| panic!("{error} {}", told()));
            assert!(got.buffer == pattern(bytes, seed), "{}", told());
        }
        let took = back.elapsed();
        println!("{what}, {:?}: {took:?} after it was back", self.want);
        assert!(took < SOON, "{what} {:?}: {took:?}; {:?}", self.want, self.lines);
    }

    fn told(&self, side: usize, what: &str) -> bool {
        self.lines[side].lock().unwrap().iter().any(|line| line.contains(what))
    }
}

fn each_kind(of: impl Fn(Want) + Sync) {
    std::thread::scope(|scope| {
        for want in [Want::Packet, Want::Udp, Want::Auto] {
            let of = &of;
            scope.spawn(move || of(want));
        }
    });
}

#[test]
fn an_interface_that_is_deleted_and_made_again_is_used_again() {
    each_kind(|want| {
        let Some(mut world) = World::new(want) else { return };
        world.go_on("before", |_| ());
        for round in ["first", "second"] {
            world.go_on(round, |lab| {
                lab.ip(1, &["link", "delete", OWN]);
                std::thread::sleep(Duration::from_millis(1_500));
                make_own(lab);
            });
        }
        if want != Want::Udp {
            assert!(
                world.told(1, "bound again, to the interface that has this name now"),
                "{:?}",
                world.lines
            );
        }
        let lines = world.lines[1].lock().unwrap();
        let ends = lines.iter().filter(|line| line.contains("is up again")).count();
        assert!(want == Want::Auto || ends == 2, "each end of an outage is told once: {lines:?}");
    });
}

#[test]
fn an_interface_that_was_in_another_namespace_is_used_again() {
    each_kind(|want| {
        let Some(mut world) = World::new(want) else { return };
        world.go_on("before", |_| ());
        for silent in [300, 2_000] {
            world.go_on("moved", |lab| {
                lab.ip(1, &["link", "set", OWN, "netns", lab.name(0)]);
                std::thread::sleep(Duration::from_millis(silent));
                lab.ip(0, &["link", "set", OWN, "netns", lab.name(1)]);
                lab.ip(1, &["link", "set", OWN, "up"]);
                lab.ip(1, &["address", "add", "10.77.0.2/24", "dev", OWN]);
            });
        }
    });
}

/// The socket stays bound to it, whatever it is called.
#[test]
fn an_interface_that_is_renamed_is_the_same_one() {
    each_kind(|want| {
        let Some(mut world) = World::new(want) else { return };
        world.go_on("before", |_| ());
        let mut called = OWN;
        for (name, silent) in [("m7", 0), ("m8", 1_500), (OWN, 50)] {
            world.go_on("renamed", |lab| {
                lab.ip(1, &["link", "set", called, "down"]);
                lab.ip(1, &["link", "set", called, "name", name]);
                std::thread::sleep(Duration::from_millis(silent));
                lab.ip(1, &["link", "set", name, "up"]);
            });
            called = name;
        }
        // Another one has its name, and it has another name.
        world.go_on("renamed", |lab| {
            lab.ip(1, &["link", "set", OWN, "down"]);
            lab.ip(1, &["link", "set", OWN, "name", "m9"]);
            lab.ip(1, &["link", "add", OWN, "type", "bridge"]);
            lab.ip(1, &["link", "set", "m9", "up"]);
        });
        // A look that falls between a rename and its news finds neither name, for that moment.
        let lines = world.lines[1].lock().unwrap().clone();
        let gone = (0..lines.len()).filter(|at| lines[*at].contains("is gone"));
        let is_back = |line: &String| line.contains("is up again");
        assert!(gone.into_iter().all(|at| lines[at..].iter().any(is_back)), "{lines:?}");
        // What goes by another link meanwhile does not wait for that.
        let start = Instant::now();
        while want != Want::Udp && !world.told(1, "its interface is m9 now") {
            assert!(start.elapsed() < LONG, "{:?}", world.lines);
            world.go_on("after", |_| ());
        }
    });
}

#[test]
fn peers_learn_another_ethernet_address() {
    each_kind(|want| {
        let Some(mut world) = World::new(want) else { return };
        world.go_on("before", |_| ());
        for address in ["02:11:22:33:44:55", "02:11:22:33:44:66"] {
            world.go_on("another address", |lab| {
                lab.ip(1, &["link", "set", OWN, "address", address])
            });
        }
        if want != Want::Udp {
            assert!(world.told(1, "its address is 02:11:22:33:44:66 now"), "{:?}", world.lines);
        }
        // All goes as fast as before: no path is missing.
        let start = Instant::now();
        world.go_on("after", |_| ());
        assert!(start.elapsed() < SOON);
        let failed = world.lines.each_ref().map(|lines| {
            lines.lock().unwrap().iter().filter(|line| line.contains("has failed")).count()
        });
        assert!(failed.iter().all(|count| *count <= 2), "paths flap: {:?}", world.lines);
    });
}

/// The node that has nothing to do, and whose threads sleep, is the one that is cut off: it has to notice by itself.
#[test]
fn a_node_that_sleeps_notices_too() {
    let Some(mut world) = World::new(Want::Packet) else { return };
    world.go_on("before", |_| ());
    let (one, two) = (world.a.endpoint(2).unwrap(), world.b.endpoint(2).unwrap());
    for address in ["02:11:22:33:44:55", ""] {
        if address.is_empty() {
            world.lab.ip(1, &["link", "delete", OWN]);
            std::thread::sleep(Duration::from_millis(500));
            make_own(&world.lab);
        } else {
            world.lab.ip(1, &["link", "set", OWN, "address", address]);
        }
        std::thread::sleep(Duration::from_secs(1));
        let start = Instant::now();
        let receive = two.receive(Selector::bits(7), vec![0; 100]).unwrap();
        one.send_wait(two.address(), 7, pattern(100, 7), LONG).unwrap();
        assert!(receive.wait(LONG).unwrap().buffer == pattern(100, 7));
        let took = start.elapsed();
        println!("asleep: {took:?}");
        assert!(took < SOON, "{took:?} {:?}", world.lines);
    }
}
