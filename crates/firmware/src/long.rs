//! Frames longer than the MTU (`LONG-1` to `LONG-5`): a link that cuts and merges datagrams carries them whole or not at all.
//!
//! One header for 60 KB instead of one for each 1,472 bytes: payload in one piece at both ends, which the kernel copies faster or
//! need not copy, and little to do per byte here. Whether such a frame gets through depends on the path (a card that does not
//! merge delivers pieces), so a peer is asked first, by a hello of that length; and where too many are lost, frames are as
//! short as ever for a while.

use alloc::collections::VecDeque;

use emp_wire::{Epoch, HEADER_BYTES, Header, Hello, Kind, LONG_FRAME_BYTES, LinkAddress};
use hashbrown::HashMap;

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::lanes::{Lane, Way};
use crate::limits::{LANES_MAX, WINDOW_FRAMES};
use crate::peers::Peers;
use crate::routes::Contact;
use crate::time::{Span, Time};
use crate::transmit::LinkIndex;

/// Payload bytes of the longest frame.
pub(crate) const LONG_FRAGMENT_BYTES: u16 = (LONG_FRAME_BYTES - emp_wire::HEADER_BYTES) as u16;

/// Payload bytes of frames of a train of several long ones, which are of one length, as few as can be: more than half of the longest.
pub(crate) const fn is_long_cut(fragment: u16) -> bool {
    fragment > LONG_FRAGMENT_BYTES / 2 && fragment <= LONG_FRAGMENT_BYTES
}

/// What of the word of an answer says how long the question was that arrived, in bytes, and the bit that says that its receiver has
/// room for [`DEEP_FRAMES`] such frames of each of several senders (`LONG-2`).
pub(crate) const ARRIVED_BYTES: u32 = 0xFFFF;
const DEEP: u32 = ARRIVED_BYTES + 1;

/// Frames of the longest kind in a window where the peer has room for so many. With six, as the socket buffers of ordinary users hold,
/// sender and receiver wait for each other whenever one of them is slow for a frame's time; more than twice as many gain nothing.
const DEEP_FRAMES: u32 = 12;

/// A link that can hold so many unread has room for that many of each of four senders.
pub(crate) const HELD_MIN: u32 = 4 * DEEP_FRAMES;

/// First interval between the questions to one peer, which doubles: a LAN answers well within it.
const ASK_INTERVAL: Span = Span::ms(1);

/// Questions to one peer: the last waits 16 ms for its answer, so that neither a lost one nor a busy peer decides.
const ASK_TRIES: u32 = 5;

/// Questions to different peers at a time: of 60 KB each they would keep other answers waiting; the next peer's turn comes with
/// its next train.
const ASKS_MAX: usize = 4;

/// After questions in vain, or when too many were lost, the next question waits so long, twice as long each time, and at most
/// so long: each costs a path that takes none 60 KB.
const RETRY: (Span, Span) = (Span::ms(200), Span::ms(60_000));

/// As many failures in a row count at most against a path that had been found open: it is asked again within a second.
const OPEN_FAILURES_MAX: u32 = 2;

/// A path that was open for so long is good: when it fails, that counts as the first time.
const SOUND_AFTER: Span = Span::ms(10_000);

/// What a peer's entry notes of long frames, in one byte, as there may be a hundred thousand entries: the link by which they
/// get through, from 1 on, or none; and in the highest bit that the peer has room for many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LongNote(u8);

impl LongNote {
    pub(crate) const NONE: Self = Self(0);
    const DEEP: u8 = 1 << 7;

    fn new(link: LinkIndex, deep: bool) -> Self {
        Self((link.0 + 1) | if deep { Self::DEEP } else { 0 })
    }

    #[inline]
    pub(crate) fn link(self) -> Option<LinkIndex> {
        (self.0 & !Self::DEEP).checked_sub(1).map(LinkIndex)
    }

    #[inline]
    pub(crate) const fn is_deep(self) -> bool {
        self.0 & Self::DEEP != 0
    }
}

/// How many frames of up to `usual_bytes` bytes one with so much body and payload counts as (`WINDOW-1`): more than one if it is longer
/// than those. `deep`: the peer has room for many.
pub(crate) fn weight(bytes: u64, usual_bytes: u16, deep: bool) -> u8 {
    /// As which a window takes [`DEEP_FRAMES`] of the longest.
    const DEEP_BYTES: u64 = LONG_FRAME_BYTES as u64 * DEEP_FRAMES as u64 / WINDOW_FRAMES as u64;
    let usual = u64::from(usual_bytes.max(1));
    if bytes + HEADER_BYTES as u64 <= usual {
        return 1;
    }
    let unit = if deep { usual.max(DEEP_BYTES) } else { usual };
    bytes.div_ceil(unit).clamp(2, u8::MAX.into()) as u8
}

/// What is known of a way.
struct Path {
    link: LinkIndex,
    to: LinkAddress,
    open: bool,
    /// The peer has said that it has room for many.
    deep: bool,
    /// Since when, if it is open.
    since: Time,
    /// When it may be asked about again, if it is not.
    retry_at: Time,
    /// Failures and questions in vain in a row.
    failures: u32,
}

/// A question that is out.
struct Ask {
    peer: u32,
    nonce: u64,
    next: Time,
    tries: u32,
}

/// The ways of all peers by which long frames were wanted.
pub(crate) struct LongPaths {
    /// Links that carry such frames, one bit each, and those that hold many.
    links: u64,
    deep: u64,
    paths: HashMap<u32, Path>,
    asks: VecDeque<Ask>,
}

impl LongPaths {
    pub(crate) fn new(links: u64, deep: u64) -> Self {
        Self { links, deep, paths: HashMap::new(), asks: VecDeque::new() }
    }

    /// The link carries long frames.
    #[inline]
    pub(crate) fn carries(&self, link: LinkIndex) -> bool {
        self.links.checked_shr(link.0.into()).is_some_and(|bits| bits & 1 == 1)
    }

    /// The word of the answer to a frame that came by this link, and had so many bytes when it arrived.
    pub(crate) fn answer(&self, link: LinkIndex, arrived_bytes: u32) -> u32 {
        let deep = self.deep.checked_shr(link.0.into()).is_some_and(|bits| bits & 1 == 1);
        let arrived = arrived_bytes.min(ARRIVED_BYTES);
        if deep && arrived as usize >= LONG_FRAME_BYTES { arrived | DEEP } else { arrived }
    }

    /// Some link does.
    #[inline]
    pub(crate) const fn any(&self) -> bool {
        self.links != 0
    }

    /// A link has begun or ceased to carry them. True if that is news.
    fn set(&mut self, link: LinkIndex, carries: bool) -> bool {
        let bit = 1u64.checked_shl(link.0.into()).unwrap_or(0);
        let before = self.links;
        self.links = if carries { before | bit } else { before & !bit };
        self.links != before
    }

    /// Long frames are known to get through by this way.
    pub(crate) fn is_open(&self, peer: u32, (link, to): Way<'_>) -> bool {
        self.carries(link)
            && self
                .paths
                .get(&peer)
                .is_some_and(|path| path.open && (path.link, &path.to) == (link, to))
    }

    /// True if that is not known, and may be asked now.
    pub(crate) fn may_ask(&self, now: Time, peer: u32, (link, to): Way<'_>) -> bool {
        if !self.carries(link) || *to == LinkAddress::LOOPBACK {
            return false;
        }
        let old = self.paths.get(&peer).filter(|path| (path.link, &path.to) == (link, to));
        old.is_none_or(|path| !path.open && path.retry_at <= now)
            && !self.asks.iter().any(|ask| ask.peer == peer)
    }

    /// Begins to ask. `nonce` is nobody else's.
    fn ask(&mut self, now: Time, peer: u32, (link, to): (LinkIndex, LinkAddress), nonce: u64) {
        let full = self.paths.len() >= LANES_MAX && !self.paths.contains_key(&peer);
        if full || self.asks.len() >= ASKS_MAX {
            return;
        }
        let new =
            || Path { link, to, open: false, deep: false, since: now, retry_at: now, failures: 0 };
        let path = self.paths.entry(peer).or_insert_with(new);
        if (path.link, path.to) != (link, to) {
            *path = new();
        }
        self.asks.push_back(Ask { peer, nonce, next: now, tries: 0 });
    }

    /// The next question that is due: whom to ask, and by which nonce. Those that were asked in vain end.
    fn pop_due(&mut self, now: Time) -> Option<(u32, u64)> {
        loop {
            let at = self.asks.iter().position(|ask| ask.next <= now)?;
            let ask = &mut self.asks[at];
            let (peer, nonce, tries) = (ask.peer, ask.nonce, ask.tries);
            if tries >= ASK_TRIES {
                self.asks.remove(at);
                self.fail(now, peer);
                continue;
            }
            ask.next = now + Span(ASK_INTERVAL.0 << tries);
            ask.tries += 1;
            return Some((peer, nonce));
        }
    }

    /// When the next question is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.asks.iter().map(|ask| ask.next).min()
    }

    /// Long frames do not get through to a peer any more, or did not.
    fn fail(&mut self, now: Time, peer: u32) {
        let Some(path) = self.paths.get_mut(&peer) else { return };
        if path.open && now.since(path.since) >= SOUND_AFTER {
            path.failures = 0;
        }
        if path.open {
            // It worked: a machine that is crowded for a while is no reason to do without for long.
            path.failures = path.failures.min(OPEN_FAILURES_MAX);
        }
        path.open = false;
        path.retry_at = now + Span(RETRY.0.0 << path.failures.min(16)).min(RETRY.1);
        path.failures += 1;
    }

    /// What failed before says nothing any more: the next train asks.
    fn forgive(&mut self, now: Time, peer: u32) {
        if let Some(path) = self.paths.get_mut(&peer) {
            (path.failures, path.retry_at) = (0, path.retry_at.min(now));
        }
    }

    /// A question was answered by this word: with how many bytes it has arrived. False: there is no such question.
    fn answered(&mut self, now: Time, peer: u32, nonce: u64, word: u32) -> bool {
        let bytes = word & ARRIVED_BYTES;
        let at = self.asks.iter().position(|ask| (ask.peer, ask.nonce) == (peer, nonce));
        let Some(at) = at.filter(|_| bytes as usize >= LONG_FRAME_BYTES) else { return false };
        self.asks.remove(at);
        if let Some(path) = self.paths.get_mut(&peer) {
            (path.open, path.since, path.deep) = (true, now, word & DEEP != 0);
        }
        true
    }

    /// Everything about a peer is forgotten.
    pub(crate) fn forget(&mut self, peer: u32) {
        if self.paths.remove(&peer).is_some() {
            self.asks.retain(|ask| ask.peer != peer);
        }
    }
}

impl Peers {
    /// Interfaces between this node and a peer take longer frames again: ways that failed before are looked for as if for the first
    /// time (`LIMIT-2`).
    pub(crate) fn forgive_ways(&mut self, now: Time, index: u32) {
        self.longs.forgive(now, index);
        self.lanes.forgive(now, index);
    }

    /// Long frames get through to a peer.
    pub(crate) fn has_long(&self, index: u32) -> bool {
        self[index].long.link().is_some()
    }

    /// After a change of a peer's ways, or of what is known of them: notes by which link long frames get through.
    pub(crate) fn look_for_long(&mut self, index: u32) {
        let ways = self.ways(index);
        let both = [ways.bulk, ways.small].into_iter().flatten();
        let open = both.into_iter().find(|way| self.longs.is_open(index, *way));
        let deep = self.longs.paths.get(&index).is_some_and(|path| path.deep);
        self[index].long = open.map_or(LongNote::NONE, |(link, _)| LongNote::new(link, deep));
    }
}

impl Firmware {
    /// A link has begun or ceased to carry long frames ([`LinkInfo::long_frames`](crate::LinkInfo::long_frames)).
    pub fn set_long_frames(&mut self, link: LinkIndex, carries: bool) {
        let able =
            self.links.get(usize::from(link.0)).is_some() && self.profile.takes_long_frames();
        if self.peers.longs.set(link, carries && able) {
            for peer in 0..self.peers.len() {
                self.peers.look_for_long(peer);
            }
        }
    }

    /// Asks whether long frames get through to a peer by the way of its long trains, unless that is known.
    pub(crate) fn seek_long(&mut self, now: Time, peer: u32) {
        let way = self.peers.ways(peer).pick(Lane::Bulk).1.map(|(link, to)| (link, *to));
        let Some((link, to)) = way.filter(|_| self.closing.is_none()) else { return };
        if self.peers.longs.may_ask(now, peer, (link, &to)) {
            let nonce = self.routes.draw();
            self.peers.longs.ask(now, peer, (link, to), nonce);
            self.run_long_questions(now);
        }
    }

    /// Asks the questions that are due (`LONG-2`).
    pub(crate) fn run_long_questions(&mut self, now: Time) {
        while self.routes.has_room() {
            let Some((peer, nonce)) = self.peers.longs.pop_due(now) else { return };
            let way = self.peers.ways(peer).pick(Lane::Bulk).1.map(|(link, to)| (link, *to));
            let entry = &self.peers[peer];
            let Some((link, to)) = way.filter(|_| entry.remote_epoch != Epoch::UNKNOWN) else {
                self.peers.longs.forget(peer);
                continue;
            };
            self.routes.push_contact(Contact {
                link,
                to,
                kind: Kind::Hello,
                target: entry.node,
                destination_tag: entry.tag,
                nonce,
                source_epoch: entry.local_epoch,
                destination_epoch: entry.remote_epoch.check(),
                word: 0,
                frame_bytes: LONG_FRAME_BYTES as u16,
            });
        }
    }

    /// Takes a reply that answers a question of this kind. False: it does not.
    pub(crate) fn answers_for_long(
        &mut self,
        now: Time,
        peer: u32,
        header: &Header,
        hello: &Hello,
    ) -> bool {
        let entry = &self.peers[peer];
        let current = entry.remote_epoch == header.source_epoch
            && entry.local_epoch.check() == header.destination_epoch;
        if !current || !self.peers.longs.answered(now, peer, hello.nonce, header.word) {
            return false;
        }
        self.peers.look_for_long(peer);
        self.send.long_opened(peer);
        self.counters.count(Counter::LongOpened);
        true
    }

    /// Too many long frames to a peer were lost (`LONG-4`).
    pub(crate) fn long_failed(&mut self, now: Time, peer: u32) {
        if self.peers.has_long(peer) {
            self.peers.longs.fail(now, peer);
            self.peers.look_for_long(peer);
            self.counters.count(Counter::LongClosed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkIndex = LinkIndex(1);

    fn way() -> (LinkIndex, LinkAddress) {
        (LINK, LinkAddress::index(4))
    }

    fn open(longs: &mut LongPaths, now: Time) {
        longs.ask(now, 7, way(), 99);
        assert_eq!(longs.pop_due(now), Some((7, 99)));
        assert!(!longs.answered(now, 7, 98, LONG_FRAME_BYTES as u32), "nobody asked that");
        assert!(!longs.answered(now, 7, 99, 1_472), "it was cut short");
        assert!(longs.answered(now, 7, 99, LONG_FRAME_BYTES as u32));
    }

    #[test]
    fn a_path_opens_by_an_answer_and_closes_for_longer_and_longer() {
        let mut longs = LongPaths::new(0b10, 0);
        let (link, to) = way();
        let mut now = Time(5);
        assert!(!longs.may_ask(now, 7, (LinkIndex(0), &to)), "that link does not");
        for rest_ms in [200, 400, 800] {
            assert!(longs.may_ask(now, 7, (link, &to)) && !longs.is_open(7, (link, &to)));
            open(&mut longs, now);
            assert!(longs.is_open(7, (link, &to)) && !longs.may_ask(now, 7, (link, &to)));
            longs.fail(now, 7);
            assert!(!longs.is_open(7, (link, &to)));
            assert!(!longs.may_ask(now + Span::ms(rest_ms - 1), 7, (link, &to)));
            now = now + Span::ms(rest_ms);
        }
        open(&mut longs, now);
        now = now + SOUND_AFTER;
        longs.fail(now, 7);
        assert!(longs.may_ask(now + RETRY.0, 7, (link, &to)), "it had been good");
    }

    #[test]
    fn who_holds_many_says_so_of_questions_that_arrived_whole() {
        let (deep, shallow) = (LongPaths::new(0b11, 0b10), LongPaths::new(0b11, 0));
        let whole = LONG_FRAME_BYTES as u32;
        assert_eq!(deep.answer(LINK, whole), whole | 1 << 16);
        assert_eq!(deep.answer(LINK, 1_472), 1_472);
        assert_eq!(deep.answer(LinkIndex(0), whole), whole);
        assert_eq!(shallow.answer(LINK, whole), whole);
        let mut longs = LongPaths::new(0b10, 0);
        for (word, opens, is_deep) in
            [(1_472 | DEEP, false, false), (whole | DEEP, true, true), (whole, true, false)]
        {
            longs.ask(Time(5), 7, way(), 99);
            assert_eq!(longs.answered(Time(5), 7, 99, word), opens);
            assert_eq!(longs.paths.get(&7).map(|path| path.deep), Some(is_deep), "{word:x}");
        }
    }

    #[test]
    fn a_window_fits_six_long_frames_or_eleven() {
        let most = u64::from(LONG_FRAGMENT_BYTES);
        let fit = |usual, deep| WINDOW_FRAMES / u32::from(weight(most, usual, deep));
        assert_eq!([fit(1_472, false), fit(1_472, true)], [6, 11]);
        // Where usual frames are longer, there was room for more.
        assert_eq!(fit(8_972, false), fit(8_972, true));
        for deep in [false, true] {
            assert_eq!([weight(1_440, 1_472, deep), weight(1_441, 1_472, deep)], [1, 2]);
        }
        let (long, deep) = (LongNote::new(LinkIndex(63), false), LongNote::new(LinkIndex(0), true));
        assert_eq!((long.link(), long.is_deep()), (Some(LinkIndex(63)), false));
        assert_eq!((deep.link(), deep.is_deep()), (Some(LinkIndex(0)), true));
        assert_eq!(LongNote::NONE.link(), None);
    }

    #[test]
    fn another_address_is_another_path() {
        let mut longs = LongPaths::new(0b10, 0);
        open(&mut longs, Time(5));
        let moved = (LINK, &LinkAddress::index(5));
        assert!(!longs.is_open(7, moved) && longs.may_ask(Time(5), 7, moved));
        longs.forget(7);
        assert!(!longs.is_open(7, (LINK, &LinkAddress::index(4))));
    }

    #[test]
    fn questions_in_vain_end() {
        let mut longs = LongPaths::new(0b10, 0);
        let (link, to) = way();
        longs.ask(Time(0), 7, way(), 99);
        let mut now = Time(0);
        let mut asked = 0;
        while let Some(due) = longs.next_deadline() {
            now = due;
            asked += u32::from(longs.pop_due(now).is_some());
        }
        assert_eq!(asked, ASK_TRIES);
        assert!(!longs.may_ask(now, 7, (link, &to)));
        assert!(longs.may_ask(now + RETRY.0, 7, (link, &to)));
    }
}
