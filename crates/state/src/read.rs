//! The reading half. The file may be anybody's: cut, of another version, no such file at all, or being written. It is read and not mapped,
//! so that nobody can make the reader's memory vanish, and every value in it is taken as one of its kind.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::field::Field;
use crate::layout::{
    COUNTERS_MAX, Counter, Head, IDENTITY_AT, Identity, LINKS_MAX, Link, MAGIC, NEIGHBOURS_MAX,
    NOTES_MAX, NOW_AT, Neighbour, Note, Now, PEER_BYTES, PEERS_AT, PEERS_MAX, Peer, SEQUENCE_AT,
    VERSION, counter_at, link_at, neighbour_at, note_at, peer_at,
};
use crate::place;
use crate::process::{Here, Life};

/// Files looked at in one directory: more nodes than a machine runs of one user.
const FILES_MAX: usize = 16_384;

/// Files that are open at a time, as they are being written: a process may have 1,024.
const OPEN_MAX: usize = 256;

/// Looks at what is being written before it is taken as it is. A writer is done in microseconds, unless it lost its core, which it has again
/// within some milliseconds; one that was stopped at that moment never is.
const TRIES: u32 = 20;

/// Between two such looks, at all files at once.
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
    /// Who is beside it, if it relays.
    pub neighbours: Vec<Neighbour>,
    /// The peers that are shown.
    pub peers: Vec<Peer>,
    /// Some of this was caught while it was being written, and the writer does not go on: numbers may be of two moments.
    pub torn: bool,
}

impl Snapshot {
    /// The value of a counter; 0 if there is none of this name.
    pub fn counter(&self, name: &str) -> u64 {
        let named = |counter: &&Counter| counter.name.is(name);
        self.counters.iter().find(named).map_or(0, |counter| counter.value)
    }
}

/// Reads a file.
///
/// # Errors
///
/// That it shows no node that this program understands.
pub fn read(path: &Path) -> Result<Snapshot, Refusal> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let owner = fs::metadata(directory.unwrap_or(Path::new(".")))?.uid();
    let mut look = Look::at(path, owner, &Here::now())?;
    settle(std::slice::from_mut(&mut look));
    Ok(look.snapshot())
}

/// What a file says, and which parts of that were being written when it was read.
struct Look {
    path: PathBuf,
    file: File,
    identity: Identity,
    life: Life,
    /// The file.
    bytes: Vec<u8>,
    /// Where the parts that are not settled lie: each begins with its sequence number.
    unsettled: Vec<Range<usize>>,
}

impl Look {
    /// Reads a file, twice: what was the same both times, under an even sequence number, was not being written.
    fn at(path: &Path, owner: u32, here: &Here) -> Result<Self, Refusal> {
        // Neither a pipe nor a device that somebody put there may hold us up, nor a link lead us elsewhere.
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() > peer_at(PEERS_MAX) as u64 {
            return Err(Refusal::Kind);
        }
        if owner != found.uid() {
            return Err(Refusal::Owner);
        }
        let mut bytes = vec![0; usize::try_from(found.len()).unwrap_or(0)];
        let got = at_most(&file, 0, &mut bytes)?;
        bytes.truncate(got);
        let identity = identity(&bytes, found.len())?;
        let mut again = vec![0; got];
        let got = at_most(&file, 0, &mut again)?.min(got);
        if got < PEERS_AT {
            return Err(Refusal::Cut(got as u64, PEERS_AT as u64));
        }
        bytes.truncate(got);
        let mut unsettled = parts(got);
        unsettled.retain(|part| !is_settled(&bytes[part.clone()], &again[part.clone()]));
        let (path, life) = (path.to_path_buf(), here.life(&identity));
        Ok(Self { path, file, identity, life, bytes, unsettled })
    }

    /// Reads anew what was being written.
    fn look_again(&mut self) {
        let Self { file, bytes, unsettled, .. } = self;
        let mut again = vec![0; unsettled.iter().map(Range::len).max().unwrap_or(0)];
        unsettled.retain(|part| {
            let (now, then) = (&mut bytes[part.clone()], &mut again[..part.len()]);
            let whole = |into: &mut [u8]| {
                at_most(file, part.start, into).is_ok_and(|got| got == into.len())
            };
            // Where the file was cut meanwhile, it stays as it is.
            !(whole(now) && whole(then) && is_settled(now, then))
        });
    }

    /// What it says.
    fn snapshot(self) -> Snapshot {
        let at = |place: usize| &self.bytes[place..];
        let now = Now::take(at(NOW_AT));
        let many = |count: u32, most: usize| (count as usize).min(most);
        let links = (0..many(now.links, LINKS_MAX)).map(|i| Link::take(at(link_at(i))));
        let counters = 0..many(now.counters, COUNTERS_MAX);
        let counters = counters.map(|i| Counter::take(at(counter_at(i))));
        let first = (now.notes as usize).saturating_sub(NOTES_MAX);
        let notes = (first..now.notes as usize).map(|i| Note::take(at(note_at(i % NOTES_MAX))));
        let neighbours = 0..many(now.neighbours, NEIGHBOURS_MAX);
        let neighbours = neighbours.map(|i| Neighbour::take(at(neighbour_at(i))));
        let peers = parts(self.bytes.len()).into_iter().skip(1);
        let peers = peers.filter(|part| u64::take(at(part.start)) != 0);
        let peers = peers.map(|part| Peer::take(at(part.start + 8))).filter(|peer| peer.node != 0);
        Snapshot {
            links: links.collect(),
            counters: counters.collect(),
            notes: notes.collect(),
            neighbours: neighbours.collect(),
            peers: peers.collect(),
            torn: !self.unsettled.is_empty(),
            now,
            path: self.path,
            identity: self.identity,
            life: self.life,
        }
    }
}

/// Waits until nothing of these files is being written, and no longer than a writer takes that has lost its core.
fn settle(looks: &mut [Look]) {
    for again in 0..TRIES {
        let mut open = looks.iter_mut().filter(|look| !look.unsettled.is_empty()).peekable();
        if open.peek().is_none() {
            return;
        }
        if again > 0 {
            std::thread::sleep(TRY_EVERY);
        }
        open.for_each(Look::look_again);
    }
}

/// What is written under a sequence number each, in so many bytes: what changes of the node, then each peer.
fn parts(bytes: usize) -> Vec<Range<usize>> {
    let peers = (bytes.saturating_sub(PEERS_AT) / PEER_BYTES).min(PEERS_MAX);
    let peers = (0..peers).map(|index| peer_at(index)..peer_at(index) + PEER_BYTES);
    std::iter::once(SEQUENCE_AT..PEERS_AT).chain(peers).collect()
}

/// True if a part was not being written while it was read, by two reads. Had the first mixed words of two writings, then the second, which began
/// when that had ended, has the later writing's number and all of its words.
fn is_settled(first: &[u8], second: &[u8]) -> bool {
    u64::take(first) % 2 == 0 && first == second
}

/// What stands at the beginning of a file, which has so many bytes.
fn identity(fixed: &[u8], bytes: u64) -> Result<Identity, Refusal> {
    if fixed.len() < Head::BYTES {
        return Err(if fixed.starts_with(&MAGIC) {
            Refusal::Cut(bytes, PEERS_AT as u64)
        } else {
            Refusal::Foreign
        });
    }
    let head = Head::take(fixed);
    if head.magic != MAGIC {
        return Err(Refusal::Foreign);
    }
    if head.version != VERSION {
        return Err(Refusal::Version(head.version));
    }
    if (head.fixed_bytes, head.peer_bytes) != (PEERS_AT as u32, PEER_BYTES as u32) {
        return Err(Refusal::Foreign);
    }
    if fixed.len() < PEERS_AT {
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

/// The files of all nodes that this user may see, by their names. Those of processes that are gone are removed if this user may, and are not among
/// them; those that show no node come with the reason.
pub fn look() -> Vec<(PathBuf, Result<Snapshot, Refusal>)> {
    let here = Here::now();
    let (mut all, mut open) = (Vec::new(), Vec::new());
    for directory in place::to_read() {
        let Ok(owner) = fs::metadata(&directory).map(|it| it.uid()) else { continue };
        let entries = fs::read_dir(&directory).into_iter().flatten().take(FILES_MAX).flatten();
        let names = entries.map(|entry| entry.path());
        let named = |path: &PathBuf| path.file_name().is_some_and(place::is_name);
        for path in names.filter(named) {
            match Look::at(&path, owner, &here) {
                Ok(look) if look.life == Life::Gone => {
                    let _ = fs::remove_file(&path);
                }
                Ok(look) if look.unsettled.is_empty() => all.push((path, Ok(look.snapshot()))),
                Ok(look) => open.push(look),
                // Of another version of EMP: what follows the version may mean anything.
                Err(Refusal::Version(_))
                    if path.file_name().is_some_and(|it| here.has_lost(it)) =>
                {
                    let _ = fs::remove_file(&path);
                }
                // Removed since it was listed.
                Err(Refusal::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(refusal) => all.push((path, Err(refusal))),
            }
            if open.len() >= OPEN_MAX {
                finish(&mut open, &mut all);
            }
        }
    }
    finish(&mut open, &mut all);
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

/// Waits for those that are being written, all at once.
fn finish(open: &mut Vec<Look>, all: &mut Vec<(PathBuf, Result<Snapshot, Refusal>)>) {
    settle(open);
    all.extend(open.drain(..).map(|look| (look.path.clone(), Ok(look.snapshot()))));
}
