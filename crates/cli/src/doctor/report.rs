//! All that `emp doctor` finds.

use serde::Serialize;

use super::interfaces::Interface;
use super::rung::Rung;
use crate::finding::Finding;

/// Everything found; also the form of `--json`.
#[derive(Serialize)]
pub struct Report {
    pub privilege: Vec<Finding>,
    pub kernel: Vec<Finding>,
    pub cpu: Vec<Finding>,
    pub network: Vec<Finding>,
    pub left_behind: Vec<Finding>,
    pub interfaces: Vec<Interface>,
    pub rungs: Vec<Rung>,
    pub mpi: Vec<Finding>,
}
