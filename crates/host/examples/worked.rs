//! What the threads of one host have to do for streams both ways: `worked INTERFACE NAME PEER [BYTES [SECONDS]]` on both sides, with `first` as
//! the name of the one whose figures are printed. `udp:ADDRESS:PORT` instead of an interface names the peer's socket and binds the same port.
//!
//! A thread that spins takes all of a core. So what counts is the CPU time of its turns in which anything was done: the busiest thread's is the
//! least time for a message each way that a host could have whose threads had a core each, and a peer that is as quick.
//!
//! Environment: `EMP_BOARD` and `CPUS` (two, such as `0,1`: of the caller, and of the board's other thread), `EMP_WAIT` = spin (default),
//! adaptive, sleep.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use emp_host::{
    Address, AutoLinks, Board, Node, Request, Selector, WaitMode, Want, WorkTime, stay_on_cpu,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PATIENCE: Duration = Duration::from_secs(10);

/// Messages under way each way.
const WINDOW: usize = 32;

/// Before and after what is measured, so that the other end is at work all the time.
const BESIDE: Duration = Duration::from_millis(300);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, name, peer, rest @ ..] = arguments.as_slice() else {
        return Err("usage: worked INTERFACE|udp:ADDRESS:PORT NAME PEER [BYTES [SECONDS]]".into());
    };
    let number = |place: usize, default: f64| rest.get(place).map_or(Ok(default), |n| n.parse());
    let (bytes, seconds) = (number(0, 8192.0)? as usize, number(1, 2.0)?);
    let wait_mode = match std::env::var("EMP_WAIT").as_deref() {
        Ok("adaptive") => WaitMode::Adaptive,
        Ok("sleep") => WaitMode::Sleep,
        _ => WaitMode::Spin,
    };
    let builder = Node::builder().name(name).auto_links(links(interface)?);
    let node = builder.board(board()?).wait_mode(wait_mode).start()?;
    let peer = node.find(peer.as_str(), PATIENCE)?.node;
    let endpoint = node.endpoint(1)?;
    let (to, any): (Address, _) = ((peer, 1).into(), Selector::bits(0));
    let receive = |buffer: Vec<u8>| endpoint.receive(any, buffer);
    let send = |buffer: Vec<u8>| endpoint.send(to, 0, buffer);
    let mut arriving: VecDeque<Request<Vec<u8>>> = VecDeque::new();
    let mut leaving: VecDeque<Request<Vec<u8>>> = VecDeque::new();
    for _ in 0..WINDOW {
        arriving.push_back(receive(vec![0; bytes])?);
    }
    for _ in 0..WINDOW {
        leaving.push_back(send(vec![1; bytes])?);
    }
    let start = Instant::now();
    let lasts = Duration::from_secs_f64(seconds);
    let (mut begun, mut measured) = (None, false);
    for messages in 0u64.. {
        let passed = start.elapsed();
        if begun.is_none() && passed >= BESIDE {
            node.count_work();
            begun = Some((Instant::now(), messages));
        }
        if let Some((since, before)) = begun
            && !measured
            && since.elapsed() >= lasts
        {
            measured = true;
            if name == "first" {
                tell(bytes, since.elapsed(), messages - before, node.worked());
            }
        }
        if passed >= lasts + 2 * BESIDE {
            break;
        }
        let Some(one) = arriving.pop_front() else { break };
        let Ok(done) = one.wait(PATIENCE) else { break };
        arriving.push_back(receive(done.buffer)?);
        let Some(one) = leaving.pop_front() else { break };
        let Ok(done) = one.wait(PATIENCE) else { break };
        leaving.push_back(send(done.buffer)?);
    }
    // What is under way has nobody who waits for it.
    std::process::exit(0);
}

fn links(interface: &str) -> Result<AutoLinks> {
    let Some(there) = interface.strip_prefix("udp:") else {
        let interfaces = vec![interface.to_owned()];
        return Ok(AutoLinks { want: Want::Packet, interfaces, ..AutoLinks::default() });
    };
    let there: SocketAddr = there.parse()?;
    let (want, udp_port, udp_peers) = (Want::Udp, there.port(), vec![there]);
    Ok(AutoLinks { want, udp_port, udp_peers, ..AutoLinks::default() })
}

/// The board, with its threads on the CPUs that were named.
fn board() -> Result<Board> {
    let board = Board::named(&std::env::var("EMP_BOARD").unwrap_or_else(|_| "inline".into()))?;
    let cpus = std::env::var("CPUS").unwrap_or_default();
    let cpus = cpus.split(',').filter(|cpu| !cpu.is_empty()).map(str::parse);
    let cpus = cpus.collect::<std::result::Result<Vec<usize>, _>>()?;
    if let Some(cpu) = cpus.first() {
        stay_on_cpu(*cpu)?;
    }
    Ok(match board {
        Board::Split { scheme, .. } => Board::Split { scheme, cpu: cpus.get(1).copied() },
        other => other,
    })
}

fn tell(bytes: usize, time: Duration, messages: u64, worked: WorkTime) {
    let each = |time: Duration| time.as_secs_f64() * 1e6 / messages as f64;
    let [engine, other] = [worked.engine, worked.other].map(each);
    let gbps = |us: f64| 2.0 * bytes as f64 * 8e-3 / us;
    println!(
        "{bytes} B both ways: {:.2} Gb/s in wall time; a message each way: caller {engine:.2} us, other {other:.2} us, both {:.2} us; the busiest \
         thread allows {:.2} Gb/s",
        gbps(each(time)),
        engine + other,
        gbps(engine.max(other)),
    );
}
