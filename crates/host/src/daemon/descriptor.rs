//! What a program posts: 64 bytes (E39, E41), most with the payload behind them.

use emp_firmware::{
    AtomicOp, ClaimId, CompletionMode, Datatype, OpId, OpKind, RemoteRegion, Selector,
};
use emp_wire::{Atomic, NodeId};

use crate::daemon::codec::{Fields, Wrong};

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 64;

/// Kinds.
const SEND: u8 = 1;
const RECEIVE: u8 = 2;
const MULTI_RECEIVE: u8 = 3;
const PUT: u8 = 4;
const GET: u8 = 5;
const ATOMIC: u8 = 6;

/// Flags.
const IMMEDIATE: u8 = 1;
const SYNCHRONOUS: u8 = 1 << 1;
const MORE: u8 = 1 << 2;
const OVER: u8 = 1 << 3;
const CLAIM: u8 = 1 << 4;
const FROM_ENDPOINT: u8 = 1 << 5;
const FETCH: u8 = 1 << 6;

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
    /// Bytes of the message, or of the buffer; of an atomic operation, of its operands and what to compare with.
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
    /// Bytes for another's region.
    Put {
        /// Where they go.
        target: RemoteRegion,
        /// Eight bytes that its owner is notified with.
        immediate: Option<u64>,
        /// When it is complete.
        completion: CompletionMode,
    },
    /// Bytes of another's region.
    Get {
        /// Where they are.
        target: RemoteRegion,
    },
    /// Elements of another's region to be changed.
    Atomic {
        /// Where they are.
        target: RemoteRegion,
        /// How.
        operation: AtomicOp,
        /// What they are.
        datatype: Datatype,
        /// How many.
        count: u32,
        /// The old ones are wanted.
        fetch: bool,
    },
}

impl Posting {
    /// What it is to the engine.
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Send { .. } => OpKind::Send,
            Self::Receive { .. } | Self::MultiReceive { .. } => OpKind::Receive,
            Self::Put { .. } => OpKind::Put,
            Self::Get { .. } => OpKind::Get,
            Self::Atomic { .. } => OpKind::Atomic,
        }
    }
}

impl Descriptor {
    /// Bytes that go with it, and bytes that come back.
    pub const fn payload_and_room(&self) -> (u64, u64) {
        match self.posting {
            Posting::Send { .. } | Posting::Put { .. } => (self.bytes, 0),
            Posting::Receive { .. } | Posting::MultiReceive { .. } | Posting::Get { .. } => {
                (0, self.bytes)
            }
            Posting::Atomic { datatype, count, fetch, .. } => {
                let room = if fetch { Atomic::element_bytes((datatype, count)) } else { 0 };
                (self.bytes, room)
            }
        }
    }
}

impl Descriptor {
    /// Its bytes:
    ///
    /// | from | bytes | |
    /// |---|---|---|
    /// | 0 | 1 | kind |
    /// | 1 | 1 | flags |
    /// | 2 | 1 | how a send or put is complete; of an atomic operation the datatype |
    /// | 3 | 1 | of an atomic operation the operator |
    /// | 4 | 2 | endpoint |
    /// | 6 | 2 | the other's endpoint |
    /// | 8 | 8 | what the program calls it |
    /// | 16 | 8 | node |
    /// | 24 | 8 | match bits, or the region's key |
    /// | 32 | 8 | of a send immediate data, of a receive the bits that need not match, else the offset in the region |
    /// | 40 | 8 | bytes |
    /// | 48 | 8 | of a receive the claim, of one for several the least that is free, of a put immediate data, of an atomic operation how many |
    /// | 56 | 4 | the region's generation |
    /// | 60 | 4 | zero |
    #[inline]
    pub fn emit(&self) -> [u8; DESCRIPTOR_BYTES] {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let mut fields = Layout::default();
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
                let flags = flag(immediate.is_some(), IMMEDIATE) | flag(synchronous, SYNCHRONOUS);
                fields.kind =
                    [SEND, flags | flag(more, MORE) | flag(over, OVER), completion as u8, 0];
                (fields.peer, fields.peer_endpoint, fields.bits) = (to, to_endpoint, match_bits);
                fields.third = immediate.unwrap_or(0);
            }
            Posting::Receive { selector, claim } => {
                fields.kind = [RECEIVE, flag(claim.is_some(), CLAIM), 0, 0];
                fields.select(&selector);
                fields.fourth = claim.map_or(0, ClaimId::to_bits);
            }
            Posting::MultiReceive { selector, least_free } => {
                fields.kind = [MULTI_RECEIVE, 0, 0, 0];
                fields.select(&selector);
                fields.fourth = least_free;
            }
            Posting::Put { target, immediate, completion } => {
                let flags = flag(immediate.is_some(), IMMEDIATE);
                fields.kind = [PUT, flags, completion as u8, 0];
                fields.aim(&target);
                fields.fourth = immediate.unwrap_or(0);
            }
            Posting::Get { target } => {
                fields.kind = [GET, 0, 0, 0];
                fields.aim(&target);
            }
            Posting::Atomic { target, operation, datatype, count, fetch } => {
                fields.kind = [ATOMIC, flag(fetch, FETCH), datatype as u8, operation as u8];
                fields.aim(&target);
                fields.fourth = count.into();
            }
        }
        fields.emit(self)
    }

    /// Reads one, of whom nothing is known.
    ///
    /// # Errors
    ///
    /// If it cannot be.
    #[inline]
    pub fn parse(bytes: &[u8; DESCRIPTOR_BYTES]) -> Result<Self, Wrong> {
        let (fields, endpoint, op, length) = Layout::parse(bytes)?;
        let [kind, flags, mode, operator] = fields.kind;
        let has = |flag: u8| flags & flag != 0;
        let completion =
            || MODES.get(usize::from(mode)).copied().ok_or(Wrong("no such completion"));
        let (allowed, posting) = match kind {
            SEND => {
                let posting = Posting::Send {
                    to: fields.peer,
                    to_endpoint: fields.peer_endpoint,
                    match_bits: fields.bits,
                    immediate: has(IMMEDIATE).then_some(fields.third),
                    synchronous: has(SYNCHRONOUS),
                    completion: completion()?,
                    more: has(MORE),
                    over: has(OVER),
                };
                (IMMEDIATE | SYNCHRONOUS | MORE | OVER, posting)
            }
            RECEIVE => {
                let claim = has(CLAIM).then(|| ClaimId::from_bits(fields.fourth));
                let selector = fields.selector();
                (CLAIM | FROM_ENDPOINT, Posting::Receive { selector, claim })
            }
            MULTI_RECEIVE => {
                let (selector, least_free) = (fields.selector(), fields.fourth);
                (FROM_ENDPOINT, Posting::MultiReceive { selector, least_free })
            }
            PUT => {
                let immediate = has(IMMEDIATE).then_some(fields.fourth);
                let (target, completion) = (fields.target(), completion()?);
                (IMMEDIATE, Posting::Put { target, immediate, completion })
            }
            GET => (0, Posting::Get { target: fields.target() }),
            ATOMIC => (FETCH, fields.atomic(mode, operator, length, has(FETCH))?),
            _ => return Err(Wrong("a descriptor of a kind that there is not")),
        };
        if flags & !allowed != 0 || OpId::from_bits(op).kind() != posting.kind() {
            return Err(Wrong("a descriptor that contradicts itself"));
        }
        Ok(Self { op, endpoint, bytes: length, posting })
    }
}

/// What the bytes between those that all descriptors have in common say.
struct Layout {
    kind: [u8; 4],
    peer: NodeId,
    peer_endpoint: u16,
    bits: u64,
    third: u64,
    fourth: u64,
    generation: u32,
}

impl Default for Layout {
    fn default() -> Self {
        let (kind, peer) = ([0; 4], NodeId::ANY);
        Self { kind, peer, peer_endpoint: 0, bits: 0, third: 0, fourth: 0, generation: 0 }
    }
}

impl Layout {
    fn select(&mut self, selector: &Selector) {
        self.kind[1] |= if selector.from_endpoint.is_some() { FROM_ENDPOINT } else { 0 };
        (self.peer, self.peer_endpoint) = (selector.from, selector.from_endpoint.unwrap_or(0));
        (self.bits, self.third) = (selector.match_bits, selector.ignore_bits);
    }

    const fn selector(&self) -> Selector {
        let from_endpoint =
            if self.kind[1] & FROM_ENDPOINT != 0 { Some(self.peer_endpoint) } else { None };
        let (match_bits, ignore_bits) = (self.bits, self.third);
        Selector { from: self.peer, from_endpoint, match_bits, ignore_bits }
    }

    const fn aim(&mut self, target: &RemoteRegion) {
        (self.peer, self.peer_endpoint) = (target.to, target.to_endpoint);
        (self.bits, self.third, self.generation) = (target.key, target.offset, target.generation);
    }

    const fn target(&self) -> RemoteRegion {
        RemoteRegion {
            to: self.peer,
            to_endpoint: self.peer_endpoint,
            key: self.bits,
            generation: self.generation,
            offset: self.third,
        }
    }

    fn atomic(
        &self,
        datatype: u8,
        operator: u8,
        bytes: u64,
        fetch: bool,
    ) -> Result<Posting, Wrong> {
        let operation = AtomicOp::from_number(operator).ok_or(Wrong("no such operator"))?;
        let datatype = Datatype::from_number(datatype).ok_or(Wrong("no such datatype"))?;
        let count = u32::try_from(self.fourth).map_err(|_| Wrong("too many elements"))?;
        let elements = Atomic::element_bytes((datatype, count));
        if count == 0 || bytes != Atomic::payload_bytes(operation, elements) {
            return Err(Wrong("operands of another length"));
        }
        Ok(Posting::Atomic { target: self.target(), operation, datatype, count, fetch })
    }

    #[inline]
    fn emit(&self, of: &Descriptor) -> [u8; DESCRIPTOR_BYTES] {
        let mut all = [0; DESCRIPTOR_BYTES];
        all[..4].copy_from_slice(&self.kind);
        all[4..6].copy_from_slice(&of.endpoint.to_le_bytes());
        all[6..8].copy_from_slice(&self.peer_endpoint.to_le_bytes());
        for (place, long) in [of.op, self.peer.0, self.bits, self.third, of.bytes, self.fourth]
            .into_iter()
            .enumerate()
        {
            all[8 + 8 * place..16 + 8 * place].copy_from_slice(&long.to_le_bytes());
        }
        all[56..60].copy_from_slice(&self.generation.to_le_bytes());
        all
    }

    /// It; the endpoint, what the program calls it, and its bytes.
    #[inline]
    fn parse(bytes: &[u8; DESCRIPTOR_BYTES]) -> Result<(Self, u16, u64, u64), Wrong> {
        let mut fields = Fields(bytes);
        let kind = fields.take()?;
        let (endpoint, peer_endpoint) = (fields.half()?, fields.half()?);
        let (op, peer, bits) = (fields.long()?, NodeId(fields.long()?), fields.long()?);
        let (third, length, fourth) = (fields.long()?, fields.long()?, fields.long()?);
        let (generation, zero) = (fields.word()?, fields.word()?);
        let one_sided = matches!(kind[0], PUT | GET | ATOMIC);
        let stray = zero != 0 || !one_sided && generation != 0 || kind[0] != ATOMIC && kind[3] != 0;
        if stray || length > i64::MAX as u64 {
            return Err(Wrong("a descriptor of a form that there is not"));
        }
        let it = Self { kind, peer, peer_endpoint, bits, third, fourth, generation };
        Ok((it, endpoint, op, length))
    }
}

#[cfg(test)]
mod tests {
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
        let name = |kind| OpId::elsewhere(kind, 7, 9).to_bits();
        let target = RemoteRegion {
            to: NodeId(5),
            to_endpoint: 6,
            key: 0x6162_6364_6566_6768,
            generation: 0x7172_7374,
            offset: 0x0807_0605_0403_0201,
        };
        let put = |immediate| Posting::Put { target, immediate, completion: CompletionMode::Auto };
        let atomic = |operation, fetch| {
            let (datatype, count) = (Datatype::Uint32, 0x60);
            Posting::Atomic { target, operation, datatype, count, fetch }
        };
        let mut all = vec![
            posting(receive, Posting::Receive { selector, claim }),
            posting(receive, Posting::Receive { selector: any, claim: None }),
            posting(receive, Posting::MultiReceive { selector, least_free: 100 }),
            posting(name(OpKind::Put), put(Some(9))),
            posting(name(OpKind::Put), put(None)),
            posting(name(OpKind::Get), Posting::Get { target }),
            // As many bytes to compare with as operands.
            Descriptor {
                bytes: 0x0300,
                ..posting(name(OpKind::Atomic), atomic(AtomicOp::Cswap, true))
            },
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
        let atomic = all().into_iter().find(|one| matches!(one.posting, Posting::Atomic { .. }));
        let atomic = atomic.expect("there is one");
        assert_eq!(atomic.payload_and_room(), (0x300, 0x180));
        let more = Descriptor { bytes: 0x301, ..atomic };
        assert!(Descriptor::parse(&more.emit()).is_err(), "more bytes than its operands have");
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
        expected.extend([0; 8]);
        assert_eq!(bytes[..], expected[..]);
        let bytes = all()[3].emit();
        let mut expected = vec![4, 1, 0, 0, 0x02, 0x01, 6, 0];
        expected.extend((2u64 << 60 | 7 << 32 | 9).to_le_bytes());
        let longs = [5, 0x6162_6364_6566_6768, 0x0807_0605_0403_0201, 0x0304, 9, 0x7172_7374u64];
        expected.extend(longs.map(u64::to_le_bytes).concat());
        assert_eq!(bytes[..], expected[..]);
    }

    proptest! {
        /// Any bytes are a descriptor that is written back as it came, or none.
        #[test]
        fn any_bytes_are_one_or_none(start: [u8; 32], rest: [u8; 24], kind in 0u8..8, zeros: bool) {
            let mut bytes = [0; DESCRIPTOR_BYTES];
            bytes[..32].copy_from_slice(&start);
            bytes[32..56].copy_from_slice(&rest);
            bytes[0] = kind;
            bytes[3] %= 20;
            bytes[56] = if zeros { 0 } else { start[0] };
            if let Ok(descriptor) = Descriptor::parse(&bytes) {
                prop_assert_eq!(Descriptor::parse(&descriptor.emit()), Ok(descriptor));
            }
        }
    }
}
