//! The provider held to libfabric's manual pages by a C program (`tests/libfabric`), on the libfabric of this machine, or on that
//! of the directory LIBFABRIC (`make test-libfabric`).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use emp_testing::lab::{INTERFACE, Lab};
use emp_testing::pcapng::{Packet, packets};
use emp_testing::{Need, skip};

/// The provider that was built with this test.
fn provider() -> PathBuf {
    let here = std::env::current_exe().expect("this program has a path");
    let beside = here.parent().expect("in a directory").join("libemp_fi.so");
    assert!(beside.exists(), "{} was not built", beside.display());
    beside
}

/// True if C programs for libfabric can be built here.
fn can_build() -> bool {
    let probe = Command::new("cc")
        .args(["-E", "-include", "rdma/fabric.h", "-x", "c", "/dev/null"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success())
}

/// The tests whose two nodes may be on two hosts: the others are about processes of one machine.
const BETWEEN_HOSTS: [&str; 16] = [
    "info",
    "objects",
    "meeting",
    "messages",
    "tagged",
    "probing",
    "completions",
    "waiting",
    "naps",
    "memory",
    "atomics",
    "threads",
    "flags",
    "manual",
    "events",
    "failures",
];

/// Those of them that are about messages, memory and what is lost, and take a second or two.
const BY_SERVICE: [&str; 8] =
    ["messages", "tagged", "probing", "completions", "memory", "atomics", "threads", "failures"];

/// With EMP_ALL_PROGRAMS in the environment all that may be on two hosts, which takes some minutes more.
fn by_service() -> &'static [&'static str] {
    if std::env::var_os("EMP_ALL_PROGRAMS").is_some() { &BETWEEN_HOSTS } else { &BY_SERVICE }
}

const LOSS: (&str, &str) = ("FI_EMP_FAULT", "drop:0.01");

#[test]
fn the_manual_pages_are_kept() {
    run("auto", &[], &[], " 0 failed");
}

#[test]
fn they_are_kept_in_shared_memory() {
    run("shm", &[], &[("FI_EMP_LINK", "shm")], " 0 failed");
}

#[test]
fn they_are_kept_between_hosts() {
    between_hosts("hosts", &BETWEEN_HOSTS, &[], " 0 failed");
}

#[test]
fn they_are_kept_between_hosts_that_lose_frames() {
    between_hosts("losing", &BETWEEN_HOSTS, &[LOSS], " 0 failed");
}

/// Between hosts without broadcast or multicast, as nodes of libfabric are in no group.
#[test]
fn they_are_kept_by_datagrams_alone_with_a_list_of_peers() {
    let by = [("FI_EMP_LINK", "udp"), ("FI_EMP_PEERS", "10.77.0.1:6100, 10.77.0.2")];
    between_hosts("listed", &BY_SERVICE, &by, " 0 failed");
}

/// What has no other link than the service's.
const BY_SERVICES: (&str, &str) = ("FI_EMP_LINK", "empd");

/// What has its engine there, too.
const IN_SERVICES: (&str, &str) = ("FI_EMP_BOARD", "daemon");

#[test]
fn they_are_kept_through_services() {
    through_services("served", BY_SERVICES);
}

#[test]
fn they_are_kept_by_engines_in_services() {
    through_services("engines", IN_SERVICES);
}

/// On two hosts, each with a service, without and with losses.
fn through_services(what: &str, by: (&str, &str)) {
    let Some(lab) = Lab::build(1500) else { return };
    let services = [0, 1].map(|side| Service::start(&lab, side));
    for (how, loss) in [("", None), ("-losing", Some(LOSS))] {
        let settings = [
            ("HOST_A", lab.name(0)),
            ("HOST_B", lab.name(1)),
            ("SERVICE_A", services[0].socket()),
            ("SERVICE_B", services[1].socket()),
            ("FI_EMP_IFACE", INTERFACE),
            by,
        ];
        let settings: Vec<_> = settings.into_iter().chain(loss).collect();
        run(&format!("{what}{how}"), by_service(), &settings, " 0 failed");
    }
}

#[test]
fn they_are_kept_through_one_service_for_nobody() {
    through_one_service("served-nobody", BY_SERVICES);
}

#[test]
fn they_are_kept_by_engines_of_one_service_for_nobody() {
    through_one_service("engines-nobody", IN_SERVICES);
}

/// Both nodes are clients of one service, and their user has no privilege.
fn through_one_service(what: &str, by: (&str, &str)) {
    let Some(lab) = Lab::build(1500) else { return };
    let service = Service::start(&lab, 0);
    let through =
        format!("ip netns exec {} setpriv --reuid=65534 --regid=65534 --clear-groups", lab.name(0));
    let settings =
        [("EMP_SERVICE", service.socket()), ("FI_EMP_IFACE", INTERFACE), ("THROUGH", &through), by];
    run(what, by_service(), &settings, " 0 failed");
}

/// A service on a host of a lab, killed with this value.
struct Service {
    child: Child,
    place: PathBuf,
    socket: String,
}

impl Service {
    fn start(lab: &Lab, side: usize) -> Self {
        let program = provider().with_file_name("../empd");
        assert!(program.exists(), "empd was not built: cargo build -p emp-empd");
        let place = std::env::temp_dir().join(format!("{}-service", lab.name(side)));
        std::fs::create_dir_all(&place).expect("a place for its socket");
        let socket = place.join("socket");
        let child = Command::new("ip")
            .args(["netns", "exec", lab.name(side)])
            .arg(program)
            .arg("--socket")
            .arg(&socket)
            .stderr(Stdio::null())
            .spawn()
            .expect("ip is installed");
        let start = Instant::now();
        while !socket.exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "the service does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, place, socket: socket.display().to_string() }
    }

    fn socket(&self) -> &str {
        &self.socket
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

#[test]
fn programs_beyond_mpi_are_accepted() {
    run("programs", &["--middleware"], &[], "7 programs, 0 failed");
}

#[test]
fn they_are_accepted_in_shared_memory() {
    run("programs-shm", &["--middleware"], &[("FI_EMP_LINK", "shm")], "7 programs, 0 failed");
}

#[test]
fn they_are_accepted_between_hosts() {
    between_hosts("programs-hosts", &["--middleware"], &[], "7 programs, 0 failed");
}

#[test]
fn they_are_accepted_between_hosts_that_lose_frames() {
    between_hosts("programs-losing", &["--middleware"], &[LOSS], "7 programs, 0 failed");
}

/// What is counted is told to who listens, when a node ends.
#[test]
fn counters_are_in_the_log() {
    let log = [("FI_LOG_LEVEL", "info"), ("FI_LOG_PROV", "emp")];
    let Some(errors) = run("counters", &["tagged"], &log, " 0 failed") else { return };
    let counted =
        |of: &str, what: &str| errors.lines().any(|line| line.contains(of) && line.contains(what));
    assert!(counted("counters: ", "messages_sent "), "what the node has counted");
    assert!(counted("counters: ", "messages_received "));
    assert!(counted("counters of shm on ", "frames_sent "), "what its links have");
    // Not to who does not.
    let quiet = run("no-counters", &["tagged"], &[], " 0 failed").expect("it ran before");
    assert!(!quiet.contains("counters"), "{quiet}");
}

/// A bound that is reached is said once, with what to set, whatever is tried after it (`bounds.c`).
#[test]
fn bounds_that_are_reached_are_said_once() {
    let log = [("FI_LOG_LEVEL", "info"), ("FI_LOG_PROV", "emp")];
    let Some(errors) = run("bounds", &["bounds"], &log, " 0 failed") else { return };
    for (what, advice) in [
        ("256 receives are outstanding", "FI_EMP_OPERATIONS"),
        ("256 sends are outstanding", "FI_EMP_OPERATIONS"),
        ("fill this node, which holds 256", "FI_EMP_UNEXPECTED"),
        ("16384 notifications of puts wait", "until it looks"),
        ("4096 messages wait for endpoints that are not open", "until they are"),
        ("256 endpoints are open", "close some"),
        ("65536 regions of memory are exported", "remove some"),
        ("as many gets and fetching atomics are outstanding", "as these end"),
    ] {
        let said: Vec<_> = errors.lines().filter(|line| line.contains(what)).collect();
        assert!(matches!(&said[..], [one] if one.contains(advice)), "{what}: {said:?}");
    }
}

/// Whoever does something wrong is told so in one line, and by the error that the manual names (`misuse.c`).
#[test]
fn mistakes_are_said_in_one_line() {
    let log = [("FI_LOG_LEVEL", "warn"), ("FI_LOG_PROV", "emp")];
    let Some(errors) = run("misuse", &["misuse"], &log, " 0 failed") else { return };
    let mut mistakes = 0;
    for part in errors.split("misuse: ").skip(1).filter(|part| !part.starts_with("end\n")) {
        let lines: Vec<_> = part.lines().skip(1).filter(|line| line.contains(":emp:")).collect();
        assert_eq!(lines.len(), 1, "{part}");
        mistakes += 1;
    }
    assert_eq!(mistakes, 21);
}

/// Runs `fi_info` for this provider, chosen as users choose it. What it has printed, and the log.
fn fi_info(what: &str, arguments: &[&str]) -> Option<(String, Vec<String>)> {
    let directory = with_provider(what);
    let mut program = Command::new("fi_info");
    program.args(arguments).env("FI_PROVIDER_PATH", directory).env("FI_PROVIDER", "emp");
    let Ok(output) = program.env("FI_LOG_LEVEL", "warn").env("FI_LOG_PROV", "emp").output() else {
        skip(Need::Mpi, "no fi_info here (tools/install-deps installs it)");
        return None;
    };
    let log = String::from_utf8_lossy(&output.stderr);
    let of_emp = log.lines().filter(|line| line.contains(":emp:")).map(str::to_owned);
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), of_emp.collect()))
}

/// Who chooses this provider by `FI_PROVIDER` is told what it lacks, in one line, and nothing if it lacks nothing.
#[test]
fn who_wants_this_provider_is_told_what_it_lacks() {
    for (arguments, lacks) in
        [(["-t", "FI_EP_MSG"], "endpoint type"), (["-c", "FI_MULTICAST"], "capabilities")]
    {
        let Some((_, log)) = fi_info("lacks", &arguments) else { return };
        assert!(matches!(&log[..], [line] if line.contains(lacks)), "{arguments:?}: {log:?}");
    }
    let Some((offered, log)) = fi_info("lacks", &["-t", "FI_EP_RDM"]) else { return };
    assert!(offered.contains("provider: emp"), "{offered}");
    assert_eq!(
        log, [""; 0],
        "others that ask whether they could be put on top of it are not users"
    );
}

/// A setting that makes no sense is one line for everybody, however often libfabric asks and whether its own log is read or not.
#[test]
fn a_setting_that_makes_no_sense_is_said_in_one_line() {
    let directory = with_provider("nonsense");
    for (variable, value, says) in [
        ("FI_EMP_BOARD", "foo", "FI_EMP_BOARD=foo: "),
        ("FI_EMP_INTERFACES", "lo,no-such-0", "there is no interface no-such-0"),
        ("EMP_INTERFACES", "lo,lo", "EMP_INTERFACES=lo,lo: lo is named twice"),
    ] {
        for (silenced, count) in [("error", 1), ("off", 0)] {
            let mut program = Command::new("fi_info");
            program.args(["-p", "emp"]).env("FI_PROVIDER_PATH", &directory);
            program.env_remove("FI_LOG_LEVEL").env("EMP_LOG", silenced).env(variable, value);
            let Ok(output) = program.output() else {
                return skip(Need::Mpi, "no fi_info here (tools/install-deps installs it)");
            };
            let errors = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<_> = errors.lines().filter(|line| line.starts_with("emp: ")).collect();
            assert!(!output.status.success() && lines.len() == count, "{variable}: {errors}");
            assert!(lines.iter().all(|line| line.contains(says)), "{variable}: {errors}");
        }
    }
}

/// `fi_info -g` documents what there is to set, with the defaults that are true.
#[test]
fn what_there_is_to_set_is_documented() {
    let Some((text, _)) = fi_info("set", &["-g", "emp"]) else { return };
    for (name, _) in emp_face::settings::SETTINGS.iter().filter(|(name, _)| *name != "NAME") {
        let name = if *name == "INTERFACE" { "IFACE" } else { name };
        let (_, about) = text.split_once(&format!("FI_EMP_{name}: ")).expect(name);
        let about = about.split("FI_EMP_").next().unwrap_or_default();
        assert!(about.contains("(default: "), "{name}: {about}");
    }
}

/// Of whatever program on libfabric: its frames, and of each that was dropped why.
#[test]
fn frames_are_captured_with_what_became_of_them() {
    let place = std::env::temp_dir().join(format!("emp-fi-capture-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a place for the captures");
    let file = place.join("%p.pcapng").display().to_string();
    let settings =
        [("FI_EMP_CAPTURE", &*file), ("FI_EMP_FAULT", "duplicate:10%"), ("FI_EMP_LINK", "udp")];
    let ran = run("captured", &["tagged"], &settings, " 0 failed");
    let files = std::fs::read_dir(&place).expect("it is there").flatten();
    let read = |entry: std::fs::DirEntry| std::fs::read(entry.path()).expect("it is ours");
    let packets: Vec<_> = files.flat_map(|file| packets(&read(file))).collect();
    let _ = std::fs::remove_dir_all(&place);
    if ran.is_none() {
        return;
    }
    let count = |sent: bool, comment: &str| {
        let is = |it: &&Packet| it.sent == Some(sent) && it.comment == comment;
        packets.iter().filter(is).count()
    };
    assert!(count(true, "") > 10 && count(false, "") > 10, "{} frames", packets.len());
    assert!(count(false, "dropped: duplicate") > 0, "{} frames", packets.len());
}

/// A directory with the provider, called as libfabric wants it.
fn with_provider(what: &str) -> PathBuf {
    put_provider(&Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("conformance-{what}")))
}

fn put_provider(directory: &Path) -> PathBuf {
    std::fs::create_dir_all(directory).expect("a directory for the test");
    std::fs::copy(provider(), directory.join("libemp-fi.so")).expect("the provider copied");
    directory.to_path_buf()
}

/// As [`run`], with the second node or process on another host.
fn between_hosts(what: &str, options: &[&str], settings: &[(&str, &str)], wanted: &str) {
    let Some(lab) = Lab::build(1500) else { return };
    let hosts = [("HOST_A", lab.name(0)), ("HOST_B", lab.name(1)), ("FI_EMP_IFACE", INTERFACE)];
    run(what, options, &[&hosts, settings].concat(), wanted);
}

/// Runs one of the C programs, and looks for `wanted` in what it says at its end. What it has said to standard error.
fn run(what: &str, options: &[&str], settings: &[(&str, &str)], wanted: &str) -> Option<String> {
    if !can_build() {
        let why = "no C compiler or no libfabric headers here (tools/install-deps installs both)";
        skip(Need::Mpi, why);
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/libfabric/run");
    // Where ranks of one machine meet: nobody else's greetings shall wake those that this program wants asleep.
    let place = std::env::temp_dir().join(format!("emp-fi-{what}-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a place to meet");
    // Other users may not be let into this one's directories.
    let others = settings.iter().any(|(name, _)| *name == "THROUGH");
    let directory = if others { put_provider(&place) } else { with_provider(what) };
    let (flags, tests): (Vec<&str>, Vec<&str>) =
        options.iter().partition(|option| option.starts_with("--"));
    let mut program = Command::new(script);
    if let Some(other) = std::env::var_os("LIBFABRIC") {
        program.arg("--libfabric").arg(other);
    }
    program.args(flags).arg(&directory).args(tests);
    for name in [
        "FI_EMP_LINK",
        "FI_EMP_BOARD",
        "FI_EMP_FAULT",
        "FI_EMP_IFACE",
        "FI_LOG_LEVEL",
        "HOST_A",
        "HOST_B",
    ]
    .into_iter()
    .chain(["EMP_SERVICE", "SERVICE_A", "SERVICE_B", "FI_EMP_CAPTURE"])
    {
        program.env_remove(name);
    }
    program.env("XDG_RUNTIME_DIR", &place).envs(settings.iter().copied());
    let program = program.output();
    let _ = std::fs::remove_dir_all(&place);
    let output = program.expect("the program was started");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{text}{errors}");
    assert!(output.status.success(), "the program failed: {}", output.status);
    assert!(text.contains(wanted), "the program did not get to its end");
    Some(errors.into_owned())
}
