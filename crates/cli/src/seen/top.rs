//! `emp top`: nodes, their peers and what is dropped, a second at a time.

use std::collections::HashMap;
use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

use emp_state::Snapshot;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState};
use serde_json::json;

use super::look::{Seen, Which, by_job, doing};
use super::{peers, show, table};
use crate::bail_user;
use crate::error::print;

/// Watch the nodes of this machine: rates, losses, windows, what waits; by node, peer and path.
///
/// Keys: up and down choose a node, whose peers and dropped frames are below; m, l, w, n sort by messages, losses, what waits, name (ranks of a job
/// stand together); / filters by name, job or command (Enter ends it); space stops the picture; q ends.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Print once and end; rates are those since each node's start.
    #[arg(long)]
    once: bool,
    /// The same for programs to read.
    #[arg(long)]
    json: bool,
    /// Seconds between two pictures, 0.1 to 60.
    #[arg(long, default_value_t = 1.0)]
    every: f64,
}

/// What of a node was counted, to make rates of.
#[derive(Clone, Copy, Default)]
struct Counted {
    at: u64,
    messages: u64,
    bytes: u64,
    resent: u64,
    dropped: u64,
}

/// The same in a second.
#[derive(Clone, Copy, Default)]
struct Rates {
    messages: f64,
    bytes: f64,
    resent: f64,
    dropped: f64,
}

impl Counted {
    fn of(node: &Snapshot) -> Self {
        let dropped = node.counters.iter().filter(|it| it.name.starts_with("drop_"));
        Self {
            at: node.now.written_real,
            messages: node.counter("messages_sent") + node.counter("messages_received"),
            bytes: node.links.iter().map(|link| link.bytes_sent + link.bytes_received).sum(),
            resent: node.counter("frames_resent"),
            dropped: dropped.map(|counter| counter.value).sum(),
        }
    }

    fn since(&self, before: &Self) -> Rates {
        let seconds = self.at.saturating_sub(before.at) as f64 / 1e9;
        let rate = |now: u64, then: u64| {
            if seconds > 0.0 { now.saturating_sub(then) as f64 / seconds } else { 0.0 }
        };
        Rates {
            messages: rate(self.messages, before.messages),
            bytes: rate(self.bytes, before.bytes),
            resent: rate(self.resent, before.resent),
            dropped: rate(self.dropped, before.dropped),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Job,
    Messages,
    Losses,
    Waits,
}

/// What is on the screen.
struct Picture {
    seen: Seen,
    before: HashMap<(u32, u64), Counted>,
    rates: HashMap<(u32, u64), Rates>,
    order: Order,
    filter: String,
    /// The filter is being typed.
    typing: bool,
    stopped: bool,
    chosen: TableState,
}

fn key(node: &Snapshot) -> (u32, u64) {
    (node.identity.process, node.identity.node)
}

impl Picture {
    fn new(seen: Seen) -> Self {
        let mut picture = Self {
            seen: Seen { nodes: Vec::new(), now: 0, odd: Vec::new() },
            before: HashMap::new(),
            rates: HashMap::new(),
            order: Order::Job,
            filter: String::new(),
            typing: false,
            stopped: false,
            chosen: TableState::default().with_selected(0),
        };
        picture.take(seen);
        picture
    }

    /// A new look. A node that was not seen before has the rates since its start.
    fn take(&mut self, seen: Seen) {
        let mut before = HashMap::new();
        let mut rates = HashMap::new();
        for node in &seen.nodes {
            let start = Counted { at: node.identity.started_real, ..Counted::default() };
            let (now, last) = (Counted::of(node), self.before.get(&key(node)).unwrap_or(&start));
            // Not written since: what it does is not known to have changed.
            let same = now.at == last.at;
            let known = self.rates.get(&key(node)).copied().filter(|_| same);
            let stale = seen.now.saturating_sub(node.now.written) > 2_000_000_000;
            let rate =
                if stale { Rates::default() } else { known.unwrap_or_else(|| now.since(last)) };
            rates.insert(key(node), rate);
            before.insert(key(node), now);
        }
        (self.seen, self.before, self.rates) = (seen, before, rates);
        self.sort();
    }

    fn sort(&mut self) {
        by_job(&mut self.seen);
        let rates = &self.rates;
        let rate = |node: &Snapshot| rates.get(&key(node)).copied().unwrap_or_default();
        let waits = |node: &Snapshot| {
            let all = node.peers.iter().flat_map(|peer| [peer.out_since, peer.in_since]);
            all.filter(|at| *at > 0).min().unwrap_or(u64::MAX)
        };
        match self.order {
            Order::Job => {}
            Order::Messages => {
                self.seen.nodes.sort_by(|a, b| rate(b).messages.total_cmp(&rate(a).messages));
            }
            Order::Losses => {
                self.seen.nodes.sort_by(|a, b| {
                    let lost = |node| rate(node).resent + rate(node).dropped;
                    lost(b).total_cmp(&lost(a))
                });
            }
            Order::Waits => self.seen.nodes.sort_by_key(waits),
        }
    }

    /// Those that the filter lets through.
    fn shown(&self) -> Vec<&Snapshot> {
        let through = |node: &&Snapshot| {
            let identity = &node.identity;
            let texts = [identity.name.show(), identity.job.show(), identity.command.show()];
            self.filter.is_empty() || texts.iter().any(|text| text.contains(&self.filter))
        };
        self.seen.nodes.iter().filter(through).collect()
    }

    fn row(&self, node: &Snapshot) -> [String; 11] {
        let rates = self.rates.get(&key(node)).copied().unwrap_or_default();
        let job = node.identity.job.show();
        let flight: u64 =
            node.peers.iter().flat_map(|it| it.paths()).map(|path| u64::from(path.flight)).sum();
        [
            if job.is_empty() { "-".into() } else { job },
            show::rank(node),
            show::node(node),
            node.identity.process.to_string(),
            doing(node.life).into(),
            format!("{:.0}", rates.messages),
            show::bytes(rates.bytes as u64),
            format!("{:.0}", rates.resent),
            format!("{:.0}", rates.dropped),
            show::bytes(flight),
            show::waits(node, self.seen.now),
        ]
    }

    /// What stands above the nodes.
    fn title(&self, shown: usize) -> String {
        let order = match self.order {
            Order::Job => "name",
            Order::Messages => "messages",
            Order::Losses => "losses",
            Order::Waits => "waits",
        };
        let odd = match self.seen.odd.as_slice() {
            [] => String::new(),
            [one] => format!("; {one}"),
            more => format!("; {} files are odd: emp nodes tells", more.len()),
        };
        match shown {
            0 => format!(" no node runs here, or none that you may see{odd} "),
            1 => format!(" 1 node{odd} "),
            more => format!(" {more} nodes by {order}{odd} "),
        }
    }

    /// A key was pressed. False: the end.
    fn press(&mut self, code: KeyCode) -> bool {
        if self.typing {
            match code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(letter) => self.filter.push(letter),
                _ => {}
            }
            return true;
        }
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('m') => self.order = Order::Messages,
            KeyCode::Char('l') => self.order = Order::Losses,
            KeyCode::Char('w') => self.order = Order::Waits,
            KeyCode::Char('n') => self.order = Order::Job,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char(' ') => self.stopped = !self.stopped,
            KeyCode::Down | KeyCode::Char('j') => self.chosen.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.chosen.select_previous(),
            _ => {}
        }
        self.sort();
        true
    }
}

/// The node that they are peers of stands above them.
const PEER_HEADS: [&str; 12] = [
    "", "PEER", "STATE", "LINK", "RTT", "WINDOW", "FLIGHT", "OUT", "IN", "RESENT", "HEARD", "WAITS",
];

const HEADS: [&str; 11] = [
    "JOB",
    "RANK",
    "NODE",
    "PID",
    "PROCESS",
    "MSG/S",
    "BYTES/S",
    "RESENT/S",
    "DROPPED/S",
    "FLIGHT",
    "WAITS",
];

/// What the chosen node has dropped and had sent again, the most first.
fn losses(node: &Snapshot) -> String {
    let name =
        |text: &str| text.starts_with("drop_") || ["frames_resent", "timeouts"].contains(&text);
    let mut all: Vec<(String, u64)> = node
        .counters
        .iter()
        .map(|counter| (counter.name.show(), counter.value))
        .filter(|(text, value)| *value > 0 && name(text))
        .collect();
    all.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
    let all: Vec<String> = all.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if all.is_empty() { "nothing was dropped or sent again".into() } else { all.join("  ") }
}

/// The peers of a node and their paths: who is waited for longest first, then who has most under way.
fn peer_rows(node: &Snapshot, now: u64) -> Vec<[String; 12]> {
    let mut all: Vec<_> = node.peers.iter().collect();
    all.sort_by_key(|peer| {
        let since = [peer.out_since, peer.in_since].into_iter().filter(|at| *at > 0).min();
        (since.unwrap_or(u64::MAX), std::cmp::Reverse(peer.out_messages + peer.in_messages))
    });
    let mut rows: Vec<_> = all.into_iter().flat_map(|peer| peers::rows(now, node, peer)).collect();
    rows.iter_mut().for_each(|row| row[0].clear());
    rows
}

/// As wide as what is in each column, but for two that give way where there is no room.
fn columns<const N: usize>(
    heads: [&str; N],
    rows: &[[String; N]],
    yielding: [usize; 2],
) -> Vec<Constraint> {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        let width = cells.chain([heads[at].len()]).max().unwrap_or(0);
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        if yielding.contains(&at) { Constraint::Max(width) } else { Constraint::Length(width) }
    };
    (0..N).map(width).collect()
}

fn once(picture: &Picture) -> String {
    let shown = picture.shown();
    if shown.is_empty() {
        return "no node runs here, or none that you may see\n".into();
    }
    let rows: Vec<_> = shown.iter().map(|node| picture.row(node)).collect();
    table::render(HEADS, &rows)
}

/// The picture for programs: rates are those since each node's start.
fn values(picture: &Picture) -> serde_json::Value {
    let nodes = picture.shown().into_iter().map(|node| {
        let rates = picture.rates.get(&key(node)).copied().unwrap_or_default();
        json!({
            "node": show::node(node), "process": node.identity.process, "job": node.identity.job.show(),
            "rank": node.identity.rank, "doing": doing(node.life), "messages_per_s": rates.messages,
            "bytes_per_s": rates.bytes, "resent_per_s": rates.resent, "dropped_per_s": rates.dropped,
            "waits": show::waits(node, picture.seen.now),
        })
    });
    json!({ "nodes": nodes.collect::<Vec<_>>() })
}

/// Runs `emp top`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !(0.1..=60.0).contains(&args.every) {
        bail_user!("--every must be 0.1 to 60 seconds");
    }
    let mut picture = Picture::new(args.which.look()?);
    if args.json {
        return print(&(serde_json::to_string_pretty(&values(&picture))? + "\n"));
    }
    if args.once {
        return print(&once(&picture));
    }
    if !stdin().is_terminal() || !stdout().is_terminal() {
        bail_user!(
            "emp top needs a terminal; emp top --once prints a picture, emp metrics is for programs"
        );
    }
    let every = Duration::from_secs_f64(args.every);
    let mut terminal = ratatui::try_init()?;
    let ended = (|| -> anyhow::Result<()> {
        loop {
            terminal.draw(|frame| draw(frame, &mut picture))?;
            if event::poll(every)? {
                if let Event::Key(pressed) = event::read()?
                    && pressed.kind == KeyEventKind::Press
                    && (is_interrupt(&pressed) || !picture.press(pressed.code))
                {
                    return Ok(());
                }
            } else if !picture.stopped {
                picture.take(args.which.look_silently()?);
            }
        }
    })();
    ratatui::restore();
    ended
}

/// Ctrl-C: a terminal that gives each key alone makes no signal of it.
fn is_interrupt(pressed: &KeyEvent) -> bool {
    pressed.code == KeyCode::Char('c') && pressed.modifiers.contains(KeyModifiers::CONTROL)
}

fn draw(frame: &mut Frame<'_>, picture: &mut Picture) {
    let [above, middle, below, last] = Layout::vertical([
        Constraint::Percentage(50),
        Constraint::Min(4),
        Constraint::Length(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let head = Style::default().add_modifier(Modifier::BOLD);
    let mut chosen = picture.chosen.clone();
    let shown = picture.shown();
    let rows: Vec<_> = shown.iter().map(|node| picture.row(node)).collect();
    let widths = columns(HEADS, &rows, [2, 10]);
    let list = Table::new(rows.into_iter().map(Row::new), widths)
        .header(Row::new(HEADS).style(head))
        .row_highlight_style(Style::default().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title(picture.title(shown.len())));
    frame.render_stateful_widget(list, above, &mut chosen);
    let node = chosen.selected().and_then(|at| shown.get(at.min(shown.len().saturating_sub(1))));
    if let Some(node) = node {
        let rows = peer_rows(node, picture.seen.now);
        let widths = columns(PEER_HEADS, &rows, [1, 3]);
        let title = format!(" peers of {} ", show::node(node));
        let list = Table::new(rows.into_iter().map(Row::new), widths)
            .header(Row::new(PEER_HEADS).style(head))
            .block(Block::bordered().title(title));
        frame.render_widget(list, middle);
        let text = Paragraph::new(losses(node)).wrap(ratatui::widgets::Wrap { trim: true });
        frame
            .render_widget(text.block(Block::bordered().title(" dropped, and sent again ")), below);
    }
    let state = match (picture.typing, picture.stopped) {
        (true, _) => format!("filter: {}_", picture.filter),
        (_, true) => "stopped: space goes on   q quit".into(),
        _ if picture.filter.is_empty() => {
            "m messages  l losses  w waits  n name  / filter  space stop  q quit".into()
        }
        _ => format!("filter: {}   / change  q quit", picture.filter),
    };
    frame.render_widget(Line::from(state), last);
    picture.chosen = chosen;
}

#[cfg(test)]
#[path = "top_tests.rs"]
mod tests;
