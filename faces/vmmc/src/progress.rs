//! Progress: what has ended in the node becomes the ends of sends, answers to imports, and notifications.

use emp_face::handles::Key;
use emp_host::{Completion, Endpoint, NodeEvent, NodeId, OpKind};

use crate::abi::Code;
use crate::imports::Stage;
use crate::library::{ASK, COMPLETIONS_AT_ONCE, Library, ROOM, SEND, SHORT, State};
use crate::peers::Peer;
use crate::proxies::Name;

/// Bytes of a put's frame before its payload, at most: for frames whose length is only known by an event.
const HEAD_BYTES: usize = 128;

impl Library {
    /// As [`take`](Self::take); handlers that are due are the service thread's business.
    #[inline]
    pub fn progress(&self, state: &mut State) -> bool {
        let news = self.take(state);
        if news && state.notices.are_due() {
            self.alarm.ring();
        }
        news
    }

    /// Takes what the node has. True if anything has ended that another thread may wait for. The caller sees to handlers that
    /// are due.
    #[inline]
    pub fn take(&self, state: &mut State) -> bool {
        self.face.hint_later();
        state.unasked = 0;
        let mut completions = std::mem::take(&mut state.completions);
        let three = [&self.data, &self.control, &self.notices];
        // Notifications stay with the node until they can be handled: there they hold back whoever sends them.
        let all = state.notices.takes_more();
        let listening = if all { &three[..] } else { &three[..2] };
        // What is taken here needs nobody else's attention.
        if all {
            self.alarm.mute(true);
        }
        let count = Endpoint::poll_completions_of(listening, &mut completions);
        if all {
            self.alarm.mute(false);
        }
        if count == COMPLETIONS_AT_ONCE {
            // There may be more.
            self.alarm.ring();
        }
        if count != 0 {
            // Before what came after them.
            self.take_events(state);
            for completion in completions.drain(..) {
                self.ended(state, &completion);
            }
            if completions.capacity() > COMPLETIONS_AT_ONCE {
                completions = Vec::with_capacity(COMPLETIONS_AT_ONCE);
            }
        }
        state.completions = completions;
        if state.peers.crowded != 0 {
            state.peers.places().for_each(|peer| self.send_waiting(state, peer));
        }
        count != 0
    }

    /// Notes which processes have gone: with each go all mappings of it.
    pub fn take_events(&self, state: &mut State) {
        // Before they are taken: what comes meanwhile is seen the next time.
        let told = self.face.node.events_told();
        if told == state.events_seen {
            return;
        }
        state.events_seen = told;
        while let Some(event) = self.face.node.take_event() {
            let (node, code) = match event {
                NodeEvent::Closed(node) | NodeEvent::Ended(node) => (node, Code::CLOSED),
                NodeEvent::Restarted(node) => (node, Code::RESTARTED),
                NodeEvent::GaveUp(node) | NodeEvent::Unreachable(node) => (node, Code::UNREACHABLE),
                NodeEvent::Limited { node, frame_bytes_max: bytes, .. }
                | NodeEvent::LostBySize { node, passed_bytes: bytes, .. } => {
                    let short_max = bytes.saturating_sub(HEAD_BYTES);
                    if let Some((_, peer)) = state.peers.of(node) {
                        peer.short_max = peer.short_max.min(short_max);
                    }
                    continue;
                }
                // Others say how a process is reached, not that it is gone.
                _ => continue,
            };
            self.lost(state, node, code);
        }
    }

    /// A process is gone: imports of its buffers are void.
    fn lost(&self, state: &mut State, node: NodeId, code: Code) {
        for name in state.imports.names() {
            let Some(import) = state.imports.get_mut(name) else { continue };
            if import.node == node
                && let Stage::Mapped(_) = import.stage
            {
                import.stage = Stage::Failed(code);
            }
        }
    }

    /// One operation has ended in the node.
    #[inline]
    fn ended(&self, state: &mut State, completion: &Completion) {
        match completion.op.kind() {
            OpKind::Put => self.put_ended(state, completion),
            OpKind::Notified => state.notices.add(&state.exports, completion),
            OpKind::Send => {
                if let Some(ask) = Key::of(completion.context, ASK) {
                    self.ask_ended(state, ask, completion.status);
                }
            }
            OpKind::Receive => {
                if let Some(room) = Key::of(completion.context, ROOM) {
                    self.message_came(state, room.place as usize, completion);
                }
            }
            // An answer that did not get there is asked for again.
            OpKind::Undelivered | OpKind::Get | OpKind::Atomic => {}
        }
    }

    #[inline]
    fn put_ended(&self, state: &mut State, completion: &Completion) {
        let failed = Code::of(completion.status);
        if let Some(short) = Key::of(completion.context, SHORT) {
            let name = Name { place: short.place, generation: short.generation };
            let peer = match state.imports.get_mut(name) {
                Some(import) => {
                    if let (Some(code), Stage::Mapped(_)) = (failed, &import.stage) {
                        import.stage = Stage::Failed(code);
                    }
                    Some(import.peer)
                }
                None => state.peers.of(completion.peer).map(|(place, _)| place),
            };
            if let Some(peer) = peer {
                state.peers.at(peer).flying -= 1;
            }
        } else if let Some(send) = Key::of(completion.context, SEND) {
            self.long_ended(state, send, failed);
        }
    }

    fn long_ended(&self, state: &mut State, key: Key, failed: Option<Code>) {
        let Some(send) = state.sends.0.get_mut(key) else { return };
        let (place, import) = (send.peer, send.import);
        if send.end(failed.unwrap_or(Code::OK)) {
            state.sends.0.remove(key);
        }
        if let Some(code) = failed
            && let Some(import) = state.imports.get_mut(import)
            && let Stage::Mapped(_) = import.stage
        {
            import.stage = Stage::Failed(code);
        }
        let peer: &mut Peer = state.peers.at(place);
        peer.flying -= 1;
        peer.long = false;
        self.send_waiting(state, place);
    }
}
