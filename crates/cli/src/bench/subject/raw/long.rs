//! Long frames of a bare link: what the kernel cuts and puts together.
//!
//! A message that needs more than one frame goes in long ones if both links have them and they get through both ways, which the ends find out
//! together before the first such job ([`trying`](super::trying)).

use emp_wire::HEADER_BYTES;

/// Long frames of one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Long {
    /// Payload of one in bytes, as far as both links have them; 0 for none.
    pub(super) payload: usize,
    /// Whether they get through, once it is known.
    pub(super) through: Option<bool>,
}

impl Long {
    pub(super) fn new(frame_bytes: usize) -> Self {
        Self { payload: frame_bytes.saturating_sub(HEADER_BYTES), through: None }
    }

    /// Payload of the frames that messages of `size` bytes go in, if that is more than `short`.
    pub(super) fn payload(&self, size: usize, short: usize) -> Option<usize> {
        let wanted = self.through == Some(true) && size > short;
        wanted.then_some(self.payload).filter(|long| *long > short)
    }
}
