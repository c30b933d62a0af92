//! Long frames over a cable whose MTU falls, and to a neighbour that does not answer.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use emp_link::{Link, LinkAddress, TxFrame, UdpLink, UdpOptions};

use emp_testing::lab::{INTERFACE, Lab};

const TAG: u16 = 1;
const HEAD_BYTES: usize = 32;
/// A long frame, in bytes.
const LONG: usize = 61_472;

fn open(lab: &Lab, side: usize) -> UdpLink {
    let bind = Some(IpAddr::from([10, 77, 0, side as u8 + 1]));
    let options = UdpOptions { bind, port: 0, ..UdpOptions::new(TAG) };
    lab.inside(side, || UdpLink::open(&options)).expect("anyone may")
}

fn frame(number: u8, bytes: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 256) as u8 ^ number).collect();
    frame[..2].copy_from_slice(&[0x24, 0]);
    frame[2..4].copy_from_slice(&((bytes - HEAD_BYTES) as u16).to_be_bytes());
    frame[4..6].copy_from_slice(&TAG.to_be_bytes());
    frame
}

fn send(link: &mut UdpLink, to: LinkAddress, frame: &[u8]) -> bool {
    let (head, body) = frame.split_at(HEAD_BYTES);
    let parts = [IoSlice::new(head), IoSlice::new(body)];
    link.send(&[TxFrame { to, parts: &parts }]) == 1
}

/// True if this frame, and no other that is as long, comes.
fn comes(link: &mut UdpLink, frame: &[u8]) -> bool {
    let mut lengths = Vec::new();
    while link.wait(Some(Duration::from_millis(100))) {
        link.receive(64, &mut |got, _| {
            assert!(got.len() < frame.len() || got == frame);
            lengths.push(got.len());
        });
    }
    lengths.iter().filter(|length| **length == frame.len()).count() == 1
}

#[test]
fn an_mtu_that_falls_cuts_long_frames_shorter() {
    let Some(lab) = Lab::build(1500) else { return };
    let (mut a, mut b) = (open(&lab, 0), open(&lab, 1));
    let to = b.capabilities().address;
    let long_bytes = |link: &UdpLink| link.capabilities().long_frame_bytes;
    assert_eq!(long_bytes(&a), LONG);
    let set = |mtu: &str| {
        for side in 0..2 {
            lab.ip(side, &["link", "set", INTERFACE, "mtu", mtu]);
        }
    };
    // What is promised once the link has looked: 64 datagrams of 972 bytes are enough, and of 872 not.
    for (number, (mtu, promised)) in
        (1u8..).zip([("1500", LONG), ("1000", LONG), ("900", 0), ("1400", LONG)])
    {
        set(mtu);
        // Before it has looked, and after.
        let first = frame(2 * number, LONG);
        assert!(send(&mut a, to, &first));
        assert!(comes(&mut b, &first), "MTU {mtu}, not yet known");
        a.condition();
        assert_eq!(long_bytes(&a), promised, "MTU {mtu}");
        let errors = a.statistics().system_errors;
        let second = frame(2 * number + 1, LONG - 1);
        assert!(send(&mut a, to, &second));
        assert!(comes(&mut b, &second), "MTU {mtu}");
        assert_eq!(a.statistics().system_errors, errors, "MTU {mtu}");
    }
}

/// What leaves past IP arrives as what went through it: at an MTU that cuts it, from an address that is any, and both ways.
#[test]
fn long_frames_leave_past_ip() {
    for mtu in [1500, 9000] {
        let Some(lab) = Lab::build(mtu) else { return };
        let any = UdpOptions { bind: None, port: 0, ..UdpOptions::new(TAG) };
        let a = lab.inside(0, || UdpLink::open(&any)).expect("anyone may");
        let at = |side: u8, link: &UdpLink| {
            LinkAddress::udp(([10, 77, 0, side + 1], link.local_address().port()).into())
        };
        let mut links = [a, open(&lab, 1)];
        let to = [at(1, &links[1]), at(0, &links[0])];
        // A short frame first, as a node greets first: that finds the neighbour.
        for side in 0..2 {
            assert!(send(&mut links[side], to[side], &frame(1, 64)));
            assert!(comes(&mut links[1 - side], &frame(1, 64)));
        }
        for (number, bytes) in (2..).zip([10_000, 8192, 40_000, LONG - 1, LONG]) {
            for side in 0..2 {
                let long = frame(number, bytes);
                assert!(send(&mut links[side], to[side], &long));
                assert!(comes(&mut links[1 - side], &long), "{bytes} bytes at MTU {mtu}");
            }
        }
        let lent = frame(9, LONG);
        let parts = [IoSlice::new(&lent)];
        assert!(links[0].send_lent(&TxFrame { to: to[0], parts: &parts }));
        assert!(comes(&mut links[1], &lent));
        let counts = links.each_ref().map(Link::statistics);
        let past = counts.each_ref().map(|counts| (counts.frames_past_ip, counts.system_errors));
        // 8 KB are no long frame where the MTU is known to take them whole; of any address's MTU nothing is known.
        let whole = u64::from(mtu > 8192);
        assert_eq!(past, [(6, 0), (5 - whole, 0)], "{counts:?}");
    }
}

/// Neither through a process that may not, nor where it is not wanted, nor to who is no neighbour.
#[test]
fn what_may_not_leave_past_ip_leaves_through_it() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut b = open(&lab, 1);
    let bind = Some(IpAddr::from([10, 77, 0, 1]));
    let options = UdpOptions { bind, port: 0, raw: false, ..UdpOptions::new(TAG) };
    let mut a = lab.inside(0, || UdpLink::open(&options)).expect("anyone may");
    assert!(!a.capabilities().raw_sends);
    let (to, long) = (b.capabilities().address, frame(1, LONG));
    assert!(send(&mut a, to, &long) && comes(&mut b, &long));
    assert_eq!(a.statistics().frames_past_ip, 0);
    // A neighbour whose address nobody knows yet: the kernel asks for it as it sends.
    let mut a = open(&lab, 0);
    assert!(a.capabilities().raw_sends);
    lab.ip(0, &["neigh", "flush", "all"]);
    let mut b = open(&lab, 1);
    let to = b.capabilities().address;
    assert!(send(&mut a, to, &long) && comes(&mut b, &long));
    assert_eq!(a.statistics().frames_past_ip, 0);
    // Through a router, who is no neighbour: itself, to its other address.
    lab.ip(1, &["addr", "add", "10.78.0.1/32", "dev", "lo"]);
    lab.ip(0, &["route", "add", "10.78.0.1/32", "via", "10.77.0.2"]);
    let routed = UdpOptions { bind: Some([10, 78, 0, 1].into()), ..UdpOptions::new(TAG) };
    let mut behind = lab.inside(1, || UdpLink::open(&routed)).expect("anyone may");
    let to = behind.capabilities().address;
    for number in 1..3 {
        let long = frame(number, LONG);
        assert!(send(&mut a, to, &long) && comes(&mut behind, &long));
    }
    assert_eq!(a.statistics().frames_past_ip, 0);
}

/// A neighbour that has another card now is reached as soon as the kernel knows.
#[test]
fn a_neighbour_with_another_card_is_found_again() {
    let Some(lab) = Lab::build(1500) else { return };
    let (mut a, mut b) = (open(&lab, 0), open(&lab, 1));
    let to = b.capabilities().address;
    assert!(send(&mut a, to, &frame(1, 64)) && comes(&mut b, &frame(1, 64)));
    assert!(send(&mut a, to, &frame(2, LONG)) && comes(&mut b, &frame(2, LONG)));
    lab.ip(1, &["link", "set", INTERFACE, "address", "02:77:77:77:77:77"]);
    lab.ip(0, &["neigh", "flush", "all"]);
    let until = Instant::now() + Duration::from_secs(5);
    let mut number = 3;
    let past = loop {
        assert!(Instant::now() < until, "{:?}", a.statistics());
        assert!(send(&mut a, to, &frame(number, LONG)));
        if comes(&mut b, &frame(number, LONG)) {
            break a.statistics().frames_past_ip;
        }
        number += 1;
    };
    std::thread::sleep(Duration::from_millis(250));
    assert!(send(&mut a, to, &frame(1, LONG)) && comes(&mut b, &frame(1, LONG)));
    assert!(a.statistics().frames_past_ip > past, "{:?}", a.statistics());
}

/// Frames for a neighbour that is not there pile up in the kernel until the socket is full. The link says so, and goes on when there is room.
#[test]
fn a_full_socket_takes_no_long_frame_and_is_not_left_corked() {
    let Some(lab) = Lab::build(1500) else { return };
    // Room for more than a socket's buffer while the neighbour is looked for.
    let tables = "/proc/sys/net/ipv4/neigh/emp0/unres_qlen_bytes";
    lab.inside(0, || std::fs::write(tables, "100000000")).expect("root may");
    let (mut a, mut b) = (open(&lab, 0), open(&lab, 1));
    let nobody = LinkAddress::udp(SocketAddr::from(([10, 77, 0, 99], 9)));
    let long = frame(1, LONG);
    let most = 4096;
    let taken = (0..most).take_while(|_| send(&mut a, nobody, &long)).count();
    assert!((4..most).contains(&taken), "{taken} of {most} were taken");
    let counts = a.statistics();
    assert_eq!((counts.send_full, counts.frames_sent), (1, taken as u64), "{counts:?}");
    assert_eq!(counts.system_errors, 0, "{counts:?}");
    // Somebody takes them from the queue.
    lab.ip(
        0,
        &["neighbour", "replace", "10.77.0.99", "lladdr", "02:00:00:00:00:99", "dev", INTERFACE],
    );
    let to = b.capabilities().address;
    for number in 2..6 {
        let long = frame(number, LONG);
        assert!(send(&mut a, to, &long));
        assert!(comes(&mut b, &long), "after it was full");
    }
    assert_eq!(b.statistics().frames_received, 4, "nothing else comes");
}
