//! The service `empd` on the hosts of a lab, one each: what runs inside finds its host's by the environment.
//!
//! A lab's cables are nobody's but the lab's, so each service lends sockets to everyone.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use emp_link::service::socket;

use super::host::{Host, Life};
use super::state::State;
use crate::bail_user;
use crate::process::ProcessId;

/// What the services are told.
const CONFIGURATION: &str = "lend = 'everyone'\nattach = 'everyone'\n";

/// How long a service may take to listen: it does so at once, on a machine that is not busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is looked whether one listens.
const INTERVAL: Duration = Duration::from_millis(5);

/// Starts one on each host, and waits until all listen. `note` is told of each as soon as it runs.
pub fn start(
    state: &State,
    life: Life,
    mut note: impl FnMut(ProcessId) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let program = program()?;
    let file = state.service_file("toml");
    fs::write(&file, CONFIGURATION).with_context(|| file.display().to_string())?;
    let mut started = Vec::new();
    for index in 0..state.plan.hosts.len() {
        let path = state.service_socket(index).context("the lab has lost a host")?;
        let log = state.log(index, "empd");
        let entrance = Host::of(state, index).entrance_for(life)?;
        let mut command = Command::new(&program);
        command.arg("--config").arg(&file).arg("--socket").arg(&path).stdin(Stdio::null());
        command.stdout(Stdio::null());
        command.stderr(File::create(&log).with_context(|| log.display().to_string())?);
        entrance.attach(&mut command);
        let child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        // One that has ended already is told of below.
        ProcessId::of(child.id()).map_or(Ok(()), &mut note)?;
        started.push((child, path, log));
    }
    let start = Instant::now();
    for (mut child, path, log) in started {
        while socket::connect(&path).is_err() {
            let ended = child.try_wait()?.is_some();
            if ended || start.elapsed() > PATIENCE {
                let said = fs::read_to_string(&log).unwrap_or_default();
                bail_user!("empd does not listen at {}: {}", path.display(), said.trim());
            }
            sleep(INTERVAL);
        }
    }
    Ok(())
}

/// The service's program: beside this one, where a build puts both, or where `make install` does.
fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("this program has a place")?;
    let directory = own.parent().context("a file is in a directory")?;
    let places = [directory.join("empd"), directory.join("../sbin/empd")];
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(found.clone()),
        None => bail_user!(
            "there is no empd beside this program, nor in ../sbin: cargo build -p emp-empd, or make install"
        ),
    }
}
