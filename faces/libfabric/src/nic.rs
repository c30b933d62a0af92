//! What `fi_info` says of the network card behind a way: its name, its address, its link's state and speed.
//!
//! The core frees and copies these structures by calling what is in them, so they are this provider's own objects.

use std::ffi::{CString, c_char, c_int, c_void};

use emp_link::Interface;

use crate::bindings::{Fid, class, control};
use crate::entry::entry;
use crate::objects::{Object, downcast, put_text, store, take};
use crate::tables::FidOps;

#[repr(C)]
#[derive(Clone)]
struct DeviceAttr {
    name: *const c_char,
    device_id: *const c_char,
    device_version: *const c_char,
    vendor_id: *const c_char,
    driver: *const c_char,
    firmware: *const c_char,
}

/// A bus that is not said: the address of a card on its bus would make MPICH deal cards out to ranks by itself.
#[repr(C)]
#[derive(Clone, Default)]
struct BusAttr {
    kind: u32,
    address: [u16; 4],
}

#[repr(C)]
#[derive(Clone)]
struct LinkAttr {
    address: *const c_char,
    mtu: usize,
    /// Bits per second; 0: not known.
    speed: usize,
    state: u32,
    network_type: *const c_char,
}

const LINK_DOWN: u32 = 1;
const LINK_UP: u32 = 2;

/// A card, as the core knows it.
#[repr(C)]
pub struct Nic {
    fid: Fid,
    device: *const DeviceAttr,
    bus: *const BusAttr,
    link: *const LinkAttr,
    provider: *mut c_void,
    own: Box<Own>,
}

// SAFETY: `repr(C)`, and begins with its fid, whose table no other type has.
unsafe impl Object for Nic {
    const CLASS: usize = class::NIC;

    fn table() -> &'static FidOps {
        &FID
    }
}

/// What the pointers of a [`Nic`] point to.
struct Own {
    facts: Facts,
    device: DeviceAttr,
    bus: BusAttr,
    link: LinkAttr,
}

/// What is known of an interface.
#[derive(Clone)]
struct Facts {
    name: CString,
    driver: Option<CString>,
    address: Option<CString>,
    mtu: usize,
    speed: usize,
    up: bool,
}

static FID: FidOps = FidOps { control, tostr, ..FidOps::new(close) };

/// One attribute of an interface, as the kernel says it.
fn attribute(interface: &str, name: &str) -> Option<String> {
    let path = format!("/sys/class/net/{interface}/{name}");
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn facts(interface: &Interface) -> Facts {
    let text = |text: String| CString::new(text).ok();
    let name = &interface.name;
    // Megabits; -1 without a carrier, and an error for interfaces that have none.
    let speed = attribute(name, "speed").and_then(|speed| speed.parse::<usize>().ok());
    let driver = std::fs::read_link(format!("/sys/class/net/{name}/device/driver")).ok();
    let driver = driver.and_then(|path| path.file_name()?.to_str().map(str::to_owned));
    Facts {
        name: text(name.clone()).unwrap_or_default(),
        driver: driver.and_then(text),
        address: interface.mac.map(hex).and_then(text),
        mtu: interface.mtu,
        speed: speed.map_or(0, |megabits| megabits.saturating_mul(1_000_000)),
        up: interface.up && interface.running,
    }
}

fn hex(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The description of an interface, for a `fi_info`.
pub fn describe(interface: &Interface) -> *mut Nic {
    build(facts(interface))
}

fn build(facts: Facts) -> *mut Nic {
    let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
    // The texts do not move with the structure: their bytes are on the heap.
    let own = Box::new(Own {
        device: DeviceAttr {
            name: facts.name.as_ptr(),
            device_id: std::ptr::null(),
            device_version: std::ptr::null(),
            vendor_id: std::ptr::null(),
            driver: pointer(&facts.driver),
            firmware: std::ptr::null(),
        },
        bus: BusAttr::default(),
        link: LinkAttr {
            address: pointer(&facts.address),
            mtu: facts.mtu,
            speed: facts.speed,
            state: if facts.up { LINK_UP } else { LINK_DOWN },
            network_type: c"Ethernet".as_ptr(),
        },
        facts,
    });
    Box::into_raw(Box::new(Nic {
        fid: Fid { fclass: class::NIC, context: std::ptr::null_mut(), ops: &FID },
        device: &raw const own.device,
        bus: &raw const own.bus,
        link: &raw const own.link,
        provider: std::ptr::null_mut(),
        own,
    }))
}

entry! {
    fn close(fid: *mut Fid) -> c_int {
        // SAFETY: libfabric's rules.
        drop(unsafe { take::<Nic>(fid) });
        0
    }

    fn control(nic: Fid<Nic>, command: c_int, argument: *mut c_void) -> c_int {
        if command != control::DUP || argument.is_null() {
            return -libc::ENOSYS;
        }
        store!(argument.cast::<*mut Nic>(), build(nic.own.facts.clone()));
        0
    }

    fn tostr(fid: *const Fid, into: *mut c_char, room: usize) -> c_int {
        let nic: &Nic = downcast!(fid.cast_mut());
        let facts = &nic.own.facts;
        let say = |text: &Option<CString>| match text {
            Some(text) => text.to_string_lossy().into_owned(),
            None => "unknown".to_owned(),
        };
        let text = format!(
            "    nic:\n        interface: {}\n        driver: {}\n        address: {}\n        \
             mtu: {}\n        speed: {}\n        state: {}\n        network_type: Ethernet\n",
            facts.name.to_string_lossy(),
            say(&facts.driver),
            say(&facts.address),
            facts.mtu,
            facts.speed,
            if facts.up { "up" } else { "down" },
        );
        // SAFETY: libfabric's rules: so much room.
        unsafe { put_text(&text, into, room) };
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structures_have_the_layout_of_c() {
        assert_eq!(offset_of!(Nic, provider), 48);
        assert_eq!(size_of::<DeviceAttr>(), 48);
        assert_eq!(size_of::<BusAttr>(), 12);
        assert_eq!((size_of::<LinkAttr>(), offset_of!(LinkAttr, network_type)), (40, 32));
    }

    #[test]
    fn copies_are_independent() {
        let lo = emp_link::interfaces().unwrap().into_iter().find(|i| i.loopback).unwrap();
        let nic = describe(&lo);
        let mut copy: *mut Nic = std::ptr::null_mut();
        let mut text = [0u8; 512];
        // SAFETY: both objects come from `build`, and the text has the room that is said.
        unsafe {
            assert_eq!(control(nic.cast(), control::DUP, (&raw mut copy).cast()), 0);
            assert_eq!(close(nic.cast()), 0);
            assert_eq!(tostr(copy.cast(), text.as_mut_ptr().cast(), text.len()), 0);
            assert_eq!(close(copy.cast()), 0);
        }
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("interface: lo") && text.contains("state: up"), "{text}");
    }
}
