//! Opening links: errors say what to do, and what was asked for is what one gets.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use emp_link::{
    Link, LinkAddress, PacketLink, PacketOptions, ShmLink, ShmOptions, TxFrame, UdpLink,
    UdpOptions, interfaces,
};
use emp_testing::{Need, skip};

use emp_testing::lab::{INTERFACE, Lab};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn udp(port: u16) -> UdpOptions {
    UdpOptions { bind: Some(LOCAL), port, ..UdpOptions::new(1) }
}

#[test]
fn a_missing_interface_is_answered_with_those_there_are() {
    let error = PacketLink::open(&PacketOptions::new("nosuch0", 1)).err().expect("there is none");
    let text = error.to_string();
    assert!(text.contains("packet on nosuch0: no such interface"), "{text}");
    assert!(text.contains("lo (up"), "{text}");
    assert!(!error.privilege);
}

#[test]
fn a_missing_privilege_is_named() {
    if Lab::build(1500).is_none() {
        // An ordinary user: the error can be seen right here.
        let error = PacketLink::open(&PacketOptions::new("lo", 1)).err().expect("it is forbidden");
        assert!(error.privilege && error.advice.contains("CAP_NET_RAW"), "{error}");
        return;
    }
    // Root without the capability is as good as an ordinary user. Capabilities are a thread's own.
    let error = std::thread::spawn(|| {
        drop_capabilities();
        PacketLink::open(&PacketOptions::new("lo", 1)).err()
    });
    let error = error.join().expect("the thread ends").expect("it is forbidden");
    assert!(error.privilege && error.advice.contains("CAP_NET_RAW"), "{error}");
}

/// Takes all capabilities from the calling thread.
fn drop_capabilities() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    // Version 3 of the interface; thread 0 is the caller; two words each of effective, permitted
    // and inheritable capabilities, all off.
    let header = Header { version: 0x2008_0522, pid: 0 };
    let none = [0u32; 6];
    // SAFETY: both pointers are to live values of the layout that this version defines.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    assert_eq!(result, 0, "capset: {}", std::io::Error::last_os_error());
}

#[test]
fn an_interface_that_is_down_is_refused() {
    let Some(lab) = Lab::build(1500) else { return };
    lab.ip(0, &["link", "set", INTERFACE, "down"]);
    let open = || PacketLink::open(&PacketOptions::new(INTERFACE, 1)).err();
    let error = lab.inside(0, open).expect("it is down");
    assert!(error.advice.contains("ip link set emp0 up"), "{error}");
}

#[test]
fn the_packet_link_says_what_it_is() {
    let Some(lab) = Lab::build(9000) else { return };
    let (link, list) = lab.inside(0, || {
        (PacketLink::open(&PacketOptions::new(INTERFACE, 1)).expect("root opens it"), interfaces())
    });
    let list = list.expect("the list is readable");
    let own = list.iter().find(|one| one.name == INTERFACE).expect("it exists");
    assert!(own.usable_for_packet(), "{own:?}");
    assert!(own.addresses.contains(&IpAddr::from([10, 77, 0, 1])), "{own:?}");
    let capabilities = link.capabilities();
    assert_eq!(capabilities.frame_bytes_max, 9000);
    assert_eq!(capabilities.address, LinkAddress::mac(own.mac.expect("an Ethernet address")));
    assert!(capabilities.privileged && capabilities.broadcast && !capabilities.segmentation);
    assert_eq!(link.ring_slots(), 256);
    let small = PacketOptions { ring_bytes: Some(0), ..PacketOptions::new(INTERFACE, 1) };
    let small = lab.inside(0, || PacketLink::open(&small)).expect("root opens it");
    assert_eq!(small.ring_slots(), 4);
    drop(small);
    let usual = PacketOptions::new(INTERFACE, 1);
    let beside = PacketOptions { small_frames_only: true, ..usual };
    let beside = lab.inside(0, || PacketLink::open(&beside)).expect("root opens it");
    assert_eq!(beside.ring_slots(), 128, "half as many where long messages come by another link");
}

/// What is let go is closed by another thread; who opens again at once finds it gone, and its place in the group free.
#[test]
fn a_node_that_begins_again_at_once_is_in_the_group() {
    let Some(lab) = Lab::build(1500) else { return };
    let options = PacketOptions::new(INTERFACE, 9);
    for _ in 0..3 {
        let link = lab.inside(0, || PacketLink::open(&options)).expect("root opens it");
        assert!(link.is_grouped(), "the tag is still another's");
        emp_link::let_go(link);
    }
}

#[test]
fn another_ethertype_is_another_world() {
    let Some(lab) = Lab::build(1500) else { return };
    let open = |side, ethertype| {
        let options = PacketOptions { ethertype, ..PacketOptions::new(INTERFACE, 7) };
        lab.inside(side, || PacketLink::open(&options)).expect("root opens it")
    };
    let (mut a, mut b, mut c) = (open(0, 0x88B5), open(1, 0x88B5), open(1, 0x88B6));
    let frame = [0x24, 0, 0, 0, 0, 7, 0, 0];
    a.send(&[TxFrame { to: LinkAddress::EVERYONE, parts: &[IoSlice::new(&frame)] }]);
    assert!(b.wait(Some(Duration::from_secs(5))));
    assert_eq!(b.receive(9, &mut |got, _| assert_eq!(got, frame)), 1);
    assert_eq!(c.receive(9, &mut |_, _| ()), 0);
}

#[test]
fn a_taken_port_is_answered_with_advice() {
    let first = UdpLink::open(&udp(0)).expect("anyone may");
    let error = UdpLink::open(&udp(first.local_address().port())).err().expect("it is taken");
    assert!(error.advice.contains("0 for any"), "{error}");
}

#[test]
fn a_foreign_address_is_answered_with_the_interfaces() {
    // Documentation addresses (RFC 5737) are nobody's.
    let bind = Some(IpAddr::from([192, 0, 2, 1]));
    let error = UdpLink::open(&UdpOptions { bind, ..udp(0) }).err().expect("it is not ours");
    assert!(error.advice.contains("not an address of this machine"), "{error}");
}

#[test]
fn the_udp_link_finds_its_frame_size() {
    let size = |options: &UdpOptions| {
        UdpLink::open(options).expect("anyone may").capabilities().frame_bytes_max
    };
    assert_eq!(size(&UdpOptions { mtu: Some(1500), ..udp(0) }), 1472);
    assert_eq!(size(&UdpOptions { mtu: Some(9000), ..udp(0) }), 8972);
    // Of loopback's 65536 bytes, what the kernel puts into one datagram.
    assert_eq!(size(&udp(0)), 65_492);
    assert_eq!(size(&UdpOptions { bind: None, ..udp(0) }), 1472);
    let v6 = Some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    let v6 = UdpOptions { bind: v6, mtu: Some(1500), ..udp(0) };
    if let Ok(link) = UdpLink::open(&v6) {
        assert_eq!(link.capabilities().frame_bytes_max, 1452);
    }
}

#[test]
fn frames_too_long_for_the_route_go_in_fragments() {
    let Some(lab) = Lab::build(1500) else { return };
    let open = |side: usize| {
        let bind = Some(IpAddr::from([10, 77, 0, side as u8 + 1]));
        let options = UdpOptions { bind, mtu: Some(9000), ..udp(0) };
        lab.inside(side, || UdpLink::open(&options)).expect("anyone may")
    };
    let (mut a, mut b) = (open(0), open(1));
    let to = b.capabilities().address;
    // The tag of both ends.
    let short = [0x24, 0, 0, 0, 0, 1];
    let mut long = vec![0; 5000];
    long[..6].copy_from_slice(&short);
    let (long, short) = ([IoSlice::new(&long)], [IoSlice::new(&short)]);
    let batch = [&long, &long, &long, &short].map(|parts| TxFrame { to, parts });
    let mut taken = 0;
    while taken < batch.len() {
        taken += a.send(&batch[taken..]);
    }
    let mut lengths = Vec::new();
    while lengths.len() < 4 && b.wait(Some(Duration::from_secs(5))) {
        b.receive(9, &mut |got, _| lengths.push(got.len()));
    }
    assert_eq!(lengths, [5000, 5000, 5000, 6]);
    let counts = a.statistics();
    assert_eq!((counts.frames_sent, counts.send_refused), (4, 0), "{counts:?}");
    // Segmentation is not to blame: it is still used.
    assert!(a.capabilities().segmentation);
}

/// `HELLO-5`.
#[test]
fn frames_to_everyone_go_to_each_peer() {
    let mut peers =
        [UdpLink::open(&udp(0)), UdpLink::open(&udp(0))].map(|p| p.expect("anyone may"));
    let mut addresses: Vec<SocketAddr> = peers.iter().map(UdpLink::local_address).collect();
    // One that nobody answers at, and one of the other family, which is refused.
    addresses.push(SocketAddr::new(LOCAL, 1));
    addresses.push(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 1));
    let mut link = UdpLink::open(&UdpOptions { peers: addresses, ..udp(0) }).expect("anyone may");
    let frame = [0x21, 0, 0, 0, 0xFF, 0xFF, 9];
    let everyone = TxFrame { to: LinkAddress::EVERYONE, parts: &[IoSlice::new(&frame)] };
    assert_eq!(link.send(&[everyone]), 1);
    for peer in &mut peers {
        assert!(peer.wait(Some(Duration::from_secs(5))));
        assert_eq!(peer.receive(9, &mut |got, _| assert_eq!(got, frame)), 1);
    }
    let counts = link.statistics();
    assert_eq!((counts.frames_sent, counts.send_refused), (3, 1), "{counts:?}");
}

/// Which network a link of shared memory is in, the thread says that opened it: nodes of one process may be in several.
#[test]
fn shared_memory_is_in_the_network_of_the_thread_that_opens_it() {
    let Some(lab) = Lab::build(1500) else { return };
    let place = tempfile::tempdir().expect("a directory");
    let open = |node_tag: u16| {
        let directory = Some(place.path().join("emp"));
        ShmLink::open(&ShmOptions { directory, same_network: true, ..ShmOptions::new(node_tag) })
    };
    let inside = |side, tag| lab.inside(side, || open(tag)).expect("anyone may");
    let (mut a, mut b, mut far) = (inside(0, 7), inside(0, 8), inside(1, 9));
    // Looked for, and named.
    let far_address = far.capabilities().address;
    for (to, tag) in [(LinkAddress::EVERYONE, 8), (LinkAddress::EVERYONE, 9), (far_address, 9)] {
        let frame = [0x24, 0, 0, 0, 0, tag];
        assert_eq!(a.send(&[TxFrame { to, parts: &[IoSlice::new(&frame)] }]), 1);
    }
    assert!(b.wait(Some(Duration::from_secs(5))));
    assert_eq!(b.receive(9, &mut |got, _| assert_eq!(got[5], 8)), 1);
    assert!(!far.wait(Some(Duration::from_millis(20))));
    assert_eq!([a.peers(), b.peers(), far.peers()], [1, 1, 0]);
    assert_eq!(a.statistics().system_errors, 1, "nobody is there");
}

/// Set in the process that the next test starts inside a user namespace.
const INSIDE: &str = "EMP_TEST_INSIDE_USER_NAMESPACE";

#[test]
fn a_user_namespace_is_privilege_enough() {
    if std::env::var_os(INSIDE).is_some() {
        return inside_a_user_namespace();
    }
    let test = std::env::current_exe().expect("this program has a path");
    let name = "a_user_namespace_is_privilege_enough";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net"])
        .arg(test)
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("the unshare program is installed");
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("unshare failed") || text.contains("uid_map") {
        return skip(Need::Root, &format!("this machine forbids user namespaces: {text}"));
    }
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
}

/// Both ends of a cable in one namespace: frames to the other end's address.
fn inside_a_user_namespace() {
    for arguments in
        ["link add emp0 type veth peer name emp1", "link set emp0 up", "link set emp1 up"]
    {
        let status = Command::new("ip").args(arguments.split(' ')).status();
        assert!(status.is_ok_and(|status| status.success()), "ip {arguments}");
    }
    let open = |name| PacketLink::open(&PacketOptions::new(name, 1)).expect("CAP_NET_RAW is here");
    let (mut a, mut b) = (open("emp0"), open("emp1"));
    let frame = [0x24, 0, 0, 0, 0, 1, 8];
    let to = b.capabilities().address;
    assert_eq!(a.send(&[TxFrame { to, parts: &[IoSlice::new(&frame)] }]), 1);
    assert!(b.wait(Some(Duration::from_secs(5))));
    assert_eq!(b.receive(9, &mut |got, _| assert_eq!(got, frame)), 1);
}
