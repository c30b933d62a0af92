//! What has ended or happened: from the firmware to those who wait for it.

use std::sync::atomic::Ordering;

use emp_firmware::{Completion, Firmware, NodeEvent, OpId, OpKind, Status};
use emp_wire::NodeId;

use crate::daemon::Tell;
use crate::flying::queues::QueueKey;
use crate::flying::requests::{Begun, Ended};
use crate::links::evidence::Known;
use crate::told::news::Scene;
use crate::turn::core::Core;

/// Node events kept for the application; older ones go first, as in the firmware.
const EVENTS_MAX: usize = emp_firmware::limits::EVENTS_MAX;

impl Core {
    /// Completions and events: from the firmware to those who wait for them.
    #[inline]
    pub(crate) fn drain(&mut self) {
        if !self.has_news() {
            // As after most posts.
            return;
        }
        let Self { firmware, requests, sleepers, .. } = self;
        if let Some(firmware) = firmware {
            // Most often there is nothing but a receive that has ended, and a request waits for it.
            while let Some(key) =
                firmware.first_completion().and_then(|end| requests.end_flying(end))
            {
                firmware.drop_first_completion();
                sleepers.request(key);
            }
        }
        if self.has_news() {
            self.drain_all();
        }
    }

    /// Something ended, happened, or was taken by the application.
    #[inline]
    fn has_news(&self) -> bool {
        let news = self.firmware().is_some_and(Firmware::has_news);
        news || !self.held.is_empty() || self.queues.has_taken()
    }

    fn drain_all(&mut self) {
        let Self { firmware, requests, queues, sleepers, .. } = self;
        if let Some(firmware) = firmware {
            // With the raw API there is most often nothing else, either. From where it lies, as above.
            while let Some(end) = firmware.first_completion()
                && let Some((key, context)) = requests.end_raw(end)
            {
                if queues.push(key, context, end) {
                    sleepers.raw(key);
                }
                firmware.drop_first_completion();
            }
        }
        let taken = self.queues.notifications_taken();
        if taken != 0
            && let Some(firmware) = &mut self.firmware
        {
            firmware.release_notifications(taken);
        }
        let hold = self.outgoing.names_memory();
        while !hold && let Some(completion) = self.held.pop_front() {
            self.complete(completion);
        }
        while let Some(completion) = self.firmware.as_mut().and_then(Firmware::poll_completion) {
            if hold && matches!(completion.op.kind(), OpKind::Send | OpKind::Put) {
                self.held.push_back(completion);
            } else {
                self.complete(completion);
            }
        }
        let mut happened = false;
        while let Some(event) = self.firmware.as_mut().and_then(Firmware::poll_event) {
            self.happened(event);
            happened = true;
        }
        if happened {
            self.show_news();
        }
    }

    /// Something happened to a peer: it is said, and kept for the application.
    pub(super) fn happened(&mut self, event: NodeEvent) {
        self.tell(&event);
        self.directory.note(&event);
        if let NodeEvent::Found { node, name, .. } = &event
            && let Some(frames) = self.collections.of_peer(*node, name)
        {
            self.set_collection_of(*node, frames);
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.events_told.fetch_add(1, Ordering::Release);
        self.sleepers.event();
    }

    /// Changes how many frames one acknowledgement covers from and to a peer. False: it is not known yet.
    pub(crate) fn set_collection_of(&mut self, peer: NodeId, frames: u32) -> bool {
        if let Some(firmware) = &mut self.firmware {
            return firmware.set_collection_of(peer, frames);
        }
        // The engine elsewhere knows all those that were met here.
        let known = self.directory.get(peer).is_some();
        if let Some(away) = self.away.as_mut().filter(|_| known) {
            away.tell(Tell::CollectionOf(peer, frames));
            away.flush();
        }
        known
    }

    /// Says aloud what happened to a peer, before the directory learns of it.
    fn tell(&mut self, event: &NodeEvent) {
        let now = self.now();
        let Self { firmware, directory, links, health, journal, news, evidence, .. } = self;
        let firmware = firmware.as_ref();
        let troubles = &mut || health.troubles(now, links);
        news.tell(event, Scene { now, firmware, directory, troubles }, journal);
        if let NodeEvent::Found { node, .. } = event
            && let Some(firmware) = firmware
        {
            self.timer_moved |= evidence.meet(now, *node, Known { firmware, directory });
        }
    }

    pub(super) fn complete(&mut self, completion: Completion) {
        if matches!(completion.op.kind(), OpKind::Notified | OpKind::Undelivered) {
            return self.notice(completion);
        }
        let sends = matches!(completion.op.kind(), OpKind::Send | OpKind::Put);
        if sends && completion.status != Status::Ok {
            // Before its owner hears of it and uses the memory for something else.
            self.memory.revoke();
        }
        match self.requests.end(&completion) {
            Ended::Request(key) => self.sleepers.request(key),
            Ended::Raw(key, context) => self.hand_raw(key, context, &completion),
            Ended::Orphan(buffer) => {
                if sends && completion.status != Status::Ok {
                    self.losses.note(completion.peer, completion.status);
                }
                self.sleepers.bury(buffer);
            }
            Ended::Unknown => debug_assert!(false, "completion of nothing: {completion:?}"),
        }
    }

    /// A completion for the raw API, with the context that its descriptor had.
    #[inline]
    pub(crate) fn hand_raw(&mut self, key: QueueKey, context: u64, completion: &Completion) {
        // Without a queue the endpoint is gone, and so is everyone who could ask.
        if self.queues.push(key, context, completion) {
            self.sleepers.raw(key);
        }
    }

    /// The operation that was begun, for the raw API. If it is over, its completion is handed out with the context that its descriptor had.
    #[inline]
    pub(crate) fn raw_op(&mut self, begun: Begun, queue: QueueKey, context: u64) -> OpId {
        match begun {
            Begun::Flying(key) => self.requests.op(key),
            Begun::Over(completion) => {
                self.hand_raw(queue, context, &completion);
                completion.op
            }
        }
    }

    /// A completion of nothing that this node's host has in flight: of a peer's doing, or of a send that had ended.
    pub(crate) fn notice(&mut self, completion: Completion) {
        debug_assert!(matches!(completion.op.kind(), OpKind::Notified | OpKind::Undelivered));
        let (number, kind) = (completion.context as u16, completion.op.kind());
        let Some(key) = self.queues.wanting_notices(number, kind) else {
            if kind == OpKind::Undelivered {
                self.losses.note(completion.peer, completion.status);
            } else if self.away.is_some() {
                self.queues.release(1);
            }
            return;
        };
        if self.queues.push(key, completion.context, &completion) && kind == OpKind::Notified {
            // Peers are held back when the application does not look.
            if let Some(firmware) = &mut self.firmware {
                firmware.keep_notification();
            }
        }
        self.sleepers.raw(key);
    }

    /// Drops frames that are still to be sent and name host memory: the firmware resends what still matters.
    pub(crate) fn let_go_of_memory(&mut self) {
        if self.outgoing.names_memory() {
            self.outgoing.forget();
        }
    }
}
