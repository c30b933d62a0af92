//! Figures that a model is made of, each with where it comes from.

use std::fmt;

/// Where a figure comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A paper or a specification says so: which item of the lineage, or which specification.
    Stated(&'static str),
    /// Computed from figures that are stated: from which, and how.
    Derived(&'static str),
    /// Chosen so that the model gives this published figure.
    Fitted(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stated(item) => write!(f, "stated: {item}"),
            Self::Derived(how) => write!(f, "derived: {how}"),
            Self::Fitted(to) => write!(f, "fitted to {to}"),
        }
    }
}

/// A figure of a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameter {
    /// What it is.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// In what.
    pub unit: &'static str,
    /// Where it comes from.
    pub source: Source,
}

impl Parameter {
    pub(crate) const fn new(
        name: &'static str,
        value: f64,
        unit: &'static str,
        source: Source,
    ) -> Self {
        Self { name, value, unit, source }
    }
}
