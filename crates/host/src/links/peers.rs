//! Where nodes may be found by datagrams that no search reaches: `EMP_PEERS`, a list of hosts, or files of such lists.

use std::net::{IpAddr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use emp_wire::UDP_PORT_DEFAULT;

/// The variable that lists them.
const VARIABLE: &str = "EMP_PEERS";

/// Most addresses of a list: each is asked for each node that is looked for.
const PEERS_MAX: usize = 256;

/// Bytes of a file that are read at most: that many names of usual length, with remarks.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What the environment lists; nothing if it does not.
///
/// # Errors
///
/// It makes no sense: a line for the user.
pub(crate) fn asked_for() -> Result<Vec<SocketAddr>, String> {
    match std::env::var(VARIABLE) {
        Ok(list) => listed_peers(&list).map_err(|problem| format!("{VARIABLE}={list}: {problem}")),
        Err(_) => Ok(Vec::new()),
    }
}

/// The addresses of a list: `host`, `host:port`, `[IPv6]:port`, separated by commas; `fe80::1%eth0` for an address that is valid on one link only; all
/// addresses of a name in DNS; `@FILE` for the lines of a file, in which `#` begins a remark.
///
/// # Errors
///
/// It makes no sense: a line for the user.
pub fn listed_peers(list: &str) -> Result<Vec<SocketAddr>, String> {
    let mut found = Vec::new();
    for item in items(list) {
        match item.strip_prefix('@') {
            Some(file) => {
                for item in items(&read(file)?) {
                    add(&mut found, item).map_err(|problem| format!("{file}: {problem}"))?;
                }
            }
            None => add(&mut found, item)?,
        }
    }
    Ok(found)
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|item| !item.is_empty())
}

fn read(file: &str) -> Result<String, String> {
    use std::io::Read;
    let problem = |error: std::io::Error| format!("{file} cannot be read: {error}");
    let opened = std::fs::File::open(file).map_err(problem)?;
    let mut text = String::new();
    opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(problem)?;
    Ok(text)
}

fn add(found: &mut Vec<SocketAddr>, item: &str) -> Result<(), String> {
    for address in addresses(item)? {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    if found.len() > PEERS_MAX {
        return Err(format!("more than {PEERS_MAX} addresses"));
    }
    Ok(())
}

/// The addresses of a host, at its port or the usual one.
fn addresses(item: &str) -> Result<Vec<SocketAddr>, String> {
    let (host, port) = split(item)?;
    if port == 0 {
        return Err(format!("`{item}` has port 0"));
    }
    if let Some((ip, interface)) = host.split_once('%') {
        let ip = ip.parse().map_err(|_| format!("`{item}`: `{ip}` is no IPv6 address"))?;
        return Ok(vec![SocketAddrV6::new(ip, port, 0, scope(interface)?).into()]);
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let found = (host, port).to_socket_addrs().map_err(|error| {
        format!("`{host}` is no address and no known host: {}", first_line(&error.to_string()))
    })?;
    Ok(found.collect())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Host and port. An IPv6 address with a port has brackets.
fn split(item: &str) -> Result<(&str, u16), String> {
    let number = |port: &str| port.parse().map_err(|_| format!("`{item}`: `{port}` is no port"));
    let wrong = || format!("`{item}` is no host, host:port or [IPv6]:port");
    if let Some(rest) = item.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, number(port)?)),
            None if rest.is_empty() => Ok((host, UDP_PORT_DEFAULT)),
            None => Err(wrong()),
        };
    }
    let (host, port) = match item.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, number(port)?),
        _ => (item, UDP_PORT_DEFAULT),
    };
    let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
    if is_host { Ok((host, port)) } else { Err(wrong()) }
}

/// The number of an interface, by its name or itself.
fn scope(interface: &str) -> Result<u32, String> {
    if let Ok(number) = interface.parse() {
        return Ok(number);
    }
    let all = emp_link::interfaces().unwrap_or_default();
    let known = all.iter().find(|one| one.name == interface).map(|one| one.index);
    known.ok_or_else(|| format!("there is no interface {interface}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(list: &str) -> Vec<String> {
        listed_peers(list).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn hosts_are_addresses_with_or_without_a_port() {
        assert_eq!(show("10.0.0.1, 10.0.0.2:7,,"), ["10.0.0.1:51966", "10.0.0.2:7"]);
        assert_eq!(show("fd00::1,[fd00::2]:9,[fd00::3]").len(), 3);
        assert_eq!(show("[fd00::2]:9"), ["[fd00::2]:9"]);
        assert_eq!(show("fe80::1%7"), ["[fe80::1%7]:51966"]);
        assert_eq!(show("[fe80::1%lo]:8"), ["[fe80::1%1]:8"]);
        assert_eq!(show("10.0.0.1,10.0.0.1:51966"), ["10.0.0.1:51966"], "once");
        assert!(show("localhost:9").iter().all(|at| at.ends_with(":9")), "a name");
        assert!(show("").is_empty());
    }

    #[test]
    fn a_file_has_lines_and_remarks() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("peers");
        std::fs::write(&file, "# mine\n10.0.0.1\n10.0.0.2:7 # the other\n\n10.0.0.3,10.0.0.4\n")
            .unwrap();
        let list = format!("@{},10.0.0.5", file.display());
        assert_eq!(show(&list).len(), 5);
        std::fs::write(&file, "10.0.0.1\n10.0.0.2:x\n").unwrap();
        let error = listed_peers(&list).unwrap_err();
        assert!(error.contains("peers: ") && error.contains("`x` is no port"), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_one_line() {
        for (list, said) in [
            ("10.0.0.1:99999", "`99999` is no port"),
            ("10.0.0.1:0", "port 0"),
            (":7", "no host"),
            ("a b", "no host"),
            ("[fd00::1", "no host"),
            ("[fd00::1]7", "no host"),
            ("fe80::1%nowhere9", "no interface nowhere9"),
            ("10.0.0.1%lo", "no IPv6 address"),
            ("@/nowhere/peers", "cannot be read"),
            ("no.such.host.invalid", "no known host"),
        ] {
            let error = listed_peers(list).unwrap_err();
            assert!(error.contains(said) && !error.contains('\n'), "{list}: {error}");
        }
        let many: Vec<_> =
            (0..=PEERS_MAX).map(|n| format!("10.1.{}.{}", n / 256, n % 256)).collect();
        assert!(listed_peers(&many.join(",")).unwrap_err().contains("more than"));
    }
}
