//! What the tables and lists of SPEC.md say of each kind, flag, cause, datatype and operator, row by row.

use emp_wire::*;

/// `FRAME-2`, and `CRC-3`'s list of kinds whose payload may be left out of the checksum.
#[test]
fn each_kind_has_its_row() {
    let rows = [
        // kind, sequenced, identified, contact, bulk
        (Kind::Hello, false, true, true, false),
        (Kind::HelloReply, false, true, true, false),
        (Kind::Message, true, true, false, true),
        (Kind::Data, true, false, false, true),
        (Kind::Ack, false, true, false, false),
        (Kind::NotReady, false, true, false, false),
        (Kind::Pull, true, true, false, false),
        (Kind::Block, true, false, false, true),
        (Kind::Done, true, true, false, false),
        (Kind::Close, false, true, false, false),
        (Kind::Put, true, true, false, true),
        (Kind::Get, true, true, false, false),
        (Kind::Atomic, true, true, false, false),
        (Kind::Slice, false, false, false, false),
        (Kind::Skip, true, false, false, false),
    ];
    for ((kind, sequenced, identified, contact, bulk), number) in rows.into_iter().zip(1u8..) {
        assert_eq!(Kind::from_number(number), Some(kind));
        assert_eq!(kind.sequenced(), sequenced, "{kind:?}");
        assert_eq!(kind.identified(), identified, "{kind:?}");
        assert_eq!(kind.contact(), contact, "{kind:?}");
        assert_eq!(has_bulk(kind), bulk, "{kind:?}");
    }
    assert_eq!((Kind::from_number(0), Kind::from_number(rows.len() as u8 + 1)), (None, None));
}

/// The lengths of SPEC.md, section by section.
#[test]
fn lengths_are_those_of_the_tables() {
    assert_eq!((HEADER_BYTES, LONG_FRAME_BYTES), (32, 61_472));
    assert_eq!((MESSAGE_BYTES, MESSAGE_BODY_BYTES_MAX), (28, 28 + 16 + 8));
    assert_eq!((TARGET_BYTES, GET_BYTES, ATOMIC_BYTES), (40, 48, 48));
    // One item behind the words: type, length, value of 4 bytes.
    assert_eq!(ACK_BODY_BYTES_MAX, 8 + 4 * 8 + 6);
    // The rest of the name, the largest frame of a link, and three addresses of IPv6: type, length, family, 16 bytes, port, scope.
    assert_eq!((HELLO_BYTES, HELLO_BODY_BYTES_MAX), (32, 32 + 32 + 50 + 4 + 3 * 25));
    assert_eq!(HEAD_BYTES_MAX, 32 + HELLO_BODY_BYTES_MAX);
}

#[test]
fn a_flag_that_is_set_twice_is_set() {
    let flags = Flags::ACK.with(Flags::LONG);
    assert_eq!(flags.with(Flags::LONG), flags);
    assert_eq!(flags.with_if(true, Flags::ACK), flags);
    assert!(flags.has(Flags::ACK) && !flags.has(Flags::ACK.with(Flags::LAST)));
}

/// `READY-2`: only the first cause refuses; with the others the message keeps its place.
#[test]
fn of_the_causes_only_full_refuses() {
    assert!(!NotReadyCause::Full.defers());
    for cause in [NotReadyCause::NoEndpoint, NotReadyCause::NotPosted, NotReadyCause::NoRoom] {
        assert!(cause.defers(), "{cause:?}");
    }
}

/// `EPOCH-2`: frames carry the low 16 bits of an epoch.
#[test]
fn an_epochs_check_is_its_low_half() {
    assert_eq!(Epoch(0xABCD_1234).check(), 0x1234);
    assert_eq!(Epoch::UNKNOWN.check(), 0);
}

/// `ATOMIC-3`: bits are for integers only, order is not for complex numbers, the rest is for all.
#[test]
fn operators_are_defined_for_their_datatypes() {
    use AtomicOp::*;
    for (place, &datatype) in Datatype::ALL.iter().enumerate() {
        let (integer, complex) = (place < 10, place >= 12);
        for &operator in AtomicOp::ALL {
            let defined = match operator {
                Bor | Band | Bxor | Mswap => integer,
                Min | Max | CswapLe | CswapLt | CswapGe | CswapGt => !complex,
                Sum | Prod | Lor | Land | Lxor | Read | Write | Cswap | CswapNe => true,
            };
            assert_eq!(operator.defined_for(datatype), defined, "{operator:?} of {datatype:?}");
        }
    }
}

/// `DIRECT-1`: the field that counts pieces stands last in the long part of a message or put, and only there.
#[test]
fn memory_is_named_by_the_count_of_pieces_of_a_long_first_frame() {
    for (kind, fixed) in [(Kind::Message, MESSAGE_BYTES), (Kind::Put, TARGET_BYTES)] {
        let header = |kind, flags| Header {
            kind,
            flags,
            length: 0,
            destination_tag: 0,
            destination_epoch: 0,
            source_tag: 0,
            source_epoch: Epoch(1),
            sequence: Sequence(0),
            acknowledge: Sequence(0),
            word: 0,
        };
        let long = header(kind, Flags::LONG);
        let mut body = vec![0xFF; fixed + LONG_BYTES];
        assert!(names_memory(&long, &body), "{kind:?}");
        assert!(names_memory(&long, &[&body[..], &[0; 100]].concat()), "with pieces behind");
        assert!(!names_memory(&long, &body[..fixed + LONG_BYTES - 1]), "cut off");
        assert!(!names_memory(&header(kind, Flags::default()), &body), "of one frame");
        assert!(!names_memory(&header(Kind::Get, Flags::LONG), &body), "another kind");
        body[fixed + LONG_BYTES - 2..].fill(0);
        assert!(!names_memory(&long, &body), "no pieces");
        body[fixed + LONG_BYTES - 1] = 1;
        assert!(names_memory(&long, &body), "one piece");
    }
}

/// `CRC-4`: what crossed no wire has its seed in place of a checksum, and is as long as it says at least.
#[test]
fn a_frame_in_memory_has_its_seed_and_its_length() {
    let seed = Seed::between(NodeId(1), NodeId(2), Epoch(3));
    let mut frame = [0; HEADER_BYTES + 8];
    begin_checksum(&mut frame[..HEADER_BYTES], seed);
    for covered in [0, 7, 8] {
        assert_eq!(verify_unsummed(&frame, covered, seed), Ok(()), "{covered}");
    }
    assert_eq!(verify_unsummed(&frame, 9, seed), Err(Reason::BodyShort));
    assert_eq!(verify_unsummed(&frame, 8, Seed::CONTACT), Err(Reason::Checksum));
}
