//! Finding out where a benchmark runs.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use super::subject::Place;
use crate::ethtool::Ethtool;
pub use crate::measured::Environment;
use crate::measured::is_loaded;

impl Environment {
    /// The facts of a lab whose ends other programs are: what is known without a place of our own in it.
    pub fn of_lab(mtu: usize, load: f64) -> Self {
        Self {
            date: utc(SystemTime::now()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("EMP_COMMIT").map(str::to_owned),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            cpu: cpu_model(),
            cores: cores(),
            load,
            lab: true,
            mtu,
            tcp_congestion: first_line(TCP_CONGESTION),
            ..Self::default()
        }
    }

    /// Collects the facts. The load is that of before the run, which is a load itself.
    pub fn of(place: &Place, lab: bool, load: f64) -> Self {
        Self {
            date: utc(SystemTime::now()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("EMP_COMMIT")
                .filter(|commit| !commit.is_empty())
                .map(str::to_owned),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            cpu: cpu_model(),
            cores: cores(),
            load,
            lab,
            interface: place.interface.name.clone(),
            mtu: place.mtu(),
            links: links(place),
            driver: driver(&place.interface.name),
            offloads: offloads(&place.interface.name),
            tcp_congestion: first_line(TCP_CONGESTION),
        }
    }
}

/// How many programs want a core now, on average over a minute.
pub fn load() -> f64 {
    let text = first_line("/proc/loadavg");
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Where the kernel says what steers TCP; a network namespace begins with the machine's.
const TCP_CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Says so if the load before a run was high enough to make its figures doubtful.
pub fn note_conditions(load: f64) {
    if is_loaded(load, cores()) {
        eprintln!("note: other programs use this machine (load {load:.1}); figures may be far off");
    }
}

/// Each link, with the reason why it can be used here or not.
pub fn links(place: &Place) -> Vec<String> {
    let name = &place.interface.name;
    let packet = match place.packet_problem() {
        None => format!("packet: yes, {name} is Ethernet and raw frames are allowed"),
        Some(problem) => format!("packet: no, {problem}"),
    };
    let udp = match place.interface.addresses.contains(&place.own) {
        true => format!("udp: yes, {name} has address {}", place.own),
        false => format!("udp: yes, {name} leads from {} to {}", place.own, place.peer),
    };
    vec![packet, udp]
}

fn driver(interface: &str) -> Option<String> {
    Ethtool::new().ok()?.driver(interface).ok()
}

/// What the card or the kernel does in bulk, which decides about throughput.
fn offloads(interface: &str) -> Option<Vec<String>> {
    let ask = Ethtool::new().ok()?;
    let asked = [
        ("gro", ask.gro(interface)),
        ("gso", ask.gso(interface)),
        ("tso", ask.tso(interface)),
        ("lro", ask.lro(interface)),
    ];
    if asked.iter().all(|(_, answer)| answer.is_err()) {
        return None;
    }
    let on = asked.into_iter().filter(|(_, answer)| matches!(answer, Ok(true)));
    Some(on.map(|(name, _)| name.to_owned()).collect())
}

/// Logical CPUs of the machine, whichever of them this thread may use.
pub fn cores() -> usize {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines().filter(|line| line.starts_with("processor")).count().max(1)
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // x86 says "model name"; ARM kernels say only the part's number.
    let field = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    field("model name").or_else(|| field("CPU part")).unwrap_or_else(|| "unknown".to_owned())
}

fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date so many days after 1970-01-01.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(at(4_102_444_799), "2099-12-31T23:59:59Z");
    }

    #[test]
    fn this_machine_has_a_kernel_and_cores() {
        assert!(first_line("/proc/sys/kernel/osrelease").contains('.'));
        assert!(cores() >= 1 && !cpu_model().is_empty());
    }
}
