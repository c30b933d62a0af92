//! Libraries and programs made for the purpose: the loader answers as it does when they run.

use super::*;

/// Compiles a C text with these options.
fn compile(text: &str, output: &Path, options: &[&str]) {
    let source = output.with_extension("c");
    fs::write(&source, text).unwrap();
    let done =
        Command::new("cc").arg("-o").arg(output).arg(&source).args(options).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Directories `a` and `b` with a library each, and a program that needs it, with further options.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for directory in ["a", "b"] {
            fs::create_dir(place.path(directory)).unwrap();
            let library = place.path(directory).join("libfabric.so.1");
            compile(
                "int fi(void) { return 1; }",
                &library,
                &["-shared", "-Wl,-soname,libfabric.so.1"],
            );
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn library(&self, directory: &str) -> Option<PathBuf> {
        Some(self.path(directory).join("libfabric.so.1"))
    }

    /// A program, and what it does with the library; `tags` says of which kind its path is.
    fn program(&self, name: &str, needs: bool, tags: &str, directory: &str) -> PathBuf {
        let program = self.path(name);
        let path = format!("-Wl,{tags},-rpath,{}", self.path(directory).display());
        let library = self.library("a").unwrap();
        let mut options = vec![path.as_str()];
        options.extend(needs.then(|| library.to_str().unwrap()));
        let text = if needs {
            "int fi(void); int main(void) { return fi(); }"
        } else {
            "int main(void) { return 0; }"
        };
        compile(text, &program, &options);
        program
    }

    fn loader(&self, directory: &str) -> Loader {
        Loader { variables: vec![("LD_LIBRARY_PATH", self.path(directory).into())] }
    }
}

const RPATH: &str = "--disable-new-dtags";
const RUNPATH: &str = "--enable-new-dtags";

#[test]
fn a_library_is_found_in_a_listing() {
    let listing = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibfabric.so.1 => /opt/a b/libfabric.so.1 (0x00007f)\n\
                   \tlibucp.so.0 => not found\n";
    let found = |name| find_in(listing, name);
    assert_eq!(found("libfabric.so.1"), Some(PathBuf::from("/opt/a b/libfabric.so.1")));
    assert_eq!(found("libucp.so.0"), None);
    assert_eq!(found("libc.so.6"), None);
}

#[test]
fn a_program_finds_what_it_needs_by_its_own_path_and_the_environments() {
    let place = Place::new();
    let (old, new) =
        (place.program("old", true, RPATH, "a"), place.program("new", true, RUNPATH, "a"));
    let elsewhere = place.loader("b");
    let empty = place.loader("nowhere");
    assert_eq!(empty.needed(&new, "libfabric.so.1"), place.library("a"));
    assert_eq!(
        elsewhere.needed(&new, "libfabric.so.1"),
        place.library("b"),
        "RUNPATH comes after the environment"
    );
    assert_eq!(
        elsewhere.needed(&old, "libfabric.so.1"),
        place.library("a"),
        "RPATH comes before it"
    );
    // A module gets what the program has loaded, and else what its own path leads to.
    let module = place.path("module.so");
    let path = format!("-Wl,{RUNPATH},-rpath,{}", place.path("b").display());
    let library = place.library("b").unwrap();
    let text = "int fi(void); int module(void) { return fi(); }";
    compile(text, &module, &["-shared", "-fPIC", &path, library.to_str().unwrap()]);
    let with_module = |program: &Path| empty.needed_with(program, &module, "libfabric.so.1");
    assert_eq!(with_module(&new), place.library("a"));
    assert_eq!(with_module(&place.program("none", false, RUNPATH, "a")), place.library("b"));
}

#[test]
fn what_a_library_opens_by_name_is_not_sought_in_the_programs_runpath() {
    let place = Place::new();
    let (old, new) =
        (place.program("old", false, RPATH, "a"), place.program("new", false, RUNPATH, "a"));
    let elsewhere = place.loader("b");
    assert_eq!(elsewhere.opened(None, "libfabric.so.1"), place.library("b"));
    assert_eq!(elsewhere.opened(Some(&new), "libfabric.so.1"), place.library("b"));
    assert_eq!(elsewhere.opened(Some(&old), "libfabric.so.1"), place.library("a"));
    assert_eq!(elsewhere.opened(None, "libno-such-library.so.1"), None);
}

#[test]
fn scripts_and_what_is_not_there_load_nothing() {
    let place = Place::new();
    let script = place.path("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let loader = Loader::default();
    assert_eq!(loader.listing(&script), None);
    assert_eq!(loader.listing(Path::new("/nowhere/program")), None);
    assert!(loader.listing(&env::current_exe().unwrap()).unwrap().contains("libc.so"));
}
