//! Situations that a review found by thinking: each once locked up, lost or leaked something.

use crate::common::*;
use emp_firmware::*;
use emp_wire::{LinkAddress, NodeId};

#[test]
fn a_refusal_on_loopback_refusal() {
    let mut pair = Pair::new(&Profile::EMP2001);
    pair.send(0, 1, 3, 100);
    pair.run(Span::ms(5));
    pair.receive(0, Selector::ANY, HALF);
    pair.run(Span::ms(3000));
    assert_eq!(pair.nodes[0].done.len(), 2, "{}", show(&pair));
}

#[test]
fn refusals_mutual_refusal_emp2001() {
    let mut pair = Pair::new(&Profile::EMP2001);
    pair.receive(1, Selector::ANY, HALF);
    pair.send(0, 2, 9, 10);
    pair.run(Span::ms(5));
    pair.send(0, 2, 3, 1 << 20);
    pair.send(1, 1, 3, 1 << 20);
    steps(&mut pair, Span::ms(5));
    pair.receive(0, Selector::ANY, HALF);
    pair.receive(1, Selector::ANY, HALF);
    steps(&mut pair, Span::ms(30_000));
    assert_eq!((pair.nodes[0].done.len(), pair.nodes[1].done.len()), (3, 3), "{}", show(&pair));
}

#[test]
fn floods_mutual_flood_default() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.receive(1, Selector::ANY, HALF);
    pair.send(0, 2, 9, 10);
    pair.run(Span::ms(5));
    for i in 0..20_000 {
        pair.send(0, 2, i, 700);
        pair.send(1, 1, i, 700);
    }
    steps(&mut pair, Span::ms(200));
    println!("before: {}", show(&pair));
    for _ in 0..20_000 {
        pair.receive(0, Selector::ANY, 700);
        pair.receive(1, Selector::ANY, 700);
    }
    steps(&mut pair, Span::ms(30_000));
    assert_eq!(
        (pair.nodes[0].done.len(), pair.nodes[1].done.len()),
        (40_001, 40_001),
        "{}",
        show(&pair)
    );
}

#[test]
fn restart_while_a_message_waits_to_pull() {
    let mut pair = Pair::new(&Profile::OPENMX);
    for _ in 0..13 {
        pair.receive(1, Selector::ANY, 1 << 18);
    }
    pair.send(0, 2, 99, 10);
    pair.run(Span::ms(5));
    for i in 0..12 {
        pair.send(0, 2, i, 1 << 18);
    }
    for _ in 0..2000 {
        if pulls(&pair) >= 32 {
            break;
        }
        step(&mut pair);
    }
    println!("pulls {}", pulls(&pair));
    pair.nodes[0].firmware = make(1, 999, &Profile::OPENMX);
    for _ in 0..12 {
        pair.receive(1, Selector::ANY, 1 << 18);
    }
    for i in 0..12 {
        pair.send(0, 2, 10 + i, 1 << 18);
    }
    steps(&mut pair, Span::ms(500));
    assert!(!pair.nodes[1].firmware.is_receiving(), "{}", show(&pair));
}

#[test]
fn loss_while_messages_wait_to_pull() {
    let mut pair = Pair::new(&Profile::OPENMX);
    for _ in 0..13 {
        pair.receive(1, Selector::ANY, 1 << 18);
    }
    pair.send(0, 2, 99, 10);
    pair.run(Span::ms(5));
    for i in 0..12 {
        pair.send(0, 2, i, 1 << 18);
    }
    for _ in 0..2000 {
        if pulls(&pair) >= 32 {
            break;
        }
        step(&mut pair);
    }
    pair.drop = Box::new(|_, _| true);
    steps(&mut pair, Span::ms(20_000));
    assert!(!pair.nodes[1].firmware.is_receiving(), "{}", show(&pair));
}

#[test]
fn orphaned_pulls() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    for round in 0..6 {
        pair.receive(1, Selector::ANY, 1 << 20);
        pair.send(0, 2, round, 1 << 20);
        let before = pulls(&pair);
        for _ in 0..1000 {
            if pulls(&pair) > before {
                break;
            }
            step(&mut pair);
        }
        pair.nodes[1].firmware.close_endpoint(pair.now, 0);
        pair.nodes[1].firmware.open_endpoint(0).unwrap();
        pair.run(Span::ms(100));
    }
    assert!(!pair.nodes[1].firmware.is_receiving(), "{}", show(&pair));
    pair.receive(1, Selector::ANY, 1 << 20);
    pair.send(0, 2, 77, 1 << 20);
    pair.run(Span::ms(1000));
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 1, "{}", show(&pair));
}

fn pulls(pair: &Pair) -> u64 {
    pair.nodes[1].firmware.counters().get(Counter::PullsSent)
}

fn one_loss(profile: &Profile, outage_us: u64) {
    let mut pair = Pair::new(profile);
    for _ in 0..4 {
        pair.receive(1, Selector::ANY, 4 << 20);
    }
    pair.send(0, 2, 1, 4 << 20);
    pair.run(Span::ms(100));
    assert_eq!(pair.nodes[1].done.len(), 1);
    let start = pair.now;
    pair.send(0, 2, 2, 1 << 20);
    let mut n = 0;
    pair.drop = Box::new(move |i, bytes| {
        if i == 0 && bytes[0] & 31 != 5 {
            n += 1;
            if outage_us == 0 { n == 40 } else { (40..40 + outage_us).contains(&n) }
        } else {
            false
        }
    });
    for ms in 0..20_000 {
        pair.run(Span::ms(1));
        pair.now = pair.now + Span::ms(0);
        if pair.nodes[1].done.len() > 1 {
            println!("{}: {ms} ms", profile.name);
            break;
        }
        if pair.now.since(start).0 < ms * 1_000_000 {
            pair.now = start + Span::ms(ms);
        }
    }
    assert!(
        pair.nodes[1].done.len() == 2 && pair.nodes[1].done[1].status == Status::Ok,
        "{} {:?} after {:?} {}",
        profile.name,
        pair.nodes[0].done.last(),
        pair.now.since(start),
        show(&pair)
    );
    assert!(
        pair.now.since(start).0 < 100_000_000,
        "{} took {} us {}",
        profile.name,
        pair.now.since(start).as_us(),
        show(&pair)
    );
}

#[test]
fn one_loss_default() {
    one_loss(&Profile::DEFAULT, 0)
}

#[test]
fn one_loss_emp2001() {
    one_loss(&Profile::EMP2001, 0)
}

#[test]
fn one_loss_openmx() {
    one_loss(&Profile::OPENMX, 0)
}

#[test]
fn one_loss_vmmc2() {
    one_loss(&Profile::VMMC2, 0)
}

#[test]
fn outage_openmx_small() {
    for profile in [&Profile::DEFAULT, &Profile::OPENMX, &Profile::EMP2001, &Profile::VMMC2] {
        let mut pair = Pair::new(profile);
        const N: u64 = 4000;
        for _ in 0..N {
            pair.receive(1, Selector::ANY, 1000);
        }
        for i in 0..N / 2 {
            pair.send(0, 2, i, 1000);
        }
        pair.run(Span::ms(100));
        assert_eq!(pair.nodes[1].done.len() as u64, N / 2);
        for i in 0..N / 2 {
            pair.send(0, 2, i, 1000);
        }
        let start = pair.now;
        for _ in 0..3 {
            step(&mut pair);
        }
        pair.drop = Box::new(|_, _| true);
        pair.run(Span::ms(3));
        pair.drop = Box::new(|_, _| false);
        let healed = pair.now;
        pair.run(Span::ms(10_000));
        println!("{}: outage {:?}us", profile.name, healed.since(start).as_us());
        println!("{}: {}", profile.name, show(&pair));
        assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive) as u64, N, "{}", profile.name);
    }
}

#[test]
fn dones_lost() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.sync = true;
    const N: usize = 5000;
    for i in 0..N {
        pair.send(0, 2, i as u64, 0);
    }
    pair.run(Span::ms(500));
    for _ in 0..N {
        pair.receive(1, Selector::ANY, 0);
    }
    pair.run(Span::ms(20_000));
    assert_eq!((pair.nodes[0].done.len(), pair.nodes[1].done.len()), (N, N), "{}", show(&pair));
}

#[test]
fn awaiting_done_from_the_dead() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.sync = true;
    pair.send(0, 2, 1, 0);
    pair.run(Span::ms(50));
    pair.drop = Box::new(|_, _| true);
    pair.run(Span::ms(60_000));
    assert_eq!(pair.nodes[0].done.len(), 1, "{}", show(&pair));
}

#[test]
fn a_node_moves() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    for _ in 0..3 {
        pair.receive(1, Selector::ANY, 5000);
    }
    pair.send(0, 2, 1, 5000);
    pair.run(Span::ms(50));
    assert_eq!(pair.nodes[0].done.len(), 1);
    pair.address[0] = 7;
    pair.send(0, 2, 2, 5000);
    pair.run(Span::ms(30_000));
    assert_eq!(pair.nodes[0].done.len(), 2, "{}", show(&pair));
}

#[test]
fn a_receive_from_a_node_not_yet_known() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.receive(0, Selector { from: NodeId(2), ..Selector::bits(5) }, 100);
    pair.run(Span::ms(1000));
    pair.receive(0, Selector::bits(6), 100);
    pair.send(1, 1, 6, 10);
    pair.run(Span::ms(100));
    assert_eq!(pair.nodes[0].done.len(), 1);
    pair.drop = Box::new(|_, _| true);
    pair.run(Span::ms(60_000));
    assert_eq!(pair.nodes[0].done.len(), 2, "{}", show(&pair));
}

#[test]
fn crossing_one_message_each_way_crossing_emp2001() {
    let mut pair = Pair::new(&Profile::EMP2001);
    pair.receive(1, Selector::ANY, HALF);
    pair.send(0, 2, 9, 10);
    pair.run(Span::ms(5));
    pair.send(0, 2, 3, 10);
    pair.send(1, 1, 3, 10);
    steps(&mut pair, Span::ms(1));
    pair.receive(0, Selector::ANY, HALF);
    pair.receive(1, Selector::ANY, HALF);
    steps(&mut pair, Span::ms(30_000));
    assert_eq!((pair.nodes[0].done.len(), pair.nodes[1].done.len()), (3, 3), "{}", show(&pair));
}

#[test]
fn messages_without_an_endpoint_fail_one_by_one() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    let node = &mut pair.nodes[0];
    for i in 0..10u64 {
        node.firmware
            .post_send(
                pair.now,
                SendDescriptor {
                    to: NodeId(2),
                    endpoint: 0,
                    to_endpoint: 5,
                    match_bits: i,
                    segments: SegmentList::one(Segment { address: 0, bytes: 9000 }),
                    immediate: None,
                    synchronous: false,
                    completion: CompletionMode::Auto,
                    context: i,
                },
                &mut node.memory,
            )
            .unwrap();
    }
    pair.receive(1, Selector::ANY, HALF);
    pair.send(0, 2, 3, 9000);
    for s in 0..70 {
        let start = pair.now;
        steps(&mut pair, Span::ms(1000));
        pair.now = start + Span::ms(1000);
        if s % 10 == 9 {
            println!(
                "{} s: {} done, receives {}",
                s + 1,
                pair.nodes[0].done.len(),
                pair.nodes[1].done.len()
            );
        }
        if s == 19 {
            assert_eq!(pair.nodes[0].done.len(), 11);
        }
    }
}

#[test]
fn many_waiting_sync_cost() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.sync = true;
    for n in [4000u64, 16000, 30000] {
        for i in 0..n {
            pair.send(0, 2, i, 0);
        }
        for _ in 0..n {
            pair.receive(1, Selector::ANY, 0);
        }
        let t = std::time::Instant::now();
        steps(&mut pair, Span::ms(2000));
        println!("{n} sync: {:?} {}", t.elapsed(), pair.nodes[0].done.len());
        pair.nodes[0].done.clear();
    }
}

#[test]
fn mixed_frame_sizes() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.nodes[1].firmware = Firmware::new(Config {
        node: NodeId(2),
        epoch: 79,
        name: "n2".into(),
        profile: Profile::DEFAULT,
        links: vec![LinkInfo::new(9000, true)],
        seed: 2,
    });
    pair.nodes[1].firmware.open_endpoint(0).unwrap();
    pair.receive(1, Selector::ANY, HALF);
    pair.receive(0, Selector::ANY, HALF);
    pair.send(0, 2, 1, 10);
    big(&mut pair, Span::ms(10));
    pair.send(1, 1, 2, 8000);
    big(&mut pair, Span::ms(20_000));
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Receive), 1, "{}", show(&pair));
}

fn big(pair: &mut Pair, span: Span) {
    let end = pair.now + span;
    let mut batch = TransmitBatch::new(9000);
    while pair.now < end {
        let mut moved = false;
        for i in 0..2 {
            batch.clear();
            let node = &mut pair.nodes[i];
            node.firmware.handle_timeout(pair.now, &mut node.memory);
            node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch);
            let frames: Vec<Vec<u8>> = (0..batch.frames().len())
                .map(|k| {
                    let mut b = batch.inline(k).to_vec();
                    for s in batch.frames()[k].segments() {
                        let at = s.address as usize;
                        b.extend_from_slice(&node.memory.0[at..at + s.bytes as usize]);
                    }
                    b
                })
                .collect();
            moved |= !frames.is_empty();
            for f in frames {
                if f.len() <= 1500 {
                    let o = &mut pair.nodes[1 - i];
                    o.firmware.handle_frame(
                        pair.now,
                        LinkIndex(0),
                        LinkAddress::index(pair.address[i]),
                        &f,
                        &mut o.memory,
                    );
                }
            }
        }
        for node in &mut pair.nodes {
            while let Some(c) = node.firmware.poll_completion() {
                node.done.push(c);
            }
        }
        pair.now = pair.now + Span::us(5);
        if !moved {
            match pair.nodes.iter().filter_map(|n| n.firmware.poll_timeout()).min() {
                Some(t) if t <= end => pair.now = pair.now.max(t),
                _ => return,
            }
        }
    }
}

#[test]
fn a_search_starves() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.receive(1, Selector::ANY, HALF);
    for i in 0..300 {
        pair.send(0, 1000 + i, i, 10);
    }
    pair.send(0, 2, 7, 2000);
    steps(&mut pair, Span::ms(20_000));
    let c = pair.nodes[0].done.iter().find(|c| c.peer == NodeId(2)).map(|c| c.status);
    assert_eq!(c, Some(Status::Ok));
}

#[test]
fn control_amid_train() {
    for profile in [&Profile::DEFAULT, &Profile::VMMC2, &Profile::EMP2001] {
        let mut pair = Pair::new(profile);
        pair.receive(1, Selector::ANY, HALF);
        pair.send(0, 2, 9, 10);
        pair.run(Span::ms(5));
        pair.sync = true;
        for _ in 0..50 {
            pair.receive(1, Selector::ANY, HALF);
        }
        pair.receive(0, Selector::ANY, HALF);
        let start = pair.now;
        pair.send(1, 1, 3, 4 << 20);
        for i in 0..50 {
            pair.send(0, 2, i, 3000);
            step(&mut pair);
            step(&mut pair);
        }
        steps(&mut pair, Span::ms(3000));
        println!("{}: {} us {}", profile.name, pair.now.since(start).as_us(), show(&pair));
    }
}

#[test]
fn a_loopback_large() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.receive(0, Selector::ANY, HALF);
    pair.send(0, 1, 3, HALF);
    pair.run(Span::ms(1000));
    println!("{:?} {}", pair.now, show(&pair));
}

#[test]
fn a_wanted_message_behind_a_full_pool() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    for i in 0..8000 {
        let _ = i;
        pair.send(0, 2, 1, 700);
    }
    pair.send(0, 2, 2, 700);
    pair.receive(1, Selector::bits(2), 700);
    steps(&mut pair, Span::ms(10_000));
    assert_eq!(pair.nodes[1].done.len(), 1, "{}", show(&pair));
}

#[test]
fn mixed_frame_sizes_both_ask() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.nodes[1].firmware = Firmware::new(Config {
        node: NodeId(2),
        epoch: 79,
        name: "n2".into(),
        profile: Profile::DEFAULT,
        links: vec![LinkInfo::new(9000, true)],
        seed: 2,
    });
    pair.nodes[1].firmware.open_endpoint(0).unwrap();
    pair.receive(1, Selector::ANY, HALF);
    pair.receive(0, Selector::ANY, HALF);
    pair.send(0, 2, 1, 10);
    // B posts after A's hello was answered, before A's message came: its own search is stopped by that message
    for f in frames_of(&mut pair, 0) {
        give(&mut pair, 1, &f);
    }
    let replies = frames_of(&mut pair, 1);
    pair.send(1, 1, 2, 8000);
    for f in replies {
        give(&mut pair, 0, &f);
    }
    for f in frames_of(&mut pair, 0) {
        give(&mut pair, 1, &f);
    }
    big(&mut pair, Span::ms(20_000));
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Receive), 1, "{}", show(&pair));
}
