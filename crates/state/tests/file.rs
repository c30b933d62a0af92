//! A node's file as its writer makes it and readers find it, whole and otherwise.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use emp_state::layout::{Address, PATHS_MAX, PEERS_MAX, PEERS_STEP};
use emp_state::place::Readers;
use emp_state::process::Life;
use emp_state::{
    Grown, Identity, Link, Neighbour, Note, Now, Path as StatePath, Peer, PeerState, Places,
    Refusal, Text, Writer, read,
};

fn identity() -> Identity {
    Identity {
        node: 0x1122_3344_5566_7788,
        epoch: 0x0102_0304,
        started_real: 1_795_000_000_000_000_000,
        rank: 3,
        ranks: 4,
        patience_ms: 120_000,
        name: Text::new("ann"),
        version: Text::new("0.1.0"),
        launcher: Text::new("slurm"),
        job: Text::new("4711.0"),
        host: Text::new("host-a"),
        board: Text::new("inline"),
        ..Identity::default()
    }
}

fn now() -> Now {
    Now {
        written: 0x0a0b,
        written_real: 0x0c0d,
        receive_since: 5,
        unexpected_since: 6,
        sends: 7,
        receives: 8,
        receives_any: 9,
        incoming: 10,
        peers_known: 11,
        peers: 1,
        peers_left_out: 12,
        pool_free: 13,
        pool_slots: 14,
        links: 1,
        counters: 2,
        neighbours: 1,
        ..Now::default()
    }
}

fn link() -> Link {
    let mut bytes = [0; 22];
    bytes[..6].copy_from_slice(&[10, 0, 0, 1, 0xca, 0xfe]);
    Link {
        kind: Text::new("udp"),
        interface: Text::new("eth0"),
        address: Address { family: 4, bytes },
        mtu: 1_500,
        frame_bytes: 1_472,
        trouble: Text::new("has no carrier"),
        frames_sent: 21,
        frames_received: 22,
        bytes_sent: 23,
        bytes_received: 24,
        send_full: 25,
        send_refused: 26,
        receive_lost: 27,
        system_errors: 28,
        not_for_us: 29,
    }
}

fn peer() -> Peer {
    let mut paths = [StatePath::default(); PATHS_MAX];
    let flags = StatePath::THERE | StatePath::FIRST | StatePath::LONG;
    let rates = StatePath {
        window: 31,
        flight: 32,
        rtt_us: 33,
        sent: 34,
        lost: 35,
        ..StatePath::default()
    };
    paths[0] = StatePath { link: 0, flags, frame_bytes: 1_472, ..rates };
    Peer {
        node: 0x99,
        epoch: 41,
        state: PeerState::Met.number(),
        paths_up: 1,
        heard: 42,
        state_since: 43,
        out_since: 44,
        in_since: 45,
        out_messages: 46,
        out_awaiting: 47,
        out_frames: 48,
        out_timeouts: 49,
        out_refusals: 50,
        in_messages: 51,
        in_unexpected: 52,
        in_pulls: 53,
        in_receives: 54,
        granted: 55,
        frames_sent: 56,
        frames_resent: 57,
        name: Text::new("bob"),
        paths,
        places: Places::of([link().address]),
    }
}

fn neighbour() -> Neighbour {
    Neighbour {
        link: 1,
        address: link().address,
        frames: 81,
        bytes: 82,
        searches: 83,
        dropped: 84,
        dropped_full: 85,
        dropped_cut: 86,
    }
}

/// A directory, and in it the file of a node with one of everything.
fn made() -> (tempfile::TempDir, Writer) {
    let top = tempfile::tempdir().expect("a directory");
    let mut writer =
        Writer::create_in(&top.path().join("own"), &identity(), Readers::Own).expect("a file");
    writer.link(0, &link());
    writer.counter(0, "frames_sent", 61);
    writer.counter(1, "drop_duplicate", 62);
    writer.note(&Note { at: 71, node: 0x99, level: 2, text: Text::new("peer bob is back") });
    writer.neighbour(0, &neighbour());
    writer.peer(0, Some(&peer()));
    writer.publish(&now());
    (top, writer)
}

#[test]
fn what_was_written_is_read() {
    let (_top, mut writer) = made();
    let found = read(writer.path()).expect("a state file");
    assert_eq!(found.identity.name.show(), "ann");
    assert_eq!(found.identity.process, std::process::id());
    assert!(matches!(found.life, Life::Alive(_)), "{:?}", found.life);
    assert_eq!(found.now, Now { writes: 1, notes: 1, ..now() });
    assert_eq!(found.links, [link()]);
    assert_eq!((found.counter("drop_duplicate"), found.counter("nothing")), (62, 0));
    assert_eq!(found.notes.len(), 1);
    assert_eq!(found.neighbours, [neighbour()]);
    assert_eq!(found.peers, [peer()]);
    assert!(!found.torn);
    for i in 0..40 {
        writer.note(&Note { at: 100 + i, ..Note::default() });
    }
    writer.counter(0, "frames_sent", 99);
    writer.peer(0, None);
    writer.publish(&now());
    let found = read(writer.path()).expect("a state file");
    let times: Vec<u64> = found.notes.iter().map(|note| note.at).collect();
    assert_eq!(times, (128..140).collect::<Vec<u64>>());
    assert_eq!((found.counter("frames_sent"), found.peers.len()), (99, 0));
}

/// Rows of 16 bytes that are not all zero, but for what differs from run to run: the process and the machine's run.
fn rows(mut bytes: Vec<u8>) -> String {
    bytes[64 + 12..64 + 48].fill(0);
    bytes[64 + 56..64 + 60].fill(0);
    let command = 64 + 72 + 80 + 24;
    bytes[command..command + 256].fill(0);
    let rows = bytes.chunks(16).enumerate().filter(|(_, row)| row.iter().any(|byte| *byte != 0));
    rows.map(|(at, row)| {
        let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:05} {}\n", at * 16, hex.join(" "))
    })
    .collect()
}

/// Programs of other versions read it: whatever changes here is a new version of the layout.
#[test]
fn the_layout_is_what_it_was() {
    let (_top, writer) = made();
    let bytes = fs::read(writer.path()).expect("the file");
    assert_eq!(bytes.len(), 16_384, "a node and its first peers");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/version-4.hex");
    let want = fs::read_to_string(golden).unwrap_or_default();
    let is = rows(bytes);
    assert!(is == want, "the layout has changed:\n{is}");
}

#[test]
fn the_file_grows_with_its_peers_and_goes_with_its_node() {
    let (_top, mut writer) = made();
    for index in 1..PEERS_MAX {
        if index >= writer.room() {
            assert_eq!(writer.grow(), Grown::Yes);
        }
        writer.peer(index, Some(&Peer { node: 1_000 + index as u64, ..peer() }));
    }
    assert_eq!(writer.grow(), Grown::No);
    writer.publish(&now());
    let found = read(writer.path()).expect("a state file");
    assert_eq!(found.peers.len(), PEERS_MAX);
    assert_eq!(found.peers[PEERS_STEP].node, 1_000 + PEERS_STEP as u64);
    let path = writer.path().to_path_buf();
    assert_eq!(fs::metadata(&path).unwrap().len(), 12_288 + 256 * PEERS_MAX as u64);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    drop(writer);
    assert!(!path.exists());
}

#[test]
fn everyone_may_read_it_if_that_is_asked_for() {
    let top = tempfile::tempdir().unwrap();
    let directory = top.path().join("own");
    let writer = Writer::create_in(&directory, &identity(), Readers::All).unwrap();
    assert_eq!(fs::metadata(writer.path()).unwrap().mode() & 0o777, 0o644);
    assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o755);
}

fn refusal(path: &Path) -> String {
    read(path).expect_err("no state file").to_string()
}

#[test]
fn what_is_no_state_file_is_refused_in_one_line() {
    let (top, writer) = made();
    let whole = fs::read(writer.path()).unwrap();
    let directory = top.path().join("own");
    let put = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    assert_eq!(
        refusal(&put("text", b"hello, world, this is no such file")),
        "is no state file of EMP"
    );
    assert_eq!(refusal(&put("empty", b"")), "is no state file of EMP");
    assert!(
        refusal(&put("cut", &whole[..5_000])).starts_with("is cut: 5000 bytes of at least 12288")
    );
    assert!(refusal(&put("short", &whole[..12])).starts_with("is cut: 12 bytes"));
    let mut newer = whole.clone();
    newer[8] = 9;
    assert!(refusal(&put("newer", &newer)).starts_with("is a state file of version 9, and"));
    let mut odd = whole.clone();
    odd[12] ^= 1;
    assert_eq!(refusal(&put("odd", &odd)), "is no state file of EMP");
    let long = directory.join("long");
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(&long)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    assert!(refusal(&long).starts_with("is no plain file, or too long"));
    let link = directory.join("link");
    std::os::unix::fs::symlink(writer.path(), &link).unwrap();
    assert!(refusal(&link).starts_with("can't be read"));
    assert!(refusal(&directory).starts_with("is no plain file"));
    let pipe = directory.join("pipe");
    let name = std::ffi::CString::new(pipe.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the name ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    assert!(refusal(&pipe).starts_with("is no plain file"), "a pipe holds nobody up");
}

/// Any bytes behind the head are some state, and none of them is a panic, a hang or a growth.
#[test]
fn any_bytes_are_read() {
    let (top, writer) = made();
    let whole = fs::read(writer.path()).unwrap();
    let path = top.path().join("own/mutant");
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut draw = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..300 {
        let mut mutant = whole.clone();
        for _ in 0..200 {
            let at = 20 + draw() as usize % (mutant.len() - 20);
            mutant[at] = draw() as u8;
        }
        // Most are to be settled, or each would be waited for.
        mutant[1_024..1_032].fill(0);
        for peer in mutant[12_288..].chunks_exact_mut(256) {
            peer[0] &= !1;
        }
        let cut = if draw() % 4 == 0 { draw() as usize % mutant.len() } else { mutant.len() };
        fs::write(&path, &mutant[..cut]).unwrap();
        if let Ok(found) = read(&path) {
            assert!(found.peers.len() <= PEERS_STEP && found.notes.len() <= 12);
            assert!(found.links.len() <= 16 && found.counters.len() <= 120);
            let _ = (found.identity.name.show(), found.peers.first().map(Peer::state));
        }
    }
}

#[test]
fn who_is_stopped_while_writing_is_shown_as_torn() {
    let (_top, writer) = made();
    let file = OpenOptions::new().write(true).open(writer.path()).unwrap();
    file.write_all_at(&7u64.to_le_bytes(), 1_024).unwrap();
    let found = read(writer.path()).expect("shown all the same");
    assert!(found.torn);
    assert_eq!(found.links, [link()]);
}

#[test]
fn a_reader_never_sees_half_of_what_is_written() {
    let (_top, mut writer) = made();
    let path = writer.path().to_path_buf();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Bounded, as the scope waits for it whatever becomes of the reader.
            for value in 1_000_000..1_100_000u64 {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                writer.counter(0, "frames_sent", value);
                writer.counter(1, "drop_duplicate", value);
                writer.publish(&Now { written: value, ..now() });
                writer.peer(0, Some(&Peer { heard: value, state_since: value, ..peer() }));
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
        for _ in 0..500 {
            let found = read(&path).expect("a state file");
            let both = (found.counter("frames_sent"), found.counter("drop_duplicate"));
            if !found.torn && found.now.written >= 1_000_000 {
                assert_eq!(both, (found.now.written, found.now.written));
            }
            if !found.torn && found.peers[0].heard >= 1_000_000 {
                assert_eq!(found.peers[0].heard, found.peers[0].state_since);
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Another process writes to it, as its owner's engine is there: in memory, whatever its owner does to the file meanwhile.
#[test]
fn a_file_that_was_handed_over_is_written_by_somebody_else() {
    let top = tempfile::tempdir_in("/dev/shm").unwrap();
    let own = Writer::create_in(&top.path().join("own"), &identity(), Readers::Own).unwrap();
    let path = own.path().to_path_buf();
    let (file, kept) = own.hand_over().expect("it is in memory");
    let cut = fs::File::from(file.try_clone().unwrap());
    let mut writer = Writer::given(file).expect("a state file");
    let write = |writer: &mut Writer| {
        writer.link(0, &link());
        writer.counter(0, "frames_sent", 61);
        writer.counter(1, "drop_duplicate", 62);
        writer.peer(0, Some(&peer()));
        writer.publish(&now());
    };
    write(&mut writer);
    let found = read(&path).expect("a state file");
    assert_eq!(
        (found.identity.process, found.identity.name.show()),
        (std::process::id(), "ann".into())
    );
    assert!(!found.torn && found.links == [link()] && found.peers == [peer()], "{found:?}");
    assert_eq!(found.now, Now { writes: 1, ..now() });
    while writer.room() < PEERS_MAX {
        assert_eq!(writer.grow(), Grown::Yes);
        let last = writer.room() - 1;
        writer.peer(last, Some(&peer()));
    }
    assert_eq!(read(&path).unwrap().peers.len(), 1 + PEERS_MAX / PEERS_STEP - 1);
    // Cut, it is no file any more that shows a node, and no end of its writer.
    cut.set_len(0).unwrap();
    write(&mut writer);
    assert!(matches!(read(&path), Err(Refusal::Foreign)));
    // Longer than any, it is left alone, and so is one that nobody can find.
    cut.set_len(1 << 30).unwrap();
    write(&mut writer);
    assert_eq!(writer.grow(), Grown::No);
    drop(writer);
    assert!(path.exists(), "it is its owner's");
    drop(kept);
    assert!(!path.exists());
}

/// A child that was forked has the mapping too; it must neither write nor remove what is its parent's.
#[test]
fn a_forked_child_leaves_the_file_alone() {
    let (_top, mut writer) = made();
    // SAFETY: the child calls nothing but the writer, which allocates nothing here, and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        writer.publish(&Now { sends: 99, ..now() });
        writer.peer(0, None);
        drop(writer);
        // SAFETY: ends the child without running what belongs to its parent.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the status is a place of this function's.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    let found = read(writer.path()).expect("it is still there");
    assert_eq!((found.now.sends, found.peers.len()), (7, 1));
}

#[test]
fn a_full_file_system_is_an_error_and_not_a_signal() {
    let top = tempfile::tempdir().unwrap();
    let mut file = fs::File::create(top.path().join("own")).unwrap();
    file.write_all(b"in the way").unwrap();
    let problem = Writer::create_in(&top.path().join("own"), &identity(), Readers::Own);
    assert!(problem.is_err());
    let problem = Writer::create_in(&top.path().join("none/below/it"), &identity(), Readers::Own);
    assert!(problem.is_err());
}

#[test]
fn refusals_are_errors() {
    let error: &dyn std::error::Error = &Refusal::Foreign;
    assert_eq!(error.to_string(), "is no state file of EMP");
}
