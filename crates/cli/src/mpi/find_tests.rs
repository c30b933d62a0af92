//! MPIs made of shell scripts that answer as the real ones do.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn program(directory: &Path, name: &str, script: &str) {
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_the_user_names_comes_first_and_nothing_twice() {
    let variable = |name: &str| match name {
        "EMP_MPI_PATH" => Some("/x:/y".into()),
        "VIRTUAL_ENV" => Some("/venv".into()),
        "PATH" => Some("/usr/bin:relative:/venv/bin".into()),
        _ => None,
    };
    let found = directories(variable);
    let wanted = ["/x/bin", "/x", "/y/bin", "/y", "/venv/bin", "/usr/bin"].map(PathBuf::from);
    assert_eq!(found[..6], wanted);
    assert_eq!(found.iter().filter(|path| **path == Path::new("/usr/bin")).count(), 1);
    assert!(!found.contains(&PathBuf::from("relative")));
}

#[test]
fn an_open_mpi_without_libfabric_is_found_and_said_to_be_so() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path();
    program(
        bin,
        "ompi_info",
        "[ \"$1\" = --version ] && echo 'Open MPI v4.0.1' || echo path:pkglibdir:/nowhere\necho path:libdir:/nowhere",
    );
    assert_eq!(open_mpi(bin), None, "there is no launcher");
    program(bin, "mpirun", "");
    let mpi = open_mpi(bin).unwrap();
    assert_eq!((mpi.name().as_str(), mpi.major()), ("Open MPI 4.0.1", 4));
    assert_eq!((mpi.libfabric, mpi.compiler, mpi.ucx), (None, None, false));
}

#[test]
fn an_mpich_says_which_networks_it_speaks() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path();
    program(bin, "mpiexec.hydra", "");
    program(bin, "mpicc", "");
    program(bin, "mpichversion", "echo 'MPICH Version:  4.0.2'; echo 'MPICH Device: ch4:ucx'");
    let mpi = mpich(bin).unwrap();
    assert_eq!(mpi.name(), "MPICH 4.0.2");
    assert_eq!((mpi.ucx, mpi.libfabric.is_some(), mpi.compiler.is_some()), (true, false, true));
    assert_eq!(intel(bin, &Loader::default(), |_| None), None);
}

/// An Intel MPI in a directory, with a libfabric of its own.
fn intel_in(root: &Path) -> PathBuf {
    let (bin, lib) = (root.join("bin"), root.join("lib"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&lib).unwrap();
    fs::write(lib.join(LIBFABRIC), "").unwrap();
    program(
        &bin,
        "mpiexec.hydra",
        "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.16 Build 2025'",
    );
    bin
}

#[test]
fn an_intel_mpi_is_known_by_its_launcher() {
    let dir = tempfile::tempdir().unwrap();
    let bin = intel_in(dir.path());
    let mpi = intel(&bin, &Loader::default(), |_| None).unwrap();
    assert_eq!(mpi.name(), "Intel MPI 2021.16");
    // Its own libfabric is where no loader looks.
    assert_ne!(mpi.libfabric, Some(dir.path().join("lib").join(LIBFABRIC)));
    let without = Mpi { libfabric: None, ..mpi };
    let (problem, advice) = without_libfabric(&without);
    assert!(problem.contains("finds no libfabric.so.1"), "{problem}");
    let own = format!("LD_LIBRARY_PATH={}", dir.path().join("lib").display());
    assert!(advice.contains(&own), "{advice}");
}

#[test]
fn an_intel_mpi_opens_the_libfabric_that_is_named_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let bin = intel_in(dir.path());
    let file = dir.path().join("lib").join(LIBFABRIC);
    let named = |value: &Path| {
        let value = value.as_os_str().to_owned();
        let variable = move |name: &str| (name == "I_MPI_OFI_LIBRARY").then(|| value.clone());
        intel(&bin, &Loader::default(), variable).unwrap().libfabric
    };
    assert_eq!(named(&file), Some(file.clone()));
    assert_eq!(named(Path::new("/nowhere/libfabric.so.1")), None);
    assert_eq!(named(Path::new("libno-such-fabric.so.1")), None);
    assert!(named(Path::new("libc.so.6")).is_some_and(|path| path.ends_with("libc.so.6")));
}
