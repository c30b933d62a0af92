use super::*;

/// Sum of a header with its checksum in it: all ones.
fn sums_up(bytes: &[u8]) -> bool {
    fold(sum(bytes)) == 0xFFFF
}

#[test]
fn headers_are_those_of_one_long_datagram() {
    let macs = [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]];
    let (from, to) = (SocketAddrV4::new([10, 77, 0, 1].into(), 51966), "10.77.0.2:7".parse());
    let to = to.expect("an address");
    let all = headers(macs, from, to, 61_472, 1472).expect("it fits");
    let (virtio, rest) = all.split_at(VIRTIO_BYTES);
    let word = |at: usize| u16::from_ne_bytes([virtio[at], virtio[at + 1]]);
    assert_eq!(virtio[..2], [1, 5], "finish the checksum, cut UDP");
    assert_eq!([word(2), word(4), word(6), word(8)], [61_472 + 42, 1472, 34, 6]);
    assert_eq!(rest[..14], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0]);
    let (ip, udp) = rest[14..].split_at(20);
    assert!(sums_up(ip), "{ip:?}");
    assert_eq!((ip[0], ip[1] & 3, ip[6], ip[9]), (0x45, 2, 0x40, 17));
    assert_eq!(u16::from_be_bytes([ip[2], ip[3]]), 61_472 + 28);
    assert_eq!(ip[12..], [10, 77, 0, 1, 10, 77, 0, 2]);
    assert_eq!(udp[..4], [0xCA, 0xFE, 0, 7]);
    assert_eq!(u16::from_be_bytes([udp[4], udp[5]]), 61_472 + 8);
    // The pseudo header: addresses, protocol, length (RFC 768).
    let pseudo = [10, 77, 0, 1, 10, 77, 0, 2, 0, 17, udp[4], udp[5]];
    assert_eq!(u16::from_be_bytes([udp[6], udp[7]]), fold(sum(&pseudo)));
    assert!(headers(macs, from, to, 65_535 - 42 + 1, 1472).is_none(), "too long for its length");
}
