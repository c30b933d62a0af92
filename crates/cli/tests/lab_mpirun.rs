//! `emp lab mpirun`, `emp mpi-env` and `emp install-provider` with an MPI made of scripts that say what they are asked
//! for. The real ones run in tests/mpi.

mod lab_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use lab_support::*;
use tempfile::TempDir;

/// A launcher that runs its program once on the second host, by the remote shell that it was given.
const LAUNCHER: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo 'Intel(R) MPI Library for Linux* OS, Version 2021.16 Build 1'; exit; }
echo "$1 $2 $3 on $(uname -n)"; shell=$4; shift 4
echo "$1 $2 $3 $4 $5 $6"; shift 6
"$shell" -x emp-b "$@"
"#;

/// An installation of Intel MPI, as far as its files decide, and an EMP provider that is never loaded.
fn installation() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (file, text) in
        [("bin/mpiexec.hydra", LAUNCHER), ("lib/libfabric.so.1", ""), ("provider/libemp-fi.so", "")]
    {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    root
}

fn with(root: &Path, arguments: &[&str]) -> Command {
    finding(root, emp(arguments))
}

fn finding(root: &Path, mut command: Command) -> Command {
    command.env("EMP_MPI_PATH", root).env("FI_PROVIDER_PATH", root.join("provider"));
    // What `vars.sh` does by the loader's path.
    command.env("I_MPI_OFI_LIBRARY", root.join("lib/libfabric.so.1"));
    command
}

#[test]
fn ranks_start_on_the_labs_hosts_with_the_environment_of_mpi_env() {
    let root = installation();
    let provider = root.path().join("provider").canonicalize().unwrap();
    let told = succeed(&mut with(root.path(), &["mpi-env", "--mpi", "intel", "--shell"]));
    assert!(told.contains(&format!("export FI_PROVIDER_PATH={}\n", provider.display())), "{told}");
    assert!(
        told.contains("export I_MPI_FABRICS='shm:ofi'\n") || told.contains("I_MPI_FABRICS=shm:ofi")
    );
    if !is_root() {
        return;
    }
    let script = "uname -n; env | grep -E '^(FI_PROVIDER|I_MPI_FABRICS)'; exit 7";
    let quoted = format!("\"{script}\"");
    let line = ["lab", "mpirun", "--mpi", "intel", "-n", "3", "--", "sh", "-c", &quoted];
    let child = with(root.path(), &line).stdout(Stdio::piped()).spawn().unwrap();
    let lab = format!("p{}x0", child.id());
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "the launcher's own code: {printed}");
    let wanted =
        ["-bootstrap ssh -bootstrap-exec on emp-a", "-hosts emp-a,emp-b -ppn 2 -n 3", "emp-b"];
    assert_eq!(printed.lines().take(3).collect::<Vec<_>>(), wanted, "{printed}");
    let told = told.lines().filter(|line| !line.starts_with('#'));
    for line in told.map(|line| line.trim_start_matches("export ").replace('\'', "")) {
        assert!(printed.lines().any(|other| other == line), "{line} in {printed}");
    }
    assert!(namespaces(&lab).is_empty() && !is_recorded(&lab));
}

/// A libfabric that has a provider EMP, which takes no link but auto.
const LIBFABRIC: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
unsigned fi_version(void) { return 1 << 16 | 17; }
int fi_getinfo(unsigned v, const char *n, const char *s, unsigned long long f, const void *h, void **list) {
    const char *level = getenv("FI_LOG_LEVEL");
    if (level && !strcmp(level, "warn"))
        fprintf(stderr, "libfabric:1:2::emp:core:emp():0<warn> FI_EMP_LINK=%s: must be auto\n", getenv("FI_EMP_LINK"));
    *list = 0;
    return -61;
}
"#;

#[test]
fn a_run_that_fails_because_emp_is_refused_says_why() {
    if !is_root() {
        return;
    }
    let root = installation();
    let source = root.path().join("libfabric.c");
    fs::write(&source, LIBFABRIC).unwrap();
    let library = root.path().join("lib/libfabric.so.1");
    let mut compiler = Command::new("cc");
    succeed(compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source));
    let run = |program: &str| {
        let line = ["lab", "mpirun", "--mpi", "intel", "-n", "2", "--", program];
        stderr(&with(root.path(), &line).env("FI_EMP_LINK", "pigeon").output().unwrap())
    };
    let told = "emp: libfabric does not offer EMP on emp-a: FI_EMP_LINK=pigeon: must be auto\n";
    assert_eq!(run("false"), told);
    assert_eq!(run("true"), "");
}

/// Ranks of another MPI than the launcher's each think that they are alone: that is said before they start.
#[test]
fn a_program_of_another_mpi_is_told_of() {
    if !is_root() {
        return;
    }
    let root = installation();
    let built = |library: &str| {
        let (lib, program) =
            (root.path().join(library), root.path().join(format!("with-{library}")));
        let source = root.path().join("mpi.c");
        fs::write(&source, "int MPI_Init(void) { return 0; }\n").unwrap();
        let soname = format!("-Wl,-soname,{library}");
        succeed(
            Command::new("cc").args(["-shared", "-fPIC", &soname, "-o"]).arg(&lib).arg(&source),
        );
        fs::write(&source, "int MPI_Init(void);\nint main(void) { return MPI_Init(); }\n").unwrap();
        let mut path = std::ffi::OsString::from("-Wl,-rpath,");
        path.push(root.path());
        succeed(Command::new("cc").arg("-o").arg(&program).arg(&source).arg(&lib).arg(&path));
        program
    };
    let run = |program: &Path| {
        let mut command = with(root.path(), &["lab", "mpirun", "--mpi", "intel", "-n", "2", "--"]);
        let output = command.arg(program).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let other = built("libmpi.so.40");
    let told = run(&other);
    let says = format!(
        "emp: {} is linked to libmpi.so.40, which is Open MPI's, and Intel MPI 2021.16 starts it: ",
        other.display()
    );
    assert!(
        told.starts_with(&says) && told.contains("--mpi") && told.lines().count() == 1,
        "{told}"
    );
    // Intel MPI runs programs of MPICH, and of what it cannot look into nothing is said.
    assert_eq!(run(&built("libmpi.so.12")), "");
    assert_eq!(run(Path::new("true")), "");
}

#[test]
fn a_lab_that_is_up_is_used_and_stays() {
    if !is_root() {
        return;
    }
    let (root, name) = (installation(), unique('m'));
    let _cleanup = Cleanup(&name);
    let line = ["lab", "mpirun", "--mpi", "intel", "-n", "3", "--name", &name, "--", "uname", "-n"];
    let missing = mistake(&mut with(root.path(), &line));
    assert!(missing.contains("is not up"), "{missing}");
    succeed(&mut emp(&["lab", "up", "--hosts", "3", "--topology", "switch", "--name", &name]));
    let printed = succeed(&mut with(root.path(), &line));
    assert!(printed.contains("-hosts emp-a,emp-b,emp-c -ppn 1 -n 3\nemp-b\n"), "{printed}");
    assert_eq!(namespaces(&name).len(), 4);
}

#[test]
fn an_interrupt_ends_every_process_and_the_lab() {
    if !is_root() {
        return;
    }
    let root = installation();
    let mark = format!("56789{}", std::process::id());
    let line = ["lab", "mpirun", "--mpi", "intel", "-n", "2", "--", "sleep", &mark];
    for name_of_signal in ["TERM", "INT"] {
        let scratch = tempfile::tempdir().unwrap();
        let mut command = finding(root.path(), interruptible(&line));
        command.env("TMPDIR", scratch.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lab = format!("p{}x0", child.id());
        wait_until("the sleeper sleeps", || processes_with(&format!("sleep\0{mark}")) >= 2);
        signal(&child, name_of_signal);
        assert!(!child.wait().unwrap().success());
        wait_until("the sleeper is gone", || processes_with(&mark) == 0);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "files stay behind");
        assert!(namespaces(&lab).is_empty() && !is_recorded(&lab));
    }
}

#[test]
fn mistakes_say_what_to_do() {
    let root = installation();
    let empty = tempfile::tempdir().unwrap();
    let mpirun = |more: &[&str]| -> Command {
        let line: Vec<&str> =
            ["lab", "mpirun", "--mpi", "intel"].iter().chain(more).copied().collect();
        with(root.path(), &line)
    };
    let nothing = mistake(
        mpirun(&["-n", "2", "--", "true"])
            .env("EMP_MPI_PATH", empty.path())
            .env("PATH", "/nowhere"),
    );
    assert!(nothing.contains("no Intel MPI found; EMP_MPI_PATH=DIR names one"), "{nothing}");
    let transport = mistake(&mut mpirun(&["-n", "2", "--over", "ucx", "--", "true"]));
    assert!(transport.contains("has no UCX tcp"), "{transport}");
    if !is_root() {
        return;
    }
    for (n, says) in [("0", "0 ranks"), ("9", "do not fit on 2 hosts with 2 each")] {
        let said = mistake(&mut mpirun(&["-n", n, "--ppn", "2", "--", "true"]));
        assert!(said.contains(says), "{said}");
    }
    let said = mistake(&mut mpirun(&["-n", "2", "--interfaces", "nosuch0", "--", "true"]));
    assert!(said.contains("no host of this lab has an interface nosuch0"), "{said}");
}

#[test]
fn doctor_says_why_an_mpi_would_not_take_emp() {
    let root = installation();
    let text = succeed(&mut with(root.path(), &["doctor", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let all = report["mpi"].as_array().unwrap();
    let intel = all.iter().find(|finding| finding["name"] == "Intel MPI 2021.16").unwrap();
    assert_eq!(intel["mark"], "warn");
    // Its libfabric is an empty file.
    assert!(intel["value"].as_str().unwrap().contains("does not answer"), "{intel}");
}
