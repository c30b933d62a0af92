//! `emp bench netpipe`: what it measures, the files it writes, how it refuses.

mod lab_support;
mod listener_support;

use std::fs;

use lab_support::*;
use listener_support::Listener;
use serde_json::Value;

/// Options that keep a run short; its figures do not matter here.
const SHORT: [&str; 8] = ["--seconds", "0.0005", "--trials", "3", "--end", "16", "--start", "1"];

#[test]
fn emp_over_every_link_the_bare_links_and_tcp_are_measured() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut command = emp(&["bench", "netpipe", "--lab"]);
    command.args(SHORT).arg("--json").arg(path("run.json")).arg("--np-out").arg(path("np"));
    let printed = succeed(&mut command);
    assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
    for text in ["EMP packet", "EMP udp", "to TCP", "geometric mean"] {
        assert!(printed.contains(text), "{text}: {printed}");
    }

    let run: Value = serde_json::from_slice(&fs::read(path("run.json")).unwrap()).unwrap();
    assert!(run["command"].as_str().unwrap().starts_with("emp bench netpipe"));
    assert!(!run["auto"].as_str().unwrap().is_empty());
    let results = run["results"].as_array().unwrap();
    let sizes = |subject: &str, link: Option<&str>| -> Vec<u64> {
        let own = results.iter().filter(|row| row["subject"] == subject);
        let own = own.filter(|row| row["link"] == link.map_or(Value::Null, Value::from));
        own.map(|row| row["size"].as_u64().unwrap()).collect()
    };
    // NetPIPE's own schedule up to 16 bytes and the size beyond.
    let schedule = [1, 2, 3, 4, 6, 8, 12, 13, 16, 19];
    for (subject, link) in [("emp", Some("packet")), ("emp", Some("udp")), ("tcp", None)] {
        assert_eq!(sizes(subject, link), schedule, "{subject} {link:?}");
    }
    // A bare link on a busy machine may lose something at every size.
    for link in ["packet", "udp"] {
        let sizes = sizes("raw", Some(link));
        assert!(sizes.iter().all(|size| schedule.contains(size)), "{link}: {sizes:?}");
    }
    for row in results {
        let time = |key: &str| row[key].as_f64().unwrap();
        assert!(0.0 < time("best_us") && time("best_us") <= time("one_way_us"), "{row}");
        assert!(
            time("one_way_us") <= time("worst_us") && row["repeats"].as_u64() >= Some(3),
            "{row}"
        );
    }

    let np_out = fs::read_to_string(path("np").join("np.emp-packet.out")).unwrap();
    assert_eq!(np_out.lines().count(), schedule.len());
    for (line, bytes) in np_out.lines().zip(schedule) {
        let columns: Vec<f64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [size, megabits, seconds] = columns[..] else { panic!("three columns: {line}") };
        assert_eq!(size, bytes as f64);
        let exact = size * 8.0 / f64::from(1 << 20) / seconds;
        // The time has eight decimals, which are three digits of a microsecond.
        assert!((megabits / exact - 1.0).abs() < 0.02, "{line}");
    }
    let count = fs::read_dir(path("np")).unwrap().count();
    assert!(count >= 3, "{count} files");
}

/// EMP, its faces and an MPI on one page, also where there is no MPI.
#[test]
fn faces_and_an_mpi_are_on_one_page() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    // The libraries beside the program, as in a build or where they are installed.
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    for file in ["libmyriexpress.so", "libvipl.so", "libvmmc.so", "libemp_fi.so"] {
        if !built.join(file).exists() {
            return skip(Need::Mpi, "faces are not built (cargo test --workspace builds them)");
        }
        fs::copy(built.join(file), path(file)).unwrap();
    }
    fs::copy(env!("CARGO_BIN_EXE_emp"), path("emp")).unwrap();
    let run = |name: &str, without: bool| {
        let mut command = std::process::Command::new(path("emp"));
        command.args(["bench", "netpipe", "--lab", "--vs", "tcp", "--faces", "all"]);
        command
            .env("FI_PROVIDER_PATH", directory.path())
            .args(SHORT)
            .arg("--json")
            .arg(path(name))
            .arg("--html")
            .arg(path("page.html"));
        command.args(["--np-out"]).arg(path("np")).env_remove("EMP_LINK").env_remove("FI_EMP_LINK");
        if without {
            // Nothing of an MPI is found there.
            command.env("PATH", "/usr/sbin:/sbin");
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let page = fs::read_to_string(path("page.html")).unwrap();
        let run: Value = serde_json::from_slice(&fs::read(path(name)).unwrap()).unwrap();
        let subjects: std::collections::BTreeSet<String> = run["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["subject"].as_str().unwrap().to_owned())
            .collect();
        (page, subjects, errors.into_owned())
    };
    let (page, subjects, errors) = run("all.json", false);
    let faces = ["emp", "libfabric", "mx", "tcp", "vipl", "vmmc"];
    for face in faces {
        assert!(subjects.contains(face), "{face}: {subjects:?}");
    }
    let names = ["MX", "VIPL", "VMMC", "libfabric", "TCP"];
    for name in names {
        assert!(page.contains(name), "{name} is not on the page");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(
        page.contains("<svg") && page.contains("<table") && page.ends_with("</html>\n"),
        "{page}"
    );
    let has_mpi = subjects.iter().any(|subject| subject.starts_with("mpi"));
    if !has_mpi {
        assert!(errors.contains("note: without an MPI"), "{errors}");
        skip(Need::Mpi, "no MPI was measured");
    }
    for file in ["np.mx.out", "np.vmmc.out", "np.vipl.out", "np.libfabric.out"] {
        assert!(
            fs::read_dir(path("np")).unwrap().flatten().any(|entry| {
                entry.file_name().to_string_lossy().starts_with(file.trim_end_matches(".out"))
            }),
            "{file}"
        );
    }
    let (page, subjects, errors) = run("none.json", true);
    assert!(errors.contains("note: without an MPI"), "{errors}");
    assert!(!subjects.iter().any(|subject| subject.starts_with("mpi")) && page.contains("VMMC"));
}

#[test]
fn netpipe_5_has_five_columns() {
    let listener = Listener::start();
    let directory = tempfile::tempdir().unwrap();
    let mut command = emp(&["bench", "netpipe", listener.address(), "--np-format", "5"]);
    command.args(SHORT).args(["--vs", "none", "--pert", "0", "--np-out"]).arg(directory.path());
    succeed(&mut command);
    let np_out = fs::read_to_string(directory.path().join("np.emp-udp.out")).unwrap();
    for line in np_out.lines() {
        let columns: Vec<f64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [_, mean, least, best, us] = columns[..] else { panic!("five columns: {line}") };
        assert!(least <= mean && mean <= best && us > 0.0, "{line}");
    }
    // Powers of two and what lies halfway, up to 16.
    assert_eq!(np_out.lines().count(), 8);
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    for (arguments, says) in [
        (vec!["--start", "many"], "--start `many` is not one size"),
        (vec!["--start", "2K", "--end", "1K"], "run backwards"),
        (vec!["--trials", "0"], "0 trials"),
        (vec!["--seconds", "-1"], "-1"),
        (vec!["--vs", "pigeon"], "not `pigeon`"),
        (vec!["--quick", "--pert", "3"], "--quick"),
        (vec!["--np-format", "4"], "--np-format"),
    ] {
        let line = mistake(emp(&["bench", "netpipe", "127.0.0.1"]).args(&arguments));
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
}
