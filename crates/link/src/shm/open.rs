//! Opening the shared-memory link: options, and errors that say what to do.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::place::Place;
use super::socket::{self, Watch};
use super::{LISTENER, SELF};
use crate::{LinkError, system};

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
    pub(super) number: u64,
    pub(super) listener: OwnedFd,
    pub(super) watch: Watch,
    /// Random bits for the link's cell ([`super::memory`]).
    pub(super) token: u64,
    /// Readable when this link itself wants to be looked at.
    pub(super) own_bell: OwnedFd,
}

pub(super) fn open(options: &ShmOptions) -> Result<Opened, LinkError> {
    let directory = options.directory.clone().unwrap_or_else(Place::usual);
    let failed = |step: &str, error: io::Error| refused(&directory, step, error);
    let place = Place::open(&directory)
        .map_err(|error| failed("opening the directory of this user's nodes", error))?;
    let number = options.number.map_or_else(socket::random, Ok);
    let number = number.map_err(|error| failed("drawing random numbers", error))?;
    let token = socket::random().map_err(|error| failed("drawing random numbers", error))?;
    let watch = Watch::new().map_err(|error| failed("watching descriptors", error))?;
    let own_bell = system::event().map_err(|error| failed("making an event descriptor", error))?;
    let listener = listen(&place, number).map_err(|error| failed("opening the socket", error))?;
    // From here on nothing may leave the socket's name behind.
    let watched =
        watch.add(listener.as_fd(), LISTENER).and_then(|()| watch.add(own_bell.as_fd(), SELF));
    if let Err(error) = watched {
        let _ = fs::remove_file(place.socket_of(number));
        return Err(failed("watching descriptors", error));
    }
    Ok(Opened { place, number, listener, watch, token, own_bell })
}

/// Listens under the node's number. The socket gets its name when it already listens: one that refuses connections is
/// taken for that of a dead node, and removed by whoever sees it.
fn listen(place: &Place, number: u64) -> io::Result<OwnedFd> {
    let draft = place.draft_of(number);
    // Left by one that died between the two steps.
    let _ = fs::remove_file(&draft);
    let listener = socket::listen(&draft)?;
    let named = give_name(&draft, &place.socket_of(number));
    let _ = fs::remove_file(&draft);
    named.map(|()| listener)
}

/// Gives the socket its second name, unless a living node has it.
fn give_name(draft: &Path, name: &Path) -> io::Result<()> {
    match fs::hard_link(draft, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        done => return done,
    }
    match socket::connect(name) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(name)?;
            fs::hard_link(draft, name)
        }
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

fn refused(directory: &Path, step: &str, error: io::Error) -> LinkError {
    let shown = directory.display();
    let advice = match (error.kind(), error.raw_os_error()) {
        (_, Some(libc::ENAMETOOLONG)) => {
            "socket paths have at most 107 bytes: set XDG_RUNTIME_DIR to a shorter one".into()
        }
        (_, Some(libc::EMFILE | libc::ENFILE)) => "too many open files: raise `ulimit -n`".into(),
        (io::ErrorKind::AddrInUse, _) => "another link has this number: choose another".into(),
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
