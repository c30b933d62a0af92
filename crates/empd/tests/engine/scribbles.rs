//! Clients without manners: what they write into their rings, and what they give as their memory.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use emp_host::daemon::{Answer, Export, Question, said, told};
use emp_host::{NodeId, PostError, RemoteRegion, Rights, Segment, Selector, Status, WaitError};
use emp_link::service::channel::{Gift, MEMORY_BYTES, RECORD_BYTES_MAX};
use emp_link::service::protocol::{Answer as Word, BUFFER_BYTES, Hello, Request, VERSION};
use emp_link::service::{EngineSeat, socket};

use crate::common::{PATIENCE, until};
use crate::hostile::{seat, wanted};
use crate::{LONG, Place, on, pair, pattern};

/// What a client was given, and the memory as it likes.
pub struct Rings {
    _connection: OwnedFd,
    memory: OwnedFd,
    bell: OwnedFd,
    map: *mut u8,
}

impl Rings {
    /// Asks again where there is no room for another one now: those before may not have ended yet.
    fn of(path: &Path, node: u64) -> Self {
        Self::after(path, node, |_| ())
    }

    /// The same, and does something to the memory before the service is told that it is mapped.
    pub fn after(path: &Path, node: u64, first: impl Fn(&OwnedFd)) -> Self {
        let since = Instant::now();
        loop {
            match Self::try_of(path, node, &first) {
                Ok(rings) => return rings,
                Err(why) => assert!(since.elapsed() < PATIENCE, "{why}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn try_of(path: &Path, node: u64, first: &impl Fn(&OwnedFd)) -> Result<Self, String> {
        let connection = socket::connect(path).expect("it listens");
        let hello = Hello { version: VERSION, namespace: 0 };
        for request in [Request::Hello(hello), Request::Engine(wanted(node))] {
            socket::send(connection.as_fd(), &request.emit(), &[]).expect("it takes them");
        }
        let (since, mut bytes) = (Instant::now(), [0; BUFFER_BYTES]);
        loop {
            assert!(since.elapsed() < PATIENCE, "it does not answer");
            let Ok((got, given)) = socket::receive_with(connection.as_fd(), &mut bytes) else {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            };
            match Word::parse(&bytes[..got]).expect("it is one") {
                Word::Seated(_) => {
                    let [memory, bell] = <[OwnedFd; 2]>::try_from(given).expect("two");
                    // Once it says that it has mapped it, nobody may any more (decision 76).
                    let map = map(&memory);
                    first(&memory);
                    socket::send(bell.as_fd(), &[1], &[]).expect("there is room");
                    return Ok(Self { _connection: connection, memory, bell, map });
                }
                Word::Refused(refused) => return Err(refused.reason),
                _ => {}
            }
        }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        for (place, byte) in (at..MEMORY_BYTES).zip(bytes) {
            // SAFETY: inside the mapping; other writers do not matter to a volatile store of a byte.
            unsafe { self.map.add(place).write_volatile(*byte) };
        }
    }

    pub fn punch(&self) -> std::io::Result<()> {
        punch(&self.memory)
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
}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, which nobody else uses.
        unsafe { libc::munmap(self.map.cast(), MEMORY_BYTES) };
    }
}

/// Takes all of its pages away.
pub fn punch(memory: &OwnedFd) -> std::io::Result<()> {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no pointers.
    match unsafe { libc::fallocate(memory.as_raw_fd(), how, 0, MEMORY_BYTES as libc::off_t) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn map(memory: &OwnedFd) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: asks for a fresh mapping of a file of this size.
    let map = unsafe {
        let fd = memory.as_raw_fd();
        libc::mmap(std::ptr::null_mut(), MEMORY_BYTES, access, libc::MAP_SHARED, fd, 0)
    };
    assert_ne!(map, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    map.cast()
}

/// A million of them, each of one to eight bytes somewhere in the rings: three of four near their counts and their first records.
#[test]
fn scribbles_in_the_rings_of_an_engine_end_who_scribbles() {
    const SCRIBBLES: usize = 1_000_000;
    const AT_A_TIME: usize = 10_000;
    let Some(mut place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let (ea, eb) = (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"));
        let mut state = 0x5EED_u64;
        let mut roll = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as usize % below
        };
        let mut put_out = 0;
        for round in 0..(SCRIBBLES / AT_A_TIME) as u64 {
            let rings = Rings::of(&socket, 0x5000 + round);
            for _ in 0..AT_A_TIME {
                let half = roll(2) * MEMORY_BYTES / 2;
                let at = match roll(4) {
                    0 => half + roll(4096),
                    1 => half + 4096 + roll(256),
                    2 => half + 4096 + roll(64) * 64,
                    _ => roll(MEMORY_BYTES),
                };
                let word = (roll(usize::MAX) as u64) >> roll(64);
                rings.write(at, &word.to_ne_bytes()[..1 + roll(8)]);
            }
            // The engine may not have run meanwhile: of the first at least it is waited for.
            let until = Instant::now() + Duration::from_millis(if put_out == 0 { 500 } else { 5 });
            while !rings.is_put_out() && Instant::now() < until {
                std::thread::sleep(Duration::from_micros(200));
            }
            put_out += usize::from(rings.is_put_out());
            if round % 10 == 0 {
                ea.send(eb.address(), round, pattern(40_000, round)).map(drop).expect("room");
                let got = eb.receive_wait(Selector::bits(round), vec![0; 40_000], LONG);
                assert!(got.expect("it comes").buffer == pattern(40_000, round));
            }
        }
        assert!(put_out > 0, "nobody was put out");
    });
    assert!(place.service.is_up());
    assert!(!place.service.log().contains("a fault of the service's"));
}

/// What the engine answers.
pub fn ask(seat: &mut EngineSeat, question: Question) -> Option<Answer> {
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    assert_eq!(seat.channel.write(said::ASK, &[&question.emit()]), Ok(true));
    seat.channel.wake();
    let since = Instant::now();
    while since.elapsed() < LONG {
        while let Some((mark, length)) = seat.channel.read(&mut buffer).expect("it is sound") {
            if mark == told::ANSWER {
                return Some(Answer::parse(&buffer[..length]).expect("it is one"));
            }
        }
        if seat.channel.nap(Duration::from_millis(20)).expect("it is sound")
            == emp_link::service::channel::Heard::Gone
        {
            return None;
        }
    }
    panic!("no answer");
}

#[test]
fn what_is_none_of_a_programs_memory_is_not_taken_for_it() {
    let Some(mut place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let export = |address: u64, bytes: u64| {
            let rights = Rights::BOTH;
            Question::Export(Export { key: Some(5), address, bytes, rights, endpoint: 1 })
        };
        // Nothing was given: not the service's own memory, above all.
        let mut none = seat(&socket, 0x6000);
        let refused = Some(Answer::Exported(Err(PostError::MemoryFault)));
        assert_eq!(ask(&mut none, export(4096, 4096)), refused);
        let file = tempfile::tempfile().expect("a file");
        let maps = File::open("/proc/self/maps").expect("it is there");
        for (number, given) in
            [file.as_fd(), maps.as_fd(), none.connection.as_fd()].iter().enumerate()
        {
            let mut seat = seat(&socket, 0x6100 + number as u64);
            seat.channel.give(Gift::Memory, *given).expect("there is room");
            assert_eq!(ask(&mut seat, export(4096, 4096)), None, "{number} is taken");
        }
        let memory = || File::options().read(true).write(true).open("/proc/thread-self/mem");
        let mut twice = seat(&socket, 0x6200);
        for _ in 0..2 {
            twice
                .channel
                .give(Gift::Memory, memory().expect("one's own").as_fd())
                .expect("there is room");
        }
        assert_eq!(ask(&mut twice, export(4096, 4096)), None, "another's for the second time");
        // Whatever is said of it, nothing is reached but what that process has.
        let mut liar = seat(&socket, 0x6300);
        assert_eq!(ask(&mut liar, Question::Open(1)), Some(Answer::Opened(Ok(()))));
        liar.channel
            .give(Gift::Memory, memory().expect("one's own").as_fd())
            .expect("there is room");
        for (address, bytes) in [(1 << 56, 1), (u64::MAX, 2), (5, u64::MAX), (1, 1 << 56)] {
            assert_eq!(ask(&mut liar, export(address, bytes)), refused, "{address:#x}");
        }
        assert!(matches!(ask(&mut liar, export(0, 1 << 56)), Some(Answer::Exported(Ok(_)))));
        let (a, _b) = pair(&socket);
        let ea = a.endpoint(1).expect("opens");
        let to = NodeId(0x6300);
        for offset in [0, 4096, (1 << 47) + 5, (1 << 56) - 8] {
            let target = RemoteRegion { to, to_endpoint: 1, key: 5, generation: 0, offset };
            let put = ea.put(target, vec![1; 8]).expect("posted").wait(LONG);
            assert!(matches!(put, Err(WaitError::Failed(_))), "{offset:#x} is written");
        }
    });
    assert!(place.service.is_up());
    until("the log says why", || {
        let log = place.service.log();
        log.matches("a descriptor that is none of its memory").count() == 3
            && log.contains("its memory for the second time")
    });
}

/// A page of a region that is somebody's to serve, who does not: the kernel waits for nobody so on another's behalf.
#[test]
fn memory_that_nobody_brings_is_an_error() {
    let Some(place) = Place::new() else { return };
    let socket = place.service.socket();
    let (_node, _fault, target) = place.lab.inside(0, || {
        let node = on(&socket, "keeper").start().expect("root may as well");
        let endpoint = node.endpoint(1).expect("opens");
        let (fault, memory) = faulting();
        // SAFETY: it stays mapped; nobody uses it.
        let region = unsafe { endpoint.export_region_raw(Some(5), memory, Rights::BOTH) };
        let generation = region.expect("exported").generation;
        let target = RemoteRegion { to: node.id(), to_endpoint: 1, key: 5, generation, offset: 0 };
        (node, fault, target)
    });
    place.as_nobody(|socket| {
        let (a, _b) = pair(&socket);
        let ea = a.endpoint(1).expect("opens");
        let put = ea.put(target, vec![7; 100]).expect("posted").wait(LONG);
        let Err(WaitError::Failed(failed)) = put else { panic!("nobody brings that page") };
        assert_eq!(failed.error.status(), Status::MemoryFault);
    });
}

/// A page of which nothing is there, and nobody brings it (userfaultfd), whoever reaches for it.
fn faulting() -> (OwnedFd, Segment) {
    const API: libc::c_ulong = 0xC018_AA3F;
    const REGISTER: libc::c_ulong = 0xC020_AA00;
    let page = 4096;
    // SAFETY: new memory and a new descriptor; the two calls read and write what they are given, which is as long as they say.
    unsafe {
        let (any, private) = (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(any, page, libc::PROT_READ | libc::PROT_WRITE, private, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
        assert!(fd >= 0, "root may have one");
        let fd = <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd as i32);
        let mut api = [0xAA_u64, 0, 0];
        assert_eq!(libc::ioctl(fd.as_raw_fd(), API, api.as_mut_ptr()), 0);
        let mut register = [at.expose_provenance() as u64, page as u64, 1, 0];
        assert_eq!(libc::ioctl(fd.as_raw_fd(), REGISTER, register.as_mut_ptr()), 0);
        (fd, Segment { address: at.expose_provenance() as u64, bytes: page as u64 })
    }
}
