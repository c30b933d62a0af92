//! What `--topology` takes: a name, or a file that says which hosts, switches and cables there are.
//!
//! A file is lines of words; `#` begins a comment. What is named has to be declared above:
//!
//! ```text
//! host emp-a emp-b emp-c            # up to 32
//! switch s1                         # any number of names, or none
//! cable emp-a emp-b                 # a veth pair, as fast as it goes
//! cable emp-b emp-c mtu 9000 rate 500mbit queue 128K
//! cable emp-c s1
//! ```

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use super::plan::{
    End, MAX_CABLES, MAX_HOSTS, MAX_SWITCHES, Place, Plan, Topology, check_mtu, named_host,
};
use super::ports::{Ports, QUEUE_DEFAULT};
use crate::error::user_error;

/// Characters of a host's or switch's name, so that a namespace's and a row of a table stay readable.
const LONGEST_NAME: usize = 16;

/// Bits of the subnet of a cable between two hosts: four addresses.
const CABLE_PREFIX: u8 = 30;

/// Bits of the subnet of switches that are joined.
const SWITCH_PREFIX: u8 = 24;

/// Their third byte, counted up by switch: above those of the most cables, which end within 10.77.8.
const FIRST_SWITCHED: u8 = 16;

/// Cables of one host to switches that are joined: as many times all hosts fit the last byte.
const SWITCH_CABLES: usize = 7;

/// Bytes of a file: more than the longest that means anything.
const LONGEST_FILE: u64 = 1 << 20;

/// What `--topology` was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One of the names.
    Named(Topology),
    /// A file that says it.
    File(PathBuf),
}

impl Shape {
    /// Reads the option's value: a name before a file of that name.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, topology)) = Topology::NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Named(*topology));
        }
        let path = PathBuf::from(text);
        if path.is_file() {
            return Ok(Self::File(path));
        }
        let names = Topology::NAMED.map(|(name, _)| name).join(", ");
        Err(format!("it is none of {names}, and there is no file {text}"))
    }

    /// The plan of this shape. Without a number of hosts: two, or as many as the shape needs.
    pub fn plan(&self, hosts: Option<usize>, mtu: u32) -> anyhow::Result<Plan> {
        match self {
            Self::Named(topology) => Plan::new(hosts.unwrap_or(2), *topology, mtu),
            Self::File(path) => {
                let plan = read(path, mtu)?;
                match hosts.filter(|hosts| *hosts != plan.hosts.len()) {
                    Some(hosts) => Err(user_error(format!(
                        "{} has {} hosts, not {hosts}: leave out --hosts",
                        path.display(),
                        plan.hosts.len()
                    ))),
                    None => Ok(plan),
                }
            }
        }
    }
}

fn read(path: &Path, mtu: u32) -> anyhow::Result<Plan> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_FILE).read_to_end(&mut text));
    read.map_err(|error| user_error(format!("{}: {error}", path.display())))?;
    let text = String::from_utf8_lossy(&text);
    parse(&text, mtu).map_err(|error| {
        let at = error.line.map_or(String::new(), |line| format!("{line}: "));
        user_error(format!("{}:{at}{}", path.display(), error.says))
    })
}

/// What is wrong with a file.
#[derive(Debug)]
struct Mistake {
    /// Counted from 1; of the whole file if there is none.
    line: Option<usize>,
    says: String,
}

/// What a name in a file stands for.
#[derive(Clone, Copy)]
enum Named {
    Host(usize),
    Switch(usize),
}

struct Reader {
    plan: Plan,
    names: Vec<(String, Named)>,
}

fn parse(text: &str, mtu: u32) -> Result<Plan, Mistake> {
    check_mtu(mtu).map_err(|error| Mistake { line: None, says: format!(" {error}") })?;
    let mut reader = Reader { plan: Plan::bare(Topology::File, mtu), names: Vec::new() };
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> =
            line.split('#').next().unwrap_or_default().split_whitespace().collect();
        let outcome = match words.split_first() {
            None => Ok(()),
            Some((&"host", names)) => reader.hosts(names),
            Some((&"switch", names)) => reader.switches(names),
            Some((&"cable", words)) => reader.cable(words),
            Some((word, _)) => {
                Err(format!("expected `host`, `switch` or `cable` at its start, found `{word}`"))
            }
        };
        outcome.map_err(|says| Mistake { line: Some(number + 1), says })?;
    }
    let whole = |says: &str| Mistake { line: None, says: format!(" {says}") };
    if reader.plan.hosts.len() < 2 {
        return Err(whole("expected at least two hosts, such as: host emp-a emp-b"));
    }
    if reader.plan.cables.is_empty() {
        return Err(whole("expected at least one cable, such as: cable emp-a emp-b"));
    }
    reader.switched_addresses().map_err(|says| whole(&says))?;
    reader.plan.set_routes();
    Ok(reader.plan)
}

impl Reader {
    fn hosts(&mut self, names: &[&str]) -> Result<(), String> {
        self.declare(names, "host", MAX_HOSTS, |plan, name| {
            plan.hosts.push(named_host(plan.hosts.len(), name));
            Named::Host(plan.hosts.len() - 1)
        })
    }

    fn switches(&mut self, names: &[&str]) -> Result<(), String> {
        self.declare(names, "switch", MAX_SWITCHES, |plan, name| {
            plan.switches.push(name);
            Named::Switch(plan.switches.len() - 1)
        })
    }

    fn declare(
        &mut self,
        names: &[&str],
        what: &str,
        most: usize,
        add: impl Fn(&mut Plan, String) -> Named,
    ) -> Result<(), String> {
        if names.is_empty() {
            return Err(format!("expected a name after `{what}`, or several"));
        }
        for name in names {
            check_name(name)?;
            // A host's namespace is called by its name without `emp-`.
            let bare = |name: &str| name.trim_start_matches("emp-").to_owned();
            if self.names.iter().any(|(known, _)| bare(known) == bare(name)) {
                return Err(format!("expected a new name, but `{name}` is declared above"));
            }
            let count = match what {
                "host" => self.plan.hosts.len(),
                _ => self.plan.switches.len(),
            };
            if count == most {
                return Err(format!(
                    "expected {most} of `{what}` at most, and `{name}` is one more"
                ));
            }
            let named = add(&mut self.plan, (*name).to_owned());
            self.names.push(((*name).to_owned(), named));
        }
        Ok(())
    }

    fn cable(&mut self, words: &[&str]) -> Result<(), String> {
        let [a, b, options @ ..] = words else {
            return Err("expected two names after `cable`, such as: cable emp-a emp-b".to_owned());
        };
        let (a, b) = (self.find(a)?, self.find(b)?);
        match (a, b) {
            (Named::Host(a), Named::Host(b)) | (Named::Switch(a), Named::Switch(b)) if a == b => {
                return Err("expected a cable between two, but both its ends are one".to_owned());
            }
            (Named::Switch(a), Named::Switch(b)) => self.refuse_loop(a, b)?,
            _ => {}
        }
        if self.plan.cables.len() == MAX_CABLES {
            return Err(format!("expected {MAX_CABLES} cables at most, and this is one more"));
        }
        let (mtu, limit) = options_of(options, self.plan.mtu)?;
        let base = self.plan.cable_subnet();
        // A host is a cable's first end.
        let swapped = matches!((a, b), (Named::Switch(_), Named::Host(_)));
        let (near, far) = if swapped { (b, a) } else { (a, b) };
        // Ports of one cable between switches differ by a letter.
        let mark = |letter| if matches!(near, Named::Switch(_)) { letter } else { "" };
        let direct = matches!(far, Named::Host(_));
        let (first, second) = (mark("a"), mark("b"));
        let near = self.end(near, direct.then_some(base + 1), mtu, first);
        let far = self.end(far, direct.then_some(base + 2), mtu, second);
        self.plan.join(near, far, mtu, limit);
        Ok(())
    }

    /// Switches of a lab are bridges without a spanning tree: in a loop of them one broadcast goes round for ever, and takes the machine with it.
    fn refuse_loop(&self, a: usize, b: usize) -> Result<(), String> {
        let groups = self.plan.joined_switches();
        if groups[a] != groups[b] {
            return Ok(());
        }
        let [a, b] = [a, b].map(|switch| &self.plan.switches[switch]);
        Err(format!(
            "expected no loop of switches, in which a broadcast goes round for ever, but {a} and {b} are joined above"
        ))
    }

    /// An end, with this address if it is a host's and this mark if it is a switch's.
    fn end(&mut self, named: Named, address: Option<u32>, mtu: u32, mark: &str) -> End {
        match named {
            Named::Switch(switch) => self.plan.next_port(switch, mark),
            Named::Host(host) => {
                self.plan.new_interface(host, address.map(Ipv4Addr::from), CABLE_PREFIX, mtu)
            }
        }
    }

    /// Gives hosts their addresses at switches, once it is known which of those are joined: a subnet for all that are.
    fn switched_addresses(&mut self) -> Result<(), String> {
        let groups = self.plan.joined_switches();
        let mut taken = HashSet::new();
        for number in 0..self.plan.cables.len() {
            let cable = &self.plan.cables[number];
            let (Place::Host(host), Place::Switch) = (cable.near.place, cable.far.place) else {
                continue;
            };
            let (group, near) = (groups[cable.far.switch], cable.near.clone());
            // `MAX_HOSTS` addresses for everybody's first cable, as many for the second, and so on.
            let free = (0..SWITCH_CABLES).map(|nth| nth * MAX_HOSTS + host + 1);
            let Some(last) = free.clone().find(|last| !taken.contains(&(group, *last))) else {
                let name = &self.plan.hosts[host].name;
                return Err(format!(
                    "expected {SWITCH_CABLES} cables at most from {name} to switches that are joined"
                ));
            };
            taken.insert((group, last));
            let address = Ipv4Addr::new(10, 77, FIRST_SWITCHED + group as u8, last as u8);
            if let Some(interface) = self.plan.interface_mut(&near) {
                (interface.address, interface.prefix) = (Some(address), SWITCH_PREFIX);
            }
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<Named, String> {
        match self.names.iter().find(|(known, _)| known == name) {
            Some((_, named)) => Ok(*named),
            None => Err(format!(
                "expected the name of a host or switch that is declared above, found `{name}`"
            )),
        }
    }
}

/// What follows a cable's two names: `mtu`, `rate`, `queue`, each at most once, in any order.
fn options_of(words: &[&str], usual_mtu: u32) -> Result<(u32, Option<Ports>), String> {
    let (mut mtu, mut rate, mut queue) = (None, None, None);
    for pair in words.chunks(2) {
        let (slot, example) = match pair[0] {
            "mtu" => (&mut mtu, "9000"),
            "rate" => (&mut rate, "500mbit"),
            "queue" => (&mut queue, "128K"),
            other => return Err(format!("expected `mtu`, `rate` or `queue`, found `{other}`")),
        };
        let Some(value) = pair.get(1) else {
            return Err(format!("expected a value after `{0}`, such as: {0} {example}", pair[0]));
        };
        if slot.replace(*value).is_some() {
            return Err(format!("expected `{}` once", pair[0]));
        }
    }
    let mtu = match mtu {
        None => usual_mtu,
        Some(text) => text
            .parse()
            .map_err(|_| format!("expected a number of bytes after `mtu`, found `{text}`"))?,
    };
    check_mtu(mtu).map_err(|error| error.to_string())?;
    let limit = match (rate, queue) {
        (Some(rate), queue) => {
            let ports = Ports::parse(rate, queue.unwrap_or(QUEUE_DEFAULT));
            Some(ports.map_err(|error| error.to_string())?)
        }
        (None, Some(_)) => {
            return Err(
                "expected `rate` beside `queue`, which fills where there is a rate".to_owned()
            );
        }
        (None, None) => None,
    };
    Ok((mtu, limit))
}

fn check_name(name: &str) -> Result<(), String> {
    let bare = name.strip_prefix("emp-").unwrap_or(name);
    let fits = (1..=LONGEST_NAME).contains(&name.len());
    let plain = bare.starts_with(|first: char| first.is_ascii_lowercase())
        && bare.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    match (fits && plain, bare) {
        (true, "sw" | "localhost") => {
            Err(format!("expected a name of your own, but `{name}` is used by every lab"))
        }
        (true, _) => Ok(()),
        (false, _) => Err(format!(
            "expected a name of small letters and digits, a letter first, {LONGEST_NAME} characters at most, `emp-` before \
             it or not; found `{name}`"
        )),
    }
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
