//! The program that measures: kept in `emp` as source, because it has to be compiled for each MPI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::bail_user;
use crate::lab::Scratch;
use crate::mpi::{Family, Mpi};

const SOURCE: &str = include_str!("measure.c");

/// A program that was compiled, and goes when this does.
pub struct Program {
    path: PathBuf,
    _directory: Scratch,
}

impl Program {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Compiles it with an MPI's own compiler.
pub fn compile(mpi: &Mpi) -> anyhow::Result<Program> {
    let Some(compiler) = &mpi.compiler else {
        let package = match mpi.family {
            Family::OpenMpi => "; on Debian it is in libopenmpi-dev",
            _ => "",
        };
        bail_user!("{} is here without its C compiler mpicc{package}", mpi.name());
    };
    let directory = Scratch::new("emp-mpi-")?;
    let (source, path) = (directory.path().join("measure.c"), directory.path().join("measure"));
    fs::write(&source, SOURCE).with_context(|| source.display().to_string())?;
    let output = Command::new(compiler).arg("-O2").arg("-o").arg(&path).arg(&source).output();
    let output = output.with_context(|| compiler.display().to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| line.contains("error")).or(said.lines().next());
        bail_user!("{} fails: {}", compiler.display(), line.unwrap_or("without a word"));
    }
    Ok(Program { path, _directory: directory })
}
