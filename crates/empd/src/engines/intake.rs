//! What a client's records mean: read once, checked, done.

use emp_host::daemon::{Answer, DESCRIPTOR_BYTES, Descriptor, End, Posting, Question, Tell, Wrong};
use emp_host::daemon::{said, told};
use emp_host::{
    BufferPlace, Completion, CompletionMode, NodeId, OpKind, PostError, RawOp, RawSend,
    ReceiveDescriptor, SegmentList, SendDescriptor, Status,
};

use super::engine::{Engine, Waiting};
use super::memory::{Lent, segments_of};
use super::operations::Operation;

/// Looks for messages in vain that are remembered: threads of one program that probe at a time.
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
        let room = self.held_bytes_max - self.held;
        let sends = matches!(descriptor.posting, Posting::Send { .. });
        let count = if sends { &mut self.sends } else { &mut self.receives };
        if *count >= operations_max {
            return Err(Wrong("more operations than it may have"));
        }
        *count += 1;
        let Posting::Send { over, .. } = descriptor.posting else {
            if !payload.is_empty() || descriptor.bytes > room {
                return Err(Wrong("a receive that cannot be"));
            }
            self.held += descriptor.bytes;
            let memory = Lent::zeros(descriptor.bytes as usize).ok_or(NO_MEMORY)?;
            self.post(Waiting { descriptor, memory });
            return Ok(());
        };
        let whole = payload.len() as u64 == descriptor.bytes;
        if over && !(whole && descriptor.bytes <= self.buffered_bytes_max) {
            return Err(Wrong("a send that cannot be over"));
        }
        if over && self.sends_waiting.is_empty() {
            return self.send_copied(descriptor, payload);
        }
        if !over && descriptor.bytes > room {
            return Err(Wrong("more bytes than may be held for it"));
        }
        // What is over is short, and bounded by the number of operations.
        if !over {
            self.held += descriptor.bytes;
        }
        if whole {
            self.post(Waiting { descriptor, memory: Lent::new(payload.into()) });
            return Ok(());
        }
        if payload.len() as u64 > descriptor.bytes {
            return Err(Wrong("more bytes than its descriptor says"));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(descriptor.bytes as usize).map_err(|_| NO_MEMORY)?;
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
                self.sent(&descriptor, status);
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
                    _ => self.sent(&descriptor, status_of(error)),
                }
            }
        }
        Ok(())
    }

    /// Posts what has its own memory, behind what waits.
    pub(super) fn post(&mut self, waiting: Waiting) {
        let sends = matches!(waiting.descriptor.posting, Posting::Send { .. });
        let queue = if sends { &mut self.sends_waiting } else { &mut self.receives_waiting };
        if !queue.is_empty() {
            return queue.push_back(waiting);
        }
        if let Some(waiting) = self.try_post(waiting) {
            let queue = if sends { &mut self.sends_waiting } else { &mut self.receives_waiting };
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
        let (segments, kind) = (memory.segments(), kind_of(&descriptor));
        let place = match self.operations.add(operation(&descriptor, Some(memory))) {
            Some(place) => place,
            None => {
                // It calls two by one name: neither of them can be told from the other any more.
                self.wrong = Some(Wrong("two operations of one name"));
                return None;
            }
        };
        // SAFETY (both): the memory is kept with the operation until its last end was handed out, or the node was closed (`memory`).
        let posted = match descriptor.posting {
            Posting::Send { .. } => {
                let send =
                    SendDescriptor { context: place, ..send_of(&descriptor, segments, None) };
                // SAFETY: see above.
                unsafe { self.desk.send(send, is_more(&descriptor)) }
            }
            Posting::Receive { selector, claim } => {
                let receive = ReceiveDescriptor {
                    endpoint: descriptor.endpoint,
                    selector,
                    segments,
                    claim,
                    context: place,
                };
                // SAFETY: see above.
                unsafe { self.desk.receive(receive, None) }.map(RawSend::Flying)
            }
            Posting::MultiReceive { selector, least_free } => {
                let receive = ReceiveDescriptor {
                    endpoint: descriptor.endpoint,
                    selector,
                    segments,
                    claim: None,
                    context: place,
                };
                // SAFETY: see above.
                unsafe { self.desk.receive(receive, Some(least_free)) }.map(RawSend::Flying)
            }
        };
        match posted {
            Ok(RawSend::Flying(op)) => self.began(place, op),
            Ok(RawSend::Over(status)) => {
                self.operations.remove(place);
                self.sent(&descriptor, status);
            }
            Err(PostError::Busy | PostError::Exhausted | PostError::PoolFull) => {
                let memory = self.operations.remove(place)?.memory?;
                return Some(Waiting { descriptor, memory });
            }
            Err(error) => {
                self.operations.remove(place);
                if kind == OpKind::Send {
                    self.sent(&descriptor, status_of(error));
                } else {
                    self.receives -= 1;
                    self.held -= descriptor.bytes;
                    let end = ended(&descriptor, status_of(error));
                    self.outbox.say(told::END, end.emit());
                }
            }
        }
        None
    }

    fn began(&mut self, place: u64, op: RawOp) {
        if let Some(operation) = self.operations.get(place) {
            operation.op = Some(op);
        }
    }

    /// A send is over that had no completion.
    fn sent(&mut self, descriptor: &Descriptor, status: Status) {
        let Posting::Send { over, .. } = descriptor.posting else { return };
        self.sends -= 1;
        if over {
            self.outbox.retire();
            if status != Status::Ok {
                self.undelivered(descriptor.endpoint, &ended(descriptor, status).completion);
            }
        } else {
            self.held -= descriptor.bytes;
            self.outbox.say(told::END, ended(descriptor, status).emit());
        }
    }

    /// A send that was over for the client was none.
    pub(super) fn undelivered(&mut self, endpoint: u16, completion: &Completion) {
        let op = emp_host::OpId::elsewhere(OpKind::Undelivered, 0, 0);
        let notice = Completion { op, context: endpoint.into(), ..*completion };
        self.outbox.say(told::END, End { completion: notice }.emit());
    }

    fn answer(&mut self, question: Question) -> Answer {
        match question {
            Question::Open(number) => Answer::Opened(self.desk.open(number)),
            Question::Cancel(name) => Answer::Cancelled(self.cancel(name)),
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
            Question::Close => {
                self.close();
                Answer::Closed
            }
        }
    }

    fn cancel(&mut self, name: u64) -> bool {
        if let Some(op) = self.operations.op(name) {
            return self.desk.cancel(op);
        }
        // A receive that the engine had no room for yet.
        let waits = |waiting: &Waiting| waiting.descriptor.op == name;
        let Some(at) = self.receives_waiting.iter().position(waits) else { return false };
        if let Some(Waiting { descriptor, .. }) = self.receives_waiting.remove(at) {
            self.receives -= 1;
            self.held -= descriptor.bytes;
            self.outbox.say(told::END, ended(&descriptor, Status::Cancelled).emit());
        }
        true
    }

    fn take_told(&mut self, tell: Tell) {
        match tell {
            Tell::CloseEndpoint(number) => self.desk.close(number),
            Tell::Abort(name) => {
                if let Some(op) = self.operations.op(name) {
                    self.desk.abort(op);
                }
            }
            Tell::Cancel(name) => {
                self.cancel(name);
            }
            Tell::Discard(claim) => self.desk.discard(claim),
            Tell::Hint(node, link, address) => self.desk.hint(node, link, address),
            Tell::Resolve(node, link, address) => self.desk.look_for(node, link, address),
            Tell::Collection(frames) => self.node.set_collection(frames),
        }
    }
}

fn kind_of(descriptor: &Descriptor) -> OpKind {
    match descriptor.posting {
        Posting::Send { .. } => OpKind::Send,
        Posting::Receive { .. } | Posting::MultiReceive { .. } => OpKind::Receive,
    }
}

fn is_more(descriptor: &Descriptor) -> bool {
    matches!(descriptor.posting, Posting::Send { more: true, .. })
}

fn operation(descriptor: &Descriptor, memory: Option<Lent>) -> Operation {
    let over = matches!(descriptor.posting, Posting::Send { over: true, .. });
    let (name, endpoint) = (descriptor.op, descriptor.endpoint);
    Operation { name, kind: kind_of(descriptor), over, endpoint, op: None, memory }
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
    let copied = completion == CompletionMode::Buffered;
    // The service has it copied already.
    let said = if copied { CompletionMode::Auto } else { completion };
    SendDescriptor {
        to,
        endpoint: descriptor.endpoint,
        to_endpoint,
        match_bits,
        segments,
        immediate,
        synchronous,
        completion: mode.unwrap_or(said),
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
        _ => Status::NotFound,
    }
}

/// The end of an operation that the engine has not begun.
fn ended(descriptor: &Descriptor, status: Status) -> End {
    let (peer, peer_endpoint, match_bits, bytes) = match descriptor.posting {
        Posting::Send { to, to_endpoint, match_bits, .. } => {
            (to, to_endpoint, match_bits, descriptor.bytes)
        }
        _ => (NodeId::ANY, 0, 0, 0),
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
