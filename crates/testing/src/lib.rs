//! What EMP's tests need of a machine, and what they do where it is missing: they say so where it is seen, and
//! fail if the tester requires it.
//!
//! `EMP_REQUIRE=root,mpi,browser,wasm,tshark` names what must be there; `.ci/run` sets most of it. Scripts ask the same of
//! `tools/require`, which this crate's tests hold to the same names.

pub mod faces;
pub mod lab;
pub mod pcapng;

use std::io::Write;

/// The variable that names what a test run requires, separated by commas.
pub const VARIABLE: &str = "EMP_REQUIRE";

/// Something that not every machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Privilege, and a kernel that lets it be used: namespaces (of users too), programs for AF_XDP, tracing, IPv6.
    Root,
    /// An MPI, or what programs for libfabric are built with.
    Mpi,
    /// Chromium, to look at reports.
    Browser,
    /// Rust's target without an operating system.
    Wasm,
    /// Wireshark's `tshark`, which runs the dissector.
    Tshark,
}

impl Need {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Root, Self::Mpi, Self::Browser, Self::Wasm, Self::Tshark];

    /// Its name in `EMP_REQUIRE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Mpi => "mpi",
            Self::Browser => "browser",
            Self::Wasm => "wasm",
            Self::Tshark => "tshark",
        }
    }
}

/// Whether a value of `EMP_REQUIRE` requires it; the first unknown name, if it has one.
fn is_required(value: &str, need: Need) -> Result<bool, String> {
    let mut required = false;
    for name in value.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let known = Need::ALL.into_iter().find(|known| known.name() == name);
        required |= known.ok_or(name)? == need;
    }
    Ok(required)
}

/// Says that the calling test does nothing here, and why. The test returns after it.
///
/// # Panics
/// If `EMP_REQUIRE` names the need. An unknown name there ends the test program with code 2.
pub fn skip(need: Need, why: &str) {
    let value = std::env::var(VARIABLE).unwrap_or_default();
    match is_required(&value, need) {
        Ok(false) => {}
        Ok(true) => panic!("{VARIABLE} requires `{}`, but: {why}", need.name()),
        Err(name) => {
            say(&format!("{VARIABLE}: `{name}` is none of root, mpi, browser, wasm, tshark\n"));
            std::process::exit(2);
        }
    }
    let thread = std::thread::current();
    say(&format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test")));
}

/// Not by `eprintln!`, which nobody sees of a test that passes. In one piece, as tests beside this one write too.
fn say(line: &str) {
    // A tester without standard error does not want to know.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    /// Set in this program when a test of it runs another.
    const INSIDE: &str = "EMP_TESTING_INSIDE";

    fn tool(required: &str, arguments: &[&str]) -> Output {
        let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/require");
        Command::new(tool).args(arguments).env(VARIABLE, required).output().expect("it runs")
    }

    fn lines(output: &Output) -> Vec<String> {
        String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
    }

    #[test]
    fn names_are_found_in_lists() {
        assert_eq!(is_required("", Need::Root), Ok(false));
        assert_eq!(is_required("mpi, root", Need::Root), Ok(true));
        assert_eq!(is_required("mpi,browser,wasm", Need::Root), Ok(false));
        assert_eq!(is_required("root,toor", Need::Root), Err("toor".into()));
        for need in Need::ALL {
            assert_eq!(is_required(need.name(), need), Ok(true));
        }
    }

    #[test]
    fn the_scripts_know_the_same_names() {
        let all = Need::ALL.map(Need::name).join(",");
        assert!(tool(&all, &[]).status.success());
        for need in Need::ALL {
            let missing = tool("", &[need.name(), "not here"]);
            assert!(missing.status.success());
            assert_eq!(lines(&missing), ["skipped: not here"]);
            let required = tool(&all, &[need.name(), "not here"]);
            assert_eq!(required.status.code(), Some(1));
            assert_eq!(
                lines(&required),
                [format!("EMP_REQUIRE requires `{}`, but: not here", need.name())]
            );
        }
        for unknown in [tool("root,rooot", &[]), tool("rooot", &["root", "not here"])] {
            assert_eq!(unknown.status.code(), Some(2));
            assert_eq!(
                lines(&unknown),
                ["EMP_REQUIRE: `rooot` is none of root, mpi, browser, wasm, tshark"]
            );
        }
    }

    /// This program, once more, where it skips.
    fn inside(required: &str) -> Output {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.args(["--exact", "tests::a_skip_is_loud"]).env(INSIDE, "1").env(VARIABLE, required);
        command.output().expect("it runs")
    }

    #[test]
    fn a_skip_is_loud() {
        if std::env::var_os(INSIDE).is_some() {
            return skip(Need::Browser, "only a try");
        }
        let allowed = inside("root");
        assert!(allowed.status.success());
        let said = lines(&allowed);
        assert!(said[0].starts_with("skipped: ") && said[0].ends_with(": only a try"), "{said:?}");
        let required = inside("root,browser");
        assert_eq!(required.status.code(), Some(101), "the test failed");
        let text = String::from_utf8_lossy(&required.stdout);
        assert!(text.contains("EMP_REQUIRE requires `browser`, but: only a try"), "{text}");
        let unknown = inside("browsr");
        assert_eq!(unknown.status.code(), Some(2));
        assert_eq!(
            lines(&unknown),
            ["EMP_REQUIRE: `browsr` is none of root, mpi, browser, wasm, tshark"]
        );
    }
}
