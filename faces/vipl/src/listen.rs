//! Connection points of this process: each has a socket of the machine, by which it is told of requests.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use emp_face::boundary;
use emp_face::claim::Claim;
use emp_face::handles::Key;

use crate::abi::Return;
use crate::errors::lacking;
use crate::nic::Nic;
use crate::points::Point;
use crate::state::State;
use crate::wire::{BYTES_MAX, Message, Party};

/// Who waits at a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum For {
    Server,
    Peer(Key),
}

pub struct Listener {
    id: u64,
    of: For,
    claim: Claim,
    /// Requests, and where they come from.
    pub queue: VecDeque<(Party, Point)>,
}

/// Takes what arrives at the sockets, by a thread that is there once somebody has waited.
pub struct Gate {
    epoll: OwnedFd,
    thread: Mutex<Option<JoinHandle<()>>>,
    stop: AtomicBool,
}

/// How often the thread looks whether the node is there that everyone can find, and whether it is to end.
const LOOK_EVERY_MS: i32 = 100;

impl Gate {
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and belongs to no one else.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        Ok(Self { epoll, thread: Mutex::new(None), stop: AtomicBool::new(false) })
    }

    fn watch(&self, claim: &Claim, id: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: id };
        let (epoll, socket) = (self.epoll.as_raw_fd(), claim.descriptor());
        // SAFETY: the event is valid for the call.
        let added = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket, &raw mut event) };
        if added < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Ends what is watched: no datagram is taken in any more, and the name is free once the claim is dropped. While the thread asks the kernel
    /// what has arrived, that holds the socket for a moment, and would have the name taken for as long after it was closed; once this has
    /// returned it does not.
    fn shut(&self, claim: &Claim) {
        let (epoll, socket) = (self.epoll.as_raw_fd(), claim.descriptor());
        // SAFETY: no event is looked at when one is removed. It fails if it was not watched.
        unsafe {
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, socket, std::ptr::null_mut());
        }
        claim.shut();
    }

    /// Waits until something arrives somewhere; where.
    fn wait(&self) -> Vec<u64> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
        // SAFETY: the events are valid, and as many as said.
        let count = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), 16, LOOK_EVERY_MS)
        };
        events[..usize::try_from(count).unwrap_or(0)].iter().map(|event| event.u64).collect()
    }

    /// Has the thread, if this is the first that waits.
    fn start(&self, nic: &Arc<Nic>) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let nic = Arc::clone(nic);
            let body = move || boundary::enter(|| nic.attend(), |_| ());
            *thread = Some(std::thread::Builder::new().name("vipl-gate".into()).spawn(body)?);
        }
        Ok(())
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It has ended by a panic if this fails, and the library is broken already.
            let _ = thread.join();
        }
    }
}

impl State {
    pub fn listener_ids(&self) -> Vec<u64> {
        self.listeners.iter().map(|listener| listener.id).collect()
    }

    pub fn listener(&mut self, id: u64) -> Option<&mut Listener> {
        self.listeners.iter_mut().find(|listener| listener.id == id)
    }
}

impl Nic {
    /// Waits at a point from now on; returns by which number.
    pub fn listen(self: &Arc<Self>, point: Point, of: For) -> Result<u64, Return> {
        let claim = Claim::new(&point.socket()).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                lacking(&"somebody on this machine waits at this address already")
            }
            _ => lacking(&error),
        })?;
        self.gate.start(self).map_err(|error| lacking(&error))?;
        self.keep_door();
        let mut state = self.lock()?;
        let id = state.next_listener;
        state.next_listener += 1;
        self.gate.watch(&claim, id).map_err(|error| lacking(&error))?;
        state.listeners.push(Listener { id, of, claim, queue: VecDeque::new() });
        Ok(id)
    }

    /// Waits there no longer: requests that have come meanwhile hear that.
    pub fn unlisten(&self, state: &mut State, id: u64) {
        let Some(place) = state.listeners.iter().position(|listener| listener.id == id) else {
            return;
        };
        let listener = state.listeners.swap_remove(place);
        self.gate.shut(&listener.claim);
        let mut room = [0; BYTES_MAX];
        while let Some(bytes) = listener.claim.hear(&mut room) {
            if let Some(Message::Ask { from, .. }) = Message::decode(bytes) {
                self.no_match(state, &from);
            }
        }
        for (from, _) in listener.queue {
            self.no_match(state, &from);
        }
    }

    /// What the thread does.
    fn attend(&self) {
        while !self.gate.stop.load(Ordering::Relaxed) {
            for id in self.gate.wait() {
                self.hear(id);
            }
            if !self.lock_even_closed().listeners.is_empty() {
                self.keep_door();
            }
        }
    }

    fn hear(&self, id: u64) {
        let mut state = self.lock_even_closed();
        let mut room = [0; BYTES_MAX];
        while let Some(listener) = state.listener(id) {
            let of = listener.of;
            let Some(bytes) = listener.claim.hear(&mut room) else { break };
            // Any process of the machine may send anything here.
            let Some(Message::Ask { peer, from, local, .. }) = Message::decode(bytes) else {
                continue;
            };
            let taken = match of {
                For::Server if !peer => {
                    listener.queue.push_back((from.clone(), local));
                    true
                }
                For::Peer(key) if peer => self.asked_by_peer(&mut state, key, &from, &local),
                _ => false,
            };
            if !taken {
                self.no_match(&mut state, &from);
            }
        }
        drop(state);
        self.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends the thread, also if the test fails.
    struct Ended<'a>(&'a Gate);

    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.stop.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_no_longer_has_no_name() {
        let gate = Gate::new().unwrap();
        let name = format!("emp-test-gate-{}", std::process::id());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !gate.stop.load(Ordering::Relaxed) {
                    gate.wait();
                }
            });
            let _ended = Ended(&gate);
            // Without the care of `Gate::shut` it fails within 1,500.
            for round in 0..20_000 {
                let claim = Claim::new(name.as_bytes());
                let claim = claim.unwrap_or_else(|error| panic!("round {round}: {error}"));
                gate.watch(&claim, 1).unwrap();
                Claim::tell(name.as_bytes(), b"hello").unwrap();
                gate.shut(&claim);
            }
        });
    }
}
