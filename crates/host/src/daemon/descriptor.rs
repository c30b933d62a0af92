//! What a program posts: 64 bytes (E39, E41), most with the payload behind them.

use emp_firmware::{ClaimId, CompletionMode, OpKind, Selector};
use emp_wire::NodeId;

use crate::daemon::codec::{Fields, Wrong};

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 64;

/// Kinds.
const SEND: u8 = 1;
const RECEIVE: u8 = 2;
const MULTI_RECEIVE: u8 = 3;

/// Flags.
const IMMEDIATE: u8 = 1;
const SYNCHRONOUS: u8 = 1 << 1;
const MORE: u8 = 1 << 2;
const OVER: u8 = 1 << 3;
const CLAIM: u8 = 1 << 4;
const FROM_ENDPOINT: u8 = 1 << 5;

/// Where the payload is: in this record and those that follow. Other numbers are for places in memory that both share, of which there is none yet.
const IN_RING: u64 = u64::MAX;

/// How a send is complete, by number.
const MODES: [CompletionMode; 3] =
    [CompletionMode::Auto, CompletionMode::Buffered, CompletionMode::Delivered];

/// An operation that is posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// What the program calls it: kind, place, generation. The service believes the kind alone, and that after a look.
    pub op: u64,
    /// The program's endpoint.
    pub endpoint: u16,
    /// Bytes of the message, or of the buffer.
    pub bytes: u64,
    /// What it is.
    pub posting: Posting,
}

/// What is posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posting {
    /// A send.
    Send {
        /// The node it is for.
        to: NodeId,
        /// The endpoint it is for.
        to_endpoint: u16,
        /// Match bits.
        match_bits: u64,
        /// Eight bytes for the receiver's completion.
        immediate: Option<u64>,
        /// Complete when it is matched only.
        synchronous: bool,
        /// When it is complete.
        completion: CompletionMode,
        /// Others follow at once.
        more: bool,
        /// It is over for the program already: it has been copied, and only a failure is told of.
        over: bool,
    },
    /// A receive.
    Receive {
        /// Which messages.
        selector: Selector,
        /// This one, which was set aside.
        claim: Option<ClaimId>,
    },
    /// A receive of several messages, one behind the other.
    MultiReceive {
        /// Which messages.
        selector: Selector,
        /// Until fewer bytes are free.
        least_free: u64,
    },
}

impl Descriptor {
    /// Its bytes:
    ///
    /// | from | bytes | |
    /// |---|---|---|
    /// | 0 | 1 | kind |
    /// | 1 | 1 | flags |
    /// | 2 | 1 | how a send is complete |
    /// | 3 | 1 | zero |
    /// | 4 | 2 | endpoint |
    /// | 6 | 2 | the other's endpoint |
    /// | 8 | 8 | what the program calls it |
    /// | 16 | 8 | node |
    /// | 24 | 8 | match bits |
    /// | 32 | 8 | of a send immediate data, of a receive the bits that need not match |
    /// | 40 | 8 | bytes |
    /// | 48 | 8 | of a receive the claim, of one for several the least that is free |
    /// | 56 | 8 | where the payload is |
    #[inline]
    pub fn emit(&self) -> [u8; DESCRIPTOR_BYTES] {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let (mut kind, mut flags, mut mode) = (SEND, 0, 0);
        let (peer, peer_endpoint, bits, third, fourth);
        match self.posting {
            Posting::Send {
                to,
                to_endpoint,
                match_bits,
                immediate,
                synchronous,
                completion,
                more,
                over,
            } => {
                flags |= flag(immediate.is_some(), IMMEDIATE) | flag(synchronous, SYNCHRONOUS);
                flags |= flag(more, MORE) | flag(over, OVER);
                mode = completion as u8;
                (peer, peer_endpoint, bits) = (to, to_endpoint, match_bits);
                (third, fourth) = (immediate.unwrap_or(0), 0);
            }
            Posting::Receive { selector, claim } => {
                kind = RECEIVE;
                flags |= flag(claim.is_some(), CLAIM);
                fourth = claim.map_or(0, ClaimId::to_bits);
                flags |= flag(selector.from_endpoint.is_some(), FROM_ENDPOINT);
                (peer, peer_endpoint) = (selector.from, selector.from_endpoint.unwrap_or(0));
                (bits, third) = (selector.match_bits, selector.ignore_bits);
            }
            Posting::MultiReceive { selector, least_free } => {
                (kind, fourth) = (MULTI_RECEIVE, least_free);
                flags |= flag(selector.from_endpoint.is_some(), FROM_ENDPOINT);
                (peer, peer_endpoint) = (selector.from, selector.from_endpoint.unwrap_or(0));
                (bits, third) = (selector.match_bits, selector.ignore_bits);
            }
        }
        let mut all = [0; DESCRIPTOR_BYTES];
        all[..4].copy_from_slice(&[kind, flags, mode, 0]);
        all[4..6].copy_from_slice(&self.endpoint.to_le_bytes());
        all[6..8].copy_from_slice(&peer_endpoint.to_le_bytes());
        for (place, long) in
            [self.op, peer.0, bits, third, self.bytes, fourth, IN_RING].into_iter().enumerate()
        {
            all[8 + 8 * place..16 + 8 * place].copy_from_slice(&long.to_le_bytes());
        }
        all
    }

    /// Reads one, of whom nothing is known.
    ///
    /// # Errors
    ///
    /// If it cannot be.
    #[inline]
    pub fn parse(bytes: &[u8; DESCRIPTOR_BYTES]) -> Result<Self, Wrong> {
        let mut fields = Fields(bytes);
        let [kind, flags, mode, zero] = fields.take()?;
        let (endpoint, peer_endpoint) = (fields.half()?, fields.half()?);
        let (op, peer, bits) = (fields.long()?, NodeId(fields.long()?), fields.long()?);
        let (third, length, fourth) = (fields.long()?, fields.long()?, fields.long()?);
        if zero != 0 || fields.long()? != IN_RING || length > i64::MAX as u64 {
            return Err(Wrong("a descriptor of a form that there is not"));
        }
        let has = |flag: u8| flags & flag != 0;
        let selector = Selector {
            from: peer,
            from_endpoint: has(FROM_ENDPOINT).then_some(peer_endpoint),
            match_bits: bits,
            ignore_bits: third,
        };
        let (allowed, op_kind, posting) = match kind {
            SEND => {
                let completion =
                    *MODES.get(usize::from(mode)).ok_or(Wrong("no such completion"))?;
                let posting = Posting::Send {
                    to: peer,
                    to_endpoint: peer_endpoint,
                    match_bits: bits,
                    immediate: has(IMMEDIATE).then_some(third),
                    synchronous: has(SYNCHRONOUS),
                    completion,
                    more: has(MORE),
                    over: has(OVER),
                };
                (IMMEDIATE | SYNCHRONOUS | MORE | OVER, OpKind::Send, posting)
            }
            RECEIVE => {
                let claim = has(CLAIM).then(|| ClaimId::from_bits(fourth));
                (CLAIM | FROM_ENDPOINT, OpKind::Receive, Posting::Receive { selector, claim })
            }
            MULTI_RECEIVE => {
                let posting = Posting::MultiReceive { selector, least_free: fourth };
                (FROM_ENDPOINT, OpKind::Receive, posting)
            }
            _ => return Err(Wrong("a descriptor of a kind that there is not")),
        };
        if flags & !allowed != 0 || emp_firmware::OpId::from_bits(op).kind() != op_kind {
            return Err(Wrong("a descriptor that contradicts itself"));
        }
        Ok(Self { op, endpoint, bytes: length, posting })
    }
}

#[cfg(test)]
mod tests {
    use emp_firmware::OpId;
    use proptest::prelude::*;

    use super::*;

    fn all() -> Vec<Descriptor> {
        let send = OpId::elsewhere(OpKind::Send, 7, 9).to_bits();
        let receive = OpId::elsewhere(OpKind::Receive, 7, 9).to_bits();
        let selector = Selector {
            from: NodeId(0x1112_1314_1516_1718),
            from_endpoint: Some(0x2122),
            match_bits: 0x3132_3334_3536_3738,
            ignore_bits: 0x4142_4344_4546_4748,
        };
        let claim = Some(ClaimId::from_bits(0x5152_5354_5556_5758));
        let any = Selector { from_endpoint: None, ..selector };
        let posting = |op, posting| Descriptor { op, endpoint: 0x0102, bytes: 0x0304, posting };
        let mut all = vec![
            posting(receive, Posting::Receive { selector, claim }),
            posting(receive, Posting::Receive { selector: any, claim: None }),
            posting(receive, Posting::MultiReceive { selector, least_free: 100 }),
        ];
        for (completion, yes) in MODES.into_iter().zip([true, false, true]) {
            all.push(posting(
                send,
                Posting::Send {
                    to: NodeId(5),
                    to_endpoint: 6,
                    match_bits: 7,
                    immediate: yes.then_some(8),
                    synchronous: yes,
                    completion,
                    more: !yes,
                    over: yes,
                },
            ));
        }
        all
    }

    #[test]
    fn what_is_posted_is_read_as_it_was() {
        for descriptor in all() {
            assert_eq!(Descriptor::parse(&descriptor.emit()), Ok(descriptor));
        }
    }

    /// The layout: whoever changes it changes the version of the service's messages.
    #[test]
    fn a_descriptor_has_this_layout() {
        let bytes = all()[0].emit();
        let mut expected = vec![2, 0x30, 0, 0, 0x02, 0x01, 0x22, 0x21];
        expected.extend((1u64 << 60 | 7 << 32 | 9).to_le_bytes());
        expected.extend(0x1112_1314_1516_1718u64.to_le_bytes());
        expected.extend(0x3132_3334_3536_3738u64.to_le_bytes());
        expected.extend(0x4142_4344_4546_4748u64.to_le_bytes());
        expected.extend(0x0304u64.to_le_bytes());
        expected.extend(0x5152_5354_5556_5758u64.to_le_bytes());
        expected.extend([0xFF; 8]);
        assert_eq!(bytes[..], expected[..]);
    }

    proptest! {
        /// Any bytes are a descriptor that is written back as it came, or none.
        #[test]
        fn any_bytes_are_one_or_none(start: [u8; 32], rest: [u8; 24], kind in 0u8..5, in_ring: bool) {
            let mut bytes = [0xFF; DESCRIPTOR_BYTES];
            bytes[..32].copy_from_slice(&start);
            bytes[32..56].copy_from_slice(&rest);
            bytes[0] = kind;
            bytes[3] = 0;
            bytes[56] = if in_ring { 0xFF } else { start[0] };
            if let Ok(descriptor) = Descriptor::parse(&bytes) {
                prop_assert_eq!(Descriptor::parse(&descriptor.emit()), Ok(descriptor));
            }
        }
    }
}
