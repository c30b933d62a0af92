//! What systemd is told, where it runs the service: that it is ready, that it lives, that it stops; and the socket that it made for it.
//! Without systemd all of this does nothing.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::Duration;

use emp_link::service::socket;
use sd_notify::NotifyState;

/// The time within which systemd wants to hear of the service, if it does.
#[must_use]
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// Connections are taken.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// It lives.
pub fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// It was told to end.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    // Nobody listens where there is no systemd, and where there is its time limit says what failed.
    let _ = sd_notify::notify(states);
}

/// The listening socket that systemd hands over, if it does. To be called once, before anything else opens a descriptor.
///
/// # Errors
///
/// One line, if what it hands over is no such socket.
pub fn socket() -> Result<Option<OwnedFd>, String> {
    let handed = sd_notify::listen_fds().map_err(|error| format!("systemd's sockets: {error}"))?;
    let sockets: Vec<OwnedFd> = handed
        // SAFETY: systemd's protocol says that these descriptors are open and this process's to use, and this is the only place that takes
        // them, once.
        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        .collect();
    match <[OwnedFd; 1]>::try_from(sockets) {
        Ok([socket]) if socket::listens(socket.as_fd()) => Ok(Some(socket)),
        Ok(_) => Err("systemd's socket is not of the kind ListenSequentialPacket=".into()),
        Err(none) if none.is_empty() => Ok(None),
        Err(several) => Err(format!("systemd hands over {} sockets, not one", several.len())),
    }
}
