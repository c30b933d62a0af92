//! The library held to its header by a C program (`tests/mx`): alone, between two hosts, under loss, as an ordinary user, with
//! AddressSanitizer and valgrind.

use emp_testing::faces::{Codes, Face, Side};

static MX: Face = Face::new("mx", "libmyriexpress.so", &[]);

const NOWHERE: &str = "MX numbers it; its documents name no call that returns it";

const RETURNS: Codes = Codes {
    kind: "return",
    first: "MX_SUCCESS",
    never: &[
        ("MX_NO_DRIVER", "there is no driver that might be missing"),
        ("MX_NO_PERM", "EMP runs without privilege, on another link"),
        ("MX_BAD_ADDR_LIST", NOWHERE),
        ("MX_BAD_ADDR_COUNT", NOWHERE),
        ("MX_BAD_ROOT", NOWHERE),
        ("MX_NOT_COMPLETED", NOWHERE),
        ("MX_BAD_NIC", NOWHERE),
        ("MX_REQUEST_PENDING", NOWHERE),
        ("MX_NO_MATCH", NOWHERE),
        ("MX_BAD_KERNEL_VERSION", "there is no driver of another version"),
        ("MX_NIC_DEAD", "a NIC has no firmware that might have died"),
        (
            "MX_NOT_SUPPORTED_WITH_CONTEXT_ID",
            "all that MX refuses with context ids works with them",
        ),
    ],
};

const STATUSES: Codes = Codes {
    kind: "status",
    first: "MX_STATUS_SUCCESS",
    never: &[
        ("MX_STATUS_PENDING", "only requests that have ended have a status"),
        ("MX_STATUS_BUFFERED", "a send that is buffered has ended well"),
        ("MX_STATUS_REJECTED", NOWHERE),
        (
            "MX_STATUS_TIMEOUT",
            "it is MX_STATUS_ENDPOINT_UNREACHABLE, as mx_set_request_timeout has it",
        ),
        ("MX_STATUS_CANCELLED", "a request that was cancelled is gone"),
        ("MX_STATUS_ENDPOINT_UNKNOWN", NOWHERE),
        ("MX_STATUS_BAD_ENDPOINT", "mx_iconnect itself refuses such an id"),
        ("MX_STATUS_BAD_RDMAWIN", NOWHERE),
        ("MX_STATUS_ABORTED", "only of memory that the application has taken away"),
        ("MX_STATUS_EVENTQ_FULL", "the queue grows with what is outstanding"),
        ("MX_STATUS_NO_RESOURCES", "what finds no room waits"),
    ],
};

#[test]
fn the_interface_is_kept() {
    let written = MX.alone("auto", &[]);
    MX.is_complete("mx_", &[RETURNS, STATUSES], &written);
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

#[test]
fn it_is_kept_for_ordinary_users() {
    MX.for_ordinary_users();
}

/// But for the child of a fork, where memory of the parent's threads is nobody's, and for what takes minutes so.
#[test]
fn valgrind_finds_nothing() {
    MX.under_valgrind(
        "layout library handlers endpoints names info connecting addresses sessions sizes segments matching truncation \
         synchronous ends any peeking cancel forget context_ids probing self unexpected progression wakeup timeouts \
         wrong_handles threads many_endpoints",
    );
}

#[test]
fn address_sanitizer_finds_nothing() {
    MX.with_sanitizers("");
}

#[test]
fn what_is_installed_works() {
    // A program that is built as a user would; a side that waits, a side that runs against it.
    let text = MX.installed(
        r#"
        flags myriexpress
        printf '#include <mx_extensions.h>\nint main(void) { return mx_init() || mx_finalize(); }' | build tiny -lmyriexpress
        "$root/tiny"
        "$root/bin/emp-mx-info" | grep 'ann:0'
        for tool in pingpong stream; do
            tool=$root/bin/emp-mx-$tool
            "$tool" -e 70 & side=$!
            "$tool" -d ann -r 70 -M 64 -N 20 -V
            "$tool" -d ann -r 71 -b 7 2>&1 | grep 'no such board'
            wait $side
            refuses "$tool" -M 1
            refuses "$tool" -S x
        done
        test -s "$root/share/man/man3/myriexpress.3"
        "#,
    );
    assert!(text.contains("messages/s") && text.contains("half of a round trip"), "{text}");
}

/// Boards are the interfaces that are named, in this order; an endpoint is on the one that it was opened on.
#[test]
fn boards_are_the_interfaces_in_their_order() {
    let text = MX.installed(
        r#"
        # Only root makes interfaces.
        [ "$(id -u)" = 0 ] || exit 0
        ip link add one type veth peer name two
        ip address add 10.9.1.1/24 dev one
        ip address add 10.9.2.1/24 dev two
        ip link set one up
        ip link set two up
        # The kernel's work queue says that there is a carrier, on a busy machine after a while.
        for try in $(seq 500); do
            [ "$(ip -o link show | grep -c 'state UP')" = 2 ] && break
            sleep 0.02
        done
        for order in one,two two,one; do
            export EMP_INTERFACE=$order
            "$root/bin/emp-mx-info" | sed -n '/^board/N; s/ *\n *NIC id */ /p' | sed "s/^/$order /"
            "$root/bin/emp-mx-pingpong" -b 1 -e 70 & side=$!
            "$root/bin/emp-mx-pingpong" -d ann:1 -r 70 -M 64 -N 20 -V
            wait $side
            "$root/bin/emp-mx-pingpong" -b 1 -e 70 & side=$!
            "$root/bin/emp-mx-pingpong" -b 1 -d ann:1 -r 70 -M 64 -N 20 -V
            wait $side
            ! "$root/bin/emp-mx-info" ann:2 || exit 1
        done
        "#,
    );
    if text.is_empty() {
        return;
    }
    for board in [
        "one,two board 0: ann:0 02:45:0a:09:01:01",
        "one,two board 1: ann:1 02:45:0a:09:02:01",
        "two,one board 0: ann:0 02:45:0a:09:02:01",
        "two,one board 1: ann:1 02:45:0a:09:01:01",
    ] {
        assert!(text.contains(board), "{board}: {text}");
    }
}

/// The active side knows the other one by the first name, which that one knows as the second.
fn between_hosts(what: &str, user: bool, host: [&str; 2], settings: &[(&str, &str)]) {
    let active = Side { side: 0, name: "ann", arguments: &["active", host[0], host[1]] };
    let name = host[1].strip_suffix(":0").expect("its first board");
    let passive = Side { side: 1, name, arguments: &["passive"] };
    MX.between_hosts(what, (user, false), [&active, &passive], settings);
}

/// One with a name that is longer than the fixed place for it in a frame.
#[test]
fn it_is_kept_between_hosts() {
    let long = "a-machine-with-a-long-name.rack-17.cluster.example:0";
    between_hosts("hosts", false, [long, long], &[]);
}

#[test]
fn it_is_kept_between_hosts_that_lose_frames() {
    between_hosts("losing", false, ["bob:0", "bob:0"], &[("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_between_hosts_for_ordinary_users() {
    between_hosts("users", true, ["10.77.0.2", "bob:0"], &[]);
}
