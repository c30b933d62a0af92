//! Lines for whoever runs the service, on standard error, where systemd's journal takes them.
//!
//! Clients cause lines, and could fill a disk with them: some go out at once, then so many a second; how many were left out is said.

use std::io::Write;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

/// Lines that go out at once: a job of 256 ranks that starts.
const BURST: f64 = 300.0;

/// Lines a second after that.
const RATE: f64 = 10.0;

struct Bucket {
    tokens: f64,
    filled: Option<Instant>,
    left_out: u64,
}

static BUCKET: Mutex<Bucket> = Mutex::new(Bucket { tokens: BURST, filled: None, left_out: 0 });

impl Bucket {
    /// Whether a line may go out now; and how many were left out before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let since = self.filled.replace(now).map_or(0.0, |last| (now - last).as_secs_f64());
        self.tokens = (self.tokens + since * RATE).min(BURST);
        if self.tokens < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.tokens -= 1.0;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Says something that a client has caused, if not too much was said already.
pub fn client(line: &str) {
    let left_out = BUCKET.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
    match left_out {
        None => {}
        Some(0) => say(line),
        Some(count) => say(&format!("{line} ({count} lines before it were left out)")),
    }
}

/// Says something that concerns the service itself.
pub fn say(line: &str) {
    // Where it can't be said, on a full disk say, clients are served all the same.
    let _ = writeln!(std::io::stderr(), "empd: {line}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_of_lines_is_thinned_and_counted() {
        let mut bucket = Bucket { tokens: BURST, filled: None, left_out: 0 };
        let now = Instant::now();
        let out = (0..1000).filter(|_| bucket.take(now).is_some()).count();
        assert_eq!(out, BURST as usize);
        let later = now + Duration::from_secs(1);
        assert_eq!(bucket.take(later), Some(700));
        assert_eq!((0..100).filter_map(|_| bucket.take(later)).count(), RATE as usize - 1);
    }
}
