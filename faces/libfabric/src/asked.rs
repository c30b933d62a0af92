//! Which addresses a `fi_getinfo` is about: this process's own, and the peer's.

use std::ffi::{CStr, c_char, c_void};

use emp_face::settings::Settings;
use emp_face::ways::Way;

use crate::bindings::{FI_ADDR_STR, FiInfo};
use crate::ep_address::{ADDRESS_BYTES, EpAddress};
use crate::flags::InfoFlags;
use crate::info::ADDRESS_FORMAT;
use crate::objects::look;
use crate::places::{Place, Problem, destination, sources};

/// What was found out.
pub struct Asked {
    /// The ways that fit, each with the address it gives to this process.
    pub sources: Vec<(Way, EpAddress)>,
    pub destination: Option<EpAddress>,
}

/// How addresses come and go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// As so many bytes.
    Bytes,
    /// As texts.
    Text,
}

impl Format {
    /// What a `fi_info` asks for. `None`: something that EMP has not.
    pub fn of(number: u32) -> Option<Self> {
        match number {
            0 | ADDRESS_FORMAT => Some(Self::Bytes),
            FI_ADDR_STR => Some(Self::Text),
            _ => None,
        }
    }

    pub fn number(self) -> u32 {
        if self == Self::Bytes { ADDRESS_FORMAT } else { FI_ADDR_STR }
    }

    /// An address as the application has it; texts end with a zero.
    pub fn write(self, address: &EpAddress) -> Vec<u8> {
        match self {
            Self::Bytes => address.encode().to_vec(),
            Self::Text => format!("{address}\0").into_bytes(),
        }
    }
}

/// A text of C's, if there is one.
///
/// # Safety
///
/// libfabric's rules ([`crate::objects`]).
pub unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, Problem> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller keeps the rules; a text ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| format!("{} is not UTF-8", text.to_string_lossy()))
}

/// The address that a `fi_info` holds at `pointer`.
///
/// # Safety
///
/// libfabric's rules: null, or so many bytes.
unsafe fn held<'a>(
    format: Format,
    pointer: *const c_void,
    bytes: usize,
) -> Result<Held<'a>, Problem> {
    if pointer.is_null() || bytes == 0 {
        return Ok(Held::Nothing);
    }
    if format == Format::Text {
        // SAFETY: so many bytes; what comes after its end does not count.
        let bytes = unsafe { crate::objects::slice(pointer.cast::<u8>(), bytes) };
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = std::str::from_utf8(bytes).map_err(|_| "an address that is no text".to_string());
        return text.map(|node| Held::Place(Place { node: Some(node), ..Place::default() }));
    }
    // SAFETY: there are so many bytes.
    let address = (bytes == ADDRESS_BYTES)
        .then(|| unsafe { look(pointer.cast::<[u8; ADDRESS_BYTES]>()) })
        .flatten()
        .and_then(EpAddress::decode);
    address.map(Held::Address).ok_or_else(|| "an address that is none of EMP's".into())
}

enum Held<'a> {
    Nothing,
    Place(Place<'a>),
    Address(EpAddress),
}

/// Where this process is to be reached by what is opened with this `fi_info`.
///
/// # Safety
///
/// libfabric's rules ([`crate::objects`]).
pub unsafe fn source_of(info: &FiInfo, own: &[Way]) -> Option<EpAddress> {
    let format = Format::of(info.addr_format)?;
    // SAFETY: the caller keeps the rules.
    match unsafe { held(format, info.src_addr, info.src_addrlen) } {
        Ok(Held::Address(address)) => Some(address),
        Ok(Held::Place(place)) => destination(place, own).ok(),
        _ => None,
    }
}

/// Finds out what is asked for.
///
/// # Errors
///
/// What cannot be had, for people.
///
/// # Safety
///
/// libfabric's rules ([`crate::objects`]).
pub unsafe fn asked(
    place: Place<'_>,
    flags: InfoFlags,
    hints: Option<&FiInfo>,
    settings: &Settings,
    own: Vec<Way>,
) -> Result<Asked, Problem> {
    let format = hints.and_then(|hints| Format::of(hints.addr_format)).unwrap_or(Format::Bytes);
    // SAFETY: the caller keeps the rules.
    let (source, peer) = unsafe {
        let of = |pointer: fn(&FiInfo) -> (*mut c_void, usize)| {
            let (pointer, bytes) = hints.map_or((std::ptr::null_mut(), 0), pointer);
            held(format, pointer, bytes)
        };
        let source = of(|hints| (hints.src_addr, hints.src_addrlen));
        (source, of(|hints| (hints.dest_addr, hints.dest_addrlen)))
    };
    let given = place.node.is_some() || place.service.is_some();
    let given = given && !flags.has(InfoFlags::PROV_ATTR_ONLY);
    let is_source = flags.has(InfoFlags::SOURCE);
    let destination = match (given && !is_source, peer) {
        (true, _) => Some(destination(place, &own)?),
        (false, peer) => match peer? {
            Held::Nothing => None,
            Held::Address(address) => Some(address),
            Held::Place(place) => Some(destination(place, &own)?),
        },
    };
    let sources = match (given && is_source, source) {
        (true, _) => sources(place, settings, own)?,
        (false, source) => match source? {
            Held::Nothing => sources(Place::default(), settings, own)?,
            Held::Place(place) => sources(place, settings, own)?,
            Held::Address(address) => same_interface(address, settings, own)?,
        },
    };
    Ok(Asked { sources, destination })
}

/// The ways of the interface that an address of this process names.
fn same_interface(
    address: EpAddress,
    settings: &Settings,
    own: Vec<Way>,
) -> Result<Vec<(Way, EpAddress)>, Problem> {
    let ip = address.udp.map(|udp| udp.ip().to_string());
    let place = Place { node: ip.as_deref(), ..Place::default() };
    let mut found = sources(place, settings, own)?;
    if address.service {
        found.iter_mut().for_each(|(_, source)| *source = address);
    }
    Ok(found)
}
