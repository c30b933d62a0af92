//! EMP's part: one node a host. The receiver has an endpoint for each sender and one for the ping-pong, and a thread for each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{anyhow, bail};
use emp_host::{Endpoint, Refused, Request, Selector, SendRequest};
use emp_wire::{ETHERTYPE_DEFAULT, NodeId};

use super::super::job::Spec;
use super::super::subject::{Card, Named, OpenNode, Place};
use super::board::{Board, SMALL_BYTES};
use super::order::{Order, Role};

/// The endpoint of the first sender's messages; the others' follow.
const FIRST: u16 = 10;

/// The endpoint of the ping-pong, at either end.
const PINGPONG: u16 = 1;

/// Match bits of all messages: endpoints tell them apart.
const DATA: u64 = 1;

/// Opens a host's part and sets its threads going.
pub fn open(order: &Order, board: &Arc<Board>) -> anyhow::Result<Card> {
    let place = Place::find((order.own, order.peer), &Named::default(), None)?;
    let spec = Spec { wait: Some(order.wait.clone()), ..Spec::emp(order.link) };
    let open = OpenNode::start(&spec, &place, ETHERTYPE_DEFAULT)?;
    let card = open.card();
    match &order.role {
        Role::Receiver { senders } => {
            for sender in 0..*senders {
                let endpoint = open.node.endpoint(number_of(sender)?)?;
                let (size, window) = (order.size, order.window);
                board.spawn(move |board| take(&endpoint, (size, window), sender, board));
            }
            let endpoint = open.node.endpoint(PINGPONG)?;
            board.spawn(move |_| answer(&endpoint));
        }
        Role::Sender { number, to } => {
            let to = (open.find(to, order.peer.into())?, number_of(*number)?);
            let endpoint = open.node.endpoint(number_of(*number)?)?;
            let (message, window) = (Arc::new(vec![0x5a_u8; order.size]), order.window);
            board.spawn(move |board| {
                board.wait_for_start();
                send_all(&endpoint, to, &message, window)
            });
        }
        Role::Prober { to } => {
            let to = open.find(to, order.peer.into())?;
            let endpoint = open.node.endpoint(PINGPONG)?;
            board.spawn(move |board| {
                board.wait_for_start();
                ask(&endpoint, to, board)
            });
        }
    }
    // It lives as long as the process: endpoints hold on to it, and nothing here ends before.
    std::mem::forget(open);
    Ok(card)
}

fn number_of(sender: usize) -> anyhow::Result<u16> {
    Ok(FIRST + u16::try_from(sender)?)
}

/// Receives a sender's messages for ever, so many posted at a time.
fn take(
    endpoint: &Endpoint,
    (size, window): (usize, usize),
    sender: usize,
    board: &Board,
) -> anyhow::Result<()> {
    let post = |buffer: Vec<u8>| {
        let posted = endpoint.receive(Selector::bits(DATA), buffer);
        posted.map_err(|refused| anyhow!("EMP refused a receive: {refused}"))
    };
    let mut posted = VecDeque::with_capacity(window);
    for _ in 0..window {
        posted.push_back(post(vec![0; size])?);
    }
    while let Some(first) = posted.pop_front() {
        let done = first.wait(None).map_err(|error| anyhow!("sender {sender}: {error}"))?;
        board.received(sender, done.bytes());
        posted.push_back(post(done.buffer)?);
    }
    Ok(())
}

/// Sends for ever, so many messages under way at a time.
fn send_all(
    endpoint: &Endpoint,
    to: (NodeId, u16),
    message: &Arc<Vec<u8>>,
    window: usize,
) -> anyhow::Result<()> {
    let mut flying: VecDeque<SendRequest<Arc<Vec<u8>>>> = VecDeque::with_capacity(window);
    loop {
        if flying.len() >= window
            && let Some(first) = flying.pop_front()
        {
            end(first)?;
        }
        match endpoint.send(to, DATA, Arc::clone(message)) {
            Ok(request) => flying.push_back(request),
            // There is room again when the first has ended.
            Err(Refused { reason, .. }) if reason.is_temporary() && !flying.is_empty() => {
                flying.pop_front().map_or(Ok(()), end)?;
            }
            Err(refused) => bail!("EMP refused a send: {refused}"),
        }
    }
}

fn end<B: Send + 'static>(request: Request<B>) -> anyhow::Result<()> {
    // The error may own the buffer: its words will do.
    request.wait(None).map(drop).map_err(|error| anyhow!("{error}"))
}

/// Has the ping-pong for ever.
fn ask(endpoint: &Endpoint, to: NodeId, board: &Board) -> anyhow::Result<()> {
    loop {
        let back = endpoint.receive(Selector::bits(DATA), vec![0; SMALL_BYTES]);
        let back = back.map_err(|refused| anyhow!("EMP refused a receive: {refused}"))?;
        let start = Instant::now();
        let there = endpoint.send((to, PINGPONG), DATA, vec![0x5a_u8; SMALL_BYTES]);
        end(there.map_err(|refused| anyhow!("EMP refused a send: {refused}"))?)?;
        end(back)?;
        board.round_trip(start.elapsed());
    }
}

/// Answers it for ever.
fn answer(endpoint: &Endpoint) -> anyhow::Result<()> {
    loop {
        let ping = endpoint.receive_wait(Selector::bits(DATA), vec![0; SMALL_BYTES], None);
        let ping = ping.map_err(|error| anyhow!("{error}"))?;
        let pong = endpoint.send((ping.completion.peer, PINGPONG), DATA, ping.buffer);
        end(pong.map_err(|refused| anyhow!("EMP refused a send: {refused}"))?)?;
    }
}
