//! The library held to the MX interface by a C program (`tests/mx`): alone, between two hosts, under loss, and as an
//! ordinary user.

use std::path::Path;
use std::process::{Command, Stdio};

use emp_testing::faces::{Face, NOBODY, is_root, own_host, passes};
use emp_testing::lab::Lab;
use emp_testing::{Need, skip};

static MX: Face = Face::new(
    "mx",
    "libmyriexpress.so",
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mx/run"),
);

#[test]
fn the_interface_is_kept() {
    MX.alone("auto", &[]);
}

#[test]
fn it_is_kept_in_shared_memory() {
    MX.alone("shm", &[("EMP_LINK", "shm")]);
}

#[test]
fn it_is_kept_by_datagrams_that_get_lost() {
    MX.alone("loss", &[("EMP_LINK", "udp"), ("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_by_the_other_profile_asleep() {
    MX.alone("openmx", &[("EMP_PROFILE", "openmx"), ("EMP_WAIT", "sleep")]);
}

/// Without any privilege, under a user's own identity. Root becomes nobody for that.
#[test]
fn it_is_kept_for_ordinary_users() {
    let place = MX.place("user");
    if !is_root() {
        return MX.alone_under("user", &[], &place, &[]);
    }
    place.give_to_nobody();
    MX.alone_under("nobody", &NOBODY, &place, &[]);
}

/// No memory is used that is not there, and none is lost. But for the child of a fork, where memory of the parent's threads
/// is nobody's, and for what takes minutes so.
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
    let place = MX.place("valgrind");
    let mut command = MX.program(&[host, &wrapper].concat(), &place);
    command.args(["layout", "library", "handlers", "endpoints", "names", "info", "connecting"]);
    command.args(["addresses", "sessions", "sizes", "segments", "matching", "truncation"]);
    command.args(["synchronous", "ends", "any", "peeking", "cancel", "forget", "context_ids"]);
    command.args(["probing", "self", "unexpected", "progression", "wakeup", "timeouts"]);
    command.args(["wrong_handles", "threads", "many_endpoints"]);
    command.env("EMP_INTERFACE", "lo");
    passes(command.spawn().expect("valgrind is there"), "valgrind");
}

/// Library, headers and tools as `make install` puts them, used from there.
#[test]
fn what_is_installed_works() {
    let place = MX.place("install");
    let to = place.0.join("root");
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
    let installed = Command::new(install).arg(MX.built()).arg("/usr").arg(&to).output();
    let installed = installed.expect("the script was started");
    let text = String::from_utf8_lossy(&installed.stderr);
    assert!(installed.status.success(), "{text}");
    let root = to.join("usr");
    // A side that waits, a side that runs against it, and a program that is built as a user would.
    let script = r#"
        set -eu
        root=$1
        flags=$(sed -n 's/^Libs: *//p' "$root/lib/pkgconfig/myriexpress.pc")
        case $flags in *-lmyriexpress*) ;; *) exit 3 ;; esac
        printf '#include <mx_extensions.h>\nint main(void) { return mx_init() || mx_finalize(); }' |
            cc -xc - -o "$root/tiny" -I"$root/include" -L"$root/lib" -lmyriexpress
        LD_LIBRARY_PATH=$root/lib "$root/tiny"
        "$root/bin/emp-mx-info" | grep 'ann:0'
        # Whatever fails, nobody is left waiting.
        trap 'kill $side 2>/dev/null || :' EXIT
        for tool in pingpong stream; do
            "$root/bin/emp-mx-$tool" -e 70 & side=$!
            "$root/bin/emp-mx-$tool" -d ann -r 70 -M 64 -N 20 -V
            "$root/bin/emp-mx-$tool" -d ann -r 71 -b 7 2>&1 | grep 'no such board'
            wait $side
            status=0; "$root/bin/emp-mx-$tool" -M 1 2>/dev/null || status=$?; [ $status = 2 ]
            status=0; "$root/bin/emp-mx-$tool" -S x 2>/dev/null || status=$?; [ $status = 2 ]
        done
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

/// Two processes in two hosts; `settings` for both.
fn between_hosts(name: &str, user: bool, host: [&str; 2], settings: &[(&str, &str)]) {
    let Some(lab) = Lab::build("mx", 1500) else { return };
    let place = MX.place(name);
    if user {
        place.give_to_nobody();
    }
    let start = |side: usize, name: &str, arguments: &[&str]| {
        let mut wrapper = vec!["ip", "netns", "exec", lab.name(side)];
        if user {
            wrapper.extend(NOBODY);
        }
        let mut command = MX.program(&wrapper, &place);
        command
            .args(arguments)
            .env("EMP_NAME", name)
            .env("EMP_INTERFACE", "emp0")
            .envs(settings.iter().copied());
        command.spawn().expect("the program starts")
    };
    let passive = start(1, "bob", &["passive"]);
    let active = start(0, "ann", &["active", host[0], host[1]]);
    passes(active, "active");
    passes(passive, "passive");
}

#[test]
fn it_is_kept_between_hosts() {
    between_hosts("hosts", false, ["bob:0", "bob:0"], &[]);
}

#[test]
fn it_is_kept_between_hosts_that_lose_frames() {
    between_hosts("losing", false, ["bob:0", "bob:0"], &[("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_between_hosts_for_ordinary_users() {
    between_hosts("users", true, ["10.77.0.2", "bob:0"], &[]);
}
