//! Fields that cannot be: each parser refuses what its kind forbids.

use emp_wire::*;

/// A first frame whose longer message has these parts, with so much payload.
fn message(long: LongPart, payload: usize) -> Result<(), Reason> {
    let message = Message {
        node: NodeId(2),
        source_endpoint: 0,
        destination_endpoint: 0,
        largest: Largest::from(1_500),
        match_bits: 0,
        handle: 0,
        long: Some(long),
        immediate: None,
    };
    let mut body = vec![0; message.body_bytes()];
    message.emit(&mut body);
    body.resize(body.len() + payload, 0);
    Message::parse(message.flags(), &body).map(drop)
}

/// `MSG-2`.
#[test]
fn parts_of_a_longer_message_fit_each_other() {
    let good = LongPart { total_bytes: 100, unscheduled_bytes: 50, fragment_bytes: 20, pieces: 0 };
    assert_eq!(message(good, 10), Ok(()));
    assert_eq!(message(good, 50), Ok(()));
    assert_eq!(message(good, 51), Err(Reason::Field), "more payload than leaves unasked");
    let beyond = LongPart { unscheduled_bytes: 101, ..good };
    assert_eq!(message(beyond, 10), Err(Reason::Field), "more unasked than there is");
    assert_eq!(message(LongPart { unscheduled_bytes: 100, ..good }, 10), Ok(()));
    let empty = LongPart { fragment_bytes: 0, ..good };
    assert_eq!(message(empty, 10), Err(Reason::Field), "further frames without bytes");
    let whole = LongPart { total_bytes: 50, fragment_bytes: 0, ..good };
    assert_eq!(message(whole, 50), Ok(()));
    let endless = LongPart { total_bytes: 1 << 63, ..good };
    assert_eq!(message(endless, 10), Err(Reason::Field));
    assert_eq!(message(LongPart { total_bytes: (1 << 63) - 1, ..good }, 10), Ok(()));
}

#[test]
fn a_message_that_names_memory_has_its_pieces_and_nothing_else() {
    let good = LongPart { total_bytes: 100, unscheduled_bytes: 0, fragment_bytes: 20, pieces: 2 };
    assert_eq!(message(good, pieces_bytes(2)), Ok(()));
    for bytes in [0, pieces_bytes(1), pieces_bytes(2) - 1, pieces_bytes(2) + 1] {
        assert_eq!(message(good, bytes), Err(Reason::Field), "{bytes}");
    }
    let many = PIECES_MAX + 1;
    let bad = [
        LongPart { pieces: many as u16, ..good },
        LongPart { unscheduled_bytes: 1, ..good },
        LongPart { fragment_bytes: 0, ..good },
        LongPart { total_bytes: 1 << 63, ..good },
    ];
    for long in bad {
        let bytes = pieces_bytes(long.pieces.into());
        assert_eq!(message(long, bytes), Err(Reason::Field), "{long:?}");
    }
}

/// `ID-1`.
#[test]
fn nobody_says_hello_as_no_node() {
    let mut body = [0; HELLO_BODY_BYTES_MAX];
    let bytes = Hello::new(NodeId::ANY, NodeId(2), 3, 1_500, "nobody").emit(&mut body);
    assert_eq!(Hello::parse(&body[..bytes]), Err(Reason::Field));
    let bytes = Hello::new(NodeId(1), NodeId::ANY, 3, 1_500, "somebody").emit(&mut body);
    assert!(Hello::parse(&body[..bytes]).is_ok(), "for everyone");
    body[30] = 33;
    assert_eq!(
        Hello::parse(&body),
        Err(Reason::Field),
        "a longer name than its place has room for"
    );
}

/// `HELLO-9`: a name is carried whole, and its front by itself where there is no room for more.
#[test]
fn a_long_name_is_carried_whole() {
    let name = format!("{}ö{}", "a".repeat(31), "-rack-17.cluster.example:3");
    let mut body = [0; HELLO_BODY_BYTES_MAX];
    let hello = Hello::new(NodeId(1), NodeId(2), 3, 1_500, &name);
    let bytes = hello.emit(&mut body);
    assert_eq!(Hello::parse(&body[..bytes]).unwrap().name(), name);
    assert_eq!(usize::from(body[30]), 31, "its front ends with a letter");
    let bytes = hello.with_short_name().emit(&mut body);
    assert_eq!(Hello::parse(&body[..bytes]).unwrap().name(), "a".repeat(31));
    // More than there may be in all: what does not fit is left.
    let long = Hello::new(NodeId(1), NodeId(2), 3, 1_500, &"x".repeat(100));
    let bytes = long.emit(&mut body);
    assert_eq!(Hello::parse(&body[..bytes]).unwrap().name(), "x".repeat(80));
    let mut twice = body[..bytes].to_vec();
    twice.extend_from_slice(&body[64..bytes]);
    assert_eq!(Hello::parse(&twice).unwrap().name(), "x".repeat(80));
}

#[test]
fn a_pull_asks_for_something() {
    let mut body = [0; PULL_BYTES];
    let pull = Pull { node: NodeId(1), offset: u64::MAX, bytes: 1, pull: 3 };
    pull.emit(&mut body);
    assert_eq!(Pull::parse(&body), Ok(pull));
    Pull { bytes: 0, ..pull }.emit(&mut body);
    assert_eq!(Pull::parse(&body), Err(Reason::Field));
    assert_eq!(Pull::parse(&body[1..]), Err(Reason::BodyShort));
}

/// Where one-sided operations go.
const TARGET: Target = Target {
    node: NodeId(1),
    source_endpoint: 0,
    destination_endpoint: 0,
    largest: Largest::new(1_500, 9_000),
    key: 1,
    handle: 2,
    generation: 3,
    offset: 4,
};

#[test]
fn a_put_may_be_without_bytes_but_not_without_fields() {
    let put = Put { target: TARGET, long: None, immediate: None };
    let mut body = [0; TARGET_BYTES];
    put.emit(&mut body);
    assert_eq!(Put::parse(Flags::default(), &body), Ok((put, &[][..])));
    assert_eq!(Put::parse(Flags::default(), &body[1..]), Err(Reason::BodyShort));
    assert_eq!(Put::parse(Flags::IMMEDIATE, &body), Err(Reason::BodyShort));
}

#[test]
fn a_get_asks_for_frames_with_bytes() {
    let mut body = [0; GET_BYTES];
    let get = Get { target: TARGET, bytes: 0, pull: 5, fragment_bytes: 1 };
    get.emit(&mut body);
    assert_eq!(Get::parse(&body), Ok(get), "no bytes may be asked for: whether the place is there");
    Get { fragment_bytes: 0, ..get }.emit(&mut body);
    assert_eq!(Get::parse(&body), Err(Reason::Field));
    assert_eq!(Get::parse(&body[1..]), Err(Reason::BodyShort));
}
