//! What the libraries of two processes tell each other about connections: messages of EMP at an endpoint of their own, and
//! datagrams within a machine. Numbers are little endian.

use std::net::SocketAddr;

use crate::abi::ErrorCode;
use crate::points::{DISCRIMINATOR_MAX, Point};

/// In what a message carries beside its bytes: it stands for an RDMA write that consumes a receive. Behind it, the write's bytes
/// and its immediate data, 32 bits each. Not in the match bits: those are the number of a connection, all of them.
pub const WROTE: u64 = 1 << 63;

/// The longest of these messages, in bytes: a request with two addresses.
pub const BYTES_MAX: usize = 256;

/// What must be the same at both ends, and what either permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offer {
    pub reliability: u16,
    pub max_transfer: u32,
    pub rdma_write: bool,
    pub rdma_read: bool,
}

/// One end of a connection that is being made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Party {
    /// Number of the connection at its node, and which attempt with it.
    pub conn: u32,
    pub attempt: u32,
    /// By which its memory is named.
    pub tag: u32,
    pub offer: Offer,
    pub node: u64,
    pub mac: Option<[u8; 6]>,
    pub udp: Option<SocketAddr>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Somebody wants to connect to the remote point; `peer`: to who wants the same of it.
    Ask { peer: bool, from: Party, local: Point, remote: Point },
    /// Nobody waits there.
    NoMatch { conn: u32, attempt: u32 },
    /// It is connected to this party.
    Accept { conn: u32, attempt: u32, from: Party },
    /// Who waits there does not want it.
    Reject { conn: u32, attempt: u32 },
    /// The acceptance was in time.
    Ack { conn: u32, from: u32 },
    /// The connection is over: why ([`ErrorCode::CONN_LOST`]: it was disconnected).
    End { conn: u32, from: u32, why: ErrorCode },
    /// Is anybody there? The node answers.
    Alive,
}

struct Writer(Vec<u8>);

impl Writer {
    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, bytes: &[u8]) {
        self.0.push(bytes.len() as u8);
        self.0.extend(bytes);
    }

    fn point(&mut self, point: &Point) {
        self.u64(point.host);
        self.text(&point.discriminator);
    }

    fn party(&mut self, party: &Party) {
        self.u32(party.conn);
        self.u32(party.attempt);
        self.u32(party.tag);
        self.u16(party.offer.reliability);
        self.u32(party.offer.max_transfer);
        self.0.push(u8::from(party.offer.rdma_write) | u8::from(party.offer.rdma_read) << 1);
        self.u64(party.node);
        self.text(party.mac.as_ref().map_or(&[][..], |mac| mac));
        self.text(party.udp.map(|udp| udp.to_string()).unwrap_or_default().as_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (now, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(now)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.bytes(length.into())
    }

    fn point(&mut self) -> Option<Point> {
        let (host, discriminator) = (self.u64()?, self.text()?);
        let fits = discriminator.len() <= DISCRIMINATOR_MAX && emp_face::machines::is_number(host);
        fits.then(|| Point { host, discriminator: discriminator.to_vec() })
    }

    fn party(&mut self) -> Option<Party> {
        let (conn, attempt, tag) = (self.u32()?, self.u32()?, self.u32()?);
        let (reliability, max_transfer, rdma) = (self.u16()?, self.u32()?, self.u8()?);
        let offer = Offer {
            reliability,
            max_transfer,
            rdma_write: rdma & 1 != 0,
            rdma_read: rdma & 2 != 0,
        };
        let node = self.u64()?;
        let mac = self.text()?;
        let mac = if mac.is_empty() { None } else { Some(mac.try_into().ok()?) };
        let udp = std::str::from_utf8(self.text()?).ok()?;
        let udp = if udp.is_empty() { None } else { Some(udp.parse().ok()?) };
        Some(Party { conn, attempt, tag, offer, node, mac, udp })
    }
}

impl Message {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer(Vec::with_capacity(BYTES_MAX));
        match self {
            Self::Ask { peer, from, local, remote } => {
                writer.0.push(1 + u8::from(*peer));
                writer.party(from);
                writer.point(local);
                writer.point(remote);
            }
            Self::NoMatch { conn, attempt } => {
                writer.0.push(3);
                writer.u32(*conn);
                writer.u32(*attempt);
            }
            Self::Accept { conn, attempt, from } => {
                writer.0.push(4);
                writer.u32(*conn);
                writer.u32(*attempt);
                writer.party(from);
            }
            Self::Reject { conn, attempt } => {
                writer.0.push(5);
                writer.u32(*conn);
                writer.u32(*attempt);
            }
            Self::Ack { conn, from } => {
                writer.0.push(6);
                writer.u32(*conn);
                writer.u32(*from);
            }
            Self::End { conn, from, why } => {
                writer.0.push(7);
                writer.u32(*conn);
                writer.u32(*from);
                writer.u16(why.0 as u16);
            }
            Self::Alive => writer.0.push(8),
        }
        writer.0
    }

    /// What somebody has sent; `None` if it is no such message.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let message = match reader.u8()? {
            kind @ (1 | 2) => Self::Ask {
                peer: kind == 2,
                from: reader.party()?,
                local: reader.point()?,
                remote: reader.point()?,
            },
            3 => Self::NoMatch { conn: reader.u32()?, attempt: reader.u32()? },
            4 => {
                let (conn, attempt) = (reader.u32()?, reader.u32()?);
                Self::Accept { conn, attempt, from: reader.party()? }
            }
            5 => Self::Reject { conn: reader.u32()?, attempt: reader.u32()? },
            6 => Self::Ack { conn: reader.u32()?, from: reader.u32()? },
            7 => {
                let (conn, from) = (reader.u32()?, reader.u32()?);
                Self::End { conn, from, why: ErrorCode(reader.u16()?.into()) }
            }
            8 => Self::Alive,
            _ => return None,
        };
        reader.0.is_empty().then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let offer = Offer { reliability: 4, max_transfer: 7, rdma_write: true, rdma_read: false };
        let from = Party {
            conn: 1,
            attempt: 2,
            tag: 3,
            offer,
            node: u64::MAX,
            mac: Some([1, 2, 3, 4, 5, 6]),
            udp: Some("[2001:db8:1111:2222:3333:4444:5555:6666]:65535".parse().unwrap()),
        };
        let bare = Party { mac: None, udp: None, ..from.clone() };
        let point = |length| Point { host: 9, discriminator: vec![8; length] };
        let (local, remote) = (point(DISCRIMINATOR_MAX), point(DISCRIMINATOR_MAX));
        vec![
            Message::Ask { peer: true, from: from.clone(), local, remote },
            Message::Ask { peer: false, from: bare, local: point(0), remote: point(1) },
            Message::NoMatch { conn: 5, attempt: 6 },
            Message::Accept { conn: 5, attempt: 6, from },
            Message::Reject { conn: 5, attempt: 6 },
            Message::Ack { conn: 5, from: 7 },
            Message::End { conn: 5, from: 7, why: ErrorCode::RDMAW_PROT },
            Message::Alive,
        ]
    }

    #[test]
    fn messages_survive_the_way_and_nothing_else_is_one() {
        for message in messages() {
            let bytes = message.encode();
            assert!(bytes.len() <= BYTES_MAX, "{}", bytes.len());
            assert_eq!(Message::decode(&bytes), Some(message));
            for cut in 0..bytes.len() {
                assert_eq!(Message::decode(&bytes[..cut]), None);
            }
            assert_eq!(Message::decode(&[bytes, vec![0]].concat()), None);
        }
        assert_eq!(Message::decode(&[77]), None);
    }
}
