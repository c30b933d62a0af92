//! A link's membership in its interface's group (`PACKET_FANOUT`), and the file in which the members keep their table.
//!
//! The file lies in the user's own directory, where the nodes of one user on one machine find each other. One lock in it is
//! held while the table changes, and each member holds a lock of its own for as long as its process lives: the kernel gives
//! both back when a process ends, however it does.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use super::demux::{self, program};
use super::filter;
use super::members::{FILE_BYTES_MAX, Members};
use crate::shm::place::Place;
use crate::{locks, system};

/// `PACKET_FANOUT_CBPF`: a classic BPF program picks the member.
const FANOUT_BY_PROGRAM: u32 = 6;
/// `PACKET_FANOUT_FLAG_UNIQUEID`: the kernel draws a number for the group.
const FANOUT_NEW: u32 = 0x2000;
/// `PACKET_FANOUT_FLAG_IGNORE_OUTGOING`: as `PACKET_IGNORE_OUTGOING`, which a group does not take from its members.
const FANOUT_IGNORE_OUTGOING: u32 = 0x4000;

/// Byte of the file whose lock is held while the table changes; those of members come after it.
const TABLE_LOCK: u64 = 1 << 20;

/// The byte whose lock the one node has that does without the group. A lone node's frames are spared the group's cost, some 90 ns
/// each, and with others it costs their frames one filter more, 38 ns, whatever their number.
const ALONE_LOCK: u64 = TABLE_LOCK + 1;

/// The byte whose lock a process has while it has the kernel go by the table after joins. Setting the program waits for a grace
/// period of the kernel's: 10 to 40 ms, and seconds with a hundred processes on two cores. So it is set once for all who join meanwhile.
const PROGRAM_LOCK: u64 = TABLE_LOCK + 2;

/// How long the table's lock is waited for: joins take tens of microseconds, and a departure, or a holder that shares its core with
/// a hundred others, a second at times. Who has it for longer was stopped, and a link that opens does without the group then.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);
/// Pauses between tries, doubled each time: those who start together must not keep the holder from its core.
const LOCK_RETRY: Duration = Duration::from_micros(100);
const LOCK_RETRY_MAX: Duration = Duration::from_millis(5);

/// Least time between two looks at the table because of others' frames, and between the two such frames that show that it
/// is wrong: those that came while it changed have left the kernel by then.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What the kernel takes with `PACKET_FANOUT`; older kernels read the first word alone, and take 256 members.
#[repr(C)]
#[derive(Clone, Copy)]
struct FanoutArgs {
    id_and_type: u32,
    members_max: u32,
}

/// A membership. Ends when it is dropped, before the socket is closed.
#[derive(Debug)]
pub(super) struct Group {
    file: File,
    slot: u16,
    /// The process that joined: a child of it has a copy of this value and no business in the table.
    process: u32,
    looked_at: Option<Instant>,
    /// A frame that came here though its tag is another member's, and the table's generation then.
    suspect: Option<(u16, u32)>,
    /// Since when somebody has had the program's lock whenever this one looked.
    deferred: Option<Instant>,
    /// Generation of the table that this one has had installed because of such frames.
    installed: Option<u32>,
    /// Tags of which frames came here that are no member's: the node that does without the group, other users' nodes. This
    /// socket's filter drops most of these.
    passed_over: Vec<u16>,
}

/// What a link is to its interface's group.
#[derive(Debug)]
pub(super) enum Membership {
    /// It was the first, and has a filter of its own for as long as it holds this file's lock.
    Alone(#[expect(dead_code, reason = "it is held, not read")] File),
    /// One of several.
    Member(Group),
}

impl Group {
    /// Takes a bound socket into the group of its interface (by number, in this thread's network namespace) and EtherType.
    ///
    /// # Errors
    ///
    /// The system's, and `AlreadyExists` if another node of the interface has this tag: then, and whenever there is no group to be had,
    /// a socket with a filter of its own does, at a cost for all.
    pub(super) fn join(
        socket: BorrowedFd<'_>,
        (interface, ethertype): (u32, u16),
        tag: u16,
    ) -> io::Result<Membership> {
        let place = Place::open(&Place::usual())?;
        let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
        let path = place.file(&format!("packet-{namespace}-{interface}-{ethertype:04x}"));
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
        let lock = TableLock::take(&file)?;
        if locks::try_lock(&file, ALONE_LOCK)? {
            drop(lock);
            return Ok(Membership::Alone(file));
        }
        let mut members = read(&file)?;
        sweep(&file, &mut members, None);
        let slot = members.place_for(tag).ok_or(io::ErrorKind::AlreadyExists)?;
        if !locks::try_lock(&file, slot.into())? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        join_or_make(socket, &mut members)?;
        members.join(slot, tag);
        write(&file, &members)?;
        publish(socket, &file, lock, members)?;
        let process = std::process::id();
        Ok(Membership::Member(Self {
            file,
            slot,
            process,
            looked_at: None,
            suspect: None,
            deferred: None,
            installed: None,
            passed_over: Vec::new(),
        }))
    }

    /// A frame came here whose tag is not this node's. If it is another member's by a table that has not changed lately, the
    /// table is wrong, and mended. Costs a look at the clock, and once a millisecond one at the file.
    #[cold]
    pub(super) fn stray(&mut self, socket: BorrowedFd<'_>, tag: u16) {
        let now = Instant::now();
        if self.looked_at.is_some_and(|last| now.duration_since(last) < LOOK_EVERY) {
            return;
        }
        self.looked_at = Some(now);
        // While the program is being set such a frame says nothing of the table, unless whoever sets it was stopped.
        if locks::is_locked(&self.file, PROGRAM_LOCK).is_ok_and(|locked| locked) {
            let since = *self.deferred.get_or_insert(now);
            if now.duration_since(since) < LOCK_PATIENCE {
                return;
            }
        } else {
            self.deferred = None;
        }
        // Failing means that the table stays as it is: the next stray frame tries again.
        let Ok(members) = read(&self.file) else { return };
        if members.list().iter().all(|member| member.tag != tag) {
            return self.pass_over(socket, tag);
        }
        if self.passed_over.contains(&tag) {
            self.passed_over.retain(|other| *other != tag);
            self.attach_filter(socket);
        }
        let suspect = (tag, members.generation);
        if self.suspect.replace(suspect) == Some(suspect) {
            let _ = self.mend(socket, suspect);
        }
    }

    /// Frames with this tag are nobody's here: each would be copied into this node's ring, and wake it.
    fn pass_over(&mut self, socket: BorrowedFd<'_>, tag: u16) {
        if self.passed_over.contains(&tag) {
            return;
        }
        if self.passed_over.len() == filter::PASSED_OVER_MAX {
            self.passed_over.remove(0);
        }
        self.passed_over.push(tag);
        self.attach_filter(socket);
    }

    fn attach_filter(&self, socket: BorrowedFd<'_>) {
        // Failing means that the filter stays as it is, and takes more than it need.
        let _ = system::attach_filter(socket, &filter::members_frames(&self.passed_over));
    }

    fn mend(&mut self, socket: BorrowedFd<'_>, (tag, generation): (u16, u32)) -> io::Result<()> {
        self.suspect = None;
        // Nobody who receives waits for those that hold it: the next such frame tries again.
        if !locks::try_lock(&self.file, TABLE_LOCK)? {
            return Ok(());
        }
        let _lock = TableLock(&self.file);
        let mut members = read(&self.file)?;
        if members.generation != generation {
            return Ok(());
        }
        if self.installed.replace(generation) != Some(generation) {
            // The table may be right, and the program an older one: of a process that was killed or stopped as it set it.
            return install(socket, &members);
        }
        sweep(&self.file, &mut members, Some(self.slot));
        members.seen_by(self.slot, tag);
        install(socket, &members)?;
        write(&self.file, &members)
    }

    /// Leaves the group, to be called just before the socket is closed: the program is set first, as only members may.
    pub(super) fn leave(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        let _lock = TableLock::take(&self.file)?;
        let mut members = read(&self.file)?;
        sweep(&self.file, &mut members, Some(self.slot));
        members.leave(self.slot);
        write(&self.file, &members)?;
        install(socket, &members)
    }
}

/// The table's lock. Given back with the value.
struct TableLock<'a>(&'a File);

impl<'a> TableLock<'a> {
    fn take(file: &'a File) -> io::Result<Self> {
        let (since, mut pause) = (Instant::now(), LOCK_RETRY);
        while !locks::try_lock(file, TABLE_LOCK)? {
            if since.elapsed() > LOCK_PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(LOCK_RETRY_MAX);
        }
        Ok(Self(file))
    }
}

impl Drop for TableLock<'_> {
    fn drop(&mut self) {
        let _ = locks::unlock(self.0, TABLE_LOCK);
    }
}

fn read(file: &File) -> io::Result<Members> {
    let mut bytes = vec![0; FILE_BYTES_MAX];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(Members::parse(&bytes[..filled]))
}

fn write(file: &File, members: &Members) -> io::Result<()> {
    file.write_all_at(&members.emit(), 0)
}

/// Takes out members whose processes have ended: nobody holds their locks. But for `own`, whose lock is this process's.
fn sweep(file: &File, members: &mut Members, own: Option<u16>) {
    let others = members.list().iter().map(|member| member.slot).filter(|slot| Some(*slot) != own);
    for slot in others.collect::<Vec<_>>() {
        if locks::is_locked(file, slot.into()).is_ok_and(|locked| !locked) {
            members.leave(slot);
        }
    }
}

/// Joins the table's group, or makes one if the table is empty.
fn join_or_make(socket: BorrowedFd<'_>, members: &mut Members) -> io::Result<()> {
    let make = members.len() == 0;
    let join = |flags: u32| {
        let id = if make { FANOUT_NEW << 16 } else { u32::from(members.group) };
        let id_and_type = id | (FANOUT_BY_PROGRAM | flags) << 16;
        let args = FanoutArgs { id_and_type, members_max: demux::MEMBERS_MAX as u32 };
        system::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &args).or_else(|_| {
            system::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &id_and_type)
        })
    };
    // Without the flag, on old kernels, the filter drops what goes out.
    join(FANOUT_IGNORE_OUTGOING).or_else(|_| join(0))?;
    let mut joined = 0u32;
    system::get_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &mut joined)?;
    members.group = joined as u16;
    Ok(())
}

/// Has the kernel go by the table that was just written under `lock`. If another process is about that, it is left to that one,
/// which does not end before the kernel goes by the newest table; so who joins waits for no more than what others have begun.
fn publish(
    socket: BorrowedFd<'_>,
    file: &File,
    lock: TableLock<'_>,
    mut members: Members,
) -> io::Result<()> {
    if !locks::try_lock(file, PROGRAM_LOCK)? {
        return Ok(());
    }
    drop(lock);
    loop {
        let set = install(socket, &members);
        // Taken for the look and given back after the program's: nobody leaves a newer table to a process that has looked already.
        let lock = TableLock::take(file);
        let newer = read(file).ok().filter(|newer| newer.generation != members.generation);
        match newer {
            Some(newer) if set.is_ok() && lock.is_ok() => members = newer,
            _ => {
                locks::unlock(file, PROGRAM_LOCK)?;
                return set;
            }
        }
    }
}

fn install(socket: BorrowedFd<'_>, members: &Members) -> io::Result<()> {
    let program = program(&members.by_tag());
    system::set_program(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &program)
}
