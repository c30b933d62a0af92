//! What hosts tell of silent peers (`RESEND-9`): a process that was killed says nothing, but its host's kernel refuses datagrams for a socket
//! that is no more, and a listening socket in shared memory refuses connections.
//!
//! A process that is stopped, or a host that cannot be reached, refuses nothing: such peers are waited for. A firewall may refuse what a
//! process would take, so a host is believed at once only if datagrams for some node of it were not refused while that node was heard; else
//! only once it has refused for as long as peers were waited for before anybody asked hosts.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use emp_firmware::{Firmware, LinkIndex, Profile, Span, Time};
use emp_link::Link;
use emp_wire::{LinkAddress, NodeId};

use crate::told::directory::Directory;

/// Between two questions to one host. Its kernel answers six datagrams at once, and from then on the first that comes after each second: frames that
/// are sent again to the same ports, some 60 a second, are not to come first each time.
const ASK_EVERY: Span = Span::ms(10);

/// The same once it has answered nothing for a while, here ten such seconds: it will not while this lasts.
const ASK_SELDOM: Span = Span::ms(1_000);
const ASKED_OFTEN: u32 = 1_000;

/// Hosts asked at a time, each by a socket of its own: others' turn comes when one of these has answered, or is not silent any more.
const QUESTIONS_MAX: usize = 4;

/// A refusal comes back within this, where it comes at all: what was not refused by then was taken.
const ANSWERS_WITHIN: Span = Span::ms(30);

/// How long nothing must be heard of a node after a host that is known to take datagrams has refused one for it: longer than it takes a live node
/// to open its socket anew, and to answer a greeting.
const REFUSES_FOR: Span = Span::ms(300);

/// Hosts known to take datagrams: a large cluster's.
const HOSTS_MAX: usize = 4_096;

/// A peer that is not said to be silent for so long is not asked after any more.
const TOLD_WITHIN: Span = Span::ms(2_500);

/// A question to the host of one peer.
struct Question {
    node: NodeId,
    to: SocketAddr,
    socket: UdpSocket,
    /// When it was asked first and last, and how often.
    first: Time,
    last: Time,
    asked: u32,
    /// When the peer was last said to be silent.
    told: Time,
    /// When it was refused first, and the last time.
    refused: Option<(Time, Time)>,
}

/// What is known of hosts, and what is being asked.
pub(crate) struct Evidence {
    /// Nodes whose places are remembered at most: as many as the firmware keeps peers.
    most: usize,
    /// Where nodes take datagrams, as far as somebody said.
    places: HashMap<NodeId, SocketAddr>,
    questions: Vec<Question>,
    /// Hosts that did not refuse datagrams for a live node.
    takes: HashSet<IpAddr>,
}

/// What came of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// Nothing yet.
    None,
    /// The peer is heard, or nobody waits for it any more.
    Over,
    Ended,
}

impl Question {
    fn ask(now: Time, node: NodeId, to: SocketAddr) -> std::io::Result<Self> {
        let own: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((own, 0))?;
        socket.set_nonblocking(true)?;
        // Connected, as only then the kernel tells it of refusals, and of none for others.
        socket.connect(to)?;
        let (asked, refused) = (0, None);
        let mut question =
            Self { node, to, socket, first: now, last: now, asked, told: now, refused };
        question.send(now);
        Ok(question)
    }

    /// One byte, which no node takes for a frame.
    fn send(&mut self, now: Time) {
        (self.last, self.asked) = (now, self.asked + 1);
        let sent = self.socket.send(&[0]);
        self.note(now, sent);
    }

    fn note<T>(&mut self, now: Time, result: std::io::Result<T>) {
        if result.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            let (first, _) = self.refused.unwrap_or((now, now));
            self.refused = Some((first, now));
        }
    }

    fn due(&self) -> Time {
        self.last + if self.asked > ASKED_OFTEN { ASK_SELDOM } else { ASK_EVERY }
    }

    /// Looks whether it was answered, and asks again if it is time to. Of the peer nothing was heard for so `long`.
    fn look(&mut self, now: Time, long: Option<Span>, takes: &mut HashSet<IpAddr>) -> Answer {
        let answer = self.socket.recv(&mut [0]);
        self.note(now, answer);
        let since = now.since(self.first);
        if long.is_none_or(|long| long < since) && since >= ANSWERS_WITHIN {
            let host = self.to.ip();
            if self.refused.is_some() {
                // For a live node: a firewall, or one that opens its socket anew.
                takes.remove(&host);
            } else if takes.len() < HOSTS_MAX {
                takes.insert(host);
            }
            return Answer::Over;
        }
        let sure = takes.contains(&self.to.ip());
        let needed = if sure { REFUSES_FOR } else { Profile::DEFAULT.unreachable_after };
        // Of a host that is sure once is enough, if no sign of life follows: its kernel answers once a second, and not only this one asks there.
        let ended =
            |(first, last): (Time, Time)| if sure { now } else { last }.since(first) >= needed;
        if self.refused.is_some_and(ended) {
            return Answer::Ended;
        }
        if now.since(self.told) > TOLD_WITHIN {
            return Answer::Over;
        }
        if now >= self.due() {
            self.send(now);
        }
        Answer::None
    }
}

impl Evidence {
    /// Of so many nodes at most.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, places: HashMap::new(), questions: Vec::new(), takes: HashSet::new() }
    }

    /// Where a node takes datagrams: its host can be asked there whether it is still there.
    pub(crate) fn note_place(&mut self, node: NodeId, at: SocketAddr) {
        let usable = !at.ip().is_unspecified() && !at.ip().is_multicast() && at.port() != 0;
        if usable && (self.places.len() < self.most || self.places.contains_key(&node)) {
            self.places.insert(node, at);
        }
    }

    /// When there is something to look at.
    pub(crate) fn due(&self) -> Time {
        self.questions.iter().map(Question::due).min().unwrap_or(Time::NEVER)
    }

    /// Asks after a peer, if it is known where and that is not done already, or too much is.
    fn ask(&mut self, now: Time, node: NodeId, place: Option<SocketAddr>) {
        if let Some(question) = self.questions.iter_mut().find(|question| question.node == node) {
            question.told = now;
            return;
        }
        let Some(to) = place else { return };
        // One a host at a time: its answers are few. Whoever has no turn is told of again while it is silent.
        let busy = self.questions.len() >= QUESTIONS_MAX
            || self.questions.iter().any(|question| question.to.ip() == to.ip());
        if !busy && let Ok(question) = Question::ask(now, node, to) {
            self.questions.push(question);
        }
    }
}

/// Who knows where nodes are.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) firmware: &'a Firmware,
    pub(crate) directory: &'a Directory,
}

impl Known<'_> {
    /// Where a node is, as frames to it go, or was when it was heard.
    fn places_of(self, node: NodeId) -> Vec<(LinkIndex, LinkAddress)> {
        let paths = self.firmware.paths(node);
        let mut places: Vec<_> = paths.iter().map(|path| (path.link, path.address)).collect();
        places.extend(self.directory.get(node).map(|peer| (peer.link, peer.address)));
        places
    }

    /// A node of this machine has ended, as its kernel tells.
    fn has_ended_here(self, node: NodeId, links: &[Box<dyn Link>]) -> bool {
        self.places_of(node).iter().any(|(link, address)| {
            links.get(usize::from(link.0)).is_some_and(|link| link.has_ended(address))
        })
    }
}

impl Evidence {
    /// Where a node takes datagrams.
    fn datagrams_for(&self, node: NodeId, known: Known<'_>) -> Option<SocketAddr> {
        let as_udp =
            |places: &[(LinkIndex, LinkAddress)]| places.iter().find_map(|(_, at)| at.as_udp());
        let told = self.places.get(&node).copied();
        told.or_else(|| as_udp(&known.places_of(node)))
            .or_else(|| as_udp(known.directory.hints(node)))
    }

    /// A node was found: its host is asked once, while it lives, so that what it answers later says something. True if it is.
    pub(crate) fn meet(&mut self, now: Time, node: NodeId, known: Known<'_>) -> bool {
        let place = self.datagrams_for(node, known);
        let asks = place.is_some_and(|place| !self.takes.contains(&place.ip()));
        if asks {
            self.ask(now, node, place);
        }
        asks
    }

    /// Asks the hosts of silent peers, and has those given up whose processes have ended.
    #[cold]
    pub(crate) fn look(
        &mut self,
        now: Time,
        firmware: &mut Firmware,
        links: &[Box<dyn Link>],
        directory: &Directory,
    ) {
        let mut ended = Vec::new();
        while let Some(node) = firmware.poll_silent() {
            let known = Known { firmware, directory };
            if known.has_ended_here(node, links) {
                ended.push(node);
            } else {
                let place = self.datagrams_for(node, known);
                self.ask(now, node, place);
            }
        }
        let Self { questions, takes, .. } = self;
        questions.retain_mut(|question| {
            let answer = question.look(now, firmware.silence(now, question.node), takes);
            if answer == Answer::Ended {
                ended.push(question.node);
            }
            answer == Answer::None
        });
        for node in ended {
            firmware.peer_ended(now, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 10 ms of a time that the test makes up, with the kernel's answers. When the question was answered, in milliseconds.
    fn answered(
        question: &mut Question,
        takes: &mut HashSet<IpAddr>,
        heard: bool,
    ) -> (Answer, u64) {
        for ms in (10..30_000).step_by(10) {
            let now = Time(1_000_000_000) + Span::ms(ms);
            // It is said to be silent all the time.
            question.told = now;
            let long = if heard { Span(0) } else { Span::ms(60_000) };
            let answer = question.look(now, Some(long), takes);
            if answer != Answer::None {
                return (answer, ms);
            }
        }
        (Answer::None, 30_000)
    }

    fn question_to(to: SocketAddr) -> Question {
        Question::ask(Time(1_000_000_000), NodeId(7), to).expect("a socket")
    }

    fn taken() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let at = socket.local_addr().expect("an address");
        (socket, at)
    }

    #[test]
    fn a_socket_that_is_no_more_is_told_of_soon_by_a_host_that_is_known() {
        let mut takes = HashSet::new();
        let (socket, at) = taken();
        assert_eq!(answered(&mut question_to(at), &mut takes, true).0, Answer::Over);
        assert!(takes.contains(&at.ip()), "it lives, and nothing was refused");
        drop(socket);
        let (answer, ms) = answered(&mut question_to(at), &mut takes, false);
        assert_eq!(answer, Answer::Ended);
        assert!((300..1_000).contains(&ms), "{ms} ms");
    }

    /// A process that is stopped has its socket: it is waited for.
    #[test]
    fn a_socket_that_nobody_reads_refuses_nothing() {
        let mut takes = HashSet::new();
        let (_socket, at) = taken();
        takes.insert(at.ip());
        assert_eq!(answered(&mut question_to(at), &mut takes, false).0, Answer::None);
    }

    /// A firewall may refuse datagrams for nodes that live: such a host is not believed soon.
    #[test]
    fn a_host_that_refuses_what_lives_is_not_believed() {
        let mut takes = HashSet::new();
        let (socket, at) = taken();
        drop(socket);
        takes.insert(at.ip());
        let mut question = question_to(at);
        assert_eq!(answered(&mut question, &mut takes, true).0, Answer::Over);
        assert!(takes.is_empty());
        let (answer, ms) = answered(&mut question_to(at), &mut takes, false);
        assert_eq!(answer, Answer::Ended);
        assert!(ms >= 10_000, "{ms} ms");
    }

    #[test]
    fn no_more_places_are_remembered_than_the_engine_knows_nodes() {
        let mut evidence = Evidence::new(2);
        for number in 0..5 {
            evidence.note_place(NodeId(number), SocketAddr::new([10, 0, 0, 1].into(), 1));
        }
        let later = SocketAddr::new([10, 0, 0, 2].into(), 1);
        evidence.note_place(NodeId(0), later);
        assert_eq!(evidence.places.len(), 2);
        assert_eq!(evidence.places.get(&NodeId(0)), Some(&later), "who is known may move");
    }

    #[test]
    fn a_question_ends_when_nobody_waits() {
        let (_socket, at) = taken();
        let mut question = question_to(at);
        let late = Time(1_000_000_000) + TOLD_WITHIN + Span::ms(1);
        let silent = Some(Span::ms(60_000));
        assert_eq!(question.look(late, silent, &mut HashSet::new()), Answer::Over);
    }
}
