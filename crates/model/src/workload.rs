//! Draws what the applications of a world do: messages, receives, cancels, probes, and what befalls the nodes.

use emp_firmware::{CompletionMode, Span, Time};

use crate::action::{Action, ClaimUse};
use crate::host::{ReceiveSpec, Want, WantBits};
use crate::ledger::{MessageId, MessageSpec};
use crate::one_sided;
use crate::prng::Prng;
use crate::swarm::{Scale, SwarmOptions, Temper};
use crate::world::World;

/// An endpoint that no node opens.
const NO_SUCH_ENDPOINT: u16 = 99;

/// Draws and schedules everything that happens before the network is healed.
pub fn schedule(world: &mut World, temper: &Temper, options: &SwarmOptions, prng: &mut Prng) {
    let plan = Draft::new(world, temper, options, prng);
    plan.messages(world, temper, prng);
    plan.disturbances(world, temper, prng);
    // Last, so that what else a seed draws does not depend on it.
    one_sided::schedule(world, temper, options, prng);
}

/// What all messages of one seed have in common.
struct Draft {
    nodes: usize,
    endpoints: u64,
    messages: usize,
    bytes_max: u64,
    bytes_all: u64,
    span: Span,
    tags: u64,
    /// In how many of 100 cases a receive is posted for a message before the end.
    received_percent: u32,
    /// How far a receive may be before or after its message.
    spread: Span,
    pieces_max: u64,
}

impl Draft {
    fn new(world: &World, temper: &Temper, options: &SwarmOptions, prng: &mut Prng) -> Self {
        let small = options.scale == Scale::Small;
        let (messages_max, bytes_all) = if small { (60, 1 << 20) } else { (300, 12 << 20) };
        let mut draft = Self {
            nodes: world.nodes().len(),
            endpoints: world.nodes()[0].setup.endpoints.len() as u64,
            messages: prng.within(3..=messages_max) as usize,
            bytes_max: *prng.pick(&[64, 2_048, 20_000, 80_000, 400_000, 4 << 20]),
            bytes_all,
            span: Span::us(*prng.pick(&[0, 50, 1_000, 10_000, 50_000])),
            tags: prng.within(1..=8),
            received_percent: *prng.pick(&[0, 50, 90, 100]),
            spread: Span::us(*prng.pick(&[0, 20, 500, 5_000])),
            pieces_max: *prng.pick(&[1, 1, 3, 40]),
        };
        if temper.flood {
            draft.messages = 400;
            draft.bytes_max = 64 << 10;
            draft.bytes_all = 24 << 20;
            draft.received_percent = 0;
            draft.span = Span::us(0);
        }
        if temper.harsh() {
            // Long enough that what befalls the nodes falls into the traffic.
            draft.span = Span(temper.patience.0 * 3);
        }
        draft
    }

    fn messages(&self, world: &mut World, temper: &Temper, prng: &mut Prng) {
        let mut left = self.bytes_all;
        for _ in 0..self.messages {
            let at = world.began() + Span(prng.below(self.span.0 + 1));
            let mut spec = self.message(prng);
            if temper.flood {
                spec.bytes = prng.within(16 << 10..=self.bytes_max);
                (spec.from, spec.to) = (prng.index(self.nodes - 1) + 1, 0);
            }
            spec.bytes = spec.bytes.min(left);
            left -= spec.bytes;
            if prng.percent(1) && temper.closes {
                spec.to_endpoint = NO_SUCH_ENDPOINT;
                world.history_mut().endpoint_closed(spec.to, NO_SUCH_ENDPOINT);
            }
            let id = world.ledger.plan(spec.clone());
            world.schedule(at, Action::Send(id));
            if prng.percent(self.received_percent) {
                let early = prng.below(2 * self.spread.0 + 1);
                let at = at + Span(early) - self.spread;
                let receive = self.receive(&spec, id, prng);
                world.schedule(at, Action::Receive(receive));
            }
        }
        self.looks(world, temper, prng);
    }

    fn message(&self, prng: &mut Prng) -> MessageSpec {
        let from = prng.index(self.nodes);
        let to = if prng.percent(5) { from } else { prng.index(self.nodes) };
        let bytes = prng.log_uniform(self.bytes_max);
        let completion = match prng.below(10) {
            0..=5 => CompletionMode::Auto,
            6..=7 => CompletionMode::Buffered,
            _ => CompletionMode::Delivered,
        };
        MessageSpec {
            from,
            endpoint: prng.below(self.endpoints) as u16,
            to,
            to_endpoint: prng.below(self.endpoints) as u16,
            tag: prng.below(self.tags) as u16,
            bytes,
            pieces: prng.within(1..=self.pieces_max) as usize,
            immediate: prng.percent(30),
            synchronous: completion != CompletionMode::Buffered && prng.percent(15),
            completion,
        }
    }

    fn receive(&self, message: &MessageSpec, id: MessageId, prng: &mut Prng) -> ReceiveSpec {
        let bytes = match prng.below(10) {
            0 => prng.below(message.bytes + 1),
            1..=3 => message.bytes + prng.log_uniform(self.bytes_max),
            _ => message.bytes,
        };
        ReceiveSpec {
            node: message.to,
            endpoint: message.to_endpoint,
            want: self.want(message, id, prng),
            bytes,
            pieces: prng.within(1..=self.pieces_max) as usize,
        }
    }

    fn want(&self, message: &MessageSpec, id: MessageId, prng: &mut Prng) -> Want {
        let bits = match prng.below(8) {
            0..=1 => WantBits::Any,
            2..=4 => WantBits::Tag(message.tag),
            5 => WantBits::TagMasked(message.tag, !1),
            _ => WantBits::Exactly(id),
        };
        Want {
            from: prng.percent(60).then_some(message.from),
            from_endpoint: prng.percent(40).then_some(message.endpoint),
            bits,
        }
    }

    /// Probes, claims, cancels, and changes of the collection.
    fn looks(&self, world: &mut World, temper: &Temper, prng: &mut Prng) {
        let horizon = self.span.0 + 2_000_000;
        let add = |world: &mut World, count: u64, prng: &mut Prng, kind: u8| {
            for _ in 0..count {
                let node = prng.index(self.nodes);
                let action = match kind {
                    0 => self.look(node, prng),
                    1 => Action::Cancel { node, pick: prng.index(1_000) },
                    _ => Action::SetCollection { node, frames: prng.within(1..=64) as u32 },
                };
                world.schedule(world.began() + Span(prng.below(horizon)), action);
            }
        };
        let looks = if prng.percent(50) { prng.below(40) } else { 0 };
        add(world, looks, prng, 0);
        let cancels = if temper.cancels { prng.below(30) } else { 0 };
        add(world, cancels, prng, 1);
        let changes = if prng.percent(20) { prng.below(10) } else { 0 };
        add(world, changes, prng, 2);
    }

    fn look(&self, node: usize, prng: &mut Prng) -> Action {
        let after = Span(prng.log_uniform(5_000_000));
        let claim = match prng.below(4) {
            0 => None,
            1 => Some(ClaimUse::Discard(after)),
            _ => Some(ClaimUse::Receive(after)),
        };
        let bits = if prng.percent(50) {
            WantBits::Any
        } else {
            WantBits::Tag(prng.below(self.tags) as u16)
        };
        let from = prng.percent(30).then(|| prng.index(self.nodes));
        let want = Want { from, from_endpoint: None, bits };
        Action::Probe { node, endpoint: prng.below(self.endpoints) as u16, want, claim }
    }

    fn disturbances(&self, world: &mut World, temper: &Temper, prng: &mut Prng) {
        let horizon = self.span.0.max(1_000_000);
        let patience = temper.patience.0;
        if temper.restarts {
            for _ in 0..prng.within(1..=3) {
                let node = prng.index(self.nodes);
                let at = world.began() + Span(prng.below(horizon));
                world.schedule(at, Action::Stop { node, goodbye: prng.percent(25) });
                if prng.percent(85) {
                    let away = if prng.percent(60) { 5_000_000 } else { patience * 2 };
                    world.schedule(at + Span(prng.log_uniform(away)), Action::Start { node });
                }
            }
        }
        if temper.cuts {
            for _ in 0..prng.within(1..=4) {
                let at = world.began() + Span(prng.below(horizon));
                self.cut(world, at, patience, prng);
            }
        }
        if temper.moves {
            let node = prng.index(self.nodes);
            world.schedule(world.began() + Span(prng.below(horizon)), Action::Relocate { node });
        }
        if temper.pauses {
            for _ in 0..prng.within(1..=5) {
                let node = prng.index(self.nodes);
                // Never so long that the node looks dead.
                let span = Span(prng.log_uniform(patience / 8));
                world.schedule(
                    world.began() + Span(prng.below(horizon)),
                    Action::Pause { node, span },
                );
            }
        }
        if temper.closes {
            let node = prng.index(self.nodes);
            let endpoint = prng.below(self.endpoints) as u16;
            let at = world.began() + Span(prng.below(horizon));
            world.schedule(at, Action::CloseEndpoint { node, endpoint });
            let again = at + Span(prng.log_uniform(5_000_000));
            world.schedule(again, Action::OpenEndpoint { node, endpoint });
        }
    }

    /// One node against the others, or one pair; both directions or one; short, or longer than patience lasts.
    fn cut(&self, world: &mut World, at: Time, patience: u64, prng: &mut Prng) {
        let span = if prng.percent(60) {
            Span(prng.below(patience / 8))
        } else {
            Span(prng.within(patience..=patience * 3))
        };
        let one = prng.index(self.nodes);
        let only = prng.percent(50).then(|| prng.index(self.nodes));
        let (out, back) = *prng.pick(&[(true, true), (true, true), (true, false), (false, true)]);
        let fabrics = world.network().fabrics();
        // With two fabrics a cut of one is to be survived, however long.
        let fabrics = if fabrics > 1 && prng.percent(50) {
            let only = prng.index(fabrics);
            only..only + 1
        } else {
            0..fabrics
        };
        for other in 0..self.nodes {
            if other == one || only.is_some_and(|only| only != other) {
                continue;
            }
            for fabric in fabrics.clone() {
                if out {
                    world.schedule(at, Action::Cut { fabric, from: one, to: other, span });
                }
                if back {
                    world.schedule(at, Action::Cut { fabric, from: other, to: one, span });
                }
            }
        }
    }
}
