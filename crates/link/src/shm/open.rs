//! Opening the shared-memory link: options, and errors that say what to do.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::place::{Name, Place};
use super::socket::{self, Whereto};
use crate::LinkError;

/// How to open a [`ShmLink`](crate::ShmLink).
#[derive(Clone, Debug)]
pub struct ShmOptions {
    /// The directory in which nodes find each other; `None`: `emp` in `XDG_RUNTIME_DIR`, or, where the login system made
    /// none, `/dev/shm/emp-UID` (in a user namespace of its own, `/dev/shm/emp-UID-NAMESPACE`). It is made if it is not
    /// there, and must belong to this user alone.
    pub directory: Option<PathBuf>,
    /// The number that others reach this link by ([`LinkAddress::shm`](crate::LinkAddress::shm)): that of no other link
    /// in the directory. `None`: drawn at random.
    pub number: Option<u64>,
    /// This node's destination tag: frames with another one (and not everyone's) are dropped and counted.
    pub node_tag: u16,
    /// Frames to everyone go to every node in the directory. If not, only nodes that are named are reached.
    pub broadcast: bool,
    /// Only nodes in this network namespace are peers: hosts that are made of namespaces stay apart, as their cables have
    /// it.
    pub same_network: bool,
}

impl ShmOptions {
    /// The usual options.
    pub const fn new(node_tag: u16) -> Self {
        let (directory, number) = (None, None);
        Self { directory, number, node_tag, broadcast: true, same_network: false }
    }
}

/// What opening gives to the link.
pub(super) struct Opened {
    pub(super) place: Place,
    pub(super) name: Name,
    pub(super) socket: OwnedFd,
    /// Random bits for the link's cell ([`super::memory`]).
    pub(super) token: u64,
}

pub(super) fn open(options: &ShmOptions) -> Result<Opened, LinkError> {
    let directory = options.directory.clone().unwrap_or_else(Place::usual);
    let failed = |step: &str, error: io::Error| refused(&directory, step, error);
    let place = Place::open(&directory)
        .map_err(|error| failed("opening the directory of this user's nodes", error))?;
    let number = options.number.map_or_else(socket::random, Ok);
    let number = number.map_err(|error| failed("drawing random numbers", error))?;
    let token = socket::random().map_err(|error| failed("drawing random numbers", error))?;
    // The thread's, which need not be the process's: a node's interfaces are those of where it was opened.
    let network = network_of("thread-self")
        .map_err(|error| failed("looking at the network namespace", error))?;
    let name = Name { number, network, keeps_to_it: options.same_network };
    let socket = bind(&place, name).map_err(|error| failed("opening the socket", error))?;
    Ok(Opened { place, name, socket, token })
}

/// What tells a network namespace from others on the machine: that of a process or thread, as `/proc` names it.
pub(super) fn network_of(whose: &str) -> io::Result<u64> {
    Ok(fs::metadata(format!("/proc/{whose}/ns/net"))?.ino())
}

/// Whether a process is in this network: it, or one of its threads. What this process says of itself is believed, as its threads may have moved on.
pub(super) fn is_in_network(process: libc::pid_t, network: u64) -> io::Result<bool> {
    if u32::try_from(process) == Ok(std::process::id())
        || network_of(&process.to_string())? == network
    {
        return Ok(true);
    }
    let tasks = fs::read_dir(format!("/proc/{process}/task"))?.flatten();
    let of_task = |task: fs::DirEntry| Some(task.path().join("ns/net").metadata().ok()?.ino());
    Ok(tasks.filter_map(of_task).any(|of| of == network))
}

/// Takes messages under the node's name. The socket gets that when it already takes them: one that does not is
/// taken for that of a dead node, and removed by whoever sees it.
fn bind(place: &Place, name: Name) -> io::Result<OwnedFd> {
    let draft = place.draft_of(name.number);
    // Left by one that died between the two steps.
    let _ = fs::remove_file(&draft);
    let socket = socket::bind(&draft)?;
    let named = match place.find(name.number, Name { keeps_to_it: false, ..name }) {
        // Whatever network it is in, its number is taken.
        Some(other) if !remove_dead(&other) => Err(io::ErrorKind::AddrInUse.into()),
        _ => fs::hard_link(&draft, place.socket_of(name)),
    };
    let _ = fs::remove_file(&draft);
    named.map(|()| socket)
}

/// Removes the name of a node that died without doing so. False: it lives.
pub(super) fn remove_dead(path: &Path) -> bool {
    match Whereto::of(path).and_then(|to| to.answers()) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = fs::remove_file(path);
            true
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(()) => false,
    }
}

fn refused(directory: &Path, step: &str, error: io::Error) -> LinkError {
    let shown = directory.display();
    let advice = match (error.kind(), error.raw_os_error()) {
        (_, Some(libc::ENAMETOOLONG)) => {
            "socket paths have at most 107 bytes: set XDG_RUNTIME_DIR to a shorter one".into()
        }
        (_, Some(libc::EMFILE | libc::ENFILE)) => "too many open files: raise `ulimit -n`".into(),
        (io::ErrorKind::AddrInUse | io::ErrorKind::AlreadyExists, _) => {
            "another link has this number: choose another".into()
        }
        (io::ErrorKind::PermissionDenied, _) => {
            format!(
                "`chmod 700 {shown}` if it is yours, or set XDG_RUNTIME_DIR to a directory that is"
            )
        }
        (io::ErrorKind::NotFound, _) => {
            "the directory above it is missing: set XDG_RUNTIME_DIR to one that is there".into()
        }
        _ => "use the udp link, or report this with the kernel's version".to_string(),
    };
    LinkError {
        link: format!("shm in {shown}"),
        problem: format!("{step}: {error}"),
        advice,
        privilege: false,
        source: Some(error),
    }
}
