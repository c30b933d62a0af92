//! The library held to its header by a C program (`tests/vipl`): alone, between two hosts, under loss, and as an ordinary user;
//! with AddressSanitizer and valgrind.

use std::path::Path;
use std::process::{Command, Stdio};

use emp_testing::faces::{Face, NOBODY, command, is_root, own_host, passes};
use emp_testing::lab::{INTERFACE, Lab};
use emp_testing::{Need, skip};

static VIPL: Face =
    Face::new("vipl", "libvipl.so", concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vipl/run"));

/// Short enough that the program looks at what silence leads to.
const SILENCE: (&str, &str) = ("EMP_TIMEOUT", "3000");

#[test]
fn the_interface_is_kept() {
    VIPL.alone("auto", &[SILENCE]);
}

#[test]
fn it_is_kept_in_shared_memory_that_loses_frames() {
    VIPL.alone("shm", &[SILENCE, ("EMP_LINK", "shm"), ("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_by_datagrams_that_get_lost() {
    VIPL.alone("loss", &[SILENCE, ("EMP_LINK", "udp"), ("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_by_the_other_profile_asleep() {
    let settings = [("EMP_PROFILE", "openmx"), ("EMP_WAIT", "sleep"), ("EMP_FAULT", "drop:0.01")];
    VIPL.alone("openmx", &settings);
}

/// Without any privilege, under a user's own identity. Root becomes nobody for that.
#[test]
fn it_is_kept_for_ordinary_users() {
    let place = VIPL.place("user");
    if !is_root() {
        return VIPL.alone_under("user", &[], &place, &[SILENCE]);
    }
    place.give_to_nobody();
    VIPL.alone_under("nobody", &NOBODY, &place, &[SILENCE]);
}

/// No memory is used that is not there, and none is lost.
#[test]
fn valgrind_finds_nothing() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip(Need::Mpi, "valgrind is not installed");
    }
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vipl/valgrind.supp");
    let known = format!("--suppressions={}", known.display());
    let wrapper = [
        "valgrind",
        &known,
        "--quiet",
        "--fair-sched=yes", // else a program that computes in a loop keeps the library's threads from running
        "--error-exitcode=33",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ];
    let (_turn, host) = own_host();
    let place = VIPL.place("valgrind");
    let mut command = VIPL.program(&[host, &wrapper].concat(), &place);
    // But for what takes minutes so, and the child of a fork, where memory of the parent's threads is nobody's.
    command.args(["layout", "nics", "tags", "memory", "vis", "vi_attributes", "names"]);
    command.args(["connecting", "requests", "agreement", "peers", "discriminators", "sizes"]);
    command.args(["segments", "immediate", "order", "queues", "cqs", "writes", "reads", "fence"]);
    command.args(["protection", "descriptors", "lengths", "no_receive", "disconnect"]);
    command.args(["deregister", "notify", "wrong_handles", "threads", "many"]);
    command.env("EMP_INTERFACE", "lo");
    passes(command.spawn().expect("valgrind is there"), "valgrind");
}

/// The program's memory, which the library writes to, is watched by the compiler's checks: what C has called with it, and what
/// is lost at the end.
#[test]
fn address_sanitizer_finds_nothing() {
    let directory = VIPL.built().join("sanitized");
    std::fs::create_dir_all(&directory).expect("a directory for the test");
    std::fs::copy(VIPL.built().join("libvipl.so"), directory.join("libvipl.so"))
        .expect("the library copied");
    VIPL.build(&directory, "-fsanitize=address,undefined -fno-sanitize-recover=all");
    let (_turn, host) = own_host();
    let place = VIPL.place("sanitizer");
    let mut command = command(&directory.join("conformance"), host, &place);
    command.env("EMP_INTERFACE", "lo").env(SILENCE.0, SILENCE.1);
    passes(command.spawn().expect("the program starts"), "AddressSanitizer");
}

/// Two processes in two hosts; `settings` for both. The active one knows the other by this name.
fn between_hosts(name: &str, user: bool, host: &str, settings: &[(&str, &str)]) {
    let Some(lab) = Lab::build("vipl", 1500) else { return };
    let place = VIPL.place(name);
    if user {
        place.give_to_nobody();
    }
    let start = |side: usize, name: &str, arguments: &[&str]| {
        let mut wrapper = vec!["ip", "netns", "exec", lab.name(side)];
        if user {
            wrapper.extend(NOBODY);
        }
        let mut command = VIPL.program(&wrapper, &place);
        command.args(arguments).env("EMP_NAME", name).env("EMP_INTERFACE", INTERFACE);
        command.env(SILENCE.0, SILENCE.1).envs(settings.iter().copied());
        command.spawn().expect("the program starts")
    };
    let passive = start(1, "bob", &["passive"]);
    let active = start(0, "ann", &["active", host]);
    passes(active, "active");
    passes(passive, "passive");
}

#[test]
fn it_is_kept_between_hosts() {
    between_hosts("hosts", false, "bob", &[]);
}

#[test]
fn it_is_kept_between_hosts_that_lose_frames() {
    between_hosts("losing", false, "bob", &[("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_between_hosts_for_ordinary_users() {
    between_hosts("users", true, "10.77.0.2", &[]);
}
/// Library, header and tools as `make install` puts them, used from there.
#[test]
fn what_is_installed_works() {
    let place = VIPL.place("install");
    let to = place.0.join("root");
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
    let installed = Command::new(install).arg(VIPL.built()).arg("/usr").arg(&to).output();
    let installed = installed.expect("the script was started");
    let text = String::from_utf8_lossy(&installed.stderr);
    assert!(installed.status.success(), "{text}");
    let root = to.join("usr");
    // A side that waits, a side that runs against it, a program that is built as a user would, and one that loads the
    // library by the name that programs of VIA's time have.
    let script = r#"
        set -eu
        root=$1
        flags=$(sed -n 's/^Libs: *//p' "$root/lib/pkgconfig/vipl.pc")
        case $flags in *-lvipl*) ;; *) exit 3 ;; esac
        printf '#include <vipl.h>\nint main(void) { VIP_NIC_HANDLE n; return VipOpenNic("", &n) || VipCloseNic(n); }' |
            cc -xc - -o "$root/tiny" -I"$root/include" -L"$root/lib" -lvipl
        LD_LIBRARY_PATH=$root/lib "$root/tiny"
        printf '#include <dlfcn.h>\nint main(void) { void *l = dlopen("vipl.so", RTLD_NOW); return !l || !dlsym(l, "VipConnectPeerWait"); }' |
            cc -xc - -o "$root/loads"
        LD_LIBRARY_PATH=$root/lib "$root/loads"
        # Whatever fails, nobody is left waiting.
        trap 'kill $side 2>/dev/null || :' EXIT
        for tool in pingpong stream; do
            for level in 1 2 4; do
                "$root/bin/emp-vipl-$tool" -l $level & side=$!
                "$root/bin/emp-vipl-$tool" -d ann -l $level -M 64 -N 20 -V
                wait $side
            done
            "$root/bin/emp-vipl-$tool" -d ann -n nic7 2>&1 | grep 'no NIC'
            status=0; "$root/bin/emp-vipl-$tool" -M 1 2>/dev/null || status=$?; [ $status = 2 ]
            status=0; "$root/bin/emp-vipl-$tool" -l 3 2>/dev/null || status=$?; [ $status = 2 ]
        done
        "$root/bin/emp-vipl-ring" -c 3 -r 1 -M 4096 -N 10 -V & one=$!
        "$root/bin/emp-vipl-ring" -c 3 -r 2 -M 4096 -N 10 -V & two=$!
        "$root/bin/emp-vipl-ring" -c 3 -r 0 -M 4096 -N 10 -V ann ann ann
        wait $one
        wait $two
    "#;
    let (_turn, host) = own_host();
    let host = if host.is_empty() { &["env"] } else { host };
    let mut command = Command::new(host[0]);
    command.args(&host[1..]).args(["sh", "-c", script, "sh"]).arg(&root);
    command.env("XDG_RUNTIME_DIR", &place.0).env("EMP_NAME", "ann").env("EMP_INTERFACE", "lo");
    let output = command.output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
    assert!(text.contains("messages/s") && text.contains("half of a round trip"), "{text}");
}
