//! Linker arguments of the shared object.

fn main() {
    // Programs linked with Myricom's library look for libmyriexpress.so, which installations link to this.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmyriexpress.so.0");
    // Threads and thread-local data of a node may outlive a `dlclose`: the code must stay mapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
