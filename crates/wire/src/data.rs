//! `data`: a further frame of a message's unscheduled part (`DATA-1`; E21).
//!
//! No body: after the common header comes payload. The word is the frame's index in its train; the first frame of the
//! message, index 0, is a `message` frame. A train's sequence numbers are contiguous (`SEQ-4`), so sequence minus index
//! names the train, and a frame that claims another place is caught.

/// Most frames of one train: indices are 16 bits on the wire.
pub const TRAIN_FRAMES_MAX: u32 = 65_536;

// `skip` (`SEQ-5`) has no file of its own: it is a common header alone. It stands in the place of a frame whose message
// was withdrawn, so that sequence numbers stay without holes.
