//! Ranges of hosts and ports, as `fi_av_insertsym` names them by the first of each.

use std::net::IpAddr;

/// Texts of a range. No text: what was not given stays so.
pub type Range = Box<dyn Iterator<Item = Option<String>>>;

/// The hosts from `first` on: following addresses, or names with following numbers at their ends. `None`: there is no
/// such range.
pub fn hosts(first: Option<&str>, count: usize) -> Option<Range> {
    let last = count.checked_sub(1)? as u64;
    let Some(host) = first.filter(|_| count > 1) else {
        return Some(Box::new(std::iter::once(first.map(str::to_owned))));
    };
    match host.parse() {
        Ok(IpAddr::V4(ip)) => {
            let ip = u32::from(ip);
            ip.checked_add(u32::try_from(last).ok()?)?;
            let host = move |step: u64| IpAddr::V4((ip + step as u32).into()).to_string();
            Some(Box::new((0..=last).map(move |step| Some(host(step)))))
        }
        Ok(IpAddr::V6(ip)) => {
            let ip = u128::from(ip);
            ip.checked_add(last.into())?;
            let host = move |step: u64| IpAddr::V6((ip + u128::from(step)).into()).to_string();
            Some(Box::new((0..=last).map(move |step| Some(host(step)))))
        }
        Err(_) => {
            let stem = host.trim_end_matches(|last: char| last.is_ascii_digit()).to_owned();
            let digits = &host[stem.len()..];
            // node09, node10: the width stays.
            let (number, width) = (digits.parse::<u64>().ok()?, digits.len());
            number.checked_add(last)?;
            let name = move |step| format!("{stem}{:0width$}", number + step);
            Some(Box::new((0..=last).map(move |step| Some(name(step)))))
        }
    }
}

/// The ports from `first` on, to be gone through for each host.
pub fn ports(
    first: Option<&str>,
    count: usize,
) -> Option<impl Iterator<Item = Option<String>> + Clone + 'static> {
    let last = count.checked_sub(1)?;
    let all: Vec<Option<String>> = match first.filter(|_| count > 1) {
        None if count > 1 => return None,
        None => vec![first.map(str::to_owned)],
        Some(first) => {
            let first: u16 = first.parse().ok()?;
            let last = first.checked_add(u16::try_from(last).ok()?)?;
            (first..=last).map(|port| Some(port.to_string())).collect()
        }
    };
    Some(all.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: &str, count: usize) -> Option<Vec<String>> {
        Some(hosts(Some(first), count)?.flatten().collect())
    }

    #[test]
    fn hosts_follow_each_other() {
        assert_eq!(range("10.1.1.255", 2).unwrap(), ["10.1.1.255", "10.1.2.0"]);
        assert_eq!(range("fd00::f", 2).unwrap(), ["fd00::f", "fd00::10"]);
        assert_eq!(range("host10", 2).unwrap(), ["host10", "host11"]);
        assert_eq!(range("n09", 3).unwrap(), ["n09", "n10", "n11"]);
        assert_eq!(range("alone", 1).unwrap(), ["alone"]);
        assert!(hosts(None, 1).unwrap().eq([None]));
        for (first, count) in
            [("255.255.255.255", 2), ("alone", 2), ("x", 0), ("10.0.0.1", 1 << 33)]
        {
            assert!(range(first, count).is_none(), "{first} {count}");
        }
    }

    #[test]
    fn ports_follow_each_other() {
        let range = |first, count| Some(ports(first, count)?.flatten().collect::<Vec<_>>());
        assert_eq!(range(Some("5000"), 2).unwrap(), ["5000", "5001"]);
        assert_eq!(range(Some("http"), 1).unwrap(), ["http"]);
        assert!(range(None, 1).unwrap().is_empty());
        for (first, count) in [(Some("65535"), 2), (Some("http"), 2), (None, 2), (Some("1"), 0)] {
            assert!(range(first, count).is_none());
        }
    }
}
