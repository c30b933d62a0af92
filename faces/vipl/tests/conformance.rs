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
