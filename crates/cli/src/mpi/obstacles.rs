//! Why an MPI would not take EMP as things are: what `emp doctor` says about each.

use std::env;
use std::fs;
use std::path::Path;

use super::provider::{self, holds_provider};
use super::{Family, Mpi, Settings, Transport, find, libfabric};
use crate::doctor::Finding;

/// What makes a shell's MPIs take EMP.
const REMEDY: &str = "eval \"$(emp mpi-env --shell)\"";

/// One finding an MPI.
pub fn inspect() -> Vec<Finding> {
    let provider = provider::directory();
    let mut findings = Vec::new();
    findings.push(match &provider {
        Ok(directory) => Finding::ok("provider", directory.display().to_string()),
        Err(error) => Finding::warn("provider", error.to_string(), "make install"),
    });
    let all = find();
    if all.is_empty() {
        findings.push(Finding::note("MPI", "none found"));
    }
    let provider = provider.ok();
    findings.extend(all.iter().map(|mpi| one(mpi, provider.as_deref())));
    findings
}

fn one(mpi: &Mpi, provider: Option<&Path>) -> Finding {
    let name = mpi.name();
    let Some(library) = &mpi.libfabric else {
        let advice = match mpi.family {
            Family::Mpich => "the Python package mpich has one that does",
            _ => "install one that was built with libfabric",
        };
        return Finding::warn(&name, "cannot take EMP: it was built without libfabric", advice);
    };
    let Some(now) = libfabric::ask(library, &[]) else {
        let value = format!("its libfabric, {}, does not answer", library.display());
        return Finding::warn(&name, value, "FI_LOG_LEVEL=info fi_info shows what it does");
    };
    let (major, minor) = now.version;
    let place = format!("libfabric {major}.{minor} in {}", library.display());
    let variable = |name: &str| env::var(name).ok();
    let mut obstacles = Vec::new();
    if !now.providers.iter().any(|name| name == "emp") {
        let places = libfabric::places(library, now.version);
        obstacles.push(why_not_found(places.directory.as_deref(), variable));
        let set = provider.map(|provider| Settings::new(mpi, Transport::Emp, provider));
        let then = set.and_then(|set| libfabric::ask(library, &set.variables));
        if provider.is_some() && then.is_none_or(|then| !then.providers.iter().any(|p| p == "emp"))
        {
            let value = format!("cannot take EMP: {place} refuses the provider in any case");
            let advice = "FI_LOG_LEVEL=info fi_info -p emp says why: no interface that is up, or FI_EMP_* values";
            return Finding::warn(&name, value, advice);
        }
    }
    let file = mpi.parameter_file.as_ref();
    let file = file.and_then(|path| Some((path.as_path(), fs::read_to_string(path).ok()?)));
    obstacles.extend(why_not_chosen(
        mpi,
        file.as_ref().map(|(path, text)| (*path, text.as_str())),
        variable,
    ));
    if obstacles.is_empty() {
        return Finding::ok(&name, format!("takes EMP as it is; {place}"));
    }
    Finding::warn(
        &name,
        format!("would not take EMP now: {}; {place}", obstacles.join("; ")),
        REMEDY,
    )
}

/// Why a libfabric did not show EMP.
fn why_not_found(directory: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> String {
    let filter = variable("FI_PROVIDER").filter(|filter| !filter.is_empty());
    if let Some(filter) = filter
        && !filter.split(',').any(|name| name == "emp")
    {
        return format!("FI_PROVIDER={filter} leaves EMP out");
    }
    match variable("FI_PROVIDER_PATH") {
        Some(path) if !path.is_empty() => {
            format!("FI_PROVIDER_PATH={path} does not lead to {}", provider::FILE)
        }
        _ => match directory {
            Some(directory) if holds_provider(directory) => {
                format!("{} is in {} but offers nothing", provider::FILE, directory.display())
            }
            Some(directory) => format!(
                "FI_PROVIDER_PATH is not set and there is no {} in {}",
                provider::FILE,
                directory.display()
            ),
            None => "FI_PROVIDER_PATH is not set".to_owned(),
        },
    }
}

/// Why an MPI whose libfabric has EMP would use something else.
fn why_not_chosen(
    mpi: &Mpi,
    parameter_file: Option<(&Path, &str)>,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    match mpi.family {
        Family::Mpich if mpi.ucx => match variable("MPIR_CVAR_CH4_NETMOD").as_deref() {
            Some("ofi") => {}
            Some(other) => reasons.push(format!("MPIR_CVAR_CH4_NETMOD={other} is not ofi")),
            None => reasons.push("it takes UCX unless MPIR_CVAR_CH4_NETMOD=ofi".to_owned()),
        },
        Family::OpenMpi => {
            for (name, wanted) in [("mtl", "ofi"), ("pml", "cm")] {
                let own = format!("OMPI_MCA_{name}");
                match variable(&own) {
                    Some(value) if value == wanted => {}
                    Some(value) => reasons.push(format!("{own}={value} is not {wanted}")),
                    None => {
                        let line = parameter_file
                            .and_then(|(path, text)| Some((path, excluding(text, name, wanted)?)));
                        reasons.push(match line {
                            Some((path, line)) => format!("{} says `{line}`", path.display()),
                            None if name == "pml" => {
                                "it may take another pml unless OMPI_MCA_pml=cm".to_owned()
                            }
                            None => continue,
                        });
                    }
                }
            }
        }
        // It prefers providers by its own list, on which EMP is not.
        Family::Intel => {
            match (variable("I_MPI_OFI_PROVIDER"), variable("FI_PROVIDER")) {
                (Some(own), _) if own == "emp" => {}
                (Some(own), _) => reasons.push(format!("I_MPI_OFI_PROVIDER={own} is not emp")),
                (None, Some(list)) if list == "emp" => {}
                // A list that leaves EMP out is named where libfabric did not show it.
                (None, Some(list)) if !list.is_empty() => {
                    reasons.push(format!("it may take another one of FI_PROVIDER={list}"));
                }
                (None, _) => {
                    reasons.push("it takes another provider unless FI_PROVIDER=emp".to_owned());
                }
            }
            if let Some(fabrics) = variable("I_MPI_FABRICS").filter(|f| !f.contains("ofi")) {
                reasons.push(format!("I_MPI_FABRICS={fabrics} leaves libfabric out"));
            }
        }
        Family::Mpich => {}
    }
    reasons
}

/// The line of a parameter file that keeps a component out: `mtl = ^ofi`.
fn excluding(text: &str, parameter: &str, component: &str) -> Option<String> {
    text.lines().map(str::trim).find_map(|line| {
        let (name, value) = line.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let listed = |list: &str| list.split(',').any(|entry| entry.trim() == component);
        let out = match value.strip_prefix('^') {
            Some(list) => listed(list),
            None => !listed(value),
        };
        (name == parameter && out).then(|| line.to_owned())
    })
}

#[cfg(test)]
#[path = "obstacles_tests.rs"]
mod tests;
