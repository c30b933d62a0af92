//! Windows against a port with a rate and a queue: a bare model of frames, in which hundreds of flows take milliseconds to run.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use std::println;

use super::*;
use crate::path::pacing;

const FRAME: u32 = 1_500;

/// A port that all flows share, and what is on its way through it.
struct Port {
    bytes_per_us: f64,
    queue_bytes: f64,
    ecn_bytes: f64,
    /// Way there and back without a queue, in µs.
    base_us: f64,
    free_us: f64,
    dropped: u64,
    sent: u64,
    queue_max: f64,
}

/// Whose window it is.
enum Rule {
    Own(Congestion, Rtt),
    /// AIMD by loss alone as TCP under cubic at such round trips (RFC 9438, section 4.3).
    Cubic {
        window: f64,
        answered: u32,
        slow: bool,
    },
}

struct Flow {
    rule: Rule,
    starts_us: f64,
    unit: u32,
    next: u32,
    /// Under way: place, bytes, when sent; and whether it is lost.
    flying: VecDeque<(u32, u32, f64)>,
    in_flight: u32,
    last_us: f64,
    progress_us: f64,
    arrived: u64,
    /// Left to send.
    left: u64,
    timeouts: u32,
    backoff: u32,
    probe: bool,
    done_us: f64,
}

impl Flow {
    fn own(starts_us: f64) -> Self {
        Self::of(Rule::Own(Congestion::FRESH, Rtt::new()), starts_us)
    }

    fn cubic(starts_us: f64) -> Self {
        Self::of(Rule::Cubic { window: 10.0 * 1_500.0, answered: 0, slow: true }, starts_us)
    }

    /// The path was used before there was a queue.
    fn meet(&mut self) {
        if let Rule::Own(_, rtt) = &mut self.rule {
            rtt.on_sample(25, 0);
        }
    }

    fn of(rule: Rule, starts_us: f64) -> Self {
        Self {
            rule,
            starts_us,
            unit: FRAME,
            next: 0,
            flying: VecDeque::new(),
            in_flight: 0,
            last_us: -1e9,
            progress_us: starts_us,
            arrived: 0,
            left: u64::MAX,
            timeouts: 0,
            backoff: 0,
            probe: false,
            done_us: 0.0,
        }
    }

    fn window(&self) -> u32 {
        match &self.rule {
            Rule::Own(own, _) => own.bytes(),
            Rule::Cubic { window, .. } => *window as u32,
        }
    }

    /// When the next frame may leave, if any may before something is acknowledged.
    fn may_send_at(&mut self, now: f64) -> Option<f64> {
        if self.left == 0 && !self.probe || now < self.starts_us {
            return (self.left > 0).then_some(self.starts_us);
        }
        if self.probe {
            return Some(now);
        }
        let (window, unit) = (self.window(), self.unit);
        if self.in_flight + unit <= window {
            return Some(now);
        }
        let (alone, next) = (self.in_flight == 0, self.next);
        match &mut self.rule {
            Rule::Own(own, rtt) => {
                own.note_limited(next, (256 * 1_500, 0));
                let pause = pacing::pause(window, unit, own.trip_us(rtt)).filter(|_| alone)?;
                Some(now.max(self.last_us + pause.0 as f64 / 1e3))
            }
            Rule::Cubic { .. } => None,
        }
    }

    fn take_ack(&mut self, now: f64, place: u32, marked: bool) {
        let mut lost = 0;
        let mut last_lost = None;
        let mut acked = None;
        let taken: Vec<_> = {
            let end = self.flying.iter().position(|(p, ..)| is_after(*p, place));
            let end = end.unwrap_or(self.flying.len());
            self.flying.drain(..end).collect()
        };
        for (p, bytes, sent) in taken {
            self.in_flight -= bytes;
            if p == place {
                self.arrived += u64::from(bytes);
                acked = Some((bytes, sent));
            } else {
                lost += bytes;
                last_lost = Some(p);
                self.left = self.left.saturating_add(bytes.into());
            }
        }
        let Some((bytes, sent)) = acked else { return };
        (self.progress_us, self.backoff) = (now, 0);
        let next = self.next;
        match &mut self.rule {
            Rule::Own(own, rtt) => {
                rtt.on_sample((now - sent) as u32, now as u32);
                let acked = Acked {
                    bytes,
                    order: place,
                    next,
                    sample_us: Some((now - sent) as u32),
                    sample_bytes: bytes,
                    marked: if marked { bytes } else { 0 },
                };
                own.on_acked(&acked, rtt, crate::Time((now * 1e3) as u64));
                if let Some(order) = last_lost {
                    own.on_loss(&Lost { bytes: lost, unit: 1_500, order, next });
                }
            }
            Rule::Cubic { window, answered, slow } => {
                if last_lost.is_some_and(|order| !is_after(*answered, order)) {
                    (*window, *answered, *slow) = ((*window * 0.7).max(1_500.0), next, false);
                } else if *slow {
                    *window += f64::from(bytes);
                } else {
                    *window += 0.53 * f64::from(bytes) * 1_500.0 / *window;
                }
            }
        }
    }

    /// The timer ran out: one frame leaves whatever the window says, and its answer tells what became of the others.
    fn timeout(&mut self, now: f64) {
        self.timeouts += u32::from(self.backoff > 0);
        self.backoff += 1;
        self.progress_us = now;
        self.probe = true;
        let next = self.next;
        match &mut self.rule {
            Rule::Own(own, _) if self.backoff > 1 => own.on_timeout(1_500, next),
            Rule::Own(..) => {}
            Rule::Cubic { window, slow, .. } => (*window, *slow) = (1_500.0, true),
        }
    }
}

impl Flow {
    /// When its timer runs out.
    fn due_us(&self) -> f64 {
        let timeout_us = match &self.rule {
            Rule::Own(_, rtt) => rtt.timeout(crate::Span::us(60), self.backoff).0 as f64 / 1e3,
            Rule::Cubic { .. } => 10_000.0,
        };
        self.progress_us + timeout_us
    }

    /// One more unit is under way: which, and of how many bytes.
    fn depart(&mut self, now: f64) -> (u32, u32) {
        let unit = self.unit.min(self.left.clamp(1, 1 << 30) as u32);
        let place = self.next;
        self.next = place.wrapping_add(1);
        self.probe = false;
        if self.flying.is_empty() {
            self.progress_us = now;
        }
        self.flying.push_back((place, unit, now));
        self.in_flight += unit;
        self.left = self.left.saturating_sub(unit.into());
        self.last_us = now;
        (place, unit)
    }
}

/// Lets flows send for so long; gives the bytes that each had brought through at half time, for what came in the second half.
fn run(port: &mut Port, flows: &mut [Flow], end_us: f64) -> Vec<f64> {
    let mut acks: BTreeMap<(u64, u32), (usize, u32, bool)> = BTreeMap::new();
    let mut number = 0;
    let mut now = 0.0;
    let mut half = Vec::new();
    while now < end_us {
        let mut wake = end_us;
        let (count, offset) = (flows.len(), number as usize);
        for f in (0..count).map(|i| (i + offset) % count) {
            loop {
                match flows[f].may_send_at(now) {
                    Some(at) if at <= now => {
                        let (place, unit) = flows[f].depart(now);
                        let waits = (port.free_us - now).max(0.0) * port.bytes_per_us;
                        port.sent += 1;
                        port.queue_max = port.queue_max.max(waits);
                        if waits + f64::from(unit) > port.queue_bytes {
                            port.dropped += 1;
                        } else {
                            let marked = waits > port.ecn_bytes;
                            let out = port.free_us.max(now) + f64::from(unit) / port.bytes_per_us;
                            port.free_us = out;
                            let key = (((out + port.base_us) * 1e3) as u64, number);
                            acks.insert(key, (f, place, marked));
                        }
                        number += 1;
                    }
                    Some(at) => {
                        wake = wake.min(at);
                        break;
                    }
                    None => break,
                }
            }
            if flows[f].in_flight > 0 {
                let due = flows[f].due_us();
                if due <= now {
                    flows[f].timeout(now);
                    wake = now;
                } else {
                    wake = wake.min(due);
                }
            }
        }
        if half.is_empty() && now >= end_us / 2.0 {
            half = flows.iter().map(|flow| flow.arrived as f64).collect();
        }
        let ack = acks.first_key_value().map(|((at, _), _)| *at as f64 / 1e3);
        now = wake.min(ack.unwrap_or(end_us)).max(now);
        while let Some(entry) = acks.first_entry() {
            if entry.key().0 as f64 / 1e3 > now + 1e-6 {
                break;
            }
            let (f, place, marked) = entry.remove();
            flows[f].take_ack(now, place, marked);
            if flows[f].left == 0 && flows[f].in_flight == 0 && flows[f].done_us == 0.0 {
                flows[f].done_us = now;
            }
        }
        if flows.iter().all(|flow| flow.left == 0 && flow.in_flight == 0) {
            break;
        }
    }
    flows
        .iter()
        .zip(half.iter().chain(std::iter::repeat(&0.0)))
        .map(|(f, h)| f.arrived as f64 - h)
        .collect()
}

fn jain(shares: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) =
        shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (shares.len() as f64 * squares)
}

/// 10 Gb/s, 512 KB, 10 µs.
fn ten_gigabit() -> Port {
    port(1_250.0, 512.0 * 1024.0, 10.0)
}

fn port(bytes_per_us: f64, queue_bytes: f64, base_us: f64) -> Port {
    Port {
        bytes_per_us,
        queue_bytes,
        ecn_bytes: f64::INFINITY,
        base_us,
        free_us: 0.0,
        dropped: 0,
        sent: 0,
        queue_max: 0.0,
    }
}

fn report(name: &str, port: &Port, flows: &[Flow], shares: &[f64], span_us: f64) -> (f64, f64) {
    let used = shares.iter().sum::<f64>() / (span_us * port.bytes_per_us);
    let jain = jain(shares);
    let windows: Vec<u32> = flows.iter().take(8).map(Flow::window).collect();
    println!(
        "{name}: {:.1} % of the port, Jain {jain:.3}, {} of {} dropped, queue {:.0} KB at most, windows {windows:?}, {} time-outs",
        used * 100.0,
        port.dropped,
        port.sent,
        port.queue_max / 1024.0,
        flows.iter().map(|flow| flow.timeouts).sum::<u32>(),
    );
    (used, jain)
}

#[test]
fn one_flow_fills_a_port_and_leaves_most_of_its_queue_empty() {
    for (rate, queue) in [(1_250.0, 512.0), (62.5, 128.0), (12_500.0, 2_048.0)] {
        let mut port = port(rate, queue * 1024.0, 10.0);
        let mut flows = [Flow::own(0.0)];
        let shares = run(&mut port, &mut flows, 400_000.0);
        let (used, _) = report("one", &port, &flows, &shares, 200_000.0);
        assert!(used > 0.9);
    }
}

#[test]
fn flows_that_start_one_after_the_other_become_equal() {
    for (rate, queue) in [(1_250.0, 512.0), (62.5, 128.0)] {
        for count in [2, 8, 16] {
            let mut port = port(rate, queue * 1024.0, 10.0);
            let mut flows: Vec<_> = (0..count).map(|i| Flow::own(f64::from(i) * 5_000.0)).collect();
            flows.iter_mut().for_each(Flow::meet);
            let shares = run(&mut port, &mut flows, 2_000_000.0);
            let (used, jain) = report("started", &port, &flows, &shares, 1_000_000.0);
            assert!(used > 0.9 && jain > 0.95, "{count} at {rate}");
        }
    }
}

#[test]
fn an_incast_of_256_is_done_in_the_wires_time() {
    let mut port = ten_gigabit();
    let mut flows: Vec<_> = (0..256).map(|_| Flow { left: 64 << 10, ..Flow::own(0.0) }).collect();
    let shares = run(&mut port, &mut flows, 1e6);
    let end = flows.iter().map(|flow| flow.done_us).fold(0.0, f64::max);
    let wire = 256.0 * 65_536.0 / 1_250.0;
    report("incast", &port, &flows, &shares, end);
    let worst = flows.iter().map(|flow| flow.timeouts).max();
    println!("{end} µs, the wire {wire}, time-outs {worst:?}");
    assert!(end < 1.3 * wire && worst <= Some(2));
}

/// On a path that was met before there was a queue (`WINDOW-5`).
#[test]
fn beside_one_that_goes_by_loss_alone_it_has_its_share() {
    for (rate, queue) in [(62.5, 128.0), (125.0, 256.0)] {
        for (own, other, span) in
            [(0.0, 100_000.0, 2e6), (100_000.0, 0.0, 2e6), (100_000.0, 0.0, 12e6)]
        {
            let mut port = port(rate, queue * 1024.0, 20.0);
            let mut flows = [Flow::own(own), Flow::cubic(other)];
            flows[0].meet();
            let shares = run(&mut port, &mut flows, span);
            report("beside", &port, &flows, &shares, span / 2.0);
            let part = shares[0] / (shares[0] + shares[1]);
            assert!((0.3..0.7).contains(&part), "{part}");
        }
    }
}

/// Bytes of a long frame in the tests below.
const LONG: u32 = 61_472;

/// A window that was used up, on a path where long frames get through, and the next place in its order of transmission.
struct Long {
    own: Congestion,
    rtt: Rtt,
    next: u32,
    now: Time,
}

impl Long {
    /// With a window of `bytes`; it takes 50 µs without a queue.
    fn of(bytes: u32, unit: u32) -> Self {
        let mut rtt = Rtt::new();
        rtt.on_sample(50, 0);
        let mut own = Congestion { window: bytes, threshold: 1, ..Congestion::FRESH };
        (own.used_at, own.unit) = (Some(Time(0)), unit);
        Self { own, rtt, next: 1, now: Time(0) }
    }

    /// A round in which one frame takes so long. Gives the window after it.
    fn round(&mut self, us: u32) -> u32 {
        self.next += 1;
        self.now = self.now + Span::us(us.into());
        self.rtt.on_sample(us, (self.now.0 / 1_000) as u32);
        let acked = Acked {
            bytes: LONG,
            order: self.next - 1,
            next: self.next,
            sample_us: Some(us),
            sample_bytes: if self.own.unit == 0 { FRAME } else { LONG },
            marked: 0,
        };
        self.own.note_limited(self.next, (4 * LONG, self.own.unit));
        self.own.on_acked(&acked, &self.rtt, self.now);
        self.own.bytes()
    }

    fn lose(&mut self) -> u32 {
        let lost = Lost { bytes: LONG, unit: LONG, order: self.next, next: self.next + 1 };
        self.own.on_loss(&lost);
        self.own.bytes()
    }
}

/// A host that does not run for a while looks like a queue that comes and goes; one that stands is there in each round.
#[test]
fn delay_leaves_a_long_frame_unless_it_lasts() {
    let mut long = Long::of(3 * LONG, LONG);
    for _ in 0..200 {
        // Seven rounds of ten: far more than such a host has.
        for _ in 0..7 {
            assert!(long.round(2_000) >= LONG);
        }
        assert!((0..3).all(|_| long.round(60) >= LONG));
    }
    // In eight rounds from the first that is delayed it halves to a long frame; the eighth is the first that leaves less.
    for round in 1..8 {
        assert!(long.round(2_000) >= LONG, "round {round}");
    }
    assert!(long.round(2_000) < LONG);
    // Where none get through, the second does.
    let mut short = Long::of(72 << 10, 0);
    short.round(2_000);
    assert!(short.round(2_000) < LONG);
}

#[test]
fn a_loss_or_a_mark_leaves_less_than_a_long_frame_at_once() {
    let mut long = Long::of(LONG + 1_500, LONG);
    long.round(150);
    assert!(long.lose() < LONG);
    let mut long = Long::of(LONG + 1_500, LONG);
    long.own.marked = LONG;
    assert!(long.round(60) < LONG);
    // Once it is less, delay goes on from there as ever.
    let before = long.own.bytes();
    long.round(2_000);
    assert!(long.round(2_000) < before);
}

#[test]
fn a_silent_path_keeps_room_for_a_long_frame() {
    let mut long = Long::of(3 * LONG, LONG);
    for _ in 0..10 {
        long.own.on_timeout(LONG, long.next);
    }
    assert_eq!(long.own.bytes(), LONG);
    let mut short = Long::of(3 * LONG, 0);
    for _ in 0..10 {
        short.own.on_timeout(1_500, short.next);
    }
    assert_eq!(short.own.bytes(), LOSS_LEAST_BYTES);
}

/// Long frames go on where a path is looked at with little of its own in it: one does, and a message that begins then is cut into such.
#[test]
fn a_look_at_the_path_leaves_a_long_frame() {
    let mut long = Long::of(4 * LONG, LONG);
    for _ in 0..=CROWDED_ROUNDS {
        assert!(long.round(50 + QUEUE_US / 2 + 1) >= LONG);
    }
    assert!(long.own.draining > 0);
    assert_eq!(long.own.bytes(), LONG);
}

/// A message that was cut into long frames goes on in them, with a window of less than one: that such a frame takes 1 ms is no queue.
#[test]
fn the_length_of_a_frame_is_no_queue() {
    let mut long = Long::of(1_500, LONG);
    for _ in 0..200 {
        long.round(1_050);
        assert!(!long.own.competing);
    }
    // As long as a queue of 120 to 240 µs is at that rate.
    assert!((7_500..15_000).contains(&long.own.bytes()), "{}", long.own.bytes());
    // What waits behind as much of others does.
    let before = long.own.bytes();
    long.round(2_050);
    assert!(long.round(2_050) < before);
    // A window that puts all of it into the queue is judged by it.
    let mut wide = Long::of(3 * LONG, LONG);
    (0..3).for_each(|_| _ = wide.round(1_050));
    assert!(wide.own.bytes() < 2 * LONG);
}

/// It leaves in proportion to its window, by the round trip of what is as short as that.
#[test]
fn a_long_frame_leaves_as_often_as_its_bytes_in_short_ones() {
    let mut long = Long::of(1_500, LONG);
    long.round(1_050);
    let trip_us = long.own.trip_us(&long.rtt);
    assert!((50..80).contains(&trip_us), "{trip_us}");
}

/// Who goes by loss never leaves a queue empty.
#[test]
fn an_empty_queue_is_no_others() {
    let mut long = Long::of(72 << 10, 0);
    (0..=FLOOR_ROUNDS).for_each(|_| _ = long.round(50 + COMPETING_US + 1));
    assert!(long.own.competing);
    long.round(50 + QUEUE_US / 2);
    assert!(long.own.competing);
    long.round(50 + QUEUE_US / 2 - 1);
    long.round(50 + QUEUE_US / 2);
    long.round(50 + QUEUE_US / 2 - 1);
    assert!(long.own.competing, "one round alone may be mistaken");
    long.round(50 + QUEUE_US / 2 - 1);
    assert!(!long.own.competing);
}
