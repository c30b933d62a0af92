//! Both ends on this machine: a lab of two hosts, the listener as a process in one, the client as a thread in the other,
//! each on a core of its own where there are two.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread;

use anyhow::{Context, bail};

use super::cpus::usable_cpus;
use super::listen::GREETING;
use crate::lab::{Plan, PrivateLab, Topology};

/// MTU of a lab unless asked for another: ordinary Ethernet's.
pub const MTU_DEFAULT: usize = 1500;

/// The interfaces of either host at the second and third cable, where there are such.
pub const SPARES: [&str; 2] = ["emp1", "emp2"];

/// The lab's spare interfaces that are not among these.
pub fn spares_beside(interfaces: &[String]) -> Vec<String> {
    let spares = SPARES.iter().filter(|spare| !interfaces.iter().any(|name| name == *spare));
    spares.map(|spare| (*spare).to_owned()).collect()
}

/// A lab with a listener in it.
pub struct Pair {
    // Declared first, so that it ends before its host goes away.
    listener: Listener,
    lab: PrivateLab,
}

struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Pair {
    /// Makes the lab, of one cable, and starts the listener. To be called before this process has threads (see
    /// [`PrivateLab::create`]), and from a thread that lasts as long as the pair.
    pub fn new(mtu: usize) -> anyhow::Result<Self> {
        Self::of(plan(mtu)?, &[], false)
    }

    /// The same with more cables, for what cannot share an interface with the rest, or that EMP is to use together; with services on both
    /// hosts, if they are wanted.
    pub fn with_spares(mtu: usize, together: &[String], services: bool) -> anyhow::Result<Self> {
        let plan = SPARES.iter().fold(plan(mtu)?, |plan, _| plan.with_spare_cable());
        let (spares, together) = (spares_beside(together).join(","), together.join(","));
        let mut options = Vec::new();
        if !spares.is_empty() {
            options.extend(["--spare-interface", &spares]);
        }
        if !together.is_empty() {
            options.extend(["--interfaces", &together]);
        }
        Self::of(plan, &options, services)
    }

    fn of(plan: Plan, options: &[&str], services: bool) -> anyhow::Result<Self> {
        let lab = PrivateLab::create(plan)?;
        if services {
            lab.start_services()?;
            emp_link::service::name_socket(lab.service_place());
        }
        let host = lab.host("1")?;
        let program = env::current_exe().context("finding this program")?;
        let mut command = match cores() {
            Some((_, second)) => host.command_on_cpu(program, second)?,
            None => host.command(program)?,
        };
        command.args(["bench", "listen", "--quiet"]).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut listener = Listener(command.spawn().context("starting the listener")?);
        let mut greeting = String::new();
        if let Some(output) = listener.0.stdout.take() {
            BufReader::new(output).read_line(&mut greeting)?;
        }
        if !greeting.starts_with(GREETING) {
            bail!("the listener in the lab did not start");
        }
        Ok(Self { listener, lab })
    }

    /// Runs the client's work inside the first host and hands it the listener's address.
    pub fn run<T: Send>(
        &mut self,
        work: impl FnOnce(&str) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let peer = self.lab.host("1")?.address().to_string();
        let mut entrance = self.lab.host("0")?.entrance()?;
        if let Some((first, _)) = cores() {
            entrance = entrance.on_cpu(first)?;
        }
        let ended = thread::scope(|scope| {
            let client = scope.spawn(|| {
                entrance.enter().context("entering the lab")?;
                work(&peer)
            });
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        if ended.is_err() {
            // It must not outlive the failure.
            let _ = self.listener.0.kill();
        }
        ended
    }
}

fn plan(mtu: usize) -> anyhow::Result<Plan> {
    Plan::new(2, Topology::Link, u32::try_from(mtu).unwrap_or(u32::MAX))
}

/// Two cores that this process may use, if there are two.
fn cores() -> Option<(usize, usize)> {
    let allowed = usable_cpus();
    Some((*allowed.first()?, *allowed.get(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spare_interfaces_have_the_names_that_both_ends_are_told() {
        let plan = plan(MTU_DEFAULT).unwrap().with_spare_cable().with_spare_cable();
        for host in &plan.hosts {
            assert_eq!([&host.interfaces[1].name, &host.interfaces[2].name], SPARES);
        }
    }
}
