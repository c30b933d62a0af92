//! What cannot be provoked from outside: a device that does not segment.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr};

use super::*;

#[test]
fn a_device_that_cannot_segment_gets_single_datagrams() {
    let open = || {
        let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let options = UdpOptions { bind, port: 0, mtu: Some(1500), ..UdpOptions::new(1) };
        UdpLink::open(&options).expect("anyone may")
    };
    let (mut a, mut b) = (open(), open());
    assert!(a.capabilities().segmentation);
    // Without checksums the kernel refuses to segment, as it does for cards that cannot do them.
    system::set_option(a.socket.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, &1)
        .expect("anyone may");
    let frame = [0x24, 0, 0, 0, 0, 1, 0, 0];
    let to = b.capabilities().address;
    let parts = [IoSlice::new(&frame)];
    assert_eq!(a.send(&[TxFrame { to, parts: &parts }; 44]), 44);
    assert!(!a.capabilities().segmentation);
    let counts = a.statistics();
    assert_eq!((counts.frames_sent, counts.system_errors), (44, 1), "{counts:?}");
    let mut got = 0;
    while b.wait(Some(Duration::from_millis(100))) {
        got += b.receive(64, &mut |bytes, _| assert_eq!(bytes, frame));
    }
    assert_eq!(got, 44);
}

#[test]
fn frames_fetched_together_are_all_handed_up() {
    let open = || {
        let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        UdpLink::open(&UdpOptions { bind, port: 0, ..UdpOptions::new(1) }).expect("anyone may")
    };
    let (mut a, mut b) = (open(), open());
    let to = b.capabilities().address;
    for number in 0..100u8 {
        let frame = [0x24, 0, 0, 0, 0, 1, number];
        a.send(&[TxFrame { to, parts: &[IoSlice::new(&frame)] }]);
    }
    let mut got = Vec::new();
    while b.wait(Some(Duration::from_millis(50))) {
        b.receive(3, &mut |bytes, _| got.push(bytes[6]));
    }
    assert_eq!(got, (0..100).collect::<Vec<u8>>());
    // Two fetches of one, then eight to a call, plus what it takes to see the end.
    let calls = b.statistics().receive_calls;
    assert!(calls <= 20, "{calls} calls for 100 datagrams");
}
