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
    assert_eq!(intel(bin), None);
}

#[test]
fn an_intel_mpi_is_known_by_its_launcher() {
    let dir = tempfile::tempdir().unwrap();
    let (bin, lib) = (dir.path().join("bin"), dir.path().join("lib"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&lib).unwrap();
    fs::write(lib.join("libfabric.so.1"), "").unwrap();
    program(
        &bin,
        "mpiexec.hydra",
        "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.16 Build 2025'",
    );
    let mpi = intel(&bin).unwrap();
    assert_eq!(mpi.name(), "Intel MPI 2021.16");
    assert_eq!(mpi.libfabric, Some(lib.join("libfabric.so.1")));
}
