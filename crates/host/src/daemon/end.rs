//! What the service says when an operation has ended: 64 bytes, most with what was received behind them.

use emp_firmware::{BufferPlace, Completion, OpId, OpKind, Status};
use emp_wire::NodeId;

use crate::daemon::codec::{Fields, Wrong};

/// Bytes of an end.
pub const END_BYTES: usize = 64;

/// There is immediate data.
const IMMEDIATE: u8 = 1;

/// An operation's end, as the program calls the operation; or a notice of none of its operations, whose `op` is an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// What ended, and how. Its context is the program's business.
    pub completion: Completion,
}

impl End {
    /// Its bytes:
    ///
    /// | from | bytes | |
    /// |---|---|---|
    /// | 0 | 1 | status |
    /// | 1 | 1 | kind of the operation |
    /// | 2 | 1 | flags |
    /// | 3 | 1 | zero |
    /// | 4 | 2 | the other's endpoint |
    /// | 6 | 2 | zero |
    /// | 8 | 8 | what the program calls it; of a notice, the endpoint |
    /// | 16 | 8 | node |
    /// | 24 | 8 | match bits |
    /// | 32 | 8 | bytes |
    /// | 40 | 8 | bytes of the whole |
    /// | 48 | 8 | immediate data |
    /// | 56 | 8 | where in the buffer |
    #[inline]
    pub fn emit(&self) -> [u8; END_BYTES] {
        let Completion { op, status, peer, peer_endpoint, match_bits, .. } = self.completion;
        let Completion { bytes, total_bytes, immediate, place, context, .. } = self.completion;
        let notice = matches!(op.kind(), OpKind::Notified | OpKind::Undelivered);
        let mut all = [0; END_BYTES];
        let flags = if immediate.is_some() { IMMEDIATE } else { 0 };
        all[..4].copy_from_slice(&[status as u8, op.kind() as u8, flags, 0]);
        all[4..6].copy_from_slice(&peer_endpoint.to_le_bytes());
        let name = if notice { context } else { op.to_bits() };
        let longs =
            [name, peer.0, match_bits, bytes, total_bytes, immediate.unwrap_or(0), place.to_bits()];
        for (place, long) in longs.into_iter().enumerate() {
            all[8 + 8 * place..16 + 8 * place].copy_from_slice(&long.to_le_bytes());
        }
        all
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// If it cannot be.
    #[inline]
    pub fn parse(bytes: &[u8; END_BYTES]) -> Result<Self, Wrong> {
        let mut fields = Fields(bytes);
        let [status, kind, flags, _] = fields.take()?;
        let status = *Status::ALL.get(usize::from(status)).ok_or(Wrong("no such status"))?;
        let kind = *OpKind::ALL.get(usize::from(kind)).ok_or(Wrong("no such operation"))?;
        let (peer_endpoint, _) = (fields.half()?, fields.half()?);
        let (name, peer, match_bits) = (fields.long()?, NodeId(fields.long()?), fields.long()?);
        let (bytes, total_bytes) = (fields.long()?, fields.long()?);
        let immediate = Some(fields.long()?).filter(|_| flags & IMMEDIATE != 0);
        let place = BufferPlace::from_bits(fields.long()?);
        let notice = matches!(kind, OpKind::Notified | OpKind::Undelivered);
        let op = if notice { OpId::elsewhere(kind, 0, 0) } else { OpId::from_bits(name) };
        if op.kind() != kind {
            return Err(Wrong("an end that contradicts itself"));
        }
        let completion = Completion {
            op,
            context: if notice { name } else { 0 },
            status,
            bytes,
            total_bytes,
            peer,
            peer_endpoint,
            match_bits,
            immediate,
            place,
        };
        Ok(Self { completion })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(kind: OpKind, status: Status) -> End {
        let notice = matches!(kind, OpKind::Notified | OpKind::Undelivered);
        let op = OpId::elsewhere(kind, if notice { 0 } else { 7 }, if notice { 0 } else { 9 });
        End {
            completion: Completion {
                op,
                context: if notice { 3 } else { 0 },
                status,
                bytes: 0x0102,
                total_bytes: 0x0304,
                peer: NodeId(0x0506),
                peer_endpoint: 0x0708,
                match_bits: 0x090A,
                immediate: (status == Status::Ok).then_some(0x0B0C),
                place: BufferPlace::from_bits(0x0D0E),
            },
        }
    }

    #[test]
    fn all_ends_are_read_as_they_were_written() {
        for (number, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, number, "{status:?} has its number");
            for kind in OpKind::ALL {
                let end = end(kind, status);
                assert_eq!(End::parse(&end.emit()), Ok(end));
            }
        }
        let mut bytes = end(OpKind::Send, Status::Ok).emit();
        bytes[0] = Status::ALL.len() as u8;
        assert!(End::parse(&bytes).is_err());
    }

    /// The layout: whoever changes it changes the version of the service's messages.
    #[test]
    fn an_end_has_this_layout() {
        let bytes = end(OpKind::Receive, Status::Ok).emit();
        let mut expected = vec![0, 1, 1, 0, 8, 7, 0, 0];
        for long in [1u64 << 60 | 7 << 32 | 9, 0x0506, 0x090A, 0x0102, 0x0304, 0x0B0C, 0x0D0E] {
            expected.extend(long.to_le_bytes());
        }
        assert_eq!(bytes[..], expected[..]);
    }
}
