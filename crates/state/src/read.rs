//! The reading half. The file may be anybody's: cut, of another version, no such file at all, or being written. It is read and not mapped,
//! so that nobody can make the reader's memory vanish, and every value in it is taken as one of its kind.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::field::Field;
use crate::layout::{
    COUNTERS_MAX, Counter, Head, IDENTITY_AT, Identity, LINKS_MAX, Link, MAGIC, NOTES_MAX, NOW_AT,
    Note, Now, PEER_BYTES, PEERS_AT, PEERS_MAX, Peer, SEQUENCE_AT, VERSION, counter_at, link_at,
    note_at, peer_at,
};
use crate::place;
use crate::process::{self, Life};

/// Files looked at in one directory: more nodes than a machine runs of one user.
const FILES_MAX: usize = 16_384;

/// Looks at what is being written before it is taken as it is. A writer is done in microseconds, unless it lost its core, which it has again
/// within some milliseconds; one that was stopped at that moment never is.
const TRIES: u32 = 20;

/// Between two such looks.
const TRY_EVERY: Duration = Duration::from_millis(1);

/// Why a file shows no node.
#[derive(Debug)]
pub enum Refusal {
    /// It does not begin as such files do.
    Foreign,
    /// Another version of EMP wrote it.
    Version(u32),
    /// It ends too soon: so many bytes of so many.
    Cut(u64, u64),
    /// It is no plain file, or longer than any.
    Kind,
    /// It belongs to somebody else than the directory.
    Owner,
    /// It can't be read.
    Io(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("is no state file of EMP"),
            Self::Version(version) => write!(
                f,
                "is a state file of version {version}, and this program reads version {VERSION}: use the emp of that program"
            ),
            Self::Cut(bytes, of) => write!(f, "is cut: {bytes} bytes of at least {of}"),
            Self::Kind => f.write_str("is no plain file, or too long for a state file"),
            Self::Owner => f.write_str("belongs to another user than its directory"),
            Self::Io(error) => write!(f, "can't be read: {error}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What a file said at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where it was read.
    pub path: PathBuf,
    /// Who the node is.
    pub identity: Identity,
    /// What its process does.
    pub life: Life,
    /// How it is.
    pub now: Now,
    /// Its links.
    pub links: Vec<Link>,
    /// What it has counted.
    pub counters: Vec<Counter>,
    /// What has happened lately, the oldest first.
    pub notes: Vec<Note>,
    /// The peers that are shown.
    pub peers: Vec<Peer>,
    /// Some of this was caught while it was being written, and the writer does not go on: numbers may be of two moments.
    pub torn: bool,
}

impl Snapshot {
    /// The value of a counter; 0 if there is none of this name.
    pub fn counter(&self, name: &str) -> u64 {
        let named = |counter: &&Counter| counter.name.show() == name;
        self.counters.iter().find(named).map_or(0, |counter| counter.value)
    }
}

/// Reads a file.
///
/// # Errors
///
/// That it shows no node that this program understands.
pub fn read(path: &Path) -> Result<Snapshot, Refusal> {
    // Neither a pipe nor a device that somebody put there may hold us up, nor a link lead us elsewhere.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() > peer_at(PEERS_MAX) as u64 {
        return Err(Refusal::Kind);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = fs::metadata(directory.unwrap_or(Path::new(".")))?;
    if directory.uid() != found.uid() {
        return Err(Refusal::Owner);
    }
    let identity = identity(&file, found.len())?;
    let (fixed, torn) = settled(&file, SEQUENCE_AT, PEERS_AT - SEQUENCE_AT)?;
    let fixed = &fixed[8..];
    let at = |place: usize| &fixed[place - NOW_AT..];
    let now = Now::take(fixed);
    let many = |count: u32, most: usize| (count as usize).min(most);
    let links = (0..many(now.links, LINKS_MAX)).map(|i| Link::take(at(link_at(i)))).collect();
    let counters = (0..many(now.counters, COUNTERS_MAX)).map(|i| Counter::take(at(counter_at(i))));
    let first = (now.notes as usize).saturating_sub(NOTES_MAX);
    let notes = (first..now.notes as usize).map(|i| Note::take(at(note_at(i % NOTES_MAX))));
    let (counters, notes) = (counters.collect(), notes.collect());
    let (peers, torn_peers) = peers(&file, found.len())?;
    let (path, life) = (path.to_path_buf(), process::life(&identity));
    let torn = torn || torn_peers;
    Ok(Snapshot { path, identity, life, now, links, counters, notes, peers, torn })
}

/// The beginning of a file.
fn identity(file: &File, bytes: u64) -> Result<Identity, Refusal> {
    let mut fixed = [0; SEQUENCE_AT];
    let got = at_most(file, 0, &mut fixed)?;
    if got < Head::BYTES {
        return Err(if got >= MAGIC.len() && fixed.starts_with(&MAGIC) {
            Refusal::Cut(bytes, PEERS_AT as u64)
        } else {
            Refusal::Foreign
        });
    }
    let head = Head::take(&fixed);
    if head.magic != MAGIC {
        return Err(Refusal::Foreign);
    }
    if head.version != VERSION {
        return Err(Refusal::Version(head.version));
    }
    if (head.fixed_bytes, head.peer_bytes) != (PEERS_AT as u32, PEER_BYTES as u32) {
        return Err(Refusal::Foreign);
    }
    if bytes < PEERS_AT as u64 || got < SEQUENCE_AT {
        return Err(Refusal::Cut(bytes, PEERS_AT as u64));
    }
    Ok(Identity::take(&fixed[IDENTITY_AT..]))
}

/// Reads as much as there is.
fn at_most(file: &File, at: usize, into: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match file.read_at(&mut into[got..], (at + got) as u64)? {
            0 => break,
            more => got += more,
        }
    }
    Ok(got)
}

/// The sequence number at `at`.
fn sequence(file: &File, at: usize) -> Result<u64, Refusal> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at as u64)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Bytes behind and with a sequence number, read while they were not being written; `true` if they always were.
fn settled(file: &File, at: usize, bytes: usize) -> Result<(Vec<u8>, bool), Refusal> {
    let mut into = vec![0; bytes];
    for again in 0..TRIES {
        if again > 1 {
            std::thread::sleep(TRY_EVERY);
        }
        let before = sequence(file, at)?;
        let got = at_most(file, at, &mut into)?;
        if got < bytes {
            return Err(Refusal::Cut((at + got) as u64, (at + bytes) as u64));
        }
        let (within, after) = (u64::take(&into), sequence(file, at)?);
        if before == after && within == before && before % 2 == 0 {
            return Ok((into, false));
        }
    }
    Ok((into, true))
}

/// All peers, in one look; those that were being written meanwhile once more.
fn peers(file: &File, length: u64) -> Result<(Vec<Peer>, bool), Refusal> {
    let room = usize::try_from(length).unwrap_or(0).saturating_sub(PEERS_AT) / PEER_BYTES;
    let mut all = vec![0; room.min(PEERS_MAX) * PEER_BYTES];
    let mut again = all.clone();
    let got = at_most(file, PEERS_AT, &mut all)?.min(at_most(file, PEERS_AT, &mut again)?);
    let mut torn = false;
    let mut peers = Vec::new();
    let looks = all.chunks_exact(PEER_BYTES).zip(again.chunks_exact(PEER_BYTES));
    for (index, (first, second)) in looks.enumerate().take(got / PEER_BYTES) {
        let sequence = u64::take(first);
        if sequence == 0 {
            continue;
        }
        let peer = if sequence % 2 == 0 && first == second {
            Peer::take(&first[8..])
        } else {
            let (bytes, unsettled) = settled(file, peer_at(index), PEER_BYTES)?;
            torn |= unsettled;
            Peer::take(&bytes[8..])
        };
        if peer.node != 0 {
            peers.push(peer);
        }
    }
    Ok((peers, torn))
}

/// The files of all nodes that this user may see, by their names. Those of processes that are gone are removed if this user may, and are not among
/// them; those that show no node come with the reason.
pub fn look() -> Vec<(PathBuf, Result<Snapshot, Refusal>)> {
    let mut all = Vec::new();
    for directory in place::to_read() {
        let entries = fs::read_dir(&directory).into_iter().flatten().take(FILES_MAX).flatten();
        let names = entries.map(|entry| entry.path());
        let named = |path: &PathBuf| path.file_name().is_some_and(place::is_name);
        for path in names.filter(named) {
            match read(&path) {
                Ok(snapshot) if snapshot.life == Life::Gone => {
                    let _ = fs::remove_file(&path);
                }
                // Removed since it was listed.
                Err(Refusal::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                result => all.push((path, result)),
            }
        }
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}
