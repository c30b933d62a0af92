//! The judge of one-sided operations: is every end explained, is every byte where it belongs and nowhere else, was every
//! addition made once, and was nothing told before what came before it was there?

use emp_firmware::{Completion, OpKind, Status};

use super::{CONSTANT_AT, Deed, DeedId, Done, PLACES_AT, constant_seed, of_context, put_seed};
use crate::ledger::MessageId;
use crate::memory::{BufferId, payload};
use crate::world::World;

impl World {
    /// Judges a completion if it is of a one-sided operation. `None`: it is not.
    pub(crate) fn judge_one_sided(
        &mut self,
        node: usize,
        completion: &Completion,
    ) -> Option<Result<(), String>> {
        if completion.op.kind() == OpKind::Notified {
            return Some(self.judge_notified(node, completion));
        }
        let id = of_context(completion.context)?;
        Some(self.judge_end(node, id, completion).map_err(|what| format!("node {node}: {what}")))
    }

    /// The bytes of a put, as they are in the target's region now. `None`: that region is gone, or another one than
    /// when the put was posted.
    fn placed(&self, done: &Done, bytes: u64) -> Option<Vec<u8>> {
        let export = self.one_sided.export(done.to)?;
        let target = &self.nodes[done.to];
        target.firmware.as_ref()?;
        let same = export.incarnation == done.target_incarnation
            && target.incarnation == done.target_incarnation
            && export.removed.is_none();
        let at = export.address + done.place;
        same.then(|| target.memory.peek(at, bytes))
    }

    fn whole(&self, id: DeedId) -> bool {
        let done = &self.one_sided.deeds[id];
        let Deed::Put { bytes, .. } = done.deed else { return true };
        self.placed(done, bytes).is_none_or(|content| content == payload(put_seed(id), bytes))
    }

    fn judge_end(&mut self, node: usize, id: DeedId, end: &Completion) -> Result<(), String> {
        let Some(done) = self.one_sided.deeds.get_mut(id) else {
            return Err(format!("completion of an operation that never was: {end:?}"));
        };
        let Some(posted) = done.posted.as_mut() else {
            return Err(format!("operation {id} ended before it was posted"));
        };
        let right = posted.op == end.op
            && posted.incarnation == self.nodes[node].incarnation
            && done.from == node
            && done.ended.is_none()
            && end.peer == self.ids[done.to];
        if !right {
            return Err(format!("operation {id} ({done:?}) ended as another, or again: {end:?}"));
        }
        let buffer = posted.buffer.take();
        done.ended = Some((end.status, self.now));
        let content = buffer.map(|buffer| self.nodes[node].memory.content(buffer));
        if let Some(buffer) = buffer {
            self.nodes[node].memory.release(buffer);
        }
        let done = &self.one_sided.deeds[id];
        if end.status == Status::Ok {
            let content = content.unwrap_or_default();
            let what = format!("operation {id} ({:?}, {} → {})", done.deed, done.from, done.to);
            return self.judge_success(id, &content).map_err(|why| format!("{what}: {why}"));
        }
        let since = done.posted.map_or(self.now, |posted| posted.at);
        let removed =
            self.one_sided.removals.iter().any(|(node, incarnation)| {
                *node == done.to && *incarnation >= done.target_incarnation
            });
        let wrong = matches!(done.deed, Deed::Wrong { status, .. } if status == end.status);
        let explained = wrong
            || end.status == Status::BadKey && removed
            || self.history.explains(end.status, done.from, done.to, (since, self.now));
        if explained {
            return Ok(());
        }
        let how = end.status.describe();
        Err(format!(
            "operation {id} ({:?}) ended with \"{how}\", which nothing explains",
            done.deed
        ))
    }

    fn judge_success(&mut self, id: DeedId, content: &[u8]) -> Result<(), String> {
        let done = self.one_sided.deeds[id].clone();
        match done.deed {
            Deed::Put { .. } if !self.whole(id) => Err("complete, but not in place".into()),
            Deed::Put { .. } => Ok(()),
            Deed::Get { bytes, skip } => {
                // It may have come from any incarnation since the post: each has bytes of its own.
                let now = self.nodes[done.to].incarnation;
                let from = (skip as usize, (skip + bytes) as usize);
                let right = (done.target_incarnation..=now).any(|incarnation| {
                    payload(constant_seed(done.to, incarnation), skip + bytes)[from.0..from.1]
                        == *content
                });
                if right { Ok(()) } else { Err("got other bytes than are there".into()) }
            }
            Deed::Add { fetch } => {
                let value = content.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                self.one_sided.deeds[id].fetched = value.filter(|_| fetch);
                Ok(())
            }
            Deed::Wrong { status, .. } => Err(format!("ended well instead of {status:?}")),
        }
    }

    fn judge_notified(&mut self, node: usize, end: &Completion) -> Result<(), String> {
        let id = end.immediate.unwrap_or(u64::MAX) as usize;
        let Some(done) = self.one_sided.deeds.get_mut(id) else {
            return Err(format!("node {node} was notified of nothing: {end:?}"));
        };
        let Deed::Put { bytes, notify: true, .. } = done.deed else {
            return Err(format!("node {node} was notified by operation {id}, which does not"));
        };
        let right = done.to == node
            && end.peer == self.ids[done.from]
            && (end.bytes, end.total_bytes, end.context) == (bytes, bytes, 0);
        if !right || core::mem::replace(&mut done.notified, true) {
            return Err(format!("node {node}: wrong or second notification of {id}: {end:?}"));
        }
        let posted = done.posted.map_or((0, 0), |posted| (posted.incarnation, posted.order));
        let stream = (done.from, posted.0, node);
        let last = self.one_sided.last_notified.insert(stream, posted.1);
        if last.is_some_and(|last| last > posted.1) {
            return Err(format!("node {node}: notification of {id} after that of a later put"));
        }
        if self.whole(id) { Ok(()) } else { Err(format!("node {node}: told of {id} too early")) }
    }

    /// A message was received: a put that its sender posted just before must be in place (`PUT-4`).
    pub(crate) fn judge_follower(&self, message: MessageId) -> Result<(), String> {
        let follows = |done: &&Done| matches!(done.deed, Deed::Put { follower: Some(other), .. } if other == message);
        let id = self.one_sided.deeds.iter().position(|done| follows(&done));
        let Some(id) = id else { return Ok(()) };
        let done = &self.one_sided.deeds[id];
        let posted = done.posted.map_or(self.now, |posted| posted.at);
        let excused = self.history.pair_broke(done.from, done.to, posted);
        if excused || self.whole(id) {
            return Ok(());
        }
        Err(format!("message {message} was told of before put {id}, which it follows, was there"))
    }

    /// What a region holds when it is taken back.
    pub(super) fn judge_region(&self, node: usize, buffer: BufferId) -> Result<(), String> {
        let content = self.nodes[node].memory.content(buffer);
        let incarnation = self.nodes[node].incarnation;
        let constant = payload(constant_seed(node, incarnation), PLACES_AT - CONSTANT_AT);
        if content[CONSTANT_AT as usize..PLACES_AT as usize] != constant {
            return Err("bytes that nobody changes were changed".into());
        }
        self.judge_places(node, &content)?;
        for from in 0..self.nodes.len() {
            self.judge_counter(node, from, &content)?;
        }
        Ok(())
    }

    fn judge_places(&self, node: usize, content: &[u8]) -> Result<(), String> {
        for (id, done) in self.one_sided.deeds.iter().enumerate() {
            let (Deed::Put { bytes, .. }, true) = (done.deed, done.to == node) else { continue };
            let place = &content[done.place as usize..(done.place + bytes) as usize];
            let data = payload(put_seed(id), bytes);
            let strange = |(is, sent): (&u8, &u8)| *is != *sent && *is != 0xA5;
            if place.iter().zip(&data).any(strange) {
                return Err(format!("the place of put {id} holds what nobody put there"));
            }
            if done.posted.is_none() && place.iter().any(|byte| *byte != 0xA5) {
                return Err(format!("put {id} was never posted, and is there"));
            }
        }
        let end = self.one_sided.given_out.get(node).copied().unwrap_or(PLACES_AT) as usize;
        if content[end..].iter().any(|byte| *byte != 0xA5) {
            return Err("something was written beyond all puts".into());
        }
        Ok(())
    }

    /// Each addition was made once if it ended well, at most once if it did not.
    fn judge_counter(&self, node: usize, from: usize, content: &[u8]) -> Result<(), String> {
        let at = 8 * from;
        let counter = u64::from_le_bytes(content[at..at + 8].try_into().expect("eight bytes"));
        let incarnation = self.nodes[node].incarnation;
        let (mut least, mut most) = (0, 0);
        let mut last = None;
        let mut additions: Vec<&Done> = self.one_sided.deeds.iter().collect();
        additions.retain(|done| {
            (done.from, done.to) == (from, node)
                && matches!(done.deed, Deed::Add { .. })
                && done.posted.is_some()
        });
        additions.sort_by_key(|done| done.posted.map(|posted| posted.order));
        for done in additions {
            most += 1;
            let here = done.target_incarnation == incarnation;
            if !here || done.ended.is_none_or(|(status, _)| status != Status::Ok) {
                continue;
            }
            least += 1;
            if let Some(value) = done.fetched {
                if last.is_some_and(|last| value <= last) || value >= counter {
                    return Err(format!(
                        "node {from} fetched {value} after {last:?}, of {counter}"
                    ));
                }
                last = Some(value);
            }
        }
        if (least..=most).contains(&counter) {
            return Ok(());
        }
        Err(format!("node {from} added {least} to {most} times, the counter is at {counter}"))
    }

    /// What must be true of all operations at the end of a run.
    pub(crate) fn judge_deeds(&self) -> Result<(), String> {
        for (index, node) in self.nodes.iter().enumerate() {
            let open = self.one_sided.open(index, node.incarnation).next();
            if let Some(id) = open.filter(|_| node.firmware.is_some()) {
                let deed = self.one_sided.deeds[id].deed;
                return Err(format!("node {index}: operation {id} ({deed:?}) never ended"));
            }
        }
        for (id, done) in self.one_sided.deeds.iter().enumerate() {
            let (Some(posted), Some((Status::Ok, _))) = (done.posted, done.ended) else { continue };
            let told = done.notified || !matches!(done.deed, Deed::Put { notify: true, .. });
            if !told && !self.history.pair_broke(done.from, done.to, posted.at) {
                return Err(format!("put {id} is complete, and its target was never told"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use emp_firmware::{HostMemory, Profile, Segment, Span};

    use super::*;
    use crate::world::{Stop, WorldSetup};

    /// A put of 100 bytes and an addition, both done.
    fn done() -> World {
        let mut world = World::new(WorldSetup::lan(2, &Profile::DEFAULT));
        world.export_regions();
        world.deed(0, 1, Deed::Put { bytes: 100, notify: true, follower: None });
        world.deed(0, 1, Deed::Add { fetch: true });
        assert_eq!(world.run(Span::ms(1_000)), Stop::Idle);
        assert_eq!(world.violation(), None);
        world
    }

    /// What the judge says if one byte of the target's region is another.
    fn after_a_change_at(offset: u64) -> String {
        let mut world = done();
        let address = world.one_sided.export(1).unwrap().address + offset;
        world.nodes[1].memory.write(Segment { address, bytes: 1 }, &[0x77]).unwrap();
        world.remove_region(1);
        world.violation().map_or(String::new(), |violation| violation.what.clone())
    }

    /// A judge that never objects is no judge: each forged outcome must be seen.
    #[test]
    fn changed_bytes_are_seen() {
        assert!(after_a_change_at(0).contains("the counter is at"));
        assert!(after_a_change_at(CONSTANT_AT + 9).contains("nobody changes"));
        assert!(after_a_change_at(PLACES_AT + 50).contains("nobody put"));
        assert!(after_a_change_at(PLACES_AT + 200).contains("beyond all puts"));
    }

    #[test]
    fn an_operation_without_an_end_is_seen() {
        let mut world = done();
        world.one_sided.deeds[1].ended = None;
        assert!(world.judge_deeds().unwrap_err().contains("never ended"));
    }

    #[test]
    fn a_missing_notification_is_seen() {
        let mut world = done();
        world.one_sided.deeds[0].notified = false;
        assert!(world.judge_deeds().unwrap_err().contains("never told"));
    }

    #[test]
    fn a_value_fetched_twice_is_seen() {
        let mut world = done();
        world.one_sided.deeds[1].fetched = Some(1);
        world.remove_region(1);
        assert!(world.violation().is_some_and(|violation| violation.what.contains("fetched 1")));
    }
}
