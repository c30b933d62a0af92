//! The papers' programs: ping-pong, streams one way and both ways, and computing while messages move (E58, E59, I21 to I23).

use std::collections::VecDeque;

use emp_firmware::{Span, Time};

use super::host::{Buffer, Next, Port, Program};

/// Receives that are posted in advance (I22).
const RECEIVES: usize = 400;
/// Sends that are posted at a time (I22).
const SENDS: usize = 2;
/// The tag of all messages.
const TAG: u32 = 1;

/// One end of a ping-pong. The first posts a receive and a send, and polls until both are over; the other receives, then answers (I21).
pub(super) struct PingPong {
    first: bool,
    bytes: u32,
    /// Rounds to go, and how many of them come before measuring.
    left: u32,
    warm: u32,
    buffers: Option<[Buffer; 2]>,
    receive: Option<usize>,
    send: Option<usize>,
    answers: bool,
    /// When the first measured round began, and when the last ended.
    pub(super) measured: Option<(Time, Time)>,
    pub(super) failed: bool,
}

impl PingPong {
    pub(super) fn new(first: bool, bytes: u32, rounds: u32, warm: u32) -> Self {
        Self {
            first,
            bytes,
            left: rounds + warm,
            warm,
            buffers: None,
            receive: None,
            send: None,
            answers: false,
            measured: None,
            failed: false,
        }
    }

    /// The first's next round.
    fn serve(&mut self, port: &mut Port<'_>, [into, from]: &[Buffer; 2]) -> Next {
        if self.warm > 0 {
            self.warm -= 1;
        } else {
            let (start, _) = self.measured.unwrap_or((port.now, port.now));
            self.measured = Some((start, port.now));
        }
        let Some(left) = self.left.checked_sub(1) else { return Next::End };
        self.left = left;
        self.receive = port.receive(into, TAG);
        self.send = port.send(from, TAG);
        Next::Poll
    }

    /// The other's next half round.
    fn answer(&mut self, port: &mut Port<'_>, [into, from]: &[Buffer; 2]) -> Next {
        if self.answers {
            self.answers = false;
            self.send = port.send(from, TAG);
            return Next::Poll;
        }
        let Some(left) = self.left.checked_sub(1) else { return Next::End };
        self.left = left;
        self.answers = true;
        self.receive = port.receive(into, TAG);
        Next::Poll
    }
}

/// Takes an operation that is over.
fn take(op: &mut Option<usize>, failed: &mut bool, port: &mut Port<'_>) {
    if let Some((ok, _)) = op.and_then(|at| port.take(at)) {
        *failed |= !ok;
        *op = None;
    }
}

impl Program for PingPong {
    fn step(&mut self, port: &mut Port<'_>) -> Next {
        let buffers = self
            .buffers
            .get_or_insert_with(|| [port.buffer(self.bytes), port.buffer(self.bytes)])
            .clone();
        take(&mut self.receive, &mut self.failed, port);
        take(&mut self.send, &mut self.failed, port);
        if self.receive.is_some() || self.send.is_some() {
            return Next::Poll;
        }
        if self.first { self.serve(port, &buffers) } else { self.answer(port, &buffers) }
    }
}

/// One end of a stream: many receives posted in advance, two sends at a time, the oldest waited for first (I22, I23).
pub(super) struct Stream {
    bytes: u32,
    /// Messages to send, and to receive.
    to_send: u32,
    to_receive: u32,
    /// Receives that are to be posted.
    to_post: u32,
    buffers: Option<[Buffer; 2]>,
    sends: VecDeque<usize>,
    receives: VecDeque<usize>,
    /// When the first send was posted, and when the last operation ended.
    pub(super) began: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) failed: bool,
}

impl Stream {
    pub(super) fn new(bytes: u32, to_send: u32, to_receive: u32) -> Self {
        Self {
            bytes,
            to_send,
            to_receive,
            to_post: to_receive,
            buffers: None,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            began: None,
            ended: None,
            failed: false,
        }
    }

    /// Takes what is over at the front of a queue.
    fn oldest(queue: &mut VecDeque<usize>, failed: &mut bool, port: &mut Port<'_>) -> bool {
        let over = queue.front().and_then(|at| port.take(*at));
        if let Some((ok, _)) = over {
            *failed |= !ok;
            queue.pop_front();
        }
        over.is_some()
    }
}

impl Program for Stream {
    fn step(&mut self, port: &mut Port<'_>) -> Next {
        let [into, from] = self
            .buffers
            .get_or_insert_with(|| [port.buffer(self.bytes), port.buffer(self.bytes)])
            .clone();
        loop {
            let mut moved = false;
            while Self::oldest(&mut self.sends, &mut self.failed, port) {
                moved = true;
            }
            while Self::oldest(&mut self.receives, &mut self.failed, port) {
                self.to_receive -= 1;
                moved = true;
            }
            while self.to_send > 0 && self.sends.len() < SENDS {
                let Some(at) = port.send(&from, TAG) else { break };
                self.began.get_or_insert(port.now);
                self.sends.push_back(at);
                self.to_send -= 1;
                moved = true;
            }
            // One at a time, as slots are free: sends are not held up by a long row of posts.
            if self.to_post > 0
                && self.receives.len() < RECEIVES
                && let Some(at) = port.receive(&into, TAG)
            {
                self.receives.push_back(at);
                self.to_post -= 1;
                moved = true;
            }
            if !moved {
                break;
            }
        }
        if self.to_send == 0 && self.to_receive == 0 && self.sends.is_empty() {
            self.ended = Some(port.now);
            return Next::End;
        }
        Next::Poll
    }
}

/// One end of the overlap test: each round posts receives, starts sends, computes, and waits for all (E59).
pub(super) struct Overlap {
    /// Messages of a round, and their length.
    batch: usize,
    bytes: u32,
    work: Span,
    /// What MPI adds to each post.
    mpi: [Span; 2],
    left: u32,
    warm: u32,
    buffers: Option<[Buffer; 2]>,
    receives: VecDeque<usize>,
    sends: VecDeque<usize>,
    computed: bool,
    waits_since: Time,
    /// Measured rounds: when they began, when they ended.
    pub(super) measured: Option<(Time, Time)>,
    /// Nanoseconds in calls that send, that receive, that wait.
    pub(super) spent: [u64; 3],
    pub(super) failed: bool,
}

impl Overlap {
    pub(super) fn new(
        (batch, bytes): (usize, u32),
        work: Span,
        mpi: [Span; 2],
        rounds: u32,
        warm: u32,
    ) -> Self {
        Self {
            batch,
            bytes,
            work,
            mpi,
            left: rounds + warm,
            warm,
            buffers: None,
            receives: VecDeque::new(),
            sends: VecDeque::new(),
            computed: false,
            waits_since: Time(0),
            measured: None,
            spent: [0; 3],
            failed: false,
        }
    }

    fn post_receives(&mut self, port: &mut Port<'_>) {
        let Some([into, _]) = self.buffers.clone() else { return };
        for _ in 0..self.batch {
            let before = port.now;
            port.spend(self.mpi[1]);
            self.receives.extend(port.receive(&into, TAG));
            self.spent[1] += port.now.since(before).0;
        }
    }

    fn begin(&mut self, port: &mut Port<'_>) -> Next {
        if self.warm > 0 {
            self.warm -= 1;
        } else {
            let (start, _) = self.measured.unwrap_or_else(|| {
                self.spent = [0; 3];
                (port.now, port.now)
            });
            self.measured = Some((start, port.now));
        }
        let Some(left) = self.left.checked_sub(1) else { return Next::End };
        self.left = left;
        self.post_receives(port);
        let Some([_, from]) = self.buffers.clone() else { return Next::End };
        for _ in 0..self.batch {
            let before = port.now;
            port.spend(self.mpi[0]);
            self.sends.extend(port.send(&from, TAG));
            self.spent[0] += port.now.since(before).0;
        }
        self.computed = true;
        Next::Compute(port.now + self.work)
    }
}

impl Program for Overlap {
    fn step(&mut self, port: &mut Port<'_>) -> Next {
        if self.buffers.is_none() {
            self.buffers = Some([port.buffer(self.bytes), port.buffer(self.bytes)]);
            // The other may be a round ahead, and finds a receive all the same: what finds none is dropped (E20).
            self.post_receives(port);
            return self.begin(port);
        }
        if core::mem::take(&mut self.computed) {
            self.waits_since = port.now;
        }
        // Each look at a descriptor is a read of card memory.
        let poll = port.card.parameters.poll;
        while let Some((ok, _)) = self.sends.front().and_then(|at| port.take(*at)) {
            self.failed |= !ok;
            self.sends.pop_front();
            port.spend(poll);
        }
        while self.receives.len() > self.batch
            && let Some((ok, _)) = self.receives.front().and_then(|at| port.take(*at))
        {
            self.failed |= !ok;
            self.receives.pop_front();
            port.spend(poll);
        }
        if !self.sends.is_empty() || self.receives.len() > self.batch {
            return Next::Poll;
        }
        self.spent[2] += port.now.since(self.waits_since).0;
        self.begin(port)
    }
}
