//! The first program of the README: `first a` on one host, `first b` on another, whichever first. On one machine:
//! `first a udp PORT PEER_PORT` and `first b udp PORT PEER_PORT`.

use std::time::Duration;

use emp_host::{AutoLinks, Node, Selector, Want};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PATIENCE: Duration = Duration::from_secs(10);

/// Says hello to b, and returns when b's node has it.
pub fn a(links: AutoLinks) -> Result<()> {
    let node = Node::builder().name("a").auto_links(links).start()?;
    node.endpoint(1)?.send_wait(("b", 1), 42, "hello", PATIENCE)?;
    Ok(())
}

/// Hears what a has to say.
pub fn b(links: AutoLinks) -> Result<()> {
    let node = Node::builder().name("b").auto_links(links).start()?;
    let got = node.endpoint(1)?.receive(Selector::bits(42), vec![0; 100])?.wait(PATIENCE)?;
    assert_eq!(&got.buffer[..got.bytes()], b"hello");
    Ok(())
}

/// Runs as one of the two.
pub fn run(arguments: &[String]) -> Result<()> {
    let links = match arguments {
        [_, udp, own, peer] if udp == "udp" => AutoLinks {
            want: Want::Udp,
            udp_bind: Some([127, 0, 0, 1].into()),
            udp_port: own.parse()?,
            udp_peers: vec![format!("127.0.0.1:{peer}").parse()?],
            ..AutoLinks::default()
        },
        _ => AutoLinks::default(),
    };
    match arguments.first().map(String::as_str) {
        Some("a") => a(links),
        Some("b") => b(links),
        _ => Err("usage: first a|b [udp PORT PEER_PORT]".into()),
    }
}

#[allow(dead_code, reason = "a test runs it, too")]
fn main() -> Result<()> {
    run(&std::env::args().skip(1).collect::<Vec<_>>())
}
