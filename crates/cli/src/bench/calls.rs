//! Message passing call by call: post, compute, wait. `emp bench overlap` and `emp bench logp` time these apart, where the
//! other patterns time whole messages.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::work::Work;

/// The calls of one subject, ready for messages of one size. Everything posted is waited for, oldest first.
pub trait Calls {
    /// Posts a receive.
    fn post_receive(&mut self) -> anyhow::Result<()>;

    /// Starts a send, and does as much of it as can be done without waiting.
    fn post_send(&mut self) -> anyhow::Result<()>;

    /// Waits for the oldest receive.
    fn wait_receive(&mut self) -> anyhow::Result<()>;

    /// Waits until the oldest send's buffer may be used again.
    fn wait_send(&mut self) -> anyhow::Result<()>;

    /// Goes on until the other end needs nothing more of this one.
    fn settle(&mut self) {}
}

/// What both ends do with the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Play {
    /// Both ends alike, round by round: post a batch of receives, post a batch of sends, compute, wait for all of them
    /// (post-work-wait; EMP, SC 2001, figure 6).
    Exchange,
    /// One end sends requests and computes after each, the other answers; `batch` requests may be unanswered.
    Requests,
    /// One end sends `batch` requests one right after the other and then takes the answers; only the sending is timed.
    Bursts,
}

/// One slice of work for one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// What to do.
    pub play: Play,
    /// Bytes of a message.
    pub size: usize,
    /// Rounds, requests or bursts.
    pub count: u64,
    /// Messages of a batch or burst; requests under way. At least one.
    pub batch: usize,
    /// Computing in each round, or after each request, in nanoseconds.
    pub work_ns: u64,
}

/// Where a slice's time went, at the end that measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// All of it; of bursts, the sending alone.
    pub elapsed: Duration,
    /// Posting receives.
    pub post_receive: Duration,
    /// Posting sends.
    pub post_send: Duration,
    /// Waiting for both.
    pub wait: Duration,
    /// What the computing takes by itself.
    pub work: Duration,
}

impl Script {
    /// Posts what must be there before the other end starts.
    pub fn prepare(&self, calls: &mut dyn Calls) -> anyhow::Result<()> {
        let receives = match self.play {
            Play::Exchange => 0,
            Play::Requests | Play::Bursts => self.requests().min(self.batch as u64),
        };
        (0..receives).try_for_each(|_| calls.post_receive())
    }

    /// Does the half that is measured.
    pub fn active(&self, calls: &mut dyn Calls) -> anyhow::Result<Tally> {
        let work = Work::of(Duration::from_nanos(self.work_ns));
        let tally = match self.play {
            Play::Exchange => self.exchange(calls, &work),
            Play::Requests => self.request(calls, &work),
            Play::Bursts => self.burst(calls),
        };
        calls.settle();
        tally
    }

    /// Does the other half.
    pub fn passive(&self, calls: &mut dyn Calls) -> anyhow::Result<()> {
        match self.play {
            Play::Exchange => {
                let work = Work::of(Duration::from_nanos(self.work_ns));
                self.exchange(calls, &work)?;
            }
            Play::Requests | Play::Bursts => self.answer(calls)?,
        }
        calls.settle();
        Ok(())
    }

    /// Requests in all.
    fn requests(&self) -> u64 {
        match self.play {
            Play::Bursts => self.count * self.batch as u64,
            Play::Exchange | Play::Requests => self.count,
        }
    }

    fn exchange(&self, calls: &mut dyn Calls, work: &Work) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        let start = Instant::now();
        for _ in 0..self.count {
            let receiving = Instant::now();
            (0..self.batch).try_for_each(|_| calls.post_receive())?;
            let sending = Instant::now();
            (0..self.batch).try_for_each(|_| calls.post_send())?;
            let computing = Instant::now();
            work.run();
            let waiting = Instant::now();
            (0..self.batch).try_for_each(|_| calls.wait_receive())?;
            (0..self.batch).try_for_each(|_| calls.wait_send())?;
            tally.post_receive += sending - receiving;
            tally.post_send += computing - sending;
            tally.wait += waiting.elapsed();
        }
        tally.elapsed = start.elapsed();
        tally.work =
            Duration::from_nanos(self.work_ns) * u32::try_from(self.count).unwrap_or(u32::MAX);
        Ok(tally)
    }

    fn request(&self, calls: &mut dyn Calls, work: &Work) -> anyhow::Result<Tally> {
        // Just before, so that the processor runs as fast as it then will.
        let alone = Instant::now();
        (0..self.count).for_each(|_| work.run());
        let mut tally = Tally { work: alone.elapsed(), ..Tally::default() };
        let mut unanswered = 0;
        let start = Instant::now();
        for number in 0..self.count {
            calls.post_send()?;
            work.run();
            unanswered += 1;
            if unanswered == self.batch {
                calls.wait_receive()?;
                unanswered -= 1;
                if number + 1 < self.count {
                    calls.post_receive()?;
                }
            }
            calls.wait_send()?;
        }
        tally.elapsed = start.elapsed();
        // A posted receive that nothing came for would take a message of the next slice: there must be none.
        (0..unanswered).try_for_each(|_| calls.wait_receive())?;
        Ok(tally)
    }

    fn burst(&self, calls: &mut dyn Calls) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        for number in 0..self.count {
            let start = Instant::now();
            (0..self.batch).try_for_each(|_| calls.post_send())?;
            tally.elapsed += start.elapsed();
            (0..self.batch).try_for_each(|_| calls.wait_receive())?;
            (0..self.batch).try_for_each(|_| calls.wait_send())?;
            if number + 1 < self.count {
                (0..self.batch).try_for_each(|_| calls.post_receive())?;
            }
        }
        Ok(tally)
    }

    fn answer(&self, calls: &mut dyn Calls) -> anyhow::Result<()> {
        let requests = self.requests();
        for number in 0..requests {
            calls.wait_receive()?;
            calls.post_send()?;
            if number + (self.batch as u64) < requests {
                calls.post_receive()?;
            }
            calls.wait_send()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes the calls: `r` and `s` post, `R` and `S` wait.
    #[derive(Default)]
    struct Recorder(String);

    impl Calls for Recorder {
        fn post_receive(&mut self) -> anyhow::Result<()> {
            self.0.push('r');
            Ok(())
        }

        fn post_send(&mut self) -> anyhow::Result<()> {
            self.0.push('s');
            Ok(())
        }

        fn wait_receive(&mut self) -> anyhow::Result<()> {
            self.0.push('R');
            Ok(())
        }

        fn wait_send(&mut self) -> anyhow::Result<()> {
            self.0.push('S');
            Ok(())
        }

        fn settle(&mut self) {
            self.0.push('.');
        }
    }

    fn calls(play: Play, count: u64, batch: usize) -> [String; 2] {
        let script = Script { play, size: 8, count, batch, work_ns: 0 };
        let mut ends = [Recorder::default(), Recorder::default()];
        for (end, active) in ends.iter_mut().zip([true, false]) {
            script.prepare(end).unwrap();
            end.0.push(' ');
            if active { script.active(end).map(drop) } else { script.passive(end) }.unwrap();
        }
        ends.map(|end| end.0)
    }

    #[test]
    fn an_exchange_posts_receives_first_and_waits_last_at_both_ends() {
        let round = "rrssRRSS";
        let both = format!(" {round}{round}.");
        assert_eq!(calls(Play::Exchange, 2, 2), [both.clone(), both]);
    }

    #[test]
    fn requests_one_by_one_are_answered_one_by_one() {
        assert_eq!(calls(Play::Requests, 3, 1), ["r sRrSsRrSsRS.", "r RsrSRsrSRsS."]);
    }

    #[test]
    fn requests_under_way_fill_their_window_and_drain() {
        assert_eq!(calls(Play::Requests, 3, 2), ["rr sSsRrSsRSR.", "rr RsrSRsSRsS."]);
        assert_eq!(calls(Play::Requests, 1, 4), ["r sSR.", "r RsS."], "more room than requests");
    }

    #[test]
    fn a_burst_is_sent_before_any_answer_is_taken() {
        assert_eq!(calls(Play::Bursts, 2, 2), ["rr ssRRSSrrssRRSS.", "rr RsrSRsrSRsSRsS."]);
    }

    #[test]
    fn every_message_has_its_receive_and_none_is_left() {
        for play in [Play::Exchange, Play::Requests, Play::Bursts] {
            for (count, batch) in [(1, 1), (1, 5), (7, 3), (20, 64)] {
                let [one, two] = calls(play, count, batch);
                for (from, to) in [(&one, &two), (&two, &one)] {
                    let number = |text: &str, letter| text.matches(letter).count();
                    assert_eq!(number(from, 's'), number(to, 'r'), "{play:?} {count} {batch}");
                    assert_eq!(number(from, 's'), number(from, 'S'));
                    assert_eq!(number(to, 'r'), number(to, 'R'));
                }
            }
        }
    }
}
