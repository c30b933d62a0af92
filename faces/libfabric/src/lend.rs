//! Whose the bytes of an operation are until it has ended: the application's, or a copy's (`FI_INJECT`).

use emp_host::{CompletionMode, Segment, SegmentList};

use crate::bindings::*;
use crate::flags::OpFlags;
use crate::info::MESSAGE_BYTES_MAX;
use crate::inject::INJECT_BYTES;
use crate::transfer::{EINVAL, segment, segments};

/// Flags by which an operation is told to have ended no sooner than when the peer has it.
const WAITS: OpFlags =
    OpFlags::DELIVERY_COMPLETE.with(OpFlags::MATCH_COMPLETE).with(OpFlags::TRANSMIT_COMPLETE);

/// Flags that an operation may not have: nothing keeps their promise, or it would be another operation without them.
const REFUSED: OpFlags =
    OpFlags::FENCE.with(OpFlags::COMMIT_COMPLETE).with(OpFlags::TRIGGERS).with(OpFlags::MULTICAST);

/// True if the flags ask for what is not to be had.
#[inline]
pub fn is_refused(flags: OpFlags) -> bool {
    flags.has_any(REFUSED)
}

/// How the bytes of an operation are posted.
pub struct Lent {
    pub completion: CompletionMode,
    /// The copy, if the application's buffer is free at once and the operation goes on.
    pub copy: Option<Box<[u8]>>,
}

impl Lent {
    /// The segments to be posted: of the copy, or of the parts that were lent. Made last, where they are wanted: a list that is passed on waits for
    /// its own stores.
    #[inline(always)]
    pub fn segments(&self, parts: &[iovec]) -> Option<SegmentList> {
        let Some(copy) = &self.copy else { return segments(parts) };
        let address = copy.as_ptr().expose_provenance() as u64;
        Some(SegmentList::one(Segment { address, bytes: copy.len() as u64 }))
    }
}

/// A copy of the bytes of these parts.
///
/// # Safety
///
/// libfabric's rules: the parts are readable.
pub unsafe fn copy(parts: &[iovec]) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.iov_len).sum());
    for part in parts {
        // SAFETY: the caller says so.
        let part = unsafe { crate::objects::slice(part.iov_base.cast::<u8>(), part.iov_len) };
        bytes.extend_from_slice(part);
    }
    bytes.into()
}

/// Sees to it that what is posted stays as it is. `most_copied`: bytes that the node copies by itself when it is told to, 0 if it does not.
///
/// # Errors
///
/// What the call is to return.
///
/// # Safety
///
/// libfabric's rules: the parts are readable.
#[inline(always)]
pub unsafe fn lend(
    parts: &[iovec],
    inject: bool,
    flags: OpFlags,
    most_copied: usize,
) -> Result<Lent, isize> {
    let add = |sum: u64, part| sum.checked_add(segment(part)?.bytes);
    let Some(bytes) = parts.iter().try_fold(0, add) else { return Err(EINVAL) };
    let most = if inject { INJECT_BYTES } else { MESSAGE_BYTES_MAX };
    if bytes > most as u64 {
        return Err(-(libc::EMSGSIZE as isize));
    }
    if is_refused(flags) {
        return Err(EINVAL);
    }
    let waits = flags.has_any(WAITS);
    if !inject {
        let completion = if waits { CompletionMode::Delivered } else { CompletionMode::Auto };
        return Ok(Lent { completion, copy: None });
    }
    if !waits && bytes <= most_copied as u64 {
        return Ok(Lent { completion: CompletionMode::Buffered, copy: None });
    }
    // It ends later than the call, or is too long for that: the provider has a copy of its own.
    // SAFETY: the caller says so.
    let copy = unsafe { copy(parts) };
    Ok(Lent { completion: CompletionMode::Delivered, copy: Some(copy) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent(bytes: &[u8], inject: bool, flags: OpFlags, most_copied: usize) -> Result<Lent, isize> {
        let parts = crate::objects::one(bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the part is a slice.
        unsafe { lend(&parts, inject, flags, most_copied) }
    }

    #[test]
    fn who_keeps_the_bytes_depends_on_when_the_operation_ends() {
        let short = [1; 100];
        for (inject, flags, most_copied, completion, copied) in [
            (false, OpFlags::NONE, 1400, CompletionMode::Auto, false),
            (false, OpFlags::INJECT_COMPLETE, 1400, CompletionMode::Auto, false),
            (false, OpFlags::DELIVERY_COMPLETE, 1400, CompletionMode::Delivered, false),
            (false, OpFlags::TRANSMIT_COMPLETE, 1400, CompletionMode::Delivered, false),
            (true, OpFlags::NONE, 1400, CompletionMode::Buffered, false),
            (true, OpFlags::NONE, 50, CompletionMode::Delivered, true),
            (true, OpFlags::DELIVERY_COMPLETE, 1400, CompletionMode::Delivered, true),
            (true, OpFlags::MATCH_COMPLETE, 1400, CompletionMode::Delivered, true),
            (true, OpFlags::TRANSMIT_COMPLETE, 1400, CompletionMode::Delivered, true),
        ] {
            let lent = lent(&short, inject, flags, most_copied).unwrap();
            assert_eq!((lent.completion, lent.copy.is_some()), (completion, copied), "{flags:?}");
            let part = crate::objects::one(short.as_ptr().cast(), short.len());
            let list = lent.segments(&part).unwrap();
            let there = list.as_slice()[0].address == short.as_ptr().expose_provenance() as u64;
            assert_eq!((list.bytes(), there), (100, !copied));
        }
    }

    #[test]
    fn what_is_too_long_or_not_to_be_had_is_refused() {
        let long = vec![0; INJECT_BYTES + 1];
        assert_eq!(lent(&long, true, OpFlags::NONE, 9000).err(), Some(-(libc::EMSGSIZE as isize)));
        assert!(lent(&long, false, OpFlags::NONE, 9000).is_ok());
        for flag in [OpFlags::FENCE, OpFlags::COMMIT_COMPLETE] {
            assert_eq!(lent(&long[..9], false, flag, 9000).err(), Some(EINVAL));
        }
    }
}
