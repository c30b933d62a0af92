//! The paths of a pair beside its first: where they lead, how each fares, and which are looked for (`PATH-1` to `PATH-6`).
//!
//! Peers that exchange no long trains have nothing here: another path is looked for when the first long train begins.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use emp_wire::LinkAddress;
use hashbrown::HashMap;

use crate::limits::{FURTHER_PATHS_MAX, PATHS_MAX, SEEKS_MAX};
use crate::link::LinkIndex;
use crate::path::learned::Learned;
use crate::path::{Hop, PathId};
use crate::time::{Span, Time};

/// First interval between the questions of one search for a path, which doubles: a LAN answers well within it.
const SEEK_INTERVAL: Span = Span::ms(1);

/// Questions of one search: the last waits 32 ms for its answer, so that a lost one or a busy peer does not decide.
const SEEK_TRIES: u32 = 6;

/// The question of a search that relays are asked, counted from 0: neighbours have answered by then.
const BEYOND_TRY: u32 = 2;

/// After a search without an answer or the failure of a path, the next search may begin so much later, and at most so much: a cable
/// that was moved is found again at once, a port that a firewall closes costs a handful of small frames a minute.
const RETRY: (Span, Span) = (Span::ms(100), Span::ms(30_000));

/// Searches without an answer for a better link to a peer that is known by another only, after which there is none: each asks
/// everyone. The last begins half a minute after the first. A first path that failed is looked for on, but everyone is asked
/// no more often.
const BROADCASTS_MAX: u32 = 8;

/// A path that worked for so long had no lasting fault: its next failure is treated as its first.
const SOUND_AFTER: Span = Span::ms(10_000);

/// What a search is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The first path, which has failed, or one by a better link.
    First,
    /// One by this link.
    Link(LinkIndex),
}

/// A path beside the first.
#[derive(Clone, Copy)]
struct Further {
    link: LinkIndex,
    /// Where the peer is there, as far as known.
    address: Option<LinkAddress>,
    /// When something last came from there, in milliseconds (wrapping).
    heard_ms: u16,
    /// Largest frame that its link takes at both ends. 0: the peer has not said.
    bytes: u16,
}

/// What is known of a pair beyond its first path.
#[derive(Default)]
struct Entry {
    further: [Option<Further>; PATHS_MAX - 1],
    health: [Health; PATHS_MAX],
    /// What messages took by them. Boxed: a kilobyte that only those have who exchange messages of several frames.
    learned: Option<Box<Learned>>,
}

/// How a path fares.
#[derive(Clone, Copy, Default)]
struct Health {
    up: bool,
    /// Since when it is up.
    since: Time,
    /// When it may be looked for again.
    retry_at: Time,
    /// Failures and searches without an answer in a row.
    failures: u32,
}

impl Health {
    fn rise(&mut self, now: Time) {
        if !self.up {
            (self.up, self.since) = (true, now);
        }
    }

    fn fall(&mut self, now: Time) {
        if self.up && now.since(self.since) >= SOUND_AFTER {
            self.failures = 0;
        }
        self.up = false;
        self.miss(now);
    }

    /// Nobody answered.
    fn miss(&mut self, now: Time) {
        let wait = Span(RETRY.0.0 << self.failures.min(16)).min(RETRY.1);
        self.failures += 1;
        self.retry_at = now + wait;
    }
}

impl Entry {
    /// The place of the path by this link.
    fn path(&self, link: LinkIndex) -> Option<PathId> {
        let by = |further: &Option<Further>| further.is_some_and(|further| further.link == link);
        self.further.iter().position(by).map(|at| PathId::new(at + 1))
    }

    /// The same; it gets a free place if it has none.
    fn path_mut(&mut self, link: LinkIndex) -> Option<PathId> {
        if let Some(path) = self.path(link) {
            return Some(path);
        }
        let at = self.further.iter().position(Option::is_none)?;
        self.further[at] = Some(Further { link, address: None, heard_ms: 0, bytes: 0 });
        self.health[at + 1] = Health::default();
        Some(PathId::new(at + 1))
    }

    fn further(&self, path: PathId) -> Option<&Further> {
        self.further.get(path.index().checked_sub(1)?)?.as_ref()
    }

    /// Where it leads, if it is up.
    fn hop(&self, path: PathId) -> Option<Hop<'_>> {
        let further = self.further(path)?;
        let up = self.health[path.index()].up;
        Some((further.link, further.address.as_ref().filter(|_| up)?))
    }

    fn further_mut(&mut self, path: PathId) -> Option<&mut Further> {
        self.further.get_mut(path.index().checked_sub(1)?)?.as_mut()
    }

    /// The path that a search is for.
    fn target(&self, target: Target) -> Option<PathId> {
        match target {
            Target::First => Some(PathId::FIRST),
            Target::Link(link) => self.path(link),
        }
    }
}

/// A path that is being looked for.
struct Seek {
    peer: u32,
    target: Target,
    nonce: u64,
    next: Time,
    tries: u32,
}

/// What to ask for a path, and where.
pub(crate) struct Question {
    pub(crate) peer: u32,
    pub(crate) target: Target,
    pub(crate) nonce: u64,
    /// The peer's address on the link that is asked for, if that is known.
    pub(crate) address: Option<LinkAddress>,
    /// Few answers came: ask wherever one may come from.
    pub(crate) again: bool,
    /// There were not many searches without an answer before: everyone may be asked.
    pub(crate) everyone: bool,
    /// Relays may be asked as well: once in a search, as each of them repeats it once.
    pub(crate) beyond: bool,
}

/// Paths beside the first of all pairs that have such or were looked for them.
pub(crate) struct Table {
    /// Boxed, as an entry is large and the map grows by moving them.
    entries: HashMap<u32, Box<Entry>>,
    seeks: VecDeque<Seek>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { entries: HashMap::new(), seeks: VecDeque::new() }
    }

    /// Peers that have such paths, or were looked for them.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Searches that are under way.
    pub(crate) fn searches(&self) -> usize {
        self.seeks.len()
    }

    /// Where a path beside the first leads, if it is up.
    pub(crate) fn hop(&self, peer: u32, path: PathId) -> Option<Hop<'_>> {
        self.entries.get(&peer)?.hop(path)
    }

    /// Where those beside the first lead that are up, and the largest frame by each.
    pub(crate) fn hops(&self, peer: u32) -> ([Option<Hop<'_>>; PATHS_MAX], [u16; PATHS_MAX]) {
        let Some(entry) = self.entries.get(&peer) else {
            return ([None; PATHS_MAX], [0; PATHS_MAX]);
        };
        let hops = core::array::from_fn(|path| entry.hop(PathId::new(path)));
        let bytes = |path| entry.further(PathId::new(path)).map_or(0, |further| further.bytes);
        (hops, core::array::from_fn(bytes))
    }

    /// Where those beside the first led when they were last known, whether they are up or not.
    pub(crate) fn places(&self, peer: u32) -> impl Iterator<Item = (LinkIndex, LinkAddress)> + '_ {
        let further = self.entries.get(&peer).map(|entry| &entry.further);
        let known = further.into_iter().flatten().flatten();
        known.filter_map(|further| Some((further.link, further.address?)))
    }

    /// The largest frame by a path beside the first, to be changed.
    pub(crate) fn bytes_mut(&mut self, peer: u32, path: PathId) -> Option<&mut u16> {
        Some(&mut self.entries.get_mut(&peer)?.further_mut(path)?.bytes)
    }

    /// What messages took by a peer's paths.
    pub(crate) fn learned(&self, peer: u32) -> Option<&Learned> {
        self.entries.get(&peer)?.learned.as_deref()
    }

    /// The same, to be added to.
    pub(crate) fn learned_mut(&mut self, peer: u32) -> Option<&mut Learned> {
        Some(self.entries.get_mut(&peer)?.learned.get_or_insert_default())
    }

    /// That is of other paths than there are now.
    pub(crate) fn unlearn(&mut self, peer: u32) {
        if let Some(entry) = self.entries.get_mut(&peer) {
            entry.learned = None;
        }
    }

    /// The place of a peer's path by this link, other than the first.
    pub(crate) fn path(&self, peer: u32, link: LinkIndex) -> Option<PathId> {
        self.entries.get(&peer)?.path(link)
    }

    /// Those of a peer's paths beside the first that are up, a bit each.
    pub(crate) fn up(&self, peer: u32) -> u8 {
        let up = |path: &PathId| self.hop(peer, *path).is_some();
        PathId::all().skip(1).filter(up).fold(0, |bits, path| bits | path.bit())
    }

    /// Something came from a path that is up: how long nothing had, in milliseconds. If it came from elsewhere nothing is noted.
    pub(crate) fn heard(
        &mut self,
        peer: u32,
        path: PathId,
        from: &LinkAddress,
        now_ms: u16,
    ) -> u16 {
        let entry = self.entries.get_mut(&peer);
        let Some(further) = entry.and_then(|entry| entry.further_mut(path)) else { return 0 };
        let quiet_ms = now_ms.wrapping_sub(further.heard_ms);
        if further.address.as_ref() == Some(from) {
            further.heard_ms = now_ms;
            return 0;
        }
        quiet_ms
    }

    /// Nothing came by those beside the first that are up for so many milliseconds.
    pub(crate) fn is_quiet(&self, peer: u32, now_ms: u16, most_ms: u16) -> bool {
        self.entries.get(&peer).is_some_and(|entry| {
            let further = entry.further.iter().zip(&entry.health[1..]);
            let up = further.filter_map(|(further, health)| further.filter(|_| health.up));
            up.map(|further| now_ms.wrapping_sub(further.heard_ms)).all(|ms| ms > most_ms)
        })
    }

    /// All paths of a peer beside the first are forgotten.
    pub(crate) fn forget(&mut self, peer: u32) {
        if self.entries.remove(&peer).is_some() {
            self.seeks.retain(|seek| seek.peer != peer);
        }
    }

    /// True if a path that is not up may be looked for now.
    pub(crate) fn may_seek(&self, now: Time, peer: u32, target: Target) -> bool {
        let entry = self.entries.get(&peer);
        let health = entry.and_then(|entry| Some(entry.health[entry.target(target)?.index()]));
        // A better link than that of a first path which is up is looked for as if that were down.
        let down =
            |health: Health| (!health.up || target == Target::First) && health.retry_at <= now;
        health.is_none_or(down) && !self.is_seeking(peer, target)
    }

    fn is_seeking(&self, peer: u32, target: Target) -> bool {
        self.seeks.iter().any(|seek| (seek.peer, seek.target) == (peer, target))
    }

    /// Begins to look for a path. The first question is due at once. `nonce` is nobody else's. False: there is no room for it.
    pub(crate) fn seek(&mut self, now: Time, peer: u32, target: Target, nonce: u64) -> bool {
        if self.is_seeking(peer, target) {
            return true;
        }
        if self.seeks.len() >= SEEKS_MAX {
            return false;
        }
        let Some(entry) = self.entry(peer) else { return false };
        if let Target::Link(link) = target
            && entry.path_mut(link).is_none()
        {
            return false;
        }
        self.seeks.push_back(Seek { peer, target, nonce, next: now, tries: 0 });
        true
    }

    /// A peer's entry, unless there are too many. A new one's first path is up: the peer is known by it.
    fn entry(&mut self, peer: u32) -> Option<&mut Entry> {
        if self.entries.len() >= FURTHER_PATHS_MAX && !self.entries.contains_key(&peer) {
            return None;
        }
        Some(self.entries.entry(peer).or_insert_with(|| {
            let mut entry = Box::<Entry>::default();
            entry.health[PathId::FIRST.index()].up = true;
            entry
        }))
    }

    /// The peer may be reached there by a link. False: that was known.
    pub(crate) fn suppose(&mut self, peer: u32, link: LinkIndex, address: LinkAddress) -> bool {
        let Some(entry) = self.entries.get_mut(&peer) else { return false };
        let Some(path) = entry.path(link) else { return false };
        let up = entry.health[path.index()].up;
        let further = entry.further_mut(path).filter(|_| !up);
        further.is_some_and(|further| further.address.replace(address) != Some(address))
    }

    /// The peer and target of the search that an answer with this nonce belongs to.
    pub(crate) fn sought(&self, nonce: u64) -> Option<(u32, Target)> {
        let seek = self.seeks.iter().find(|seek| seek.nonce == nonce)?;
        Some((seek.peer, seek.target))
    }

    /// The peer has told where it is on the link that is asked for: if that is news, the next question is asked at once.
    pub(crate) fn learn(&mut self, now: Time, nonce: u64, address: LinkAddress) {
        let Some((peer, Target::Link(link))) = self.sought(nonce) else { return };
        if self.suppose(peer, link, address)
            && let Some(seek) = self.seeks.iter_mut().find(|seek| seek.nonce == nonce)
        {
            seek.next = now;
        }
    }

    /// A peer has answered: its first path can be used.
    pub(crate) fn first_rises(&mut self, now: Time, peer: u32) {
        self.seeks.retain(|seek| (seek.peer, seek.target) != (peer, Target::First));
        if let Some(entry) = self.entry(peer) {
            entry.health[PathId::FIRST.index()].rise(now);
        }
    }

    /// A peer has answered there, and takes frames of so many bytes: that path can be used. `None`: there is no room for it.
    pub(crate) fn rise(
        &mut self,
        now: Time,
        peer: u32,
        (link, address): (LinkIndex, LinkAddress),
        bytes: u16,
        now_ms: u16,
    ) -> Option<PathId> {
        self.seeks.retain(|seek| (seek.peer, seek.target) != (peer, Target::Link(link)));
        let entry = self.entry(peer)?;
        let path = entry.path_mut(link)?;
        let further = entry.further_mut(path)?;
        // What was found to be lost on the way there is, until a longer frame gets through.
        let known = further.address == Some(address) && further.bytes > 0;
        let bytes = if known { bytes.min(further.bytes) } else { bytes };
        *further = Further { link, address: Some(address), heard_ms: now_ms, bytes };
        entry.health[path.index()].rise(now);
        Some(path)
    }

    /// A peer has answered by a better link than that of its first path, which is one of the others from now on. What was known of
    /// a path by that link is known of the first.
    pub(crate) fn change_first(
        &mut self,
        now: Time,
        peer: u32,
        better: LinkIndex,
        old: (LinkIndex, LinkAddress, u16),
        now_ms: u16,
    ) {
        if let Some(entry) = self.entry(peer) {
            if let Some(path) = entry.path(better) {
                entry.further[path.index() - 1] = None;
            }
            entry.health[PathId::FIRST.index()] = Health::default();
        }
        self.first_rises(now, peer);
        let (link, address, bytes) = old;
        self.rise(now, peer, (link, address), bytes, now_ms);
    }

    /// A path has failed. False: none of the others is up, and nothing is changed.
    pub(crate) fn fall(&mut self, now: Time, peer: u32, path: PathId) -> bool {
        let Some(entry) = self.entries.get_mut(&peer) else { return false };
        let others =
            entry.health.iter().enumerate().any(|(at, health)| health.up && at != path.index());
        let falls = others && entry.health[path.index()].up;
        if falls {
            entry.health[path.index()].fall(now);
        }
        falls
    }

    /// What is being looked for is looked for anew, if at all.
    pub(crate) fn stop_seeks(&mut self, peer: u32) {
        self.seeks.retain(|seek| seek.peer != peer);
    }

    /// What failed before says nothing any more: paths that are down may be looked for at once.
    pub(crate) fn forgive(&mut self, now: Time, peer: u32) {
        for health in self.entries.get_mut(&peer).into_iter().flat_map(|entry| &mut entry.health) {
            (health.failures, health.retry_at) = (0, health.retry_at.min(now));
        }
    }

    /// When the next question is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.seeks.iter().map(|seek| seek.next).min()
    }

    /// The next question that is due now. Searches without an answer end.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Question> {
        loop {
            let at = self.seeks.iter().position(|seek| seek.next <= now)?;
            let seek = &mut self.seeks[at];
            let &mut Seek { peer, target, nonce, tries, .. } = seek;
            (seek.next, seek.tries) = (now + Span(SEEK_INTERVAL.0 << tries), tries + 1);
            if tries >= SEEK_TRIES {
                self.seeks.remove(at);
                self.end_search(now, peer, target);
                continue;
            }
            let entry = self.entries.get(&peer);
            let path = entry.and_then(|entry| entry.target(target));
            let address = entry.zip(path).and_then(|(entry, path)| entry.further(path)?.address);
            let health = entry.zip(path).map(|(entry, path)| entry.health[path.index()]);
            let failures = health.map_or(0, |health| health.failures);
            let (again, everyone) = (tries > 1, failures <= BROADCASTS_MAX);
            let beyond = everyone && tries == BEYOND_TRY;
            return Some(Question { peer, target, nonce, address, again, everyone, beyond });
        }
    }

    /// Nobody has answered.
    fn end_search(&mut self, now: Time, peer: u32, target: Target) {
        let Some(entry) = self.entry(peer) else { return };
        let Some(path) = entry.target(target) else { return };
        let alone = !entry.health[1..].iter().any(|health| health.up);
        let health = &mut entry.health[path.index()];
        health.miss(now);
        if target == Target::First && alone && health.failures >= BROADCASTS_MAX {
            health.retry_at = Time::NEVER;
        }
    }
}

#[cfg(test)]
mod tests;
