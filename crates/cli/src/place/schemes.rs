//! Ways to place the stages on two processors: those of the multi-CPU paper's Table 2 by name (I17), and any other by a table.

use emp_model::tigon2::{Processor, Scheme, Stage};

use crate::bail_user;

/// A placement with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    pub name: String,
    places: [Processor; Stage::ALL.len()],
    /// Where the calls of the links are made that send and receive frames.
    calls: Calls,
}

/// Where the calls of the links are made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Calls {
    /// In the stages that need them.
    WithStages,
    On(Processor),
}

/// The name of the links' calls in a table.
const CALLS: &str = "link-calls";

/// The scheme of the board `split:io`: the engine whole on one, the calls on the other.
const IO: &str = "io";

/// Names of the stages in a table, in the order of [`Stage::ALL`].
pub const NAMES: [&str; Stage::ALL.len()] = [
    "send-bookkeeping",
    "transmission",
    "ack-arrival",
    "ack-release",
    "receive-bookkeeping",
    "receive-frame",
    "receive-dma",
    "send-ack",
];

impl Placement {
    /// One of the paper's.
    fn of(scheme: Scheme) -> Self {
        let places = Stage::ALL.map(|stage| scheme.place(stage));
        Self { name: scheme.name().to_owned(), places, calls: Calls::WithStages }
    }

    /// That of the board `split:io`.
    fn io() -> Self {
        let places = [Processor::A; Stage::ALL.len()];
        Self { name: IO.to_owned(), places, calls: Calls::On(Processor::B) }
    }

    /// Where the call is made that this stage needs: transmission sends, receive bookkeeping receives.
    pub fn call_of(&self, stage: Stage) -> Processor {
        match self.calls {
            Calls::WithStages => self.place(stage),
            Calls::On(processor) => processor,
        }
    }

    /// Where a stage runs.
    pub fn place(&self, stage: Stage) -> Processor {
        self.places[stage as usize]
    }

    /// Processors that it takes.
    pub fn processors(&self) -> usize {
        let has = |one| self.places.contains(&one) || self.calls == Calls::On(one);
        usize::from(has(Processor::A)) + usize::from(has(Processor::B))
    }

    /// Those of these names, `all` for all of the paper's.
    pub fn named(names: &[String]) -> anyhow::Result<Vec<Self>> {
        let mut found: Vec<Self> = Vec::new();
        for name in names {
            let is = |one: &Self| name == "all" || one.name.eq_ignore_ascii_case(name);
            let wanted = Scheme::ALL.into_iter().map(Self::of).chain([Self::io()]);
            let wanted: Vec<_> = wanted.filter(is).collect();
            if wanted.is_empty() {
                let known = Scheme::ALL.map(Scheme::name).join(", ");
                bail_user!("there is no scheme {name}; there are {known}, {IO}, and all");
            }
            for placement in wanted {
                if !found.contains(&placement) {
                    found.push(placement);
                }
            }
        }
        Ok(found)
    }

    /// Reads `A=send-bookkeeping,transmission,…;B=receive-bookkeeping,…`: each stage on one of them.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut places = [None; Stage::ALL.len()];
        let mut calls = None;
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let (processor, stages) = match part.split_once('=') {
                Some(("A" | "a", stages)) => (Processor::A, stages),
                Some(("B" | "b", stages)) => (Processor::B, stages),
                Some((other, _)) => {
                    bail_user!("there is no processor {other}; there are A and B, as in A=…;B=…")
                }
                None => bail_user!("`{part}` says no processor; write A=STAGE,STAGE;B=STAGE,…"),
            };
            for name in stages.split(',').filter(|name| !name.is_empty()) {
                let stage = NAMES.iter().position(|known| *known == name);
                let place = match stage {
                    Some(stage) => &mut places[stage],
                    None if name == CALLS => &mut calls,
                    None => {
                        let known = NAMES.join(", ");
                        bail_user!("there is no stage {name}; there are {known}, {CALLS}")
                    }
                };
                if place.replace(processor).is_some() {
                    bail_user!("{name} is placed twice; a stage is on one processor");
                }
            }
        }
        if let Some(missing) = places.iter().position(Option::is_none) {
            bail_user!("{} is placed on no processor; add it to A or B", NAMES[missing]);
        }
        let places = places.map(|place| place.unwrap_or(Processor::A));
        let calls = calls.map_or(Calls::WithStages, Calls::On);
        Ok(Self { name: "given".to_owned(), places, calls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserError;

    #[test]
    fn the_papers_schemes_have_its_names() {
        let all = Placement::named(&["all".to_owned(), "so".to_owned()]).unwrap();
        let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["base", "SO", "RO", "DSR", "SR", "io"]);
        assert_eq!(all[0].processors(), 1);
        assert!(all[1..].iter().all(|one| one.processors() == 2));
        assert_eq!(all[3].place(Stage::SendBookkeeping), Processor::A);
        assert_eq!(all[3].call_of(Stage::ReceiveBookkeeping), Processor::B, "where the stage is");
        assert_eq!(all[5].call_of(Stage::Transmission), Processor::B);
        assert_eq!(all[3].place(Stage::ReceiveBookkeeping), Processor::B);
    }

    #[test]
    fn a_table_places_each_stage_once() {
        let table = format!("A={};B={}", NAMES[..4].join(","), NAMES[4..].join(","));
        let given = Placement::parse(&table).unwrap();
        assert_eq!(given.place(Stage::ReceiveAckRelease), Processor::A);
        assert_eq!(given.place(Stage::SendAck), Processor::B);
        let table = format!("A={};B=link-calls", NAMES.join(","));
        assert_eq!(
            Placement { name: "io".into(), ..Placement::parse(&table).unwrap() },
            Placement::io()
        );
        for (text, says) in [
            ("A=send-bookkeeping", "transmission is placed on no processor"),
            ("", "send-bookkeeping is placed on no processor"),
            ("A=send-ack;B=send-ack", "send-ack is placed twice"),
            ("A=send-ack,send-ack", "send-ack is placed twice"),
            ("A=link-calls;B=link-calls", "link-calls is placed twice"),
            ("C=send-ack", "there is no processor C"),
            ("A=tea", "there is no stage tea; there are send-bookkeeping"),
            ("send-ack", "`send-ack` says no processor"),
        ] {
            let error = Placement::parse(text).unwrap_err();
            assert!(error.is::<UserError>() && error.to_string().contains(says), "{error}");
        }
        let error = Placement::named(&["XY".to_owned()]).unwrap_err();
        assert!(error.is::<UserError>() && error.to_string().contains("base, SO, RO, DSR, SR"));
    }
}
