//! One engine's thread: takes what its client posts, turns its node, and hands out what has ended.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use emp_host::daemon::{Descriptor, End, Facts, Interface, Wrong, emit_event, told};
use emp_host::{Completion, Desk, Node, OpKind, Selector, Status};
use emp_link::service::channel::{Broken, Channel, Gift, Heard, RECORD_BYTES_MAX};
use emp_link::service::protocol::Engine as Wanted;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

use super::intake::Filling;
use super::memory::Lent;
use super::node;
use super::operations::Operations;
use super::outbox::Outbox;
use super::{ENDS, Options, SERVES, Shared};
use crate::bell::Bell;
use crate::switch::pace::{Next, Pace, Polling};

/// How long a client may take to map its memory.
const MAPPING: Duration = Duration::from_secs(10);

/// Records taken in one turn, so that frames have theirs: a ring's worth of long ones.
const RECORDS_PER_TURN: usize = 32;

/// What may wait for room in the client's ring: beyond it nothing is taken from the engine, where it is bounded.
const OUTBOX_MAX: usize = 1024;

/// Longest that what was sent is delivered without its program: half a minute of a peer that is busy elsewhere.
const LINGER_MAX: Duration = Duration::from_secs(30);

/// Sleeps while the client takes nothing of a full ring: at first as long as it takes to be woken, then such that one that is stopped costs nothing.
const NAPS: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(50));

/// How often it is looked whether what was sent is delivered, once the program is gone.
const DELIVERED_EVERY: Duration = Duration::from_millis(5);

/// What an engine begins with.
pub(super) struct Start {
    pub(super) wanted: Wanted,
    pub(super) interfaces: Vec<String>,
    pub(super) channel: Channel,
    pub(super) memory: OwnedFd,
    pub(super) wakeup: Bell,
}

/// What the engine had no room for yet.
pub(super) struct Waiting {
    pub(super) descriptor: Descriptor,
    pub(super) memory: Lent,
}

/// An engine.
///
/// Of the fields, `node` and `desk` go before `operations` and all else that has [`Lent`] memory; and [`close`](Self::close) was called before.
pub(super) struct Engine {
    pub(super) node: Node,
    pub(super) desk: Desk,
    channel: Channel,
    pub(super) operations: Operations,
    pub(super) filling: Option<Filling>,
    pub(super) sends_waiting: VecDeque<Waiting>,
    pub(super) receives_waiting: VecDeque<Waiting>,
    pub(super) outbox: Outbox,
    /// What probes found no match for.
    pub(super) looks: Vec<(u16, Selector)>,
    /// It has given a descriptor of its memory.
    reached: bool,
    /// It has given one of the file in which its node shows its state.
    shows: bool,
    /// Notifications that it was told of and whose owner has not taken them.
    pub(super) notified: u64,
    /// Operations of the client's that have not ended: all but receives, and these.
    pub(super) sends: u64,
    pub(super) receives: u64,
    /// Bytes held for it.
    pub(super) held: u64,
    pub(super) operations_max: u64,
    pub(super) held_bytes_max: u64,
    pub(super) buffered_bytes_max: u64,
    /// What was found wrong where it could not be said.
    pub(super) wrong: Option<Wrong>,
    closed: bool,
    completions: Vec<Completion>,
    nap: Duration,
}

/// Why an engine's thread ends.
pub(super) enum Over {
    /// Its client is gone, or the service ends.
    Left,
    /// The client closed it.
    Closed,
    /// The client did what it must not.
    Wrong(String),
}

impl From<Broken> for Over {
    fn from(broken: Broken) -> Self {
        Self::Wrong(broken.to_string())
    }
}

/// Runs an engine until its client is gone.
pub(super) fn run(start: Start, options: &Options, shared: &Arc<Shared>) {
    let Start { wanted, interfaces, mut channel, memory, wakeup } = start;
    let mapped = mapped(&channel, &memory, &wakeup, shared);
    drop(memory);
    if let Err(why) = mapped {
        shared.started();
        return shared.news.ended(shared.client, why);
    }
    let linger = Duration::from_millis(wanted.linger_ms.into()).min(LINGER_MAX);
    let node = node::start(&wanted, &interfaces, options);
    shared.started();
    let node = match node {
        Ok(node) => node,
        Err(why) => {
            let line: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let _ = channel.write(told::OVER, &[line.as_bytes()]);
            channel.wake();
            return shared.news.ended(shared.client, line);
        }
    };
    let mut engine = Engine::new(node, channel, options);
    engine.outbox.say(told::READY, engine.facts().emit());
    let over = engine.serve(options.polling, &wakeup, shared);
    match over {
        Over::Left => engine.deliver(linger, &wakeup, shared),
        Over::Closed => {}
        Over::Wrong(why) => shared.news.ended(shared.client, why),
    }
    engine.close();
}

/// Whether a file is some process's memory, by the kernel's word: no other file of `/proc` is called so. Then the kernel is who reads and writes
/// it, though a page of it may be one that somebody serves.
fn is_memory(file: &std::fs::File) -> bool {
    let of_proc = fstatfs(file).is_ok_and(|of| of.filesystem_type() == PROC_SUPER_MAGIC);
    let link = format!("/proc/thread-self/fd/{}", file.as_fd().as_raw_fd());
    of_proc && std::fs::read_link(link).is_ok_and(|path| path.ends_with("mem"))
}

/// Waits until the client has mapped the memory, and seals it.
fn mapped(
    channel: &Channel,
    memory: &OwnedFd,
    wakeup: &Bell,
    shared: &Shared,
) -> Result<(), String> {
    let until = Instant::now() + MAPPING;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || shared.state() != SERVES {
            return Err("it did not map its memory in time".into());
        }
        let entry = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut entries = [entry(channel.bell()), entry(wakeup.descriptor())];
        let _ = poll(&mut entries, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
        wakeup.take();
        match channel.listen() {
            Ok(Heard::Nothing) => {}
            Ok(Heard::Bell) => {
                return channel
                    .keep(memory.as_fd())
                    .map_err(|error| format!("keeping its memory: {error}"));
            }
            Ok(Heard::Gone) => return Err("it hung up".into()),
            Err(broken) => return Err(broken.to_string()),
        }
    }
}

impl Engine {
    pub(super) fn new(node: Node, channel: Channel, options: &Options) -> Self {
        Self {
            desk: Desk::new(&node),
            channel,
            operations: Operations::default(),
            filling: None,
            sends_waiting: VecDeque::new(),
            receives_waiting: VecDeque::new(),
            outbox: Outbox::default(),
            looks: Vec::new(),
            reached: false,
            shows: false,
            notified: 0,
            sends: 0,
            receives: 0,
            held: 0,
            operations_max: node.profile().operations_max as u64,
            held_bytes_max: options.held_bytes_max,
            buffered_bytes_max: node.buffered_bytes_max() as u64,
            wrong: None,
            closed: false,
            completions: Vec::with_capacity(64),
            nap: NAPS.0,
            node,
        }
    }

    fn facts(&self) -> Facts {
        let links = self.node.links().iter();
        let interface = |link: &emp_link::Capabilities| Interface {
            name: link.interface.clone(),
            frame_bytes_max: link.frame_bytes_max as u64,
            address: link.address,
        };
        Facts {
            operations_max: self.operations_max,
            held_bytes_max: self.held_bytes_max,
            buffered_bytes_max: self.buffered_bytes_max,
            single_frame_bytes_max: self.node.single_frame_bytes_max() as u64,
            atomic_bytes_max: self.node.atomic_bytes_max() as u64,
            interfaces: links.filter(|link| link.kind == "empd").map(interface).collect(),
        }
    }

    /// Until the client is gone.
    fn serve(&mut self, polling: Polling, wakeup: &Bell, shared: &Shared) -> Over {
        // A core of its own is the switch's.
        let sleeps = polling == Polling::Sleeping;
        let polling = if sleeps { Polling::Sleeping } else { Polling::Adaptive };
        let mut pace = Pace::new(polling);
        let mut buffer = vec![0; RECORD_BYTES_MAX];
        loop {
            if shared.state() != SERVES {
                return Over::Left;
            }
            match self.turn(&mut buffer) {
                Ok(true) => {
                    self.nap = NAPS.0;
                    pace.worked();
                    continue;
                }
                Ok(false) if self.closed && self.outbox.is_empty() => return Over::Closed,
                Ok(false) => {}
                Err(over) => return over,
            }
            match pace.idled(Instant::now) {
                Next::Look => std::hint::spin_loop(),
                Next::Yield => {
                    std::thread::yield_now();
                    pace.is_back(Instant::now());
                }
                Next::Sleep => match self.sleep(wakeup) {
                    Ok(Heard::Gone) => return Over::Left,
                    Ok(Heard::Bell | Heard::Nothing) => {}
                    Err(broken) => return broken.into(),
                },
            }
        }
    }

    /// All that can be done now. True if it was anything.
    pub(super) fn turn(&mut self, buffer: &mut [u8]) -> Result<bool, Over> {
        let mut worked = false;
        for _ in 0..RECORDS_PER_TURN {
            // Answers wait with all else.
            if self.closed || self.outbox.len() >= OUTBOX_MAX {
                break;
            }
            let Some((mark, length)) = self.channel.read(buffer)? else { break };
            worked = true;
            let taken = self.take(mark, &buffer[..length]);
            if let Some(wrong) = taken.err() {
                return Err(Over::Wrong(wrong.to_string()));
            }
        }
        if let Some(wrong) = self.wrong.take() {
            return Err(Over::Wrong(wrong.to_string()));
        }
        if !self.closed {
            worked |= self.retry();
            worked |= self.hand_out();
        }
        worked |= self.outbox.flush(&mut self.channel)?;
        self.held -= self.outbox.take_freed();
        self.channel.wake();
        Ok(worked)
    }

    /// What has ended and happened. True if it was anything, or the node had something to do.
    fn hand_out(&mut self) -> bool {
        if self.outbox.len() >= OUTBOX_MAX {
            self.node.progress();
            return false;
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.desk.poll(&mut completions);
        let mut worked = !completions.is_empty() || !self.desk.is_idle();
        for completion in completions.drain(..) {
            self.ended(&completion);
        }
        self.completions = completions;
        while self.outbox.len() < OUTBOX_MAX
            && let Some(event) = self.node.take_event()
        {
            self.outbox.say(told::EVENT, emit_event(&event));
            worked = true;
        }
        let looks = &mut self.looks;
        let has_come = |look: &(u16, Selector)| self.desk.probe(look.0, look.1, false).is_some();
        if looks.iter().any(has_come) {
            looks.clear();
            self.outbox.say(told::ARRIVED, [0]);
        }
        worked
    }

    /// An operation has ended, or a part of one.
    fn ended(&mut self, completion: &Completion) {
        let kind = completion.op.kind();
        if matches!(kind, OpKind::Undelivered | OpKind::Notified) {
            self.notified += u64::from(kind == OpKind::Notified);
            return self.notice(kind, completion.context as u16, completion);
        }
        let Some(operation) = self.operations.get(completion.context) else { return };
        let (name, is_more) = (operation.name, completion.place.is_more());
        let op = emp_host::OpId::from_bits(name);
        let end = End { completion: Completion { op, context: 0, ..*completion } }.emit();
        if is_more {
            let Some(memory) = &operation.memory else { return };
            let (from, bytes) = (completion.place.offset(), completion.bytes as usize);
            // SAFETY: this end tells of these bytes.
            let bytes = unsafe { memory.copy(from as usize, bytes) };
            return self.outbox.received((name, end), (from, bytes), 0);
        }
        let Some(operation) = self.operations.remove(completion.context) else { return };
        // SAFETY: this was its last end.
        let memory = operation.memory.map(|memory| unsafe { memory.back() }).unwrap_or_default();
        let (held, payload) = (memory.len() as u64, operation.payload);
        let count = if kind == OpKind::Receive { &mut self.receives } else { &mut self.sends };
        *count -= 1;
        if operation.over {
            self.outbox.retire();
            if completion.status != Status::Ok {
                self.notice(OpKind::Undelivered, operation.endpoint, completion);
            }
            return;
        }
        // Of a message that was cut there are bytes; of what else went wrong, none that mean anything.
        let has_come = kind == OpKind::Receive || completion.status == Status::Ok;
        if payload == memory.len() || !has_come {
            self.held -= held;
            return self.outbox.say(told::END, end);
        }
        let at = completion.place.offset();
        let from = payload.saturating_add(at as usize).min(memory.len());
        let end_at = from.saturating_add(completion.bytes as usize).min(memory.len());
        let bytes = if from == 0 {
            let mut memory = memory.into_vec();
            memory.truncate(end_at);
            memory.into_boxed_slice()
        } else {
            memory[from..end_at].into()
        };
        self.outbox.received((name, end), (at, bytes), held);
    }

    /// All that came by the bell, so that who rings oftener than it was asked to is found out; among it a descriptor of the client's
    /// memory or of its state file, perhaps.
    pub(super) fn hear(&mut self) -> Result<Heard, Broken> {
        let mut all = Heard::Nothing;
        loop {
            let (heard, given) = self.channel.listen_for_gifts()?;
            if let Some(given) = given {
                self.wrong = self.take_gift(given).err().or(self.wrong);
            }
            match heard {
                Heard::Bell => all = heard,
                Heard::Nothing => return Ok(all),
                Heard::Gone => return Ok(heard),
            }
            // It is put out for that, and may ring meanwhile.
            if self.wrong.is_some() {
                return Ok(all);
            }
        }
    }

    fn take_gift(&mut self, (gift, given): (Gift, OwnedFd)) -> Result<(), Wrong> {
        match gift {
            Gift::Memory => self.reach(given),
            Gift::State => self.show_in(given),
        }
    }

    fn reach(&mut self, given: OwnedFd) -> Result<(), Wrong> {
        let file = std::fs::File::from(given);
        if std::mem::replace(&mut self.reached, true) {
            return Err(Wrong("its memory for the second time"));
        }
        if !is_memory(&file) {
            return Err(Wrong("a descriptor that is none of its memory"));
        }
        self.desk.reach(file);
        Ok(())
    }

    fn show_in(&mut self, given: OwnedFd) -> Result<(), Wrong> {
        if std::mem::replace(&mut self.shows, true) {
            return Err(Wrong("its state file for the second time"));
        }
        self.desk.show_in(given).map_err(|_| Wrong("a descriptor that is none of a state file"))
    }

    /// Until there is something to do.
    fn sleep(&mut self, wakeup: &Bell) -> Result<Heard, Broken> {
        let waits = !self.outbox.is_empty();
        let limit = waits.then_some(self.nap);
        if waits {
            self.nap = (2 * self.nap).min(NAPS.1);
        }
        if !self.channel.arm() {
            let others = [self.channel.bell(), wakeup.descriptor()];
            self.desk.sleep(&others, limit);
        }
        self.channel.disarm();
        wakeup.take();
        self.hear()
    }

    /// Takes what was handed over and not read yet. As much as the ring holds: others may have the memory still.
    fn take_last(&mut self) {
        let (end, mut buffer) = (self.channel.end(), vec![0; RECORD_BYTES_MAX]);
        while self.channel.taken() < end
            && let Ok(Some((mark, length))) = self.channel.read(&mut buffer)
            && self.take(mark, &buffer[..length]).is_ok()
            && self.wrong.is_none()
        {}
    }

    /// Goes on until what was sent is delivered, its time is over, or the place is wanted.
    fn deliver(&mut self, linger: Duration, wakeup: &Bell, shared: &Shared) {
        let until = Instant::now() + linger;
        self.take_last();
        while Instant::now() < until && shared.state() != ENDS {
            self.retry();
            let mut completions = std::mem::take(&mut self.completions);
            self.desk.poll(&mut completions);
            completions.drain(..).for_each(|completion| self.ended(&completion));
            self.completions = completions;
            // Nobody reads it.
            self.outbox = Outbox::default();
            if self.sends == 0 && self.desk.left().drained {
                return;
            }
            self.desk.sleep(&[wakeup.descriptor()], Some(DELIVERED_EVERY));
            wakeup.take();
        }
    }

    /// Ends the node; then its memory is this process's.
    pub(super) fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            // What was cut short is the client's business, who is gone or was told.
            let _ = self.node.close(Duration::ZERO);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Also after a panic: nobody names the memory then.
        self.close();
    }
}
