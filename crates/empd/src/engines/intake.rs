//! What a client's records mean: read once, checked, done.

use emp_host::daemon::{
    Answer, DESCRIPTOR_BYTES, Descriptor, End, Export, Posting, Question, Tell, Wrong, said, told,
};
use emp_host::{
    AtomicDescriptor, BufferPlace, Completion, CompletionMode, GetDescriptor, NodeId, OpKind,
    PostError, PutDescriptor, RawOp, RawSend, ReceiveDescriptor, RegionId, SegmentList,
    SendDescriptor, Status,
};

use super::engine::{Engine, Waiting};
use super::memory::{Lent, segments_of};
use super::operations::Operation;

/// Probes without a match that are remembered: threads of one program that probe at a time.
const LOOKS_MAX: usize = 8;

/// The client that asks for what is not there is put out, before the system does so with somebody else.
const NO_MEMORY: Wrong = Wrong("the machine has no memory for what it posts");

/// A message of which pieces are still to come.
pub(super) struct Filling {
    descriptor: Descriptor,
    bytes: Vec<u8>,
}

impl Engine {
    /// Takes one record.
    ///
    /// # Errors
    ///
    /// If it cannot be.
    #[inline]
    pub(super) fn take(&mut self, mark: u32, record: &[u8]) -> Result<(), Wrong> {
        if mark == said::MORE {
            return self.take_more(record);
        }
        if self.filling.is_some() {
            return Err(Wrong("a record amid a message"));
        }
        match mark {
            said::POST => {
                let head = record.split_first_chunk::<DESCRIPTOR_BYTES>();
                let (head, payload) = head.ok_or(Wrong("a descriptor that is too short"))?;
                self.take_post(Descriptor::parse(head)?, payload)
            }
            said::ASK => {
                let answer = self.answer(Question::parse(record)?);
                self.outbox.say(told::ANSWER, answer.emit());
                Ok(())
            }
            said::TELL => {
                self.take_told(Tell::parse(record)?);
                Ok(())
            }
            _ => Err(Wrong("a record of a kind that there is not")),
        }
    }

    #[inline]
    fn take_post(&mut self, descriptor: Descriptor, payload: &[u8]) -> Result<(), Wrong> {
        let operations_max = self.operations_max;
        let left = self.held_bytes_max - self.held;
        let receives = descriptor.posting.kind() == OpKind::Receive;
        let count = if receives { &mut self.receives } else { &mut self.sends };
        if *count >= operations_max {
            return Err(Wrong("more operations than it may have"));
        }
        *count += 1;
        let whole = payload.len() as u64 == descriptor.payload_and_room().0;
        if is_over(&descriptor) {
            if descriptor.bytes > self.buffered_bytes_max {
                return Err(Wrong("a send that cannot be over"));
            }
            if whole && self.sends_waiting.is_empty() {
                return self.send_copied(descriptor, payload);
            }
        }
        let (sent, room) = descriptor.payload_and_room();
        let all = sent.checked_add(room).filter(|all| *all <= left);
        let all = all.ok_or(Wrong("more bytes than may be held for it"))?;
        // What is over is short, and bounded by the number of operations.
        self.held += if is_over(&descriptor) { 0 } else { all };
        if whole {
            let memory = match sent {
                0 => Lent::zeros(room as usize),
                _ => Lent::with_room(payload, room as usize),
            };
            self.post(Waiting { descriptor, memory: memory.ok_or(NO_MEMORY)? });
            return Ok(());
        }
        if payload.len() as u64 > sent || room != 0 {
            return Err(Wrong("other bytes than its descriptor says"));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(sent as usize).map_err(|_| NO_MEMORY)?;
        bytes.extend_from_slice(payload);
        self.filling = Some(Filling { descriptor, bytes });
        Ok(())
    }

    fn take_more(&mut self, record: &[u8]) -> Result<(), Wrong> {
        let filling = self.filling.as_mut().ok_or(Wrong("more of no message"))?;
        let all = filling.descriptor.bytes as usize;
        if record.len() > all - filling.bytes.len() {
            return Err(Wrong("more bytes than its descriptor says"));
        }
        filling.bytes.extend_from_slice(record);
        if filling.bytes.len() == all
            && let Some(Filling { descriptor, bytes }) = self.filling.take()
        {
            self.post(Waiting { descriptor, memory: Lent::new(bytes.into()) });
        }
        Ok(())
    }

    /// Sends a short message from where it was read, which is copied before the post returns.
    #[inline]
    fn send_copied(&mut self, descriptor: Descriptor, payload: &[u8]) -> Result<(), Wrong> {
        let place = self.operations.add(operation(&descriptor, None)).unwrap_or(u64::MAX);
        let send = send_of(&descriptor, segments_of(payload), Some(CompletionMode::Buffered));
        let send = SendDescriptor { context: place, ..send };
        // SAFETY: a buffered send is copied before its post returns, or refused; the record stays as it is for the call.
        let posted = unsafe { self.desk.send(send, is_more(&descriptor)) };
        match posted {
            Ok(RawSend::Over(status)) => {
                self.operations.remove(place);
                self.was_over(&descriptor, status);
            }
            Ok(RawSend::Flying(op)) => self.began(place, op),
            Err(error) => {
                self.operations.remove(place);
                let memory = Lent::new(payload.into());
                match error {
                    PostError::Busy | PostError::Exhausted | PostError::PoolFull => {
                        self.sends_waiting.push_back(Waiting { descriptor, memory });
                    }
                    PostError::TooLong => self.post(Waiting { descriptor, memory }),
                    _ => self.was_over(&descriptor, status_of(error)),
                }
            }
        }
        Ok(())
    }

    /// Posts what has its own memory, behind what waits.
    pub(super) fn post(&mut self, waiting: Waiting) {
        let receives = waiting.descriptor.posting.kind() == OpKind::Receive;
        let queue = if receives { &mut self.receives_waiting } else { &mut self.sends_waiting };
        if !queue.is_empty() {
            return queue.push_back(waiting);
        }
        if let Some(waiting) = self.try_post(waiting) {
            let queue = if receives { &mut self.receives_waiting } else { &mut self.sends_waiting };
            queue.push_back(waiting);
        }
    }

    /// Posts what waited. True if there was anything.
    pub(super) fn retry(&mut self) -> bool {
        let mut worked = false;
        while let Some(waiting) = self.sends_waiting.pop_front() {
            if let Some(waiting) = self.try_post(waiting) {
                self.sends_waiting.push_front(waiting);
                break;
            }
            worked = true;
        }
        while let Some(waiting) = self.receives_waiting.pop_front() {
            if let Some(waiting) = self.try_post(waiting) {
                self.receives_waiting.push_front(waiting);
                break;
            }
            worked = true;
        }
        worked
    }

    /// Posts one. It comes back if the engine has no room for it now.
    fn try_post(&mut self, waiting: Waiting) -> Option<Waiting> {
        let Waiting { descriptor, memory } = waiting;
        let sent = descriptor.payload_and_room().0 as usize;
        let (payload, room) = (memory.part(0, sent), memory.part(sent, usize::MAX));
        // Of an atomic operation, which has as much to compare with as operands.
        let half = (memory.part(0, sent / 2), memory.part(sent / 2, sent / 2));
        let place = match self.operations.add(operation(&descriptor, Some(memory))) {
            Some(place) => place,
            None => {
                // It calls two by one name: neither of them can be told from the other any more.
                self.wrong = Some(Wrong("two operations of one name"));
                return None;
            }
        };
        // SAFETY: the memory is kept with the operation until its last end was handed out, or the node was closed (`memory`).
        let posted = unsafe { self.hand_over(&descriptor, place, (payload, half), room) };
        match posted {
            Ok(RawSend::Flying(op)) => self.began(place, op),
            Ok(RawSend::Over(status)) => {
                self.operations.remove(place);
                self.was_over(&descriptor, status);
            }
            Err(PostError::Busy | PostError::Exhausted | PostError::PoolFull) => {
                let memory = self.operations.remove(place)?.memory?;
                return Some(Waiting { descriptor, memory });
            }
            Err(error) => {
                self.operations.remove(place);
                self.was_over(&descriptor, status_of(error));
            }
        }
        None
    }

    /// Posts an operation, whose place among the others is its context. What is sent comes whole and, for operators that compare, in two halves.
    ///
    /// # Safety
    ///
    /// As for the [`Desk`](emp_host::Desk)'s posts.
    unsafe fn hand_over(
        &self,
        descriptor: &Descriptor,
        context: u64,
        (payload, halves): (SegmentList, (SegmentList, SegmentList)),
        room: SegmentList,
    ) -> Result<RawSend, PostError> {
        let Descriptor { endpoint, posting, .. } = *descriptor;
        let receive = |selector, claim, room| ReceiveDescriptor {
            endpoint,
            selector,
            segments: room,
            claim,
            context,
        };
        // SAFETY (all): as the caller promises.
        match posting {
            Posting::Send { .. } => {
                let send = SendDescriptor { context, ..send_of(descriptor, payload, None) };
                // SAFETY: see above.
                return unsafe { self.desk.send(send, is_more(descriptor)) };
            }
            Posting::Receive { selector, claim } => {
                // SAFETY: see above.
                unsafe { self.desk.receive(receive(selector, claim, room), None) }
            }
            Posting::MultiReceive { selector, least_free } => {
                // SAFETY: see above.
                unsafe { self.desk.receive(receive(selector, None, room), Some(least_free)) }
            }
            Posting::Put { target, immediate, completion } => {
                let (segments, completion) = (payload, copied_already(completion));
                let put =
                    PutDescriptor { target, endpoint, segments, immediate, completion, context };
                // SAFETY: see above.
                unsafe { self.desk.put(put) }
            }
            Posting::Get { target } => {
                let get = GetDescriptor { target, endpoint, segments: room, context };
                // SAFETY: see above.
                unsafe { self.desk.get(get) }
            }
            Posting::Atomic { target, operation, datatype, count, fetch } => {
                let (operands, compare) =
                    if operation.compares() { (halves.0, Some(halves.1)) } else { (payload, None) };
                let fetch_into = fetch.then_some(room);
                let atomic = AtomicDescriptor {
                    target,
                    endpoint,
                    operation,
                    datatype,
                    count,
                    operands,
                    compare,
                    fetch_into,
                    context,
                };
                // SAFETY: see above.
                unsafe { self.desk.atomic(atomic) }
            }
        }
        .map(RawSend::Flying)
    }

    fn began(&mut self, place: u64, op: RawOp) {
        if let Some(operation) = self.operations.get(place) {
            operation.op = Some(op);
        }
    }

    /// An operation is over that has no completion.
    pub(super) fn was_over(&mut self, descriptor: &Descriptor, status: Status) {
        let receives = descriptor.posting.kind() == OpKind::Receive;
        let count = if receives { &mut self.receives } else { &mut self.sends };
        *count -= 1;
        let end = ended(descriptor, status);
        if is_over(descriptor) {
            self.outbox.retire();
            if status != Status::Ok {
                self.notice(OpKind::Undelivered, descriptor.endpoint, &end.completion);
            }
        } else {
            let (payload, room) = descriptor.payload_and_room();
            self.held -= payload + room;
            self.outbox.say(told::END, end.emit());
        }
    }

    /// Something that is no end: a send that was over for the client was none, or another's put has come.
    pub(super) fn notice(&mut self, kind: OpKind, endpoint: u16, completion: &Completion) {
        let op = emp_host::OpId::elsewhere(kind, 0, 0);
        let notice = Completion { op, context: endpoint.into(), ..*completion };
        self.outbox.say(told::END, End { completion: notice }.emit());
    }

    fn answer(&mut self, question: Question) -> Answer {
        match question {
            Question::Open(number) => Answer::Opened(self.desk.open(number)),
            Question::Cancel(name) => Answer::Done(self.cancel(name)),
            Question::Probe(number, selector, claim) => {
                let found = self.desk.probe(number, selector, claim);
                let look = (number, selector);
                if found.is_none() && !self.looks.contains(&look) {
                    self.looks.truncate(LOOKS_MAX - 1);
                    self.looks.insert(0, look);
                }
                Answer::Probed(found)
            }
            Question::Left => {
                let mut left = self.desk.left();
                left.drained &= self.sends_waiting.is_empty();
                Answer::Left(left)
            }
            Question::Counters => {
                let counters = self.node.counters();
                Answer::Counters(counters.iter().map(|(_, value)| value).collect())
            }
            Question::Pool => {
                let (free, all) = self.node.pool_slots();
                Answer::Pool(free as u64, all as u64)
            }
            Question::Export(export) => Answer::Exported(self.export(export)),
            Question::Remove(key) => Answer::Done(self.desk.remove_region(key)),
            Question::SetBase(key, base) => Answer::Done(self.desk.set_region_base(key, base)),
            Question::Close => {
                self.close();
                Answer::Closed
            }
        }
    }

    /// Exports memory of the client's, whose descriptor is in the bell if it has not been taken.
    fn export(&mut self, export: Export) -> Result<RegionId, PostError> {
        // What it did wrong shows when it is next heard.
        let _ = self.hear();
        let Export { key, address, bytes, rights, endpoint } = export;
        self.desk.export(key, (address, bytes), rights, endpoint)
    }

    fn take_told(&mut self, tell: Tell) {
        match tell {
            Tell::CloseEndpoint(number) => self.desk.close(number),
            Tell::Abort(name) => self.abort(name),
            Tell::Cancel(name) => {
                self.cancel(name);
            }
            Tell::Discard(claim) => self.desk.discard(claim),
            Tell::Hint(node, link, address) => self.desk.hint(node, link, address),
            Tell::Resolve(node, link, address) => self.desk.look_for(node, link, address),
            Tell::Collection(frames) => self.node.set_collection(frames),
            Tell::CollectionOf(node, frames) => {
                self.node.set_collection_of(node, frames);
            }
            Tell::Shows => {
                // Its descriptor is in the bell. What it did wrong shows when it is next heard.
                let _ = self.hear();
            }
            // It was woken by that.
            Tell::Room => {}
            Tell::Unread(count) => self.desk.set_unread(count as usize),
            Tell::Taken(count) if count > self.notified => {
                self.wrong = Some(Wrong("more notifications than there were"));
            }
            Tell::Taken(count) => {
                self.notified -= count;
                self.desk.release_notifications(count as usize);
            }
        }
    }
}

fn is_more(descriptor: &Descriptor) -> bool {
    matches!(descriptor.posting, Posting::Send { more: true, .. })
}

/// It is over for the client, who is told if it was not delivered.
pub(super) fn is_over(descriptor: &Descriptor) -> bool {
    matches!(descriptor.posting, Posting::Send { over: true, .. })
}

/// What is to be complete when it is copied: the service has done so.
fn copied_already(completion: CompletionMode) -> CompletionMode {
    let copied = completion == CompletionMode::Buffered;
    if copied { CompletionMode::Auto } else { completion }
}

fn operation(descriptor: &Descriptor, memory: Option<Lent>) -> Operation {
    let Descriptor { op: name, endpoint, .. } = *descriptor;
    let (payload, over) = (descriptor.payload_and_room().0 as usize, is_over(descriptor));
    Operation { name, payload, over, endpoint, op: None, memory }
}

/// A client's send, as the firmware is told of it. Without `mode`, complete as the client has said.
fn send_of(
    descriptor: &Descriptor,
    segments: SegmentList,
    mode: Option<CompletionMode>,
) -> SendDescriptor {
    let Posting::Send { to, to_endpoint, match_bits, immediate, synchronous, completion, .. } =
        descriptor.posting
    else {
        unreachable!("it is a send")
    };
    SendDescriptor {
        to,
        endpoint: descriptor.endpoint,
        to_endpoint,
        match_bits,
        segments,
        immediate,
        synchronous,
        completion: mode.unwrap_or(copied_already(completion)),
        context: 0,
    }
}

/// How the client hears that a post was refused, of whom it was not asked before.
fn status_of(error: PostError) -> Status {
    match error {
        PostError::NoEndpoint | PostError::Closing => Status::EndpointClosed,
        PostError::NoClaim => Status::Abandoned,
        PostError::TooLong => Status::TooLong,
        PostError::MemoryFault => Status::MemoryFault,
        PostError::Unsupported => Status::NoRights,
        _ => Status::NotFound,
    }
}

/// The end of an operation that the engine has not begun.
fn ended(descriptor: &Descriptor, status: Status) -> End {
    let (peer, peer_endpoint, match_bits, bytes) = match descriptor.posting {
        Posting::Send { to, to_endpoint, match_bits, .. } => {
            (to, to_endpoint, match_bits, descriptor.bytes)
        }
        Posting::Receive { .. } | Posting::MultiReceive { .. } => (NodeId::ANY, 0, 0, 0),
        Posting::Put { target, .. } | Posting::Get { target } | Posting::Atomic { target, .. } => {
            (target.to, target.to_endpoint, target.key, descriptor.bytes)
        }
    };
    End {
        completion: Completion {
            op: emp_host::OpId::from_bits(descriptor.op),
            context: 0,
            status,
            bytes,
            total_bytes: bytes,
            peer,
            peer_endpoint,
            match_bits,
            immediate: None,
            place: BufferPlace::WHOLE,
        },
    }
}
