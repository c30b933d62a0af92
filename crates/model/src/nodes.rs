//! The nodes of a world, and when each has its next turn: a queue, so that ten thousand nodes that wait cost nothing.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use emp_firmware::Time;

use crate::node::SimNode;

/// All nodes. Whoever takes one to change it has its next turn looked at again.
pub(crate) struct Nodes {
    list: Vec<SimNode>,
    /// When each has its next turn, as far as that is known.
    turns: BTreeSet<(Time, usize)>,
    /// The same by node.
    next: Vec<Option<Time>>,
    /// Nodes that may have changed since, each once.
    touched: Vec<usize>,
    is_touched: Vec<bool>,
}

impl Nodes {
    pub(crate) fn new(list: Vec<SimNode>) -> Self {
        let count = list.len();
        let (turns, next) = (BTreeSet::new(), vec![None; count]);
        Self { list, turns, next, touched: (0..count).collect(), is_touched: vec![true; count] }
    }

    pub(crate) fn as_slice(&self) -> &[SimNode] {
        &self.list
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, SimNode> {
        self.list.iter()
    }

    /// When the next turn of any of them is.
    pub(crate) fn next_turn(&mut self, now: Time) -> Option<Time> {
        self.settle(now);
        self.turns.first().map(|(at, _)| (*at).max(now))
    }

    /// Nodes that may have a turn now, by number. Each is looked at again.
    pub(crate) fn due(&mut self, now: Time) -> Vec<usize> {
        self.settle(now);
        let mut due = Vec::new();
        while let Some((at, node)) = self.turns.first().copied().filter(|(at, _)| *at <= now) {
            self.turns.remove(&(at, node));
            self.next[node] = None;
            self.touch(node);
            due.push(node);
        }
        due.sort_unstable();
        due
    }

    fn settle(&mut self, now: Time) {
        while let Some(node) = self.touched.pop() {
            self.is_touched[node] = false;
            let next = self.list[node].next_turn(now);
            if next == self.next[node] {
                continue;
            }
            if let Some(before) = self.next[node] {
                self.turns.remove(&(before, node));
            }
            self.turns.extend(next.map(|at| (at, node)));
            self.next[node] = next;
        }
    }

    fn touch(&mut self, node: usize) {
        if !core::mem::replace(&mut self.is_touched[node], true) {
            self.touched.push(node);
        }
    }
}

impl Index<usize> for Nodes {
    type Output = SimNode;

    fn index(&self, node: usize) -> &SimNode {
        &self.list[node]
    }
}

impl IndexMut<usize> for Nodes {
    fn index_mut(&mut self, node: usize) -> &mut SimNode {
        self.touch(node);
        &mut self.list[node]
    }
}
