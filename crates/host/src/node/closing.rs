//! The end of a node: what was sent is acknowledged, or somebody hears that it is not.

use std::sync::PoisonError;
use std::time::Duration;

use emp_firmware::{Counter, OpKind};

use crate::boards::wait::wait_for;
use crate::flying::sleepers::Interest;
use crate::machine::clock;
use crate::node::handle::{Node, NodeInner};
use crate::told::journal::Level;
use crate::turn::core::Core;

/// Longest time that closing waits at a time before it looks again whether all is acknowledged.
const CLOSE_SLICE: Duration = Duration::from_millis(1);

/// Frames that leave show that a long message goes on, but may be answers to peers that read this node's memory without an end: beyond this
/// time only operations that end count. As long as a message of a gigabyte takes at 100 Mb/s, and some.
const ONE_TAKES: Duration = Duration::from_secs(120);

/// A node was closed, and not everything that it had sent is known to have arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutShort {
    /// Sends and one-sided operations that had not ended. Their requests end with an error.
    pub sends: usize,
    /// Messages whose sends were over when they were copied, or whose requests were dropped, and that are not known to have
    /// been delivered: those that were under way, and those lost since the start to peers that vanished.
    pub undelivered: usize,
    /// Of the latter, how many to whom, and why.
    pub details: Vec<String>,
}

impl std::fmt::Display for CutShort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sends, undelivered, details } = self;
        f.write_str("the node was closed with ")?;
        if *sends != 0 || *undelivered == 0 {
            write!(f, "{sends} sends or one-sided operations unfinished")?;
        }
        if *undelivered != 0 {
            let and = if *sends == 0 { "" } else { " and " };
            write!(f, "{and}{undelivered} messages that are not known to have been delivered")?;
        }
        if details.is_empty() { Ok(()) } else { write!(f, " ({})", details.join(", ")) }
    }
}

impl std::error::Error for CutShort {}

/// What shows that delivery goes on.
#[derive(Clone, Copy, Default)]
struct Left {
    operations: usize,
    /// Sent for the first time, and refused: what is refused is sent anew without an end.
    frames: u64,
    refused: u64,
}

impl Left {
    /// Less is left than was before: operations have ended, or long messages have gone on.
    const fn is_less_than(self, before: Self) -> bool {
        let on = self.frames > before.frames && self.refused == before.refused;
        self.operations < before.operations || on
    }
}

impl Core {
    /// Operations under way whose end somebody waits for, or was promised.
    fn unfinished(&self) -> usize {
        let kinds = [OpKind::Send, OpKind::Put, OpKind::Get, OpKind::Atomic];
        kinds.into_iter().map(|kind| self.requests.flying(kind)).sum()
    }

    /// How much there is to be delivered still.
    fn left(&self) -> Left {
        let Some(firmware) = &self.firmware else { return Left::default() };
        let counters = firmware.counters();
        Left {
            operations: self.unfinished() + firmware.undelivered().count(),
            frames: counters.get(Counter::FramesSent),
            refused: counters.get(Counter::NotReadyReceived),
        }
    }

    /// All that was sent is delivered, and all operations have ended.
    fn is_all_over(&self) -> bool {
        self.is_drained() && self.unfinished() == 0
    }

    /// What closing now cuts short.
    fn cut_short(&mut self) -> Result<(), CutShort> {
        let Self { firmware, losses, .. } = self;
        let under_way = firmware.iter().flat_map(|firmware| firmware.undelivered());
        under_way.for_each(|node| losses.note_unacknowledged(node));
        let (sends, undelivered) = (self.unfinished(), self.losses.total());
        if sends == 0 && undelivered == 0 {
            return Ok(());
        }
        let details = self.losses.details(|node| self.directory.show(node));
        Err(CutShort { sends, undelivered, details })
    }

    /// Nobody uses the node any more, and nobody need wait for what the kernel does to forget a packet socket. Ports and places of
    /// other links are free at once.
    fn let_packet_links_go(&mut self) {
        for link in std::mem::take(&mut self.links) {
            if link.capabilities().kind == "packet" {
                emp_link::let_go(link);
            }
        }
    }

    /// What was counted, as far as it is not zero, for the journal.
    fn tell_counters(&mut self) {
        if !self.journal.wants(Level::Info) {
            return;
        }
        let counters = self.counters();
        let dropped = [("frames_not_taken_by_links", self.dropped_unsent())];
        let all = counters.iter().chain(dropped).filter(|(_, count)| *count != 0);
        let all: Vec<_> = all.map(|(name, count)| format!("{name} {count}")).collect();
        self.journal.say(Level::Info, &format!("counters: {}", all.join(", ")));
        for link in &self.links {
            let (of, counts) = (link.capabilities(), link.statistics());
            let all = [
                ("frames_sent", counts.frames_sent),
                ("bytes_sent", counts.bytes_sent),
                ("frames_received", counts.frames_received),
                ("frames_past_ip", counts.frames_past_ip),
                ("bytes_received", counts.bytes_received),
                ("send_calls", counts.send_calls),
                ("receive_calls", counts.receive_calls),
                ("send_full", counts.send_full),
                ("send_refused", counts.send_refused),
                ("receive_lost", counts.receive_lost),
                ("not_for_us", counts.not_for_us),
                ("system_errors", counts.system_errors),
            ];
            let all = all.iter().filter(|(_, count)| *count != 0);
            let all: Vec<_> = all.map(|(name, count)| format!("{name} {count}")).collect();
            let line = format!("counters of {} on {}: {}", of.kind, of.interface, all.join(", "));
            self.journal.say(Level::Info, &line);
        }
    }
}

impl Node {
    /// Waits until all that was sent is delivered and all operations have ended, at most for `linger`; then says goodbye to the
    /// peers and ends the firmware. What is still in flight ends with an error, calls that wait return, and all posts are refused
    /// from then on.
    ///
    /// # Errors
    ///
    /// [`CutShort`] if not all that was sent is known to be delivered: the time was too short, or messages whose sends were over
    /// when they were copied went to nodes that were lost or never found. `Ok` a second time.
    pub fn close(&self, linger: Duration) -> Result<(), CutShort> {
        self.inner.close(linger)
    }

    /// Waits until all that was sent is delivered and all operations have ended, for as long as that goes on: until nothing of it has happened
    /// for `stalled`. True: all of it is over.
    pub fn drain(&self, stalled: Duration) -> bool {
        let shared = &self.inner.shared;
        if !shared.is_ours() {
            return true;
        }
        let mut before = shared.lock().left();
        let look_every = clock::span(stalled / 8);
        let (mut moved, mut ended) = (clock::now(), clock::now());
        loop {
            let end = clock::now() + look_every;
            while clock::now() < end {
                let over = |core: &mut Core| core.is_all_over().then_some(());
                if wait_for(shared, &Interest::Arrivals, Some(CLOSE_SLICE), over).is_some() {
                    return true;
                }
            }
            let (core, now) = (shared.lock(), clock::now());
            let left = core.left();
            if left.operations < before.operations {
                ended = now;
            }
            if left.is_less_than(before) && now.since(ended) < clock::span(ONE_TAKES) {
                (before, moved) = (left, now);
            } else if core.is_closed() || now.since(moved) >= clock::span(stalled) {
                return core.is_all_over();
            }
        }
    }
}

impl NodeInner {
    /// As [`Node::close`](crate::Node::close). Does nothing if the node is closed, or belongs to the process that this one was
    /// forked from.
    pub(crate) fn close(&self, linger: Duration) -> Result<(), CutShort> {
        if !self.shared.is_ours() {
            return Ok(());
        }
        let end = clock::now() + clock::span(linger);
        let mut drained = false;
        while !drained {
            let now = clock::now();
            let slice = clock::duration(end.since(now)).min(CLOSE_SLICE);
            drained = wait_for(&self.shared, &Interest::Arrivals, Some(slice), |core| {
                core.is_all_over().then_some(())
            })
            .is_some();
            if now >= end || self.shared.lock().is_closed() {
                break;
            }
        }
        self.stop_threads();
        let mut core = self.shared.lock();
        if core.is_closed() {
            return Ok(());
        }
        let cut = core.cut_short();
        let now = core.now();
        core.close(now);
        core.tell_counters();
        // A waiter beside a progress thread spins on this; whoever sleeps was woken by the core.
        self.shared.announce();
        cut
    }

    fn stop_threads(&self) {
        self.shared.stop();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A buffer that owns a handle of this node may be dropped by the node's own thread.
            if thread.thread().id() != std::thread::current().id() {
                // A panic there has broken the lock, which is noticed by whoever uses the node.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for NodeInner {
    fn drop(&mut self) {
        if !self.shared.is_ours() {
            // The threads are the parent's: here is nothing to end, or to give back.
            let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(threads));
        } else if self.shared.is_broken() || std::thread::panicking() {
            self.stop_threads();
        } else if let Err(cut) = self.close(self.linger) {
            // No call is left to return it.
            if let Some(core) = self.shared.lock_unless_broken() {
                core.journal.say(Level::Error, &cut.to_string());
            }
        }
        if self.shared.is_ours()
            && let Some(mut core) = self.shared.lock_unless_broken()
        {
            core.let_packet_links_go();
        }
    }
}
