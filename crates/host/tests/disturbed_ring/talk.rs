//! Programs and relays, and the talk of each pair.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use emp_host::{AutoLinks, Board, Endpoint, Node, NodeBuilder, Request, Selector, WaitError, Want};

use crate::common::pattern;
use crate::panel::{HOSTS, INTERFACES, Panel, interface_name};
use crate::script::Draw;

/// Long against anything that should happen, on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(40);

/// How often who waits looks whether the other end has been restarted.
const GLANCE: Duration = Duration::from_millis(200);

/// Between two messages of a pair: twelve pairs share two cores with what carries them.
const REST: Duration = Duration::from_millis(2);

/// Lengths of messages: in one frame, in some, pulled.
const BYTES: [usize; 4] = [32, 1_400, 20_000, 200_000];

/// What runs on the hosts.
pub struct Lives<'a> {
    panel: &'a Panel,
    programs: Mutex<Vec<Life>>,
    relays: Mutex<Vec<Node>>,
    started: AtomicU64,
}

/// A program, from its start to its end.
#[derive(Clone)]
struct Life {
    node: Arc<Node>,
    /// Unlike those of all others.
    number: u64,
}

/// What a pair has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub messages: u64,
    /// Ended by a restart of either end.
    pub cut_short: u64,
    /// From a message's post to its receive.
    pub longest: Duration,
}

impl<'a> Lives<'a> {
    pub fn start(panel: &'a Panel) -> Self {
        let relays = (0..HOSTS).map(|host| relay(panel, host)).collect();
        let (programs, started) = (Mutex::default(), AtomicU64::new(0));
        let lives = Self { panel, programs, relays: Mutex::new(relays), started };
        let programs = (0..HOSTS).map(|host| lives.program(host)).collect();
        *lives.programs.lock().unwrap() = programs;
        lives
    }

    fn program(&self, host: usize) -> Life {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("program {number} on {host} of {}", std::process::id());
        let node = Arc::new(start(self.panel, host, Node::builder().name(name)));
        Life { node, number }
    }

    pub fn restart_program(&self, host: usize) {
        let next = self.program(host);
        let before = std::mem::replace(&mut self.programs.lock().unwrap()[host], next);
        // What it had under way ends with errors, here and there.
        before.node.close(Duration::from_millis(1)).ok();
    }

    pub fn restart_relay(&self, host: usize, away: Duration) {
        let relays = &mut self.relays.lock().unwrap();
        relays[host].close(Duration::from_millis(1)).ok();
        std::thread::sleep(away);
        relays[host] = relay(self.panel, host);
    }

    fn of(&self, host: usize) -> Life {
        self.programs.lock().unwrap()[host].clone()
    }

    fn is_over(&self, host: usize, life: &Life) -> bool {
        self.of(host).number != life.number
    }

    /// No message came that nobody waited for: each was received once.
    pub fn nothing_is_left(&self) {
        for host in 0..HOSTS {
            let node = self.of(host).node;
            let left: Vec<_> = (0..HOSTS)
                .filter(|from| *from != host)
                .filter_map(|from| {
                    let endpoint = node.endpoint(receiving(from)).expect("it was closed");
                    let more = endpoint.receive(Selector::ANY, vec![0; BYTES[3]]).expect("room");
                    more.wait(Duration::from_millis(50))
                        .ok()
                        .map(|got| (from, got.completion.match_bits))
                })
                .collect();
            assert!(left.is_empty(), "host {host} has messages that nobody waited for: {left:?}");
        }
    }
}

fn start(panel: &Panel, host: usize, node: NodeBuilder) -> Node {
    let interfaces = (0..INTERFACES).map(interface_name).collect();
    let auto = AutoLinks { want: Want::Packet, interfaces, memory: false, ..AutoLinks::default() };
    let node = node.auto_links(auto).board(Board::Thread).unreachable_after(LONG);
    panel.on(host, || node.start()).expect("root may")
}

/// What `emp relay` runs.
fn relay(panel: &Panel, host: usize) -> Node {
    start(panel, host, Node::builder().relay(true))
}

/// The endpoint that takes what a host sends.
fn receiving(from: usize) -> u16 {
    10 + from as u16
}

/// Sends messages one after the other, each received and compared, until it is to stop.
pub fn talk((from, to): (usize, usize), lives: &Lives<'_>, stop: &AtomicBool, seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut draw = Draw(seed ^ ((from * HOSTS + to) as u64) << 32);
    let mut number = ((from * HOSTS + to) as u64) << 32;
    while !stop.load(Ordering::Relaxed) {
        let (sender, receiver) = (lives.of(from), lives.of(to));
        let over = || lives.is_over(from, &sender) || lives.is_over(to, &receiver);
        let ends = (sender.node.endpoint(20 + to as u16), receiver.node.endpoint(receiving(from)));
        let (Ok(out), Ok(into)) = ends else {
            assert!(over(), "{from} to {to}: no endpoint on a node that is there");
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            let bytes = BYTES[draw.below(BYTES.len() as u64) as usize];
            let began = Instant::now();
            match one((&out, &into), number, bytes, &over) {
                Ok(()) => tally.messages += 1,
                Err(why) => {
                    assert!(over(), "{from} to {to}, message {number:x} of {bytes} bytes: {why}");
                    tally.cut_short += 1;
                    break;
                }
            }
            tally.longest = tally.longest.max(began.elapsed());
            std::thread::sleep(REST);
        }
    }
    tally
}

/// One message. An error says how it ended.
fn one(
    (out, into): (&Endpoint, &Endpoint),
    number: u64,
    bytes: usize,
    over: &impl Fn() -> bool,
) -> Result<(), String> {
    let receive = into.receive(Selector::bits(number), vec![0; bytes]);
    let receive = receive.map_err(|error| format!("receive: {error}"))?;
    let send = out.send(into.address(), number, pattern(bytes, number));
    let send = send.map_err(|error| format!("send: {error}"))?;
    wait(send, over).map_err(|why| format!("the send {why}"))?;
    let received = wait(receive, over).map_err(|why| format!("the receive {why}"))?;
    match received == pattern(bytes, number) {
        true => Ok(()),
        // No restart explains that.
        false => panic!("message {number:x} of {bytes} bytes is not as it was sent"),
    }
}

fn wait<B: Send + 'static>(mut request: Request<B>, over: &impl Fn() -> bool) -> Result<B, String> {
    let start = Instant::now();
    loop {
        request = match request.wait(GLANCE) {
            Ok(finished) => return Ok(finished.buffer),
            Err(WaitError::Failed(failed)) => {
                return Err(format!("ended: {}", failed.error));
            }
            Err(WaitError::TimedOut(_)) if over() => return Err("is of a life that is over".into()),
            Err(WaitError::TimedOut(_)) if start.elapsed() > LONG => return Err("is stuck".into()),
            Err(WaitError::TimedOut(request)) => request,
        };
    }
}
