//! Clients that write what cannot be: each is put out, and nobody else notices.

use std::path::Path;
use std::time::{Duration, Instant};

use emp_host::daemon::{Descriptor, Posting, Question, Tell, said};
use emp_host::{ClaimId, CompletionMode, NodeId, OpId, OpKind, Selector};
use emp_link::service::channel::{Heard, RECORD_BYTES_MAX};
use emp_link::service::protocol::Engine;
use emp_link::service::{EngineSeat, ask_engine};

use crate::common::until;
use crate::{LONG, Place, pair, pattern};

/// A request for an engine.
pub fn wanted(node: u64) -> Engine {
    Engine {
        node: NodeId(node),
        epoch: 1,
        seed: node,
        interface: String::new(),
        profile: "default".into(),
        collection: 16,
        patience_ns: 1_000_000_000,
        eager_bytes: [1 << 16, 1 << 19],
        operations_max: 64,
        incoming_max: 64,
        end_to_end: false,
        linger_ms: 0,
        faults: String::new(),
        name: String::from("liar"),
    }
}

/// Its client's seat.
pub fn seat(socket: &Path, node: u64) -> EngineSeat {
    ask_engine(socket, &wanted(node), LONG).expect("it does not know yet")
}

/// Long enough for most that are put out.
const SOON: Duration = Duration::from_millis(20);

/// Writes records until the service hangs up, or so many were written and it has not for so long; reads what comes, so that there is room.
fn write(
    mut seat: EngineSeat,
    (count, patience): (usize, Duration),
    mut record: impl FnMut(usize) -> (u32, Vec<u8>),
) -> bool {
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    let since = Instant::now();
    for number in 0..count {
        let (mark, bytes) = record(number);
        loop {
            while seat.channel.read(&mut buffer).expect("the service is sound").is_some() {}
            match seat.channel.write(mark, &[&bytes]) {
                Ok(true) => break,
                Ok(false) => std::thread::yield_now(),
                Err(_) => return true,
            }
            seat.channel.wake();
            if number % 16 == 0 && seat.channel.listen() == Ok(Heard::Gone) {
                return true;
            }
            assert!(since.elapsed() < LONG, "the ring does not move");
        }
        seat.channel.wake();
    }
    let since = Instant::now();
    while since.elapsed() < patience {
        if matches!(seat.channel.nap(Duration::from_millis(20)), Ok(Heard::Gone) | Err(_)) {
            return true;
        }
        while seat.channel.read(&mut buffer).expect("the service is sound").is_some() {}
    }
    false
}

fn descriptor(op: u64, bytes: u64, over: bool) -> Descriptor {
    let posting = Posting::Send {
        to: NodeId(0x7777),
        to_endpoint: 1,
        match_bits: 0,
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Auto,
        more: false,
        over,
    };
    let op = OpId::elsewhere(OpKind::Send, op as u32, 0).to_bits();
    Descriptor { op, endpoint: 1, bytes, posting }
}

#[test]
fn what_cannot_be_ends_the_client_alone() {
    let Some(mut place) = Place::new() else { return };
    let all = place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let (ea, eb) = (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"));
        let talk = |seed: u64| {
            ea.send(eb.address(), seed, pattern(40_000, seed)).map(drop).expect("there is room");
            let got = eb.receive_wait(Selector::bits(seed), vec![0; 40_000], LONG);
            assert!(got.expect("it comes").buffer == pattern(40_000, seed));
        };
        let post = |descriptor: Descriptor, payload: usize| {
            let mut record = descriptor.emit().to_vec();
            record.resize(64 + payload, 7);
            (said::POST, record)
        };
        let receive = |bytes: u64| {
            let posting = Posting::Receive { selector: Selector::ANY, claim: None };
            let op = OpId::elsewhere(OpKind::Receive, bytes as u32, 0).to_bits();
            Descriptor { op, endpoint: 1, bytes, posting }
        };
        let lies: Vec<Vec<(u32, Vec<u8>)>> = vec![
            vec![(9, vec![1])],
            vec![(said::POST, vec![0; 64])],
            vec![(said::POST, vec![1; 63])],
            vec![(said::MORE, vec![1; 100])],
            vec![(said::ASK, vec![99])],
            vec![(said::TELL, vec![5, 1])],
            vec![post(descriptor(1, 10, false), 11)],
            vec![post(descriptor(1, 1 << 20, true), 9)],
            vec![post(descriptor(1, 10, true), 9), (said::ASK, Question::Left.emit())],
            vec![post(descriptor(1, 1 << 62, false), 0)],
            vec![post(descriptor(1, 100, false), 50), (said::MORE, vec![0; 51])],
            vec![post(descriptor(1, 100, false), 50), (said::ASK, Question::Left.emit())],
            vec![post(receive(1 << 50), 0)],
            vec![post(receive(10), 1)],
        ];
        let all = lies.len() + 2;
        for (number, lie) in lies.into_iter().enumerate() {
            let seat = seat(&socket, 0x1000 + number as u64);
            let count = lie.len();
            assert!(write(seat, (count, LONG), |at| lie[at].clone()), "lie {number} is believed");
            talk(number as u64);
        }
        // Names that are used twice, and more operations than there may be.
        let twice = |at: usize| {
            if at == 0 { (said::ASK, Question::Open(1).emit()) } else { post(receive(10), 0) }
        };
        assert!(write(seat(&socket, 0x2000), (3, LONG), twice), "two of one name");
        let many = |at: usize| match at {
            0 => (said::ASK, Question::Open(1).emit()),
            // Receives, each of its own name, of which none ends.
            _ => post(receive(at as u64), 0),
        };
        assert!(write(seat(&socket, 0x2001), (70, LONG), many), "more than it may have");
        talk(99);
        all
    });
    assert!(place.service.is_up());
    until("the log says why of each", || place.service.log().matches("put out: ").count() == all);
    assert!(place.service.log().contains("put out: a descriptor of a kind that there is not"));
}

#[test]
fn scribbles_of_all_kinds_leave_the_service_and_others_alone() {
    let Some(mut place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let (ea, eb) = (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"));
        let mut state = 0x1234_5678_9ABC_DEF1u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..60u64 {
            let seat = seat(&socket, 0x3000 + round);
            // Mostly sound records with numbers that mean something or nothing.
            write(seat, (200, SOON), |at| {
                let small = random() % 8;
                let receive = OpId::elsewhere(OpKind::Receive, small as u32, 0).to_bits();
                match (at, random() % 16) {
                    (0, _) => (said::ASK, Question::Open(1).emit()),
                    (_, 0) => (said::ASK, Question::Open(small as u16).emit()),
                    (_, 1) => (said::ASK, Question::Cancel(receive).emit()),
                    (_, 2) => (said::ASK, Question::Probe(1, Selector::ANY, small & 1 == 0).emit()),
                    (_, 3) => (said::ASK, Question::Left.emit()),
                    (_, 4) => (said::TELL, Tell::Abort(receive).emit()),
                    (_, 5) => (said::TELL, Tell::CloseEndpoint(small as u16).emit()),
                    (_, 6) => (said::TELL, Tell::Discard(ClaimId::from_bits(random())).emit()),
                    (_, 7) => {
                        let bytes = (0..1 + random() % 100).map(|_| random() as u8).collect();
                        let mark = if random() % 8 == 0 { random() as u32 % 6 } else { said::TELL };
                        if random() % 4 == 0 { (mark, bytes) } else { (said::ASK, vec![4]) }
                    }
                    (_, 8..=10) => {
                        let posting = Posting::Receive { selector: Selector::ANY, claim: None };
                        let op = OpId::elsewhere(OpKind::Receive, at as u32, 0).to_bits();
                        let bytes = random() % 5000;
                        let of = Descriptor { op, endpoint: small as u16, bytes, posting };
                        (said::POST, of.emit().to_vec())
                    }
                    _ => {
                        let bytes = random() % 1000;
                        let mut of = descriptor(at as u64, bytes, random() & 1 == 0);
                        if let Posting::Send { to, .. } = &mut of.posting
                            && random() & 1 == 0
                        {
                            *to = NodeId(0x3000 + round);
                        }
                        let mut record = of.emit().to_vec();
                        if random() % 16 == 0 {
                            record[random() as usize % 64] ^= 1 << (random() % 8);
                        }
                        record.resize(64 + bytes as usize, 7);
                        (said::POST, record)
                    }
                }
            });
            if round % 10 == 0 {
                ea.send(eb.address(), round, pattern(40_000, round)).map(drop).expect("room");
                let got = eb.receive_wait(Selector::bits(round), vec![0; 40_000], LONG);
                assert!(got.expect("it comes").buffer == pattern(40_000, round));
            }
        }
    });
    assert!(place.service.is_up());
    until("the liars' connections are gone", || {
        let log = place.service.log();
        assert!(!log.contains("a fault of the service's"), "{log}");
        true
    });
}
