//! What is done to the ring, drawn from a seed.

use std::time::{Duration, Instant};

use crate::panel::{HOSTS, INTERFACES, Jack, Panel, ring};
use crate::talk::Lives;

/// How long a cable may be out, or a relay away.
const AWAY_MS: std::ops::Range<u64> = 20..400;

/// Time between two of its deeds.
const PAUSE_MS: std::ops::Range<u64> = 20..200;

pub struct Script<'a> {
    panel: &'a Panel,
    lives: &'a Lives<'a>,
    draw: Draw,
    /// Where each cable's plugs are.
    cables: [[Jack; 2]; HOSTS],
    pulled: usize,
    moved: usize,
    programs: usize,
    relays: usize,
}

/// Numbers from a seed (SplitMix64).
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ bits >> 31) % most
    }

    fn within(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end - range.start))
    }
}

impl<'a> Script<'a> {
    pub fn new(panel: &'a Panel, lives: &'a Lives<'a>, seed: u64) -> Self {
        let (cables, draw) = (ring(), Draw(seed));
        Self { panel, lives, draw, cables, pulled: 0, moved: 0, programs: 0, relays: 0 }
    }

    /// Goes on for so long. In the end all cables are in.
    pub fn play(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::thread::sleep(self.draw.within(PAUSE_MS));
            match self.draw.below(10) {
                0..4 => self.pull(),
                4..7 => self.shift(),
                7..9 => self.restart_relay(),
                _ => self.restart_program(),
            }
        }
    }

    pub fn said(&self) -> String {
        format!(
            "{} cables pulled, {} moved, {} programs and {} relays restarted",
            self.pulled, self.moved, self.programs, self.relays
        )
    }

    /// A cable is out for a while, at both ends.
    fn pull(&mut self) {
        let cable = self.draw.below(HOSTS as u64) as usize;
        self.cables[cable].iter().for_each(|jack| self.panel.take(*jack));
        std::thread::sleep(self.draw.within(AWAY_MS));
        self.cables[cable].iter().for_each(|jack| self.panel.put(cable, *jack));
        self.pulled += 1;
    }

    /// A plug goes to an interface that has none, of any host, as long as all are joined then.
    fn shift(&mut self) {
        let (cable, side) = (self.draw.below(HOSTS as u64) as usize, self.draw.below(2) as usize);
        let free: Vec<Jack> = (0..HOSTS)
            .flat_map(|host| (0..INTERFACES).map(move |interface| (host, interface)))
            .filter(|jack| !self.cables.iter().flatten().any(|taken| taken == jack))
            .filter(|(host, _)| *host != self.cables[cable][1 - side].0)
            .collect();
        let to = free[self.draw.below(free.len() as u64) as usize];
        let mut then = self.cables;
        then[cable][side] = to;
        if !all_joined(&then) {
            return;
        }
        self.panel.take(self.cables[cable][side]);
        std::thread::sleep(self.draw.within(AWAY_MS));
        self.panel.put(cable, to);
        self.cables = then;
        self.moved += 1;
    }

    fn restart_relay(&mut self) {
        let host = self.draw.below(HOSTS as u64) as usize;
        let away = self.draw.within(AWAY_MS);
        self.lives.restart_relay(host, away);
        self.relays += 1;
    }

    fn restart_program(&mut self) {
        self.lives.restart_program(self.draw.below(HOSTS as u64) as usize);
        self.programs += 1;
    }
}

/// Whether cables lead from each host to each other, through relays perhaps.
fn all_joined(cables: &[[Jack; 2]; HOSTS]) -> bool {
    let mut reached = [false; HOSTS];
    reached[0] = true;
    for _ in 0..HOSTS {
        for [(one, _), (other, _)] in cables {
            let joined = reached[*one] || reached[*other];
            (reached[*one], reached[*other]) = (joined, joined);
        }
    }
    reached == [true; HOSTS]
}
