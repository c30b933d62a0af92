//! The stages of a message's way, as the multi-CPU paper's Table 1 names them (I9), and how who measures hears of them: by the memory that
//! every call is given. Memory that does not measure says nothing, and then nothing of this is compiled.

/// A stage. Of one within another only the inner one goes on: an acknowledgement that is built while frames are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(usize)]
pub enum Stage {
    /// A message is posted, gets its number and its plan (I1).
    SendBookkeeping,
    /// Frames are built and handed to the link (I2).
    Transmission,
    /// An acknowledgement is taken in and frees what it covers (I3).
    ReceiveAcknowledgement,
    /// An arriving frame is checked, classified and matched (I4).
    ReceiveBookkeeping,
    /// It is found where its payload belongs: the paper's "recv frame" (I17).
    ReceiveFrame,
    /// The payload is brought there: "recv DMA" (I5).
    ReceiveDma,
    /// An acknowledgement is sent (I6).
    SendAcknowledgement,
    /// None of them.
    #[default]
    Rest,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::SendBookkeeping,
        Self::Transmission,
        Self::ReceiveAcknowledgement,
        Self::ReceiveBookkeeping,
        Self::ReceiveFrame,
        Self::ReceiveDma,
        Self::SendAcknowledgement,
        Self::Rest,
    ];

    /// Its name in the paper's words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendBookkeeping => "send bookkeeping",
            Self::Transmission => "transmission",
            Self::ReceiveAcknowledgement => "receive acknowledgement",
            Self::ReceiveBookkeeping => "receive bookkeeping",
            Self::ReceiveFrame => "receive frame",
            Self::ReceiveDma => "receive DMA",
            Self::SendAcknowledgement => "send acknowledgement",
            Self::Rest => "rest",
        }
    }
}
