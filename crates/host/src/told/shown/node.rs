//! What is shown of the node itself.

use std::time::{SystemTime, UNIX_EPOCH};

use emp_firmware::{Counter, Firmware, Span, Time};
use emp_link::Link;
use emp_state::layout::{Address, LINKS_MAX};
use emp_state::{Identity, Link as Shown, Neighbour, Note, Now, Text, Writer};
use emp_wire::{Epoch, LinkAddress, NodeId};

use crate::choices::Board;
use crate::machine::{launcher, system};
use crate::told::journal::{Level, Line};

/// Receives and messages that are looked at of each endpoint, the first in order: whoever hangs has few, and what waits longest is one of them.
pub(super) const LOOKED_AT: usize = 64;

/// Nanoseconds since 1970.
fn real_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Who the node is. What the system says of its process is filled in by the writer.
pub(crate) fn identity(
    (node, epoch, name): (NodeId, Epoch, &str),
    board: Board,
    patience: Span,
) -> Identity {
    let job = launcher::job();
    let patience_ms = u32::try_from(patience.0 / 1_000_000).unwrap_or(u32::MAX);
    Identity {
        node: node.0,
        epoch: epoch.0,
        started_real: real_time(),
        rank: job.as_ref().map_or(-1, |job| job.rank),
        ranks: job.as_ref().map_or(0, |job| job.ranks),
        patience_ms,
        name: Text::new(name),
        version: Text::new(env!("CARGO_PKG_VERSION")),
        launcher: Text::new(job.as_ref().map_or("", |job| job.launcher)),
        job: Text::new(job.as_ref().map_or("", |job| &job.name)),
        host: Text::new(&system::host_name()),
        board: Text::new(board.name()),
        ..Identity::default()
    }
}

/// A place on a link.
pub(super) fn address(of: &LinkAddress) -> Address {
    let mut bytes = [0; 22];
    let known = of.bytes();
    bytes[..known.len()].copy_from_slice(known);
    Address { family: of.family() as u8, bytes }
}

/// A line of the journal.
pub(super) fn note(line: &Line) -> Note {
    let level = match line.level {
        Level::Info => 1,
        Level::Warn | Level::Lost => 2,
        Level::Error => 3,
    };
    let node = line.about.map_or(0, |node| node.0);
    Note { at: line.at.0, node, level, text: Text::new(&line.text) }
}

/// All that was counted.
pub(super) fn counters(firmware: &Firmware, unsent: u64, writer: &mut Writer) {
    for (index, (name, value)) in firmware.counters().iter().enumerate() {
        writer.counter(index, name, value);
    }
    writer.counter(Counter::ALL.len(), "frames_not_taken_by_links", unsent);
}

/// Who is beside a relay.
pub(super) fn neighbours(firmware: &Firmware, writer: &mut Writer) {
    for (index, of) in firmware.relay_neighbours().iter().enumerate() {
        let dropped = |reason| of.reasons().find(|(of, _)| *of == reason).map_or(0, |(_, it)| it);
        let shown = Neighbour {
            link: of.link.0,
            address: address(&of.address),
            frames: of.frames,
            bytes: of.bytes,
            searches: of.searches,
            dropped: of.dropped(),
            dropped_full: dropped(Counter::DropRelayFull),
            dropped_cut: dropped(Counter::DropHopCut),
        };
        writer.neighbour(index, &shown);
    }
}

/// Since when something is what it is.
#[derive(Clone, Copy, Default)]
pub(super) struct Since {
    what: u64,
    from: Time,
}

impl Since {
    /// It is this now; 0 where there is nothing.
    pub(super) fn look(&mut self, now: Time, what: Option<u64>) -> u64 {
        match what {
            None => {
                *self = Self::default();
                return 0;
            }
            Some(what) if self.from == Time::default() || self.what != what => {
                *self = Self { what, from: now };
            }
            Some(_) => {}
        }
        self.from.0
    }
}

/// What waits at the node, whoever it is for, and how its links are.
#[derive(Default)]
pub(super) struct Waits {
    receive: Since,
    message: Since,
    receives_any: u32,
    receive_since: u64,
    unexpected_since: u64,
    /// By link, its MTU and why nothing can cross it.
    conditions: [(u32, Text<36>); LINKS_MAX],
}

impl Waits {
    /// Looks at what waits.
    pub(super) fn look(&mut self, now: Time, firmware: &Firmware) {
        let (mut any, mut oldest, mut message) = (0, None, None);
        firmware.waiting_receives(LOOKED_AT, |from, post| {
            if from == NodeId::ANY {
                any += 1;
                oldest = Some(oldest.map_or(post, |oldest: u64| oldest.min(post)));
            }
        });
        firmware.waiting_messages(1, |_, name| message = message.or(Some(name)));
        self.receives_any = any;
        self.receive_since = self.receive.look(now, oldest);
        self.unexpected_since = self.message.look(now, message);
    }

    /// Notes a link; its interface is looked at anew if that is asked for.
    pub(super) fn link(
        &mut self,
        index: usize,
        link: &mut dyn Link,
        look: bool,
        writer: &mut Writer,
    ) {
        let Some(condition) = self.conditions.get_mut(index) else { return };
        if look && let Some(now) = link.condition() {
            let mtu = u32::try_from(now.mtu).unwrap_or(u32::MAX);
            *condition = (mtu, Text::new(now.trouble.unwrap_or_default()));
        }
        let (of, counts) = (link.capabilities(), link.statistics());
        let (mtu, trouble) = *condition;
        let shown = Shown {
            kind: Text::new(of.kind),
            interface: Text::new(&of.interface),
            address: address(&of.address),
            mtu,
            frame_bytes: u32::try_from(of.frame_bytes_max).unwrap_or(u32::MAX),
            trouble,
            frames_sent: counts.frames_sent,
            frames_received: counts.frames_received,
            bytes_sent: counts.bytes_sent,
            bytes_received: counts.bytes_received,
            send_full: counts.send_full,
            send_refused: counts.send_refused,
            receive_lost: counts.receive_lost,
            system_errors: counts.system_errors,
            not_for_us: counts.not_for_us,
        };
        writer.link(index, &shown);
    }

    /// How the node is, but for its peers.
    pub(super) fn now(&self, now: Time, firmware: &Firmware, links: usize) -> Now {
        let (sends, receives, incoming) = firmware.outstanding();
        let (pool_free, pool_slots) = firmware.pool_slots();
        let short = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Now {
            written: now.0,
            written_real: real_time(),
            receive_since: self.receive_since,
            unexpected_since: self.unexpected_since,
            sends: short(sends),
            receives: short(receives),
            receives_any: self.receives_any,
            incoming: short(incoming),
            peers_known: short(firmware.peers()),
            pool_free: short(pool_free),
            pool_slots: short(pool_slots),
            links: short(links),
            counters: short(Counter::ALL.len() + 1),
            neighbours: short(firmware.relay_neighbours().len()),
            ..Now::default()
        }
    }
}
