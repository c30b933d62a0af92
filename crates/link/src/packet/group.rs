//! A link's membership in its interface's group (`PACKET_FANOUT`): joined, mended and left by the table that all members share
//! ([`Table`]).

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::demux::{self, program};
use super::filter;
use super::members::Members;
use super::table::{LOCK_PATIENCE, PROGRAM_LOCK, Table, TableLock};
use crate::system;

/// `PACKET_FANOUT_CBPF`: a classic BPF program picks the member.
const FANOUT_BY_PROGRAM: u32 = 6;
/// `PACKET_FANOUT_FLAG_UNIQUEID`: the kernel draws a number for the group.
const FANOUT_NEW: u32 = 0x2000;
/// `PACKET_FANOUT_FLAG_IGNORE_OUTGOING`: as `PACKET_IGNORE_OUTGOING`, which a group does not take from its members.
const FANOUT_IGNORE_OUTGOING: u32 = 0x4000;

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
    table: Table,
    slot: u16,
    tag: u16,
    /// The kernel's number of it.
    number: u16,
    /// The table was seen not to know this member.
    lost: bool,
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

impl Group {
    /// Takes a bound socket into the group of its interface (by number, in this thread's network namespace) and EtherType.
    ///
    /// # Errors
    ///
    /// The system's, and `AlreadyExists` if another node of the interface has this tag: then, and whenever there is no group to be had,
    /// a socket with a filter of its own does, at a cost for all.
    pub(super) fn join(socket: BorrowedFd<'_>, carrier: (u32, u16), tag: u16) -> io::Result<Self> {
        let table = Table::open_locked(carrier)?;
        let lock = table.held();
        let mut members = table.read()?;
        table.sweep(&mut members, None);
        // One that the table does not know may have a slot all the same, until it notices.
        let claim = |slot: &u16| table.claim((*slot).into()).unwrap_or(false);
        let slot = members.places_for(tag).find(claim).ok_or(io::ErrorKind::AlreadyExists)?;
        let made = (members.len() != 0).then_some(members.group);
        let (group, ignores_outgoing) = enter(socket, made)?;
        members.group = group;
        let number = members.group;
        members.join(slot, tag);
        table.write(&members)?;
        // A group of one needs no program: whatever it would say, there is one place.
        if members.len() == 1 {
            drop(lock);
            table.sweep_others();
        } else {
            publish(socket, &table, lock, members)?;
        }
        let group = Self {
            table,
            slot,
            tag,
            number,
            lost: false,
            looked_at: None,
            suspect: None,
            deferred: None,
            installed: None,
            passed_over: Vec::new(),
        };
        // Who joined and can't be told so would get nothing but its own: the group's program sends it others' frames at times only.
        if ignores_outgoing {
            system::detach_filter(socket)?;
        } else {
            system::attach_filter(socket, &filter::members_frames(&[]))?;
        }
        Ok(group)
    }

    /// A frame came here whose tag is not this node's. If it is another member's by a table that has not changed lately, the
    /// table is wrong, and mended. Costs a look at the clock, and once a millisecond one at the file. A greeting is for whoever is
    /// looked for, anywhere, and no reason to pass that tag over.
    #[cold]
    pub(super) fn stray(&mut self, socket: BorrowedFd<'_>, tag: u16, greeting: bool) {
        let now = Instant::now();
        if self.looked_at.is_some_and(|last| now.duration_since(last) < LOOK_EVERY) {
            return;
        }
        self.looked_at = Some(now);
        // While the program is being set such a frame says nothing of the table, unless whoever sets it was stopped.
        if self.table.is_claimed(PROGRAM_LOCK).is_ok_and(|locked| locked) {
            let since = *self.deferred.get_or_insert(now);
            if now.duration_since(since) < LOCK_PATIENCE {
                return;
            }
        } else {
            self.deferred = None;
        }
        // Failing means that the table stays as it is: the next stray frame tries again.
        let Ok(members) = self.table.read() else { return };
        if !members.knows(self.number, self.slot, self.tag) {
            self.lost = true;
            return;
        }
        if members.list().iter().all(|member| member.tag != tag) {
            if !greeting {
                self.pass_over(socket, tag);
            }
            return;
        }
        self.take(socket, tag);
        let suspect = (tag, members.generation);
        if self.suspect.replace(suspect) == Some(suspect) {
            let _ = self.mend(socket, suspect);
        }
    }

    /// Frames with this tag are somebody's here.
    pub(super) fn take(&mut self, socket: BorrowedFd<'_>, tag: u16) {
        if self.passed_over.contains(&tag) {
            self.passed_over.retain(|other| *other != tag);
            self.attach_filter(socket);
        }
    }

    /// Whether another member has this tag.
    pub(super) fn has_member(&self, tag: u16) -> bool {
        let is_it = |members: Members| {
            members.list().iter().any(|member| member.tag == tag && member.slot != self.slot)
        };
        self.table.read().is_ok_and(is_it)
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
        let Some(_lock) = self.table.try_lock()? else { return Ok(()) };
        let mut members = self.table.read()?;
        if members.generation != generation || !members.knows(self.number, self.slot, self.tag) {
            return Ok(());
        }
        if self.installed.replace(generation) != Some(generation) {
            // The table may be right, and the program an older one: of a process that was killed or stopped as it set it.
            return install(socket, &members);
        }
        self.table.sweep(&mut members, Some(self.slot));
        members.seen_by(self.slot, tag);
        install(socket, &members)?;
        self.table.write(&members)
    }

    /// Whether the table does not know this member: something else was written there, or others have begun a group anew. Then it gets its
    /// frames only as long as nobody joins or leaves, and has to join again with another socket.
    pub(super) fn is_lost(&mut self) -> bool {
        let knows = |members: Members| members.knows(self.number, self.slot, self.tag);
        self.lost |= !self.table.read().is_ok_and(knows);
        self.lost
    }

    /// Leaves the group, to be called just before the socket is closed: the program is set first, as only members may.
    pub(super) fn leave(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.table.is_inherited() {
            return Ok(());
        }
        let _lock = self.table.lock()?;
        let mut members = self.table.read()?;
        let knows = members.knows(self.number, self.slot, self.tag);
        if knows {
            self.table.sweep(&mut members, Some(self.slot));
            members.leave(self.slot);
            self.table.write(&members)?;
        }
        // Closing the file gives it back too, but not while a child that was just forked has a copy: who takes this slot next would
        // be refused the group.
        self.table.release(self.slot.into())?;
        // Who is left alone gets all frames by any program, and nobody waits for a grace period then.
        if knows && members.len() > 1 { install(socket, &members) } else { Ok(()) }
    }

    /// The interface is gone, and another one may be there by its name: the kernel has taken all members from the group. The first that
    /// notices has a new one begun.
    pub(super) fn abandon(&mut self) -> io::Result<()> {
        if self.table.is_inherited() {
            return Ok(());
        }
        let _lock = self.table.lock()?;
        if self.table.read()?.knows(self.number, self.slot, self.tag) {
            self.table.write(&Members::default())?;
        }
        self.table.release(self.slot.into())
    }
}

/// Joins the kernel's group of this number, or makes one; gives its number. False: what the machine itself sends comes up as well, on
/// old kernels.
pub(super) fn enter(socket: BorrowedFd<'_>, group: Option<u16>) -> io::Result<(u16, bool)> {
    let join = |flags: u32| {
        let id = group.map_or(FANOUT_NEW << 16, u32::from);
        let id_and_type = id | (FANOUT_BY_PROGRAM | flags) << 16;
        let args = FanoutArgs { id_and_type, members_max: demux::MEMBERS_MAX as u32 };
        system::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &args).or_else(|_| {
            system::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &id_and_type)
        })
    };
    let ignores_outgoing = join(FANOUT_IGNORE_OUTGOING).is_ok();
    if !ignores_outgoing {
        join(0)?;
    }
    let mut joined = 0u32;
    system::get_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &mut joined)?;
    Ok((joined as u16, ignores_outgoing))
}

/// Has the kernel go by the table that was just written under `lock`. If another process is about that, it is left to that one,
/// which does not end before the kernel goes by the newest table; so who joins waits for no more than what others have begun.
fn publish(
    socket: BorrowedFd<'_>,
    table: &Table,
    lock: TableLock<'_>,
    mut members: Members,
) -> io::Result<()> {
    if !table.claim(PROGRAM_LOCK)? {
        return Ok(());
    }
    drop(lock);
    loop {
        let set = install(socket, &members);
        // Taken for the look and given back after the program's: nobody leaves a newer table to a process that has looked already.
        let lock = table.lock();
        let is_newer = |newer: &Members| {
            newer.group == members.group && newer.generation != members.generation
        };
        let newer = table.read().ok().filter(is_newer);
        match newer {
            Some(newer) if set.is_ok() && lock.is_ok() => members = newer,
            _ => {
                table.release(PROGRAM_LOCK)?;
                return set;
            }
        }
    }
}

fn install(socket: BorrowedFd<'_>, members: &Members) -> io::Result<()> {
    let program = program(&members.by_tag());
    system::set_program(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &program)
}

#[cfg(test)]
mod tests;
