//! Stages, and which processor runs each: the schemes of the multi-CPU paper's Table 2 (I17).

/// A stage of a frame's way. Receive bookkeeping and receive acknowledgement are in the halves that Table 2 cuts them in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Stage {
    /// A posted message is cut into frames and gets its record (I1).
    SendBookkeeping,
    /// A frame is fetched from the host and given to the MAC (I2).
    Transmission,
    /// An acknowledgement arrived: the half that needs what the receive side knows.
    ReceiveAckArrival,
    /// The half that frees what the send side holds (I3).
    ReceiveAckRelease,
    /// An arriving frame is classified and matched (I4): "recv bkkeep".
    ReceiveBookkeeping,
    /// Its numbers are noted and its DMA begins: "recv frame".
    ReceiveFrame,
    /// Its DMA to the host is seen through (I5): "recv dma".
    ReceiveDma,
    /// An acknowledgement is sent (I6).
    SendAck,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::SendBookkeeping,
        Self::Transmission,
        Self::ReceiveAckArrival,
        Self::ReceiveAckRelease,
        Self::ReceiveBookkeeping,
        Self::ReceiveFrame,
        Self::ReceiveDma,
        Self::SendAck,
    ];
}

/// One of the card's two processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Processor {
    /// The one with 16 KB of scratchpad (I12).
    A,
    /// The one with 8 KB.
    B,
}

impl Processor {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// A way to place the stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// All on one processor (E14).
    Base,
    /// The send path is split.
    SendOnly,
    /// The receive path is split.
    ReceiveOnly,
    /// A processor for each path.
    Dedicated,
    /// Both paths are split.
    Both,
}

impl Scheme {
    /// All, in the paper's order.
    pub const ALL: [Self; 5] =
        [Self::Base, Self::SendOnly, Self::ReceiveOnly, Self::Dedicated, Self::Both];

    /// The paper's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::SendOnly => "SO",
            Self::ReceiveOnly => "RO",
            Self::Dedicated => "DSR",
            Self::Both => "SR",
        }
    }

    /// Stages run on A but for these.
    const fn on_b(self) -> &'static [Stage] {
        use Stage as S;
        match self {
            Self::Base => &[],
            Self::SendOnly => &[S::Transmission, S::SendAck],
            Self::ReceiveOnly => &[S::ReceiveFrame, S::ReceiveDma],
            Self::Dedicated => {
                &[S::ReceiveAckArrival, S::ReceiveBookkeeping, S::ReceiveFrame, S::ReceiveDma]
            }
            Self::Both => &[S::Transmission, S::ReceiveFrame, S::SendAck, S::ReceiveDma],
        }
    }

    /// Where a stage runs.
    pub fn place(self, stage: Stage) -> Processor {
        if self.on_b().contains(&stage) { Processor::B } else { Processor::A }
    }
}
