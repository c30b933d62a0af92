//! What a supervisor such as systemd does for a service, and how it asks for a core of its own: the listening socket that it hands over, what it is
//! told, and `cpu =`.
//!
//! Needs root for the host and the service; says so where it is not to be had.

mod common;
#[path = "common/frames.rs"]
mod frames;

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{PATIENCE, Service, become_nobody, place, signal, until};
use emp_host::NodeId;
use emp_link::Link;
use emp_link::service::{ServiceLink, ServiceOptions, socket};
use emp_testing::lab::{INTERFACE, Lab};

/// The first descriptor that a supervisor hands over.
const FIRST: RawFd = 3;

/// A service as systemd starts it: with these descriptors from the third on, of which it is told by number and process.
fn launch(lab: &Lab, place: &Path, sockets: &[&OwnedFd], others: bool) -> Child {
    let numbers: Vec<RawFd> = sockets.iter().map(|socket| socket.as_raw_fd()).collect();
    let process = if others { "1" } else { "$$" };
    // The shell becomes `ip`, and that the service: the process is one.
    let line = format!("export LISTEN_PID={process}; exec ip netns exec \"$@\"");
    let mut command = Command::new("sh");
    command
        .args(["-c", &line, "sh", lab.name(0), env!("CARGO_BIN_EXE_empd"), "--config"])
        .arg(place.join("empd.toml"))
        .env("LISTEN_FDS", sockets.len().to_string())
        .env("NOTIFY_SOCKET", place.join("notify"))
        .stderr(fs::File::create(place.join("log")).expect("it is written"))
        .stdout(Stdio::null());
    // SAFETY: system calls alone, between fork and exec. Copies far above first, so that none is overwritten before it was copied.
    unsafe {
        command.pre_exec(move || {
            for (index, number) in numbers.iter().enumerate() {
                libc::dup2(*number, 200 + index as RawFd);
            }
            for index in 0..numbers.len() as RawFd {
                libc::dup2(200 + index, FIRST + index);
                libc::close(200 + index);
            }
            Ok(())
        });
    }
    command.spawn().expect("there is a shell")
}

/// Ends with this value.
struct Launched(Child);

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The configuration of a service that listens there.
fn configure(place: &Path, lines: &str) {
    let socket = place.join("socket");
    let text = format!("socket = '{}'\ninterfaces = ['{INTERFACE}']\n{lines}", socket.display());
    fs::write(place.join("empd.toml"), text).expect("it is written");
}

/// What the supervisor is told until this.
fn told(by: &UnixDatagram, wanted: &str) -> String {
    by.set_read_timeout(Some(PATIENCE)).expect("set");
    let (mut all, mut bytes) = (String::new(), [0; 4096]);
    while !all.lines().any(|line| line == wanted) {
        let got = by.recv(&mut bytes).unwrap_or_else(|_| panic!("not {wanted}, but {all:?}"));
        all += &String::from_utf8_lossy(&bytes[..got]);
        all.push('\n');
    }
    all
}

/// A client without privilege.
fn client(lab: &Lab, path: &Path, name: &str) -> ServiceLink {
    lab.inside(0, || {
        become_nobody();
        let usual = ServiceOptions::new(INTERFACE, NodeId::from_name(name));
        let options = ServiceOptions { socket: path.to_path_buf(), ..usual };
        ServiceLink::open(&options).expect("everyone may attach")
    })
}

fn talk(one: &mut ServiceLink, other: &mut ServiceLink) {
    let [from, to] = ["one", "other"].map(|name| NodeId::from_name(name).source_tag());
    let sent = frames::frame(from, to, 7, 100);
    let address = other.capabilities().address;
    frames::send(one, address, &sent);
    assert_eq!(frames::receive(other), sent);
}

#[test]
fn a_socket_that_is_handed_over_is_served_and_the_supervisor_is_told() {
    let Some(lab) = Lab::build(1500) else { return };
    let place = place();
    configure(place.path(), "");
    let path = place.path().join("socket");
    let listening = socket::listen(&path).expect("it listens");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("ours");
    let notices = UnixDatagram::bind(place.path().join("notify")).expect("it is there");
    let service = Launched(launch(&lab, place.path(), &[&listening], false));
    // Who comes before it is ready waits in the socket.
    drop(listening);
    let ready = told(&notices, "READY=1");
    assert!(ready.lines().any(|line| line.starts_with("STATUS=listens at ")), "{ready}");
    let (mut one, mut other) = (client(&lab, &path, "one"), client(&lab, &path, "other"));
    talk(&mut one, &mut other);
    signal(service.0.id(), libc::SIGTERM);
    told(&notices, "STOPPING=1");
    let mut service = service;
    assert!(service.0.wait().expect("it ends").success());
    assert!(path.exists(), "the socket's place is the supervisor's");
}

#[test]
fn what_is_handed_to_others_is_left_and_what_is_no_such_socket_is_said() {
    let Some(lab) = Lab::build(1500) else { return };
    let place = place();
    configure(place.path(), "");
    let notices = UnixDatagram::bind(place.path().join("notify")).expect("it is there");
    let stream = OwnedFd::from(UnixListener::bind(place.path().join("stream")).expect("listens"));
    let packets = socket::listen(&place.path().join("packets")).expect("it listens");
    // Meant for another process: it makes its own.
    let service = Launched(launch(&lab, place.path(), &[&stream], true));
    told(&notices, "READY=1");
    let path = place.path().join("socket");
    talk(&mut client(&lab, &path, "one"), &mut client(&lab, &path, "other"));
    drop(service);
    let wrong: [(&[&OwnedFd], &str); 2] =
        [(&[&stream], "not of the kind"), (&[&packets, &stream], "2 sockets, not one")];
    for (sockets, said) in wrong {
        let mut refused = Launched(launch(&lab, place.path(), sockets, false));
        let status = refused.0.wait().expect("it ends");
        let log = fs::read_to_string(place.path().join("log")).expect("it is there");
        assert_eq!(status.code(), Some(2), "{log}");
        assert!(log.contains(said) && log.lines().count() == 1, "{log}");
    }
}

/// The switch's thread of a service: its cores as the kernel has them, and how often it has slept.
fn switch_of(service: &Service) -> (String, u64) {
    let tasks = fs::read_dir(format!("/proc/{}/task", service.process())).expect("it runs");
    for task in tasks.filter_map(Result::ok) {
        let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|line| line.trim_start_matches(':').trim().to_owned()).unwrap_or_default()
        };
        if field("Name") == "switch" {
            let slept = field("voluntary_ctxt_switches").parse().unwrap_or(0);
            return (field("Cpus_allowed_list"), slept);
        }
    }
    panic!("there is no switch");
}

/// `cpu =`: the switch is on that core alone, always looks, and moves frames.
#[test]
fn a_switch_with_a_core_of_its_own_stays_there_and_does_not_sleep() {
    let Some(lab) = Lab::build(1500) else { return };
    let configuration = format!("interfaces = ['{INTERFACE}']\ncpu = 0\n");
    let service = Service::start(&lab, 0, &configuration);
    let path = service.socket();
    let (mut one, mut other) = (client(&lab, &path, "one"), client(&lab, &path, "other"));
    talk(&mut one, &mut other);
    let (cores, before) = switch_of(&service);
    assert_eq!(cores, "0");
    std::thread::sleep(Duration::from_millis(300));
    let (_, after) = switch_of(&service);
    assert!(after <= before + 1, "it slept {} times while nothing came", after - before);
    talk(&mut one, &mut other);
    // Another sleeps when it has nothing to do.
    let usual = Service::start(&lab, 1, &format!("interfaces = ['{INTERFACE}']\n"));
    let path = usual.socket();
    let _client = lab.inside(1, || {
        let id = NodeId::from_name("one");
        let options = ServiceOptions { socket: path, ..ServiceOptions::new(INTERFACE, id) };
        ServiceLink::open(&options).expect("everyone may attach")
    });
    until("it sleeps", || switch_of(&usual).1 > 0);
}
