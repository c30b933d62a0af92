//! Linker arguments of the provider's shared object.

fn main() {
    // The name that libfabric looks for; the library target itself cannot have a hyphen.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libemp-fi.so");
    // Threads and thread-local data of a node may outlive a `dlclose`: the code must stay mapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
