//! TCP's calls one by one, as an MPI over TCP does them: posting a send writes what the kernel takes, posting a receive only
//! notes it, and waiting does the rest of both.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::bail;

use super::some::some;
use crate::bench::calls::Calls;
use crate::bench::patience::Patience;

/// A connection with messages under way. All counts are bytes since the start.
pub(super) struct TcpCalls<'a> {
    stream: &'a mut TcpStream,
    out: Vec<u8>,
    into: Vec<u8>,
    size: u64,
    /// Of sends that were posted, written to the kernel, waited for.
    to_write: u64,
    written: u64,
    sent: u64,
    /// Of receives that were posted, read from the kernel, waited for.
    to_read: u64,
    read: u64,
    received: u64,
}

impl<'a> TcpCalls<'a> {
    /// For messages of a size, of which so many are under way each way at a time. The stream does not block.
    pub(super) fn new(stream: &'a mut TcpStream, size: usize, batch: usize) -> Self {
        let (out, into) = (vec![0x5a; size], vec![0; size * batch]);
        let size = size as u64;
        Self {
            stream,
            out,
            into,
            size,
            to_write: 0,
            written: 0,
            sent: 0,
            to_read: 0,
            read: 0,
            received: 0,
        }
    }

    /// Writes what the kernel takes now. True: it took something.
    fn write_some(&mut self) -> anyhow::Result<bool> {
        let before = self.written;
        while self.written < self.to_write {
            let from = (self.written % self.size) as usize;
            match some(self.stream.write(&self.out[from..]))? {
                Some(0) => bail!("the TCP connection was closed"),
                Some(bytes) => self.written += bytes as u64,
                None => break,
            }
        }
        Ok(self.written > before)
    }

    /// Reads what is there for receives that were posted. True: there was something.
    fn read_some(&mut self) -> anyhow::Result<bool> {
        let at = (self.read % self.into.len() as u64) as usize;
        let room = (self.to_read - self.read).min((self.into.len() - at) as u64) as usize;
        if room == 0 {
            return Ok(false);
        }
        match some(self.stream.read(&mut self.into[at..at + room]))? {
            Some(0) => bail!("the TCP connection was closed"),
            Some(bytes) => self.read += bytes as u64,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Goes on with both directions until one has come so far. Both, or two ends that only write would wait for ever.
    fn until(&mut self, done: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        while !done(self) {
            let wrote = self.write_some()?;
            if self.read_some()? || wrote { patience.progress() } else { patience.idle()? }
        }
        Ok(())
    }
}

impl Calls for TcpCalls<'_> {
    fn post_receive(&mut self) -> anyhow::Result<()> {
        self.to_read += self.size;
        Ok(())
    }

    fn post_send(&mut self) -> anyhow::Result<()> {
        self.to_write += self.size;
        self.write_some().map(drop)
    }

    fn wait_receive(&mut self) -> anyhow::Result<()> {
        self.received += self.size;
        self.until(|calls| calls.read >= calls.received)
    }

    fn wait_send(&mut self) -> anyhow::Result<()> {
        self.sent += self.size;
        self.until(|calls| calls.written >= calls.sent)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::bench::calls::{Play, Script};

    fn connection() -> [TcpStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let two = listener.accept().unwrap().0;
        for stream in [&one, &two] {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
        }
        [one, two]
    }

    fn run(play: Play, size: usize, batch: usize) {
        let script = Script { play, size, count: 30, batch, work_ns: 1000 };
        let [mut one, mut two] = connection();
        let other = thread::spawn(move || {
            let mut calls = TcpCalls::new(&mut two, size, batch);
            script.prepare(&mut calls).unwrap();
            script.passive(&mut calls).unwrap();
            assert_eq!((calls.to_read, calls.to_write), (calls.read, calls.written));
        });
        let mut calls = TcpCalls::new(&mut one, size, batch);
        script.prepare(&mut calls).unwrap();
        let tally = script.active(&mut calls).unwrap();
        assert!(tally.elapsed >= tally.post_send + tally.post_receive + tally.wait);
        assert!(!tally.elapsed.is_zero());
        assert_eq!(
            (calls.received, calls.sent),
            (calls.read, calls.written),
            "nothing is left over"
        );
        other.join().unwrap();
    }

    #[test]
    fn every_play_ends_with_nothing_left_over() {
        for play in [Play::Exchange, Play::Requests, Play::Bursts] {
            for (size, batch) in [(1, 1), (8, 16), (10_000, 5)] {
                run(play, size, batch);
            }
        }
    }

    #[test]
    fn two_ends_that_write_more_than_the_kernel_holds_do_not_wait_for_ever() {
        run(Play::Exchange, 4 << 20, 4);
    }
}
