//! A record of the frames on the simulated wire: what scenario tests count, and what one reads when a seed fails.

use core::fmt;

use emp_firmware::{LinkIndex, Time};
use emp_wire::{HEADER_BYTES, Header, Kind, Pull, RelayHead, Relayed};

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It arrives then (perhaps damaged).
    Arrives(Time),
    /// A fault lost it.
    Dropped,
    /// A full queue lost it.
    Congested,
    /// A cut lost it.
    Cut,
    /// No one is at its address.
    Nowhere,
}

/// One frame as it left a node.
#[derive(Clone, Copy, Debug)]
pub struct TraceLine {
    /// When it was handed to the link.
    pub at: Time,
    /// The sender.
    pub from: usize,
    /// The receiver; `usize::MAX` if no one is there.
    pub to: usize,
    /// The link.
    pub link: LinkIndex,
    /// The common header, if it has one.
    pub header: Option<Header>,
    /// The relay's head, if it has one, and the common header of the first frame behind it.
    pub relayed: Option<(RelayHead, Option<Header>)>,
    /// Of a pull: offset, bytes and identifier.
    pub pull: Option<(u64, u32, u16)>,
    /// Bytes of the frame, padding included.
    pub bytes: usize,
    /// What became of it.
    pub fate: Fate,
}

impl TraceLine {
    /// The record of a frame.
    pub fn new(
        at: Time,
        from: usize,
        to: usize,
        link: LinkIndex,
        frame: &[u8],
        fate: Fate,
    ) -> Self {
        let header = Header::parse(frame).ok().map(|(header, _)| header);
        let relayed = Relayed::parse(frame).ok().map(|relayed| {
            (relayed.head, Header::parse(relayed.carried).ok().map(|(header, _)| header))
        });
        let pulls = header.is_some_and(|header| header.kind == Kind::Pull);
        let pull = frame.get(HEADER_BYTES..).filter(|_| pulls);
        let pull = pull.and_then(|body| Pull::parse(body).ok());
        let pull = pull.map(|pull| (pull.offset, pull.bytes, pull.pull));
        Self { at, from, to, link, header, relayed, pull, bytes: frame.len(), fate }
    }

    /// True if the frame is of this kind.
    pub fn is(&self, kind: Kind) -> bool {
        self.header.is_some_and(|header| header.kind == kind)
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>14.3} µs  ", self.at.0 as f64 / 1_000.0)?;
        match self.to {
            usize::MAX => write!(f, "{} → ?  ", self.from)?,
            to => write!(f, "{} → {to}  ", self.from)?,
        }
        if let Some((RelayHead { usage, place, hops, source_tag, destination_tag, .. }, _)) =
            self.relayed
        {
            write!(f, "{usage:?} {source_tag:04x}>{destination_tag:04x} {place}/{hops}: ")?;
        }
        match self.header.or(self.relayed.and_then(|(_, header)| header)) {
            Some(h) => write!(
                f,
                "{:<11} flags {:02x} seq {:<6} ack {:<6} word {:08x} epochs {:08x}>{:04x} {:>5} B",
                h.kind.name(),
                h.flags.0,
                h.sequence.0,
                h.acknowledge.0,
                h.word,
                h.source_epoch.0,
                h.destination_epoch,
                self.bytes
            )?,
            None => write!(f, "unreadable {} B", self.bytes)?,
        }
        if let Some((offset, bytes, pull)) = self.pull {
            write!(f, "  {bytes} B from {offset} as {pull:04x}")?;
        }
        match self.fate {
            Fate::Arrives(at) => write!(f, "  +{:.3}", at.since(self.at).0 as f64 / 1_000.0),
            other => write!(f, "  {other:?}"),
        }
    }
}

/// The record. Off until switched on: a long run has millions of frames.
#[derive(Debug, Default)]
pub struct Trace {
    on: bool,
    lines: Vec<TraceLine>,
}

impl Trace {
    /// Most lines kept; later frames are not recorded.
    pub const LINES_MAX: usize = 4_000_000;

    /// Switches recording on or off.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// Forgets what was recorded.
    pub fn clear(&mut self) {
        self.lines.clear();
    }

    /// The frames so far.
    pub fn lines(&self) -> &[TraceLine] {
        &self.lines
    }

    /// How many frames `from` sent that `accept` accepts.
    pub fn count(&self, from: usize, mut accept: impl FnMut(&TraceLine) -> bool) -> usize {
        self.lines.iter().filter(|line| line.from == from && accept(line)).count()
    }

    pub(crate) fn add(&mut self, line: impl FnOnce() -> TraceLine) {
        if self.on && self.lines.len() < Self::LINES_MAX {
            self.lines.push(line());
        }
    }
}
