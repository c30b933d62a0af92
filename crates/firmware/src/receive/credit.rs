//! Whose turn it is to be asked for more (`CREDIT-1` to `CREDIT-3`): of each sender the message of which least is left, of all senders a few
//! whose is shortest, now and then the oldest; and not of one that does not answer.
//!
//! What is asked for and is not here fills the port's queue on the way, so it is bounded over all senders. Shortest first ends most
//! messages soonest; several senders at once, because one of them may be busy with others; one message of a sender, as all of its
//! messages come by one wire.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::time::{Span, Time};

/// Senders that are asked at a time: one alone may be slow, and then the port is idle. Of more the windows decide what each has of the port, and
/// those stay unequal for seconds; those that are not asked get their turn when one of these is through.
const ASKED_MAX: usize = 4;

/// Parts of what may be under way, at most, of which a sender has one: twice as many as are asked, as what was asked of those before them is still
/// on its way.
const PARTS_MAX: usize = 8;

/// One block of so many goes to what has waited longest (5 %): short messages that go on coming would keep a long one waiting for ever.
const OLDEST_EVERY: u32 = 20;

/// A sender of which nothing that was asked for has come for so long does not answer, and what it owes keeps nobody else waiting: several
/// round trips of a LAN, and as long as a whole block of 300 KB takes at 1 Gb/s.
const SILENCE: Span = Span::ms(2);

/// A message or get, by how much of it has not been asked for, and when it came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place<K> {
    /// What came unasked counts as well: else messages of which little did, as their sender was granted little, would wait for all others of
    /// their length.
    unasked: u64,
    age: u64,
    key: K,
    /// What is left to ask for.
    left: u64,
}

/// What is asked of one sender.
struct Sender<K> {
    /// What of it is left to ask for, and the same by age.
    wants: BTreeSet<Place<K>>,
    ages: BTreeSet<(u64, K)>,
    /// Bytes under way, and blocks.
    out: u64,
    blocks: usize,
    /// When it was asked while nothing was under way, or last sent some of it.
    heard: Time,
    silent: bool,
}

/// Whose turn it is. `K` names a message or get.
pub(super) struct Credit<K> {
    now: Time,
    senders: HashMap<u32, Sender<K>>,
    /// The first want of each sender that answers, and its oldest. What those have that do not answer is in neither, however much.
    heads: BTreeSet<(Place<K>, u32)>,
    elders: BTreeSet<(u64, u32, K)>,
    places: HashMap<K, (u32, Place<K>)>,
    next_age: u64,
    /// Blocks asked for.
    asked: u32,
    /// Bytes under way, which count against the bound (`CREDIT-2`), of senders that answer; and of others, which do not count.
    out: u64,
    silent: u64,
    /// No sender that answers will have been silent for too long before that.
    look_at: Time,
    /// When a sender may have to be given up.
    due: Option<Time>,
    /// One that had been given up has answered.
    answered_again: bool,
}

impl<K: Copy + Ord + core::hash::Hash> Credit<K> {
    pub(super) fn new() -> Self {
        Self {
            now: Time(0),
            senders: HashMap::new(),
            heads: BTreeSet::new(),
            elders: BTreeSet::new(),
            places: HashMap::new(),
            next_age: 0,
            asked: 0,
            out: 0,
            silent: 0,
            look_at: Time::NEVER,
            due: None,
            answered_again: false,
        }
    }

    /// What time it is.
    #[inline]
    pub(super) fn set_time(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// The latest time that was said.
    pub(super) const fn now(&self) -> Time {
        self.now
    }

    /// Bytes that were asked for and are not here.
    pub(super) const fn out(&self) -> u64 {
        self.out + self.silent
    }

    /// So many bytes may be asked for now, if `most` may be under way. A block may always be, if nothing else is.
    pub(super) const fn has_room(&self, bytes: u64, most: u64) -> bool {
        self.out == 0 || self.out + bytes <= most
    }

    /// So much of a message of this sender is to be asked for, when its turn comes; so many bytes before it need not.
    pub(super) fn want(&mut self, peer: u32, key: K, (before, left): (u64, u64)) {
        let (age, before) = match self.places.get(&key) {
            Some((_, place)) => (place.age, place.unasked - place.left),
            None => (self.next_age, before),
        };
        self.next_age += u64::from(age == self.next_age);
        self.put(peer, Place { unasked: before.saturating_add(left), age, key, left });
    }

    fn put(&mut self, peer: u32, place: Place<K>) {
        let Place { age, key, left, .. } = place;
        self.forget(key);
        if left == 0 {
            return;
        }
        let now = self.now;
        self.unlist(peer);
        let sender = self.senders.entry(peer).or_insert_with(|| Sender {
            wants: BTreeSet::new(),
            ages: BTreeSet::new(),
            out: 0,
            blocks: 0,
            heard: now,
            silent: false,
        });
        sender.wants.insert(place);
        sender.ages.insert((age, key));
        self.places.insert(key, (peer, place));
        self.list(peer);
    }

    /// Nothing more is to be asked for of it.
    pub(super) fn forget(&mut self, key: K) {
        let Some((peer, place)) = self.places.remove(&key) else { return };
        self.unlist(peer);
        if let Some(sender) = self.senders.get_mut(&peer) {
            sender.wants.remove(&place);
            sender.ages.remove(&(place.age, key));
        }
        self.list(peer);
        self.settle(peer);
    }

    /// What comes first of a sender that answers may have its turn.
    fn list(&mut self, peer: u32) {
        let Some(sender) = self.senders.get(&peer).filter(|sender| !sender.silent) else { return };
        if let (Some(head), Some((age, key))) = (sender.wants.first(), sender.ages.first()) {
            self.heads.insert((*head, peer));
            self.elders.insert((*age, peer, *key));
        }
    }

    /// Nothing of a sender has, until it is listed again.
    fn unlist(&mut self, peer: u32) {
        let Some(sender) = self.senders.get(&peer) else { return };
        if let (Some(head), Some((age, key))) = (sender.wants.first(), sender.ages.first()) {
            self.heads.remove(&(*head, peer));
            self.elders.remove(&(*age, peer, *key));
        }
    }

    /// Those that may be asked for a block now, in turn.
    pub(super) fn turns(&self) -> impl Iterator<Item = K> + '_ {
        let oldest = self.asked % OLDEST_EVERY == OLDEST_EVERY - 1;
        let oldest = self.elders.first().filter(|_| oldest);
        let heads = self.heads.iter().take(ASKED_MAX).map(|(place, _)| place.key);
        oldest.map(|(.., key)| *key).into_iter().chain(heads)
    }

    /// A block of so many bytes is asked for.
    pub(super) fn ask(&mut self, key: K, bytes: u64) {
        let Some(&(peer, place)) = self.places.get(&key) else { return };
        self.asked = self.asked.wrapping_add(1);
        if let Some(sender) = self.senders.get_mut(&peer) {
            if sender.out == 0 {
                sender.heard = self.now;
                self.look_at = self.look_at.min(self.now + SILENCE);
            }
            sender.out += bytes;
            sender.blocks += 1;
            *if sender.silent { &mut self.silent } else { &mut self.out } += bytes;
        }
        let (unasked, left) =
            (place.unasked.saturating_sub(bytes), place.left.saturating_sub(bytes));
        self.put(peer, Place { unasked, left, ..place });
    }

    /// Something that was asked for comes.
    #[inline]
    pub(super) fn hear(&mut self, peer: u32) {
        let Some(sender) = self.senders.get_mut(&peer) else { return };
        sender.heard = self.now;
        if core::mem::take(&mut sender.silent) {
            self.silent -= sender.out;
            self.out += sender.out;
            self.look_at = self.look_at.min(self.now + SILENCE);
            self.list(peer);
            self.answered_again = true;
        }
    }

    /// True once after a sender answered that was not counted on any more.
    #[inline]
    pub(super) const fn is_answered_again(&mut self) -> bool {
        core::mem::replace(&mut self.answered_again, false)
    }

    /// How much a sender may have under way of so much, and has, with the blocks that this is: of several each a part.
    pub(super) fn share(&self, peer: u32, most: u64) -> (u64, u64, usize) {
        let parts = self.heads.len().clamp(1, PARTS_MAX) as u64;
        let sender = self.senders.get(&peer);
        let (out, blocks) = sender.map_or((0, 0), |sender| (sender.out, sender.blocks));
        (most / parts, out, blocks)
    }

    /// Blocks that this sender was asked for, and that are not wholly here.
    pub(super) fn blocks(&self, peer: u32) -> usize {
        self.senders.get(&peer).map_or(0, |sender| sender.blocks)
    }

    /// A block of so many bytes of this sender is here, or will not be.
    pub(super) fn end(&mut self, peer: u32, bytes: u64) {
        let Some(sender) = self.senders.get_mut(&peer) else { return };
        sender.out -= bytes;
        sender.blocks -= 1;
        *if sender.silent { &mut self.silent } else { &mut self.out } -= bytes;
        // Who owes nothing any more is as good as any: nothing else would be heard of it before it is asked.
        if sender.out == 0 && core::mem::take(&mut sender.silent) {
            self.list(peer);
            self.answered_again = true;
        }
        self.settle(peer);
    }

    /// Senders of which something that was asked for is not here.
    pub(super) fn asked_peers(&self) -> impl Iterator<Item = u32> + '_ {
        self.senders.iter().filter(|(_, sender)| sender.out > 0).map(|(peer, _)| *peer)
    }

    /// Nothing is to be had of a sender any more, and nothing is under way.
    fn settle(&mut self, peer: u32) {
        let idle = |sender: &Sender<K>| sender.wants.is_empty() && sender.out == 0;
        if self.senders.get(&peer).is_some_and(idle) {
            self.senders.remove(&peer);
        }
    }

    /// Takes back what senders were asked for that do not answer. True if there are such.
    pub(super) fn take_back(&mut self) -> bool {
        // Who was heard meanwhile is silent later: all are looked at once in that time, and not with each block.
        if self.now < self.look_at {
            return false;
        }
        let counted = |sender: &&Sender<K>| !sender.silent && sender.out > 0;
        let late = |sender: &Sender<K>| self.now.since(sender.heard) >= SILENCE;
        let all = || self.senders.iter().filter(|(_, sender)| counted(sender));
        let gone: Vec<u32> =
            all().filter(|(_, sender)| late(sender)).map(|(peer, _)| *peer).collect();
        let next = all().filter(|(_, sender)| !late(sender)).map(|(_, sender)| sender.heard).min();
        self.look_at = next.map_or(Time::NEVER, |heard| heard + SILENCE);
        for peer in &gone {
            self.unlist(*peer);
            let Some(sender) = self.senders.get_mut(peer) else { continue };
            sender.silent = true;
            self.out -= sender.out;
            self.silent += sender.out;
        }
        !gone.is_empty()
    }

    /// All that could be asked for is: notes when the next sender may not have answered for too long, if somebody waits for what it has.
    pub(super) fn look_later(&mut self) {
        let waits = !self.heads.is_empty() && self.look_at != Time::NEVER;
        self.due = waits.then_some(self.look_at);
        // Who answered again has had its turn by this, however many of its frames came at once.
        self.answered_again = false;
    }

    /// When that is to be looked at.
    #[inline]
    pub(super) const fn due(&self) -> Option<Time> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 100;

    fn turns(credit: &Credit<u32>) -> Vec<u32> {
        credit.turns().collect()
    }

    #[test]
    fn of_each_sender_the_shortest_and_of_all_the_four_shortest() {
        let mut credit = Credit::new();
        for peer in 0..10 {
            credit.want(peer, 100 + peer, (0, 1_000 - u64::from(peer)));
            credit.want(peer, 200 + peer, (0, 2_000));
        }
        assert_eq!(turns(&credit), [109, 108, 107, 106]);
        // What comes later and is shorter has its turn first.
        credit.want(4, 300, (0, 10));
        assert_eq!(turns(&credit), [300, 109, 108, 107]);
        credit.forget(300);
        assert_eq!(turns(&credit), [109, 108, 107, 106]);
    }

    #[test]
    fn now_and_then_the_oldest_is_asked_for() {
        let mut credit = Credit::new();
        credit.want(1, 1, (0, 1_000_000));
        let mut old = 0;
        for i in 0..200 {
            credit.want(1, 10 + i, (0, BLOCK));
            let key = turns(&credit)[0];
            old += u32::from(key == 1);
            credit.ask(key, BLOCK);
            credit.end(1, BLOCK);
        }
        assert_eq!(old, 200 / OLDEST_EVERY);
    }

    #[test]
    fn who_does_not_answer_keeps_nobody_waiting() {
        let mut credit = Credit::new();
        credit.want(1, 1, (0, 10 * BLOCK));
        credit.want(2, 2, (0, 20 * BLOCK));
        credit.ask(1, 3 * BLOCK);
        credit.ask(2, BLOCK);
        assert!(!credit.has_room(1, 4 * BLOCK));
        credit.look_later();
        assert_eq!(credit.due(), Some(Time(0) + SILENCE));
        credit.set_time(Time(SILENCE.0 - 1));
        credit.hear(2);
        assert!(!credit.is_answered_again());
        credit.set_time(Time(SILENCE.0));
        assert!(credit.take_back() && !credit.take_back());
        assert!(credit.has_room(3 * BLOCK, 4 * BLOCK));
        assert_eq!((turns(&credit), credit.out()), (alloc::vec![2], 4 * BLOCK));
        // It speaks: what it owes counts again, and it has its turn.
        credit.hear(1);
        assert!(credit.is_answered_again());
        assert!(!credit.has_room(1, 4 * BLOCK));
        assert_eq!(turns(&credit), [1, 2]);
        credit.end(1, 3 * BLOCK);
        assert_eq!(credit.out(), BLOCK);
    }

    /// Of messages of one length the first is asked for first, however much of each came unasked.
    #[test]
    fn what_came_unasked_makes_none_shorter() {
        let mut credit = Credit::new();
        credit.want(1, 1, (0, 10 * BLOCK));
        credit.want(2, 2, (BLOCK, 9 * BLOCK));
        assert_eq!(turns(&credit), [1, 2]);
        credit.ask(2, BLOCK);
        assert_eq!(turns(&credit), [2, 1]);
        credit.want(2, 2, (7 * BLOCK, 8 * BLOCK));
        assert_eq!(turns(&credit), [2, 1]);
        credit.ask(1, 2 * BLOCK);
        assert_eq!(turns(&credit), [1, 2]);
    }

    /// What it did not send was given up, and is not to come any more: another message of it has its turn.
    #[test]
    fn who_owes_nothing_any_more_is_asked_again() {
        let mut credit = Credit::new();
        credit.want(1, 1, (0, BLOCK));
        credit.want(1, 2, (0, 2 * BLOCK));
        credit.ask(1, BLOCK);
        credit.set_time(Time(SILENCE.0));
        assert!(credit.take_back());
        assert_eq!(turns(&credit), []);
        assert!(!credit.is_answered_again());
        credit.end(1, BLOCK);
        assert!(credit.is_answered_again(), "who waits for a turn has to look");
        assert_eq!(turns(&credit), [2]);
        assert!(credit.has_room(BLOCK, BLOCK));
    }

    /// That it is asked for more is no sign of life.
    #[test]
    fn who_is_asked_again_has_not_answered() {
        let mut credit = Credit::new();
        credit.want(1, 1, (0, 10 * BLOCK));
        credit.ask(1, BLOCK);
        credit.set_time(Time(SILENCE.0 - 1));
        credit.ask(1, BLOCK);
        assert!(!credit.take_back());
        credit.set_time(Time(SILENCE.0));
        assert!(credit.take_back());
    }

    #[test]
    fn several_senders_have_a_part_each() {
        let mut credit = Credit::new();
        for peer in 0..12 {
            let parts = u64::from(peer).clamp(1, PARTS_MAX as u64);
            assert_eq!(credit.share(0, 800), (800 / parts, 0, 0));
            credit.want(peer, peer, (0, 10 * BLOCK));
        }
        credit.ask(0, BLOCK);
        assert_eq!(credit.share(0, 800), (100, BLOCK, 1));
    }

    /// What is wanted anew, as more of it is known, keeps its age.
    #[test]
    fn what_is_wanted_anew_is_no_younger() {
        let mut credit = Credit::new();
        credit.want(1, 1, (0, 1_000_000));
        credit.want(2, 2, (0, 1_000_000));
        credit.want(1, 1, (0, 2_000_000));
        credit.want(3, 3, (0, u64::MAX));
        for _ in 1..OLDEST_EVERY {
            credit.ask(3, 1);
        }
        assert_eq!(turns(&credit)[0], 1);
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let mut credit = Credit::new();
        credit.want(1, 1, (0, BLOCK));
        credit.want(1, 2, (0, 2 * BLOCK));
        credit.ask(1, BLOCK);
        assert_eq!(turns(&credit), [2]);
        credit.forget(2);
        credit.end(1, BLOCK);
        credit.look_later();
        assert!(credit.senders.is_empty() && credit.places.is_empty());
        assert!(credit.heads.is_empty() && credit.elders.is_empty());
        assert_eq!((credit.out(), credit.due()), (0, None));
    }
}
