//! The ways out of this machine: which interface by which kind of link, best first.

use std::net::IpAddr;

use emp_host::limits::INTERFACES_MAX;
use emp_host::{Want, ranked_interfaces};
use emp_link::service::socket_path;
use emp_link::{Class, Interface, Ranked};

use crate::log;
use crate::settings::Settings;

/// The kind of link that frames to other machines take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Raw Ethernet frames.
    Packet,
    /// Datagrams.
    Udp,
    /// None: memory shared by the processes of this machine.
    Shm,
}

impl Kind {
    /// As users know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Udp => "udp",
            Self::Shm => "shm",
        }
    }
}

/// A way out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way {
    /// How frames leave.
    pub kind: Kind,
    /// By which interface.
    pub interface: Interface,
    /// Others that a node uses together with it.
    pub together: Vec<Interface>,
    /// It is all of its kind that there are, as one: a node on it uses those that appear later too.
    pub all: bool,
}

impl Way {
    /// One interface alone.
    pub fn of(kind: Kind, interface: Interface) -> Self {
        Self { kind, interface, together: Vec::new(), all: false }
    }

    /// Its name for people: the interface, and by what if not by raw frames.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Packet => self.interface.name.clone(),
            Kind::Udp => format!("{}-udp", self.interface.name),
            Kind::Shm => "shm".into(),
        }
    }

    /// The other interfaces, each as a way of its own.
    pub(crate) fn each_together(&self) -> impl Iterator<Item = Self> + '_ {
        self.together.iter().map(|interface| Self::of(self.kind, interface.clone()))
    }

    /// The address that datagrams are taken at: an IPv4 one rather than IPv6, none that is valid on one link only.
    pub fn ip(&self) -> Option<IpAddr> {
        self.interface.ip()
    }
}

/// All ways that the user's wishes allow. Empty: there is none.
pub fn ways(settings: &Settings) -> Vec<Way> {
    match ranked_interfaces() {
        Ok(all) => {
            // The service's are as good.
            let packet = may_have_packet(settings.link);
            if !packet && matches!(settings.link, Want::Auto | Want::Packet) {
                log::inform(
                    "no raw frames (packet): CAP_NET_RAW is missing; datagrams (udp) if allowed",
                );
            }
            let there: Vec<String> = all
                .iter()
                .map(|one| &one.interface)
                .filter(|one| one.up)
                .map(|one| one.name.clone())
                .collect();
            let aside: Vec<String> = aside(&all).map(ToString::to_string).collect();
            if let Some(problem) = missing(&all, settings) {
                log::error(&problem);
                return Vec::new();
            }
            let chosen = choose(all, settings, packet);
            if settings.interfaces.is_empty() && !aside.is_empty() {
                log::inform(&format!(
                    "passed over, unless EMP_INTERFACE names them: {}",
                    aside.join(", ")
                ));
            }
            say_unused(settings, &chosen, &there);
            chosen
        }
        Err(error) => {
            log::warn(&format!("the network interfaces cannot be listed: {error}"));
            Vec::new()
        }
    }
}

/// What is wrong with the names that the user has set: there is no such interface. Of those that are offered one by one some may be other machines'.
fn missing(all: &[Ranked], settings: &Settings) -> Option<String> {
    if settings.interfaces_variable.is_empty() {
        return None;
    }
    let is_there = |name: &String| all.iter().any(|one| one.interface.name == *name);
    let mut missing = settings.interfaces.iter().filter(|name| !is_there(name));
    let first = missing.next()?;
    if settings.apart && missing.count() + 1 < settings.interfaces.len() {
        log::warn(&format!("{}: there is no interface {first}", named(settings)));
        return None;
    }
    let there: Vec<&str> = all.iter().map(|one| one.interface.name.as_str()).collect();
    let there = there.join(", ");
    Some(format!("{}: there is no interface {first}; there are {there}", named(settings)))
}

/// The setting by which the user has named interfaces, or what a program has named.
fn named(settings: &Settings) -> String {
    let names = settings.interfaces.join(",");
    match settings.interfaces_variable.as_str() {
        "" => format!("interfaces {names}"),
        variable => format!("{variable}={names}"),
    }
}

/// Who names interfaces wants to know why none of them is taken, or one of those that are wanted together is not.
fn say_unused(settings: &Settings, chosen: &[Way], up: &[String]) {
    if settings.interfaces.is_empty() {
        return;
    }
    let (named, up) = (named(settings), up.join(", "));
    let Some(first) = chosen.first() else {
        let say = if settings.interfaces_variable.is_empty() { log::warn } else { log::error };
        say(&format!("{named}: none of them is up and can be used so; up are {up}"));
        return;
    };
    if settings.apart || first.kind == Kind::Shm {
        return;
    }
    let used = |name: &String| {
        let mut all = std::iter::once(&first.interface).chain(&first.together);
        all.any(|interface| interface.name == *name)
    };
    for name in settings.interfaces.iter().filter(|name| !used(name)) {
        let kind = first.kind.name();
        log::warn(&format!(
            "{named}: {name} is left out, as it is not up or has no {kind} as {} has; up are {up}",
            first.interface.name
        ));
    }
}

/// Raw frames may be had, as far as can be told without an interface.
fn may_have_packet(link: Want) -> bool {
    match link {
        Want::Empd | Want::Lent => true,
        Want::Auto | Want::Packet => may_open_packet_sockets() || socket_path().exists(),
        _ => may_open_packet_sockets(),
    }
}

/// The interfaces that a node of this kind on all of them would use if it started now, without a word.
pub(crate) fn interfaces_now(settings: &Settings, kind: Kind) -> Vec<Interface> {
    let all = ranked_interfaces().unwrap_or_default();
    let ways = choose(all, settings, may_have_packet(settings.link));
    let way = ways.into_iter().next().filter(|way| way.kind == kind && way.all);
    let all = way.map(|way| std::iter::once(way.interface).chain(way.together).collect());
    all.unwrap_or_default()
}

/// Those that are up and taken by name only.
fn aside(all: &[Ranked]) -> impl Iterator<Item = &Ranked> {
    all.iter().filter(|one| one.class == Class::Aside && one.interface.up)
}

/// Chooses. Not all that could be used is offered: Open MPI deals what it is offered out to its processes in turn, and boards are numbered, so each
/// way must lead to the same machines. Interfaces with an address come before those without, and of those only the best class is offered
/// ([`Class`]); likewise datagrams only where raw frames are not to be had. Interfaces that the user names are all offered.
fn choose(mut all: Vec<Ranked>, settings: &Settings, packet: bool) -> Vec<Way> {
    if settings.link == Want::Shm {
        // It needs no interface; but naming one that is not there is a mistake here as well.
        let named = &settings.interfaces;
        let sound = named.is_empty() || all.iter().any(|one| named.contains(&one.interface.name));
        // Stands for this machine in what libfabric says of cards.
        all.retain(|one| one.interface.loopback && sound);
        return all.into_iter().map(|one| Way::of(Kind::Shm, one.interface)).take(1).collect();
    }
    let packet = packet && settings.link != Want::Udp;
    let takes_packet = |interface: &Interface| packet && interface.usable_for_packet();
    let takes_udp = |interface: &Interface| {
        let up = interface.up && interface.running;
        let raw = matches!(settings.link, Want::Packet | Want::Xdp | Want::Lent | Want::Empd);
        !raw && up && interface.ip().is_some()
    };
    all.retain(|one| takes_packet(&one.interface) || takes_udp(&one.interface));
    if settings.interfaces.is_empty() {
        all.retain(|one| one.class != Class::Aside);
        let class =
            |one: &Ranked| (one.interface.loopback, one.interface.ip().is_none(), one.class);
        let best = all.iter().map(class).min();
        all.retain(|one| Some(class(one)) == best);
    } else {
        let named =
            |one: &Ranked| settings.interfaces.iter().position(|name| *name == one.interface.name);
        all.retain(|one| named(one).is_some());
        all.sort_by_key(named);
    }
    let way = |Ranked { interface, .. }: Ranked| {
        let kind = if takes_packet(&interface) { Kind::Packet } else { Kind::Udp };
        Way::of(kind, interface)
    };
    let ways = all.into_iter().map(way).collect();
    if settings.apart { ways } else { joined(ways) }
}

/// One way for all interfaces of the first one's kind, as many as a node uses together: a node reaches whatever is cabled to any of them, whichever
/// process of a job it is in (decision 81).
fn joined(ways: Vec<Way>) -> Vec<Way> {
    let mut ways = ways.into_iter();
    let Some(mut first) = ways.next() else { return Vec::new() };
    let same = ways.filter(|way| way.kind == first.kind);
    first.together = same.map(|way| way.interface).take(INTERFACES_MAX - 1).collect();
    first.all = true;
    vec![first]
}

/// True if this process has the privilege for raw frames. The kernel looks for that first, and then refuses a type of which packet
/// sockets have none: one that it opened would take a grace period to close, tens of milliseconds and, while many processes
/// start on few cores, seconds.
fn may_open_packet_sockets() -> bool {
    let opens = |kind: libc::c_int| {
        // SAFETY: opens a socket, if at all, that takes no frames (protocol 0), and closes it.
        unsafe {
            let socket = libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC, 0);
            if socket >= 0 { Ok(libc::close(socket)) } else { Err(std::io::Error::last_os_error()) }
        }
    };
    match opens(libc::SOCK_SEQPACKET).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::ESOCKTNOSUPPORT)) => true,
        Err(Some(libc::EPERM)) => false,
        // A security module that has an opinion of types of sockets.
        _ => opens(libc::SOCK_RAW).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use emp_host::Profile;
    use std::time::Duration;

    fn settings(link: Want, interfaces: &[&str]) -> Settings {
        let apart = !interfaces.is_empty();
        let interfaces = interfaces.iter().map(ToString::to_string).collect();
        let linger = Duration::ZERO;
        Settings {
            interfaces_variable: "EMP_INTERFACES".into(),
            link,
            board: emp_host::Board::Inline { guardian: true },
            interfaces,
            apart,
            peers: Vec::new(),
            name: None,
            profile: Profile::DEFAULT,
            collections: emp_host::Collections::default(),
            timeout_variable: String::new(),
            fault: None,
            linger,
            wait: emp_host::WaitMode::default(),
            udp_past_ip: true,
            capture: None,
        }
    }

    fn interface(name: &str, loopback: bool, address: Option<&str>) -> Interface {
        Interface {
            name: name.into(),
            index: 1,
            mtu: 1500,
            mac: Some([0; 6]),
            up: true,
            running: true,
            loopback,
            addresses: address.map(|ip| ip.parse().unwrap()).into_iter().collect(),
            prefixes: address.map(|_| 24).into_iter().collect(),
        }
    }

    fn ranked(interface: Interface, class: Class) -> Ranked {
        Ranked { interface, class, why: String::new() }
    }

    fn names(settings: &Settings, packet: bool) -> Vec<String> {
        let all = vec![
            ranked(interface("eth0", false, Some("10.0.1.1")), Class::Card),
            ranked(interface("eth1", false, Some("fe80::1")), Class::Card),
            ranked(interface("br0", false, Some("10.0.0.1")), Class::Joined),
            ranked(interface("lo", true, Some("127.0.0.1")), Class::Loopback),
            ranked(interface("docker0", false, Some("172.17.0.1")), Class::Aside),
        ];
        let ways = choose(all, settings, packet);
        ways.iter().map(Way::name).collect()
    }

    /// In a thread of its own, as capabilities are a thread's.
    #[test]
    fn the_privilege_is_what_opening_a_socket_needs() {
        let opens = || {
            // SAFETY: opens a socket that takes no frames (protocol 0), and closes it.
            unsafe {
                let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
                socket >= 0 && libc::close(socket) == 0
            }
        };
        assert_eq!(may_open_packet_sockets(), opens());
        let without = std::thread::spawn(move || {
            // Version 3 of the calls' header, this thread; no capability at all.
            let (header, none) = ([0x2008_0522_u32, 0], [0u32; 6]);
            // SAFETY: both are laid out as capset(2) says, and it only reads them.
            let dropped = unsafe { libc::syscall(libc::SYS_capset, &header, &none) };
            (dropped, may_open_packet_sockets(), opens())
        });
        assert_eq!(without.join().unwrap(), (0, false, false));
    }

    #[test]
    fn raw_frames_on_cards_come_first() {
        let auto = settings(Want::Auto, &[]);
        assert_eq!(names(&auto, true), ["eth0"]);
        assert_eq!(names(&auto, false), ["eth0-udp"]);
    }

    #[test]
    fn wishes_are_kept() {
        assert_eq!(names(&settings(Want::Packet, &[]), true), ["eth0"]);
        assert_eq!(names(&settings(Want::Xdp, &[]), true), ["eth0"]);
        assert_eq!(names(&settings(Want::Udp, &["br0"]), true), ["br0-udp"]);
        assert_eq!(names(&settings(Want::Auto, &["lo"]), true), ["lo-udp"]);
        let three = settings(Want::Auto, &["eth1", "br0", "eth0"]);
        assert_eq!(names(&three, true), ["eth1", "br0", "eth0"]);
        assert!(names(&settings(Want::Packet, &[]), false).is_empty());
        assert_eq!(names(&settings(Want::Shm, &["eth0"]), true), ["shm"]);
        assert!(names(&settings(Want::Shm, &["eth7"]), true).is_empty());
    }

    #[test]
    fn what_is_used_together_is_offered_as_one() {
        let all = ["eth0", "eth1", "eth2"]
            .map(|name| ranked(interface(name, false, Some("10.0.1.1")), Class::Card));
        let with = |settings: &Settings| {
            let ways = choose(all.to_vec(), settings, true);
            let names = |way: &Way| {
                let others = way.together.iter().map(|one| one.name.clone());
                std::iter::once(way.name()).chain(others).collect::<Vec<_>>().join("+")
            };
            ways.iter().map(names).collect::<Vec<_>>()
        };
        let apart = settings(Want::Auto, &["eth2", "eth0"]);
        assert_eq!(with(&apart), ["eth2", "eth0"]);
        assert_eq!(with(&Settings { apart: false, ..apart }), ["eth2+eth0"]);
        assert_eq!(with(&settings(Want::Auto, &[])), ["eth0+eth1+eth2"]);
    }

    #[test]
    fn a_name_of_no_interface_is_told_and_nothing_is_guessed() {
        let all = ["eth0", "eth1"]
            .map(|name| ranked(interface(name, false, Some("10.0.1.1")), Class::Card));
        let problem = |names: &[&str], apart| {
            missing(&all, &Settings { apart, ..settings(Want::Auto, names) })
        };
        let line = "EMP_INTERFACES=eth0,eth9: there is no interface eth9; there are eth0, eth1";
        assert_eq!(problem(&["eth0", "eth9"], false).as_deref(), Some(line));
        assert_eq!(problem(&["eth1", "eth0"], false), None);
        // One by one they may be for several machines, of which this one has some.
        assert_eq!(problem(&["eth9", "eth0"], true), None);
        assert!(problem(&["eth9", "eth8"], true).is_some());
        // What a program asks for by a name is its own business.
        let asked = Settings { interfaces_variable: String::new(), ..settings(Want::Auto, &["x"]) };
        assert_eq!(missing(&all, &asked), None);
    }

    #[test]
    fn a_machine_with_nothing_else_has_loopback() {
        let all = vec![
            ranked(interface("lo", true, Some("127.0.0.1")), Class::Loopback),
            ranked(interface("docker0", false, Some("172.17.0.1")), Class::Aside),
        ];
        assert_eq!(aside(&all).map(|one| &*one.interface.name).collect::<Vec<_>>(), ["docker0"]);
        let ways = |named: &[&str]| {
            let ways = choose(all.clone(), &settings(Want::Auto, named), true);
            ways.iter().map(Way::name).collect::<Vec<_>>()
        };
        assert_eq!(ways(&[]), ["lo-udp"]);
        assert_eq!(ways(&["docker0"]), ["docker0"]);
    }
}
