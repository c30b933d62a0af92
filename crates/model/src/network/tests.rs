//! Times, queues, cuts, lengths.

use super::*;

fn network(setup: FabricSetup) -> Network {
    Network::new(vec![setup], 3, Prng::new(1))
}

#[test]
fn a_frame_takes_latency_and_two_serialisations() {
    let mut net = network(FabricSetup::lan());
    net.send(Time(100), 0, LinkIndex(0), net.address(1), vec![0x21; 1_212]);
    // 1,250 bytes with overhead: 1 µs at 10 Gb/s, once out of the node and once out of the switch.
    assert_eq!(net.next_arrival(), Some(Time(100 + 5_000 + 2_000)));
    let delivery = net.arrival(Time(7_100)).unwrap();
    assert_eq!((delivery.to, delivery.frame.len()), (1, 1_212));
    assert_eq!(delivery.from, LinkAddress::index(0));
}

#[test]
fn order_is_kept_and_full_queues_lose_frames() {
    let mut setup = FabricSetup::lan();
    setup.queue_bytes = 10_000;
    let mut net = network(setup);
    for i in 0..100u8 {
        for from in [0, 2] {
            let mut frame = vec![0; 1_400];
            frame[1] = i;
            net.send(Time(0), from, LinkIndex(0), net.address(1), frame);
        }
    }
    assert!(net.totals().congested > 50, "two ports into one");
    let mut last = [0; 3];
    while let Some(delivery) = net.arrival(Time::NEVER) {
        let from = delivery.from.as_index().unwrap() as usize;
        assert!(delivery.frame[1] >= last[from]);
        last[from] = delivery.frame[1];
    }
}

#[test]
fn frames_are_lost_by_length_in_one_direction() {
    let mut net = network(FabricSetup::lan());
    net.lose_longer(0, 0, 1, 1_000);
    let mut arrives = |from, to, bytes| {
        net.send(Time(0), from, LinkIndex(0), net.address(to), vec![0x21; bytes]);
        net.arrival(Time::NEVER).is_some()
    };
    assert!(arrives(0, 1, 1_000) && !arrives(0, 1, 1_001));
    assert!(arrives(1, 0, 1_001) && arrives(0, 2, 1_001));
    assert_eq!(net.totals().dropped, 1);
}

#[test]
fn cuts_moves_and_broadcasts() {
    let mut net = network(FabricSetup::lan());
    net.cut(0, 0, 1, true);
    net.send(Time(0), 0, LinkIndex(0), LinkAddress::EVERYONE, vec![0x21; 50]);
    assert_eq!(net.arrival(Time::NEVER).unwrap().to, 2);
    assert!(net.arrival(Time::NEVER).is_none());
    let old = net.address(2);
    net.relocate(2);
    net.send(Time(0), 0, LinkIndex(0), old, vec![0x21; 50]);
    assert!(net.arrival(Time::NEVER).is_none(), "no one there any more");
    net.send(Time(0), 0, LinkIndex(0), net.address(2), vec![0x21; 50]);
    assert_eq!(net.arrival(Time::NEVER).unwrap().to, 2);
}
