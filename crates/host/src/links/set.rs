//! A node's links together: whether firmware can use them, and what it is told of each.

use emp_firmware::limits::LINKS_MAX;
use emp_firmware::{LinkIndex, LinkInfo};
use emp_link::{Capabilities, Link, SEARCHES};
use emp_wire::LONG_FRAME_BYTES;

use crate::links::error::BuildError;
use crate::links::outgoing::FRAME_PARTS_MAX;

/// A link that will be used.
pub(crate) struct ChosenLink {
    pub(crate) link: Box<dyn Link>,
    /// Frames to everyone are worth sending on it.
    pub(crate) asks_everyone: bool,
}

/// The links are such as a node can have.
pub(crate) fn check(links: &[ChosenLink]) -> Result<(), BuildError> {
    match links.len() {
        0 => return Err(BuildError::NoLinks),
        given if given > LINKS_MAX => {
            return Err(BuildError::TooManyLinks { given, max: LINKS_MAX });
        }
        _ => {}
    }
    for chosen in links {
        let link = chosen.link.capabilities();
        if link.parts_max < FRAME_PARTS_MAX {
            return Err(BuildError::LinkGathersTooLittle {
                link: format!("{} on {}", link.kind, link.interface),
                parts_max: link.parts_max,
                needed: FRAME_PARTS_MAX,
            });
        }
    }
    Ok(())
}

/// What firmware is told of a link.
pub(crate) fn info(link: &dyn Link, asks_everyone: bool) -> LinkInfo {
    let capabilities = link.capabilities();
    let reads_memory = link.peer_memory().is_some();
    let segments = capabilities.segmentation;
    let info = LinkInfo::new(capabilities.frame_bytes_max, asks_everyone);
    let long_frames_held = u32::try_from(capabilities.long_frames_held).unwrap_or(u32::MAX);
    let long_frames = has_long_frames(capabilities);
    let sums = capabilities.sums;
    let hops_from = is_ring(capabilities).then_some(capabilities.address);
    let tells = (capabilities.kind == "udp").then(|| capabilities.address.family());
    LinkInfo {
        reads_memory,
        segments,
        sums,
        long_frames,
        long_frames_held,
        hops_from,
        tells,
        ..info
    }
}

/// Tells firmware for which link each of a relay's links for searches hears: that of the same interface.
pub(crate) fn apply_searches(infos: &mut [LinkInfo], links: &[Capabilities]) {
    for index in (0..links.len()).filter(|index| links[*index].kind == SEARCHES) {
        let of = |link: &Capabilities| is_ring(link) && link.interface == links[index].interface;
        let ring = links.iter().position(of);
        infos[index].hears_for = ring.and_then(|at| u8::try_from(at).ok()).map(LinkIndex);
        infos[index].broadcast = false;
    }
}

/// Frames longer than the MTU are to be made for this link. Where there is no MTU, as in a machine's memory, they are only taken.
pub(crate) fn has_long_frames(link: &Capabilities) -> bool {
    link.long_frame_bytes >= LONG_FRAME_BYTES && !link.address.is_memory()
}

/// True if looking for frames on a link costs no system call.
pub(crate) fn is_ring(link: &Capabilities) -> bool {
    matches!(link.kind, "packet" | "xdp" | "empd")
}
