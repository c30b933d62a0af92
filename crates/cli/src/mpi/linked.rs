//! Which MPI a program was built for, by the library that it loads.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Family, Mpi, program};

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
    let listing = program::output(Path::new("ldd"), &[place.to_str()?])?;
    let (library, family) = of_listing(&listing)?;
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

/// The first library of an MPI in a listing of `ldd`, whether it is found or not.
fn of_listing(listing: &str) -> Option<(&'static str, Family)> {
    listing.lines().find_map(|line| {
        let (name, _) = line.trim().split_once(" => ")?;
        LIBRARIES.into_iter().find(|(library, _)| *library == name)
    })
}

/// Where a command's program is.
fn place(command: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
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
        assert_eq!(of_listing(open), Some(("libmpi.so.40", Family::OpenMpi)));
        let mpich = "\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlibmpi.so.12 => not found\n";
        assert_eq!(of_listing(mpich), Some(("libmpi.so.12", Family::Mpich)));
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
