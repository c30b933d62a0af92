//! Ways to place the stages on two processors: those of the multi-CPU paper's Table 2 by name (I17), and any other by a table.

use emp_model::tigon2::{Processor, Scheme, Stage};

use crate::bail_user;

/// A placement with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    pub name: String,
    places: [Processor; Stage::ALL.len()],
}

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
        Self { name: scheme.name().to_owned(), places }
    }

    /// Where a stage runs.
    pub fn place(&self, stage: Stage) -> Processor {
        self.places[stage as usize]
    }

    /// Processors that it takes.
    pub fn processors(&self) -> usize {
        let b = self.places.contains(&Processor::B);
        let a = self.places.contains(&Processor::A);
        usize::from(a) + usize::from(b)
    }

    /// Those of these names, `all` for all of the paper's.
    pub fn named(names: &[String]) -> anyhow::Result<Vec<Self>> {
        let mut found: Vec<Self> = Vec::new();
        for name in names {
            let wanted = Scheme::ALL.into_iter();
            let wanted: Vec<_> = match name.as_str() {
                "all" => wanted.collect(),
                name => wanted.filter(|one| one.name().eq_ignore_ascii_case(name)).collect(),
            };
            if wanted.is_empty() {
                let known = Scheme::ALL.map(Scheme::name).join(", ");
                bail_user!("there is no scheme {name}; there are {known}, and all");
            }
            for placement in wanted.into_iter().map(Self::of) {
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
                let Some(stage) = NAMES.iter().position(|known| *known == name) else {
                    bail_user!("there is no stage {name}; there are {}", NAMES.join(", "));
                };
                if places[stage].replace(processor).is_some() {
                    bail_user!("{name} is placed twice; a stage is on one processor");
                }
            }
        }
        if let Some(missing) = places.iter().position(Option::is_none) {
            bail_user!("{} is placed on no processor; add it to A or B", NAMES[missing]);
        }
        let places = places.map(|place| place.unwrap_or(Processor::A));
        Ok(Self { name: "given".to_owned(), places })
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
        assert_eq!(names, ["base", "SO", "RO", "DSR", "SR"]);
        assert_eq!(all[0].processors(), 1);
        assert!(all[1..].iter().all(|one| one.processors() == 2));
        assert_eq!(all[3].place(Stage::SendBookkeeping), Processor::A);
        assert_eq!(all[3].place(Stage::ReceiveBookkeeping), Processor::B);
    }

    #[test]
    fn a_table_places_each_stage_once() {
        let table = format!("A={};B={}", NAMES[..4].join(","), NAMES[4..].join(","));
        let given = Placement::parse(&table).unwrap();
        assert_eq!(given.place(Stage::ReceiveAckRelease), Processor::A);
        assert_eq!(given.place(Stage::SendAck), Processor::B);
        for (text, says) in [
            ("A=send-bookkeeping", "transmission is placed on no processor"),
            ("", "send-bookkeeping is placed on no processor"),
            ("A=send-ack;B=send-ack", "send-ack is placed twice"),
            ("A=send-ack,send-ack", "send-ack is placed twice"),
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
