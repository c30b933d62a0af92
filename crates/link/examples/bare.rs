//! What the bare links cost, without any protocol: 32-byte ping-pong and a stream of full frames
//! between two network namespaces on a virtual cable, two threads that spin on a core each.
//!
//! `cargo run --release -p emp-link --example bare [packet|xdp|udp|all] [runs] [ring bytes]`, as root.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use emp_link::{
    Link, LinkAddress, PacketLink, PacketOptions, TxFrame, UdpLink, UdpOptions, XdpLink, XdpOptions,
};

use emp_testing::lab::{INTERFACE, Lab};

/// Round trips between two looks at the clock: a look costs some 25 ns.
const LAP: usize = 10;
/// Round trips of one ping-pong run: some 50 ms, short enough that many runs find a quiet moment.
const ROUNDS: usize = 30_000;
/// Time for one stream run.
const STREAM_TIME: Duration = Duration::from_millis(200);
/// Longest that a run may take before its frames count as lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// Frames of a train: as many of 1472 bytes as fit into one segmented datagram.
const TRAIN: usize = 44;
const TAGS: [u16; 2] = [1, 2];

type Pair = [Box<dyn Link>; 2];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let which = arguments.next().unwrap_or_else(|| "all".into());
    let runs = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(20);
    let ring_bytes = arguments.next().and_then(|text| text.parse().ok());
    let Some(lab) = Lab::build(1500) else { return };
    if ["packet", "all"].contains(&which.as_str()) {
        measure("packet", runs, || packet_pair(&lab, ring_bytes));
    }
    if ["xdp", "all"].contains(&which.as_str()) {
        measure("xdp", runs, || xdp_pair(&lab));
    }
    if ["udp", "all"].contains(&which.as_str()) {
        measure("udp", runs, || udp_pair(&lab));
    }
}

fn measure(name: &str, runs: usize, open: impl Fn() -> Pair) {
    let mut medians: Vec<f64> = (0..runs).map(|_| ping_pong(open())).collect();
    medians.sort_by(f64::total_cmp);
    let middle = medians[medians.len() / 2];
    println!("{name}: 32 B one way {:.2} µs best run's median, {middle:.2} middle", medians[0]);
    let mut rates: Vec<(f64, f64)> = (0..runs.min(10)).map(|_| stream(open())).collect();
    rates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (best, middle) = (rates[0], rates[rates.len() / 2]);
    println!(
        "{name}: stream {:.1} Gb/s best ({:.0}% arrived), {:.1} middle",
        best.0,
        best.1 * 100.0,
        middle.0
    );
}

fn packet_pair(lab: &Lab, ring_bytes: Option<usize>) -> Pair {
    [0, 1].map(|side| -> Box<dyn Link> {
        let options = PacketOptions { ring_bytes, ..PacketOptions::new(INTERFACE, TAGS[side]) };
        Box::new(lab.inside(side, || PacketLink::open(&options)).expect("root opens it"))
    })
}

fn xdp_pair(lab: &Lab) -> Pair {
    [0, 1].map(|side| -> Box<dyn Link> {
        let options = XdpOptions::new(INTERFACE, TAGS[side]);
        Box::new(lab.inside(side, || XdpLink::open(&options)).expect("root opens it"))
    })
}

fn udp_pair(lab: &Lab) -> Pair {
    [0, 1].map(|side| -> Box<dyn Link> {
        let ip = |side| IpAddr::from([10, 77, 0, side as u8 + 1]);
        let mut options = UdpOptions::new(TAGS[side]);
        options.bind = Some(ip(side));
        options.peers = vec![SocketAddr::new(ip(1 - side), options.port)];
        Box::new(lab.inside(side, || UdpLink::open(&options)).expect("anyone opens it"))
    })
}

fn pin(core: usize) {
    // SAFETY: all-zero is an empty set; the set is live and of the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

fn frame(bytes: usize, tag: u16) -> Vec<u8> {
    let mut frame = vec![0x24; bytes];
    // Nothing behind the header that goes beyond a datagram: a long frame would begin there.
    frame[2..4].fill(0);
    frame[4..6].copy_from_slice(&tag.to_be_bytes());
    frame
}

/// Waits, spinning, for one frame. False if it does not come.
fn spin(link: &mut dyn Link) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..1000 {
            if link.receive(1, &mut |_, _| {}) > 0 {
                return true;
            }
        }
        if start.elapsed() > PATIENCE {
            return false;
        }
    }
}

/// The median of half a round trip, in microseconds.
fn ping_pong([mut a, mut b]: Pair) -> f64 {
    let addresses = [a.capabilities().address, b.capabilities().address];
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            let pong = frame(32, TAGS[0]);
            for _ in 0..ROUNDS {
                if !spin(&mut *b) {
                    return;
                }
                b.send(&[TxFrame { to: addresses[0], parts: &[IoSlice::new(&pong)] }]);
            }
        });
        pin(0);
        let ping = frame(32, TAGS[1]);
        let mut times = Vec::with_capacity(ROUNDS / LAP);
        for _ in 0..ROUNDS / LAP {
            let start = Instant::now();
            for _ in 0..LAP {
                a.send(&[TxFrame { to: addresses[1], parts: &[IoSlice::new(&ping)] }]);
                if !spin(&mut *a) {
                    return f64::NAN;
                }
            }
            times.push(start.elapsed());
        }
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6 / (2 * LAP) as f64
    })
}

/// Gigabits of payload per second that arrived, and the part of the frames that did.
fn stream([mut a, mut b]: Pair) -> (f64, f64) {
    let to = b.capabilities().address;
    let bytes = a.capabilities().frame_bytes_max;
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            while !stop.load(Ordering::Relaxed) {
                let mut more = 0;
                b.receive(64, &mut |frame, _: &LinkAddress| more += frame.len() as u64);
                received.fetch_add(more, Ordering::Relaxed);
            }
        });
        pin(0);
        let (head, body) = (frame(32, TAGS[1]), vec![7; bytes - 32]);
        let parts = [IoSlice::new(&head), IoSlice::new(&body)];
        let batch = [TxFrame { to, parts: &parts }; TRAIN];
        let start = Instant::now();
        while start.elapsed() < STREAM_TIME {
            a.send(&batch);
        }
        let seconds = start.elapsed().as_secs_f64();
        std::thread::sleep(Duration::from_millis(20));
        stop.store(true, Ordering::Relaxed);
        let received = received.load(Ordering::Relaxed) as f64;
        let sent = a.statistics().bytes_sent as f64;
        (received * 8.0 / seconds / 1e9, received / sent)
    })
}
