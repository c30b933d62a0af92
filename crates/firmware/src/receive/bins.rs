//! Long lists by match bits: what many wait for is found without a walk over all who wait.
//!
//! An entry lies in a bin by those of its match bits that count, and by its node if that counts. Which do is a *class*: programs use a few
//! masks, so there are a few classes. Short lists have none of this, as a walk over them is quicker.

use alloc::vec::Vec;

use emp_wire::NodeId;
use hashbrown::HashMap;

use crate::descriptor::Selector;
use crate::tables::by_peer::{Links, List};

/// Entries up to which a list is walked: about what a look into a table by hash costs, once for each class.
pub(super) const WALKED_MAX: usize = 32;

/// Classes of one list. MPIs use up to six: with and without a source, a tag, or both.
const CLASSES_MAX: usize = 8;

/// Match bits that count, and a node, or 0 where it does not.
type Key = (u64, u64);

/// Which parts of a message count.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Parts {
    ignore_bits: u64,
    node: bool,
}

impl Parts {
    /// None: all entries lie in one bin.
    const NONE: Self = Self { ignore_bits: u64::MAX, node: false };

    fn of(selector: &Selector) -> Self {
        Self { ignore_bits: selector.ignore_bits, node: selector.from != NodeId::ANY }
    }

    fn key(self, node: NodeId, bits: u64) -> Key {
        (bits & !self.ignore_bits, if self.node { node.0 } else { 0 })
    }
}

struct Class {
    parts: Parts,
    bins: HashMap<Key, List>,
    links: Links,
}

impl Class {
    fn new(parts: Parts) -> Self {
        Self { parts, bins: HashMap::new(), links: Links::default() }
    }

    fn add(&mut self, node: NodeId, bits: u64, index: u32) {
        let list = self.bins.entry(self.parts.key(node, bits)).or_default();
        self.links.push_back(list, index);
    }

    fn remove(&mut self, node: NodeId, bits: u64, index: u32) {
        let key = self.parts.key(node, bits);
        let Some(list) = self.bins.get_mut(&key) else { return };
        self.links.remove(list, index);
        if list.first().is_none() {
            self.bins.remove(&key);
        }
    }

    /// The entries of a bin, first added first.
    fn of(&self, node: NodeId, bits: u64) -> impl Iterator<Item = u32> + '_ {
        let list = self.bins.get(&self.parts.key(node, bits)).copied().unwrap_or_default();
        self.links.iter(list)
    }
}

/// Receives that wait for messages, each in the class of its selector.
#[derive(Default)]
pub(super) struct Wanted(Vec<Class>);

impl Wanted {
    /// The class of a selector. Beyond so many it is one in which nothing counts.
    fn class(&mut self, selector: &Selector) -> &mut Class {
        let parts = Parts::of(selector);
        let known = |classes: &[Class], parts| classes.iter().position(|c| c.parts == parts);
        let parts = match known(&self.0, parts) {
            None if self.0.len() >= CLASSES_MAX => Parts::NONE,
            _ => parts,
        };
        let at = known(&self.0, parts).unwrap_or_else(|| {
            self.0.push(Class::new(parts));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// A receive is posted, after all others.
    pub(super) fn add(&mut self, selector: &Selector, index: u32) {
        self.class(selector).add(selector.from, selector.match_bits, index);
    }

    /// A receive that was added waits no more.
    pub(super) fn remove(&mut self, selector: &Selector, index: u32) {
        self.class(selector).remove(selector.from, selector.match_bits, index);
    }

    /// The receives that may accept a message: of each class those in its bin, in post order.
    pub(super) fn of(
        &self,
        node: NodeId,
        bits: u64,
    ) -> impl Iterator<Item = impl Iterator<Item = u32> + '_> + '_ {
        self.0.iter().map(move |class| class.of(node, bits))
    }
}

/// Messages that wait for a receive, each in all classes that receives have asked by.
#[derive(Default)]
pub(super) struct Waiting(Vec<Class>);

impl Waiting {
    /// A message waits, after all others.
    pub(super) fn add(&mut self, (node, bits): (NodeId, u64), index: u32) {
        self.0.iter_mut().for_each(|class| class.add(node, bits, index));
    }

    /// A message that was added waits no more.
    pub(super) fn remove(&mut self, (node, bits): (NodeId, u64), index: u32) {
        self.0.iter_mut().for_each(|class| class.remove(node, bits, index));
    }

    /// The class of a selector, which is made of `all` if it is new. `None`: there are too many.
    fn class(
        &mut self,
        selector: &Selector,
        all: impl Iterator<Item = (u32, (NodeId, u64))>,
    ) -> Option<&Class> {
        let parts = Parts::of(selector);
        let at = match self.0.iter().position(|class| class.parts == parts) {
            Some(at) => at,
            None if self.0.len() >= CLASSES_MAX => return None,
            None => {
                let mut class = Class::new(parts);
                all.for_each(|(index, (node, bits))| class.add(node, bits, index));
                self.0.push(class);
                self.0.len() - 1
            }
        };
        Some(&self.0[at])
    }

    /// The messages whose match bits and node a selector accepts, in their order; `all` of them are given. `None`: nothing is known of such a
    /// selector.
    pub(super) fn of(
        &mut self,
        selector: &Selector,
        all: impl Iterator<Item = (u32, (NodeId, u64))>,
    ) -> Option<impl Iterator<Item = u32> + '_> {
        let (node, bits) = (selector.from, selector.match_bits);
        self.class(selector, all).map(|class| class.of(node, bits))
    }
}
