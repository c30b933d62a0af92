//! What benches give and reports show: rows of figures, and the words for what was measured. It knows neither of the two.

mod conditions;
#[cfg(test)]
pub mod fixtures;
mod kinds;
mod mpi_rows;
mod rows;

pub use conditions::{Environment, is_loaded};
pub use kinds::{CONGESTION_NAMES, FACES, Pattern, ShareSubject, SubjectKind, face_title};
pub use mpi_rows::{MpiProviderCost, MpiResults, MpiRow};
pub use rows::{LogpRow, NetpipeRun, OverlapRow, Point, Row, ShareRow, Verdict};
