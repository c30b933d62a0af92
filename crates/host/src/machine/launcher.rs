//! What launchers of jobs leave in the environment of what they start: by which of this machine's addresses they reach it, and which rank of
//! which job a process is.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use emp_link::{Ranked, interfaces};

/// Where launchers say where they are themselves: Slurm, Open MPI 4, Open MPI 5.
const THEIRS: [&str; 3] =
    ["SLURM_LAUNCH_NODE_IPADDR", "OMPI_MCA_orte_hnp_uri", "PRTE_MCA_prte_hnp_uri"];

/// A process's place in a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) launcher: &'static str,
    /// As the launcher calls it.
    pub(crate) name: String,
    pub(crate) rank: i32,
    /// 0: not said.
    pub(crate) ranks: u32,
}

/// Launchers, where each says rank, number of ranks, and the job's name. MPIs' own before Slurm, by which their launchers may have been started: a rank
/// of Slurm's is one of those then. Open MPI 4 has both its own and PMIx's.
const LAUNCHERS: [(&str, [&str; 3]); 4] = [
    ("openmpi", ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"]),
    ("pmix", ["PMIX_RANK", "PMIX_SIZE", "PMIX_NAMESPACE"]),
    ("hydra", ["PMI_RANK", "PMI_SIZE", "PMI_JOBID"]),
    ("slurm", ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID"]),
];

/// Jobs' names of what may have started a launcher that gives none.
const BATCH_SYSTEMS: [&str; 3] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"];

/// This process's place in its job. `None`: nobody says that it has one.
pub(crate) fn job() -> Option<Job> {
    job_by(|name| std::env::var(name).ok(), std::os::unix::process::parent_id())
}

fn job_by(variable: impl Fn(&str) -> Option<String>, parent: u32) -> Option<Job> {
    LAUNCHERS.iter().find_map(|&(launcher, [rank, ranks, name])| {
        let rank = variable(rank)?.parse().ok()?;
        let ranks = variable(ranks).and_then(|text| text.parse().ok()).unwrap_or(0);
        let batch = || BATCH_SYSTEMS.iter().find_map(|name| variable(name));
        // What the ranks of one machine have in common.
        let name = variable(name).or_else(batch).unwrap_or_else(|| format!("of process {parent}"));
        Some(Job { launcher, name, rank, ranks })
    })
}

/// The machine's interfaces, those first that are most likely meant where none is named ([`Class`](emp_link::Class)).
///
/// # Errors
///
/// The system does not list them.
pub fn ranked_interfaces() -> std::io::Result<Vec<Ranked>> {
    let own: Vec<IpAddr> = interfaces()?.into_iter().flat_map(|one| one.addresses).collect();
    let variable = |name: &str| std::env::var(name).ok();
    emp_link::ranked(&launcher_addresses(variable, &own, source))
}

/// `own`: this machine's addresses; `source` tells by which of them another one is reached.
fn launcher_addresses(
    variable: impl Fn(&str) -> Option<String>,
    own: &[IpAddr],
    source: impl Fn(IpAddr) -> Option<IpAddr>,
) -> Vec<IpAddr> {
    let mut found = Vec::new();
    // "CLIENT PORT SERVER PORT": started by ssh, as most launchers do it, it is reached by the server's address.
    let ssh = variable("SSH_CONNECTION");
    found.extend(ssh.as_deref().and_then(|text| text.split(' ').nth(2)?.parse::<IpAddr>().ok()));
    for text in THEIRS.iter().filter_map(|name| variable(name)) {
        // Of several the first: others may be of its own containers, with the addresses that all machines' containers have.
        let there = addresses_in(&text).find(|ip| !own.contains(ip) && !ip.is_loopback());
        found.extend(there.and_then(&source));
    }
    found.retain(|ip| own.contains(ip) && !ip.is_loopback());
    found
}

/// Addresses in a text like `4711.0;tcp://10.1.2.3,10.1.3.3:40123`.
fn addresses_in(text: &str) -> impl Iterator<Item = IpAddr> {
    let is_part = |letter: char| letter.is_ascii_digit() || letter == '.';
    text.split(move |letter| !is_part(letter))
        .filter_map(|part| Some(part.parse::<Ipv4Addr>().ok()?.into()))
}

/// The address that the kernel would send from. Nothing is sent.
fn source(to: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((to, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_mpi_and_not_of_what_started_its_launcher() {
        let of = |set: &[(&str, &str)]| {
            let find = |name: &str| Some(set.iter().find(|(key, _)| *key == name)?.1.to_owned());
            job_by(find, 77).map(|job| (job.launcher, job.name, job.rank, job.ranks))
        };
        assert_eq!(of(&[("HOME", "/")]), None);
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_JOB_ID", "12")];
        assert_eq!(of(&slurm), Some(("slurm", "12".into(), 0, 2)));
        let mut both = slurm.to_vec();
        both.extend([("PMI_RANK", "5"), ("PMI_SIZE", "8")]);
        assert_eq!(of(&both), Some(("hydra", "12".into(), 5, 8)));
        assert_eq!(of(&both[3..]), Some(("hydra", "of process 77".into(), 5, 8)));
        let own =
            [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_NAMESPACE", "9")];
        assert_eq!(of(&own), Some(("openmpi", "9".into(), 1, 4)));
        assert_eq!(of(&[("PMI_RANK", "many")]), None);
    }

    #[test]
    fn what_launchers_leave_in_the_environment_is_understood() {
        let own: Vec<IpAddr> =
            ["10.0.0.2", "172.17.0.1", "127.0.0.1"].map(|ip| ip.parse().unwrap()).into();
        let ask = |name: &str, text: &str| {
            let variable = |asked: &str| (asked == name).then(|| text.to_owned());
            let source = |to: IpAddr| (to.to_string() == "10.0.0.1").then_some(own[0]);
            launcher_addresses(variable, &own, source)
        };
        assert_eq!(ask("SSH_CONNECTION", "10.0.0.1 5022 10.0.0.2 22"), [own[0]]);
        assert!(ask("SSH_CONNECTION", "10.0.0.1 5022 10.0.0.9 22").is_empty(), "another machine's");
        assert_eq!(ask("SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"), [own[0]]);
        let uri = "1937375232.0;tcp://172.17.0.1,10.0.0.1,10.5.0.1:40123";
        assert_eq!(ask("OMPI_MCA_orte_hnp_uri", uri), [own[0]]);
        let here = "1.0;tcp://10.0.0.2,172.17.0.1:4";
        assert!(ask("OMPI_MCA_orte_hnp_uri", here).is_empty(), "it is here");
        assert!(ask("SSH_CONNECTION", "::1 1 ::1 2").is_empty());
        assert!(ask("HOME", "10.0.0.1").is_empty());
    }
}
