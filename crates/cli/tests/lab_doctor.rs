//! `emp doctor`, here and inside a lab's host, where it is known what there is to find.

mod lab_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use lab_support::*;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_report_fits_a_terminal_and_has_no_colour_off_one() {
    let text = succeed(&mut emp(&["doctor"]));
    for title in
        ["privilege", "kernel", "CPU", "network", "left behind", "interfaces", "what auto takes"]
    {
        assert!(text.lines().any(|line| line == title), "{text}");
    }
    // Only a path too long to break may stick out.
    let too_wide = |line: &&str| line.chars().count() > 100 && line.split("  ").count() < 3;
    assert_eq!(text.lines().find(too_wide), None);
    assert!(!text.contains('\x1b'));
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let mut child = emp(&["doctor"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
    assert!(output.status.success());
}

#[test]
fn in_a_lab_it_sees_the_hosts_interfaces_and_takes_packet() {
    if !is_root() {
        return;
    }
    let program = env!("CARGO_BIN_EXE_emp");
    let run = ["lab", "run", "--mtu", "9000", "--host", "emp-b", program, "doctor", "--json"];
    let report = json(&succeed(&mut emp(&run)));
    let interfaces = report["interfaces"].as_array().unwrap();
    assert_eq!(interfaces.len(), 2, "{interfaces:?}");
    let cable = &interfaces[0];
    assert_eq!((&cable["name"], &cable["mtu"]), (&"emp0".into(), &9000.into()));
    assert_eq!((&cable["driver"], &cable["running"]), (&"veth".into(), &true.into()));
    assert_eq!(cable["addresses"][0], "10.77.0.2");
    assert_eq!(cable["offloads"]["gso"], true);
    let rungs = report["rungs"].as_array().unwrap();
    assert_eq!((&rungs[0]["interface"], &rungs[0]["link"]), (&"emp0".into(), &"packet".into()));
    assert_eq!(rungs[1]["link"], "shm");
}

/// Bridges of containers and tunnels are passed over beside the network, and alone as well; and the report says so.
#[test]
fn what_leads_to_containers_and_through_tunnels_is_passed_over() {
    if !is_root() {
        return;
    }
    let program = env!("CARGO_BIN_EXE_emp");
    let script = format!(
        "set -e
        ip link add docker0 type bridge
        ip link add c0 type veth peer name c1
        ip link set c0 master docker0 up
        ip link set c1 up
        ip address add 172.17.0.1/16 dev docker0
        ip link set docker0 up
        ip link add vx0 type vxlan id 7 dev emp0 dstport 4789
        ip address add 10.9.0.1/24 dev vx0
        ip link set vx0 up
        {program} doctor --json"
    );
    let run = ["lab", "run", "--host", "emp-b", "sh", "-c", &script];
    let report = json(&succeed(&mut emp(&run)));
    let rung = |name: &str| {
        let rungs = report["rungs"].as_array().unwrap();
        rungs.iter().find(|rung| rung["interface"] == name).unwrap().clone()
    };
    for (name, why) in [
        ("docker0", "passed over: a bridge without a card"),
        ("c0", "passed over: a port of a bridge"),
        ("vx0", "passed over: a tunnel (vxlan)"),
    ] {
        let rung = rung(name);
        assert!(rung["link"].is_null() && rung["reason"] == why, "{rung}");
        assert!(rung["better"].as_str().unwrap().ends_with(&format!("EMP_INTERFACES={name}")));
    }
    let cable = rung("emp0");
    assert_eq!(cable["link"], "packet");
    let reason = cable["reason"].as_str().unwrap();
    assert!(reason.ends_with("a virtual cable (veth): offered to MPI first"), "{reason}");
}

/// Whether the kernel demultiplexes frames once for all nodes of an interface (decision 33), and if not, why.
#[test]
fn it_says_what_further_nodes_of_an_interface_cost() {
    if !is_root() {
        return;
    }
    let program = env!("CARGO_BIN_EXE_emp");
    let top = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, mode, says) in [
        ("closed", 0o700, "once for all of a user's nodes"),
        // The table would be open to others.
        ("open", 0o755, "once for each node, some 0.1 µs (no PACKET_FANOUT group: no directory"),
    ] {
        let place = top.join(name);
        fs::create_dir_all(place.join("emp")).unwrap();
        fs::set_permissions(place.join("emp"), fs::Permissions::from_mode(mode)).unwrap();
        let set = format!("XDG_RUNTIME_DIR={}", place.display());
        let run = ["lab", "run", "--", "env", &set, program, "doctor", "--json"];
        let report = json(&succeed(&mut emp(&run)));
        let reason = report["rungs"][0]["reason"].as_str().unwrap();
        assert!(reason.contains(says), "{name}: {reason}");
    }
}

#[test]
fn without_privilege_it_takes_udp_and_says_what_to_do() {
    if !is_root() {
        return;
    }
    // Root's identity stays, so that the program can be read; its capabilities go.
    let script = "exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" doctor --json";
    let mut run = emp(&["lab", "run", "--", "sh", "-c", script]);
    let report = json(&succeed(run.arg(env!("CARGO_BIN_EXE_emp"))));
    let rung = &report["rungs"][0];
    assert_eq!((&rung["interface"], &rung["link"]), (&"emp0".into(), &"udp".into()));
    assert!(rung["better"].as_str().unwrap().contains("setcap cap_net_raw+ep"), "{rung}");
}

/// A libfabric that says this of its version and offers one provider, as far as `emp doctor` looks at it.
fn make_libfabric(directory: &Path, minor: u32, provider: &str) {
    let text = format!(
        "#include <stddef.h>\n#include <stdint.h>\n\
         struct named {{ void *object; const char *name, *provider; }};\n\
         struct info {{ struct info *next; uint64_t caps, mode; uint32_t format; size_t source, destination;\n\
             void *addresses[2], *handle, *tx, *rx, *ep; struct named *domain, *fabric; }};\n\
         static struct named fabric = {{ NULL, \"fabric\", \"{provider}\" }};\n\
         static struct info one = {{ .fabric = &fabric }};\n\
         uint32_t fi_version(void) {{ return 2 << 16 | {minor}; }}\n\
         int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, void *hints,\n\
             struct info **out) {{ *out = &one; return 0; }}\n"
    );
    let library = directory.join("libfabric.so.1");
    compile(&text, &library, &["-shared", "-fPIC", "-Wl,-soname,libfabric.so.1"]);
}

fn compile(text: &str, output: &Path, options: &[&str]) {
    fs::create_dir_all(output.parent().unwrap()).unwrap();
    let source = output.with_extension("c");
    fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    succeed(compiler.arg("-o").arg(output).arg(&source).args(options));
}

/// What `emp doctor` says of a program, in this environment.
fn said_of(program: &Path, environment: &[(&str, &Path)]) -> String {
    let mut command = emp(&["doctor", "--json"]);
    for name in ["FI_PROVIDER", "FI_PROVIDER_PATH", "LD_LIBRARY_PATH", "I_MPI_OFI_LIBRARY"] {
        command.env_remove(name);
    }
    let report = json(&succeed(command.arg(program).envs(environment.iter().copied())));
    let name = program.file_name().unwrap().to_str().unwrap();
    let findings = report["mpi"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["name"] == name);
    finding.unwrap()["value"].as_str().unwrap().to_owned()
}

#[test]
fn of_a_program_it_looks_at_the_libfabric_that_the_loader_finds_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (own, other) = (root.join("own"), root.join("other"));
    fs::create_dir_all(&own).unwrap();
    make_libfabric(&own, 8, "emp");
    fs::create_dir_all(&other).unwrap();
    make_libfabric(&other, 9, "emp");
    let program = root.join("program");
    let runpath = format!("-Wl,--enable-new-dtags,-rpath,{}", own.display());
    let library = own.join("libfabric.so.1");
    let text = "unsigned fi_version(void); int main(void) { return fi_version() == 0; }";
    compile(text, &program, &[&runpath, library.to_str().unwrap()]);
    let said = said_of(&program, &[]);
    assert!(said.contains("has EMP among its providers; libfabric 2.8 in"), "{said}");
    let said = said_of(&program, &[("LD_LIBRARY_PATH", &other)]);
    assert!(said.contains("libfabric 2.9 in"), "{said}");
    assert!(said_of(Path::new("/bin/true"), &[]).contains("neither an MPI nor libfabric"));
    let missing = emp(&["doctor", "/nowhere/program"]).output().unwrap();
    assert_eq!((missing.status.code(), stderr(&missing).lines().count()), (Some(2), 1));
}

#[test]
fn intel_mpi_has_the_libfabric_that_it_opens_by_name_and_another_provider_unless_told() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let launcher = root.join("bin/mpiexec.hydra");
    fs::create_dir_all(launcher.parent().unwrap()).unwrap();
    let version = "#!/bin/sh\necho 'Intel(R) MPI Library for Linux* OS, Version 2021.16 Build 1'\n";
    fs::write(&launcher, version).unwrap();
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).unwrap();
    // Its own libfabric lies beside its library; the environment leads to another.
    let (own, other) = (root.join("lib"), root.join("other"));
    let mpi = own.join("libmpi.so.12");
    let text = "const char *reads = \"I_MPI_OFI_LIBRARY\"; int MPI_Init(void) { return 0; }";
    compile(text, &mpi, &["-shared", "-fPIC", "-Wl,-soname,libmpi.so.12"]);
    make_libfabric(&own, 8, "emp");
    fs::create_dir_all(&other).unwrap();
    make_libfabric(&other, 9, "emp");
    let program = root.join("program");
    let runpath = format!("-Wl,--enable-new-dtags,-rpath,{}", own.display());
    let text = "int MPI_Init(void); int main(void) { return MPI_Init(); }";
    compile(text, &program, &[&runpath, mpi.to_str().unwrap()]);

    let (found, elsewhere) =
        (("EMP_MPI_PATH", root.as_path()), ("LD_LIBRARY_PATH", other.as_path()));
    let said = said_of(&program, &[found, elsewhere]);
    assert!(said.starts_with("is Intel MPI 2021.16's and would not take EMP now: "), "{said}");
    assert!(said.contains("it takes another provider unless FI_PROVIDER=emp"), "{said}");
    assert!(said.contains(&format!("libfabric 2.9 in {}", other.display())), "{said}");
    let told = ("FI_PROVIDER", Path::new("emp"));
    let said = said_of(&program, &[found, elsewhere, told]);
    assert!(said.contains("takes EMP as it is; libfabric 2.9"), "{said}");
    let library = own.join("libfabric.so.1");
    let named = ("I_MPI_OFI_LIBRARY", library.as_path());
    assert!(said_of(&program, &[found, elsewhere, told, named]).contains("libfabric 2.8"));
}
