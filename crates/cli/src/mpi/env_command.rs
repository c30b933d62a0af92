//! `emp mpi-env`: the environment that makes the MPIs of this machine take EMP.

use std::fmt::Write;

use serde::Serialize;

use super::{Family, Mpi, Settings, Transport, find, provider};
use crate::bail_user;
use crate::error::print;

/// Show what makes the MPIs of this machine take EMP.
///
/// MPIs are looked for in PATH, in active Python environments, where distributions put them, and before all in the
/// directories that EMP_MPI_PATH names.
#[derive(clap::Args)]
pub struct Args {
    /// Lines for a shell: eval "$(emp mpi-env --shell)"
    #[arg(long, conflicts_with = "json")]
    shell: bool,
    /// For programs to read.
    #[arg(long)]
    json: bool,
    /// Only for this MPI.
    #[arg(long, value_enum)]
    mpi: Option<Family>,
}

/// One MPI, as `--json` shows it.
#[derive(Serialize)]
struct Entry<'mpi> {
    #[serde(flatten)]
    mpi: &'mpi Mpi,
    /// Empty for one that cannot take EMP.
    environment: serde_json::Map<String, serde_json::Value>,
}

/// Runs `emp mpi-env`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut all = find();
    all.retain(|mpi| args.mpi.is_none_or(|family| family == mpi.family));
    if !args.json && all.iter().all(|mpi| mpi.libfabric.is_none()) {
        // Says what there is and how to get what is missing.
        super::choose(args.mpi)?;
    }
    let provider = provider::directory()?;
    let settings = |mpi: &Mpi| match mpi.libfabric {
        Some(_) => {
            Settings::new(mpi, Transport::Emp, &provider).handing_on(mpi, super::names_set())
        }
        None => Settings::default(),
    };
    let all: Vec<(Mpi, Settings)> =
        all.into_iter().map(|mpi| (settings(&mpi), mpi)).map(|(s, m)| (m, s)).collect();
    print(&match (args.json, args.shell) {
        (true, _) => json(&all)?,
        (_, true) => shell(&all)?,
        _ => text(&all) + &service_hint(),
    })
}

fn json(all: &[(Mpi, Settings)]) -> anyhow::Result<String> {
    let entries = all.iter().map(|(mpi, settings)| {
        let pairs =
            settings.variables.iter().map(|(name, value)| (name.clone(), value.clone().into()));
        Entry { mpi, environment: pairs.collect() }
    });
    Ok(serde_json::to_string_pretty(&entries.collect::<Vec<_>>())? + "\n")
}

/// Told with the environment, as a comment where that is for a shell. (Last there: whoever forgets the quotes around what
/// the shell evaluates makes one line of all.)
const HINT: &str = "FI_LOG_LEVEL=warn has libfabric say why it does not take EMP";

/// What ranks without privilege have of this host's service, if there is one.
fn service_hint() -> String {
    let path = emp_link::service::socket_path();
    let welcome = path.exists().then(|| emp_link::service::ask(&path).ok()).flatten();
    welcome.map_or_else(String::new, |welcome| by_service(welcome.lends, welcome.attaches))
}

fn by_service(lends: bool, attaches: bool) -> String {
    let mut text = "\nempd, this host's service, for ranks without privilege:\n".to_owned();
    if lends {
        text += "  lends this user raw sockets: taken without a setting\n";
    }
    if attaches {
        text += "  FI_EMP_LINK=empd      it carries the ranks' frames (without a setting, too, beside udp)\n";
        text += "  FI_EMP_BOARD=daemon   it runs the ranks' engines: messages move while the program computes\n";
    }
    if !lends && !attaches {
        text += "  nothing for this user\n";
    }
    text
}

/// All MPIs at once: each reads its own variables, and what they share is the same for all.
fn shell(all: &[(Mpi, Settings)]) -> anyhow::Result<String> {
    let mut lines: Vec<String> = Vec::new();
    for (name, value) in all.iter().flat_map(|(_, settings)| &settings.variables) {
        if value.contains('\n') {
            bail_user!("a line break in {name} cannot be told to a shell");
        }
        let line = format!("export {name}={}\n", quoted(value));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    Ok(lines.concat() + &format!("# {HINT}\n"))
}

fn quoted(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-,:".contains(&byte);
    match value.bytes().all(plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}

fn text(all: &[(Mpi, Settings)]) -> String {
    let mut text = String::new();
    for (nth, (mpi, settings)) in all.iter().enumerate() {
        let gap = if nth == 0 { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{} ({})", mpi.name(), mpi.launcher.display());
        if mpi.libfabric.is_none() {
            let (problem, advice) = super::find::without_libfabric(mpi);
            let _ = writeln!(text, "  cannot take EMP: {problem}; {advice}");
            continue;
        }
        for (name, value) in &settings.variables {
            let _ = writeln!(text, "  {name}={}", quoted(value));
        }
        let run = match mpi.family {
            Family::OpenMpi => "mpirun --host HOST-A,HOST-B -n 2 ./program",
            Family::Mpich | Family::Intel => "mpiexec -hosts HOST-A,HOST-B -n 2 ./program",
        };
        let _ = writeln!(text, "  then: {run}");
    }
    text + &format!("\n{HINT}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_said_with_what_it_gives() {
        assert!(by_service(false, true).contains("FI_EMP_BOARD=daemon"));
        let lent = by_service(true, false);
        assert!(lent.contains("raw sockets") && !lent.contains("FI_EMP"), "{lent}");
        assert!(by_service(false, false).contains("nothing for this user"));
    }

    #[test]
    fn shells_get_what_is_shared_once_and_quoted() {
        let all = [Family::OpenMpi, Family::Mpich].map(|family| {
            let mpi = Mpi::example(family, "4.1.4");
            let settings = Settings::new(&mpi, Transport::Emp, "/it's".as_ref());
            (mpi, settings)
        });
        let lines = shell(&all).unwrap();
        assert_eq!(lines.matches("export FI_PROVIDER=emp\n").count(), 1);
        assert!(lines.contains(r"export FI_PROVIDER_PATH='/it'\''s'"), "{lines}");
        assert!(lines.contains("export OMPI_MCA_osc='^ucx'\n"), "{lines}");
        assert!(lines.contains("export MPIR_CVAR_CH4_NETMOD=ofi\n"), "{lines}");
        assert!(lines.ends_with(&format!("\n# {HINT}\n")), "{lines}");
        let shown = text(&all);
        assert!(shown.contains(HINT), "{shown}");
        assert!(shown.contains("Open MPI 4.1.4 (/usr/bin/mpirun)"), "{shown}");
        let parsed: serde_json::Value = serde_json::from_str(&json(&all).unwrap()).unwrap();
        assert_eq!(parsed[1]["environment"]["FI_PROVIDER"], "emp");
        assert_eq!(parsed[0]["family"], "openmpi");
    }
}
