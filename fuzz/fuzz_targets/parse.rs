//! Any bytes to every parser. A parser gives a value or a reason; and a value, emitted and parsed again, is the same.
#![no_main]

use emp_wire::{
    Ack, Atomic, BlockWord, Close, Done, Get, HEAD_BYTES_MAX, HEADER_BYTES, Header, Hello, Kind,
    Message, NotReady, Pull, Put, RELAY_HEAD_BYTES, Relayed, Seed, covered_bytes, is_relayed,
    verify,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    if is_relayed(frame) {
        return relayed(frame);
    }
    let Ok((header, body)) = Header::parse(frame) else { return };
    let mut head = [0; HEADER_BYTES];
    header.emit(&mut head);
    assert_eq!(head[..28], frame[..28], "every bit of the header is read");
    let _ = verify(frame, covered_bytes(&header), Seed::CONTACT);

    let mut out = [0; HEAD_BYTES_MAX];
    match header.kind {
        Kind::Hello | Kind::HelloReply => {
            if let Ok(hello) = Hello::parse(body) {
                let _ = hello.name().len();
                let length = hello.emit(&mut out);
                assert_eq!(Hello::parse(&out[..length]), Ok(hello));
            }
        }
        Kind::Message => {
            if let Ok((message, payload)) = Message::parse(header.flags, body) {
                let length = message.emit(&mut out);
                assert_eq!(length + payload.len(), body.len());
            }
        }
        Kind::Ack => {
            if let Ok(ack) = Ack::parse(body) {
                let length = ack.emit(&mut out);
                assert_eq!(Ack::parse(&out[..length]), Ok(ack));
            }
        }
        Kind::NotReady => {
            if let Ok(refusal) = NotReady::parse(body) {
                let length = refusal.emit(&mut out);
                assert_eq!(NotReady::parse(&out[..length]), Ok(refusal));
            }
        }
        Kind::Pull => {
            if let Ok(pull) = Pull::parse(body) {
                let length = pull.emit(&mut out);
                assert_eq!(Pull::parse(&out[..length]), Ok(pull));
            }
        }
        Kind::Done => {
            if let Ok(done) = Done::parse(body) {
                let length = done.emit(&mut out);
                assert_eq!(Done::parse(&out[..length]), Ok(done));
            }
        }
        Kind::Close => {
            if let Ok(close) = Close::parse(body) {
                let length = close.emit(&mut out);
                assert_eq!(Close::parse(&out[..length]), Ok(close));
            }
        }
        Kind::Put => {
            if let Ok((put, payload)) = Put::parse(header.flags, body) {
                let length = put.emit(&mut out);
                assert_eq!(length + payload.len(), body.len());
            }
        }
        Kind::Get => {
            if let Ok(get) = Get::parse(body) {
                let length = get.emit(&mut out);
                assert_eq!(Get::parse(&out[..length]), Ok(get));
            }
        }
        Kind::Atomic => {
            if let Ok((atomic, payload)) = Atomic::parse(body) {
                let length = atomic.emit(&mut out);
                assert_eq!(length + payload.len(), body.len());
            }
        }
        Kind::Block => {
            let word = BlockWord::parse(header.word);
            assert_eq!(word.emit(), header.word);
        }
        _ => {}
    }
});

/// What a relay looks at: each hop that is read is written as it was.
fn relayed(frame: &[u8]) {
    let Ok(read) = Relayed::parse(frame) else { return };
    let mut head = [0; RELAY_HEAD_BYTES];
    read.head.emit(&mut head);
    assert_eq!(head, frame[..RELAY_HEAD_BYTES]);
    for place in 0..=u8::MAX {
        let Ok(hop) = read.hop(place) else { continue };
        assert!(place < read.head.hops);
        let at = RELAY_HEAD_BYTES + usize::from(place) * 12;
        assert_eq!(hop.emit().as_ref().map(|bytes| &bytes[..]), Some(&frame[at..at + 12]));
    }
}
