//! The plan of a message, made once for each: eager, pulled, or read by its receiver; by which path; in how many frames, of which length
//! (`MSG-2`, `LONG-3`, `PATH-3`). Whether it leaves within its post, and when it is complete, is decided here as well.

use core::hint::cold_path;

use emp_wire::{
    ATOMIC_BYTES, Atomic, HEADER_BYTES, IMMEDIATE_BYTES, LONG_BYTES, LONG_FRAME_BYTES,
    MESSAGE_BYTES, PIECES_MAX, TARGET_BYTES, TRAIN_FRAMES_MAX, pieces_bytes,
};

use super::active::Active;
use super::record::Load;
use super::strangers::Known;
use super::{SendMessage, SendSide, State, Work};
use crate::descriptor::{CompletionMode, SendDescriptor};
use crate::encode::HEAD_ROOM_BYTES;
use crate::limits::{BUFFERED_MAX, FRAME_SEGMENTS_MAX, WINDOW_FRAMES};
use crate::pair::Peers;
use crate::path::table::Target;
use crate::path::unit::LONG_FRAGMENT_BYTES;
use crate::path::{Hop, PathId, Paths};
use crate::pool::Chain;
use crate::profile::Profile;
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// Payload bytes of the first long frame of a message that is pulled, as its receiver soon asks for the rest, and of the last of one that
/// leaves whole, with which only the receiver is busy. One call's fixed costs at both ends are what copying and checking 16 KB take.
const PART_BYTES_MIN: u64 = 24 << 10;

/// Bytes of a page, the smallest that hosts have.
const PAGE_BYTES: u64 = 4096;

/// Header and fields of the longest first frame that names memory.
const DIRECT_HEAD_BYTES: usize = HEADER_BYTES + TARGET_BYTES + LONG_BYTES + IMMEDIATE_BYTES;

/// Fields of a first frame, as many as it may have: one that is longer than a usual frame by these alone is long, too.
const FIRST_FIELDS_BYTES: u32 =
    (TARGET_BYTES + MESSAGE_BYTES + LONG_BYTES + IMMEDIATE_BYTES) as u32;

/// Bytes that may be under way for a message that is longer than most to leave within its post: 64 KB with their headers. Behind more it
/// would wait, and what waits leaves in fewer calls. Those that are then copied are complete with that; otherwise both of two programs that
/// send a few messages and then wait would have to send as many acknowledgements (1.8 µs each); one that sends more goes on meanwhile.
const LITTLE_BYTES: u32 = 66_000;

/// How one message travels.
#[derive(Clone, Copy, Default)]
pub(super) struct Plan {
    pub(super) path: PathId,
    pub(super) cut: Cut,
    /// Frames of all its trains, about, if none is longer than the MTU: by these its path is chosen, because what is pulled streams,
    /// block behind block.
    pub(super) usual_frames: u32,
    /// Its first frame names its memory, for the receiver to read.
    pub(super) direct: bool,
}

/// How a message leaves that nothing stands before: whole, in one frame.
pub(crate) struct AtOnce<'a> {
    pub(super) plan: Plan,
    /// Its path's link and next hop.
    pub(super) hop: Hop<'a>,
    pub(super) load: Load,
    /// What may have to be sent again is copied in its post. Otherwise it stays with its host until it is acknowledged, which is asked for,
    /// and may ride on the answer (`ACK-6`).
    pub(super) copied: bool,
    /// Bytes that may be under way by its path.
    pub(super) window: u32,
}

/// How long the frame of a message is that leaves whole and in one frame, or nearly.
#[inline(always)]
fn single_load(bytes: u64) -> Load {
    Load::of((HEADER_BYTES + MESSAGE_BYTES + IMMEDIATE_BYTES) as u64 + bytes, false)
}

/// A frame longer than the MTU, with so many bytes of payload, has room in the batch; and is longer than a usual one of its link was ever,
/// `most`: otherwise it would leave in slices.
#[cold]
#[inline(never)]
fn fits_long(load: Load, bytes: u64, (batch, most): (&TransmitBatch, u16)) -> bool {
    let room = HEAD_ROOM_BYTES + bytes as usize;
    room <= LONG_FRAME_BYTES && batch.fits(room) && load.bytes > most
}

/// How a message is cut into the frames of its train.
#[derive(Clone, Copy, Default)]
pub(super) struct Cut {
    /// Bytes that leave unasked.
    pub(super) unscheduled: u32,
    /// Payload bytes of the first frame, and of the others.
    pub(super) first_payload: u32,
    pub(super) fragment: u16,
    pub(super) frames: u32,
}

/// What of a message decides how it travels.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub(super) work: Work,
    pub(super) send: &'a SendDescriptor,
    pub(super) void: bool,
    /// Where its bytes are, if not in the user's memory.
    pub(super) chain: Option<&'a Chain>,
}

impl<'a> Shape<'a> {
    /// One that is being posted.
    #[inline(always)]
    pub(crate) const fn new(
        work: Work,
        send: &'a SendDescriptor,
        chain: Option<&'a Chain>,
    ) -> Self {
        Self { work, send, void: false, chain }
    }
}

impl Shape<'_> {
    /// Bytes of payload that it has.
    #[inline]
    pub(super) fn total(&self) -> u64 {
        match self.work {
            _ if self.void => 0,
            Work::Atomic { operation, datatype, count, .. } => {
                Atomic::payload_bytes(operation, Atomic::element_bytes((datatype, count)))
            }
            _ => self.send.segments.bytes(),
        }
    }

    /// Its receiver says `done` before it is complete: it is pulled, or synchronous, or the target says how it ended.
    #[inline(always)]
    pub(super) fn needs_done(&self, plan: &Plan) -> bool {
        let pulled = || u64::from(plan.cut.unscheduled) < self.total();
        !self.void && (self.work.needs_done() || self.send.synchronous || pulled())
    }

    /// Bytes of the fields of its first frame: if that is all of it, and if not.
    #[inline]
    fn bodies(&self) -> (u64, u64) {
        let fields = match self.work {
            Work::Put { .. } if !self.void => TARGET_BYTES,
            Work::Atomic { .. } if !self.void => ATOMIC_BYTES,
            _ => MESSAGE_BYTES,
        };
        let immediate = self.send.immediate.is_some() && !self.void;
        let short = (fields + if immediate { IMMEDIATE_BYTES } else { 0 }) as u64;
        (short, short + LONG_BYTES as u64)
    }

    /// The plan for a receiver that has `granted` so much of what leaves unasked ([`granted`](super::granted)). `before`: the cut by which it was sent before, which its receiver may know; `reads`: whether the receiver
    /// reads this node's memory; `wide`: whether a path's window has room for long frames.
    #[inline(always)]
    pub(super) fn plan(
        &self,
        profile: &Profile,
        (granted, before): (u64, Option<Cut>),
        (reads, wide): (impl FnOnce() -> bool, impl FnOnce(PathId) -> bool),
        paths: &Paths,
    ) -> Plan {
        let total = self.total();
        let path = paths.choose(1, false);
        let one_bytes = paths.bytes(path);
        let direct = total > profile.direct_bytes && self.may_be_read(one_bytes) && reads();
        let single = self.whole(profile, paths.single_bytes(path));
        if let Some(cut) = single.filter(|_| before.is_none() && !direct) {
            return Plan::whole(path, cut);
        }
        if direct {
            // Nothing but the first frame leaves unasked.
            let cut = self.cut(profile, one_bytes, granted);
            let cut = Cut { unscheduled: 0, first_payload: 0, frames: 1, ..cut };
            return Plan { path, cut, usual_frames: 1, direct };
        }
        if let Work::Atomic { .. } = self.work {
            // One frame or none: by a path that takes it, whatever that costs.
            let bytes = HEADER_BYTES as u64 + self.bodies().0 + total;
            let path = paths.choose_for_cut(1, u32::try_from(bytes).unwrap_or(u32::MAX));
            let cut = self.cut(profile, paths.bytes(path), granted);
            return Plan { path, cut, usual_frames: 1, direct };
        }
        // Paths are compared by frames of one length, and it is cut into frames of the length of its own.
        let cut = self.cut(profile, paths.usual_bytes(), granted);
        let alone = cut.frames == 1;
        let usual_frames = if alone { 1 } else { self.usual_frames(cut.fragment).max(cut.frames) };
        let several = total > u64::from(cut.first_payload) || !alone;
        let long = if several { self.cut_long(profile, granted) } else { None };
        if let Some(cut) = before {
            let path = paths.choose_for_cut(usual_frames, cut.frame_bytes());
            return Plan { path, cut, usual_frames, direct };
        }
        let path = paths.choose(usual_frames, long.is_some());
        let long = long.filter(|_| paths.is_long(path) && wide(path));
        let cut = long.unwrap_or_else(|| self.cut(profile, paths.bytes(path), granted));
        Plan { path, cut, usual_frames, direct }
    }

    fn usual_frames(&self, fragment: u16) -> u32 {
        let frames = self.total().div_ceil(u64::from(fragment.max(1)));
        u32::try_from(frames).unwrap_or(u32::MAX)
    }

    /// Its cut into frames longer than the MTU (`LONG-3`). `None`: it is not to have such.
    fn cut_long(&self, profile: &Profile, granted: u64) -> Option<Cut> {
        let named = self.send.segments.as_slice().len() <= FRAME_SEGMENTS_MAX;
        let able = (named || self.chain.is_some())
            && !self.void
            && matches!(self.work, Work::Message | Work::Put { .. });
        let most = profile.eager_bytes.max(profile.long_eager_bytes).min(granted);
        let whole = self.total() <= most;
        let part = granted.min(profile.unscheduled_bytes.into());
        let wanted = if whole { self.total() } else { part };
        able.then(|| Cut::new_long(self.total(), self.bodies(), wanted))
    }

    /// Its cut if it leaves whole, and in one frame of this size: that is never too much.
    #[inline(always)]
    fn whole(&self, profile: &Profile, frame_bytes_max: u16) -> Option<Cut> {
        Cut::whole(self.total(), self.bodies().0, frame_bytes_max, self.unasked(profile, u64::MAX))
    }

    /// So many of its bytes leave unasked, in usual frames.
    #[inline]
    fn unasked(&self, profile: &Profile, granted: u64) -> u64 {
        let total = self.total();
        let most = profile.eager_bytes.min(granted);
        let whole = total <= most || matches!(self.work, Work::Atomic { .. });
        if whole { total } else { granted.min(profile.unscheduled_bytes.into()) }
    }

    /// Its cut into frames of this size.
    fn cut(&self, profile: &Profile, frame_bytes_max: u16, granted: u64) -> Cut {
        Cut::new(self.total(), self.bodies(), frame_bytes_max, self.unasked(profile, granted))
    }

    /// Another cut than it was sent with before, into frames of this size. As much of it leaves unasked, for its receiver has that from the
    /// copy before (`READY-2`).
    pub(super) fn cut_again(&self, before: Cut, frame_bytes_max: u16) -> Cut {
        Cut::new(self.total(), self.bodies(), frame_bytes_max, before.unscheduled.into())
    }

    /// What its receiver has to read can be said in one frame (`DIRECT-3`: whether the receiver can is asked elsewhere).
    fn may_be_read(&self, frame_bytes_max: u16) -> bool {
        let pieces = self.send.segments.as_slice();
        !self.void
            && self.chain.is_none()
            && matches!(self.work, Work::Message | Work::Put { .. })
            && pieces.len() <= PIECES_MAX
            && pieces.iter().all(|piece| piece.bytes > 0)
            && DIRECT_HEAD_BYTES + pieces_bytes(pieces.len()) <= usize::from(frame_bytes_max)
    }
}

impl Plan {
    /// That of a message that leaves whole, and in one usual frame.
    #[inline(always)]
    fn whole(path: PathId, cut: Cut) -> Self {
        Self { path, cut, usual_frames: 1, direct: false }
    }

    /// How long its first frame is, or nearly: its fields are counted in full. With more than `long_above` bytes it leaves as a long one.
    #[inline(always)]
    pub(super) fn load(&self, long_above: u16) -> Load {
        let Cut { first_payload, fragment, .. } = self.cut;
        let bytes = first_bytes(first_payload, fragment);
        Load::of(bytes.into(), bytes > long_above.into())
    }
}

impl SendMessage {
    #[inline]
    pub(super) const fn shape(&self) -> Shape<'_> {
        let Self { work, descriptor: send, chain, .. } = self;
        let void = matches!(self.state, State::Void);
        Shape { work: *work, send, void, chain: chain.as_ref() }
    }

    /// Bytes of payload that it has.
    pub(super) fn total(&self) -> u64 {
        self.shape().total()
    }

    /// The cut that it was sent with before, if it was refused and is sent again (`READY-2`).
    pub(super) fn cut_before(&self) -> Option<Cut> {
        let Plan { cut, direct, .. } = self.plan;
        let sent =
            self.number.is_some() && cut.fragment > 0 && self.state != State::Void && !direct;
        sent.then_some(cut)
    }
}

impl SendSide {
    /// How a message leaves within its post, if nothing stands before it and it fits one frame that has room in `batch`. `last` is any
    /// earlier time: searches for paths depend on it, and nothing else.
    #[inline(always)]
    pub(crate) fn plan_at_once<'a>(
        &self,
        last: Time,
        peer: u32,
        shape: Shape<'_>,
        (peers, batch): (&'a Peers, &TransmitBatch),
    ) -> Option<AtOnce<'a>> {
        let (entry, bytes) = (&self.peers[peer], shape.total());
        if shape.send.synchronous
            || bytes > self.profile.eager_bytes
            || self.messages.is_full()
            || !entry.is_found()
            || self.loopback == Some(peer)
            // A better path is looked for first.
            || peers.has_several() && peers.may_seek(last, peer, Target::First)
        {
            cold_path();
            return None;
        }
        let (path, hop, single) = peers.path_of_one(peer)?;
        let (plan, hop, load) = match shape.whole(&self.profile, single) {
            Some(cut) => (Plan::whole(path, cut), hop, single_load(bytes)),
            None => {
                cold_path();
                self.plan_long_at_once(last, peer, &{ shape }, (peers, batch))?
            }
        };
        let copied = self.copied_at_once(peer, &shape, load.long)?;
        let window = entry.window(&self.further, plan.path);
        if let Some(active) = entry.active.as_deref() {
            let may = active.is_waiting()
                && active.refusals == 0
                && (entry.next.since(active.unacked) as u32) < WINDOW_FRAMES
                && active.flight(plan.path).in_flight + bytes as u32 <= window;
            if !may {
                cold_path();
                return None;
            }
        }
        Some(AtOnce { plan, hop, load, copied, window })
    }

    /// The same for one that does not fit a usual frame.
    #[inline(never)]
    fn plan_long_at_once<'a>(
        &self,
        last: Time,
        peer: u32,
        shape: &Shape<'_>,
        (peers, batch): (&'a Peers, &TransmitBatch),
    ) -> Option<(Plan, Hop<'a>, Load)> {
        let paths = peers.paths(peer);
        let receiver = (self.granted(last, peer), None);
        let plan = shape.plan(&self.profile, receiver, (|| false, |_| true), &paths);
        let whole = plan.cut.frames == 1 && u64::from(plan.cut.unscheduled) == shape.total();
        let (hop, bytes) = (paths.hop(plan.path)?, shape.total());
        let frame_bytes = usize::from(plan.cut.fragment) + HEADER_BYTES;
        if frame_bytes <= paths.bytes(plan.path).into() {
            return Some((plan, hop, single_load(bytes))).filter(|_| whole);
        }
        // It goes on in no others, and has no fields for that.
        let load = Load::of((frame_bytes - LONG_BYTES) as u64, true);
        let fits = whole && fits_long(load, bytes, (batch, peers.lengths.most_by(hop.0)));
        fits.then_some((plan, hop, load))
    }

    /// Whether a message that leaves within its post is copied, and was not before. `None`: it is too long for its host to wait while it
    /// leaves, or there is no room for the copy.
    #[inline(always)]
    fn copied_at_once(&self, peer: u32, shape: &Shape<'_>, long: bool) -> Option<bool> {
        let (send, bytes) = (shape.send, shape.total());
        let Profile { buffered_bytes, long_buffered_bytes, .. } = self.profile;
        let copied = match send.completion {
            _ if shape.chain.is_some() => false,
            CompletionMode::Buffered => true,
            _ if bytes > buffered_bytes.into() && !(long && self.has_little_under_way(peer)) => {
                return None;
            }
            CompletionMode::Auto if bytes <= long_buffered_bytes.max(buffered_bytes).into() => true,
            // What is not copied has to fit a frame piece by piece when it is sent again: beside its header there is no room for a long one.
            _ if long && send.segments.as_slice().len() > FRAME_SEGMENTS_MAX => return None,
            CompletionMode::Auto | CompletionMode::Delivered => false,
        };
        let has_room = || self.pool.has_room(bytes, self.copied_slots(peer));
        (!copied || has_room()).then_some(copied)
    }

    /// Nothing is under way to a peer that had to be sent again, and little else.
    #[inline(never)]
    fn has_little_under_way(&self, peer: u32) -> bool {
        let little =
            |active: &Active| active.lost() == 0 && active.flights.in_flight() <= LITTLE_BYTES;
        self.peers[peer].active.as_deref().is_none_or(little)
    }

    /// A message that waits for its turn is to be copied, and complete with that.
    pub(super) fn is_over_when_copied(&self, peer: u32, send: &SendDescriptor) -> bool {
        let behind = || self.peers[peer].active.as_deref().map_or(0, |active| active.pending.len());
        match send.completion {
            CompletionMode::Buffered => true,
            CompletionMode::Delivered => false,
            CompletionMode::Auto => {
                send.segments.bytes() <= self.profile.buffered_bytes.into()
                    && behind() < BUFFERED_MAX
                    && self.peers[peer].known != Known::Lost
            }
        }
    }
}

/// Bytes of a first frame with so much payload, or nearly: its fields are counted in full.
#[inline(always)]
fn first_bytes(payload: u32, fragment: u16) -> u32 {
    (payload + FIRST_FIELDS_BYTES).min(fragment.into()) + HEADER_BYTES as u32
}

impl Cut {
    /// Bytes of its longest frame, or nearly.
    fn frame_bytes(&self) -> u32 {
        let Self { first_payload, fragment, frames, .. } = *self;
        let several = u32::from(fragment) + HEADER_BYTES as u32;
        if frames > 1 { several } else { first_bytes(first_payload, fragment) }
    }

    /// For a body of so many bytes: of a message of one frame, and of a longer one's first.
    fn new(total: u64, bodies: (u64, u64), frame_max: u16, wanted: u64) -> Self {
        let fragment = frame_max - HEADER_BYTES as u16;
        let several = || Self::several(total, u64::from(fragment) - bodies.1, fragment, wanted);
        Self::whole(total, bodies.0, frame_max, wanted).unwrap_or_else(several)
    }

    /// That of a message of one frame, if it is one.
    #[inline(always)]
    fn whole(total: u64, body: u64, frame_max: u16, wanted: u64) -> Option<Self> {
        let fragment = frame_max - HEADER_BYTES as u16;
        let bytes = total as u32;
        let cut = Self { unscheduled: bytes, first_payload: bytes, fragment, frames: 1 };
        (total + body <= fragment.into() && wanted >= total).then_some(cut)
    }

    /// The same of several frames, of which the first has room for `first` bytes.
    #[inline(never)]
    fn several(total: u64, first: u64, fragment: u16, wanted: u64) -> Self {
        let most = first + u64::from(TRAIN_FRAMES_MAX - 1) * u64::from(fragment);
        let unscheduled = wanted.min(total).min(most).min(u64::from(u32::MAX));
        let first = unscheduled.min(first);
        let frames = 1 + (unscheduled - first).div_ceil(u64::from(fragment));
        Self {
            unscheduled: unscheduled as u32,
            first_payload: first as u32,
            fragment,
            frames: frames as u32,
        }
    }

    /// The same for frames longer than the MTU. What leaves whole is cut into as few as can be, of one length but for the last
    /// ([`part_bytes`]), so that both ends work at the same time; of a longer message the first is short, so that the receiver soon asks
    /// for the rest.
    fn new_long(total: u64, bodies: (u64, u64), wanted: u64) -> Self {
        let most = LONG_FRAGMENT_BYTES.into();
        let (first, fragment) = if wanted >= total {
            let part = part_bytes(total, most - bodies.1);
            if part == total { (total, total + bodies.1) } else { (part, part) }
        } else {
            (wanted.min(PART_BYTES_MIN), most)
        };
        Self::several(total, first, fragment as u16, wanted)
    }
}

/// Payload bytes of the long frames of a message that leaves whole, of which each has at most `most`; the last has what is left. With
/// that of three or more the sender has done, and only the receiver works: it is shorter, as far as that takes no frame more. (128 to
/// 256 KB by 5 to 7 % sooner than in frames of one length.)
fn part_bytes(total: u64, most: u64) -> u64 {
    let parts = total.div_ceil(most).max(1);
    if parts == 1 {
        return total;
    }
    // Where the message begins with a page, no page is in two frames.
    let even = total.div_ceil(parts).next_multiple_of(PAGE_BYTES).min(most);
    let longer = ((total - PART_BYTES_MIN) / (parts - 1)).min(most);
    let longer = longer - longer % PAGE_BYTES;
    if parts > 2 { longer.max(even) } else { even }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_to_fill_frames() {
        let bodies = (28, 44);
        let one = Cut::new(1500 - 60, bodies, 1500, u64::MAX);
        assert_eq!((one.frames, one.first_payload), (1, 1440));
        let two = Cut::new(1441, bodies, 1500, u64::MAX);
        assert_eq!((two.frames, two.first_payload, two.fragment), (2, 1424, 1468));
        let rendezvous = Cut::new(100_000, bodies, 1500, 0);
        assert_eq!((rendezvous.frames, rendezvous.unscheduled), (1, 0));
        let huge = Cut::new(1 << 40, bodies, 1500, 1 << 40);
        assert!(huge.frames <= TRAIN_FRAMES_MAX && u64::from(huge.unscheduled) < 1 << 40);
    }

    #[test]
    fn long_frames_hold_messages_in_few_pieces() {
        let bodies = (28, 44);
        let cut = |total, wanted| {
            let cut = Cut::new_long(total, bodies, wanted);
            assert!(cut.first_payload + 44 <= LONG_FRAGMENT_BYTES.into());
            let rest = u64::from(cut.unscheduled - cut.first_payload);
            assert_eq!(rest.div_ceil(cut.fragment.into()) + 1, cut.frames.into());
            (cut.frames, cut.unscheduled, cut.first_payload)
        };
        assert_eq!(cut(2_000, 2_000), (1, 2_000, 2_000));
        assert_eq!(cut(40_000, 40_000), (1, 40_000, 40_000));
        assert_eq!(cut(65_536, 65_536), (2, 65_536, 32_768));
        assert_eq!(cut(61_440, 61_440), (2, 61_440, 32_768));
        assert_eq!(cut(128 << 10, 128 << 10), (3, 128 << 10, 52 << 10));
        assert_eq!(cut(192 << 10, 192 << 10), (4, 192 << 10, 56 << 10));
        assert_eq!(cut(3 * 61_396, 3 * 61_396), (3, 3 * 61_396, 61_396));
        for total in (1..=512 << 10).step_by(97) {
            let (frames, _, part) = cut(total, total);
            assert_eq!(u64::from(frames), total.div_ceil(u64::from(LONG_FRAGMENT_BYTES) - 44));
            // The last is the shortest, but not so short that its loss would be told of late (`ACK-7`).
            let last = total - u64::from(part) * u64::from(frames - 1);
            assert!(last <= u64::from(part), "{total}: {last} after {part}");
            assert!(frames < 3 || last >= PART_BYTES_MIN, "{total}: {last} after {part}");
        }
        assert_eq!(cut(1 << 20, 61_440), (2, 61_440, 24 << 10));
        assert_eq!(cut(1 << 20, 0), (1, 0, 0));
        assert_eq!(cut(1 << 20, 1 << 20).0, 18);
    }
}
