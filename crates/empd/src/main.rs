//! The service's program.

fn main() {
    eprintln!("empd: it serves nothing yet");
    std::process::exit(2);
}
