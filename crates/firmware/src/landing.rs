//! Trains whose payload the link has put where it belongs (`docs/decisions/0017-trains.md`).
//!
//! [`Firmware::plan_landing`] says where, by the head of the first frame; [`Firmware::take_landed`] takes what came. A frame that
//! is what was expected is taken without a copy: its header, its place and its checksum are right, so all that the way of single
//! frames ([`Firmware::handle_frame`]) would do with it is done here, look-ups once a train. From the first frame that is not, all
//! are gathered out of where they landed and go that way, so nothing is lost. `tests/landing.rs` holds the two
//! against each other.

use alloc::vec::Vec;

use emp_wire::{
    Epoch, Flags, HEADER_BYTES, Header, Kind, LinkAddress, Seed, checksum_of, head_checksum,
};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::lanes::Ways;
use crate::memory::{HostMemory, Segment};
use crate::receive::{Outline, Run};
use crate::time::Time;
use crate::transmit::LinkIndex;

/// Flags that a frame in the middle of a train may have.
const USUAL: Flags = Flags(Flags::ACK.0 | Flags::ACK_REQUEST.0 | Flags::LAST.0);

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

    /// The header that frame `index` should have, but for what may differ: `like` is the one that it has.
    fn expected(&self, index: u32, like: &Header) -> Header {
        Header {
            sequence: self.first.sequence.plus(index),
            word: self.first.word.wrapping_add(index),
            length: self.payload(index).bytes as u16,
            flags: like.flags,
            acknowledge: like.acknowledge,
            ..self.first
        }
    }

    fn payload(&self, index: u32) -> Segment {
        let fragment = u64::from(self.run.fragment);
        self.run.into.part(u64::from(index) * fragment, fragment)
    }
}

impl Firmware {
    /// False: [`plan_landing`](Self::plan_landing) would answer `None` whatever waits, so there is no need to look.
    #[inline]
    pub fn expects_landing(&self) -> bool {
        self.receive.expects_blocks()
    }

    /// Where the payload of frames that wait in a link belongs, as far as that is one piece of a posted buffer and all of it
    /// is still owed. `None`: they are to be handed over one by one.
    pub fn plan_landing(&mut self, arriving: &Arriving<'_>) -> Option<Landing> {
        let Arriving { link, from, head, frame_bytes, bytes } = *arriving;
        let first = Header::parse_head(head).ok()?;
        let ours = first.destination_tag == self.peers.own.destination_tag();
        let of_train = matches!(first.kind, Kind::Data | Kind::Block) && USUAL.has(first.flags);
        if !ours || !of_train || first.source_epoch.check() == 0 {
            return None;
        }
        let peer = self.peers.find_by_tag(&first)?;
        let entry = &self.peers[peer];
        let current = entry.remote_epoch == first.source_epoch
            && entry.remote_epoch != Epoch::UNKNOWN
            && entry.local_epoch.check() == first.destination_epoch;
        let Ways { small, bulk, .. } = self.peers.ways(peer);
        if !current || ![small, bulk].contains(&Some((link, from))) {
            return None;
        }
        let outline = Outline {
            fragment: frame_bytes.checked_sub(HEADER_BYTES).filter(|bytes| *bytes > 0)? as u64,
            whole: (bytes / frame_bytes) as u64,
            tail: (bytes % frame_bytes).saturating_sub(HEADER_BYTES) as u64,
        };
        let run = self.receive.plan(peer, &first, &outline)?;
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
        memory: &impl HostMemory,
    ) -> u32 {
        let peer = landing.peer;
        let seed = self.peers[peer].incoming;
        let mut taken = 0;
        for head in heads {
            if self.peers[peer].remote_epoch != landing.first.source_epoch {
                // What an earlier frame led to has ended the pair.
                break;
            }
            let payload = landing.payload(taken);
            let Some(header) = check(landing, taken, head, seed, payload, memory) else { break };
            if taken == 0 {
                self.send.heard(peer, now);
                // It came from where its route leads: that is why it was planned for.
                self.peers.heard_from(now, peer, landing.link, landing.from);
            }
            self.counters.count(Counter::FramesReceived);
            if header.flags.has(Flags::ACK) && self.send.is_news(peer, header.acknowledge) {
                self.send.on_ack(now, peer, header.acknowledge, None);
            }
            let lane = self.peers.lane_of(peer, landing.link);
            let cross = &mut self.cross;
            self.receive.take_placed(now, (peer, lane), &header, payload.bytes, cross);
            if self.watch_at.is_none() && self.receive.has_arrivals() {
                self.watch(now);
            }
            if self.send.take_awaits() {
                self.watch(now);
            }
            self.relay(now);
            taken += 1;
        }
        taken
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

/// The header of frame `index` if that is the one expected, and it arrived as it was sent.
#[inline]
fn check(
    landing: &Landing,
    index: u32,
    head: &[u8; HEADER_BYTES],
    seed: Seed,
    payload: Segment,
    memory: &impl HostMemory,
) -> Option<Header> {
    let header = Header::parse_head(head).ok()?;
    if header != landing.expected(index, &header) || !USUAL.has(header.flags) {
        return None;
    }
    let mut sum = head_checksum(head, seed);
    memory.checksum(payload, &mut sum).ok()?;
    (sum.value() == checksum_of(head)).then_some(header)
}

/// Two landings are for the same frames: what the first frame says of other things may have changed.
fn alike(one: &Landing, other: &Landing) -> bool {
    let first =
        Header { flags: other.first.flags, acknowledge: other.first.acknowledge, ..one.first };
    Landing { first, ..*one } == *other
}
