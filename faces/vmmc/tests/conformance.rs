//! The library held to its header by a C program (`tests/vmmc`): alone, between two hosts, under loss, and as an ordinary user;
//! with AddressSanitizer and valgrind.

use std::path::Path;
use std::process::{Command, Stdio};

use emp_testing::faces::{Face, NOBODY, command, ends, is_root, own_host, passes};
use emp_testing::lab::{INTERFACE, Lab};
use emp_testing::{Need, skip};

static VMMC: Face =
    Face::new("vmmc", "libvmmc.so", concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vmmc/run"));

/// Short enough that the program looks at what silence leads to.
const SILENCE: (&str, &str) = ("EMP_TIMEOUT", "3000");

#[test]
fn the_interface_is_kept() {
    VMMC.alone("auto", &[SILENCE]);
}

#[test]
fn it_is_kept_in_shared_memory_that_loses_frames() {
    VMMC.alone("shm", &[SILENCE, ("EMP_LINK", "shm"), ("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_by_datagrams_that_get_lost() {
    VMMC.alone("loss", &[SILENCE, ("EMP_LINK", "udp"), ("EMP_FAULT", "drop:0.01")]);
}

/// The protocol of the paper: a loss is followed by everything from there on.
#[test]
fn it_is_kept_by_the_papers_protocol_asleep() {
    let settings = [("EMP_PROFILE", "vmmc2"), ("EMP_WAIT", "sleep"), ("EMP_FAULT", "drop:0.01")];
    VMMC.alone("vmmc2", &settings);
}

/// Without any privilege, under a user's own identity. Root becomes nobody for that.
#[test]
fn it_is_kept_for_ordinary_users() {
    let place = VMMC.place("user");
    if !is_root() {
        return VMMC.alone_under("user", &[], &place, &[SILENCE]);
    }
    place.give_to_nobody();
    VMMC.alone_under("nobody", &NOBODY, &place, &[SILENCE]);
}

/// No memory is used that is not there, and none is lost.
#[test]
fn valgrind_finds_nothing() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip(Need::Mpi, "valgrind is not installed");
    }
    let wrapper = [
        "valgrind",
        "--quiet",
        "--fair-sched=yes", // else a program that computes in a loop keeps the library's threads from running
        "--error-exitcode=33",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ];
    let (_turn, host) = own_host();
    let place = VMMC.place("valgrind");
    let mut command = VMMC.program(&[host, &wrapper].concat(), &place);
    // But for what takes minutes so, and the child of a fork, where memory of the parent's threads is nobody's.
    command.args(["layout", "library", "names", "exporting", "permission", "importing"]);
    command.args(["waiting_imports", "addresses", "asynchronous", "receiving", "notifications"]);
    command.args(["blocking", "computing", "redirection", "generations", "closed", "itself"]);
    command.args(["threads", "finalized"]);
    command.env("EMP_INTERFACE", "lo");
    passes(command.spawn().expect("valgrind is there"), "valgrind");
}

/// The program's memory, which the library writes to, is watched by the compiler's checks: what C has called with it, and what
/// is lost at the end.
#[test]
fn address_sanitizer_finds_nothing() {
    let directory = VMMC.built().join("sanitized");
    std::fs::create_dir_all(&directory).expect("a directory for the test");
    std::fs::copy(VMMC.built().join("libvmmc.so"), directory.join("libvmmc.so"))
        .expect("the library copied");
    VMMC.build(&directory, "-fsanitize=address,undefined -fno-sanitize-recover=all");
    let (_turn, host) = own_host();
    let place = VMMC.place("sanitizer");
    let mut command = command(&directory.join("conformance"), host, &place);
    command.env("EMP_INTERFACE", "lo").env(SILENCE.0, SILENCE.1);
    passes(command.spawn().expect("the program starts"), "AddressSanitizer");
}

/// Two processes in two hosts; `settings` for both. What one writes the other reads.
fn between_hosts(name: &str, user: bool, settings: &[(&str, &str)]) {
    let Some(lab) = Lab::build("vmmc", 1500) else { return };
    let place = VMMC.place(name);
    if user {
        place.give_to_nobody();
    }
    let program = |side: usize, name: &str, what: &str| {
        let mut wrapper = vec!["ip", "netns", "exec", lab.name(side)];
        if user {
            wrapper.extend(NOBODY);
        }
        let mut command = VMMC.program(&wrapper, &place);
        command.arg(what).env("EMP_NAME", name).env("EMP_INTERFACE", INTERFACE);
        command.env(SILENCE.0, SILENCE.1).envs(settings.iter().copied());
        command
    };
    let mut peer = program(1, "bob", "peer");
    let mut peer = peer.stdin(Stdio::piped()).spawn().expect("the program starts");
    let (to, from) = (peer.stdin.take().expect("piped"), peer.stdout.take().expect("piped"));
    let mut active = program(0, "ann", "active");
    let active = active.stdin(from).stdout(to).spawn().expect("the program starts");
    passes(active, name);
    assert!(ends(peer, "the other side").0, "the other side has failed");
}

#[test]
fn it_is_kept_between_hosts() {
    between_hosts("hosts", false, &[]);
}

#[test]
fn it_is_kept_between_hosts_that_lose_frames() {
    between_hosts("losing", false, &[("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_between_hosts_for_ordinary_users() {
    between_hosts("users", true, &[]);
}

/// Library, header and tool as `make install` puts them, used from there.
#[test]
fn what_is_installed_works() {
    let place = VMMC.place("install");
    let to = place.0.join("root");
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
    let installed = Command::new(install).arg(VMMC.built()).arg("/usr").arg(&to).output();
    let installed = installed.expect("the script was started");
    let text = String::from_utf8_lossy(&installed.stderr);
    assert!(installed.status.success(), "{text}");
    let script = r#"
        set -eu
        root=$1
        flags=$(sed -n 's/^Libs: *//p' "$root/lib/pkgconfig/vmmc.pc")
        case $flags in *-lvmmc*) ;; *) exit 3 ;; esac
        test -s "$root/share/man/man3/vmmc.3"
        printf '#include <vmmc.h>\nint main(void) { return vmmc_init(VMMC_ANY_PROCESS) || vmmc_finalize(); }' |
            ${CC:-cc} -xc - -o "$root/tiny" -I"$root/include" -L"$root/lib" -lvmmc
        LD_LIBRARY_PATH=$root/lib "$root/tiny"
        # Whatever fails, nobody is left waiting.
        trap 'kill $side 2>/dev/null || :' EXIT
        for test in pingpong stream ring; do
            "$root/bin/emp-vmmc" $test -p 70 & side=$!
            "$root/bin/emp-vmmc" $test -p 71 -d ann -r 70 -M 4096 -N 50
            wait $side
        done
        status=0; "$root/bin/emp-vmmc" nonsense 2>/dev/null || status=$?; [ $status = 2 ]
        status=0; "$root/bin/emp-vmmc" stream -M x 2>/dev/null || status=$?; [ $status = 2 ]
    "#;
    let (_turn, host) = own_host();
    let host = if host.is_empty() { &["env"] } else { host };
    let mut command = Command::new(host[0]);
    command.args(&host[1..]).args(["sh", "-c", script, "sh"]).arg(root_of(&to));
    command.env("XDG_RUNTIME_DIR", &place.0).env("EMP_NAME", "ann").env("EMP_INTERFACE", "lo");
    let output = command.output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
    assert!(text.contains("half of a round trip") && text.contains("MB/s"), "{text}");
}

fn root_of(to: &Path) -> std::path::PathBuf {
    to.join("usr")
}
