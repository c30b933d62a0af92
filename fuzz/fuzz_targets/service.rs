//! What a client of `empd` can write: any bytes anywhere in the rings, between any reads and writes of the service, and any frame. Reading
//! gives records, nothing, or an end; what is let out is the client's by the parser that receivers use.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;

use emp_link::service::channel::{ADDRESS_BYTES, Channel, MEMORY_BYTES, RECORD_BYTES_MAX, Record};
use emp_wire::{Header, NodeId, Relayed, frames, is_relayed};
use empd::switch::check::Holder;
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

fuzz_target!(|input: &[u8]| {
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
});
