//! Half round trips between two processes, by the raw API: `pingpong INTERFACE NAME PEER [BYTES [ROUNDS]]` on both sides,
//! with `first` as the name of the one that starts. `udp:ADDRESS:PORT` instead of an interface names the peer's socket
//! and binds the same port; `shm` takes memory shared by the two processes.
//!
//! Environment: `EMP_BOARD` = inline (default), guarded, thread; `EMP_WAIT` = spin (default), adaptive, sleep.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use emp_host::{
    AutoLinks, Board, Completion, CompletionMode, Endpoint, Node, NodeId, ReceiveDescriptor,
    Segment, SegmentList, Selector, SendDescriptor, Status, WaitMode, Want,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Rounds between two looks at the clock: the median of laps says more than the mean on a machine that does other
/// things too.
const LAP: usize = 20;

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, name, peer, rest @ ..] = arguments.as_slice() else {
        return Err(
            "usage: pingpong INTERFACE|udp:ADDRESS:PORT|shm NAME PEER [BYTES [ROUNDS]]".into()
        );
    };
    let number = |place: usize, default: usize| rest.get(place).map_or(Ok(default), |n| n.parse());
    let (bytes, rounds) = (number(0, 32)?, number(1, 200_000)?);
    let auto = match interface.strip_prefix("udp:") {
        None if interface == "shm" => AutoLinks { want: Want::Shm, ..AutoLinks::default() },
        None => AutoLinks {
            want: Want::Packet,
            interfaces: vec![interface.clone()],
            ..AutoLinks::default()
        },
        Some(there) => {
            let there: SocketAddr = there.parse()?;
            AutoLinks {
                want: Want::Udp,
                udp_port: there.port(),
                udp_peers: vec![there],
                ..AutoLinks::default()
            }
        }
    };
    let wait_mode = match std::env::var("EMP_WAIT").as_deref() {
        Ok("adaptive") => WaitMode::default(),
        Ok("sleep") => WaitMode::Sleep,
        _ => WaitMode::Spin,
    };
    let node =
        Node::builder().name(name).auto_links(auto).board(board()).wait_mode(wait_mode).start()?;
    let peer = node.find(peer.as_str(), PATIENCE)?.node;
    let endpoint = node.endpoint(1)?;
    let first = name == "first";
    // Warm caches, routes and round-trip estimates.
    pass(&endpoint, peer, first, bytes, rounds / 10)?;
    let mut laps = pass(&endpoint, peer, first, bytes, rounds)?;
    if first {
        laps.sort_unstable();
        let half = |place: usize| laps[place].as_nanos() as f64 / LAP as f64 / 2.0;
        let (best, median) = (half(0), half(laps.len() / 2));
        let rate = bytes as f64 * 8.0 / median;
        println!("{bytes} B: {best:.0} ns one way at best, {median:.0} median, {rate:.2} Gb/s");
    }
    Ok(())
}

fn board() -> Board {
    match std::env::var("EMP_BOARD").as_deref() {
        Ok("thread") => Board::Thread,
        Ok("guarded") => Board::Inline { guardian: true },
        _ => Board::Inline { guardian: false },
    }
}

fn pass(
    endpoint: &Endpoint,
    peer: NodeId,
    first: bool,
    bytes: usize,
    rounds: usize,
) -> Result<Vec<Duration>> {
    // Leaked, so that they outlive whatever goes wrong.
    let (out, into) = (vec![1u8; bytes].leak(), vec![0u8; bytes].leak());
    let mut done = Vec::with_capacity(16);
    let mut sends = 0;
    let mut laps = Vec::with_capacity(rounds / LAP + 1);
    let mut start = Instant::now();
    for round in 1..=rounds.next_multiple_of(LAP) {
        receive(endpoint, into)?;
        if first {
            send(endpoint, peer, out)?;
            sends += 1;
        }
        let mut received = false;
        while !received || sends > usize::from(!first) {
            done.clear();
            if endpoint.wait_completions(&mut done, PATIENCE) == 0 {
                return Err("the peer has stopped".into());
            }
            for completion in &done {
                check(completion)?;
                match completion.context {
                    0 => received = true,
                    _ => sends -= 1,
                }
            }
        }
        if !first {
            send(endpoint, peer, out)?;
            sends += 1;
        }
        if round % LAP == 0 {
            laps.push(start.elapsed());
            start = Instant::now();
        }
    }
    while sends > 0 {
        done.clear();
        sends -= endpoint.wait_completions(&mut done, PATIENCE);
    }
    Ok(laps)
}

fn check(completion: &Completion) -> Result<()> {
    match completion.status {
        Status::Ok => Ok(()),
        status => Err(status.describe().into()),
    }
}

fn whole(buffer: &mut [u8]) -> SegmentList {
    let address = buffer.as_mut_ptr().expose_provenance() as u64;
    SegmentList::one(Segment { address, bytes: buffer.len() as u64 })
}

fn send(endpoint: &Endpoint, to: NodeId, buffer: &mut [u8]) -> Result<()> {
    let descriptor = SendDescriptor {
        to,
        endpoint: 1,
        to_endpoint: 1,
        match_bits: 0,
        segments: whole(buffer),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Auto,
        context: 1,
    };
    // SAFETY: the buffer is leaked, hence valid for ever, and not written until the send has ended.
    unsafe { endpoint.post_send_raw(descriptor) }.map_err(|error| format!("{error:?}"))?;
    Ok(())
}

fn receive(endpoint: &Endpoint, buffer: &mut [u8]) -> Result<()> {
    let descriptor = ReceiveDescriptor {
        endpoint: 1,
        selector: Selector::ANY,
        segments: whole(buffer),
        claim: None,
        context: 0,
    };
    // SAFETY: the buffer is leaked, hence valid for ever, and not touched until the receive has ended.
    unsafe { endpoint.post_receive_raw(descriptor) }.map_err(|error| format!("{error:?}"))?;
    Ok(())
}
