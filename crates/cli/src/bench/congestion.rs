//! TCP at its fastest: it is measured under each of the usual congestion controls, and the faster one counts, size by size.
//!
//! Linux's default is cubic; some systems choose bbr, which paces what it sends and takes up to four times as long for a long
//! message between two programs on one machine. Which of the two is faster depends on the size and on what is between the ends.

use std::net::{Ipv4Addr, TcpListener};

use socket2::{Domain, SockRef, Socket, Type};

use super::job::{Spec, SubjectKind};
pub use crate::measured::CONGESTION_NAMES as NAMES;

/// Those of them that this process may choose for a connection: kernels have them or not, and allow them to everybody or to root.
/// Tried, because no list says what is allowed to whom.
pub fn available() -> Vec<String> {
    let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, None) else { return Vec::new() };
    let allowed = |name: &&str| socket.set_tcp_congestion(name.as_bytes()).is_ok();
    NAMES.into_iter().filter(allowed).map(str::to_owned).collect()
}

/// What a connection has that chooses nothing.
pub fn usual() -> Option<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let name = SockRef::from(&listener).tcp_congestion().ok()?;
    let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Those that both ends may choose.
pub fn common(own: &[String], theirs: &[String]) -> Vec<String> {
    own.iter().filter(|name| theirs.contains(name)).cloned().collect()
}

/// Each subject of TCP once for each congestion control. Where none can be chosen it stays as the kernels have it.
pub fn expand(specs: Vec<Spec>, names: &[String]) -> Vec<Spec> {
    let each = |spec: Spec| match spec.is_tcp() && !names.is_empty() {
        true => names
            .iter()
            .map(|name| Spec { congestion: Some(name.clone()), ..spec.clone() })
            .collect(),
        false => vec![spec],
    };
    specs.into_iter().flat_map(each).collect()
}

/// What to tell the user if TCP can't be measured under all of them.
pub fn missing(names: &[String]) -> Option<String> {
    let missing: Vec<&str> =
        NAMES.into_iter().filter(|name| !names.iter().any(|other| other == name)).collect();
    let under = match (missing.as_slice(), names) {
        ([], _) => return None,
        (_, []) => "as the kernels have it".to_owned(),
        (_, names) => format!("under {}", names.join(" and ")),
    };
    Some(format!(
        "TCP is measured {under}: {} can't be chosen at both ends (modprobe tcp_{}; sysctl \
         net.ipv4.tcp_allowed_congestion_control says what users other than root may choose)",
        missing.join(" and "),
        missing[0]
    ))
}

/// Of results at one size, those of TCP that were the fastest of their kind, and all others, in their order. `speed` is the
/// more the faster; what has none is slower than what has.
pub fn fastest<T>(
    all: Vec<T>,
    kind: impl Fn(&T) -> SubjectKind,
    speed: impl Fn(&T) -> Option<f64>,
) -> Vec<T> {
    let mut chosen: Vec<T> = Vec::with_capacity(all.len());
    for one in all {
        let tcp = matches!(kind(&one), SubjectKind::Tcp | SubjectKind::TcpBlock);
        match chosen.iter_mut().find(|other| tcp && kind(other) == kind(&one)) {
            Some(other) if speed(&one) > speed(other) => *other = one,
            Some(_) => {}
            None => chosen.push(one),
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::job::LinkChoice;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn tcp_is_measured_under_each_and_nothing_else_is_multiplied() {
        let emp = Spec::emp(LinkChoice::Auto);
        let specs = vec![emp.clone(), emp.against(SubjectKind::Tcp), emp.against(SubjectKind::Raw)];
        let all = expand(specs.clone(), &names(&NAMES));
        let described: Vec<String> = all.iter().map(Spec::describe).collect();
        assert_eq!(described, ["emp", "tcp cubic", "tcp bbr", "raw"]);
        assert_eq!(expand(specs.clone(), &[]), specs);
    }

    #[test]
    fn what_is_missing_is_said_with_what_is_there() {
        assert_eq!(missing(&names(&NAMES)), None);
        let text = missing(&names(&["bbr"])).unwrap();
        assert!(text.contains("under bbr: cubic can't") && text.contains("tcp_cubic"), "{text}");
        assert!(missing(&[]).unwrap().contains("as the kernels have it: cubic and bbr can't"));
        assert_eq!(common(&names(&NAMES), &names(&["reno", "bbr"])), ["bbr"]);
    }

    #[test]
    fn the_faster_one_of_each_kind_counts() {
        use SubjectKind::{Emp, Raw, Tcp, TcpBlock};
        let all = vec![
            (Emp, 1, Some(9.0)),
            (Tcp, 2, Some(4.0)),
            (Tcp, 3, Some(5.0)),
            (Raw, 4, Some(9.0)),
            (Raw, 5, Some(9.5)),
            (TcpBlock, 6, Some(2.0)),
            (TcpBlock, 7, None),
        ];
        let chosen = fastest(all, |one| one.0, |one| one.2);
        let numbers: Vec<i32> = chosen.iter().map(|one| one.1).collect();
        assert_eq!(numbers, [1, 3, 4, 5, 6]);
    }

    #[test]
    fn a_connection_here_has_one_and_may_choose_those_that_are_available() {
        assert!(usual().is_some_and(|name| !name.is_empty()));
        for name in available() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            SockRef::from(&listener).set_tcp_congestion(name.as_bytes()).unwrap();
            let now = SockRef::from(&listener).tcp_congestion().unwrap();
            assert!(now.starts_with(name.as_bytes()), "{name}");
        }
    }
}
