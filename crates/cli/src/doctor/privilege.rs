//! Who runs this, and what the kernel lets them do.

use super::finding::Finding;
use crate::lab;
use crate::process::{self, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN};

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

/// How an ordinary user gets raw frames.
pub fn set_capability() -> String {
    let program = std::env::current_exe();
    let program = program.map_or_else(|_| "emp".to_owned(), |path| path.display().to_string());
    format!("sudo setcap cap_net_raw+ep {program}")
}
