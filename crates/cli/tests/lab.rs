//! `emp lab` as root: what it makes, what it answers, and that nothing is left.

mod lab_support;

use std::process::{Command, Stdio};

use lab_support::*;

#[test]
fn a_lab_is_made_used_shown_and_removed() {
    if !is_root() {
        return;
    }
    let name = unique('a');
    let _cleanup = Cleanup(&name);
    let lab = ["--name", &name];
    succeed(emp(&["lab", "up", "--hosts", "3", "--topology", "switch"]).args(lab));
    assert_eq!(namespaces(&name).len(), 4);
    let again = mistake(emp(&["lab", "up"]).args(lab));
    assert!(again.contains("is up already"), "{again}");

    for host in ["emp-b", "1", "10.77.0.2"] {
        let exec = ["lab", "exec", "--name", &name, host, "--", "uname", "-n"];
        assert_eq!(succeed(&mut emp(&exec)), "emp-b\n");
    }
    let code = run(&["lab", "exec", "--name", &name, "emp-a", "--", "sh", "-c", "exit 7"]);
    assert_eq!(code.status.code(), Some(7));
    let nested = ["lab", "exec", "--name", &name, "emp-a", env!("CARGO_BIN_EXE_emp")];
    let inside = emp(&nested).args(["lab", "exec", "emp-c", "uname", "-n"]).output().unwrap();
    assert_eq!(inside.stdout, b"emp-c\n", "{}", stderr(&inside));
    let mut rsh = emp(&["lab", "rsh", "-x", "-o", "A=b", "emp-b", "echo $(uname", "-n)"]);
    assert_eq!(succeed(rsh.env("EMP_LAB", &name)), "emp-b\n");

    let status = succeed(emp(&["lab", "status", "--json"]).args(lab));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let interface = &status[0]["hosts"][2]["interfaces"][0];
    assert_eq!(interface["address"], "10.77.0.3/24");
    assert_eq!(interface["state"], "up");
    let table = succeed(emp(&["lab", "status"]).args(lab));
    assert!(table.contains("emp-c"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");

    assert!(succeed(emp(&["lab", "down"]).args(lab)).contains("is removed"));
    assert!(namespaces(&name).is_empty() && !is_recorded(&name));
    assert!(succeed(emp(&["lab", "down"]).args(lab)).contains("nothing to remove"));
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    if !is_root() {
        return;
    }
    let name = unique('b');
    let _cleanup = Cleanup(&name);
    let lab = ["--name", &name];
    let line = mistake(&mut emp(&["lab", "exec", "--name", &name, "emp-a", "true"]));
    assert!(line.contains("is not up"), "{line}");
    mistake(emp(&["lab", "status"]).args(lab));
    mistake(emp(&["lab", "up", "--hosts", "3"]).args(lab));
    mistake(emp(&["lab", "up", "--mtu", "5"]).args(lab));
    mistake(&mut emp(&["lab", "up", "--name", "../x"]));
    mistake(&mut emp(&["lab", "run", "--host", "emp-x", "true"]));
    mistake(&mut emp(&["lab", "run", "--", "no-such-program-here"]));
    for (arguments, says) in [
        (&["lab", "up", "--topology", "star"][..], "none of link, line, ring, mesh, switch, and"),
        (&["lab", "exec"], "not provided: <HOST> <COMMAND>...; usage: emp lab exec"),
        (&["lab", "up", "--host", "3"], "tip: a similar argument exists: '--hosts'"),
        (&["lab", "up", "--hosts", "many"], "invalid value 'many' for '--hosts <HOSTS>'"),
        (&["moan"], "unrecognized subcommand 'moan'"),
        (&["bench", "pingpong", "--lab", "peer"], "cannot be used with"),
    ] {
        let line = mistake(&mut emp(arguments));
        assert!(line.contains(says), "{line}");
    }
}

#[test]
fn a_name_taken_by_somebody_else_is_left_alone() {
    if !is_root() {
        return;
    }
    let name = unique('c');
    let _cleanup = Cleanup(&name);
    let theirs = format!("emp-{name}-b");
    let ip = |verb: &str| Command::new("ip").args(["netns", verb, &theirs]).status();
    assert!(ip("add").unwrap().success());
    let line = mistake(&mut emp(&["lab", "up", "--name", &name]));
    let left = namespaces(&name);
    assert!(ip("del").unwrap().success());
    assert!(line.contains(&theirs), "{line}");
    assert_eq!(left, [theirs]);
    assert!(!is_recorded(&name));
}

#[test]
fn up_interrupted_at_any_time_leaves_nothing() {
    if !is_root() {
        return;
    }
    for (nth, name_of_signal) in ["TERM", "INT", "HUP", "TERM", "INT"].into_iter().enumerate() {
        let name = format!("{}{nth}", unique('d'));
        let up = ["lab", "up", "--hosts", "12", "--topology", "mesh", "--name", &name];
        let _cleanup = Cleanup(&name);
        let mut child = interruptible(&up).stdout(Stdio::null()).spawn().unwrap();
        wait_until("the lab is begun", || namespaces(&name).len() > nth);
        signal(&child, name_of_signal);
        assert!(!child.wait().unwrap().success(), "made before the signal came");
        assert!(namespaces(&name).is_empty(), "{:?}", namespaces(&name));
        assert!(!is_recorded(&name));
    }
}

fn is_relay(pid: u64) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|word| word == b"relay")
}

#[test]
fn a_half_removed_lab_goes_away_completely() {
    if !is_root() {
        return;
    }
    let name = unique('e');
    let _cleanup = Cleanup(&name);
    succeed(&mut emp(&["lab", "up", "--hosts", "3", "--topology", "ring", "--name", &name]));
    let one = format!("emp-{name}-b");
    Command::new("ip").args(["netns", "del", &one]).status().unwrap();
    let status = succeed(&mut emp(&["lab", "status", "--name", &name]));
    assert!(status.contains("gone"), "{status}");
    // The relays are in the record; and a process that has the number of one that has ended.
    let path = std::path::PathBuf::from(format!("/run/emp/lab-{name}.json"));
    let mut record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let servants = record["servants"].as_array_mut().unwrap();
    let number = |servant: &serde_json::Value| servant["pid"].as_u64().unwrap();
    let relays: Vec<u64> = servants.iter().map(number).collect();
    assert!(relays.len() == 3 && relays.iter().all(|pid| is_relay(*pid)), "{relays:?}");
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    servants.push(serde_json::json!({"pid": stranger.id(), "started": 1}));
    std::fs::write(&path, record.to_string()).unwrap();

    let said = succeed(&mut emp(&["lab", "down", "--name", &name]));
    let lives = stranger.try_wait().unwrap().is_none();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(said.contains("; 3 processes that ran inside were ended"), "{said}");
    assert!(lives, "who only has the number of one lives on");
    assert!(!relays.iter().any(|pid| is_relay(*pid)));
    assert!(namespaces(&name).is_empty() && !is_recorded(&name));
}

#[test]
fn a_private_lab_ends_with_its_process() {
    if !is_root() {
        return;
    }
    assert_eq!(succeed(&mut emp(&["lab", "run", "--host", "1", "uname", "-n"])), "emp-b\n");
    assert_eq!(run(&["lab", "run", "--", "sh", "-c", "exit 9"]).status.code(), Some(9));

    // A number of seconds that marks our sleepers in the list of processes.
    let mark = format!("98765{}", std::process::id());
    for name_of_signal in ["TERM", "INT", "KILL"] {
        let mut child = interruptible(&["lab", "run", "sleep", &mark]).spawn().unwrap();
        let name = format!("p{}x0", child.id());
        wait_until("the sleeper sleeps", || sleeps(&mark));
        let line = mistake(&mut emp(&["lab", "down", "--name", &name]));
        assert!(line.contains("belongs to process"), "{line}");
        signal(&child, name_of_signal);
        assert!(!child.wait().unwrap().success());
        wait_until("the sleeper is gone", || processes_with(&mark) == 0);
        if name_of_signal == "KILL" {
            // The next lab to be made removes it; tests beside this one make labs too.
            succeed(&mut emp(&["lab", "run", "true"]));
            wait_until("the killed process's lab is gone", || !is_recorded(&name));
        }
        assert!(namespaces(&name).is_empty() && !is_recorded(&name));
    }
}

/// The record of a lab whose process is gone, with a namespace that it made and one that it did not.
fn make_stale(name: &str) -> std::path::PathBuf {
    succeed(&mut emp(&["lab", "up", "--name", name]));
    let path = std::path::PathBuf::from(format!("/run/emp/lab-{name}.json"));
    let mut record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    // No process has the number 0.
    record["owner"] = serde_json::json!({"pid": 0, "started": 1});
    record["namespaces"][1]["inode"] = serde_json::json!(1);
    // In one step: others may read it at any time.
    let draft = path.with_extension("draft");
    std::fs::write(&draft, record.to_string()).unwrap();
    std::fs::rename(draft, &path).unwrap();
    path
}

#[test]
fn what_a_killed_process_leaves_goes_with_the_next_lab() {
    if !is_root() {
        return;
    }
    for (letter, remove) in [('g', &["lab", "run", "true"][..]), ('h', &["lab", "down", "--stale"])]
    {
        let name = unique(letter);
        let record = make_stale(&name);
        // Tests beside this one make labs too, and one of them may be faster.
        succeed(&mut emp(remove));
        wait_until("the lab is removed", || !record.exists());
        // What bears a lab's name and is not what the lab made is left alone.
        let theirs = format!("emp-{name}-b");
        assert_eq!(namespaces(&name), [theirs.as_str()]);
        let del = Command::new("ip").args(["netns", "del", &theirs]).status();
        assert!(del.unwrap().success());
    }
}

#[test]
fn cables_go_even_if_a_program_stays() {
    if !is_root() {
        return;
    }
    // It belongs to nobody when the lab is removed.
    let stays = "(while [ -e /sys/class/net/emp0 ]; do sleep 0.05; done; echo gone) &";
    assert_eq!(succeed(&mut emp(&["lab", "run", "--", "sh", "-c", stays])), "gone\n");
}

#[test]
fn down_ends_what_runs_inside_and_nothing_else() {
    if !is_root() {
        return;
    }
    let (name, other) = (unique('f'), unique('i'));
    let _cleanup = (Cleanup(&name), Cleanup(&other));
    let mark = |nth: u32| format!("7654{nth}{}", std::process::id());
    let sleeper = |lab: &str, mark: &str| {
        let exec = ["lab", "exec", "--name", lab, "emp-b", "--", "sleep", mark];
        let child = emp(&exec).spawn().unwrap();
        wait_until("the sleeper sleeps", || sleeps(mark));
        child
    };
    for lab in [&name, &other] {
        succeed(&mut emp(&["lab", "up", "--name", lab]));
    }
    let mut inside = sleeper(&name, &mark(1));
    let mut elsewhere = sleeper(&other, &mark(2));
    // It takes SIGTERM for nothing, and started something that nobody waits for.
    let script = format!("trap '' TERM; sleep {} & echo; wait", mark(3));
    let exec = ["lab", "exec", "--name", &name, "emp-a", "--", "sh", "-c", &script];
    let mut deaf = emp(&exec).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the second sleeper sleeps", || sleeps(&mark(3)));

    let said = succeed(&mut emp(&["lab", "down", "--name", &name]));
    let told = format!("lab {name} is removed; 3 processes that ran inside were ended\n");
    assert_eq!(said, told);
    assert!(!inside.wait().unwrap().success() && !deaf.wait().unwrap().success());
    assert!(!sleeps(&mark(3)) && sleeps(&mark(2)), "of another lab");
    assert!(elsewhere.try_wait().unwrap().is_none());
    succeed(&mut emp(&["lab", "down", "--name", &other]));
    elsewhere.wait().unwrap();
}

#[test]
fn down_refuses_to_end_the_shell_it_is_called_from() {
    if !is_root() {
        return;
    }
    let name = unique('j');
    let _cleanup = Cleanup(&name);
    succeed(&mut emp(&["lab", "up", "--name", &name]));
    let script = format!("{} lab down; echo still here", env!("CARGO_BIN_EXE_emp"));
    let output = run(&["lab", "exec", "--name", &name, "emp-a", "--", "sh", "-c", &script]);
    let said = stderr(&output);
    assert!(said.contains(&format!("inside lab {name}")) && said.contains("(sh)"), "{said}");
    assert_eq!(output.stdout, b"still here\n");
    assert_eq!(namespaces(&name).len(), 2);
}

#[test]
fn a_bare_down_takes_away_what_killed_processes_left() {
    if !is_root() {
        return;
    }
    let name = unique('k');
    let record = make_stale(&name);
    // A lab of that name is nobody's; and a test beside this one may remove the stale one first.
    let said = succeed(emp(&["lab", "down"]).env("EMP_LAB", "nosuchlab"));
    assert!(said.starts_with("lab nosuchlab is not up; nothing to remove\n"), "{said}");
    wait_until("the lab is removed", || !record.exists());
    let del = Command::new("ip").args(["netns", "del", &format!("emp-{name}-b")]).status();
    assert!(del.unwrap().success());
}

#[test]
fn tests_without_privilege_say_that_they_are_skipped() {
    if !is_root() {
        return;
    }
    let unprivileged = |required: &str| {
        let mut again = Command::new("setpriv");
        again.args(["--bounding-set=-all", "--inh-caps=-all"]);
        again.arg(std::env::current_exe().unwrap()).env("EMP_REQUIRE", required);
        again.args(["--exact", "a_half_removed_lab_goes_away_completely"]).output().unwrap()
    };
    assert_eq!(unprivileged("mpi,root").status.code(), Some(101), "it is required");
    let output = unprivileged("");
    assert!(output.status.success());
    let said = stderr(&output);
    // With one core the test is the main thread, and has its name.
    assert!(said.starts_with("skipped: ") && said.lines().count() == 1, "{said}");
    assert!(said.ends_with(": this needs CAP_SYS_ADMIN and CAP_NET_ADMIN\n"), "{said}");
}

#[test]
fn a_switchs_ports_have_a_rate_and_a_queue_and_cables_carry_at_once() {
    if !is_root() {
        return;
    }
    let name = unique('p');
    let _cleanup = Cleanup(&name);
    let shape =
        ["--topology", "switch", "--hosts", "3", "--port-rate", "400mbit", "--port-queue", "64K"];
    succeed(emp(&["lab", "up", "--name", &name]).args(shape));
    let status = succeed(&mut emp(&["lab", "status", "--json", "--name", &name]));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    for host in status[0]["hosts"].as_array().unwrap() {
        assert_eq!(host["interfaces"][0]["state"], "up", "{host}");
    }
    let switch = format!("emp-{name}-sw");
    let shown = succeed(Command::new("tc").args(["-n", &switch, "-j", "qdisc", "show"]));
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    for port in ["port0", "port1", "port2"] {
        let all = shown.as_array().unwrap();
        let bucket = all.iter().find(|one| one["dev"] == port && one["kind"] == "tbf").unwrap();
        assert_eq!(bucket["options"]["rate"], 400_000_000 / 8, "{bucket}");
    }
}

#[test]
fn ports_that_make_no_sense_are_one_line_and_exit_code_2() {
    for (arguments, says) in [
        (&["--port-rate", "500mbit"][..], "add --topology line, ring, mesh or switch"),
        (&["--topology", "switch", "--port-queue", "128K"], "add --rate"),
        (&["--topology", "switch", "--port-rate", "fast"], "`fast` is not a rate"),
        (&["--topology", "switch", "--port-rate", "-1mbit"], "a port rate of -1mbit"),
        (
            &["--topology", "switch", "--port-rate", "1gbit", "--port-queue", "lots"],
            "`lots` is not a size",
        ),
        (
            &["--topology", "switch", "--port-rate", "1gbit", "--port-queue", "1"],
            "a port queue of 1 ",
        ),
    ] {
        let line = mistake(emp(&["lab", "up"]).args(arguments));
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
}
