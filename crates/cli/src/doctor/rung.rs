//! Which link `auto` will take on an interface, why, and how to get a better one.

use std::io;

use emp_host::limits::INTERFACES_MAX;
use emp_host::{PassedBy, PathCosts, RawFrames, RawSource, measure_paths};
use emp_link::{Class, PacketLink, PacketOptions, Ranked};
use emp_wire::NodeId;
use serde::{Deserialize, Serialize};

use super::interfaces::{Interface, Kind};
use super::{privilege, trials};
use crate::process::{self, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN};

/// Bytes of an IPv4 and a UDP header.
const IP_UDP_BYTES: usize = 28;

/// The ladder's answer for one interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rung {
    pub interface: String,
    /// `packet`, `lent`, `empd`, `udp` or `shm`; `None` where no frame can go.
    pub link: Option<&'static str>,
    pub reason: String,
    /// What to do for a better one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub better: Option<String>,
}

/// Tries the interface, which is of a class by what all that choose go by.
pub fn choose(interface: &Interface, ranked: &[Ranked]) -> Rung {
    let known = ranked.iter().find(|one| one.interface.name == interface.name);
    if let Some(aside) = known.filter(|one| one.class == Class::Aside) {
        return Rung {
            interface: interface.name.clone(),
            link: None,
            reason: format!("passed over: {}", aside.why),
            better: Some(format!("name it if it is meant: EMP_INTERFACES={}", interface.name)),
        };
    }
    let mut rung = try_it(interface);
    if let Some(known) = known.filter(|one| one.class != Class::Loopback) {
        let best = ranked.iter().find(|one| one.interface.up && one.interface.running);
        let place = if best.is_some_and(|best| best.class == known.class) {
            format!("offered to MPI first{}", together(known, ranked))
        } else {
            "not offered to MPI while there are better ones".into()
        };
        rung.reason = format!("{}; {}: {place}", rung.reason, known.why);
    }
    rung
}

/// Which others a node uses together with this one.
fn together(known: &Ranked, ranked: &[Ranked]) -> String {
    let alike = |one: &&Ranked| {
        let usable = one.interface.up && one.interface.running;
        let addressed = one.interface.ip().is_some() == known.interface.ip().is_some();
        usable
            && addressed
            && one.class == known.class
            && one.interface.name != known.interface.name
    };
    let others = ranked.iter().filter(alike).take(INTERFACES_MAX - 1);
    let names: Vec<_> = others.map(|one| one.interface.name.as_str()).collect();
    if names.is_empty() { String::new() } else { format!(", as one with {}", names.join(", ")) }
}

fn try_it(interface: &Interface) -> Rung {
    let mut rung = decide(interface, trials::packet_socket_on(interface.index));
    if rung.link == Some("udp") && interface.kind != Kind::Other {
        by_service(&mut rung);
    }
    if rung.link == Some("packet")
        && let Some(costs) = costs(interface)
    {
        rung.reason = format!("{}; two paths with udp: {costs}", rung.reason);
    }
    if rung.link == Some("packet") {
        rung.reason = format!("{}; {}", rung.reason, many_nodes(&interface.name));
    }
    rung
}

/// Where this process may open no packet socket, the service may have one for it.
fn by_service(rung: &mut Rung) {
    let frames = RawFrames::new(&rung.interface, NodeId(TRIAL_NODE));
    let mut why_not = String::new();
    let opened = frames.open(&[RawSource::Lent, RawSource::Served], |passed| {
        if let PassedBy::Failed(error) = passed {
            why_not = error.problem;
        }
    });
    match opened {
        Ok(link) if link.capabilities().kind == "packet" => {
            (rung.link, rung.better) = (Some("lent"), None);
            rung.reason = "empd lends a packet socket on it".into();
        }
        Ok(_) => {
            rung.link = Some("empd");
            rung.reason = format!("empd sends and receives on it; it lends no socket: {why_not}");
        }
        Err(error) => rung.reason = format!("{}; empd: {}", rung.reason, error.problem),
    }
}

/// A node that no other is likely to be, for a moment.
const TRIAL_NODE: u64 = 0xD0C7_0125_7E57_0001;

/// A link that programs of this user may have on an interface, or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Able {
    pub link: String,
    /// Nothing is in the way if this is not there.
    pub why_not: Option<String>,
}

/// Which links may be opened on an interface, each by trying, but for `xdp`, which would take the interface.
pub fn able(interface: &Interface) -> Vec<Able> {
    let ethernet = interface.kind != Kind::Other && interface.kind != Kind::Loopback;
    let raw =
        |tried: Result<(), String>| if ethernet { tried } else { Err("it carries IP only".into()) };
    let packet =
        trials::packet_socket_on(interface.index).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => "no CAP_NET_RAW".to_owned(),
            _ => error.to_string(),
        });
    let by = |way| {
        let opened = RawFrames::new(&interface.name, NodeId(TRIAL_NODE)).open(&[way], |_| {});
        opened.map(drop).map_err(|error| error.problem)
    };
    let needed = [CAP_NET_RAW, CAP_NET_ADMIN, CAP_SYS_ADMIN];
    let xdp = match needed.into_iter().all(process::has_capability) {
        true => Ok(()),
        false => Err("not root".to_owned()),
    };
    let addressed = interface.addresses.iter().any(|address| !address.is_unspecified());
    let udp = if addressed { Ok(()) } else { Err("no address".to_owned()) };
    let all = [
        ("packet", raw(packet)),
        ("lent", raw(by(RawSource::Lent))),
        ("empd", raw(by(RawSource::Served))),
        ("xdp", raw(xdp)),
        ("udp", udp),
    ];
    all.map(|(link, tried)| Able { link: link.to_owned(), why_not: tried.err() }).into()
}

/// What further nodes on the interface cost each frame, found out with two.
fn many_nodes(interface: &str) -> &'static str {
    /// For experiments on one machine (IEEE local experimental 2): not the one that nodes listen to.
    const ETHERTYPE: u16 = 0x88B6;
    let open = |tag| {
        let usual = PacketOptions::new(interface, tag);
        PacketLink::open(&PacketOptions { ethertype: ETHERTYPE, ring_bytes: Some(0), ..usual })
    };
    match (open(1), open(2)) {
        (Ok(first), Ok(second)) if first.is_grouped() || second.is_grouped() => {
            "the kernel looks at a frame once for all of a user's nodes"
        }
        _ => {
            "the kernel looks at a frame once for each node, some 0.1 µs (no PACKET_FANOUT group: no directory for its table, or an \
             old kernel)"
        }
    }
}

/// What frames cost by raw frames and by datagrams.
fn costs(interface: &Interface) -> Option<PathCosts> {
    let ip = interface.addresses.iter().find(|ip| ip.is_ipv4())?;
    let mtu = usize::try_from(interface.mtu?).ok()?;
    measure_paths((&interface.name, false), *ip, mtu.checked_sub(IP_UDP_BYTES)?)
}

fn decide(interface: &Interface, packet: io::Result<()>) -> Rung {
    let rung = |link, reason: &str, better: Option<String>| Rung {
        interface: interface.name.clone(),
        link,
        reason: reason.to_owned(),
        better,
    };
    let name = &interface.name;
    if interface.kind == Kind::Loopback {
        return rung(Some("shm"), "processes of this machine share memory", None);
    }
    if !interface.running {
        let better = format!("plug in the cable; sudo ip link set {name} up");
        return rung(None, "it is down or has no cable", Some(better));
    }
    let addressed = interface.addresses.iter().any(|address| !address.is_unspecified());
    let udp = if addressed { Some("udp") } else { None };
    if interface.kind == Kind::Other {
        return rung(udp, "it does not carry Ethernet frames, only IP", None);
    }
    match packet {
        Ok(()) => rung(Some("packet"), "a packet socket opens on it", None),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let better = Some(format!("for packet: {}", privilege::set_capability()));
            match udp {
                Some(_) => rung(udp, "raw frames need CAP_NET_RAW, which is missing", better),
                None => rung(udp, "it has no address for udp and raw frames are closed", better),
            }
        }
        Err(error) => rung(udp, &format!("no packet socket opens on it: {error}"), None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::interfaces::Offloads;
    use super::*;

    fn card(running: bool, addressed: bool, kind: Kind) -> Interface {
        Interface {
            name: "card0".to_owned(),
            index: 2,
            kind,
            is_card: true,
            running,
            state: "up".to_owned(),
            mtu: Some(1500),
            speed: None,
            driver: None,
            addresses: if addressed { vec!["10.0.0.1".parse().unwrap()] } else { Vec::new() },
            receive_queues: 1,
            send_queues: 1,
            offloads: Offloads::default(),
        }
    }

    fn closed() -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }

    #[test]
    fn packet_is_taken_where_it_opens() {
        let rung = decide(&card(true, false, Kind::Ethernet), Ok(()));
        assert_eq!((rung.link, rung.better), (Some("packet"), None));
    }

    #[test]
    fn udp_stands_in_and_says_how_to_do_better() {
        let rung = decide(&card(true, true, Kind::Ethernet), closed());
        assert_eq!(rung.link, Some("udp"));
        assert!(rung.better.unwrap().contains("setcap cap_net_raw+ep"));
    }

    #[test]
    fn nothing_is_promised_where_nothing_goes() {
        assert_eq!(decide(&card(false, true, Kind::Ethernet), Ok(())).link, None);
        assert_eq!(decide(&card(true, false, Kind::Ethernet), closed()).link, None);
        assert_eq!(decide(&card(true, false, Kind::Other), Ok(())).link, None);
        assert_eq!(decide(&card(true, true, Kind::Other), Ok(())).link, Some("udp"));
        assert_eq!(decide(&card(true, true, Kind::Loopback), closed()).link, Some("shm"));
    }
}
