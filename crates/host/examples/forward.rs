//! What a relay costs beside receiving and sending a frame without any protocol. Three hosts in a line; the first sends frames with a list of
//! one hop as fast as it can, the second sends them on, as a relay or as they are.
//!
//! `forward load INTERFACE RELAY-MAC TARGET-MAC SECONDS` on the first, `forward relay|bare IN OUT TARGET-MAC FRAMES` on the second, which says
//! how many it has sent on, and in how much time of its processor each.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use emp_host::link::{Link, PacketLink, PacketOptions, TxFrame};
use emp_host::{AutoLinks, Board, Counter, LinkAddress, Node, NodeId, Want};
use emp_wire::{RELAY_HEAD_BYTES, RelayHead, RelayHop, RelayUse};

/// Bytes of each frame: as long as the MTU of 1500 lets them be.
const FRAME_BYTES: usize = 1_500;

/// Frames that are received, and sent, at a time.
const BATCH: usize = 32;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["load", interface, relay, target, seconds] => {
            load(interface, mac(relay), mac(target), seconds.parse().expect("seconds"));
        }
        ["bare", from, to, target, frames] => {
            let before = processor_time();
            let frames = bare(from, to, mac(target), frames.parse().expect("frames"));
            tell("bare", frames, before);
        }
        ["relay", from, to, _, frames] => {
            let before = processor_time();
            let frames = relay(from, to, frames.parse().expect("frames"));
            tell("relay", frames, before);
        }
        _ => panic!("see this program's first lines"),
    }
}

/// Who relays.
fn relay_id() -> NodeId {
    NodeId::from_name("relay")
}

fn mac(text: &str) -> LinkAddress {
    let bytes: Vec<u8> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("a MAC")).collect();
    LinkAddress::mac(bytes.try_into().expect("six bytes"))
}

fn open(interface: &str, tag: u16) -> PacketLink {
    PacketLink::open(&PacketOptions::new(interface, tag)).expect("it may send raw frames")
}

/// Sends frames to the relay, which are for the target.
fn load(interface: &str, relay: LinkAddress, target: LinkAddress, seconds: u64) {
    let mut link = open(interface, 9);
    let hop = RelayHop { tag: 7, link: 1, address: target }.emit().expect("a hop");
    let mut frame = vec![0; FRAME_BYTES];
    let head = RelayHead {
        usage: RelayUse::Forward,
        length: (FRAME_BYTES - RELAY_HEAD_BYTES) as u16,
        destination_tag: relay_id().destination_tag(),
        source_tag: 9,
        place: 0,
        hops: 1,
        smallest: FRAME_BYTES as u16,
    };
    let mut start = [0; RELAY_HEAD_BYTES];
    head.emit(&mut start);
    frame[..RELAY_HEAD_BYTES].copy_from_slice(&start);
    frame[RELAY_HEAD_BYTES..][..hop.len()].copy_from_slice(&hop);
    // The frame of the ends: a header of version 1.
    frame[RELAY_HEAD_BYTES + hop.len()] = 0x20;
    let parts = [IoSlice::new(&frame)];
    let batch: Vec<TxFrame<'_>> =
        (0..BATCH).map(|_| TxFrame { to: relay, parts: &parts }).collect();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        if link.send(&batch) == 0 {
            std::thread::yield_now();
        }
    }
}

/// Sends so many frames on as they are.
fn bare(from: &str, to: &str, target: LinkAddress, most: u64) -> u64 {
    let (mut from, mut to) = (open(from, relay_id().destination_tag()), open(to, 7));
    let mut frames = 0;
    let mut batch: Vec<Vec<u8>> = Vec::new();
    while frames < most {
        let mut room = std::mem::take(&mut batch);
        let mut count = 0;
        from.receive(BATCH, &mut |frame, _| {
            if count == room.len() {
                room.push(Vec::with_capacity(FRAME_BYTES));
            }
            room[count].clear();
            room[count].extend_from_slice(frame);
            count += 1;
        });
        let parts: Vec<[IoSlice<'_>; 1]> =
            room[..count].iter().map(|frame| [IoSlice::new(frame)]).collect();
        let out: Vec<TxFrame<'_>> =
            parts.iter().map(|parts| TxFrame { to: target, parts }).collect();
        frames += to.send(&out) as u64;
        batch = room;
    }
    frames
}

/// Sends so many frames on as their list says.
fn relay(from: &str, to: &str, most: u64) -> u64 {
    let interfaces = vec![from.to_owned(), to.to_owned()];
    let auto = AutoLinks { want: Want::Packet, interfaces, memory: false, ..AutoLinks::default() };
    let node = Node::builder().node_id(relay_id()).relay(true).auto_links(auto);
    let node = node.board(Board::Thread).start().expect("it may send raw frames");
    let relayed = || node.counters().get(Counter::Relayed);
    while relayed() < most {
        std::thread::sleep(Duration::from_millis(1));
    }
    relayed()
}

/// Of all threads of this process, in it and in the kernel for it.
fn processor_time() -> [Duration; 2] {
    // SAFETY: all fields are integers, for which zero is a value; the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let span = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    [span(usage.ru_utime), span(usage.ru_stime)]
}

fn tell(who: &str, frames: u64, before: [Duration; 2]) {
    let now = processor_time();
    let each = |at: usize| (now[at] - before[at]).as_nanos() as f64 / frames as f64;
    println!(
        "{who}: {frames} frames, {:.0} ns each, {:.0} of them in the kernel",
        each(0) + each(1),
        each(1)
    );
}
