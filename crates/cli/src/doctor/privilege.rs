//! Who runs this, and what the kernel lets them do.

use super::trials;
use crate::finding::Finding;
use crate::lab;
use crate::process::{self, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN};
use emp_link::service::{ask, socket_path};

/// Looks at this process.
pub fn inspect() -> Vec<Finding> {
    let (user, _) = process::effective_ids();
    let user = if user == 0 { "root".to_owned() } else { format!("uid {user}") };
    let mut findings = vec![Finding::note("user", user)];
    findings.push(raw(process::has_capability(CAP_NET_RAW), trials::packet_socket().is_ok()));
    findings.push(service());
    findings.push(match process::has_capability(CAP_NET_ADMIN) {
        true => Finding::ok("CAP_NET_ADMIN", "yes: may set up interfaces"),
        false => Finding::note("CAP_NET_ADMIN", "no: needed only to set up interfaces and AF_XDP"),
    });
    findings.push(match process::has_capability(CAP_SYS_ADMIN) {
        true => Finding::ok("CAP_SYS_ADMIN", "yes: labs are made directly"),
        false => Finding::note("CAP_SYS_ADMIN", "no: labs need a user namespace instead"),
    });
    findings.push(match lab::user_namespaces() {
        Ok(()) => Finding::ok("user namespaces", "allowed: labs work without root"),
        Err(why) => Finding::note("user namespaces", format!("no: {why}")),
    });
    findings
}

/// A capability of a user namespace says nothing of a network that belongs to another: it is tried.
fn raw(has: bool, opens: bool) -> Finding {
    let name = "CAP_NET_RAW";
    match (has, opens) {
        (true, true) => Finding::ok(name, "yes: raw Ethernet frames"),
        (true, false) if process::in_user_namespace() => {
            let says = "in this user namespace, to which the network does not belong: raw Ethernet frames are closed";
            Finding::warn(name, says, set_capability())
        }
        // What is in the way is said of the kernel.
        (true, false) => Finding::note(name, "yes, but raw Ethernet frames are closed"),
        (false, _) => Finding::warn(name, "no: raw Ethernet frames are closed", set_capability()),
    }
}

/// What the service gives to this user.
fn service() -> Finding {
    let path = socket_path();
    let place = path.display();
    if !path.exists() {
        let none = format!("none at {place}: programs without privilege take udp");
        return Finding::note("empd", none);
    }
    match ask(&path) {
        Ok(welcome) => {
            let lends = if welcome.lends {
                "lends this user raw sockets: who has one may keep it, send any frame by it, and have the \
                 interface take up all frames (docs/guide/trust.md)"
            } else {
                "lends this user no sockets"
            };
            let attaches =
                if welcome.attaches { "carries its frames" } else { "carries none of its frames" };
            Finding::ok("empd", format!("at {place}: {lends}; {attaches}"))
        }
        Err(problem) => {
            Finding::warn("empd", format!("{place}: {problem}"), "look at empd's log".to_owned())
        }
    }
}

/// How an ordinary user gets raw frames.
pub fn set_capability() -> String {
    if process::in_user_namespace() {
        return "the host decides, and setcap in here does not help: the host's root may start this with CAP_NET_RAW outside of user namespaces".to_owned();
    }
    let program = std::env::current_exe();
    let program = program.map_or_else(|_| "emp".to_owned(), |path| path.display().to_string());
    format!("sudo setcap cap_net_raw+ep {program}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Mark;

    #[test]
    fn a_capability_that_opens_nothing_is_not_called_well() {
        assert_eq!(raw(true, true).mark, Mark::Ok);
        assert_ne!(raw(true, false).mark, Mark::Ok);
        assert_eq!(raw(false, false).mark, Mark::Warn);
    }
}
