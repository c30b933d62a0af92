//! TCP, the yardstick: `TCP_NODELAY`, buffers as the kernel tunes them, one connection.
//!
//! Two ways to wait: spinning on a non-blocking socket, which is as fast as TCP gets, and sleeping in the kernel, which
//! is what most programs do.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use emp_host::PageBuffer;
use socket2::SockRef;

use super::calls::TcpCalls;
use super::some::some;
use crate::bench::calls::{Calls, Script};
use crate::bench::job::{Job, Measure, Pattern};
use crate::bench::lifeline;
use crate::bench::patience::Patience;
use crate::bench::subject::kind::{Role, Subject};
use crate::bench::subject::memory;

/// Bytes read at a time where messages may be taken together.
const READ_BYTES: usize = 256 << 10;

/// Bytes of a request or an answer without contents: an address, or that it is done.
const WORD_BYTES: usize = 8;

/// How long to wait for the other end's connection, which follows its welcome at once.
pub(super) const ACCEPT_LIMIT: Duration = Duration::from_secs(5);

/// How a connection is used.
#[derive(Clone, Copy, Debug)]
pub struct TcpOptions {
    /// Polled, instead of sleeping in the kernel.
    pub spinning: bool,
    /// Messages of which others follow are sent with `MSG_MORE`, so that the kernel may fill its segments with several.
    pub bundle: bool,
}

/// One end of a connection.
pub struct Tcp {
    stream: TcpStream,
    spinning: bool,
    bundle: bool,
    out: PageBuffer,
    into: PageBuffer,
}

impl Tcp {
    /// Waits for the client.
    pub fn accept(listener: &TcpListener) -> anyhow::Result<TcpStream> {
        listener.set_nonblocking(true)?;
        let start = Instant::now();
        loop {
            lifeline::check()?;
            match listener.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
                Err(_) if start.elapsed() > ACCEPT_LIMIT => bail!("no TCP connection came"),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// A connection that is there.
    pub fn new(stream: TcpStream, options: TcpOptions) -> anyhow::Result<Self> {
        let TcpOptions { spinning, bundle } = options;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(spinning)?;
        Ok(Self {
            stream,
            spinning,
            bundle,
            out: PageBuffer::default(),
            into: PageBuffer::default(),
        })
    }

    fn pingpong(&mut self, job: &Job, role: Role) -> anyhow::Result<()> {
        let Self { stream, out, into, .. } = self;
        let (out, into) = (&out[..job.size], &mut into[..job.size]);
        for _ in 0..job.count {
            if role == Role::Active {
                write_all(stream, out)?;
                read_exact(stream, into)?;
            } else {
                read_exact(stream, into)?;
                write_all(stream, out)?;
            }
        }
        Ok(())
    }

    /// What one-sided operations are where there are none: requests, as many outstanding as asked for, and their answers.
    fn ask(&mut self, job: &Job) -> anyhow::Result<()> {
        let (question, answer) = question_and_answer(job);
        let Self { stream, out, into, .. } = self;
        let mut outstanding = 0;
        for _ in 0..job.count {
            if outstanding == job.window {
                read_exact(stream, &mut into[..answer])?;
                outstanding -= 1;
            }
            write_all(stream, &out[..question])?;
            outstanding += 1;
        }
        (0..outstanding).try_for_each(|_| read_exact(stream, &mut into[..answer]))
    }

    fn answer(&mut self, job: &Job) -> anyhow::Result<()> {
        let (question, answer) = question_and_answer(job);
        let Self { stream, out, into, .. } = self;
        (0..job.count).try_for_each(|_| {
            read_exact(stream, &mut into[..question])?;
            write_all(stream, &out[..answer])
        })
    }

    /// Writes messages one by one, as a program that has them one by one does. Bundled, all but the last of a window are said
    /// to be followed by others, as EMP's are.
    fn write_messages(
        stream: &mut TcpStream,
        out: &[u8],
        job: &Job,
        bundle: bool,
    ) -> anyhow::Result<()> {
        (1..=job.count).try_for_each(|number| {
            let last = number == job.count || number.is_multiple_of(job.window as u64);
            match bundle && !last {
                true => write_all(&mut WithMore(stream), &out[..job.size]),
                false => write_all(stream, &out[..job.size]),
            }
        })
    }

    /// Reads `bytes` bytes, in whatever portions they come.
    fn drain(stream: &mut TcpStream, into: &mut Ring<'_>, mut bytes: u64) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        while bytes > 0 {
            match some(stream.read(into.room(bytes)))? {
                Some(0) => bail!("the TCP connection was closed"),
                Some(read) => {
                    bytes -= read as u64;
                    into.note(read);
                    patience.progress();
                }
                None => patience.idle()?,
            }
        }
        Ok(())
    }

    /// Both directions at once. Each end finishes with a byte that says that it has read everything.
    fn bidir(&mut self, job: &Job) -> anyhow::Result<()> {
        let bytes = job.count * job.size as u64;
        if self.spinning {
            self.bidir_spinning(job, bytes)?;
        } else {
            let mut writer = self.stream.try_clone()?;
            let Self { stream, out, into, .. } = self;
            thread::scope(|scope| {
                let writing = scope.spawn(|| Self::write_messages(&mut writer, out, job, false));
                Self::drain(stream, &mut Ring::of(into, job), bytes)?;
                writing.join().expect("the writer does not panic")
            })?;
        }
        write_all(&mut self.stream, &[1])?;
        read_exact(&mut self.stream, &mut [0])
    }

    fn bidir_spinning(&mut self, job: &Job, bytes: u64) -> anyhow::Result<()> {
        let (mut written, mut read) = (0u64, 0u64);
        let mut into = Ring::of(&mut self.into, job);
        let mut patience = Patience::default();
        while written < bytes || read < bytes {
            let mut moved = false;
            if written < bytes {
                let at = (written % job.size as u64) as usize;
                if let Some(more) = some(self.stream.write(&self.out[at..job.size]))? {
                    written += more as u64;
                    moved = true;
                }
            }
            if read < bytes {
                match some(self.stream.read(into.room(bytes - read)))? {
                    Some(0) => bail!("the TCP connection was closed"),
                    Some(more) => {
                        read += more as u64;
                        into.note(more);
                        moved = true;
                    }
                    None => {}
                }
            }
            if moved { patience.progress() } else { patience.idle()? }
        }
        Ok(())
    }
}

/// Bytes of the messages of a window, if they come as a stream.
fn messages_bytes(job: &Job) -> usize {
    let streams = matches!(job.pattern, Pattern::Stream | Pattern::Rate | Pattern::Bidir);
    if streams { job.size.saturating_mul(job.window) } else { 0 }
}

/// Where a stream is read to. Long messages lie whole one behind the other, as many as EMP has receives posted for; small
/// ones are read together to one place.
struct Ring<'a> {
    into: &'a mut [u8],
    at: usize,
}

impl<'a> Ring<'a> {
    fn of(into: &'a mut [u8], job: &Job) -> Self {
        let bytes = messages_bytes(job).max(READ_BYTES);
        Self { into: &mut into[..bytes], at: 0 }
    }

    /// Room for some of the next `bytes` bytes.
    fn room(&mut self, bytes: u64) -> &mut [u8] {
        let room = &mut self.into[self.at..];
        let most = room.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        &mut room[..most]
    }

    /// So many were read.
    fn note(&mut self, bytes: usize) {
        let next = if self.into.len() > READ_BYTES { self.at + bytes } else { 0 };
        self.at = next % self.into.len();
    }
}

/// Bytes of a request and of its answer: the operands or the place, the contents or a word.
fn question_and_answer(job: &Job) -> (usize, usize) {
    match job.pattern {
        Pattern::Put => (job.size, WORD_BYTES),
        Pattern::Get => (WORD_BYTES, job.size),
        _ => (job.size, job.size),
    }
}

impl Subject for Tcp {
    fn prepare(&mut self, _role: Role, job: &Job) -> anyhow::Result<()> {
        let bytes = job.size.max(WORD_BYTES);
        if self.out.len() < bytes {
            self.out = memory::filled(bytes)?;
        }
        let several = if memory::is_shared(job) { 0 } else { READ_BYTES };
        let bytes = messages_bytes(job).max(bytes).max(several);
        if self.into.len() < bytes {
            self.into = memory::one(bytes)?;
        }
        Ok(())
    }

    fn leave_memory(&mut self, job: &Job) {
        if memory::is_shared(job) {
            memory::leave_sent(std::mem::take(&mut self.out));
            memory::leave_received(vec![std::mem::take(&mut self.into)]);
        }
    }

    fn active(&mut self, job: &Job) -> anyhow::Result<Measure> {
        let start = Instant::now();
        match job.pattern {
            Pattern::Pingpong => self.pingpong(job, Role::Active)?,
            Pattern::Stream | Pattern::Rate => {
                Self::write_messages(&mut self.stream, &self.out, job, self.bundle)?;
                read_exact(&mut self.stream, &mut [0])?;
            }
            Pattern::Bidir => self.bidir(job)?,
            Pattern::Put | Pattern::Get | Pattern::Atomic => self.ask(job)?,
            Pattern::Verify => bail!("TCP is not verified"),
        }
        Ok(Measure { job: *job, elapsed: start.elapsed(), arrived: 1.0 })
    }

    fn passive(&mut self, job: &Job) -> anyhow::Result<()> {
        match job.pattern {
            Pattern::Pingpong => self.pingpong(job, Role::Passive),
            Pattern::Stream | Pattern::Rate => {
                let bytes = job.count * job.size as u64;
                Self::drain(&mut self.stream, &mut Ring::of(&mut self.into, job), bytes)?;
                write_all(&mut self.stream, &[1])
            }
            Pattern::Bidir => self.bidir(job),
            Pattern::Put | Pattern::Get | Pattern::Atomic => self.answer(job),
            Pattern::Verify => bail!("TCP is not verified"),
        }
    }

    fn calls(&mut self, script: &Script) -> anyhow::Result<Box<dyn Calls + '_>> {
        if !self.spinning {
            bail!("TCP that sleeps has no calls that return at once");
        }
        Ok(Box::new(TcpCalls::new(&mut self.stream, script.size, script.batch)))
    }
}

/// A connection whose bytes are to be followed by others: the kernel waits for those before it sends less than a segment.
struct WithMore<'a>(&'a TcpStream);

impl Write for WithMore<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        SockRef::from(self.0).send_with_flags(bytes, libc::MSG_MORE)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn write_all(stream: &mut impl Write, mut bytes: &[u8]) -> anyhow::Result<()> {
    let mut patience = Patience::default();
    while !bytes.is_empty() {
        match some(stream.write(bytes))? {
            Some(0) => bail!("the TCP connection was closed"),
            Some(written) => {
                bytes = &bytes[written..];
                patience.progress();
            }
            None => patience.idle()?,
        }
    }
    Ok(())
}

fn read_exact(stream: &mut TcpStream, mut into: &mut [u8]) -> anyhow::Result<()> {
    let mut patience = Patience::default();
    while !into.is_empty() {
        match some(stream.read(into))? {
            Some(0) => bail!("the TCP connection was closed"),
            Some(read) => {
                into = &mut into[read..];
                patience.progress();
            }
            None => patience.idle()?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pattern: Pattern, options: TcpOptions) -> Measure {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let job = Job { pattern, size: 3000, count: 200, window: 4 };
        let other = thread::spawn(move || {
            let mut end = Tcp::new(Tcp::accept(&listener).unwrap(), options).unwrap();
            end.prepare(Role::Passive, &job).unwrap();
            end.passive(&job).unwrap();
        });
        let mut end = Tcp::new(TcpStream::connect(at).unwrap(), options).unwrap();
        end.prepare(Role::Active, &job).unwrap();
        let measure = end.active(&job).unwrap();
        other.join().unwrap();
        measure
    }

    #[test]
    fn what_is_said_to_be_followed_waits_for_what_follows() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The kernel waits 0.2 s: a test that is not run for so long tries again.
        let held_back = (0..20).any(|_| {
            let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut other = listener.accept().unwrap().0;
            one.set_nodelay(true).unwrap();
            write_all(&mut WithMore(&one), &[1; 8]).unwrap();
            other.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            let held_back = other.read(&mut [0; 8]).is_err();
            other.set_read_timeout(None).unwrap();
            write_all(&mut one, &[2; 8]).unwrap();
            other.read_exact(&mut [0; 8]).unwrap();
            held_back
        });
        assert!(held_back);
    }

    #[test]
    fn every_pattern_ends_in_both_ways_of_waiting() {
        let two_sided = [Pattern::Pingpong, Pattern::Stream, Pattern::Bidir, Pattern::Rate];
        for pattern in two_sided.into_iter().chain([Pattern::Put, Pattern::Get, Pattern::Atomic]) {
            for (spinning, bundle) in [(true, false), (false, false), (true, true), (false, true)] {
                let options = TcpOptions { spinning, bundle };
                assert!(run(pattern, options).messages_per_s() > 0.0);
            }
        }
    }
}
