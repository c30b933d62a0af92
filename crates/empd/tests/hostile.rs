//! What programs can do to the service's socket without being let in: it stays up, and serves others.
//!
//! Needs root for the host and the service; says so where it is not to be had.

mod common;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use common::{Service, fails, place, shown, until};
use emp_link::service::protocol::{Answer, Attach, BUFFER_BYTES, Hello, Lend, Request, VERSION};
use emp_link::service::{namespace, socket};
use emp_link::{PacketLink, PacketOptions};
use emp_testing::lab::{INTERFACE, Lab};
use emp_wire::{ETHERTYPE_DEFAULT, NodeId};

/// What seeds the noise.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Xorshift.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = 1 + self.next() as usize % most;
        (0..length).map(|_| self.next() as u8).collect()
    }
}

fn sound(lab: &Lab) -> [Request; 3] {
    let own = lab.inside(0, namespace);
    let (interface, ethertype) = (INTERFACE.to_owned(), ETHERTYPE_DEFAULT);
    [
        Request::Hello(Hello { version: VERSION, namespace: own }),
        Request::Lend(Lend {
            interface: interface.clone(),
            ethertype,
            tag: 3,
            small_frames_only: false,
        }),
        Request::Attach(Attach { interface, ethertype, node: NodeId(7), token: 1 }),
    ]
}

/// Connects, with patience: the service takes a few callers at a time, and more than some hundred do not wait.
fn connect(service: &Service) -> OwnedFd {
    let mut connected = None;
    until("the service takes a call", || {
        connected = socket::connect(&service.socket()).ok();
        connected.is_some()
    });
    connected.expect("it did")
}

/// The next answer; `None`: it hung up.
fn answer(connection: &OwnedFd) -> Option<Answer> {
    let (mut bytes, mut heard) = ([0; BUFFER_BYTES], None);
    until("the service answers", || match socket::receive(connection.as_fd(), &mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
        got => {
            heard = got.ok().filter(|got| *got > 0);
            true
        }
    });
    heard.map(|got| Answer::parse(&bytes[..got]).expect("it speaks well"))
}

/// Whoever is allowed still gets what it asks for.
fn serves(lab: &Lab, service: &mut Service) {
    assert!(service.is_up(), "{}", service.log());
    let options =
        PacketOptions { lender: Some(service.socket()), ..PacketOptions::new(INTERFACE, 4711) };
    until("it serves", || lab.inside(0, || PacketLink::open(&options)).is_ok());
}

#[test]
fn noise_at_the_socket_harms_nobody() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut service = Service::start(&lab, 0, "lend = 'user:root'");
    let mut noise = Noise(SEED);
    let sound = sound(&lab);
    for round in 0..300 {
        let caller = connect(&service);
        for _ in 0..noise.next() % 6 {
            let mut bytes = match noise.next() % 4 {
                0 => noise.bytes(300),
                which => sound[which as usize - 1].emit(),
            };
            // Most are nearly right.
            if noise.next().is_multiple_of(2) {
                let at = noise.next() as usize % bytes.len();
                bytes[at] ^= 1 << (noise.next() % 8);
            }
            // It may have been put out by now; descriptors that nobody asks for come with every other one.
            let brought = [caller.as_fd()];
            let brought = if round % 2 == 0 { &brought[..] } else { &[] };
            let _ = socket::send(caller.as_fd(), &bytes, brought);
        }
    }
    serves(&lab, &mut service);
    assert!(service.log().lines().count() < 400, "its log is bounded");
}

#[test]
fn what_is_out_of_turn_ends_the_connection() {
    let Some(lab) = Lab::build(1500) else { return };
    let service = Service::start(&lab, 0, "lend = 'user:root'");
    let [hello, lend, attach] = sound(&lab);
    let refused = |messages: &[&Request]| {
        let caller = connect(&service);
        for message in messages {
            let _ = socket::send(caller.as_fd(), &message.emit(), &[]);
        }
        loop {
            match answer(&caller).expect("it says why") {
                Answer::Refused(refused) => {
                    assert_eq!(answer(&caller), None, "it hangs up");
                    return refused.reason;
                }
                _ => assert!(messages.len() > 1, "nothing else was right"),
            }
        }
    };
    for wrong in [&[&lend][..], &[&attach], &[&hello, &hello], &[&hello, &lend, &lend]] {
        assert!(refused(wrong).contains("not the time"), "{wrong:?}");
    }
    let other = Request::Hello(Hello { version: VERSION + 1, namespace: 0 });
    assert!(refused(&[&other, &lend]).contains("upgrade the older"));
    let elsewhere = Request::Hello(Hello { version: VERSION, namespace: 1 });
    assert!(refused(&[&elsewhere, &lend]).contains("network namespace"));
}

/// More callers than there may be of one user, who neither say nor take anything.
#[test]
fn connections_are_counted_before_anything_is_done_for_them() {
    let Some(lab) = Lab::build(1500) else { return };
    let limits = "lend = 'user:root'\n[limits]\nconnections = 40\nconnections_per_user = 30\n";
    let mut service = Service::start(&lab, 0, limits);
    let callers: Vec<OwnedFd> = (0..200).map(|_| connect(&service)).collect();
    // Whoever came too late is told so.
    let Some(Answer::Refused(refused)) = answer(&callers[150]) else { panic!("it is refused") };
    assert!(refused.reason.contains("has 30 connections"), "{}", refused.reason);
    assert!(service.is_up());
    drop(callers);
    serves(&lab, &mut service);
}

/// Fewer descriptors than connections that its configuration allows.
#[test]
fn a_service_without_descriptors_waits_for_some() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut service = Service::start(&lab, 0, "lend = 'user:root'");
    let few = libc::rlimit { rlim_cur: 40, rlim_max: 40 };
    // SAFETY: the limits are alive, and no old ones are asked for.
    let limited = unsafe {
        let process = service.process() as libc::pid_t;
        libc::prlimit(process, libc::RLIMIT_NOFILE, &raw const few, std::ptr::null_mut())
    };
    assert_eq!(limited, 0, "{}", io::Error::last_os_error());
    let callers: Vec<OwnedFd> = (0..100).map(|_| connect(&service)).collect();
    until("it says so", || service.log().contains("letting clients in"));
    drop(callers);
    serves(&lab, &mut service);
}

/// Who takes no answers is not waited for.
#[test]
fn who_does_not_listen_is_put_out() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut service = Service::start(&lab, 0, "lend = 'user:root'");
    let [hello, lend, _] = sound(&lab);
    let callers: Vec<OwnedFd> = (0..50)
        .map(|_| {
            let caller = connect(&service);
            for message in [&hello, &lend] {
                socket::send(caller.as_fd(), &message.emit(), &[]).expect("there is room");
            }
            caller
        })
        .collect();
    serves(&lab, &mut service);
    drop(callers);
    serves(&lab, &mut service);
}

#[test]
fn a_service_that_cant_be_says_why_in_one_line() {
    let place = place();
    let write = |text: &str| {
        let path = place.path().join("empd.toml");
        std::fs::write(&path, text).expect("it is written");
        shown(&path)
    };
    let free = shown(&place.path().join("socket"));
    let said = |arguments: &[&str]| {
        let output = fails(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let with = |text: &str| said(&["--config", &write(text), "--socket", &free]);
    assert!(with("lend = 'group:no-such-group'").contains("no group `no-such-group`"));
    assert!(with("attach = 'user:no-such-user'").contains("no user `no-such-user`"));
    assert!(with("interfaces = ['no-such-0']").contains("no interface no-such-0; there are: lo"));
    assert!(with("lent = 1").contains("line 1: unknown field"));
    assert!(said(&["--config", "/no/such/file"]).contains("/no/such/file: reading it"));
    assert!(said(&["--config", &shown(place.path())]).contains("reading it"));
    let other = place.path().join("other");
    let _other = std::os::unix::net::UnixListener::bind(&other).expect("it listens");
    let text = said(&["--config", &write(""), "--socket", &shown(&other)]);
    assert!(text.contains("another program's socket"), "{text}");
    let file = shown(&place.path().join("empd.toml"));
    assert!(said(&["--config", &file, "--socket", &file]).contains("is no socket"));
    let text = said(&["--config", &file, "--socket", "/no/such/place/socket"]);
    assert!(text.contains("its directory /no/such/place"), "{text}");
    let long = format!("/tmp/{}", "long".repeat(40));
    assert!(said(&["--config", &file, "--socket", &long]).contains("a socket's path has"));
}

/// Without the capability it does not begin; and a user that is to be become has to be there.
#[test]
fn a_service_without_privilege_says_what_it_needs() {
    if Lab::build(1500).is_none() {
        return;
    }
    let place = place();
    let program = place.path().join("empd");
    std::fs::copy(env!("CARGO_BIN_EXE_empd"), &program).expect("it is copied");
    let path = place.path().join("empd.toml");
    std::fs::write(&path, "user = 'no-such-user'").expect("it is written");
    let socket = shown(&place.path().join("socket"));
    let output = fails(&["--config", &shown(&path), "--socket", &socket]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("no user `no-such-user`"), "{text}");
    let open = place.path().join("open");
    std::fs::create_dir(&open).expect("made");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&open, mode).expect("ours");
    std::fs::write(&path, "").expect("it is written");
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["--config", &shown(&path), "--socket", &shown(&open.join("socket"))])
        .output()
        .expect("setpriv is installed");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("CAP_NET_RAW"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// What it may do once it runs: open raw sockets, and nothing else.
#[test]
fn a_running_service_has_one_capability() {
    let Some(lab) = Lab::build(1500) else { return };
    for (configuration, user) in [("", "0"), ("user = 'nobody'\nlend = 'user:root'", "65534")] {
        let mut service = Service::start(&lab, 0, configuration);
        let status = std::fs::read_to_string(format!("/proc/{}/status", service.process()));
        let status = status.expect("it runs");
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("it is there");
            line.split_ascii_whitespace().nth(1).expect("a value").to_owned()
        };
        let net_raw = format!("{:016x}", 1u64 << 13);
        for set in ["CapEff:", "CapPrm:"] {
            assert_eq!(field(set), net_raw, "{set} with {configuration:?}");
        }
        for set in ["CapInh:", "CapAmb:"] {
            assert_eq!(field(set), "0000000000000000", "{set}");
        }
        assert_eq!(field("Uid:"), user);
        if user != "0" {
            serves(&lab, &mut service);
        }
    }
}
