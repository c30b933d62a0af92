//! Posting and waiting, as every end of EMP does it here.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use emp_host::{
    Address, Endpoint, Node, ReceiveBuffer, ReceiveRequest, Refused, Request, Selector, SendBuffer,
    SendOptions, SendRequest, WaitError,
};

use crate::bench::lifeline;
use crate::bench::patience::{self, Patience};

/// The endpoint that measurements use, at both ends.
pub const ENDPOINT: u16 = 1;

/// Match bits of what is measured.
pub const DATA: u64 = 1;

/// Match bits of the message that says that everything has arrived.
pub const END: u64 = 2;

/// Receives posted for a ping-pong: one for the message under way, one for the next, so that posting never delays an
/// answer.
const PINGPONG_RECEIVES: usize = 2;

/// Longer messages go into one buffer, as with the other subjects: posting takes nothing beside them, and an end with
/// three buffers of 1 MiB where the others have two no longer has them in a second-level cache of 2 MiB.
const TWO_RECEIVES_BYTES_MAX: usize = 64 << 10;

/// Receives that are posted for a ping-pong of messages of so many bytes.
pub fn pingpong_receives(size: usize) -> usize {
    if size > TWO_RECEIVES_BYTES_MAX { 1 } else { PINGPONG_RECEIVES }
}

/// How long both ends go on making progress after a job, so that the last acknowledgements are out even without a
/// guardian. Several times the longest delay of an acknowledgement.
const SETTLE: Duration = Duration::from_micros(400);

/// What the other end sends with these match bits.
pub fn wanted(to: Address, match_bits: u64) -> Selector {
    Selector { from: to.node, ..Selector::bits(match_bits) }
}

/// Makes progress for as long as the last acknowledgements take.
pub fn settle(node: &Node) {
    let start = Instant::now();
    while start.elapsed() < SETTLE {
        node.progress();
    }
}

/// Waits for the end of an operation and gives its buffer back. Inlined like the posts: a request that has just been made, or
/// a result, that is handed through several functions is copied by each, and each copy waits for the one before.
#[inline(always)]
pub fn finish<B: Send + 'static>(request: Request<B>) -> anyhow::Result<B> {
    finish_within(request, patience::limit())
}

/// The same with another limit.
#[inline(always)]
pub fn finish_within<B: Send + 'static>(
    mut request: Request<B>,
    limit: Duration,
) -> anyhow::Result<B> {
    let mut left = limit;
    loop {
        // The error may own the buffer, which need not be fit to cross threads with it: its words will do.
        match request.wait(lifeline::INTERVAL) {
            Ok(done) => return Ok(done.buffer),
            Err(WaitError::TimedOut(back)) if !left.is_zero() => request = back,
            Err(error) => bail!("{error}"),
        }
        left = left.saturating_sub(lifeline::INTERVAL);
        lifeline::check()?;
    }
}

/// Posts a receive.
#[inline(always)]
pub fn receive<B: ReceiveBuffer>(
    endpoint: &Endpoint,
    selector: Selector,
    buffer: B,
) -> anyhow::Result<ReceiveRequest<B>> {
    match endpoint.receive(selector, buffer) {
        Ok(request) => Ok(request),
        Err(refused) => Err(anyhow!("EMP refused a receive: {refused}")),
    }
}

/// Posts a send, or gives the buffer back if there is no room for it now.
#[inline]
pub fn try_send<B: SendBuffer>(
    endpoint: &Endpoint,
    to: Address,
    match_bits: u64,
    buffer: B,
    options: SendOptions,
) -> anyhow::Result<Result<SendRequest<B>, B>> {
    match endpoint.send_with(to, match_bits, buffer, options) {
        Ok(request) => Ok(Ok(request)),
        Err(Refused { reason, buffer }) if reason.is_temporary() => Ok(Err(buffer)),
        Err(refused) => bail!("EMP refused a send: {refused}"),
    }
}

/// Posts a send, however long it takes until there is room. A refused post makes progress by itself.
#[inline(always)]
pub fn send<B: SendBuffer>(
    endpoint: &Endpoint,
    to: Address,
    match_bits: u64,
    buffer: B,
) -> anyhow::Result<SendRequest<B>> {
    send_with(endpoint, to, match_bits, buffer, SendOptions::default())
}

/// The same with options.
#[inline(always)]
pub fn send_with<B: SendBuffer>(
    endpoint: &Endpoint,
    to: Address,
    match_bits: u64,
    mut buffer: B,
    options: SendOptions,
) -> anyhow::Result<SendRequest<B>> {
    let mut patience = Patience::default();
    loop {
        match endpoint.send_with(to, match_bits, buffer, options) {
            Ok(request) => return Ok(request),
            Err(Refused { reason, buffer: back }) if reason.is_temporary() => buffer = back,
            Err(refused) => bail!("EMP refused a send: {refused}"),
        }
        patience.idle()?;
    }
}
