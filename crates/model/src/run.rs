//! One seed from beginning to verdict.
//!
//! Four acts. *Trouble*: everything that was drawn happens. *Draining*: nothing new happens, but frames are still lost and damaged as
//! before; receives are posted for whatever is still on its way, and all of it must arrive or fail for a known reason within
//! bounded time. *Liveness*: some nodes are well and the others are not ([`liveness`]). *Quiet*: what is left is cancelled, and then
//! nothing may be under way, held, or ticking.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use emp_firmware::limits::RETRANSMIT_CEILING;
use emp_firmware::{Counter, Selector, Span, Status, Time};

use crate::boards;
use crate::cabling;
use crate::hard;
use crate::host::{ReceiveSpec, Want};
use crate::liveness;
use crate::prng::Prng;
use crate::report::{Failure, Outcome, Statistics};
use crate::swarm::{self, SwarmOptions, Temper};
use crate::trace::TraceLine;
use crate::workload;
use crate::world::{Stop, World};

/// Virtual time after which trouble is over even if applications still repeat refused posts.
const TROUBLE_MAX: Span = Span::ms(120_000);

/// How much longer everything may take while frames are still lost.
const LASTING_FACTOR: u64 = 10;

/// And where nodes relay: all may go by one cable, a few times each, and who has lost its last cable waits seven times as long for it.
const RELAYED_FACTOR: u64 = 8;

/// How often receives are posted anew for what is outstanding: those posted before may have been taken by messages of
/// pairs that broke down.
const ROUND: Span = Span::ms(500);

/// Runs one seed. A panic of the firmware is a failure like any other.
pub fn run_seed(seed: u64, options: &SwarmOptions) -> Outcome {
    run(seed, options, false, |_| ()).0
}

/// Runs one seed and returns the frames on its wire as text too.
pub fn trace_seed(seed: u64, options: &SwarmOptions) -> (Outcome, String) {
    run(seed, options, true, story)
}

/// Runs one seed and returns the frames on its wire too.
pub fn frames_of_seed(seed: u64, options: &SwarmOptions) -> (Outcome, Vec<TraceLine>) {
    run(seed, options, true, |world| world.network().trace().lines().to_vec())
}

/// Runs one seed, with what `tell` has of its world in the end.
fn run<T>(
    seed: u64,
    options: &SwarmOptions,
    trace: bool,
    tell: impl FnOnce(&World) -> T,
) -> (Outcome, T) {
    let (temper, mut world, _) = make(seed, options);
    world.network_mut().trace_mut().switch(trace);
    let mut healed = Time(0);
    let acts = catch_unwind(AssertUnwindSafe(|| play(&mut world, &temper, seed, &mut healed)));
    let verdict = acts.unwrap_or_else(|panic| Err(format!("panic: {}", panic_text(&*panic))));
    let failure = world
        .violation()
        .map(|violation| (violation.at, violation.what.clone()))
        .or_else(|| verdict.err().map(|what| (world.now(), what)))
        .map(|(at, what)| Failure { seed, at, what, arguments: options.arguments() });
    let told = tell(&world);
    let statistics = statistics(&world, healed);
    let (counts, peaks) = sums(&world);
    (Outcome { seed, failure, statistics, digest: world.digest(), counts, peaks }, told)
}

/// A seed's world with all that will happen in it, and the numbers of its actions.
fn make(seed: u64, options: &SwarmOptions) -> (Temper, World, Vec<u64>) {
    let (mut temper, mut setup, mut prng) = swarm::draw(seed, options);
    options.without.reduce_setup(&mut setup);
    let began = hard::harden(seed, &mut setup, &options.without);
    boards::draw(seed, &mut setup, &options.without);
    let wiring = cabling::draw(seed, &mut setup, &mut temper, options);
    let mut world = World::cabled(began, setup, wiring);
    workload::schedule(&mut world, &temper, options, &mut prng);
    hard::schedule_limits(seed, &mut world, &temper);
    cabling::schedule(seed, &mut world, &temper, options);
    let actions = options.without.reduce_actions(&mut world);
    (temper, world, actions)
}

/// The numbers of what will be done in a seed's world.
pub(crate) fn actions_of(seed: u64, options: &SwarmOptions) -> Vec<u64> {
    make(seed, options).2
}

/// The frames of a run, and then what each node counted, and the messages.
fn story(world: &World) -> String {
    let mut text: String =
        world.network().trace().lines().iter().map(|line| format!("{line}\n")).collect();
    for (index, node) in world.nodes().iter().enumerate() {
        let Some(firmware) = &node.firmware else { continue };
        text.push_str(&format!("node {index} ({}):", firmware.profile().name));
        for (name, value) in firmware.counters().iter().filter(|(_, value)| *value > 0) {
            text.push_str(&format!(" {name} {value}"));
        }
        text.push('\n');
        for peer in 0..world.nodes().len() {
            let shown = firmware.shown(world.now(), world.id(peer));
            if shown.is_active() {
                text.push_str(&format!("node {index}: to node {peer}: {shown:?}\n"));
            }
        }
    }
    let posted = world.ledger.messages.iter().enumerate().filter(|(_, m)| m.posted.is_some());
    for (id, message) in posted {
        let spec = &message.spec;
        text.push_str(&format!(
            "message {id}: {} → {}, {} B in {} pieces, {:?}, ended {:?}, taken by {:?}\n",
            spec.from,
            spec.to,
            spec.bytes,
            spec.pieces,
            spec.completion,
            message.ended,
            message.taken
        ));
    }
    text
}

fn panic_text(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "?".into())
}

fn play(world: &mut World, temper: &Temper, seed: u64, healed: &mut Time) -> Result<(), String> {
    world.run_until(TROUBLE_MAX, |world| world.actions.is_empty());
    world.actions.clear();
    world.network.mend_all();
    world.plug_all();
    if !temper.lasting {
        world.network.heal();
    }
    *healed = world.now();
    let bound = recovery_bound(world, temper);
    let lasting = if temper.lasting { LASTING_FACTOR } else { 1 };
    receive_the_rest(world, Span(bound.0 * lasting))?;
    if temper.liveness && world.violation().is_none() {
        let mut prng = Prng::new(seed ^ 0x11fe_11fe);
        liveness::play(world, &mut prng, Span(bound.0 + 4 * temper.patience.0))?;
    }
    receive_the_left_over(world, bound);
    for node in 0..world.nodes.len() {
        world.remove_region(node);
    }
    let left: Vec<_> = (0..world.ledger.receives.len())
        .filter(|id| {
            let receive = &world.ledger.receives[*id];
            receive.ended.is_none()
                && receive
                    .posted
                    .is_some_and(|p| p.incarnation == world.nodes[receive.node].incarnation)
                && world.nodes[receive.node].firmware.is_some()
        })
        .collect();
    for receive in left {
        world.cancel_receive(receive);
    }
    match world.run(bound) {
        Stop::Idle => {
            world.judge_searches()?;
            world.judge_finished()
        }
        Stop::Limit => Err(format!("not idle long after the end: {}", busy(world))),
        Stop::Failed | Stop::Reached => Ok(()),
    }
}

/// Posts receives for all that may still arrive until all of it did.
fn receive_the_rest(world: &mut World, bound: Span) -> Result<(), String> {
    let limit = world.now() + bound;
    loop {
        let before = open_work(world);
        if before == 0 {
            return Ok(());
        }
        let ended = receives_ended(world);
        post_for_outstanding(world);
        let left = limit.since(world.now());
        let stop = world.run_until(left.min(ROUND), |world| open_work(world) == 0);
        match stop {
            Stop::Failed | Stop::Reached => return Ok(()),
            Stop::Limit if left > ROUND => {}
            Stop::Limit => {
                let open = crate::verdict::open_work(&world.ledger, world.now());
                let ms = bound.0 / 1_000_000;
                return Err(format!("no end {ms} ms after healing: {open}; {}", busy(world)));
            }
            // Perhaps others took the receives: messages whose senders were told that they failed.
            Stop::Idle if open_work(world) < before || receives_ended(world) > ended => {}
            Stop::Idle => {
                // Idle with work left: lost messages are named by the verdict, the rest here.
                world.judge()?;
                if sends_open(world) == 0 {
                    return Ok(());
                }
                let open = crate::verdict::open_work(&world.ledger, world.now());
                return Err(format!("idle, but not done: {open}"));
            }
        }
    }
}

fn receives_ended(world: &World) -> usize {
    world.ledger.receives.iter().filter(|receive| receive.ended.is_some()).count()
}

/// Sends that have not ended, and messages that may still arrive, at nodes that live.
pub(crate) fn open_work(world: &World) -> usize {
    sends_open(world) + outstanding(world).count()
}

fn sends_open(world: &World) -> usize {
    let open = |message: &&crate::ledger::Message| {
        let node = &world.nodes[message.spec.from];
        message.ended.is_none()
            && node.firmware.is_some()
            && message.posted.is_some_and(|posted| posted.incarnation == node.incarnation)
    };
    let deeds = world.nodes.iter().enumerate().filter(|(_, node)| node.firmware.is_some());
    let deeds = deeds.map(|(index, node)| world.one_sided.open(index, node.incarnation).count());
    world.ledger.messages.iter().filter(open).count() + deeds.sum::<usize>()
}

/// Messages that may still arrive somewhere: not those whose pair broke down since.
fn outstanding(world: &World) -> impl Iterator<Item = (usize, &crate::ledger::Message)> {
    world.ledger.outstanding().filter(|(_, message)| {
        let spec = &message.spec;
        let since = message.posted.map_or(Time(0), |posted| posted.at);
        world.nodes[spec.to].firmware.is_some()
            && !world.history.pair_broke(spec.from, spec.to, since)
            && !world.history.was_closed_since(spec.to, spec.to_endpoint, since)
    })
}

/// Posts receives until each endpoint has as many that take anything as messages may still arrive there, those of broken
/// pairs included.
fn post_for_outstanding(world: &mut World) {
    let mut wanted: BTreeMap<(usize, u16), Vec<usize>> = BTreeMap::new();
    for (id, message) in world.ledger.outstanding() {
        wanted.entry((message.spec.to, message.spec.to_endpoint)).or_default().push(id);
    }
    for ((node, endpoint), messages) in wanted {
        let open = world.ledger.receives.iter().filter(|receive| {
            (receive.node, receive.endpoint) == (node, endpoint)
                && receive.selector == Selector::ANY
                && receive.ended.is_none()
                && receive.posted.is_some_and(|p| p.incarnation == world.nodes[node].incarnation)
        });
        let open = open.count().min(messages.len());
        post_for(world, messages[open..].to_vec());
    }
}

/// A message may be there although its send failed (its acknowledgement was lost, then its sender): takes such ones, so
/// that pools can be seen to be empty afterwards.
fn receive_the_left_over(world: &mut World, bound: Span) {
    let unclear = |message: &crate::ledger::Message| {
        message.posted.is_some() && message.taken.is_none() && !message.discarded
    };
    let messages = &world.ledger.messages;
    let left = (0..messages.len()).filter(|id| unclear(&messages[*id])).collect();
    post_for(world, left);
    // Or it is still on its way, to an endpoint that was closed for a while.
    world.run_until(bound, |world| {
        let mut living = world.nodes().iter().filter_map(|node| node.firmware.as_ref());
        // A node that is paused posts later.
        world.actions.is_empty()
            && living.all(|firmware| firmware.is_drained() && !firmware.is_receiving())
    });
}

fn post_for(world: &mut World, messages: Vec<usize>) {
    for message in messages {
        let spec = &world.ledger.messages[message].spec;
        let (node, endpoint, bytes) = (spec.to, spec.to_endpoint, spec.bytes);
        if world.nodes[node].setup.endpoints.contains(&endpoint) {
            let spec = ReceiveSpec { node, endpoint, want: Want::ANY, bytes, pieces: 1 };
            world.apply(crate::action::Action::Receive(spec));
        }
    }
}

/// How long after healing everything must be over.
fn recovery_bound(world: &World, temper: &Temper) -> Span {
    // Every peer may have to be given up once, one after the other in a chain of waiting, and a pause may be in force.
    // Where no one was away, retransmissions that backed off to their ceiling are the longest wait.
    let away = temper.harsh() || temper.closes || temper.pauses;
    // A message for an endpoint that nobody opens is given up after as long as a silent peer (`READY-3`).
    let waiting = temper.patience.0 * if away { 5 } else { 1 } + 5_000_000_000;
    // The slowest network drawn moves 1 Gb/s; a tenth of that is enough.
    let bytes: u64 = world.ledger.messages.iter().map(|message| message.spec.bytes).sum();
    // A slow node loses most of what comes faster than it looks: thirty times its own time.
    let slowest = world.nodes().iter().map(|node| {
        let setup = &node.setup;
        let frames = setup.pace.frames_per_turn.min(setup.pace.ring_frames) as u64;
        let least = setup.links.iter().map(|link| link.frame_bytes_max as u64).min();
        setup.pace.turn_interval.0 * bytes / (frames * least.unwrap_or(1_500))
    });
    // Without selective acknowledgements a loss may cost a timer for each collection behind it.
    let blind = world.nodes().iter().any(|node| !node.setup.profile.selective_acks);
    let timer = Span(world.network.latency_max().0 * 6 + 1_000_000);
    let timers = if blind {
        bytes / 1_000 * resent_until_taken(timer, world.network.loss_max().min(0.99)).0
    } else {
        0
    };
    let usual = waiting + bytes * 80 + slowest.max().unwrap_or(0) * 30 + timers;
    match world.network.is_relayed() {
        true => Span(usual * RELAYED_FACTOR),
        false => Span(usual),
    }
}

/// How long a frame takes on average to get through where so large a part is lost, if each loss costs a timer, which doubles up to its
/// ceiling. (Nine of ten frames of one kind may be lost: ten copies of each, most of them a whole ceiling apart.)
fn resent_until_taken(timer: Span, loss: f64) -> Span {
    let timers = (0..17).map(|run| Span(timer.0 << run).min(RETRANSMIT_CEILING.max(timer)));
    let mut unlikely = 1.0;
    let mut sum = 0.0;
    for timer in timers {
        sum += unlikely * timer.0 as f64;
        unlikely *= loss;
    }
    Span((sum + unlikely / (1.0 - loss) * RETRANSMIT_CEILING.0 as f64) as u64)
}

fn busy(world: &World) -> String {
    let now = world.now();
    let nodes: Vec<String> = world
        .nodes()
        .iter()
        .enumerate()
        .filter_map(|(index, node)| {
            let firmware = node.firmware.as_ref()?;
            let due = firmware.poll_timeout()?;
            Some(format!(
                "node {index}: timer in {} µs, drained {}, receiving {}",
                due.since(now).0 / 1_000,
                firmware.is_drained(),
                firmware.is_receiving()
            ))
        })
        .collect();
    format!("{nodes:?}, next frame at {:?}", world.network().next_arrival())
}

/// What all nodes counted, and the most that one held of each thing.
fn sums(world: &World) -> (Vec<u64>, BTreeMap<&'static str, usize>) {
    let mut counts = vec![0; Counter::ALL.len()];
    let mut peaks = BTreeMap::new();
    for node in world.nodes() {
        counts.iter_mut().zip(node.counts()).for_each(|(sum, count)| *sum += count);
        for (name, held) in node.peaks() {
            let peak: &mut usize = peaks.entry(*name).or_default();
            *peak = (*peak).max(*held);
        }
    }
    (counts, peaks)
}

fn statistics(world: &World, healed: Time) -> Statistics {
    let messages = &world.ledger.messages;
    let arrived = |status: Status| matches!(status, Status::Ok | Status::Truncated);
    let failed = |status: Status| !arrived(status) && status != Status::Cancelled;
    let sends_failed =
        messages.iter().filter(|m| m.ended.is_some_and(|(status, _)| failed(status)));
    let receives = &world.ledger.receives;
    let receives_failed =
        receives.iter().filter(|r| r.ended.is_some_and(|(done, _, _)| failed(done.status)));
    let done = receives.iter().filter_map(|receive| receive.ended);
    let last = done.filter(|(done, _, _)| arrived(done.status)).map(|(_, at, _)| at).max();
    let posted = messages.iter().filter(|message| message.posted.is_some());
    Statistics {
        nodes: world.nodes().len(),
        messages: posted.clone().count(),
        received: messages.iter().filter(|message| message.taken.is_some()).count(),
        errors: sends_failed.count() + receives_failed.count(),
        bytes: posted.map(|message| message.spec.bytes).sum(),
        virtual_time: world.now().since(world.began()),
        recovery: last.unwrap_or(healed).since(healed),
        network: world.network().totals(),
        ring_lost: world.nodes().iter().map(|node| node.ring_lost).sum(),
        resent: world
            .nodes()
            .iter()
            .filter_map(|node| node.firmware.as_ref())
            .map(|firmware| firmware.counters().get(Counter::FramesResent))
            .sum(),
    }
}
