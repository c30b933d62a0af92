//! Values of state files for people.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use emp_state::layout::Address;
use emp_state::{Peer, Snapshot};

/// A span of nanoseconds: `12 ms`, `3.4 s`, `5 min`.
pub fn span(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match seconds {
        s if s < 0.001 => "now".into(),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

/// How long ago something was; `-`: never.
pub fn ago(now: u64, at: u64) -> String {
    if at == 0 { "-".into() } else { span(now.saturating_sub(at)) }
}

/// Bytes: `512`, `64K`, `3.2M`.
pub fn bytes(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{}K", count >> 10),
        10_000_000..10_000_000_000 => format!("{}M", count >> 20),
        _ => format!("{}G", count >> 30),
    }
}

/// A place on a link.
pub fn address(of: &Address) -> String {
    let b = &of.bytes;
    match of.family {
        1 => b[..6].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
        4 => {
            let ip = Ipv4Addr::new(b[0], b[1], b[2], b[3]);
            SocketAddr::from((ip, u16::from_be_bytes([b[4], b[5]]))).to_string()
        }
        6 => {
            let mut octets = [0; 16];
            octets.copy_from_slice(&b[..16]);
            SocketAddr::from((Ipv6Addr::from(octets), u16::from_be_bytes([b[16], b[17]])))
                .to_string()
        }
        9 => format!("place {}", u32::from_be_bytes([b[0], b[1], b[2], b[3]])),
        11 => "this machine".into(),
        12 if b[8] == 1 => "through 1 relay".into(),
        12 => format!("through {} relays", b[8]),
        _ => "-".into(),
    }
}

/// A node, as people call it.
pub fn node(of: &Snapshot) -> String {
    called(&of.identity.name.show(), of.identity.node)
}

/// A peer likewise.
pub fn peer(of: &Peer) -> String {
    called(&of.name.show(), of.node)
}

fn called(name: &str, node: u64) -> String {
    if name.is_empty() { format!("{node:016x}") } else { name.to_owned() }
}

/// A link of a node.
pub fn link(of: &Snapshot, index: u8) -> String {
    match of.links.get(usize::from(index)) {
        Some(link) if link.interface.is_empty() => link.kind.show(),
        Some(link) => format!("{} {}", link.kind.show(), link.interface.show()),
        None => format!("link {index}"),
    }
}

/// Its place in its job.
pub fn rank(of: &Snapshot) -> String {
    let identity = &of.identity;
    match (identity.rank, identity.ranks) {
        (..0, _) => "-".into(),
        (rank, 0) => rank.to_string(),
        (rank, ranks) => format!("{rank}/{ranks}"),
    }
}

/// What waits there, and since when.
pub fn waits(of: &Snapshot, now: u64) -> String {
    let mut all = Vec::new();
    let longest = |pick: fn(&Peer) -> u64| {
        of.peers.iter().filter(|it| pick(it) > 0).min_by_key(|it| pick(it))
    };
    if let Some(peer_) = longest(|peer| peer.out_since) {
        all.push(format!("to {} {}", peer(peer_), ago(now, peer_.out_since)));
    }
    if let Some(peer_) = longest(|peer| peer.in_since) {
        all.push(format!("from {} {}", peer(peer_), ago(now, peer_.in_since)));
    }
    if of.now.receive_since > 0 {
        all.push(format!("from anyone {}", ago(now, of.now.receive_since)));
    }
    if all.is_empty() { "-".into() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short() {
        let all = [
            span(400),
            span(12_000_000),
            span(3_400_000_000),
            span(300_000_000_000),
            bytes(65_536),
        ];
        assert_eq!(all, ["now", "12 ms", "3.4 s", "5 min", "64K"]);
        let mut b = [0; 22];
        b[..6].copy_from_slice(&[10, 0, 0, 1, 0xca, 0xfe]);
        assert_eq!(address(&Address { family: 4, bytes: b }), "10.0.0.1:51966");
        assert_eq!(address(&Address { family: 1, bytes: b }), "0a:00:00:01:ca:fe");
        b[8] = 2;
        assert_eq!(address(&Address { family: 12, bytes: b }), "through 2 relays");
        assert_eq!(address(&Address { family: 77, bytes: b }), "-");
    }
}
