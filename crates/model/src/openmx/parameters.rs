//! What hosts and networks of the Open-MX paper take (O18).

use emp_firmware::Span;

use crate::card::{Parameter, Source};

/// A network of the paper.
#[derive(Clone, Debug)]
pub struct Network {
    /// Picoseconds of a byte on the wire.
    pub(super) byte_ps: u64,
    /// Bytes of a frame without Ethernet's header.
    pub(super) frame_bytes: usize,
    /// An interrupt comes so long after a frame.
    pub(super) coalescing: Span,
}

impl Network {
    /// Myri-10G with its usual frames; interrupts are deferred for so many microseconds (O20, O22).
    pub const fn ten_gigabit(coalescing: Span) -> Self {
        Self { byte_ps: 800, frame_bytes: 9_000, coalescing }
    }

    /// The same as MXoE's wire has it: 4 KB of data in a frame (O21).
    pub const fn compatible() -> Self {
        Self { byte_ps: 800, frame_bytes: 4_096 + emp_wire::HEADER_BYTES, coalescing: Span(0) }
    }

    /// BCM5708 at 1 Gb/s (O19).
    pub const fn gigabit() -> Self {
        Self { byte_ps: 8_000, frame_bytes: 1_500, coalescing: GIGABIT_COALESCING }
    }
}

/// What myri10ge and bnx2 defer interrupts by.
pub(super) const USUAL_COALESCING: Span = Span(66_500);
const GIGABIT_COALESCING: Span = Span(6_000);

/// Nanoseconds of each part, on the paper's 2.33 GHz cores.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// A call of the kernel with its driver; an event in the library with matching. One figure for both ends.
    pub(super) end: Span,
    /// Taking an interrupt, to its bottom half.
    pub(super) interrupt: Span,
    /// Picoseconds of a byte copied.
    pub(super) copy_byte_ps: u64,
    /// Pinning and translating a page (O14).
    pub(super) pin_page: Span,
    /// The bottom half, for a frame of a small message, and for one of a large one with its replacement in the card's ring.
    pub(super) small_frame: Span,
    pub(super) large_frame: Span,
    /// The driver, for a frame that leaves.
    pub(super) send_frame: Span,
    /// The card, at each end.
    pub(super) card: Span,
    /// Copies of large messages are left to I/OAT (O26); what handing over a page's copy takes.
    pub(super) offload: Option<Span>,
}

impl Parameters {
    /// The paper's hosts.
    pub const E5345: Self = Self {
        end: Span(2_460),
        interrupt: Span(2_000),
        copy_byte_ps: 488,
        pin_page: Span(200),
        small_frame: Span(500),
        large_frame: Span(7_250),
        send_frame: Span(500),
        card: Span(600),
        offload: None,
    };

    /// The same with I/OAT: a page's copy costs a descriptor and a doorbell.
    #[must_use]
    pub fn offloaded(&self) -> Self {
        Self { offload: Some(Span(350)), ..self.clone() }
    }

    /// All of them, for people.
    pub fn list(&self) -> Vec<Parameter> {
        let us = |span: Span| span.0 as f64 / 1e3;
        vec![
            Parameter::new(
                "call, driver, or library at each end",
                us(self.end),
                "us",
                Source::Fitted("9.2 us without coalescing (O22)"),
            ),
            Parameter::new(
                "interrupt",
                us(self.interrupt),
                "us",
                Source::Stated("section 4.2: a couple of microseconds"),
            ),
            Parameter::new(
                "copy of a byte",
                self.copy_byte_ps as f64 / 1e3,
                "ns",
                Source::Stated("O14: 2 us a page"),
            ),
            Parameter::new("pin a page", us(self.pin_page), "us", Source::Stated("O14")),
            Parameter::new(
                "bottom half, small frame",
                us(self.small_frame),
                "us",
                Source::Derived("O17: two locks and an event, some 1,000 cycles"),
            ),
            Parameter::new(
                "bottom half, frame of a large message",
                us(self.large_frame),
                "us",
                Source::Fitted("700 MB/s on 10 Gb/s (O20)"),
            ),
            Parameter::new(
                "driver, a frame that leaves",
                us(self.send_frame),
                "us",
                Source::Derived("as a small frame in the bottom half"),
            ),
            Parameter::new(
                "card, at each end",
                us(self.card),
                "us",
                Source::Derived("MXoE's 2.4 us (O20) is twice this and the hosts' polling"),
            ),
            Parameter::new(
                "interrupts deferred by, 10 Gb/s",
                us(USUAL_COALESCING),
                "us",
                Source::Fitted("75.7 us with coalescing (O22)"),
            ),
            Parameter::new(
                "interrupts deferred by, 1 Gb/s",
                us(GIGABIT_COALESCING),
                "us",
                Source::Fitted("16 us on 1 Gb/s (O19)"),
            ),
        ]
    }
}
