//! A link whose calls another thread makes: this end puts frames into a ring and takes them out of one, the thread sends and receives.
//!
//! So a link has a sending and a receiving half ([`Sending`], [`Receiving`]), each with a ring of its own, and what system calls and the
//! copies behind them take is another core's. Between the threads there are rings of slots ([`emp_rings::slot_ring`]), one each way for frames
//! and one each way for questions and answers, and a published word that says whether the link is full. It works on every link, also in wrappers; what it does not pass on is the
//! placing of trains ([`FrameSink::landing`]): frames come whole.

mod halves;
mod served;
mod talk;
mod thread;

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use emp_rings::slot_ring;
use emp_wire::LinkAddress;

use crate::condition::{Condition, GONE};
use crate::sink::Single;
use crate::system::{self, Polled};
use crate::{
    Capabilities, FaultCounters, FrameSink, Link, LinkError, LinkStatistics, PeerMemory, TxFrame,
};
use halves::{Frame, Receiving, Sending};
use served::Served;
use talk::{Question, Talk};
pub use thread::{LinkThread, LinkWork};

/// Bytes of frames that either ring may hold, about: with both they stay in a second-level cache, through which each byte passes.
const RING_BYTES: usize = 256 << 10;

/// Least and most frames of a ring: enough for either thread to work while the other does, and no more than twice a batch.
const RING_FRAMES: (usize, usize) = (16, 128);

/// How long the thread may take to answer a question that is waited for: far beyond what a busy machine makes it wait for a core.
const ANSWER_PATIENCE: Duration = Duration::from_millis(200);

/// How long it may take to close the link: other threads may hold what is to be changed for it.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// How long news of an interface wait to be asked for: as long as nodes let pass between two looks.
const NEWS_WAIT: Duration = Duration::from_millis(10);

/// Tries after which who waits for an answer lets others have the core.
const TRIES_PER_YIELD: u32 = 100;

/// This end of a link whose calls a [`LinkThread`] makes.
pub struct ThreadedLink {
    sending: Sending,
    receiving: Receiving,
    talk: RefCell<Talk>,
    capabilities: Capabilities,
    peer_memory: Option<Arc<PeerMemory>>,
    ready: Arc<OwnedFd>,
    thread: Arc<LinkThread>,
}

impl ThreadedLink {
    /// Hands a link over to the thread.
    ///
    /// # Errors
    ///
    /// The system has no more descriptors, or the thread has ended.
    pub fn new(mut link: Box<dyn Link>, thread: &Arc<LinkThread>) -> Result<Self, LinkError> {
        let capabilities = link.capabilities().clone();
        let refused = |error: std::io::Error| LinkError {
            link: format!("{} on {}", capabilities.kind, capabilities.interface),
            problem: format!("handing it to a thread: {error}"),
            advice: "raise `ulimit -n`, or choose the board inline".into(),
            source: Some(error),
            privilege: false,
        };
        let ready = Arc::new(system::event().map_err(refused)?);
        let peer_memory = link.peer_memory();
        let frames =
            (RING_BYTES / capabilities.sent_bytes_max()).clamp(RING_FRAMES.0, RING_FRAMES.1);
        let (down, from_above) = slot_ring::<Frame>(frames);
        let (up, from_below) = slot_ring::<Frame>(frames);
        let (talk, talked_to) = talk::ends(&mut *link);
        let stuck = Arc::<AtomicBool>::default();
        let signs = (Arc::clone(&ready), Arc::clone(&stuck));
        let served = Served::new(link, (from_above, up), talked_to, signs);
        thread.take(served).map_err(refused)?;
        Ok(Self {
            sending: Sending::new(down, stuck, &capabilities),
            receiving: Receiving::new(from_below),
            talk: RefCell::new(talk),
            capabilities,
            peer_memory,
            ready,
            thread: Arc::clone(thread),
        })
    }

    /// Asks, and waits until `answered`. False: no answer comes.
    fn ask(
        &self,
        question: Question,
        patience: Duration,
        answered: impl Fn(&mut Talk) -> bool,
    ) -> bool {
        let mut talk = self.talk.borrow_mut();
        talk.hear();
        if !talk.ask(question) {
            return false;
        }
        if talk.must_wake() {
            self.thread.wake();
        }
        let start = Instant::now();
        for tries in 0u32.. {
            talk.hear();
            if answered(&mut talk) {
                return true;
            }
            if self.thread.has_ended() || start.elapsed() > patience {
                return false;
            }
            if tries % TRIES_PER_YIELD == TRIES_PER_YIELD - 1 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        false
    }

    /// Tells the thread to show the next frame by the descriptor. True: something is there already.
    fn arm(&self) -> bool {
        self.receiving.arm()
    }

    /// Awake: the descriptor says nothing until it is asked for again.
    #[cold]
    fn disarm(&mut self) {
        self.receiving.disarm();
        system::event_clear(self.ready.as_fd());
    }
}

impl Link for ThreadedLink {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        if self.thread.has_ended() {
            return self.sending.lose(batch.len());
        }
        let taken = self.sending.send(batch);
        if self.sending.must_wake() {
            self.thread.wake();
        }
        taken
    }

    fn send_lent(&mut self, frame: &TxFrame<'_>) -> bool {
        self.send(std::slice::from_ref(frame)) != 0
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        self.receive_into(budget, &mut Single(sink))
    }

    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        if self.receiving.is_armed() {
            self.disarm();
        }
        self.receiving.receive(budget, sink)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        if self.arm() {
            // Nobody else says it of what came before.
            system::event_set(self.ready.as_fd());
        }
        Some(self.ready.as_fd())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if self.arm() {
                return true;
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let polled = system::poll_until(self.ready.as_fd(), left, |_| ());
            self.disarm();
            if polled != Polled::Readable {
                return self.arm();
            }
        }
    }

    /// Soon, if the thread has told something of the interface that nobody has asked for yet.
    fn next_due(&self) -> Option<Duration> {
        if self.arm() {
            return Some(Duration::ZERO);
        }
        let mut talk = self.talk.borrow_mut();
        talk.hear();
        talk.has_news().then_some(NEWS_WAIT)
    }

    /// Of this moment, if the thread answers in time; else as it said last.
    fn statistics(&self) -> LinkStatistics {
        let before = self.talk.borrow().counted();
        self.ask(Question::Count, ANSWER_PATIENCE, |talk| talk.counted() != before);
        let mut counts = self.talk.borrow().counts();
        self.sending.add_to(&mut counts);
        self.receiving.put_into(&mut counts);
        counts
    }

    /// As the thread found it when this was asked for the last time: it looks again meanwhile.
    fn condition(&mut self) -> Option<Condition<'_>> {
        let talk = self.talk.get_mut();
        talk.hear();
        talk.news_are_heard();
        talk.look_again();
        if talk.must_wake() {
            self.thread.wake();
        }
        if let Some(now) = talk.take_capabilities() {
            self.capabilities = now;
        }
        let known = self.talk.get_mut().condition()?;
        let trouble = if self.thread.has_ended() { Some(GONE) } else { known.trouble };
        Some(Condition { trouble, ..known })
    }

    fn notice(&mut self) -> Option<String> {
        self.talk.get_mut().take_notice()
    }

    fn interfaces_changed(&mut self) -> Option<bool> {
        self.talk.get_mut().take_change()
    }

    fn has_ended(&self, address: &LinkAddress) -> bool {
        let address = *address;
        self.talk.borrow_mut().forget_ended();
        self.ask(Question::HasEnded(address), ANSWER_PATIENCE, |talk| {
            talk.ended(&address).is_some()
        }) && self.talk.borrow().ended(&address) == Some(true)
    }

    fn peer_memory(&self) -> Option<Arc<PeerMemory>> {
        self.peer_memory.clone()
    }

    /// As of the last [`statistics`](Self::statistics).
    fn faults(&self) -> Option<FaultCounters> {
        self.talk.borrow().faults()
    }
}

impl Drop for ThreadedLink {
    fn drop(&mut self) {
        // In a process that was forked from the thread's there is nobody to answer.
        if self.thread.is_ours() {
            self.ask(Question::Close, CLOSE_PATIENCE, |talk| talk.is_closed());
        }
    }
}
