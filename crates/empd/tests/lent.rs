//! Sockets that the service lends: to whom, that they are as good as one's own, and what becomes of them.
//!
//! Needs root for the hosts and the service; says so where it is not to be had. Who borrows has no privilege.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::lent::{borrow, lends_to_nobodys_group, options, reaches};
use common::{NOBODY, PATIENCE, Service, become_nobody, nobodys_group, signal, until};
use emp_link::{Link, PacketLink, PacketOptions};
use emp_testing::lab::{INTERFACE, Lab};

#[test]
fn who_is_not_named_is_refused_in_one_line() {
    let Some(lab) = Lab::build(1500) else { return };
    let refused = |configuration: &str, change: &dyn Fn(&mut PacketOptions)| {
        let service = Service::start(&lab, 0, configuration);
        let mut options = options(&service.socket(), 5);
        change(&mut options);
        let error = borrow(&lab, 0, &options).err().expect("it is refused");
        assert!(!error.to_string().contains('\n'), "{error}");
        until(&format!("it is in the log: {error}"), || service.log().contains(&error.problem));
        error.problem
    };
    let nobody = refused("", &|_| {});
    assert!(nobody.contains("nothing is lent here"), "{nobody}");
    let other = refused("lend = ['group:root', 'user:root']", &|_| {});
    let said = "user 65534 is none of those to whom raw sockets are lent: group root, user root";
    assert_eq!(other, said);
    let lends = lends_to_nobodys_group();
    let type_ = refused(&lends, &|options| options.ethertype = 0x0800);
    assert!(type_.contains("EtherType 0x0800 is not served"), "{type_}");
    let all = refused(&lends, &|options| options.node_tag = emp_wire::TAG_EVERYONE);
    assert!(all.contains("can't be that of all"), "{all}");
    let one = format!("interfaces = ['lo']\n{lends}");
    let interface = refused(&one, &|_| {});
    assert!(interface.contains("emp0 is not served here, but lo"), "{interface}");
}

#[test]
fn a_service_of_another_network_lends_nothing() {
    let Some(lab) = Lab::build(1500) else { return };
    let service = Service::start(&lab, 0, &lends_to_nobodys_group());
    let error = borrow(&lab, 1, &options(&service.socket(), 5)).err().expect("it is refused");
    assert!(error.problem.contains("network namespace"), "{error}");
}

#[test]
fn what_is_no_service_is_no_lender() {
    let Some(lab) = Lab::build(1500) else { return };
    let place = common::place();
    let problem = |path: PathBuf| {
        let error = lab.inside(0, || PacketLink::open(&options(&path, 5)).err());
        error.expect("there is none").problem
    };
    let path = place.path().join("socket");
    assert!(problem(path.clone()).contains("no service listens at"));
    std::fs::write(&path, "a file").expect("it is written");
    assert!(problem(path.clone()).contains("nobody listens at"));
    std::fs::remove_file(&path).expect("it is there");
    let other = std::os::unix::net::UnixListener::bind(&path).expect("it listens");
    assert!(problem(path.clone()).contains("another program's"));
    drop(other);
    std::fs::remove_file(&path).expect("it is there");
    // One that listens in the same way, and speaks otherwise.
    let listening = emp_link::service::socket::listen(&path).expect("it listens");
    let stranger = std::thread::spawn(move || {
        use std::os::fd::AsFd;
        let mut caller = None;
        until("somebody calls", || {
            caller = emp_link::service::socket::accept(listening.as_fd()).ok();
            caller.is_some()
        });
        let caller = caller.expect("it is there");
        emp_link::service::socket::send(caller.as_fd(), b"220 mail.example ESMTP", &[])
            .expect("sent");
    });
    let said = problem(path);
    assert!(said.contains("no empd that this program knows"), "{said}");
    stranger.join().expect("it ends");
}

#[test]
fn a_tag_and_a_quota_are_used_up() {
    let Some(lab) = Lab::build(1500) else { return };
    let configuration = format!("{}[limits]\nlent_per_user = 2\n", lends_to_nobodys_group());
    let service = Service::start(&lab, 0, &configuration);
    let lend = |tag| borrow(&lab, 0, &options(&service.socket(), tag));
    let first = lend(7).expect("it is lent");
    let error = lend(7).err().expect("it is taken");
    assert!(error.problem.contains("same tag"), "{error}");
    let _second = lend(8).expect("it is lent");
    let error = lend(9).err().expect("they are used up");
    assert!(error.problem.contains("has 2 sockets already"), "{error}");
    drop(first);
    // The kernel takes its time.
    until("a place is free", || lend(7).is_ok());
}

/// What this test's helper process reads: where the service is.
const PATH: &str = "EMP_TEST_SERVICE";

/// Not a test: what [`borrower`] runs. Borrows for tag 77, says so, and stays.
#[test]
#[ignore = "run by other tests"]
fn borrows_and_stays() {
    let Some(path) = std::env::var_os(PATH) else { return };
    // What one had that was killed is not back at once.
    let mut link = None;
    until("it is lent", || {
        link = PacketLink::open(&options(Path::new(&path), 77)).ok();
        link.is_some()
    });
    std::thread::sleep(PATIENCE);
}

fn borrower(lab: &Lab, path: &Path) -> Child {
    let program = std::env::current_exe().expect("it has a path");
    let child = Command::new("ip")
        .args(["netns", "exec", lab.name(0)])
        .arg(program)
        .args(["--exact", "--ignored", "--nocapture", "borrows_and_stays"])
        .env(PATH, path)
        .stdout(Stdio::null())
        .spawn();
    child.expect("ip is installed")
}

/// A client that is killed has nothing any more, and the next one with its tag everything.
#[test]
fn a_killed_borrower_leaves_nothing() {
    let Some(lab) = Lab::build(1500) else { return };
    let service = Service::start(&lab, 0, "lend = 'user:root'\n[limits]\nlent_per_user = 1\n");
    for _ in 0..3 {
        let before = service.log().matches("lent emp0").count();
        let mut child = borrower(&lab, &service.socket());
        until("it is lent", || service.log().matches("lent emp0").count() > before);
        let _ = child.kill();
        let _ = child.wait();
    }
    until("all is free", || {
        lab.inside(0, || PacketLink::open(&options(&service.socket(), 77))).is_ok()
    });
}

/// One that is stopped disturbs nobody.
#[test]
fn a_stopped_borrower_disturbs_nobody() {
    let Some(lab) = Lab::build(1500) else { return };
    let configuration = format!("lend = ['user:root', '{}']\n", nobodys_group());
    let service = Service::start(&lab, 0, &configuration);
    let mut child = borrower(&lab, &service.socket());
    until("it is lent", || service.log().contains("lent emp0"));
    signal(child.id(), libc::SIGSTOP);
    let mut other = borrow(&lab, 0, &options(&service.socket(), 78)).expect("it is lent");
    let mut from = lab.inside(1, || PacketLink::open(&PacketOptions::new(INTERFACE, 9)));
    reaches(from.as_mut().expect("root may"), &mut other, 78, 1);
    let _ = child.kill();
    let _ = child.wait();
}

/// The service ends or is killed, and comes again: the link goes on with the socket that it has, and asks the new one for another.
#[test]
fn a_link_outlives_its_lender() {
    let Some(lab) = Lab::build(1500) else { return };
    let lends = "lend = 'user:root'";
    let service = Service::start(&lab, 1, lends);
    let mut from = lab.inside(0, || PacketLink::open(&PacketOptions::new(INTERFACE, 9)));
    let from = from.as_mut().expect("root may");
    // A link asks again from the host where it is.
    lab.inside(1, || {
        let mut link = PacketLink::open(&options(&service.socket(), 40)).expect("it is lent");
        reaches(from, &mut link, 40, 1);
        let hears = |link: &mut PacketLink, what: &str| {
            let mut heard = String::new();
            until(what, || {
                link.condition();
                heard += &link.notice().unwrap_or_default();
                heard.contains(what)
            });
        };
        let place = service.kill();
        hears(&mut link, "goes on with the socket it has");
        reaches(from, &mut link, 40, 2);
        let service = Service::start_at(&lab, 1, lends, place);
        hears(&mut link, "lent again, as the service is another");
        reaches(from, &mut link, 40, 3);
        let (status, place) = service.end();
        assert!(status.expect("it ends").success());
        assert!(!place.path().join("socket").exists(), "its socket goes with it");
        // Another interface of the same name.
        let _service = Service::start_at(&lab, 1, lends, place);
        hears(&mut link, "lent again, as the service is another");
        lab.set_queues([[1, 1], [1, 1]]);
        hears(&mut link, "lent again, as another interface has this name");
        let mut from = lab.inside(0, || PacketLink::open(&PacketOptions::new(INTERFACE, 10)));
        reaches(from.as_mut().expect("root may"), &mut link, 40, 4);
    });
}

#[test]
fn a_thread_can_be_nobody() {
    if Lab::build(1500).is_none() {
        return;
    }
    let other = std::thread::spawn(|| {
        become_nobody();
        // SAFETY: takes no arguments.
        unsafe { libc::geteuid() }
    });
    assert_eq!(other.join().expect("it ends"), NOBODY);
    // SAFETY: takes no arguments.
    assert_eq!(unsafe { libc::geteuid() }, 0);
}
