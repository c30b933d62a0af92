//! Opening and closing endpoints, and finding them by their handles.

use std::io;
use std::sync::Arc;

use emp_face::handles::{Key, Registry};
use emp_face::log;
use emp_face::node::{FaceNode, Identity, random_identity};
use emp_face::pins::Pinned;
use emp_face::pointers::{slice, store};
use emp_host::RegionOptions;

use crate::abi::*;
use crate::connect::{DOOR_BYTES, door};
use crate::endpoint::{CONTROL, Endpoint, MESSAGES};
use crate::errors::{call, call_on, enter};
use crate::identities::{ENDPOINT, ENDPOINTS_MAX, OPEN_MAX, PLACES, node_of, port_of};
use crate::process::{Library, library};

static ENDPOINTS: Registry<Endpoint> = Registry::new(ENDPOINT, OPEN_MAX);

/// The endpoint of a handle, if it is open.
#[inline]
pub fn endpoint(handle: EndpointHandle) -> Option<Pinned<Endpoint>> {
    ENDPOINTS.get(handle)
}

/// The endpoint at a place of the list.
#[inline]
pub fn at(place: u32) -> Option<Pinned<Endpoint>> {
    ENDPOINTS.at(place)
}

/// All that are open.
pub fn all() -> Vec<Arc<Endpoint>> {
    ENDPOINTS.all().into_iter().map(|(_, endpoint)| endpoint).collect()
}

/// What the parameters of an endpoint say.
#[derive(Default)]
struct Parameters {
    error_handler: Option<ErrorHandler>,
    context_id: ContextId,
}

/// Reads them.
///
/// # Safety
///
/// `first` is null or points to so many parameters.
unsafe fn parameters(first: *const Param, count: u32) -> Result<Parameters, Return> {
    if count != 0 && first.is_null() {
        return Err(Return::BAD_PARAM_LIST);
    }
    let mut parameters = Parameters::default();
    // SAFETY: as the caller says.
    for one in unsafe { slice(first, count as usize) } {
        match one.key {
            // SAFETY: the key says which member of the union was written.
            PARAM_ERROR_HANDLER => parameters.error_handler = unsafe { one.value.error_handler },
            // Unexpected messages are bounded by the node's memory, and senders wait: no message is lost.
            PARAM_UNEXP_QUEUE_MAX => {}
            PARAM_CONTEXT_ID => {
                // SAFETY: likewise.
                let context = unsafe { one.value.context_id };
                let end = u32::from(context.bits) + u32::from(context.shift);
                if context.bits > CONTEXT_ID_BITS_MAX || end > 64 {
                    return Err(Return::BAD_PARAM_VAL);
                }
                parameters.context_id = context;
            }
            _ => return Err(Return::BAD_PARAM_NAME),
        }
    }
    Ok(parameters)
}

/// Opens one endpoint of one board.
fn open_one(
    library: &Library,
    number: u32,
    id: u32,
    key: u32,
    parameters: &Parameters,
) -> Result<EndpointHandle, Return> {
    let board = library.board(number)?;
    let claim = PLACES.claim(board.nic, id).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Return::BUSY,
        _ => Return::NO_RESOURCES,
    })?;
    let failed = |what: &dyn std::fmt::Display| {
        log::warn(&format!("MX: endpoint {id} of board {number} is not to be had: {what}"));
        Return::NO_RESOURCES
    };
    let identity = Identity {
        node: node_of(board.nic, id),
        name: board.hostname.clone(),
        udp_port: port_of(id),
        needs_port: false,
    };
    let face = FaceNode::start(&board.way, &library.settings, identity)
        .map_err(|problem| failed(&problem))?;
    // Drawn like an identity: half of the bits will do.
    let session = random_identity().map_err(|error| failed(&error))?.0 as u32;
    let messages = face.node.endpoint(MESSAGES).map_err(|error| failed(&error))?;
    let control = face.node.endpoint(CONTROL).map_err(|error| failed(&error))?;
    control.want_notices();
    messages.want_notices();
    let mut memory = session.to_le_bytes().to_vec();
    memory.resize(DOOR_BYTES, 0);
    let options =
        RegionOptions { key: Some(door(key)), endpoint: CONTROL, ..RegionOptions::default() };
    let door = face.node.export_with(memory, options).map_err(|error| failed(&error))?;
    let endpoint = Arc::new(Endpoint::new(
        (face, messages, control, door),
        (id, number, key),
        session,
        (parameters.context_id, parameters.error_handler),
        claim,
    ));
    let Some(handle) = ENDPOINTS.insert(Arc::clone(&endpoint)) else {
        close(&endpoint);
        return Err(failed(&"too many endpoints are open in this process"));
    };
    if let Some(key) = Key::of(handle, ENDPOINT) {
        endpoint.set_place(key.place);
    }
    Ok(handle)
}

fn open(
    (board, id, key): (u32, u32, u32),
    parameters: &Parameters,
) -> Result<EndpointHandle, Return> {
    let library = library()?;
    if id != ANY && id >= ENDPOINTS_MAX {
        return Err(Return::BAD_ENDPOINT);
    }
    let boards = match board {
        ANY => 0..library.boards.len() as u32,
        one => {
            library.board(one)?;
            one..one + 1
        }
    };
    let mut failure = Return::BUSY;
    for board in boards {
        let ids = if id == ANY { 0..ENDPOINTS_MAX } else { id..id + 1 };
        for id in ids {
            match open_one(&library, board, id, key, parameters) {
                Err(Return::BUSY) => {}
                Err(error) => {
                    failure = error;
                    break;
                }
                opened => return opened,
            }
        }
    }
    Err(failure)
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_open_endpoint(
    board: u32,
    id: u32,
    key: u32,
    first: *const Param,
    count: u32,
    endpoint: *mut EndpointHandle,
) -> Return {
    enter(|| {
        call(None, || {
            library()?;
            // SAFETY: the header's rules: so many parameters.
            let parameters = unsafe { parameters(first, count) }?;
            if endpoint.is_null() {
                return Err(Return::BAD_ENDPOINT);
            }
            let handle = open((board, id, key), &parameters)?;
            // SAFETY: not null, and by the header's rules valid.
            unsafe { store(endpoint, handle) };
            Ok(())
        })
    })
}

/// Closes an endpoint: its requests are dropped, and threads that wait for them leave.
fn close(endpoint: &Endpoint) {
    let given_up = {
        let mut state = endpoint.lock_even_closed();
        while state.handling.is_some() {
            state = endpoint.resumed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        state.closed = true;
        // Both halves of each connect that somebody has given up, or that goes on.
        2 * state.connects.len()
    };
    endpoint.resumed.notify_all();
    endpoint.waiters.tell(&endpoint.face.node, false);
    // What is in flight no longer uses the application's memory once this has returned.
    endpoint.face.close_but_for(given_up);
}

/// Closes all of them.
pub fn close_all() {
    for (handle, _) in ENDPOINTS.all() {
        if let Some(endpoint) = ENDPOINTS.remove(handle) {
            close(&endpoint);
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_close_endpoint(handle: EndpointHandle) -> Return {
    enter(|| {
        call_on(handle, |endpoint| {
            if Endpoint::is_handling(&*endpoint.lock()?) {
                return Err(Return::CLOSE_IN_HANDLER);
            }
            let removed = ENDPOINTS.remove(handle).ok_or(Return::BAD_ENDPOINT)?;
            close(&removed);
            Ok(())
        })
    })
}
