//! What a program has posted at an engine elsewhere and has not heard the end of.

use emp_firmware::{OpId, OpKind, SegmentList};
use emp_wire::NodeId;

/// One operation.
pub(super) struct Flight {
    pub(super) kind: OpKind,
    /// Of the program's slot.
    pub(super) context: u64,
    /// The endpoint that it was posted at.
    pub(super) endpoint: u16,
    /// Whom it reaches for; of a receive, anybody.
    pub(super) to: NodeId,
    /// What it counts of what the service keeps.
    pub(super) bytes: u64,
    /// Where bytes that come go; of what brings none, nothing.
    pub(super) into: Option<SegmentList>,
    /// It has ended for the program, and counts until the service has said so.
    pub(super) given_up: bool,
    /// Its peer has ended since it was posted.
    pub(super) lost: bool,
}

#[derive(Default)]
struct Place {
    generation: u32,
    flight: Option<Flight>,
}

/// The operations, by place.
#[derive(Default)]
pub(super) struct Flights {
    places: Vec<Place>,
    free: Vec<u32>,
    sends: u64,
    receives: u64,
    bytes: u64,
}

impl Flights {
    /// Keeps an operation, and names it.
    pub(super) fn add(&mut self, flight: Flight) -> OpId {
        let kind = flight.kind;
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        *self.count(kind) += 1;
        self.bytes += flight.bytes;
        let place = &mut self.places[index as usize];
        place.flight = Some(flight);
        OpId::elsewhere(kind, index, place.generation)
    }

    fn count(&mut self, kind: OpKind) -> &mut u64 {
        if kind == OpKind::Receive { &mut self.receives } else { &mut self.sends }
    }

    fn index(&self, op: OpId) -> Option<usize> {
        let index = op.place() as usize;
        let place = self.places.get(index)?;
        let flight = place.flight.as_ref()?;
        (OpId::elsewhere(flight.kind, op.place(), place.generation) == op).then_some(index)
    }

    /// An operation that has not ended.
    pub(super) fn get(&self, op: OpId) -> Option<&Flight> {
        self.places[self.index(op)?].flight.as_ref()
    }

    /// Forgets an operation.
    pub(super) fn end(&mut self, op: OpId) -> Option<Flight> {
        let index = self.index(op)?;
        let place = &mut self.places[index];
        let flight = place.flight.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index as u32);
        self.bytes -= flight.bytes;
        *self.count(op.kind()) -= 1;
        Some(flight)
    }

    /// Gives up the receives that were posted at an endpoint: their memory is not named any more. Their contexts, and what they are called.
    pub(super) fn give_up(&mut self, endpoint: u16) -> Vec<(OpId, u64)> {
        let mut given_up = Vec::new();
        for (index, place) in self.places.iter_mut().enumerate() {
            let Some(flight) = &mut place.flight else { continue };
            let here = flight.kind == OpKind::Receive && flight.endpoint == endpoint;
            if here && !flight.given_up {
                flight.given_up = true;
                flight.into = None;
                let op = OpId::elsewhere(OpKind::Receive, index as u32, place.generation);
                given_up.push((op, flight.context));
            }
        }
        given_up
    }

    /// A node has ended: what was posted for it before that was known. Each once.
    pub(super) fn lose(&mut self, node: NodeId) -> Vec<OpId> {
        let mut lost = Vec::new();
        for (index, place) in self.places.iter_mut().enumerate() {
            let Some(flight) = &mut place.flight else { continue };
            if flight.kind != OpKind::Receive && flight.to == node && !flight.lost {
                flight.lost = true;
                lost.push(OpId::elsewhere(flight.kind, index as u32, place.generation));
            }
        }
        lost
    }

    /// Operations under way that are no receives.
    pub(super) const fn sends(&self) -> u64 {
        self.sends
    }

    /// Receives under way.
    pub(super) const fn receives(&self) -> u64 {
        self.receives
    }

    /// Bytes that all of them count.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(kind: OpKind) -> Flight {
        let into = (kind != OpKind::Send).then(SegmentList::empty);
        let (given_up, lost, to) = (false, false, NodeId(9));
        Flight { kind, context: 5, endpoint: 1, to, bytes: 10, into, given_up, lost }
    }

    #[test]
    fn an_operation_is_found_until_it_has_ended() {
        let mut flights = Flights::default();
        let send = flights.add(flight(OpKind::Send));
        let receive = flights.add(flight(OpKind::Receive));
        assert_eq!((flights.sends(), flights.receives(), flights.bytes()), (1, 1, 20));
        assert!(flights.give_up(2).is_empty());
        assert_eq!(flights.give_up(1), [(receive, 5)]);
        assert!(flights.give_up(1).is_empty(), "once");
        assert!(flights.get(receive).is_some(), "it counts on");
        let other = OpId::elsewhere(OpKind::Receive, send.place(), 0);
        assert!(flights.get(other).is_none(), "a send is no receive");
        assert_eq!(flights.end(send).map(|flight| flight.context), Some(5));
        assert!(flights.end(send).is_none() && flights.get(send).is_none());
        let again = flights.add(flight(OpKind::Send));
        assert!(again != send && again.place() == send.place());
        assert!(flights.get(send).is_none() && flights.get(again).is_some());
        assert_eq!((flights.sends(), flights.receives(), flights.bytes()), (1, 1, 20));
        let get = flights.add(flight(OpKind::Get));
        assert_eq!((flights.sends(), flights.receives(), flights.bytes()), (2, 1, 30));
        assert!(flights.get(get).is_some() && flights.give_up(1).is_empty(), "gets go on");
        assert!(flights.lose(NodeId(8)).is_empty());
        assert_eq!(flights.lose(NodeId(9)), [again, get], "receives may be of others");
        assert!(flights.lose(NodeId(9)).is_empty(), "once");
    }
}
