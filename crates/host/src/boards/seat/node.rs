//! Questions about the node and its peers, and what it is told of them.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use emp_firmware::{
    Completion, Counters, Firmware, LinkIndex, NodeEvent, OpKind, PathInUse, RelayNeighbour, Status,
};
use emp_link::LinkStatistics;
use emp_wire::{LinkAddress, NodeId};

use crate::boards::seat::Seat;
use crate::boards::wait::wait_for;
use crate::daemon::{Facts, Tell};
use crate::flying::sleepers::Interest;
use crate::machine::clock;
use crate::told::counters::HostCounters;
use crate::told::directory::{Directory, Peer};
use crate::told::work::WorkTime;

/// How long an answer is waited for before the question is repeated, at first; it doubles each time. Round trips on a LAN
/// are far shorter, so a repetition means that the question was lost or nobody is there yet.
const ASK_EVERY: Duration = Duration::from_millis(2);

/// Where the doubling ends: a node that starts late is still found soon.
const ASK_EVERY_MAX: Duration = Duration::from_millis(50);

/// Questions to one node whose quickest answer counts for how long it takes: one may find a thread asleep.
const ASKED_FOR_TIME: u32 = 3;

impl Seat {
    /// A fact of the firmware's; `closed` of a node that is closed.
    fn fact<T>(&self, fact: impl FnOnce(&Firmware) -> T, closed: T) -> T {
        self.lock().firmware().map_or(closed, fact)
    }

    /// A fact of a firmware that is elsewhere.
    fn away_fact(&self, fact: impl FnOnce(&Facts) -> u64) -> Option<usize> {
        self.lock().away.as_ref().map(|away| fact(away.facts()) as usize)
    }

    /// The paths to a node that are used now.
    pub(crate) fn paths(&self, node: NodeId) -> Vec<PathInUse> {
        self.fact(|firmware| firmware.paths(node).to_vec(), Vec::new())
    }

    /// The link and address that frames to a node take now.
    pub(crate) fn route(&self, node: NodeId) -> Option<(LinkIndex, LinkAddress)> {
        self.fact(|firmware| firmware.route(node), None)
    }

    /// Slots of the firmware's pool that are free, and all of them.
    pub(crate) fn pool_slots(&self) -> (usize, usize) {
        let mut core = self.lock();
        let slots = match &mut core.away {
            Some(away) => away.pool_slots(),
            None => core.firmware().map_or((0, 0), Firmware::pool_slots),
        };
        self.asked_away(&mut core);
        slots
    }

    /// Longest message that is copied.
    pub(crate) fn buffered_bytes_max(&self) -> usize {
        let away = self.away_fact(|facts| facts.buffered_bytes_max);
        away.unwrap_or_else(|| self.fact(Firmware::buffered_bytes_max, 0))
    }

    /// Longest message that fits one frame to any peer.
    pub(crate) fn single_frame_bytes_max(&self) -> usize {
        let away = self.away_fact(|facts| facts.single_frame_bytes_max);
        away.unwrap_or_else(|| self.fact(Firmware::single_frame_bytes_max, 0))
    }

    /// Most bytes of operands of an atomic operation.
    pub(crate) fn atomic_bytes_max(&self) -> usize {
        let away = self.away_fact(|facts| facts.atomic_bytes_max);
        away.unwrap_or_else(|| self.fact(Firmware::atomic_bytes_max, 0))
    }

    /// Changes how many frames one acknowledgement covers.
    pub(crate) fn set_collection(&self, frames: u32) {
        let mut core = self.lock();
        if let Some(away) = &mut core.away {
            away.tell(Tell::Collection(frames));
            away.flush();
        } else if let Some(firmware) = core.firmware_mut() {
            firmware.set_collection(frames);
        }
    }

    /// The same for one peer. False: it is not known yet.
    pub(crate) fn set_collection_of(&self, peer: NodeId, frames: u32) -> bool {
        self.lock().set_collection_of(peer, frames)
    }

    /// Of a relay: what came to be sent on from each neighbour.
    pub(crate) fn relay_neighbours(&self) -> Vec<RelayNeighbour> {
        self.fact(|firmware| firmware.relay_neighbours().to_vec(), Vec::new())
    }

    /// What the firmware has counted.
    pub(crate) fn counters(&self) -> Counters {
        let mut core = self.lock();
        let counters = match &mut core.away {
            Some(away) => away.counters(),
            None => core.counters(),
        };
        self.asked_away(&mut core);
        counters
    }

    /// What the host has counted.
    pub(crate) fn host_counters(&self) -> HostCounters {
        let core = self.lock();
        HostCounters {
            sends: core.requests.count(OpKind::Send),
            receives: core.requests.count(OpKind::Receive),
            frames_dropped: core.dropped_unsent(),
            spin_budget: core.wait_times.budget(core.now()).map(clock::duration),
            yields: core.wait_times.yields,
            sleeps: core.wait_times.sleeps,
        }
    }

    /// Counts from now on what the node's threads work.
    pub(crate) fn count_work(&self) {
        self.lock().count_work();
    }

    /// What they have worked since.
    pub(crate) fn worked(&self) -> WorkTime {
        self.lock().worked()
    }

    /// What each link has counted.
    pub(crate) fn link_statistics(&self) -> Vec<LinkStatistics> {
        self.lock().links.iter().map(|link| link.statistics()).collect()
    }

    /// What is wrong with the links, or was lately.
    pub(crate) fn link_troubles(&self) -> String {
        self.lock().link_troubles()
    }

    /// How many links it has: more than at its start, if interfaces have appeared.
    pub(crate) fn links(&self) -> usize {
        let away = self.lock().away.as_ref().map(|away| away.facts().interfaces.len());
        away.unwrap_or_else(|| self.lock().links.len())
    }

    /// The links' descriptors, valid until the node is closed.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.lock().descriptors()
    }

    /// The nodes met so far.
    pub(crate) fn peers(&self) -> Vec<Peer> {
        self.lock().directory.all()
    }

    /// Where a node may be, as the application said.
    pub(crate) fn hints(&self, node: NodeId) -> Vec<(LinkIndex, LinkAddress)> {
        self.lock().directory.hints(node).to_vec()
    }

    /// Learns where a node may be, if that link is there.
    pub(crate) fn note_hint(&self, node: NodeId, link: LinkIndex, address: LinkAddress) {
        let mut core = self.lock();
        if usize::from(link.0) < core.links.len() || core.away.is_some() {
            core.note_hint(node, link, address);
        }
    }

    /// Learns where a node's process takes datagrams.
    pub(crate) fn note_place(&self, node: NodeId, address: SocketAddr) {
        self.lock().evidence.note_place(node, address);
    }

    /// Where nodes that are not known are looked for.
    pub(crate) fn asked(&self) -> String {
        self.lock().news.asked()
    }

    /// The next thing that happened to a peer, after some progress if `turn`.
    #[inline]
    pub(crate) fn take_event(&self, turn: bool) -> Option<NodeEvent> {
        let mut core = self.lock();
        if turn {
            self.shared.turn_now(&mut core);
        }
        core.events.pop_front()
    }

    /// The same, once there is one.
    pub(crate) fn wait_event(&self, timeout: Option<Duration>) -> Option<NodeEvent> {
        wait_for(&self.shared, &Interest::Events, timeout, |core| core.events.pop_front())
    }

    /// How many things have happened to peers so far. Costs no lock.
    #[inline]
    pub(crate) fn events_told(&self) -> u64 {
        self.shared.events_told.load(Ordering::Acquire)
    }

    /// Puts questions, each for all that are `wanted`, again and again, until `answer` finds in the directory what it looks for.
    pub(crate) fn find(
        &self,
        questions: &[(LinkIndex, LinkAddress)],
        wanted: &[NodeId],
        timeout: Duration,
        answer: impl Fn(&Directory) -> Option<Peer>,
    ) -> Option<Peer> {
        let end = clock::now() + clock::span(timeout);
        let mut every = ASK_EVERY;
        for round in 0_u32.. {
            let mut core = self.lock();
            let now = core.now();
            if let Some(found) = answer(&core.directory) {
                return Some(found);
            }
            // Relays only if neighbours have not answered, and more and more seldom (`RELAY-10`).
            let beyond = round.is_power_of_two();
            let due = questions.iter().filter(|(_, to)| beyond || *to != LinkAddress::BEYOND);
            for (link, address) in due {
                for node in wanted {
                    match &mut core.away {
                        Some(away) => away.tell(Tell::Resolve(*node, *link, *address)),
                        None => core.firmware_mut()?.resolve(now, *link, *address, *node),
                    }
                }
            }
            self.shared.posted(&mut core, now);
            drop(core);
            let slice = clock::duration(end.since(now)).min(every);
            let find = |core: &mut crate::turn::core::Core| answer(&core.directory);
            let found = wait_for(&self.shared, &Interest::Events, Some(slice), find);
            if found.is_some() || clock::now() >= end {
                return found;
            }
            every = (every * 2).min(ASK_EVERY_MAX);
        }
        None
    }

    /// Asks at an address for a node, or who is there, and how long an answer takes: the least of a few. `None`: nobody answers.
    pub(crate) fn ask_at(
        &self,
        hop @ (link, address): (LinkIndex, LinkAddress),
        wanted: NodeId,
        timeout: Duration,
    ) -> Option<(Peer, Duration)> {
        let ask = || {
            self.lock().directory.forget_at(link, address);
            let start = std::time::Instant::now();
            let there = |directory: &Directory| directory.by_address(link, address).cloned();
            Some((self.find(&[hop], &[wanted], timeout, there)?, start.elapsed()))
        };
        let first = ask()?;
        let others = (1..ASKED_FOR_TIME).filter_map(|_| ask());
        others.chain([first]).min_by_key(|(_, took)| *took)
    }

    /// Where a node was found when it was asked for, each with who is on the way there: their places and where to ask them.
    pub(crate) fn ways(&self, node: NodeId) -> Vec<(LinkIndex, Vec<(LinkAddress, LinkAddress)>)> {
        let mut core = self.lock();
        let Some(firmware) = core.firmware_mut() else { return Vec::new() };
        let found = firmware.found_at(node).into_iter();
        found.map(|(link, to)| (link, firmware.stages(&to))).collect()
    }

    /// What is known of the peer of an operation that did not end well: what it calls itself, and what may be why.
    pub(crate) fn explain(&self, completion: &Completion) -> (Option<String>, String) {
        let (mut core, peer) = (self.lock(), completion.peer);
        let own_name = core.directory.get(peer).map(|peer| peer.name.clone());
        let trouble = match completion.status {
            status if status.is_silence() => {
                let asked = || format!("asked {}", core.news.asked());
                let asked = (status == Status::NotFound && !core.is_closed()).then(asked);
                let tried = Some(completion.status).filter(|status| *status == Status::Unreachable);
                let tried = tried.and_then(|_| core.news.tried(core.firmware()?.places(peer)));
                let troubles = Some(core.link_troubles()).filter(|troubles| !troubles.is_empty());
                let all: Vec<_> = [asked, tried, troubles].into_iter().flatten().collect();
                all.join("; ")
            }
            Status::PeerRestarted => core.news.claim_of(peer).unwrap_or_default().into(),
            _ => String::new(),
        };
        (own_name, trouble)
    }
}
