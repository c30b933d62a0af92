//! Settings of the kernel's network that EMP or what it is compared with depends on.

use std::path::Path;

use super::interfaces::Interface;
use crate::finding::{Finding, read};
use crate::measured::CONGESTION_NAMES;
use crate::process::{self, CAP_NET_ADMIN};

/// Bytes of receive buffer that EMP's udp link asks for.
const WANTED_RECEIVE: u64 = 4 << 20;

/// Microseconds that a receive call looks at a card before it sleeps, if that is advised: about what one more interrupt takes.
const BUSY_MICROSECONDS: u32 = 50;

/// Looks at the settings. `root` is `/` but in tests.
pub fn inspect(root: &Path, interfaces: &[Interface]) -> Vec<Finding> {
    let setting = |name: &str| read(&root.join("proc/sys/net").join(name));
    let number = |name: &str| setting(name).and_then(|text| text.parse::<u64>().ok());
    let cards: Vec<&str> = interfaces
        .iter()
        .filter(|one| one.is_card && one.running)
        .map(|one| one.name.as_str())
        .collect();
    vec![
        receive_buffer(number("core/rmem_max"), process::has_capability(CAP_NET_ADMIN)),
        congestion(
            setting("ipv4/tcp_congestion_control").as_deref(),
            setting("ipv4/tcp_available_congestion_control").as_deref(),
        ),
        busy_polling(number("core/busy_read"), number("core/busy_poll"), &cards),
    ]
}

fn receive_buffer(most: Option<u64>, forces: bool) -> Finding {
    const NAME: &str = "rmem_max";
    let Some(most) = most else { return Finding::not_visible(NAME) };
    let value = format!("{} KiB", most >> 10);
    if most >= WANTED_RECEIVE {
        Finding::ok(NAME, value)
    } else if forces {
        Finding::ok(NAME, format!("{value}; not for this user, who may have more (CAP_NET_ADMIN)"))
    } else {
        let advice = format!(
            "sudo sysctl net.core.rmem_max={WANTED_RECEIVE}; until then the udp link takes {value} and may lose what comes in bursts"
        );
        Finding::warn(NAME, value, advice)
    }
}

fn congestion(chosen: Option<&str>, available: Option<&str>) -> Finding {
    const NAME: &str = "TCP congestion";
    let Some(chosen) = chosen else { return Finding::not_visible(NAME) };
    let there = available.unwrap_or_default();
    let missing: Vec<&str> = CONGESTION_NAMES
        .into_iter()
        .filter(|name| there.split_whitespace().all(|one| one != *name))
        .collect();
    match missing.first() {
        None => Finding::note(NAME, format!("{chosen}; benches measure TCP under cubic and bbr")),
        Some(name) => Finding::note(
            NAME,
            format!(
                "{chosen}; {} not loaded (sudo modprobe tcp_{name}): benches measure TCP under what is there",
                missing.join(" and ")
            ),
        ),
    }
}

/// Only cards have something to look at: a virtual cable hands frames over by itself.
fn busy_polling(read: Option<u64>, poll: Option<u64>, cards: &[&str]) -> Finding {
    const NAME: &str = "busy polling";
    let (Some(read), Some(poll)) = (read, poll) else { return Finding::not_visible(NAME) };
    let value = format!("busy_read {read} µs, busy_poll {poll} µs");
    if cards.is_empty() {
        return Finding::note(NAME, format!("{value}; no card here that it would help"));
    }
    if read > 0 && poll > 0 {
        return Finding::ok(NAME, value);
    }
    let advice = format!(
        "sudo sysctl net.core.busy_read={BUSY_MICROSECONDS} net.core.busy_poll={BUSY_MICROSECONDS}: udp and TCP then look at {} \
         instead of waiting for its interrupt; it takes CPU time",
        cards.join(", ")
    );
    Finding::warn(NAME, value, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Mark;
    use std::fs;

    #[test]
    fn a_small_receive_buffer_matters_to_those_who_may_not_have_more() {
        assert_eq!(receive_buffer(Some(4 << 20), false).mark, Mark::Ok);
        assert_eq!(receive_buffer(Some(208 << 10), true).mark, Mark::Ok);
        let small = receive_buffer(Some(208 << 10), false);
        assert_eq!((small.mark, small.value.as_str()), (Mark::Warn, "208 KiB"));
        assert!(small.advice.unwrap().starts_with("sudo sysctl net.core.rmem_max=4194304;"));
        assert_eq!(receive_buffer(None, false), Finding::not_visible("rmem_max"));
    }

    #[test]
    fn what_steers_tcp_is_told_with_what_is_missing() {
        let text = |available| congestion(Some("bbr"), Some(available)).value;
        assert_eq!(text("reno bbr cubic"), "bbr; benches measure TCP under cubic and bbr");
        assert!(text("reno cubic").contains("bbr not loaded (sudo modprobe tcp_bbr)"));
        assert_eq!(congestion(None, None), Finding::not_visible("TCP congestion"));
    }

    #[test]
    fn busy_polling_is_advised_for_cards() {
        assert_eq!(busy_polling(Some(0), Some(0), &[]).mark, Mark::Note);
        assert_eq!(busy_polling(Some(50), Some(50), &["eth0"]).mark, Mark::Ok);
        let off = busy_polling(Some(0), Some(0), &["eth0", "eth1"]);
        assert_eq!(off.mark, Mark::Warn);
        assert!(off.advice.unwrap().contains("look at eth0, eth1 instead"));
    }

    #[test]
    fn settings_are_read_where_the_kernel_shows_them() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("proc/sys/net/core/rmem_max");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "8388608\n").unwrap();
        let found = inspect(root.path(), &[]);
        assert_eq!(found[0], Finding::ok("rmem_max", "8192 KiB"));
        assert!(found[1..].iter().all(|finding| finding.value == "not visible"));
    }
}
