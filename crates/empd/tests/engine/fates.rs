//! Programs that are killed or stopped, a service that is killed, identities of others.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use emp_host::{
    BuildError, CompletionMode, Endpoint, NodeEvent, Selector, SendOptions, Status, WaitError,
};

use crate::common::child::Child;
use crate::common::{Successor, signal, until};
use crate::{LONG, Place, on, pair, pattern};

/// One message.
pub fn receive(endpoint: &Endpoint, bits: u64, bytes: usize) -> Vec<u8> {
    let got = endpoint.receive_wait(Selector::bits(bits), vec![0; bytes], LONG);
    got.expect("it comes").buffer
}

/// What a program has handed over leaves, and what comes for it is taken and acknowledged, though it does not run.
#[test]
fn messages_move_while_the_program_is_stopped() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let b = on(&socket, "b").start().expect("anyone may");
        let to_b = b.endpoint(1).expect("opens");
        let child = Child::start(|| {
            let a = on(&socket, "a").start().expect("anyone may");
            let endpoint = a.endpoint(1).expect("opens");
            let wanted = endpoint.receive(Selector::bits(2), vec![0; 100_000]).expect("posted");
            let ready = endpoint.receive(Selector::bits(3), vec![0; 1]).expect("posted");
            endpoint.send_wait(("b", 1), 1, "here", LONG).expect("it goes");
            ready.wait(LONG).expect("b is there");
            // Handed over whole before the stop, which is in the midst of nothing of this program's.
            let sends: Vec<_> =
                (0..8).map(|i| endpoint.send(("b", 1), 10 + i, pattern(15_000, i))).collect();
            // SAFETY: stops this process.
            unsafe { libc::raise(libc::SIGSTOP) };
            let got = wanted.wait(LONG).expect("it came meanwhile");
            endpoint.send_wait(("b", 1), 4, got.buffer, LONG).expect("it goes");
            drop(sends);
        });
        receive(&to_b, 1, 4);
        to_b.send_wait(("a", 1), 3, vec![1u8], LONG).expect("it goes");
        child.await_stop();
        for i in 0..8 {
            assert!(receive(&to_b, 10 + i, 15_000) == pattern(15_000, i), "message {i}");
        }
        let delivered = SendOptions::default().completion(CompletionMode::Delivered);
        let send = to_b.send_with(("a", 1), 2, pattern(100_000, 3), delivered).expect("posted");
        send.wait(LONG).expect("the engine has taken it");
        child.signal(libc::SIGCONT);
        assert!(receive(&to_b, 4, 100_000) == pattern(100_000, 3), "it was handed out then");
    });
}

/// A program that is killed amid everything: its peers are told at once, what it had is free, what it had sent arrives.
#[test]
fn a_program_that_is_killed_costs_others_nothing() {
    let Some(mut place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let b = on(&socket, "b").start().expect("anyone may");
        let to_b = b.endpoint(1).expect("opens");
        for round in 0..3 {
            let child = Child::start(|| {
                let a = on(&socket, "a").start().expect("its predecessor makes way");
                let endpoint = a.endpoint(1).expect("opens");
                let _wanted: Vec<_> =
                    (0..50).map(|_| endpoint.receive(Selector::bits(9), vec![0; 10_000])).collect();
                endpoint.send_wait(("b", 1), 1, "here", LONG).expect("it goes");
                loop {
                    let _ = endpoint.send_wait(("b", 1), 2, vec![7u8; 300_000], LONG);
                }
            });
            receive(&to_b, 1, 4);
            receive(&to_b, 2, 300_000);
            // Messages that the killed one never takes.
            let unwanted: Vec<_> = (0..20)
                .map(|i| to_b.send(("a", 1), 100 + i, vec![1; 20_000]).expect("posted"))
                .collect();
            child.signal(libc::SIGKILL);
            let since = Instant::now();
            let told = std::iter::from_fn(|| b.wait_event(LONG));
            let gone =
                |event: &NodeEvent| matches!(event, NodeEvent::Closed(_) | NodeEvent::Ended(_));
            assert!(told.take(20).any(|event| gone(&event)), "round {round}: b is told");
            assert!(since.elapsed() < Duration::from_secs(10), "soon");
            for send in unwanted {
                match send.wait(LONG) {
                    Ok(_) | Err(WaitError::Failed(_)) => {}
                    Err(WaitError::TimedOut(_)) => panic!("a send has no end"),
                }
            }
            drop(child);
            // What came of its last messages may be whole or nothing.
            while let Some(found) = to_b.probe(Selector::bits(2)) {
                let buffer = vec![0; found.total_bytes as usize];
                let _ = to_b.receive_wait(Selector::bits(2), buffer, LONG);
            }
        }
    });
    assert!(place.service.is_up());
}

/// What was handed over is delivered for a while after the program has ended.
#[test]
fn sends_outlive_the_program() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let b = on(&socket, "b").start().expect("anyone may");
        let endpoint = b.endpoint(7).expect("opens");
        let child = Child::start(|| {
            let a = on(&socket, "a").linger(LONG).start().expect("anyone may");
            let endpoint = a.endpoint(1).expect("opens");
            // Its engine has not met b: nothing has left when this program ends.
            for i in 0..5 {
                endpoint.send(("b", 7), i, pattern(9_000, i)).map(drop).expect("posted");
            }
            // SAFETY: ends this process without a word to the service.
            unsafe { libc::_exit(0) };
        });
        // SAFETY: it is ours; no status is wanted.
        unsafe { libc::waitpid(child.0, std::ptr::null_mut(), 0) };
        std::mem::forget(child);
        for i in 0..5 {
            assert!(receive(&endpoint, i, 9_000) == pattern(9_000, i), "message {i}");
        }
    });
}

#[test]
fn when_the_service_is_killed_every_operation_ends() {
    let Some(place) = Place::new() else { return };
    let process = place.service.process();
    let (order, ordered) = mpsc::channel();
    let (say, said) = mpsc::channel();
    // It is root's, so root kills it. The `ip` that started it has become it.
    let killer = std::thread::spawn(move || {
        ordered.recv().expect("it is ordered");
        signal(process, libc::SIGKILL);
        say.send(Instant::now()).expect("somebody listens");
    });
    place.as_nobody(move |socket| {
        let (a, b) = pair(&socket);
        let (ea, eb) = (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"));
        ea.send_wait(eb.address(), 1, "here", LONG).expect("it goes");
        receive(&eb, 1, 4);
        let receives: Vec<_> = (0..10)
            .map(|_| eb.receive(Selector::bits(2), vec![0; 1000]).expect("posted"))
            .collect();
        let sends: Vec<_> =
            (0..3).map(|_| ea.send(eb.address(), 3, vec![0; 3_000_000]).expect("posted")).collect();
        let since = std::thread::scope(|scope| {
            let sleeps =
                scope.spawn(|| eb.receive_wait(Selector::bits(4), vec![0; 10], LONG).is_err());
            std::thread::sleep(Duration::from_millis(30));
            order.send(()).expect("it listens");
            let since = said.recv().expect("it is killed");
            assert!(sleeps.join().expect("ends"));
            since
        });
        for receive in receives {
            let Err(WaitError::Failed(failed)) = receive.wait(LONG) else { panic!("no end") };
            assert_eq!(failed.error.status(), Status::EndpointClosed);
        }
        for send in sends {
            assert!(matches!(send.wait(LONG), Err(WaitError::Failed(_)) | Ok(_)));
        }
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        assert!(ea.send(eb.address(), 1, "late").is_err());
        let _ = a.close(LONG);
    });
    killer.join().expect("it has done that");
}

/// Who closes a node and starts it anew at once is not told that it runs already.
#[test]
fn an_identity_is_free_as_soon_as_its_node_is_closed() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        for _ in 0..50 {
            drop(on(&socket, "again").start().expect("it ran, and does no longer"));
        }
        // Also while a process runs that was forked from its program, and has copies of all that was open there.
        let node = on(&socket, "again").start().expect("it ran, and does no longer");
        let _copies = Child::start(|| ());
        drop(node);
        drop(on(&socket, "again").start().expect("it ran, and does no longer"));
    });
}

#[test]
fn an_identity_is_its_users_while_its_node_runs() {
    let Some(place) = Place::with("[limits]\nengines_per_user = 2\n") else { return };
    let socket = place.service.socket();
    let refusal = |name: &str| match on(&socket, name).start() {
        Err(BuildError::Engine(line)) => line,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{name} starts"),
    };
    let a = place.as_nobody(|socket| {
        let a = on(&socket, "a").start().expect("nobody has it");
        assert!(refusal("a").contains("runs already"));
        let b = on(&socket, "b").start().expect("nobody has it");
        assert!(refusal("c").contains("may have no more"));
        drop(b);
        a
    });
    place.lab.inside(0, || assert!(refusal("a").contains("another user's")));
    drop(a);
    place.lab.inside(0, || {
        until("the identity is free", || on(&socket, "a").start().is_ok());
    });
}

/// A service that is replaced goes on with its engines, whose identities stay their users', until their programs leave.
#[test]
fn engines_stay_with_a_service_that_is_replaced() {
    let Some(mut place) = Place::new() else { return };
    let socket = place.service.socket();
    let (a, b) = place.as_nobody(|socket| pair(&socket));
    let (ea, eb) = (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"));
    let mut seed = 0;
    let mut talk = || {
        seed += 1;
        ea.send(eb.address(), seed, pattern(20_000, seed)).map(drop).expect("there is room");
        assert!(receive(&eb, seed, 20_000) == pattern(20_000, seed));
    };
    talk();
    let next = Successor::start(&place.lab, &place.service);
    until("the next one listens", || {
        talk();
        next.listens()
    });
    let refused = place.lab.inside(0, || on(&socket, "a").start().err());
    let Some(BuildError::Engine(line)) = refused else { panic!("it would read along") };
    assert!(line.contains("another user's"), "{line}");
    let c = place.as_nobody(|socket| on(&socket, "c").start().expect("the next one has room"));
    let ec = c.endpoint(1).expect("opens");
    ec.send(ec.address(), 1, "self").map(drop).expect("there is room");
    assert_eq!(receive(&ec, 1, 4), b"self");
    talk();
    assert!(place.service.is_up());
    drop((ea, eb, a, b));
    until("the first one ends", || !place.service.is_up());
    ec.send(ec.address(), 2, "more").map(drop).expect("there is room");
    assert_eq!(receive(&ec, 2, 4), b"more");
}
