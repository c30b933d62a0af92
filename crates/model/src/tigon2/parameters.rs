//! What a Tigon2's stages and parts take. Two sets, because the two papers' figures cannot share one (lineage 1.6 item 2).

use emp_firmware::Span;

use super::placement::Stage;
use crate::card::{Parameter, Source};

/// Nanoseconds of each part, and where each figure comes from.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The paper.
    pub name: &'static str,
    /// Each stage, in the order of [`Stage::ALL`].
    pub(super) stages: [Span; 8],
    /// Where they come from.
    stage_source: Source,
    /// Of send bookkeeping, what recurs for each frame: cutting it off its message.
    pub(super) fragment: Span,
    fragment_source: Source,
    /// Of transmission, what is left to do when DMA assist has the frame.
    pub(super) after_handover: Span,
    handover_source: Source,
    /// One transfer of a DMA engine, before its first byte: descriptor fetched by DMA assist, bus granted.
    pub(super) dma_setup: Span,
    /// Picoseconds of a byte on the PCI bus, bursts and waits together.
    pub(super) pci_byte_ps: u64,
    pci_source: Source,
    /// The other processor is told of an event: semaphore, shared record, bit in its event register (I13 to I15).
    pub(super) signal: Span,
    /// It takes the event: semaphore, clears the bit, reads the record.
    pub(super) notice: Span,
    /// What a processor is slowed down by while the other runs, too, in a thousandth: one memory for both (I12).
    pub(super) contention: u64,
    contention_source: Source,
    /// The host reads a descriptor's owner: one read of card memory over PCI (E47).
    pub(super) poll: Span,
    /// The host writes to card memory (E40): a burst, before its first eight bytes, and eight bytes.
    pub(super) pio: [Span; 2],
    /// What the user library does for each call.
    pub(super) call: Span,
    /// The kernel translates a page (E37).
    pub(super) translate: Span,
    /// What MPI adds to a call that sends, and to one that receives.
    pub(super) mpi: [Span; 2],
}

/// Nanoseconds of a byte on a gigabit wire.
pub(super) const WIRE_BYTE_NS: u64 = 8;

/// Bytes of a frame before the MAC begins to send it: two bursts of 64.
pub(super) const MAC_STARTS_AT: u64 = 128;

/// Largest frame without Ethernet's header (E18).
pub(super) const MTU: usize = 1_500;

/// Nanoseconds of the stages as the multi-CPU paper's Tables 1 and 2 have them (I9, I17), in the order of [`Stage::ALL`].
const TABLE_1: [u64; 8] = [5_250, 5_500, 3_250, 2_500, 6_250, 4_250, 2_750, 2_500];

const fn scaled(percent_of_10: u64) -> [Span; 8] {
    let mut stages = [Span(0); 8];
    let mut i = 0;
    while i < stages.len() {
        stages[i] = Span(TABLE_1[i] * percent_of_10 / 1_000);
        i += 1;
    }
    stages
}

impl Parameters {
    /// The multi-CPU paper's firmware (IPDPS 2002): Table 1's stages.
    pub const IPDPS2002: Self = Self {
        name: "IPDPS2002",
        stages: scaled(1_000),
        stage_source: Source::Stated("I9, I17"),
        fragment: Span(2_500),
        fragment_source: Source::Fitted("base 940 Mb/s bidirectional (I24)"),
        after_handover: Span(4_600),
        handover_source: Source::Fitted("base 24.31 us at 10 B (I24)"),
        dma_setup: Span(300),
        pci_byte_ps: 2_500,
        pci_source: Source::Fitted("36 us at 1500 B (E60)"),
        signal: Span(200),
        notice: Span(150),
        contention: 420,
        contention_source: Source::Fitted("SO 1100 Mb/s bidirectional (I26)"),
        poll: Span(300),
        pio: [Span(120), Span(15)],
        call: Span(100),
        translate: Span(200),
        mpi: [Span(52_000), Span(8_000)],
    };

    /// The first paper's firmware (SC 2001): faster stages, of which only sums are published.
    pub const SC2001: Self = Self {
        name: "SC2001",
        stages: scaled(880),
        stage_source: Source::Fitted("880 Mb/s at 4 kB (E61): Table 1's stages (I9) by one factor"),
        fragment: Span(2_200),
        fragment_source: Source::Derived("IPDPS2002's share, by the stages' factor"),
        after_handover: Span(2_600),
        handover_source: Source::Fitted("23 us at 4 B (E60)"),
        ..Self::IPDPS2002
    };

    /// What a stage takes.
    pub(super) const fn stage(&self, stage: Stage) -> Span {
        self.stages[stage as usize]
    }

    /// What so many bytes take on the bus.
    pub(super) const fn pci_time(&self, bytes: usize) -> Span {
        Span(bytes as u64 * self.pci_byte_ps / 1_000)
    }

    /// All of them, for people.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub fn list(&self) -> Vec<Parameter> {
        let us = |span: Span| span.0 as f64 / 1e3;
        let stage =
            |name, stage| Parameter::new(name, us(self.stage(stage)), "us", self.stage_source);
        let bus = Source::Derived("PCI 2.1: 15 ns clocks, a target answers within 16 of them");
        vec![
            stage("send bookkeeping", Stage::SendBookkeeping),
            stage("transmission", Stage::Transmission),
            stage("receive acknowledgement, arrival", Stage::ReceiveAckArrival),
            stage("receive acknowledgement, release", Stage::ReceiveAckRelease),
            stage("receive bookkeeping", Stage::ReceiveBookkeeping),
            stage("receive frame", Stage::ReceiveFrame),
            stage("receive DMA", Stage::ReceiveDma),
            stage("send acknowledgement", Stage::SendAck),
            Parameter::new(
                "of send bookkeeping, per frame",
                us(self.fragment),
                "us",
                self.fragment_source,
            ),
            Parameter::new(
                "of transmission, after handover",
                us(self.after_handover),
                "us",
                self.handover_source,
            ),
            Parameter::new("DMA set-up", us(self.dma_setup), "us", bus),
            Parameter::new("a byte on PCI", self.pci_byte_ps as f64 / 1e3, "ns", self.pci_source),
            Parameter::new(
                "tell the other processor",
                us(self.signal),
                "us",
                Source::Derived("I10, I15: three accesses of 88 MHz registers under the semaphore"),
            ),
            Parameter::new(
                "notice it",
                us(self.notice),
                "us",
                Source::Derived("I15: the same, two accesses"),
            ),
            Parameter::new(
                "slower while both run",
                self.contention as f64 / 10.0,
                "%",
                self.contention_source,
            ),
            Parameter::new("host's poll", us(self.poll), "us", bus),
            Parameter::new("host's burst of writes", us(self.pio[0]), "us", bus),
            Parameter::new("eight bytes of it", us(self.pio[1]), "us", bus),
            Parameter::new(
                "library's part of a call",
                us(self.call),
                "us",
                Source::Derived("E54: 100 cycles at 933 MHz"),
            ),
            Parameter::new(
                "translation of a page",
                us(self.translate),
                "us",
                Source::Stated("E38: below 1 us; the cost of a page in get_user_pages, O14"),
            ),
            Parameter::new(
                "MPI's part of a send",
                us(self.mpi[0]),
                "us",
                Source::Fitted("MPI_Isend 53 us (E66)"),
            ),
            Parameter::new(
                "MPI's part of a receive",
                us(self.mpi[1]),
                "us",
                Source::Fitted("MPI_Irecv 9 us (E66)"),
            ),
            Parameter::new(
                "a byte on the wire",
                WIRE_BYTE_NS as f64,
                "ns",
                Source::Stated("802.3z: 1000 Mb/s"),
            ),
            Parameter::new(
                "MAC begins to send at",
                MAC_STARTS_AT as f64,
                "B",
                Source::Derived("E60: 8.7 ns a byte leaves no room for store and forward"),
            ),
        ]
    }
}
