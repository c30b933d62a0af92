//! Clients that are killed or stopped amid puts, gets and messages, with messages held for them that they never take: others of the same services
//! are not disturbed, and what the killed had is free.
//!
//! Needs root for the hosts and the services; says so where it is not to be had.

mod common;
#[path = "common/nodes.rs"]
mod nodes;

use std::time::{Duration, Instant};

use common::child::Child;
use common::{PATIENCE, Service, become_nobody};
use emp_host::{Board, Endpoint, NodeId, RemoteRegion, Selector, WaitError};
use emp_testing::lab::Lab;
use nodes::{ONE_CABLE, node, start};

/// Bytes of the region that is put to and got from.
const REGION_BYTES: usize = 1 << 20;

/// How long each victim is at work.
const AT_WORK: Duration = Duration::from_millis(150);

/// Clients that are killed, one after the other.
const ROUNDS: u64 = 6;

/// What the allocator may keep of freed memory for itself, in KB. Victims had 3 to 5 MB each in their engines: what is left of each shows after two.
const KEPT_KB: u64 = 8 << 10;

/// What the clients that stay may touch of their own rings only later, in KB: those of one of them. Of a victim with an engine more than twice as much
/// would be left, of one with the link as much for each of the rounds.
const SHARED_KB: u64 = 512;

/// Messages, puts and gets to `b`, without end; and messages of which it receives none.
fn work(endpoint: &Endpoint, region: RemoteRegion) {
    endpoint.send_wait(("b", 1), 1, "here", PATIENCE).expect("it goes");
    let mut unwanted = Vec::new();
    loop {
        if unwanted.len() < 50 {
            unwanted.extend(endpoint.send(("b", 1), 99, vec![3; 20_000]).ok());
        }
        let puts = [0; 4].map(|_| endpoint.put(region, vec![1u8; REGION_BYTES]).expect("posted"));
        let gets = [0; 4].map(|_| endpoint.get(region, vec![0; REGION_BYTES / 2]).expect("posted"));
        for request in puts.into_iter().chain(gets) {
            let _ = request.wait(PATIENCE);
        }
    }
}

/// Two that mean well send each other messages, each byte of which must be right.
struct Verify {
    ends: [Endpoint; 2],
    number: u64,
}

impl Verify {
    fn round(&mut self) {
        for (from, to) in [(0, 1), (1, 0)] {
            self.number += 1;
            let bytes = (self.number * 7919 % 40_000) as usize;
            let receive = self.ends[to].receive(Selector::bits(self.number), vec![0; bytes]);
            let sent = vec![self.number as u8; bytes];
            let send = self.ends[from].send(self.ends[to].address(), self.number, sent);
            let got = receive.expect("posted").wait(PATIENCE).expect("it comes").buffer;
            assert!(got == vec![self.number as u8; bytes], "message {} came changed", self.number);
            send.expect("posted").wait(PATIENCE).expect("it goes");
        }
    }

    fn rounds(&mut self, time: Duration) {
        let since = Instant::now();
        while since.elapsed() < time {
            self.round();
        }
    }
}

/// What a process has: open files, threads (each engine is one, with files of its own), and memory in KB, that of others' as well and its own.
#[derive(Debug, Clone, Copy)]
struct Holds {
    files: usize,
    threads: u64,
    shared: u64,
    own: u64,
}

impl Holds {
    fn of(process: u32) -> Self {
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").count();
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
            value.expect("the kernel tells")
        };
        Self {
            files,
            threads: field("Threads:"),
            shared: field("RssShmem:"),
            own: field("RssAnon:"),
        }
    }

    fn is_within(self, before: Self) -> bool {
        self.files <= before.files
            && self.threads <= before.threads
            && self.shared <= before.shared + SHARED_KB
            && self.own <= before.own + KEPT_KB
    }
}

/// Waits until the service has no more than before, and gives what it has.
fn until_free(service: &Service, before: Holds) -> Holds {
    let since = Instant::now();
    loop {
        let holds = Holds::of(service.process());
        if holds.is_within(before) {
            return holds;
        }
        assert!(since.elapsed() < PATIENCE, "still {holds:?}, and {before:?} before");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Victims and those that mean well have their engines where `board` says.
fn disturb_nobody(board: Board) {
    let Some(lab) = Lab::build(1500) else { return };
    let (here, there) = (Service::start(&lab, 0, ONE_CABLE), Service::start(&lab, 1, ONE_CABLE));
    let own = if matches!(board, Board::Daemon) { board } else { Board::Thread };
    let good = ["good-a", "good-b"];
    let good: Vec<_> = [&here, &there]
        .iter()
        .enumerate()
        .map(|(side, service)| node(&lab, side, service, good[side], own))
        .collect();
    let ends = [0, 1].map(|side: usize| good[side].endpoint(1).expect("opens"));
    let mut verify = Verify { ends, number: 0 };
    let b = node(&lab, 1, &there, "b", own);
    let of_b = b.endpoint(1).expect("opens");
    let region = b.export(vec![0; REGION_BYTES]).expect("there is room");
    let at = region.remote();
    verify.round();
    let before = Holds::of(here.process());
    let mut most = before;
    for round in 0..ROUNDS {
        let (socket, name) = (here.socket(), format!("victim {round}"));
        let victim = lab.inside(0, || {
            become_nobody();
            Child::start(|| {
                let node = start(&socket, &name, board);
                work(&node.endpoint(1).expect("opens"), at);
            })
        });
        let wanted = Selector { from: NodeId::from_name(&name), ..Selector::bits(1) };
        of_b.receive_wait(wanted, vec![0; 4], PATIENCE).expect("it is at work");
        let unwanted: Vec<_> =
            (0..20).map(|_| of_b.send((&*name, 1), 98, vec![4; 20_000]).expect("posted")).collect();
        verify.rounds(AT_WORK);
        if round % 2 == 0 {
            victim.signal(libc::SIGSTOP);
            verify.rounds(AT_WORK);
            victim.signal(libc::SIGCONT);
            verify.rounds(AT_WORK);
            victim.signal(libc::SIGSTOP);
        }
        let has = Holds::of(here.process());
        most.own = most.own.max(has.own);
        most.shared = most.shared.max(has.shared);
        victim.signal(libc::SIGKILL);
        drop(victim);
        verify.rounds(AT_WORK);
        let free = until_free(&here, before);
        println!("{board:?}, round {round}: it had {has:?}, then {free:?}");
        for send in unwanted {
            match send.wait(PATIENCE) {
                Ok(_) | Err(WaitError::Failed(_)) => {}
                Err(WaitError::TimedOut(_)) => panic!("a message to the killed one has no end"),
            }
        }
        // What it held of `b`: messages that nobody received.
        while of_b.receive_wait(Selector::bits(99), vec![0; 20_000], Duration::ZERO).is_ok() {}
    }
    let after = Holds::of(here.process());
    println!("{board:?}: before {before:?}, most {most:?}, after {ROUNDS} rounds {after:?}");
}

#[test]
fn who_is_killed_or_stopped_amid_everything_disturbs_nobody() {
    disturb_nobody(Board::Inline { guardian: true });
}

#[test]
fn who_is_killed_or_stopped_with_an_engine_in_the_service_disturbs_nobody() {
    disturb_nobody(Board::Daemon);
}
