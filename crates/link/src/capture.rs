//! A wrapper that writes every frame to a pcapng file, for Wireshark and its like.
//!
//! Frames of links without Ethernet headers get a made-up one, so that one dissector reads them
//! all: EtherType 0x88B5 and addresses that tell the nodes apart.

mod pcapng;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

use emp_wire::{AddressFamily, ETHERTYPE_DEFAULT, LinkAddress};

use crate::fault::FaultCounters;
use crate::gather::ETHERNET_HEADER_BYTES;
use crate::{Capabilities, Condition, Link, LinkStatistics, PeerMemory, TxFrame};
use pcapng::{Direction, Pcapng};

/// Most bytes of a capture unless said otherwise: 1 GiB, which fits most disks, and which viewers
/// still open.
pub const CAPTURE_BYTES: u64 = 1 << 30;

/// A link whose frames are written down.
pub struct CaptureLink<L, W: Write = BufWriter<File>> {
    inner: L,
    file: Pcapng<W>,
    own: [u8; 6],
    written: u64,
    skipped: u64,
}

impl<L: Link> CaptureLink<L> {
    /// Writes to a new file at `path`, at most `limit` bytes; frames beyond are counted only.
    pub fn create(inner: L, path: &Path, limit: u64) -> io::Result<Self> {
        Self::new(inner, BufWriter::new(File::create(path)?), limit)
    }
}

impl<L: Link, W: Write + Send> CaptureLink<L, W> {
    /// Writes to `writer`, at most `limit` bytes; frames beyond are counted only.
    pub fn new(inner: L, writer: W, limit: u64) -> io::Result<Self> {
        let capabilities = inner.capabilities();
        let name = format!("{} {}", capabilities.kind, capabilities.interface);
        let own = ethernet_address(&capabilities.address);
        Ok(Self { file: Pcapng::new(writer, &name, limit)?, inner, own, written: 0, skipped: 0 })
    }

    /// Frames written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Frames not written: the file is full, or writing failed.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

/// The Ethernet address that stands for an address in the capture. Made-up ones have the "locally
/// administered" bit set, so that they cannot be mistaken for a card's.
fn ethernet_address(address: &LinkAddress) -> [u8; 6] {
    let bytes = address.bytes();
    match address.family() {
        AddressFamily::Everyone => [0xFF; 6],
        AddressFamily::Mac => address.as_mac().unwrap_or_default(),
        // The IP address, and the port's low byte to tell nodes of one machine apart.
        AddressFamily::Udp4 => match *bytes {
            [a, b, c, d, _, port] => [0x02, port, a, b, c, d],
            _ => [0x02, 0, 0, 0, 0, 0],
        },
        // Too long to fit: a digest of it (FNV-1a, folded to 40 bits).
        AddressFamily::Udp6 | AddressFamily::Shm => {
            let digest = bytes.iter().fold(0xCBF2_9CE4_8422_2325u64, |digest, byte| {
                (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
            });
            let [_, _, _, a, b, c, d, e] = (digest ^ digest >> 40).to_be_bytes();
            [0x06, a, b, c, d, e]
        }
        AddressFamily::Index => match *bytes {
            [a, b, c, d] => [0x02, 0xFF, a, b, c, d],
            _ => [0x02, 0xFF, 0, 0, 0, 0],
        },
        AddressFamily::Loopback => [0x02, 0, 0, 0, 0, 0],
    }
}

fn header(to: [u8; 6], from: [u8; 6]) -> [u8; ETHERNET_HEADER_BYTES] {
    let mut header = [0; ETHERNET_HEADER_BYTES];
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&from);
    header[12..].copy_from_slice(&ETHERTYPE_DEFAULT.to_be_bytes());
    header
}

impl<L: Link, W: Write + Send> Link for CaptureLink<L, W> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        let taken = self.inner.send(batch);
        let now = SystemTime::now();
        for frame in &batch[..taken.min(batch.len())] {
            let header = header(ethernet_address(&frame.to), self.own);
            let parts = frame.parts.iter().map(|part| &**part);
            let parts = std::iter::once(&header[..]).chain(parts);
            let written = self.file.frame(now, Direction::Out, parts);
            self.written += u64::from(written);
            self.skipped += u64::from(!written);
        }
        taken
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        let Self { inner, file, own, written, skipped } = self;
        inner.receive(budget, &mut |frame, from| {
            let header = header(*own, ethernet_address(from));
            let done = file.frame(SystemTime::now(), Direction::In, [&header, frame].into_iter());
            *written += u64::from(done);
            *skipped += u64::from(!done);
            sink(frame, from);
        })
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        // Whoever sleeps has time: what was seen so far is then on disk, should the process die.
        self.file.flush();
        self.inner.wait(timeout)
    }

    fn next_due(&self) -> Option<Duration> {
        self.inner.next_due()
    }

    fn peer_memory(&self) -> Option<std::sync::Arc<PeerMemory>> {
        self.inner.peer_memory()
    }

    fn faults(&self) -> Option<FaultCounters> {
        self.inner.faults()
    }

    fn condition(&mut self) -> Option<Condition<'_>> {
        self.inner.condition()
    }

    fn notice(&mut self) -> Option<String> {
        self.inner.notice()
    }

    fn statistics(&self) -> LinkStatistics {
        self.inner.statistics()
    }
}

#[cfg(test)]
mod tests;
