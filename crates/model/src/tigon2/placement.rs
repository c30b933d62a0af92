//! Stages, and which processor runs each: the schemes of the multi-CPU paper's Table 2 by name (I17), and any other by a table.

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

    /// Its name in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendBookkeeping => "send-bookkeeping",
            Self::Transmission => "transmission",
            Self::ReceiveAckArrival => "ack-arrival",
            Self::ReceiveAckRelease => "ack-release",
            Self::ReceiveBookkeeping => "receive-bookkeeping",
            Self::ReceiveFrame => "receive-frame",
            Self::ReceiveDma => "receive-dma",
            Self::SendAck => "send-ack",
        }
    }
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

/// A way to place the stages: a table. The paper's five have names (Table 2), any other is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    name: &'static str,
    places: [Processor; Stage::ALL.len()],
    /// Where a host's links are called that send and receive frames, if not in the stages that need them. A card has none.
    calls: Option<Processor>,
}

/// The links' calls in a table.
const CALLS: &str = "link-calls";

impl Placement {
    /// All on one processor (E14).
    pub const BASE: Self = Self::with("base", &[]);
    /// The send path is split.
    pub const SEND_ONLY: Self = Self::with("SO", &[Stage::Transmission, Stage::SendAck]);
    /// The receive path is split.
    pub const RECEIVE_ONLY: Self = Self::with("RO", &[Stage::ReceiveFrame, Stage::ReceiveDma]);
    /// A processor for each path.
    pub const DEDICATED: Self = Self::with(
        "DSR",
        &[
            Stage::ReceiveAckArrival,
            Stage::ReceiveBookkeeping,
            Stage::ReceiveFrame,
            Stage::ReceiveDma,
        ],
    );
    /// Both paths are split.
    pub const BOTH: Self = Self::with(
        "SR",
        &[Stage::Transmission, Stage::ReceiveFrame, Stage::SendAck, Stage::ReceiveDma],
    );
    /// The paper's, in its order.
    pub const PAPER: [Self; 5] =
        [Self::BASE, Self::SEND_ONLY, Self::RECEIVE_ONLY, Self::DEDICATED, Self::BOTH];
    /// That of the board `split:io`: the engine whole on one, the links' calls on the other.
    pub const IO: Self = Self { name: "io", calls: Some(Processor::B), ..Self::BASE };

    /// All stages on A but for these.
    const fn with(name: &'static str, on_b: &[Stage]) -> Self {
        let mut places = [Processor::A; Stage::ALL.len()];
        let mut at = 0;
        while at < on_b.len() {
            places[on_b[at] as usize] = Processor::B;
            at += 1;
        }
        Self { name, places, calls: None }
    }

    /// The paper's name, or `given`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Where a stage runs.
    pub const fn place(&self, stage: Stage) -> Processor {
        self.places[stage as usize]
    }

    /// Where the call is made that this stage needs: transmission sends, receive bookkeeping receives.
    pub fn call_of(&self, stage: Stage) -> Processor {
        self.calls.unwrap_or(self.place(stage))
    }

    /// Whether links' calls are placed by themselves: a card makes none.
    pub const fn places_calls(&self) -> bool {
        self.calls.is_some()
    }

    /// Processors that it takes.
    pub fn processors(&self) -> usize {
        let has = |one| self.places.contains(&one) || self.calls == Some(one);
        usize::from(has(Processor::A)) + usize::from(has(Processor::B))
    }

    /// The one of this name, in whatever case.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut known = Self::PAPER.into_iter().chain([Self::IO]);
        known.find(|one| one.name.eq_ignore_ascii_case(name))
    }

    /// Reads `A=send-bookkeeping,transmission,…;B=receive-bookkeeping,…`: each stage on one of them. An error says in a line what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut places = [None; Stage::ALL.len()];
        let mut calls = None;
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let (processor, stages) = match part.split_once('=') {
                Some(("A" | "a", stages)) => (Processor::A, stages),
                Some(("B" | "b", stages)) => (Processor::B, stages),
                Some((other, _)) => {
                    return Err(format!(
                        "there is no processor {other}; there are A and B, as in A=…;B=…"
                    ));
                }
                None => {
                    return Err(format!(
                        "`{part}` says no processor; write A=STAGE,STAGE;B=STAGE,…"
                    ));
                }
            };
            for name in stages.split(',').filter(|name| !name.is_empty()) {
                let stage = Stage::ALL.into_iter().find(|stage| stage.name() == name);
                let place = match stage {
                    Some(stage) => &mut places[stage as usize],
                    None if name == CALLS => &mut calls,
                    None => {
                        let known = Stage::ALL.map(Stage::name).join(", ");
                        return Err(format!(
                            "there is no stage {name}; there are {known}, {CALLS}"
                        ));
                    }
                };
                if place.replace(processor).is_some() {
                    return Err(format!("{name} is placed twice; a stage is on one processor"));
                }
            }
        }
        if let Some(missing) = Stage::ALL.into_iter().find(|one| places[*one as usize].is_none()) {
            return Err(format!("{} is placed on no processor; add it to A or B", missing.name()));
        }
        let places = places.map(|place| place.unwrap_or(Processor::A));
        Ok(Self { name: "given", places, calls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_schemes_have_its_names_and_places() {
        let names = Placement::PAPER.map(|one| one.name());
        assert_eq!(names, ["base", "SO", "RO", "DSR", "SR"]);
        assert_eq!(Placement::BASE.processors(), 1);
        assert!(Placement::PAPER[1..].iter().all(|one| one.processors() == 2));
        let dsr = Placement::by_name("dsr").unwrap();
        assert_eq!(dsr.place(Stage::SendBookkeeping), Processor::A);
        assert_eq!(dsr.place(Stage::ReceiveBookkeeping), Processor::B);
        assert_eq!(dsr.call_of(Stage::ReceiveBookkeeping), Processor::B, "where the stage is");
        assert_eq!(Placement::IO.call_of(Stage::Transmission), Processor::B);
        assert!(Placement::IO.places_calls() && Placement::by_name("XY").is_none());
    }

    #[test]
    fn a_table_places_each_stage_once() {
        let names = Stage::ALL.map(Stage::name);
        let table = format!("A={};B={}", names[..4].join(","), names[4..].join(","));
        let given = Placement::parse(&table).unwrap();
        assert_eq!(given.place(Stage::ReceiveAckRelease), Processor::A);
        assert_eq!(given.place(Stage::SendAck), Processor::B);
        let table = format!("A={};B=link-calls", names.join(","));
        assert_eq!(Placement { name: "io", ..Placement::parse(&table).unwrap() }, Placement::IO);
        for (text, says) in [
            ("A=send-bookkeeping", "transmission is placed on no processor"),
            ("", "send-bookkeeping is placed on no processor"),
            ("A=send-ack;B=send-ack", "send-ack is placed twice"),
            ("A=send-ack,send-ack", "send-ack is placed twice"),
            ("A=link-calls;B=link-calls", "link-calls is placed twice"),
            ("C=send-ack", "there is no processor C"),
            ("A=tea", "there is no stage tea; there are send-bookkeeping"),
            ("send-ack", "`send-ack` says no processor"),
        ] {
            let problem = Placement::parse(text).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
