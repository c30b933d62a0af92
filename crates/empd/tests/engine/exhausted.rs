//! Clients that keep from the service what it needs: bells that block, memory that is punched, descriptors that are used up. Others are undisturbed.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use emp_host::daemon::{Question, Tell, said, told};
use emp_host::{BuildError, Endpoint, Limit, LinkIndex, NodeEvent, NodeId, Selector};
use emp_link::LinkAddress;
use emp_link::service::channel::{Heard, RECORD_BYTES_MAX};
use emp_link::service::socket;

use crate::common::{PATIENCE, until};
use crate::hostile::seat;
use crate::scribbles::{Rings, punch};
use crate::{LONG, Place, on, pair, pattern};

/// Two that mean well.
struct Talk {
    ends: [Endpoint; 2],
    seed: u64,
}

impl Talk {
    fn round(&mut self) {
        let [a, b] = &self.ends;
        self.seed += 1;
        a.send(b.address(), self.seed, pattern(40_000, self.seed)).map(drop).expect("room");
        let got = b.receive_wait(Selector::bits(self.seed), vec![0; 40_000], LONG);
        assert!(got.expect("it comes").buffer == pattern(40_000, self.seed));
    }
}

fn talk([a, b]: [&emp_host::Node; 2]) -> Talk {
    Talk { ends: [a, b].map(|node| node.endpoint(1).expect("opens")), seed: 0 }
}

/// Its end of the bell blocks, and it takes nothing from it, although it says each time that it sleeps; another rings without being asked.
#[test]
fn who_reads_no_bells_or_rings_for_nothing_stops_nobody() {
    let Some(mut place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let mut talk = talk([&a, &b]);
        let mut deaf = seat(&socket, 0x7000);
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::fcntl(deaf.channel.bell().as_raw_fd(), libc::F_SETFL, 0) }, 0);
        let mut buffer = vec![0; RECORD_BYTES_MAX];
        let question = Question::Left.emit();
        // A socket's buffer holds some hundred bells.
        for number in 0..3000 {
            deaf.channel.arm();
            assert_eq!(deaf.channel.write(said::ASK, &[&question]), Ok(true));
            deaf.channel.wake();
            let since = Instant::now();
            while deaf.channel.read(&mut buffer).expect("the service is sound").is_none() {
                assert!(since.elapsed() < LONG, "question {number} has no answer");
                std::thread::yield_now();
            }
            if number % 300 == 0 {
                talk.round();
            }
        }
        // As a bell, and as one with a descriptor that is not there.
        for (number, ring) in [[1u8], [2]].into_iter().enumerate() {
            let loud = seat(&socket, 0x7001 + number as u64);
            let since = Instant::now();
            loop {
                match socket::send(loud.channel.bell(), &ring, &[]) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => break,
                }
                assert!(since.elapsed() < LONG, "it may ring for ever");
            }
            let why = loud.connection.reason(LONG).expect("it is told why");
            assert!(why.contains("it rang although nobody slept"), "{why}");
            talk.round();
        }
        // Who was deaf only lost what it did not want.
        assert_ne!(deaf.channel.listen(), Ok(Heard::Gone));
    });
    assert!(place.service.is_up());
    let whys = || place.service.log().matches("it rang although nobody slept").count();
    until("the log says why of each", || whys() == 2);
}

#[test]
fn memory_of_rings_that_is_punched_costs_its_client_alone() {
    let Some(mut place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let mut talk = talk([&a, &b]);
        for (number, before) in [true, false].into_iter().enumerate() {
            let rings = Rings::after(&socket, 0x7100 + number as u64, |memory| {
                if before {
                    punch(memory).expect("nobody keeps it yet");
                }
            });
            let since = Instant::now();
            while rings.punch().is_ok() {
                assert!(since.elapsed() < PATIENCE, "it can still be punched");
                talk.round();
            }
            talk.round();
        }
    });
    assert!(place.service.is_up());
}

/// With fewer descriptors than another engine takes, whoever wants one is told so in one line, and those that are there go on.
#[test]
fn without_descriptors_others_go_on() {
    let Some(mut place) = Place::new() else { return };
    let process = place.service.process() as libc::pid_t;
    let limit = |most: u64| {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: 4096 };
        // SAFETY: the limits are alive, and no old ones are asked for.
        let limited = unsafe {
            let old = std::ptr::null_mut();
            libc::prlimit(process, libc::RLIMIT_NOFILE, &raw const limit, old)
        };
        assert_eq!(limited, 0, "{}", io::Error::last_os_error());
    };
    let (a, b) = place.as_nobody(|socket| pair(&socket));
    let mut talk = talk([&a, &b]);
    talk.round();
    let open = fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").count() as u64;
    let mut refusals = 0;
    for more in 1.. {
        assert!(more < 40, "40 descriptors are enough for another engine");
        limit(open + more);
        let started = place.as_nobody(|socket| on(&socket, "c").start());
        talk.round();
        match started {
            Ok(_) => break,
            Err(BuildError::Engine(line)) => {
                println!("{more} descriptors more: {line}");
                assert!(!line.contains('\n'), "{line}");
                refusals += 1;
            }
            Err(other) => panic!("{more} descriptors more: {other}"),
        }
    }
    assert!(refusals > 0, "no descriptor was missing");
    limit(4096);
    until("there is room again", || place.as_nobody(|socket| on(&socket, "c").start().is_ok()));
    // What it failed to give is not kept.
    let files = || fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").count() as u64;
    until("nothing is kept", || files() <= open);
    talk.round();
    std::thread::sleep(Duration::from_millis(20));
    assert!(place.service.is_up());
}

/// Of nodes and regions an engine has as many as the configuration says, and its program is told of the bound.
#[test]
fn an_engine_has_the_peers_and_regions_that_it_may_have() {
    let lines = "[limits]\npeers_per_engine = 3\nregions_per_engine = 2\n";
    let Some(place) = Place::with(lines) else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let (end, other) = (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"));
        let export = || a.export(vec![0; 64]);
        let _kept = export().expect("the first");
        let second = export().expect("the second");
        assert!(export().is_err(), "a third");
        drop(second);
        drop(export().expect("in its place"));
        let told = |limit, most| {
            let reached = NodeEvent::LimitReached { limit, most };
            let events = std::iter::from_fn(|| a.wait_event(LONG));
            assert!(events.take(20).any(|event| event == reached), "{limit:?} is not told");
        };
        told(Limit::Regions, 2);
        end.send_wait(other.address(), 1, "one", LONG).expect("it is met");
        let others: Vec<_> =
            ["c", "d", "e"].map(|name| on(&socket, name).start().expect("anyone may")).into();
        for node in &others {
            let endpoint = node.endpoint(1).expect("opens");
            let sent = endpoint.send(("a", 1), 2, "who meets whom").expect("posted");
            let _ = sent.wait(Duration::from_millis(500));
        }
        told(Limit::Peers, 3);
    });
}

/// Bytes of a process's memory that are there.
fn resident_bytes(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says");
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
}

/// Nodes that there are not, whose addresses a client makes up: no more of them are remembered than the engine may know nodes.
#[test]
fn addresses_that_are_made_up_cost_no_more_than_nodes() {
    const NODES: u64 = 131_072;
    let Some(mut place) = Place::with("[limits]\npeers_per_engine = 3\n") else { return };
    let process = place.service.process();
    place.as_nobody(|socket| {
        let mut seat = seat(&socket, 0x7200);
        let mut buffer = vec![0; RECORD_BYTES_MAX];
        let before = resident_bytes(process);
        let since = Instant::now();
        let mut write = |mark, record: &[u8]| {
            while !seat.channel.write(mark, &[record]).expect("it is not put out") {
                seat.channel.wake();
                assert!(since.elapsed() < 4 * LONG, "the ring does not move");
                std::thread::yield_now();
            }
            seat.channel.wake();
        };
        for number in 0..NODES {
            let at = ([10, 0, 0, 1], 1_024 + number as u16 % 60_000).into();
            let (node, link) = (NodeId(0x10_0000 + number), LinkIndex(0));
            write(said::TELL, &Tell::Hint(node, link, LinkAddress::udp(at)).emit());
        }
        write(said::ASK, &Question::Left.emit());
        let mut next = || seat.channel.read(&mut buffer).expect("the service is sound");
        while next().is_none_or(|(mark, _)| mark != told::ANSWER) {
            assert!(since.elapsed() < 4 * LONG, "it does not answer");
            std::thread::yield_now();
        }
        // What is looked for has a bound of its own, of 4,096 nodes.
        let more = resident_bytes(process).saturating_sub(before);
        assert!(more < 8 << 20, "{more} bytes for {NODES} nodes");
    });
    assert!(place.service.is_up());
}
