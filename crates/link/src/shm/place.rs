//! The directory in which the nodes of one user find each other: a socket for each node, named by its number.

use std::cell::RefCell;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::socket;

/// Bits of a directory's mode that give others than its owner anything.
const OTHERS: u32 = 0o077;

/// Most names looked at in one search of the directory: more nodes than one machine runs, so that a directory full of
/// other things costs a bounded time.
const NAMES_MAX: usize = 4096;

/// Number of the user namespace that a machine starts with (`PROC_USER_INIT_INO` of the kernel).
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFD;

/// The number of this process's user namespace; that of the first one where there is no telling.
fn user_namespace() -> u64 {
    fs::metadata("/proc/self/ns/user").map_or(FIRST_NAMESPACE, |namespace| namespace.ino())
}

/// The directory of one user of a user namespace. The number of a user says who it is only within one: in a rootless lab
/// everyone is user 0, and the machine's root would find its directory taken by somebody else.
fn shared(user: u32, namespace: u64) -> PathBuf {
    let mut name = format!("/dev/shm/emp-{user}");
    if namespace != FIRST_NAMESPACE {
        name += &format!("-{namespace}");
    }
    PathBuf::from(name)
}

/// A directory that has not changed for so long has another time of change when it changes next: the kernel's clock for these moves every
/// 1 to 10 ms.
const SETTLED: Duration = Duration::from_millis(20);

/// The directory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// The names there, as of a change of the directory: each of thousands of searches for nodes that are not there read all of them.
    read: RefCell<Option<(SystemTime, Vec<Name>)>>,
}

impl Place {
    /// The directory that is meant if none is named.
    pub(crate) fn usual() -> PathBuf {
        match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
            // Only the login system makes it, and so it is either right or not there.
            Some(runtime) if runtime.is_absolute() && runtime.is_dir() => runtime.join("emp"),
            _ => shared(socket::own_user(), user_namespace()),
        }
    }

    /// The directory, made if it is not there.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if it belongs to somebody else or lets others in.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Not what a link points to, which could change.
        let found = fs::symlink_metadata(path)?;
        let denied = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        if !found.is_dir() {
            return denied("it is not a directory");
        }
        if found.uid() != socket::own_user() {
            return denied("it belongs to another user");
        }
        if found.mode() & OTHERS != 0 {
            return denied("it is open to other users");
        }
        Ok(Self { path: path.to_path_buf(), read: RefCell::default() })
    }

    /// A file of this name for all nodes here.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// For people.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a node takes messages.
    pub(crate) fn socket_of(&self, name: Name) -> PathBuf {
        self.path.join(name.text())
    }

    /// Where it prepares to: nobody looks for names like this.
    pub(crate) fn draft_of(&self, number: u64) -> PathBuf {
        self.path.join(format!(".{number:016x}"))
    }

    /// Where the node with this number takes messages, for a node of this name that looks for it.
    pub(crate) fn find(&self, number: u64, asker: Name) -> Option<PathBuf> {
        let here = [false, true].map(|keeps_to_it| Name { number, keeps_to_it, ..asker });
        let near = here.map(|name| self.socket_of(name)).into_iter().find(|path| path.exists());
        // One of another network is seldom looked for.
        let far =
            || self.names().into_iter().find(|name| name.number == number && name.meets(asker));
        near.or_else(|| far().map(|name| self.socket_of(name)))
    }

    /// The numbers of the nodes that are, or were, here, and that a node of this name meets.
    pub(crate) fn numbers(&self, asker: Name) -> Vec<u64> {
        self.names().into_iter().filter(|name| name.meets(asker)).map(|name| name.number).collect()
    }

    fn names(&self) -> Vec<Name> {
        let changed = fs::metadata(&self.path).and_then(|of| of.modified()).ok();
        if let (Some(changed), Some((then, names))) = (changed, &*self.read.borrow())
            && changed == *then
        {
            return names.clone();
        }
        let names = self.read_names();
        let is_settled = |at: &SystemTime| at.elapsed().is_ok_and(|age| age >= SETTLED);
        *self.read.borrow_mut() = changed.filter(is_settled).map(|at| (at, names.clone()));
        names
    }

    fn read_names(&self) -> Vec<Name> {
        let Ok(names) = fs::read_dir(&self.path) else { return Vec::new() };
        let name = |entry: io::Result<fs::DirEntry>| Name::parse(entry.ok()?.file_name().to_str()?);
        names.take(NAMES_MAX).filter_map(name).collect()
    }
}

/// What a node's socket is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    /// The node's number: its address.
    pub(crate) number: u64,
    /// The network namespace that it is in.
    pub(crate) network: u64,
    /// It meets nodes in that one only.
    pub(crate) keeps_to_it: bool,
}

impl Name {
    fn text(self) -> String {
        let Self { number, network, keeps_to_it } = self;
        format!("{number:016x}-{network:x}{}", if keeps_to_it { "-" } else { "" })
    }

    fn parse(text: &str) -> Option<Self> {
        let (number, network) = text.split_at_checked(16)?;
        let network = network.strip_prefix('-')?;
        let kept = network.strip_suffix('-');
        let parse = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Self {
            number: parse(number)?,
            network: parse(kept.unwrap_or(network))?,
            keeps_to_it: kept.is_some(),
        })
    }

    /// Whether the two may meet.
    fn meets(self, other: Self) -> bool {
        self.network == other.network || !self.keeps_to_it && !other.keeps_to_it
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use emp_testing::{Need, skip};

    use super::*;

    #[test]
    fn names_say_who_meets_whom() {
        let name = |number, network, keeps_to_it| Name { number, network, keeps_to_it };
        for name in [name(7, 0xf000_0000, false), name(u64::MAX, 3, true)] {
            assert_eq!(Name::parse(&name.text()), Some(name));
        }
        for text in [
            "",
            "0000000000000007",
            "packet-2-4026531840-3-88b5",
            ".000000000000007-3",
            "00000000000000ö7-3",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
        assert!(name(1, 3, false).meets(name(2, 4, false)));
        assert!(name(1, 3, true).meets(name(2, 3, false)));
        assert!(
            !name(1, 3, true).meets(name(2, 4, false))
                && !name(1, 3, false).meets(name(2, 4, true))
        );
    }

    /// Names that were read are kept while nothing changes, and no longer: who comes is seen at once.
    #[test]
    fn names_are_read_again_when_somebody_came_or_went() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = Place::open(&directory.path().join("emp")).expect("it is made");
        let asker = Name { number: 0, network: 3, keeps_to_it: false };
        let node = |number| place.socket_of(Name { number, ..asker });
        for number in 1..40 {
            fs::write(node(number), "").expect("it is ours");
            assert_eq!(place.numbers(asker).len(), 1, "{number} came");
            if number % 8 == 0 {
                std::thread::sleep(2 * SETTLED);
                assert_eq!(place.numbers(asker), [number]);
                assert!(place.read.borrow().is_some(), "nothing has changed for a while");
                assert_eq!(place.numbers(asker), [number]);
            }
            fs::remove_file(node(number)).expect("it is there");
            assert!(place.numbers(asker).is_empty(), "{number} went");
        }
    }

    #[test]
    fn users_of_different_namespaces_do_not_meet() {
        assert_eq!(shared(0, FIRST_NAMESPACE), Path::new("/dev/shm/emp-0"));
        assert_eq!(shared(0, 4_026_532_300), Path::new("/dev/shm/emp-0-4026532300"));
        assert_ne!(shared(0, 4_026_532_300), shared(0, 4_026_532_301));
    }

    /// The processes of one namespace see one number, those of another one another.
    #[test]
    fn a_namespace_has_one_number() {
        let asked = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            text.trim().parse::<u64>().ok().filter(|_| output.status.success())
        };
        let namespace = ["-L", "-c", "%i", "/proc/self/ns/user"];
        assert_eq!(asked("stat", &namespace), Some(user_namespace()));
        let mut elsewhere = vec!["--user", "stat"];
        elsewhere.extend(namespace);
        match asked("unshare", &elsewhere) {
            Some(other) => assert_ne!(other, user_namespace()),
            None => skip(Need::Root, "no further user namespace is to be had"),
        }
    }
}
