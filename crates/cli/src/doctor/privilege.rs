//! Who runs this, and what the kernel lets them do.

use super::finding::Finding;
use crate::lab;
use crate::process::{self, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN};
use emp_link::service::{ask, socket_path};

/// Looks at this process.
pub fn inspect() -> Vec<Finding> {
    let (user, _) = process::effective_ids();
    let user = if user == 0 { "root".to_owned() } else { format!("uid {user}") };
    let mut findings = vec![Finding::note("user", user)];
    findings.push(match process::has_capability(CAP_NET_RAW) {
        true => Finding::ok("CAP_NET_RAW", "yes: raw Ethernet frames"),
        false => {
            Finding::warn("CAP_NET_RAW", "no: raw Ethernet frames are closed", set_capability())
        }
    });
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
                "lends this user raw sockets, by which any frame can be sent (docs/guide/trust.md)"
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
    let program = std::env::current_exe();
    let program = program.map_or_else(|_| "emp".to_owned(), |path| path.display().to_string());
    format!("sudo setcap cap_net_raw+ep {program}")
}
