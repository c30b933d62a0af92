//! Opening a subject in two steps: first each end opens its own half and says what the other must know, then both connect.

use emp_wire::ETHERTYPE_DEFAULT;

use super::emp::opening::EmpOpening;
use super::faces::end::Face;
use super::kind::{Opening, Role};
use super::place::Place;
use super::raw::opening::RawOpening;
use super::tcp::opening::TcpOpening;
use crate::bail_user;
use crate::bench::job::{LinkChoice, Spec, SubjectKind};

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
