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
    for train in 1..=u64::from(DOUBTS_MAX) {
        assert_eq!(a.send(&[TxFrame { to, parts: &parts }; 11]), 11);
        assert_eq!(a.capabilities().segmentation, train < u64::from(DOUBTS_MAX));
        let counts = a.statistics();
        assert_eq!((counts.frames_sent, counts.system_errors), (11 * train, train), "{counts:?}");
    }
    assert_eq!(a.send(&[TxFrame { to, parts: &parts }; 11]), 11);
    assert_eq!(a.statistics().system_errors, u64::from(DOUBTS_MAX), "no more is tried");
    let mut got = 0;
    while b.wait(Some(Duration::from_millis(100))) {
        got += b.receive(64, &mut |bytes, _| assert_eq!(bytes, frame));
    }
    assert_eq!(got, 11 * (1 + DOUBTS_MAX as usize));
}

/// The kernel says the same of an address that cannot be as of a device that cannot segment.
#[test]
fn trains_to_nowhere_do_not_end_segmentation() {
    let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let open = || UdpLink::open(&UdpOptions { bind, port: 0, ..UdpOptions::new(1) });
    let (mut a, b) = (open().expect("anyone may"), open().expect("anyone may"));
    let frame = [0x24, 0, 0, 0, 0, 1, 0, 0];
    let parts = [IoSlice::new(&frame)];
    let nowhere = LinkAddress::udp((Ipv4Addr::LOCALHOST, 0).into());
    for _ in 0..2 * DOUBTS_MAX {
        for to in [nowhere, b.capabilities().address] {
            assert_eq!(a.send(&[TxFrame { to, parts: &parts }; 4]), 4);
        }
    }
    assert!(a.capabilities().segmentation);
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
