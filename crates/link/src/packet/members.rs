//! Who is a member of an interface's group, and at which index: what all nodes of the interface share in one small file.
//!
//! The kernel appends a socket that joins and, when one leaves or its process ends, puts the last in its place. So indices
//! are known as long as departures are: one that announces itself is, one by a crash is found by its lock. Should the table be
//! wrong all the same (two crashed at once, or the interface was down and the kernel has made the group anew), frames reach
//! the wrong member; the one that gets them then knows where it is, and says so ([`Members::seen_by`]).

use super::demux::MEMBERS_MAX;

/// One member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Member {
    /// Its own number in the file: where its lock is. Given anew when it is free.
    pub(super) slot: u16,
    /// Destination tag of its node; [`TAG_ANY`](crate::TAG_ANY): it takes what is nobody else's.
    pub(super) tag: u16,
    /// Its place among the group's sockets.
    pub(super) index: u16,
}

/// The table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Members {
    /// The kernel's number of the group.
    pub(super) group: u16,
    /// Counts changes, so that it can be told whether a frame came by the present table.
    pub(super) generation: u32,
    list: Vec<Member>,
}

/// First bytes of the file, and the version of its layout, which its name has too ([`Table`](super::table::Table)): nodes of different
/// versions have a table and a group each.
const MAGIC: [u8; 4] = *b"EMP3";
const HEAD_BYTES: usize = 16;
/// Where the checksum is, in four bytes.
const SUM_AT: usize = 12;
const MEMBER_BYTES: usize = 6;

/// Bytes of the longest file.
pub(super) const FILE_BYTES_MAX: usize = HEAD_BYTES + MEMBERS_MAX * MEMBER_BYTES;

impl Members {
    /// Reads a file. What is not one of this version, or makes no sense, is an empty table: its members, if there are any,
    /// have a group of another number.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self::checked(bytes).unwrap_or_default()
    }

    fn checked(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let count = usize::from(half(6));
        let whole = &bytes[..bytes.len().min(HEAD_BYTES + count * MEMBER_BYTES)];
        let sum = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
        if head[..4] != MAGIC
            || sum != checksum(whole)
            || count > MEMBERS_MAX
            || rest.len() < count * MEMBER_BYTES
        {
            return None;
        }
        let generation = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let mut found = Self { group: half(4), generation, list: Vec::with_capacity(count) };
        for member in rest.chunks_exact(MEMBER_BYTES).take(count) {
            let half = |at: usize| u16::from_be_bytes([member[at], member[at + 1]]);
            let member = Member { slot: half(0), tag: half(2), index: half(4) };
            let known = |other: &Member| {
                other.slot == member.slot || other.tag == member.tag || other.index == member.index
            };
            let sound = usize::from(member.slot) < MEMBERS_MAX && usize::from(member.index) < count;
            if !sound || found.list.iter().any(known) {
                return None;
            }
            found.list.push(member);
        }
        Some(found)
    }

    /// The file's bytes.
    pub(super) fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.list.len() * MEMBER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(self.group.to_be_bytes());
        bytes.extend((self.list.len() as u16).to_be_bytes());
        bytes.extend(self.generation.to_be_bytes());
        bytes.extend([0; 4]);
        for member in &self.list {
            bytes.extend(member.slot.to_be_bytes());
            bytes.extend(member.tag.to_be_bytes());
            bytes.extend(member.index.to_be_bytes());
        }
        let sum = checksum(&bytes);
        bytes[SUM_AT..SUM_AT + 4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    pub(super) fn list(&self) -> &[Member] {
        &self.list
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// For [`demux::program`](super::demux::program).
    pub(super) fn by_tag(&self) -> Vec<(u16, u16)> {
        let mut pairs: Vec<_> = self.list.iter().map(|member| (member.tag, member.index)).collect();
        pairs.sort_unstable();
        pairs
    }

    /// Slots for one more. Empty: the group is full, or another member has this tag already.
    pub(super) fn places_for(&self, tag: u16) -> impl Iterator<Item = u16> {
        let taken = self.list.iter().any(|member| member.tag == tag);
        let room = if taken { 0 } else { MEMBERS_MAX as u16 };
        let is_free = |slot: &u16| self.list.iter().all(|member| member.slot != *slot);
        (0..room).filter(is_free)
    }

    /// Whether a node is a member by this table, in the kernel's group of this number.
    pub(super) fn knows(&self, group: u16, slot: u16, tag: u16) -> bool {
        let is_it = |member: &Member| (member.slot, member.tag) == (slot, tag);
        self.group == group && self.list.iter().any(is_it)
    }

    /// A socket has joined.
    pub(super) fn join(&mut self, slot: u16, tag: u16) {
        let index = self.list.len() as u16;
        self.list.push(Member { slot, tag, index });
        self.generation = self.generation.wrapping_add(1);
    }

    /// A socket leaves, or has left: the last takes its place.
    pub(super) fn leave(&mut self, slot: u16) {
        let Some(at) = self.list.iter().position(|member| member.slot == slot) else { return };
        let gone = self.list.remove(at);
        let last = self.list.len() as u16;
        if let Some(moved) = self.list.iter_mut().find(|member| member.index == last) {
            moved.index = gone.index;
        }
        self.generation = self.generation.wrapping_add(1);
    }

    /// The member at `slot` was handed a frame with `tag`, by this table: so it is at the index where that tag's node was
    /// thought to be. Where that is now nobody knows; the two change places, and what is still wrong then will be seen in
    /// turn. Each time one member more is right for good. False: no other member has the tag.
    pub(super) fn seen_by(&mut self, slot: u16, tag: u16) -> bool {
        let find = |f: &dyn Fn(&Member) -> bool| self.list.iter().position(f);
        let (Some(here), Some(there)) =
            (find(&|member| member.slot == slot), find(&|member| member.tag == tag))
        else {
            return false;
        };
        if here == there {
            return false;
        }
        let (mine, its) = (self.list[here].index, self.list[there].index);
        (self.list[here].index, self.list[there].index) = (its, mine);
        self.generation = self.generation.wrapping_add(1);
        true
    }
}

/// Of a file whose place for it counts as zeros (FNV-1a): against what other programs write there, not against forgers, who could as well
/// send frames.
fn checksum(bytes: &[u8]) -> u32 {
    let counted = |(at, byte): (usize, &u8)| {
        if (SUM_AT..SUM_AT + 4).contains(&at) { 0 } else { u32::from(*byte) }
    };
    let step = |sum: u32, byte: u32| (sum ^ byte).wrapping_mul(0x0100_0193);
    bytes.iter().enumerate().map(counted).fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The kernel's list of a group: sockets by slot, in the order of their indices.
    #[derive(Default)]
    struct Kernel(Vec<u16>);

    impl Kernel {
        fn leave(&mut self, slot: u16) {
            let at = self.0.iter().position(|member| *member == slot).expect("it is a member");
            self.0.swap_remove(at);
        }

        /// Who is handed a frame with this tag.
        fn picks(&self, members: &Members, tag: u16) -> u16 {
            let found = members.by_tag().into_iter().find(|(of, _)| *of == tag);
            let (_, index) = found.expect("it is a member's");
            self.0[usize::from(index) % self.0.len()]
        }
    }

    fn tag_of(slot: u16) -> u16 {
        slot * 31 + 7
    }

    #[derive(Clone, Debug)]
    enum Event {
        Join,
        Leave(usize),
        Crash(usize, usize),
        Remade,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            4 => Just(Event::Join),
            2 => any::<usize>().prop_map(Event::Leave),
            2 => any::<(usize, usize)>().prop_map(|(a, b)| Event::Crash(a, b)),
            1 => Just(Event::Remade),
        ]
    }

    proptest! {
        /// Whatever happens to the group: departures that are announced misdirect nothing, and after others each misdirected
        /// frame mends the table for good, so that there are no more of them than members.
        #[test]
        fn frames_find_their_member_again(events in prop::collection::vec(event(), 1..40)) {
            let (mut members, mut kernel, mut made) = (Members::default(), Kernel::default(), Vec::new());
            for event in events {
                let surprise = matches!(event, Event::Crash(..) | Event::Remade);
                match event {
                    Event::Join => {
                        let slot = (0..).find(|slot| !made.contains(slot)).expect("few have joined");
                        members.join(slot, tag_of(slot));
                        kernel.0.push(slot);
                        made.push(slot);
                    }
                    Event::Leave(which) if !made.is_empty() => {
                        let slot = made.remove(which % made.len());
                        members.leave(slot);
                        kernel.leave(slot);
                    }
                    Event::Crash(a, b) if made.len() > 2 => {
                        // Two at once; the table hears of them in the other order than the kernel.
                        let first = made.remove(a % made.len());
                        let second = made.remove(b % made.len());
                        kernel.leave(first);
                        kernel.leave(second);
                        members.leave(second);
                        members.leave(first);
                    }
                    Event::Remade => kernel.0.clone_from(&made),
                    _ => {}
                }
                let mut misdirected = 0;
                for slot in made.clone() {
                    while kernel.picks(&members, tag_of(slot)) != slot {
                        let receiver = kernel.picks(&members, tag_of(slot));
                        prop_assert!(members.seen_by(receiver, tag_of(slot)));
                        misdirected += 1;
                        prop_assert!(misdirected <= made.len(), "it ends");
                    }
                }
                prop_assert!(surprise || misdirected == 0, "{misdirected} after an announced event");
                prop_assert_eq!(Members::parse(&members.emit()), members.clone());
            }
        }

        #[test]
        fn no_bytes_are_taken_for_more_than_they_are(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let parsed = Members::parse(&bytes);
            prop_assert!(parsed.len() <= MEMBERS_MAX);
            let mut named = MAGIC.to_vec();
            named.extend(bytes);
            let parsed = Members::parse(&named);
            prop_assert!(parsed.by_tag().windows(2).all(|pair| pair[0].0 < pair[1].0));
            prop_assert!(parsed.list().iter().all(|member| usize::from(member.index) < parsed.len()));
        }
    }

    /// What another program writes into the file is no table, wherever in it that is.
    #[test]
    fn a_changed_byte_is_noticed() {
        let mut members = Members { group: 7, ..Members::default() };
        (0..9).for_each(|slot| members.join(slot, tag_of(slot)));
        let bytes = members.emit();
        assert!(Members::parse(&bytes).knows(7, 3, tag_of(3)));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(Members::parse(&changed).len(), 0, "byte {at}");
        }
        // The rest of a longer table that stood there before.
        let longer = [&bytes[..], &[1; 60]].concat();
        assert_eq!(Members::parse(&longer), members);
        assert!(!members.knows(8, 3, tag_of(3)) && !members.knows(7, 3, tag_of(4)));
    }

    #[test]
    fn a_tag_has_one_member() {
        let mut members = Members::default();
        members.join(0, 5);
        assert_eq!(members.places_for(5).next(), None);
        assert_eq!(members.places_for(6).next(), Some(1));
        assert!(!members.seen_by(0, 6) && !members.seen_by(0, 5), "no other's frame");
    }
}
