//! Opening a bare link.

use emp_host::{RawFrames, RawSource, Want};
use emp_link::{Link, ShmLink, ShmOptions, UdpLink, UdpOptions, XdpLink, XdpOptions};
use emp_wire::{LinkAddress, NodeId};

use super::end::Raw;
use crate::bail_user;
use crate::bench::job::LinkChoice;
use crate::bench::subject::kind::{Card, Opening, Subject};
use crate::bench::subject::place::{Neighbour, Place};
use crate::error::user_error;

/// One end of it, open and not connected.
pub struct RawOpening {
    link: Box<dyn Link>,
    node: NodeId,
    frame_bytes_max: usize,
    long_frame_bytes: usize,
    peer: Neighbour,
}

impl RawOpening {
    /// Opens it; its frames have an EtherType.
    pub fn open(choice: LinkChoice, place: &Place, ethertype: u16) -> anyhow::Result<Self> {
        // Process and time make it differ from every other bare link that may still be open here.
        let node = NodeId::from_name(&format!(
            "raw {} {:?}",
            std::process::id(),
            std::time::Instant::now()
        ));
        let tag = node.destination_tag();
        let link: Box<dyn Link> = match place.choose(choice)? {
            choice @ (LinkChoice::Packet | LinkChoice::Lent | LinkChoice::Auto) => {
                let frames = RawFrames { ethertype, ..RawFrames::new(&place.interface.name, node) };
                // Not by the service, which lets none out that name no sender.
                let want = if choice == LinkChoice::Auto { Want::Packet } else { choice.want() };
                let opened = frames.open(RawSource::wanted(want), |_| ());
                opened.map_err(|error| user_error(error.to_string()))?
            }
            LinkChoice::Empd => bail_user!("raw frames do not go by empd; --subject emp does"),
            LinkChoice::Xdp => {
                let options =
                    XdpOptions { ethertype, ..XdpOptions::new(&place.interface.name, tag) };
                Box::new(XdpLink::open(&options).map_err(|error| user_error(error.to_string()))?)
            }
            LinkChoice::Udp => {
                let bind = Some(place.own);
                let options = UdpOptions {
                    bind,
                    port: 0,
                    mtu: place.packet_bytes_max(),
                    ..UdpOptions::new(tag)
                };
                Box::new(UdpLink::open(&options).map_err(|error| user_error(error.to_string()))?)
            }
            LinkChoice::Shm => {
                let options = ShmOptions::new(tag);
                Box::new(ShmLink::open(&options).map_err(|error| user_error(error.to_string()))?)
            }
        };
        let most = link.capabilities().frame_bytes_max;
        let long_frame_bytes = link.capabilities().long_frame_bytes;
        let frame_bytes_max = place.mtu.map_or(most, |mtu| most.min(mtu));
        Ok(Self { link, node, frame_bytes_max, long_frame_bytes, peer: place.neighbour() })
    }
}

impl Opening for RawOpening {
    fn card(&self) -> Card {
        let capabilities = self.link.capabilities();
        Card {
            links: vec![capabilities.kind.to_owned()],
            mac: capabilities.address.as_mac(),
            udp_port: capabilities.address.as_udp().map(|address| address.port()),
            shm: capabilities.address.as_shm(),
            node: Some(self.node.0),
            frame_bytes_max: Some(self.frame_bytes_max),
            long_frame_bytes: Some(self.long_frame_bytes),
            ..Card::default()
        }
    }

    fn connect(self: Box<Self>, other: &Card) -> anyhow::Result<Box<dyn Subject>> {
        let own = self.card();
        let udp = other.udp_port.map(|port| LinkAddress::udp(self.peer.port(port)));
        let to = match own {
            Card { mac: Some(_), .. } => other.mac.map(LinkAddress::mac),
            Card { shm: Some(_), .. } => other.shm.map(LinkAddress::shm),
            _ => udp,
        };
        let (Some(to), Some(node)) = (to, other.node) else {
            let theirs = other.links.join(", ");
            bail_user!("the bare link here is {}, at the other end {theirs}", own.links.join(", "));
        };
        let frame =
            other.frame_bytes_max.map_or(self.frame_bytes_max, |n| n.min(self.frame_bytes_max));
        let long = other.long_frame_bytes.unwrap_or(0).min(self.long_frame_bytes);
        Ok(Box::new(Raw::new(self.link, to, NodeId(node).destination_tag(), frame, long)))
    }
}
