//! Which links programs without privilege get of what a service has for them, and that they get the next rung of the ladder where it has nothing.
//!
//! One test, as a process looks for its service at one place. Needs root for the host and the service; says so where it is not to be had.

mod common;

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, Service, become_nobody, place};
use emp_host::{AutoLinks, Board, Node};
use emp_link::service::protocol::{Answer, VERSION, Welcome};
use emp_link::service::{name_socket, socket};
use emp_testing::lab::{INTERFACE, Lab};

/// What `auto` takes for somebody without privilege, and all that it says of its choice.
fn climb(lab: &Lab) -> (Vec<&'static str>, String) {
    let auto =
        AutoLinks { interfaces: vec![INTERFACE.into()], memory: false, ..AutoLinks::default() };
    let node = lab.inside(0, || {
        become_nobody();
        Node::builder().name("climber").auto_links(auto).start().expect("there is udp")
    });
    (node.links().iter().map(|link| link.kind).collect(), node.choice().to_string())
}

fn takes_udp(lab: &Lab, why: &str) {
    let since = Instant::now();
    let (links, said) = climb(lab);
    assert_eq!(links, ["udp"], "{why}: {said}");
    assert!(said.contains(why), "not {why:?}: {said}");
    assert!(since.elapsed() < PATIENCE / 2, "{why}: {:?}", since.elapsed());
}

fn limit(service: &Service, what: libc::__rlimit_resource_t, most: u64) {
    let process = service.process() as libc::pid_t;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limits are alive, and nothing is to be set.
    let known = unsafe { libc::prlimit(process, what, std::ptr::null(), &raw mut limit) };
    limit.rlim_cur = most.min(limit.rlim_max);
    // SAFETY: the limits are alive, and no old ones are asked for.
    let limited = unsafe { libc::prlimit(process, what, &raw const limit, std::ptr::null_mut()) };
    assert_eq!((known, limited), (0, 0), "{}", std::io::Error::last_os_error());
}

/// It is over with this, also where an assertion fails: nobody waits for what then never ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whoever connects is told this, until it is over.
fn chatter(path: &Path, says: &[u8], over: &AtomicBool) {
    let listening = socket::listen(path).expect("it listens");
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("ours");
    let mut callers = Vec::new();
    while !over.load(Ordering::Acquire) {
        match socket::accept(listening.as_fd()) {
            Ok(caller) => {
                let _ = socket::send(caller.as_fd(), says, &[]);
                callers.push(caller);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What a service says first that is of the next version, with more behind it than this program knows.
fn of_another_version() -> Vec<u8> {
    let welcome = Welcome { version: VERSION + 1, lends: true, attaches: true, clients_max: 9 };
    let mut says = Answer::Welcome(welcome).emit();
    says.extend([1, 2, 3]);
    says
}

/// Who asks for an engine is told why there is none, in one line.
fn no_engine(lab: &Lab, path: &Path, why: &str) {
    let refused = lab.inside(0, || {
        become_nobody();
        Node::builder().name("climber").board(Board::Daemon).service(path).start().err()
    });
    let line = refused.expect("there is none").to_string();
    assert!(line.contains(why) && !line.contains('\n'), "not {why:?}: {line}");
}

#[test]
fn the_next_rung_is_taken_where_a_service_has_nothing() {
    let Some(lab) = Lab::build(1500) else { return };
    let place = place();
    let path = place.path().join("socket");
    name_socket(path.clone());
    takes_udp(&lab, "no service listens at");
    no_engine(&lab, &path, "no service listens at");
    fs::write(&path, "a file").expect("it is written");
    takes_udp(&lab, "empd on emp0");
    fs::remove_file(&path).expect("it is there");
    let other = UnixListener::bind(&path).expect("it listens");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("ours");
    takes_udp(&lab, "empd on emp0");
    drop(other);
    fs::remove_file(&path).expect("it is there");
    for (says, why, engine_why) in [
        (b"good morning".to_vec(), "no empd that this program knows", "no service of EMP"),
        (of_another_version(), "the service speaks version 2", "the service speaks version 2"),
    ] {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ends = Over(&over);
            scope.spawn(|| chatter(&path, &says, &over));
            // There, and open to others.
            let is_open = |at: fs::Metadata| at.permissions().mode() & 0o777 == 0o666;
            while !fs::metadata(&path).is_ok_and(is_open) {
                std::thread::yield_now();
            }
            takes_udp(&lab, why);
            no_engine(&lab, &path, engine_why);
        });
        fs::remove_file(&path).expect("it is there");
    }
    let service = Service::start_at(&lab, 0, "attach = 'user:root'", place);
    takes_udp(&lab, "may not attach");
    let (_, place) = service.end();
    let service = Service::start_at(&lab, 0, "interfaces = ['lo']", place);
    takes_udp(&lab, "is not served here");
    let (_, place) = service.end();
    let service = Service::start_at(&lab, 0, "", place);
    limit(&service, libc::RLIMIT_FSIZE, 0);
    takes_udp(&lab, "no memory for another client");
    limit(&service, libc::RLIMIT_FSIZE, libc::RLIM_INFINITY);
    let open = fs::read_dir(format!("/proc/{}/fd", service.process())).expect("it runs").count();
    limit(&service, libc::RLIMIT_NOFILE, open as u64 + 1);
    takes_udp(&lab, "Too many open files");
    limit(&service, libc::RLIMIT_NOFILE, 1000);
    let (links, said) = climb(&lab);
    assert_eq!(links, ["empd", "udp"], "{said}");
    assert!(said.contains("bulk from"), "long messages leave as datagrams: {said}");
    let (_, place) = service.end();
    let _lender = Service::start_at(&lab, 0, "lend = 'everyone'", place);
    let (links, said) = climb(&lab);
    assert!(links == ["packet", "udp"] && said.contains("lent packet on emp0"), "{said}");
    assert!(said.contains("bulk from"), "long messages leave as datagrams: {said}");
}
