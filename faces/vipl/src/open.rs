//! Opening and closing NICs, and finding them by their handles.

use std::ffi::{CStr, c_char};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use emp_face::claim::Claim;
use emp_face::handles::{Key, Registry};
use emp_face::log;
use emp_face::machines::{number_of, own_name};
use emp_face::node::{FaceNode, Identity, random_identity};
use emp_face::pins::Pinned;
use emp_face::settings::{Settings, environment};
use emp_face::ways::{Way, ways};

use crate::abi::{Handle, Return};
use crate::control::CONTROLS_POSTED;
use crate::ending;
use crate::errors::{enter, lacking, wrong};
use crate::nic::{CHANNEL, CONTROL, Nic, Parts};
use crate::points::{NIC, claim_door, door_of, door_port};
use crate::service;

/// NICs of one process: as many as an owner of handles has numbers.
const NICS_MAX: usize = 1_024;

static NICS: Registry<Nic> = Registry::new(NIC, NICS_MAX);

#[inline]
pub fn nic(handle: Handle) -> Option<Pinned<Nic>> {
    NICS.get(handle)
}

/// The NIC at a place of the list.
#[inline]
pub fn at(place: u32) -> Option<Pinned<Nic>> {
    NICS.at(place)
}

/// What a name says without what devices have before it: an interface's name, or a number. Programs know Giganet's first card as
/// `/dev/clanvi0` or `VINIC`, and M-VIA's loopback, for tests on one machine, as `/dev/via_lo`: the first NIC.
fn plain(name: &str) -> String {
    let bare = name.strip_prefix("/dev/").unwrap_or(name);
    if bare == "VINIC" || bare == "via_lo" {
        return String::new();
    }
    match bare.strip_prefix("clanvi") {
        Some(number) => format!("nic{number}"),
        None => bare.strip_prefix("via_").unwrap_or(bare).into(),
    }
}

/// The way that a plain name is of.
fn choose(bare: &str, ways: Vec<Way>) -> Option<Way> {
    if let Some(way) = ways.iter().find(|way| way.interface.name == bare || way.name() == bare) {
        return Some(way.clone());
    }
    let number = if bare.is_empty() { 0 } else { bare.strip_prefix("nic")?.parse().ok()? };
    ways.into_iter().nth(number)
}

/// What this machine is called.
fn machine(settings: &Settings) -> String {
    settings.name.clone().unwrap_or_else(own_name)
}

fn open(name: &str) -> Result<Handle, Return> {
    let mut settings = Settings::read(environment).map_err(|problem| {
        log::error(&problem);
        Return::ERROR_RESOURCE
    })?;
    // An interface that is named may be used though it is not among the best, unless the user says which to use.
    let bare = plain(name);
    let there = emp_host::link::interfaces().unwrap_or_default();
    if settings.interfaces.is_empty() && there.iter().any(|one| one.name == bare) {
        settings.interfaces = vec![bare.clone()];
    }
    let ways = ways(&settings);
    if ways.is_empty() {
        return Err(lacking(&"no interface is up that EMP can use (EMP_LINK, EMP_INTERFACE)"));
    }
    let names: Vec<String> = ways.iter().map(Way::name).collect();
    let way = choose(&bare, ways).ok_or_else(|| {
        wrong(&format!("there is no NIC \"{name}\": there are {}", names.join(", ")))
    })?;
    let host = host_of(&way);
    if host == 0 {
        return Err(lacking(&format!("{} has no address", way.name())));
    }
    // The first process has the node that everyone can find; so there is no node beside that of the NIC as a rule.
    let claim = claim_door(host);
    let nic = start(&way, &settings, claim).map_err(|problem| lacking(&problem))?;
    let Some(handle) = NICS.insert(Arc::clone(&nic)) else {
        ending::close(&nic);
        return Err(lacking(&"too many NICs are open in this process"));
    };
    if let Some(key) = Key::of(handle, NIC) {
        nic.lock_even_closed().belong_to(key.place);
        nic.place.store(key.place, Ordering::Relaxed);
    }
    nic.handle.store(handle, Ordering::Relaxed);
    Ok(handle)
}

/// The address of a way's NIC; 0: it has none.
fn host_of(way: &Way) -> u64 {
    number_of(way.ip(), way.interface.mac.filter(|mac| *mac != [0; 6]))
}

/// Starts the node of a NIC; that which everyone can find, if this process has its name.
///
/// # Errors
///
/// What is not to be had, for people.
pub fn start(way: &Way, settings: &Settings, claim: Option<Claim>) -> Result<Arc<Nic>, String> {
    let (host, machine) = (host_of(way), machine(settings));
    let identity = match &claim {
        Some(_) => Identity {
            node: door_of(host),
            name: machine.clone(),
            udp_port: door_port(),
            needs_port: false,
        },
        None => Identity {
            node: random_identity().map_err(|error| error.to_string())?,
            name: String::new(),
            udp_port: 0,
            needs_port: false,
        },
    };
    let face = FaceNode::start(way, settings, identity)?;
    let endpoint = face.node.endpoint(CHANNEL).map_err(|error| error.to_string())?;
    let control = face.node.endpoint(CONTROL).map_err(|error| error.to_string())?;
    endpoint.want_notices();
    control.want_notices();
    let (way, settings) = (way.clone(), settings.clone());
    let parts = Parts { face, endpoint, control, machine, host, way, settings, claim };
    let nic = Arc::new(Nic::new(parts).map_err(|error| error.to_string())?);
    (0..CONTROLS_POSTED).for_each(|number| nic.post_control(number));
    service::start(&nic);
    Ok(nic)
}

/// # Safety
///
/// Null, or a text.
unsafe fn text<'a>(name: *const c_char) -> Result<&'a str, Return> {
    if name.is_null() {
        return Ok("");
    }
    // SAFETY: not null, so a text.
    unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Return::INVALID_PARAMETER)
}

#[unsafe(no_mangle)]
pub extern "C" fn VipOpenNic(name: *const c_char, handle: *mut Handle) -> Return {
    enter(|| {
        if handle.is_null() {
            return Err(Return::INVALID_PARAMETER);
        }
        // SAFETY: the header's rules: null or a text.
        let opened = open(unsafe { text(name) }?)?;
        // SAFETY: not null, and by the header's rules valid.
        unsafe { emp_face::pointers::store(handle, opened) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipCloseNic(handle: Handle) -> Return {
    enter(|| {
        let nic = nic(handle).ok_or(Return::INVALID_PARAMETER)?;
        if nic.service.is_current() {
            return Err(wrong("a handler closes its NIC"));
        }
        let removed = NICS.remove(handle).ok_or(Return::INVALID_PARAMETER)?;
        ending::close(&removed);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use emp_face::ways::Kind;
    use emp_host::link::Interface;

    fn way(name: &str, kind: Kind) -> Way {
        let interface = Interface {
            name: name.into(),
            index: 1,
            mtu: 1500,
            mac: None,
            up: true,
            running: true,
            loopback: false,
            addresses: Vec::new(),
            prefixes: Vec::new(),
        };
        Way::of(kind, interface)
    }

    #[test]
    fn nics_have_many_names() {
        let ways = vec![way("eth0", Kind::Packet), way("eth1", Kind::Udp)];
        let chosen = |name| choose(&plain(name), ways.clone()).map(|way| way.interface.name);
        for name in [
            "",
            "eth0",
            "/dev/eth0",
            "/dev/via_eth0",
            "via_eth0",
            "nic0",
            "/dev/nic0",
            "/dev/clanvi0",
            "VINIC",
            "/dev/via_lo",
            "via_lo",
        ] {
            assert_eq!(chosen(name).as_deref(), Some("eth0"), "{name}");
        }
        for name in ["eth1", "nic1", "eth1-udp", "/dev/clanvi1"] {
            assert_eq!(chosen(name).as_deref(), Some("eth1"), "{name}");
        }
        for name in ["eth2", "nic2", "nic", "nic-1", "/dev/"] {
            assert_eq!(chosen(name).is_some(), name == "/dev/", "{name}");
        }
    }
}
