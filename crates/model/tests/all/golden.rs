//! The golden table: goodput and retransmissions by message size and loss, in virtual time.
//!
//! A change of the protocol that costs throughput, or that resends more than it must, shows here as a difference of text.
//! Two nodes, 10 Gb/s, 5 µs one way, MTU 1500; 64 messages posted at a time; losses of all kinds of frames, both ways.

use core::fmt::Write;

use emp_firmware::Profile;
use emp_model::{Ppm, Stream, measure};

const LOSSES: [(&str, Ppm); 5] = [
    ("0", Ppm(0)),
    ("0.1 %", Ppm(1_000)),
    ("1 %", Ppm(10_000)),
    ("5 %", Ppm(50_000)),
    ("10 %", Ppm(100_000)),
];

/// Sizes, and messages of each: enough to be past the start, few enough for a test.
const SIZES: [(&str, u64, usize); 5] = [
    ("64 B", 64, 4_000),
    ("1 KB", 1 << 10, 4_000),
    ("16 KB", 16 << 10, 500),
    ("256 KB", 256 << 10, 64),
    ("4 MB", 4 << 20, 8),
];

fn table(profile: &Profile) -> String {
    let mut text = String::from("goodput in Gb/s (frames resent of 1,000 sent)\n\n");
    let _ = write!(text, "{:>8}", "message");
    for (name, _) in LOSSES {
        let _ = write!(text, " │ {:>16}", format!("loss {name}"));
    }
    text.push('\n');
    for (name, bytes, messages) in SIZES {
        let _ = write!(text, "{name:>8}");
        for (_, loss) in LOSSES {
            let cell = match measure(&Stream::lan(profile, bytes, messages, loss)) {
                Ok(m) => format!(
                    "{:.3} ({:.1})",
                    m.goodput as f64 / 1e9,
                    m.resent as f64 * 1_000.0 / m.sent.max(1) as f64
                ),
                Err(what) => what,
            };
            let _ = write!(text, " │ {cell:>16}");
        }
        text.push('\n');
    }
    text
}

#[test]
fn default() {
    insta::assert_snapshot!("default", table(&Profile::DEFAULT));
}

#[test]
fn emp2001() {
    insta::assert_snapshot!("emp2001", table(&Profile::EMP2001));
}

#[test]
fn openmx() {
    insta::assert_snapshot!("openmx", table(&Profile::OPENMX));
}

#[test]
fn vmmc2() {
    insta::assert_snapshot!("vmmc2", table(&Profile::VMMC2));
}
