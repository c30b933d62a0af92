//! EMP through its public interface.

use super::Subject;
use super::opening::{Opening, Place};
use crate::bench::control::Card;
use crate::bench::job::Spec;

pub struct EmpOpening;

impl EmpOpening {
    pub fn open(_spec: &Spec, _place: &Place) -> anyhow::Result<Self> {
        anyhow::bail!("being built")
    }
}

impl Opening for EmpOpening {
    fn card(&self) -> Card {
        Card::default()
    }
    fn connect(self: Box<Self>, _other: &Card) -> anyhow::Result<Box<dyn Subject>> {
        anyhow::bail!("being built")
    }
}
