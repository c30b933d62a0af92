//! The network interfaces of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use serde::Serialize;

use super::trials;
use crate::ethtool::Ethtool;
use crate::finding::read;

/// What `type` says for Ethernet in sysfs (ARPHRD_ETHER); loopback is 772.
const ETHERNET: u32 = 1;
const LOOPBACK: u32 = 772;

/// Of the hardware or the wire, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Frames with MAC addresses.
    Ethernet,
    /// To this machine itself.
    Loopback,
    /// Tunnels and the like.
    Other,
}

/// One interface. What the machine does not show is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    pub name: String,
    pub index: i32,
    pub kind: Kind,
    /// There is a device behind it, real or emulated; a virtual cable has none.
    pub is_card: bool,
    /// Up, with a cable.
    pub running: bool,
    /// As the kernel says it: `up`, `down`, `unknown`, ….
    pub state: String,
    pub mtu: Option<u32>,
    /// Megabits per second.
    pub speed: Option<u32>,
    pub driver: Option<String>,
    pub addresses: Vec<IpAddr>,
    pub receive_queues: usize,
    pub send_queues: usize,
    pub offloads: Offloads,
}

/// What the card or the kernel does to frames on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Offloads {
    pub gro: Option<bool>,
    pub gso: Option<bool>,
    pub tso: Option<bool>,
    pub lro: Option<bool>,
    /// Microseconds a frame may wait for an interrupt.
    pub receive_delay: Option<u32>,
}

/// Every interface, by name. `root` is `/` but in tests.
pub fn inspect(root: &Path) -> Vec<Interface> {
    let Ok(entries) = fs::read_dir(root.join("sys/class/net")) else { return Vec::new() };
    let addresses = trials::addresses();
    let ethtool = Ethtool::new().ok();
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path().join("ifindex").exists())
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            interface(&entry.path(), name, ethtool.as_ref(), &addresses)
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn interface(
    dir: &Path,
    name: String,
    ethtool: Option<&Ethtool>,
    addresses: &BTreeMap<String, Vec<IpAddr>>,
) -> Interface {
    let number = |file: &str| read(&dir.join(file)).and_then(|text| text.parse::<i64>().ok());
    let positive = |file: &str| number(file).and_then(|value| u32::try_from(value).ok());
    let link = fs::read_link(dir.join("device/driver")).ok();
    let driver = link.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Interface {
        index: number("ifindex").and_then(|index| i32::try_from(index).ok()).unwrap_or(0),
        kind: match positive("type") {
            Some(ETHERNET) => Kind::Ethernet,
            Some(LOOPBACK) => Kind::Loopback,
            _ => Kind::Other,
        },
        is_card: dir.join("device").exists(),
        // Reading `carrier` fails while an interface is down.
        running: number("carrier") == Some(1),
        state: read(&dir.join("operstate")).unwrap_or_else(|| "unknown".to_owned()),
        mtu: positive("mtu"),
        // -1 where the driver does not know.
        speed: positive("speed").filter(|speed| *speed > 0),
        driver: driver.or_else(|| ethtool?.driver(&name).ok()).filter(|name| !name.is_empty()),
        addresses: addresses.get(&name).cloned().unwrap_or_default(),
        receive_queues: queues(dir, "rx-"),
        send_queues: queues(dir, "tx-"),
        offloads: ethtool.map(|ethtool| offloads(ethtool, &name)).unwrap_or_default(),
        name,
    }
}

fn queues(dir: &Path, prefix: &str) -> usize {
    let Ok(entries) = fs::read_dir(dir.join("queues")) else { return 0 };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(prefix)).count()
}

fn offloads(ethtool: &Ethtool, name: &str) -> Offloads {
    Offloads {
        gro: ethtool.gro(name).ok(),
        gso: ethtool.gso(name).ok(),
        tso: ethtool.tso(name).ok(),
        lro: ethtool.lro(name).ok(),
        receive_delay: ethtool.receive_delay(name).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_read_from_its_files() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/class/net/card7");
        for queue in ["rx-0", "rx-1", "tx-0"] {
            fs::create_dir_all(dir.join("queues").join(queue)).unwrap();
        }
        let files = [("ifindex", "7"), ("type", "1"), ("mtu", "9000"), ("carrier", "1")];
        for (file, text) in files.into_iter().chain([("speed", "-1"), ("operstate", "up")]) {
            fs::write(dir.join(file), format!("{text}\n")).unwrap();
        }
        // Not an interface: /sys/class/net holds bonding_masters beside them.
        fs::write(root.path().join("sys/class/net/bonding_masters"), "").unwrap();
        let found = inspect(root.path());
        assert_eq!(found.len(), 1);
        let card = &found[0];
        assert_eq!((card.name.as_str(), card.index, card.kind), ("card7", 7, Kind::Ethernet));
        assert_eq!((card.mtu, card.speed, card.running), (Some(9000), None, true));
        assert!(!card.is_card);
        fs::create_dir(dir.join("device")).unwrap();
        assert!(inspect(root.path())[0].is_card);
        assert_eq!((card.receive_queues, card.send_queues), (2, 1));
        assert_eq!(card.offloads, Offloads::default());
    }

    #[test]
    fn this_machine_has_loopback() {
        let found = inspect(Path::new("/"));
        let lo = found.iter().find(|interface| interface.name == "lo").unwrap();
        assert_eq!(lo.kind, Kind::Loopback);
        assert_eq!(lo.index, 1);
    }
}
