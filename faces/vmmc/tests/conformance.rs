//! The library held to its header by a C program (`tests/vmmc`): alone, between two hosts, under loss, as an ordinary user, with
//! AddressSanitizer and valgrind.

use emp_testing::faces::{Codes, Face, Side};

/// Short enough that the program looks at what silence leads to.
const SILENCE: (&str, &str) = ("EMP_TIMEOUT", "3000");

static VMMC: Face = Face::new("vmmc", "libvmmc.so", &[SILENCE]);

#[test]
fn the_interface_is_kept() {
    let written = VMMC.alone("auto", &[]);
    let codes = Codes { kind: "return", first: "VMMC_OK", never: &[] };
    VMMC.is_complete("vmmc_", &[codes], &written);
}

#[test]
fn it_is_kept_in_shared_memory_that_loses_frames() {
    VMMC.alone("shm", &[("EMP_LINK", "shm"), ("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_by_datagrams_that_get_lost() {
    VMMC.alone("loss", &[("EMP_LINK", "udp"), ("EMP_FAULT", "drop:0.01")]);
}

/// The protocol of the paper: a loss is followed by everything from there on.
#[test]
fn it_is_kept_by_the_papers_protocol_asleep() {
    VMMC.alone(
        "vmmc2",
        &[
            ("EMP_PROFILE", "vmmc2"),
            ("EMP_WAIT", "sleep"),
            ("EMP_FAULT", "drop:0.01"),
            ("EMP_TIMEOUT", "10000"),
        ],
    );
}

#[test]
fn it_is_kept_for_ordinary_users() {
    VMMC.for_ordinary_users();
}

/// But for what takes minutes so, and the child of a fork, where memory of the parent's threads is nobody's.
#[test]
fn valgrind_finds_nothing() {
    VMMC.under_valgrind(
        "layout library names exporting permission importing waiting_imports addresses asynchronous receiving \
         notifications blocking computing redirection generations closed itself threads finalized",
    );
}

#[test]
fn address_sanitizer_finds_nothing() {
    VMMC.with_sanitizers("");
}

/// What one writes the other reads.
fn between_hosts(what: &str, user: bool, settings: &[(&str, &str)]) {
    let active = Side { side: 0, name: "ann", arguments: &["active"] };
    let peer = Side { side: 1, name: "bob", arguments: &["peer"] };
    VMMC.between_hosts(what, (user, true), [&active, &peer], settings);
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

#[test]
fn what_is_installed_works() {
    let text = VMMC.installed(
        r#"
        flags vmmc
        test -s "$root/share/man/man3/vmmc.3"
        printf '#include <vmmc.h>\nint main(void) { return vmmc_init(VMMC_ANY_PROCESS) || vmmc_finalize(); }' | build tiny -lvmmc
        "$root/tiny"
        for test in pingpong stream ring; do
            "$root/bin/emp-vmmc" $test -p 70 & side=$!
            "$root/bin/emp-vmmc" $test -p 71 -d ann -r 70 -M 4096 -N 50
            wait $side
        done
        refuses "$root/bin/emp-vmmc" nonsense
        refuses "$root/bin/emp-vmmc" stream -M x
        "#,
    );
    assert!(text.contains("half of a round trip") && text.contains("MB/s"), "{text}");
}
