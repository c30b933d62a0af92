//! What a run is to be, and what was seen of it.

use serde::{Deserialize, Serialize};

/// How to verify: the same at both ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is sent follows from it, and from the direction.
    pub seed: u64,
    /// How long each end starts new messages.
    pub seconds: f64,
    /// Largest message in bytes.
    pub size_max: usize,
    /// Messages outstanding each way.
    pub window: usize,
    /// Both ends tell all they know of a run that stalls.
    #[serde(default)]
    pub verbose: bool,
}

/// What one end saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Messages that this end sent.
    pub messages_sent: u64,
    /// Bytes of them.
    pub bytes_sent: u64,
    /// Messages that this end received and checked.
    pub messages_checked: u64,
    /// Bytes of them, each compared.
    pub bytes_checked: u64,
    /// Of them, longer than their buffer, on purpose.
    pub truncated: u64,
    /// Puts of this end that ended.
    #[serde(default)]
    pub puts: u64,
    /// Gets of what was put, each byte compared.
    #[serde(default)]
    pub gets: u64,
    /// Additions, each as it must be.
    #[serde(default)]
    pub atomics: u64,
    /// The number at the other end after the last addition, as this end knows it; and the one here, as it is.
    #[serde(default)]
    pub number_there: u64,
    /// See [`number_there`](Self::number_there).
    #[serde(default)]
    pub number_here: u64,
    /// Receives withdrawn at the end.
    pub cancelled: u64,
    /// Messages that came before their receive.
    pub unexpected: u64,
    /// Frames sent again.
    pub frames_resent: u64,
    /// Frames lost on purpose.
    pub faults: u64,
    /// Seconds it took.
    pub seconds: f64,
    /// The first thing that was not as it must be.
    pub mismatch: Option<String>,
}
