//! EMP through its libfabric provider: what an MPI calls.

use std::path::Path;

use super::door::Door;
use crate::bench::patience::Patience;
use crate::bench::subject::faces::port::Port;

/// The variable by which the provider is told its link.
pub const LINK_VARIABLE: &str = "FI_EMP_LINK";

/// Opens an endpoint of the provider in a file, on an interface.
pub fn open(file: &Path, interface: &str) -> anyhow::Result<Box<dyn Port>> {
    Ok(Box::new(Door::open(file, interface)?))
}

/// Tries until it works: the provider says so when it has no room.
#[inline]
fn until(
    door: &mut Door,
    mut attempt: impl FnMut(&mut Door) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let mut patience = Patience::default();
    while !attempt(door)? {
        patience.idle()?;
    }
    Ok(())
}

impl Port for Door {
    fn address(&self) -> anyhow::Result<Vec<u8>> {
        self.address()
    }

    fn meet(&mut self, address: &[u8]) -> anyhow::Result<()> {
        self.meet(address)
    }

    fn resize(&mut self, size: usize, receives: usize) -> anyhow::Result<()> {
        self.resize(size, receives)
    }

    fn leave_memory(&mut self) {
        self.leave_memory();
    }

    fn receives(&self) -> usize {
        self.receives()
    }

    #[inline]
    fn send(&mut self) -> anyhow::Result<()> {
        until(self, Self::send)
    }

    #[inline]
    fn receive(&mut self, number: usize) -> anyhow::Result<()> {
        until(self, |door| door.receive(number))
    }

    #[inline]
    fn arrived(&mut self) -> anyhow::Result<bool> {
        Ok(self.read()?.is_some_and(|receives| receives > 0))
    }

    fn sent(&mut self) -> anyhow::Result<bool> {
        self.read()?;
        Ok(self.sends() == 0)
    }

    fn progress(&mut self) -> anyhow::Result<()> {
        self.read().map(drop)
    }
}
