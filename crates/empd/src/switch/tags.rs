//! Which clients a tag's frames are for.
//!
//! A tag has 16 bits, so two nodes may have the same, and frames do not say more of whom they are for. Those of one user share them: each
//! gets both's, as on a cable, and its node knows its own. Another user's node with the same tag is refused, as it would read along.

/// A client's place in the switch's table.
pub type Slot = u16;

/// In the table: nobody.
const NONE: u16 = u16::MAX;

/// The user who holds a tag already: another one's node cannot have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken;

/// The table.
#[derive(Debug)]
pub struct Tags {
    /// The first client of each tag.
    first: Box<[Slot]>,
    /// By slot: the tag, the user, and the next client of that tag.
    held: Vec<Option<(u16, u32, Slot)>>,
}

impl Default for Tags {
    fn default() -> Self {
        Self { first: vec![NONE; 1 << 16].into(), held: Vec::new() }
    }
}

impl Tags {
    /// The client in this slot, of this user, takes the frames of a tag.
    ///
    /// # Errors
    ///
    /// If another user's node has it.
    ///
    /// # Panics
    ///
    /// If the slot has a tag.
    pub fn take(&mut self, slot: Slot, tag: u16, user: u32) -> Result<(), Taken> {
        let first = self.first[usize::from(tag)];
        if let Some(Some((_, holder, _))) = self.held.get(usize::from(first))
            && *holder != user
        {
            return Err(Taken);
        }
        let at = usize::from(slot);
        if self.held.len() <= at {
            self.held.resize(at + 1, None);
        }
        assert!(self.held[at].is_none(), "it has one");
        self.held[at] = Some((tag, user, first));
        self.first[usize::from(tag)] = slot;
        Ok(())
    }

    /// The client in this slot is gone. Of one without a tag nothing changes.
    pub fn leave(&mut self, slot: Slot) {
        let Some((tag, _, next)) = self.held.get_mut(usize::from(slot)).and_then(Option::take)
        else {
            return;
        };
        let first = &mut self.first[usize::from(tag)];
        if *first == slot {
            *first = next;
            return;
        }
        let mut at = *first;
        while let Some(Some((_, _, after))) = self.held.get_mut(usize::from(at)) {
            if *after == slot {
                *after = next;
                return;
            }
            at = *after;
        }
    }

    /// The clients that a tag's frames are for.
    #[inline]
    pub fn of(&self, tag: u16) -> impl Iterator<Item = Slot> + '_ {
        let mut at = self.first[usize::from(tag)];
        std::iter::from_fn(move || {
            let (_, _, next) = (*self.held.get(usize::from(at))?)?;
            Some(std::mem::replace(&mut at, next))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tags: &Tags, tag: u16) -> Vec<Slot> {
        let mut found: Vec<Slot> = tags.of(tag).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_tag_is_one_users() {
        let mut tags = Tags::default();
        assert_eq!(tags.take(0, 5, 1000), Ok(()));
        assert_eq!(tags.take(3, 5, 1001), Err(Taken));
        assert_eq!(tags.take(3, 6, 1001), Ok(()));
        assert_eq!(tags.take(7, 5, 1000), Ok(()));
        assert_eq!((of(&tags, 5), of(&tags, 6), of(&tags, 7)), (vec![0, 7], vec![3], vec![]));
        tags.leave(0);
        tags.leave(0);
        assert_eq!(of(&tags, 5), [7]);
        assert_eq!(tags.take(0, 5, 1001), Err(Taken));
        tags.leave(7);
        assert_eq!(tags.take(0, 5, 1001), Ok(()));
        assert_eq!(of(&tags, 5), [0]);
    }

    #[test]
    fn any_of_several_may_leave() {
        for gone in 0..4 {
            let mut tags = Tags::default();
            (0..4).for_each(|slot| tags.take(slot, 9, 1).expect("one user's"));
            tags.leave(gone);
            let rest: Vec<Slot> = (0..4).filter(|slot| *slot != gone).collect();
            assert_eq!(of(&tags, 9), rest);
        }
    }
}
