//! What the kernel offers EMP's links, each tried and not guessed from a version.

use std::io;
use std::path::Path;

use emp_link::{LinkError, XdpLink};

use super::privilege::set_capability;
use super::trials;
use crate::finding::{Finding, read};

/// Bytes. Rings and frame pools of one node with every link in use, rounded up.
const WANTED_LOCKED_MEMORY: u64 = 64 << 20;

/// Looks at the kernel.
pub fn inspect() -> Vec<Finding> {
    let release = read(Path::new("/proc/sys/kernel/osrelease"));
    vec![
        release.map_or_else(|| Finding::not_visible("release"), |r| Finding::note("release", r)),
        packet(trials::packet_socket()),
        xdp(XdpLink::probe()),
        segmentation("UDP_SEGMENT", trials::udp_segment(), "sending"),
        segmentation("UDP_GRO", trials::udp_gro(), "receiving"),
        locked_memory(trials::locked_memory_limit()),
        huge_pages(read(Path::new(HUGE_PAGES)).as_deref()),
        other_processes(trials::process_memory(), read(Path::new(PTRACE_SCOPE)).as_deref()),
    ]
}

/// Yama's say in who may read another process' memory; absent where Yama is.
const PTRACE_SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

fn packet(probed: io::Result<()>) -> Finding {
    match probed {
        Ok(()) => Finding::ok("AF_PACKET", "opens"),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            Finding::warn("AF_PACKET", "there, but not for this user", set_capability())
        }
        Err(error) => Finding::warn(
            "AF_PACKET",
            format!("does not open: {error}"),
            "use a kernel with CONFIG_PACKET; until then EMP runs over UDP",
        ),
    }
}

fn xdp(probed: Result<(), LinkError>) -> Finding {
    match probed {
        Ok(()) => Finding::ok(
            "AF_XDP",
            "socket opens, program loads: --link xdp works (auto takes packet, which is faster where the kernel copies)",
        ),
        Err(error) => Finding::note(
            "AF_XDP",
            format!("--link xdp does not work: {}; {}", error.problem, error.advice),
        ),
    }
}

fn segmentation(name: &str, probed: io::Result<()>, direction: &str) -> Finding {
    match probed {
        Ok(()) => Finding::ok(name, format!("yes: {direction} in trains of datagrams")),
        Err(error) => Finding::warn(
            name,
            format!("no ({error}): {direction} one datagram a call"),
            "a kernel from 5.0 on has it; large messages over UDP are several times slower without",
        ),
    }
}

fn locked_memory(limit: io::Result<Option<u64>>) -> Finding {
    const NAME: &str = "locked memory";
    match limit {
        Ok(None) => Finding::ok(NAME, "no limit"),
        Ok(Some(bytes)) if bytes >= WANTED_LOCKED_MEMORY => {
            Finding::ok(NAME, format!("up to {} MiB", bytes >> 20))
        }
        Ok(Some(bytes)) => Finding::warn(
            NAME,
            format!("up to {} KiB", bytes >> 10),
            format!("ulimit -l {} (or /etc/security/limits.conf)", WANTED_LOCKED_MEMORY >> 10),
        ),
        Err(_) => Finding::not_visible(NAME),
    }
}

/// Who gets huge pages: `always`, `madvise` or `never`, the one that holds in brackets.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

fn huge_pages(policy: Option<&str>) -> Finding {
    const NAME: &str = "huge pages";
    let taken = policy.and_then(|all| all.split(['[', ']']).nth(1));
    match taken {
        Some("always") => {
            Finding::ok(NAME, "for all memory: long messages are sent quickest from there")
        }
        Some("madvise") => Finding::note(
            NAME,
            "for programs that ask (EMP's PageBuffer does; GLIBC_TUNABLES=glibc.malloc.hugetlb=1 for others)",
        ),
        Some("never") => Finding::warn(
            NAME,
            "never",
            format!(
                "echo madvise > {HUGE_PAGES}; until then large messages over UDP take some percent longer"
            ),
        ),
        _ => Finding::not_visible(NAME),
    }
}

fn other_processes(probed: io::Result<()>, scope: Option<&str>) -> Finding {
    const NAME: &str = "process_vm_readv";
    let advice = "sudo sysctl kernel.yama.ptrace_scope=0; until then large messages between \
                  processes of this machine are copied twice";
    match (probed, scope) {
        (Err(error), _) => Finding::warn(
            NAME,
            format!("refused: {error}"),
            "a sandbox or container forbids it; large messages inside this machine are copied twice",
        ),
        (Ok(()), None | Some("0")) => Finding::ok(NAME, "between processes of one user"),
        (Ok(()), Some(scope)) => {
            Finding::warn(NAME, format!("restricted: ptrace_scope is {scope}"), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Mark;

    fn refused(code: i32) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(code))
    }

    #[test]
    fn missing_privilege_and_missing_support_get_different_advice() {
        let closed = packet(refused(libc::EPERM));
        let absent = packet(refused(libc::EAFNOSUPPORT));
        assert!(closed.advice.unwrap().contains("setcap"));
        assert!(absent.advice.unwrap().contains("CONFIG_PACKET"));
        assert_eq!(packet(Ok(())).mark, Mark::Ok);
    }

    #[test]
    fn a_small_memory_limit_is_worth_a_warning() {
        assert_eq!(locked_memory(Ok(None)).mark, Mark::Ok);
        assert_eq!(locked_memory(Ok(Some(WANTED_LOCKED_MEMORY))).mark, Mark::Ok);
        let small = locked_memory(Ok(Some(8 << 20)));
        assert_eq!((small.mark, small.value.as_str()), (Mark::Warn, "up to 8192 KiB"));
        assert!(small.advice.unwrap().starts_with("ulimit -l 65536"));
    }

    #[test]
    fn the_policy_of_huge_pages_is_the_one_in_brackets() {
        assert_eq!(huge_pages(Some("[always] madvise never")).mark, Mark::Ok);
        assert_eq!(huge_pages(Some("always [madvise] never")).mark, Mark::Note);
        assert_eq!(huge_pages(Some("always madvise [never]")).mark, Mark::Warn);
        assert_eq!(huge_pages(None).value, "not visible");
        assert_eq!(huge_pages(Some("nonsense")).value, "not visible");
    }

    #[test]
    fn yama_is_heard() {
        assert_eq!(other_processes(Ok(()), None).mark, Mark::Ok);
        assert_eq!(other_processes(Ok(()), Some("0")).mark, Mark::Ok);
        assert_eq!(other_processes(Ok(()), Some("1")).mark, Mark::Warn);
        assert_eq!(other_processes(refused(libc::EPERM), Some("0")).mark, Mark::Warn);
    }
}
