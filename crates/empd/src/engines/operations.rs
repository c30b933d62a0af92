//! Operations of a client that its engine has begun.

use std::collections::HashMap;

use emp_host::RawOp;

use super::memory::Lent;

/// One.
pub(super) struct Operation {
    /// What the client calls it.
    pub(super) name: u64,
    /// Bytes of the memory that are sent; behind them is what comes back.
    pub(super) payload: usize,
    /// It is over for the client, who hears of a failure only.
    pub(super) over: bool,
    /// The endpoint that it was posted at.
    pub(super) endpoint: u16,
    /// The engine's name of it; `None` between its place and its post.
    pub(super) op: Option<RawOp>,
    /// Of one that was copied, nothing.
    pub(super) memory: Option<Lent>,
}

/// Them, by place; the place is the context of the engine's descriptors.
#[derive(Default)]
pub(super) struct Operations {
    places: Vec<Option<Operation>>,
    free: Vec<usize>,
    names: HashMap<u64, usize>,
}

impl Operations {
    /// Keeps one. `None`: the client has one that it calls so.
    pub(super) fn add(&mut self, operation: Operation) -> Option<u64> {
        let named = !operation.over;
        if named && self.names.contains_key(&operation.name) {
            return None;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        if named {
            self.names.insert(operation.name, place);
        }
        self.places[place] = Some(operation);
        Some(place as u64)
    }

    pub(super) fn get(&mut self, place: u64) -> Option<&mut Operation> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// The engine's name of what a client calls so.
    pub(super) fn op(&self, name: u64) -> Option<RawOp> {
        self.places.get(*self.names.get(&name)?)?.as_ref()?.op
    }

    pub(super) fn remove(&mut self, place: u64) -> Option<Operation> {
        let operation = self.places.get_mut(place as usize)?.take()?;
        self.free.push(place as usize);
        if !operation.over {
            self.names.remove(&operation.name);
        }
        Some(operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_clients_and_used_once_at_a_time() {
        let operation = |name, over| Operation {
            name,
            payload: 3,
            over,
            endpoint: 1,
            op: None,
            memory: Lent::zeros(3),
        };
        let mut operations = Operations::default();
        let first = operations.add(operation(7, false)).expect("it is free");
        assert!(operations.add(operation(7, false)).is_none());
        let over = operations.add(operation(7, true)).expect("what is over has no name");
        assert!(operations.op(7).is_none());
        assert_eq!(operations.remove(first).and_then(|one| one.memory).map(|m| m.len()), Some(3));
        assert!(operations.remove(first).is_none());
        assert!(operations.get(over).is_some() && operations.get(99).is_none());
    }
}
