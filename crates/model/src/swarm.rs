//! Draws a world from a seed. Every seed draws its own *kind* of world first (which faults at all, how large, how fast),
//! then the details: a swarm of different worlds finds more than many runs of one average world.

use emp_firmware::{LinkInfo, Profile, Span};
use emp_wire::{AddressFamily, Kind, NodeId};

use crate::faults::{FaultPlan, Rates};
use crate::network::FabricSetup;
use crate::node::{NodeSetup, Pace, divide};
use crate::outbox::Card;
use crate::prng::{Ppm, Prng};
use crate::reduce::{Part, Reduction};
use crate::world::WorldSetup;

/// How much one seed does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// A few nodes, dozens of messages: for the test suite.
    Small,
    /// Up to six nodes, hundreds of messages, megabytes, full pools.
    #[default]
    Full,
}

/// What seeds may draw.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SwarmOptions {
    /// How much one seed does.
    pub scale: Scale,
    /// All nodes use this profile, unchanged; else each node draws one.
    pub profile: Option<&'static str>,
    /// The network is perfect and nodes stay up.
    pub calm: bool,
    /// All worlds are cables between nodes of which most relay.
    pub relays: bool,
    /// What is left out.
    pub without: Reduction,
}

impl SwarmOptions {
    /// The options as arguments of `emp sim`, with a space before each.
    pub fn arguments(&self) -> String {
        let mut all = String::new();
        if self.scale == Scale::Small {
            all.push_str(" --small");
        }
        if let Some(profile) = self.profile {
            all.push_str(" --profile ");
            all.push_str(profile);
        }
        if self.calm {
            all.push_str(" --calm");
        }
        if self.relays {
            all.push_str(" --relays");
        }
        if self.without != Reduction::default() {
            all.push_str(&format!(" --without {}", self.without));
        }
        all
    }
}

/// The kind of world that a seed has drawn.
#[derive(Clone, Debug)]
pub struct Temper {
    /// Nodes come and go.
    pub restarts: bool,
    /// The network is cut.
    pub cuts: bool,
    /// Cables are moved.
    pub moves: bool,
    /// Endpoints are closed and opened.
    pub closes: bool,
    /// Operations are cancelled.
    pub cancels: bool,
    /// Nodes stop running for a while.
    pub pauses: bool,
    /// More unexpected data than any pool holds.
    pub flood: bool,
    /// Shortest time after which a silent peer is given up.
    pub patience: Span,
    /// Faults go on until the traffic is drained.
    pub lasting: bool,
    /// After that most nodes are well, and something is wrong with the others for good.
    pub liveness: bool,
    /// Interfaces change their MTU.
    pub limits: bool,
}

impl Temper {
    /// True if errors may occur: peers or paths are away for long enough to be noticed.
    pub fn harsh(&self) -> bool {
        self.restarts || self.cuts || self.moves
    }
}

/// Draws the world: its temper, and how it is made.
pub fn draw(seed: u64, options: &SwarmOptions) -> (Temper, WorldSetup, Prng) {
    let mut prng = Prng::new(seed);
    let mut temper = draw_temper(&mut prng, options);
    let may_limit = !options.calm && !options.without.is_without(Part::Mtu);
    temper.limits = Prng::new(seed ^ 0x0171_3171).percent(20) && may_limit;
    let nodes = match (options.relays, options.scale) {
        (false, Scale::Small) => 2..=4,
        (false, Scale::Full) => 2..=6,
        // The longest lines have ends beyond the hop limit.
        (true, Scale::Small) => 3..=6,
        (true, Scale::Full) => 3..=12,
    };
    let nodes = prng.within(nodes) as usize;
    let fabrics_count = if prng.percent(20) { 2 } else { 1 };
    let fabrics = (0..fabrics_count).map(|_| draw_fabric(&mut prng, &temper, options)).collect();
    let frame_bytes = *prng.pick(&[1_500usize, 1_500, 1_500, 9_000, 4_096, 576]);
    let mixed_frames = prng.percent(15);
    // Without broadcast (UDP between subnets) nodes are told where the others are; who moves then is not found.
    let broadcast = temper.moves || prng.percent(75);
    let endpoints: Vec<u16> = (0..prng.within(1..=3) as u16).collect();
    let setups = (0..nodes)
        .map(|index| {
            let mut profile = draw_profile(&mut prng, options);
            profile.unreachable_after = temper.patience;
            let frame_bytes =
                if mixed_frames { *prng.pick(&[576, 1_500, 9_000]) } else { frame_bytes };
            let tells = (!broadcast).then_some(AddressFamily::Index);
            let link = LinkInfo { tells, ..LinkInfo::new(frame_bytes, broadcast) };
            NodeSetup {
                id: NodeId(prng.bits() | 1),
                profile,
                links: vec![link; fabrics_count],
                plugged_later: 0,
                endpoints: endpoints.clone(),
                pace: draw_pace(&mut prng, index),
                card: Card::default(),
                shares_with: None,
                told_of: None,
                halves: false,
                first_numbers: (0, 0),
            }
        })
        .collect();
    let mut world = WorldSetup { fabrics, nodes: setups, seed: prng.bits() };
    let wide = draw_wide(seed, &world);
    draw_segments(seed, &mut world);
    draw_lengths(seed, &mut world);
    draw_long(seed, &mut world, &wide, options.calm);
    (temper, world, prng)
}

/// Half of the links take many frames in a call, so that long trains leave in parts. From numbers of its own, as below.
fn draw_segments(seed: u64, world: &mut WorldSetup) {
    let mut prng = Prng::new(seed ^ 0x5e9_3e75);
    for link in world.nodes.iter_mut().flat_map(|node| &mut node.links) {
        link.segments = prng.percent(50);
    }
}

/// In half of the worlds of two fabrics most links of one of them have another MTU than those of the other. From numbers of its own, as
/// below.
fn draw_lengths(seed: u64, world: &mut WorldSetup) {
    let mut prng = Prng::new(seed ^ 0x1e_0960_5eed);
    if world.fabrics.len() < 2 || !prng.percent(50) {
        return;
    }
    let fabric = prng.index(world.fabrics.len());
    let bytes = *prng.pick(&[576, 1_450, 4_096, 9_000]);
    for node in &mut world.nodes {
        if prng.percent(80) {
            node.links[fabric].frame_bytes_max = bytes;
        }
    }
}

/// Half of the links carry frames longer than the MTU; of the fabrics that cut them, some do not join the pieces; and half of
/// the links say that they have room for many. From numbers of its own, as below.
fn draw_long(seed: u64, world: &mut WorldSetup, wide: &[Option<u32>], calm: bool) {
    let mut prng = Prng::new(seed ^ 0x7a11_f3a3);
    let mut sooner = Prng::new(seed ^ 0x500_1e57);
    for link in world.nodes.iter_mut().flat_map(|node| &mut node.links) {
        link.long_frames = prng.percent(50);
    }
    for (node, wide) in world.nodes.iter_mut().zip(wide) {
        if let Some(usual) = *wide {
            divide(&mut node.links, 1, usual, sooner.within(2..=usual.into()) as u32);
        }
    }
    // In half of these worlds costs are taken for measured, and corrected by what messages take.
    let corrected = Prng::new(seed ^ 0xc057_5eed).percent(50);
    for cost in world
        .nodes
        .iter_mut()
        .flat_map(|node| &mut node.links)
        .filter_map(|link| link.cost.as_mut())
    {
        cost.named = !corrected;
    }
    let mut room = Prng::new(seed ^ 0xdee_b00c);
    for link in world.nodes.iter_mut().flat_map(|node| &mut node.links) {
        link.long_frames_held = if room.percent(50) { 64 } else { 6 };
    }
    let usual = |node: &NodeSetup| node.links.iter().map(|link| link.frame_bytes_max).max();
    let usual = world.nodes.iter().filter_map(usual).max().unwrap_or(usize::MAX);
    for fabric in &mut world.fabrics {
        (fabric.piece_bytes, fabric.joins_pieces) = (usual, prng.percent(75) || calm);
    }
}

/// In most worlds of two fabrics the second is for long trains: from how many frames on, by node. Drawn from numbers of its own, so that
/// all else of a seed's world is as it was before a pair had several paths.
fn draw_wide(seed: u64, world: &WorldSetup) -> Vec<Option<u32>> {
    let mut prng = Prng::new(seed ^ 0x1a9e_5eed);
    if world.fabrics.len() < 2 || !prng.percent(75) {
        return vec![None; world.nodes.len()];
    }
    // A node without such a link among others that have one must still be understood.
    let mut draw = |_: &NodeSetup| prng.percent(90).then(|| prng.within(2..=12) as u32);
    world.nodes.iter().map(&mut draw).collect()
}

fn draw_temper(prng: &mut Prng, options: &SwarmOptions) -> Temper {
    let calm = options.calm;
    let mut odds = |percent: u32| prng.percent(percent) && !calm;
    let mut temper = Temper {
        restarts: odds(15),
        cuts: odds(20),
        moves: odds(8),
        closes: odds(8),
        cancels: odds(30),
        pauses: odds(20),
        flood: options.scale == Scale::Full && odds(6),
        patience: Profile::DEFAULT.unreachable_after,
        lasting: !calm,
        liveness: !calm && !options.without.is_without(Part::Liveness),
        limits: false,
    };
    if temper.harsh() && odds(70) {
        temper.patience = Span::ms(prng.within(500..=2_000));
    }
    temper
}

fn draw_fabric(prng: &mut Prng, temper: &Temper, options: &SwarmOptions) -> FabricSetup {
    let latency = match prng.below(10) {
        0 => Span::us(prng.within(500..=5_000)),
        _ => Span(prng.within(500..=50_000)),
    };
    let jitter = if prng.percent(50) { Span(prng.below(latency.0)) } else { Span(0) };
    let faults = if options.calm || prng.percent(15) {
        FaultPlan::default()
    } else {
        draw_faults(prng, temper)
    };
    FabricSetup {
        bits_per_second: *prng.pick(&[1, 10, 10, 25, 100]) * 1_000_000_000,
        latency,
        jitter,
        queue_bytes: 1 << prng.within(16..=21),
        ecn_bytes: None,
        burst_bytes: 0,
        pad_bytes: *prng.pick(&[0, 46]),
        faults,
        piece_bytes: usize::MAX,
        joins_pieces: true,
    }
}

fn draw_faults(prng: &mut Prng, temper: &Temper) -> FaultPlan {
    // A peer given up after half a second must not be given up because of losses alone: about ten retransmissions fit.
    let worst = if temper.harsh() {
        5
    } else if prng.percent(10) {
        30
    } else {
        10
    };
    let mut rate = |percent: u64| {
        if prng.percent(50) { Ppm::NEVER } else { Ppm(prng.log_uniform(percent * 10_000) as u32) }
    };
    let rates = Rates {
        drop: rate(worst),
        duplicate: rate(20),
        reorder: rate(20),
        delay: rate(5),
        corrupt: rate(worst.min(5)),
        truncate: rate(worst.min(5)),
        replay: rate(2),
    };
    let mut plan = FaultPlan::uniform(rates);
    if prng.percent(30) {
        // One kind has it worse: acknowledgements that never come, pulls that are lost.
        let kind = *prng.pick(&Kind::ALL[..10]);
        let drop = Ppm(prng.below(worst * 30_000) as u32);
        plan = plan.with(kind, Rates { drop, ..rates });
    }
    if prng.percent(20) {
        plan.burst_start = Ppm(prng.below(5_000) as u32);
        plan.burst_max = Span(prng.log_uniform(20_000_000));
    }
    plan
}

fn draw_profile(prng: &mut Prng, options: &SwarmOptions) -> Profile {
    if let Some(profile) = options.profile.and_then(Profile::by_name) {
        return profile.clone();
    }
    let mut profile = (*prng.pick(&Profile::ALL)).clone();
    if prng.percent(50) {
        return profile;
    }
    // Odd parameters are legal parameters.
    profile.collection = prng.within(1..=64) as u32;
    profile.ack_delay = Span::us(prng.log_uniform(2_000));
    profile.request_ack_below = prng.within(0..=256) as u32;
    profile.reorder_frames = prng.within(1..=16) as u32;
    profile.buffered_bytes = prng.log_uniform(2_000) as u32;
    if prng.percent(50) {
        profile.eager_bytes = prng.log_uniform(256 << 10);
        profile.unscheduled_bytes = prng.log_uniform(256 << 10) as u32;
        profile.pull_block_bytes = prng.within(1_024..=256 << 10) as u32;
        profile.pull_blocks = prng.within(1..=16) as u32;
        profile.pull_bytes_max = u64::from(profile.pull_block_bytes) * prng.within(1..=16);
    }
    profile
}

fn draw_pace(prng: &mut Prng, index: usize) -> Pace {
    // By index: both kinds of hosts are in most worlds.
    let posts_at_once = index.is_multiple_of(2);
    if prng.percent(75) {
        return Pace { posts_at_once, ..Pace::FAST };
    }
    Pace {
        posts_at_once,
        turn_interval: Span(prng.log_uniform(500_000)),
        late: Span(0),
        frames_per_turn: prng.within(1..=64) as usize,
        ring_frames: 1 << prng.within(4..=12),
    }
}
