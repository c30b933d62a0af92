//! Questions, one at a time, and what is told without an answer.

use std::time::{Duration, Instant};

use emp_firmware::{
    BufferPlace, ClaimId, Completion, Counters, OpId, PostError, ProbeInfo, Selector, Status,
};
use emp_link::service::channel::Heard;

use crate::daemon::questions::{Answer, Left, Question, Tell};
use crate::daemon::remote::Remote;
use crate::daemon::said;

/// How long the service may take to answer: it starts sixteen packet sockets at worst, on a busy machine.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);

/// Looks for an answer before the program sleeps for it.
const ANSWER_LOOKS: u32 = 400;

/// Longest sleep between two looks for it, in which the ring's room may have changed.
const ANSWER_NAP: Duration = Duration::from_millis(2);

impl Remote {
    /// Turns until something holds, or it is over.
    pub(super) fn wait_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let (since, mut looks) = (Instant::now(), 0);
        while !holds(self) && !self.is_over() {
            if self.look() {
                looks = 0;
                continue;
            }
            self.channel.wake();
            looks += 1;
            if looks < ANSWER_LOOKS {
                std::hint::spin_loop();
            } else if since.elapsed() >= ANSWER_PATIENCE {
                self.end("the service does not answer");
            } else {
                match self.channel.nap(ANSWER_NAP) {
                    Ok(Heard::Gone) => self.hear(),
                    Ok(_) => {}
                    Err(broken) => self.end(&broken.to_string()),
                }
            }
        }
    }

    /// Asks, and waits for the answer. `None`: it is over.
    pub(super) fn ask(&mut self, question: Question) -> Option<Answer> {
        if self.is_over() {
            return None;
        }
        self.answer = None;
        self.write_or_wait(said::ASK, question.emit());
        self.wait_until(|remote| remote.answer.is_some());
        self.answer.take()
    }

    /// Tells something that needs no answer.
    pub(crate) fn tell(&mut self, tell: Tell) {
        if !self.is_over() {
            self.write_or_wait(said::TELL, tell.emit());
        }
    }

    /// Opens an endpoint.
    pub(crate) fn open_endpoint(&mut self, number: u16) -> Result<(), PostError> {
        match self.ask(Question::Open(number)) {
            Some(Answer::Opened(opened)) => {
                opened?;
                self.open.insert(number);
                Ok(())
            }
            _ => Err(PostError::Closing),
        }
    }

    /// Closes an endpoint. Its receives have ended with it; their memory is not used any more.
    pub(crate) fn close_endpoint(&mut self, number: u16) {
        self.tell(Tell::CloseEndpoint(number));
        self.open.remove(&number);
        for (op, context) in self.flights.give_up(number) {
            self.ended.push_back(Completion {
                op,
                context,
                status: Status::EndpointClosed,
                bytes: 0,
                total_bytes: 0,
                peer: emp_wire::NodeId::ANY,
                peer_endpoint: 0,
                match_bits: 0,
                immediate: None,
                place: BufferPlace::WHOLE,
            });
        }
    }

    /// Tries to cancel an operation.
    pub(crate) fn cancel(&mut self, op: OpId) -> bool {
        self.ask(Question::Cancel(op.to_bits())) == Some(Answer::Done(true))
    }

    /// Looks for a message that no receive has taken.
    pub(crate) fn probe(
        &mut self,
        number: u16,
        wanted: Selector,
        claim: bool,
    ) -> Option<ProbeInfo> {
        match self.ask(Question::Probe(number, wanted, claim)) {
            Some(Answer::Probed(found)) => found,
            _ => None,
        }
    }

    /// Gives up a message that was set aside.
    pub(crate) fn discard(&mut self, claim: ClaimId) {
        self.tell(Tell::Discard(claim));
    }

    /// What is left to be delivered. Nothing, once it is over.
    pub(crate) fn left(&mut self) -> Left {
        let nothing = Left { drained: true, ..Left::default() };
        match self.ask(Question::Left) {
            Some(Answer::Left(left)) => left,
            _ => nothing,
        }
    }

    /// What the firmware has counted.
    pub(crate) fn counters(&mut self) -> Counters {
        match self.ask(Question::Counters) {
            Some(Answer::Counters(values)) => Counters::of(values),
            _ => Counters::default(),
        }
    }

    /// Slots of the pool that are free, and all.
    pub(crate) fn pool_slots(&mut self) -> (usize, usize) {
        match self.ask(Question::Pool) {
            Some(Answer::Pool(free, all)) => (free as usize, all as usize),
            _ => (0, 0),
        }
    }

    /// Ends the engine, and this with it.
    pub(crate) fn close(&mut self) {
        if self.ask(Question::Close).is_none() {
            self.await_gone();
        }
        self.end("it was closed");
        self.left = true;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use emp_firmware::{NodeEvent, OpKind};
    use emp_link::service::channel::{Channel, RECORD_BYTES_MAX};
    use emp_link::service::{EngineSeat, Held};
    use emp_wire::NodeId;

    use super::*;
    use crate::daemon::facts::Facts;
    use crate::daemon::flights::Flight;
    use crate::daemon::news::emit_event;
    use crate::daemon::told;

    /// A service's end of a channel, and a program's whose engine is ready.
    fn ready() -> (Channel, Remote) {
        let (mut service, memory, bell) = Channel::create().expect("memory");
        let client = Channel::open(memory.as_fd(), bell).expect("it is mapped");
        let connection = Held::new(memory.try_clone().expect("a descriptor"));
        let facts = Facts { operations_max: 1, ..Facts::default() };
        assert!(service.write(told::READY, &[&facts.emit()]).expect("there is room"));
        let seat = EngineSeat { channel: client, connection };
        (service, Remote::begin(seat).expect("it is ready"))
    }

    /// A waiter that asked and was told that there is nothing goes to sleep: what was read beside the answer must not be slept over.
    #[test]
    fn what_comes_with_an_answer_is_looked_at_before_the_next_sleep() {
        let (mut service, mut remote) = ready();
        assert!(!remote.turn() && !remote.arm());
        // The message comes right behind the look for it, and both are read at once.
        let answer = Answer::Probed(None).emit();
        assert!(service.write(told::ANSWER, &[&answer]).expect("there is room"));
        assert!(service.write(told::ARRIVED, &[&[0]]).expect("there is room"));
        assert!(remote.probe(1, Selector::ANY, false).is_none());
        assert!(remote.arm(), "it is to look again, and not to sleep");
        assert!(remote.turn(), "what came may end the wait");
        assert!(!remote.turn() && !remote.arm());
    }

    /// A put that is behind others in the ring when its peer ends would have the engine look for that peer for ten seconds.
    #[test]
    fn what_was_posted_for_a_node_that_has_ended_is_not_looked_for() {
        let (mut service, mut remote) = ready();
        let flight = |to| Flight {
            kind: OpKind::Put,
            context: 5,
            endpoint: 1,
            to,
            bytes: 10,
            into: None,
            given_up: false,
            lost: false,
        };
        let put = remote.flights.add(flight(NodeId(9)));
        remote.flights.add(flight(NodeId(8)));
        let closed = emit_event(&NodeEvent::Closed(NodeId(9)));
        assert!(service.write(told::EVENT, &[&closed]).expect("there is room"));
        assert!(remote.turn());
        remote.flush();
        let mut record = [0; RECORD_BYTES_MAX];
        let (mark, length) = service.read(&mut record).expect("sound").expect("one");
        let told = Tell::parse(&record[..length]).expect("it can be");
        assert_eq!((mark, told), (said::TELL, Tell::Abort(put.to_bits())));
        assert!(service.read(&mut record).expect("sound").is_none(), "others go on");
    }
}
