//! A stream of messages from one node to another, measured in virtual time: what the golden table is made of.

use emp_firmware::{Counter, Profile, Span};

use crate::faults::{FaultPlan, Rates};
use crate::host::Want;
use crate::ledger::MessageSpec;
use crate::network::FabricSetup;
use crate::prng::Ppm;
use crate::world::{Stop, World, WorldSetup};

/// A stream to measure.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Parameters of both nodes.
    pub profile: Profile,
    /// The network between them.
    pub fabric: FabricSetup,
    /// Length of every message.
    pub bytes: u64,
    /// Messages in all.
    pub messages: usize,
    /// Messages posted and not complete at a time.
    pub outstanding: usize,
    /// Losses, of all kinds of frames alike.
    pub loss: Ppm,
    /// Seed of the losses.
    pub seed: u64,
}

impl Stream {
    /// A stream over the fault-free LAN of [`FabricSetup::lan`].
    pub fn lan(profile: &Profile, bytes: u64, messages: usize, loss: Ppm) -> Self {
        Self {
            profile: profile.clone(),
            fabric: FabricSetup::lan(),
            bytes,
            messages,
            // As bandwidth tests of MPI do it (a window of 64), and enough to fill the wire.
            outstanding: 64,
            loss,
            seed: 1,
        }
    }
}

/// What a stream came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurement {
    /// Virtual time from the first post to the last completed receive.
    pub elapsed: Span,
    /// Payload bits per second of virtual time.
    pub goodput: u64,
    /// Sequenced frames sent for the first time.
    pub sent: u64,
    /// Sequenced frames sent again.
    pub resent: u64,
    /// Explicit acknowledgements.
    pub acks: u64,
}

/// Virtual time that a stream may take; far beyond the slowest cell of the golden table.
const ELAPSED_MAX: Span = Span::ms(600_000);

/// Runs a stream. An error says what went wrong.
pub fn measure(stream: &Stream) -> Result<Measurement, String> {
    let mut setup = WorldSetup::lan(2, &stream.profile);
    setup.fabrics = vec![stream.fabric.clone()];
    setup.seed = stream.seed;
    let mut world = World::new(setup);
    // One message makes the nodes known to each other; discovery is not what is measured.
    run_messages(&mut world, stream, 1)?;
    let before = counters(&world);
    let faults = FaultPlan::uniform(Rates::dropping(stream.loss));
    world.network_mut().set_faults(0, faults);
    let start = world.now();
    run_messages(&mut world, stream, stream.messages)?;
    let elapsed = world.now().since(start);
    let after = counters(&world);
    let bits = u128::from(stream.bytes) * 8 * stream.messages as u128;
    Ok(Measurement {
        elapsed,
        goodput: (bits * 1_000_000_000 / u128::from(elapsed.0.max(1))) as u64,
        sent: after[0] - before[0],
        resent: after[1] - before[1],
        acks: after[2] - before[2],
    })
}

/// Posts messages and receives, so many at a time, and waits until all have arrived.
fn run_messages(world: &mut World, stream: &Stream, messages: usize) -> Result<(), String> {
    let (mut posted, mut finished) = (0, 0);
    let first_send = world.ledger().messages.len();
    let first_receive = world.ledger().receives.len();
    let mut post = |world: &mut World| {
        if posted < messages {
            posted += 1;
            world.receive(1, Want::ANY, stream.bytes);
            world.send(MessageSpec::plain(0, 1, stream.bytes));
        }
    };
    for _ in 0..stream.outstanding {
        post(world);
    }
    while finished < messages {
        // Receives complete in order here: all accept everything, and messages match in order.
        let (send, receive) = (first_send + finished, first_receive + finished);
        let stop = world.run_until(ELAPSED_MAX, |world| {
            world.received(receive).is_some() && world.sent(send).is_some()
        });
        match stop {
            Stop::Reached => finished += 1,
            Stop::Failed => {
                return Err(world.violation().map_or_else(String::new, |v| v.what.clone()));
            }
            Stop::Idle | Stop::Limit => {
                return Err(format!(
                    "message {finished} of {} B never arrived: {stop:?}",
                    stream.bytes
                ));
            }
        }
        post(world);
    }
    Ok(())
}

fn counters(world: &World) -> [u64; 3] {
    let sum = |counter| (0..2).map(|node| world.firmware(node).counters().get(counter)).sum();
    [sum(Counter::FramesSent), sum(Counter::FramesResent), sum(Counter::AcksSent)]
}
