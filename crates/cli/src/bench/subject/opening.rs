//! Opening a subject in two steps: first each end opens its own half and says what the other must know, then both connect.

use emp_link::service::socket_path;
use emp_link::{
    Link, PacketLink, PacketOptions, ShmLink, ShmOptions, UdpLink, UdpOptions, XdpLink, XdpOptions,
};
use emp_wire::{ETHERTYPE_DEFAULT, LinkAddress, NodeId};

use super::emp_opening::EmpOpening;
use super::faces::Face;
use super::place::{Neighbour, Place};
use super::raw::Raw;
use super::tcp_opening::TcpOpening;
use super::{Role, Subject};
use crate::bail_user;
use crate::bench::control::Card;
use crate::bench::job::{LinkChoice, Spec, SubjectKind};
use crate::error::user_error;

/// EtherType of the bare link: the other of the two that IEEE 802 sets aside for experiments, so that EMP's socket and
/// this one don't see each other's frames.
const ETHERTYPE_RAW: u16 = ETHERTYPE_DEFAULT + 1;

/// The EtherType of each subject's frames. Of those that share one the kernel has to pick the socket, which a subject by itself does
/// not pay for: of two of EMP that differed in nothing but the guardian, one was some 50 ns later a message for that. There are
/// two EtherTypes for experiments, so where the bare link takes one, all of EMP's share the other; and where there are faces,
/// which know the first only, EMP shares that with them, so that what the kernel does for theirs is not taken for what they add.
fn ethertypes(specs: &[Spec]) -> impl Iterator<Item = u16> {
    let shared = specs.iter().any(|spec| spec.kind == SubjectKind::Raw || spec.is_face());
    let first = specs.iter().position(|spec| spec.kind == SubjectKind::Emp);
    specs.iter().enumerate().map(move |(at, spec)| match spec.kind {
        SubjectKind::Raw => ETHERTYPE_RAW,
        SubjectKind::Emp if !shared && first != Some(at) => ETHERTYPE_RAW,
        _ => ETHERTYPE_DEFAULT,
    })
}

/// One end's half, open but not connected.
pub trait Opening {
    /// What the other end must know.
    fn card(&self) -> Card;

    /// Connects to the other end's half.
    fn connect(self: Box<Self>, other: &Card) -> anyhow::Result<Box<dyn Subject>>;
}

/// Opens this end's halves of all subjects. An interface has one XDP program: where EMP has it, the bare ring goes to a
/// spare interface, and TCP, whose frames the program would slow down, to another.
pub fn open_all(
    specs: &[Spec],
    place: &Place,
    role: Role,
) -> anyhow::Result<Vec<Box<dyn Opening>>> {
    let over_xdp = |spec: &Spec, kind| spec.kind == kind && spec.link == LinkChoice::Xdp;
    let taken = specs.iter().any(|spec| over_xdp(spec, SubjectKind::Emp));
    let beside = usize::from(specs.iter().any(|spec| over_xdp(spec, SubjectKind::Raw)));
    let open = |(spec, ethertype): (&Spec, u16)| match taken {
        true if over_xdp(spec, SubjectKind::Raw) => open(spec, &place.aside(0)?, ethertype, role),
        true if spec.is_tcp() => open(spec, &place.aside(beside)?, ethertype, role),
        _ => open(spec, place, ethertype, role),
    };
    specs.iter().zip(ethertypes(specs)).map(open).collect()
}

/// Opens this end's half of a subject.
fn open(
    spec: &Spec,
    place: &Place,
    ethertype: u16,
    role: Role,
) -> anyhow::Result<Box<dyn Opening>> {
    Ok(match spec.kind {
        SubjectKind::Emp => Box::new(EmpOpening::open(spec, place, ethertype)?),
        SubjectKind::Face(name) => match Face::named(name) {
            Some(face) => face.open(spec.link, place)?,
            None => bail_user!("there is no face {name}"),
        },
        SubjectKind::Mpi(_) => bail_user!("an MPI has programs of its own"),
        SubjectKind::Raw => Box::new(RawOpening::open(spec.link, place, ethertype)?),
        SubjectKind::Tcp | SubjectKind::TcpBlock => Box::new(TcpOpening::open(spec, place, role)?),
    })
}

struct RawOpening {
    link: Box<dyn Link>,
    node: NodeId,
    frame_bytes_max: usize,
    long_frame_bytes: usize,
    peer: Neighbour,
}

impl RawOpening {
    fn open(choice: LinkChoice, place: &Place, ethertype: u16) -> anyhow::Result<Self> {
        // Process and time make it differ from every other bare link that may still be open here.
        let node = NodeId::from_name(&format!(
            "raw {} {:?}",
            std::process::id(),
            std::time::Instant::now()
        ));
        let tag = node.destination_tag();
        let link: Box<dyn Link> = match place.choose(choice)? {
            choice @ (LinkChoice::Packet | LinkChoice::Lent | LinkChoice::Auto) => {
                let lender = (choice == LinkChoice::Lent).then(socket_path);
                let usual = PacketOptions::new(&place.interface.name, tag);
                let options = PacketOptions { ethertype, lender, ..usual };
                Box::new(PacketLink::open(&options).map_err(|error| user_error(error.to_string()))?)
            }
            // Bare frames name no sender, and the service lets none out that do not.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kinds: &[SubjectKind]) -> Vec<u16> {
        let emp = Spec::emp(LinkChoice::Packet);
        let specs: Vec<Spec> = kinds.iter().map(|kind| emp.against(*kind)).collect();
        ethertypes(&specs).collect()
    }

    #[test]
    fn two_subjects_do_not_share_an_ethertype() {
        use SubjectKind::{Emp, Raw, Tcp};
        const LIBFABRIC: SubjectKind = SubjectKind::LIBFABRIC;
        let (first, second) = (ETHERTYPE_DEFAULT, ETHERTYPE_RAW);
        assert_eq!(found(&[Emp, Emp]), [first, second]);
        assert_eq!(found(&[Emp, Raw]), [first, second]);
        // Faces share theirs with EMP, which is compared with them.
        assert_eq!(found(&[Emp, LIBFABRIC]), [first, first]);
        assert_eq!(found(&[Emp, Tcp, LIBFABRIC]), [first, first, first]);
        assert_eq!(found(&[Emp, Raw, LIBFABRIC]), [first, second, first]);
    }
}
