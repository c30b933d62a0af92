//! What was made, written down before it is made: so that `down` finds everything, even after a
//! crash half way, and removes nothing else.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use emp_link::service::{NAMESPACE_TOKEN, SOCKET_VARIABLE, in_namespace};
use serde::{Deserialize, Serialize};

use super::plan::{Place, Plan};
use super::record;
use crate::bail_user;
use crate::process::ProcessId;

/// Where `ip netns` keeps its names.
pub const NETNS_DIR: &str = "/run/netns";

/// Where labs made with privilege are written down (also inside a user namespace of our own,
/// where /run is a file system of the lab's).
const STATE_DIR: &str = "/run/emp";

/// The name of the lab when none is given.
const DEFAULT_NAME: &str = "emp";

/// The environment variable that names the lab, set for every program run inside one, so that
/// `emp lab exec` from there means the same lab.
pub const NAME_VARIABLE: &str = "EMP_LAB";

/// Characters. Keeps `emp-NAME-HOST` readable and far from the 255 of a file name.
const LONGEST_NAME: usize = 24;

/// A network namespace a lab made, or was about to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name in [`NETNS_DIR`].
    pub name: String,
    /// Which namespace that was; `None` while it was being made. If the name now stands for
    /// another one, somebody else made that and we leave it.
    pub inode: Option<u64>,
}

/// The record of one lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The lab's name.
    pub name: String,
    /// What it looks like.
    pub plan: Plan,
    /// Everything that has to be removed, in the order it was made. Cables go with the namespaces
    /// they end in.
    pub namespaces: Vec<Namespace>,
    /// The process whose private lab it is; the lab is stale once that has ended.
    pub owner: Option<ProcessId>,
    /// Relays and services that run on its hosts and end with it, also where their namespace has lost its name.
    #[serde(default)]
    pub servants: Vec<ProcessId>,
}

impl State {
    /// A record of a lab about to be made.
    pub fn new(name: &str, plan: Plan, owner: Option<ProcessId>) -> Self {
        let (namespaces, servants) = (Vec::new(), Vec::new());
        Self { name: name.to_owned(), plan, namespaces, owner, servants }
    }

    /// The name of the network namespace at `place`.
    pub fn namespace(&self, place: Place) -> String {
        namespace_name(&self.name, &self.plan, place)
    }

    /// Whether the process this lab belonged to has ended without removing it.
    pub fn is_stale(&self) -> bool {
        self.owner.is_some_and(|owner| !owner.is_alive())
    }

    /// The file bound over `/etc/hosts` in every host.
    pub fn hosts_file(&self) -> PathBuf {
        Path::new(STATE_DIR).join(format!("lab-{}.hosts", self.name))
    }

    /// Where the service of each host listens, if it has one: the same for all, with [`NAMESPACE_TOKEN`] in it.
    pub fn service_place(&self) -> PathBuf {
        Path::new(STATE_DIR).join(format!("lab-{}.{NAMESPACE_TOKEN}.empd", self.name))
    }

    /// Where that of one host listens. `None`: the host is not there.
    pub fn service_socket(&self, host: usize) -> Option<PathBuf> {
        let number = inode(&self.namespace(Place::Host(host)))?;
        Some(in_namespace(&self.service_place(), number))
    }

    /// What is said by a service or a relay of a host, if it has one.
    pub fn log(&self, host: usize, of: &str) -> PathBuf {
        let name = self.plan.hosts.get(host).map_or("", |host| host.name.as_str());
        Path::new(STATE_DIR).join(format!("lab-{}.{name}.{of}.log", self.name))
    }

    /// A file that the services of all hosts share.
    pub fn service_file(&self, kind: &str) -> PathBuf {
        Path::new(STATE_DIR).join(format!("lab-{}.empd.{kind}", self.name))
    }

    /// What leads programs to the service of their host, if there are such. It is the same on each host, as launchers of MPI's ranks hand the
    /// first's environment to all.
    pub fn service_environment(&self) -> Option<(&'static str, PathBuf)> {
        self.service_file("toml").exists().then(|| (SOCKET_VARIABLE, self.service_place()))
    }

    /// Claims the lab's name and writes the record; fails if there is such a lab.
    pub fn create(&self) -> anyhow::Result<()> {
        let dir = Path::new(STATE_DIR);
        DirBuilder::new().recursive(true).mode(0o755).create(dir).context(STATE_DIR)?;
        match record::create(&file(&self.name), &serde_json::to_vec_pretty(self)?) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail_user!("lab {0} is up already; `emp lab down --name {0}` removes it", self.name)
            }
            created => created.context(STATE_DIR)?,
        }
        let written = fs::write(self.hosts_file(), self.plan.hosts_file());
        // The name is claimed but nobody guards it yet: on a failure it has to be given back here.
        written.inspect_err(|_| drop(self.remove())).context(STATE_DIR)
    }

    /// Replaces the record.
    pub fn save(&self) -> anyhow::Result<()> {
        let contents = serde_json::to_vec_pretty(self)?;
        record::replace(&file(&self.name), &contents).context(STATE_DIR)
    }

    /// The record of the lab with this name, if there is one.
    pub fn load(name: &str) -> anyhow::Result<Option<Self>> {
        let path = file(name);
        match fs::read(&path) {
            Ok(text) => {
                let state = serde_json::from_slice(&text);
                Ok(Some(state.with_context(|| path.display().to_string())?))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(path.display().to_string()),
        }
    }

    /// Every lab written down here, by name; but not what another version of this program has written and we can't read.
    pub fn load_all() -> anyhow::Result<Vec<Self>> {
        let labs = names_in(Path::new(STATE_DIR))?.into_iter();
        Ok(labs.filter_map(|name| Self::load(&name).ok().flatten()).collect())
    }

    /// Forgets the lab. To be called when nothing of it is left.
    pub fn remove(&self) -> anyhow::Result<()> {
        let numbers = self.namespaces.iter().filter_map(|namespace| namespace.inode);
        let sockets = numbers.map(|number| in_namespace(&self.service_place(), number));
        let hosts = 0..self.plan.hosts.len();
        let logs = hosts.flat_map(|host| [self.log(host, "empd"), self.log(host, "relay")]);
        // The record last: with it, what is left can be found.
        let files = [self.service_file("toml"), self.hosts_file(), file(&self.name)];
        for path in sockets.chain(logs).chain(files) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).context(path.display().to_string());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The labs recorded in a directory: the middle of each `lab-NAME.json`.
pub fn names_in(dir: &Path) -> anyhow::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| dir.display().to_string())?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let file = entry?.file_name().to_string_lossy().into_owned();
        let name = file.strip_prefix("lab-").and_then(|rest| rest.strip_suffix(".json"));
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Which namespace a name stands for now; `None` if it stands for nothing.
pub fn inode(namespace: &str) -> Option<u64> {
    fs::metadata(Path::new(NETNS_DIR).join(namespace)).ok().map(|file| file.ino())
}

/// The lab that is meant: the one asked for, the one we are in, or the default.
pub fn chosen_name(asked: Option<String>) -> anyhow::Result<String> {
    let name = asked.or_else(|| std::env::var(NAME_VARIABLE).ok());
    let name = name.unwrap_or_else(|| DEFAULT_NAME.to_owned());
    check_name(&name)?;
    Ok(name)
}

/// What a user has to add to a command line to mean this lab.
pub fn name_option(name: &str) -> String {
    if name == DEFAULT_NAME { String::new() } else { format!(" --name {name}") }
}

/// Checks a lab name given by the user. It becomes part of file and namespace names.
fn check_name(name: &str) -> anyhow::Result<()> {
    let fits = !name.is_empty() && name.len() <= LONGEST_NAME;
    // No hyphen: so that no two labs' namespace names can ever be the same.
    if !fits || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        bail_user!("a lab's name is 1 to {LONGEST_NAME} small letters and digits, not `{name}`");
    }
    Ok(())
}

fn file(name: &str) -> PathBuf {
    Path::new(STATE_DIR).join(format!("lab-{name}.json"))
}

/// `emp-a`, `emp-sw` for the default lab, `emp-NAME-a`, `emp-NAME-sw` for others.
fn namespace_name(lab: &str, plan: &Plan, place: Place) -> String {
    let last = match place {
        Place::Host(index) => plan.hosts[index].name.trim_start_matches("emp-"),
        Place::Switch => "sw",
    };
    if lab == DEFAULT_NAME { format!("emp-{last}") } else { format!("emp-{lab}-{last}") }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Topology;
    use super::*;

    #[test]
    fn namespace_names_start_with_emp_and_tell_labs_apart() {
        let plan = Plan::new(2, Topology::Switch, 1500).unwrap();
        let names = |lab: &str| -> Vec<_> {
            let state = State::new(lab, plan.clone(), None);
            state.plan.places().into_iter().map(|place| state.namespace(place)).collect()
        };
        assert_eq!(names("emp"), ["emp-a", "emp-b", "emp-sw"]);
        assert_eq!(names("two"), ["emp-two-a", "emp-two-b", "emp-two-sw"]);
    }

    #[test]
    fn lab_names_are_plain_words() {
        for bad in ["", "a-b", "A", "../x", "a b", "abcdefghijklmnopqrstuvwxyz"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("p123x0").is_ok());
    }

    #[test]
    fn a_lab_is_stale_when_its_owner_is_gone() {
        let plan = Plan::new(2, Topology::Link, 1500).unwrap();
        let own = ProcessId::own();
        let gone = ProcessId { started: own.started + 1, ..own };
        assert!(!State::new("x", plan.clone(), None).is_stale());
        assert!(!State::new("x", plan.clone(), Some(own)).is_stale());
        assert!(State::new("x", plan, Some(gone)).is_stale());
    }
}
