//! MPIs on this machine: where they are ([`find`]), which libfabric each loads ([`libfabric`]), and what makes each take
//! EMP, or TCP to compare with ([`Settings`]).

mod env_command;
mod find;
mod install;
mod library;
mod linked;
mod loader;
mod obstacles;
mod probe;
mod program;
mod provider;
mod settings;

pub use env_command::{Args as EnvArgs, run as run_env};
pub use find::{choose, find};
pub use install::{Args as InstallArgs, run as run_install};
pub use library::refusal;
pub use linked::mismatch;
pub use obstacles::{inspect as findings, program as findings_of};
pub use probe::{Args as ProbeArgs, run as run_probe};
pub use provider::{LIBRARIES, directory as provider_directory, file as provider_file};
pub use settings::{Settings, Transport, names_set};

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Whose MPI it is: what decides about names of variables and options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Open MPI.
    #[value(name = "openmpi")]
    OpenMpi,
    /// MPICH.
    Mpich,
    /// Intel MPI.
    Intel,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::Intel => "Intel MPI",
        })
    }
}

/// An MPI that is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mpi {
    /// Whose it is.
    pub family: Family,
    /// As it says itself: `4.1.4`.
    pub version: String,
    /// The program that starts ranks.
    pub launcher: PathBuf,
    /// The C compiler's wrapper, if it is installed.
    pub compiler: Option<PathBuf>,
    /// The libfabric that its processes load; `None` if it was built without.
    pub libfabric: Option<PathBuf>,
    /// The module that loads libfabric, if it is not the MPI's library that does (Open MPI 4).
    pub module: Option<PathBuf>,
    /// It speaks UCX too, so that something has to say which of the two is meant.
    pub ucx: bool,
    /// The file that sets its parameters for the whole machine (Open MPI).
    pub parameter_file: Option<PathBuf>,
}

impl Mpi {
    /// The number before the first point of the version.
    pub fn major(&self) -> u32 {
        self.version.split('.').next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// `Open MPI 4.1.4`
    pub fn name(&self) -> String {
        format!("{} {}", self.family, self.version)
    }
}

#[cfg(test)]
impl Mpi {
    /// One to try things with.
    pub fn example(family: Family, version: &str) -> Self {
        Self {
            family,
            version: version.to_owned(),
            launcher: "/usr/bin/mpirun".into(),
            compiler: None,
            libfabric: Some("/usr/lib/libfabric.so.1".into()),
            module: None,
            ucx: true,
            parameter_file: None,
        }
    }
}
