//! What users can set: `FI_EMP_…`, which the core tells of, or else the `EMP_…` that all faces have.

use std::ffi::{CStr, CString};

use emp_face::log;
use emp_face::settings::{SETTINGS, Set, Settings, environment};

use crate::core;

/// A parameter's name, for the core, of the setting of this name; `None`: libfabric has no use for it.
fn parameter_name(setting: &str) -> Option<CString> {
    match setting {
        // Nodes are told apart by numbers, and addresses are exchanged by those who run the processes.
        "NAME" => None,
        // An environment made for libfabric cannot be changed any more.
        "INTERFACE" => Some(c"iface".to_owned()),
        _ => CString::new(setting.to_lowercase()).ok(),
    }
}

/// Tells the core what there is to set.
pub fn define() {
    for (setting, help) in SETTINGS {
        if let (Some(name), Ok(help)) = (parameter_name(setting), CString::new(help)) {
            core::define_parameter(&name, &help);
        }
    }
}

/// Reads what is set. A value that makes no sense is an error that is said aloud.
pub fn read() -> Result<Settings, ()> {
    let read = Settings::read(|setting| look(setting, core::parameter));
    read.map(|settings| Settings { timeout_variable: "FI_EMP_TIMEOUT".into(), ..settings })
        .map_err(|problem| log::error(&problem))
}

fn look(setting: &str, parameter: impl Fn(&CStr) -> Option<String>) -> Option<Set> {
    let name = parameter_name(setting)?;
    match parameter(&name) {
        Some(value) => {
            let variable = format!("FI_EMP_{}", name.to_string_lossy().to_uppercase());
            Some(Set { variable, value })
        }
        None => environment(setting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &CStr, value: &str) -> Result<Settings, String> {
        let parameter = |asked: &CStr| (asked == name).then(|| value.to_string());
        Settings::read(|setting| look(setting, parameter))
    }

    #[test]
    fn parameters_are_settings() {
        assert_eq!(with(c"iface", "a, b,").unwrap().interfaces, ["a", "b"]);
        let collections = with(c"collection", "3,bob=5").unwrap().collections;
        assert_eq!((collections.all, collections.of), (Some(3), vec![("bob".to_owned(), 5)]));
        for wrong in ["0", "65536", "-1", "bob="] {
            assert!(with(c"collection", wrong).unwrap_err().starts_with("FI_EMP_COLLECTION="));
        }
        assert_eq!(with(c"linger", "5").unwrap().linger.as_millis(), 5);
        assert_eq!(with(c"name", "ann").unwrap().name, None);
    }

    /// The one table of all faces, which the book and emp(7) have.
    #[test]
    fn the_guide_has_each_setting_by_both_names() {
        let guide = include_str!("../../../docs/guide/settings.md");
        let named = |name: &str| format!("`{}`", name.to_uppercase());
        for (setting, _) in SETTINGS {
            let row = format!("\n| {}", named(&format!("emp_{setting}")));
            let line = guide.split_once(&row).map(|(_, rest)| rest.lines().next().unwrap_or(""));
            let line = line.unwrap_or_else(|| panic!("settings.md has no row of EMP_{setting}"));
            if let Some(name) = parameter_name(setting) {
                let name = named(&format!("fi_emp_{}", name.to_string_lossy()));
                assert!(line.contains(&name), "settings.md does not say {name}");
            }
        }
    }

    #[test]
    fn mistakes_name_the_variable() {
        for (name, variable) in [
            (c"link", "FI_EMP_LINK"),
            (c"profile", "FI_EMP_PROFILE"),
            (c"collection", "FI_EMP_COLLECTION"),
            (c"fault", "FI_EMP_FAULT"),
            (c"eager", "FI_EMP_EAGER"),
            (c"timeout", "FI_EMP_TIMEOUT"),
            (c"wait", "FI_EMP_WAIT"),
            (c"linger", "FI_EMP_LINGER"),
            (c"board", "FI_EMP_BOARD"),
            (c"integrity", "FI_EMP_INTEGRITY"),
            (c"udp_past_ip", "FI_EMP_UDP_PAST_IP"),
        ] {
            assert!(with(name, "nonsense").unwrap_err().starts_with(variable));
        }
    }
}
