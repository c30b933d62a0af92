//! Attributes of VIs: what is allowed at all, and what must agree between the two ends of a connection.

use emp_face::handles::Key;

use crate::abi::*;
use crate::memory::tag_of;
use crate::nic::TRANSFER_MAX;
use crate::state::State;
use crate::wire::Offer;

/// Checks the attributes of a VI; returns its tag, and the tag's number.
///
/// # Errors
///
/// Which attribute is wrong.
pub fn check(state: &mut State, attributes: &ViAttributes) -> Result<(Option<Key>, u32), Return> {
    let read = attributes.rdma_read != 0;
    match attributes.reliability {
        UNRELIABLE if read => return Err(Return::INVALID_RDMAREAD),
        UNRELIABLE | RELIABLE_DELIVERY | RELIABLE_RECEPTION => {}
        _ => return Err(Return::INVALID_RELIABILITY_LEVEL),
    }
    if attributes.max_transfer_size == 0 || attributes.max_transfer_size > TRANSFER_MAX.into() {
        return Err(Return::INVALID_MTU);
    }
    if attributes.qos != 0 {
        return Err(Return::INVALID_QOS);
    }
    tag_of(state, attributes.ptag)
}

/// Checks what must be the same at both ends.
///
/// # Errors
///
/// Which attribute differs.
pub fn agree(ours: &Offer, theirs: &Offer) -> Result<(), Return> {
    if ours.reliability != theirs.reliability {
        return Err(Return::INVALID_RELIABILITY_LEVEL);
    }
    if ours.max_transfer != theirs.max_transfer {
        return Err(Return::INVALID_MTU);
    }
    Ok(())
}
