//! Two engines in one thread that hand each other frames through memory: all of a message's way but the link.

use emp_firmware::{
    CompletionMode, Config, Exit, Firmware, LinkIndex, LinkInfo, OpKind, Profile,
    ReceiveDescriptor, Segment, SegmentList, Selector, SendDescriptor, Time, TransmitBatch,
};
use emp_wire::{LinkAddress, NodeId};

use super::timed::{Counts, Timed};

/// Bytes of host memory: what is sent in the first half, what is received in the second.
const MEMORY_BYTES: usize = 8 << 20;

/// Nanoseconds of virtual time between two messages: no timer of an exchange without loss runs out within it.
const STEP_NS: u64 = 2_000;

struct End {
    firmware: Firmware,
    memory: Timed,
    received: u64,
    frame: Vec<u8>,
}

/// Two nodes that send each other messages in turn.
pub struct Engines {
    ends: [End; 2],
    batch: TransmitBatch,
    rounds: u64,
}

impl Engines {
    /// Two nodes with this profile on a link with frames of so many bytes.
    pub fn new(profile: &Profile, mtu: usize) -> Self {
        let end = |id: u64| {
            let mut firmware = Firmware::new(Config {
                node: NodeId(id),
                epoch: id as u32,
                name: String::new(),
                profile: profile.clone(),
                links: vec![LinkInfo::new(mtu, true)],
                seed: id,
            });
            // A new node has room for its first endpoint.
            let opened = firmware.open_endpoint(0);
            debug_assert!(opened.is_ok());
            End { firmware, memory: Timed::new(MEMORY_BYTES), received: 0, frame: vec![0; mtu] }
        };
        Self { ends: [end(1), end(2)], batch: TransmitBatch::new(mtu), rounds: 0 }
    }

    /// A message of this length each way.
    pub fn exchange(&mut self, bytes: u64) -> anyhow::Result<()> {
        for from in 0..2 {
            let now = Time(1 + (2 * self.rounds + from as u64) * STEP_NS);
            self.one_way(from, bytes, now)?;
        }
        self.rounds += 1;
        Ok(())
    }

    fn one_way(&mut self, from: usize, bytes: u64, now: Time) -> anyhow::Result<()> {
        let [first, second] = &mut self.ends;
        let (sender, receiver) = if from == 0 { (first, second) } else { (second, first) };
        let to = 2 - from as u64;
        receiver
            .firmware
            .post_receive(now, receive(bytes), &mut receiver.memory)
            .map_err(refused)?;
        let exit = Exit { batch: &mut self.batch, lends: false };
        let posted = sender.firmware.post_send_into(
            now,
            send(to, bytes),
            &mut sender.memory,
            Some(exit),
            |_| now,
        );
        posted.map_err(refused)?;
        let wanted = receiver.received + 1;
        // Far more turns than any message here takes: an engine that stands still is told of.
        for _ in 0..1_000_000 {
            carry(sender, receiver, now, &mut self.batch);
            if receiver.received == wanted {
                return Ok(());
            }
            carry(receiver, sender, now, &mut self.batch);
        }
        anyhow::bail!("a message of {bytes} bytes did not arrive")
    }

    /// Forgets what was counted.
    pub fn clear(&self) {
        self.ends.iter().for_each(|end| end.memory.clear());
    }

    /// What both ends counted together.
    pub fn counts(&self, clock_ns: f64) -> Counts {
        let [a, b] = self.ends.each_ref().map(|end| end.memory.counts(clock_ns));
        core::array::from_fn(|at| super::timed::Count {
            calls: a[at].calls + b[at].calls,
            ns: a[at].ns + b[at].ns,
        })
    }
}

fn refused(error: emp_firmware::PostError) -> anyhow::Error {
    anyhow::anyhow!("the engine refused a post: {error:?}")
}

fn send(to: u64, bytes: u64) -> SendDescriptor {
    SendDescriptor {
        to: NodeId(to),
        endpoint: 0,
        to_endpoint: 0,
        match_bits: 1,
        segments: SegmentList::one(Segment { address: 0, bytes }),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Auto,
        context: 0,
    }
}

fn receive(bytes: u64) -> ReceiveDescriptor {
    ReceiveDescriptor {
        endpoint: 0,
        selector: Selector::bits(1),
        segments: SegmentList::one(Segment { address: MEMORY_BYTES as u64 / 2, bytes }),
        claim: None,
        context: 0,
    }
}

/// Carries what `from` has to send: what is in the batch already, or what it gives when asked.
fn carry(from: &mut End, to: &mut End, now: Time, batch: &mut TransmitBatch) {
    if from.firmware.poll_timeout().is_some_and(|due| due <= now) {
        from.firmware.handle_timeout(now, &mut from.memory);
    }
    if batch.is_empty() {
        from.firmware.poll_transmit(now, &mut from.memory, batch);
    }
    for (index, frame) in batch.frames().iter().enumerate() {
        let inline = batch.inline(index);
        let mut end = inline.len();
        to.frame[..end].copy_from_slice(inline);
        for segment in frame.segments() {
            let bytes = from.memory.bytes(*segment);
            to.frame[end..end + bytes.len()].copy_from_slice(bytes);
            end += bytes.len();
        }
        let address = LinkAddress::index(1);
        to.firmware.handle_frame(now, LinkIndex(0), address, &to.frame[..end], &mut to.memory);
    }
    batch.clear();
    while from.firmware.poll_completion().is_some() {}
    while let Some(completion) = to.firmware.poll_completion() {
        to.received += u64::from(completion.op.kind() == OpKind::Receive);
    }
}
