//! Interfaces as users name them.

use emp_firmware::limits::INTERFACES_MAX;

use crate::bail_user;

/// The interface to measure on, and those that EMP takes beside it.
pub fn first_of(
    interface: &Option<String>,
    interfaces: &[String],
) -> anyhow::Result<(Option<String>, Vec<String>)> {
    if interfaces.len() > INTERFACES_MAX {
        bail_user!(
            "EMP uses at most {INTERFACES_MAX} interfaces together; --interfaces has {}",
            interfaces.len()
        );
    }
    for (at, name) in interfaces.iter().enumerate() {
        if interfaces[..at].contains(name) {
            bail_user!("--interfaces names {name} twice");
        }
    }
    let first = interfaces.first().or(interface.as_ref()).cloned();
    Ok((first, interfaces.iter().skip(1).cloned().collect()))
}
