//! Why an MPI would not take EMP as things are: what `emp doctor` says about each.

use std::env;
use std::fs;
use std::path::Path;

use super::find::without_libfabric;
use super::library::ask;
use super::linked::{self, Linked};
use super::loader::Loader;
use super::probe::Answer;
use super::provider::{self, holds_provider};
use super::{Family, Mpi, Settings, Transport, find, library};
use crate::bail_user;
use crate::finding::Finding;

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

/// What doctor reports of a program: of the libfabric that it loads as things are, and of its MPI.
pub fn program(command: &Path) -> anyhow::Result<Finding> {
    let path = env::var_os("PATH");
    let Some(file) = linked::place(command.as_os_str(), path.as_deref()) else {
        bail_user!("there is no program {}", command.display());
    };
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let all = find();
    let Some(linked) = linked::look(&file, &Loader::default(), &all) else {
        let advice = "name the program that a script starts";
        return Ok(Finding::warn(&name, "is a script, or linked statically", advice));
    };
    Ok(of_program(&name, &linked, &all, provider::directory().ok().as_deref()))
}

fn of_program(name: &str, linked: &Linked, all: &[Mpi], provider: Option<&Path>) -> Finding {
    let (family, library) = match (&linked.mpi, &linked.libfabric) {
        (Some((family, library)), _) => (*family, library.as_path()),
        (None, Some(library)) => return without_mpi(name, library, provider),
        (None, None) => {
            return Finding::note(name, "loads neither an MPI nor libfabric when it starts");
        }
    };
    let Some(mpi) = linked::owner(family, library, all) else {
        let value = format!("is linked to {family}, of which no launcher is found here");
        return Finding::note(name, value);
    };
    let mpi = Mpi { libfabric: linked.libfabric.clone(), ..mpi.clone() };
    let finding = one(&mpi, provider);
    let value = format!("is {}'s and {}", mpi.name(), finding.value);
    Finding { name: name.to_owned(), value, ..finding }
}

/// A program that calls libfabric itself.
fn without_mpi(name: &str, library: &Path, provider: Option<&Path>) -> Finding {
    let to_set =
        provider.map(|path| vec![("FI_PROVIDER_PATH".to_owned(), path.display().to_string())]);
    match offered(library, to_set) {
        Ok((place, None)) => Finding::ok(name, format!("has EMP among its providers; {place}")),
        Ok((place, Some(why))) => {
            let advice = "FI_PROVIDER_PATH names the directory of EMP's provider, FI_PROVIDER=emp has it alone";
            Finding::warn(name, format!("would not find EMP now: {why}; {place}"), advice)
        }
        Err(finding) => Finding { name: name.to_owned(), ..finding },
    }
}

/// The libfabric, for people, and why it does not show EMP, if it does not. What keeps it from EMP even with the variables
/// `to_set` is a finding of its own.
fn offered(
    library: &Path,
    to_set: Option<Vec<(String, String)>>,
) -> Result<(String, Option<String>), Finding> {
    let Some(now) = ask(library, &[]) else {
        let value = format!("its libfabric, {}, does not answer", library.display());
        return Err(Finding::warn("", value, "FI_LOG_LEVEL=info fi_info shows what it does"));
    };
    let (major, minor) = now.version;
    let place = format!("libfabric {major}.{minor} in {}", library.display());
    let has_emp = |answer: &Answer| answer.providers.iter().any(|name| name == "emp");
    if has_emp(&now) {
        return Ok((place, None));
    }
    if let Some(variables) = to_set
        && !ask(library, &variables).is_some_and(|then| has_emp(&then))
    {
        let value = format!("cannot take EMP: {place} refuses the provider in any case");
        let advice = "FI_LOG_LEVEL=info fi_info -p emp says why: no interface that is up, or FI_EMP_* values";
        return Err(Finding::warn("", value, advice));
    }
    let places = library::places(library, now.version);
    let why = why_not_found(places.directory.as_deref(), |name| env::var(name).ok());
    Ok((place, Some(why)))
}

fn one(mpi: &Mpi, provider: Option<&Path>) -> Finding {
    let name = mpi.name();
    let Some(library) = &mpi.libfabric else {
        let (problem, advice) = without_libfabric(mpi);
        return Finding::warn(&name, format!("cannot take EMP: {problem}"), advice);
    };
    let to_set = provider.map(|path| Settings::new(mpi, Transport::Emp, path).variables);
    let (place, why) = match offered(library, to_set) {
        Ok(found) => found,
        Err(finding) => return Finding { name, ..finding },
    };
    let file = mpi.parameter_file.as_ref();
    let file = file.and_then(|path| Some((path.as_path(), fs::read_to_string(path).ok()?)));
    let file = file.as_ref().map(|(path, text)| (*path, text.as_str()));
    let mut obstacles: Vec<String> = why.into_iter().collect();
    obstacles.extend(why_not_chosen(mpi, file, |name| env::var(name).ok()));
    if obstacles.is_empty() {
        return Finding::ok(&name, format!("takes EMP as it is; {place}"));
    }
    let value = format!("would not take EMP now: {}; {place}", obstacles.join("; "));
    Finding::warn(&name, value, REMEDY)
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
