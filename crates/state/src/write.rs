//! The writing half: one node's file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::field::{Field, Text};
use crate::given::{self, Given};
use crate::layout::{
    COUNTERS_MAX, Counter, Head, IDENTITY_AT, Identity, LINKS_MAX, Link, MAGIC, NEIGHBOURS_MAX,
    NOTES_MAX, NOW_AT, Neighbour, Note, Now, PEER_BYTES, PEERS_AT, PEERS_MAX, PEERS_STEP, Peer,
    VALUE_AT, VERSION, counter_at, link_at, neighbour_at, note_at, peer_at,
};
use crate::map::Map;
use crate::place::{self, Readers};
use crate::process::{self, Stat};

/// Tells the files of one process apart.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// What came of asking for room for another peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grown {
    /// It is there.
    Yes,
    /// There are as many as there may be, or the system has no more room.
    No,
}

/// A file in its directory, which goes with this value, unless that is dropped in a process that was forked from the file's.
pub struct Kept {
    path: PathBuf,
    process: u32,
}

impl Kept {
    /// False in a process that was forked from the node's. A system call.
    fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.is_ours() {
            // Where it is gone already, somebody looked and took the process for another.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// How the file is written to.
enum To {
    /// It is this process's own.
    Own { file: File, map: Map, kept: Kept },
    /// It is another's.
    Given(Given),
}

/// The file of a node, which its host writes to.
pub struct Writer {
    to: To,
    /// What was or is to be published, from [`NOW_AT`] on.
    image: Box<[u8]>,
    peer: [u8; PEER_BYTES],
    room: usize,
    /// Of `Now`, so that it counts.
    writes: u64,
    notes: u32,
    full: bool,
}

impl Writer {
    /// Makes the file of a node in the first of the user's directories that takes it. What is not known of the process there is filled in.
    ///
    /// # Errors
    ///
    /// What the last of them said.
    pub fn create(identity: &Identity, readers: Readers) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for directory in place::to_write() {
            match Self::create_in(&directory, identity, readers) {
                Ok(writer) => return Ok(writer),
                Err(error) => {
                    last =
                        io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
                }
            }
        }
        Err(last)
    }

    /// The same in one directory.
    ///
    /// # Errors
    ///
    /// Of the system, or that the directory is not this user's alone.
    pub fn create_in(directory: &Path, identity: &Identity, readers: Readers) -> io::Result<Self> {
        place::open(directory, readers)?;
        let identity = complete(identity);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let Identity { pid_namespace, process, process_began, .. } = identity;
        let name = format!("{pid_namespace}-{process}-{process_began}-{number}{}", place::ENDING);
        let (path, hidden) = (directory.join(&name), directory.join(format!(".{name}")));
        let (mode, _) = readers.modes();
        // One that this process left when it ran another program.
        let _ = fs::remove_file(&hidden);
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&hidden)?;
        let made = Self::fill(&file, &identity, mode).and_then(|map| {
            fs::rename(&hidden, &path)?;
            Ok(map)
        });
        let map = made.inspect_err(|_| {
            let _ = fs::remove_file(&hidden);
        })?;
        Ok(Self::of(To::Own { file, map, kept: Kept { path, process } }))
    }

    fn of(to: To) -> Self {
        Self {
            to,
            image: vec![0; PEERS_AT - NOW_AT].into_boxed_slice(),
            peer: [0; PEER_BYTES],
            room: PEERS_STEP,
            writes: 0,
            notes: 0,
            full: false,
        }
    }

    /// For a file that another process has made by [`create`](Self::create) and [handed over](Self::hand_over), whom nothing is believed. All but
    /// who the node is and whose, which is that process's to say, is written here.
    ///
    /// # Errors
    ///
    /// It is no plain file on a tmpfs, or too long.
    pub fn given(file: OwnedFd) -> io::Result<Self> {
        Given::new(file.into()).map(|given| Self::of(To::Given(given)))
    }

    /// Gives the file to another process to be written to, and keeps it in its place meanwhile.
    ///
    /// # Errors
    ///
    /// It is not where such a process writes: on a tmpfs, as `/dev/shm` is.
    pub fn hand_over(self) -> io::Result<(OwnedFd, Kept)> {
        match self.to {
            To::Own { file, kept, .. } if given::is_in_memory(&file) => Ok((file.into(), kept)),
            To::Own { kept, .. } => Err(io::Error::other(format!(
                "{} is on no tmpfs, and empd writes on no other file system",
                kept.path.display()
            ))),
            To::Given(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn fill(file: &File, identity: &Identity, mode: u32) -> io::Result<Map> {
        use std::os::unix::fs::PermissionsExt;
        // Whatever the process's mask takes away.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        let map = Map::new(file, peer_at(PEERS_STEP))?;
        let mut fixed = [0; NOW_AT - 8];
        let (fixed_bytes, peer_bytes) = (PEERS_AT as u32, PEER_BYTES as u32);
        Head { magic: MAGIC, version: VERSION, fixed_bytes, peer_bytes }.put(&mut fixed);
        identity.put(&mut fixed[IDENTITY_AT..]);
        map.write(0, &fixed);
        Ok(map)
    }

    /// Where it is; empty: it is another process's.
    pub fn path(&self) -> &Path {
        match &self.to {
            To::Own { kept, .. } => &kept.path,
            To::Given(_) => Path::new(""),
        }
    }

    /// False in a process that was forked from the node's, and of a file that was given and cannot be written to.
    fn is_ours(&self) -> bool {
        match &self.to {
            To::Own { kept, .. } => kept.is_ours(),
            To::Given(given) => !given.is_over(),
        }
    }

    /// Writes from byte `at` on, under the sequence number before it.
    fn put(to: &mut To, at: usize, bytes: &[u8]) {
        match to {
            To::Own { map, .. } => map.publish(at, bytes),
            To::Given(given) => given.publish(at, bytes),
        }
    }

    fn place(&mut self, at: usize) -> &mut [u8] {
        &mut self.image[at - NOW_AT..]
    }

    /// Notes a link, to be shown by the next [`publish`](Self::publish). Those beyond [`LINKS_MAX`] are not.
    pub fn link(&mut self, index: usize, link: &Link) {
        if index < LINKS_MAX {
            link.put(self.place(link_at(index)));
        }
    }

    /// Notes a counter likewise. Its name is taken the first time.
    pub fn counter(&mut self, index: usize, name: &str, value: u64) {
        if index < COUNTERS_MAX {
            let place = self.place(counter_at(index));
            if place[0] == 0 {
                Counter { name: Text::new(name), value }.put(place);
            } else {
                value.put(&mut place[VALUE_AT..]);
            }
        }
    }

    /// Notes who is beside a relay likewise. Those beyond [`NEIGHBOURS_MAX`] are not.
    pub fn neighbour(&mut self, index: usize, neighbour: &Neighbour) {
        if index < NEIGHBOURS_MAX {
            neighbour.put(self.place(neighbour_at(index)));
        }
    }

    /// Notes something that has happened likewise.
    pub fn note(&mut self, note: &Note) {
        let at = note_at(self.notes as usize % NOTES_MAX);
        note.put(self.place(at));
        self.notes = self.notes.wrapping_add(1);
    }

    /// Shows how the node is, with all that was noted since the last time. Does nothing in a forked process.
    pub fn publish(&mut self, now: &Now) {
        if let To::Given(given) = &mut self.to {
            given.look();
        }
        if !self.is_ours() {
            return;
        }
        self.writes += 1;
        let now = Now { writes: self.writes, notes: self.notes, ..*now };
        now.put(self.place(NOW_AT));
        Self::put(&mut self.to, NOW_AT, &self.image);
    }

    /// Peers that there is room for now.
    pub const fn room(&self) -> usize {
        self.room
    }

    /// Makes room for more peers.
    pub fn grow(&mut self) -> Grown {
        if self.room >= PEERS_MAX || self.full || !self.is_ours() {
            return Grown::No;
        }
        let room = self.room + PEERS_STEP;
        if let To::Own { file, map, .. } = &mut self.to {
            match Map::new(file, peer_at(room)) {
                Ok(longer) => *map = longer,
                Err(_) => {
                    // Not asked for again and again.
                    self.full = true;
                    return Grown::No;
                }
            }
        }
        // One that was given becomes longer when it is written to.
        self.room = room;
        Grown::Yes
    }

    /// Shows a peer in a place below [`room`](Self::room), or that there is none. Does nothing in a forked process.
    pub fn peer(&mut self, index: usize, peer: Option<&Peer>) {
        if index >= self.room || !self.is_ours() {
            return;
        }
        peer.copied().unwrap_or_default().put(&mut self.peer);
        Self::put(&mut self.to, peer_at(index) + 8, &self.peer[..PEER_BYTES - 8]);
    }
}

/// With what the system says of this process.
fn complete(identity: &Identity) -> Identity {
    let process = std::process::id();
    let stat = Stat::of(process).unwrap_or(Stat { state: '?', began: 0, stack: 0 });
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
    Identity {
        process,
        process_began: stat.began,
        process_stack: stat.stack,
        pid_namespace: process::pid_namespace(),
        boot: process::boot(),
        user: place::user(),
        command: Text::new(&command),
        ..*identity
    }
}
