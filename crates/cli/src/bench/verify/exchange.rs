//! Both directions at once, until the time is over and everything has arrived.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use emp_firmware::Counter;
use emp_host::{Node, NodeId, ReceiveRequest, Request, Selector, SendRequest};

use super::incoming::Incoming;
use super::mailboxes::{END, Mailboxes};
use super::message::Script;
use super::outgoing::Outgoing;
use super::plan::{Plan, Tally};
use super::remote::{self, Remote};
use crate::bench::lifeline::Lost;
use crate::bench::patience::Patience;
use crate::bench::subject::Role;

/// How long the ends go on making progress when all is done, so that the last acknowledgement is out.
const SETTLE: Duration = Duration::from_millis(2);

/// What ends a direction: how many messages there were.
type Word = Box<[u8; 8]>;

/// Exchanges messages with the node `peer` as the plan says.
pub fn exchange(
    mailboxes: &Mailboxes,
    peer: NodeId,
    plan: &Plan,
    role: Role,
) -> anyhow::Result<Tally> {
    let node = mailboxes.end.node();
    let before = node.counters();
    let script = |direction| Script::new(plan.seed, direction, plan.size_max);
    let (own, theirs) = match role {
        Role::Active => (script(0), script(1)),
        Role::Passive => (script(1), script(0)),
    };
    let mut run = Run {
        mailboxes,
        peer,
        out: Outgoing::new(own, peer, plan.window),
        into: Incoming::new(theirs, peer, plan, node.profile()),
        remote: Remote::new(own, plan.seed, peer),
        end_in: Some(receive_word(mailboxes, peer)?),
        end_out: None,
        ended: false,
    };
    let start = Instant::now();
    let seconds = Duration::from_secs_f64(plan.seconds);
    let mut patience = Patience::default();
    while !run.is_over() {
        let open = start.elapsed() < seconds && run.is_right();
        if run.step(open)? {
            patience.progress();
        } else {
            let waited = patience.idle_unless(|| moved(&node));
            waited.map_err(|problem| run.stalled(problem, &node, plan.verbose))?;
            // A progress thread may share this core; nothing here is in a hurry.
            std::thread::yield_now();
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    let settling = Instant::now();
    while settling.elapsed() < SETTLE {
        node.progress();
    }
    let after = node.counters();
    let grown = |counter| after.get(counter) - before.get(counter);
    Ok(Tally {
        messages_sent: run.out.messages,
        bytes_sent: run.out.bytes,
        unexpected: grown(Counter::Unexpected),
        frames_resent: grown(Counter::FramesResent),
        puts: run.remote.puts,
        gets: run.remote.gets,
        atomics: run.remote.atomics,
        number_there: run.remote.number(),
        number_here: remote::number(&mailboxes.region),
        mismatch: run.into.tally.mismatch.or(run.remote.mismatch),
        seconds: elapsed,
        ..run.into.tally
    })
}

/// Grows whenever a part of a message has left for the first time or has arrived.
fn moved(node: &Node) -> u64 {
    let counters = node.counters();
    counters.get(Counter::FramesSent) + counters.get(Counter::BytesPlaced)
}

struct Run<'a> {
    mailboxes: &'a Mailboxes,
    peer: NodeId,
    out: Outgoing,
    into: Incoming,
    remote: Remote,
    /// Until the other end has said how many messages there were.
    end_in: Option<ReceiveRequest<Word>>,
    end_out: Option<SendRequest<Word>>,
    /// This end has said it.
    ended: bool,
}

impl Run<'_> {
    /// Nothing moves any more: says so in a line, and where all things stand if that was asked for.
    fn stalled(&self, problem: anyhow::Error, node: &Node, verbose: bool) -> anyhow::Error {
        if problem.is::<Lost>() {
            return problem;
        }
        if verbose {
            eprintln!("{}", self.details(node));
        }
        let (received, flying) = (self.into.tally.messages_checked, self.out.under_way());
        problem.context(stall(self.out.messages, flying, received, verbose))
    }

    /// For whoever looks for the reason, a line for each part.
    fn details(&self, node: &Node) -> String {
        let counters = node.counters();
        let counted: Vec<String> = counters
            .iter()
            .filter(|(_, value)| *value > 0)
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let (free, slots) = node.pool_slots();
        format!(
            "out: {}\nin: {}\none-sided: {}\npool: {free} of {slots} slots free\ncounters: {}",
            self.out.state(),
            self.into.state(),
            self.remote.state(),
            counted.join(", ")
        )
    }

    fn is_over(&self) -> bool {
        self.ended && self.end_out.is_none() && self.into.is_over()
    }

    fn is_right(&self) -> bool {
        self.into.tally.mismatch.is_none() && self.remote.mismatch.is_none()
    }

    /// True if anything moved.
    fn step(&mut self, open: bool) -> anyhow::Result<bool> {
        let mut moved = self.out.step(self.mailboxes, open)?;
        moved |= self.into.step(self.mailboxes)?;
        moved |= self.remote.step(&self.mailboxes.end, open)?;
        if !open && !self.ended && self.out.is_idle() && self.remote.is_idle() {
            let word: Word = Box::new(self.out.messages.to_be_bytes());
            // Refused for lack of room: again in the next round.
            if let Ok(request) = self.mailboxes.end.send((self.peer, END), 0, word) {
                (self.end_out, self.ended) = (Some(request), true);
                moved = true;
            }
        }
        if self.end_out.as_mut().is_some_and(Request::test) {
            self.end_out.take().map_or(Ok(()), |request| finish(request).map(drop))?;
            moved = true;
        }
        if self.end_in.as_mut().is_some_and(Request::test)
            && let Some(request) = self.end_in.take()
        {
            self.into.end_after(u64::from_be_bytes(*finish(request)?));
            moved = true;
        }
        Ok(moved)
    }
}

/// How far a run came that does not end.
fn stall(sent: u64, under_way: usize, received: u64, verbose: bool) -> String {
    let advice = if verbose { "" } else { " (--verbose tells more)" };
    format!(
        "verify stalled with {sent} messages sent, {under_way} of them under way, {received} received{advice}"
    )
}

fn receive_word(mailboxes: &Mailboxes, peer: NodeId) -> anyhow::Result<ReceiveRequest<Word>> {
    let selector = Selector { from: peer, ..Selector::bits(0) };
    let request = mailboxes.end.receive(selector, Box::new([0; 8]));
    request.map_err(|refused| anyhow!("EMP refused a receive: {refused}"))
}

fn finish(request: Request<Word>) -> anyhow::Result<Word> {
    let done = request.wait(Duration::ZERO).map_err(|error| anyhow!("{error}"))?;
    Ok(done.buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_told_in_a_line_that_fits_a_terminal() {
        let line = stall(1_234_567, 24, 1_234_500, false);
        assert!(line.contains("24 of them under way") && line.contains("--verbose"), "{line}");
        assert!(line.chars().count() <= 120, "{line}");
        assert!(!stall(1, 1, 1, true).contains("--verbose"));
    }
}
