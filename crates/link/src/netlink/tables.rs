//! The kernel's tables of interfaces and of routes.

use std::io;

use super::message::{DONE, ERROR, attributes, messages, question, u16_at, u32_at};
use super::{BUFFER_BYTES, Netlink};
use crate::system;

/// Bytes of `struct ifinfomsg` and `struct rtmsg`.
const LINK_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;

/// Attributes of interfaces, from `<linux/if_link.h>`.
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_PARENT_DEV_NAME: u16 = 56;

/// Of routes, from `<linux/rtnetlink.h>`.
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;

/// Messages of one answer, at most: far more interfaces or routes than any machine has that should look at them all.
const READS_MAX: usize = 4096;

/// What the kernel knows of an interface beside its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkFacts {
    pub(crate) index: u32,
    /// What made it: `bridge`, `bond`, `vlan`, `veth`, `tun`, `wireguard`, …. Cards have none.
    pub(crate) kind: Option<String>,
    /// Its hardware: 1 is Ethernet.
    pub(crate) hardware: u16,
    /// The interface that it is a port of.
    pub(crate) master: Option<u32>,
    /// There is a device on some bus behind it.
    pub(crate) is_device: bool,
}

/// What there is now, of the calling thread's network namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub(crate) links: Vec<LinkFacts>,
    /// Interfaces, by number, that a default route leads by.
    pub(crate) default_routes: Vec<u32>,
}

impl Tables {
    /// Asks for both tables.
    pub(crate) fn read() -> io::Result<Self> {
        let netlink = Netlink::open(0)?;
        let mut tables = Self::default();
        netlink.dump(libc::RTM_GETLINK, &[0; LINK_BYTES], |kind, body| {
            if kind == libc::RTM_NEWLINK {
                tables.links.extend(link(body));
            }
        })?;
        netlink.dump(libc::RTM_GETROUTE, &[0; ROUTE_BYTES], |kind, body| {
            if kind == libc::RTM_NEWROUTE {
                tables.default_routes.extend(default_route(body));
            }
        })?;
        Ok(tables)
    }
}

impl Netlink {
    /// Asks for all there is of a kind.
    fn dump(&self, kind: u16, body: &[u8], mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        system::send(self.fd(), &question(kind, body))?;
        let mut answer = vec![0; BUFFER_BYTES];
        for _ in 0..READS_MAX {
            // The kernel has written the first part before the send returns, and each further one as the one before is read.
            let bytes = system::receive(self.fd(), &mut answer)?;
            for (kind, body) in messages(&answer[..bytes]) {
                match kind {
                    DONE => return Ok(()),
                    ERROR => {
                        let code = u32_at(body, 0).unwrap_or_default().cast_signed();
                        return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                    }
                    _ => each(kind, body),
                }
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

fn link(body: &[u8]) -> Option<LinkFacts> {
    let (head, rest) = body.split_at_checked(LINK_BYTES)?;
    let hardware = u16_at(head, 2)?;
    let mut facts = LinkFacts { index: u32_at(head, 4)?, hardware, ..LinkFacts::default() };
    for (kind, value) in attributes(rest) {
        match kind {
            IFLA_MASTER => facts.master = u32_at(value, 0),
            IFLA_PARENT_DEV_NAME => facts.is_device = true,
            IFLA_LINKINFO => {
                let kind = attributes(value).find(|(kind, _)| *kind == IFLA_INFO_KIND);
                facts.kind = kind.map(|(_, text)| {
                    String::from_utf8_lossy(text).trim_end_matches('\0').to_owned()
                });
            }
            _ => {}
        }
    }
    Some(facts)
}

/// The interfaces that a route leads by, if it is a default route that others than loopback take.
fn default_route(body: &[u8]) -> Vec<u32> {
    let Some((head, rest)) = body.split_at_checked(ROUTE_BYTES) else { return Vec::new() };
    // Bits of the destination, table and type of the route.
    let (bits, table, kind) = (head[1], head[4], head[7]);
    if bits != 0 || table != libc::RT_TABLE_MAIN || kind != libc::RTN_UNICAST {
        return Vec::new();
    }
    attributes(rest)
        .flat_map(|(kind, value)| match kind {
            RTA_OIF => u32_at(value, 0).into_iter().collect(),
            RTA_MULTIPATH => next_hops(value),
            _ => Vec::new(),
        })
        .collect()
}

/// The interfaces of several next hops: `struct rtnexthop`, each as long as it says.
fn next_hops(mut rest: &[u8]) -> Vec<u32> {
    let mut interfaces = Vec::new();
    while let (Some(length), Some(interface)) = (u16_at(rest, 0), u32_at(rest, 4)) {
        interfaces.push(interface);
        let Some(next) = rest.get(usize::from(length).next_multiple_of(4).max(8)..) else { break };
        rest = next;
    }
    interfaces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_in_the_table() {
        let tables = Tables::read().expect("anyone may ask");
        let lo = tables.links.iter().find(|link| link.index == 1).expect("it is always there");
        assert_eq!((lo.hardware, lo.master, lo.is_device), (772, None, false));
    }

    #[test]
    fn several_next_hops_are_all_seen() {
        let hop = |interface: u32| {
            let mut hop = vec![8, 0, 0, 0];
            hop.extend(interface.to_ne_bytes());
            hop
        };
        let hops = [hop(3), hop(7)].concat();
        assert_eq!(next_hops(&hops), [3, 7]);
        assert_eq!(next_hops(&hops[..12]), [3]);
        assert_eq!(next_hops(&[0; 8]), [0], "a length of nothing ends it");
    }
}
