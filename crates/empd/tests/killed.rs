//! A service that is killed, with nobody in its place: whatever its clients wait for ends soon, with a status. Those that have its link go on with the
//! next one; those whose engines it had are told, and start anew.
//!
//! Needs root for the hosts and the services; says so where it is not to be had.

mod common;
#[path = "common/nodes.rs"]
mod nodes;

use std::time::{Duration, Instant};

use common::{PATIENCE, Service};
use emp_host::{Board, CompletionMode, Endpoint, Node, Selector, SendOptions, Status, WaitError};
use emp_testing::lab::Lab;
use nodes::{ONE_CABLE, node};

/// Operations end within a second on a machine that is not busy. Half of what a silent peer is given.
const SOON: Duration = Duration::from_secs(5);

/// Bytes that take long enough to be under way when the service is killed.
const LONG_BYTES: usize = 64 << 20;

/// Waits for an operation's end, and gives its status.
type Ends = Box<dyn FnOnce() -> Status>;

fn delivered() -> SendOptions {
    SendOptions::default().completion(CompletionMode::Delivered)
}

fn hello(of_a: &Endpoint, of_b: &Endpoint, number: u64) {
    of_a.send_wait(of_b.address(), number, vec![1; 1000], PATIENCE).expect("it goes");
    of_b.receive_wait(Selector::bits(number), vec![0; 1000], PATIENCE).expect("it comes");
}

/// Kills `a`'s service amid operations of each kind, to `b` of another one, and sees each end. Returns where the service was.
fn kill_amid(here: Service, a: &Node, b: &Node) -> tempfile::TempDir {
    let (of_a, of_b) = (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"));
    hello(&of_a, &of_b, 1);
    let region = b.export(vec![7; LONG_BYTES]).expect("there is room");
    let from_b = Selector { from: b.id(), ..Selector::bits(5) };
    let mut waits: Vec<(&str, Ends)> = Vec::new();
    macro_rules! waits {
        ($what:literal, $request:expr) => {
            let request = $request.expect("posted");
            waits.push((
                $what,
                Box::new(move || match request.wait(PATIENCE) {
                    Ok(_) => Status::Ok,
                    Err(WaitError::Failed(failed)) => failed.error.status(),
                    Err(error) => panic!("{}: {error}", $what),
                }),
            ));
        };
    }
    waits!("get", of_a.get(region.remote(), vec![0; LONG_BYTES]));
    waits!("put", of_a.put(region.remote(), vec![8; LONG_BYTES]));
    waits!("atomic", of_a.fetch_add(region.remote(), 1u64));
    waits!("send", of_a.send_with(("b", 1), 9, vec![9; 100], delivered()));
    waits!("receive", of_a.receive(from_b, vec![0; 100]));
    std::thread::sleep(Duration::from_millis(2));
    let place = here.kill();
    let killed = Instant::now();
    for (what, wait) in waits {
        let status = wait();
        let took = killed.elapsed();
        println!("{what}: {status:?} after {took:?}");
        assert!(took < SOON, "{what} ended after {took:?} only");
        // What was there already, or was with its receiver, may have ended well.
        let ended_well = status == Status::Ok && !["get", "put", "receive"].contains(&what);
        assert!(
            ended_well || status.is_loss() || status == Status::EndpointClosed,
            "{what}: {status:?}"
        );
    }
    place
}

fn ends_soon(board: Board) {
    let Some(lab) = Lab::build(1500) else { return };
    let (here, there) = (Service::start(&lab, 0, ""), Service::start(&lab, 1, ""));
    let (a, b) = (node(&lab, 0, &here, "a", board), node(&lab, 1, &there, "b", board));
    let place = kill_amid(here, &a, &b);
    let (of_a, of_b) = (a.endpoint(2).expect("opens"), b.endpoint(2).expect("opens"));
    // What is posted meanwhile ends likewise.
    let posted = Instant::now();
    let send = of_a.send_with(("b", 2), 10, vec![0; 100], delivered()).expect("posted");
    let failed = send.wait(PATIENCE).expect_err("there is no service");
    println!("send without a service: {failed} after {:?}", posted.elapsed());
    assert!(failed.operation().is_some() && posted.elapsed() < SOON, "{failed}");
    let next = Service::start_at(&lab, 0, "", place);
    // Whoever makes progress asks the next service, which serves callers of its own network namespace.
    lab.inside(0, || {
        let since = Instant::now();
        while of_a.send_wait_with(("b", 2), 11, vec![0; 100], delivered(), PATIENCE).is_err() {
            assert!(since.elapsed() < PATIENCE, "it does not go on: {}", next.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    of_b.receive_wait(Selector::bits(11), vec![0; 100], PATIENCE).expect("it came");
    hello(&of_a, &of_b, 12);
}

#[test]
fn operations_of_callers_that_make_progress_end_soon() {
    ends_soon(Board::Inline { guardian: true });
}

#[test]
fn operations_of_a_progress_thread_end_soon() {
    ends_soon(Board::Thread);
}

#[test]
fn operations_of_an_engine_in_the_service_end_soon() {
    let Some(lab) = Lab::build(1500) else { return };
    let (here, there) = (Service::start(&lab, 0, ONE_CABLE), Service::start(&lab, 1, ONE_CABLE));
    let (a, b) =
        (node(&lab, 0, &here, "a", Board::Daemon), node(&lab, 1, &there, "b", Board::Daemon));
    let place = kill_amid(here, &a, &b);
    drop(a);
    let next = Service::start_at(&lab, 0, ONE_CABLE, place);
    let a = node(&lab, 0, &next, "a", Board::Daemon);
    let (of_a, of_b) = (a.endpoint(2).expect("opens"), b.endpoint(2).expect("opens"));
    hello(&of_a, &of_b, 11);
}
