//! Reads captures back, by the format alone.

/// A packet of a capture.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The frame, with its Ethernet header.
    pub frame: Vec<u8>,
    /// Whether it was sent, if that is said.
    pub sent: Option<bool>,
    /// What is said of it.
    pub comment: String,
}

/// The kind of the block that a packet is.
const PACKET: usize = 6;

fn word(bytes: &[u8], at: usize) -> usize {
    bytes[at..].first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

/// The packets of a capture.
///
/// # Panics
/// If the file does not end with a whole block, or a block is none.
pub fn packets(mut file: &[u8]) -> Vec<Packet> {
    let mut packets = Vec::new();
    while !file.is_empty() {
        let length = word(file, 4);
        assert_eq!(word(file, length - 4), length, "both lengths of a block agree");
        if word(file, 0) == PACKET {
            packets.push(packet(&file[..length]));
        }
        file = &file[length..];
    }
    packets
}

/// A packet, of its block.
fn packet(block: &[u8]) -> Packet {
    let bytes = word(block, 20);
    let (mut at, mut sent, mut comment) = (28 + bytes.next_multiple_of(4), None, String::new());
    while at < block.len() - 4 {
        let (code, size) = (word(block, at) & 0xFFFF, word(block, at) >> 16);
        let value = &block[at + 4..at + 4 + size];
        match code {
            0 => break,
            1 => comment = String::from_utf8(value.to_vec()).expect("comments are UTF-8"),
            2 => sent = Some(word(value, 0) & 3 == 2),
            _ => panic!("option {code}"),
        }
        at += 4 + size.next_multiple_of(4);
    }
    Packet { frame: block[28..28 + bytes].to_vec(), sent, comment }
}
