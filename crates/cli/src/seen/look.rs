//! The look at state files: which nodes are meant, and what their processes do.

use std::path::PathBuf;

use emp_state::process::{Life, monotonic};
use emp_state::{Snapshot, look, read};

use crate::bail_user;

/// Which nodes.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Which {
    /// Only nodes of this name, identity (16 digits), process or MPI rank (`rank 3`).
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Read this state file, and no others.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// What commands that print once take.
#[derive(clap::Args)]
pub struct Listing {
    #[command(flatten)]
    pub which: Which,
    /// For programs to read.
    #[arg(long)]
    pub json: bool,
    /// Print once and end, as this always does.
    #[arg(long, hide = true)]
    once: bool,
}

impl Listing {
    /// Looks. Ranks of a job stand together, in order.
    pub fn look(&self) -> anyhow::Result<Seen> {
        let mut seen = self.which.look()?;
        by_job(&mut seen);
        Ok(seen)
    }
}

/// All nodes that this user may see, and when that was.
pub struct Seen {
    pub nodes: Vec<Snapshot>,
    /// Nanoseconds of the machine's clock.
    pub now: u64,
    /// Files that show no node, or not all of it: a line each.
    pub odd: Vec<String>,
}

impl Which {
    /// Looks. A file that shows no node is said in one line and passed over, unless it is the one that was named.
    pub fn look(&self) -> anyhow::Result<Seen> {
        let seen = self.look_silently()?;
        seen.odd.iter().for_each(|line| eprintln!("emp: {line}"));
        Ok(seen)
    }

    /// The same, with those lines to be said by the caller.
    pub fn look_silently(&self) -> anyhow::Result<Seen> {
        let (nodes, mut odd) = self.look_at_all()?;
        let nodes = self.pick(nodes)?;
        let torn = |node: &&Snapshot| node.torn;
        odd.extend(nodes.iter().filter(torn).map(|node| {
            let file = node.path.display();
            format!("{file} was being written when its process stopped: what it says may be of two moments")
        }));
        Ok(Seen { nodes, now: monotonic(), odd })
    }

    fn look_at_all(&self) -> anyhow::Result<(Vec<Snapshot>, Vec<String>)> {
        if let Some(file) = &self.file {
            return match read(file) {
                Ok(found) => Ok((vec![found], Vec::new())),
                Err(refusal) => bail_user!("{} {refusal}", file.display()),
            };
        }
        let (mut nodes, mut odd) = (Vec::new(), Vec::new());
        for (path, found) in look() {
            match found {
                Ok(found) => nodes.push(found),
                Err(refusal) => odd.push(format!("{} {refusal}", path.display())),
            }
        }
        Ok((nodes, odd))
    }

    fn pick(&self, mut nodes: Vec<Snapshot>) -> anyhow::Result<Vec<Snapshot>> {
        let Some(wanted) = &self.node else { return Ok(nodes) };
        nodes.retain(|node| is_called(node, wanted));
        if nodes.is_empty() {
            bail_user!(
                "no node {wanted} runs here, or none that you may see; emp nodes lists them"
            );
        }
        Ok(nodes)
    }
}

/// Ranks of a job stand together, in order.
pub fn by_job(seen: &mut Seen) {
    seen.nodes.sort_by_cached_key(|node| {
        let identity = &node.identity;
        (identity.job.show(), identity.rank, identity.name.show(), identity.process)
    });
}

/// A node is meant by this.
pub fn is_called(node: &Snapshot, wanted: &str) -> bool {
    let identity = &node.identity;
    identity.name.show() == wanted
        || format!("{:016x}", identity.node) == wanted
        || wanted.parse() == Ok(identity.process)
        || is_rank(node, wanted)
}

/// A node is the rank that is meant by this: `rank 3`.
pub fn is_rank(node: &Snapshot, wanted: &str) -> bool {
    let rank = wanted.strip_prefix("rank").map(|text| text.trim().parse::<i32>());
    matches!(rank, Some(Ok(rank)) if rank >= 0 && node.identity.rank == rank)
}

/// What its process does, in a word.
pub fn doing(life: Life) -> &'static str {
    match life {
        Life::Elsewhere => "elsewhere",
        Life::Gone => "gone",
        Life::Alive(stat) => match stat.state {
            'R' => "runs",
            'S' => "sleeps",
            'D' => "in kernel",
            'T' => "stopped",
            't' => "debugged",
            _ => "?",
        },
    }
}
