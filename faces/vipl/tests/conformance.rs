//! The library held to its header by a C program (`tests/vipl`): alone, between two hosts, under loss, as an ordinary user, with
//! AddressSanitizer and valgrind.

use emp_testing::faces::{Codes, Face, Side};

/// Short enough that the program looks at what silence leads to.
const SILENCE: (&str, &str) = ("EMP_TIMEOUT", "3000");

static VIPL: Face = Face::new("vipl", "libvipl.so", &[SILENCE]);

const RETURNS: Codes = Codes {
    kind: "return",
    first: "VIP_SUCCESS",
    never: &[("VIP_NOT_REACHABLE", "later than VIA 1.0, where it is VIP_TIMEOUT")],
};

const ERRORS: Codes = Codes {
    kind: "error",
    first: "VIP_ERROR_POST_DESC",
    never: &[
        ("VIP_ERROR_VI_OVERRUN", "a queue that is full refuses what is posted"),
        ("VIP_ERROR_RDMAW_DATA", "damaged frames are sent again"),
        ("VIP_ERROR_RDMAW_ABORT", "an RDMA write of a peer that is lost ends with the connection"),
        ("VIP_ERROR_COMP_PROT", "descriptors are read when they are posted"),
        (
            "VIP_ERROR_RDMA_TRANSPORT",
            "what the network loses is sent again, or the connection is lost",
        ),
        ("VIP_ERROR_CATASTROPHIC", "a NIC is software of this process"),
    ],
};

const STATUSES: Codes = Codes {
    kind: "status",
    first: "VIP_STATUS_DONE",
    never: &[
        (
            "VIP_STATUS_PARTIAL_ERROR",
            "a message is placed whole, or its receive says that it is too short",
        ),
        ("VIP_STATUS_ERROR_MASK", "all errors together"),
    ],
};

#[test]
fn the_interface_is_kept() {
    let written = VIPL.alone("auto", &[]);
    VIPL.is_complete("Vip", &[RETURNS, ERRORS, STATUSES], &written);
}

#[test]
fn it_is_kept_in_shared_memory_that_loses_frames() {
    VIPL.alone("shm", &[("EMP_LINK", "shm"), ("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_by_datagrams_that_get_lost() {
    VIPL.alone("loss", &[("EMP_LINK", "udp"), ("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_by_the_other_profile_asleep() {
    VIPL.alone(
        "openmx",
        &[
            ("EMP_PROFILE", "openmx"),
            ("EMP_WAIT", "sleep"),
            ("EMP_FAULT", "drop:0.01"),
            ("EMP_TIMEOUT", "10000"),
        ],
    );
}

#[test]
fn it_is_kept_for_ordinary_users() {
    VIPL.for_ordinary_users();
}

/// But for what takes minutes so, and the child of a fork, where memory of the parent's threads is nobody's.
#[test]
fn valgrind_finds_nothing() {
    VIPL.under_valgrind(
        "layout nics tags memory vis vi_attributes names connecting requests agreement peers discriminators sizes \
         segments immediate order queues cqs writes reads fence protection descriptors lengths no_receive disconnect \
         deregister notify errors wrong_handles threads many",
    );
}

#[test]
fn address_sanitizer_finds_nothing() {
    VIPL.with_sanitizers("");
}

/// The active side knows the other one by this name.
fn between_hosts(what: &str, user: bool, host: &str, settings: &[(&str, &str)]) {
    let active = Side { side: 0, name: "ann", arguments: &["active", host] };
    let passive = Side { side: 1, name: "bob", arguments: &["passive"] };
    VIPL.between_hosts(what, (user, false), [&active, &passive], settings);
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

#[test]
fn what_is_installed_works() {
    // A program that is built as a user would, and one that loads the library by the name that programs of VIA's time have;
    // a side that waits, a side that runs against it.
    let text = VIPL.installed(
        r#"
        flags vipl
        printf '#include <vipl.h>\nint main(void) { VIP_NIC_HANDLE n; return VipOpenNic("", &n) || VipCloseNic(n); }' | build tiny -lvipl
        "$root/tiny"
        printf '#include <dlfcn.h>\nint main(void) { void *l = dlopen("vipl.so", RTLD_NOW); return !l || !dlsym(l, "VipConnectPeerWait"); }' | build loads ""
        "$root/loads"
        for tool in pingpong stream; do
            tool=$root/bin/emp-vipl-$tool
            for level in 1 2 4; do
                "$tool" -l $level & side=$!
                "$tool" -d ann -l $level -M 64 -N 20 -V
                wait $side
            done
            "$tool" -d ann -n nic7 2>&1 | grep 'no NIC'
            EMP_INTERFACE=nosuch0 "$tool" 2>&1 | grep 'no interface'
            EMP_LINK=nonsense "$tool" 2>&1 | grep 'EMP_LINK'
            refuses "$tool" -M 1
            refuses "$tool" -l 3
        done
        ring="$root/bin/emp-vipl-ring -c 3 -M 4096 -N 10 -V"
        $ring -r 1 & one=$!
        $ring -r 2 & side=$!
        $ring -r 0 ann ann ann
        test -s "$root/share/man/man3/vipl.3"
        wait $one
        wait $side
        "#,
    );
    assert!(text.contains("messages/s") && text.contains("half of a round trip"), "{text}");
}
