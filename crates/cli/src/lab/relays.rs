//! `emp relay` on the hosts of a lab that have several cables, one each: those that have no cable in common reach each other through them.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::host::{Host, Life};
use super::state::State;
use crate::bail_user;
use crate::process::ProcessId;
use crate::relay::GREETING;

/// How long a relay may take to start: it does so at once, on a machine that is not busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is looked whether one has.
const INTERVAL: Duration = Duration::from_millis(5);

/// Starts one on each host that has two interfaces or more, and waits until all relay. `note` is told of each as soon as it runs.
pub fn start(
    state: &State,
    life: Life,
    mut note: impl FnMut(ProcessId) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut started = Vec::new();
    for (index, planned) in state.plan.hosts.iter().enumerate() {
        if planned.interfaces.len() < 2 {
            continue;
        }
        let log = state.log(index, "relay");
        let entrance = Host::of(state, index).entrance_for(life)?;
        let mut command = Command::new(&program);
        command.arg("relay").stdin(Stdio::null());
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        command.stderr(file.try_clone()?).stdout(file);
        entrance.attach(&mut command);
        let child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        // One that has ended already is told of below.
        ProcessId::of(child.id()).map_or(Ok(()), &mut note)?;
        started.push((child, &planned.name, log));
    }
    let start = Instant::now();
    for (mut child, host, log) in started {
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            if said.lines().any(|line| line.starts_with(GREETING)) {
                break;
            }
            if child.try_wait()?.is_some() || start.elapsed() > PATIENCE {
                bail_user!("{host} does not relay (--no-relays leaves that out): {}", said.trim());
            }
            sleep(INTERVAL);
        }
    }
    Ok(())
}
