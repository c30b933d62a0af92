//! What a program gives as its state file: a service writes to a plain file in memory, and to nothing else, whatever becomes of it meanwhile.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use emp_host::daemon::{Answer, Question, Tell, said};
use emp_host::{Node, NodeEvent, Selector};
use emp_link::service::EngineSeat;
use emp_link::service::channel::Gift;
use emp_state::{PeerState, Snapshot};

use crate::common::until;
use crate::hostile::seat;
use crate::scribbles::ask;
use crate::{LONG, Place, on, pair};

/// What a node of this process shows.
fn shown(node: &Node) -> Option<Snapshot> {
    let found = emp_state::look().into_iter().filter_map(|(_, found)| found.ok());
    let own = |it: &Snapshot| it.identity.node == node.id().0;
    found.into_iter().find(own)
}

#[test]
fn a_node_shows_itself_by_its_engine() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = (on(&socket, "sa").start().unwrap(), on(&socket, "sb").start().unwrap());
        let (ea, eb) = (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"));
        let waits = ea.receive(Selector::bits(9), vec![0; 10]).expect("posted");
        ea.send_wait(eb.address(), 1, "hello", LONG).expect("it goes");
        let begin = Instant::now();
        let found = loop {
            match shown(&a) {
                Some(found) if found.counter("messages_sent") == 1 && found.now.receives == 1 => {
                    break found;
                }
                found => assert!(begin.elapsed() < LONG, "{found:#?}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let identity = &found.identity;
        assert_eq!(identity.process, std::process::id());
        assert_eq!((identity.user, identity.board.show()), (65_534, "daemon".into()));
        assert_eq!(found.links[0].kind.show(), "empd");
        let peer = found.peers.iter().find(|peer| peer.node == b.id().0).expect("it was met");
        assert_eq!(peer.state(), PeerState::Met);
        assert!(found.path.exists());
        drop((waits, ea, eb));
        a.close(LONG).expect("nothing is left");
        assert!(!found.path.exists(), "the file goes with the node");
    });
}

/// The collection of one peer, by what the program sets at its start, or later.
#[test]
fn a_peer_has_a_collection_of_its_own() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let builder = on(&socket, "ca").collections("16,cb=1".parse().expect("it is one"));
        let (a, b) = (builder.start().unwrap(), on(&socket, "cb").start().unwrap());
        let (ea, eb) = (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"));
        assert!(!a.set_collection_of(emp_host::NodeId(77), 4), "nobody knows it");
        // As many acknowledgements as frames, and with 64 of them fewer, where frames come sooner than one is due by time: all but never on a fast
        // machine, and for half of them on a slow one that does other things. One after the other, as
        // what comes at once is acknowledged at once; and of messages that go frame by frame: long ones are datagrams.
        let acknowledgements = |bits: u64| {
            let before = a.counters().get(emp_host::Counter::AcksSent);
            for _ in 0..100 {
                let got = ea.receive(Selector::bits(bits), vec![0; 1_000]).expect("posted");
                // Over when it is copied: who waits for the delivery asks for an acknowledgement.
                let sent = eb.send(ea.address(), bits, vec![7u8; 1_000]).expect("posted");
                sent.wait(LONG).expect("it is copied");
                got.wait(LONG).expect("it comes");
            }
            a.counters().get(emp_host::Counter::AcksSent) - before
        };
        let begin = Instant::now();
        eb.send_wait(ea.address(), 1, "hello", LONG).expect("it goes");
        while !matches!(a.take_event(), Some(NodeEvent::Found { .. })) {
            assert!(begin.elapsed() < LONG);
            a.progress();
        }
        let mut seen = Vec::new();
        let fewer = (0..10).any(|_| {
            assert!(a.set_collection_of(b.id(), 1));
            let each = acknowledgements(2);
            assert!(a.set_collection_of(b.id(), 64));
            let some = acknowledgements(3);
            seen.push((each, some));
            5 * some < 4 * each
        });
        assert!(fewer, "acknowledgements of one frame and of 64: {seen:?}");
    });
}

fn gives(seat: &mut EngineSeat, file: &OwnedFd) -> Option<Answer> {
    seat.channel.give(Gift::State, file.as_fd()).expect("there is room");
    assert_eq!(seat.channel.write(said::TELL, &[&Tell::Shows.emit()]), Ok(true));
    ask(seat, Question::Open(1))
}

#[test]
fn what_is_none_of_a_state_file_is_not_written_to() {
    let Some(mut place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let memory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let on_disk: OwnedFd = tempfile::tempfile().expect("a file").into();
        let in_memory = |name: &str| -> File {
            let path = memory.path().join(name);
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .unwrap()
        };
        let long = in_memory("long");
        long.set_len(1 << 30).expect("nothing of it is there");
        let (pipe, _reads) =
            std::io::pipe().map(|(reads, writes)| (writes, reads)).expect("a pipe");
        let directory = File::open(memory.path()).expect("it is there");
        let mem = File::options().read(true).write(true).open("/proc/thread-self/mem").unwrap();
        let none: [OwnedFd; 5] = [on_disk, long.into(), pipe.into(), directory.into(), mem.into()];
        for (number, given) in (0u64..).zip(&none) {
            // A temporary directory may be in memory as well.
            if number == 0 && std::env::temp_dir().starts_with("/dev/shm") {
                continue;
            }
            let mut seat = seat(&socket, 0x7100 + number);
            assert_eq!(gives(&mut seat, given), None, "{number} is taken");
        }
        let opened = Some(Answer::Opened(Ok(())));
        let mut twice = seat(&socket, 0x7200);
        assert_eq!(gives(&mut twice, &in_memory("twice").into()), opened);
        assert_eq!(gives(&mut twice, &in_memory("twice").into()), None, "for the second time");
        // One that cannot be written to is left alone, and so is one that is made longer by each write.
        let only_read = File::open(memory.path().join("twice")).expect("it is there");
        assert_eq!(gives(&mut seat(&socket, 0x7300), &only_read.into()), opened);
        let appends = OpenOptions::new().append(true).open(memory.path().join("twice")).unwrap();
        let kept = appends.try_clone().expect("a descriptor");
        let mut grows = seat(&socket, 0x7400);
        assert_eq!(gives(&mut grows, &appends.into()), opened);
        moves(&mut grows, 200);
        assert!(kept.metadata().unwrap().len() < 600 << 10, "it grows without an end");
        // One that is cut again and again, amid the writes.
        let cut = in_memory("cut");
        let mut shown = seat(&socket, 0x7500);
        assert_eq!(gives(&mut shown, &cut.try_clone().unwrap().into()), opened);
        for _ in 0..50 {
            cut.set_len(0).expect("ours");
            moves(&mut shown, 2);
        }
        let (a, b) = pair(&socket);
        let (ea, eb) = (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"));
        ea.send_wait(eb.address(), 1, "hello", LONG).expect("others go on");
    });
    assert!(place.service.is_up());
    until("the log says why", || {
        let log = place.service.log();
        log.matches("a descriptor that is none of a state file").count() >= 4
            && log.contains("its state file for the second time")
    });
}

/// Has an engine write its state so often: each time that it has something to do.
fn moves(seat: &mut EngineSeat, times: u32) {
    for _ in 0..times {
        assert!(ask(seat, Question::Counters).is_some(), "it goes on");
        std::thread::sleep(Duration::from_millis(1));
    }
}
