//! Clients that are killed or stopped amid puts, gets and messages: others of the same services are not disturbed, and what the killed had is free.
//!
//! Needs root for the hosts and the services; says so where it is not to be had.

mod common;
#[path = "common/nodes.rs"]
mod nodes;

use std::time::{Duration, Instant};

use common::child::Child;
use common::{PATIENCE, Service, become_nobody, until};
use emp_host::{Board, Endpoint, NodeId, RemoteRegion, Selector};
use emp_testing::lab::Lab;
use nodes::{node, start};

/// Bytes of the region that is put to and got from.
const REGION_BYTES: usize = 1 << 20;

/// How long each victim is at work.
const AT_WORK: Duration = Duration::from_millis(150);

/// Messages, puts and gets to `b`, without end; and messages of which it receives none.
fn work(endpoint: &Endpoint, region: RemoteRegion) {
    endpoint.send_wait(("b", 1), 1, "here", PATIENCE).expect("it goes");
    let mut unwanted = Vec::new();
    loop {
        if unwanted.len() < 50 {
            unwanted.extend(endpoint.send(("b", 1), 99, vec![3; 20_000]).ok());
        }
        let put = endpoint.put(region, vec![1u8; REGION_BYTES]).expect("posted");
        let get = endpoint.get(region, vec![0u8; REGION_BYTES / 2]).expect("posted");
        let _ = (put.wait(PATIENCE).is_ok(), get.wait(PATIENCE).is_ok());
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

/// Open files of a process, and its memory that others can have, in KB.
fn holds(process: u32) -> (usize, u64) {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").count();
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let shared = status.lines().find_map(|line| line.strip_prefix("RssShmem:"));
    let shared = shared.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
    (files, shared.expect("the kernel tells"))
}

#[test]
fn who_is_killed_or_stopped_amid_everything_disturbs_nobody() {
    let Some(lab) = Lab::build(1500) else { return };
    let (here, there) = (Service::start(&lab, 0, ""), Service::start(&lab, 1, ""));
    let good = ["good-a", "good-b"];
    let good: Vec<_> = [&here, &there]
        .iter()
        .enumerate()
        .map(|(side, service)| node(&lab, side, service, good[side], Board::Thread))
        .collect();
    let ends = [0, 1].map(|side: usize| good[side].endpoint(1).expect("opens"));
    let mut verify = Verify { ends, number: 0 };
    let b = node(&lab, 1, &there, "b", Board::Thread);
    let of_b = b.endpoint(1).expect("opens");
    let region = b.export(vec![0; REGION_BYTES]).expect("there is room");
    let at = region.remote();
    verify.round();
    let before = holds(here.process());
    for round in 0..4 {
        let (socket, name) = (here.socket(), format!("victim {round}"));
        let victim = lab.inside(0, || {
            become_nobody();
            Child::start(|| {
                let node = start(&socket, &name, Board::Inline { guardian: true });
                work(&node.endpoint(1).expect("opens"), at);
            })
        });
        let wanted = Selector { from: NodeId::from_name(&name), ..Selector::bits(1) };
        of_b.receive_wait(wanted, vec![0; 4], PATIENCE).expect("it is at work");
        verify.rounds(AT_WORK);
        if round % 2 == 0 {
            victim.signal(libc::SIGSTOP);
            verify.rounds(AT_WORK);
            victim.signal(libc::SIGCONT);
            verify.rounds(AT_WORK);
            victim.signal(libc::SIGSTOP);
        }
        victim.signal(libc::SIGKILL);
        drop(victim);
        verify.rounds(AT_WORK);
        until("what it had is free", || {
            let (files, shared) = holds(here.process());
            files <= before.0 && shared <= before.1 + 64
        });
        // What it held of `b`: messages that nobody received.
        while of_b.receive_wait(Selector::bits(99), vec![0; 20_000], Duration::ZERO).is_ok() {}
    }
}
