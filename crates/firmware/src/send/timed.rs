//! What a message took by its path, which tells the paths from each other (`PATH-9`).

use emp_wire::Sequence;

use super::SendSide;
use super::acknowledged::Came;
use crate::cross::RouteNews;
use crate::path::PathId;

impl SendSide {
    /// A message is acknowledged whose train began with this number and took this path, and its record is gone. `came`: when the
    /// acknowledgement came, if that says how long the way took.
    #[inline]
    pub(super) fn time(
        &mut self,
        peer: u32,
        (message, first, path): (u32, Sequence, PathId),
        came: Option<Came>,
    ) {
        let Some(message) =
            self.messages.at(message).filter(|message| message.plan.usual_frames > 1)
        else {
            return;
        };
        // What is pulled waits for its receiver, too: that it arrived counts, for a trial has an end, and not what it took.
        let whole = u64::from(message.plan.cut.unscheduled) == message.total();
        let frames = message.plan.usual_frames;
        let Some(active) = self.peers[peer].active.as_deref() else { return };
        let alone = !active.is_flying() && active.records.is_empty() && active.began.0 == first;
        let took_ns = came.filter(|_| alone && whole).map(|Came { at, unseen_us }| {
            let ns = at.since(active.began.1).0.saturating_sub(1_000 * u64::from(unseen_us));
            ns.try_into().unwrap_or(u32::MAX)
        });
        self.route_news.push_back(RouteNews::Arrived { peer, path, frames, took_ns });
    }
}
