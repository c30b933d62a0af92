//! The links of an engine: the service's own on each interface, as any client has it (decision 78), and datagrams beside that for long messages.

use emp_host::NodeBuilder;
use emp_link::service::protocol::Engine as Wanted;
use emp_link::service::{ServiceLink, ServiceOptions};
use emp_link::{FaultLink, FaultPlan, Interface, Link, UdpLink, UdpOptions, interfaces};

use super::Options;

/// Adds them.
///
/// # Errors
///
/// A line, if the service's own is not to be had.
pub(super) fn add(
    mut builder: NodeBuilder,
    wanted: &Wanted,
    names: &[String],
    options: &Options,
) -> Result<NodeBuilder, String> {
    let faults: FaultPlan = wanted.faults.parse().map_err(|error| format!("{error}"))?;
    let with = |builder: NodeBuilder, link: Box<dyn Link>| {
        if wanted.faults.is_empty() {
            builder.link(link)
        } else {
            builder.link(FaultLink::new(link, &faults))
        }
    };
    for interface in names {
        let link = ServiceOptions {
            socket: options.socket.clone(),
            ethertype: options.ethertype,
            token: wanted.seed ^ u64::from(wanted.epoch),
            ..ServiceOptions::new(interface, wanted.node)
        };
        let link = ServiceLink::open(&link).map_err(|error| error.to_string())?;
        builder = with(builder, Box::new(link));
    }
    if options.datagrams {
        for link in datagrams(wanted, names) {
            builder = with(builder, Box::new(link));
        }
    }
    Ok(builder)
}

/// A socket at the address of each interface. Where there is none, frames do: it is no error.
fn datagrams(wanted: &Wanted, names: &[String]) -> Vec<UdpLink> {
    let mut all = interfaces().unwrap_or_default();
    all.retain(|one| names.contains(&one.name));
    let open = |one: &Interface| {
        let ip = one.ip()?;
        let options = UdpOptions {
            bind: Some(ip),
            interface: Some(one.name.clone()),
            // Peers are told of it by the frames beside.
            port: 0,
            mtu: Some(one.mtu),
            by_own_interface: all.iter().any(|other| one.shares_subnet(other)),
            ..UdpOptions::new(wanted.node.destination_tag())
        };
        UdpLink::open(&options).ok()
    };
    all.iter().filter_map(open).collect()
}
