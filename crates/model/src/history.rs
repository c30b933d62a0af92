//! What was done to the nodes and the network, and so which errors an application may be told.
//!
//! An error is right only if something happened that explains it. The rules are strict in kind: no loss, reordering or slowness,
//! however bad, explains `Unreachable`. In time they are as strict as can be: what happened explains an error only if it lasted
//! until after the last time that the observer lost the peer (each is noticed once), and until the observer itself started.

use std::collections::BTreeMap;

use emp_firmware::{NodeEvent, Span, Status, Time};
use emp_wire::Epoch;

use crate::network::{Jack, Network};
use crate::reach::{Outage, Reach};

/// Two nodes could not hear each other, at least in one direction, on one fabric.
#[derive(Clone, Copy, Debug)]
struct Cut {
    fabric: usize,
    from: usize,
    to: usize,
    start: Time,
    end: Time,
}

/// A node was away.
#[derive(Clone, Copy, Debug)]
struct Absence {
    node: usize,
    start: Time,
    /// When it started again.
    end: Time,
    /// It said goodbye first.
    goodbye: bool,
}

/// A node told its application that it lost a peer's state.
#[derive(Clone, Copy, Debug)]
struct Reset {
    observer: usize,
    peer: usize,
    at: Time,
    /// Because the peer came back in another epoch.
    restarted: bool,
    epochs: Epochs,
}

/// Which generations of a pair a node knows of, once it has lost the peer's state.
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    /// Its own towards the peer.
    pub own: Epoch,
    /// The peer's; [`Epoch::UNKNOWN`]: it is to be asked for.
    pub known: Epoch,
}

/// An endpoint was not open.
#[derive(Clone, Copy, Debug)]
struct Closed {
    place: (usize, u16),
    end: Time,
}

/// A way through relays that is there for less may be found by nobody: who searches beyond its neighbours does so each 0.8 s (`RELAY-10`).
const UNSEEN: Span = Span::ms(1_000);

/// The record of one run.
#[derive(Debug, Default)]
pub struct History {
    /// A silence this long may be taken for the end of a peer.
    silence_min: Span,
    fabrics: usize,
    cuts: Vec<Cut>,
    absences: Vec<Absence>,
    closed: Vec<Closed>,
    /// Which incarnation of a node began when.
    starts: Vec<(usize, Time, Epoch)>,
    /// When each node last started.
    started: BTreeMap<usize, Time>,
    resets: Vec<Reset>,
    /// Nodes whose interfaces changed their MTU, and when.
    limited: Vec<(usize, Time)>,
    /// Of a world with cables: who could reach whom.
    reach: Option<Reach>,
}

impl History {
    /// A record for nodes that give up a peer after `unreachable_after` (the shortest of them).
    ///
    /// Half of it counts as long: a retransmission backed off to its ceiling may fall into the cut's end, so the silence
    /// that a node sees is longer than the cut.
    pub fn new(unreachable_after: Span, fabrics: usize) -> Self {
        Self { silence_min: Span(unreachable_after.0 / 2), fabrics, ..Self::default() }
    }

    /// The world has cables, and each leads where it does now.
    pub(crate) fn begin_cables(&mut self, network: &Network, nodes: usize, now: Time) {
        let mut reach = Reach::new(nodes);
        for node in 0..nodes {
            for link in 0..network.links(node) {
                reach.leads(Jack { node, link }, network.fabric_of(node, link), now);
            }
        }
        self.reach = Some(reach);
    }

    /// In this world of cables, these nodes relay, over so many hops from end to end.
    pub fn set_relays(&mut self, relays: Vec<bool>, hops: usize) {
        if let Some(reach) = &mut self.reach {
            reach.set_relays(relays, hops);
        }
    }

    /// In this world of cables, these damage frames.
    pub fn set_damaged(&mut self, fabrics: Vec<usize>) {
        if let Some(reach) = &mut self.reach {
            reach.set_damaged(fabrics);
        }
    }

    /// A node's link leads elsewhere from now on, or nowhere.
    pub fn leads(&mut self, jack: Jack, fabric: Option<usize>, now: Time) {
        if let Some(reach) = &mut self.reach {
            reach.leads(jack, fabric, now);
        }
    }

    /// One direction between two nodes was cut on one fabric.
    pub fn cut(&mut self, fabric: usize, from: usize, to: usize, start: Time, end: Time) {
        self.cuts.push(Cut { fabric, from, to, start, end });
    }

    /// A node stopped.
    pub fn stopped(&mut self, node: usize, start: Time, goodbye: bool) {
        self.absences.push(Absence { node, start, end: Time::NEVER, goodbye });
    }

    /// A node started.
    pub fn started(&mut self, node: usize, at: Time, epoch: Epoch) {
        self.started.insert(node, at);
        self.starts.push((node, at, epoch));
        let open = |absence: &&mut Absence| absence.node == node && absence.end == Time::NEVER;
        for absence in self.absences.iter_mut().filter(open) {
            absence.end = at;
        }
    }

    /// A node's interfaces take frames of another length from now on.
    pub fn limited(&mut self, node: usize, at: Time) {
        self.limited.push((node, at));
    }

    /// An endpoint was closed, or never opened.
    pub fn endpoint_closed(&mut self, node: usize, endpoint: u16) {
        self.closed.push(Closed { place: (node, endpoint), end: Time::NEVER });
    }

    /// An endpoint was opened at this time.
    pub fn endpoint_opened(&mut self, node: usize, endpoint: u16, at: Time) {
        let place = (node, endpoint);
        let open = |closed: &&mut Closed| closed.place == place && closed.end == Time::NEVER;
        for closed in self.closed.iter_mut().filter(open) {
            closed.end = at;
        }
    }

    /// A node reported that it lost a peer's state; perhaps because that came back in another epoch.
    pub fn reset(
        &mut self,
        (observer, peer): (usize, usize),
        at: Time,
        restarted: bool,
        epochs: Epochs,
    ) {
        self.resets.push(Reset { observer, peer, at, restarted, epochs });
    }

    /// True if this endpoint was not open at some time from `since` on: what was on its way to it then may be gone.
    pub fn was_closed_since(&self, node: usize, endpoint: u16, since: Time) -> bool {
        self.closed.iter().any(|closed| closed.place == (node, endpoint) && closed.end >= since)
    }

    /// True if the node reported at or after `since` that it lost the peer's state.
    pub fn was_reset(&self, observer: usize, peer: usize, since: Time) -> bool {
        self.resets
            .iter()
            .any(|reset| (reset.observer, reset.peer) == (observer, peer) && reset.at >= since)
    }

    /// When a node was stopped for the first time at or after `since`.
    pub fn stopped_after(&self, node: usize, since: Time) -> Option<Time> {
        let of_node = self.absences.iter().filter(|absence| absence.node == node);
        of_node.map(|absence| absence.start).filter(|start| *start >= since).min()
    }

    /// True if a node was stopped at or after `since`.
    pub fn was_stopped(&self, node: usize, since: Time) -> bool {
        self.stopped_after(node, since).is_some()
    }

    /// True if either end lost the pair's state at or after `since`: what was on its way then may be gone.
    pub fn pair_broke(&self, a: usize, b: usize, since: Time) -> bool {
        self.resets.iter().any(|reset| {
            reset.at >= since
                && ((reset.observer, reset.peer) == (a, b)
                    || (reset.observer, reset.peer) == (b, a))
        }) || self.was_stopped(a, since)
            || self.was_stopped(b, since)
    }

    /// True if `observer` reported, between `since` and `until`, that `peer` was restarted. What had arrived whole of a peer
    /// that only fell silent, or said goodbye, may still be received: its sender was told that it was delivered.
    pub fn restart_seen(&self, observer: usize, peer: usize, since: Time, until: Time) -> bool {
        self.resets.iter().any(|reset| {
            reset.restarted
                && (reset.observer, reset.peer) == (observer, peer)
                && reset.at > since
                && reset.at < until
        })
    }

    /// True if `observer` may be told at `now` that an operation with `peer` ended like this that was posted at `since`.
    pub fn explains(
        &self,
        status: Status,
        observer: usize,
        peer: usize,
        (since, now): (Time, Time),
    ) -> bool {
        let fresh = self.last_lost(observer, peer, since);
        // What the peer did while news of what it had done before was on its way is news, too, although that came later.
        let known = self.last_reset(observer, peer, since).map(|reset| reset.epochs.known);
        let known = known.filter(|known| *known != Epoch::UNKNOWN);
        // So is the end of the incarnation that was met last, though it was over by then.
        let met = known.and_then(|known| self.began(peer, known));
        let stopped = |goodbye: bool| {
            self.absences.iter().any(|absence| {
                absence.node == peer
                    && absence.start <= now
                    && (absence.end >= fresh || met.is_some_and(|met| absence.end > met))
                    && (absence.goodbye || !goodbye)
            })
        };
        let silent = self.silent(observer, peer, (fresh, now));
        let is_news = |reset: &Reset| {
            known.map_or(reset.at >= fresh, |known| reset.epochs.own.follows(known))
        };
        let broken_there = || {
            self.resets.iter().any(|reset| {
                let there = (reset.observer, reset.peer) == (peer, observer);
                there && reset.at <= now && is_news(reset)
            })
        };
        match status {
            Status::Unreachable | Status::NotFound => silent || stopped(false),
            Status::PeerRestarted | Status::PeerEnded => stopped(false),
            Status::GivenUp => broken_there(),
            Status::PeerClosed => stopped(true),
            _ => false,
        }
    }

    /// When the incarnation of a node began that speaks with this generation, or one that follows it.
    fn began(&self, node: usize, epoch: Epoch) -> Option<Time> {
        let of = |(whose, _, first): &&(usize, Time, Epoch)| {
            *whose == node && (*first == epoch || epoch.follows(*first))
        };
        self.starts.iter().rev().find(of).map(|(_, at, _)| *at)
    }

    /// When `observer` last lost the peer's state before `since`, or started: nothing that was over by then is news to it.
    fn last_lost(&self, observer: usize, peer: usize, since: Time) -> Time {
        let began = self.started.get(&observer).copied().unwrap_or_default();
        self.last_reset(observer, peer, since).map_or(began, |reset| reset.at)
    }

    /// The last time before `since` that `observer`, as it runs now, lost the peer's state.
    fn last_reset(&self, observer: usize, peer: usize, since: Time) -> Option<&Reset> {
        let began = self.started.get(&observer).copied().unwrap_or_default();
        let of_pair = |reset: &&Reset| {
            (reset.observer, reset.peer) == (observer, peer) && (began..since).contains(&reset.at)
        };
        self.resets.iter().rev().find(of_pair)
    }

    /// True if two nodes were cut off from each other, on every fabric at the same time, for long, and until after `fresh`.
    fn silent(&self, a: usize, b: usize, (fresh, now): (Time, Time)) -> bool {
        let long =
            |(start, end): &(Time, Time)| *end >= fresh && end.since(*start) >= self.silence_min;
        if let Some(reach) = &self.reach {
            let mut apart = reach.apart((a, b), &self.outages(), now);
            if reach.is_relayed() {
                apart.dedup_by(|next, last| {
                    let unseen = next.0.since(last.1) < UNSEEN;
                    if unseen {
                        last.1 = next.1;
                    }
                    unseen
                });
            }
            return apart.iter().any(long);
        }
        let between = |cut: &Cut| (cut.from, cut.to) == (a, b) || (cut.from, cut.to) == (b, a);
        let mut spans = vec![(Time(0), now)];
        for fabric in 0..self.fabrics {
            let cuts = self.cuts.iter().filter(|cut| cut.fabric == fabric && between(cut));
            let common = |cut: &Cut, spans: &[(Time, Time)]| -> Vec<(Time, Time)> {
                spans.iter().map(|(s, e)| ((*s).max(cut.start), (*e).min(cut.end))).collect()
            };
            spans = cuts.flat_map(|cut| common(cut, &spans)).collect();
        }
        spans.iter().any(long)
    }

    /// What of links and nodes was out, and when.
    fn outages(&self) -> Vec<(Outage, Time, Time)> {
        let cuts = self.cuts.iter().map(|cut| {
            let what = Outage::Cut { fabric: cut.fabric, between: (cut.from, cut.to) };
            (what, cut.start, cut.end)
        });
        let away = self.absences.iter().map(|one| (Outage::Away(one.node), one.start, one.end));
        cuts.chain(away).collect()
    }

    /// True if there is a way now between two nodes that are there.
    pub fn can_reach(&self, a: usize, b: usize, now: Time) -> bool {
        self.reach.as_ref().is_none_or(|reach| reach.connected((a, b), &self.outages(), now))
    }

    /// True if `observer` may report this.
    pub fn explains_event(
        &self,
        event: &NodeEvent,
        observer: usize,
        peer: usize,
        now: Time,
    ) -> bool {
        let status = match event {
            NodeEvent::Found { .. } | NodeEvent::PathLost { .. } | NodeEvent::PathFound { .. } => {
                return true;
            }
            // No two nodes have one identity here.
            NodeEvent::Claimed { .. } => return false,
            NodeEvent::Unreachable(_) => Status::Unreachable,
            NodeEvent::Restarted(_) => Status::PeerRestarted,
            NodeEvent::GaveUp(_) => Status::GivenUp,
            NodeEvent::Ended(_) => Status::PeerEnded,
            NodeEvent::Closed(_) => Status::PeerClosed,
            // A judgement about losses, which any loss may mislead; it ends nothing. And what a node has of its own.
            NodeEvent::LostBySize { .. } | NodeEvent::LimitReached { .. } => return true,
            NodeEvent::Limited { .. } => {
                // A path through relays has the length of the smallest interface on its way. What a relay's head says of that is under no checksum
                // of the ends: on Ethernet the check sequence finds its damage, and the simulator has none.
                let any = self.reach.as_ref().is_some_and(Reach::is_relayed);
                let damaged = |reach: &Reach| reach.is_damaged_by_relays((observer, peer), now);
                return self.limited.iter().any(|(node, at)| (any || *node == peer) && *at <= now)
                    || self.reach.as_ref().is_some_and(damaged);
            }
        };
        self.explains(status, observer, peer, (now, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_silences_explain_unreachable() {
        let mut history = History::new(Span::ms(100), 1);
        history.cut(0, 0, 1, Time(0), Time(0) + Span::ms(10));
        let late = Time(0) + Span::ms(1_000);
        assert!(!history.explains(Status::Unreachable, 0, 1, (Time(0), late)));
        history.cut(0, 1, 0, late, late + Span::ms(200));
        assert!(
            !history.explains(Status::Unreachable, 0, 1, (Time(0), late + Span::ms(10))),
            "too early"
        );
        assert!(history.explains(Status::Unreachable, 0, 1, (Time(0), late + Span::ms(120))));
        assert!(!history.explains(Status::Unreachable, 0, 2, (Time(0), late + Span::ms(120))));
        assert!(!history.explains(Status::PeerClosed, 0, 1, (Time(0), late + Span::ms(120))));
    }

    /// A node's own generation and what it knows of the peer's, as a number of times that each has given the pair up.
    fn epochs(own: u32, known: Option<u32>) -> Epochs {
        let of = |times: u32| Epoch(100 + times);
        Epochs { own: of(own), known: known.map_or(Epoch::UNKNOWN, of) }
    }

    /// A node that starts twice while news of the first time is on its way: both are news, one after the other.
    #[test]
    fn each_incarnation_that_was_met_may_end() {
        let mut history = History::new(Span::ms(100), 1);
        let at = |ms| Time(0) + Span::ms(ms);
        history.started(1, at(0), Epoch(1_000));
        history.stopped(1, at(10), false);
        history.started(1, at(20), Epoch(9_000));
        history.stopped(1, at(30), false);
        history.started(1, at(40), Epoch(70_000));
        let restarted = |history: &History, since, now| {
            history.explains(Status::PeerRestarted, 0, 1, (at(since), at(now)))
        };
        assert!(restarted(&history, 5, 50));
        let knows = |epoch| Epochs { own: Epoch(5), known: Epoch(epoch) };
        history.reset((0, 1), at(50), true, knows(9_000));
        assert!(restarted(&history, 51, 60), "the second was over when it was met");
        history.reset((0, 1), at(60), true, knows(70_000));
        assert!(!restarted(&history, 61, 90), "the third goes on");
    }

    #[test]
    fn what_was_noticed_explains_nothing_more() {
        let mut history = History::new(Span::ms(100), 1);
        let at = |ms| Time(0) + Span::ms(ms);
        history.cut(0, 0, 1, at(0), at(500));
        assert!(history.explains(Status::Unreachable, 0, 1, (at(10), at(300))));
        // It is given up, and given up again while it is still cut off.
        history.reset((0, 1), at(300), false, epochs(1, None));
        assert!(history.explains(Status::Unreachable, 0, 1, (at(310), at(490))));
        history.reset((0, 1), at(510), false, epochs(2, None));
        assert!(!history.explains(Status::Unreachable, 0, 1, (at(520), at(900))));
        // The other end notices by what this one did.
        assert!(history.explains(Status::GivenUp, 1, 0, (at(600), at(610))));
        history.reset((1, 0), at(610), true, epochs(0, Some(2)));
        assert!(!history.explains(Status::GivenUp, 1, 0, (at(620), at(700))));
        // A node that starts knows nothing of what was before.
        history.stopped(0, at(1_000), true);
        history.started(0, at(1_100), Epoch(7));
        assert!(history.explains(Status::PeerClosed, 1, 0, (at(990), at(1_200))));
        history.started(1, at(1_300), Epoch(8));
        assert!(!history.explains(Status::PeerClosed, 1, 0, (at(1_310), at(1_400))));
    }

    #[test]
    fn what_was_done_while_news_was_on_its_way_is_news_later() {
        let mut history = History::new(Span::ms(100), 1);
        let at = |ms| Time(0) + Span::ms(ms);
        history.cut(0, 0, 1, at(0), at(500));
        history.reset((0, 1), at(300), false, epochs(1, None));
        history.reset((0, 1), at(505), false, epochs(2, None));
        // The other end hears at 510 of what was done at 300.
        assert!(history.explains(Status::GivenUp, 1, 0, (at(400), at(510))));
        history.reset((1, 0), at(510), true, epochs(0, Some(1)));
        assert!(history.explains(Status::GivenUp, 1, 0, (at(512), at(515))));
        history.reset((1, 0), at(515), true, epochs(0, Some(2)));
        assert!(!history.explains(Status::GivenUp, 1, 0, (at(516), at(520))));
    }

    #[test]
    fn a_shorter_path_is_explained_by_an_interface_or_by_a_damaged_relays_head() {
        let limited = NodeEvent::Limited {
            node: emp_wire::NodeId(1),
            link: emp_firmware::LinkIndex(0),
            frame_bytes_max: 600,
        };
        // A line of three cables between four nodes.
        let cabled = |hops: usize| {
            let mut reach = Reach::new(4);
            for cable in 0..3 {
                for (node, link) in [(cable, 1), (cable + 1, 0)] {
                    reach.leads(Jack { node, link }, Some(cable), Time(0));
                }
            }
            reach.set_relays(vec![true; 4], hops);
            History { reach: Some(reach), ..History::new(Span::ms(100), 1) }
        };
        let between = |history: &History, pair: (usize, usize)| {
            history.explains_event(&limited, pair.0, pair.1, Time(100))
        };
        let mut history = cabled(8);
        assert!(!between(&history, (0, 2)));
        history.set_damaged(vec![1]);
        assert!(between(&history, (0, 2)) && between(&history, (1, 3)));
        assert!(!between(&history, (0, 1)), "they have no relay between them");
        assert!(!between(&history, (1, 2)), "without relays a checksum covers what is said");
        history.set_damaged(vec![2]);
        assert!(!between(&history, (0, 2)), "not on their way");
        let mut history = cabled(8);
        history.limited(2, Time(50));
        assert!(between(&history, (0, 1)), "a relay's interface");
        let mut history = cabled(1);
        history.set_damaged(vec![0, 1, 2]);
        assert!(!between(&history, (0, 2)), "nobody relays");
    }

    #[test]
    fn an_endpoint_is_closed_until_it_is_opened() {
        let mut history = History::new(Span::ms(100), 1);
        history.endpoint_closed(1, 2);
        assert!(history.was_closed_since(1, 2, Time(1_000)));
        history.endpoint_opened(1, 2, Time(80));
        assert!(
            history.was_closed_since(1, 2, Time(80)) && history.was_closed_since(1, 2, Time(0))
        );
        assert!(
            !history.was_closed_since(1, 2, Time(81)) && !history.was_closed_since(1, 3, Time(0))
        );
    }

    #[test]
    fn a_cut_on_one_of_two_fabrics_explains_nothing() {
        let mut history = History::new(Span::ms(100), 2);
        let end = Time(0) + Span::ms(1_000);
        history.cut(0, 0, 1, Time(0), end);
        assert!(!history.explains(Status::Unreachable, 0, 1, (Time(0), end)));
        history.cut(1, 0, 1, Time(0) + Span::ms(980), end);
        assert!(
            !history.explains(Status::Unreachable, 0, 1, (Time(0), end)),
            "together only briefly"
        );
        history.cut(1, 0, 1, Time(0) + Span::ms(500), end);
        assert!(history.explains(Status::Unreachable, 0, 1, (Time(0), end)));
    }
}
