//! The xdp link beside others: what it says of itself, who shares the interface with it, and what it
//! survives. That it moves frames is for the conformance suite.

use std::io::{BufRead, BufReader, IoSlice};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use emp_link::{
    Link, LinkAddress, LinkError, PacketLink, PacketOptions, TxFrame, XdpLink, XdpMode, XdpOptions,
};

use emp_testing::lab::{INTERFACE, Lab};

const PATIENCE: Duration = Duration::from_secs(5);
const TAG: u16 = 7;

fn xdp(lab: &Lab, side: usize, modes: &[XdpMode]) -> Result<XdpLink, LinkError> {
    let options = XdpOptions { modes: modes.to_vec(), ..XdpOptions::new(INTERFACE, TAG) };
    lab.inside(side, || XdpLink::open(&options))
}

fn usual(lab: &Lab, side: usize) -> XdpLink {
    let modes = XdpOptions::new("", 0).modes;
    xdp(lab, side, &modes).expect("root opens it")
}

fn packet(lab: &Lab, side: usize, tag: u16) -> PacketLink {
    let options = PacketOptions::new(INTERFACE, tag);
    lab.inside(side, || PacketLink::open(&options)).expect("root opens it")
}

/// With what the frames of these tests begin, and those of self-tests do not.
const MARK: u8 = 0x24;

/// A frame of `bytes` bytes for the node with a tag.
fn frame(tag: u16, bytes: usize) -> Vec<u8> {
    let mut frame = vec![MARK; bytes];
    frame[4..6].copy_from_slice(&tag.to_be_bytes());
    frame
}

fn send(link: &mut dyn Link, to: LinkAddress, frame: &[u8]) {
    assert_eq!(link.send(&[TxFrame { to, parts: &[IoSlice::new(frame)] }]), 1);
}

/// Waits for a frame and returns it. That of the other end's self-test may come before: the cable has no switch that keeps it, and both
/// ends have one tag here.
fn receive(link: &mut dyn Link) -> Option<Vec<u8>> {
    let (start, mut got) = (Instant::now(), None);
    while got.is_none() && start.elapsed() < PATIENCE {
        link.wait(Some(Duration::from_millis(20)));
        link.receive(1, &mut |bytes, _| got = (bytes[0] == MARK).then(|| bytes.to_vec()));
    }
    got
}

#[test]
fn it_says_what_it_is() {
    for mtu in [1500, 9000] {
        let Some(lab) = Lab::build(mtu) else { return };
        let link = usual(&lab, 0);
        let capabilities = link.capabilities();
        assert_eq!((capabilities.kind, capabilities.frame_bytes_max), ("xdp", mtu));
        assert_eq!(capabilities.address, LinkAddress::mac(link.mac()));
        assert!(capabilities.privileged && capabilities.broadcast && !capabilities.segmentation);
        // A virtual cable's driver runs programs and cannot do without copies.
        assert_eq!((link.mode(), link.queues()), (XdpMode::Native, 1));
        assert!(link.passed_by()[0].starts_with("native, zero-copy: "), "{:?}", link.passed_by());
        // The self-test's frames do not count.
        assert_eq!(link.statistics(), emp_link::LinkStatistics::default());
    }
}

#[test]
fn an_interface_has_one_program() {
    let Some(lab) = Lab::build(1500) else { return };
    let first = usual(&lab, 0);
    for modes in [&[XdpMode::Native][..], &[XdpMode::Generic], &XdpOptions::new("", 0).modes] {
        let error = xdp(&lab, 0, modes).err().expect("it is taken");
        assert!(error.to_string().contains("already has an XDP program"), "{error}");
        assert!(error.advice.contains("packet link") && !error.privilege, "{error}");
    }
    drop(first);
    usual(&lab, 0);
}

#[test]
fn a_missing_interface_and_a_missing_privilege_are_named() {
    let missing = XdpLink::open(&XdpOptions::new("nosuch0", 1)).err().expect("there is none");
    assert!(missing.to_string().contains("xdp on nosuch0: no such interface"), "{missing}");
    let Some(lab) = Lab::build(1500) else { return };
    let error = lab.inside(0, || {
        drop_capabilities();
        XdpLink::open(&XdpOptions::new(INTERFACE, 1)).err()
    });
    let error = error.expect("it is forbidden");
    assert!(error.privilege && error.advice.contains("CAP_BPF"), "{error}");
}

/// Takes all capabilities from the calling thread.
fn drop_capabilities() {
    // Version 3 of the interface, thread 0 (the caller); all sets empty.
    let (header, none) = ([0x2008_0522u32, 0], [0u32; 6]);
    // SAFETY: both pointers are to live values of the layout that this version defines.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(result, 0, "capset: {}", std::io::Error::last_os_error());
}

#[test]
fn each_queue_has_a_socket() {
    let Some(lab) = Lab::build(1500) else { return };
    lab.set_queues([[4, 4], [4, 4]]);
    let (mut a, mut b) = (usual(&lab, 0), usual(&lab, 1));
    assert_eq!((a.queues(), a.mode()), (4, XdpMode::Native));
    let (to_a, to_b) = (a.capabilities().address, b.capabilities().address);
    send(&mut a, to_b, &frame(TAG, 100));
    assert_eq!(receive(&mut b), Some(frame(TAG, 100)));
    // The kernel spreads what sockets of the packet link send over the queues by processor.
    drop(b);
    let mut b = packet(&lab, 1, TAG);
    for processor in 0..2 {
        pin(processor);
        send(&mut b, to_a, &frame(TAG, 200 + processor));
        assert_eq!(receive(&mut a), Some(frame(TAG, 200 + processor)));
    }
}

fn pin(processor: usize) {
    // SAFETY: all-zero is an empty set; the set is live and of the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        // A machine without that processor leaves the thread where it is.
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

#[test]
fn queues_that_cannot_be_attached_to_are_told_or_passed_by() {
    let Some(lab) = Lab::build(1500) else { return };
    // This driver wants a receive queue for each of the other end's send queues.
    lab.set_queues([[1, 1], [1, 2]]);
    let error = xdp(&lab, 0, &[XdpMode::Native]).err().expect("it does not attach");
    assert!(error.advice.contains("ethtool -L"), "{error}");
    let (mut a, mut b) = (usual(&lab, 0), packet(&lab, 1, 9));
    assert_eq!(a.mode(), XdpMode::Generic);
    assert!(a.passed_by().iter().any(|why| why.contains("No space")), "{:?}", a.passed_by());
    let to = a.capabilities().address;
    send(&mut b, to, &frame(TAG, 100));
    assert_eq!(receive(&mut a), Some(frame(TAG, 100)));
    drop(a);

    lab.set_queues([[17, 1], [1, 1]]);
    let error = xdp(&lab, 0, &[XdpMode::Native]).err().expect("too many");
    assert!(error.to_string().contains("17 receive queues"), "{error}");
    assert!(error.advice.contains("ethtool -L emp0 combined 16"), "{error}");
}

#[test]
fn other_nodes_of_the_interface_still_get_theirs() {
    let Some(lab) = Lab::build(1500) else { return };
    let (mut node, mut neighbour) = (usual(&lab, 0), packet(&lab, 0, 8));
    let mut other = packet(&lab, 1, 9);
    let to = node.capabilities().address;
    send(&mut other, to, &frame(8, 100));
    assert_eq!(receive(&mut neighbour), Some(frame(8, 100)));
    send(&mut other, to, &frame(TAG, 200));
    assert_eq!(receive(&mut node), Some(frame(TAG, 200)));
    assert_eq!(neighbour.receive(9, &mut |_, _| ()), 0);
    let back = other.capabilities().address;
    send(&mut node, back, &frame(9, 300));
    assert_eq!(receive(&mut other), Some(frame(9, 300)));
    // What is not EMP's passes as before.
    let ping = Command::new("ip")
        .args(["netns", "exec", lab.name(0), "bash", "-c"])
        .arg("exec 3<>/dev/udp/10.77.0.2/9 && echo hello >&3; ip neigh show 10.77.0.2")
        .output();
    let text = String::from_utf8_lossy(&ping.expect("bash is here").stdout).into_owned();
    assert!(text.contains("lladdr"), "the other end answered no address request: {text}");
}

#[test]
fn a_program_that_is_taken_away_is_put_back() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut other = packet(&lab, 1, 9);
    let rearmed = lab.inside(0, || {
        let mut link = XdpLink::open(&XdpOptions::new(INTERFACE, TAG)).expect("root opens it");
        let to = link.capabilities().address;
        link.detach_for_test().expect("it is attached");
        send(&mut other, to, &frame(TAG, 100));
        // Spinning or sleeping, the link looks after itself.
        let start = Instant::now();
        while link.rearmed() == 0 && start.elapsed() < PATIENCE {
            link.wait(Some(Duration::from_millis(10)));
            assert_eq!(link.receive(9, &mut |_, _| ()), 0, "the program is not there");
        }
        send(&mut other, to, &frame(TAG, 200));
        assert_eq!(receive(&mut link), Some(frame(TAG, 200)));
        assert!(link.statistics().system_errors > 0, "it was counted");
        link.rearmed()
    });
    assert_eq!(rearmed, 1);
}

#[test]
fn a_smaller_mtu_costs_frames_not_the_link() {
    let Some(lab) = Lab::build(1500) else { return };
    let (mut a, mut b) = (usual(&lab, 0), usual(&lab, 1));
    let to = b.capabilities().address;
    // This driver heeds what the other end takes.
    lab.ip(1, &["link", "set", INTERFACE, "mtu", "1000"]);
    for _ in 0..3 {
        send(&mut a, to, &frame(TAG, 1500));
    }
    send(&mut a, to, &frame(TAG, 500));
    assert_eq!(receive(&mut b).map(|got| got.len()), Some(500));
    assert_eq!(a.statistics().system_errors, 3);
}

/// Set in the process that the next test starts in a namespace of the lab.
const INSIDE: &str = "EMP_TEST_XDP_INSIDE";

#[test]
fn death_gives_the_interface_back() {
    if std::env::var_os(INSIDE).is_some() {
        let _link = XdpLink::open(&XdpOptions::new(INTERFACE, TAG)).expect("root opens it");
        println!("\nopen");
        std::thread::sleep(PATIENCE * 10);
        return;
    }
    let Some(lab) = Lab::build(1500) else { return };
    let test = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new("ip")
        .args(["netns", "exec", lab.name(0)])
        .arg(test)
        .args(["death_gives_the_interface_back", "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the ip program is installed");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let open = output.lines().map_while(Result::ok).any(|line| line == "open");
    let taken = xdp(&lab, 0, &[XdpMode::Native]).err();
    child.kill().expect("it runs");
    child.wait().expect("it was started");
    assert!(open && taken.is_some(), "the other process had the interface");
    let (mut a, mut b) = (usual(&lab, 0), usual(&lab, 1));
    let to = a.capabilities().address;
    send(&mut b, to, &frame(TAG, 100));
    assert_eq!(receive(&mut a), Some(frame(TAG, 100)));
}
