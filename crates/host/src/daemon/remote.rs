//! A program's side of an engine in the service: posts go into one ring, what has ended comes out of the other. The program copies: what it
//! sends into the ring, and what was received out of it. Memory that it exports is read and written by the service.

mod asking;
mod posts;
mod regions;

use std::collections::{HashSet, VecDeque};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use emp_firmware::{Completion, NodeEvent, OpId, OpKind, SegmentList, Status};
use emp_link::service::channel::{Channel, Gift, Heard, RECORD_BYTES_MAX};
use emp_link::service::{EngineSeat, Held};
use emp_state::Kept;
use emp_wire::NodeId;

use crate::daemon::end::{END_BYTES, End};
use crate::daemon::facts::Facts;
use crate::daemon::flights::Flights;
use crate::daemon::news::parse_event;
use crate::daemon::questions::{Answer, Tell};
use crate::daemon::{said, told};
use crate::memory::pointer;

/// Records read in one turn: a ring's worth of short ones is many turns, between which posts get their chance.
const RECORDS_PER_TURN: usize = 64;

/// Bytes after which a ring that was emptied may have been full: a quarter of it. The service, which looks for room more and more seldom, is told.
const ROOM_BYTES: usize = 64 << 10;

/// Empty looks between two looks whether the service is still there, each a system call of 0.2 µs.
const LOOKS_PER_CHECK: u32 = 1024;

/// How long a service that lives may take to say why it has ended an engine: a turn of its door.
const REASON_PATIENCE: Duration = Duration::from_secs(1);

/// What is to be written into the ring and found no room.
enum Waiting {
    Record(u32, Vec<u8>),
    /// A message with its descriptor, of which so many bytes were written.
    Payload {
        head: Option<[u8; 64]>,
        segments: SegmentList,
        done: u64,
    },
}

/// Lost nodes that are remembered: of more, short sends count as over as they did before.
const LOST_MAX: usize = 4_096;

/// An engine elsewhere.
pub(crate) struct Remote {
    channel: Channel,
    connection: Held,
    facts: Facts,
    buffer: Box<[u8]>,
    flights: Flights,
    waiting: VecDeque<Waiting>,
    open: HashSet<u16>,
    /// Sends that are over for the program and not for the engine.
    unretired: u64,
    ended: VecDeque<Completion>,
    events: VecDeque<NodeEvent>,
    /// Nodes that the engine has lost and not found again, or not found at all.
    lost: HashSet<NodeId>,
    /// Something was read that may end a wait, and whoever drives this has not been told since: an answer is waited for in the midst of a look.
    news: bool,
    /// Polls that do not count as empty yet, as something was posted: the post's own, and the next.
    posted: u8,
    /// Bytes that were read since the service was last told that there is room.
    read: usize,
    answer: Option<Answer>,
    armed: bool,
    looks: u32,
    /// Why it is over, once it is.
    over: Option<String>,
    /// Whoever drives this was told so.
    left: bool,
    /// The service has a descriptor of this program's memory.
    memory_given: bool,
    /// The file that the service shows the node's state in, in this user's directory for as long as the engine runs.
    shown: Option<Kept>,
    /// The service's end of the bell is closed: its engine has ended.
    gone: bool,
}

impl Remote {
    /// The program's side of an engine that was just asked for. Waits until it has started.
    ///
    /// # Errors
    ///
    /// One line: why it did not start.
    pub(crate) fn begin(seat: EngineSeat) -> Result<Self, String> {
        let mut remote = Self {
            channel: seat.channel,
            connection: seat.connection,
            facts: Facts::default(),
            buffer: vec![0; RECORD_BYTES_MAX].into(),
            flights: Flights::default(),
            waiting: VecDeque::new(),
            open: HashSet::new(),
            unretired: 0,
            ended: VecDeque::new(),
            events: VecDeque::new(),
            lost: HashSet::new(),
            news: false,
            posted: 0,
            read: 0,
            answer: None,
            armed: false,
            looks: 0,
            over: None,
            left: false,
            memory_given: false,
            shown: None,
            gone: false,
        };
        remote.wait_until(|remote| remote.facts.operations_max != 0);
        match remote.over.take() {
            None => Ok(remote),
            Some(why) => Err(why),
        }
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// From now on the service shows the node's state in this file, which is removed with this value.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn show_in(&mut self, (file, kept): (OwnedFd, Kept)) -> std::io::Result<()> {
        self.channel.give(Gift::State, file.as_fd())?;
        self.tell(Tell::Shows);
        self.channel.wake();
        self.shown = Some(kept);
        Ok(())
    }

    /// True if nothing comes of it any more.
    pub(crate) const fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// True once, when it is over. Nothing ends any more then: whoever drives this ends all that is under way.
    pub(crate) fn takes_leave(&mut self) -> bool {
        let leaves = self.over.is_some() && !std::mem::replace(&mut self.left, true);
        if leaves {
            self.flights = Flights::default();
        }
        leaves
    }

    /// Why it is over.
    pub(crate) fn why_over(&self) -> &str {
        self.over.as_deref().unwrap_or("")
    }

    /// Readable when the service rings, or is gone.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.channel.bell().as_raw_fd()
    }

    /// The next operation that has ended.
    pub(crate) fn take_ended(&mut self) -> Option<Completion> {
        self.ended.pop_front()
    }

    /// The next event.
    pub(crate) fn take_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }

    /// Posts were made that no other follows: the service is woken for them.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if !self.waiting.is_empty() {
            self.pump();
        }
        self.channel.wake();
    }

    /// True if something waits for room in the ring.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Reads what has come. True if there was anything, or something was read since this was last asked.
    #[inline]
    pub(crate) fn turn(&mut self) -> bool {
        let worked = self.look();
        let posted = self.posted != 0;
        self.posted -= u8::from(posted);
        std::mem::take(&mut self.news) | worked | posted
    }

    /// Reads what has come. True if there was anything.
    #[inline]
    fn look(&mut self) -> bool {
        if self.armed {
            self.disarm();
        }
        let mut worked = !self.waiting.is_empty() && self.pump();
        let mut records = 0;
        while records < RECORDS_PER_TURN && self.read_one() {
            records += 1;
        }
        worked |= records != 0;
        if records < RECORDS_PER_TURN && self.read >= ROOM_BYTES {
            self.read = 0;
            self.tell(Tell::Room);
            self.channel.wake();
        }
        if !worked {
            self.looks += 1;
            if self.looks >= LOOKS_PER_CHECK {
                self.hear();
            }
        }
        worked
    }

    /// To be called before the descriptor is slept on. True: something is there already, or was read amid a question and nobody has looked at it.
    pub(crate) fn arm(&mut self) -> bool {
        if self.news {
            return true;
        }
        if !self.armed && !self.is_over() {
            self.channel.settle();
            self.armed = true;
            return self.channel.arm();
        }
        self.channel.ready()
    }

    #[cold]
    fn disarm(&mut self) {
        self.armed = false;
        self.channel.disarm();
        self.hear();
    }

    #[cold]
    fn hear(&mut self) {
        self.looks = 0;
        match self.channel.listen() {
            Ok(Heard::Bell | Heard::Nothing) => {}
            Ok(Heard::Gone) => {
                self.gone = true;
                // What it said last is read first.
                while self.read_one() {}
                let why = match self.connection.reason(REASON_PATIENCE) {
                    Some(why) => format!("the service has put this program out: {why}"),
                    None => "the service has ended".into(),
                };
                self.end(&why);
            }
            Err(broken) => self.end(&broken.to_string()),
        }
    }

    /// It is over: nothing of the program's memory is used any more.
    #[cold]
    fn end(&mut self, why: &str) {
        self.waiting.clear();
        self.shown = None;
        self.over.get_or_insert_with(|| why.to_owned());
    }

    #[inline]
    fn read_one(&mut self) -> bool {
        if self.is_over() {
            return false;
        }
        let (mark, length) = match self.channel.read(&mut self.buffer) {
            Ok(Some(record)) => record,
            Ok(None) => return false,
            Err(broken) => {
                self.end(&broken.to_string());
                return true;
            }
        };
        self.read += length;
        let buffer = std::mem::take(&mut self.buffer);
        let taken = self.take(mark, &buffer[..length]);
        self.buffer = buffer;
        if taken.is_none() {
            self.end("it wrote what cannot be");
        }
        true
    }

    /// Takes a record. `None`: it cannot be.
    #[inline]
    fn take(&mut self, mark: u32, record: &[u8]) -> Option<()> {
        self.news |= matches!(mark, told::END | told::EVENT | told::ARRIVED);
        match mark {
            told::END => {
                let (head, bytes) = record.split_first_chunk::<END_BYTES>()?;
                self.take_end(End::parse(head).ok()?.completion, bytes)
            }
            told::BYTES => {
                let (op, rest) = record.split_first_chunk()?;
                let (offset, bytes) = rest.split_first_chunk()?;
                let op = OpId::from_bits(u64::from_le_bytes(*op));
                self.place(op, u64::from_le_bytes(*offset), bytes)
            }
            told::RETIRED => {
                let count = u64::from_le_bytes(record.try_into().ok()?);
                self.unretired = self.unretired.checked_sub(count)?;
                Some(())
            }
            told::ANSWER => {
                self.answer = Some(Answer::parse(record).ok()?);
                Some(())
            }
            told::EVENT => {
                let event = parse_event(record).ok()?;
                self.note_fate(&event);
                self.events.push_back(event);
                Some(())
            }
            told::ARRIVED => Some(()),
            told::READY => {
                self.facts = Facts::parse(record).ok()?;
                (self.facts.operations_max != 0).then_some(())
            }
            told::OVER => {
                let why = String::from_utf8_lossy(record).into_owned();
                self.end(&why);
                Some(())
            }
            _ => None,
        }
    }

    /// Notes who is lost, and who is found again.
    fn note_fate(&mut self, event: &NodeEvent) {
        match *event {
            NodeEvent::Closed(node) | NodeEvent::Ended(node) => self.lose(node),
            NodeEvent::Unreachable(node) | NodeEvent::GaveUp(node) => self.note_lost(node),
            NodeEvent::Found { node, .. } | NodeEvent::Restarted(node) => {
                self.lost.remove(&node);
            }
            _ => {}
        }
    }

    fn note_lost(&mut self, node: NodeId) {
        if self.lost.len() < LOST_MAX {
            self.lost.insert(node);
        }
    }

    /// True if a short send to it counts as over once it was copied. Not to one that is lost, as nothing would tell that it failed.
    #[inline]
    fn may_be_over(&self, to: NodeId) -> bool {
        self.lost.is_empty() || !self.lost.contains(&to)
    }

    /// A node has ended. What the engine had begun with it ended before this was told; what is on its way to the engine would be looked for, as
    /// if that node were still to come, and was meant for the one that is gone.
    #[cold]
    fn lose(&mut self, node: NodeId) {
        self.note_lost(node);
        for op in self.flights.lose(node) {
            let abort = Tell::Abort(op.to_bits()).emit();
            self.waiting.push_back(Waiting::Record(said::TELL, abort));
        }
    }

    #[inline]
    fn take_end(&mut self, end: Completion, bytes: &[u8]) -> Option<()> {
        if matches!(end.op.kind(), OpKind::Notified | OpKind::Undelivered) {
            self.ended.push_back(end);
            return Some(());
        }
        let flight = self.flights.get(end.op)?;
        let context = flight.context;
        // By the abort, or by the program itself: which of them is not known here, and the node has ended either way.
        let gone = flight.lost && end.status == Status::Cancelled;
        let status = if gone { Status::Unreachable } else { end.status };
        if flight.given_up {
            if !end.place.is_more() {
                self.flights.end(end.op);
            }
            return Some(());
        }
        if !bytes.is_empty() {
            let before = end.bytes.checked_sub(bytes.len() as u64)?;
            self.place(end.op, end.place.offset().checked_add(before)?, bytes)?;
        }
        if !end.place.is_more() {
            self.flights.end(end.op);
        }
        self.ended.push_back(Completion { context, status, ..end });
        Some(())
    }

    /// Puts received bytes where they belong.
    fn place(&self, op: OpId, offset: u64, mut bytes: &[u8]) -> Option<()> {
        let flight = self.flights.get(op)?;
        if flight.given_up {
            return Some(());
        }
        let into = flight.into.as_ref()?;
        let end = offset.checked_add(bytes.len() as u64)?;
        if end > into.bytes() {
            return None;
        }
        into.range(offset, bytes.len() as u64, |part| {
            let (here, rest) = bytes.split_at(part.bytes as usize);
            // SAFETY: the receive has not ended, so its segments are valid for writes (invariant of `memory::process`); `here` is as long as
            // the part, and lies in this value's buffer.
            unsafe { pointer::copy_in(part, here) };
            bytes = rest;
            Ok::<_, ()>(())
        })
        .ok()
    }
}
