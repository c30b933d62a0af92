//! Boards: the interfaces of this machine that endpoints are opened on, numbered from 0.

use emp_face::machines::own_name;
use emp_face::settings::Settings;
use emp_face::ways::{Way, ways};

use crate::abi::MAX_HOSTNAME_LEN;
use crate::identities::nic_of;

/// One of them.
#[derive(Clone, Debug)]
pub struct Board {
    pub way: Way,
    pub nic: u64,
    /// `machine:number`.
    pub hostname: String,
}

/// The boards that the settings allow: the machine's best kind of interfaces, or those that are named, in this order.
/// Interfaces that share an address (a bridge's, a VLAN's) are one board.
pub fn boards(settings: &Settings) -> Vec<Board> {
    let mut boards: Vec<Board> = Vec::new();
    let machine = machine(settings);
    for way in ways(settings) {
        let nic = nic_of(way.ip(), way.interface.mac.filter(|mac| *mac != [0; 6]));
        if nic == 0 || boards.iter().any(|board| board.nic == nic) {
            continue;
        }
        let hostname = format!("{machine}:{}", boards.len());
        boards.push(Board { way, nic, hostname });
    }
    boards
}

/// What this machine is called: cut to what `MX_MAX_HOSTNAME_LEN` has room for, with a board's number.
fn machine(settings: &Settings) -> String {
    let mut name = settings.name.clone().unwrap_or_else(own_name);
    let mut end = name.len().min(MAX_HOSTNAME_LEN - ":4294967295".len() - 1);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Settings {
        let mut settings = Settings::read(|_| None).unwrap();
        settings.name = Some(name.into());
        settings
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(machine(&named("ann")), "ann");
        let long = machine(&named(&"ö".repeat(60)));
        assert!(long.len() + ":4294967295".len() < MAX_HOSTNAME_LEN && long.ends_with('ö'));
    }
}
