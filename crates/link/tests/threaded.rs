//! What a link whose calls another thread makes promises beside what every link does.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Some frame for the node with tag 2: its last bytes are `number`. It says how long it is, by which `udp` cuts what it fetches plainly.
fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    let payload = (frame.len() - emp_wire::HEADER_BYTES) as u8;
    frame[..4].copy_from_slice(&[1 << 5 | 1, 0, 0, payload]);
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

/// Leaves this thread, and those that it starts, one core.
fn keep_to_one_core() {
    // SAFETY: the set is plain bits, read and written by the calls within its size; pid 0 is this thread.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of_val(&allowed);
        assert_eq!(libc::sched_getaffinity(0, size, &raw mut allowed), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|core| libc::CPU_ISSET(*core, &allowed));
        libc::CPU_ZERO(&mut allowed);
        libc::CPU_SET(first.expect("it runs somewhere"), &mut allowed);
        assert_eq!(libc::sched_setaffinity(0, size, &raw const allowed), 0);
    }
}

/// Counts the looks for frames that are made by it.
struct Counting(SimLink, Arc<AtomicU64>);

impl Link for Counting {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }
    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.0.send(batch)
    }
    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.receive(budget, sink)
    }
    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        self.receive(budget, &mut |frame, from| sink.frame(frame, from))
    }
    fn readiness(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.0.readiness()
    }
    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        self.0.wait(timeout)
    }
    fn statistics(&self) -> LinkStatistics {
        self.0.statistics()
    }
}

/// Both ends send this many frames each round, of which both await all.
const BURST: u32 = 32;

const ROUNDS: u32 = 300;

/// Looks of both threads in a round. Where each gives the core away after every fruitless look it is ten to a hundred; where one looks
/// until it would offer its core anyway, four to seven hundred.
const LOOKS_MAX: u64 = 250;

/// Two links' threads and who uses them have one core: each thread leaves it to whoever has something to do.
#[test]
fn threads_that_share_a_core_leave_it_to_each_other() {
    keep_to_one_core();
    let looks = Arc::<AtomicU64>::default();
    let fabric = Fabric::new(2).expect("descriptors");
    let spawn = |work: LinkWork| std::thread::Builder::new().spawn(move || work.run());
    let mut ends = [0, 1].map(|place| {
        let look_for = Some(Duration::from_micros(100));
        let thread = LinkThread::start(look_for, spawn).expect("a thread");
        let link = fabric.link(place, 2).expect("there is such a place");
        threaded(Counting(link, Arc::clone(&looks)), &thread)
    });
    let addresses = [1, 0].map(|other: usize| ends[other].capabilities().address);
    for round in 0..ROUNDS {
        let since = Instant::now();
        let (mut sent, mut came) = ([0; 2], [0; 2]);
        while sent != [BURST; 2] || came != [BURST; 2] {
            let mut moved = false;
            for (at, end) in ends.iter_mut().enumerate() {
                if sent[at] < BURST && send(end, addresses[at], &frame(round)) {
                    sent[at] += 1;
                    moved = true;
                }
                let received = end.receive(64, &mut |_, _| ());
                came[at] += received as u32;
                moved |= received > 0;
            }
            if !moved {
                std::thread::yield_now();
            }
            assert!(since.elapsed() < LONG, "round {round}: {sent:?} sent, {came:?} came");
        }
    }
    let looks = looks.load(Ordering::Relaxed) / u64::from(ROUNDS);
    println!("{looks} looks a round");
    assert!(looks <= LOOKS_MAX, "{looks} looks a round");
}
