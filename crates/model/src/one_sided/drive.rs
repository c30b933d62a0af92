//! Posting one-sided operations, exporting regions and taking them back; and drawing what is done.

use emp_firmware::{
    AtomicDescriptor, AtomicOp, CompletionMode, Datatype, GetDescriptor, PostError, PutDescriptor,
    RemoteRegion, Rights, Span, Status,
};

use super::{
    CONSTANT_AT, CONTEXT, Deed, DeedId, Done, Export, KEY, KEY_OF_NOBODY, KEY_READ_ONLY, PLACES_AT,
    REGION_BYTES, constant_seed, put_seed,
};
use crate::action::Action;
use crate::ledger::{MessageId, MessageSpec, Posted};
use crate::memory::{Access, BufferId, payload};
use crate::prng::Prng;
use crate::swarm::{Scale, SwarmOptions, Temper};
use crate::world::World;

/// How long an application waits before it repeats a post that was refused for want of room.
const RETRY_AFTER: Span = Span::us(500);

impl World {
    /// From now on nodes export a region when they start; those that run do so at once.
    pub fn export_regions(&mut self) {
        self.one_sided.exporting = true;
        for node in 0..self.nodes.len() {
            self.export_region(node);
        }
    }

    /// A node that has just started exports its region.
    pub(crate) fn export_region(&mut self, node: usize) {
        if !self.one_sided.exporting {
            return;
        }
        let sim = &mut self.nodes[node];
        let Some(firmware) = sim.firmware.as_mut() else { return };
        let mut content = vec![0; CONSTANT_AT as usize];
        content.extend(payload(constant_seed(node, sim.incarnation), PLACES_AT - CONSTANT_AT));
        let (buffer, list) = sim.memory.post(&[REGION_BYTES], Access::Both, &content);
        let memory = list.as_slice()[0];
        let exports = [(KEY, Rights::BOTH), (KEY_READ_ONLY, Rights::REMOTE_READ)];
        let exported = exports
            .map(|(key, rights)| firmware.export_region(Some(key), memory, rights, 0).is_ok());
        let (incarnation, address) = (sim.incarnation, memory.address);
        if self.one_sided.exports.len() <= node {
            self.one_sided.exports.resize_with(node + 1, || None);
        }
        self.one_sided.exports[node] = Some(Export { incarnation, buffer, address, removed: None });
        if exported != [true; 2] {
            self.fail(format!("node {node} could not export its region"));
        }
    }

    /// A node takes its region back: what it holds then is judged, and the memory is gone.
    pub fn remove_region(&mut self, node: usize) {
        let incarnation = self.nodes[node].incarnation;
        let now = self.now;
        let current = |export: &&mut Export| export.incarnation == incarnation;
        let export = self.one_sided.exports.get_mut(node).and_then(Option::as_mut).filter(current);
        let Some(export) = export.filter(|export| export.removed.is_none()) else { return };
        export.removed = Some(now);
        self.one_sided.removals.push((node, incarnation));
        let buffer = export.buffer;
        if self.nodes[node].firmware.is_none() {
            return;
        }
        self.poke(node, |firmware, _, now| {
            for key in [KEY, KEY_READ_ONLY] {
                firmware.remove_region(now, key);
            }
        });
        if let Err(what) = self.judge_region(node, buffer) {
            self.fail(format!("node {node}: {what}"));
        }
        // From here on every touch is a violation.
        self.nodes[node].let_go_of_memory();
        self.nodes[node].memory.release(buffer);
    }

    /// Plans and posts an operation now.
    pub fn deed(&mut self, from: usize, to: usize, deed: Deed) -> Option<DeedId> {
        let id = self.one_sided.plan(from, to, deed)?;
        self.apply(Action::OneSided(id));
        Some(id)
    }

    /// Posts a put of so many bytes and right after it this message, between the same nodes. Returns the message.
    pub fn plan_follower(&mut self, message: MessageSpec, bytes: u64) -> Option<MessageId> {
        let (from, to) = (message.from, message.to);
        let message = self.ledger.plan(message);
        let follower = Some(message);
        self.deed(from, to, Deed::Put { bytes, notify: true, follower }).map(|_| message)
    }

    /// How an operation ended.
    pub fn deed_ended(&self, id: DeedId) -> Option<Status> {
        self.one_sided.deeds[id].ended.map(|(status, _)| status)
    }

    pub(crate) fn post_deed(&mut self, id: DeedId) {
        let done = self.one_sided.deeds[id].clone();
        let order = self.ledger.tick();
        let (now, to) = (self.now, self.ids[done.to]);
        let node = &mut self.nodes[done.from];
        let Some(firmware) = node.firmware.as_mut() else { return };
        let memory = &mut node.memory;
        let at = |key, offset| RemoteRegion { to, to_endpoint: 0, key, generation: 0, offset };
        let context = id as u64 | CONTEXT;
        let put = |segments, target, immediate| PutDescriptor {
            target,
            endpoint: 0,
            segments,
            immediate,
            completion: CompletionMode::Auto,
            context,
        };
        let get = |segments, target| GetDescriptor { target, endpoint: 0, segments, context };
        let (buffer, posted) = match done.deed {
            Deed::Put { bytes, notify, .. } => {
                let data = payload(put_seed(id), bytes);
                let (buffer, list) =
                    memory.post(&[bytes / 3, bytes - bytes / 3], Access::Read, &data);
                let immediate = notify.then_some(id as u64);
                let put = put(list, at(KEY, done.place), immediate);
                (buffer, node.post_put(done.from, now, put, &mut self.network))
            }
            Deed::Get { bytes, skip } => {
                let (buffer, list) =
                    memory.post(&[bytes / 2, bytes - bytes / 2], Access::Write, &[]);
                (buffer, firmware.post_get(now, get(list, at(KEY, CONSTANT_AT + skip)), memory))
            }
            Deed::Add { fetch } => {
                let (buffer, list) = memory.post(&[8], Access::Both, &1u64.to_le_bytes());
                let atomic = AtomicDescriptor {
                    target: at(KEY, 8 * done.from as u64),
                    endpoint: 0,
                    operation: AtomicOp::Sum,
                    datatype: Datatype::Uint64,
                    count: 1,
                    operands: list.clone(),
                    compare: None,
                    fetch_into: fetch.then_some(list),
                    context,
                };
                (buffer, firmware.post_atomic(now, atomic, memory))
            }
            Deed::Wrong { status, get: is_get } => {
                let target = wrong_target(status, at);
                let bytes = 8 + 9_000 * (id as u64 % 2);
                let access = if is_get { Access::Write } else { Access::Read };
                let (buffer, list) = memory.post(&[bytes], access, &[]);
                let posted = if is_get {
                    firmware.post_get(now, get(list, target), memory)
                } else {
                    node.post_put(done.from, now, put(list, target, None), &mut self.network)
                };
                (buffer, posted)
            }
        };
        match posted {
            Ok(op) => {
                let incarnation = node.incarnation;
                let posted = Posted { op, at: now, order, incarnation, buffer: Some(buffer) };
                self.deed_posted(id, posted);
            }
            Err(error) => self.deed_refused(&done, id, buffer, error),
        }
    }

    fn deed_posted(&mut self, id: DeedId, posted: Posted) {
        let target_incarnation = self.nodes[self.one_sided.deeds[id].to].incarnation;
        let done = &mut self.one_sided.deeds[id];
        done.posted = Some(posted);
        done.target_incarnation = target_incarnation;
        if let Deed::Put { follower: Some(message), .. } = done.deed {
            self.post_send(message);
        }
    }

    fn deed_refused(&mut self, done: &Done, id: DeedId, buffer: BufferId, error: PostError) {
        self.nodes[done.from].memory.release(buffer);
        match error {
            PostError::Busy | PostError::PoolFull => {
                self.schedule(self.now + RETRY_AFTER, Action::OneSided(id));
            }
            PostError::NoEndpoint if self.history.was_closed_since(done.from, 0, self.now) => {}
            other => self.fail(format!("one-sided operation {id} was refused with {other:?}")),
        }
    }
}

/// Draws and schedules one-sided operations, in most worlds.
pub fn schedule(world: &mut World, temper: &Temper, options: &SwarmOptions, prng: &mut Prng) {
    if !prng.percent(65) {
        return;
    }
    world.export_regions();
    let nodes = world.nodes().len();
    let most = if options.scale == Scale::Small { 60 } else { 250 };
    let bytes_max = *prng.pick(&[16, 2_000, 20_000, 100_000]);
    let span = if temper.harsh() { temper.patience.0 * 3 } else { prng.log_uniform(20_000_000) };
    for _ in 0..prng.within(1..=most) {
        let from = prng.index(nodes);
        let to = if prng.percent(10) { from } else { prng.index(nodes) };
        let at = world.began() + Span(prng.below(span + 1));
        let deed = match prng.below(10) {
            0..=3 => {
                let follower = prng.percent(40).then(|| {
                    let bytes = prng.log_uniform(3_000);
                    world.ledger.plan(MessageSpec::plain(from, to, bytes))
                });
                let (bytes, notify) = (prng.log_uniform(bytes_max), prng.percent(40));
                Deed::Put { bytes, notify, follower }
            }
            4..=5 => {
                let bytes = prng.log_uniform(bytes_max);
                let room = PLACES_AT - CONSTANT_AT;
                Deed::Get { bytes, skip: prng.below(room - bytes + 1) }
            }
            6..=8 => Deed::Add { fetch: prng.percent(50) },
            _ => {
                let status = *prng.pick(&[
                    Status::BadKey,
                    Status::BadGeneration,
                    Status::OutOfBounds,
                    Status::NoRights,
                ]);
                Deed::Wrong { status, get: status != Status::NoRights && prng.percent(50) }
            }
        };
        if let Some(id) = world.one_sided.plan(from, to, deed) {
            world.schedule(at, Action::OneSided(id));
        }
    }
    if prng.percent(15) {
        let node = prng.index(nodes);
        let at = world.began() + Span(prng.below(span + 1));
        world.schedule(at, Action::RemoveRegion { node });
    }
}

/// Where an operation goes that is to end with a status.
fn wrong_target(status: Status, at: impl Fn(u64, u64) -> RemoteRegion) -> RemoteRegion {
    match status {
        Status::NoRights => at(KEY_READ_ONLY, 0),
        Status::OutOfBounds => at(KEY, REGION_BYTES - 7),
        Status::BadGeneration => RemoteRegion { generation: u32::MAX, ..at(KEY, 0) },
        _ => at(KEY_OF_NOBODY, 0),
    }
}
