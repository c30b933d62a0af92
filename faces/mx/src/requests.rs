//! Requests: operations of an endpoint that the application has not asked the end of yet.

use std::collections::VecDeque;
use std::time::Instant;

use emp_face::handles::{Key, Table};
use emp_host::{NodeId, RawOp, SegmentList};

use crate::abi::{Address, MxStatus, RequestHandle, StatusCode};
use crate::identities::REQUEST;

/// Most requests of an endpoint: as many as their handles can tell apart.
pub const REQUESTS_MAX: usize = 1 << 20;

/// What a request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Send,
    Receive,
    Connect,
}

/// A post that was refused for lack of room, to be tried again.
pub enum Deferred {
    Send { to: NodeId, segments: SegmentList, synchronous: bool },
    Receive { match_bits: u64, mask: u64, segments: SegmentList },
}

/// Where a request stands.
pub enum Stage {
    /// It waits for room in the node.
    Deferred(Box<Deferred>),
    /// It is under way.
    Posted(Option<RawOp>),
    /// It has ended, and its status says how.
    Done,
}

/// A request.
pub struct Request {
    pub kind: Kind,
    pub stage: Stage,
    pub code: StatusCode,
    pub source: Address,
    pub match_info: u64,
    pub msg_length: u32,
    pub xfer_length: u32,
    pub context: usize,
    /// Nobody has a name for it: its end is not told.
    pub forgotten: bool,
    /// When it is given up.
    pub deadline: Option<Instant>,
}

impl Request {
    pub fn new(kind: Kind, match_info: u64, context: usize, forgotten: bool) -> Self {
        Self {
            kind,
            stage: Stage::Posted(None),
            code: StatusCode::PENDING,
            source: Address::default(),
            match_info,
            msg_length: 0,
            xfer_length: 0,
            context,
            forgotten,
            deadline: None,
        }
    }

    #[inline]
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    #[inline]
    pub fn status(&self) -> MxStatus {
        MxStatus {
            code: self.code,
            source: self.source,
            match_info: self.match_info,
            msg_length: self.msg_length,
            xfer_length: self.xfer_length,
            context: std::ptr::with_exposed_provenance_mut(self.context),
        }
    }
}

/// All requests of an endpoint, and the order in which they ended.
pub struct Requests {
    table: Table<Request>,
    /// With some that were taken by name meanwhile: those are passed by.
    ended: VecDeque<Key>,
    /// Requests with a deadline.
    pub timed: usize,
}

impl Default for Requests {
    fn default() -> Self {
        Self { table: Table::new(REQUESTS_MAX), ended: VecDeque::new(), timed: 0 }
    }
}

/// Names of taken requests that the list of ended ones may hold beside those that are there, before it is cleaned.
const STALE_MAX: usize = 256;

impl Requests {
    /// To be called before there are any: whose they are.
    pub fn belong_to(&mut self, endpoint: u32) {
        self.table.belongs_to(endpoint);
    }

    /// A new one; `None`: there are too many.
    #[inline]
    pub fn insert(&mut self, request: Request) -> Option<Key> {
        self.timed += usize::from(request.deadline.is_some());
        self.table.insert(request).ok()
    }

    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut Request> {
        self.table.get_mut(key)
    }

    /// The request that an application names, if it is there and was not forgotten.
    #[inline]
    pub fn named(&mut self, handle: RequestHandle) -> Option<(Key, &mut Request)> {
        let key = Key::of(handle, REQUEST)?;
        let request = self.table.get_mut(key).filter(|request| !request.forgotten)?;
        Some((key, request))
    }

    /// Takes a request out.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<Request> {
        let request = self.table.remove(key)?;
        self.timed -= usize::from(request.deadline.is_some());
        Some(request)
    }

    /// Gives a request a deadline, or another one.
    pub fn set_deadline(&mut self, key: Key, deadline: Option<Instant>) {
        if let Some(request) = self.table.get_mut(key) {
            let before = std::mem::replace(&mut request.deadline, deadline);
            self.timed =
                self.timed - usize::from(before.is_some()) + usize::from(deadline.is_some());
        }
    }

    /// A request has ended with what is noted in it. True if that is to be told to somebody.
    #[inline]
    pub fn end(&mut self, key: Key) -> bool {
        let Some(request) = self.table.get_mut(key) else { return false };
        request.stage = Stage::Done;
        if request.forgotten {
            self.remove(key);
            return false;
        }
        if self.ended.len() > 2 * self.table.len() + STALE_MAX {
            let table = &self.table;
            self.ended.retain(|key| table.get(*key).is_some_and(Request::is_done));
        }
        self.ended.push_back(key);
        true
    }

    /// The first ended request whose match bits agree.
    pub fn first_ended(&mut self, match_info: u64, mask: u64) -> Option<Key> {
        while let Some(key) = self.ended.front()
            && self.table.get(*key).is_none()
        {
            self.ended.pop_front();
        }
        let agrees = |key: &&Key| {
            self.table.get(**key).is_some_and(|request| request.match_info & mask == match_info)
        };
        self.ended.iter().find(agrees).copied()
    }

    /// Requests whose deadline has passed and that have not ended.
    pub fn late(&self, now: Instant) -> Vec<Key> {
        let late = |request: &Request| {
            !request.is_done() && request.deadline.is_some_and(|deadline| deadline <= now)
        };
        self.table.all().filter(|(_, request)| late(request)).map(|(key, _)| key).collect()
    }

    /// Requests of any kind that have not ended.
    pub fn pending(&self) -> Vec<Key> {
        let pending = self.table.all().filter(|(_, request)| !request.is_done());
        pending.map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(match_info: u64, forgotten: bool) -> Request {
        Request::new(Kind::Send, match_info, 0, forgotten)
    }

    #[test]
    fn ended_requests_are_found_in_their_order_by_what_they_match() {
        let mut requests = Requests::default();
        let keys: Vec<_> =
            (0..4).map(|bits| requests.insert(request(bits, false)).unwrap()).collect();
        assert_eq!(requests.first_ended(0, 0), None);
        for key in [keys[2], keys[1], keys[3]] {
            assert!(requests.end(key));
        }
        assert_eq!(requests.first_ended(0, 0), Some(keys[2]));
        assert_eq!(requests.first_ended(1, 1), Some(keys[1]));
        requests.remove(keys[2]);
        assert_eq!(requests.first_ended(0, 0), Some(keys[1]));
        assert_eq!(requests.first_ended(0, 1), None);
        assert_eq!(requests.pending(), [keys[0]]);
    }

    #[test]
    fn nobody_hears_of_a_forgotten_request() {
        let mut requests = Requests::default();
        let key = requests.insert(request(0, true)).unwrap();
        assert!(requests.named(key.handle(REQUEST)).is_none());
        assert!(!requests.end(key));
        assert!(requests.get_mut(key).is_none() && requests.first_ended(0, 0).is_none());
    }

    #[test]
    fn the_list_of_ended_requests_does_not_grow_with_those_taken_by_name() {
        let mut requests = Requests::default();
        let stays = requests.insert(request(7, false)).unwrap();
        requests.end(stays);
        for _ in 0..10_000 {
            let key = requests.insert(request(0, false)).unwrap();
            requests.end(key);
            requests.remove(key);
        }
        assert!(requests.ended.len() < 2 * STALE_MAX);
        assert_eq!(requests.first_ended(7, u64::MAX), Some(stays));
    }

    #[test]
    fn deadlines_are_counted_and_found() {
        let mut requests = Requests::default();
        let now = Instant::now();
        let key = requests.insert(request(0, false)).unwrap();
        requests.set_deadline(key, Some(now));
        requests.set_deadline(key, Some(now));
        assert_eq!((requests.timed, requests.late(now)), (1, vec![key]));
        requests.set_deadline(key, None);
        assert_eq!((requests.timed, requests.late(now)), (0, vec![]));
        requests.set_deadline(key, Some(now));
        requests.remove(key);
        assert_eq!(requests.timed, 0);
    }
}
