//! `node` and `service` of calls: which interfaces a source means, and which address a destination is.
//!
//! Who listens at a port and who sends there agree on the listener's identity without having met: it is that of the text
//! `IP:PORT`, whose IP address is the interface's. `localhost` means this machine: the interface it uses for EMP, where
//! loopback itself is none of those.

use std::ffi::{CStr, CString, c_int};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use emp_face::settings::Settings;
use emp_face::ways::{Kind, Way, ways};
use emp_link::{Interface, interfaces};

use crate::ep_address::{EpAddress, SCHEME, parse_exact, parse_mac};

/// A place as it was written: a host, or none, and a port, or none.
#[derive(Clone, Copy, Default)]
pub struct Place<'a> {
    pub node: Option<&'a str>,
    pub service: Option<&'a str>,
    /// The host is a number already: names are not looked up.
    pub numeric: bool,
}

/// Why a place leads nowhere, for people.
pub type Problem = String;

/// Longest name of a host in bytes: that of the domain name system.
const NAME_BYTES_MAX: usize = 253;

impl<'a> Place<'a> {
    /// Takes a text like `fi_emp://host:port` apart, if that is what `node` is. `Err`: it is another scheme's, or broken.
    fn plain(self) -> Result<Text<'a>, Problem> {
        let Some(text) = self.node.filter(|node| node.contains("://")) else {
            return Ok(Text::Place(self));
        };
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return Err(format!("{text} is not an address of EMP ({SCHEME}host:port)"));
        };
        if self.service.is_some() {
            return Err(format!("{text} has its port in it, and must come without a service"));
        }
        if let Some(exact) = rest.strip_prefix('@') {
            let broken = || format!("{text} is broken: {SCHEME}@identity:endpoint/mac/ip:port");
            return parse_exact(exact).map(Text::Exact).ok_or_else(broken);
        }
        let (host, port) = match rest.rsplit_once(':') {
            // The colons of an IPv6 address are in brackets.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let some = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let (node, service) = (some(host), port.and_then(some));
        Ok(Text::Place(Self { node, service, numeric: self.numeric }))
    }

    /// True if it is written `fi_emp://…`, where names are EMP's own if nobody else knows them.
    fn is_text(&self) -> bool {
        self.node.is_some_and(|node| node.starts_with(SCHEME))
    }

    fn port(&self) -> Result<u16, Problem> {
        let Some(service) = self.service else { return Ok(0) };
        match service.parse() {
            Ok(port) => Ok(port),
            Err(_) => look_up(None, Some(service), false)
                .and_then(|found| found.first().map(SocketAddr::port))
                .filter(|_| !service.bytes().all(|byte| byte.is_ascii_digit()))
                .ok_or_else(|| format!("service {service}: no port (1 to 65535) of that name")),
        }
    }
}

/// What a text was.
enum Text<'a> {
    Place(Place<'a>),
    Exact(EpAddress),
}

/// The addresses that the system's resolver has for a host, and the port for a service.
fn look_up(node: Option<&str>, service: Option<&str>, numeric: bool) -> Option<Vec<SocketAddr>> {
    let text = |text: Option<&str>| text.map(CString::new).transpose().ok();
    let (node, service) = (text(node)?, text(service)?);
    let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
    // SAFETY: all zero is a valid value of this structure of C.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_socktype = libc::SOCK_DGRAM;
    hints.ai_flags = if numeric { libc::AI_NUMERICHOST } else { 0 };
    let mut first: *mut libc::addrinfo = std::ptr::null_mut();
    // SAFETY: texts that end with a zero, or null; the list is freed below.
    if unsafe { libc::getaddrinfo(pointer(&node), pointer(&service), &hints, &mut first) } != 0 {
        return None;
    }
    let (mut found, mut next) = (Vec::new(), first);
    // SAFETY: the list is valid until it is freed.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: its address is as long as it says.
        found.extend(unsafe { socket_address(entry.ai_addr, entry.ai_addrlen as usize) });
        next = entry.ai_next;
    }
    // SAFETY: from `getaddrinfo`, and not used any more.
    unsafe { libc::freeaddrinfo(first) };
    // As of an interface's own addresses, an IPv4 one is preferred: both ends must choose the same.
    found.sort_by_key(SocketAddr::is_ipv6);
    Some(found)
}

/// A socket address of C's.
///
/// # Safety
///
/// `address` is null or has `bytes` bytes.
unsafe fn socket_address(address: *const libc::sockaddr, bytes: usize) -> Option<SocketAddr> {
    if address.is_null() || bytes < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: so many bytes are there.
    let family = c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() });
    match family {
        libc::AF_INET if bytes >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: likewise.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 if bytes >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: likewise.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddr::new(ip.into(), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

/// The IP addresses of a host, the preferred first.
fn ips(host: &str, numeric: bool) -> Vec<IpAddr> {
    if let Ok(ip) = host.parse() {
        return vec![ip];
    }
    let found = look_up(Some(host), None, numeric).unwrap_or_default();
    found.into_iter().map(|address| address.ip()).collect()
}

/// The address where somebody listens.
///
/// # Errors
///
/// Nobody of that name is known, or it is no address.
pub fn destination(place: Place<'_>, own: &[Way]) -> Result<EpAddress, Problem> {
    let text = place.is_text();
    let place = match place.plain()? {
        Text::Exact(address) => return Ok(address),
        Text::Place(place) => place,
    };
    let port = place.port()?;
    let host = place.node.unwrap_or("localhost");
    match ips(host, place.numeric).first() {
        Some(ip) => Ok(at(on_this_machine(*ip, own), port, own)),
        None if text && !place.numeric && is_name(host) => Ok(EpAddress::named(host, port)),
        None => Err(format!("no host {host} is known")),
    }
}

/// This machine is known by the interface that EMP uses.
fn on_this_machine(ip: IpAddr, own: &[Way]) -> Option<IpAddr> {
    let shm = own.first().is_some_and(|way| way.kind == Kind::Shm);
    // Shared memory has this machine's addresses all at one place.
    let ours = || interfaces().unwrap_or_default().iter().any(|one| one.addresses.contains(&ip));
    let here = ip.is_loopback() || ip.is_unspecified() || shm && ours();
    if !here || own.iter().any(|way| way.interface.addresses.contains(&ip)) {
        return Some(ip);
    }
    own.first().and_then(Way::ip)
}

fn at(ip: Option<IpAddr>, port: u16, own: &[Way]) -> EpAddress {
    match ip {
        Some(ip) => EpAddress::at(SocketAddr::new(ip, port)),
        // An interface without one: found by the machine's name.
        None => EpAddress::named(&own.first().map_or_else(String::new, machine), port),
    }
}

/// What this machine is called where the interface has no IP address.
fn machine(_: &Way) -> String {
    let mut name = [0u8; 256];
    // SAFETY: so much room; the last byte stays zero.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    if result == 0 { name.to_string_lossy().into_owned() } else { String::new() }
}

fn is_name(host: &str) -> bool {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !host.is_empty() && host.len() <= NAME_BYTES_MAX && host.bytes().all(usual)
}

/// The ways that a source means, each with the address it gives to what is opened there.
///
/// # Errors
///
/// Nothing of this machine is called so.
pub fn sources(
    place: Place<'_>,
    settings: &Settings,
    own: Vec<Way>,
) -> Result<Vec<(Way, EpAddress)>, Problem> {
    let text = place.is_text();
    let place = match place.plain()? {
        Text::Exact(address) if address.service => {
            return Ok(own.into_iter().map(|way| (way, address)).collect());
        }
        Text::Exact(_) => return Err("an endpoint's own address is none to listen at".into()),
        Text::Place(place) => place,
    };
    let port = place.port()?;
    let plain = |way: Way| {
        let address = at(way.ip(), port, std::slice::from_ref(&way));
        (way, address)
    };
    let Some(host) = place.node else { return Ok(own.into_iter().map(plain).collect()) };
    let mac = parse_mac(host);
    let all: Vec<_> = own
        .iter()
        .map(|way| way.interface.clone())
        .chain(interfaces().unwrap_or_default())
        .collect();
    let is_called_so =
        |one: &Interface| one.name == host || mac.is_some() && one.mac == mac && !one.loopback;
    // Names are resolved only if they are no interface's: a resolver may take its time, and may know another such name.
    let found = if all.iter().any(is_called_so) { Vec::new() } else { ips(host, place.numeric) };
    if found.iter().any(|ip| ip.is_loopback() || ip.is_unspecified()) && !names_loopback(&own) {
        return Ok(own.into_iter().map(plain).collect());
    }
    let meant = all
        .into_iter()
        .find(|one| is_called_so(one) || found.iter().any(|ip| one.addresses.contains(ip)));
    let Some(meant) = meant else {
        if text && found.is_empty() && is_name(host) {
            let named = |way| (way, EpAddress::named(host, port));
            return Ok(own.into_iter().map(named).collect());
        }
        return Err(format!("{host} is no interface or address of this machine"));
    };
    let ip = found.iter().find(|ip| meant.addresses.contains(ip)).copied();
    let ways = ways_of(&meant.name, settings, own);
    if ways.is_empty() {
        return Err(format!("{host}: {} cannot be used, or is not to be used", meant.name));
    }
    let named = |way: Way| {
        let address = at(ip.or_else(|| way.ip()), port, std::slice::from_ref(&way));
        (way, address)
    };
    Ok(ways.into_iter().map(named).collect())
}

fn names_loopback(own: &[Way]) -> bool {
    own.iter().any(|way| way.interface.loopback)
}

/// The ways by this interface: of those that are taken anyhow, else, where the user leaves the choice, by itself.
fn ways_of(interface: &str, settings: &Settings, own: Vec<Way>) -> Vec<Way> {
    let of_it: Vec<Way> = own.into_iter().filter(|way| way.interface.name == interface).collect();
    if !of_it.is_empty() || !settings.interfaces.is_empty() {
        return of_it;
    }
    ways(&Settings { interfaces: vec![interface.to_owned()], ..settings.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use emp_link::Interface;

    fn way(name: &str, ips: &[&str]) -> Way {
        let interface = Interface {
            name: name.into(),
            index: 1,
            mtu: 1500,
            mac: Some([2, 0, 0, 0, 0, 1]),
            up: true,
            running: true,
            loopback: name == "lo",
            addresses: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
            prefixes: ips.iter().map(|_| 24).collect(),
        };
        Way::of(Kind::Packet, interface)
    }

    fn to(node: &str, service: Option<&str>, own: &[Way]) -> Result<String, Problem> {
        let place = Place { node: Some(node), service, numeric: false };
        destination(place, own).map(|address| address.to_string())
    }

    #[test]
    fn destinations_are_hosts_and_ports_or_texts() {
        let own = [way("eth0", &["10.0.0.1"])];
        let there = Ok("fi_emp://10.0.0.2:7000".to_string());
        assert_eq!(to("10.0.0.2", Some("7000"), &own), there);
        assert_eq!(to("fi_emp://10.0.0.2:7000", None, &own), there);
        assert_eq!(to("fi_emp://[fd00::2]:7", None, &own).unwrap(), "fi_emp://[fd00::2]:7");
        assert_eq!(to("fi_emp://[fd00::2]", None, &own).unwrap(), "fi_emp://[fd00::2]:0");
        let exact = "fi_emp://@0000000000000010:2/10.1.2.3:700";
        assert_eq!(to(exact, None, &own).unwrap(), exact);
        let named = to("fi_emp://node7.emp.invalid:80", None, &own).unwrap();
        assert_eq!(named, EpAddress::named("node7.emp.invalid", 80).to_string());
    }

    #[test]
    fn this_machine_is_known_by_the_interface_that_is_used() {
        let own = [way("eth0", &["10.0.0.1"])];
        for host in ["127.0.0.1", "localhost", "0.0.0.0", "10.0.0.1"] {
            assert_eq!(to(host, Some("5"), &own).unwrap(), "fi_emp://10.0.0.1:5");
        }
        let lo = [way("lo", &["127.0.0.1"])];
        assert_eq!(to("127.0.0.1", Some("5"), &lo).unwrap(), "fi_emp://127.0.0.1:5");
        let nowhere = destination(Place { service: Some("5"), ..Place::default() }, &own);
        assert_eq!(nowhere.unwrap().to_string(), "fi_emp://10.0.0.1:5");
    }

    #[test]
    fn what_leads_nowhere_is_said() {
        let own = [way("eth0", &["10.0.0.1"])];
        let long = format!("fi_emp://{}:1", "x".repeat(300));
        for (node, service) in [
            ("10.0.0.2", Some("70000")),
            ("10.0.0.2", Some("-1")),
            ("10.0.0.2", Some("no-such-service")),
            ("no-such-host.invalid", Some("7000")),
            ("fi_sockaddr_in://10.0.0.2:1", None),
            ("fi_emp://10.0.0.2:1", Some("1")),
            ("fi_emp://@nonsense", None),
            ("fi_emp://a b:1", None),
            (long.as_str(), None),
            ("", Some("7000")),
        ] {
            assert!(to(node, service, &own).is_err(), "{node} {service:?}");
        }
    }

    #[test]
    fn sources_are_interfaces() {
        let settings = Settings::read(|_| None).unwrap();
        let own = vec![way("eth7", &["10.0.0.1", "10.0.9.9"])];
        let from = |node, service| {
            let place = Place { node, service, numeric: false };
            let found = sources(place, &settings, own.clone())?;
            Ok::<_, Problem>(found.into_iter().map(|(_, address)| address.to_string()).collect())
        };
        let any: Vec<String> = from(None, Some("7000")).unwrap();
        assert_eq!(any, ["fi_emp://10.0.0.1:7000"]);
        assert_eq!(from(Some("127.0.0.1"), Some("7000")).unwrap(), any);
        assert_eq!(from(None, None).unwrap(), ["fi_emp://10.0.0.1:0"]);
        for host in ["eth7", "02:00:00:00:00:01", "10.0.0.1"] {
            assert_eq!(from(Some(host), Some("7000")).unwrap(), any);
        }
        assert_eq!(from(Some("10.0.9.9"), Some("70")).unwrap(), ["fi_emp://10.0.9.9:70"]);
        let named = EpAddress::named("mine.emp.invalid", 4).to_string();
        assert_eq!(from(Some("fi_emp://mine.emp.invalid:4"), None).unwrap(), [named]);
        assert!(from(Some("192.0.2.77"), Some("7000")).is_err());
        assert!(from(Some("no-such-host.invalid"), None).is_err());
    }
}
