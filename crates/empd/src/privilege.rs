//! What the service may do: open raw sockets, and nothing else that others may not. Taken from it before any client is heard.

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{self, User};

/// Descriptors that one client takes at most: its connection, its socket or memory, its bell.
const PER_CLIENT: u64 = 3;

/// Descriptors that the service takes for itself, with room.
const OWN: u64 = 64;

/// Becomes `user`, if root starts it, and keeps CAP_NET_RAW alone. To be called while there is one thread, as capabilities are each
/// thread's own.
///
/// # Errors
///
/// One line: what is missing, and where to get it.
pub fn confine(user: Option<&str>) -> Result<(), String> {
    if let Some(name) = user
        && unistd::geteuid().is_root()
    {
        become_user(name)?;
    }
    let needed = Capability::CAP_NET_RAW;
    if !caps::has_cap(None, CapSet::Permitted, needed).unwrap_or(false) {
        return Err("raw sockets need CAP_NET_RAW: start it as root, or give it the capability \
                    (systemd's AmbientCapabilities=CAP_NET_RAW)"
            .into());
    }
    let only = CapsHashSet::from([needed]);
    let failed = |error: caps::errors::CapsError| format!("giving up capabilities: {error}");
    // Refused to who may not (CAP_SETPCAP): then what the bounding set has is of use to no one, as nothing is executed.
    for capability in caps::all() {
        let _ = caps::drop(None, CapSet::Bounding, capability);
    }
    caps::clear(None, CapSet::Inheritable).map_err(failed)?;
    caps::set(None, CapSet::Effective, &only).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &only).map_err(failed)?;
    // Kernels before 4.3 have no ambient set.
    let _ = caps::clear(None, CapSet::Ambient);
    Ok(())
}

/// The user of a name.
///
/// # Errors
///
/// One line: there is none.
pub fn user(name: &str) -> Result<User, String> {
    let found = User::from_name(name).map_err(|error| format!("user `{name}`: {error}"))?;
    found.ok_or_else(|| format!("user: there is no user `{name}`: make it, or name another"))
}

fn become_user(name: &str) -> Result<(), String> {
    let found = user(name)?;
    let failed = |error: nix::Error| format!("becoming user `{name}`: {error}");
    caps::securebits::set_keepcaps(true)
        .map_err(|error| format!("keeping a capability: {error}"))?;
    unistd::setgroups(&[found.gid]).map_err(failed)?;
    unistd::setresgid(found.gid, found.gid, found.gid).map_err(failed)?;
    unistd::setresuid(found.uid, found.uid, found.uid).map_err(failed)
}

/// Raises the limit of descriptors as far as it may. False: so many clients take more than there may be.
#[must_use]
pub fn raise_descriptors(clients: usize) -> bool {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return true };
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    // The configuration may name any number.
    raised && (clients as u64).saturating_mul(PER_CLIENT).saturating_add(OWN) <= hard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_clients_can_be_asked_for() {
        assert!(!raise_descriptors(usize::MAX));
        assert!(raise_descriptors(0));
        assert!(user("root").is_ok());
        assert_eq!(
            user("no-such-user"),
            Err("user: there is no user `no-such-user`: make it, or name another".into())
        );
    }
}
