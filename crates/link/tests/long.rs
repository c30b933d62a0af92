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

/// A link on an address that may send past IP. `None`: the kernel is older than 6.2, or the device would have such frames segmented for it.
fn open_past_ip(lab: &Lab, side: usize, bind: Option<IpAddr>) -> Option<UdpLink> {
    let options = UdpOptions { bind, port: 0, past_ip: true, ..UdpOptions::new(TAG) };
    let link = lab.inside(side, || UdpLink::open(&options)).expect("anyone may");
    if !link.capabilities().past_ip {
        eprintln!("SKIPPED: this kernel sends no long frames past IP");
        return None;
    }
    Some(link)
}

fn own(side: usize) -> Option<IpAddr> {
    Some(IpAddr::from([10, 77, 0, side as u8 + 1]))
}

/// Sends the same frame twice, as the first may go by the UDP socket, and says how many left past IP.
fn send_twice(link: &mut UdpLink, to: LinkAddress, frame: &[u8]) -> u64 {
    let before = link.statistics().frames_past_ip;
    assert!(send(link, to, frame) && send(link, to, frame));
    link.statistics().frames_past_ip - before
}

/// How many frames come; each is this one.
fn come(link: &mut UdpLink, frame: &[u8]) -> usize {
    let mut count = 0;
    while count < 2 && link.wait(Some(Duration::from_millis(100))) {
        count += link.receive(64, &mut |got, _| assert!(got == frame));
    }
    count
}

/// What leaves past IP arrives as what went through it: at an MTU that cuts it, from an address that is any, and both ways.
#[test]
fn long_frames_leave_past_ip() {
    for mtu in [1500, 9000] {
        let Some(lab) = Lab::build(mtu) else { return };
        let (a, b) = (open_past_ip(&lab, 0, None), open_past_ip(&lab, 1, own(1)));
        let Some(mut links) = a.zip(b).map(|(a, b)| [a, b]) else { return };
        let at = |side: u8, link: &UdpLink| {
            LinkAddress::udp(([10, 77, 0, side + 1], link.local_address().port()).into())
        };
        let to = [at(1, &links[1]), at(0, &links[0])];
        // A short frame first, as a node greets first: that finds the neighbour.
        for side in 0..2 {
            assert!(send(&mut links[side], to[side], &frame(1, 64)));
            assert!(comes(&mut links[1 - side], &frame(1, 64)));
        }
        for (number, bytes) in (2..).zip([10_000, 9_216, 40_000, LONG - 1, LONG]) {
            for side in 0..2 {
                let long = frame(number, bytes);
                let past = send_twice(&mut links[side], to[side], &long);
                assert!((1..=2).contains(&past), "{past} of {bytes} bytes at MTU {mtu}");
                assert_eq!(come(&mut links[1 - side], &long), 2, "{bytes} bytes at MTU {mtu}");
            }
        }
        let lent = frame(9, LONG);
        let parts = [IoSlice::new(&lent)];
        let lend = |link: &mut UdpLink| link.send_lent(&TxFrame { to: to[0], parts: &parts });
        assert!(lend(&mut links[0]) && lend(&mut links[0]));
        assert_eq!(come(&mut links[1], &lent), 2);
        for counts in links.each_ref().map(Link::statistics) {
            assert_eq!(counts.system_errors, 0, "{counts:?}");
        }
    }
}

/// Not where it is not wanted, not to who is no neighbour, and not by frames that are too long for the interface now.
#[test]
fn what_may_not_leave_past_ip_leaves_through_it() {
    let Some(lab) = Lab::build(1500) else { return };
    let (mut a, mut b) = (open(&lab, 0), open(&lab, 1));
    assert!(!a.capabilities().past_ip);
    let (to, long) = (b.capabilities().address, frame(1, LONG));
    assert_eq!((send_twice(&mut a, to, &long), come(&mut b, &long)), (0, 2));
    let Some(mut a) = open_past_ip(&lab, 0, own(0)) else { return };
    lab.ip(0, &["link", "set", INTERFACE, "mtu", "1400"]);
    assert_eq!((send_twice(&mut a, to, &long), come(&mut b, &long)), (0, 2));
    lab.ip(0, &["link", "set", INTERFACE, "mtu", "1500"]);
    // Behind a router, who is no neighbour: the other host, with another address.
    lab.ip(1, &["addr", "add", "10.78.0.1/32", "dev", "lo"]);
    lab.ip(0, &["route", "add", "10.78.0.1/32", "via", "10.77.0.2"]);
    let routed = UdpOptions { bind: Some([10, 78, 0, 1].into()), ..UdpOptions::new(TAG) };
    let mut behind = lab.inside(1, || UdpLink::open(&routed)).expect("anyone may");
    let to = behind.capabilities().address;
    assert_eq!((send_twice(&mut a, to, &long), come(&mut behind, &long)), (0, 2));
}

/// A neighbour that has another card now is found by the kernel, as a frame goes by it now and then, although nobody else sends there.
#[test]
fn a_neighbour_with_another_card_is_found_again() {
    let Some(lab) = Lab::build(1500) else { return };
    // The kernel takes half a minute to doubt what it knows, and five seconds more to ask; here less.
    for (name, value) in [("base_reachable_time_ms", "200"), ("delay_first_probe_time", "0")] {
        let path = format!("/proc/sys/net/ipv4/neigh/{INTERFACE}/{name}");
        lab.inside(0, || std::fs::write(&path, value)).expect("root may");
    }
    let (a, b) = (open_past_ip(&lab, 0, own(0)), open_past_ip(&lab, 1, own(1)));
    let Some((mut a, mut b)) = a.zip(b) else { return };
    let to = b.capabilities().address;
    assert!(send(&mut a, to, &frame(1, 64)) && comes(&mut b, &frame(1, 64)));
    assert!(send_twice(&mut a, to, &frame(2, LONG)) > 0);
    assert_eq!(come(&mut b, &frame(2, LONG)), 2);
    lab.ip(1, &["link", "set", INTERFACE, "address", "02:77:77:77:77:77"]);
    let until = Instant::now() + Duration::from_secs(20);
    let mut number = 3u8;
    loop {
        assert!(Instant::now() < until, "{:?}", a.statistics());
        let past = send_twice(&mut a, to, &frame(number, LONG));
        if come(&mut b, &frame(number, LONG)) == 2 && past > 0 {
            break;
        }
        number = number.wrapping_add(1);
    }
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
