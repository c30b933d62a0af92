//! The service thread: it answers those who import, asks for what this process imports, and runs handlers while the application
//! computes. It sleeps until one of that is to be done; what arrives for others wakes it not.

use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emp_face::boundary;
use emp_host::{Alarm, with_signals_blocked};

use crate::library::{CROWDED_SLICE, Library};

/// Starts it. It ends with the library.
///
/// # Errors
///
/// The system has no thread for it.
pub fn start(library: &Arc<Library>) -> std::io::Result<()> {
    let (alarm, weak) = (Arc::clone(&library.alarm), Arc::downgrade(library));
    let thread = std::thread::Builder::new().name("vmmc".into());
    // The application's signal handlers run in its own threads.
    let body = move || boundary::enter(|| serve(&alarm, &weak), |_| ());
    let started = with_signals_blocked(|| thread.spawn(body))?;
    *library.service.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
    Ok(())
}

/// Waits for its end, once the library is ending: from then on it uses nothing any more.
pub fn stop(library: &Library) {
    let thread = library.service.lock().unwrap_or_else(PoisonError::into_inner).take();
    // It cannot have panicked: see `boundary`.
    thread.map(JoinHandle::join);
}

/// The library may be dropped while this sleeps.
fn serve(alarm: &Alarm, library: &Weak<Library>) {
    loop {
        alarm.hush();
        let due = {
            let Some(library) = library.upgrade().filter(|library| !library.is_ending()) else {
                return;
            };
            work(&library)
        };
        sleep(alarm, due);
    }
}

/// Does what is to be done. Says when there is more, though nothing arrives.
fn work(library: &Library) -> Option<Instant> {
    let mut state = library.lock().ok()?;
    loop {
        let news = library.take(&mut state);
        library.tell(news);
        let (after, handled) = library.handle(state);
        state = after;
        if handled == 0 {
            break;
        }
    }
    let lacks = Library::lacks_room(&state) && library.make_room(&mut state).is_err();
    let again = (lacks || state.peers.crowded != 0).then(|| Instant::now() + CROWDED_SLICE);
    let due = library.ask_due(&mut state);
    [again, due].into_iter().flatten().min()
}

fn sleep(alarm: &Alarm, due: Option<Instant>) {
    let left = due.map(|due| due.saturating_duration_since(Instant::now()));
    // Rounded up, so that it is due when this returns.
    let left = left.map_or(-1, |left| (left + Duration::from_millis(1)).as_millis() as i32);
    let mut entry = libc::pollfd { fd: alarm.descriptor(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives for the call. Whatever it returns, the caller looks.
    unsafe { libc::poll(&raw mut entry, 1, left) };
}
