//! Each obstacle is named by what causes it.

use super::*;

fn mpi(family: Family) -> Mpi {
    Mpi { libfabric: None, ..Mpi::example(family, "4.1.4") }
}

const DEBIAN: &str = "# comment\nbtl = ^uct,openib,ofi\nmtl = ^ofi\npml = ^ucx\n";

#[test]
fn a_parameter_file_keeps_components_out() {
    assert_eq!(excluding(DEBIAN, "mtl", "ofi").as_deref(), Some("mtl = ^ofi"));
    assert_eq!(excluding(DEBIAN, "pml", "cm"), None);
    assert_eq!(excluding("pml=ob1", "pml", "cm").as_deref(), Some("pml=ob1"));
    assert_eq!(excluding("#mtl = ^ofi", "mtl", "ofi"), None);
}

#[test]
fn debians_defaults_are_named_until_they_are_overridden() {
    let file = Some((Path::new("/etc/openmpi/openmpi-mca-params.conf"), DEBIAN));
    let reasons = why_not_chosen(&mpi(Family::OpenMpi), file, |_| None);
    assert!(reasons[0].contains("openmpi-mca-params.conf says `mtl = ^ofi`"), "{reasons:?}");
    assert!(reasons[1].contains("OMPI_MCA_pml=cm"), "{reasons:?}");
    let set = |name: &str| match name {
        "OMPI_MCA_mtl" => Some("ofi".to_owned()),
        "OMPI_MCA_pml" => Some("cm".to_owned()),
        _ => None,
    };
    assert!(why_not_chosen(&mpi(Family::OpenMpi), file, set).is_empty());
    let wrong = |name: &str| (name == "OMPI_MCA_pml").then(|| "ob1".to_owned());
    let reasons = why_not_chosen(&mpi(Family::OpenMpi), None, wrong);
    assert_eq!(reasons, ["OMPI_MCA_pml=ob1 is not cm"]);
}

#[test]
fn an_mpich_with_two_networks_wants_to_be_told() {
    let reasons = why_not_chosen(&mpi(Family::Mpich), None, |_| None);
    assert!(reasons[0].contains("MPIR_CVAR_CH4_NETMOD=ofi"));
    assert!(why_not_chosen(&mpi(Family::Mpich), None, |_| Some("ofi".to_owned())).is_empty());
    let single = Mpi { ucx: false, ..mpi(Family::Mpich) };
    assert!(why_not_chosen(&single, None, |_| None).is_empty());
}

#[test]
fn intel_mpi_wants_to_be_told() {
    let with = |set: &[(&str, &str)]| {
        let set: Vec<_> = set.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let look = |name: &str| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        why_not_chosen(&mpi(Family::Intel), None, look)
    };
    assert_eq!(with(&[]), ["it takes another provider unless FI_PROVIDER=emp"]);
    assert!(with(&[("FI_PROVIDER", "emp")]).is_empty());
    assert!(with(&[("I_MPI_OFI_PROVIDER", "emp"), ("I_MPI_FABRICS", "shm:ofi")]).is_empty());
    assert_eq!(
        with(&[("FI_PROVIDER", "tcp,emp")]),
        ["it may take another one of FI_PROVIDER=tcp,emp"]
    );
    let both = with(&[("I_MPI_OFI_PROVIDER", "psm3"), ("I_MPI_FABRICS", "shm")]);
    assert_eq!(
        both,
        ["I_MPI_OFI_PROVIDER=psm3 is not emp", "I_MPI_FABRICS=shm leaves libfabric out"]
    );
}

#[test]
fn a_provider_that_is_not_found_says_where_it_was_looked_for() {
    let place = Some(Path::new("/nowhere/libfabric"));
    assert!(why_not_found(place, |_| None).contains("no libemp-fi.so in /nowhere/libfabric"));
    let filter = |name: &str| (name == "FI_PROVIDER").then(|| "tcp,udp".to_owned());
    assert_eq!(why_not_found(place, filter), "FI_PROVIDER=tcp,udp leaves EMP out");
    let path = |name: &str| (name == "FI_PROVIDER_PATH").then(|| "/x".to_owned());
    assert!(why_not_found(place, path).contains("FI_PROVIDER_PATH=/x does not lead"));
}

#[test]
fn an_mpi_without_libfabric_cannot_take_emp() {
    let finding = one(&mpi(Family::Mpich), None);
    assert!(finding.value.contains("built without libfabric"), "{finding:?}");
    assert!(finding.advice.is_some());
}

#[test]
fn a_program_is_told_of_by_what_it_loads() {
    let linked = |mpi: Option<(Family, &str)>| Linked {
        mpi: mpi.map(|(family, library)| (family, library.into())),
        libfabric: None,
    };
    let of = |mpi| of_program("p", &linked(mpi), &[self::mpi(Family::Mpich)], None);
    assert!(of(None).value.contains("neither an MPI nor libfabric"));
    let mpich = of(Some((Family::Mpich, "/usr/lib/libmpi.so.12")));
    assert_eq!(mpich.name, "p");
    assert!(mpich.value.contains("is MPICH 4.1.4's and cannot take EMP"), "{mpich:?}");
    let other = of(Some((Family::OpenMpi, "/usr/lib/libmpi.so.40")));
    assert!(other.value.contains("no launcher is found"), "{other:?}");
    // What is no libfabric gives no answer.
    let libfabric = Some("/nowhere/libfabric.so.1".into());
    let finding = of_program("p", &Linked { mpi: None, libfabric }, &[], None);
    assert!(finding.name == "p" && finding.value.contains("does not answer"), "{finding:?}");
    assert!(program(Path::new("/nowhere/program")).is_err());
}
