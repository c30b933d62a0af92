//! A host's process: does what its first line orders, and answers the lines that follow.

use std::io::{BufRead, stdin};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};

use super::board::{Board, say};
use super::order::{Answer, Command, Order, Role, SubjectName};
use super::{emp_flows, tcp_flows};
use crate::bench::subject::Card;

/// Runs the hidden subcommand.
pub fn run() -> anyhow::Result<()> {
    let mut lines = stdin().lock().lines();
    let Some(first) = lines.next() else { bail!("no order came") };
    let order: Order = serde_json::from_str(&first?).context("an order")?;
    let senders = match order.role {
        Role::Receiver { senders } => senders,
        Role::Sender { .. } | Role::Prober { .. } => 0,
    };
    let board = Board::new(senders);
    let opened = open(&order, &board);
    let card = match opened {
        Ok(card) => card,
        Err(problem) => return say(&Answer::Failed(format!("{problem:#}"))),
    };
    let since = Instant::now();
    say(&Answer::Ready(card))?;
    for line in lines {
        match serde_json::from_str(&line?).context("a command")? {
            Command::Start => board.begin(),
            Command::Mark => say(&Answer::Marked(board.report(since)))?,
        }
    }
    Ok(())
}

/// Opens this host's part, or both parts where EMP and TCP share the port.
fn open(order: &Order, board: &Arc<Board>) -> anyhow::Result<Card> {
    let is_emp = match (&order.role, order.subject) {
        (Role::Receiver { .. }, SubjectName::EmpBesideCubic) => {
            let (emp, tcp) = (emp_flows::open(order, board)?, tcp_flows::open(order, board)?);
            return Ok(Card { tcp_port: tcp.tcp_port, ..emp });
        }
        (Role::Sender { number, .. }, subject) => subject.is_emp(*number),
        // As the first sender.
        (Role::Receiver { .. } | Role::Prober { .. }, subject) => subject.is_emp(0),
    };
    if is_emp { emp_flows::open(order, board) } else { tcp_flows::open(order, board) }
}
