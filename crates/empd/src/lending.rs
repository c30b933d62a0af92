//! Lends sockets: a thread of its own, as the kernel takes tens of milliseconds to make a packet socket, to close one, and to take a
//! group's program; and who asks at once waits for the program once.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use emp_link::service::protocol::Lent;
use emp_link::{Lender, LoanNumber, LoanOptions, Watch};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::bell::{Bell, Ringer, bell};
use crate::log;

/// How often sockets that a holder has kept are looked after: as long one member's frames may go astray when it lets go.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Who asks for a socket, and for what.
#[derive(Clone, Debug)]
pub struct Borrower {
    /// The loan's number, drawn by the door.
    pub loan: LoanNumber,
    /// The user, whose sockets are counted.
    pub user: u32,
    /// Name of an interface that is served.
    pub interface: String,
    /// EtherType.
    pub ethertype: u16,
    /// The rest.
    pub options: LoanOptions,
}

enum Job {
    Lend(Borrower),
    End(LoanNumber),
}

/// What came of a loan.
#[derive(Debug)]
pub enum News {
    /// It is lent: the socket is to be sent, and this copy closed.
    Lent(LoanNumber, Lent, OwnedFd),
    /// It is not, for this reason.
    Refused(LoanNumber, String),
    /// It is over, and the holder has to ask again; the reason is for the log.
    Over(LoanNumber, &'static str),
}

/// The door's hand on the thread.
#[derive(Debug)]
pub struct Lending {
    jobs: Sender<Job>,
    wake: Ringer,
    news: Receiver<News>,
    told: Bell,
}

impl Lending {
    /// Starts the thread; one user has at most `per_user` sockets.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn start(per_user: usize) -> io::Result<Self> {
        let (jobs, work) = channel();
        let (news_of, news) = channel();
        let ((wake, woken), (tell, told)) = (bell()?, bell()?);
        let desk = Desk {
            work,
            woken,
            news: news_of,
            tell,
            watch: Watch::open()?,
            per_user,
            lenders: Vec::new(),
            loans: HashMap::new(),
        };
        thread::Builder::new().name("lending".into()).spawn(move || desk.run())?;
        Ok(Self { jobs, wake, news, told })
    }

    /// Has a socket lent.
    pub fn lend(&self, borrower: Borrower) {
        self.put(Job::Lend(borrower));
    }

    /// Has a loan ended; one that is not known means nothing.
    pub fn end(&self, loan: LoanNumber) {
        self.put(Job::End(loan));
    }

    fn put(&self, job: Job) {
        // The thread ends with this value.
        let _ = self.jobs.send(job);
        self.wake.ring();
    }

    /// Readable when there are news.
    pub fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.told.descriptor()
    }

    /// The news since this was last asked.
    pub fn take(&self) -> Vec<News> {
        self.told.take();
        self.news.try_iter().collect()
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        // The thread sees that nobody sends any more.
        let (nobody, _) = channel();
        drop(std::mem::replace(&mut self.jobs, nobody));
        self.wake.ring();
    }
}

/// The thread's own.
struct Desk {
    work: Receiver<Job>,
    woken: Bell,
    news: Sender<News>,
    tell: Ringer,
    watch: Watch,
    per_user: usize,
    /// One for each interface of which something is lent.
    lenders: Vec<Lender>,
    /// Whose each loan is, kept sockets included.
    loans: HashMap<LoanNumber, u32>,
}

impl Desk {
    fn run(mut self) {
        loop {
            self.sleep();
            self.woken.take();
            let (mut borrowers, mut ended) = (Vec::new(), Vec::new());
            loop {
                match self.work.try_recv() {
                    Ok(Job::Lend(borrower)) => borrowers.push(borrower),
                    Ok(Job::End(loan)) => ended.push(loan),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.hear_of_interfaces();
            self.end(&ended);
            // Who hung up while it waited wants nothing.
            borrowers.retain(|borrower| !ended.contains(&borrower.loan));
            let lent: Vec<_> =
                borrowers.iter().filter_map(|borrower| self.lend(borrower)).collect();
            self.publish();
            self.hand_over(lent);
            self.lenders.retain(|lender| lender.count() > 0);
            let lenders = &self.lenders;
            self.loans.retain(|loan, _| lenders.iter().any(|lender| lender.has(*loan)));
        }
    }

    /// Until there is work, or an interface changes, or it is time to look after kept sockets.
    fn sleep(&mut self) {
        let kept: Vec<bool> = self.each(|lender| lender.look());
        let timeout = if kept.contains(&true) {
            PollTimeout::try_from(LOOK_EVERY).unwrap_or(PollTimeout::MAX)
        } else {
            PollTimeout::NONE
        };
        let mut descriptors = [self.woken.descriptor(), self.watch.descriptor()]
            .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
        // A signal is another reason to look.
        let _ = poll(&mut descriptors, timeout);
    }

    /// Asks each lender; those that have lost their order are let go of, with their loans.
    fn each<T>(
        &mut self,
        mut ask: impl FnMut(&mut Lender) -> Result<T, emp_link::OrderLost>,
    ) -> Vec<T> {
        let (mut answers, mut lost) = (Vec::new(), Vec::new());
        for (place, lender) in self.lenders.iter_mut().enumerate() {
            match ask(lender) {
                Ok(answer) => answers.push(answer),
                Err(_) => lost.push(place),
            }
        }
        for place in lost.into_iter().rev() {
            self.let_go(place, "sockets that were kept after their loans have changed the group");
        }
        answers
    }

    /// All loans of a lender are over.
    fn let_go(&mut self, place: usize, why: &'static str) {
        let lender = self.lenders.swap_remove(place);
        for loan in self.loans.keys().copied().filter(|loan| lender.has(*loan)) {
            let _ = self.news.send(News::Over(loan, why));
        }
        self.tell.ring();
    }

    fn hear_of_interfaces(&mut self) {
        let (mut down, mut unseen) = (Vec::new(), false);
        self.watch.take(|index| match index {
            Some(index) => down.push(index),
            None => unseen = true,
        });
        for place in (0..self.lenders.len()).rev() {
            let lender = &mut self.lenders[place];
            if unseen {
                self.let_go(place, "so much has changed that some of it was not seen");
            } else if down.contains(&lender.index()) {
                if lender.is_current() {
                    lender.went_down();
                } else {
                    self.let_go(place, "the interface is gone");
                }
            }
        }
    }

    fn end(&mut self, loans: &[LoanNumber]) {
        if !loans.is_empty() {
            self.each(|lender| lender.end(loans));
        }
    }

    fn lend(&mut self, borrower: &Borrower) -> Option<(LoanNumber, Lent)> {
        let lent = self.try_lend(borrower);
        match lent {
            Ok(lent) => {
                self.loans.insert(borrower.loan, borrower.user);
                Some((borrower.loan, lent))
            }
            Err(reason) => {
                let _ = self.news.send(News::Refused(borrower.loan, reason));
                self.tell.ring();
                None
            }
        }
    }

    fn try_lend(&mut self, borrower: &Borrower) -> Result<Lent, String> {
        let of_user = self.loans.values().filter(|user| **user == borrower.user).count();
        if of_user >= self.per_user {
            return Err(format!(
                "this user has {of_user} sockets already, and may have {}",
                self.per_user
            ));
        }
        self.lender(borrower)?.lend(borrower.loan, borrower.options)
    }

    /// The lender of an interface and EtherType, made if there is none of the interface that has the name now.
    fn lender(&mut self, borrower: &Borrower) -> Result<&mut Lender, String> {
        self.lenders.iter_mut().for_each(Lender::follow_name);
        let is_its = |lender: &Lender| {
            lender.interface() == borrower.interface && lender.ethertype() == borrower.ethertype
        };
        if let Some(place) = self.lenders.iter().position(is_its) {
            if self.lenders[place].is_current() {
                return Ok(&mut self.lenders[place]);
            }
            self.let_go(place, "the interface is another one now");
        }
        let lender = Lender::open(&borrower.interface, borrower.ethertype)
            .map_err(|error| format!("{}; {}", error.problem, error.advice))?;
        self.lenders.push(lender);
        self.lenders.last_mut().ok_or_else(|| "there is no lender".into())
    }

    fn publish(&mut self) {
        for lender in &mut self.lenders {
            if let Err(error) = lender.publish() {
                // The next change tries again; until then some get no frames, or others' programs of an older order.
                log::client(&format!("setting the program of {}: {error}", lender.interface()));
            }
        }
    }

    fn hand_over(&mut self, lent: Vec<(LoanNumber, Lent)>) {
        for (loan, lent) in lent {
            let socket = self.lenders.iter().find_map(|lender| lender.descriptor(loan));
            let copy = socket.map(|socket| socket.try_clone_to_owned());
            let _ = self.news.send(match copy {
                Some(Ok(socket)) => News::Lent(loan, lent, socket),
                Some(Err(error)) => News::Refused(loan, format!("copying its socket: {error}")),
                None => News::Refused(loan, "the interface changed meanwhile: ask again".into()),
            });
            self.tell.ring();
        }
    }
}
