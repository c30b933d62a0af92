//! Interfaces that appear while a node runs: one that it would have used if it had been there at the start joins those that the node has, with a ring,
//! and with a socket where the node has such. One that goes away again stays the node's, which follows it (decisions 48, 91).

use std::os::fd::{AsRawFd, RawFd};

use emp_firmware::limits::{INTERFACES_MAX, LINKS_MAX};
use emp_firmware::{LinkInfo, Span, Time};
use emp_link::{Capabilities, Interface, InterfaceWatch, Link, LinkGroup, NamedInterface};
use emp_wire::NodeId;

use crate::links::apart::Apart;
use crate::links::choice::{Choice, name};
use crate::links::division::Division;
use crate::links::interfaces::LinkInterfaces;
use crate::links::ladder::{self, AutoLinks};
use crate::links::set::{self, is_ring};
use crate::links::want::Want;

/// From a change of interfaces to the first look at what there is, and then to each further one twice as long: an interface is made, switched on,
/// plugged in and given an address in steps, of which the last one is not told.
const LOOK_AFTER: Span = Span::ms(10);

/// Looks after a change: the last one 20 s after it, when an address by DHCP should be there.
const LOOKS: u32 = 11;

/// Links that an interface brings at most: a ring, a socket, and one by which a relay hears searches.
const LINKS_AN_INTERFACE: usize = 3;

/// Until it looks again if the thread that makes turns is in another network namespace: one of the node's own may come by.
const ELSEWHERE: Span = Span::ms(100);

/// What firmware is told of a node's links.
pub(crate) struct Description {
    /// Of each, whether frames to everyone are worth sending on it.
    pub(crate) asks_everyone: Vec<bool>,
    pub(crate) division: Option<Division>,
    /// Several links to one peer may be used.
    pub(crate) several: bool,
}

impl Description {
    pub(crate) fn of(&self, links: &[&dyn Link]) -> (Vec<LinkInfo>, LinkInterfaces) {
        let kinds: Vec<_> = links.iter().map(|link| link.capabilities().clone()).collect();
        let infos = links.iter().zip(&self.asks_everyone);
        let mut infos: Vec<_> = infos.map(|(link, asks)| set::info(*link, *asks)).collect();
        let over = LinkInterfaces::new(&kinds, &emp_link::interfaces().unwrap_or_default());
        set::apply_searches(&mut infos, &kinds);
        if let Some(division) = &self.division {
            division.apply(&mut infos, &kinds, &over);
        }
        if self.several && over.are_several() {
            over.apply(&mut infos);
        }
        (infos, over)
    }
}

/// What an interface brings to a node, as far as it is to be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brings {
    /// A ring for raw frames.
    pub ring: bool,
    /// A socket, where the interface has an address.
    pub socket: bool,
}

/// Links that were opened on an interface.
#[derive(Default)]
pub struct Opened {
    /// Each with whether frames to everyone are worth sending on it.
    pub links: Vec<(Box<dyn Link>, bool)>,
    /// Why others were not, for people.
    pub lines: Vec<String>,
}

/// Who knows which interfaces a running node would use if it started now, and opens links on them as they were opened at its start.
pub trait Newcomers: Send {
    /// What an interface may bring to a node with these links.
    fn brings(&self, links: &[Capabilities]) -> Brings;

    /// Interfaces that the node would use if it started now, likeliest first.
    fn qualifying(&self) -> Vec<Interface>;

    /// Opens what one of them brings, in the calling thread's network namespace. `others`: all that qualify.
    fn open(&self, interface: &Interface, others: &[Interface], brings: Brings) -> Opened;
}

/// Those of a node that chooses its links itself.
pub(crate) struct AutoNewcomers {
    pub(crate) auto: AutoLinks,
    pub(crate) node: NodeId,
    /// It hears searches on each ring's interface.
    pub(crate) relays: bool,
}

impl Newcomers for AutoNewcomers {
    fn brings(&self, links: &[Capabilities]) -> Brings {
        let any = |is: fn(&Capabilities) -> bool| links.iter().any(is);
        let ring = any(|link| link.kind == "packet" || link.kind == "empd");
        // Who names the address of the socket wants no other; one without names is on all addresses anyway.
        let socket = any(is_socket)
            && self.auto.udp_bind.is_none()
            && (ring || !self.auto.interfaces.is_empty());
        match self.auto.want {
            Want::Xdp | Want::Shm => Brings::default(),
            _ => Brings { ring, socket },
        }
    }

    fn qualifying(&self) -> Vec<Interface> {
        ladder::qualifying(&self.auto)
    }

    fn open(&self, interface: &Interface, others: &[Interface], brings: Brings) -> Opened {
        let mut choice = Choice::default();
        let mut chosen = ladder::join(
            (&self.auto, self.node),
            (interface, others),
            (brings.ring, brings.socket),
            &mut choice,
        );
        if self.relays {
            // What cannot be heard there is not repeated: that is no error.
            let heard = ladder::searches(&self.auto, &mut choice, &mut chosen);
            debug_assert!(heard.is_ok(), "nothing is required");
        }
        let lines = if chosen.is_empty() { choice.lines().collect() } else { Vec::new() };
        let links = chosen.into_iter().map(|one| (one.link, one.asks_everyone)).collect();
        Opened { links, lines }
    }
}

/// Looks for interfaces that a running node may use.
pub(crate) struct Joining {
    newcomers: Box<dyn Newcomers>,
    brings: Brings,
    description: Description,
    apart: Apart,
    /// Those that have a ring, which stays theirs when they are renamed.
    rings: Vec<NamedInterface>,
    watch: InterfaceWatch,
    /// Readable when something waits in a link that has joined.
    group: LinkGroup,
    look_at: Time,
    interval: Span,
    looks: u32,
    /// What was said, and is not said again.
    told: Vec<String>,
}

/// Links that have joined.
#[derive(Default)]
pub(crate) struct Joined {
    pub(crate) links: Vec<Box<dyn Link>>,
    /// For people, what those are called that the node had before: interfaces may have been renamed. `None`: nobody has looked.
    pub(crate) before: Option<Vec<String>>,
    /// Of all links of the node, these too.
    pub(crate) infos: Vec<LinkInfo>,
    /// For people.
    pub(crate) names: Vec<String>,
    pub(crate) lines: Vec<String>,
}

impl Joining {
    /// Of a node that has such links. `None`: nothing can join them.
    pub(crate) fn new(
        newcomers: Box<dyn Newcomers>,
        description: Description,
        links: &mut [Box<dyn Link>],
        apart: Apart,
    ) -> Option<Self> {
        let kinds: Vec<_> = links.iter().map(|link| link.capabilities().clone()).collect();
        let brings = newcomers.brings(&kinds);
        if !description.several || brings == Brings::default() {
            return None;
        }
        let rings = kinds.iter().filter(|link| is_ring(link));
        Some(Self {
            newcomers,
            brings,
            description,
            apart,
            rings: rings.map(|ring| NamedInterface::new(&ring.interface)).collect(),
            watch: InterfaceWatch::open(links).ok()?,
            group: LinkGroup::new().ok()?,
            look_at: Time::default(),
            interval: LOOK_AFTER,
            looks: 0,
            told: Vec::new(),
        })
    }

    /// A descriptor that is readable when a link that has joined is.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.group.descriptor().as_raw_fd()
    }

    /// When it looks next though no interface has changed.
    pub(crate) fn next_look(&self) -> Option<Time> {
        (self.looks > 0).then_some(self.look_at)
    }

    /// Looks for interfaces, if any may have appeared.
    pub(crate) fn look(&mut self, now: Time, links: &mut [Box<dyn Link>]) -> Joined {
        if self.watch.take(links) {
            (self.look_at, self.interval, self.looks) = (now + LOOK_AFTER, LOOK_AFTER, LOOKS);
        }
        if self.looks == 0 || now < self.look_at {
            return Joined::default();
        }
        if !self.watch.is_here() {
            self.look_at = now + ELSEWHERE;
            return Joined::default();
        }
        self.looks -= 1;
        self.interval = Span(self.interval.0 * 2);
        self.look_at = now + self.interval;
        self.join_all(links)
    }

    #[cold]
    fn join_all(&mut self, links: &mut [Box<dyn Link>]) -> Joined {
        let mut joined = Joined::default();
        // Links have the names that their interfaces have now.
        for link in &mut *links {
            link.condition();
        }
        joined.before = Some(links.iter().map(|link| name(link.capabilities())).collect());
        for ring in &mut self.rings {
            ring.follow();
        }
        let qualifying = self.newcomers.qualifying();
        for interface in &qualifying {
            let before = joined.links.len();
            self.join(interface, &qualifying, links, &mut joined);
            if joined.links.len() > before {
                let names = joined.names[before..].join(" and ");
                joined.lines.push(format!("{names} joined: an interface has appeared"));
            }
        }
        if !joined.links.is_empty() {
            let all: Vec<&dyn Link> = links.iter().chain(&joined.links).map(|l| &**l).collect();
            joined.infos = self.description.of(&all).0;
        }
        joined
    }

    /// What an interface still has to bring.
    fn join(
        &mut self,
        interface: &Interface,
        others: &[Interface],
        links: &[Box<dyn Link>],
        joined: &mut Joined,
    ) {
        let all = links.iter().chain(&joined.links);
        let kinds: Vec<_> = all.map(|link| link.capabilities().clone()).collect();
        let over = LinkInterfaces::new(&kinds, &emp_link::interfaces().unwrap_or_default());
        let has = |is: fn(&Capabilities) -> bool| {
            over.of_kind(&kinds, is).any(|name| name == interface.name)
        };
        let held = self.rings.iter().any(|ring| ring.is(interface.index));
        let ring = self.brings.ring && !held && !has(is_ring);
        let socket = self.brings.socket && !has(is_socket) && interface.ip().is_some();
        if !(ring || socket) || kinds.len() + LINKS_AN_INTERFACE > LINKS_MAX {
            return;
        }
        let new = !over.names().contains(&interface.name);
        if new && over.names().len() >= INTERFACES_MAX {
            let line = format!(
                "interface {} is not used: {INTERFACES_MAX} are used together at most",
                interface.name
            );
            return self.tell_once(line, joined);
        }
        let opened = self.newcomers.open(interface, others, Brings { ring, socket });
        opened.lines.into_iter().for_each(|line| self.tell_once(line, joined));
        for (link, asks_everyone) in opened.links {
            // What nobody could sleep on is of no use.
            if let Ok(link) = self.apart.of(link)
                && self.group.add(&*link).is_ok()
            {
                if is_ring(link.capabilities()) {
                    self.rings.push(NamedInterface::new(&interface.name));
                }
                self.description.asks_everyone.push(asks_everyone);
                joined.names.push(name(link.capabilities()));
                joined.links.push(link);
            }
        }
    }

    fn tell_once(&mut self, line: String, joined: &mut Joined) {
        if self.told.len() < LINKS_MAX && !self.told.contains(&line) {
            self.told.push(line.clone());
            joined.lines.push(line);
        }
    }
}

fn is_socket(link: &Capabilities) -> bool {
    link.kind == "udp"
}
