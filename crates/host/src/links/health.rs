//! How the links' interfaces are: their MTU may be lowered and their cables pulled while the node runs.
//!
//! Looked at now and then: a frame that is too long for the interface is an error of one call, or vanishes at the other end. What links learn
//! of their interfaces from the kernel, and do of it, they do when they are asked how those are.

use emp_firmware::{Firmware, LinkIndex, Span, Time};
use emp_link::{Condition, Link};
use emp_wire::LinkAddress;

use crate::links::set::has_long_frames;
use crate::machine::clock::seconds;
use crate::told::journal::{Journal, Level};

/// Least time between two looks: a look is two system calls a link, half a microsecond, and with this no frame has been resent
/// often enough by then for a peer to be given up.
const LOOK_EVERY: Span = Span::ms(10);

/// Times that peers which did not answer are told again: each time a question may be lost.
const REPEATS: u32 = 5;

/// The same of this node's address on a link, which a peer believes when nothing came from the old one for 50 ms (`PATH-8`).
const ADDRESS_REPEATS: u32 = 12;

/// How long an outage that is over is told of with errors: longer than a peer takes to notice it, and to be heard of again.
const OUTAGE_RECENT: Span = Span::ms(60_000);

/// How long whoever waits for a peer waits for a service to be back that carried all frames to it: what a restart takes, and with what it takes to
/// notice less than a second. Then operations end; a cable gets longer, as people plug it in.
const SERVICE_PATIENCE: Span = Span::ms(700);

/// How often operations that were posted without a service are ended.
const UNSERVED_EVERY: Span = Span::ms(100);

/// A time in which nothing could cross a link.
struct Outage {
    interface: String,
    from: Time,
    /// Since when that is for want of the service that carried its frames.
    unserved: Option<Time>,
    /// `None`: it lasts.
    until: Option<Time>,
}

/// Watches the links' interfaces.
#[derive(Default)]
pub(crate) struct Health {
    look_at: Time,
    /// By link, how many looks more repeat to the peers what has changed of it.
    repeats: Vec<u32>,
    /// By link, where the node is there.
    addresses: Vec<LinkAddress>,
    /// The last outage of each link, by its index.
    outages: Vec<Option<Outage>>,
}

impl Health {
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.look_at
    }

    /// When the links are to be looked at even if nothing else is to be done: peers are told again of what has changed, or operations end for want of
    /// a service.
    pub(crate) fn next_look(&self) -> Option<Time> {
        let repeats = self.repeats.iter().any(|repeats| *repeats > 0).then_some(self.look_at);
        let ends = (0..self.outages.len()).filter_map(|index| self.cut_off_at(index));
        let ends = ends.min().map(|at| at.max(self.look_at + UNSERVED_EVERY));
        repeats.into_iter().chain(ends).min()
    }

    /// From when on nobody waits any more for what comes by a link alone.
    fn cut_off_at(&self, index: usize) -> Option<Time> {
        let outage = self.outages.get(index)?.as_ref().filter(|outage| outage.until.is_none())?;
        outage.unserved.map(|since| since + SERVICE_PATIENCE)
    }

    fn is_cut_off(&self, now: Time, index: usize) -> bool {
        self.cut_off_at(index).is_some_and(|at| now >= at)
    }

    /// Notes where the node is on a link now. True if that is elsewhere than before.
    fn moves(&mut self, index: usize, address: LinkAddress) -> bool {
        match self.addresses.get_mut(index) {
            Some(known) => std::mem::replace(known, address) != address,
            None => {
                self.addresses.push(address);
                false
            }
        }
    }

    /// Notes how a link is now. What to say if that is news.
    fn note(&mut self, now: Time, index: usize, condition: &Condition<'_>) -> Option<String> {
        let Condition { interface, trouble, .. } = *condition;
        if self.outages.len() <= index {
            self.outages.resize_with(index + 1, || None);
        }
        let unserved = condition.is_unserved();
        let last = self.outages[index].as_mut().filter(|outage| outage.until.is_none());
        let line = match (last, trouble) {
            (Some(outage), Some(_)) => {
                outage.unserved = outage.unserved.or(Some(now)).filter(|_| unserved);
                return None;
            }
            (Some(outage), None) => {
                outage.until = Some(now);
                let took = seconds(now.since(outage.from));
                format!("interface {interface} is up again and has a carrier, after {took}")
            }
            (None, Some(what)) => {
                let interface = interface.to_owned();
                let since = unserved.then_some(now);
                let line = if unserved {
                    let patience = seconds(SERVICE_PATIENCE);
                    format!("interface {interface} {what}: it gets {patience} to be back")
                } else {
                    format!("interface {interface} {what}: peers get time until it is back")
                };
                let outage = Outage { interface, from: now, unserved: since, until: None };
                self.outages[index] = Some(outage);
                line
            }
            (None, None) => return None,
        };
        Some(line)
    }
}

impl Health {
    /// Looks at the links' interfaces: the firmware learns if one takes only shorter frames than before, or longer ones again. True if operations may
    /// have ended for want of a service.
    #[cold]
    pub(crate) fn look(
        &mut self,
        now: Time,
        firmware: &mut Firmware,
        links: &mut [Box<dyn Link>],
        journal: &mut Journal,
    ) -> bool {
        self.look_at = now + LOOK_EVERY;
        self.repeats.resize(links.len(), 0);
        let mut news = News::default();
        for (index, link) in links.iter_mut().enumerate() {
            let at = LinkIndex(index as u8);
            look_at_link(&mut **link, index, self, journal);
            if self.repeats[index] > 0 {
                self.repeats[index] -= 1;
                firmware.announce(now, at);
            }
            let long = has_long_frames(link.capabilities());
            firmware.set_long_frames(at, long);
            let segments = link.capabilities().segmentation;
            if firmware.set_segments(at, segments) {
                journal.say_often(Level::Warn, segments_line(segments));
            }
            if let Some(condition) = link.condition() {
                self.note_condition(now, at, firmware, condition, &mut news);
            }
        }
        news.tell(journal);
        let cut_off = (0..links.len()).any(|index| self.is_cut_off(now, index));
        if cut_off {
            firmware.give_up_cut_off(now, |link| self.is_cut_off(now, usize::from(link.0)));
        }
        cut_off
    }

    /// The firmware learns how a link's interface is; lines of it for the log are added to `news`.
    fn note_condition<'a>(
        &mut self,
        now: Time,
        at: LinkIndex,
        firmware: &mut Firmware,
        condition: Condition<'a>,
        news: &mut News<'a>,
    ) {
        let index = usize::from(at.0);
        if let Some(line) = self.note(now, index, &condition) {
            if !news.changed.contains(&line) {
                news.changed.push(line);
            }
            self.repeats[index] = REPEATS;
        }
        firmware.set_carrier(now, at, condition.trouble.is_none());
        // An interface that is down may have any MTU when it is up again.
        if condition.trouble.is_some() {
            return;
        }
        let (fits, before) = (condition.frame_bytes_max, firmware.takes_bytes_max(at));
        if firmware.limit_frame_bytes(now, at, fits) {
            self.repeats[index] = REPEATS;
            news.lowered.retain(|(other, ..)| other.interface != condition.interface);
            news.lowered.push((condition, before, firmware.takes_bytes_max(at)));
        } else if firmware.raise_frame_bytes(now, at, fits) {
            self.repeats[index] = REPEATS;
            news.raised.retain(|(other, _)| *other != condition.interface);
            news.raised.push((condition.interface, firmware.takes_bytes_max(at)));
        }
    }

    /// Why nothing may cross some link, or could not lately, for the error of an operation: "interface emp0 is down", "interface emp0
    /// had no carrier for 4.9 s, until 0.3 s ago".
    pub(crate) fn troubles(&self, now: Time, links: &mut [Box<dyn Link>]) -> String {
        let mut troubles = Vec::new();
        for (index, link) in links.iter_mut().enumerate() {
            if let Some(trouble) = link.condition().and_then(|condition| condition.trouble()) {
                troubles.push(trouble);
            } else if let Some(trouble) = self.lately(now, index) {
                troubles.push(trouble);
            }
        }
        // Two links may have one interface.
        let mut told = Vec::new();
        troubles.retain(|trouble| {
            !told.contains(trouble) && {
                told.push(trouble.clone());
                true
            }
        });
        troubles.join(", ")
    }
}

/// What one look at all links found, to be said aloud. Two links of one interface are one change.
#[derive(Default)]
struct News<'a> {
    /// Interfaces that are down, or up again.
    changed: Vec<String>,
    /// Where frames are shorter than before, with the bytes that a frame had at most and has.
    lowered: Vec<(Condition<'a>, usize, usize)>,
    /// Where they may be longer again.
    raised: Vec<(&'a str, usize)>,
}

impl News<'_> {
    fn tell(&self, journal: &mut Journal) {
        for line in &self.changed {
            journal.say_often(Level::Warn, line);
        }
        for (condition, before, takes) in &self.lowered {
            journal.say_often(Level::Warn, &shorter(condition, *before, *takes));
        }
        for (interface, most) in &self.raised {
            let line = format!("frames of up to {most} bytes fit {interface} again");
            journal.say_often(Level::Warn, &line);
        }
    }
}

/// That the kernel segments what a link sends again, or does not any more.
const fn segments_line(segments: bool) -> &'static str {
    if segments {
        "trains of frames take udp again, whose sends the kernel segments again"
    } else {
        "trains of frames take no udp any more: the kernel does not segment what it sends, as on cards that compute no checksums"
    }
}

/// Has a link look at its interface, and says what it did of what it found. Peers are told if the node is elsewhere by it now.
fn look_at_link(link: &mut dyn Link, index: usize, health: &mut Health, journal: &mut Journal) {
    link.condition();
    if let Some(notice) = link.notice() {
        journal.say_often(Level::Warn, &notice);
    }
    if health.moves(index, link.capabilities().address) {
        health.repeats[index] = ADDRESS_REPEATS;
    }
}

/// That frames are shorter from now on. An MTU and a frame do not count the same bytes: where they differ, it is said by how many.
fn shorter(condition: &Condition, before: usize, now: usize) -> String {
    let Condition { interface, mtu, frame_bytes_max, .. } = condition;
    let counted = match mtu.saturating_sub(*frame_bytes_max) {
        0 => String::new(),
        more => format!(" (and {more} bytes of IP and UDP headers, which the MTU counts too)"),
    };
    format!(
        "the MTU of {interface} is {mtu} now: frames have at most {now} bytes{counted} from now on, {before} before; those cut \
         before leave in slices"
    )
}

impl Health {
    /// The last outage of a link, if it ended not long ago.
    fn lately(&self, now: Time, index: usize) -> Option<String> {
        let Outage { interface, from, until, .. } = self.outages.get(index)?.as_ref()?;
        let until = until.unwrap_or(now);
        let ago = now.since(until);
        let (took, ago_text) = (seconds(until.since(*from)), seconds(ago));
        let told = ago <= OUTAGE_RECENT;
        told.then(|| {
            format!(
                "interface {interface} was down or had no carrier for {took}, until {ago_text} ago"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interface at an MTU of 1500, its largest frame of a link of so many bytes.
    fn at_1500(frame_bytes_max: usize) -> Condition<'static> {
        Condition { interface: "eth0", mtu: 1500, frame_bytes_max, trouble: None }
    }

    #[test]
    fn what_an_mtu_counts_and_a_frame_does_not_is_said() {
        let text = shorter(&at_1500(1472), 8972, 1472);
        assert!(
            text.starts_with(
                "the MTU of eth0 is 1500 now: frames have at most 1472 bytes (and 28 bytes of IP and UDP headers, which the MTU \
                 counts too) from now on, 8972 before"
            ),
            "{text}"
        );
        let raw = shorter(&at_1500(1500), 9000, 1500);
        assert!(raw.contains("at most 1500 bytes from now on, 9000 before"), "{raw}");
    }
}
