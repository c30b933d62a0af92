//! Files that say a topology: what they mean, and how each mistake is told.

use super::super::plan::Side;
use super::*;
use crate::error::UserError;

const ROW: &str = "
# three boxes and a switch
host emp-a emp-b emp-c   # boxes
host d
switch s1 s2
cable emp-a emp-b
cable emp-b emp-c mtu 9000 rate 500mbit queue 64K
cable s1 emp-c
cable d s2 rate 1gbit
cable s1 s2
";

#[test]
fn a_file_means_its_hosts_switches_and_cables() {
    let plan = parse(ROW, 1500).unwrap();
    let names: Vec<_> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["emp-a", "emp-b", "emp-c", "d"]);
    assert_eq!(plan.switches, ["s1", "s2"]);
    assert_eq!(plan.cables.len(), 5);
    let ends = |number: usize| {
        let cable = &plan.cables[number];
        [Side::Near, Side::Far].map(|side| plan.name_of(cable.end(side)))
    };
    assert_eq!(ends(1), ["emp-b:emp1", "emp-c:emp0"]);
    assert_eq!(ends(2), ["emp-c:emp1", "s1:port2"]);
    assert_eq!(ends(4), ["s1:port4a", "s2:port4b"]);
    let limit = plan.cables[1].limit.unwrap();
    assert_eq!((plan.cables[1].mtu, limit.rate, limit.queue), (9000, 500_000_000, 65_536));
    assert_eq!(plan.interface(&plan.cables[1].far).unwrap().mtu, 9000);
    assert_eq!((plan.cables[1].panel, plan.cables[0].panel), (Some(1), None));
    // The two switches are joined, so that c and d are on one subnet.
    let addresses = [2, 3].map(|cable| plan.interface(&plan.cables[cable].near).unwrap().address);
    assert_eq!(addresses.map(|address| address.unwrap().to_string()), ["10.77.16.3", "10.77.16.4"]);
    assert_eq!(plan.neighbours(), [(0, 1), (1, 2), (2, 3)]);
    // From a, everybody else is reached by b.
    let via: Vec<_> = plan.hosts[0].routes.iter().map(|route| route.via.to_string()).collect();
    assert!(via.iter().all(|via| via == "10.77.1.2") && via.len() == 3 + 2, "{via:?}");
}

#[test]
fn two_cables_of_one_host_to_joined_switches_have_two_addresses() {
    let text = "host a b\nswitch s1 s2\ncable s1 s2\ncable a s1\ncable a s2\ncable b s1";
    let plan = parse(text, 1500).unwrap();
    let addresses: Vec<_> =
        plan.hosts[0].interfaces.iter().map(|one| one.address.unwrap().to_string()).collect();
    assert_eq!(addresses, ["10.77.16.1", "10.77.16.33"]);
    assert_eq!(plan.neighbours(), [(0, 1)]);
    let many = format!("host a b\nswitch s1\ncable b s1\n{}", "cable a s1\n".repeat(8));
    assert!(parse(&many, 1500).unwrap_err().says.contains("7 cables at most from a"));
}

#[test]
fn switches_in_a_loop_are_refused_where_it_closes() {
    let begin = "host a b\nswitch s1 s2 s3\ncable a s1\ncable b s3\ncable s1 s2\n";
    for (rest, line, names) in
        [("cable s2 s1", 6, "s2 and s1"), ("cable s3 s2\ncable s1 s3 rate 1gbit", 7, "s1 and s3")]
    {
        let mistake = parse(&format!("{begin}{rest}\n"), 1500).unwrap_err();
        assert_eq!(mistake.line, Some(line), "{mistake:?}");
        let says = "expected no loop of switches";
        assert!(mistake.says.starts_with(says) && mistake.says.contains(names), "{mistake:?}");
    }
    // A host between two switches is no bridge.
    assert!(parse(&format!("{begin}cable s2 s3\ncable a s3\n"), 1500).is_ok());
}

#[test]
fn every_mistake_is_told_with_its_line_and_what_was_expected() {
    let begin = "host a b\nswitch s\n";
    for (rest, line, says) in [
        ("cabel a b", 3, "expected `host`, `switch` or `cable` at its start, found `cabel`"),
        ("host", 3, "expected a name after `host`"),
        ("host a", 3, "expected a new name, but `a` is declared above"),
        ("switch emp-b", 3, "expected a new name, but `emp-b` is declared above"),
        ("host B", 3, "expected a name of small letters"),
        ("host a-b", 3, "expected a name of small letters"),
        ("host emp-", 3, "expected a name of small letters"),
        ("host ../x", 3, "expected a name of small letters"),
        ("host sw", 3, "used by every lab"),
        ("cable a", 3, "expected two names after `cable`"),
        ("cable a c", 3, "declared above, found `c`"),
        ("\ncable a a", 4, "both its ends are one"),
        ("cable s s", 3, "both its ends are one"),
        ("cable a b speed 3", 3, "expected `mtu`, `rate` or `queue`, found `speed`"),
        ("cable a b mtu", 3, "expected a value after `mtu`"),
        ("cable a b mtu big", 3, "expected a number of bytes after `mtu`, found `big`"),
        ("cable a b mtu 5", 3, "an MTU of 5 is not possible"),
        ("cable a b rate fast", 3, "`fast` is not a rate"),
        ("cable a b queue 64K", 3, "expected `rate` beside `queue`"),
        ("cable a b mtu 1500 mtu 9000", 3, "expected `mtu` once"),
    ] {
        let mistake = parse(&format!("{begin}{rest}\n"), 1500).unwrap_err();
        assert_eq!(mistake.line, Some(line), "{rest}: {mistake:?}");
        assert!(mistake.says.contains(says), "{rest}: {mistake:?}");
    }
    let many = format!("host {}", (0..33).map(|n| format!("h{n} ")).collect::<String>());
    assert!(parse(&many, 1500).unwrap_err().says.contains("expected 32 of `host` at most"));
    for (text, says) in [("host a", "at least two hosts"), ("host a b", "at least one cable")] {
        let mistake = parse(text, 1500).unwrap_err();
        assert!(mistake.line.is_none() && mistake.says.contains(says), "{mistake:?}");
    }
}

#[test]
fn the_option_takes_names_and_files() {
    assert_eq!(Shape::parse("line"), Ok(Shape::Named(Topology::Line)));
    assert!(Shape::parse("star").unwrap_err().contains("there is no file star"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "host a b\ncabel a b\n").unwrap();
    let shape = Shape::parse(file.path().to_str().unwrap()).unwrap();
    let error = shape.plan(None, 1500).unwrap_err();
    let at = format!("{}:2: expected `host`", file.path().display());
    assert!(error.is::<UserError>() && error.to_string().starts_with(&at), "{error}");
    std::fs::write(file.path(), "host a b\ncable a b\n").unwrap();
    assert_eq!(shape.plan(Some(2), 1500).unwrap().hosts.len(), 2);
    let error = shape.plan(Some(3), 1500).unwrap_err();
    assert!(error.is::<UserError>() && error.to_string().contains("has 2 hosts, not 3"), "{error}");
    // No text at all, and no text that is one.
    std::fs::write(file.path(), [0xff, 0xfe, 0, 10, 7]).unwrap();
    assert!(shape.plan(None, 1500).unwrap_err().is::<UserError>());
}
