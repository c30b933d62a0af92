//! Where the two ends are, as it is asked for, and work with the other one.

use clap::Args;

use super::cpus;
use super::job::Spec;
use super::named::first_of;
use super::pair::{MTU_DEFAULT, Pair, spares_beside};
use super::session::Session;
use super::subject::Named;

/// Where the other end is.
#[derive(Args, Clone, Debug)]
pub struct WhereArgs {
    /// The host where `emp bench listen` runs: NAME, ADDRESS, or either with :PORT.
    #[arg(required_unless_present = "lab")]
    pub peer: Option<String>,
    /// Both ends here, in two network namespaces joined by a virtual cable.
    #[arg(long, conflicts_with = "peer")]
    pub lab: bool,
    /// Network interface of the packet link [default: the one that leads to PEER].
    #[arg(long, conflicts_with = "lab")]
    pub interface: Option<String>,
    /// Interfaces that EMP uses together, at most four, such as eth1,eth2; the first is that of --interface. Both ends need them; a lab has
    /// emp0, emp1 and emp2.
    #[arg(long, value_name = "INTERFACES", value_delimiter = ',', conflicts_with = "interface")]
    pub interfaces: Vec<String>,
    /// Other interfaces that lead to PEER, for what must not pass through EMP's XDP program on the first one: with --link xdp
    /// the bare link takes one and TCP one. Both ends need them, in the same order; a lab has more cables for it.
    #[arg(long, value_name = "INTERFACES", value_delimiter = ',', conflicts_with = "lab")]
    pub spare_interface: Vec<String>,
    /// Size of the largest packet in bytes [default: the interface's; 1500 in a lab].
    #[arg(long)]
    pub mtu: Option<usize>,
}

impl WhereArgs {
    /// Does work with the other end's address, in a lab of its own if that was asked for, with services on its hosts if those are needed.
    pub fn with_peer<T: Send>(
        &self,
        services: bool,
        work: impl FnOnce(&str) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        match &self.peer {
            Some(peer) if !self.lab => work(peer),
            _ => Pair::with_spares(self.mtu.unwrap_or(MTU_DEFAULT), &self.interfaces, services)?
                .run(work),
        }
    }

    /// Opens a session with that other end. A lab's interfaces have the MTU that was asked for already.
    pub fn open(&self, peer: &str, specs: Vec<Spec>) -> anyhow::Result<Session> {
        let mtu = if self.lab { None } else { self.mtu };
        let spares = match self.lab {
            true => spares_beside(&self.interfaces),
            false => self.spare_interface.clone(),
        };
        let (first, together) = first_of(&self.interface, &self.interfaces)?;
        Session::open(peer, specs, &Named { first, together, spares }, mtu)
    }

    /// Does work in one session.
    pub fn with_session<T: Send>(
        &self,
        mut specs: Vec<Spec>,
        work: impl FnOnce(&mut Session) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        // Here this process is not on one of them yet.
        let usable = if self.lab { cpus::usable_cpus() } else { Vec::new() };
        for spec in &mut specs {
            spec.cpus = spec.cpus.or_else(|| cpus::apart(&spec.board, &usable));
        }
        let services = specs.iter().any(Spec::needs_service);
        self.with_peer(services, |peer| work(&mut self.open(peer, specs)?))
    }
}
