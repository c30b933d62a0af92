//! Trains taken in one go: those whose payload the link has put where it belongs, and those that are copied there out of one piece
//! (`docs/decisions/0017-trains.md`).
//!
//! [`Firmware::plan_landing`] says where, by the head of the first frame; [`Firmware::take_landed`] takes what came. A frame that
//! is what was expected is taken without a copy: its header, its place and its checksum are right, so all that the way of single
//! frames ([`Firmware::handle_frame`]) would do with it is done here, look-ups once a train. From the first frame that is not, all
//! are gathered out of where they landed and go that way, so nothing is lost. `tests/landing.rs` holds the two
//! against each other.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use emp_wire::{
    Flags, HEADER_BYTES, Header, Kind, LinkAddress, Sequence, checksum_of, head_checksum,
};

use crate::counters::Counter;
use crate::encode::INLINE_PAYLOAD_BYTES_OF_TRAINS;
use crate::engine::Firmware;
use crate::link::LinkIndex;
use crate::memory::{HostMemory, Segment};
use crate::receive::{Outline, Run, Taken};
use crate::time::Time;

/// Flags that a frame in the middle of a train may have.
const USUAL: Flags =
    Flags(Flags::ACK.0 | Flags::ACK_REQUEST.0 | Flags::LAST.0 | Flags::PAYLOAD_UNCHECKED.0);

/// Frames of one length, the last perhaps shorter, that came from one address and wait in a link.
#[derive(Clone, Copy, Debug)]
pub struct Arriving<'a> {
    /// The link.
    pub link: LinkIndex,
    /// Where they came from.
    pub from: LinkAddress,
    /// The header of the first.
    pub head: &'a [u8; HEADER_BYTES],
    /// Bytes of each frame but the last.
    pub frame_bytes: usize,
    /// Bytes of all.
    pub bytes: usize,
}

/// Where the payload of frames at the front of a train goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Landing {
    link: LinkIndex,
    from: LinkAddress,
    peer: u32,
    first: Header,
    run: Run,
    frame_bytes: usize,
    bytes: usize,
}

impl Landing {
    /// What follows the heads of the frames, one after the other. The link may write there until it has said so by
    /// [`Firmware::take_landed`], as long as no other of the firmware's methods is called in between.
    pub fn memory(&self) -> Segment {
        self.run.into
    }

    /// Frames whose payload goes there.
    pub fn frames(&self) -> usize {
        self.run.frames as usize
    }

    /// The header of frame `index` if that is the one expected: flags and acknowledgements may be others. Field by field: a
    /// header made up to be compared with would be read in longer words than it was written in, and a processor waits for that
    /// until all that it has written before has left it.
    #[inline]
    fn header(&self, index: u32, head: &[u8; HEADER_BYTES]) -> Option<Header> {
        let header = Header::parse_head(head).ok()?;
        let first = &self.first;
        let alike = header.kind == first.kind
            && header.destination_tag == first.destination_tag
            && header.destination_epoch == first.destination_epoch
            && header.source_tag == first.source_tag
            && header.source_epoch == first.source_epoch;
        let placed = header.sequence.0.wrapping_sub(first.sequence.0) == index
            && header.word.wrapping_sub(first.word) == index
            && u64::from(header.length) == self.payload(index).bytes;
        (alike && placed && USUAL.has(header.flags)).then_some(header)
    }

    /// Payload bytes of so many frames at the front.
    fn payload_bytes(&self, frames: u32) -> u64 {
        self.run.into.bytes.min(u64::from(frames) * u64::from(self.run.fragment))
    }

    #[inline]
    fn payload(&self, index: u32) -> Segment {
        let fragment = u64::from(self.run.fragment);
        self.run.into.part(u64::from(index) * fragment, fragment)
    }
}

impl Firmware {
    /// False: [`plan_landing`](Self::plan_landing) would answer `None` whatever waits, so there is no need to look.
    #[inline]
    pub fn expects_landing(&self) -> bool {
        self.expects_long_frames() && self.receive.expects_landing()
    }

    /// Frames of this length are worth asking [`plan_landing`](Self::plan_landing) for.
    pub const fn is_worth_placing(frame_bytes: usize) -> bool {
        frame_bytes as u64 > HEADER_BYTES as u64 + INLINE_PAYLOAD_BYTES_OF_TRAINS
    }

    /// Frames whose payload is longer than what senders copy next to its header too: shorter pieces are copied by the kernel more
    /// slowly than by [`handle_train`](Self::handle_train) out of one, which sums them as it goes, and needs no look before.
    fn expects_long_frames(&self) -> bool {
        self.peers.units.any() || Self::is_worth_placing(self.peers.lengths.usual().into())
    }

    /// Where the payload of frames that wait in a link belongs, as far as that is one piece of a posted buffer and all of it
    /// is still owed. `None`: they are to be handed over one by one.
    pub fn plan_landing(&mut self, arriving: &Arriving<'_>) -> Option<Landing> {
        self.plan(arriving, false)
    }

    /// How many bytes of payload the frame behind the one with this header has, if its message or block goes on with it.
    pub fn following(&mut self, head: &[u8; HEADER_BYTES]) -> Option<usize> {
        let header = Header::parse_head(head).ok()?;
        let peer = self.peers.find_by_tag(&header)?;
        self.receive.following(peer, &header).map(|bytes| bytes as usize)
    }

    /// As [`plan_landing`](Self::plan_landing); `whole`: also of messages that come whole in usual frames.
    fn plan(&mut self, arriving: &Arriving<'_>, whole: bool) -> Option<Landing> {
        let Arriving { link, from, head, frame_bytes, bytes } = *arriving;
        let first = Header::parse_head(head).ok()?;
        let ours = first.destination_tag == self.peers.destination_tag;
        let of_train = matches!(first.kind, Kind::Data | Kind::Block) && USUAL.has(first.flags);
        if !ours || !of_train || first.source_epoch.check() == 0 {
            return None;
        }
        let peer = self.peers.find_by_tag(&first)?;
        let entry = &self.peers[peer];
        if !entry.is_answered_by(&first)
            || !self.peers.paths(peer).hops.contains(&Some((link, &from)))
        {
            return None;
        }
        let outline = Outline {
            fragment: frame_bytes.checked_sub(HEADER_BYTES).filter(|bytes| *bytes > 0)? as u64,
            whole: (bytes / frame_bytes) as u64,
            tail: (bytes % frame_bytes).saturating_sub(HEADER_BYTES) as u64,
        };
        let run = self.receive.plan(peer, &first, &outline, whole)?;
        Some(Landing { link, from, peer, first, run, frame_bytes, bytes })
    }

    /// Takes frames whose payload a link has put where [`plan_landing`](Self::plan_landing) said, and whose headers are
    /// these: at most as many as were planned.
    pub fn take_landed(
        &mut self,
        now: Time,
        landing: &Landing,
        heads: &[[u8; HEADER_BYTES]],
        memory: &mut impl HostMemory,
    ) {
        self.notice_absence(now);
        let heads = &heads[..heads.len().min(landing.frames())];
        let Some(head) = heads.first() else { return };
        let Landing { link, from, frame_bytes, bytes, .. } = *landing;
        // The same answer as before, or it is not the train that was planned for.
        let again = self.plan_landing(&Arriving { link, from, head, frame_bytes, bytes });
        let taken = match again {
            Some(again) if alike(&again, landing) => self.take_run(now, landing, heads, memory),
            _ => 0,
        };
        self.gather_landed(now, landing, heads, taken, memory);
    }

    /// Takes the frames at the front that are what they should be; returns how many.
    fn take_run(
        &mut self,
        now: Time,
        landing: &Landing,
        heads: &[[u8; HEADER_BYTES]],
        memory: &mut impl HostMemory,
    ) -> u32 {
        let seed = self.peers[landing.peer].incoming;
        let mut checked = Checked::default();
        for head in heads {
            let Some(header) = landing.header(checked.taken.frames, head) else { break };
            let payload = landing.payload(checked.taken.frames);
            let mut sum = head_checksum(head, seed);
            let summed = header.flags.has(Flags::PAYLOAD_UNCHECKED)
                || memory.checksum(payload, &mut sum).is_ok();
            if self.is_stale(&header)
                || !summed
                || sum.value() != checksum_of(head)
                || !checked.note(&header)
            {
                break;
            }
        }
        let taken = self.take_checked(now, landing, &checked, memory);
        self.receive.counters.add(Counter::BytesLanded, landing.payload_bytes(taken));
        taken
    }

    /// Takes frames at the front of a train that a link fetched in one piece, `frame_bytes` each, only the last perhaps shorter:
    /// those whose payload can be copied to where it belongs while it is summed, look-ups once a train. Returns how many bytes
    /// of the train these are; what is left is to be handed over frame by frame. A frame whose sum is wrong has been written
    /// where the right one will come, as by a link that places.
    pub fn handle_train(
        &mut self,
        now: Time,
        (link, from): (LinkIndex, LinkAddress),
        train: &[u8],
        frame_bytes: usize,
        memory: &mut impl HostMemory,
    ) -> usize {
        let Some(head) = train.first_chunk().filter(|_| !from.is_memory()) else { return 0 };
        let arriving = Arriving { link, from, head, frame_bytes, bytes: train.len() };
        let Some(landing) = self.plan(&arriving, true) else { return 0 };
        self.notice_absence(now);
        let seed = self.peers[landing.peer].incoming;
        let mut checked = Checked::default();
        for frame in train.chunks(frame_bytes).take(landing.frames()) {
            let Some((head, payload)) = frame.split_first_chunk() else { break };
            let Some(header) = landing.header(checked.taken.frames, head) else { break };
            let to = landing.payload(checked.taken.frames);
            let mut sum = head_checksum(head, seed);
            let copied = if header.flags.has(Flags::PAYLOAD_UNCHECKED) {
                // Its header shows that it is the frame that belongs there.
                sum.value() == checksum_of(head)
                    && !self.is_stale(&header)
                    && memory.write(to, payload).is_ok()
            } else {
                memory.write_and_sum(to, payload, &mut sum).is_ok()
            };
            if !copied || sum.value() != checksum_of(head) || !checked.note(&header) {
                break;
            }
        }
        let taken = self.take_checked(now, &landing, &checked, memory) as usize;
        train.len().min(taken * frame_bytes)
    }

    /// Takes frames that were found to be the first of those planned, and whose payload is in its place. Returns how many: all,
    /// or none if what they led to has ended the pair.
    fn take_checked(
        &mut self,
        now: Time,
        landing: &Landing,
        checked: &Checked,
        memory: &mut impl HostMemory,
    ) -> u32 {
        let Some(first) = &checked.first else { return 0 };
        let peer = landing.peer;
        self.send.heard(peer, now);
        // It came from where its route leads: that is why it was planned for.
        self.peers.heard_from(now, peer, landing.link, &landing.from);
        for acknowledge in &checked.acknowledged {
            if self.send.is_news(peer, *acknowledge) {
                self.send.on_ack(now, peer, *acknowledge, None);
            }
            self.relay(now);
            if self.peers[peer].remote_epoch != landing.first.source_epoch {
                return 0;
            }
        }
        self.counters.add(Counter::FramesReceived, checked.taken.frames.into());
        let path = self.peers.path_of(peer, landing.link);
        let taken = (&checked.taken, landing.payload_bytes(checked.taken.frames));
        self.receive.take_placed(now, (peer, path), first, taken, &self.cross, memory);
        if self.watch_at.is_none() && self.receive.has_arrivals() {
            self.watch(now);
        }
        if self.send.take_awaits() {
            self.watch(now);
        }
        self.relay(now);
        checked.taken.frames
    }

    /// Takes the frames from number `from` on out of where they landed, all before the first is handled: handling one may
    /// write to where another lies.
    fn gather_landed(
        &mut self,
        now: Time,
        landing: &Landing,
        heads: &[[u8; HEADER_BYTES]],
        from: u32,
        memory: &mut impl HostMemory,
    ) {
        let mut frames: Vec<Vec<u8>> = Vec::new();
        for (index, head) in heads.iter().enumerate().skip(from as usize) {
            let payload = landing.payload(index as u32);
            let mut frame = Vec::with_capacity(HEADER_BYTES + payload.bytes as usize);
            frame.extend_from_slice(head);
            frame.resize(HEADER_BYTES + payload.bytes as usize, 0);
            // Memory that cannot be read now leaves a frame whose checksum is wrong: it will come again.
            if memory.read(payload, &mut frame[HEADER_BYTES..]).is_ok() {
                self.counters.add(Counter::BytesCopied, payload.bytes);
            }
            frames.push(frame);
        }
        for frame in frames {
            self.handle_frame(now, landing.link, landing.from, &frame, memory);
        }
    }
}

/// Different acknowledgements that may ride on the frames of one run: a train that is built in one go has one.
const ACKNOWLEDGED_MAX: usize = 4;

/// Frames at the front of a run that are as planned, and were summed.
#[derive(Default)]
struct Checked {
    first: Option<Header>,
    taken: Taken,
    /// What rides on them, in order.
    acknowledged: ArrayVec<Sequence, ACKNOWLEDGED_MAX>,
}

impl Checked {
    /// Adds the next frame. False: it says too much that is new, and goes the usual way.
    #[inline]
    fn note(&mut self, header: &Header) -> bool {
        let rides = header.flags.has(Flags::ACK);
        if rides && self.acknowledged.last() != Some(&header.acknowledge) {
            if self.acknowledged.is_full() {
                return false;
            }
            self.acknowledged.push(header.acknowledge);
        }
        if self.first.is_none() {
            self.first = Some(*header);
        } else {
            let before = self.taken.last.replace(header.flags).unwrap_or_default();
            self.taken.flags = self.taken.flags.with(before);
            self.taken.lasts += u32::from(before.has(Flags::LAST));
        }
        self.taken.frames += 1;
        true
    }
}

/// Two landings are for the same frames: what the first frame says of other things may have changed.
fn alike(one: &Landing, other: &Landing) -> bool {
    let first =
        Header { flags: other.first.flags, acknowledge: other.first.acknowledge, ..one.first };
    Landing { first, ..*one } == *other
}
