//! What first frames and control frames say in their bodies.

use emp_wire::{
    Atomic, BlockWord, Done, Flags, Get, Kind, Largest, LongPart, Message, NodeId, Pull, Put,
    Target, emit_pieces,
};

use super::Work;
use super::build::First;
use super::plan::{Plan, Shape};
use super::record::What;
use crate::cross::{Control, GetBlock, RegionBlock};
use crate::encode::Fields;
use crate::pair::Peers;
use crate::path::Hop;

impl What {
    /// Kind, word and flags of frame `place` of its train, but for the first of a message.
    #[inline]
    pub(super) fn head(&self, place: u32) -> (Kind, u32, Flags) {
        let none = Flags(0);
        match *self {
            Self::Message { .. } => (Kind::Data, place, none),
            Self::Block { pull, .. } | Self::Region(RegionBlock { pull, .. }) => {
                (Kind::Block, BlockWord { pull, index: place as u16 }.emit(), none)
            }
            Self::Control(control) => control.head(),
            Self::Skip | Self::Question => (Kind::Skip, 0, none),
        }
    }
}

impl Control {
    /// Kind, word and flags of its frame.
    pub(super) const fn head(&self) -> (Kind, u32, Flags) {
        let none = Flags(0);
        match *self {
            Self::Pull { handle, .. } => (Kind::Pull, handle, none),
            Self::Done { handle, .. } => (Kind::Done, handle, none),
            Self::Get(_) => (Kind::Get, 0, none),
            Self::Reply { handle, .. } => (Kind::Done, handle, Flags::REPLY),
        }
    }

    /// Writes its body and returns the length.
    pub(super) fn emit(&self, peers: &Peers, hop: Option<Hop<'_>>, into: &mut [u8]) -> usize {
        let node = peers.own;
        match *self {
            Self::Pull { offset, bytes, pull, .. } => Pull { node, offset, bytes, pull }.emit(into),
            Self::Done { status, .. } | Self::Reply { status, .. } => {
                Done { node, status }.emit(into)
            }
            Self::Get(get) => get.body(node, largest(peers, hop)).emit(into),
        }
    }
}

/// What is told by a way of the longest frames that this node takes.
#[inline(always)]
fn largest(peers: &Peers, hop: Option<Hop<'_>>) -> Largest {
    hop.map_or_else(Largest::default, |(link, _)| peers.lengths.told(link))
}

impl GetBlock {
    fn body(&self, node: NodeId, largest: Largest) -> Get {
        let target = Target {
            node,
            source_endpoint: self.endpoint,
            destination_endpoint: self.to_endpoint,
            largest,
            key: self.key,
            handle: self.handle,
            generation: self.generation,
            offset: self.offset,
        };
        Get { target, bytes: self.bytes, pull: self.pull, fragment_bytes: self.fragment }
    }
}

impl Shape<'_> {
    /// Kind and flags of the first frame. What was withdrawn is an empty message, whatever it was.
    #[inline(always)]
    pub(super) fn head(&self, plan: &Plan) -> (Kind, Flags) {
        let long = self.total() > u64::from(plan.cut.first_payload);
        let immediate = self.send.immediate.is_some();
        let none = Flags::default();
        match self.work {
            _ if self.void => (Kind::Message, none.with(Flags::VOID)),
            Work::Atomic { fetch, .. } => {
                (Kind::Atomic, none.with_if(fetch.is_some(), Flags::FETCH))
            }
            Work::Message | Work::Put { .. } => {
                let put = matches!(self.work, Work::Put { .. });
                let flags = none
                    .with_if(long, Flags::LONG)
                    .with_if(immediate, Flags::IMMEDIATE)
                    .with_if(self.send.synchronous && !put, Flags::SYNCHRONOUS);
                (if put { Kind::Put } else { Kind::Message }, flags)
            }
        }
    }

    /// What is said of a message that its first frame does not hold.
    #[inline(always)]
    fn long(&self, plan: &Plan) -> Option<LongPart> {
        let total_bytes = self.total();
        let long = total_bytes > u64::from(plan.cut.first_payload);
        let pieces = || self.send.segments.as_slice().len() as u16;
        long.then(|| LongPart {
            total_bytes,
            unscheduled_bytes: plan.cut.unscheduled,
            fragment_bytes: plan.cut.fragment,
            pieces: if plan.direct { pieces() } else { 0 },
        })
    }
}

/// The fields of a message's first frame.
#[derive(Clone, Copy)]
pub(super) struct FirstFields<'a> {
    pub(super) first: First<'a>,
    pub(super) peers: &'a Peers,
    /// Where it goes.
    pub(super) hop: Option<Hop<'a>>,
    /// By what its receiver knows that it can read this node's memory.
    pub(super) stamp: u64,
}

impl Fields for FirstFields<'_> {
    #[inline(always)]
    fn emit(&self, into: &mut [u8]) -> usize {
        let Self { first, peers, hop, stamp } = *self;
        let (node, largest) = (peers.own, largest(peers, hop));
        let First { shape, plan, handle, .. } = first;
        let send = shape.send;
        let target = |handle, generation, offset| Target {
            node,
            source_endpoint: send.endpoint,
            destination_endpoint: send.to_endpoint,
            largest,
            key: send.match_bits,
            handle,
            generation,
            offset,
        };
        let fields = match shape.work {
            Work::Put { generation, offset } if !shape.void => {
                let target = target(handle, generation, offset);
                Put { target, long: shape.long(&plan), immediate: send.immediate }.emit(into)
            }
            Work::Atomic { generation, offset, operation, datatype, count, fetch }
                if !shape.void =>
            {
                let target = target(fetch.unwrap_or(handle), generation, offset);
                Atomic { target, operation, datatype, count }.emit(into)
            }
            _ => Message {
                node,
                source_endpoint: send.endpoint,
                destination_endpoint: send.to_endpoint,
                match_bits: send.match_bits,
                largest,
                handle,
                long: shape.long(&plan),
                immediate: send.immediate.filter(|_| !shape.void),
            }
            .emit(into),
        };
        if !plan.direct || shape.void {
            return fields;
        }
        let list = send.segments.as_slice().iter().map(|piece| (piece.address, piece.bytes));
        fields + emit_pieces(stamp, list, &mut into[fields..])
    }
}
