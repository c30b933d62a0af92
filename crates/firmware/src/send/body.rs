//! What first frames and control frames say in their bodies.

use emp_wire::{Atomic, Done, Flags, Get, Kind, LongPart, Message, NodeId, Pull, Put, Target};

use super::{SendMessage, Work};
use crate::cross::{Control, GetBlock};

/// Body of a frame of a message's train.
pub(super) enum Body {
    Message(Message, Flags),
    Put(Put),
    Atomic(Atomic, Flags),
    /// Not a first frame.
    Data,
}

impl Body {
    #[inline]
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Message(..) => Kind::Message,
            Self::Put(_) => Kind::Put,
            Self::Atomic(..) => Kind::Atomic,
            Self::Data => Kind::Data,
        }
    }

    #[inline]
    pub(super) fn flags(&self) -> Flags {
        match self {
            Self::Message(message, more) => message.flags().with(*more),
            Self::Put(put) => put.flags(),
            Self::Atomic(_, flags) => *flags,
            Self::Data => Flags::default(),
        }
    }

    #[inline]
    pub(super) fn emit(&self, into: &mut [u8]) -> usize {
        match self {
            Self::Message(message, _) => message.emit(into),
            Self::Put(put) => put.emit(into),
            Self::Atomic(atomic, _) => atomic.emit(into),
            Self::Data => 0,
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
    pub(super) fn emit(&self, node: NodeId, frame_bytes_max: u16, into: &mut [u8]) -> usize {
        match *self {
            Self::Pull { offset, bytes, pull, .. } => Pull { node, offset, bytes, pull }.emit(into),
            Self::Done { status, .. } | Self::Reply { status, .. } => {
                Done { node, status }.emit(into)
            }
            Self::Get(get) => get.body(node, frame_bytes_max).emit(into),
        }
    }
}

impl GetBlock {
    fn body(&self, node: NodeId, frame_bytes_max: u16) -> Get {
        let target = Target {
            node,
            source_endpoint: self.endpoint,
            destination_endpoint: self.to_endpoint,
            frame_bytes_max,
            key: self.key,
            handle: self.handle,
            generation: self.generation,
            offset: self.offset,
        };
        Get { target, bytes: self.bytes, pull: self.pull, fragment_bytes: self.fragment }
    }
}

impl SendMessage {
    /// Offset and length of the payload of a frame of the message's train.
    pub(super) fn fragment_at(&self, place: u32) -> (u64, u64) {
        if place == 0 {
            return (0, u64::from(self.first_payload));
        }
        let fragment = u64::from(self.fragment);
        let offset = u64::from(self.first_payload) + u64::from(place - 1) * fragment;
        (offset, fragment.min(u64::from(self.unscheduled).saturating_sub(offset)))
    }

    /// Body of the first frame. What was withdrawn is an empty message, whatever it was.
    #[inline]
    pub(super) fn body(&self, own: NodeId, frame_bytes_max: u16, handle: u32) -> Body {
        let descriptor = &self.descriptor;
        let target = |handle, generation, offset| Target {
            node: own,
            source_endpoint: descriptor.endpoint,
            destination_endpoint: descriptor.to_endpoint,
            frame_bytes_max,
            key: descriptor.match_bits,
            handle,
            generation,
            offset,
        };
        match self.work {
            Work::Put { generation, offset } if !self.void => {
                let target = target(handle, generation, offset);
                Body::Put(Put { target, long: self.long(), immediate: descriptor.immediate })
            }
            Work::Atomic { generation, offset, operation, datatype, count, fetch }
                if !self.void =>
            {
                let target = target(fetch.unwrap_or(handle), generation, offset);
                let flags = Flags::default().with_if(fetch.is_some(), Flags::FETCH);
                Body::Atomic(Atomic { target, operation, datatype, count }, flags)
            }
            _ => {
                let message = self.message(own, frame_bytes_max, handle);
                Body::Message(message, self.more_flags())
            }
        }
    }

    /// What the first frame says of a message that is to be matched.
    #[inline]
    pub(super) fn message(&self, own: NodeId, frame_bytes_max: u16, handle: u32) -> Message {
        let descriptor = &self.descriptor;
        Message {
            node: own,
            source_endpoint: descriptor.endpoint,
            destination_endpoint: descriptor.to_endpoint,
            match_bits: descriptor.match_bits,
            frame_bytes_max,
            handle,
            long: self.long(),
            immediate: descriptor.immediate.filter(|_| !self.void),
        }
    }

    /// Flags of that frame which do not follow from its fields.
    #[inline]
    pub(super) fn more_flags(&self) -> Flags {
        Flags::default()
            .with_if(self.descriptor.synchronous && !self.void, Flags::SYNCHRONOUS)
            .with_if(self.void, Flags::VOID)
    }

    /// What is said of a message that its first frame does not hold.
    #[inline]
    fn long(&self) -> Option<LongPart> {
        let total_bytes = self.total();
        let long = total_bytes > u64::from(self.first_payload);
        let pieces = || self.descriptor.segments.as_slice().len() as u16;
        long.then(|| LongPart {
            total_bytes,
            unscheduled_bytes: self.unscheduled,
            fragment_bytes: self.fragment,
            pieces: if self.direct { pieces() } else { 0 },
        })
    }
}
