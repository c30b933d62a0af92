//! Which MPI a program was built for, by the library that it loads, and which libfabric it comes by.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::find::{LIBFABRIC, opened_by_intel};
use super::loader::Loader;
use super::{Family, Mpi};

/// Libraries by whose name an MPI is known. Intel MPI's is MPICH's, and either runs programs of the other.
const LIBRARIES: [(&str, Family); 3] = [
    ("libmpi.so.40", Family::OpenMpi),
    ("libmpi.so.12", Family::Mpich),
    ("libmpich.so.12", Family::Mpich),
];

/// What is wrong with starting a program by this MPI's launcher, for people; `None`: nothing that can be seen, or it is no
/// program that loads an MPI by itself, as scripts are.
pub fn mismatch(mpi: &Mpi, command: &OsStr) -> Option<String> {
    let place = place(command, env::var_os("PATH").as_deref())?;
    let listing = Loader::default().listing(&place)?;
    let (library, family, _) = of_listing(&listing)?;
    (kind(family) != kind(mpi.family)).then(|| {
        format!(
            "{} is linked to {library}, which is {family}'s, and {} starts it: its ranks will not find each other; \
             choose the other with --mpi, or build it with this one's compiler",
            place.display(),
            mpi.name(),
        )
    })
}

/// Those that run each other's programs.
fn kind(family: Family) -> bool {
    family == Family::OpenMpi
}

/// The first library of an MPI in a listing of the loader's, whether it is found or not, and where.
fn of_listing(listing: &str) -> Option<(&'static str, Family, &str)> {
    listing.lines().find_map(|line| {
        let (name, place) = line.trim().split_once(" => ")?;
        let (library, family) = LIBRARIES.into_iter().find(|(library, _)| *library == name)?;
        Some((library, family, place.split(" (0x").next()?))
    })
}

/// What a program loads when it runs as things are.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Linked {
    /// The MPI, and its library's file.
    pub mpi: Option<(Family, PathBuf)>,
    pub libfabric: Option<PathBuf>,
}

/// Looks at a program; `None` if it is none that the loader knows (a script, or linked statically). Of which of `all` MPIs
/// it is says what loads libfabric for it.
pub fn look(program: &Path, loader: &Loader, all: &[Mpi]) -> Option<Linked> {
    let listing = loader.listing(program)?;
    let mpi = of_listing(&listing).map(|(_, family, place)| (family, PathBuf::from(place)));
    let (mpi, opened) = match mpi {
        Some((Family::OpenMpi, library)) => {
            let module = owner(Family::OpenMpi, &library, all).and_then(|mpi| mpi.module.as_ref());
            let opened = module.and_then(|module| loader.needed_with(program, module, LIBFABRIC));
            (Some((Family::OpenMpi, library)), opened)
        }
        Some((_, library)) if is_intel(&library) => {
            let opened = opened_by_intel(Some(program), loader, |name| env::var_os(name));
            (Some((Family::Intel, library)), opened)
        }
        other => (other, None),
    };
    // What the program needs itself is there before anything is opened.
    let libfabric = loader.needed(program, LIBFABRIC).or(opened);
    Some(Linked { mpi, libfabric })
}

/// The MPI that a library is of: of several of its family, that in whose tree it is.
pub fn owner<'mpi>(family: Family, library: &Path, all: &'mpi [Mpi]) -> Option<&'mpi Mpi> {
    let library = library.canonicalize().unwrap_or_else(|_| library.to_owned());
    let depth = |mpi: &&Mpi| {
        let launcher = mpi.launcher.canonicalize().ok()?;
        let root = launcher.parent()?.parent()?;
        library.starts_with(root).then(|| root.components().count())
    };
    all.iter().filter(|mpi| mpi.family == family).max_by_key(|mpi| depth(mpi).unwrap_or(0))
}

/// Whether a library that is called as MPICH's is Intel MPI's: it knows the variable that names a libfabric.
fn is_intel(library: &Path) -> bool {
    let name = super::find::INTEL_LIBRARY.as_bytes();
    fs::read(library).is_ok_and(|bytes| bytes.windows(name.len()).any(|window| window == name))
}

/// Where a command's program is.
pub fn place(command: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let itself = Path::new(command);
    if itself.components().count() > 1 {
        return itself.is_file().then(|| itself.to_owned());
    }
    env::split_paths(path?).map(|directory| directory.join(itself)).find(|place| place.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_library() {
        let open = "\tlinux-vdso.so.1 (0x1)\n\tlibmpi.so.40 => /lib/libmpi.so.40 (0x2)\n";
        assert_eq!(of_listing(open), Some(("libmpi.so.40", Family::OpenMpi, "/lib/libmpi.so.40")));
        let mpich = "\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlibmpi.so.12 => not found\n";
        assert_eq!(of_listing(mpich), Some(("libmpi.so.12", Family::Mpich, "not found")));
        assert_eq!(of_listing("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"), None);
        assert_eq!(of_listing("\tnot a dynamic executable\n"), None);
        assert!(
            kind(Family::Mpich) == kind(Family::Intel)
                && kind(Family::Mpich) != kind(Family::OpenMpi)
        );
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let path = Some(OsStr::new("/nowhere:/bin:/usr/bin"));
        assert!(place(OsStr::new("sh"), path).is_some_and(|place| place.ends_with("sh")));
        assert_eq!(place(OsStr::new("/bin/sh"), None), Some("/bin/sh".into()));
        assert_eq!(place(OsStr::new("no-such-program"), path), None);
        assert_eq!(place(OsStr::new("./no-such-program"), path), None);
        assert_eq!(place(OsStr::new("sh"), None), None);
    }
}
