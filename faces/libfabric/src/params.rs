//! What users can set: `FI_EMP_…`.

use std::ffi::CStr;
use std::time::Duration;

use emp_host::{Profile, Span, WaitMode};
use emp_link::FaultPlan;

use crate::core;

/// How long closing waits for acknowledgements at most, unless said otherwise. Peers that have ended say goodbye, so this
/// is the time for peers that were lost.
const LINGER_DEFAULT: Duration = Duration::from_secs(2);

/// Limits of the time after which a peer is lost: many round trips, and an hour.
const TIMEOUT_MIN_MS: u64 = 50;
const TIMEOUT_MAX_MS: u64 = 3_600_000;

const PARAMETERS: [(&CStr, &CStr); 8] = [
    (
        c"link",
        c"Links to use: auto, packet (raw Ethernet frames), xdp (the same through AF_XDP, for one process an interface; others get packet), udp, or shm (ranks of this machine only); auto has shm for the ranks of this machine (default: auto)",
    ),
    (
        c"iface",
        c"Network interfaces to use, best first, separated by commas (default: all that are up)",
    ),
    (c"profile", c"Protocol parameters: default, emp2001, openmx, or vmmc2 (default: default)"),
    (c"fault", c"Faults to inject for tests, such as drop:0.01 (default: none)"),
    (c"eager", c"Bytes up to which messages leave whole, unasked (default: the profile's; 65536)"),
    (c"timeout", c"Milliseconds of silence after which a peer is lost (default: the profile's; 5000)"),
    (
        c"wait",
        c"How blocking calls wait: adaptive (look for as long as recent waits make it worth while, then sleep), spin, or sleep (default: adaptive)",
    ),
    (c"linger", c"Milliseconds that closing waits for acknowledgements at most (default: 2000)"),
];

/// Tells the core what there is to set.
pub fn define() {
    for (name, help) in PARAMETERS {
        core::define_parameter(name, help);
    }
}

/// Which kinds of links are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkWish {
    Auto,
    Packet,
    Xdp,
    Udp,
    Shm,
}

/// What the user has set.
#[derive(Clone, Debug)]
pub struct Parameters {
    pub link: LinkWish,
    pub interfaces: Vec<String>,
    pub profile: Profile,
    pub fault: Option<FaultPlan>,
    pub linger: Duration,
    pub wait: WaitMode,
}

impl Parameters {
    /// Reads them. A value that makes no sense is an error that is said aloud: running with another one would be worse.
    pub fn read() -> Result<Self, ()> {
        Self::from_texts(core::parameter).map_err(|problem| core::warn(&problem))
    }

    fn from_texts(text: impl Fn(&CStr) -> Option<String>) -> Result<Self, String> {
        let link = match text(c"link").as_deref() {
            None | Some("" | "auto") => LinkWish::Auto,
            Some("packet") => LinkWish::Packet,
            Some("xdp") => LinkWish::Xdp,
            Some("udp") => LinkWish::Udp,
            Some("shm") => LinkWish::Shm,
            Some(other) => {
                return Err(format!("FI_EMP_LINK={other}: must be auto, packet, xdp, udp or shm"));
            }
        };
        let interfaces = text(c"iface").unwrap_or_default();
        let interfaces = interfaces.split(',').map(str::trim).filter(|name| !name.is_empty());
        let mut profile = match text(c"profile") {
            None => Profile::DEFAULT,
            Some(name) => Profile::by_name(&name).cloned().ok_or_else(|| {
                let names: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
                format!("FI_EMP_PROFILE={name}: must be one of {}", names.join(", "))
            })?,
        };
        if let Some(bytes) = number(&text, c"eager", "FI_EMP_EAGER", "bytes")? {
            profile.eager_bytes = bytes;
        }
        if let Some(time) = number(&text, c"timeout", "FI_EMP_TIMEOUT", "milliseconds")? {
            if !(TIMEOUT_MIN_MS..=TIMEOUT_MAX_MS).contains(&time) {
                return Err(format!(
                    "FI_EMP_TIMEOUT={time}: must be {TIMEOUT_MIN_MS} to {TIMEOUT_MAX_MS} milliseconds"
                ));
            }
            profile.unreachable_after = Span::ms(time);
        }
        let wait = match text(c"wait").as_deref() {
            None | Some("adaptive") => WaitMode::default(),
            Some("spin") => WaitMode::Spin,
            Some("sleep") => WaitMode::Sleep,
            Some(other) => {
                return Err(format!("FI_EMP_WAIT={other}: must be adaptive, spin or sleep"));
            }
        };
        let fault = match text(c"fault") {
            None => None,
            Some(plan) => {
                Some(plan.parse().map_err(|error| format!("FI_EMP_FAULT={plan}: {error}"))?)
            }
        };
        let linger = number(&text, c"linger", "FI_EMP_LINGER", "milliseconds")?;
        let linger = linger.map_or(LINGER_DEFAULT, Duration::from_millis);
        let interfaces = interfaces.map(Into::into).collect();
        Ok(Self { link, interfaces, profile, fault, linger, wait })
    }
}

/// A parameter that is a number.
fn number(
    text: &impl Fn(&CStr) -> Option<String>,
    name: &CStr,
    variable: &str,
    unit: &str,
) -> Result<Option<u64>, String> {
    let number = text(name).map(|value| {
        value.parse().map_err(|_| format!("{variable}={value}: must be a number of {unit}"))
    });
    number.transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &CStr, value: &str) -> Result<Parameters, String> {
        Parameters::from_texts(|asked| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn values_are_understood() {
        assert_eq!(with(c"link", "udp").unwrap().link, LinkWish::Udp);
        assert_eq!(with(c"link", "shm").unwrap().link, LinkWish::Shm);
        assert_eq!(with(c"link", "xdp").unwrap().link, LinkWish::Xdp);
        assert_eq!(with(c"iface", "a, b,").unwrap().interfaces, ["a", "b"]);
        assert_eq!(with(c"profile", "openmx").unwrap().profile, Profile::OPENMX);
        assert_eq!(with(c"fault", "drop:0.01").unwrap().fault.unwrap().drop, 0.01);
        assert_eq!(with(c"eager", "70").unwrap().profile.eager_bytes, 70);
        assert_eq!(with(c"timeout", "70").unwrap().profile.unreachable_after, Span::ms(70));
        assert_eq!(with(c"wait", "sleep").unwrap().wait, WaitMode::Sleep);
        assert_eq!(with(c"linger", "5").unwrap().linger, Duration::from_millis(5));
    }

    #[test]
    fn mistakes_name_the_variable() {
        for (name, variable) in [
            (c"link", "FI_EMP_LINK"),
            (c"profile", "FI_EMP_PROFILE"),
            (c"fault", "FI_EMP_FAULT"),
            (c"eager", "FI_EMP_EAGER"),
            (c"timeout", "FI_EMP_TIMEOUT"),
            (c"wait", "FI_EMP_WAIT"),
            (c"linger", "FI_EMP_LINGER"),
        ] {
            assert!(with(name, "nonsense").unwrap_err().starts_with(variable));
        }
    }
}
