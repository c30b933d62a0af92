//! What steers TCP between a lab's hosts, for programs that choose nothing themselves: a property of the hosts' routes, so that
//! the machine outside keeps what it has.

use super::host::Host;
use super::ip;

/// The word of `ip route` before the name.
const WORD: &str = "congctl";

/// Chooses for all connections that begin from now on, until it is dropped.
pub struct Steering {
    namespaces: Vec<String>,
}

impl Steering {
    /// Of these hosts. Nothing is chosen yet.
    pub fn of<'a>(hosts: impl IntoIterator<Item = &'a Host<'a>>) -> Self {
        Self { namespaces: hosts.into_iter().map(Host::namespace).collect() }
    }

    /// Chooses one of the kernel's congestion controls, or again what the hosts have by themselves.
    pub fn choose(&self, name: Option<&str>) -> anyhow::Result<()> {
        self.namespaces.iter().try_for_each(|namespace| {
            let routes = ip::run(&["-n", namespace, "route", "show"])?;
            let lines: Vec<String> = routes.lines().map(|route| steered(route, name)).collect();
            ip::batch(namespace, &lines)
        })
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        // A lab that is gone has no routes.
        let _ = self.choose(None);
    }
}

/// The command that gives a route, as `ip` shows it, this congestion control and no other.
fn steered(route: &str, name: Option<&str>) -> String {
    let mut words: Vec<&str> = route.split_whitespace().collect();
    if let Some(at) = words.iter().position(|word| *word == WORD) {
        words.drain(at..words.len().min(at + 2));
    }
    words.extend(name.into_iter().flat_map(|name| [WORD, name]));
    format!("route change {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_one_congestion_control_or_none() {
        let route = "10.77.0.0/24 dev emp0 proto kernel scope link src 10.77.0.1";
        let cubic = format!("route change {route} congctl cubic");
        assert_eq!(steered(&format!("{route} "), Some("cubic")), cubic);
        assert_eq!(steered(&format!("{route} congctl bbr"), Some("cubic")), cubic);
        assert_eq!(steered(&format!("{route} congctl bbr"), None), format!("route change {route}"));
        assert_eq!(steered(&format!("{route} congctl"), None), format!("route change {route}"));
    }
}
