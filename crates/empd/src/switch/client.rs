//! One attached client: whose frames it may send, its end of the channel, and how far it has come.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use emp_link::service::channel::{ADDRESS_BYTES, Channel, Said};

use super::check::Holder;
use super::{Attachment, ClientNumber};

/// Empty turns after which a client that had frames is one of those that ring: so it costs nothing, and for its next frame a system call.
const QUIET_TURNS: u32 = 512;

/// Where a client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It has not said yet that it has mapped the memory, which could still be taken away: nobody touches it.
    Joining,
    /// In the rounds: its ring is looked at in each turn.
    Active,
    /// It rings when it has something.
    Quiet,
    /// Its user has sent what it may: its ring waits.
    Limited,
}

/// An attached client.
pub(super) struct Client {
    pub(super) number: ClientNumber,
    pub(super) user: u32,
    pub(super) process: i32,
    pub(super) holder: Holder,
    pub(super) channel: Channel,
    memory: OwnedFd,
    pub(super) place: Place,
    /// Something was written for it in this turn.
    pub(super) touched: bool,
    /// It is gone: what it wrote before is still sent, up to this count of its ring, as others may have the memory and go on writing.
    pub(super) ends_at: Option<u64>,
    /// Turns in which it had nothing.
    empty: u32,
    /// What it was told last; at first it waits for that, as then it is there.
    told: Option<Said>,
    /// What the wire's errors are counted from.
    pub(super) errors_before: u64,
    pub(super) refused: u64,
}

impl Client {
    pub(super) fn new(attachment: &Attachment, channel: Channel, memory: OwnedFd) -> Self {
        Self {
            number: attachment.client,
            user: attachment.user,
            process: attachment.process,
            holder: Holder::new(attachment.node),
            channel,
            memory,
            place: Place::Joining,
            touched: false,
            ends_at: None,
            empty: 0,
            told: None,
            errors_before: 0,
            refused: 0,
        }
    }

    /// For log lines.
    pub(super) fn name(&self) -> String {
        let (number, user, process) = (self.number, self.user, self.process);
        format!("client {number} (user {user}, process {process}, node {})", self.holder.node())
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.channel.bell()
    }

    /// It has mapped the memory: from now on nobody takes that away.
    pub(super) fn keep(&self) -> io::Result<()> {
        self.channel.keep(self.memory.as_fd())
    }

    /// True if frames can be handed to it.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        self.place != Place::Joining && self.ends_at.is_none()
    }

    /// Hands it a frame. Without room it is lost, and counted where the client sees it. `Err`: the client is to be ended.
    #[inline]
    pub(super) fn hand(
        &mut self,
        from: &[u8; ADDRESS_BYTES],
        frame: &[u8],
    ) -> Result<bool, emp_link::service::channel::Broken> {
        let handed = self.channel.push(from, frame.len(), [frame].into_iter())?;
        if !handed {
            self.channel.count_lost();
        }
        Ok(handed)
    }

    /// Its ring was empty. True if it is to ring from now on.
    #[inline]
    pub(super) fn was_empty(&mut self) -> bool {
        self.empty += 1;
        self.empty >= QUIET_TURNS
    }

    #[inline]
    pub(super) fn was_busy(&mut self) {
        self.empty = 0;
    }

    /// Tells it what is new, if anything is. False: there was no room, or the ring is broken, which shows otherwise.
    pub(super) fn tell(&mut self, now: &Said) -> bool {
        let system_errors = now.system_errors.saturating_sub(self.errors_before);
        let said = Said { refused: self.refused, system_errors, ..*now };
        if Some(said) == self.told || !self.is_there() {
            return true;
        }
        let told = self.channel.say(&said).is_ok_and(|told| told);
        if told {
            self.told = Some(said);
        }
        told
    }
}
