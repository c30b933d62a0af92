//! What a switch's ports, and cables, do to what leaves by them: a rate, and a queue of so many bytes, as a switch's ports have them.
//!
//! Each port towards a host has a token bucket (tbf). It cuts long segmented frames into frames of the MTU, as a card does, so
//! that a queue that is full drops single frames. What hosts send is not slowed down: a frame waits where it leaves the switch.

use serde::{Deserialize, Serialize};

use crate::bail_user;

/// Bits per second that a port may have: below a frame takes longer than anybody waits, above the kernel's timers are too coarse
/// to give a port that rate on a virtual cable.
const RATES: std::ops::RangeInclusive<u64> = 100_000..=100_000_000_000;

/// Bytes that a port's queue may have: a few frames, to more than any switch's.
const QUEUES: std::ops::RangeInclusive<u64> = (4 << 10)..=(1 << 30);

/// Bytes of a port's queue unless asked for others: about what a small switch has for each port.
pub const QUEUE_DEFAULT: &str = "128K";

/// Bytes that may leave at once after a pause. Few, so that the queue is what the rate makes of it; a long segmented frame up to
/// this size would not be cut, so it is what no frame of several segments that matters fits in.
const BURST_BYTES: u64 = 16 << 10;

/// Bytes that a frame has beside the MTU: the Ethernet head and a VLAN tag.
const HEAD_BYTES: u64 = 18;

/// The burst has to last until the kernel's timer comes back, in parts of a second.
const BURSTS_PER_SECOND: u64 = 10_000;

/// What every port of a switch has, or a cable both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// Bits per second towards the host, Ethernet heads included.
    pub rate: u64,
    /// Bytes that may wait.
    pub queue: u64,
}

impl Ports {
    /// Reads `500mbit` and `128K`.
    pub fn parse(rate: &str, queue: &str) -> anyhow::Result<Self> {
        Ok(Self { rate: parse_rate(rate)?, queue: parse_queue(queue)? })
    }

    /// As people say it: `500 Mb/s 128 KiB`.
    pub fn words(&self) -> String {
        let rate = match self.rate as f64 {
            fast if fast >= 1e9 => format!("{} Gb/s", fast / 1e9),
            slow => format!("{} Mb/s", slow / 1e6),
        };
        let queue = match self.queue {
            large if large.is_multiple_of(1 << 20) => format!("{} MiB", large >> 20),
            small if small.is_multiple_of(1 << 10) => format!("{} KiB", small >> 10),
            odd => format!("{odd} bytes"),
        };
        format!("{rate} {queue}")
    }

    /// In units of 10^9 bits per second.
    pub fn gbps(&self) -> f64 {
        self.rate as f64 / 1e9
    }

    /// The command of `tc` that makes a port one of these.
    pub fn command(&self, interface: &str, mtu: u32) -> String {
        let frame = u64::from(mtu) + HEAD_BYTES;
        let burst = BURST_BYTES.max(frame).max(self.rate / 8 / BURSTS_PER_SECOND);
        format!(
            "qdisc add dev {interface} root tbf rate {}bit burst {burst} limit {}",
            self.rate,
            self.queue.max(frame)
        )
    }
}

fn parse_rate(text: &str) -> anyhow::Result<u64> {
    let lower = text.to_ascii_lowercase();
    let units = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
    let number = units.into_iter().find_map(|(unit, scale)| {
        let number: f64 = lower.strip_suffix(unit)?.parse().ok()?;
        Some(number * scale)
    });
    match number {
        Some(rate) if RATES.contains(&(rate as u64)) => Ok(rate as u64),
        Some(_) => bail_user!("a port rate of {text} is not possible; choose 100kbit to 100gbit"),
        None => bail_user!("`{text}` is not a rate; write for example 500mbit or 2.5gbit"),
    }
}

fn parse_queue(text: &str) -> anyhow::Result<u64> {
    let scale = match text.chars().next_back() {
        Some('k' | 'K') => 1 << 10,
        Some('m' | 'M') => 1 << 20,
        _ => 1,
    };
    let digits = if scale == 1 { text } else { &text[..text.len() - 1] };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    match bytes {
        Some(bytes) if QUEUES.contains(&bytes) => Ok(bytes),
        Some(_) => bail_user!("a port queue of {text} is not possible; choose 4K to 1024M bytes"),
        None => bail_user!("`{text}` is not a size of a queue; write for example 128K"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserError;

    #[test]
    fn rates_and_queues_are_read_as_people_write_them() {
        let ports = Ports::parse("500mbit", "128K").unwrap();
        assert_eq!(ports, Ports { rate: 500_000_000, queue: 131_072 });
        assert_eq!(Ports::parse("2.5Gbit", "1M").unwrap().rate, 2_500_000_000);
        assert_eq!(Ports::parse("100000bit", "65536").unwrap().queue, 65_536);
    }

    #[test]
    fn mistakes_are_named() {
        for (rate, queue, says) in [
            ("fast", "128K", "`fast` is not a rate"),
            ("500", "128K", "`500` is not a rate"),
            ("-1mbit", "128K", "a port rate of -1mbit"),
            ("nanmbit", "128K", "a port rate of nanmbit"),
            ("1bit", "128K", "a port rate of 1bit"),
            ("999gbit", "128K", "a port rate of 999gbit"),
            ("1gbit", "much", "`much` is not a size"),
            ("1gbit", "", "`` is not a size"),
            ("1gbit", "1", "a port queue of 1 "),
            ("1gbit", "99999999999999999999", "is not a size"),
            ("1gbit", "4096M", "a port queue of 4096M"),
        ] {
            let error = Ports::parse(rate, queue).unwrap_err();
            assert!(error.is::<UserError>() && error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn a_burst_takes_a_frame_and_lasts_until_the_timer() {
        let command = |rate, mtu| Ports::parse(rate, "8K").unwrap().command("port0", mtu);
        let usual = "qdisc add dev port0 root tbf rate 500000000bit burst 16384 limit 8192";
        assert_eq!(command("500mbit", 1500), usual);
        assert!(command("500mbit", 65535).ends_with("burst 65553 limit 65553"));
        assert!(command("10gbit", 1500).contains("burst 125000 "));
    }
}
