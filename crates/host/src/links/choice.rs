//! Which links were tried and chosen, and why, as it is said aloud.

use std::fmt;

use emp_link::{Capabilities, LinkError};

use crate::links::costs::PathCosts;

/// One rung that was tried or passed by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rung {
    /// For people: `packet on eth0`.
    pub link: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a rung.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The application gave this link itself.
    Given(String),
    /// It is used; the text says what it can do.
    Chosen(String),
    /// It is not to be had; the text says why and what to do.
    Failed(String),
    /// It was not tried; the text says why.
    Skipped(String),
}

/// Which links were tried and chosen, and why.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    /// In the order in which they were tried.
    pub rungs: Vec<Rung>,
    /// Interfaces that would be used if a node could use more together.
    pub left_out: Vec<String>,
}

impl Choice {
    pub(crate) fn given(&mut self, link: &Capabilities) {
        self.note(name(link), Outcome::Given(abilities(link)));
    }

    /// A link that is not to be had.
    pub(crate) fn failed(&mut self, error: LinkError) {
        self.note(error.link, Outcome::Failed(format!("{}; {}", error.problem, error.advice)));
    }

    pub(crate) fn note(&mut self, link: String, outcome: Outcome) {
        self.rungs.push(Rung { link, outcome });
    }

    /// These interfaces are used together.
    pub(crate) fn together(&mut self, interfaces: &[String]) {
        let text = format!(
            "{}: long messages take all that lead to their receiver",
            interfaces.join(", ")
        );
        self.note("several interfaces".into(), Outcome::Chosen(text));
    }

    pub(crate) fn paths(&mut self, costs: &PathCosts) {
        let text = costs.to_string();
        let chosen = costs.threshold().is_some();
        let outcome = if chosen { Outcome::Chosen(text) } else { Outcome::Skipped(text) };
        self.note("two paths".into(), outcome);
    }

    /// The report, a line for each rung.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.rungs.iter().map(ToString::to_string)
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Given(text) => write!(f, "{}: used as given ({text})", self.link),
            Outcome::Chosen(text) => write!(f, "{}: chosen ({text})", self.link),
            Outcome::Failed(text) => write!(f, "{}: not to be had: {text}", self.link),
            Outcome::Skipped(text) => write!(f, "{}: not tried: {text}", self.link),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&line)?;
        }
        Ok(())
    }
}

/// A link for people: `packet on eth0`.
pub(crate) fn name(link: &Capabilities) -> String {
    let lent = if link.kind == "packet" && !link.privileged { "lent " } else { "" };
    format!("{lent}{} on {}", link.kind, link.interface)
}

pub(crate) fn abilities(link: &Capabilities) -> String {
    format!(
        "frames of {} bytes, address {}{}{}{}",
        link.frame_bytes_max,
        link.address,
        if link.segmentation { ", segmented sends" } else { "" },
        if link.past_ip { ", long frames past IP to neighbours" } else { "" },
        match (link.broadcast, link.kind) {
            (false, _) => "",
            (true, "udp") => ", finds nodes where it is told or by multicast",
            (true, _) => ", finds nodes by broadcast",
        },
    )
}
