//! Looking for messages that no receive has taken: they stay where they are.

use emp_host::{ProbeInfo, Selector};

use crate::abi::*;
use crate::complete::end;
use crate::endpoint::{Endpoint, State};
use crate::errors::{call_on, enter};
use crate::progress::length;
use crate::transfer::selector;

impl Endpoint {
    /// The first such message, those that the handler was shown first: they came before.
    fn find_unexpected(&self, state: &mut State, selector: Selector) -> Option<MxStatus> {
        let seen = state.first_seen(selector).map(|place| state.seen[place].info);
        let info = seen.or_else(|| self.messages.probe_raw(selector, false))?;
        Some(self.unexpected_status(state, &info))
    }

    fn unexpected_status(&self, state: &mut State, info: &ProbeInfo) -> MxStatus {
        let bytes = length(info.total_bytes);
        MxStatus {
            code: StatusCode::SUCCESS,
            source: state.partners.address(self.place(), info.from),
            match_info: info.match_bits,
            msg_length: bytes,
            xfer_length: bytes,
            context: std::ptr::null_mut(),
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_iprobe(
    endpoint: EndpointHandle,
    match_info: u64,
    match_mask: u64,
    status: *mut MxStatus,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let selector = selector(match_info, match_mask)?;
            let found = endpoint.glance(|state| Ok(endpoint.find_unexpected(state, selector)))?;
            // SAFETY: the header's rules: null or valid.
            unsafe { crate::complete::tell(found, status, result) };
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_probe(
    endpoint: EndpointHandle,
    timeout: u32,
    match_info: u64,
    match_mask: u64,
    status: *mut MxStatus,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let selector = selector(match_info, match_mask)?;
            let found = endpoint.wait(end(timeout), Some(selector), |state| {
                endpoint.find_unexpected(state, selector)
            })?;
            // SAFETY: the header's rules: null or valid.
            unsafe { crate::complete::tell(found, status, result) };
            Ok(())
        })
    })
}
