//! Who can reach whom in a world of cables, and since when not: what explains that a node was given up.

use emp_firmware::Time;

use crate::network::Jack;

/// A link led to a fabric for a while.
#[derive(Clone, Copy, Debug)]
struct Stay {
    fabric: usize,
    jack: Jack,
    start: Time,
    end: Time,
}

/// One direction between two nodes was cut on a fabric, or a node was away.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outage {
    /// A cut.
    Cut {
        /// On this fabric.
        fabric: usize,
        /// What the first of these nodes sends to the second is lost. They can't speak to each other by it, whichever that is.
        between: (usize, usize),
    },
    /// A node that may relay is away.
    Away(usize),
}

/// The record of a run's cables.
#[derive(Debug)]
pub(crate) struct Reach {
    stays: Vec<Stay>,
    /// Most hops from end to end; 1: neighbours only.
    hops: usize,
    /// Nodes that pass on what is for others.
    relays: Vec<bool>,
    /// Fabrics that damage frames.
    damaged: Vec<usize>,
}

impl Reach {
    /// Of a world in which neighbours talk.
    pub(crate) fn new(nodes: usize) -> Self {
        Self { stays: Vec::new(), hops: 1, relays: vec![false; nodes], damaged: Vec::new() }
    }

    /// From the beginning, these nodes relay, over so many hops from end to end.
    pub(crate) fn set_relays(&mut self, relays: Vec<bool>, hops: usize) {
        (self.relays, self.hops) = (relays, hops);
    }

    /// From the beginning, these fabrics damage frames.
    pub(crate) fn set_damaged(&mut self, fabrics: Vec<usize>) {
        self.damaged = fabrics;
    }

    /// Some nodes relay.
    pub(crate) const fn is_relayed(&self) -> bool {
        self.hops > 1
    }

    /// By `now` there was a way between two nodes that leads through relays, and over a fabric that damages frames.
    pub(crate) fn is_damaged_by_relays(&self, (a, b): (usize, usize), now: Time) -> bool {
        !self.damaged.is_empty() && self.leads_on(&mut vec![a], false, b, now)
    }

    /// The same, for a way that has come so far. No list of hops names a node twice.
    fn leads_on(&self, way: &mut Vec<usize>, damaged: bool, to: usize, now: Time) -> bool {
        let Some(at) = way.last().copied().filter(|_| way.len() <= self.hops) else { return false };
        let stays = || self.stays.iter().filter(|stay| stay.start <= now);
        for fabric in stays().filter(|stay| stay.jack.node == at).map(|stay| stay.fabric) {
            let damaged = damaged || self.damaged.contains(&fabric);
            for next in stays().filter(|stay| stay.fabric == fabric).map(|stay| stay.jack.node) {
                if next == to && damaged && way.len() > 1 {
                    return true;
                }
                if next == to || way.contains(&next) || !self.relays[next] {
                    continue;
                }
                way.push(next);
                if self.leads_on(way, damaged, to, now) {
                    return true;
                }
                way.pop();
            }
        }
        false
    }

    /// A link leads to this fabric from now on, or nowhere.
    pub(crate) fn leads(&mut self, jack: Jack, fabric: Option<usize>, now: Time) {
        let open = |stay: &&mut Stay| stay.jack == jack && stay.end == Time::NEVER;
        if let Some(stay) = self.stays.iter_mut().find(open) {
            if Some(stay.fabric) == fabric {
                return;
            }
            stay.end = now;
        }
        let stay = |fabric| Stay { fabric, jack, start: now, end: Time::NEVER };
        self.stays.extend(fabric.map(stay));
    }

    /// The times until `now` in which two nodes could not reach each other, in order, each as long as it was.
    pub(crate) fn apart(
        &self,
        (a, b): (usize, usize),
        outages: &[(Outage, Time, Time)],
        now: Time,
    ) -> Vec<(Time, Time)> {
        // Between neighbours only what is between them matters.
        let concerns = |what: &Outage| match what {
            Outage::Cut { between, .. } => *between == (a, b) || *between == (b, a),
            Outage::Away(_) => false,
        };
        let outages: Vec<_> =
            outages.iter().filter(|(what, ..)| self.hops > 1 || concerns(what)).copied().collect();
        let ours = |stay: &&Stay| self.hops > 1 || stay.jack.node == a || stay.jack.node == b;
        let stays = self.stays.iter().filter(ours).flat_map(|stay| [stay.start, stay.end]);
        let troubles = outages.iter().flat_map(|(_, start, end)| [*start, *end]);
        let mut times: Vec<Time> =
            stays.chain(troubles).filter(|at| *at < now).chain([Time(0), now]).collect();
        times.sort_unstable();
        times.dedup();
        let mut apart: Vec<(Time, Time)> = Vec::new();
        for (start, end) in times.iter().zip(times.iter().skip(1)) {
            if self.connected((a, b), &outages, *start) {
                continue;
            }
            match apart.last_mut() {
                Some(last) if last.1 == *start => last.1 = *end,
                _ => apart.push((*start, *end)),
            }
        }
        apart
    }

    /// Whether the first of two nodes finds a way to the other from this time on until something changes.
    ///
    /// An answer goes back the way that its copy of the search came, and a relay repeats the copy that comes first (`RELAY-7`). Where a cable
    /// leads one way, and no carrier says so, that may be one that has crossed it: ways beyond that relay are not found then.
    pub(crate) fn connected(
        &self,
        (a, b): (usize, usize),
        outages: &[(Outage, Time, Time)],
        at: Time,
    ) -> bool {
        let now = self.moment(outages, at);
        let mut hidden = Vec::new();
        if self.is_relayed() && now.has_cuts() {
            self.hide(&now, &mut vec![a], (false, b), &mut hidden);
        }
        // Breadth first: so few nodes and cables have trouble that nothing better is needed.
        let mut reached = vec![a];
        let mut edge = vec![a];
        for _ in 0..self.hops {
            let mut next = Vec::new();
            for from in edge.iter().filter(|from| **from == a || self.repeats(&now, **from)) {
                let both_ways = now.neighbours(*from).filter(|(_, back)| *back);
                for (to, _) in both_ways.filter(|(to, _)| *to == b || !hidden.contains(to)) {
                    if !reached.contains(&to) {
                        reached.push(to);
                        next.push(to);
                    }
                }
            }
            if reached.contains(&b) {
                return true;
            }
            edge = next;
        }
        false
    }

    /// Notes the relays that a search for `to` may come to by a way that begins so and does not lead back. No copy passes a node twice.
    fn hide(
        &self,
        now: &Moment<'_>,
        way: &mut Vec<usize>,
        (one_way, to): (bool, usize),
        hidden: &mut Vec<usize>,
    ) {
        let Some(at) = way.last().copied() else { return };
        let began = way.len() == 1;
        // The target repeats nothing.
        if way.len() > self.hops || at == to || !(began || self.repeats(now, at)) {
            return;
        }
        if one_way && !hidden.contains(&at) {
            hidden.push(at);
        }
        for (next, back) in now.neighbours(at) {
            if !way.contains(&next) {
                way.push(next);
                self.hide(now, way, (one_way || !back, to), hidden);
                way.pop();
            }
        }
    }

    /// A node passes on what is for others.
    fn repeats(&self, now: &Moment<'_>, node: usize) -> bool {
        self.relays[node] && !now.is_away(node)
    }

    fn moment(&self, outages: &[(Outage, Time, Time)], at: Time) -> Moment<'_> {
        let now = |(_, start, end): &&(Outage, Time, Time)| *start <= at && at < *end;
        let troubles = outages.iter().filter(now).map(|(what, ..)| *what).collect();
        let stays = self.stays.iter().filter(|stay| stay.start <= at && at < stay.end).collect();
        Moment { stays, troubles }
    }
}

/// Cables and troubles at one time.
struct Moment<'a> {
    stays: Vec<&'a Stay>,
    troubles: Vec<Outage>,
}

impl Moment<'_> {
    fn has_cuts(&self) -> bool {
        self.troubles.iter().any(|one| matches!(one, Outage::Cut { .. }))
    }

    fn is_away(&self, node: usize) -> bool {
        self.troubles.iter().any(|one| matches!(one, Outage::Away(other) if *other == node))
    }

    fn is_cut(&self, fabric: usize, from: usize, to: usize) -> bool {
        self.troubles.iter().any(|one| match one {
            Outage::Cut { fabric: on, between } => (*on, *between) == (fabric, (from, to)),
            Outage::Away(_) => false,
        })
    }

    /// Whom a node is heard by, once for each cable, and whether it hears them by that.
    fn neighbours(&self, node: usize) -> impl Iterator<Item = (usize, bool)> + '_ {
        let links = self.stays.iter().filter(move |stay| stay.jack.node == node);
        links.flat_map(move |link| {
            let fabric = link.fabric;
            let others = self.stays.iter().filter(move |stay| stay.fabric == fabric);
            let others = others.map(|stay| stay.jack.node).filter(move |other| *other != node);
            let heard = others.filter(move |other| !self.is_cut(fabric, node, *other));
            heard.map(move |other| (other, !self.is_cut(fabric, other, node)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jack(node: usize, link: usize) -> Jack {
        Jack { node, link }
    }

    /// Cables 0 between nodes 0 and 1, 1 between 1 and 2.
    fn line() -> Reach {
        let mut reach = Reach::new(3);
        for (fabric, ends) in [(0, [jack(0, 0), jack(1, 0)]), (1, [jack(1, 1), jack(2, 0)])] {
            ends.into_iter().for_each(|end| reach.leads(end, Some(fabric), Time(0)));
        }
        reach
    }

    #[test]
    fn neighbours_are_apart_while_their_cable_is_out_or_cut() {
        let mut reach = line();
        assert!(reach.apart((0, 1), &[], Time(100)).is_empty());
        reach.leads(jack(1, 0), None, Time(10));
        reach.leads(jack(1, 0), Some(0), Time(30));
        assert_eq!(reach.apart((0, 1), &[], Time(100)), [(Time(10), Time(30))]);
        let cut = (Outage::Cut { fabric: 0, between: (1, 0) }, Time(30), Time(40));
        assert_eq!(reach.apart((1, 0), &[cut], Time(100)), [(Time(10), Time(40))]);
        assert_eq!(reach.apart((1, 0), &[cut], Time(20)), [(Time(10), Time(20))]);
    }

    #[test]
    fn a_second_cable_keeps_neighbours_together() {
        let mut reach = line();
        reach.leads(jack(0, 1), Some(2), Time(0));
        reach.leads(jack(1, 2), Some(2), Time(0));
        reach.leads(jack(0, 0), None, Time(10));
        assert!(reach.apart((0, 1), &[], Time(100)).is_empty());
    }

    #[test]
    fn others_are_reached_by_relays_that_are_there_within_the_hops() {
        let mut reach = line();
        assert_eq!(reach.apart((0, 2), &[], Time(100)), [(Time(0), Time(100))]);
        reach.set_relays(vec![true; 3], 1);
        assert_eq!(reach.apart((0, 2), &[], Time(100)).len(), 1, "one hop is not enough");
        reach.set_relays(vec![true; 3], 8);
        assert!(reach.apart((0, 2), &[], Time(100)).is_empty());
        let away = (Outage::Away(1), Time(20), Time(50));
        assert_eq!(reach.apart((0, 2), &[away], Time(100)), [(Time(20), Time(50))]);
        reach.set_relays(vec![true, false, true], 8);
        assert_eq!(reach.apart((0, 2), &[], Time(100)).len(), 1, "nobody passes it on");
    }

    /// `RELAY-7`: of two copies of a search a relay repeats the first, and that may have come by a cable that brings nothing back.
    #[test]
    fn a_cable_that_leads_one_way_hides_ways_that_meet_it_at_a_relay() {
        // Nodes 0, 1 and 2 in a ring; behind node 2 is node 3. Cable 2 is between 0 and 2.
        let mut reach = line();
        for (node, link, fabric) in [(0, 1, 2), (2, 1, 2), (2, 2, 3), (3, 0, 3)] {
            reach.leads(jack(node, link), Some(fabric), Time(0));
        }
        reach.set_relays(vec![true; 4], 8);
        let cut = |fabric, between| (Outage::Cut { fabric, between }, Time(20), Time(50));
        let apart = |pair, outages: &[_]| !reach.apart(pair, outages, Time(100)).is_empty();
        let deaf = [cut(2, (2, 0))];
        assert!(
            apart((0, 3), &deaf),
            "node 2 hears node 0 first by the cable that brings nothing back"
        );
        assert!(!apart((0, 2), &deaf), "who is looked for answers both copies");
        assert!(!apart((0, 1), &deaf), "neighbours ask each other");
        assert!(!apart((3, 0), &deaf), "by that cable no search leaves node 2");
        let mute = [cut(2, (0, 2))];
        assert!(!apart((0, 3), &mute), "what node 0 says there nobody hears");
        assert!(!apart((0, 3), &[deaf[0], mute[0]]), "a cable that is out hides nothing");
    }

    #[test]
    fn only_ways_through_relays_have_heads_that_are_damaged() {
        let all = Time(100);
        let mut reach = line();
        // A third cable makes a ring of three, a fourth leads to a node behind it.
        for (node, link, fabric) in [(0, 1, 2), (2, 1, 2), (2, 2, 3), (3, 0, 3)] {
            reach.leads(jack(node, link), Some(fabric), Time(10));
        }
        reach.set_relays(vec![true; 4], 8);
        let by = |reach: &mut Reach, fabric: usize, pair: (usize, usize), now: Time| {
            reach.set_damaged(vec![fabric]);
            reach.is_damaged_by_relays(pair, now)
        };
        assert!(by(&mut reach, 1, (0, 1), all) && by(&mut reach, 2, (0, 1), all), "round the ring");
        assert!(!by(&mut reach, 0, (0, 1), all), "neighbours have no relay between them");
        assert!(!by(&mut reach, 3, (0, 1), all), "a cable that is on no way");
        assert!(by(&mut reach, 3, (0, 3), all) && by(&mut reach, 0, (0, 3), all));
        assert!(!by(&mut reach, 2, (0, 1), Time(9)), "not there yet");
        reach.set_relays(vec![true; 4], 2);
        assert!(!by(&mut reach, 0, (0, 3), all), "too many hops");
        reach.set_relays(vec![true, true, false, true], 8);
        assert!(!by(&mut reach, 1, (0, 1), all), "nobody passes it on");
    }
}
