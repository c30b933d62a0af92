//! Where MPIs are: in the directories of programs, in active environments, where distributions put them.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::loader::Loader;
use super::{Family, Mpi, program};
use crate::bail_user;

/// The name by which libfabric is asked for.
pub const LIBFABRIC: &str = "libfabric.so.1";

/// Names another for Intel MPI: a path, or what the loader is to look for.
pub const INTEL_LIBRARY: &str = "I_MPI_OFI_LIBRARY";

/// A list of directories in which MPIs are looked for before all others: of their programs, or those above.
pub const PATH_VARIABLE: &str = "EMP_MPI_PATH";

/// Where distributions and vendors put MPIs that are not in PATH unless a module is loaded.
const USUAL: [&str; 5] = [
    "/usr/bin",
    "/usr/local/bin",
    "/usr/lib64/openmpi/bin",
    "/usr/lib64/mpich/bin",
    "/opt/intel/oneapi/mpi/latest/bin",
];

/// Every MPI there is, in the order in which a user would mean them.
pub fn find() -> Vec<Mpi> {
    let variable = |name: &str| env::var_os(name);
    let loader = Loader::default();
    let mut found: Vec<Mpi> = Vec::new();
    for directory in directories(variable) {
        for mpi in [open_mpi(&directory), mpich(&directory), intel(&directory, &loader, variable)] {
            let Some(mpi) = mpi else { continue };
            let place = |mpi: &Mpi| mpi.launcher.canonicalize().ok();
            if !found.iter().any(|other| place(other) == place(&mpi)) {
                found.push(mpi);
            }
        }
    }
    found
}

/// The one that is meant: of a family, or the first that can load EMP.
pub fn choose(family: Option<Family>) -> anyhow::Result<Mpi> {
    let mut all = find();
    all.retain(|mpi| family.is_none_or(|family| family == mpi.family));
    let able = all.iter().position(|mpi| mpi.libfabric.is_some());
    match able {
        Some(index) => Ok(all.swap_remove(index)),
        None => match all.first() {
            Some(mpi) => {
                let (problem, advice) = without_libfabric(mpi);
                let launcher = mpi.launcher.display();
                bail_user!("{} in {launcher} cannot take EMP: {problem}; {advice}", mpi.name())
            }
            None => {
                let name = family.map_or("MPI".to_owned(), |family| family.to_string());
                bail_user!("no {name} found; {}", how_to_install(family))
            }
        },
    }
}

fn how_to_install(family: Option<Family>) -> String {
    let open_mpi = "`apt-get install openmpi-bin libopenmpi-dev`";
    let mpich = "`python3 -m venv DIR && DIR/bin/pip install mpich`";
    let elsewhere = format!("{PATH_VARIABLE}=DIR names one that is elsewhere");
    match family {
        Some(Family::OpenMpi) => format!("on Debian, {open_mpi} installs one; {elsewhere}"),
        Some(Family::Mpich) => format!("{mpich} installs one, used with {PATH_VARIABLE}=DIR"),
        Some(Family::Intel) => elsewhere,
        None => {
            format!("on Debian, {open_mpi} installs Open MPI; {mpich} installs MPICH; {elsewhere}")
        }
    }
}

/// Directories to look into, most wanted first.
fn directories(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    let with_bin = |path: PathBuf| [path.join("bin"), path];
    let list =
        |name: &str| variable(name).map(|value| env::split_paths(&value).collect::<Vec<_>>());
    all.extend(list(PATH_VARIABLE).unwrap_or_default().into_iter().flat_map(with_bin));
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX", "I_MPI_ROOT"] {
        all.extend(variable(name).map(|root| Path::new(&root).join("bin")));
    }
    all.extend(list("PATH").unwrap_or_default());
    all.extend(USUAL.map(PathBuf::from));
    let mut seen = Vec::new();
    all.retain(|path| {
        path.is_absolute() && !seen.contains(path) && {
            seen.push(path.clone());
            true
        }
    });
    all
}

/// The first of these programs that is in a directory.
fn first_in(directory: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().map(|name| directory.join(name)).find(|path| path.is_file())
}

fn open_mpi(directory: &Path) -> Option<Mpi> {
    let info = first_in(directory, &["ompi_info"])?;
    let launcher = first_in(directory, &["mpirun.openmpi", "mpirun"])?;
    let version = program::output(&info, &["--version"])?;
    let version = version.lines().next()?.strip_prefix("Open MPI v")?.trim().to_owned();
    let paths = program::output(&info, &["--parsable", "--path", "all"])?;
    let path = |kind: &str| {
        let prefix = format!("path:{kind}:");
        paths.lines().find_map(|line| line.strip_prefix(&prefix)).map(PathBuf::from)
    };
    let modules = path("pkglibdir")?;
    // Later versions have libfabric compiled into the library and its modules alike.
    let module = modules.join("mca_mtl_ofi.so");
    let holders = [
        module.clone(),
        path("libdir")?.join("libmpi.so.40"),
        directory.join("../lib/libmpi.so.40"),
    ];
    let libfabric = holders.iter().find_map(|holder| Loader::default().needed(holder, LIBFABRIC));
    let parameter_file = path("sysconfdir").map(|dir| dir.join("openmpi-mca-params.conf"));
    Some(Mpi {
        family: Family::OpenMpi,
        version,
        launcher,
        compiler: first_in(directory, &["mpicc.openmpi", "mpicc"]),
        libfabric,
        module: Some(module).filter(|module| module.is_file()),
        ucx: modules.join("mca_pml_ucx.so").is_file(),
        parameter_file: parameter_file.filter(|file| file.is_file()),
    })
}

fn mpich(directory: &Path) -> Option<Mpi> {
    let info = first_in(directory, &["mpichversion"])?;
    let launcher = first_in(directory, &["mpiexec.hydra", "mpiexec.mpich", "mpiexec"])?;
    let text = program::output(&info, &[])?;
    let device = field(&text, "MPICH Device").unwrap_or_default();
    // It may load a libfabric for its other libraries' sake and not speak it.
    let speaks = |name: &str| device.split([':', ' ', ',']).any(|part| part == name);
    let libfabric = if speaks("ofi") { Loader::default().needed(&info, LIBFABRIC) } else { None };
    Some(Mpi {
        family: Family::Mpich,
        version: field(&text, "MPICH Version")?,
        launcher,
        compiler: first_in(directory, &["mpicc.mpich", "mpicc"]),
        libfabric,
        module: None,
        ucx: speaks("ucx"),
        parameter_file: None,
    })
}

/// Which libfabric an Intel MPI's library opens: not its own, unless the loader finds that (its `vars.sh` sees to it), and
/// whatever `I_MPI_OFI_LIBRARY_INTERNAL` says, which is for that script.
pub fn opened_by_intel(
    program: Option<&Path>,
    loader: &Loader,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let named = variable(INTEL_LIBRARY).filter(|named| !named.is_empty());
    match named.as_deref().and_then(|named| named.to_str()) {
        Some(path) if path.contains('/') => Some(PathBuf::from(path)).filter(|path| path.is_file()),
        named => loader.opened(program, named.unwrap_or(LIBFABRIC)),
    }
}

/// The libfabric that comes with an Intel MPI in this directory.
fn with_intel(root: &Path) -> Option<PathBuf> {
    let own = ["opt/mpi/libfabric/lib", "lib", "libfabric/lib"];
    own.iter().map(|path| root.join(path)).find(|path| path.join(LIBFABRIC).is_file())
}

/// What is the matter with an MPI that loads no libfabric, and what to do.
pub fn without_libfabric(mpi: &Mpi) -> (String, String) {
    match mpi.family {
        Family::Intel => {
            let root = mpi.launcher.parent().and_then(Path::parent);
            let advice = match root.and_then(with_intel) {
                Some(own) => format!("its own is found with LD_LIBRARY_PATH={}", own.display()),
                None => "install one, or source its vars.sh".to_owned(),
            };
            (format!("the loader finds no {LIBFABRIC} for it"), advice)
        }
        family => ("it was built without libfabric".to_owned(), how_to_install(Some(family))),
    }
}

fn intel(
    directory: &Path,
    loader: &Loader,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<Mpi> {
    if first_in(directory, &["mpichversion"]).is_some() {
        return None;
    }
    let launcher = first_in(directory, &["mpiexec.hydra"])?;
    let text = program::output(&launcher, &["--version"])?;
    let (_, rest) = text.split_once("Intel(R) MPI Library")?;
    let (_, version) = rest.split_once("Version ")?;
    let version = version.split_whitespace().next()?.to_owned();
    Some(Mpi {
        family: Family::Intel,
        version,
        launcher,
        compiler: first_in(directory, &["mpicc"]),
        libfabric: opened_by_intel(None, loader, variable),
        module: None,
        ucx: false,
        parameter_file: None,
    })
}

/// The value after a label in a listing of `label: value`.
fn field(text: &str, label: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == label).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
