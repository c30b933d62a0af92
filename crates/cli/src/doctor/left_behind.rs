//! Names that dead processes have left: sockets of shared memory, and labs.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::finding::Finding;
use crate::lab;
use crate::process;

/// Digits of a node's number, which is its socket's name.
const NUMBER_DIGITS: usize = 16;

/// Most names that are looked at.
const NAMES_MAX: usize = 4096;

/// Looks for names that nobody has any more.
pub fn inspect() -> Vec<Finding> {
    vec![nodes(&directories()), labs(lab::stale_names().ok())]
}

/// Where this user's nodes have their names.
fn directories() -> Vec<PathBuf> {
    let (user, _) = process::effective_ids();
    let own = format!("emp-{user}");
    let is_own = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let owned = fs::symlink_metadata(path).is_ok_and(|it| it.is_dir() && it.uid() == user);
        owned && (name == own || name.starts_with(&format!("{own}-")))
    };
    let shared = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.path());
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|path| PathBuf::from(path).join("emp"));
    shared.filter(is_own).chain(runtime).collect()
}

fn nodes(directories: &[PathBuf]) -> Finding {
    const NAME: &str = "names of nodes";
    let (mut alive, mut dead) = (0, Vec::new());
    for path in directories.iter().flat_map(|directory| sockets(directory)) {
        if is_dead(&path) { dead.push(path) } else { alive += 1 }
    }
    let Some(first) = dead.first() else {
        return Finding::ok(NAME, format!("{alive} in use, none left by a dead process"));
    };
    let value = format!("{} left by dead processes, {alive} in use", dead.len());
    let advice = format!("harmless: a node that meets one passes over it; rm {}", first.display());
    Finding::warn(NAME, value, advice + if dead.len() > 1 { " and the like" } else { "" })
}

/// The sockets by which nodes find each other.
fn sockets(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_number = |name: &str| {
        name.len() == NUMBER_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let found = entries.take(NAMES_MAX).flatten().filter(|entry| {
        let socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        socket && entry.file_name().to_str().is_some_and(is_number)
    });
    found.map(|entry| entry.path()).collect()
}

/// Nobody listens there. Whoever listens sees somebody who went away again.
fn is_dead(path: &Path) -> bool {
    let Ok(socket) = Socket::new(Domain::UNIX, Type::SEQPACKET, None) else { return false };
    let Ok(address) = SockAddr::unix(path) else { return false };
    // A full queue of connections must not hold us up.
    let _ = socket.set_nonblocking(true);
    matches!(socket.connect(&address), Err(error) if error.kind() == ErrorKind::ConnectionRefused)
}

fn labs(stale: Option<Vec<String>>) -> Finding {
    const NAME: &str = "labs";
    match stale.as_deref() {
        None => Finding::not_visible(NAME),
        Some([]) => Finding::ok(NAME, "none left by a dead process"),
        Some(names) => Finding::warn(
            NAME,
            format!("left by dead processes: {}", names.join(", ")),
            "emp lab down --stale",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Mark;

    fn listener(path: &Path) -> Socket {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        socket.bind(&SockAddr::unix(path).unwrap()).unwrap();
        socket.listen(4).unwrap();
        socket
    }

    #[test]
    fn names_that_nobody_listens_at_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let directories = [directory.path().to_owned(), directory.path().join("none")];
        assert_eq!(nodes(&directories).mark, Mark::Ok);
        let alive = listener(&directory.path().join("00000000000000aa"));
        drop(listener(&directory.path().join("00000000000000bb")));
        // Neither a node's name nor a socket.
        drop(listener(&directory.path().join("other")));
        fs::write(directory.path().join("00000000000000cc"), "").unwrap();
        let found = nodes(&directories);
        assert_eq!(found.mark, Mark::Warn);
        assert_eq!(found.value, "1 left by dead processes, 1 in use");
        assert!(found.advice.unwrap().ends_with("00000000000000bb"));
        drop(alive);
        assert_eq!(nodes(&directories).value, "2 left by dead processes, 0 in use");
    }

    #[test]
    fn labs_whose_process_is_gone_are_named() {
        assert_eq!(labs(Some(Vec::new())).mark, Mark::Ok);
        let found = labs(Some(vec!["p1x0".to_owned()]));
        assert_eq!(
            (found.mark, found.advice.as_deref()),
            (Mark::Warn, Some("emp lab down --stale"))
        );
        assert_eq!(labs(None).value, "not visible");
    }
}
