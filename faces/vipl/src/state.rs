//! What a NIC has that changes. One thread has it at a time; nobody keeps it while waiting or while a handler runs.

use std::collections::{HashMap, VecDeque};

use emp_face::handles::{Key, Kind, Table};
use emp_face::pins::Pinned;
use emp_face::slots::Slots;
use emp_host::Completion;

use crate::abi::{ErrorDescriptor, ErrorHandler, Handle, Return};
use crate::connecting::Incoming;
use crate::control::Outgoing;
use crate::cq::Cq;
use crate::listen::Listener;
use crate::memory::{Ptag, Regions};
use crate::nic::{CQS_MAX, INCOMING_MAX, Nic, PTAGS_MAX, VIS_MAX};
use crate::open;
use crate::vi::Vi;

/// Completions that are taken at a time: more than a turn of the node brings as a rule, few enough to stay in the cache.
const COMPLETIONS_AT_ONCE: usize = 64;

pub struct State {
    pub closed: bool,
    /// Moves with each call that makes progress, so that the service thread knows that the application does.
    pub activity: u64,
    pub ptags: Table<Ptag>,
    pub next_tag: u32,
    /// A VI has had the default tag.
    pub untagged: bool,
    pub regions: Regions,
    pub vis: Table<Vi>,
    pub cqs: Table<Cq>,
    /// Requests that wait for the application to accept or reject them.
    pub incoming: Table<Incoming>,
    /// VIs by the number of their connection.
    pub conns: HashMap<u32, Key>,
    pub next_conn: u32,
    /// VIs for which a message that comes has no receive in the node.
    pub starving: usize,
    /// VIs that have work to be posted later.
    pub owing: usize,
    /// VIs that are connecting to a peer.
    pub peering: usize,
    pub listeners: Vec<Listener>,
    pub next_listener: u64,
    pub outgoing: Slots<Outgoing>,
    /// Asynchronous errors that the handler was not told of.
    pub events: VecDeque<ErrorDescriptor>,
    pub error_handler: Option<(ErrorHandler, usize)>,
    /// The service thread is in the error handler.
    pub telling: bool,
    /// Registrations of handlers.
    pub notifies: usize,
    /// `VipNSInit` was called.
    pub names: bool,
    /// Room for what progress takes from the node.
    pub completions: Vec<Completion>,
}

impl State {
    pub fn new() -> Self {
        Self {
            closed: false,
            activity: 0,
            ptags: Table::new(PTAGS_MAX),
            next_tag: 1,
            untagged: false,
            regions: Regions::default(),
            vis: Table::new(VIS_MAX),
            cqs: Table::new(CQS_MAX),
            incoming: Table::new(INCOMING_MAX),
            conns: HashMap::new(),
            next_conn: 1,
            starving: 0,
            owing: 0,
            peering: 0,
            listeners: Vec::new(),
            next_listener: 1,
            outgoing: Slots::default(),
            events: VecDeque::new(),
            error_handler: None,
            telling: false,
            notifies: 0,
            names: false,
            completions: Vec::with_capacity(COMPLETIONS_AT_ONCE),
        }
    }

    /// To be called before there is anything: handles say which NIC they are of.
    pub fn belong_to(&mut self, nic: u32) {
        self.ptags.belongs_to(nic);
        self.vis.belongs_to(nic);
        self.cqs.belongs_to(nic);
        self.incoming.belongs_to(nic);
    }

    /// A number for the next connection of a VI. Used again only after all others were.
    pub fn new_conn(&mut self, key: Key) -> u32 {
        loop {
            let conn = self.next_conn;
            self.next_conn = conn.wrapping_add(1).max(1);
            if let std::collections::hash_map::Entry::Vacant(free) = self.conns.entry(conn) {
                free.insert(key);
                return conn;
            }
        }
    }
}

/// The NIC that an object's handle is of, and the object's key.
#[inline]
pub fn owner_of(handle: Handle, kind: Kind) -> Result<(Pinned<Nic>, Key), Return> {
    let key = Key::of(handle, kind).ok_or(Return::INVALID_PARAMETER)?;
    let nic = open::at(key.owner()).ok_or(Return::INVALID_PARAMETER)?;
    Ok((nic, key))
}
