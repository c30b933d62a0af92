//! What the first message to a node takes that nobody has looked for yet, beside one of the same 32 bytes to a node that is known:
//!
//! ```sh
//! first_message answer b      # on one host
//! first_message ask b         # on the other: microseconds until each is delivered, in the middle of several
//! ```

use std::time::{Duration, Instant};

use emp_host::{AutoLinks, Board, Node, Selector};

/// Nodes that look for the other one, one after the other, and messages of each once it knows it.
const ROUNDS: usize = 9;
const WARM: usize = 200;

const LIMIT: Duration = Duration::from_secs(10);
const BYTES: usize = 32;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("answer"), Some(name)) => answer(&name),
        (Some("ask"), Some(name)) => ask(&name),
        _ => Err("say `answer NAME` or `ask NAME`".into()),
    }
}

fn node(name: Option<&str>) -> Result<Node, Failure> {
    let builder = Node::builder().auto_links(AutoLinks::default()).board(Board::Thread);
    Ok(match name {
        Some(name) => builder.name(name).start()?,
        None => builder.start()?,
    })
}

/// Takes what comes until it is ended.
fn answer(name: &str) -> Result<(), Failure> {
    let node = node(Some(name))?;
    let endpoint = node.endpoint(1)?;
    println!("{name} listens");
    loop {
        endpoint.receive(Selector::ANY, vec![0; BYTES])?.wait(Duration::from_secs(3600))?;
    }
}

fn ask(name: &str) -> Result<(), Failure> {
    let (mut firsts, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let node = node(None)?;
        let endpoint = node.endpoint(1)?;
        let send = || -> Result<f64, Failure> {
            let start = Instant::now();
            endpoint.send_wait((name, 1), 1, vec![1; BYTES], LIMIT)?;
            Ok(start.elapsed().as_secs_f64() * 1e6)
        };
        firsts.push(send()?);
        for _ in 0..WARM {
            warm.push(send()?);
        }
    }
    println!("first {:.1} warm {:.1}", middle(firsts), middle(warm));
    Ok(())
}

fn middle(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
