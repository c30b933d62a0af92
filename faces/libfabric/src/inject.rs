//! How long an inject may be.

/// Longest message in bytes whose buffer is free at once: what the node copies of any send that leaves at once (`Profile::long_buffered_bytes`),
/// so that it costs no more than another. MPICH waits for the delivery of what is longer (decision 31).
pub const INJECT_BYTES: usize = 32 << 10;

/// MPICH's threshold, by the three names under which it reads it: a longer message is announced, and its receiver has a buffer of that
/// many bytes for the announcement. What fits an inject is sent as it is all the same (decision 65), so it must not be longer.
const THRESHOLDS: [&str; 3] = [
    "MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD",
    "MPIR_PARAM_CH4_OFI_EAGER_THRESHOLD",
    "MPICH_CH4_OFI_EAGER_THRESHOLD",
];

/// What MPICH injects without asking how much it may: its answers to announcements, of 24 bytes.
const LEAST_BYTES: usize = 64;

/// What is offered unasked, as the environment is.
pub fn offered() -> usize {
    offered_by(|name| std::env::var(name).ok())
}

fn offered_by(look: impl Fn(&str) -> Option<String>) -> usize {
    let set = THRESHOLDS.iter().find_map(|name| look(name)?.trim().parse::<i64>().ok());
    // None is wanted by a negative one.
    let threshold = set.and_then(|bytes| usize::try_from(bytes).ok());
    threshold.map_or(INJECT_BYTES, |bytes| bytes.clamp(LEAST_BYTES, INJECT_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_threshold_in_use_is_undercut() {
        for (value, offer) in [
            (None, INJECT_BYTES),
            (Some("16384"), 16_384),
            (Some(" 1000 "), 1_000),
            (Some("0"), LEAST_BYTES),
            (Some("1048576"), INJECT_BYTES),
            (Some("-1"), INJECT_BYTES),
            (Some("plenty"), INJECT_BYTES),
            (Some(""), INJECT_BYTES),
        ] {
            for name in THRESHOLDS {
                let look = |asked: &str| value.filter(|_| asked == name).map(str::to_owned);
                assert_eq!(offered_by(look), offer, "{value:?}");
            }
        }
    }
}
