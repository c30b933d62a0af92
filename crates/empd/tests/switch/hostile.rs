//! What clients can do to a service: nothing but lose their own place.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use emp_link::service::channel::{ADDRESS_BYTES, Channel, MEMORY_BYTES, RECORD_BYTES_MAX, Record};
use emp_link::service::protocol::{Answer, Attach, BUFFER_BYTES, Hello, Request, VERSION};
use emp_link::service::{ServiceLink, ServiceOptions, socket};
use emp_link::{Fabric, Link, LinkAddress};
use emp_wire::HEADER_BYTES;

use crate::frames::{frame, receive, send};
use crate::service::{PATIENCE, Service, Setup, node_of};

/// Source tags of clients that mean well, and of one that does not.
const GOOD: [u32; 2] = [0x0A0B_0001, 0x1C1D_0002];
const BAD: u32 = 0x2E2F_0003;

/// Two clients that mean well send each other frames, each of which must come as it was sent.
pub struct Verify {
    links: [ServiceLink; 2],
    number: u64,
}

impl Verify {
    pub fn new(service: &Service) -> Self {
        Self { links: GOOD.map(|tag| service.client(tag)), number: 0 }
    }

    pub fn round(&mut self) {
        for (from, to) in [(0, 1), (1, 0)] {
            self.number += 1;
            let sent = frame(GOOD[from], GOOD[to], self.number, (self.number % 1400) as usize);
            let address = self.links[to].capabilities().address;
            send(&mut self.links[from], address, &sent);
            assert!(receive(&mut self.links[to]) == sent, "frame {} came changed", self.number);
        }
    }

    pub fn is_clean(&self) {
        for link in &self.links {
            let counts = link.statistics();
            let bad = counts.send_refused + counts.receive_lost + counts.not_for_us;
            assert_eq!(bad + counts.system_errors, 0, "{counts:?}");
        }
    }
}

/// A client without manners: what it was given, and the memory as it likes.
struct Raw {
    _connection: OwnedFd,
    memory: OwnedFd,
    bell: OwnedFd,
    map: *mut u8,
}

impl Raw {
    fn attach(options: &ServiceOptions) -> Self {
        let connection = socket::connect(&options.socket).expect("it listens");
        let attach = Attach {
            interface: options.interface.clone(),
            ethertype: options.ethertype,
            node: options.node,
            token: 0,
        };
        let hello = Hello { version: VERSION, namespace: 0 };
        for request in [Request::Hello(hello), Request::Attach(attach)] {
            socket::send(connection.as_fd(), &request.emit(), &[]).expect("it takes them");
        }
        let (since, mut bytes) = (Instant::now(), [0; BUFFER_BYTES]);
        loop {
            assert!(since.elapsed() < PATIENCE, "it does not answer");
            let Ok((got, given)) = socket::receive_with(connection.as_fd(), &mut bytes) else {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            };
            match Answer::parse(&bytes[..got]).expect("it is one") {
                Answer::Attached(_) => {
                    let [memory, bell] = <[OwnedFd; 2]>::try_from(given).expect("two");
                    let map = map(&memory);
                    return Self { _connection: connection, memory, bell, map };
                }
                Answer::Refused(refused) => panic!("{}", refused.reason),
                _ => {}
            }
        }
    }

    fn ring(&self) -> bool {
        socket::send(self.bell.as_fd(), &[1], &[]).is_ok()
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        for (place, byte) in (at..MEMORY_BYTES).zip(bytes) {
            // SAFETY: inside the mapping; other writers do not matter to a volatile store of a byte.
            unsafe { self.map.add(place).write_volatile(*byte) };
        }
    }

    fn punch(&self) -> std::io::Result<()> {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: no pointers.
        let done = unsafe {
            libc::fallocate(self.memory.as_raw_fd(), how, 0, MEMORY_BYTES as libc::off_t)
        };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }

    fn is_put_out(&self) -> bool {
        let mut bytes = [0; 8];
        loop {
            match socket::receive(self.bell.as_fd(), &mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
            }
        }
    }

    fn await_put_out(&self) {
        let since = Instant::now();
        while !self.is_put_out() {
            assert!(since.elapsed() < PATIENCE, "it is still there");
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, which nobody else uses.
        unsafe { libc::munmap(self.map.cast(), MEMORY_BYTES) };
    }
}

fn map(memory: &OwnedFd) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: asks for a fresh mapping of a file of this size.
    let map = unsafe {
        let fd = memory.as_raw_fd();
        libc::mmap(std::ptr::null_mut(), MEMORY_BYTES, access, libc::MAP_SHARED, fd, 0)
    };
    assert_ne!(map, libc::MAP_FAILED);
    map.cast()
}

/// Its end of the bell blocks, and it takes nothing from it, although it says for each frame that it sleeps: the service rings into a socket that is
/// full, and goes on.
#[test]
fn who_reads_no_bells_of_a_socket_that_blocks_stops_nobody() {
    const BELLS: u64 = 1000;
    let fabric = Fabric::new(1).expect("descriptors");
    let service = Service::start(Setup::sim(&fabric, 0));
    let mut verify = Verify::new(&service);
    let deaf = Raw::attach(&service.options(BAD));
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::fcntl(deaf.bell.as_raw_fd(), libc::F_SETFL, 0) }, 0);
    let bell = deaf.bell.try_clone().expect("a descriptor");
    let mut rings = Channel::open(deaf.memory.as_fd(), bell).expect("it is mapped");
    rings.await_said(PATIENCE).expect("the service is sound").expect("it is welcome");
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    for number in 0..BELLS {
        rings.arm();
        let sent = frame(GOOD[0], BAD, number, 10);
        let to = verify.links[1].capabilities().address;
        send(&mut verify.links[0], to, &sent);
        let since = Instant::now();
        // Till it came: so each of them finds this end asleep.
        loop {
            match rings.pop(&mut buffer).expect("the service is sound") {
                Some(Record::Frame(_, bytes)) => {
                    assert_eq!(buffer[ADDRESS_BYTES..ADDRESS_BYTES + bytes], sent);
                    break;
                }
                Some(Record::Said(_)) => {}
                None => std::thread::yield_now(),
            }
            assert!(since.elapsed() < PATIENCE, "frame {number} does not come");
        }
        if number % 200 == 0 {
            verify.round();
        }
    }
    // The socket is full, so it was rung all the time: whoever takes a bell finds many.
    let bells = (0..).take_while(
        |_| matches!(socket::receive(deaf.bell.as_fd(), &mut [0; 8]), Ok(got) if got > 0),
    );
    assert!(bells.count() > 100);
    verify.round();
    verify.is_clean();
}

/// Numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % below
    }
}

/// A million of them, each of one to eight bytes somewhere in the rings: half near their counts and their first records.
#[test]
fn scribbles_end_who_scribbles() {
    const SCRIBBLES: usize = 1_000_000;
    const AT_A_TIME: usize = 4000;
    let fabric = Fabric::new(1).expect("descriptors");
    let service = Service::start(Setup::sim(&fabric, 0));
    let mut verify = Verify::new(&service);
    let mut dice = Dice(0x5eed);
    let mut put_out = 0;
    for _ in 0..SCRIBBLES / AT_A_TIME {
        let raw = Raw::attach(&service.options(BAD));
        raw.ring();
        for number in 0..AT_A_TIME {
            let half = dice.roll(2) * MEMORY_BYTES / 2;
            let at = match dice.roll(4) {
                0 => half + dice.roll(4096),
                1 => half + 4096 + dice.roll(256),
                2 => half + 4096 + dice.roll(64) * 64,
                _ => dice.roll(MEMORY_BYTES),
            };
            let word = (dice.roll(usize::MAX) as u64) >> dice.roll(64);
            raw.write(at, &word.to_ne_bytes()[..1 + dice.roll(8)]);
            if number % 1000 == 0 {
                verify.round();
            }
        }
        // The service may not have run meanwhile: of the first at least it is waited for.
        let until = Instant::now() + Duration::from_millis(if put_out == 0 { 200 } else { 0 });
        while !raw.is_put_out() && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(200));
        }
        put_out += usize::from(raw.is_put_out());
    }
    verify.round();
    verify.is_clean();
    assert!(put_out > 0, "nobody was put out");
    let told = service.await_lines("it wrote", put_out);
    assert!(told <= SCRIBBLES / AT_A_TIME, "{told} lines of {put_out}");
}

#[test]
fn who_rings_for_nothing_is_put_out_and_who_reads_no_bells_stops_nobody() {
    let fabric = Fabric::new(1).expect("descriptors");
    let service = Service::start(Setup::sim(&fabric, 0));
    let mut verify = Verify::new(&service);
    // Its end blocks now; the service's has its own flags.
    let deaf = Raw::attach(&service.options(BAD));
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::fcntl(deaf.bell.as_raw_fd(), libc::F_SETFL, 0) }, 0);
    assert!(deaf.ring());
    let address = LinkAddress::mac([2, 0, 0, 0, 0, 0]);
    let mut sender = service.client(0x3333_0000);
    for number in 0..5000 {
        // Asleep, whatever comes: the ring that the service writes is the first.
        deaf.write(256, &1u32.to_ne_bytes());
        send(&mut sender, address, &frame(0x3333_0000, BAD, number, 0));
        if number % 100 == 0 {
            verify.round();
        }
    }
    let loud = Raw::attach(&service.options(0x4444_0000));
    while loud.ring() {}
    loud.await_put_out();
    verify.round();
    verify.is_clean();
    service.await_lines("nobody slept", 1);
}

#[test]
fn memory_that_is_punched_costs_its_client_alone() {
    let fabric = Fabric::new(1).expect("descriptors");
    let service = Service::start(Setup::sim(&fabric, 0));
    let mut verify = Verify::new(&service);
    for before in [true, false] {
        let raw = Raw::attach(&service.options(BAD));
        if before {
            raw.punch().expect("nobody keeps it yet");
        }
        raw.ring();
        // Soon it is kept.
        let since = Instant::now();
        while raw.punch().is_ok() {
            assert!(since.elapsed() < PATIENCE, "it can still be punched");
            verify.round();
        }
        verify.round();
    }
    verify.is_clean();
}

/// Frames with another node's tag or a tag of nobody's user do not leave, are counted, and their sender is told.
#[test]
fn forged_frames_do_not_leave() {
    let fabric = Fabric::new(2).expect("descriptors");
    let services = [0, 1].map(|index| Service::start(Setup::sim(&fabric, index)));
    let mut victim = services[0].client(GOOD[0]);
    let mut forger = services[0].client(BAD);
    let mut reader = services[1].client(GOOD[1]);
    let there = reader.capabilities().address;
    send(&mut forger, there, &frame(GOOD[0], GOOD[1], 1, 10));
    send(&mut forger, LinkAddress::EVERYONE, &frame(GOOD[0], GOOD[1], 2, 10));
    let both = [frame(BAD, GOOD[1], 3, 10), frame(GOOD[0], GOOD[1], 4, 10)].concat();
    send(&mut forger, there, &both);
    send(&mut forger, there, &[0x24; 12]);
    send(&mut victim, there, &frame(GOOD[0], GOOD[1], 5, 10));
    send(&mut forger, there, &frame(BAD, GOOD[1], 6, 10));
    let mut came = [receive(&mut reader), receive(&mut reader)];
    came.sort_by_key(|bytes| bytes[HEADER_BYTES + 7]);
    assert_eq!(came[0], frame(GOOD[0], GOOD[1], 5, 10));
    assert_eq!(came[1], frame(BAD, GOOD[1], 6, 10));
    let since = Instant::now();
    while forger.statistics().send_refused < 4 {
        forger.wait(Some(Duration::from_millis(5)));
        assert!(since.elapsed() < PATIENCE, "{:?}", forger.statistics());
    }
    assert_eq!(victim.statistics().send_refused, 0);
    assert_eq!(reader.receive(9, &mut |_, _| ()), 0);
    services[0].await_lines("another node's", 1);
}

/// What one user has named is not another's, and nobody reads along.
#[test]
fn a_tag_is_its_users() {
    let fabric = Fabric::new(1).expect("descriptors");
    let service = Service::start(Setup { users: vec![1000, 1001, 1000], ..Setup::sim(&fabric, 0) });
    let first = service.client(GOOD[0]);
    // The same tag on the wire, of another node.
    let refused = ServiceLink::open(&service.options(GOOD[0] + 1)).map(drop);
    let refused = refused.expect_err("it is another user's").to_string();
    assert!(refused.contains("another user's"), "{refused}");
    drop(service.client(GOOD[0] + 1));
    drop(first);
}

/// A client in a process of its own, which sends until it is killed. Not a test by itself.
#[test]
fn child_that_sends() {
    let Some(path) = std::env::var_os("EMPD_TEST_SOCKET") else { return };
    let options =
        ServiceOptions { socket: path.into(), ..ServiceOptions::new("sim", node_of(BAD)) };
    let mut link = ServiceLink::open(&options).expect("the service takes it");
    let to = link.capabilities().address;
    for number in 0.. {
        send(&mut link, to, &frame(BAD, GOOD[0] ^ 0x0100_0000, number, 1000));
        link.receive(8, &mut |_, _| ());
        // SAFETY: takes no arguments and cannot fail.
        if unsafe { libc::getppid() } == 1 {
            return;
        }
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn child(service: &Service) -> Killed {
    let program = std::env::current_exe().expect("it has a name");
    let child = Command::new(program)
        .args(["--exact", "hostile::child_that_sends", "--nocapture"])
        .env("EMPD_TEST_SOCKET", &service.path)
        .stdout(Stdio::null())
        .spawn();
    Killed(child.expect("it starts"))
}

fn await_clients(service: &Service, count: u64) {
    let since = Instant::now();
    while service.clients.load(Ordering::Acquire) != count {
        assert!(since.elapsed() < PATIENCE, "{} clients", service.clients.load(Ordering::Acquire));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn clients_that_are_killed_or_stopped_disturb_nobody() {
    let fabric = Fabric::new(1).expect("descriptors");
    let service = Service::start(Setup::sim(&fabric, 0));
    let mut verify = Verify::new(&service);
    await_clients(&service, 2);
    for _ in 0..3 {
        let mut sends = child(&service);
        await_clients(&service, 3);
        (0..50).for_each(|_| verify.round());
        let id = libc::pid_t::try_from(sends.0.id()).expect("it is one");
        // SAFETY: no pointers; the process is this one's child and not waited for yet.
        assert_eq!(unsafe { libc::kill(id, libc::SIGSTOP) }, 0);
        let mut sender = service.client(0x3333_0000);
        let address = sender.capabilities().address;
        // More than its ring holds: the rest is lost, and nobody waits.
        for number in 0..1000 {
            send(&mut sender, address, &frame(0x3333_0000, BAD, number, 1000));
        }
        (0..50).for_each(|_| verify.round());
        sends.0.kill().expect("it is there");
        sends.0.wait().expect("it ends");
        drop(sender);
        await_clients(&service, 2);
    }
    verify.is_clean();
}

/// A service that ends is missed, and the next one found, without a word by the program.
#[test]
fn clients_find_the_next_service() {
    let fabric = Fabric::new(1).expect("descriptors");
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("socket");
    let mut service = Service::start_at(&path, Setup::sim(&fabric, 0));
    let mut verify = Verify::new(&service);
    for _ in 0..3 {
        verify.round();
        service.stop();
        for link in &mut verify.links {
            let since = Instant::now();
            while link.is_attached() {
                link.wait(Some(Duration::from_millis(5)));
                assert!(since.elapsed() < PATIENCE, "it does not miss the service");
            }
            let condition = link.condition().expect("it has one");
            assert_eq!(condition.trouble, Some("has no service"));
            assert!(link.notice().is_some_and(|line| line.contains("has ended")));
        }
        // What is sent meanwhile is lost, and nothing waits for it.
        let lost = frame(GOOD[0], GOOD[1], 0, 0);
        send(&mut verify.links[0], LinkAddress::mac([2, 0, 0, 0, 0, 0]), &lost);
        service = Service::start_at(&path, Setup::sim(&fabric, 0));
        for link in &mut verify.links {
            let since = Instant::now();
            while !link.is_attached() {
                link.wait(Some(Duration::from_millis(5)));
                assert!(since.elapsed() < PATIENCE, "it does not find the new one");
            }
            assert!(link.notice().is_some_and(|line| line.contains("again")));
        }
        await_clients(&service, 2);
        // Attached is not there yet: until the memory is mapped and kept, frames for it are nobody's.
        let since = Instant::now();
        while verify.links.iter_mut().any(|link| !link.has_heard()) {
            for link in &mut verify.links {
                link.wait(Some(Duration::from_millis(1)));
            }
            assert!(since.elapsed() < PATIENCE, "the new one says nothing");
        }
    }
}
