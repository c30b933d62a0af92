//! Peers that break the rules, die, or send something else than rings: they are dropped, and nobody else is harmed.

mod in_step;

use std::fs::{self, File};
use std::io::IoSlice;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::PathBuf;

use emp_rings::{LINE_BYTES, SHM_BYTES, ShmEnd};
use tempfile::TempDir;

use super::*;

/// A place to meet.
struct World(TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn directory(&self) -> PathBuf {
        self.0.path().join("emp")
    }

    fn open(&self, node_tag: u16) -> ShmLink {
        let options = ShmOptions { directory: Some(self.directory()), ..ShmOptions::new(node_tag) };
        ShmLink::open(&options).expect("anyone may")
    }
}

/// A frame for the node with a tag.
fn frame(tag: u16, last: u8) -> Vec<u8> {
    let mut frame = vec![0x24, 0, 0, 0, 0, 0, last];
    frame[4..6].copy_from_slice(&tag.to_be_bytes());
    frame
}

fn send(link: &mut ShmLink, to: LinkAddress, frame: &[u8]) -> usize {
    link.send(&[TxFrame { to, parts: &[IoSlice::new(frame)] }])
}

/// Receives one frame, and says where it came from.
fn receive(link: &mut ShmLink, wanted: &[u8]) -> LinkAddress {
    assert!(link.wait(Some(Duration::from_secs(5))), "nothing came");
    let mut from = None;
    let got = link.receive(1, &mut |frame, source| {
        assert_eq!(frame, wanted);
        from = Some(*source);
    });
    assert_eq!(got, 1);
    from.expect("one frame was handed up")
}

/// Lets the link look at its sockets, and checks that it hands nothing up.
fn settle(link: &mut ShmLink) {
    for _ in 0..3 {
        assert!(!link.wait(Some(Duration::from_millis(5))));
        assert_eq!(link.receive(64, &mut |frame, _| panic!("{frame:?} came from nowhere")), 0);
    }
}

/// As [`settle`], for links whose peers say that there is something where there is nothing.
fn churn(link: &mut ShmLink) {
    for _ in 0..3 {
        link.wait(Some(Duration::from_millis(5)));
        assert_eq!(link.receive(64, &mut |frame, _| panic!("{frame:?} came from nowhere")), 0);
    }
}

/// Two honest nodes still talk.
fn works(world: &World, link: &mut ShmLink) {
    let mut other = world.open(9);
    let tag = link.node_tag;
    send(&mut other, link.capabilities.address, &frame(tag, 1));
    let from = receive(link, &frame(tag, 1));
    assert_eq!(from, other.capabilities.address);
    send(link, from, &frame(9, 2));
    receive(&mut other, &frame(9, 2));
}

/// A peer that does what it likes: its socket, its rings, and the memory under them.
struct Rogue {
    socket: OwnedFd,
    rings: ShmEnd,
    memory: File,
}

const ROGUE: u64 = 0xBAD;

/// Where nothing is.
const NOWHERE: Introduction = Introduction { address: 8, token: 5 };

/// A socket under a node's name beside a link.
fn bound(link: &ShmLink, number: u64) -> OwnedFd {
    let path = link.place.socket_of(Name { number, ..link.name });
    let _ = fs::remove_file(&path);
    socket::bind(&path).expect("a socket")
}

fn say(
    link: &ShmLink,
    socket: &OwnedFd,
    words: &[u8],
    memory: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    socket::send(socket.as_fd(), &link.own, words, memory)
}

impl Rogue {
    fn meet(link: &mut ShmLink) -> Self {
        Self::introduced(link, NOWHERE)
    }

    fn introduced(link: &mut ShmLink, told: Introduction) -> Self {
        let socket = bound(link, ROGUE);
        let (memory, rings) = ShmEnd::create().expect("memory is to be had");
        say(link, &socket, &connection::hello(ROGUE, told), Some(memory.as_fd()))
            .expect("it is sent");
        settle(link);
        assert_eq!(link.peers(), 1);
        Self { socket, rings, memory: memory.into() }
    }

    /// Writes anything anywhere.
    fn spoil(&self, at: usize, word: u64) {
        self.memory.write_all_at(&word.to_ne_bytes(), at as u64).expect("inside");
    }

    fn push(&mut self, frame: &[u8]) {
        assert_eq!(self.rings.producer.push(frame.len(), [frame].into_iter()), Ok(true));
    }
}

fn hello(number: u64) -> Vec<u8> {
    connection::hello(number, NOWHERE).to_vec()
}

/// Until the link has noticed that its peers are gone.
fn outlive(link: &mut ShmLink) {
    let start = Instant::now();
    while link.peers() > 0 {
        link.wait(Some(Duration::from_millis(1)));
        link.receive(64, &mut |frame, _| panic!("{frame:?} came from the dead"));
        assert!(start.elapsed() < Duration::from_secs(5), "a peer that went is kept");
    }
}

fn memfd(bytes: usize, flags: libc::c_uint, seals: libc::c_int) -> OwnedFd {
    // SAFETY: the name ends with a zero byte; the descriptor is fresh; the other calls take no pointers.
    unsafe {
        let fd = libc::memfd_create(c"emp-test".as_ptr(), flags | libc::MFD_CLOEXEC);
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        assert_eq!(libc::ftruncate(fd, bytes as libc::off_t), 0);
        assert!(seals == 0 || libc::fcntl(fd, libc::F_ADD_SEALS, seals) == 0);
        OwnedFd::from_raw_fd(fd)
    }
}

#[test]
fn wrong_memory_is_refused() {
    let world = World::new();
    let mut link = world.open(7);
    let sealing = libc::MFD_ALLOW_SEALING;
    let all = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    let wrong: Vec<OwnedFd> = vec![
        memfd(SHM_BYTES, sealing, 0),
        memfd(SHM_BYTES, sealing, libc::F_SEAL_GROW | libc::F_SEAL_SEAL),
        memfd(SHM_BYTES, sealing, libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL),
        memfd(SHM_BYTES - 4096, sealing, all),
        memfd(0, sealing, all),
        memfd(SHM_BYTES, sealing, all | libc::F_SEAL_WRITE),
        File::open("/dev/zero").expect("it exists").into(),
        socket::bind(&world.0.path().join("other")).expect("a socket"),
    ];
    let socket = bound(&link, 1);
    for (count, memory) in (1..).zip(wrong) {
        say(&link, &socket, &hello(1), Some(memory.as_fd())).expect("it is sent");
        settle(&mut link);
        assert_eq!(link.peers(), 0);
        assert_eq!(link.statistics().system_errors, count);
        let answer = socket::receive(socket.as_fd(), &mut [0; 16]).expect("it is told so");
        assert_eq!(answer.bytes, 9);
    }
    drop(socket);
    works(&world, &mut link);
}

#[test]
fn wrong_words_are_refused() {
    let world = World::new();
    let mut link = world.open(7);
    let (memory, _rings) = ShmEnd::create().expect("memory is to be had");
    let mut other_version = hello(1);
    other_version[7] ^= 1;
    let socket = bound(&link, 1);
    let words =
        [&b"GET / HTTP/1.0\r\n"[..], &hello(1)[..31], &[0; 32], &[0; 33], &[], &other_version];
    for (count, words) in (1..).zip(words) {
        say(&link, &socket, words, Some(memory.as_fd())).expect("it is sent");
        settle(&mut link);
        assert_eq!((link.peers(), link.statistics().system_errors), (0, count), "{words:?}");
    }
    // The right words without memory; from nobody who takes messages; and of nodes that are no peers.
    let before = link.statistics().system_errors;
    say(&link, &socket, &hello(1), None).expect("it is sent");
    say(&link, &socket, &hello(2), Some(memory.as_fd())).expect("it is sent");
    for kind in [1, 2, 3] {
        say(&link, &socket, &[kind, 0, 0, 0, 0, 0, 0, 0, 1], None).expect("it is sent");
    }
    settle(&mut link);
    assert_eq!((link.peers(), link.statistics().system_errors), (0, before + 3));
    drop(socket);
    works(&world, &mut link);
}

/// A peer that is told that nobody took its rings, or that this node's peer is gone, finds out by itself what is true.
#[test]
fn last_words_are_not_believed_of_the_living() {
    let world = World::new();
    let (mut a, mut b) = (world.open(7), world.open(8));
    send(&mut a, b.capabilities.address, &frame(8, 1));
    receive(&mut b, &frame(8, 1));
    send(&mut b, a.capabilities.address, &frame(7, 1));
    receive(&mut a, &frame(7, 1));
    let socket = bound(&a, ROGUE);
    for kind in [2, 3] {
        let words = [&[kind][..], &b.name.number.to_be_bytes()].concat();
        say(&a, &socket, &words, None).expect("it is sent");
    }
    settle(&mut a);
    assert_eq!((a.peers(), b.peers()), (1, 1));
    // And of those who are gone, at once.
    drop(b);
    settle(&mut a);
    assert_eq!(a.peers(), 0);
}

/// A node has one descriptor, however many peers it has; and all are told of its rings though few messages fit its socket.
#[test]
fn peers_cost_no_descriptors() {
    const PEERS: usize = 40;
    let world = World::new();
    let descriptors = || fs::read_dir("/proc/self/fd").expect("Linux").count();
    let mut link = world.open(7);
    let mut peers: Vec<_> = (0..PEERS as u16).map(|i| world.open(100 + i)).collect();
    let before = descriptors();
    let to = link.capabilities.address;
    peers.iter_mut().for_each(|peer| assert_eq!(send(peer, to, &frame(7, 1)), 1));
    let (start, mut got) = (Instant::now(), 0);
    while got < PEERS {
        link.wait(Some(Duration::from_millis(1)));
        got += link.receive(64, &mut |_, _| ());
        for peer in &mut peers {
            peer.service();
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{got} have got through");
    }
    assert_eq!(link.peers(), PEERS);
    // Tests beside this one have some, too.
    assert!(descriptors() < before + PEERS, "{} descriptors, {before} before", descriptors());
}

/// Places in the shared memory: the ring that the rogue writes comes first, then the one that it reads.
const RECORDS: usize = 4096;
const OTHER_TAIL: usize = SHM_BYTES / 2 + 128;

#[test]
fn spoiled_rings_end_the_connection() {
    let world = World::new();
    let mut link = world.open(7);
    // Lengths that no frame has; one that would go beyond the ring; one behind a frame that is as it should be; no length, a mark that
    // there is not, and packed frames that are too short and too long for it.
    let longer = TAKEN_BYTES_MAX as u64 + 1;
    let spoils: [&[(usize, u64)]; 9] = [
        &[(RECORDS, longer)],
        &[(RECORDS, SHM_BYTES as u64)],
        &[(RECORDS, 1 << 40)],
        &[(RECORDS, u64::MAX - 6)],
        &[(RECORDS + LINE_BYTES, longer), (RECORDS, 50)],
        &[(RECORDS, 1 << 32)],
        &[(RECORDS, 3 << 32 | 50)],
        &[(RECORDS, 2 << 32 | 23)],
        &[(RECORDS, 2 << 32 | 301)],
    ];
    for (count, words) in (1..).zip(spoils) {
        let rogue = Rogue::meet(&mut link);
        words.iter().for_each(|(at, word)| rogue.spoil(*at, *word));
        churn(&mut link);
        assert_eq!((link.peers(), link.statistics().system_errors), (0, count), "{words:?}");
    }
    works(&world, &mut link);
}

#[test]
fn a_spoiled_count_of_what_was_read_ends_the_connection() {
    let world = World::new();
    let mut link = world.open(7);
    let rogue = Rogue::meet(&mut link);
    rogue.spoil(OTHER_TAIL, 1 << 40);
    let long = vec![0; RING_FRAME_BYTES_MAX];
    // It is looked at when the ring seems full.
    for _ in 0..SHM_BYTES / RING_FRAME_BYTES_MAX {
        assert_eq!(send(&mut link, LinkAddress::shm(ROGUE), &long), 1, "it is taken, and lost");
        if link.peers() == 0 {
            break;
        }
    }
    assert_eq!(link.peers(), 0);
    works(&world, &mut link);
}

#[test]
fn frames_that_are_no_frames_are_only_counted() {
    let world = World::new();
    let mut link = world.open(7);
    let mut rogue = Rogue::meet(&mut link);
    rogue.push(&[1]);
    rogue.push(&[0xFE; 600]);
    rogue.push(&frame(8, 1));
    churn(&mut link);
    let counts = link.statistics();
    assert_eq!((link.peers(), counts.system_errors, counts.not_for_us), (1, 0, 3));
    rogue.push(&frame(7, 2));
    receive(&mut link, &frame(7, 2));
}

/// A peer that dies leaves frames, half a frame and a full ring behind: the frames are taken, the rest is freed.
#[test]
fn the_dead_are_buried() {
    let world = World::new();
    let mut link = world.open(7);
    let mut rogue = Rogue::meet(&mut link);
    rogue.push(&frame(7, 1));
    rogue.push(&frame(7, 2));
    rogue.spoil(RECORDS + 2 * LINE_BYTES + 8, 500);
    while send(&mut link, LinkAddress::shm(ROGUE), &[0; 9000]) == 1 {
        assert!(link.statistics().frames_sent < 1000, "the ring has an end");
    }
    drop(rogue);
    receive(&mut link, &frame(7, 1));
    receive(&mut link, &frame(7, 2));
    outlive(&mut link);
    let before = link.statistics().system_errors;
    assert_eq!(send(&mut link, LinkAddress::shm(ROGUE), &[0; 9000]), 1, "it is lost, not kept");
    assert_eq!(link.statistics().system_errors, before + 1);
    works(&world, &mut link);
}

/// A node that died and was started again has the name and the number of the one before, and other rings.
#[test]
fn who_has_started_again_is_met_again() {
    let world = World::new();
    for asks_first in [true, false] {
        let mut link = world.open(7);
        drop(Rogue::meet(&mut link));
        let options = ShmOptions {
            directory: Some(world.directory()),
            number: Some(ROGUE),
            ..ShmOptions::new(9)
        };
        let mut again = ShmLink::open(&options).expect("the number is free");
        if asks_first {
            send(&mut again, link.capabilities.address, &frame(7, 1));
            receive(&mut link, &frame(7, 1));
        } else {
            assert_eq!(send(&mut link, LinkAddress::EVERYONE, &frame(0xFFFF, 1)), 1);
            receive(&mut again, &frame(0xFFFF, 1));
        }
        send(&mut link, LinkAddress::shm(ROGUE), &frame(9, 2));
        receive(&mut again, &frame(9, 2));
    }
}

/// A peer that hangs up and whose accomplice goes on writing is forgotten all the same.
#[test]
fn a_ring_that_never_ends_is_left() {
    let world = World::new();
    let mut link = world.open(7);
    let Rogue { socket, mut rings, memory: _memory } = Rogue::meet(&mut link);
    drop(socket);
    link.connections.iter_mut().for_each(Connection::look);
    let mut turns = 0;
    while link.peers() > 0 {
        while rings.producer.push(7, [&frame(7, 0)[..]].into_iter()) == Ok(true) {}
        link.wait(Some(Duration::ZERO));
        link.receive(64, &mut |_, _| ());
        turns += 1;
        // Twice the frames that a ring holds.
        assert!(turns < SHM_BYTES / LINE_BYTES / 64, "it is still listened to");
    }
    works(&world, &mut link);
}

/// A peer that rings without end wakes this end for nothing, and no more than that.
#[test]
fn a_flood_of_bells_does_no_harm() {
    let world = World::new();
    let mut link = world.open(7);
    let rogue = Rogue::meet(&mut link);
    while say(&link, &rogue.socket, &[0], None).is_ok() {}
    let start = Instant::now();
    assert!(!link.wait(Some(Duration::from_millis(20))), "there is no frame");
    assert!(start.elapsed() >= Duration::from_millis(20));
    drop(rogue);
    outlive(&mut link);
    works(&world, &mut link);
}

/// A ring that nobody empties costs frames, not time: the second frame that finds it so is lost at once.
#[test]
fn a_peer_that_takes_nothing_holds_nobody_up() {
    let world = World::new();
    let mut link = world.open(7);
    let _rogue = Rogue::meet(&mut link);
    let start = Instant::now();
    while link.statistics().frames_sent < 10_000 {
        send(&mut link, LinkAddress::shm(ROGUE), &[0; 1000]);
        assert!(start.elapsed() < Duration::from_secs(5), "it waits for the dead");
    }
    works(&world, &mut link);
}

#[test]
fn a_dead_node_s_name_is_removed() {
    let world = World::new();
    let mut link = world.open(7);
    let named = |number| link.place.socket_of(Name { number, ..link.name });
    let dead = named(77);
    drop(socket::bind(&dead).expect("a socket"));
    fs::write(world.directory().join("not a node"), "").expect("it is written");
    fs::write(named(78), "").expect("it is written");
    assert_eq!(send(&mut link, LinkAddress::EVERYONE, &frame(0xFFFF, 1)), 1);
    assert!(!dead.exists());
    assert!(world.directory().join("not a node").exists());
    works(&world, &mut link);
    let own = link.place.socket_of(link.name);
    assert!(own.exists());
    drop(link);
    assert!(!own.exists());
}

#[test]
fn a_number_belongs_to_one() {
    let world = World::new();
    let open =
        |directory| ShmLink::open(&ShmOptions { directory, number: Some(5), ..ShmOptions::new(7) });
    let first = open(Some(world.directory())).expect("it is free");
    assert_eq!(first.capabilities.address, LinkAddress::shm(5));
    let error = open(Some(world.directory())).err().expect("it is taken");
    assert!(error.to_string().contains("another link has this number"), "{error}");
    drop(first);
    // What a node that was killed leaves behind is in nobody's way.
    let network = open::network_of("thread-self").expect("Linux");
    let dead = format!("0000000000000005-{network:x}");
    drop(socket::bind(&world.directory().join(dead)).expect("a socket"));
    assert!(open(Some(world.directory())).is_ok());
}

#[test]
fn a_directory_for_others_is_refused() {
    let world = World::new();
    let directory = world.0.path().join("shared");
    let open = || {
        let directory = Some(directory.clone());
        ShmLink::open(&ShmOptions { directory, ..ShmOptions::new(7) }).map(|_| ())
    };
    fs::create_dir(&directory).expect("made");
    for mode in [0o755, 0o770, 0o701] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).expect("it is ours");
        let error = open().expect_err("others may look");
        assert!(error.to_string().contains("open to other users; `chmod 700"), "{error}");
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("it is ours");
    open().expect("it is right now");
    fs::remove_dir(&directory).expect("nothing is left in it");
    fs::write(&directory, "").expect("a file");
    assert!(open().expect_err("a file").to_string().contains("not a directory"));
    fs::remove_file(&directory).expect("it is ours");
    symlink(world.directory(), &directory).expect("a link");
    assert!(open().expect_err("a link").to_string().contains("not a directory"));
    let long = world.0.path().join("x".repeat(100));
    let options = ShmOptions { directory: Some(long), ..ShmOptions::new(7) };
    let error = ShmLink::open(&options).err().expect("no socket has such a name");
    assert!(error.advice.contains("107 bytes"), "{error}");
}

/// Descriptors and memory of peers that came and went are free again. Each peer takes two of both in this process. Tests
/// beside this one have some too, but never as many as would be left here.
#[test]
fn nothing_is_left_of_peers_that_went() {
    const ROUNDS: usize = 300;
    let world = World::new();
    let mut link = world.open(7);
    for _ in 0..ROUNDS {
        works(&world, &mut link);
        let start = Instant::now();
        while link.peers() > 0 {
            link.wait(Some(Duration::from_millis(1)));
            assert_eq!(link.receive(64, &mut |_, _| ()), 0);
            assert!(start.elapsed() < Duration::from_secs(5), "a peer that went is kept");
        }
    }
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
    let mapped = maps.matches("emp-ring").count();
    assert!(mapped < ROUNDS, "{mapped} rings are mapped");
    let descriptors = fs::read_dir("/proc/self/fd").expect("Linux").count();
    assert!(descriptors < 2 * ROUNDS, "{descriptors} descriptors are open");
}

/// What a peer says of its memory is tried, once; what is not true leaves the rings.
#[test]
fn introductions_that_lie_are_refused() {
    let world = World::new();
    let mut link = world.open(7);
    let rogue = Rogue::meet(&mut link);
    assert_eq!((link.statistics().memory_readable, link.statistics().memory_refused), (0, 1));
    let cell = [5u64, 1];
    let real = cell.as_ptr().expose_provenance() as u64;
    // The truth comes too late, and longer or shorter words are not heard.
    let words =
        [&[1][..], &ROGUE.to_be_bytes(), &real.to_be_bytes(), &5u64.to_be_bytes(), &[0]].concat();
    for words in [&words[..], &words[..25], &[&words[..], &[0]].concat()] {
        say(&link, &rogue.socket, words, None).expect("it is sent");
    }
    settle(&mut link);
    assert_eq!((link.statistics().memory_readable, link.statistics().memory_refused), (0, 1));
    let memory = link.peer_memory().expect("it is a link of one machine");
    assert_eq!((memory.readable(), memory.stamp(&LinkAddress::shm(ROGUE))), (0, None));
    drop(rogue);
    outlive(&mut link);
    works(&world, &mut link);
}

#[test]
fn honest_peers_read_each_other_until_they_go() {
    let world = World::new();
    let (mut a, mut b) = (world.open(7), world.open(8));
    send(&mut a, b.capabilities.address, &frame(8, 1));
    receive(&mut b, &frame(8, 1));
    for _ in 0..3 {
        settle(&mut a);
        settle(&mut b);
    }
    for (link, peer) in [(&a, &b), (&b, &a)] {
        assert_eq!((link.statistics().memory_readable, link.statistics().memory_refused), (1, 0));
        assert!(link.memory.stamp(&peer.capabilities.address).is_some());
    }
    let gone = b.capabilities.address;
    drop(b);
    settle(&mut a);
    assert_eq!((a.memory.readable(), a.memory.stamp(&gone)), (0, None));
}

/// A link that keeps to its network namespace takes peers of the same one. (Others: `crates/link/tests/opening.rs`, and the MPI
/// tests, whose hosts are namespaces.)
#[test]
fn neighbours_in_the_same_network_are_welcome() {
    let world = World::new();
    let open = |node_tag: u16| {
        let directory = Some(world.directory());
        let options = ShmOptions { directory, same_network: true, ..ShmOptions::new(node_tag) };
        ShmLink::open(&options).expect("anyone may")
    };
    let (mut a, mut b) = (open(7), open(8));
    send(&mut a, b.capabilities.address, &frame(8, 1));
    receive(&mut b, &frame(8, 1));
    works(&world, &mut a);
}
