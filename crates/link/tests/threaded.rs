//! What a link whose calls another thread makes promises beside what every link does.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use emp_link::{
    Capabilities, Fabric, FrameSink, Link, LinkAddress, LinkStatistics, LinkThread, LinkWork,
    SimLink, ThreadedLink, TxFrame, UdpLink, UdpOptions,
};

const LONG: Duration = Duration::from_secs(20);

fn thread() -> Arc<LinkThread> {
    let spawn = |work: LinkWork| std::thread::Builder::new().spawn(move || work.run());
    LinkThread::start(Some(Duration::from_micros(50)), spawn).expect("a thread")
}

fn threaded(link: impl Link + 'static, thread: &Arc<LinkThread>) -> ThreadedLink {
    ThreadedLink::new(Box::new(link), thread).expect("it is handed over")
}

/// Some frame for the node with tag 2: its last bytes are `number`.
fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..2].copy_from_slice(&[1 << 5 | 1, 0]);
    let tag_at = emp_wire::DESTINATION_TAG_OFFSET;
    frame[tag_at..tag_at + 2].copy_from_slice(&2u16.to_be_bytes());
    frame[56..].copy_from_slice(&number.to_be_bytes());
    frame
}

fn send(link: &mut dyn Link, to: LinkAddress, bytes: &[u8]) -> bool {
    let parts = [IoSlice::new(bytes)];
    link.send(&[TxFrame { to, parts: &parts }]) != 0
}

fn until(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn one_thread_serves_several_links_and_closes_each_with_its_end() {
    let thread = thread();
    let open = || {
        let bind = Some([127, 0, 0, 1].into());
        UdpLink::open(&UdpOptions { bind, port: 0, ..UdpOptions::new(2) }).expect("anyone may")
    };
    let (first, second) = (open(), open());
    let port = first.local_address().port();
    let mut links = [first, second].map(|link| threaded(link, &thread));
    let to = links[1].capabilities().address;
    let [a, b] = &mut links;
    for number in 0..100 {
        assert!(send(a, to, &frame(number)));
        let mut got = None;
        until("it arrives", || b.receive(1, &mut |bytes, _| got = Some(bytes.to_vec())) != 0);
        assert_eq!(got, Some(frame(number)));
    }
    let [a, _b] = links;
    drop(a);
    // Closed by then: its port is to be had.
    std::net::UdpSocket::bind(("127.0.0.1", port)).expect("nobody has it");
}

/// A link that nothing leaves by, and that breaks the thread that looks for what comes.
struct Trap {
    inner: SimLink,
    full: bool,
}

impl Link for Trap {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        if self.full { 0 } else { self.inner.send(batch) }
    }
    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        assert!(self.full, "this one panics");
        self.inner.receive(budget, sink)
    }
    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        self.receive(budget, &mut |frame, from| sink.frame(frame, from))
    }
    fn readiness(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        self.inner.wait(timeout)
    }
    fn statistics(&self) -> LinkStatistics {
        self.inner.statistics()
    }
    fn has_ended(&self, address: &LinkAddress) -> bool {
        *address == LinkAddress::index(7)
    }
}

fn trap(full: bool) -> (Fabric, Trap) {
    let fabric = Fabric::new(2).expect("descriptors");
    let inner = fabric.link(0, 1).expect("there is such a place");
    (fabric, Trap { inner, full })
}

#[test]
fn a_full_link_fills_the_ring_and_no_more() {
    let (_fabric, link) = trap(true);
    let mut link = threaded(link, &thread());
    let to = LinkAddress::index(1);
    let mut taken = 0;
    while send(&mut link, to, &frame(taken)) {
        taken += 1;
        assert!(taken < 10_000, "a link that takes nothing is full at some time");
    }
    let counts = link.statistics();
    assert_eq!((counts.frames_sent, counts.send_full), (0, 1));
    assert!(taken <= 256, "{taken} wait for a link that takes nothing");
    until("what is not taken is lost in the end", || {
        link.statistics().system_errors == u64::from(taken)
    });
    assert!(link.has_ended(&LinkAddress::index(7)), "it is asked all the same");
    assert!(!link.has_ended(&to));
}

/// A thread that has ended is as a cable that is out: what is sent is lost, nobody hangs, and it is told.
#[test]
fn a_thread_that_panicked_is_told_of() {
    let (_fabric, link) = trap(false);
    let mut link = threaded(link, &thread());
    until("sends are lost", || {
        send(&mut link, LinkAddress::index(1), &frame(0));
        link.statistics().system_errors > 0
    });
    assert_eq!(link.receive(8, &mut |_, _| panic!("nothing comes")), 0);
    assert!(!link.wait(Some(Duration::from_millis(1))));
}

#[test]
fn how_the_interface_is_comes_with_the_next_look() {
    let bind = Some([127, 0, 0, 1].into());
    let link = UdpLink::open(&UdpOptions { bind, port: 0, ..UdpOptions::new(2) });
    let mut bare = link.expect("anyone may");
    let expected = bare.condition().map(|seen| (seen.interface.to_owned(), seen.mtu));
    let mut link = threaded(bare, &thread());
    for _ in 0..3 {
        let seen = link.condition().map(|seen| (seen.interface.to_owned(), seen.mtu));
        assert_eq!(seen, expected);
        std::thread::sleep(Duration::from_millis(2));
    }
}
