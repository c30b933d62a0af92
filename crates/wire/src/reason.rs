//! Why bytes from the wire were not a frame. Each reason has a counter of its own in the firmware (`DROP-1`).

/// Why a frame was dropped while parsing it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Reason {
    /// Fewer bytes than a common header.
    TooShort,
    /// A version this build does not speak.
    Version,
    /// A kind this version does not define.
    Kind,
    /// The length field is larger than what arrived.
    Length,
    /// The body is shorter than its kind needs.
    BodyShort,
    /// A field holds a value that its kind forbids.
    Field,
    /// The checksum does not match.
    Checksum,
}

impl Reason {
    /// Every reason, in counter order.
    pub const ALL: [Self; 7] = [
        Self::TooShort,
        Self::Version,
        Self::Kind,
        Self::Length,
        Self::BodyShort,
        Self::Field,
        Self::Checksum,
    ];

    /// A name for counters and captures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::Version => "wrong_version",
            Self::Kind => "unknown_kind",
            Self::Length => "bad_length",
            Self::BodyShort => "body_short",
            Self::Field => "bad_field",
            Self::Checksum => "bad_checksum",
        }
    }
}
