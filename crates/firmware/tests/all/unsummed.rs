//! Frames that cross no wire carry their seed and no sum (`CRC-4`); all others a sum.

use crate::common::{Memory, make};
use emp_firmware::*;
use emp_wire::{Flags, LinkAddress, NodeId, checksum_of};

const BYTES: u64 = 64;

struct World {
    nodes: [(Firmware, Memory); 2],
    addresses: [LinkAddress; 2],
    now: Time,
}

impl World {
    fn new(addresses: [LinkAddress; 2]) -> Self {
        let node = |id: u64| (make(id, 40 + id as u32, &Profile::DEFAULT), Memory(vec![0; 256]));
        Self { nodes: [node(1), node(2)], addresses, now: Time(1) }
    }

    /// What a node has to send now.
    fn frames(&mut self, node: usize) -> Vec<Vec<u8>> {
        let mut batch = TransmitBatch::new(1500);
        self.now = self.now + Span::us(10);
        let (firmware, memory) = &mut self.nodes[node];
        firmware.handle_timeout(self.now, memory);
        firmware.poll_transmit(self.now, memory, &mut batch);
        (0..batch.frames().len()).map(|frame| batch.inline(frame).to_vec()).collect()
    }

    /// Hands a frame of the other node up, as if it came from there.
    fn take(&mut self, node: usize, from: LinkAddress, frame: &[u8]) {
        let (firmware, memory) = &mut self.nodes[node];
        firmware.handle_frame(self.now, LinkIndex(0), from, frame, memory);
    }

    /// Posts a message of node 0 and carries frames until node 0 has its first to send.
    fn first_frame(&mut self) -> Vec<u8> {
        let segments = SegmentList::one(Segment { address: 0, bytes: BYTES });
        let (firmware, memory) = &mut self.nodes[0];
        memory.0[..BYTES as usize].fill(7);
        let send = SendDescriptor {
            to: NodeId(2),
            endpoint: 0,
            to_endpoint: 0,
            match_bits: 5,
            segments,
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Auto,
            context: 0,
        };
        firmware.post_send(self.now, send, memory).expect("there is room");
        for _ in 0..4 {
            for frame in self.frames(0) {
                if frame.len() > BYTES as usize && frame.ends_with(&[7; BYTES as usize]) {
                    return frame;
                }
                self.take(1, self.addresses[0], &frame);
            }
            for frame in self.frames(1) {
                self.take(0, self.addresses[1], &frame);
            }
        }
        panic!("the nodes did not meet");
    }

    fn dropped(&self) -> u64 {
        self.nodes[1].0.counters().get(Counter::DropChecksum)
    }

    fn taken(&self) -> u64 {
        self.nodes[1].0.counters().get(Counter::Unexpected)
    }
}

const MEMORY: [LinkAddress; 2] = [LinkAddress::shm(1), LinkAddress::shm(2)];
const WIRE: [LinkAddress; 2] = [LinkAddress::index(1), LinkAddress::index(2)];

#[test]
fn where_there_is_no_wire_nothing_is_summed() {
    let mut world = World::new(MEMORY);
    let mut frame = world.first_frame();
    // The sum is the seed's: it does not depend on what else is in the frame.
    *frame.last_mut().expect("it has bytes") ^= 1;
    world.take(1, MEMORY[0], &frame);
    assert_eq!((world.taken(), world.dropped()), (1, 0));
}

#[test]
fn a_frame_of_another_incarnation_is_refused_all_the_same() {
    let mut world = World::new(MEMORY);
    let frame = world.first_frame();
    let mut other = World::new(MEMORY);
    other.nodes[1].0 = make(2, 99, &Profile::DEFAULT);
    let mut stale = other.first_frame();
    assert_ne!(checksum_of(&frame), checksum_of(&stale));
    // As if the short check of the epoch were equal by chance.
    stale[..16].copy_from_slice(&frame[..16]);
    world.take(1, MEMORY[0], &stale);
    assert_eq!((world.taken(), world.dropped()), (0, 1));
}

#[test]
fn on_a_wire_only_a_sum_counts_and_off_it_only_the_seed() {
    let (mut memory, mut wire) = (World::new(MEMORY), World::new(WIRE));
    let (unsummed, summed) = (memory.first_frame(), wire.first_frame());
    assert!(
        Flags(unsummed[1]) == Flags(summed[1]) && checksum_of(&unsummed) != checksum_of(&summed)
    );
    wire.take(1, WIRE[0], &unsummed);
    assert_eq!((wire.taken(), wire.dropped()), (0, 1));
    memory.take(1, MEMORY[0], &summed);
    assert_eq!((memory.taken(), memory.dropped()), (0, 1));
    wire.take(1, WIRE[0], &summed);
    memory.take(1, MEMORY[0], &unsummed);
    assert_eq!((wire.taken(), memory.taken()), (1, 1));
}
