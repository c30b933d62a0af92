//! `mx_get_info`.

use std::ffi::c_void;
use std::path::PathBuf;

use emp_host::Counters;

use crate::abi::*;
use crate::boards::Board;
use crate::endpoint::Endpoint;
use crate::errors::{call, call_on, enter};
use crate::identities::ENDPOINTS_MAX;
use crate::open;
use crate::process::library;
use crate::requests::REQUESTS_MAX;

/// `MX_LINE_SPEED`: Ethernet of whatever speed.
const SPEED_ETHERNET: u32 = 2;

/// Bytes that a small message has at most: such are copied beside their headers.
const PIO_SEND_MAX: u32 = 128;

/// An answer.
enum Answer {
    Number(u32),
    /// A list as C has it.
    Bytes(Vec<u8>),
    Text(String),
}

fn of_board(key: u32, number: u32, board: &Board) -> Answer {
    match key {
        7 => Answer::Bytes(counters(number)),
        8 => Answer::Text("EMP".into()),
        9 => Answer::Text(format!("{} on {}", board.way.kind.name(), board.way.interface.name)),
        10 => Answer::Text(serial(board)),
        11 => Answer::Number(1),
        14 => Answer::Number(numa_node(board)),
        15 => Answer::Number(NET_ETHER),
        _ => Answer::Number(SPEED_ETHERNET),
    }
}

/// The Ethernet address of the interface: what there is of a serial number.
fn serial(board: &Board) -> String {
    let mac = board.way.interface.mac.unwrap_or_default();
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn numa_node(board: &Board) -> u32 {
    let path: PathBuf =
        ["/sys/class/net", &board.way.interface.name, "device/numa_node"].iter().collect();
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // -1 where there is only one.
    text.trim().parse().unwrap_or(0)
}

/// What the endpoints of this process on a board have counted.
fn counters(board: u32) -> Vec<u8> {
    let endpoints = open::all();
    let all: Vec<Counters> = endpoints
        .iter()
        .filter(|endpoint| endpoint.board == board)
        .map(|endpoint| endpoint.face.node.counters())
        .collect();
    let none = Counters::default();
    let sums = none.iter().enumerate().map(|(place, (_, zero))| {
        let of = |one: &Counters| one.iter().nth(place).map_or(0, |(_, value)| value);
        zero + all.iter().map(of).sum::<u64>()
    });
    // They wrap, as 32 bits do.
    sums.flat_map(|sum| (sum as u32).to_ne_bytes()).collect()
}

fn labels() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, _) in Counters::default().iter() {
        let end = bytes.len() + MAX_STR_LEN;
        bytes.extend(name.bytes().take(MAX_STR_LEN - 1));
        bytes.resize(end, 0);
    }
    bytes
}

/// The board that a question is about: the endpoint's, or the one that is named.
///
/// # Safety
///
/// `input` is null or points to so many bytes.
unsafe fn board_asked(
    endpoint: Option<&Endpoint>,
    input: *const c_void,
    length: u32,
) -> Result<u32, Return> {
    if let Some(endpoint) = endpoint {
        return Ok(endpoint.board);
    }
    if input.is_null() {
        return Err(Return::BAD_INFO_VAL);
    }
    // SAFETY: not null, and as many bytes as the caller says.
    unsafe {
        match length {
            0 => Err(Return::BAD_INFO_LENGTH),
            // Programs that read Open-MX's sources pass a byte.
            1..4 => Ok(input.cast::<u8>().read().into()),
            _ => Ok(input.cast::<u32>().read_unaligned()),
        }
    }
}

/// # Safety
///
/// The pointers are null or of so many bytes.
unsafe fn answer(
    endpoint: Option<&Endpoint>,
    key: u32,
    (input, in_length): (*const c_void, u32),
) -> Result<Answer, Return> {
    let library = library()?;
    Ok(match key {
        1 => Answer::Number(library.boards.len() as u32),
        2 => {
            let nics = library.boards.iter().map(|board| board.nic);
            Answer::Bytes(nics.chain([0]).flat_map(u64::to_ne_bytes).collect())
        }
        3 => Answer::Number(ENDPOINTS_MAX),
        4 => Answer::Number(REQUESTS_MAX as u32),
        5 => Answer::Number(Counters::default().iter().count() as u32),
        6 => Answer::Bytes(labels()),
        7..=11 | 14..=16 => {
            // SAFETY: as the caller says.
            let number = unsafe { board_asked(endpoint, input, in_length) }?;
            let board = library.boards.get(number as usize).ok_or(Return::BAD_INFO_VAL)?;
            of_board(key, number, board)
        }
        12 => Answer::Number(PIO_SEND_MAX),
        13 => {
            let eager = library.settings.profile.eager_bytes;
            Answer::Number(u32::try_from(eager).unwrap_or(u32::MAX))
        }
        _ => return Err(Return::BAD_INFO_KEY),
    })
}

/// # Safety
///
/// The pointers are null or of so many bytes.
unsafe fn get_info(
    endpoint: Option<&Endpoint>,
    key: u32,
    input: (*const c_void, u32),
    (output, length): (*mut c_void, u32),
) -> Result<(), Return> {
    // SAFETY: as the caller says.
    let bytes = match unsafe { answer(endpoint, key, input) }? {
        Answer::Number(number) => number.to_ne_bytes().to_vec(),
        Answer::Bytes(bytes) => bytes,
        Answer::Text(text) => text.into_bytes().into_iter().chain([0]).collect(),
    };
    if output.is_null() {
        return Err(Return::BAD_INFO_VAL);
    }
    if (length as usize) < bytes.len() {
        return Err(Return::BAD_INFO_LENGTH);
    }
    // SAFETY: not null, with room for so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), output.cast::<u8>(), bytes.len()) };
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_get_info(
    endpoint: EndpointHandle,
    key: u32,
    input: *const c_void,
    in_length: u32,
    output: *mut c_void,
    out_length: u32,
) -> Return {
    enter(|| {
        let (input, output) = ((input, in_length), (output, out_length));
        if endpoint == 0 {
            // SAFETY: the header's rules: null or so many bytes.
            return call(None, || unsafe { get_info(None, key, input, output) });
        }
        // SAFETY: likewise.
        call_on(endpoint, |endpoint| unsafe { get_info(Some(endpoint), key, input, output) })
    })
}
