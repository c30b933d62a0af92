//! What a client of `empd` can write: any bytes anywhere in the rings, between any reads and writes of the service, and any frame. Reading
//! gives records, nothing, or an end; what is let out is the client's by the parser that receivers use. And what a client can say to an engine of
//! its own: any record after any other is done or puts it out, and nothing is held for it that it may not have.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use emp_host::daemon::{Descriptor, Export, Posting, Question, Tell, said};
use emp_host::{
    AtomicOp, Board, ClaimId, CompletionMode, Datatype, Node, OpId, OpKind, Profile, RemoteRegion,
    Rights, Selector, StateFile,
};
use emp_link::Fabric;
use emp_link::service::channel::{ADDRESS_BYTES, Channel, MEMORY_BYTES, RECORD_BYTES_MAX, Record};
use emp_wire::{Header, NodeId, Relayed, frames, is_relayed};
use empd::engines::Options;
use empd::engines::trial::Trial;
use empd::switch::check::Holder;
use empd::switch::pace::Polling;
use libfuzzer_sys::fuzz_target;

/// The interface's MTU in bytes.
const MTU: usize = 1500;

fn check(holder: &Holder, frame: &[u8]) {
    let Ok(tag) = holder.check(frame, MTU) else { return };
    assert!(frame.len() <= MTU);
    let relayed = is_relayed(frame);
    let frame = if relayed {
        let Relayed { head, carried, .. } = Relayed::parse(frame).expect("what leaves is whole");
        assert_eq!((head.source_tag, head.destination_tag), (holder.node().destination_tag(), tag));
        carried
    } else {
        frame
    };
    for (at, one) in frames(frame).enumerate() {
        let (header, body) = Header::parse(one).expect("what leaves is whole");
        assert_eq!(header.source_tag, holder.node().source_tag());
        assert!(!header.kind.identified() || body.starts_with(&holder.node().0.to_be_bytes()));
        assert!(relayed || at > 0 || header.destination_tag == tag);
    }
}

/// A node by itself, whose engine has little room.
fn trial() -> Option<Trial> {
    let link = Fabric::new(1).ok()?.link(0, SELF.destination_tag())?;
    let builder = Node::builder().name("client").node_id(SELF).epoch(1).seed(1).link(link);
    let mut profile = Profile::by_name("default")?.clone();
    (profile.operations_max, profile.incoming_max) = (8, 8);
    let builder = builder.profile(profile).state(StateFile::Off).linger(Duration::ZERO);
    let node = builder.board(Board::Inline { guardian: false }).start().ok()?;
    let options = Options {
        socket: PathBuf::new(),
        ethertype: 0x88B5,
        polling: Polling::Sleeping,
        held_bytes_max: 1 << 16,
        operations_max: 8,
        incoming_max: 8,
        peers_max: 8,
        regions_max: 8,
        per_user: 1,
        datagrams: false,
    };
    Trial::new(node, &options).ok()
}

/// The client's own node, to which its messages go as well.
const SELF: NodeId = NodeId(7);

/// A name of an operation: of few, so that they meet.
fn name(kind: OpKind, number: u8) -> u64 {
    OpId::elsewhere(kind, u32::from(number % 16), 0).to_bits()
}

/// A record that means something, or whose bytes are the input's.
fn record([what, a, b, _]: [u8; 4], bytes: &[u8]) -> (u32, Vec<u8>) {
    let endpoint = u16::from(a % 3);
    let to = if b & 1 == 0 { SELF } else { NodeId(u64::from(a)) };
    let selector = Selector::bits(u64::from(b % 4));
    let target = RemoteRegion { to, to_endpoint: endpoint, key: 1, generation: 0, offset: 0 };
    let completion = [CompletionMode::Auto, CompletionMode::Buffered, CompletionMode::Delivered];
    let completion = completion[usize::from(what >> 5) % 3];
    let post = |kind: OpKind, said_bytes: u64, posting: Posting, payload: &[u8]| {
        let of = Descriptor { op: name(kind, b), endpoint, bytes: said_bytes, posting };
        (said::POST, [&of.emit()[..], payload].concat())
    };
    let ask = |question: Question| (said::ASK, question.emit());
    let tell = |tell: Tell| (said::TELL, tell.emit());
    let length = bytes.len() as u64;
    match what % 24 {
        0 => (said::POST, bytes.to_vec()),
        1 => (said::ASK, bytes.to_vec()),
        2 => (said::TELL, bytes.to_vec()),
        3 => (u32::from(a), bytes.to_vec()),
        4 | 5 => (said::MORE, bytes.to_vec()),
        6 | 7 => ask(Question::Open(endpoint)),
        8 => ask(Question::Cancel(name(OpKind::Receive, b))),
        9 => ask(Question::Probe(endpoint, selector, a & 4 != 0)),
        10 => ask(if a == 255 { Question::Close } else { Question::Left }),
        11 => {
            let (address, rights) = (u64::from(b), Rights::BOTH);
            ask(Question::Export(Export { key: Some(1), address, bytes: length, rights, endpoint }))
        }
        12 => tell(Tell::CloseEndpoint(endpoint)),
        13 => tell(Tell::Abort(name([OpKind::Send, OpKind::Receive][usize::from(a & 1)], b))),
        14 => tell(Tell::Discard(ClaimId::from_bits(u64::from(b % 8)))),
        15 => tell(
            [Tell::Unread(length), Tell::Taken(length), Tell::Collection(u32::from(b))]
                [usize::from(a % 3)],
        ),
        16 => {
            let claim = (a & 64 != 0).then(|| ClaimId::from_bits(u64::from(b % 8)));
            post(OpKind::Receive, length * 8, Posting::Receive { selector, claim }, &[])
        }
        17 => {
            let posting = Posting::MultiReceive { selector, least_free: u64::from(a) };
            post(OpKind::Receive, length * 64, posting, &[])
        }
        18 => {
            post(OpKind::Put, length, Posting::Put { target, immediate: None, completion }, bytes)
        }
        19 => post(OpKind::Get, length * 16, Posting::Get { target }, &[]),
        20 => {
            let (operation, datatype) = (AtomicOp::Sum, Datatype::Uint64);
            let (count, fetch) = (u32::from(a % 8), a & 8 != 0);
            let posting = Posting::Atomic { target, operation, datatype, count, fetch };
            post(OpKind::Atomic, length, posting, bytes)
        }
        _ => {
            let (immediate, over) = ((a & 8 != 0).then_some(1), a & 16 != 0);
            let posting = Posting::Send {
                to,
                to_endpoint: endpoint,
                match_bits: u64::from(b % 4),
                immediate,
                synchronous: a & 32 != 0,
                completion,
                more: a & 64 != 0,
                over,
            };
            // Some are longer than what is behind the descriptor, which is the rest of what comes.
            let longer = if a & 128 != 0 { u64::from(b) } else { 0 };
            post(OpKind::Send, length + longer, posting, bytes)
        }
    }
}

fn engine(mut rest: &[u8]) {
    let Some(mut trial) = trial() else { return };
    while let Some((head, after)) = rest.split_first_chunk::<4>() {
        let (bytes, after) = after.split_at(usize::from(head[3]).min(after.len()));
        rest = after;
        let (mark, record) = record(*head, bytes);
        if !record.is_empty() && trial.take(mark, &record).is_err() {
            return;
        }
    }
}

fn rings(input: &[u8]) {
    let holder = Holder::new(NodeId(7));
    check(&holder, input);
    let Ok((mut service, memory, _bell)) = Channel::create() else { return };
    let memory = File::from(memory);
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    let mut rest = input;
    while let Some((head, after)) = rest.split_first_chunk::<4>() {
        let [what, a, b, length] = *head;
        let (bytes, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        // The rings' first words and records, or anywhere by lines.
        let half = usize::from(what & 1) * MEMORY_BYTES / 2;
        let place = usize::from(u16::from_be_bytes([a, b]));
        let at = if what & 2 == 0 { half + place % 8192 } else { half + place * 8 };
        let fits = bytes.len().min(MEMORY_BYTES.saturating_sub(at));
        memory.write_all_at(&bytes[..fits], at as u64).expect("nobody keeps it yet");
        if what & 4 != 0 {
            let frame = [&b"frame"[..]];
            if service.push(&[2, 0, 0, 0, 0, 1, 0, 0], 5, frame.into_iter()).is_err() {
                return;
            }
        }
        if what & 8 != 0 && service.arm() {
            service.disarm();
        }
        for _ in 0..1 + what / 32 {
            match service.pop(&mut buffer) {
                Ok(Some(Record::Frame(_, bytes))) => {
                    check(&holder, &buffer[ADDRESS_BYTES..ADDRESS_BYTES + bytes]);
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

fuzz_target!(|input: &[u8]| match input.split_first() {
    Some((0..128, rest)) => rings(rest),
    Some((_, rest)) => engine(rest),
    None => {}
});
