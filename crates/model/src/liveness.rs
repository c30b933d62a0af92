//! After the traffic: a majority of the nodes is well from now on, and something is wrong with each of the others for good. What those
//! that are well say to each other must arrive, whatever happened before and whatever the others do.

use emp_firmware::{CompletionMode, Selector, Span, Status, Time};

use crate::action::Action;
use crate::host::{ReceiveSpec, Want};
use crate::ledger::{MessageId, MessageSpec};
use crate::prng::Prng;
use crate::world::{Stop, World};

/// Lengths of what is said: short, of some frames, pulled.
const BYTES: [u64; 4] = [0, 100, 20_000, 150_000];

/// Draws who is well, has them talk, and looks whether it arrives within `bound`.
pub fn play(world: &mut World, prng: &mut Prng, bound: Span) -> Result<(), String> {
    let mut living: Vec<usize> =
        (0..world.nodes.len()).filter(|node| world.nodes[*node].firmware.is_some()).collect();
    if living.len() < 2 {
        return Ok(());
    }
    for at in (1..living.len()).rev() {
        living.swap(at, prng.index(at + 1));
    }
    let majority = (living.len() / 2 + 1).max(2);
    let well = prng.within(majority as u64..=living.len() as u64) as usize;
    let (core, others) = living.split_at(well);
    world.network.heal();
    for node in 0..world.nodes.len() {
        world.apply(Action::SetMtu { node, frame_bytes: None });
    }
    // A program that has closed its endpoint, and was not to open it again before the traffic ended, takes nothing.
    for node in &living {
        for endpoint in world.nodes[*node].setup.endpoints.clone() {
            world.apply(Action::OpenEndpoint { node: *node, endpoint });
        }
    }
    for other in others {
        afflict(world, *other, prng);
    }
    // What was broken before may show only when a peer is talked to again: this first round may fail, explained.
    let mut first = Vec::new();
    for from in &living {
        for to in living.iter().filter(|to| *to != from) {
            first.push(say(world, *from, *to, 100, CompletionMode::Auto));
        }
    }
    // So may a second, to which both ends know of that.
    if settle(world, bound)? {
        return Ok(());
    }
    for (from, to) in pairs(world, core) {
        first.push(say(world, from, to, 0, CompletionMode::Delivered));
    }
    if settle(world, bound)? {
        return Ok(());
    }
    let mut must: Vec<MessageId> = Vec::new();
    for (from, to) in pairs(world, core) {
        let bytes = *prng.pick(&BYTES);
        must.push(say(world, from, to, bytes, CompletionMode::Delivered));
    }
    let arrived = |world: &World, message: MessageId| {
        let message = &world.ledger.messages[message];
        message.taken.is_some() && matches!(message.ended, Some((Status::Ok, _)))
    };
    let began = world.now();
    let all = |world: &World| must.iter().all(|message| arrived(world, *message));
    match world.run_until(bound, all) {
        Stop::Reached | Stop::Failed => Ok(()),
        stop => {
            let late = must.iter().find(|message| !arrived(world, **message));
            let spec = late.map(|message| &world.ledger.messages[*message]);
            let ms = world.now().since(began).0 / 1_000_000;
            let text = spec.map(|message| {
                let (spec, ended) = (&message.spec, message.ended);
                format!("{} → {}, {} B, sent: {ended:?}", spec.from, spec.to, spec.bytes)
            });
            Err(format!(
                "nodes {core:?} are well, but not all arrived among them ({stop:?} after {ms} ms): {}",
                text.unwrap_or_default()
            ))
        }
    }
}

/// Those of these nodes between which there is a way: it may have led through one that is not well.
fn pairs(world: &World, nodes: &[usize]) -> Vec<(usize, usize)> {
    let others = |from: usize| nodes.iter().copied().filter(move |to| *to != from);
    let all = nodes.iter().flat_map(|from| others(*from).map(|to| (*from, to)));
    all.filter(|(from, to)| world.history.can_reach(*from, *to, world.now())).collect()
}

/// Something happens to a node that lasts.
fn afflict(world: &mut World, node: usize, prng: &mut Prng) {
    let (hears, is_heard) = match prng.below(4) {
        0 => return world.apply(Action::Stop { node, goodbye: false }),
        1 => (false, false),
        2 => (true, false),
        _ => (false, true),
    };
    let forever = Time::NEVER.since(world.now());
    let others = (0..world.nodes.len()).filter(|other| *other != node).collect::<Vec<_>>();
    for other in others {
        for fabric in 0..world.network.fabrics() {
            let mut cut = |from, to| {
                world.history.cut(fabric, from, to, world.now(), world.now() + forever);
                world.network.cut(fabric, from, to, true);
            };
            if !is_heard {
                cut(node, other);
            }
            if !hears {
                cut(other, node);
            }
        }
    }
}

/// Posts a message and a receive that takes it.
fn say(
    world: &mut World,
    from: usize,
    to: usize,
    bytes: u64,
    completion: CompletionMode,
) -> MessageId {
    let message =
        world.ledger.plan(MessageSpec { completion, ..MessageSpec::plain(from, to, bytes) });
    let want = Want::exactly(message);
    let receive = ReceiveSpec { node: to, endpoint: 0, want, bytes, pieces: 1 };
    world.apply(Action::Receive(receive));
    world.apply(Action::Send(message));
    message
}

/// Until all sends of nodes that live have ended, and what may arrive has. True: the run has failed.
fn settle(world: &mut World, bound: Span) -> Result<bool, String> {
    let _ = Selector::ANY;
    let stop = world.run_until(bound, |world| super::run::open_work(world) == 0);
    if stop == Stop::Limit {
        let open = crate::verdict::open_work(&world.ledger, world.now());
        let ms = bound.0 / 1_000_000;
        return Err(format!("no end {ms} ms after most were well: {open}"));
    }
    Ok(stop == Stop::Failed)
}
