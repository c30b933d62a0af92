//! Putting the provider where libfabric looks: what `make install` calls.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::library::{self, Places};
use super::provider::{self, FILE};
use crate::bail_user;
use crate::error::print;

/// Options of the hidden subcommand.
#[derive(clap::Args)]
pub struct Args {
    /// Where programs of this installation live: the provider goes to its lib/libfabric.
    #[arg(long, default_value = "/usr/local")]
    prefix: PathBuf,
    /// A root to put in front of every path that is written, for those who make packages.
    #[arg(long)]
    destdir: Option<PathBuf>,
    /// A file that is told of each file that is written, a line each: what `make uninstall` removes.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// The libfabrics to install for [default: those that programs of this machine load].
    #[arg(long)]
    libfabric: Vec<PathBuf>,
}

/// Runs the hidden subcommand.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !args.prefix.is_absolute() {
        bail_user!("PREFIX must be an absolute path, not {}", args.prefix.display());
    }
    let built = provider::own_file()?;
    let own = args.prefix.join("lib/libfabric").join(FILE);
    let destdir = args.destdir.as_deref().filter(|path| !path.as_os_str().is_empty());
    let rooted = |path: &Path| match (destdir, path.strip_prefix("/")) {
        (Some(root), Ok(rest)) => root.join(rest),
        _ => path.to_owned(),
    };
    put(&built, &rooted(&own))?;
    let mut written = vec![own.clone()];
    let mut report = format!("{}\n", own.display());
    let libraries =
        if args.libfabric.is_empty() { library::of_system() } else { args.libfabric.clone() };
    for library in &libraries {
        let Some(answer) = library::ask(library, &[]) else { continue };
        let places = library::places(library, answer.version);
        let (major, minor) = answer.version;
        let (how, file) = announce(&places, &args.prefix, &own, &built, &rooted)?;
        written.extend(file);
        report += &format!("libfabric {major}.{minor} ({}): {how}\n", library.display());
    }
    if let Some(manifest) = &args.manifest {
        note(manifest, &written).with_context(|| manifest.display().to_string())?;
    }
    print(&report)
}

/// Adds files to those that a manifest names.
fn note(manifest: &Path, written: &[PathBuf]) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(manifest)?;
    written.iter().try_for_each(|path| writeln!(file, "{}", path.display()))
}

/// Makes one libfabric find the provider without a variable, if that is possible inside the prefix: how, and the file that was
/// written for it.
fn announce(
    places: &Places,
    prefix: &Path,
    own: &Path,
    built: &Path,
    rooted: &impl Fn(&Path) -> PathBuf,
) -> anyhow::Result<(String, Option<PathBuf>)> {
    if let Some(directory) = &places.directory {
        let there = directory.join(FILE);
        if there == own {
            return Ok(("finds it there by itself".to_owned(), None));
        }
        // `/usr/local` is not the distribution's, though it begins with `/usr`.
        let foreign = directory.starts_with("/usr/local") != prefix.starts_with("/usr/local");
        if directory.starts_with(prefix) && !foreign {
            put(built, &rooted(&there))?;
            return Ok((format!("finds it in {}", directory.display()), Some(there)));
        }
    }
    if let Some(file) = &places.file
        && !rooted(file).exists()
        && file.parent().is_some_and(|parent| rooted(parent).is_dir())
    {
        let text = format!("FI_PROVIDER_PATH=+{}\n", own.display());
        fs::write(rooted(file), text).with_context(|| rooted(file).display().to_string())?;
        return Ok((format!("is told by {}", file.display()), Some(file.clone())));
    }
    let directory = own.parent().unwrap_or(own).display();
    let how = format!(
        "finds it with FI_PROVIDER_PATH={directory}; `emp mpi-env` shows all that an MPI needs"
    );
    Ok((how, None))
}

/// Copies a file into its place, so that whoever has the old one loaded keeps it.
fn put(from: &Path, to: &Path) -> anyhow::Result<()> {
    let directory = to.parent().context("a file without a directory")?;
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    match fs::remove_file(to) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).context(to.display().to_string());
        }
        _ => {}
    }
    fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(directory: &str, file: Option<&str>) -> Places {
        Places { directory: Some(directory.into()), file: file.map(PathBuf::from) }
    }

    #[test]
    fn a_libfabric_inside_the_prefix_gets_the_provider_others_are_told() {
        let root = tempfile::tempdir().unwrap();
        let built = root.path().join("built.so");
        fs::write(&built, "provider").unwrap();
        let rooted = |path: &Path| root.path().join(path.strip_prefix("/").unwrap());
        let announce = |places: &Places, prefix: &str| {
            let own = Path::new(prefix).join("lib/libfabric").join(FILE);
            announce(places, Path::new(prefix), &own, &built, &rooted).unwrap().0
        };
        let debian = places("/usr/lib/x86/libfabric", None);
        assert!(announce(&debian, "/usr").contains("/usr/lib/x86/libfabric"));
        assert_eq!(
            fs::read(rooted(Path::new("/usr/lib/x86/libfabric/libemp-fi.so"))).unwrap(),
            b"provider"
        );

        assert!(
            announce(&debian, "/usr/local").contains("FI_PROVIDER_PATH=/usr/local/lib/libfabric")
        );
        let local = places("/usr/local/lib/libfabric", None);
        assert!(announce(&local, "/usr/local").contains("by itself"));
        assert!(!announce(&local, "/usr").contains("by itself"));

        let with_file = places("/usr/lib/x86/libfabric", Some("/etc/libfabric.conf"));
        assert!(
            announce(&with_file, "/opt/emp").contains("FI_PROVIDER_PATH=/opt/emp"),
            "no /etc there"
        );
        fs::create_dir(rooted(Path::new("/etc"))).unwrap();
        assert!(announce(&with_file, "/opt/emp").contains("told by /etc/libfabric.conf"));
        let told = fs::read_to_string(rooted(Path::new("/etc/libfabric.conf"))).unwrap();
        assert_eq!(told, "FI_PROVIDER_PATH=+/opt/emp/lib/libfabric/libemp-fi.so\n");
        // What the administrator has written stays.
        assert!(announce(&with_file, "/opt/other").contains("FI_PROVIDER_PATH=/opt/other"));
    }
}
