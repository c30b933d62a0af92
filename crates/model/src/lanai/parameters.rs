//! What a LANai's work takes. Four figures are fitted to Table 1; the rest is stated, or follows from clocks.

use emp_firmware::Span;

use crate::card::{Parameter, Source};

/// Bytes of a packet's payload (V4).
pub(super) const PACKET_BYTES: usize = 4_096;
/// Picoseconds of a byte on a link of 1.28 Gb/s (V1).
pub(super) const LINK_BYTE_PS: u64 = 6_250;
/// A switch passes a packet on after so long (E56: less than 1 µs).
pub(super) const SWITCH: Span = Span(500);

/// Nanoseconds of each part.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// A packet, at its sender and at its receiver each.
    pub(super) packet: Span,
    /// What reliability adds to it: moved between queues (V23).
    pub(super) reliable: Span,
    /// An acknowledgement by itself, at either end.
    pub(super) ack: Span,
    /// Picoseconds of a byte between host and card.
    pub(super) host_byte_ps: u64,
    /// The host posts, and sees: an access over PCI each.
    pub(super) post: Span,
    pub(super) poll: Span,
    /// A node-identity poll that nobody answers (V27).
    pub(super) probe_timeout: Span,
}

impl Parameters {
    /// The paper's card and hosts.
    pub const VMMC2: Self = Self {
        packet: Span(4_750),
        reliable: Span(1_165),
        ack: Span(8_500),
        host_byte_ps: 9_120,
        post: Span(500),
        poll: Span(500),
        probe_timeout: Span(50_000),
    };

    /// The same without reliability: it takes no time, and no acknowledgement is on the wire.
    #[must_use]
    pub fn unreliable(&self) -> Self {
        Self { reliable: Span(0), ack: Span(0), ..self.clone() }
    }

    /// All of them, for people.
    pub fn list(&self) -> Vec<Parameter> {
        let us = |span: Span| span.0 as f64 / 1e3;
        let pci = Source::Derived("PCI 2.1: 30 ns clocks, a target answers within 16 of them");
        vec![
            Parameter::new(
                "packet, at each end",
                us(self.packet),
                "us",
                Source::Fitted("11.1 us without reliability (Table 1)"),
            ),
            Parameter::new(
                "reliability of a packet",
                us(self.reliable),
                "us",
                Source::Fitted("13.4 us with an acknowledgement every six (Table 1)"),
            ),
            Parameter::new(
                "acknowledgement, at each end",
                us(self.ack),
                "us",
                Source::Fitted("23.93 us with one for each packet (Table 1)"),
            ),
            Parameter::new(
                "a byte between host and card",
                self.host_byte_ps as f64 / 1e3,
                "ns",
                Source::Fitted("97.61 MB/s without reliability (Table 1)"),
            ),
            Parameter::new("host's post", us(self.post), "us", pci),
            Parameter::new("host's poll", us(self.poll), "us", pci),
            Parameter::new(
                "a byte on a link",
                LINK_BYTE_PS as f64 / 1e3,
                "ns",
                Source::Stated("V1: 1.28 Gb/s"),
            ),
            Parameter::new("a switch", us(SWITCH), "us", Source::Derived("E56: less than 1 us")),
            Parameter::new(
                "a probe that nobody answers",
                us(self.probe_timeout),
                "us",
                Source::Derived("no figure is published (V31): three times the longest answer"),
            ),
        ]
    }
}
