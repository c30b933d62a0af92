//! The `emp` program.
fn main() {}
