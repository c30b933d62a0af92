//! What a program asks the service and is answered, and what it tells without an answer.

use emp_firmware::{ClaimId, LinkIndex, PostError, ProbeInfo, RegionId, Rights, Selector};
use emp_wire::{LinkAddress, NodeId};

use crate::daemon::codec::{Fields, Writer, Wrong};

/// Nodes named in [`Left`].
const NODES_MAX: usize = 8;

/// A question. One is under way at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Open an endpoint.
    Open(u16),
    /// Cancel an operation, as the program calls it.
    Cancel(u64),
    /// Look for a message that no receive has taken; with `true`, set it aside.
    Probe(u16, Selector, bool),
    /// What is left to be delivered.
    Left,
    /// What the firmware has counted.
    Counters,
    /// Slots of the pool.
    Pool,
    /// Export memory of the program's, which has given a descriptor of it before.
    Export(Export),
    /// Take a region back.
    Remove(u64),
    /// Have offsets in a region count from there.
    SetBase(u64, u64),
    /// End the engine: all that is under way ends. It is the last question.
    Close,
}

/// What is to be exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Export {
    /// Its key, if the program chooses one.
    pub key: Option<u64>,
    /// Where it is in the program's memory.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// What others may do with it.
    pub rights: Rights,
    /// Who is notified if nobody else is.
    pub endpoint: u16,
}

/// The answer to the question of its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Opened, or why not.
    Opened(Result<(), PostError>),
    /// Whether it was done: what was to be cancelled will end so, there was such a region.
    Done(bool),
    /// What was found.
    Probed(Option<ProbeInfo>),
    /// What is left.
    Left(Left),
    /// The values of all counters, in their order.
    Counters(Vec<u64>),
    /// Free slots, and all.
    Pool(u64, u64),
    /// Exported, or why not.
    Exported(Result<RegionId, PostError>),
    /// It has ended.
    Closed,
}

/// What is left to be delivered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Left {
    /// Nothing is.
    pub drained: bool,
    /// Nodes to which something was sent that they have not acknowledged: the first of them.
    pub undelivered: Vec<NodeId>,
    /// Frames that were sent for the first time so far.
    pub frames: u64,
    /// Frames that were refused so far.
    pub refused: u64,
}

/// What a program tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tell {
    /// An endpoint is closed.
    CloseEndpoint(u16),
    /// An operation is to end, and costs what it costs.
    Abort(u64),
    /// An operation whose owner is gone is to be cancelled.
    Cancel(u64),
    /// A message that was set aside is given up.
    Discard(ClaimId),
    /// A node may be there.
    Hint(NodeId, LinkIndex, LinkAddress),
    /// A node is to be looked for there.
    Resolve(NodeId, LinkIndex, LinkAddress),
    /// Frames that one acknowledgement covers.
    Collection(u32),
    /// So many notifications were taken by the program's owner, and make room for others.
    Taken(u64),
    /// There is room in the ring by which the service tells: nothing else.
    Room,
    /// So many completions wait at the program for its owner: what bounds receives for several messages.
    Unread(u64),
    /// Frames that one acknowledgement from or to this node covers.
    CollectionOf(NodeId, u32),
    /// A descriptor of the file in which the node shows its state is in the bell.
    Shows,
}

/// Refusals of endpoints and regions, by number.
const REFUSALS: [PostError; 6] = [
    PostError::Closing,
    PostError::TooManyEndpoints,
    PostError::NoEndpoint,
    PostError::KeyTaken,
    PostError::TooManyRegions,
    PostError::MemoryFault,
];

/// A refusal's number: that of the first for those that there are not.
fn put_refusal(writer: Writer, error: PostError) -> Writer {
    let number = REFUSALS.iter().position(|one| *one == error);
    writer.byte(number.unwrap_or(0) as u8)
}

fn take_refusal(fields: &mut Fields<'_>) -> Result<PostError, Wrong> {
    REFUSALS.get(usize::from(fields.byte()?)).copied().ok_or(Wrong("no such refusal"))
}

impl Question {
    /// Its bytes.
    pub fn emit(&self) -> Vec<u8> {
        let writer = Writer::default();
        match *self {
            Self::Open(number) => writer.byte(1).half(number),
            Self::Cancel(op) => writer.byte(2).long(op),
            Self::Probe(number, selector, claim) => writer
                .byte(3)
                .half(number)
                .long(selector.from.0)
                .option(selector.from_endpoint.map(u64::from))
                .long(selector.match_bits)
                .long(selector.ignore_bits)
                .byte(claim.into()),
            Self::Left => writer.byte(4),
            Self::Counters => writer.byte(5),
            Self::Pool => writer.byte(6),
            Self::Close => writer.byte(7),
            Self::Export(Export { key, address, bytes, rights, endpoint }) => {
                let writer = writer.byte(8).option(key).long(address).long(bytes);
                let able = |rights_wanted| u8::from(rights.allow(rights_wanted));
                let writer = writer.byte(able(Rights::REMOTE_READ));
                writer.byte(able(Rights::REMOTE_WRITE)).half(endpoint)
            }
            Self::Remove(key) => writer.byte(9).long(key),
            Self::SetBase(key, base) => writer.byte(10).long(key).long(base),
        }
        .0
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// If it cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut fields = Fields(bytes);
        let question = match fields.byte()? {
            1 => Self::Open(fields.half()?),
            2 => Self::Cancel(fields.long()?),
            3 => {
                let (number, from) = (fields.half()?, NodeId(fields.long()?));
                let from_endpoint = fields.option()?.map(|number| number as u16);
                let (match_bits, ignore_bits) = (fields.long()?, fields.long()?);
                let selector = Selector { from, from_endpoint, match_bits, ignore_bits };
                Self::Probe(number, selector, fields.truth()?)
            }
            4 => Self::Left,
            5 => Self::Counters,
            6 => Self::Pool,
            7 => Self::Close,
            8 => {
                let (key, address, bytes) = (fields.option()?, fields.long()?, fields.long()?);
                let mut rights = Rights::NONE;
                for one in [Rights::REMOTE_READ, Rights::REMOTE_WRITE] {
                    rights = if fields.truth()? { rights.with(one) } else { rights };
                }
                Self::Export(Export { key, address, bytes, rights, endpoint: fields.half()? })
            }
            9 => Self::Remove(fields.long()?),
            10 => Self::SetBase(fields.long()?, fields.long()?),
            _ => return Err(Wrong("a question that there is not")),
        };
        fields.end()?;
        Ok(question)
    }
}

impl Answer {
    /// Its bytes.
    pub fn emit(&self) -> Vec<u8> {
        let writer = Writer::default();
        match self {
            Self::Opened(Ok(())) => writer.byte(1).byte(1),
            Self::Opened(Err(error)) => put_refusal(writer.byte(1).byte(0), *error),
            Self::Done(done) => writer.byte(2).byte((*done).into()),
            Self::Probed(None) => writer.byte(3).byte(0),
            Self::Probed(Some(found)) => writer
                .byte(3)
                .byte(1)
                .long(found.from.0)
                .half(found.from_endpoint)
                .long(found.match_bits)
                .long(found.total_bytes)
                .option(found.immediate)
                .option(found.claim.map(ClaimId::to_bits)),
            Self::Left(left) => {
                let nodes = left.undelivered.iter().take(NODES_MAX);
                let count = left.undelivered.len().min(NODES_MAX) as u8;
                let writer = writer.byte(4).byte(left.drained.into());
                let writer = writer.long(left.frames).long(left.refused).byte(count);
                nodes.fold(writer, |writer, node| writer.long(node.0))
            }
            Self::Counters(values) => {
                let writer = writer.byte(5).half(values.len() as u16);
                values.iter().fold(writer, |writer, value| writer.long(*value))
            }
            Self::Pool(free, all) => writer.byte(6).long(*free).long(*all),
            Self::Closed => writer.byte(7),
            Self::Exported(Ok(RegionId { key, generation })) => {
                writer.byte(8).byte(1).long(*key).word(*generation)
            }
            Self::Exported(Err(error)) => put_refusal(writer.byte(8).byte(0), *error),
        }
        .0
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// If it cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut fields = Fields(bytes);
        let answer = match fields.byte()? {
            1 if fields.truth()? => Self::Opened(Ok(())),
            1 => Self::Opened(Err(take_refusal(&mut fields)?)),
            2 => Self::Done(fields.truth()?),
            3 => Self::Probed(if fields.truth()? { Some(probed(&mut fields)?) } else { None }),
            4 => {
                let drained = fields.truth()?;
                let (frames, refused, count) = (fields.long()?, fields.long()?, fields.byte()?);
                let nodes = (0..count).map(|_| fields.long().map(NodeId));
                let undelivered = nodes.collect::<Result<_, _>>()?;
                Self::Left(Left { drained, undelivered, frames, refused })
            }
            5 => {
                let count = fields.half()?;
                let values = (0..count).map(|_| fields.long());
                Self::Counters(values.collect::<Result<_, _>>()?)
            }
            6 => Self::Pool(fields.long()?, fields.long()?),
            7 => Self::Closed,
            8 if fields.truth()? => {
                let (key, generation) = (fields.long()?, fields.word()?);
                Self::Exported(Ok(RegionId { key, generation }))
            }
            8 => Self::Exported(Err(take_refusal(&mut fields)?)),
            _ => return Err(Wrong("an answer that there is not")),
        };
        fields.end()?;
        Ok(answer)
    }
}

fn probed(fields: &mut Fields<'_>) -> Result<ProbeInfo, Wrong> {
    Ok(ProbeInfo {
        from: NodeId(fields.long()?),
        from_endpoint: fields.half()?,
        match_bits: fields.long()?,
        total_bytes: fields.long()?,
        immediate: fields.option()?,
        claim: fields.option()?.map(ClaimId::from_bits),
    })
}

/// An address behind the number of its family and its length.
pub(super) fn put_address(writer: Writer, address: &LinkAddress) -> Writer {
    let bytes = address.bytes();
    writer.byte(address.family() as u8).byte(bytes.len() as u8).bytes(bytes)
}

/// The same, read. Addresses that name no place on a wire are those of everyone, or of who is behind relays.
pub(super) fn take_address(fields: &mut Fields<'_>) -> Result<LinkAddress, Wrong> {
    let (family, length) = (fields.byte()?, fields.byte()?);
    let bytes = fields.bytes(length.into())?;
    let beyond = LinkAddress::BEYOND;
    let is_beyond = beyond.family() as u8 == family && beyond.bytes() == bytes;
    let all = if is_beyond { beyond } else { LinkAddress::EVERYONE };
    Ok(LinkAddress::told(family, bytes).unwrap_or(all))
}

impl Tell {
    /// Its bytes.
    pub fn emit(&self) -> Vec<u8> {
        let writer = Writer::default();
        let place = |writer: Writer, node: NodeId, link: LinkIndex, address: &LinkAddress| {
            put_address(writer.long(node.0).byte(link.0), address)
        };
        match self {
            Self::CloseEndpoint(number) => writer.byte(1).half(*number),
            Self::Abort(op) => writer.byte(2).long(*op),
            Self::Cancel(op) => writer.byte(3).long(*op),
            Self::Discard(claim) => writer.byte(4).long(claim.to_bits()),
            Self::Hint(node, link, address) => place(writer.byte(5), *node, *link, address),
            Self::Resolve(node, link, address) => place(writer.byte(6), *node, *link, address),
            Self::Collection(frames) => writer.byte(7).word(*frames),
            Self::Taken(count) => writer.byte(8).long(*count),
            Self::Unread(count) => writer.byte(9).long(*count),
            Self::Room => writer.byte(10),
            Self::CollectionOf(node, frames) => writer.byte(11).long(node.0).word(*frames),
            Self::Shows => writer.byte(12),
        }
        .0
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// If it cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut fields = Fields(bytes);
        let told = match fields.byte()? {
            1 => Self::CloseEndpoint(fields.half()?),
            2 => Self::Abort(fields.long()?),
            3 => Self::Cancel(fields.long()?),
            4 => Self::Discard(ClaimId::from_bits(fields.long()?)),
            kind @ (5 | 6) => {
                let (node, link) = (NodeId(fields.long()?), LinkIndex(fields.byte()?));
                let address = take_address(&mut fields)?;
                let told = if kind == 5 { Self::Hint } else { Self::Resolve };
                told(node, link, address)
            }
            7 => Self::Collection(fields.word()?),
            8 => Self::Taken(fields.long()?),
            9 => Self::Unread(fields.long()?),
            10 => Self::Room,
            11 => Self::CollectionOf(NodeId(fields.long()?), fields.word()?),
            12 => Self::Shows,
            _ => return Err(Wrong("something told that there is not")),
        };
        fields.end()?;
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SELECTOR: Selector =
        Selector { from: NodeId(3), from_endpoint: Some(4), match_bits: 5, ignore_bits: 6 };

    #[test]
    fn what_is_said_is_read_as_it_was_said() {
        for question in [
            Question::Open(7),
            Question::Cancel(1 << 60),
            Question::Probe(8, SELECTOR, true),
            Question::Probe(8, Selector::ANY, false),
            Question::Left,
            Question::Counters,
            Question::Pool,
            Question::Close,
            Question::Export(Export {
                key: Some(9),
                address: 1 << 40,
                bytes: 77,
                rights: Rights::REMOTE_WRITE,
                endpoint: 5,
            }),
            Question::Remove(9),
            Question::SetBase(9, 1 << 50),
        ] {
            assert_eq!(Question::parse(&question.emit()), Ok(question));
        }
        let found = ProbeInfo {
            from: NodeId(1),
            from_endpoint: 2,
            match_bits: 3,
            total_bytes: 4,
            immediate: Some(5),
            claim: Some(ClaimId::from_bits(6)),
        };
        let left =
            Left { drained: false, undelivered: vec![NodeId(1), NodeId(2)], frames: 3, refused: 4 };
        for answer in [
            Answer::Opened(Ok(())),
            Answer::Opened(Err(PostError::TooManyEndpoints)),
            Answer::Done(true),
            Answer::Exported(Ok(RegionId { key: 9, generation: 3 })),
            Answer::Exported(Err(PostError::KeyTaken)),
            Answer::Probed(None),
            Answer::Probed(Some(found)),
            Answer::Left(left),
            Answer::Counters(vec![1, 2, 3]),
            Answer::Pool(4, 5),
            Answer::Closed,
        ] {
            assert_eq!(Answer::parse(&answer.emit()), Ok(answer));
        }
        let mac = LinkAddress::mac([2, 0, 0, 0, 0, 9]);
        for told in [
            Tell::CloseEndpoint(3),
            Tell::Abort(4),
            Tell::Cancel(5),
            Tell::Discard(ClaimId::from_bits(6)),
            Tell::Hint(NodeId(1), LinkIndex(2), mac),
            Tell::Resolve(NodeId(1), LinkIndex(2), LinkAddress::EVERYONE),
            Tell::Resolve(NodeId(1), LinkIndex(2), LinkAddress::BEYOND),
            Tell::Collection(7),
            Tell::Taken(8),
            Tell::Unread(9),
            Tell::Room,
            Tell::CollectionOf(NodeId(1), 2),
            Tell::Shows,
        ] {
            assert_eq!(Tell::parse(&told.emit()), Ok(told));
        }
    }

    proptest! {
        /// Whatever comes, it is read or refused.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 0u8..14) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            let _ = (Question::parse(&bytes), Answer::parse(&bytes), Tell::parse(&bytes));
        }
    }
}
