//! A wrapper that writes every frame to a pcapng file, for Wireshark and its like, with what became of it.
//!
//! Frames of links without Ethernet headers get a made-up one, so that one dissector reads them
//! all: EtherType 0x88B5 and addresses that tell the nodes apart.

mod pcapng;

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use emp_wire::{AddressFamily, ETHERTYPE_DEFAULT, LinkAddress};

use crate::fault::FaultCounters;
use crate::gather::ETHERNET_HEADER_BYTES;
use crate::{Capabilities, Condition, FrameSink, Link, LinkStatistics, PeerMemory, TxFrame};
pub use pcapng::{Captured, Direction, Pcapng, Target};

/// Most bytes of a capture unless said otherwise: 1 GiB, which fits most disks, and which viewers
/// still open.
pub const CAPTURE_BYTES: u64 = 1 << 30;

/// A capture that several links write to, each as an interface of its own.
pub struct CaptureFile<W: Target = File> {
    shared: Arc<Mutex<Pcapng<W>>>,
    /// What it is called where something is said of it.
    name: Arc<str>,
    /// That nothing more is written was said, by one of the links.
    told: Arc<AtomicBool>,
}

impl<W: Target> Clone for CaptureFile<W> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            name: Arc::clone(&self.name),
            told: Arc::clone(&self.told),
        }
    }
}

impl<W: Target> CaptureFile<W> {
    /// A file that is open; `name` is what it is called in lines for people.
    pub fn new(file: Pcapng<W>, name: &str) -> Self {
        Self { shared: Arc::new(Mutex::new(file)), name: name.into(), told: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Pcapng<W>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands everything to the system.
    pub fn flush(&self) {
        self.lock().flush();
    }
}

/// A link whose frames are written down.
pub struct CaptureLink<L, W: Target = File> {
    inner: L,
    file: CaptureFile<W>,
    interface: u32,
    own: [u8; 6],
    written: u64,
    skipped: u64,
}

impl<L: Link> CaptureLink<L> {
    /// Writes to a new file at `path`, at most `limit` bytes; frames beyond are counted only.
    ///
    /// # Errors
    ///
    /// If the file cannot be made.
    pub fn create(inner: L, path: &Path, limit: u64) -> io::Result<Self> {
        let file = CaptureFile::new(Pcapng::create(path, limit)?, &path.display().to_string());
        Ok(Self::share(inner, &file))
    }
}

impl<L: Link, W: Target + Send> CaptureLink<L, W> {
    /// Writes to `target`, at most `limit` bytes; frames beyond are counted only.
    ///
    /// # Errors
    ///
    /// If its beginning cannot be written.
    pub fn new(inner: L, target: W, limit: u64) -> io::Result<Self> {
        Ok(Self::share(inner, &CaptureFile::new(Pcapng::new(target, limit)?, "capture")))
    }

    /// Writes to a capture that other links may write to as well.
    pub fn share(inner: L, file: &CaptureFile<W>) -> Self {
        let capabilities = inner.capabilities();
        let name = format!("{} {}", capabilities.kind, capabilities.interface);
        let own = ethernet_address(&capabilities.address);
        let interface = file.lock().interface(&name);
        Self { inner, file: file.clone(), interface, own, written: 0, skipped: 0 }
    }

    /// Frames written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Frames not written: the file is full, or writing failed.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Writes down frames that were sent now.
    fn sent(&mut self, frames: &[TxFrame<'_>]) {
        let time = SystemTime::now();
        let captured =
            Captured { interface: self.interface, time, direction: Direction::Out, comment: "" };
        let mut file = self.file.lock();
        for frame in frames {
            let header = header(ethernet_address(&frame.to), self.own);
            let parts = frame.parts.iter().map(|part| &**part);
            let written = file.frame(&captured, std::iter::once(&header[..]).chain(parts));
            self.written += u64::from(written);
            self.skipped += u64::from(!written);
        }
    }
}

/// The Ethernet address that stands for an address in the capture. Made-up ones have the "locally
/// administered" bit set, so that they cannot be mistaken for a card's.
fn ethernet_address(address: &LinkAddress) -> [u8; 6] {
    let bytes = address.bytes();
    match address.family() {
        AddressFamily::Everyone | AddressFamily::Beyond => [0xFF; 6],
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
        AddressFamily::Loopback | AddressFamily::Relayed => [0x02, 0, 0, 0, 0, 0],
    }
}

fn header(to: [u8; 6], from: [u8; 6]) -> [u8; ETHERNET_HEADER_BYTES] {
    let mut header = [0; ETHERNET_HEADER_BYTES];
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&from);
    header[12..].copy_from_slice(&ETHERTYPE_DEFAULT.to_be_bytes());
    header
}

/// Takes what the link under the capture receives, has the sink behind it judge each frame, and writes both down. Trains come frame
/// by frame, as only whole frames can be shown.
struct Witness<'a, W: Target> {
    sink: &'a mut dyn FrameSink,
    file: &'a CaptureFile<W>,
    interface: u32,
    own: [u8; 6],
    written: u64,
    skipped: u64,
    verdict: String,
}

impl<W: Target> FrameSink for Witness<'_, W> {
    fn frame(&mut self, frame: &[u8], from: &LinkAddress) {
        let time = SystemTime::now();
        self.verdict.clear();
        self.sink.judge(frame, from, &mut self.verdict);
        let header = header(self.own, ethernet_address(from));
        let captured = Captured {
            interface: self.interface,
            time,
            direction: Direction::In,
            comment: &self.verdict,
        };
        let written = self.file.lock().frame(&captured, [&header, frame].into_iter());
        self.written += u64::from(written);
        self.skipped += u64::from(!written);
    }

    fn asks_what_waited(&self) -> bool {
        self.sink.asks_what_waited()
    }

    fn waited(&mut self, time: Duration) {
        self.sink.waited(time);
    }

    fn marked(&mut self, marked: bool) {
        self.sink.marked(marked);
    }
}

impl<L: Link, W: Target + Send> Link for CaptureLink<L, W> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        let taken = self.inner.send(batch);
        self.sent(&batch[..taken.min(batch.len())]);
        taken
    }

    fn send_lent(&mut self, frame: &TxFrame<'_>) -> bool {
        let taken = self.inner.send_lent(frame);
        if taken {
            self.sent(std::slice::from_ref(frame));
        }
        taken
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        self.receive_into(budget, &mut crate::sink::Single(sink))
    }

    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        let Self { inner, file, interface, own, .. } = self;
        let (interface, own, verdict) = (*interface, *own, String::new());
        let mut witness = Witness { sink, file, interface, own, written: 0, skipped: 0, verdict };
        let count = inner.receive_into(budget, &mut witness);
        let (written, skipped) = (witness.written, witness.skipped);
        self.written += written;
        self.skipped += skipped;
        count
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
        // Asked before every sleep, also of those who sleep on the descriptor.
        self.file.flush();
        self.inner.next_due()
    }

    fn peer_memory(&self) -> Option<Arc<PeerMemory>> {
        self.inner.peer_memory()
    }

    fn faults(&self) -> Option<FaultCounters> {
        self.inner.faults()
    }

    fn condition(&mut self) -> Option<Condition<'_>> {
        self.inner.condition()
    }

    fn has_ended(&self, address: &LinkAddress) -> bool {
        self.inner.has_ended(address)
    }

    fn interfaces_changed(&mut self) -> Option<bool> {
        self.inner.interfaces_changed()
    }

    fn notice(&mut self) -> Option<String> {
        // Asked now and then, also where nobody ever sleeps.
        self.file.flush();
        if self.skipped > 0 && !self.file.told.swap(true, Ordering::Relaxed) {
            let file = self.file.lock();
            let why = file.failure().map_or("its limit is reached".to_owned(), ToString::to_string);
            let (name, frames) = (&self.file.name, file.frames());
            return Some(format!(
                "capture {name}: {why} after {frames} frames; what follows is not captured"
            ));
        }
        self.inner.notice()
    }

    fn statistics(&self) -> LinkStatistics {
        self.inner.statistics()
    }
}

impl<L, W: Target> Drop for CaptureLink<L, W> {
    fn drop(&mut self) {
        self.file.flush();
    }
}

#[cfg(test)]
mod tests;
