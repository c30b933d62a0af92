//! One line of the report, and reading what the kernel shows as files.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// What a finding means for EMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// As it should be.
    Ok,
    /// It works, but something is lost; there is advice.
    Warn,
    /// Neither good nor bad.
    Note,
}

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: String,
    /// What it means.
    pub mark: Mark,
    /// What was found.
    pub value: String,
    /// What the user can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn ok(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), mark: Mark::Ok, value: value.into(), advice: None }
    }

    /// Neither good nor bad.
    pub fn note(name: &str, value: impl Into<String>) -> Self {
        Self { mark: Mark::Note, ..Self::ok(name, value) }
    }

    /// Something is lost, and this may be done.
    pub fn warn(name: &str, value: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { mark: Mark::Warn, advice: Some(advice.into()), ..Self::ok(name, value) }
    }

    /// A fact this machine does not show.
    pub fn not_visible(name: &str) -> Self {
        Self::note(name, "not visible")
    }
}

/// The contents of a one-value file of the kernel; `None` if it is not there or empty.
pub fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
