//! What `--json` writes.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::job::Measure;
use super::measure::Series;
use super::session::Session;
pub use crate::measured::Row;
use crate::measured::Verdict;

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Where it was measured.
    pub environment: Environment,
    /// The command line.
    pub command: String,
    /// The figures: medians.
    pub results: Vec<Row>,
    /// Only of `emp bench bars`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Verdict>,
}

/// A whole run of what has rows of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run<R> {
    /// Where it was measured.
    pub environment: Environment,
    /// The command line.
    pub command: String,
    /// The figures.
    pub results: Vec<R>,
}

impl Row {
    /// The medians of a series.
    pub fn of(session: &Session, series: &Series) -> Self {
        let spec = &session.specs()[series.subject];
        let links = &session.cards()[series.subject].links;
        Self {
            pattern: series.job.pattern,
            subject: spec.kind,
            link: (!links.is_empty()).then(|| links.join("+")),
            congestion: session.congestion(series.subject),
            mtu: session.place().mtu(),
            size: Some(series.job.size),
            one_way_us: series.one_way_us(),
            mean_us: series.mean_us(),
            gbps: series.median(Measure::gbps),
            messages_per_s: series.median(Measure::messages_per_s),
            samples: series.measures.len(),
            copies: session.copies(series.subject),
            pair: None,
        }
    }
}

impl Results {
    /// Writes the file.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        write_json(path, self)
    }
}

/// Writes what `--json` asks for.
pub fn write_json(path: &Path, run: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(run)?;
    text.push('\n');
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{Pattern, SubjectKind};

    fn row() -> Row {
        Row {
            pattern: Pattern::Stream,
            subject: SubjectKind::TcpBlock,
            link: None,
            congestion: Some("cubic".to_owned()),
            mtu: 1500,
            size: Some(4096),
            one_way_us: None,
            mean_us: None,
            gbps: Some(12.5),
            messages_per_s: Some(381_469.7),
            samples: 5,
            copies: None,
            pair: None,
        }
    }

    #[test]
    fn the_keys_are_those_that_were_promised() {
        let results = Results {
            environment: Environment::default(),
            command: "emp bench".to_owned(),
            results: vec![row()],
            bars: Vec::new(),
        };
        let value = serde_json::to_value(&results).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        // serde_json sorts the keys of a `Value`.
        assert_eq!(keys(&value), ["command", "environment", "results"]);
        let row = &value["results"][0];
        let promised = [
            "congestion",
            "gbps",
            "link",
            "mean_us",
            "messages_per_s",
            "mtu",
            "one_way_us",
            "pattern",
            "samples",
            "size",
            "subject",
        ];
        assert_eq!(keys(row), promised);
        assert_eq!(row["subject"], "tcp-block");
        assert_eq!(row["pattern"], "stream");
        assert!(row["one_way_us"].is_null() && row["link"].is_null());
    }

    #[test]
    fn what_is_written_is_read() {
        let text = serde_json::to_string(&row()).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row());
    }
}
