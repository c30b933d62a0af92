//! Waiting until a lab's cables carry something: the kernel tells of a carrier some time after both ends are up, on a busy machine
//! up to seconds later, and programs that look before that take the cable for pulled.

use std::net::IpAddr;
use std::path::Path;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use emp_link::interfaces;

use super::enter::Entrance;
use super::plan::{Cable, Place};
use super::state::{NETNS_DIR, State};

/// How long to wait. The kernel tells within a second by itself; the rest is for machines with other things to do.
const LIMIT: Duration = Duration::from_secs(20);

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(5);

/// Waits until every interface of every host runs whose cable is plugged in. The switch's ports do when the hosts' do.
pub fn wait(state: &State) -> anyhow::Result<()> {
    (0..state.plan.hosts.len()).try_for_each(|index| wait_for_host(state, index))
}

/// Whether a cable carries something now, with the addresses that go with it, as its hosts see it.
pub fn is_there(state: &State, number: usize) -> anyhow::Result<bool> {
    for end in state.plan.cables[number].ends() {
        let Place::Host(index) = end.place else { continue };
        let (name, interface) = (end.interface.clone(), state.plan.interface(end));
        let address = interface.and_then(|interface| interface.address).map(IpAddr::V4);
        let there = inside(state, index, move || {
            Ok(interfaces()?.into_iter().any(|one| {
                let has = address.is_none_or(|address| one.addresses.contains(&address));
                one.name == name && one.up && one.running && has
            }))
        })?;
        if !there {
            return Ok(false);
        }
    }
    Ok(true)
}

fn wait_for_host(state: &State, index: usize) -> anyhow::Result<()> {
    let plugged = state.plan.cables.iter().filter(|cable| cable.pulled.is_none());
    let ends = plugged.flat_map(Cable::ends).filter(|end| end.place == Place::Host(index));
    let wanted: Vec<String> = ends.map(|end| end.interface.clone()).collect();
    inside(state, index, move || {
        until_running(&wanted, LIMIT, || {
            let running = interfaces()?.into_iter().filter(|one| one.up && one.running);
            Ok(running.map(|one| one.name).collect())
        })
    })
}

/// Does this in the network of a host, by a thread that goes there.
fn inside<T: Send + 'static>(
    state: &State,
    index: usize,
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let host = &state.plan.hosts[index].name;
    let namespace = state.namespace(Place::Host(index));
    let entrance = Entrance::network_only(&Path::new(NETNS_DIR).join(namespace))?;
    let worker = thread::spawn(move || {
        entrance.enter()?;
        work()
    });
    match worker.join() {
        Ok(result) => result.with_context(|| format!("waiting for the cables of {host}")),
        Err(_) => bail!("the thread that waited for the cables of {host} panicked"),
    }
}

/// Looks again and again which interfaces run, until all that are wanted do.
fn until_running(
    wanted: &[String],
    limit: Duration,
    mut running: impl FnMut() -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let now = running()?;
        let Some(missing) = wanted.iter().find(|name| !now.contains(name)) else { return Ok(()) };
        if start.elapsed() > limit {
            bail!("{missing} has no carrier after {} s", limit.as_secs_f64());
        }
        sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_run_late_are_waited_for() {
        let wanted = ["emp0".to_owned(), "emp1".to_owned()];
        let mut looks = 0;
        let late = || {
            looks += 1;
            Ok(wanted[..usize::min(looks / 2, 2)].to_vec())
        };
        until_running(&wanted, Duration::from_secs(60), late).unwrap();
        assert_eq!(looks, 4);
    }

    #[test]
    fn what_never_runs_is_named_in_the_end() {
        let wanted = ["emp0".to_owned(), "emp1".to_owned()];
        let limit = Duration::from_millis(20);
        let error = until_running(&wanted, limit, || Ok(vec!["emp0".to_owned()])).unwrap_err();
        assert_eq!(error.to_string(), "emp1 has no carrier after 0.02 s");
    }
}
