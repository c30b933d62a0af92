//! Imports: buffers of other processes that this one may send to. A trusted third party makes them in VMMC; here it is the
//! exporter's library ([`crate::control`]), which hands the buffer's key to those who are permitted.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use emp_face::handles::Key;
use emp_face::machines::is_number;
use emp_face::pointers::{look, store};
use emp_host::{NodeId, Status};

use crate::abi::{Code, ImportInfo, PROCESSES_MAX, Process, Proxy};
use crate::control::Answer;
use crate::errors::{call, enter};
use crate::library::{Library, PROCESSES, State, end};
use crate::proxies::Name;

/// The pause before an exporter is asked again that has not exported the buffer yet; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// What a blocked importer costs its exporter at most: 30 questions a second.
const PAUSE_MAX: Duration = Duration::from_millis(32);

/// A question that was delivered and not answered for so long is repeated: the answer is lost only if the exporter had no room
/// for it.
const ANSWER_AFTER: Duration = Duration::from_millis(500);

/// What the exporter has said of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub node: NodeId,
    pub key: u64,
    pub generation: u32,
    pub bytes: u64,
}

/// Where an import stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The exporter is asked, or will be at that time.
    Asking { next: Instant, pause: Duration },
    /// It can be sent to.
    Mapped(Mapping),
    /// It cannot, for this reason.
    Failed(Code),
}

/// One of them.
pub struct Import {
    pub from: Process,
    pub node: NodeId,
    pub id: u32,
    /// Its place among those that this process sends to.
    pub peer: usize,
    pub stage: Stage,
    /// A question is under way.
    pub asked: bool,
    /// Where the application is told of the end: address of its number of bytes.
    tell: Option<usize>,
}

impl State {
    /// An import is over, or is to be asked for again.
    fn import_ended(&mut self, name: Name, stage: Stage) {
        let Some(import) = self.imports.get_mut(name) else { return };
        let was_asking = matches!(import.stage, Stage::Asking { .. });
        import.stage = stage;
        let size = match stage {
            Stage::Asking { .. } => return,
            // No buffer is longer than a proxy has addresses.
            Stage::Mapped(mapping) => mapping.bytes as i64,
            Stage::Failed(code) => code.0.into(),
        };
        self.asking -= usize::from(was_asking);
        if let Some(tell) = import.tell.take() {
            let place: *mut i64 = std::ptr::with_exposed_provenance_mut(tell);
            // SAFETY: the header's rules: valid and aligned until it was written or the import was given up, and read meanwhile
            // as a number that changes.
            unsafe { AtomicI64::from_ptr(place) }.store(size, Ordering::Release);
        }
    }
}

impl Library {
    /// Begins to import.
    fn import(&self, from: *const Process, id: u32, tell: Option<usize>) -> Result<Name, Code> {
        // SAFETY: the header's rules: null or valid.
        let from = *unsafe { look(from) }.ok_or(Code::ARGUMENT)?;
        if !is_number(from.node) || from.number >= PROCESSES_MAX {
            return Err(Code::ARGUMENT);
        }
        let node = PROCESSES.node(from.node, from.number);
        let mut state = self.lock()?;
        let peer = state.peers.place(node, self.short_max);
        let stage = Stage::Asking { next: Instant::now(), pause: PAUSE_MIN };
        let from = Process { zero: 0, ..from };
        let import = Import { from, node, id, peer, stage, asked: false, tell };
        let name = state.imports.insert(import).ok_or(Code::NO_RESOURCES)?;
        state.asking += 1;
        if node == self.face.node.id() {
            // Its own: nobody need be asked.
            let answer = state.exports.answer(from, id);
            self.answered(&mut state, name, node, answer);
        } else {
            self.face.learn(&PROCESSES.whereabouts(from.node, from.number));
        }
        self.ask_due(&mut state);
        drop(state);
        // It says when it has to ask again.
        self.alarm.ring();
        Ok(name)
    }

    /// Asks the exporters that are to be asked now. Says when the next one is.
    pub fn ask_due(&self, state: &mut State) -> Option<Instant> {
        if state.asking == 0 {
            return None;
        }
        let now = Instant::now();
        let mut first: Option<Instant> = None;
        for name in state.imports.names() {
            let Some(import) = state.imports.get_mut(name) else { continue };
            let Stage::Asking { next, pause } = import.stage else { continue };
            if import.asked {
                continue;
            }
            let mut due = next;
            if next <= now {
                let (node, id) = (import.node, import.id);
                if self.ask(state, name, node, id) {
                    continue;
                }
                // The node has no room just now.
                due = now + pause;
                if let Some(import) = state.imports.get_mut(name) {
                    import.stage = Stage::Asking { next: due, pause };
                }
            }
            first = Some(first.map_or(due, |first| first.min(due)));
        }
        first
    }

    /// A question has arrived, or has not.
    pub fn ask_ended(&self, state: &mut State, ask: Key, status: Status) {
        let Some(name) = state.mailbox.asked(ask) else { return };
        let Some(import) = state.imports.get_mut(name) else { return };
        import.asked = false;
        if let Stage::Asking { next, pause } = import.stage {
            let now = Instant::now();
            // An answer may have come before this, and have said when to ask again.
            let next = match Code::of(status) {
                None if next > now => next,
                None => now + ANSWER_AFTER,
                // The exporter may be started any time: the search alone took seconds.
                Some(_) => now + pause,
            };
            import.stage = Stage::Asking { next, pause };
        }
        self.alarm.ring();
    }

    /// An exporter has answered.
    pub fn answered(
        &self,
        state: &mut State,
        name: Name,
        node: NodeId,
        answer: Result<Answer, Code>,
    ) {
        let Some(import) = state.imports.get_mut(name) else { return };
        let Stage::Asking { pause, .. } = import.stage else { return };
        if import.node != node {
            return;
        }
        let stage = match answer {
            Ok(Answer { key, generation, bytes }) => {
                Stage::Mapped(Mapping { node, key, generation, bytes })
            }
            Err(Code::NO_BUFFER) => {
                let next = Instant::now() + pause;
                Stage::Asking { next, pause: (2 * pause).min(PAUSE_MAX) }
            }
            Err(code) => Stage::Failed(code),
        };
        state.import_ended(name, stage);
        self.alarm.ring();
    }

    fn unimport(&self, name: Name) -> Result<(), Code> {
        let mut state = self.lock()?;
        let import = state.imports.remove(name).ok_or(Code::PROXY)?;
        state.asking -= usize::from(matches!(import.stage, Stage::Asking { .. }));
        // What waits to be sent there fails.
        self.send_waiting(&mut state, import.peer);
        drop(state);
        self.tell(true);
        Ok(())
    }
}

/// The import that an address is of.
fn named(proxy: Proxy) -> Result<Name, Code> {
    Name::of(proxy).map(|(name, _)| name).ok_or(Code::PROXY)
}

/// Waits for the end of an import; gives it up if it fails.
fn finish(library: &Library, name: Name, timeout: u32) -> Result<u64, Code> {
    let over = |state: &mut State| {
        let import = state.imports.get_mut(name).ok_or(Code::PROXY)?;
        match import.stage {
            Stage::Asking { .. } => Ok(None),
            Stage::Mapped(mapping) => Ok(Some(mapping.bytes)),
            Stage::Failed(code) => Err(code),
        }
    };
    let found = library.wait(end(timeout), over).and_then(|found| found.ok_or(Code::TIMEOUT));
    if found.is_err() {
        // It may be gone with the library.
        let _ = library.unimport(name);
    }
    found
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_import(
    from: *const Process,
    id: u32,
    timeout: u32,
    proxy: *mut Proxy,
    bytes: *mut u64,
) -> Code {
    enter(|| {
        call(|library| {
            if proxy.is_null() {
                return Err(Code::ARGUMENT);
            }
            let name = library.import(from, id, None)?;
            let found = finish(library, name, timeout)?;
            // SAFETY: the header's rules: valid; `bytes` may be null.
            unsafe {
                store(proxy, name.proxy());
                store(bytes, found);
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_import_start(
    from: *const Process,
    id: u32,
    proxy: *mut Proxy,
    bytes: *mut i64,
) -> Code {
    enter(|| {
        call(|library| {
            if proxy.is_null() || bytes.is_null() || !bytes.is_aligned() || !proxy.is_aligned() {
                return Err(Code::ARGUMENT);
            }
            // SAFETY: not null, aligned, and by the header's rules valid.
            unsafe { AtomicI64::from_ptr(bytes) }.store(0, Ordering::Release);
            let name = library.import(from, id, Some(bytes.expose_provenance()))?;
            // SAFETY: as above. It stands for the import from now on, so that it can be given up.
            unsafe { AtomicU64::from_ptr(proxy) }.store(name.proxy(), Ordering::Release);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_unimport(proxy: Proxy) -> Code {
    enter(|| call(|library| library.unimport(named(proxy)?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_import_info(proxy: Proxy, info: *mut ImportInfo) -> Code {
    enter(|| {
        call(|library| {
            if info.is_null() {
                return Err(Code::ARGUMENT);
            }
            let name = named(proxy)?;
            let mut state = library.lock()?;
            let import = state.imports.get_mut(name).ok_or(Code::PROXY)?;
            let (generation, bytes, code) = match import.stage {
                Stage::Asking { .. } => (0, 0, Code::PENDING),
                Stage::Mapped(Mapping { generation, bytes, .. }) => (generation, bytes, Code::OK),
                Stage::Failed(code) => (0, 0, code),
            };
            let (from, id) = (import.from, import.id);
            let found = ImportInfo { from, id, generation, bytes, state: code.0, zero: 0 };
            // SAFETY: not null, and by the header's rules valid.
            unsafe { store(info, found) };
            Ok(())
        })
    })
}
