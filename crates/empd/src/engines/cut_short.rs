//! What a client ends before its time: it cancels it, or whom it was meant for has ended.

use std::collections::VecDeque;

use emp_host::Status;

use super::engine::{Engine, Waiting};
use super::intake::is_over;

impl Engine {
    /// Tries to end an operation that has not begun for its peer. False: too late, or there is none of that name.
    pub(super) fn cancel(&mut self, name: u64) -> bool {
        if let Some(op) = self.operations.op(name) {
            return self.desk.cancel(op);
        }
        let Some(waiting) = take_waiting(&mut self.receives_waiting, name) else { return false };
        self.was_over(&waiting.descriptor, Status::Cancelled);
        true
    }

    /// Ends an operation, whatever that costs its peer. One that the engine had no room for has cost nobody anything: begun later, it would be for a
    /// node that is looked for.
    pub(super) fn abort(&mut self, name: u64) {
        if let Some(op) = self.operations.op(name) {
            return self.desk.abort(op);
        }
        let waiting = take_waiting(&mut self.sends_waiting, name);
        if let Some(waiting) = waiting.or_else(|| take_waiting(&mut self.receives_waiting, name)) {
            self.was_over(&waiting.descriptor, Status::Cancelled);
        }
    }
}

/// Takes out what has this name and waits for room. What is over for the client has none.
fn take_waiting(queue: &mut VecDeque<Waiting>, name: u64) -> Option<Waiting> {
    let is = |one: &Waiting| one.descriptor.op == name && !is_over(&one.descriptor);
    queue.remove(queue.iter().position(is)?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::path::PathBuf;
    use std::time::Duration;

    use emp_host::daemon::{Descriptor, End, Posting, Question, Tell, said, told};
    use emp_host::{
        Board, CompletionMode, Node, NodeId, OpId, OpKind, Profile, RemoteRegion, Selector,
        StateFile,
    };
    use emp_link::Fabric;
    use emp_link::service::channel::{Channel, RECORD_BYTES_MAX};

    use super::super::Options;
    use super::*;
    use crate::switch::pace::Polling;

    /// An engine that is alone on its link, and its client's end of the rings.
    fn engine() -> (Engine, Channel) {
        let own = NodeId(7);
        let link = Fabric::new(1).expect("descriptors").link(0, own.destination_tag());
        let builder = Node::builder().name("client").node_id(own).link(link.expect("a place"));
        let mut profile = Profile::by_name("default").expect("it is there").clone();
        profile.operations_max = 8;
        let builder = builder.profile(profile).state(StateFile::Off).linger(Duration::ZERO);
        let node = builder.board(Board::Inline { guardian: false }).start().expect("it starts");
        let options = Options {
            socket: PathBuf::new(),
            ethertype: 0x88B5,
            polling: Polling::Sleeping,
            held_bytes_max: 1 << 20,
            operations_max: 8,
            incoming_max: 8,
            peers_max: 8,
            regions_max: 8,
            per_user: 1,
            datagrams: false,
        };
        let (channel, memory, bell) = Channel::create().expect("memory");
        let client = Channel::open(memory.as_fd(), bell).expect("it is mapped");
        let mut engine = Engine::new(node, channel, &options);
        take(&mut engine, said::ASK, &Question::Open(1).emit());
        (engine, client)
    }

    fn take(engine: &mut Engine, mark: u32, record: &[u8]) {
        engine.take(mark, record).unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    fn post(engine: &mut Engine, op: u64, posting: Posting, bytes: usize) {
        let descriptor = Descriptor { op, endpoint: 1, bytes: bytes as u64, posting };
        let payload = vec![5; descriptor.payload_and_room().0 as usize];
        take(engine, said::POST, &[&descriptor.emit()[..], &payload[..]].concat());
    }

    fn turn(engine: &mut Engine) {
        let mut buffer = vec![0; RECORD_BYTES_MAX];
        for _ in 0..16 {
            assert!(engine.turn(&mut buffer).is_ok(), "it did nothing wrong");
        }
    }

    /// Short sends, of which each is over for the client, to a node that does not answer, until one waits for room.
    fn fill_the_engine(engine: &mut Engine, op: u64) {
        let to = Posting::Send {
            to: NodeId(9),
            to_endpoint: 1,
            match_bits: 0,
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Auto,
            more: false,
            over: true,
        };
        for _ in 0..1_000 {
            post(engine, op, to, 10);
            // Each is over for the engine's client in a turn, and the engine has it until it is delivered.
            turn(engine);
            if !engine.sends_waiting.is_empty() {
                return;
            }
        }
        panic!("there is room for all of them");
    }

    /// The ends that the client is told of.
    fn ends(engine: &mut Engine, client: &mut Channel) -> Vec<(u64, Status)> {
        turn(engine);
        let mut buffer = vec![0; RECORD_BYTES_MAX];
        let mut ends = Vec::new();
        while let Some((mark, length)) = client.read(&mut buffer).expect("the service is sound") {
            if mark == told::END {
                let (head, _) = buffer[..length].split_first_chunk().expect("an end");
                let End { completion } = End::parse(head).expect("it can be read");
                ends.push((completion.op.to_bits(), completion.status));
            }
        }
        ends
    }

    /// A node ends while what was posted for it waits behind sends to another that takes none: it would be begun once there is room, and looked
    /// for.
    #[test]
    fn what_waits_for_room_ends_with_its_peer() {
        let (mut engine, mut client) = engine();
        let name = |kind, number| OpId::elsewhere(kind, number, 0).to_bits();
        let (put, other) = (name(OpKind::Put, 1), name(OpKind::Put, 2));
        let over = name(OpKind::Send, 1);
        fill_the_engine(&mut engine, over);
        let target = |node| RemoteRegion {
            to: NodeId(node),
            to_endpoint: 1,
            key: 1,
            generation: 0,
            offset: 0,
        };
        let completion = CompletionMode::Delivered;
        let to = |node| Posting::Put { target: target(node), immediate: None, completion };
        post(&mut engine, put, to(8), 1_000);
        post(&mut engine, other, to(9), 1_000);
        assert!(ends(&mut engine, &mut client).is_empty());
        // What is over for its client goes on.
        take(&mut engine, said::TELL, &Tell::Abort(over).emit());
        assert!(ends(&mut engine, &mut client).is_empty());
        let (waiting, held) = (engine.sends_waiting.len(), engine.held);
        take(&mut engine, said::TELL, &Tell::Abort(put).emit());
        assert_eq!(ends(&mut engine, &mut client), [(put, Status::Cancelled)]);
        assert_eq!((waiting - engine.sends_waiting.len(), held - engine.held), (1, 1_000));
        // It is known no more, and told of once.
        take(&mut engine, said::TELL, &Tell::Abort(put).emit());
        assert!(ends(&mut engine, &mut client).is_empty());
        take(&mut engine, said::TELL, &Tell::Abort(other).emit());
        assert_eq!(ends(&mut engine, &mut client), [(other, Status::Cancelled)]);
        assert_eq!(engine.sends_waiting.len(), 1, "what is over is looked for");
    }

    #[test]
    fn what_begins_at_once_is_ended_by_the_engine() {
        let (mut engine, mut client) = engine();
        let receive = Posting::Receive { selector: Selector::ANY, claim: None };
        let names = [1, 2].map(|number| OpId::elsewhere(OpKind::Receive, number, 0).to_bits());
        for name in names {
            post(&mut engine, name, receive, 100);
        }
        take(&mut engine, said::TELL, &Tell::Abort(names[0]).emit());
        take(&mut engine, said::TELL, &Tell::Cancel(names[1]).emit());
        assert_eq!(
            ends(&mut engine, &mut client),
            names.map(|name| (name, Status::Cancelled)).to_vec()
        );
    }
}
