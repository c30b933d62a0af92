//! The few bytes in front of a bare link's payload: just enough to tell frames apart.

use emp_wire::{DESTINATION_TAG_OFFSET, HEADER_BYTES, Kind as WireKind, VERSION};

/// Where our own fields begin, behind those that links look at: what it is, its length and destination tag.
const OWN_OFFSET: usize = HEADER_BYTES - OWN_BYTES;
const OWN_BYTES: usize = 12;

/// First byte of a frame: as EMP's that carry data, since links go by the length in such a header.
const FIRST: u8 = VERSION << 5 | WireKind::Data as u8;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Part of a message on its way there.
    Ping = 1,
    /// Part of a message on its way back.
    Pong = 2,
    /// Part of a stream.
    Data = 3,
    /// Says how far a stream has come.
    Ack = 4,
    /// The stream, or the ping-pong, is over.
    Fin = 5,
    /// The answer to that.
    FinAck = 6,
    /// A long frame that may or may not get through.
    Try = 7,
}

impl Kind {
    /// True for the kinds that bring parts of messages.
    pub fn brings_payload(self) -> bool {
        matches!(self, Self::Ping | Self::Pong | Self::Data)
    }
}

/// The head of a bare frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// Both ends count jobs; frames of an earlier one are ignored.
    pub job: u16,
    /// The destination's tag.
    pub tag: u16,
    /// Which message, or which frame of a stream.
    pub sequence: u32,
    /// Which part of the message; in acknowledgements, frames received.
    pub index: u32,
}

impl Head {
    /// The bytes in front of so many of payload. They are as many as EMP's common header has, and what a link looks at is where that has it.
    #[inline]
    pub fn emit(&self, payload_bytes: usize) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = FIRST;
        bytes[2..4].copy_from_slice(&(payload_bytes as u16).to_be_bytes());
        bytes[DESTINATION_TAG_OFFSET..][..2].copy_from_slice(&self.tag.to_be_bytes());
        let own = &mut bytes[OWN_OFFSET..];
        own[..2].copy_from_slice(&self.job.to_be_bytes());
        own[2] = self.kind as u8;
        own[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        own[8..].copy_from_slice(&self.index.to_be_bytes());
        bytes
    }

    /// Reads a frame. `None` if it is none of ours.
    #[inline]
    pub fn parse(frame: &[u8]) -> Option<(Self, &[u8])> {
        let (head, payload) = frame.split_first_chunk::<HEADER_BYTES>()?;
        let [first, _, _, _, t0, t1, ..] = *head;
        let own = head[OWN_OFFSET..].first_chunk::<OWN_BYTES>()?;
        let [j0, j1, kind, _, s0, s1, s2, s3, i0, i1, i2, i3] = *own;
        let kind = match kind {
            1 => Kind::Ping,
            2 => Kind::Pong,
            3 => Kind::Data,
            4 => Kind::Ack,
            5 => Kind::Fin,
            6 => Kind::FinAck,
            7 => Kind::Try,
            _ => return None,
        };
        let parsed = Self {
            kind,
            job: u16::from_be_bytes([j0, j1]),
            tag: u16::from_be_bytes([t0, t1]),
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            index: u32::from_be_bytes([i0, i1, i2, i3]),
        };
        (first == FIRST).then_some((parsed, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for kind in
            [Kind::Ping, Kind::Pong, Kind::Data, Kind::Ack, Kind::Fin, Kind::FinAck, Kind::Try]
        {
            let head = Head { kind, job: 7, tag: 0xabcd, sequence: 1 << 30, index: 9 };
            let frame = [&head.emit(7)[..], b"payload"].concat();
            assert_eq!(Head::parse(&frame), Some((head, &b"payload"[..])));
            assert_eq!(frame[2..6], [0, 7, 0xab, 0xcd]);
        }
        assert_eq!(Head::parse(&[0; HEADER_BYTES - 1]), None);
        assert_eq!(Head::parse(&[0xff; 60]), None);
    }
}
