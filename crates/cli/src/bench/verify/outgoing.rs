//! Sending a direction's messages.

use anyhow::{anyhow, bail};
use emp_host::{NodeId, Refused, Scatter, SendOptions, SendRequest};

use super::mailboxes::{Mailboxes, TAGGED, WILD};
use super::message::{Message, Script};

/// Bytes of messages in flight at most, so that a run needs tens of megabytes and not a gigabyte.
const BYTES_IN_FLIGHT: usize = 16 << 20;

type Parts = Scatter<Vec<u8>>;

/// One direction, at its sender.
pub struct Outgoing {
    script: Script,
    peer: NodeId,
    window: usize,
    flying: Vec<(Message, SendRequest<Parts>)>,
    /// Refused for lack of room; nothing may overtake it.
    waiting: Option<(Message, Parts)>,
    in_flight: usize,
    /// Messages started so far: the index of the next.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl Outgoing {
    /// Nothing sent yet.
    pub fn new(script: Script, peer: NodeId, window: usize) -> Self {
        Self {
            script,
            peer,
            window,
            flying: Vec::new(),
            waiting: None,
            in_flight: 0,
            messages: 0,
            bytes: 0,
        }
    }

    /// What is under way, in words.
    pub fn state(&self) -> String {
        let flying: Vec<String> = self.flying.iter().map(|(message, _)| message.short()).collect();
        let waiting = self.waiting.as_ref().map_or("nothing".to_owned(), |(m, _)| m.short());
        format!("{} sent, in flight [{}], no room for {waiting}", self.messages, flying.join(" "))
    }

    /// How many messages have been made and have not ended.
    pub fn under_way(&self) -> usize {
        self.flying.len() + usize::from(self.waiting.is_some())
    }

    /// Nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.flying.is_empty() && self.waiting.is_none()
    }

    /// Sends what may be sent and takes back what has ended; new messages only while `open`. True if anything moved.
    pub fn step(&mut self, mailboxes: &Mailboxes, open: bool) -> anyhow::Result<bool> {
        let mut moved = self.take_back()?;
        while self.flying.len() < self.window && self.in_flight < BYTES_IN_FLIGHT {
            let next = match self.waiting.take() {
                Some(waiting) => waiting,
                None if open => self.make(),
                None => break,
            };
            if !self.send(mailboxes, next)? {
                break;
            }
            moved = true;
        }
        Ok(moved)
    }

    fn make(&mut self) -> (Message, Parts) {
        let message = self.script.message(self.messages);
        self.messages += 1;
        self.bytes += message.size as u64;
        let mut at = 0;
        let parts = message.gather.iter().map(|bytes| {
            let mut part = vec![0; *bytes];
            self.script.fill(message.index, at, &mut part);
            at += bytes;
            part
        });
        let parts = Scatter(parts.collect());
        (message, parts)
    }

    fn send(
        &mut self,
        mailboxes: &Mailboxes,
        (message, parts): (Message, Parts),
    ) -> anyhow::Result<bool> {
        let (mailbox, number) =
            if message.wild { (&mailboxes.wild, WILD) } else { (&mailboxes.tagged, TAGGED) };
        let options = SendOptions {
            immediate: message.immediate.then_some(message.index),
            synchronous: message.synchronous,
            ..SendOptions::default()
        };
        match mailbox.send_with((self.peer, number), message.tag, parts, options) {
            Ok(request) => {
                self.in_flight += message.size;
                self.flying.push((message, request));
                Ok(true)
            }
            Err(Refused { reason, buffer }) if reason.is_temporary() => {
                self.waiting = Some((message, buffer));
                Ok(false)
            }
            Err(refused) => bail!("EMP refused to send {}: {refused}", message.index),
        }
    }

    fn take_back(&mut self) -> anyhow::Result<bool> {
        let mut moved = false;
        let mut at = 0;
        while at < self.flying.len() {
            if !self.flying[at].1.test() {
                at += 1;
                continue;
            }
            moved = true;
            let (message, request) = self.flying.swap_remove(at);
            self.in_flight -= message.size;
            let done = request.wait(std::time::Duration::ZERO);
            let done =
                done.map_err(|error| anyhow!("sending message {}: {error}", message.index))?;
            if done.bytes() != message.size {
                bail!(
                    "message {} of {} bytes was reported as sent with {}",
                    message.index,
                    message.size,
                    done.bytes()
                );
            }
        }
        Ok(moved)
    }
}
