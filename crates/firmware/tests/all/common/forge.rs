//! One real node among peers whose frames the test writes: what they say is theirs to choose, what it answers is read from its
//! frames. So a test holds a rule of the protocol, not a way to build it.

use emp_firmware::*;
use emp_wire::{
    BlockWord, Checksum, Epoch, Flags, HEADER_BYTES, Header, Kind, Largest, LinkAddress, LongPart,
    Message, NodeId, NotReady, NotReadyCause, Pull, SACK_WORDS_MAX, Seed, Sequence, Target,
    begin_checksum, covered_bytes, store_checksum,
};

use super::{Memory, take_completions};

/// The real node's identity and epoch.
pub const OWN: NodeId = NodeId(1);
pub const OWN_EPOCH: Epoch = Epoch(0x0005_1234);
/// Bytes of its memory. Addresses from here on cannot be reached.
pub const MEMORY: u64 = 4 << 20;
/// Where its receives and regions are.
pub const INTO: u64 = 2 << 20;
pub const MTU: usize = 1500;

/// A frame that the real node sent.
#[derive(Clone, Debug)]
pub struct Said {
    pub at: Time,
    pub to: LinkAddress,
    pub header: Header,
    pub body: Vec<u8>,
}

impl Said {
    pub fn kind(&self) -> Kind {
        self.header.kind
    }

    /// The pull that it is.
    pub fn pull(&self) -> Pull {
        assert_eq!(self.kind(), Kind::Pull);
        Pull::parse(&self.body).unwrap()
    }

    /// Why it was not taken, as this says.
    pub fn not_ready(&self) -> NotReady {
        assert_eq!(self.kind(), Kind::NotReady);
        NotReady::parse(&self.body).unwrap()
    }
}

pub fn kinds(said: &[Said]) -> Vec<Kind> {
    said.iter().map(Said::kind).collect()
}

pub fn of_kind(said: &[Said], kind: Kind) -> Vec<Said> {
    said.iter().filter(|said| said.kind() == kind).cloned().collect()
}

/// The real node.
pub struct Real {
    pub firmware: Firmware,
    pub memory: Memory,
    pub now: Time,
    pub done: Vec<Completion>,
}

impl Real {
    pub fn new(profile: &Profile) -> Self {
        Self::over(profile, vec![LinkInfo::new(MTU, true)])
    }

    pub fn over(profile: &Profile, links: Vec<LinkInfo>) -> Self {
        Self::seeded(profile, links, 7)
    }

    /// One that draws what is secret from this seed.
    pub fn seeded(profile: &Profile, links: Vec<LinkInfo>, seed: u64) -> Self {
        let mut firmware = Firmware::new(Config {
            node: OWN,
            epoch: OWN_EPOCH.0,
            name: "real".into(),
            profile: profile.clone(),
            links,
            seed,
        });
        firmware.open_endpoint(0).unwrap();
        let bytes = (0..MEMORY).map(|i| (i * 31 + (i >> 9)) as u8).collect();
        Self { firmware, memory: Memory(bytes), now: Time(1_000_000), done: Vec::new() }
    }

    /// Takes a frame that comes from a peer's address.
    pub fn hear(&mut self, from: &Forged, frame: &[u8]) {
        self.hear_at(from.address(), frame);
    }

    pub fn hear_at(&mut self, from: LinkAddress, frame: &[u8]) {
        self.firmware.handle_frame(self.now, LinkIndex(0), from, frame, &mut self.memory);
        self.collect();
    }

    pub fn collect(&mut self) {
        take_completions(&mut self.firmware, &mut self.done);
    }

    /// What it says now.
    pub fn speak(&mut self) -> Vec<Said> {
        let most = self.firmware.frame_bytes_max();
        let mut batch = TransmitBatch::new(most);
        let mut said = Vec::new();
        for _ in 0..10_000 {
            batch.clear();
            let expected = self.firmware.has_transmit(self.now);
            let added = self.firmware.poll_transmit(self.now, &mut self.memory, &mut batch);
            assert!(expected || added == 0, "who looks first is not told of frames");
            if added == 0 {
                self.collect();
                return said;
            }
            for (i, frame) in batch.frames().iter().enumerate() {
                let mut bytes = batch.inline(i).to_vec();
                for segment in frame.segments() {
                    let at = segment.address as usize;
                    bytes.extend_from_slice(&self.memory.0[at..at + segment.bytes as usize]);
                }
                assert!(bytes.len() <= most, "{} bytes", bytes.len());
                for one in emp_wire::frames(&bytes) {
                    let (header, body) = Header::parse(one).expect("it is a frame");
                    let (at, to, body) = (self.now, frame.to, body.to_vec());
                    said.push(Said { at, to, header, body });
                }
            }
        }
        panic!("the node speaks without end");
    }

    /// What it says within so long, each with its time. Nothing is heard meanwhile.
    pub fn pass(&mut self, span: Span) -> Vec<Said> {
        let end = self.now + span;
        let mut said = self.speak();
        loop {
            // Never so late that the node would hold itself to have been absent.
            let due = self.firmware.poll_timeout().unwrap_or(Time::NEVER).max(self.now);
            let stop = due.min(end);
            while stop.since(self.now) > Span::ms(5) {
                self.now = self.now + Span::ms(5);
                self.firmware.handle_timeout(self.now, &mut self.memory);
            }
            self.now = stop;
            if due > end {
                return said;
            }
            self.firmware.handle_timeout(self.now, &mut self.memory);
            let before = said.len();
            said.extend(self.speak());
            if said.len() == before && self.firmware.poll_timeout().is_some_and(|at| at <= self.now)
            {
                self.now = self.now + Span(1_000);
            }
        }
    }

    pub fn count(&self, counter: Counter) -> u64 {
        self.firmware.counters().get(counter)
    }

    /// Posts a receive of so many bytes at an address.
    pub fn receive_at(&mut self, selector: Selector, address: u64, bytes: u64) -> OpId {
        let receive = ReceiveDescriptor {
            endpoint: 0,
            selector,
            segments: SegmentList::one(Segment { address, bytes }),
            claim: None,
            context: 0,
        };
        let op = self.firmware.post_receive(self.now, receive, &mut self.memory).unwrap();
        self.collect();
        op
    }

    pub fn receive(&mut self, selector: Selector, bytes: u64) -> OpId {
        self.receive_at(selector, INTO, bytes)
    }

    pub fn send_with(
        &mut self,
        to: &Forged,
        bytes: u64,
        completion: CompletionMode,
    ) -> Result<OpId, PostError> {
        let send = SendDescriptor {
            to: to.node,
            endpoint: 0,
            to_endpoint: 0,
            match_bits: 9,
            segments: SegmentList::one(Segment { address: 0, bytes }),
            immediate: None,
            synchronous: false,
            completion,
            context: 0,
        };
        let op = self.firmware.post_send(self.now, send, &mut self.memory);
        self.collect();
        op
    }

    pub fn send(&mut self, to: &Forged, bytes: u64) -> OpId {
        self.send_with(to, bytes, CompletionMode::Delivered).unwrap()
    }

    /// Bytes of its memory.
    pub fn bytes(&self, address: u64, bytes: u64) -> &[u8] {
        &self.memory.0[address as usize..(address + bytes) as usize]
    }

    /// Slots of the pool that are in use.
    pub fn slots_used(&self) -> usize {
        let (free, all) = self.firmware.pool_slots();
        all - free
    }
}

/// A peer that the test speaks for.
pub struct Forged {
    pub node: NodeId,
    pub epoch: Epoch,
    /// Its next sequence number, and its next message's number.
    pub sequence: u32,
    pub number: u32,
    /// What it says of its next frames: the acknowledgement that rides on them.
    pub acknowledge: Option<u32>,
    /// Payloads are not under the checksum.
    pub unchecked: bool,
}

impl Forged {
    pub fn new(id: u64) -> Self {
        let epoch = Epoch::new(0x0009_0000 + id as u32);
        let (node, sequence, number) = (NodeId(id), 0, 0);
        Self { node, epoch, sequence, number, acknowledge: None, unchecked: false }
    }

    /// One that the real node has met: it sent a message that was withdrawn, number 0.
    pub fn met(id: u64, real: &mut Real) -> Self {
        let mut peer = Self::new(id);
        let frame = peer.message(Flags::VOID, None, 0, &[]);
        real.hear(&peer, &frame);
        // What is owed for it is said, so that nothing of it is seen later.
        real.pass(Span::us(100));
        peer
    }

    pub fn address(&self) -> LinkAddress {
        LinkAddress::index(self.node.0 as u32 + 1_000)
    }

    /// Any frame, with the right checksum. `fields` count as covered only as far as its kind has it.
    pub fn frame(
        &self,
        kind: Kind,
        flags: Flags,
        sequence: u32,
        word: u32,
        rest: &[u8],
    ) -> Vec<u8> {
        let acknowledge = self.acknowledge.map(Sequence);
        let header = Header {
            kind,
            flags: flags
                .with_if(acknowledge.is_some(), Flags::ACK)
                .with_if(self.unchecked, Flags::PAYLOAD_UNCHECKED),
            length: rest.len() as u16,
            destination_tag: OWN.destination_tag(),
            destination_epoch: OWN_EPOCH.check(),
            source_tag: self.node.source_tag(),
            source_epoch: self.epoch,
            sequence: Sequence(sequence),
            acknowledge: acknowledge.unwrap_or(Sequence(0)),
            word,
        };
        let mut head = [0; HEADER_BYTES];
        header.emit(&mut head);
        let covered = covered_bytes(&header).min(rest.len());
        let mut frame = [&head[..], &rest[..covered]].concat();
        let seed =
            if kind.contact() { Seed::CONTACT } else { Seed::between(self.node, OWN, OWN_EPOCH) };
        let sum: Checksum = begin_checksum(&mut frame, seed);
        frame.extend_from_slice(&rest[covered..]);
        store_checksum(&mut frame, sum);
        frame
    }

    /// The next frame of a sequenced kind.
    pub fn next(&mut self, kind: Kind, flags: Flags, word: u32, rest: &[u8]) -> Vec<u8> {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.frame(kind, flags, sequence, word, rest)
    }

    /// The first frame of its next message.
    pub fn message(
        &mut self,
        flags: Flags,
        long: Option<LongPart>,
        match_bits: u64,
        payload: &[u8],
    ) -> Vec<u8> {
        self.message_for(0, flags, long, match_bits, payload)
    }

    pub fn message_for(
        &mut self,
        endpoint: u16,
        flags: Flags,
        long: Option<LongPart>,
        match_bits: u64,
        payload: &[u8],
    ) -> Vec<u8> {
        let message = Message {
            node: self.node,
            source_endpoint: 0,
            destination_endpoint: endpoint,
            largest: Largest::from(MTU as u16),
            match_bits,
            handle: self.number.wrapping_add(100),
            long,
            immediate: None,
        };
        let mut body = vec![0; message.body_bytes()];
        message.emit(&mut body);
        body.extend_from_slice(payload);
        let number = self.number;
        self.number = number.wrapping_add(1);
        self.next(Kind::Message, flags.with(message.flags()), number, &body)
    }

    /// The fields that its one-sided operations begin with.
    pub fn target(&self, key: u64) -> Target {
        Target {
            node: self.node,
            source_endpoint: 0,
            destination_endpoint: 0,
            largest: Largest::from(MTU as u16),
            key,
            handle: 77,
            generation: 0,
            offset: 0,
        }
    }

    /// The next frame of a block.
    pub fn block(&mut self, pull: u16, index: u16, payload: &[u8]) -> Vec<u8> {
        let word = BlockWord { pull, index }.emit();
        self.next(Kind::Block, Flags::default(), word, payload)
    }

    /// An acknowledgement as a frame of its own: that it has all before `cumulative`, and what the bits say after it.
    pub fn ack(&self, cumulative: u32, latest: u32, sack: u64) -> Vec<u8> {
        self.ack_of(cumulative, latest, [sack, 0, 0, 0], None)
    }

    /// The same of all before `cumulative`; it may grant bytes that are sent unasked.
    pub fn ack_granting(&self, cumulative: u32, latest: u32, grant: Option<u32>) -> Vec<u8> {
        self.ack_of(cumulative, latest, [0; SACK_WORDS_MAX], grant)
    }

    fn ack_of(
        &self,
        cumulative: u32,
        latest: u32,
        sack: [u64; SACK_WORDS_MAX],
        grant: Option<u32>,
    ) -> Vec<u8> {
        let mut body = [0; emp_wire::ACK_BODY_BYTES_MAX];
        let bytes = emp_wire::Ack { node: self.node, sack, grant }.emit(&mut body);
        let acknowledges = Self { acknowledge: Some(cumulative), ..*self };
        acknowledges.frame(Kind::Ack, Flags::default(), latest, 0, &body[..bytes])
    }

    /// Word that the message of this number, whose first frame this was, was not taken.
    pub fn not_ready(&self, number: u32, first: u32, cause: NotReadyCause, us: u32) -> Vec<u8> {
        let mut body = vec![0; emp_wire::NOT_READY_BYTES];
        NotReady { node: self.node, cause, backoff_us: us }.emit(&mut body);
        self.frame(Kind::NotReady, Flags::default(), first, number, &body)
    }
}

/// What a longer message says of itself.
pub fn long(total_bytes: u64, unscheduled_bytes: u32, fragment_bytes: u16) -> Option<LongPart> {
    Some(LongPart { total_bytes, unscheduled_bytes, fragment_bytes, pieces: 0 })
}
