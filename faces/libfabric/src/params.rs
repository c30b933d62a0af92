//! What users can set: `FI_EMP_…`.

use std::ffi::CStr;
use std::time::Duration;

use emp_host::Profile;
use emp_link::FaultPlan;

use crate::core;

/// How long closing waits for acknowledgements at most, unless said otherwise. Peers that have ended say goodbye, so this
/// is the time for peers that were lost.
const LINGER_DEFAULT: Duration = Duration::from_secs(2);

const PARAMETERS: [(&CStr, &CStr); 5] = [
    (c"link", c"Links to use: auto, packet (raw Ethernet frames), or udp (default: auto)"),
    (
        c"iface",
        c"Network interfaces to use, best first, separated by commas (default: all that are up)",
    ),
    (c"profile", c"Protocol parameters: default, emp2001, openmx, or vmmc2 (default: default)"),
    (c"fault", c"Faults to inject for tests, such as drop:0.01 (default: none)"),
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
    Udp,
}

/// What the user has set.
#[derive(Clone, Debug)]
pub struct Parameters {
    pub link: LinkWish,
    pub interfaces: Vec<String>,
    pub profile: Profile,
    pub fault: Option<FaultPlan>,
    pub linger: Duration,
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
            Some("udp") => LinkWish::Udp,
            Some(other) => {
                return Err(format!("FI_EMP_LINK={other}: must be auto, packet or udp"));
            }
        };
        let interfaces = text(c"iface").unwrap_or_default();
        let interfaces = interfaces.split(',').map(str::trim).filter(|name| !name.is_empty());
        let profile = match text(c"profile") {
            None => Profile::DEFAULT,
            Some(name) => Profile::by_name(&name).cloned().ok_or_else(|| {
                let names: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
                format!("FI_EMP_PROFILE={name}: must be one of {}", names.join(", "))
            })?,
        };
        let fault = match text(c"fault") {
            None => None,
            Some(plan) => {
                Some(plan.parse().map_err(|error| format!("FI_EMP_FAULT={plan}: {error}"))?)
            }
        };
        let linger =
            match text(c"linger") {
                None => LINGER_DEFAULT,
                Some(time) => Duration::from_millis(time.parse().map_err(|_| {
                    format!("FI_EMP_LINGER={time}: must be a number of milliseconds")
                })?),
            };
        let interfaces = interfaces.map(Into::into).collect();
        Ok(Self { link, interfaces, profile, fault, linger })
    }
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
        assert_eq!(with(c"iface", "a, b,").unwrap().interfaces, ["a", "b"]);
        assert_eq!(with(c"profile", "openmx").unwrap().profile, Profile::OPENMX);
        assert_eq!(with(c"fault", "drop:0.01").unwrap().fault.unwrap().drop, 0.01);
        assert_eq!(with(c"linger", "5").unwrap().linger, Duration::from_millis(5));
    }

    #[test]
    fn mistakes_name_the_variable() {
        for (name, variable) in [
            (c"link", "FI_EMP_LINK"),
            (c"profile", "FI_EMP_PROFILE"),
            (c"fault", "FI_EMP_FAULT"),
            (c"linger", "FI_EMP_LINGER"),
        ] {
            assert!(with(name, "nonsense").unwrap_err().starts_with(variable));
        }
    }
}
