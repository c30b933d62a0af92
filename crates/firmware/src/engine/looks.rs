//! What a host asks that looks all the time, and has one message at a time: each answer is a look or two.

use crate::descriptor::Completion;
use crate::engine::Firmware;
use crate::pair::Peers;
use crate::receive::IDLE;
use crate::time::{Span, Time};

impl Firmware {
    /// Does what was put off because nobody waits for it: acknowledgements of messages that their hosts have done with.
    /// To be called when nothing else is to be done, and before going to sleep; all other calls see to it as far as they
    /// depend on it. True if there was anything: then [`poll_timeout`](Self::poll_timeout) may have changed.
    #[inline]
    pub fn catch_up(&mut self, now: Time) -> bool {
        self.distrusts = false;
        let settled = self.send.settle_acks(now);
        self.answer_no_more(now, Span(0)) | settled
    }

    /// The same when a look found nothing to do, as one does that comes before the host's answer to what came last: an
    /// acknowledgement that waits for that goes on waiting for some microseconds.
    #[inline]
    pub fn idle(&mut self, now: Time) -> bool {
        // What waited in the links has been seen.
        self.distrusts = false;
        let settled = self.send.settle_acks(now);
        self.answer_no_more(now, IDLE) | settled
    }

    #[inline]
    fn answer_no_more(&mut self, now: Time, least: Span) -> bool {
        let due = self.receive.answer_no_more(now, least, &self.cross);
        if due {
            self.relay(now);
        }
        due
    }

    /// The next completion where it lies, if it is of a receive or of an operation that ends like one: what is copied on from there is
    /// copied once. [`drop_first_completion`](Self::drop_first_completion) takes it out.
    #[inline]
    pub fn first_completion(&self) -> Option<&Completion> {
        self.receive.completions.front()
    }

    /// Takes out what [`first_completion`](Self::first_completion) showed.
    #[inline]
    pub fn drop_first_completion(&mut self) {
        self.receive.next_completion();
    }

    /// True if there is a completion or an event to be polled.
    #[inline]
    pub fn has_news(&self) -> bool {
        let (send, receive) = (&self.send.completions, &self.receive.completions);
        !receive.is_empty() || !send.is_empty() || !self.events.is_empty()
    }

    /// True if peers that owe this node something are looked after already: then posts need no time for that.
    #[inline]
    pub fn is_watching(&self) -> bool {
        self.watch_at.is_some()
    }

    /// False if [`poll_transmit`](Self::poll_transmit) would do nothing: much cheaper to ask, after each received batch and
    /// post.
    #[inline]
    pub fn has_transmit(&self, now: Time) -> bool {
        self.send.has_ready()
            || self.receive.may_speak(now)
            || !self.receive.to_send.is_empty()
            || self.receive.is_fetching()
            || !self.routes.contacts.is_empty()
            || self.relays.queue.len() > 0
            || self.has_closes()
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next. `None`: nothing is due, the node is idle.
    pub fn poll_timeout(&self) -> Option<Time> {
        let at_once = !self.routes.contacts.is_empty()
            || self.relays.queue.len() > 0
            || self.receive.has_due_acks();
        if at_once || self.receive.is_fetching() {
            return Some(Time(0));
        }
        let receive = self.receive.next_deadline(&self.cross);
        let rest = if self.is_searching() { self.next_question() } else { None };
        let all = [self.send.next_deadline(), receive, self.watch_at, rest];
        let [a, b, c, d] = all.map(|due| due.unwrap_or(Time::NEVER));
        let first = a.min(b).min(c.min(d));
        (first != Time::NEVER).then_some(first)
    }

    /// Something is asked for that peers answer: who or where they are, by which paths, with frames of which length. Seldom.
    #[inline]
    fn is_searching(&self) -> bool {
        let Peers { table, units, .. } = &self.peers;
        self.routes.searches.len() + table.searches() + units.searches() + self.sizes.len() > 0
    }

    /// When the next such question is due.
    #[cold]
    fn next_question(&self) -> Option<Time> {
        let next = [
            self.routes.searches.next_deadline(),
            self.peers.table.next_deadline(),
            self.peers.units.next_deadline(),
            self.sizes.next_deadline(),
        ];
        next.into_iter().flatten().min()
    }
}
