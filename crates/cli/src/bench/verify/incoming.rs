//! Receiving a direction's messages and checking each.
//!
//! Receives are posted in groups. Where they name a tag, the order within a group is shuffled: the k-th receive with a
//! tag must still get the k-th message with that tag. Where they take anything, messages must come in the order of
//! sending. Groups are sometimes posted late, so that their messages come unexpected, and some messages are first
//! claimed by a probe.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use emp_firmware::limits::POOL_BYTES;
use emp_firmware::{Profile, Unexpected};
use emp_host::{Completion, NodeId, ReceiveRequest, Scatter, Selector, Status};

use super::mailboxes::Mailboxes;
use super::message::{Message, Random, Script, TAGS};
use super::plan::{Plan, Tally};

/// Messages whose receives are shuffled together. A window must have room for a whole group, or the receive that the
/// sender waits for might never be posted.
pub const GROUP: u64 = 8;

/// Longest time that a group is held back, in µs: several round trips, so that the sender runs into its window.
const HOLD_US: u64 = 400;

/// What receive buffers hold before: no message byte is likely to leave all of it as it was.
const BLANK: u8 = 0xee;

type Parts = Scatter<Vec<u8>>;

/// A receive in flight and the message that it must get.
struct Expected {
    message: Message,
    request: ReceiveRequest<Parts>,
    cancelled: bool,
}

/// One direction, at its receiver.
pub struct Incoming {
    script: Script,
    peer: NodeId,
    window: usize,
    seed: u64,
    random: Random,
    /// Some messages are claimed by a probe before they are received.
    claims: bool,
    /// The first message of the next group.
    next: u64,
    /// Receives to post, in this order; claims are marked.
    planned: VecDeque<(Message, bool)>,
    held_until: Option<Instant>,
    expected: Vec<Expected>,
    /// Messages in all, once that is known.
    total: Option<u64>,
    /// What was seen.
    pub tally: Tally,
}

/// Whether probing for one message while others wait can end well. Not if unexpected messages are refused, as then a
/// probe never finds any; nor if messages that are sent after the wanted one can fill the pool and keep it out.
fn may_claim(profile: &Profile, window: usize) -> bool {
    // In long frames more come whole, but these leave half of the pool to others.
    let most = profile.eager_bytes.saturating_mul(window as u64);
    profile.unexpected == Unexpected::Pool && most <= POOL_BYTES as u64
}

impl Incoming {
    /// Nothing received yet.
    pub fn new(script: Script, peer: NodeId, plan: &Plan, profile: &Profile) -> Self {
        Self {
            script,
            claims: may_claim(profile, plan.window),
            peer,
            window: plan.window,
            seed: plan.seed,
            // Only this end's choices hang on it, so it need not be the same anywhere else.
            random: Random::new(plan.seed, peer.0),
            next: 0,
            planned: VecDeque::new(),
            held_until: None,
            expected: Vec::new(),
            total: None,
            tally: Tally::default(),
        }
    }

    /// The other end has sent so many messages and sends no more.
    pub fn end_after(&mut self, total: u64) {
        self.total = Some(total);
        self.planned.retain(|(message, _)| message.index < total);
        for expected in &mut self.expected {
            if expected.message.index >= total {
                expected.cancelled = expected.request.cancel();
            }
        }
    }

    /// What is under way, in words.
    pub fn state(&self) -> String {
        let expected: Vec<String> = self.expected.iter().map(|e| e.message.short()).collect();
        let planned: Vec<String> = self.planned.iter().map(|(m, _)| m.short()).collect();
        format!(
            "{} of {:?} received, receives posted [{}], planned [{}]",
            self.tally.messages_checked,
            self.total,
            expected.join(" "),
            planned.join(" ")
        )
    }

    /// Everything has come and been checked.
    pub fn is_over(&self) -> bool {
        self.total.is_some_and(|total| self.tally.messages_checked >= total)
            && self.expected.is_empty()
    }

    /// Posts receives and checks what has come. True if anything moved.
    pub fn step(&mut self, mailboxes: &Mailboxes) -> anyhow::Result<bool> {
        let mut moved = self.check_arrived()?;
        if self.planned.is_empty() && self.total.is_none_or(|total| self.next < total) {
            self.plan_group();
        }
        if self.held_until.is_some_and(|until| Instant::now() < until) {
            return Ok(moved);
        }
        while self.expected.len() < self.window {
            let Some((message, claim)) = self.planned.pop_front() else { break };
            let posted = self.post(mailboxes, message, claim)?;
            moved |= posted;
            if !posted {
                break;
            }
        }
        Ok(moved)
    }

    fn plan_group(&mut self) {
        let end = self.total.unwrap_or(u64::MAX).min(self.next + GROUP);
        let group: Vec<Message> =
            (self.next..end).map(|index| self.script.message(index)).collect();
        self.next = end;
        let mut order: Vec<usize> = (0..group.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        // Whatever place the shuffle gives to a message, its receive is for the first one of its sort that is left.
        let sort = |message: &Message| if message.wild { TAGS } else { message.tag };
        let mut left: Vec<Option<&Message>> = group.iter().map(Some).collect();
        for place in order {
            let wanted = sort(&group[place]);
            let found = left.iter_mut().find(|slot| slot.is_some_and(|m| sort(m) == wanted));
            if let Some(message) = found.and_then(Option::take) {
                let claim = self.claims && message.wild && self.random.one_in(6);
                self.planned.push_back((message.clone(), claim));
            }
        }
        // A claim holds up what is planned after it. That must not be what the sender waits for.
        if self.planned.iter().any(|(_, claim)| *claim) {
            self.planned.make_contiguous().sort_by_key(|(message, _)| message.wild);
        }
        self.held_until = self
            .random
            .one_in(4)
            .then(|| Instant::now() + Duration::from_micros(self.random.below(HOLD_US)));
    }

    /// Posts a receive. False: not now; it is planned again.
    fn post(
        &mut self,
        mailboxes: &Mailboxes,
        message: Message,
        claim: bool,
    ) -> anyhow::Result<bool> {
        let parts = Scatter(message.scatter.iter().map(|bytes| vec![BLANK; *bytes]).collect());
        let selector = match (message.wild, self.random.one_in(2)) {
            (true, true) => Selector::ANY,
            (true, false) => Selector { from: self.peer, ..Selector::ANY },
            (false, true) => Selector::bits(message.tag),
            (false, false) => Selector { from: self.peer, ..Selector::bits(message.tag) },
        };
        let posted = if claim {
            let Some(claimed) = mailboxes.wild.claim(selector) else {
                self.planned.push_front((message, true));
                return Ok(false);
            };
            let info = claimed.info();
            if info.total_bytes != message.size as u64 || info.match_bits != message.tag {
                self.mismatch(&message, &format!("a probe found {info:?}"));
            }
            claimed.receive(parts)
        } else {
            let mailbox = if message.wild { &mailboxes.wild } else { &mailboxes.tagged };
            mailbox.receive(selector, parts)
        };
        match posted {
            Ok(request) => {
                self.expected.push(Expected { message, request, cancelled: false });
                Ok(true)
            }
            Err(refused) if refused.reason.is_temporary() && !claim => {
                self.planned.push_front((message, claim));
                Ok(false)
            }
            Err(refused) => Err(anyhow!("EMP refused to receive {}: {refused}", message.index)),
        }
    }

    fn check_arrived(&mut self) -> anyhow::Result<bool> {
        let mut moved = false;
        let mut at = 0;
        while at < self.expected.len() {
            if !self.expected[at].request.test() {
                at += 1;
                continue;
            }
            moved = true;
            let Expected { message, request, cancelled } = self.expected.swap_remove(at);
            match request.try_finish() {
                Ok(Ok(done)) => self.check(&message, &done.completion, &done.buffer),
                Ok(Err(failed)) => match failed.error.status() {
                    Status::Truncated => {
                        self.tally.truncated += 1;
                        self.check(&message, &failed.error.completion, &failed.buffer);
                    }
                    Status::Cancelled if cancelled => self.tally.cancelled += 1,
                    _ => return Err(anyhow!("receiving {}: {}", message.index, failed.error)),
                },
                Err(_) => return Err(anyhow!("an operation ended and then had not ended")),
            }
        }
        Ok(moved)
    }

    fn check(&mut self, message: &Message, completion: &Completion, parts: &Parts) {
        self.tally.messages_checked += 1;
        self.tally.bytes_checked += completion.bytes;
        let room: usize = message.scatter.iter().sum();
        let bytes = message.size.min(room);
        let truncated = message.size > room;
        let immediate = message.immediate.then_some(message.index);
        let said = [
            (completion.status == Status::Truncated) == truncated,
            completion.bytes == bytes as u64,
            completion.total_bytes == message.size as u64,
            completion.match_bits == message.tag,
            completion.immediate == immediate,
            completion.peer == self.peer,
        ];
        if said.contains(&false) {
            return self.mismatch(message, &format!("it was reported as {completion:?}"));
        }
        let mut at = 0;
        for part in &parts.0 {
            let own = bytes.saturating_sub(at).min(part.len());
            if let Some(wrong) = self.script.first_wrong(message.index, at, &part[..own]) {
                let value = part[wrong - at];
                return self
                    .mismatch(message, &format!("byte {wrong} is {value:#04x}, which is wrong"));
            }
            if let Some(beyond) = part[own..].iter().position(|byte| *byte != BLANK) {
                let place = at + own + beyond;
                return self
                    .mismatch(message, &format!("byte {place}, beyond its end, was written"));
            }
            at += part.len();
        }
    }

    fn mismatch(&mut self, message: &Message, what: &str) {
        let Message { index, size, tag, wild, .. } = message;
        let (mailbox, seed) = (if *wild { "wild" } else { "tagged" }, self.seed);
        let text = format!(
            "message {index} ({size} bytes, tag {tag}, {mailbox}, {} to {} buffers, seed {seed}): {what}",
            message.gather.len(),
            message.scatter.len(),
        );
        self.tally.mismatch.get_or_insert(text);
    }
}
