//! What is counted, for programs and for people.

use std::time::Duration;

use emp_firmware::Counters;
use emp_link::{Capabilities, LinkStatistics};

/// What a node counts, beside the firmware's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostCounters {
    /// Sends that have not ended, or whose end nobody has asked for.
    pub sends: usize,
    /// Receives likewise.
    pub receives: usize,
    /// Frames dropped on the way out because a link did not take them for too long. The firmware resends what matters.
    pub frames_dropped: u64,
    /// For how long a waiting call looks again and again before it offers its core and sleeps, as learned from the waits so
    /// far ([`WaitMode`](crate::WaitMode)). `None`: without end.
    pub spin_budget: Option<Duration>,
    /// Times that waiting calls offered their core to other threads.
    pub yields: u64,
    /// Times that waiting calls slept.
    pub sleeps: u64,
}

/// What firmware and host have counted, as far as it is not zero.
pub(crate) fn counters_line(counters: &Counters, dropped_unsent: u64) -> String {
    let dropped = [("frames_not_taken_by_links", dropped_unsent)];
    let all = counters.iter().chain(dropped);
    format!("counters: {}", those_not_zero(all))
}

/// The same of a link.
pub(crate) fn link_line(link: &Capabilities, counts: &LinkStatistics) -> String {
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
    let all = those_not_zero(all.into_iter());
    format!("counters of {} on {}: {all}", link.kind, link.interface)
}

fn those_not_zero(counts: impl Iterator<Item = (&'static str, u64)>) -> String {
    let counted = counts.filter(|(_, count)| *count != 0);
    counted.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}
