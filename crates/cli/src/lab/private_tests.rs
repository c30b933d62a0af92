//! Private labs, really made. They need privilege, and say so where there is none: a test binary
//! has threads and cannot become able by itself (tests/lab_rootless.rs does that with a process).

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle};

use super::super::plan::Topology;
use super::super::state::{self, NETNS_DIR};
use super::*;

fn lab(hosts: usize, topology: Topology, mtu: u32) -> Option<PrivateLab> {
    if !rootless::is_able() {
        emp_testing::skip(emp_testing::Need::Root, "this needs CAP_SYS_ADMIN and CAP_NET_ADMIN");
        return None;
    }
    Some(PrivateLab::create(Plan::new(hosts, topology, mtu).unwrap()).unwrap())
}

fn name(lab: &PrivateLab) -> &str {
    &lab.guard.state().name
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_command_sees_its_hosts_name_addresses_and_neighbours() {
    let Some(lab) = lab(2, Topology::Link, 9000) else { return };
    let host = lab.host("emp-b").unwrap();
    assert_eq!(output(host.command("uname").unwrap().arg("-n")), "emp-b");
    let peer = output(host.command("getent").unwrap().args(["ahostsv4", "emp-a"]));
    assert!(peer.starts_with("10.77.0.1 "), "{peer}");
    let interfaces = output(host.command("ls").unwrap().arg("/sys/class/net"));
    assert_eq!(interfaces, "emp0\nlo");
    let mtu = output(host.command("cat").unwrap().arg("/sys/class/net/emp0/mtu"));
    assert_eq!(mtu, "9000");
    let lab_name = output(host.command("printenv").unwrap().arg(state::NAME_VARIABLE));
    assert_eq!(lab_name, name(&lab));
}

#[test]
fn a_command_can_be_kept_on_one_cpu() {
    let Some(lab) = lab(2, Topology::Link, 1500) else { return };
    let status =
        output(lab.host("0").unwrap().command_on_cpu("cat", 0).unwrap().arg("/proc/self/status"));
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
    assert!(lab.host("0").unwrap().command_on_cpu("cat", 99999).is_err());
}

#[test]
fn threads_in_two_hosts_talk_in_every_topology() {
    let shapes = [
        (2, Topology::Link),
        (3, Topology::Switch),
        (3, Topology::Line),
        (4, Topology::Ring),
        (3, Topology::Mesh),
    ];
    for (hosts, topology) in shapes {
        let Some(lab) = lab(hosts, topology, 1500) else { return };
        let all: Vec<_> = lab.hosts().collect();
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            if a.name() != b.name() {
                assert_eq!(sent_over_tcp(a, b), "ping", "{topology:?} {} {}", a.name(), b.name());
            }
        }
    }
}

/// Runs `work` on a thread that is inside the host: sockets that it opens are the host's.
fn inside<T: Send + 'static>(
    host: &Host<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let entrance = host.entrance().unwrap();
    thread::spawn(move || {
        entrance.enter().unwrap();
        work()
    })
}

fn sent_over_tcp(from: &Host<'_>, to: &Host<'_>) -> String {
    let (address, ready) = (to.address(), std::sync::mpsc::channel());
    let server = inside(to, move || {
        let listener = TcpListener::bind((address, 0)).unwrap();
        ready.0.send(listener.local_addr().unwrap()).unwrap();
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        text
    });
    let goal = ready.1.recv().unwrap();
    let client =
        inside(from, move || TcpStream::connect(goal).unwrap().write_all(b"ping").unwrap());
    client.join().unwrap();
    server.join().unwrap()
}

#[test]
fn labs_live_side_by_side_and_leave_nothing() {
    let Some(first) = lab(2, Topology::Switch, 1500) else { return };
    let Some(second) = lab(2, Topology::Switch, 1500) else { return };
    let files = |lab: &PrivateLab| {
        let state = lab.guard.state();
        let namespaces = state.namespaces.iter().map(|n| Path::new(NETNS_DIR).join(&n.name));
        namespaces.chain([state.hosts_file()]).collect::<Vec<_>>()
    };
    let (gone, kept) = (files(&first), files(&second));
    assert_eq!(gone.len(), 4);
    drop(first);
    assert!(gone.iter().all(|file| !file.exists()));
    assert!(kept.iter().all(|file| file.exists()));
    let record = State::load(name(&second)).unwrap().unwrap();
    drop(second);
    assert!(kept.iter().all(|file| !file.exists()));
    assert!(State::load(&record.name).unwrap().is_none());
}

#[test]
fn a_panic_removes_the_lab() {
    let Some(lab) = lab(2, Topology::Link, 1500) else { return };
    let name = name(&lab).to_owned();
    let result = thread::spawn(move || {
        let _lab = lab;
        std::panic::resume_unwind(Box::new("as a test"));
    })
    .join();
    assert!(result.is_err());
    assert!(State::load(&name).unwrap().is_none());
}

#[test]
fn what_somebody_else_made_under_our_name_is_left_alone() {
    let Some(lab) = lab(2, Topology::Link, 1500) else { return };
    let namespace = lab.host("0").unwrap().namespace();
    super::super::ip::run(&["netns", "del", &namespace]).unwrap();
    super::super::ip::run(&["netns", "add", &namespace]).unwrap();
    let name = name(&lab).to_owned();
    drop(lab);
    let path = Path::new(NETNS_DIR).join(&namespace);
    assert!(fs::metadata(&path).is_ok(), "removed a namespace that was not ours");
    super::super::ip::run(&["netns", "del", &namespace]).unwrap();
    assert!(State::load(&name).unwrap().is_none());
}
