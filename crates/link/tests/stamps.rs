//! Links whose kernel stamps what it receives tell for how long a frame had been there before anyone looked.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use emp_link::{
    FrameSink, Link, LinkAddress, PacketLink, PacketOptions, TxFrame, UdpLink, UdpOptions,
};
use emp_testing::lab::{INTERFACE, Lab};

const TAGS: [u16; 2] = [0x0A0B, 0x1C1D];
/// Long against anything but the pauses of a machine under load.
const PAUSE: Duration = Duration::from_millis(30);
const PATIENCE: Duration = Duration::from_secs(5);

/// Notes what it is told of each frame.
struct Asks {
    asks: bool,
    waited: Option<Duration>,
    frames: usize,
}

impl FrameSink for Asks {
    fn frame(&mut self, _: &[u8], _: &LinkAddress) {
        self.frames += 1;
    }

    fn asks_what_waited(&self) -> bool {
        self.asks
    }

    fn waited(&mut self, time: Duration) {
        self.waited = Some(time);
    }
}

/// Sends a frame of so many bytes after one pause, looks after another, and answers with what it was told and how long the frame can have been there.
fn exchange(
    [a, b]: [&mut dyn Link; 2],
    bytes: usize,
    pauses: [Duration; 2],
    asks: bool,
) -> (Option<Duration>, Duration) {
    let mut frame = vec![9; bytes];
    frame[1] = 0;
    frame[2..4].copy_from_slice(&(bytes as u16 - 28).to_be_bytes());
    frame[4..6].copy_from_slice(&TAGS[1].to_be_bytes());
    std::thread::sleep(pauses[0]);
    let sent = Instant::now();
    let to = b.capabilities().address;
    assert_eq!(a.send(&[TxFrame { to, parts: &[IoSlice::new(&frame)] }]), 1);
    std::thread::sleep(pauses[1]);
    let mut sink = Asks { asks, waited: None, frames: 0 };
    while sink.frames == 0 {
        assert!(sent.elapsed() < PATIENCE, "the frame never came");
        b.receive_into(8, &mut sink);
    }
    (sink.waited, sent.elapsed())
}

fn check(mut ends: [Box<dyn Link>; 2]) {
    let mut go = |bytes, pauses, asks| {
        let [a, b] = &mut ends;
        exchange([&mut **a, &mut **b], bytes, pauses, asks)
    };
    let none = Duration::ZERO;
    // A socket's stamps begin some time after the first question; until then its frames seem to have come just now.
    let start = Instant::now();
    while go(64, [none, PAUSE], true).0.is_none_or(|waited| waited < PAUSE) {
        assert!(start.elapsed() < PATIENCE, "no frame is stamped");
    }
    for bytes in [64, 1_400] {
        let (waited, at_most) = go(bytes, [none, PAUSE], true);
        let waited = waited.expect("the kernel has stamped it");
        assert!((PAUSE..=at_most).contains(&waited), "{waited:?} of {at_most:?}");
        let (waited, at_most) = go(bytes, [PAUSE, none], true);
        let waited = waited.expect("the kernel has stamped it");
        assert!(waited <= at_most, "{waited:?}, and it was sent {at_most:?} ago");
        assert_eq!(go(bytes, [none, PAUSE], false).0, None, "nobody asked");
    }
}

#[test]
fn udp_tells_how_long_a_frame_waited() {
    let open = |tag| {
        let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let options = UdpOptions { bind, port: 0, mtu: Some(1500), ..UdpOptions::new(tag) };
        UdpLink::open(&options).expect("anyone may")
    };
    check(TAGS.map(|tag| Box::new(open(tag)) as Box<dyn Link>));
}

#[test]
fn packet_tells_how_long_a_frame_waited() {
    let Some(lab) = Lab::build(1500) else { return };
    let open = |host: usize| {
        lab.inside(host, || {
            PacketLink::open(&PacketOptions::new(INTERFACE, TAGS[host])).expect("root opens it")
        })
    };
    check([0, 1].map(|host| Box::new(open(host)) as Box<dyn Link>));
}
