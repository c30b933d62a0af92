//! Operations of an endpoint that have not ended, each in a slot whose number is the context that the firmware gives back.

use emp_face::slots::Slots;
use emp_host::{ClaimId, RawOp};

use crate::events::Event;
use crate::flags::{CqFlags, Directions};
use crate::pieces::Pieces;

/// What an operation is.
pub enum Kind {
    /// A send; with the bytes, if the application has its buffer back already.
    Send { _copy: Option<Box<[u8]>> },
    /// A one-sided operation.
    Remote {
        /// Flags of its completion.
        told: CqFlags,
        /// What counters count it as.
        direction: Directions,
        /// What the target is told when it has ended.
        event: Option<Box<Event>>,
        /// The bytes, if the application has its buffer back already.
        _copy: Option<Box<[u8]>>,
    },
    /// A one-sided operation of several runs of memory.
    Pieces {
        /// Flags of its completion.
        told: CqFlags,
        /// What counters count it as.
        direction: Directions,
        /// Elsewhere, as they are long and rare: each operation is written and read several times.
        pieces: Box<Pieces>,
        /// The bytes, if the application has its buffer back already.
        _copy: Option<Box<[u8]>>,
    },
    /// What tells a target of an operation that has ended.
    Event(Box<Event>),
    /// A receive of one message.
    Receive,
    /// A buffer that takes messages one after the other.
    Multi,
    /// A claimed message that is thrown away.
    Discard(ClaimId),
}

/// An operation that has not ended.
pub struct Operation {
    pub kind: Kind,
    /// `None`: not posted at the moment.
    pub raw: Option<RawOp>,
    pub tagged: bool,
    /// Its success is to be told.
    pub report: bool,
    /// The application has no name for it, so it cannot be cancelled.
    pub nameless: bool,
    pub context: usize,
    pub buffer: usize,
    pub tag: u64,
}

impl Operation {
    /// What of it is posted.
    pub fn posted(&self) -> impl Iterator<Item = RawOp> {
        let pieces = match &self.kind {
            Kind::Pieces { pieces, .. } => pieces.under_way(),
            _ => &[],
        };
        self.raw.iter().chain(pieces).copied()
    }

    /// It is for a peer to end, not for a message that comes.
    pub fn is_send(&self) -> bool {
        matches!(
            self.kind,
            Kind::Send { .. } | Kind::Remote { .. } | Kind::Pieces { .. } | Kind::Event(_)
        )
    }
}

/// The operations, and how many of them are sends.
#[derive(Default)]
pub struct Operations {
    slots: Slots<Operation>,
    sends: usize,
}

impl Operations {
    /// The slot that the next operation gets.
    #[inline]
    pub fn next(&self) -> usize {
        self.slots.next()
    }

    #[inline(always)]
    pub fn insert(&mut self, operation: Operation) -> usize {
        self.sends += usize::from(operation.is_send());
        self.slots.insert(operation)
    }

    #[inline]
    pub fn get(&mut self, slot: usize) -> Option<&mut Operation> {
        self.slots.get_mut(slot)
    }

    /// Frees a slot whose operation was dealt with where it lies.
    #[inline]
    pub fn free(&mut self, slot: usize) {
        let is_send = self.slots.get(slot).is_some_and(Operation::is_send);
        self.sends -= usize::from(is_send);
        self.slots.free(slot);
    }

    pub fn remove(&mut self, slot: usize) -> Option<Operation> {
        let operation = self.slots.remove(slot)?;
        self.sends -= usize::from(operation.is_send());
        Some(operation)
    }

    /// Operations that have not ended, or whose end nobody has looked for yet.
    #[inline]
    pub fn used(&self) -> usize {
        self.slots.used()
    }

    /// Sends that have not ended.
    pub fn sends(&self) -> usize {
        self.sends
    }

    /// All operations with their slots.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Operation)> {
        self.slots.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(context: usize, send: bool) -> Operation {
        let kind = if send { Kind::Send { _copy: None } } else { Kind::Receive };
        Operation {
            kind,
            raw: None,
            tagged: false,
            report: true,
            nameless: false,
            context,
            buffer: 0,
            tag: 0,
        }
    }

    #[test]
    fn slots_are_used_again() {
        let mut slots = Operations::default();
        for context in 0..3 {
            assert_eq!(slots.insert(operation(context, context == 1)), context);
        }
        assert_eq!((slots.sends(), slots.used()), (1, 3));
        assert_eq!(slots.remove(1).unwrap().context, 1);
        assert_eq!((slots.sends(), slots.used()), (0, 2));
        slots.free(1);
        assert!(slots.remove(1).is_none() && slots.get(1).is_none() && slots.get(9).is_none());
        slots.free(0);
        assert_eq!((slots.used(), slots.next()), (1, 0));
        assert_eq!(slots.insert(operation(7, false)), 0);
        assert_eq!(slots.insert(operation(8, false)), 1);
        assert_eq!(slots.insert(operation(9, false)), 3);
        let contexts: Vec<_> = slots.all().map(|(_, operation)| operation.context).collect();
        assert_eq!(contexts, [7, 8, 2, 9]);
    }
}
