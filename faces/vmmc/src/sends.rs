//! Deposit sends: bytes of this process go into an imported buffer.
//!
//! What a process sends to another one arrives in order. The frames of one put may arrive in any, and those of the next put
//! before the last of them; so a put that takes several frames travels alone: what is sent behind it waits until it is there.
//! Puts of one frame follow each other at once, as the target takes them in their order.

use std::ffi::{c_int, c_void};

use emp_face::handles::Key;
use emp_face::pointers::{look, store};
use emp_host::{
    CompletionMode, PostError, PutDescriptor, RawOp, RemoteRegion, Segment, SegmentList,
};

use crate::abi::{Code, Proxy, SendHandle};
use crate::errors::{call, enter};
use crate::imports::{Mapping, Stage as ImportStage};
use crate::library::{DATA, Library, NOTICES, SEND, SHORT, State, end};
use crate::proxies::{Name, is_proxy};

/// Sends after which the node is asked what has ended, if no call did: its completions are bounded, and so is what they hold.
const UNASKED_MAX: u32 = 64;

/// A send that was not over when it was posted.
pub struct Send {
    pub peer: usize,
    pub import: Name,
    target: Target,
    stage: Stage,
    /// Its end is asked for by nobody.
    forgotten: bool,
}

/// Where bytes go, and which.
#[derive(Clone, Copy)]
struct Target {
    mapping: Mapping,
    offset: u64,
    from: Segment,
    notify: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Flying,
    Over(Code),
}

impl Send {
    /// It is over. True if nobody asks for that.
    pub fn end(&mut self, code: Code) -> bool {
        self.stage = Stage::Over(code);
        self.forgotten
    }
}

/// What has become of a send.
enum Begun {
    Over,
    Waits(Key),
}

impl Library {
    /// Posts a put.
    #[inline]
    fn put(
        &self,
        target: &Target,
        completion: CompletionMode,
        context: u64,
    ) -> Result<RawOp, PostError> {
        let Target { mapping, offset, from, notify } = *target;
        let put = PutDescriptor {
            target: RemoteRegion {
                to: mapping.node,
                to_endpoint: NOTICES,
                key: mapping.key,
                generation: mapping.generation,
                offset,
            },
            endpoint: DATA,
            segments: if from.bytes == 0 { SegmentList::empty() } else { SegmentList::one(from) },
            immediate: notify.then_some(offset),
            completion,
            context,
        };
        // SAFETY: the header's rules: the bytes stay until the send is over; one that is copied is over at once.
        unsafe { self.data.post_put_raw(put) }
    }

    /// Begins a send.
    #[inline]
    fn send(
        &self,
        state: &mut State,
        from: *const c_void,
        to: Proxy,
        bytes: usize,
        notify: bool,
    ) -> Result<Begun, Code> {
        let address = from.expose_provenance() as u64;
        if bytes != 0 && from.is_null() || is_proxy(address) {
            return Err(Code::ARGUMENT);
        }
        let (name, offset) = Name::of(to).ok_or(Code::PROXY)?;
        let import = state.imports.get_mut(name).ok_or(Code::PROXY)?;
        let mapping = match import.stage {
            ImportStage::Mapped(mapping) => mapping,
            ImportStage::Asking { .. } => return Err(Code::PENDING),
            ImportStage::Failed(code) => return Err(code),
        };
        let place = import.peer;
        let bytes = bytes as u64;
        if offset.checked_add(bytes).is_none_or(|end| end > mapping.bytes) {
            return Err(Code::BOUNDS);
        }
        if bytes == 0 && !notify {
            return Ok(Begun::Over);
        }
        state.unasked += 1;
        if state.unasked > UNASKED_MAX {
            let news = self.progress(state);
            self.tell(news);
        }
        let target = Target { mapping, offset, from: Segment { address, bytes }, notify };
        let peer = state.peers.at(place);
        if !peer.long && peer.waiting.is_empty() && bytes <= peer.short_max as u64 {
            let key = Key { place: name.place, generation: name.generation };
            match self.put(&target, CompletionMode::Buffered, key.handle(SHORT)) {
                Ok(_) => {
                    peer.flying += 1;
                    return Ok(Begun::Over);
                }
                Err(PostError::Busy | PostError::PoolFull | PostError::TooLong) => {}
                Err(error) => return Err(Code::refused(error)),
            }
        }
        let send =
            Send { peer: place, import: name, target, stage: Stage::Waiting, forgotten: false };
        let key = state.sends.0.insert(send).map_err(|_| Code::NO_RESOURCES)?;
        state.peers.wait(place, key);
        self.send_waiting(state, place);
        Ok(Begun::Waits(key))
    }

    /// Posts what waits for a process, in order, as far as it may.
    pub fn send_waiting(&self, state: &mut State, place: usize) {
        while let Some(key) = state.peers.at(place).waiting.front().copied() {
            let Some(send) = state.sends.0.get_mut(key) else {
                state.peers.next(place);
                continue;
            };
            let Some(import) = state.imports.get_mut(send.import) else {
                self.over(state, place, key, Code::PROXY);
                continue;
            };
            if let ImportStage::Failed(code) = import.stage {
                self.over(state, place, key, code);
                continue;
            }
            let peer = state.peers.at(place);
            if peer.long {
                return;
            }
            let mut short = send.target.from.bytes <= peer.short_max as u64;
            let context = Key { place: send.import.place, generation: send.import.generation };
            let mut posted = Err(PostError::TooLong);
            if short {
                posted = self
                    .put(&send.target, CompletionMode::Buffered, context.handle(SHORT))
                    .map(|_| ());
            }
            if let Err(PostError::TooLong) = posted {
                short = false;
                posted = self.put(&send.target, CompletionMode::Auto, key.handle(SEND)).map(|_| ());
            }
            match posted {
                Err(PostError::Busy | PostError::PoolFull) => return,
                Err(error) => self.over(state, place, key, Code::refused(error)),
                Ok(()) if short => {
                    peer.flying += 1;
                    self.over(state, place, key, Code::OK);
                }
                Ok(()) => {
                    (peer.flying, peer.long) = (peer.flying + 1, true);
                    send.stage = Stage::Flying;
                    state.peers.next(place);
                }
            }
        }
    }

    /// The first send that waits for a process is over.
    fn over(&self, state: &mut State, place: usize, key: Key, code: Code) {
        state.peers.next(place);
        if let Some(send) = state.sends.0.get_mut(key)
            && send.end(code)
        {
            state.sends.0.remove(key);
        }
    }

    /// Sends, and returns when the source may be used again.
    #[inline]
    fn send_now(
        &self,
        from: *const c_void,
        to: Proxy,
        bytes: usize,
        notify: bool,
    ) -> Result<(), Code> {
        let begun = self.send(&mut *self.lock()?, from, to, bytes, notify)?;
        let Begun::Waits(key) = begun else { return Ok(()) };
        let code = self.wait(None, |state| Ok(take(state, key)))?;
        code.map_or(Err(Code::FINALIZED), Code::result)
    }
}

impl Code {
    fn result(self) -> Result<(), Self> {
        if self == Self::OK { Ok(()) } else { Err(self) }
    }
}

/// Takes a send that is over.
fn take(state: &mut State, key: Key) -> Option<Code> {
    let Stage::Over(code) = state.sends.0.get(key)?.stage else { return None };
    state.sends.0.remove(key);
    Some(code)
}

/// The send that C names.
///
/// # Errors
///
/// There is none: null, never, or asked for already.
fn named(state: &State, request: *mut SendHandle) -> Result<Key, Code> {
    // SAFETY: the header's rules: null or valid.
    let handle = unsafe { look(request) }.copied().unwrap_or(0);
    let key = Key::of(handle, SEND).ok_or(Code::REQUEST)?;
    state.sends.0.get(key).filter(|send| !send.forgotten).map(|_| key).ok_or(Code::REQUEST)
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_send(from: *const c_void, to: Proxy, bytes: usize) -> Code {
    enter(|| call(|library| library.send_now(from, to, bytes, false)))
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_send_notify(from: *const c_void, to: Proxy, bytes: usize) -> Code {
    enter(|| call(|library| library.send_now(from, to, bytes, true)))
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_send_start(
    from: *const c_void,
    to: Proxy,
    bytes: usize,
    notify: c_int,
    request: *mut SendHandle,
) -> Code {
    enter(|| {
        call(|library| {
            if request.is_null() {
                return Err(Code::ARGUMENT);
            }
            let mut state = library.lock()?;
            let handle = match library.send(&mut state, from, to, bytes, notify != 0)? {
                Begun::Over => 0,
                Begun::Waits(key) => match take(&mut state, key) {
                    Some(code) => code.result().map(|()| 0)?,
                    None => key.handle(SEND),
                },
            };
            // SAFETY: not null, and by the header's rules valid.
            unsafe { store(request, handle) };
            Ok(())
        })
    })
}

/// Asks for the end of a send until `end`.
fn finish(library: &Library, request: *mut SendHandle, timeout: Option<u32>) -> Result<(), Code> {
    if request.is_null() {
        return Err(Code::REQUEST);
    }
    // SAFETY: not null, and by the header's rules valid.
    if unsafe { request.read() } == 0 {
        // It was over when it was started.
        return library.lock().map(|_| ());
    }
    let key = named(&*library.lock()?, request)?;
    let code = match timeout {
        Some(timeout) => library.wait(end(timeout), |state| {
            named(state, request)?;
            Ok(take(state, key))
        })?,
        None => {
            let mut state = library.lock()?;
            let news = library.progress(&mut state);
            library.tell(news);
            take(&mut state, key)
        }
    };
    let Some(code) = code else {
        return Err(if timeout.is_some() { Code::TIMEOUT } else { Code::PENDING });
    };
    // SAFETY: as above.
    unsafe { store(request, 0) };
    code.result()
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_send_test(request: *mut SendHandle) -> Code {
    enter(|| call(|library| finish(library, request, None)))
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_send_wait(request: *mut SendHandle, timeout: u32) -> Code {
    enter(|| call(|library| finish(library, request, Some(timeout))))
}

/// Waits until everything that was sent has arrived, or has failed.
#[unsafe(no_mangle)]
pub extern "C" fn vmmc_drain(timeout: u32) -> Code {
    enter(|| {
        call(|library| {
            let idle = |state: &mut State| Ok(state.peers.are_idle().then_some(()));
            library.wait(end(timeout), idle)?.ok_or(Code::TIMEOUT)
        })
    })
}
