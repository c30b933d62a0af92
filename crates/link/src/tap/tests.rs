//! The filter is run by an interpreter of classic BPF, on frames as they are on the wire.

use super::*;

/// What the kernel would answer: bytes taken, 0 for none; a load beyond the end takes none.
fn run(program: &[libc::sock_filter], packet: &[u8]) -> u32 {
    let half = |at: usize| {
        packet.get(at..at + 2).map(|bytes| u32::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    };
    let byte = |at: usize| packet.get(at).map(|byte| u32::from(*byte));
    let (mut at, mut loaded, mut index) = (0, 0, 0usize);
    loop {
        let libc::sock_filter { code, jt, jf, k } = program[at];
        let jump = |yes: bool| usize::from(if yes { jt } else { jf });
        at += 1;
        let value = match u32::from(code) {
            LOAD_HALF => half(k as usize),
            LOAD_BYTE => byte(k as usize),
            LOAD_HALF_AT => half(index + k as usize),
            LOAD_BYTE_AT => byte(index + k as usize),
            INDEX_OF_IPV4 => {
                let Some(first) = byte(k as usize) else { return 0 };
                index = 4 * (first as usize & 15);
                Some(loaded)
            }
            INDEX => {
                index = k as usize;
                Some(loaded)
            }
            AND => Some(loaded & k),
            IF_EQUAL => {
                at += jump(loaded == k);
                Some(loaded)
            }
            IF_BITS => {
                at += jump(loaded & k != 0);
                Some(loaded)
            }
            RETURN => return k,
            code => panic!("unknown instruction {code:#x}"),
        };
        let Some(value) = value else { return 0 };
        loaded = value;
    }
}

/// A frame of EMP from node a to node b.
fn frame(payload: usize) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES + payload];
    frame[0] = 0x24;
    frame[2..4].copy_from_slice(&(payload as u16).to_be_bytes());
    let (a, b) = (NodeId::from_name("a"), NodeId::from_name("b"));
    frame[4..6].copy_from_slice(&b.destination_tag().to_be_bytes());
    frame[8..12].copy_from_slice(&a.source_tag().to_be_bytes());
    frame
}

fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &kind.to_be_bytes(), rest].concat()
}

fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &[0; 4], payload].concat()
}

/// With options of so many words, and this place in fragments.
fn ipv4(protocol: u8, words: u8, fragment: u16, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 20 + 4 * usize::from(words)];
    header[0] = 0x45 + words;
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[9] = protocol;
    ethernet(IPV4, &[&header[..], rest].concat())
}

fn ipv6(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = [0; IPV6_HEADER_BYTES];
    header[0] = 0x60;
    header[6] = protocol;
    ethernet(IPV6, &[&header[..], rest].concat())
}

fn takes(options: &TapOptions, packet: &[u8]) -> bool {
    run(&program(options), packet) != 0 && is_wanted(packet, options)
}

#[test]
fn frames_are_taken_by_ethertype_and_port() {
    let mut options = TapOptions::new("eth0");
    options.ports = vec![51966, 61190];
    for packet in [
        ethernet(ETHERTYPE_DEFAULT, &frame(40)),
        ethernet(ETHERTYPE_DEFAULT, &[1, 2, 3]),
        ipv4(UDP, 0, 0, &udp(51966, 1, &frame(0))),
        ipv4(UDP, 3, 0, &udp(1, 61190, &frame(10))),
        ipv4(UDP, 0, 0x4000, &udp(1, 51966, b"what is wrong shows too")),
        ipv6(UDP, &udp(1, 51966, &frame(10))),
    ] {
        assert!(takes(&options, &packet), "{packet:02x?}");
    }
    for packet in [
        vec![0; 13],
        ethernet(0x88B6, &frame(40)),
        ipv4(6, 0, 0, &udp(51966, 51966, &frame(0))),
        ipv4(UDP, 0, 0, &udp(1, 2, &frame(0))),
        ipv4(UDP, 0, 185, &udp(51966, 51966, &frame(0))),
        ipv4(UDP, 15, 0, &[]),
        ipv6(6, &udp(1, 51966, &frame(10))),
        ipv6(UDP, &udp(1, 2, &frame(10))),
    ] {
        assert!(!takes(&options, &packet), "{packet:02x?}");
    }
}

#[test]
fn at_any_port_datagrams_are_known_by_being_whole_frames() {
    let mut options = TapOptions::new("eth0");
    options.ports.clear();
    let two = [frame(20), frame(0)].concat();
    let long = [frame(60_000)[..1472].to_vec(), vec![]].concat();
    for payload in [&frame(20), &two, &long] {
        assert!(takes(&options, &ipv4(UDP, 0, 0, &udp(4711, 815, payload))));
        assert!(takes(&options, &ipv6(UDP, &udp(4711, 815, payload))));
    }
    let mut other = frame(20);
    other[0] = 0x30;
    let padded = [frame(20), vec![0; 5]].concat();
    for payload in [&other, &padded, &frame(20)[..40].to_vec(), &b"DNS".to_vec()] {
        assert!(!takes(&options, &ipv4(UDP, 0, 0, &udp(4711, 53, payload))), "{payload:02x?}");
    }
}

#[test]
fn one_node_is_told_apart_by_its_tags() {
    let packet = ethernet(ETHERTYPE_DEFAULT, &frame(8));
    for (node, wanted) in [("a", true), ("b", true), ("c", false)] {
        let node = Some(NodeId::from_name(node));
        assert_eq!(takes(&TapOptions { node, ..TapOptions::new("eth0") }, &packet), wanted);
    }
}

#[test]
fn the_filter_fits_its_jumps() {
    let ports = (0..TAP_PORTS_MAX as u16).map(|port| 1000 + port).collect();
    let options = TapOptions { ports, ..TapOptions::new("eth0") };
    let last = TAP_PORTS_MAX as u16 - 1 + 1000;
    assert!(takes(&options, &ipv6(UDP, &udp(1, last, &frame(10)))));
    assert!(takes(&options, &ipv4(UDP, 0, 0, &udp(last, 1, &frame(10)))));
}
