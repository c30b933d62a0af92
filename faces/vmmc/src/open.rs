//! Initializing and finalizing; who this process is.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use emp_face::log;
use emp_face::machines::{Claim, number_of, own_name};
use emp_face::node::{FaceNode, Identity};
use emp_face::pointers::store;
use emp_face::settings::{Settings, environment};
use emp_face::ways::{Way, ways};
use emp_host::Alarm;

use crate::abi::{ANY_PROCESS, Code, PROCESSES_MAX, Process};
use crate::errors::{call, enter};
use crate::library::{CONTROL, DATA, LIBRARY, Library, NOTICES, PROCESSES};
use crate::notify::is_handling;
use crate::service;

/// The way that frames take, and the number of this machine there.
fn way(settings: &Settings) -> Result<(Way, u64), Code> {
    let number = |way: &Way| number_of(way.ip(), way.interface.mac.filter(|mac| *mac != [0; 6]));
    let found = ways(settings).into_iter().map(|way| (number(&way), way));
    let (number, way) = found.into_iter().find(|(number, _)| *number != 0).ok_or_else(|| {
        log::warn("VMMC: no interface is up that EMP can use (EMP_LINK, EMP_INTERFACE)");
        Code::NO_NETWORK
    })?;
    Ok((way, number))
}

/// Takes a process number of this machine.
fn claim(machine: u64, wanted: u32) -> Result<(u32, Claim), Code> {
    let numbers = match wanted {
        ANY_PROCESS => 0..PROCESSES_MAX,
        one if one < PROCESSES_MAX => one..one + 1,
        _ => return Err(Code::ARGUMENT),
    };
    for number in numbers {
        match PROCESSES.claim(machine, number) {
            Ok(claim) => return Ok((number, claim)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(_) => return Err(Code::NO_RESOURCES),
        }
    }
    Err(Code::PROCESS_IN_USE)
}

fn start(wanted: u32) -> Result<Arc<Library>, Code> {
    let settings = Settings::read(environment).map_err(|problem| {
        log::error(&problem);
        Code::SETTINGS
    })?;
    let (way, machine) = way(&settings)?;
    let (number, claim) = claim(machine, wanted)?;
    let failed = |what: &dyn std::fmt::Display| {
        log::warn(&format!("VMMC: process {number} cannot be started: {what}"));
        Code::NO_RESOURCES
    };
    let name = settings.name.clone().unwrap_or_else(own_name);
    let identity = Identity {
        node: PROCESSES.node(machine, number),
        name: name.clone(),
        udp_port: PROCESSES.port(number),
        needs_port: false,
    };
    let face = FaceNode::start(&way, &settings, identity).map_err(|problem| failed(&problem))?;
    let open = |number| face.node.endpoint(number).map_err(|error| failed(&error));
    let endpoints = [open(DATA)?, open(CONTROL)?, open(NOTICES)?];
    let alarm = Arc::new(Alarm::new().map_err(|error| failed(&error))?);
    endpoints[2].want_notices();
    endpoints[1..].iter().for_each(|endpoint| endpoint.add_alarm(&alarm));
    let library = Arc::new(Library::new((machine, number, name), face, endpoints, alarm, claim));
    let room = library.make_room(&mut library.lock_even_closed());
    room.map_err(|error| failed(&format_args!("{error:?}")))?;
    service::start(&library).map_err(|error| failed(&error))?;
    Ok(library)
}

/// Ends what the process has: calls of other threads return, and nothing writes to its buffers any more.
fn end(library: &Library) {
    let given_up = {
        let mut state = library.lock_even_closed();
        while state.notices.handling.is_some() {
            state = library.resumed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        state.closed = true;
        // Questions to exporters that nobody waits for any more.
        state.mailbox.asking()
    };
    library.ending.store(true, Ordering::Release);
    library.alarm.ring();
    library.resumed.notify_all();
    library.waiters.tell(&library.face.node, false);
    service::stop(library);
    library.face.close_but_for(given_up);
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_init(number: u32) -> Code {
    enter(|| {
        // One at a time.
        static STARTING: Mutex<()> = Mutex::new(());
        let _turn = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if LIBRARY.get().is_some() {
            return Code::INITIALIZED;
        }
        match start(number) {
            Ok(started) => LIBRARY.put(started).map_or(Code::INITIALIZED, |()| Code::OK),
            Err(code) => code,
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_finalize() -> Code {
    enter(|| {
        call(|library| {
            if is_handling(&*library.lock()?) {
                return Err(Code::IN_HANDLER);
            }
            let ended = LIBRARY.take().ok_or(Code::NOT_INITIALIZED)?;
            end(&ended.object());
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_self(process: *mut Process) -> Code {
    enter(|| {
        call(|library| {
            if process.is_null() {
                return Err(Code::ARGUMENT);
            }
            let own = Process { node: library.machine, number: library.number, zero: 0 };
            // SAFETY: not null, and by the header's rules valid.
            unsafe { store(process, own) };
            Ok(())
        })
    })
}

/// Size of the pages that VMMC's mappings were made of; nothing here depends on it.
#[unsafe(no_mangle)]
pub extern "C" fn vmmc_page_size() -> usize {
    enter(|| 4096)
}

/// Likewise, of the words that its sizes were counted in.
#[unsafe(no_mangle)]
pub extern "C" fn vmmc_word_size() -> usize {
    enter(|| 4)
}
