//! How much senders may send unasked (`CREDIT-4`): the receiver alone sees how many of them there are, so it divides what a port's queue takes among
//! those that send long messages now, and tells each its part when that has changed by a factor of two.
//!
//! One or two senders are told nothing as long as there is room for what they send: they have what their profiles and windows allow. What a sender
//! was told it forgets by itself after a while ([`GRANT_LASTS`]), so it is told again while it goes on and the port is still divided.

use alloc::vec::Vec;

use emp_wire::GRANT_UNBOUNDED as UNBOUNDED;
use hashbrown::HashMap;

use crate::limits::{GRANT_LASTS, GRANTED_MAX};
use crate::time::{Span, Time};

/// Time is counted in these: some round trips of a LAN, also with a queue of 400 µs before its port. Who began a long message in this one or
/// the last, or has one under way, counts.
const TERM: Span = Span::ms(1);

/// Terms after which a sender has forgotten what it was told.
const GRANT_TERMS: u32 = (GRANT_LASTS.0 / TERM.0) as u32;

/// So many senders have all of the room, as far as the pool has it: a switch's port buffers the windows of two.
const UNDIVIDED: u64 = 2;

/// No grant is less, in bytes: one frame of Ethernet's usual MTU, which says how long its message is.
const LEAST_BYTES: u64 = 2_048;

/// A sender of long messages.
#[derive(Clone, Copy)]
struct Sender {
    /// The term in which it was last active.
    active: u32,
    /// What it was told, and in which term.
    told: u32,
    told_in: u32,
}

/// What is granted to whom.
pub(super) struct Grants {
    senders: HashMap<u32, Sender>,
    /// Bytes that all together may send unasked, and those above which a sender of long messages needs no bound.
    room: u64,
    enough: u64,
    /// Bytes of the pool that longer messages than usual leave to others, and that usual ones have.
    spared: u64,
    usual: u64,
    term: u32,
    /// Senders that are active in this term or were in the last.
    active: u64,
    /// What those that are active were told together, at least.
    level: u32,
    /// Some sender was told of a bound.
    bounded: bool,
    /// To be told now.
    news: Vec<u32>,
}

impl Grants {
    /// Senders together may send `room` bytes unasked; `u64::MAX`: nobody is told anything. Of one message they send up to `usual` bytes, and no
    /// more than `enough`, of these only while more than `spared` bytes are free.
    pub(super) fn new(room: u64, (usual, enough): (u64, u64), spared: u64) -> Self {
        Self {
            senders: HashMap::new(),
            room,
            enough,
            spared,
            usual,
            term: 0,
            active: 0,
            level: UNBOUNDED,
            bounded: false,
            news: Vec::new(),
        }
    }

    /// Senders that are told apart.
    pub(super) fn len(&self) -> usize {
        self.senders.len()
    }

    /// A long message of this sender begins, or something of one came that cannot be taken yet. The pool has so many bytes `free`.
    #[inline(never)]
    pub(super) fn hear(&mut self, now: Time, peer: u32, free: u64) {
        if self.room == u64::MAX {
            return;
        }
        self.turn(now);
        let term = self.term;
        if self.senders.len() >= GRANTED_MAX && !self.senders.contains_key(&peer) {
            // It is one of too many to be told apart.
            self.news.push(peer);
            return;
        }
        let fresh = || Sender { active: term.wrapping_sub(2), told: UNBOUNDED, told_in: term };
        let sender = self.senders.entry(peer).or_insert_with(fresh);
        self.active += u64::from(!sender.is_active(term));
        sender.active = term;
        let (told, told_in) = (sender.told, sender.told_in);
        let grant = self.grant(free);
        // More is told with what leaves next. Where acknowledgements ride on answers nothing else tells it again in time.
        let fades = told != UNBOUNDED && term.wrapping_sub(told_in) > GRANT_TERMS / 2;
        if grant <= told / 2 || fades {
            self.news.push(peer);
        }
        if grant <= self.level / 2 {
            // More than those knew of that were told before.
            self.level = grant;
            let late = |(other, sender): (&u32, &Sender)| {
                (*other != peer && sender.is_active(term) && sender.told / 2 >= grant)
                    .then_some(*other)
            };
            self.news.extend(self.senders.iter().filter_map(late));
            // Where they stand in the table is chance.
            self.news.sort_unstable();
        } else if grant / 2 >= self.level {
            self.level = grant;
        }
    }

    /// Those that are to be told now.
    #[inline]
    pub(super) fn take_news(&mut self) -> Option<u32> {
        self.news.pop()
    }

    /// Some sender was told of a bound, which may be another by now.
    #[inline]
    pub(super) const fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// What an acknowledgement that leaves for this sender is to tell; it `goes_on` if a long message of it is under way. With `asked` it is told in any
    /// case, else if it has changed or was told long ago.
    #[inline(never)]
    pub(super) fn tell(
        &mut self,
        now: Time,
        peer: u32,
        (goes_on, asked): (bool, bool),
        free: u64,
    ) -> Option<u32> {
        self.turn(now);
        let term = self.term;
        if let Some(sender) = self.senders.get_mut(&peer).filter(|_| goes_on) {
            self.active += u64::from(!sender.is_active(term));
            sender.active = term;
        }
        let grant = self.grant(free);
        let Some(sender) = self.senders.get_mut(&peer) else { return asked.then_some(grant) };
        let again = sender.told != UNBOUNDED && sender.told_in != term;
        if !(asked || again || is_news(sender.told, grant)) {
            return None;
        }
        (sender.told, sender.told_in) = (grant, term);
        self.bounded |= grant != UNBOUNDED;
        Some(grant)
    }

    /// A peer is given up.
    pub(super) fn forget(&mut self, peer: u32) {
        let gone = self.senders.remove(&peer);
        self.active -= u64::from(gone.is_some_and(|sender| sender.is_active(self.term)));
        self.news.retain(|other| *other != peer);
    }

    /// What each sender may send unasked of a message, with so many bytes `free` in the pool.
    fn grant(&self, free: u64) -> u32 {
        let senders = self.active.max(1);
        let long = free.saturating_sub(self.spared) / senders;
        let pool = long.max((free / 2 / senders).min(self.usual));
        let port = if senders > UNDIVIDED { self.room / senders } else { u64::MAX };
        let grant = pool.min(port);
        if grant >= self.enough { UNBOUNDED } else { grant.max(LEAST_BYTES) as u32 }
    }

    /// What time it is: forgets who has not been active, and does not heed what it was told any more.
    #[inline]
    fn turn(&mut self, now: Time) {
        let term = (now.0 / TERM.0) as u32;
        if term != self.term {
            self.term = term;
            self.sweep();
        }
    }

    #[inline(never)]
    fn sweep(&mut self) {
        let Self { senders, term, .. } = self;
        let heeds = |sender: &Sender| {
            sender.told != UNBOUNDED && term.wrapping_sub(sender.told_in) <= GRANT_TERMS
        };
        senders.retain(|_, sender| sender.is_active(*term) || heeds(sender));
        let active = |sender: &&Sender| sender.is_active(*term);
        self.active = senders.values().filter(active).count() as u64;
        self.bounded = senders.values().any(|sender| sender.told != UNBOUNDED);
        if !self.bounded {
            self.level = UNBOUNDED;
        }
    }
}

impl Sender {
    const fn is_active(&self, term: u32) -> bool {
        term.wrapping_sub(self.active) <= 1
    }
}

/// It has changed so much that a sender is told.
const fn is_news(told: u32, grant: u32) -> bool {
    grant <= told / 2 || grant / 2 >= told
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 512 << 10;
    const FREE: u64 = 4 << 20;

    fn grants() -> Grants {
        Grants::new(ROOM, (64 << 10, 512 << 10), FREE / 2)
    }

    fn news(grants: &mut Grants) -> Vec<u32> {
        let mut news: Vec<u32> = core::iter::from_fn(|| grants.take_news()).collect();
        news.sort_unstable();
        news
    }

    /// All that are to be told are.
    fn tell(grants: &mut Grants, now: Time) -> Vec<(u32, u32)> {
        let told = news(grants).into_iter();
        let tell = |peer| (peer, grants.tell(now, peer, (true, true), FREE).expect("it is asked"));
        told.map(tell).collect()
    }

    #[test]
    fn one_or_two_senders_are_told_nothing() {
        let mut grants = grants();
        for i in 0..100 {
            grants.hear(Time(i * 50_000), (i % 2) as u32, FREE);
            assert_eq!(news(&mut grants), []);
        }
        assert!(!grants.is_bounded());
    }

    /// Each sender more makes the part smaller, and all are told each time that it has halved: twice each, at most.
    #[test]
    fn the_room_is_divided_among_those_that_send() {
        let (mut grants, mut count) = (grants(), 0);
        let mut last = [UNBOUNDED; 256];
        for peer in 0..256 {
            grants.hear(Time(5), peer, FREE);
            let told = tell(&mut grants, Time(5));
            told.iter().for_each(|(peer, grant)| last[*peer as usize] = *grant);
            count += told.len();
            let active = u64::from(peer) + 1;
            if active > UNDIVIDED {
                let sum: u64 = last[..active as usize].iter().map(|x| u64::from(*x)).sum();
                assert!(sum < 2 * ROOM + active * 2, "{active} senders may send {sum} bytes");
            }
        }
        assert!(last.iter().all(|grant| u64::from(*grant) < 3 * LEAST_BYTES), "{last:?}");
        assert!(count <= 3 * 256, "told {count} times");
    }

    /// The others have gone: who is left is told so with the next acknowledgement.
    #[test]
    fn who_is_left_has_it_all_again() {
        let mut grants = grants();
        (0..16).for_each(|peer| grants.hear(Time(0), peer, FREE));
        tell(&mut grants, Time(0));
        let then = Time(0) + TERM;
        assert_eq!(grants.tell(then, 3, (true, false), FREE), Some(32 << 10), "said again");
        assert_eq!(grants.tell(then, 3, (true, false), FREE), None, "once a term");
        let then = then + TERM;
        assert_eq!(grants.tell(then, 3, (true, false), FREE), Some(UNBOUNDED));
        assert_eq!(grants.tell(then + TERM, 3, (true, false), FREE), None);
        // What the others were told is forgotten when they have forgotten it.
        grants.hear(then + GRANT_LASTS + TERM, 3, FREE);
        assert_eq!(grants.senders.len(), 1);
        assert!(!grants.is_bounded());
    }

    /// A message that takes long is one that is sent now.
    #[test]
    fn who_goes_on_counts() {
        let mut grants = grants();
        (0..4).for_each(|peer| grants.hear(Time(0), peer, FREE));
        tell(&mut grants, Time(0));
        for term in 1..20 {
            let now = Time(term * TERM.0);
            for peer in 0..4 {
                assert_eq!(grants.tell(now, peer, (true, false), FREE), Some(128 << 10));
            }
        }
    }

    #[test]
    fn a_pool_that_fills_bounds_even_one() {
        let mut grants = grants();
        grants.hear(Time(0), 7, 3 << 20);
        assert_eq!(news(&mut grants), []);
        grants.hear(Time(0), 7, 9 << 18);
        assert_eq!(news(&mut grants), [7]);
        assert_eq!(grants.tell(Time(0), 7, (true, true), 9 << 18), Some(256 << 10));
        assert_eq!(grants.tell(Time(0), 7, (true, true), 1 << 20), Some(64 << 10));
        grants.hear(Time(0), 7, 1 << 16);
        assert_eq!(tell(&mut grants, Time(0)), [(7, UNBOUNDED)]);
        grants.hear(Time(0), 7, 0);
        assert_eq!(news(&mut grants), [7]);
        assert_eq!(grants.tell(Time(0), 7, (true, true), 0), Some(LEAST_BYTES as u32));
    }

    /// However many there are, no more are noted; those beyond are told each time.
    #[test]
    fn those_that_are_noted_are_bounded() {
        let mut grants = grants();
        for peer in 0..GRANTED_MAX as u32 + 10 {
            grants.hear(Time(0), peer, FREE);
        }
        tell(&mut grants, Time(0));
        assert_eq!(grants.senders.len(), GRANTED_MAX);
        grants.hear(Time(0), GRANTED_MAX as u32, FREE);
        assert_eq!(tell(&mut grants, Time(0)), [(GRANTED_MAX as u32, LEAST_BYTES as u32)]);
        grants.forget(5);
        assert_eq!(grants.senders.len(), GRANTED_MAX - 1);
    }

    #[test]
    fn a_profile_without_credit_tells_nobody() {
        let mut grants = Grants::new(u64::MAX, (0, 0), 0);
        (0..100).for_each(|peer| grants.hear(Time(0), peer, 0));
        assert_eq!(news(&mut grants), []);
        assert!(!grants.is_bounded() && grants.senders.is_empty());
    }
}
