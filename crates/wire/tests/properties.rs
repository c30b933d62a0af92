//! Properties of every frame format: what is emitted is read back, and no bytes whatever make a parser panic.

use emp_wire::{
    ACK_BODY_BYTES_MAX, Ack, Atomic, AtomicOp, BlockWord, Close, Datatype, Done, DoneStatus, Epoch,
    Flags, Get, HEAD_BYTES_MAX, HEADER_BYTES, Header, Hello, Kind, Largest, LinkAddress, LongPart,
    Message, NAME_BYTES_MAX, NodeId, NotReady, NotReadyCause, Pull, Put, Reason, SACK_WORDS_MAX,
    Seed, Sequence, TOLD_MAX, Target, begin_checksum, covered_bytes, store_checksum, verify,
};
use proptest::prelude::*;

fn kind() -> impl Strategy<Value = Kind> {
    (0..Kind::ALL.len()).prop_map(|i| Kind::ALL[i])
}

fn header() -> impl Strategy<Value = Header> {
    let names = (any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>());
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>());
    (kind(), any::<u8>(), names, numbers).prop_map(|(kind, flags, names, numbers)| Header {
        kind,
        flags: Flags(flags),
        length: 0,
        destination_tag: names.0,
        destination_epoch: names.1,
        source_tag: names.2,
        source_epoch: Epoch(names.3),
        sequence: Sequence(numbers.0),
        acknowledge: Sequence(numbers.1),
        word: numbers.2,
    })
}

/// A message that its sender would send, and as much payload as goes into its first frame.
fn message() -> impl Strategy<Value = (Message, usize)> {
    let long = (0u64..1 << 40, any::<u32>(), 1u16.., any::<u32>(), any::<bool>());
    let names = (any::<u64>(), any::<u16>(), any::<u16>(), any::<u64>(), any::<u8>());
    (names, long, proptest::option::of(any::<u64>()), 0usize..1_400).prop_map(
        |(names, (total, unscheduled, fragment, handle, is_long), immediate, payload)| {
            let unscheduled = u64::from(unscheduled).min(total);
            let long = LongPart {
                total_bytes: total,
                unscheduled_bytes: unscheduled as u32,
                fragment_bytes: fragment,
                pieces: 0,
            };
            let payload = if is_long { payload.min(unscheduled as usize) } else { payload };
            let message = Message {
                node: NodeId(names.0),
                source_endpoint: names.1,
                destination_endpoint: names.2,
                match_bits: names.3,
                largest: Largest::new(names.1, names.2),
                handle,
                long: is_long.then_some(long),
                immediate,
            };
            (message, payload)
        },
    )
}

fn hello() -> impl Strategy<Value = Hello> {
    let numbers = (1u64.., any::<u64>(), any::<u64>(), any::<u32>(), any::<u16>());
    (numbers, "\\PC{0,90}", prop::collection::vec(told_address(), 0..=TOLD_MAX)).prop_map(
        |((node, target, nonce, features, frame_bytes_max), name, told)| {
            let largest = Largest::new(frame_bytes_max, features as u16);
            let mut hello = Hello::new(NodeId(node), NodeId(target), nonce, largest, &name);
            hello.features = features;
            match features % 3 {
                0 => hello.about(NodeId(nonce | 1), told.into_iter()),
                _ => hello.with_addresses(told.into_iter()),
            }
        },
    )
}

fn told_address() -> impl Strategy<Value = LinkAddress> {
    let socket = any::<std::net::SocketAddr>().prop_map(LinkAddress::udp);
    let mac = any::<[u8; 6]>().prop_map(LinkAddress::mac);
    prop_oneof![socket, mac, any::<u32>().prop_map(LinkAddress::index)]
}

/// Items that are not known here are passed over, wherever they stand; all else is read (`HELLO-6`, `PATH-1`).
#[test]
fn extensions_from_the_future_are_passed_over() {
    let told = ["10.1.2.2:51966", "10.1.2.3:51966"].map(|to| LinkAddress::udp(to.parse().unwrap()));
    let plain = Hello::new(NodeId(7), NodeId(8), 9, 1472, "seven");
    let hello = plain.with_addresses(told.into_iter());
    let mut body = [0; HEAD_BYTES_MAX];
    let end = hello.emit(&mut body);
    let body = &body[..end];
    assert_eq!(Hello::parse(body), Ok(hello));
    let (fixed, list) = body.split_at(end - 2 * ADDRESS_ITEM_BYTES);
    let (first, second) = list.split_at(ADDRESS_ITEM_BYTES);
    let unknown_family = [&[1, 3, 99, 5, 6][..], &[1, 0]].concat();
    for stranger in [&[77, 0][..], &[200, 3, 1, 2, 3], &unknown_family, &[1, 4, 4, 10, 1, 2]] {
        for order in
            [[stranger, first, second], [first, stranger, second], [first, second, stranger]]
        {
            let read = Hello::parse(&[&[fixed][..], &order].concat().concat());
            assert_eq!(read, Ok(hello), "{order:?}");
        }
    }
    // Zeros end the list: those of a hello that tries a length (`LIMIT-2`).
    let padded = [fixed, first, &[0; 40], second].concat();
    assert_eq!(Hello::parse(&padded), Ok(plain.with_addresses(told.into_iter().take(1))));
    assert_eq!(Hello::parse(&[body, &[0]].concat()), Ok(hello));
    // A list that is cut is refused.
    for cut in [1, 2, ADDRESS_ITEM_BYTES - 1] {
        assert_eq!(Hello::parse(&body[..end - cut]), Err(Reason::BodyShort), "{cut}");
    }
    // More addresses than there is room for.
    let many = [fixed, first, second, second, second, second].concat();
    assert_eq!(Hello::parse(&many).map(|read| read.addresses().count()), Ok(TOLD_MAX));
}

/// What is asked or told of another node (`HELLO-10`): of one node, whose identity is not 0, so many addresses, in the forms that are known.
#[test]
fn what_is_told_of_another_node_is_read_in_bounds() {
    let told = [1, 2, 3, 4].map(|host| LinkAddress::udp(([10, 1, 2, host], 51_966).into()));
    let plain = Hello::new(NodeId(7), NodeId(8), 9, 1472, "seven");
    let mut body = [0; HEAD_BYTES_MAX];
    let fixed = plain.about(NodeId::ANY, [].into_iter()).emit(&mut body);
    let fixed = body[..fixed].to_vec();
    let mut item = |node, address: Option<LinkAddress>| {
        let end = plain.about(NodeId(node), address.into_iter()).emit(&mut body);
        body[fixed.len()..end].to_vec()
    };
    let asks = item(5, None);
    let tells = told.map(|address| item(5, Some(address)));
    let [one, two, three, four] = tells.each_ref().map(Vec::as_slice);
    let of_another = item(6, Some(told[0]));
    let read = |items: &[&[u8]]| {
        let hello = Hello::parse(&[&fixed[..], &items.concat()].concat()).unwrap();
        (hello.other(), hello.known().collect::<Vec<_>>())
    };
    assert_eq!(read(&[]), (None, vec![]));
    assert_eq!(read(&[&asks]), (Some(NodeId(5)), vec![]));
    assert_eq!(read(&[one, two, three, four]), (Some(NodeId(5)), told[..3].to_vec()));
    assert_eq!(read(&[one, &of_another, two]), (Some(NodeId(5)), told[..2].to_vec()));
    assert_eq!(read(&[&asks, one]), (Some(NodeId(5)), told[..1].to_vec()));
    // Of no node, half an identity, of an unknown family, an address that is too short: as if they were not there.
    let nobody = [&[4, 15][..], &[0; 8], &one[10..]].concat();
    let family = [&[4, 11][..], &one[2..10], &[99, 1, 2]].concat();
    for strange in [&nobody[..], &[4, 7, 0, 0, 0, 0, 0, 0, 5], &family, &[4, 0]] {
        assert_eq!(read(&[strange, one]), (Some(NodeId(5)), told[..1].to_vec()), "{strange:?}");
    }
    assert_eq!(Hello::parse(&[&fixed[..], &one[..12]].concat()), Err(Reason::BodyShort));
}

/// Type, length, family, IPv4 address, port.
const ADDRESS_ITEM_BYTES: usize = 2 + 1 + 4 + 2;

/// A whole frame as a sender builds it: header, body fields, payload, checksum.
fn frame(mut header: Header, fields: &[u8], payload: &[u8], seed: Seed) -> Vec<u8> {
    header.length = (fields.len() + payload.len()) as u16;
    let mut head = [0; HEADER_BYTES];
    header.emit(&mut head);
    let mut frame = head.to_vec();
    frame.extend_from_slice(fields);
    let mut sum = begin_checksum(&mut frame, seed);
    let covered = {
        frame.extend_from_slice(payload);
        covered_bytes(&header)
    };
    sum.update(&frame[HEADER_BYTES + fields.len()..HEADER_BYTES + covered.max(fields.len())]);
    store_checksum(&mut frame, sum);
    frame
}

/// Parses a frame as a receiver does, down to the last field of its kind.
fn parse_all(frame: &[u8]) -> Result<Kind, Reason> {
    let (header, body) = Header::parse(frame)?;
    match header.kind {
        Kind::Hello | Kind::HelloReply => Hello::parse(body).map(|hello| {
            // The name is UTF-8 or empty.
            assert!(hello.name().len() <= NAME_BYTES_MAX);
        })?,
        Kind::Message => Message::parse(header.flags, body).map(drop)?,
        Kind::Ack => Ack::parse(body).map(drop)?,
        Kind::NotReady => NotReady::parse(body).map(drop)?,
        Kind::Pull => Pull::parse(body).map(drop)?,
        Kind::Block => drop(BlockWord::parse(header.word)),
        Kind::Done => Done::parse(body).map(drop)?,
        Kind::Close => Close::parse(body).map(drop)?,
        Kind::Put => Put::parse(header.flags, body).map(drop)?,
        Kind::Get => Get::parse(body).map(drop)?,
        Kind::Atomic => Atomic::parse(body).map(drop)?,
        _ => {}
    }
    verify(frame, covered_bytes(&header), Seed::CONTACT)?;
    Ok(header.kind)
}

fn target() -> impl Strategy<Value = Target> {
    let names = (any::<u64>(), any::<u16>(), any::<u16>(), any::<u16>());
    (names, any::<u64>(), any::<u32>(), any::<u32>(), any::<u64>()).prop_map(
        |(names, key, handle, generation, offset)| Target {
            node: NodeId(names.0),
            source_endpoint: names.1,
            destination_endpoint: names.2,
            largest: Largest::new(names.3, names.2),
            key,
            handle,
            generation,
            offset,
        },
    )
}

/// Frames of one link frame come out as they went in (`BUNDLE-1`), whatever the link pads; and any bytes come out whole.
#[test]
fn frames_of_a_link_frame_come_out_as_they_went_in() {
    let frame = |body: &[u8]| {
        let header = Header {
            kind: Kind::Skip,
            flags: Flags::default(),
            length: body.len() as u16,
            destination_tag: 1,
            destination_epoch: 2,
            source_tag: 3,
            source_epoch: Epoch(4),
            sequence: Sequence(5),
            acknowledge: Sequence(6),
            word: 7,
        };
        let mut bytes = [0u8; HEADER_BYTES];
        header.emit(&mut bytes);
        [&bytes[..], body].concat()
    };
    let all = [frame(b""), frame(b"some bytes"), frame(&[0; 40]), frame(b"the last")];
    let together = all.concat();
    assert_eq!(emp_wire::frames(&together).collect::<Vec<_>>(), all);
    let padded = [&together[..], &[0; 100]].concat();
    let last = [&all[3][..], &[0; 100]].concat();
    let found: Vec<_> = emp_wire::frames(&padded).collect();
    assert_eq!((&found[..3], found[3]), (&all.each_ref().map(|f| &f[..])[..3], &last[..]));
    // One that is cut off, or longer than there are bytes, is what is left.
    let cut = &together[..together.len() - 1];
    assert_eq!(emp_wire::frames(cut).count(), 4);
    assert_eq!(emp_wire::frames(b"short").collect::<Vec<_>>(), [b"short"]);
    assert_eq!(emp_wire::frames(b"").count(), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_a_bounded_number_of_frames(bytes in prop::collection::vec(any::<u8>(), 0..3_000)) {
        let frames: Vec<_> = emp_wire::frames(&bytes).collect();
        prop_assert!(frames.len() <= 1 + bytes.len() / HEADER_BYTES);
        prop_assert_eq!(frames.concat(), bytes);
    }
}

proptest! {
    #[test]
    fn puts_are_read_back(target in target(), (message, payload_bytes) in message()) {
        let put = Put { target, long: message.long, immediate: message.immediate };
        let mut body = vec![0x77; HEAD_BYTES_MAX];
        let length = put.emit(&mut body);
        prop_assert_eq!(length, Put::body_bytes_for(put.flags()));
        body.truncate(length);
        for end in 0..length {
            prop_assert!(Put::parse(put.flags(), &body[..end]).is_err(), "cut at {}", end);
        }
        body.resize(length + payload_bytes, 0x55);
        match Put::parse(put.flags(), &body) {
            Ok((read, payload)) => {
                prop_assert_eq!(read, put);
                prop_assert_eq!(payload.len(), payload_bytes);
            }
            Err(reason) => prop_assert!(put.long.is_some() && reason == Reason::Field),
        }
    }

    #[test]
    fn gets_are_read_back(target in target(), bytes: u32, pull: u16, fragment_bytes in 1u16..) {
        let get = Get { target, bytes, pull, fragment_bytes };
        let mut body = vec![0x77; HEAD_BYTES_MAX];
        let length = get.emit(&mut body);
        prop_assert_eq!(Get::parse(&body[..length]).unwrap(), get);
        prop_assert!(Get::parse(&body[..length - 1]).is_err());
        let nothing = Get { fragment_bytes: 0, ..get };
        nothing.emit(&mut body);
        prop_assert_eq!(Get::parse(&body[..length]), Err(Reason::Field));
    }

    #[test]
    fn atomics_are_read_back(
        target in target(),
        operation in 0..AtomicOp::ALL.len(),
        datatype in 0..Datatype::ALL.len(),
        count in 1u32..80,
        too_much in 1usize..9,
    ) {
        let (operation, datatype) = (AtomicOp::ALL[operation], Datatype::ALL[datatype]);
        let atomic = Atomic { target, operation, datatype, count };
        let mut body = vec![0x77; HEAD_BYTES_MAX];
        let length = atomic.emit(&mut body);
        let elements = Atomic::element_bytes((datatype, count));
        let payload = Atomic::payload_bytes(operation, elements) as usize;
        body.truncate(length);
        body.resize(length + payload, 0x55);
        if operation.defined_for(datatype) {
            prop_assert_eq!(Atomic::parse(&body).unwrap().0, atomic);
        } else {
            prop_assert_eq!(Atomic::parse(&body), Err(Reason::Field));
        }
        body.resize(length + payload + too_much, 0x55);
        prop_assert!(Atomic::parse(&body).is_err(), "payload of another length");
    }

    #[test]
    fn operations_keep_their_numbers(number: u8) {
        let op = AtomicOp::from_number(number);
        prop_assert!(op.is_none_or(|op| op as u8 == number && !op.name().is_empty()));
        prop_assert_eq!(op.is_some(), (1..=19).contains(&number));
        let datatype = Datatype::from_number(number);
        prop_assert!(datatype.is_none_or(|datatype| datatype as u8 == number));
        prop_assert_eq!(datatype.is_some(), (1..=14).contains(&number));
    }

    #[test]
    fn headers_are_read_back(mut header in header(), body in proptest::collection::vec(any::<u8>(), 0..200), padding in 0usize..50) {
        header.length = body.len() as u16;
        let mut head = [0; HEADER_BYTES];
        header.emit(&mut head);
        let mut frame = head.to_vec();
        frame.extend_from_slice(&body);
        frame.resize(frame.len() + padding, 0);
        let (read, rest) = Header::parse(&frame).unwrap();
        prop_assert_eq!(read, header);
        prop_assert_eq!(rest, &body[..], "link padding is cut off");
    }

    #[test]
    fn messages_are_read_back((message, payload_bytes) in message()) {
        let mut body = vec![0x77; HEAD_BYTES_MAX];
        let length = message.emit(&mut body);
        prop_assert_eq!(length, message.body_bytes());
        body.truncate(length);
        body.resize(length + payload_bytes, 0x55);
        let parsed = Message::parse(message.flags(), &body);
        match message.long {
            // Without the rest of it, a long message of one frame must say where its frames end.
            Some(long) if long.unscheduled_bytes as usize >= payload_bytes => {
                let (read, payload) = parsed.unwrap();
                prop_assert_eq!(read, message);
                prop_assert_eq!(payload.len(), payload_bytes);
            }
            Some(_) => prop_assert_eq!(parsed, Err(Reason::Field)),
            None => prop_assert_eq!(parsed.unwrap().0, message),
        }
    }

    /// `VERSION-2`.
    #[test]
    fn hellos_are_read_back(hello in hello()) {
        let mut body = [0; HEAD_BYTES_MAX];
        let length = hello.emit(&mut body);
        prop_assert_eq!(Hello::parse(&body[..length]).unwrap(), hello);
        prop_assert_eq!(Hello::parse(&body[..length - 1]).is_err(), true, "one byte less is noticed");
    }

    #[test]
    fn acks_are_read_back(node: u64, sack: [u64; SACK_WORDS_MAX], grant: Option<u32>) {
        let ack = Ack { node: NodeId(node), sack, grant };
        let mut body = [0; ACK_BODY_BYTES_MAX];
        let length = ack.emit(&mut body);
        prop_assert_eq!(Ack::parse(&body[..length]).unwrap(), ack);
        if grant.is_some() {
            prop_assert_eq!(Ack::parse(&body[..length - 1]), Err(Reason::BodyShort));
        }
    }

    #[test]
    fn small_bodies_are_read_back(node: u64, offset: u64, bytes in 1u32.., pull: u16, backoff_us: u32, index: u16) {
        let node = NodeId(node);
        let mut body = [0; HEAD_BYTES_MAX];

        let wanted = Pull { node, offset, bytes, pull };
        let length = wanted.emit(&mut body);
        prop_assert_eq!(Pull::parse(&body[..length]).unwrap(), wanted);

        for status in [
            DoneStatus::Complete,
            DoneStatus::Matched,
            DoneStatus::Abandoned,
            DoneStatus::BadKey,
            DoneStatus::BadGeneration,
            DoneStatus::OutOfBounds,
            DoneStatus::NoRights,
            DoneStatus::Fault,
        ] {
            let done = Done { node, status };
            let length = done.emit(&mut body);
            prop_assert_eq!(Done::parse(&body[..length]).unwrap(), done);
        }
        for cause in [NotReadyCause::Full, NotReadyCause::NoEndpoint, NotReadyCause::NotPosted, NotReadyCause::NoRoom] {
            let refusal = NotReady { node, cause, backoff_us };
            let length = refusal.emit(&mut body);
            prop_assert_eq!(NotReady::parse(&body[..length]).unwrap(), refusal);
        }
        let close = Close { node };
        let length = close.emit(&mut body);
        prop_assert_eq!(Close::parse(&body[..length]).unwrap(), close);
        let word = BlockWord { pull, index };
        prop_assert_eq!(BlockWord::parse(word.emit()), word);
    }

    #[test]
    fn random_bytes_give_a_value_or_a_reason(frame in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse_all(&frame);
    }

    /// Random bytes behind a right first byte get further into the parsers.
    #[test]
    fn random_bodies_give_a_value_or_a_reason(kind in kind(), mut frame in proptest::collection::vec(any::<u8>(), HEADER_BYTES..300)) {
        frame[0] = 0x20 | kind as u8;
        let body_bytes = (frame.len() - HEADER_BYTES) as u16;
        frame[2..4].copy_from_slice(&body_bytes.to_be_bytes());
        let _ = parse_all(&frame);
    }

    #[test]
    fn every_prefix_gives_a_value_or_a_reason((message, payload) in message(), header in header()) {
        let mut fields = vec![0; HEAD_BYTES_MAX];
        let length = message.emit(&mut fields);
        let header = Header { kind: Kind::Message, flags: message.flags(), ..header };
        let whole = frame(header, &fields[..length], &vec![7; payload], Seed::CONTACT);
        for end in 0..whole.len() {
            prop_assert!(parse_all(&whole[..end]).is_err(), "cut at {}", end);
        }
        prop_assert_eq!(parse_all(&whole), Ok(Kind::Message));
    }

    /// Any damage of up to 32 bits in a row is found, wherever it strikes.
    #[test]
    fn damage_is_found((message, payload) in message(), header in header(), at: prop::sample::Index, pattern in 1u32..) {
        let mut fields = vec![0; HEAD_BYTES_MAX];
        let length = message.emit(&mut fields);
        let header = Header { kind: Kind::Message, flags: message.flags(), ..header };
        let good = frame(header, &fields[..length], &vec![9; payload], Seed::CONTACT);
        let mut bad = good.clone();
        let at = at.index(bad.len() - 3);
        for (byte, flip) in bad[at..at + 4].iter_mut().zip(pattern.to_be_bytes()) {
            *byte ^= flip;
        }
        prop_assert!(parse_all(&bad).is_err());
        prop_assert_eq!(parse_all(&good), Ok(Kind::Message));
    }

    /// Payload that is declared unchecked may change; fields may not (`CRC-3`).
    #[test]
    fn unchecked_payload_is_not_covered_but_fields_are((message, payload) in message(), header in header(), at: prop::sample::Index) {
        prop_assume!(payload > 0);
        let mut fields = vec![0; HEAD_BYTES_MAX];
        let length = message.emit(&mut fields);
        let flags = message.flags().with(Flags::PAYLOAD_UNCHECKED);
        let header = Header { kind: Kind::Message, flags, ..header };
        let mut bytes = frame(header, &fields[..length], &vec![9; payload], Seed::CONTACT);
        let place = HEADER_BYTES + length + at.index(payload);
        bytes[place] ^= 1;
        prop_assert_eq!(parse_all(&bytes), Ok(Kind::Message));
        bytes[HEADER_BYTES + at.index(length)] ^= 1;
        prop_assert!(parse_all(&bytes).is_err());
    }

    /// A frame for another node or epoch with the same tags fails the checksum (`CRC-2`).
    #[test]
    fn the_checksum_covers_who_it_is_for(a: u64, b: u64, other: u64, epoch: u32, header in header()) {
        prop_assume!(other != b);
        let header = Header { kind: Kind::Data, ..header };
        let sum = Seed::between(NodeId(a), NodeId(b), Epoch(epoch));
        let bytes = frame(header, &[], &[1, 2, 3], sum);
        let (read, _) = Header::parse(&bytes).unwrap();
        let covered = covered_bytes(&read);
        prop_assert_eq!(verify(&bytes, covered, sum), Ok(()));
        let wrong = Seed::between(NodeId(a), NodeId(other), Epoch(epoch));
        prop_assert_eq!(verify(&bytes, covered, wrong), Err(Reason::Checksum));
    }

    #[test]
    fn sequences_keep_their_order(base: u32, step in 1u32..1 << 31) {
        let first = Sequence(base);
        let second = first.plus(step);
        prop_assert!(first.before(second) && !second.before(first));
        prop_assert_eq!(second.minus(step), first);
        prop_assert_eq!(second.since(first), step as i32);
    }
}
