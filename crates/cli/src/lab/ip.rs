//! Running the `ip` program, and `tc` of the same package.
//!
//! Namespaces and cables are made by calling iproute2 and not through netlink of our own: it is on
//! every machine that has network namespaces, follows the kernel, and what a lab does can be
//! repeated by hand. Making a lab is rare and small, so the few processes cost nothing that
//! matters.

use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};

use crate::error::user_error;

/// Runs `ip` with these arguments and gives what it printed.
pub fn run(arguments: &[&str]) -> anyhow::Result<String> {
    let output = command("ip").args(arguments).stdin(Stdio::null()).output().map_err(explain)?;
    check(&format!("ip {}", arguments.join(" ")), output)
}

/// Runs many `ip` commands inside one namespace, stopping at the first that fails.
pub fn batch(namespace: &str, lines: &[String]) -> anyhow::Result<()> {
    feed(command("ip"), &format!("ip -n {namespace} -batch"), namespace, lines)
}

/// Runs `tc` inside a namespace with these arguments and gives what it printed.
pub fn tc(namespace: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output =
        command("tc").args(["-n", namespace]).args(arguments).stdin(Stdio::null()).output();
    check(&format!("tc -n {namespace} {}", arguments.join(" ")), output.map_err(explain)?)
}

/// Runs many `tc` commands inside one namespace, stopping at the first that fails.
pub fn tc_batch(namespace: &str, lines: &[String]) -> anyhow::Result<()> {
    feed(command("tc"), &format!("tc -n {namespace} -batch"), namespace, lines)
}

fn feed(mut program: Command, what: &str, namespace: &str, lines: &[String]) -> anyhow::Result<()> {
    let mut child = program
        .args(["-n", namespace, "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(explain)?;
    let mut input = child.stdin.take().context("the pipe to ip or tc")?;
    // A write that fails means `ip` gave up early; its own message says why.
    let _ = input.write_all((lines.join("\n") + "\n").as_bytes());
    drop(input);
    check(what, child.wait_with_output()?).map(drop)
}

fn command(name: &str) -> Command {
    // Ordinary users' PATH often lacks the system directories it lives in.
    let known = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(|at| Path::new(at).join(name));
    let program = known.into_iter().find(|path| path.exists()).unwrap_or_else(|| name.into());
    let mut command = Command::new(program);
    // A group of its own, so that Ctrl-C on the terminal reaches only us: we decide when to stop
    // and undo, and `ip` never dies half way through a step.
    command.env("LC_ALL", "C").process_group(0);
    command
}

fn explain(error: std::io::Error) -> anyhow::Error {
    if error.kind() == ErrorKind::NotFound {
        return user_error("a lab needs the programs `ip` and `tc`; install the package iproute2");
    }
    anyhow::Error::new(error).context("running ip or tc")
}

fn check(what: &str, output: Output) -> anyhow::Result<String> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{what}: {}", said.lines().next().unwrap_or("it failed without a word"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
