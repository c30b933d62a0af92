//! Messages of nodes whose engines are in the service.

use std::collections::VecDeque;
use std::time::Duration;

use emp_host::{AutoLinks, Board, Endpoint, Node, Selector, WaitMode, Want};

use super::args::Args;
use super::flood::{Flood, Others};

/// A message that does not come for so long never will.
const PATIENCE: Duration = Duration::from_secs(10);

/// Messages that a flood has under way: enough that neither of its engines has nothing to do.
const FLOOD_WINDOW: usize = 64;

/// What it sends.
const FLOOD_MESSAGE: &[u8] = &[0x5A; 32];

/// A node with an endpoint.
struct End {
    node: Node,
    endpoint: Endpoint,
}

impl End {
    fn open(args: &Args, name: &str, wait: WaitMode) -> anyhow::Result<Self> {
        let auto = AutoLinks {
            want: Want::Empd,
            interfaces: vec![args.interface.clone()],
            ..AutoLinks::default()
        };
        let name = format!("board {} {name}", std::process::id());
        let builder = Node::builder().name(name).board(Board::Daemon).auto_links(auto);
        let node = builder.wait_mode(wait).start()?;
        let endpoint = node.endpoint(1)?;
        Ok(Self { node, endpoint })
    }
}

/// Two nodes, and a buffer of each.
pub(super) struct Pair {
    ends: [End; 2],
    sent: Vec<u8>,
    room: Vec<u8>,
}

impl Pair {
    pub(super) fn open(args: &Args) -> anyhow::Result<Self> {
        let wait = if args.sleep { WaitMode::Sleep } else { WaitMode::Spin };
        let ends = [End::open(args, "a", wait)?, End::open(args, "b", wait)?];
        Ok(Self { ends, sent: vec![0x5A; args.size], room: vec![0; args.size] })
    }

    /// A question to the first one's engine, which no other has a part in, and its answer.
    pub(super) fn ask(&mut self) -> anyhow::Result<()> {
        self.ends[0].node.pool_slots();
        Ok(())
    }

    pub(super) fn loop_back(&mut self) -> anyhow::Result<()> {
        self.cross(0, 0)
    }

    /// A message there and one back.
    pub(super) fn round(&mut self) -> anyhow::Result<()> {
        self.cross(0, 1)?;
        self.cross(1, 0)
    }

    fn cross(&mut self, from: usize, to: usize) -> anyhow::Result<()> {
        let [from, to] = [from, to].map(|at| &self.ends[at].endpoint);
        let receive = to.receive(Selector::ANY, std::mem::take(&mut self.room))?;
        let send = from.send(to.address(), 7, std::mem::take(&mut self.sent))?;
        self.room = receive.wait(PATIENCE)?.buffer;
        self.sent = send.wait(PATIENCE)?.buffer;
        Ok(())
    }
}

pub(super) fn others(args: &Args) -> anyhow::Result<Others> {
    let idle: anyhow::Result<Vec<End>> = (2..args.clients)
        .map(|number| End::open(args, &format!("idle {number}"), WaitMode::Sleep))
        .collect();
    let flood = args.flood.then(|| flood(args)).transpose()?;
    Ok(Others { _idle: Box::new(idle?), flood })
}

/// One node sends to another, both of this process, as many at a time as its window has.
fn flood(args: &Args) -> anyhow::Result<Flood> {
    let ends =
        [End::open(args, "flood", WaitMode::Spin)?, End::open(args, "sink", WaitMode::Spin)?];
    let mut under_way = VecDeque::new();
    let mut rooms = vec![vec![0u8; FLOOD_MESSAGE.len()]; FLOOD_WINDOW];
    Ok(Flood::start(move || {
        let [from, to] = [0, 1].map(|at: usize| &ends[at].endpoint);
        while let Some(room) = rooms.pop() {
            under_way.push_back(to.receive(Selector::ANY, room).ok()?);
            from.send(to.address(), 7, FLOOD_MESSAGE).map(drop).ok()?;
        }
        let first = under_way.pop_front()?;
        rooms.push(first.wait(PATIENCE).ok()?.buffer);
        Some(1)
    }))
}
