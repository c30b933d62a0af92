//! Both ends of a ring know which frame came before: whatever was sent arrives as it was, and whatever a hostile peer writes is survived.

use super::*;

/// Xorshift: the same frames each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// A frame for a node with this tag, or for nobody here. What heads have in common is of three kinds.
    fn frame(&mut self, tag: u16) -> Vec<u8> {
        let bytes = match self.below(8) {
            0 => 6 + self.below(60),
            1..=4 => 50 + self.below(80),
            5 => 250 + self.below(100),
            6 => 60 + self.below(300),
            _ => 6 + self.below(9000),
        };
        let common = self.below(3) as u8;
        let mut frame: Vec<u8> = (0..bytes).map(|_| self.below(256) as u8).collect();
        for (place, byte) in frame.iter_mut().enumerate() {
            if place < 16 || (28..48).contains(&place) {
                *byte = common;
            }
        }
        let tag = if self.below(8) == 0 { 99 } else { tag };
        frame[4..6].copy_from_slice(&tag.to_be_bytes());
        frame
    }
}

/// Sends a frame in one part or two, to its node or to everyone. True if it is in a ring.
fn send_somehow(link: &mut ShmLink, to: LinkAddress, frame: &[u8], dice: &mut Dice) -> bool {
    let (x, y) = frame.split_at(dice.below(frame.len() as u64) as usize);
    let (one, two) = ([IoSlice::new(frame)], [IoSlice::new(x), IoSlice::new(y)]);
    let parts: &[IoSlice<'_>] = if dice.below(4) == 0 { &two } else { &one };
    let to = if dice.below(10) == 0 { LinkAddress::EVERYONE } else { to };
    let before = link.statistics().bytes_sent;
    let taken = link.send(&[TxFrame { to, parts }]);
    if taken == 0 && dice.below(8) == 0 {
        // Until frames for who takes none are dropped.
        std::thread::sleep(STALL_AND_MORE);
    }
    link.statistics().bytes_sent != before
}

const STALL_AND_MORE: Duration = Duration::from_micros(1_100);
const ROUNDS: usize = 400;

/// Short and long frames, alike and not, for this node and others, while rings are empty, full, and full for so long that frames are lost.
#[test]
fn frames_arrive_as_they_were_sent() {
    for seed in 1u64..10 {
        let world = World::new();
        let mut links = [world.open(7), world.open(9)];
        let to = [&links[1], &links[0]].map(|link| link.capabilities.address);
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (mut sent, mut got) = ([vec![], vec![]], [vec![], vec![]]);
        for round in 1..=ROUNDS {
            for side in 0..2 {
                let burst = if dice.below(40) == 0 { 600 } else { dice.below(20) };
                let tag: u16 = [9, 7][side];
                for _ in 0..burst {
                    let frame = dice.frame(tag);
                    let is_in = send_somehow(&mut links[side], to[side], &frame, &mut dice);
                    if is_in && frame[4..6] == tag.to_be_bytes() {
                        sent[side].push(frame);
                    }
                }
            }
            // In the end as often as it takes until peers are looked for.
            let looks = match dice.below(6) {
                _ if round == ROUNDS => CALLS_PER_SERVICE + 1,
                0 => 0,
                _ => 1,
            };
            let budget = if looks > 1 { usize::MAX } else { dice.below(300) as usize };
            for _ in 0..looks {
                for (link, got) in links.iter_mut().zip(got.iter_mut().rev()) {
                    link.receive(budget, &mut |frame, _| got.push(frame.to_vec()));
                }
            }
        }
        // Where each end has made a connection, their frames are in two rings.
        if links.iter().any(|link| link.peers() > 1) {
            sent.iter_mut().chain(&mut got).for_each(|frames| frames.sort());
        }
        assert!(sent == got, "seed {seed}");
        assert!(links.iter().all(|link| link.statistics().system_errors == 0));
    }
}

/// Any words, marks, lengths and bytes, from peers of which half die before they are looked at.
#[test]
fn any_records_are_survived() {
    let world = World::new();
    let mut link = world.open(7);
    let mut dice = Dice(12_345);
    for _ in 0..300 {
        let rogue = Rogue::meet(&mut link);
        let mut at = RECORDS;
        while at < RECORDS + 16_384 {
            let length = match dice.below(6) {
                0 => dice.below(70_000),
                1 => dice.below(512),
                _ => 1 + dice.below(310),
            };
            let mark = if dice.below(30) == 0 { dice.below(100) } else { dice.below(3) };
            let mut bytes: Vec<u8> = (0..400).map(|_| dice.below(256) as u8).collect();
            bytes[4..6].copy_from_slice(&7u16.to_be_bytes());
            rogue.memory.write_all_at(&bytes, at as u64 + 8).expect("inside");
            rogue.spoil(at, mark << 32 | length);
            at += emp_rings::record_bytes(length as usize);
        }
        let mut rogue = Some(rogue).filter(|_| dice.below(2) == 0);
        link.receive(64, &mut |frame, _| assert!(frame.len() >= 6));
        if rogue.take().is_some() || link.peers() > 0 {
            link.connections.iter_mut().for_each(Connection::look);
        }
        // A program that another test starts at this moment holds the peer's socket a little longer: then it is asked after again.
        let limit = Instant::now() + Duration::from_secs(5);
        while link.peers() > 0 {
            assert!(Instant::now() < limit, "a peer that is gone is not forgotten");
            link.wait(Some(Duration::ZERO));
            link.receive(1_000, &mut |_, _| {});
        }
    }
    works(&world, &mut link);
}
