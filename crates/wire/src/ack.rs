//! `ack`: an explicit acknowledgement (`ACK-1`; V12, V18, E28).
//!
//! The common header's acknowledge field is cumulative; the word is the receiver's own part of the round trip ([`AckDelay`]). The body is the
//! sender's identity, then up to four words of selective acknowledgement: bit *i* of word *w* says that sequence number
//! `acknowledge + 1 + 64 w + i` has arrived too (`ACK-2`). Behind all four words items may follow (`ACK-10`), of which one is known: a grant.

use crate::extension::{Extensions, HEAD_BYTES};
use crate::header::{u32_at, u64_at};
use crate::{NodeId, Reason};

/// Words of selective acknowledgement that a frame can carry: together one receive window.
pub const SACK_WORDS_MAX: usize = 4;
/// Where items begin.
const ITEMS_AT: usize = 8 + 8 * SACK_WORDS_MAX;
/// The item that says how much its reader may send unasked (`CREDIT-4`), and bytes of its value.
const GRANT: u8 = 1;
const GRANT_BYTES: usize = 4;
/// Bytes of the largest body that is written.
pub const ACK_BODY_BYTES_MAX: usize = ITEMS_AT + HEAD_BYTES + GRANT_BYTES;

/// What is granted to a sender that may send as much unasked as it likes.
pub const GRANT_UNBOUNDED: u32 = u32::MAX;

/// What the word of an `ack` tells of the receiver's own part of the round trip (`ACK-8`), in microseconds; 65,535: that or more.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AckDelay {
    /// For how long the acknowledgement was held back.
    pub held_us: u16,
    /// For how long the frames that it acknowledges had waited, at most, until somebody looked.
    pub unseen_us: u16,
}

impl AckDelay {
    /// As it stands in the word.
    pub const fn word(self) -> u32 {
        (self.unseen_us as u32) << 16 | self.held_us as u32
    }

    /// What a word tells.
    pub const fn of_word(word: u32) -> Self {
        Self { held_us: word as u16, unseen_us: (word >> 16) as u16 }
    }
}

/// Body of an `ack` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The acknowledging node.
    pub node: NodeId,
    /// Selective acknowledgement bits; all zero if nothing arrived out of order.
    pub sack: [u64; SACK_WORDS_MAX],
    /// Bytes that the reader may send unasked from now on, of any one message (`CREDIT-4`), or [`GRANT_UNBOUNDED`]. `None`: nothing is said
    /// of that.
    pub grant: Option<u32>,
}

impl Ack {
    /// Writes the body, without zero words at its end unless an item follows, and returns its length.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        into[..8].copy_from_slice(&self.node.0.to_be_bytes());
        let used = self.sack.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        let words = if self.grant.is_some() { SACK_WORDS_MAX } else { used };
        for (i, word) in self.sack[..words].iter().enumerate() {
            into[8 + 8 * i..16 + 8 * i].copy_from_slice(&word.to_be_bytes());
        }
        let Some(grant) = self.grant else { return 8 + 8 * words };
        let value = ITEMS_AT + HEAD_BYTES;
        into[ITEMS_AT..value].copy_from_slice(&[GRANT, GRANT_BYTES as u8]);
        into[value..ACK_BODY_BYTES_MAX].copy_from_slice(&grant.to_be_bytes());
        ACK_BODY_BYTES_MAX
    }

    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self, Reason> {
        if body.len() < 8 {
            return Err(Reason::BodyShort);
        }
        let words = body.len().min(ITEMS_AT);
        if !words.is_multiple_of(8) {
            return Err(Reason::Field);
        }
        let mut sack = [0; SACK_WORDS_MAX];
        for (i, word) in sack.iter_mut().enumerate().take(words / 8 - 1) {
            *word = u64_at(body, 8 + 8 * i);
        }
        let grant = if body.len() > ITEMS_AT { granted(&body[ITEMS_AT..])? } else { None };
        Ok(Self { node: NodeId(u64_at(body, 0)), sack, grant })
    }
}

/// What the items grant; the last one counts. Unknown items are skipped, and a grant in another form.
#[cold]
fn granted(items: &[u8]) -> Result<Option<u32>, Reason> {
    let mut grant = None;
    for item in Extensions::of(items) {
        let (kind, value) = item?;
        if kind == GRANT && value.len() == GRANT_BYTES {
            grant = Some(u32_at(value, 0));
        }
    }
    Ok(grant)
}
