//! Frames longer than the MTU (`LONG-1` to `LONG-5`): a link that cuts and merges datagrams carries them whole or not at all.
//!
//! One header for 60 KB instead of one for each 1,472 bytes: payload in one piece at both ends, which the kernel copies faster or
//! need not copy, and little to do per byte here. Whether such a frame gets through depends on the path (a card that does not
//! merge delivers pieces), so a peer is asked first, by a hello of that length; and where too many are lost, frames are as
//! short as ever for a while.

use alloc::collections::VecDeque;

use emp_wire::{LONG_FRAME_BYTES, LinkAddress, ReplyWord};
use hashbrown::HashMap;

use crate::limits::{FURTHER_PATHS_MAX, LONG_QUESTIONS_MAX, WINDOW_FRAMES};
use crate::link::{LinkIndex, set_bits};
use crate::path::Hop;
use crate::time::{Span, Time};

/// Payload bytes of the longest frame.
pub(crate) const LONG_FRAGMENT_BYTES: u16 = (LONG_FRAME_BYTES - emp_wire::HEADER_BYTES) as u16;

/// Payload bytes of frames of a train of several long ones, which are of one length, as few as can be: more than half of the longest.
pub(crate) const fn is_long_cut(fragment: u16) -> bool {
    fragment > LONG_FRAGMENT_BYTES / 2 && fragment <= LONG_FRAGMENT_BYTES
}

/// Frames of the longest kind in a window where the peer has room for so many. With six, as the socket buffers of ordinary users hold,
/// sender and receiver wait for each other whenever one of them is slow for a frame's time; more than twice as many gain nothing.
const DEEP_FRAMES: u32 = 12;

/// A link that can hold so many unread has room for that many of each of four senders.
pub(crate) const HELD_MIN: u32 = 4 * DEEP_FRAMES;

/// First interval between the questions to one peer, which doubles: a LAN answers well within it.
const ASK_INTERVAL: Span = Span::ms(1);

/// Questions to one peer: the last waits 16 ms for its answer, so that neither a lost one nor a busy peer decides.
const ASK_TRIES: u32 = 5;

/// After questions without an answer, or when too many were lost, the next question waits so long, twice as long each time, and at most
/// so long: each costs a path that takes none 60 KB.
const RETRY: (Span, Span) = (Span::ms(200), Span::ms(60_000));

/// As many failures in a row count at most against a path that had been found open: it is asked again within a second.
const OPEN_FAILURES_MAX: u32 = 2;

/// A path that was open for so long is good: when it fails, that counts as the first time.
const SOUND_AFTER: Span = Span::ms(10_000);

/// Bytes that a peer has room for that come by one path: as many frames of the usual length as have numbers, or [`DEEP_FRAMES`] of the
/// longest where it has room for many of these.
pub(crate) const fn room_bytes(usual_bytes: u16, long: bool, deep: bool) -> u32 {
    let usual = usual_bytes as u32 * WINDOW_FRAMES;
    let deep_bytes = LONG_FRAME_BYTES as u32 * DEEP_FRAMES;
    if long && deep && deep_bytes > usual { deep_bytes } else { usual }
}

/// What is known of long frames by a path.
pub(crate) struct Unit {
    to: LinkAddress,
    pub(crate) open: bool,
    /// The peer has said that it has room for many.
    pub(crate) deep: bool,
    /// Since when, if it is open.
    since: Time,
    /// When it may be asked about again, if it is not.
    retry_at: Time,
    /// Failures and questions without an answer in a row.
    failures: u32,
}

struct Ask {
    peer: u32,
    link: LinkIndex,
    nonce: u64,
    next: Time,
    tries: u32,
}

/// The paths of all peers by which long frames were wanted.
pub(crate) struct Units {
    /// Links that carry such frames, one bit each, and those that hold many.
    links: u64,
    deep: u64,
    /// Links that ever did.
    ever: u64,
    /// By peer and link.
    paths: HashMap<(u32, LinkIndex), Unit>,
    asks: VecDeque<Ask>,
}

impl Units {
    pub(crate) fn new(links: u64, deep: u64) -> Self {
        Self { links, deep, ever: links, paths: HashMap::new(), asks: VecDeque::new() }
    }

    /// There are more links, of which these carry such; `deep` of all.
    pub(crate) fn add(&mut self, links: u64, deep: u64) {
        self.links |= links;
        self.ever |= links;
        self.deep = deep;
    }

    /// The link carries long frames.
    #[inline]
    pub(crate) fn carries(&self, link: LinkIndex) -> bool {
        self.links.checked_shr(link.0.into()).is_some_and(|bits| bits & 1 == 1)
    }

    /// The word of the answer to a frame that came by this link, and had so many bytes when it arrived.
    pub(crate) fn answer(&self, link: LinkIndex, arrived_bytes: u32) -> u32 {
        let deep = self.deep.checked_shr(link.0.into()).is_some_and(|bits| bits & 1 == 1);
        let arrived_bytes = arrived_bytes.min(u16::MAX.into()) as u16;
        let room_for_many = deep && usize::from(arrived_bytes) >= LONG_FRAME_BYTES;
        ReplyWord { arrived_bytes, room_for_many }.emit()
    }

    /// Paths that were asked about, and questions that are under way.
    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(crate) fn questions(&self) -> usize {
        self.asks.len()
    }

    /// Some link does.
    #[inline]
    pub(crate) const fn any(&self) -> bool {
        self.links != 0
    }

    /// A link has begun or ceased to carry them. True if that is news.
    pub(crate) fn set(&mut self, link: LinkIndex, carries: bool) -> bool {
        let bit = 1u64.checked_shl(link.0.into()).unwrap_or(0);
        let before = self.links;
        self.links = if carries { before | bit } else { before & !bit };
        self.ever |= self.links;
        self.links != before
    }

    pub(crate) fn unit(&self, peer: u32, (link, to): Hop<'_>) -> Option<&Unit> {
        self.paths.get(&(peer, link)).filter(|unit| unit.to == *to)
    }

    /// True if that is not known, and may be asked now.
    pub(crate) fn may_ask(&self, now: Time, peer: u32, hop @ (link, to): Hop<'_>) -> bool {
        // Relays send on what is no longer than their cables take (decision 95).
        if !self.carries(link) || *to == LinkAddress::LOOPBACK || to.is_behind_relays() {
            return false;
        }
        self.unit(peer, hop).is_none_or(|unit| !unit.open && unit.retry_at <= now)
            && !self.asks.iter().any(|ask| (ask.peer, ask.link) == (peer, link))
    }

    /// Begins to ask. `nonce` is nobody else's.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        peer: u32,
        (link, to): (LinkIndex, LinkAddress),
        nonce: u64,
    ) {
        let full = self.paths.len() >= FURTHER_PATHS_MAX && !self.paths.contains_key(&(peer, link));
        if full || self.asks.len() >= LONG_QUESTIONS_MAX {
            return;
        }
        let new = || Unit { to, open: false, deep: false, since: now, retry_at: now, failures: 0 };
        let unit = self.paths.entry((peer, link)).or_insert_with(new);
        if unit.to != to {
            *unit = new();
        }
        self.asks.push_back(Ask { peer, link, nonce, next: now, tries: 0 });
    }

    /// The next question that is due: whom to ask, by which link and nonce. Those that nobody answered end.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<(u32, LinkIndex, u64)> {
        loop {
            let at = self.asks.iter().position(|ask| ask.next <= now)?;
            let ask = &mut self.asks[at];
            let (peer, link, nonce, tries) = (ask.peer, ask.link, ask.nonce, ask.tries);
            if tries >= ASK_TRIES {
                self.asks.remove(at);
                self.fail(now, peer, link);
                continue;
            }
            ask.next = now + Span(ASK_INTERVAL.0 << tries);
            ask.tries += 1;
            return Some((peer, link, nonce));
        }
    }

    /// A peer is asked no more by this link for now: nothing was found.
    pub(crate) fn abandon(&mut self, peer: u32, link: LinkIndex) {
        self.asks.retain(|ask| (ask.peer, ask.link) != (peer, link));
    }

    /// Peers that are asked.
    pub(crate) fn searches(&self) -> usize {
        self.asks.len()
    }

    /// When the next question is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.asks.iter().map(|ask| ask.next).min()
    }

    /// Long frames do not get through to a peer by this link any more, or did not.
    pub(crate) fn fail(&mut self, now: Time, peer: u32, link: LinkIndex) {
        let Some(unit) = self.paths.get_mut(&(peer, link)) else { return };
        if unit.open && now.since(unit.since) >= SOUND_AFTER {
            unit.failures = 0;
        }
        if unit.open {
            // It worked: a machine that is crowded for a while is no reason to do without for long.
            unit.failures = unit.failures.min(OPEN_FAILURES_MAX);
        }
        unit.open = false;
        unit.retry_at = now + Span(RETRY.0.0 << unit.failures.min(16)).min(RETRY.1);
        unit.failures += 1;
    }

    /// What failed before says nothing any more: the next train asks, and what is asked already is asked anew.
    pub(crate) fn forgive(&mut self, now: Time, peer: u32) {
        for ask in self.asks.iter_mut().filter(|ask| ask.peer == peer) {
            (ask.next, ask.tries) = (now, 0);
        }
        for link in set_bits(self.ever) {
            if let Some(unit) = self.paths.get_mut(&(peer, link)) {
                (unit.failures, unit.retry_at) = (0, unit.retry_at.min(now));
            }
        }
    }

    /// A question was answered by this word: with how many bytes it has arrived. False: there is no such question.
    pub(crate) fn answered(&mut self, now: Time, peer: u32, nonce: u64, word: u32) -> bool {
        let ReplyWord { arrived_bytes, room_for_many } = ReplyWord::parse(word);
        let at = self.asks.iter().position(|ask| (ask.peer, ask.nonce) == (peer, nonce));
        let Some(at) = at.filter(|_| usize::from(arrived_bytes) >= LONG_FRAME_BYTES) else {
            return false;
        };
        let Some(ask) = self.asks.remove(at) else { return false };
        if let Some(unit) = self.paths.get_mut(&(peer, ask.link)) {
            (unit.open, unit.since, unit.deep) = (true, now, room_for_many);
        }
        true
    }

    /// Everything about a peer is forgotten.
    pub(crate) fn forget(&mut self, peer: u32) {
        if set_bits(self.ever).filter(|link| self.paths.remove(&(peer, *link)).is_some()).count()
            > 0
        {
            self.asks.retain(|ask| ask.peer != peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkIndex = LinkIndex(1);

    fn hop() -> (LinkIndex, LinkAddress) {
        (LINK, LinkAddress::index(4))
    }

    fn is_open(longs: &Units, hop: Hop<'_>) -> bool {
        longs.unit(7, hop).is_some_and(|unit| unit.open)
    }

    fn open(longs: &mut Units, now: Time) {
        longs.ask(now, 7, hop(), 99);
        assert_eq!(longs.pop_due(now), Some((7, LINK, 99)));
        assert!(!longs.answered(now, 7, 98, LONG_FRAME_BYTES as u32), "nobody asked that");
        assert!(!longs.answered(now, 7, 99, 1_472), "it was cut short");
        assert!(longs.answered(now, 7, 99, LONG_FRAME_BYTES as u32));
    }

    /// `LONG-2`.
    #[test]
    fn a_path_opens_by_an_answer_and_closes_for_longer_and_longer() {
        let mut longs = Units::new(0b10, 0);
        let (link, to) = hop();
        let mut now = Time(5);
        assert!(!longs.may_ask(now, 7, (LinkIndex(0), &to)), "that link does not");
        for rest_ms in [200, 400, 800] {
            assert!(longs.may_ask(now, 7, (link, &to)) && !is_open(&longs, (link, &to)));
            open(&mut longs, now);
            assert!(is_open(&longs, (link, &to)) && !longs.may_ask(now, 7, (link, &to)));
            longs.fail(now, 7, LINK);
            assert!(!is_open(&longs, (link, &to)));
            assert!(!longs.may_ask(now + Span::ms(rest_ms - 1), 7, (link, &to)));
            now = now + Span::ms(rest_ms);
        }
        open(&mut longs, now);
        now = now + SOUND_AFTER;
        longs.fail(now, 7, LINK);
        assert!(longs.may_ask(now + RETRY.0, 7, (link, &to)), "it had been good");
    }

    /// However often a way that works is closed, it does not rest for longer than a second.
    #[test]
    fn a_way_that_works_does_not_rest_for_long() {
        let mut longs = Units::new(0b10, 0);
        let (link, to) = hop();
        let mut now = Time(5);
        for _ in 0..10 {
            open(&mut longs, now);
            longs.fail(now, 7, LINK);
            now = now + Span::ms(200 << OPEN_FAILURES_MAX);
            assert!(longs.may_ask(now, 7, (link, &to)));
        }
    }

    /// `HELLO-8`.
    #[test]
    fn who_holds_many_says_so_of_questions_that_arrived_whole() {
        let (deep, shallow) = (Units::new(0b11, 0b10), Units::new(0b11, 0));
        let whole = LONG_FRAME_BYTES as u32;
        assert_eq!(deep.answer(LINK, whole), whole | 1 << 16);
        assert_eq!(deep.answer(LINK, 1_472), 1_472);
        assert_eq!(deep.answer(LinkIndex(0), whole), whole);
        assert_eq!(shallow.answer(LINK, whole), whole);
        let mut longs = Units::new(0b10, 0);
        const DEEP: u32 = 1 << 16;
        for (word, opens, is_deep) in
            [(1_472 | DEEP, false, false), (whole | DEEP, true, true), (whole, true, false)]
        {
            longs.ask(Time(5), 7, hop(), 99);
            assert_eq!(longs.answered(Time(5), 7, 99, word), opens);
            let unit = longs.paths.get(&(7, LINK));
            assert_eq!(unit.map(|unit| unit.deep), Some(is_deep), "{word:x}");
        }
    }

    #[test]
    fn a_window_fits_six_long_frames_or_twelve() {
        let fit = |usual, deep| room_bytes(usual, true, deep) / LONG_FRAME_BYTES as u32;
        assert_eq!([fit(1_472, false), fit(1_472, true)], [6, 12]);
        // Where usual frames are longer, there was room for more.
        assert_eq!(fit(8_972, false), fit(8_972, true));
    }

    #[test]
    fn another_address_is_another_path() {
        let mut longs = Units::new(0b10, 0);
        open(&mut longs, Time(5));
        let moved = (LINK, &LinkAddress::index(5));
        assert!(!is_open(&longs, moved) && longs.may_ask(Time(5), 7, moved));
        longs.forget(7);
        assert!(!is_open(&longs, (LINK, &LinkAddress::index(4))));
    }

    /// Peers that are asked at a time are few, as each question is as long as the longest frame; others are asked after them.
    #[test]
    fn questions_at_a_time_are_bounded() {
        let mut longs = Units::new(0b10, 0);
        let (link, to) = hop();
        let peers = LONG_QUESTIONS_MAX as u32 + 3;
        for peer in 0..peers {
            longs.ask(Time(0), peer, hop(), peer.into());
        }
        assert_eq!(longs.asks.len(), LONG_QUESTIONS_MAX);
        let last = peers - 1;
        assert!(longs.may_ask(Time(0), last, (link, &to)));
        assert!(longs.answered(Time(0), 0, 0, LONG_FRAME_BYTES as u32));
        longs.ask(Time(0), last, hop(), 99);
        assert!(longs.answered(Time(0), last, 99, LONG_FRAME_BYTES as u32));
    }

    #[test]
    fn unanswered_questions_end() {
        let mut longs = Units::new(0b10, 0);
        let (link, to) = hop();
        longs.ask(Time(0), 7, hop(), 99);
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
