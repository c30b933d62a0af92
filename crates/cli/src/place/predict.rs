//! What a placement would do, from what each stage takes: who waits for whom, and how busy each processor is.

use emp_firmware::Stage as Measured;
use emp_model::tigon2::{Placement, Processor, Stage};

use crate::bench::StageCosts;

/// What was measured of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Nanoseconds that the call takes which sends a frame, and the one which receives one.
    pub calls: [f64; 2],
    /// Nanoseconds until one core sees what another has written, and looks at it.
    pub crossing: f64,
}

/// Nanoseconds of each stage for one message, in the order of [`Stage::ALL`], and of the links' calls that send its frames and receive them.
#[derive(Clone, Copy, Debug)]
pub struct Work([f64; Stage::ALL.len()], [f64; 2]);

/// The stages that need those calls.
const CALLERS: [Stage; 2] = [Stage::Transmission, Stage::ReceiveBookkeeping];

/// The paper cuts the intake of acknowledgements in 3.25 and 2.50 µs (I17): the part that is the first's.
const ACK_ARRIVAL_PART: f64 = 3.25 / 5.75;

impl Work {
    /// Of what was measured for messages of one length, in so many frames, with the calls of a link.
    pub fn of(costs: &StageCosts, frames: f64, machine: &Machine) -> Self {
        let ns = |stage: Measured| costs.stages[stage as usize].ns;
        let ack = ns(Measured::ReceiveAcknowledgement);
        let stages = [
            ns(Measured::SendBookkeeping),
            ns(Measured::Transmission),
            ack * ACK_ARRIVAL_PART,
            ack * (1.0 - ACK_ARRIVAL_PART),
            ns(Measured::ReceiveBookkeeping),
            ns(Measured::ReceiveFrame),
            ns(Measured::ReceiveDma),
            ns(Measured::SendAcknowledgement),
        ];
        Self(stages, machine.calls.map(|call| frames * call))
    }

    fn takes(&self, stage: Stage) -> f64 {
        self.0[stage as usize]
    }

    /// The calls that one of these stages needs.
    fn calls(&self, stage: Stage) -> f64 {
        CALLERS.iter().zip(self.1).filter(|(caller, _)| **caller == stage).map(|(_, ns)| ns).sum()
    }
}

/// What follows on what at the sender and at the receiver.
const SENDER: [&[Stage]; 2] = [
    &[Stage::SendBookkeeping, Stage::Transmission],
    &[Stage::ReceiveAckArrival, Stage::ReceiveAckRelease],
];
const RECEIVER: [&[Stage]; 2] =
    [&[Stage::ReceiveBookkeeping, Stage::ReceiveFrame, Stage::ReceiveDma], &[Stage::SendAck]];

/// What a placement is predicted to do with messages of one length.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    /// Nanoseconds from the post to the end of the placement, the wire aside.
    pub one_way: f64,
    /// Messages a second one way.
    pub one_way_rate: f64,
    /// Messages a second each way, both at once.
    pub both_ways_rate: f64,
}

/// Predicts.
pub fn predict(placement: &Placement, work: &Work, frames: f64, machine: &Machine) -> Prediction {
    let on = |stage| placement.place(stage);
    let crosses =
        |chain: &[Stage]| chain.windows(2).filter(|pair| on(pair[0]) != on(pair[1])).count() as f64;
    // What must be over before the message is there.
    let path = SENDER[0].iter().chain(RECEIVER[0]);
    let mut one_way: f64 = path.map(|stage| work.takes(*stage) + work.calls(*stage)).sum();
    let called = CALLERS.iter().filter(|stage| placement.call_of(**stage) != on(**stage)).count();
    one_way += machine.crossing * (crosses(SENDER[0]) + crosses(RECEIVER[0]) + called as f64);
    // An acknowledgement comes with the frame, and is taken in before it by whoever takes the frame.
    let in_line = |stage: &&Stage| on(**stage) == on(Stage::ReceiveBookkeeping);
    one_way += SENDER[1].iter().filter(in_line).map(|stage| work.takes(*stage)).sum::<f64>();
    let load = |chains: &[&[Stage]], processor: Processor| -> f64 {
        let stages = chains.iter().flat_map(|chain| chain.iter());
        let here = stages.filter(|stage| on(**stage) == processor);
        let works: f64 = here.map(|stage| work.takes(*stage)).sum();
        let stages = chains.iter().flat_map(|chain| chain.iter());
        let calls = stages.filter(|stage| placement.call_of(**stage) == processor);
        let calls: f64 = calls.map(|stage| work.calls(*stage)).sum();
        // Whoever takes over waits for the other's cache line, once a frame.
        let taken = chains.iter().flat_map(|chain| chain.windows(2));
        let taken = taken.filter(|pair| on(pair[0]) != on(pair[1]) && on(pair[1]) == processor);
        // Of links' calls: whoever sends takes the frames over, and so does whoever was brought some.
        let brought = CALLERS.into_iter().zip([true, false]).filter(|(stage, sends)| {
            let (here, there) = (placement.call_of(*stage), on(*stage));
            let has = chains.iter().any(|chain| chain.contains(stage));
            has && here != there && processor == if *sends { here } else { there }
        });
        works + calls + (taken.count() + brought.count()) as f64 * machine.crossing * frames
    };
    let processors = [Processor::A, Processor::B];
    let sides = [&SENDER[..], &RECEIVER[..]];
    let busiest = sides.iter().flat_map(|side| processors.map(|one| load(side, one)));
    let together = processors.map(|one| load(&SENDER, one) + load(&RECEIVER, one));
    let rate = |ns: f64| 1e9 / ns.max(1.0);
    Prediction {
        one_way,
        one_way_rate: rate(busiest.fold(0.0, f64::max)),
        both_ways_rate: rate(together.into_iter().fold(0.0, f64::max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Placement {
        Placement::by_name(name).unwrap()
    }

    const WORK: Work = Work([100.0, 200.0, 40.0, 60.0, 300.0, 50.0, 50.0, 80.0], [0.0; 2]);

    #[test]
    fn one_processor_does_one_thing_after_the_other() {
        let machine = Machine { calls: [0.0; 2], crossing: 1_000.0 };
        let base = predict(&named("base"), &WORK, 1.0, &machine);
        assert!((base.one_way - (300.0 + 400.0 + 100.0)).abs() < 1e-6, "{base:?}");
        // The receiver is the busier one: 300 + 50 + 50 + 80.
        assert!((base.one_way_rate - 1e9 / 480.0).abs() < 1.0, "{base:?}");
        assert!((base.both_ways_rate - 1e9 / 880.0).abs() < 1.0, "{base:?}");
    }

    #[test]
    fn calls_elsewhere_leave_the_engine_its_processor() {
        let cheap = Machine { calls: [0.0; 2], crossing: 10.0 };
        let work = Work(WORK.0, [500.0, 300.0]);
        let [base, io] = ["base", "io"].map(|name| predict(&named(name), &work, 1.0, &cheap));
        assert!((base.one_way - 1_600.0).abs() < 1e-6 && (io.one_way - 1_620.0).abs() < 1e-6);
        // The engine alone 880, and 10 for what it is brought; the calls alone 800, and 10 for what they are.
        assert!((base.both_ways_rate - 1e9 / 1_680.0).abs() < 1.0, "{base:?}");
        assert!((io.both_ways_rate - 1e9 / 890.0).abs() < 1.0, "{io:?}");
    }

    #[test]
    fn a_processor_for_each_side_helps_both_ways_unless_crossing_is_dear() {
        let cheap = Machine { calls: [0.0; 2], crossing: 10.0 };
        let [base, dsr] = ["base", "DSR"].map(|name| predict(&named(name), &WORK, 1.0, &cheap));
        assert!(dsr.both_ways_rate > 1.5 * base.both_ways_rate, "{dsr:?}");
        let dear = Machine { crossing: 5_000.0, ..cheap };
        let dsr = predict(&named("DSR"), &WORK, 1.0, &dear);
        assert!(dsr.both_ways_rate < base.both_ways_rate, "{dsr:?}");
        let ro = predict(&named("RO"), &WORK, 1.0, &dear);
        assert!(ro.one_way > base.one_way + 4_000.0, "{ro:?}");
    }
}
