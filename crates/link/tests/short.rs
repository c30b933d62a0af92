//! Short frames between two machines while addresses and cables change: sockets that lead to a peer are right only for a while.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use emp_link::{Link, LinkAddress, TxFrame, UdpLink, UdpOptions};

use emp_testing::lab::{INTERFACE, Lab};

const TAG: u16 = 1;
const HEAD_BYTES: usize = 32;
/// Frames after which a peer has its own socket, generously.
const MANY: u8 = 60;
const LIMIT: Duration = Duration::from_secs(10);

fn open(lab: &Lab, side: usize, bind: Option<IpAddr>) -> UdpLink {
    let options = UdpOptions { bind, port: 0, ..UdpOptions::new(TAG) };
    lab.inside(side, || UdpLink::open(&options)).expect("anyone may")
}

fn frame(number: u8) -> [u8; 100] {
    let mut frame = [number; 100];
    frame[..4].copy_from_slice(&[0x24, 0, 0, (100 - HEAD_BYTES) as u8]);
    frame[4..6].copy_from_slice(&TAG.to_be_bytes());
    frame
}

/// Sends in the sender's namespace, as the threads of a node that was started there do.
fn send(lab: &Lab, from: &mut UdpLink, to: LinkAddress, number: u8) {
    let frame = frame(number);
    lab.inside(0, || from.send(&[TxFrame { to, parts: &[IoSlice::new(&frame)] }]));
}

/// Where a frame with this number comes from, if it comes soon.
fn comes(link: &mut UdpLink, number: u8) -> Option<LinkAddress> {
    let mut source = None;
    while source.is_none() && link.wait(Some(Duration::from_millis(100))) {
        link.receive(64, &mut |got, from| {
            if got == frame(number) {
                source = Some(*from);
            }
        });
    }
    source
}

/// Sends until a frame comes from there.
fn comes_from(lab: &Lab, (a, b): (&mut UdpLink, &mut UdpLink), to: LinkAddress, ip: IpAddr) {
    let own = LinkAddress::udp(SocketAddr::new(ip, a.local_address().port()));
    let start = Instant::now();
    let mut number = 0u8;
    loop {
        number = number.wrapping_add(1);
        send(lab, a, to, number);
        let came = comes(b, number);
        if came == Some(own) {
            return;
        }
        assert!(start.elapsed() < LIMIT, "{came:?} instead of {own:?}");
    }
}

/// A link on all addresses sends from the one that the kernel would choose, also when that is another one than before.
#[test]
fn frames_leave_from_the_address_that_there_is_now() {
    let Some(lab) = Lab::build(1500) else { return };
    let (mut a, mut b) = (open(&lab, 0, None), open(&lab, 1, None));
    let to = LinkAddress::udp(SocketAddr::from(([10, 77, 0, 2], b.local_address().port())));
    let first = IpAddr::from([10, 77, 0, 1]);
    for _ in 0..MANY {
        comes_from(&lab, (&mut a, &mut b), to, first);
    }
    lab.ip(0, &["address", "add", "10.77.0.9/24", "dev", INTERFACE]);
    comes_from(&lab, (&mut a, &mut b), to, first);
    lab.ip(0, &["address", "del", "10.77.0.1/24", "dev", INTERFACE]);
    // The kernel drops the second address of a subnet with the first.
    lab.ip(0, &["address", "replace", "10.77.0.9/24", "dev", INTERFACE]);
    comes_from(&lab, (&mut a, &mut b), to, [10, 77, 0, 9].into());
    for _ in 0..MANY {
        comes_from(&lab, (&mut a, &mut b), to, [10, 77, 0, 9].into());
    }
    // A second address of a subnet, which the kernel reaches itself by the first.
    lab.ip(0, &["address", "add", "10.77.0.5/24", "dev", INTERFACE]);
    let mut second = open(&lab, 0, Some([10, 77, 0, 5].into()));
    for _ in 0..MANY {
        comes_from(&lab, (&mut second, &mut b), to, [10, 77, 0, 5].into());
    }
    // A route that prefers another address of this machine.
    lab.ip(0, &["address", "add", "10.77.0.7/32", "dev", "lo"]);
    lab.ip(0, &["route", "add", "10.77.0.2/32", "dev", INTERFACE, "src", "10.77.0.7"]);
    comes_from(&lab, (&mut a, &mut b), to, [10, 77, 0, 7].into());
}

/// By either version of IP, a cable that is pulled for a while costs what was sent meanwhile.
#[test]
fn frames_arrive_again_when_the_cable_is_back() {
    for (bind, place) in [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2"), ("::", "fd77::2")] {
        let Some(lab) = Lab::build(1500) else { return };
        let [bind, place]: [IpAddr; 2] = [bind, place].map(|ip| ip.parse().expect("an address"));
        let (mut a, mut b) = (open(&lab, 0, Some(bind)), open(&lab, 1, Some(place)));
        let to = b.capabilities().address;
        let own: IpAddr = if bind.is_ipv4() { bind } else { "fd77::1".parse().expect("one") };
        for _ in 0..MANY {
            comes_from(&lab, (&mut a, &mut b), to, own);
        }
        lab.ip(0, &["link", "set", INTERFACE, "down"]);
        for number in 0..MANY {
            send(&lab, &mut a, to, number);
        }
        lab.ip(0, &["link", "set", INTERFACE, "up"]);
        if own.is_ipv6() {
            // The kernel takes them with the cable.
            lab.ip(0, &["address", "replace", "fd77::1/64", "dev", INTERFACE, "nodad"]);
        }
        for _ in 0..MANY {
            comes_from(&lab, (&mut a, &mut b), to, own);
        }
    }
}

/// An MTU that falls has frames that were made to fit before sent in fragments, not refused.
#[test]
fn full_frames_get_through_an_mtu_that_fell() {
    let Some(lab) = Lab::build(1500) else { return };
    let bind = |side: u8| Some(IpAddr::from([10, 77, 0, side]));
    let (mut a, mut b) = (open(&lab, 0, bind(1)), open(&lab, 1, bind(2)));
    let to = b.capabilities().address;
    let mut full = vec![7; 1472];
    full[..4].copy_from_slice(&[0x24, 0, 5, 160]);
    full[4..6].copy_from_slice(&TAG.to_be_bytes());
    for mtu in ["1500", "1200", "1500"] {
        for side in 0..2 {
            lab.ip(side, &["link", "set", INTERFACE, "mtu", mtu]);
        }
        for number in 0..MANY {
            lab.inside(0, || a.send(&[TxFrame { to, parts: &[IoSlice::new(&full)] }]));
            let mut came = 0;
            while came == 0 && b.wait(Some(LIMIT)) {
                came += b.receive(64, &mut |got, _| assert_eq!(got, full));
            }
            assert_eq!(came, 1, "frame {number} at MTU {mtu}");
        }
    }
    assert_eq!(a.statistics().system_errors, 0);
}
