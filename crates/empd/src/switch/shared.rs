//! What a lane's thread and the door's have in common: counts, what is to be logged, and a way to wake the lane.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::ClientNumber;
use super::check::Refusal;

/// Counts since the lane began.
#[derive(Debug, Default)]
pub struct Counts {
    /// Frames that left by the wire.
    pub sent: AtomicU64,
    /// Frames that came by it.
    pub received: AtomicU64,
    /// Frames for clients that had no room.
    pub lost: AtomicU64,
    /// Turns in which a frame came that is none of the clients'.
    pub nobodys: AtomicU64,
    /// Clients' frames that did not leave, by [`Refusal`].
    pub refused: [AtomicU64; Refusal::ALL.len()],
    /// Clients now.
    pub clients: AtomicU64,
}

/// What waits for the door's log.
#[derive(Debug, Default)]
struct News {
    ended: Vec<(ClientNumber, String)>,
    lines: Vec<String>,
}

/// What all lanes tell the door.
#[derive(Debug)]
pub(super) struct Board {
    news: Mutex<News>,
    ready: EventFd,
}

/// Lines that wait at most: of a log that nobody takes the first are the best.
const LINES_MAX: usize = 1000;

fn event() -> nix::Result<EventFd> {
    EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
}

impl Board {
    pub(super) fn new() -> nix::Result<Self> {
        Ok(Self { news: Mutex::default(), ready: event()? })
    }

    pub(super) fn ready(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    fn add(&self, add: impl FnOnce(&mut News)) {
        add(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner));
        // Full means that it is readable.
        let _ = self.ready.write(1);
    }

    pub(super) fn take_ended(&self) -> Vec<(ClientNumber, String)> {
        let _ = self.ready.read();
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut news.ended)
    }

    pub(super) fn take_lines(&self) -> Vec<String> {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut news.lines)
    }
}

/// One lane's.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) counts: Counts,
    board: Arc<Board>,
    wakeup: EventFd,
    over: AtomicBool,
    /// Wakeups that the door made, and those that the lane has answered.
    asked: AtomicU64,
    answered: AtomicU64,
}

impl Shared {
    pub(super) fn new(board: Arc<Board>) -> nix::Result<Self> {
        Ok(Self {
            counts: Counts::default(),
            board,
            wakeup: event()?,
            over: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        })
    }

    pub(super) fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// Has the lane look for commands. Returns the number of this.
    pub(super) fn wake(&self) -> u64 {
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let _ = self.wakeup.write(1);
        number
    }

    pub(super) fn answer_wakeup(&self) {
        let asked = self.asked.load(Ordering::Acquire);
        let _ = self.wakeup.read();
        self.answered.store(asked, Ordering::Release);
    }

    /// Whether the lane has looked since it was woken with this number.
    pub(super) fn has_answered(&self, number: u64) -> bool {
        self.answered.load(Ordering::Acquire) >= number
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.wake();
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Counts. Only the lane's thread does.
    #[inline]
    pub(super) fn count(&self, which: impl FnOnce(&Counts) -> &AtomicU64, more: u64) {
        let count = which(&self.counts);
        count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    pub(super) fn clients(&self, now: usize) {
        self.counts.clients.store(now as u64, Ordering::Relaxed);
    }

    /// A frame did not leave. The first of a client is told the log.
    #[cold]
    pub(super) fn refused(&self, refusal: Refusal, first: bool, who: impl FnOnce() -> String) {
        self.count(|counts| &counts.refused[refusal as usize], 1);
        if first {
            self.note(format!(
                "{}: a frame that is {} does not leave, nor will others",
                who(),
                refusal.text()
            ));
        }
    }

    /// A client was put out.
    pub(super) fn ended(&self, client: ClientNumber, line: String) {
        self.board.add(|news| news.ended.push((client, line)));
    }

    /// A line for the log.
    pub(super) fn note(&self, line: String) {
        self.board.add(|news| {
            if news.lines.len() < LINES_MAX {
                news.lines.push(line);
            }
        });
    }
}
