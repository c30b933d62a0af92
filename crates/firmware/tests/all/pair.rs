//! Two nodes on a perfect wire: the plain ways of a message. Faults are the simulator's business (`emp-model`).

use emp_firmware::*;

use crate::common::{HALF, Pair};

#[test]
fn every_size_arrives_whole_in_every_profile() {
    for profile in Profile::ALL {
        for bytes in [
            0,
            1,
            31,
            256,
            257,
            1024,
            1025,
            1400,
            1436,
            1437,
            1500,
            3000,
            32 << 10,
            65_536,
            65_537,
            100_000,
            1 << 20,
            5_000_001,
        ] {
            for late in [false, true] {
                let mut pair = Pair::new(profile);
                if !late {
                    pair.receive(1, Selector::bits(9), HALF);
                }
                pair.send(0, 2, 9, bytes);
                if late {
                    pair.run(Span::us(300));
                    pair.receive(1, Selector::bits(9), HALF);
                }
                pair.run(Span::ms(100));
                let what = format!("{} {bytes} late {late}", profile.name);
                let received = &pair.nodes[1].done;
                assert_eq!(
                    received.len(),
                    1,
                    "{what}: {:?} {:?}",
                    pair.nodes[0].firmware.counters(),
                    pair.nodes[1].firmware.counters()
                );
                assert_eq!((received[0].status, received[0].bytes), (Status::Ok, bytes), "{what}");
                assert_eq!(received[0].immediate, Some(10));
                assert_eq!(pair.nodes[0].done.len(), 1, "{what}");
                assert_eq!(pair.nodes[0].done[0].status, Status::Ok, "{what}");
                let (n, half) = (bytes as usize, HALF as usize);
                assert!(
                    pair.nodes[0].memory.0[..n] == pair.nodes[1].memory.0[half..half + n],
                    "{what}"
                );
                pair.check_taken();
            }
        }
    }
}

#[test]
fn a_node_sends_to_itself() {
    for bytes in [0, 100, 5000, 3_000_000] {
        let mut pair = Pair::new(&Profile::DEFAULT);
        pair.send(0, 1, 3, bytes);
        pair.run(Span::ms(1));
        pair.receive(0, Selector::ANY, HALF);
        pair.run(Span::ms(50));
        assert_eq!(pair.nodes[0].done.len(), 2, "{bytes}");
        let (n, half) = (bytes as usize, HALF as usize);
        assert!(pair.nodes[0].memory.0[..n] == pair.nodes[0].memory.0[half..half + n]);
        assert_eq!(pair.frames, 0);
        pair.check_taken();
    }
}

#[test]
fn a_flood_of_unexpected_messages_loses_nothing() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    const N: u64 = 20_000;
    for i in 0..N {
        pair.send(0, 2, i, 700);
    }
    pair.run(Span::ms(200));
    let (free, all) = pair.nodes[1].firmware.pool_slots();
    assert!(free < all);
    for _ in 0..N {
        pair.receive(1, Selector::ANY, 700);
    }
    pair.run(Span::ms(2000));
    let bits: Vec<u64> = pair.nodes[1].done.iter().map(|c| c.match_bits).collect();
    assert_eq!(bits.len() as u64, N);
    assert!(bits.iter().enumerate().all(|(i, b)| i as u64 == *b), "in order");
    assert_eq!(pair.nodes[0].done.len() as u64, N);
}

#[test]
fn silence_ends_in_an_error() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.send(0, 99, 1, 50_000);
    pair.run(Span::ms(11_000));
    assert_eq!(pair.nodes[0].done.len(), 1);
    assert_eq!(pair.nodes[0].done[0].status, Status::NotFound);
    pair.check_quiet_after_loss();
}

impl Pair {
    /// Quiet, and on this wire only frames of a message that was not taken were dropped.
    fn check_taken(&mut self) {
        self.check_idle();
        for node in &self.nodes {
            let counters = node.firmware.counters();
            let refused =
                counters.get(Counter::DropBeforeMessage) + counters.get(Counter::DropOutOfOrder);
            assert!(refused == 0 || counters.get(Counter::NotTaken) > 0);
            assert_eq!(counters.dropped(), refused, "{counters:?}");
        }
    }

    fn check_quiet_after_loss(&self) {
        assert!(self.nodes[0].firmware.is_drained());
        assert_eq!(self.nodes[0].firmware.poll_timeout(), None);
    }
}
