//! EMP through its public, safe interface: what a program that uses the crate gets.
//!
//! Buffers are made once and go round: a request owns its buffer and gives it back when it ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use emp_host::{
    Address, Counter, Endpoint, Node, PageBuffer, ReceiveRequest, Region, Request, SendBuffer,
    SendOptions, SendRequest,
};

use super::calls::EmpCalls;
use super::node::OpenNode;
use super::post::{
    DATA, END, finish, pingpong_receives, receive, send, send_with, settle, try_send, wanted,
};
use crate::bench::calls::{Calls, Script};
use crate::bench::job::{Job, Measure, Pattern};
use crate::bench::patience::Patience;
use crate::bench::subject::kind::{Role, Subject};
use crate::bench::subject::memory;
use crate::bench::verify;

/// Messages up to this many bytes have buffers that go round with their requests: streamed, a window of 64 then fits a first-level cache of 32 KB.
const OWN_BYTES_MAX: usize = 256;

/// One end of a pair of nodes.
pub struct Emp {
    pub(super) node: Node,
    pub(super) endpoint: Endpoint,
    pub(super) to: Address,
    mailboxes: verify::Mailboxes,
    /// Faults injected so far.
    pub(super) faults: Arc<std::sync::atomic::AtomicU64>,
    /// What is sent: memory as the other subjects have it. What begins 16 bytes later in its cache line than where it is copied
    /// to, as an `Arc<[u8]>` does, takes the kernel a tenth longer to copy.
    pub(super) out: Arc<PageBuffer>,
    /// Messages of which others follow are posted so.
    bundle: bool,
    /// What the other end reaches by one-sided operations.
    pub(super) region: Option<Region>,
    spare: Vec<PageBuffer>,
    receives: VecDeque<ReceiveRequest<PageBuffer>>,
    /// Messages of the job for which no receive was posted yet.
    unposted: u64,
    /// Nodes that are there and do nothing.
    #[expect(dead_code, reason = "they are held, not used")]
    idle: Vec<OpenNode>,
}

impl Emp {
    /// An end; the other one is at `to`.
    pub(super) fn new(
        node: Node,
        (endpoint, mailboxes): (Endpoint, verify::Mailboxes),
        to: Address,
        faults: Arc<std::sync::atomic::AtomicU64>,
        bundle: bool,
    ) -> Self {
        let out = Arc::default();
        Self {
            node,
            endpoint,
            to,
            mailboxes,
            faults,
            out,
            bundle,
            region: None,
            spare: Vec::new(),
            receives: VecDeque::new(),
            unposted: 0,
            idle: Vec::new(),
        }
    }

    /// The same, with nodes that last as long as it does.
    pub(super) fn beside(self, idle: Vec<OpenNode>) -> Self {
        Self { idle, ..self }
    }

    /// Makes `count` receive buffers of a size.
    fn make_buffers(&mut self, count: usize, size: usize) -> anyhow::Result<()> {
        if self.spare.len() != count || self.spare.iter().any(|buffer| buffer.len() != size) {
            self.spare = memory::several(count, size)?;
        }
        Ok(())
    }

    /// Posts a receive, if the job needs another.
    #[inline]
    fn post_receive(&mut self, buffer: PageBuffer) -> anyhow::Result<()> {
        if self.unposted == 0 {
            self.spare.push(buffer);
            return Ok(());
        }
        self.unposted -= 1;
        let selector = wanted(self.to, DATA);
        self.receives.push_back(receive(&self.endpoint, selector, buffer)?);
        Ok(())
    }

    /// Waits for the receive that was posted first.
    fn next_message(&mut self) -> anyhow::Result<PageBuffer> {
        finish(self.receives.pop_front().context("a receive is posted for every message")?)
    }

    /// Sends first and then posts the receive for the message after the next, while this one is on its way.
    fn ping<B: SendBuffer>(&mut self, job: &Job, mut next: impl Next<B>) -> anyhow::Result<()> {
        let (mut idle, mut back) = (None, None);
        let mut before: Option<SendRequest<B>> = None;
        for _ in 0..job.count {
            let there = send(&self.endpoint, self.to, DATA, next(back.take()))?;
            if let Some(buffer) = idle.take() {
                self.post_receive(buffer)?;
            }
            // Its acknowledgement came with its pong.
            if let Some(before) = before.replace(there) {
                back = Some(finish(before)?);
            }
            idle = Some(self.next_message()?);
        }
        self.spare.extend(idle);
        before.map_or(Ok(()), |last| finish(last).map(drop))
    }

    fn pong<B: SendBuffer>(&mut self, job: &Job, mut next: impl Next<B>) -> anyhow::Result<()> {
        let mut back = None;
        let mut before: Option<SendRequest<B>> = None;
        for _ in 0..job.count {
            let buffer = self.next_message()?;
            let answer = send(&self.endpoint, self.to, DATA, next(back.take()))?;
            self.post_receive(buffer)?;
            // Its acknowledgement came with this ping at the latest.
            if let Some(before) = before.replace(answer) {
                back = Some(finish(before)?);
            }
        }
        before.map_or(Ok(()), |last| finish(last).map(drop))
    }

    /// Small messages have buffers that go round with their requests, as those of a program do; long ones share one, as
    /// with the other subjects.
    fn play(&mut self, role: Role, job: &Job) -> anyhow::Result<()> {
        let (out, size) = (Arc::clone(&self.out), job.size);
        let own = |back: Option<Vec<u8>>| back.unwrap_or_else(|| vec![0x5a; size]);
        let shared = |_| Arc::clone(&out);
        match role {
            Role::Active if size <= OWN_BYTES_MAX => self.ping(job, own),
            Role::Active => self.ping(job, shared),
            Role::Passive if size <= OWN_BYTES_MAX => self.pong(job, own),
            Role::Passive => self.pong(job, shared),
        }
    }

    /// Small messages each have a buffer, as those of a program have, and it comes back with their request; long ones
    /// share one, as with the other subjects.
    fn stream_out(&mut self, job: &Job) -> anyhow::Result<()> {
        if job.size <= OWN_BYTES_MAX {
            self.stream_of(job, |back: Option<Vec<u8>>| {
                back.unwrap_or_else(|| vec![0x5a; job.size])
            })
        } else {
            let out = Arc::clone(&self.out);
            self.stream_of(job, |_| Arc::clone(&out))
        }
    }

    /// Sends what `next` gives, which gets back what has been sent.
    fn stream_of<B: SendBuffer>(
        &mut self,
        job: &Job,
        mut next: impl FnMut(Option<B>) -> B,
    ) -> anyhow::Result<()> {
        let end = receive(&self.endpoint, wanted(self.to, END), vec![0])?;
        let mut flying: VecDeque<SendRequest<B>> = VecDeque::with_capacity(job.window);
        for number in 1..=job.count {
            let mut back = None;
            if flying.len() >= job.window
                && let Some(oldest) = flying.pop_front()
            {
                back = Some(finish(oldest)?);
            }
            let last = number == job.count || number.is_multiple_of(job.window as u64);
            let options = SendOptions::default().more(self.bundle && !last);
            flying.push_back(send_with(&self.endpoint, self.to, DATA, next(back), options)?);
        }
        flying.into_iter().try_for_each(|request| finish(request).map(drop))?;
        finish(end).map(drop)
    }

    fn stream_in(&mut self, job: &Job) -> anyhow::Result<()> {
        for _ in 0..job.count {
            let buffer = self.next_message()?;
            self.post_receive(buffer)?;
        }
        self.send_end()
    }

    /// Tells the other end that all is done.
    pub(super) fn send_end(&self) -> anyhow::Result<()> {
        finish(send(&self.endpoint, self.to, END, vec![1])?).map(drop)
    }

    fn both_ways(&mut self, job: &Job) -> anyhow::Result<()> {
        let end = receive(&self.endpoint, wanted(self.to, END), vec![0])?;
        let mut flying: VecDeque<SendRequest<Arc<PageBuffer>>> =
            VecDeque::with_capacity(job.window);
        let (mut sent, mut received) = (0, 0);
        let mut patience = Patience::default();
        while received < job.count || sent < job.count || !flying.is_empty() {
            let before = (sent, received, flying.len());
            while sent < job.count && flying.len() < job.window {
                let (out, options) = (Arc::clone(&self.out), SendOptions::default());
                match try_send(&self.endpoint, self.to, DATA, out, options)? {
                    Ok(request) => flying.push_back(request),
                    Err(_no_room) => break,
                }
                sent += 1;
            }
            while flying.front_mut().is_some_and(Request::test) {
                flying.pop_front().map_or(Ok(()), |request| finish(request).map(drop))?;
            }
            while let Some(mut request) = self.receives.pop_front() {
                if !request.test() {
                    self.receives.push_front(request);
                    break;
                }
                let buffer = finish(request)?;
                received += 1;
                self.post_receive(buffer)?;
            }
            if before == (sent, received, flying.len()) {
                patience.idle()?;
            } else {
                patience.progress();
            }
        }
        self.send_end()?;
        finish(end).map(drop)
    }
}

impl Subject for Emp {
    fn prepare(&mut self, role: Role, job: &Job) -> anyhow::Result<()> {
        if self.out.len() != job.size {
            self.out = Arc::new(memory::filled(job.size)?);
        }
        let receives = match (job.pattern, role) {
            (Pattern::Pingpong, _) => pingpong_receives(job.size),
            (pattern, _) if pattern.one_sided() => 0,
            (Pattern::Bidir, _) | (_, Role::Passive) => job.window,
            (_, Role::Active) => 0,
        };
        if job.pattern.one_sided() && role == Role::Passive {
            self.export(job)?;
        }
        self.make_buffers(receives, job.size)?;
        self.unposted = if receives == 0 { 0 } else { job.count };
        for buffer in std::mem::take(&mut self.spare) {
            self.post_receive(buffer)?;
        }
        Ok(())
    }

    fn leave_memory(&mut self, job: &Job) {
        if !memory::is_shared(job) {
            return;
        }
        // All requests have ended, so nobody else has it.
        if let Ok(out) = Arc::try_unwrap(std::mem::take(&mut self.out)) {
            memory::leave_sent(out);
        }
        memory::leave_received(std::mem::take(&mut self.spare));
    }

    fn active(&mut self, job: &Job) -> anyhow::Result<Measure> {
        let start = Instant::now();
        match job.pattern {
            Pattern::Pingpong => self.play(Role::Active, job)?,
            Pattern::Stream | Pattern::Rate => self.stream_out(job)?,
            Pattern::Bidir => self.both_ways(job)?,
            Pattern::Put | Pattern::Get | Pattern::Atomic => self.reach_out(job)?,
            Pattern::Verify => bail!("a verify run is no measurement"),
        }
        let elapsed = start.elapsed();
        settle(&self.node);
        Ok(Measure { job: *job, elapsed, arrived: 1.0 })
    }

    fn passive(&mut self, job: &Job) -> anyhow::Result<()> {
        match job.pattern {
            Pattern::Pingpong => self.play(Role::Passive, job)?,
            Pattern::Stream | Pattern::Rate => self.stream_in(job)?,
            Pattern::Bidir => self.both_ways(job)?,
            Pattern::Put | Pattern::Get | Pattern::Atomic => self.be_reached()?,
            Pattern::Verify => bail!("a verify run is no measurement"),
        }
        settle(&self.node);
        Ok(())
    }

    fn copied(&self) -> Option<u64> {
        let counters = self.node.counters();
        let placed = counters.get(Counter::BytesPlaced) - counters.get(Counter::BytesLanded);
        Some(placed + counters.get(Counter::BytesCopied))
    }

    fn calls(&mut self, script: &Script) -> anyhow::Result<Box<dyn Calls + '_>> {
        let ends = (&self.node, &self.endpoint, self.to);
        Ok(Box::new(EmpCalls::new(ends, script.size, script.batch)))
    }

    fn verify(&mut self, plan: &verify::Plan, role: Role) -> anyhow::Result<verify::Tally> {
        let mut tally = verify::exchange(&self.mailboxes, self.to.node, plan, role)?;
        tally.faults = self.faults.load(std::sync::atomic::Ordering::Relaxed);
        Ok(tally)
    }
}

/// What to send next, given what has been sent and is free again.
trait Next<B>: FnMut(Option<B>) -> B {}

impl<B, F: FnMut(Option<B>) -> B> Next<B> for F {}
