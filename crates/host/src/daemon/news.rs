//! Events of a node, as they go from the service to its program.

use emp_firmware::{Limit, LinkIndex, NodeEvent};
use emp_wire::{LinkAddress, NodeId};

use crate::daemon::codec::{Fields, Writer, Wrong};
use crate::daemon::questions::{put_address, take_address};

/// An event's bytes.
pub fn emit_event(event: &NodeEvent) -> Vec<u8> {
    let writer = Writer::default();
    let of = |kind: u8, node: &NodeId| Writer::default().byte(kind).long(node.0);
    let place = |writer: Writer, (link, address): &(LinkIndex, LinkAddress)| {
        put_address(writer.byte(link.0), address)
    };
    match event {
        NodeEvent::Found { node, link, address, name } => {
            place(of(1, node), &(*link, *address)).text(name)
        }
        NodeEvent::Unreachable(node) => of(2, node),
        NodeEvent::Restarted(node) => of(3, node),
        NodeEvent::GaveUp(node) => of(4, node),
        NodeEvent::Ended(node) => of(5, node),
        NodeEvent::Closed(node) => of(6, node),
        NodeEvent::Claimed { node, known, other } => {
            let writer = place(of(7, node), other).byte(known.is_some().into());
            known.iter().fold(writer, place)
        }
        NodeEvent::PathLost { node, link } => of(8, node).byte(link.0),
        NodeEvent::PathFound { node, link } => of(9, node).byte(link.0),
        NodeEvent::LostBySize { node, link, passed_bytes, lost_bytes } => {
            of(10, node).byte(link.0).long(*passed_bytes as u64).long(*lost_bytes as u64)
        }
        NodeEvent::LimitReached { limit, most } => {
            writer.byte(11).byte(*limit as u8).long(*most as u64)
        }
        NodeEvent::Limited { node, link, frame_bytes_max } => {
            of(12, node).byte(link.0).long(*frame_bytes_max as u64)
        }
    }
    .0
}

/// Reads one.
///
/// # Errors
///
/// If it cannot be.
pub fn parse_event(bytes: &[u8]) -> Result<NodeEvent, Wrong> {
    let mut fields = Fields(bytes);
    let kind = fields.byte()?;
    if kind == 11 {
        let limit = *Limit::ALL.get(usize::from(fields.byte()?)).ok_or(Wrong("no such limit"))?;
        let most = fields.long()? as usize;
        return fields.end().map(|()| NodeEvent::LimitReached { limit, most });
    }
    let node = NodeId(fields.long()?);
    let event = match kind {
        1 => {
            let (link, address) = place(&mut fields)?;
            NodeEvent::Found { node, link, address, name: fields.text()?.to_owned() }
        }
        2 => NodeEvent::Unreachable(node),
        3 => NodeEvent::Restarted(node),
        4 => NodeEvent::GaveUp(node),
        5 => NodeEvent::Ended(node),
        6 => NodeEvent::Closed(node),
        7 => {
            let other = place(&mut fields)?;
            let known = if fields.truth()? { Some(place(&mut fields)?) } else { None };
            NodeEvent::Claimed { node, known, other }
        }
        8 => NodeEvent::PathLost { node, link: LinkIndex(fields.byte()?) },
        9 => NodeEvent::PathFound { node, link: LinkIndex(fields.byte()?) },
        10 => NodeEvent::LostBySize {
            node,
            link: LinkIndex(fields.byte()?),
            passed_bytes: fields.long()? as usize,
            lost_bytes: fields.long()? as usize,
        },
        12 => NodeEvent::Limited {
            node,
            link: LinkIndex(fields.byte()?),
            frame_bytes_max: fields.long()? as usize,
        },
        _ => return Err(Wrong("an event that there is not")),
    };
    fields.end().map(|()| event)
}

fn place(fields: &mut Fields<'_>) -> Result<(LinkIndex, LinkAddress), Wrong> {
    Ok((LinkIndex(fields.byte()?), take_address(fields)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_events_are_read_as_they_were_told() {
        let (node, link) = (NodeId(7), LinkIndex(3));
        let at = (link, LinkAddress::mac([2, 0, 0, 0, 0, 9]));
        for event in [
            NodeEvent::Found { node, link, address: at.1, name: "näme".into() },
            NodeEvent::Unreachable(node),
            NodeEvent::Restarted(node),
            NodeEvent::GaveUp(node),
            NodeEvent::Ended(node),
            NodeEvent::Closed(node),
            NodeEvent::Claimed { node, known: Some(at), other: at },
            NodeEvent::Claimed { node, known: None, other: at },
            NodeEvent::PathLost { node, link },
            NodeEvent::PathFound { node, link },
            NodeEvent::LostBySize { node, link, passed_bytes: 1, lost_bytes: 2 },
            NodeEvent::LimitReached { limit: Limit::ALL[10], most: 4 },
            NodeEvent::Limited { node, link, frame_bytes_max: 1500 },
        ] {
            let bytes = emit_event(&event);
            assert_eq!(parse_event(&bytes), Ok(event));
            (0..bytes.len()).for_each(|shorter| assert!(parse_event(&bytes[..shorter]).is_err()));
        }
    }
}
