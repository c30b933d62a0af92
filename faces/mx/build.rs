//! Linker arguments of the shared object.

fn main() {
    // The name that programs linked with Myricom's library look for: it has no version.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmyriexpress.so");
    // Threads and thread-local data of a node may outlive a `dlclose`: the code must stay mapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
