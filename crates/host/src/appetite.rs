//! How much a turn takes up. An application that is behind its senders gains nothing by more messages that it has not
//! asked for: each is copied twice, and when the pool of unexpected messages is full they cost several frames apiece. So
//! after such messages a turn takes frames up in small bites, and ends with the first one that brought another: the
//! caller may be about to post receives. What is not taken up waits in the link, unacknowledged, and its sender's window closes.
//!
//! Every turn takes something, so nothing that arrives behind such messages waits for the application: callers that
//! wait, the progress thread and the guardian make turns as long as there is anything to take.

/// Frames taken from one link in one turn: a few collections, so that acknowledgements leave in time.
pub(crate) const FRAMES_MAX: usize = 64;

/// A bite, in frames: small messages that share link frames are a dozen each. Two, so that a lone frame shows in the same
/// call that nothing is behind it, which is a system call with some links.
const BITE_FRAMES: usize = 2;

/// Frames without an unexpected message after which it is forgotten that there were any: some rounds of a large window,
/// so that an application that stays behind is not overrun anew every few turns. A bite costs next to nothing.
const CALM_FRAMES: usize = 4_096;

/// Posts after which a caller that never waits makes a whole turn, so that acknowledgements reach its firmware. Not each
/// time: looking at a link without a mapped ring is a system call. Of the smallest messages a frame of MTU 1500 takes as many.
pub(crate) const POSTS_PER_TURN: u32 = 16;

/// The same while the application is behind: it had better have posted some receives. A quarter of the largest window, so
/// that acknowledgements leave before that is used up.
const POSTS_PER_TURN_BEHIND: u32 = 64;

/// What is remembered of the last turns.
#[derive(Debug, Default)]
pub(crate) struct Appetite {
    /// Frames that are still to come without an unexpected message before there is no need to be careful.
    careful: usize,
}

impl Appetite {
    /// Frames to take in one go.
    #[inline]
    pub(crate) fn bite(&self) -> usize {
        if self.careful == 0 { FRAMES_MAX } else { BITE_FRAMES }
    }

    /// Posts after which a caller that does not wait makes a turn.
    #[inline]
    pub(crate) fn posts(&self) -> u32 {
        if self.careful == 0 { POSTS_PER_TURN } else { POSTS_PER_TURN_BEHIND }
    }

    /// So many frames came; `unexpected`: among them were messages that no receive was posted for.
    #[inline]
    pub(crate) fn fed(&mut self, frames: usize, unexpected: bool) {
        self.careful = if unexpected { CALM_FRAMES } else { self.careful.saturating_sub(frames) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_behind_is_careful_for_a_while_and_always_takes_something() {
        let mut appetite = Appetite::default();
        appetite.fed(FRAMES_MAX, false);
        assert_eq!((appetite.bite(), appetite.posts()), (FRAMES_MAX, POSTS_PER_TURN));
        appetite.fed(1, true);
        for _ in 0..CALM_FRAMES / BITE_FRAMES {
            assert_eq!((appetite.bite(), appetite.posts()), (BITE_FRAMES, POSTS_PER_TURN_BEHIND));
            appetite.fed(BITE_FRAMES, false);
        }
        assert_eq!((appetite.bite(), appetite.posts()), (FRAMES_MAX, POSTS_PER_TURN));
    }
}
