//! TCP's part: a connection a sender and one for the ping-pong, every thread asleep in the kernel while it waits.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use socket2::SockRef;

use super::super::subject::Card;
use super::board::{Board, SMALL_BYTES};
use super::order::{Order, Role};

/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;

/// The number by which the ping-pong's connection tells itself from a sender's.
const PROBER: u32 = u32::MAX;

/// How long a connection may take: a port's queue may be full.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Opens a host's part and sets its threads going.
pub fn open(order: &Order, board: &Arc<Board>) -> anyhow::Result<Card> {
    match &order.role {
        Role::Receiver { senders } => listen(order, *senders, board),
        Role::Sender { number, to } => {
            let number = u32::try_from(*number)?;
            let (mut stream, message) = (connect(order, to, number)?, vec![0x5a; order.size]);
            board.spawn(move |board| {
                board.wait_for_start();
                loop {
                    stream.write_all(&message)?;
                }
            });
            Ok(Card::default())
        }
        Role::Prober { to } => {
            let mut stream = connect(order, to, PROBER)?;
            board.spawn(move |board| {
                board.wait_for_start();
                let mut message = [0; SMALL_BYTES];
                loop {
                    let start = Instant::now();
                    stream.write_all(&message)?;
                    stream.read_exact(&mut message)?;
                    board.round_trip(start.elapsed());
                }
            });
            Ok(Card::default())
        }
    }
}

fn listen(order: &Order, senders: usize, board: &Arc<Board>) -> anyhow::Result<Card> {
    let listener = TcpListener::bind(SocketAddr::new(order.own, 0))?;
    let port = listener.local_addr()?.port();
    let congestion = order.subject.congestion();
    let for_each = Arc::clone(board);
    board.spawn(move |_| {
        // All senders and the ping-pong.
        for _ in 0..=senders {
            let mut stream = listener.accept()?.0;
            steer(&stream, congestion)?;
            let mut number = [0; 4];
            stream.read_exact(&mut number)?;
            match u32::from_be_bytes(number) {
                PROBER => for_each.spawn(move |_| echo(&mut stream)),
                number if (number as usize) < senders => {
                    for_each.spawn(move |board| drain(&mut stream, number as usize, board));
                }
                number => bail!("there is no sender {number}"),
            }
        }
        Ok(())
    });
    Ok(Card { tcp_port: Some(port), ..Card::default() })
}

fn connect(order: &Order, to: &Card, number: u32) -> anyhow::Result<TcpStream> {
    let port = to.tcp_port.context("the receiver has no port")?;
    let to = SocketAddr::new(order.peer, port);
    let mut stream = TcpStream::connect_timeout(&to, CONNECT_LIMIT)
        .with_context(|| format!("TCP connection to {to}"))?;
    steer(&stream, order.subject.congestion())?;
    stream.write_all(&number.to_be_bytes())?;
    Ok(stream)
}

fn steer(stream: &TcpStream, congestion: Option<&str>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let Some(name) = congestion else { return Ok(()) };
    let chosen = SockRef::from(stream).set_tcp_congestion(name.as_bytes());
    chosen.with_context(|| format!("choosing {name} for TCP"))
}

/// Counts what comes until the sender is gone, which is how a measurement ends.
fn drain(stream: &mut TcpStream, sender: usize, board: &Board) -> anyhow::Result<()> {
    let mut into = vec![0; READ_BYTES];
    loop {
        match stream.read(&mut into) {
            Ok(0) => return Ok(()),
            Ok(bytes) => board.received(sender, bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn echo(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut message = [0; SMALL_BYTES];
    loop {
        match stream.read_exact(&mut message).and_then(|()| stream.write_all(&message)) {
            Err(error) if ended(error.kind()) => return Ok(()),
            ended => ended?,
        }
    }
}

fn ended(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
