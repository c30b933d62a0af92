//! `emp top`: nodes, their peers and what is dropped, a second at a time.

use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

use emp_state::{Peer, Snapshot};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState};
use serde_json::json;

use super::look::{Seen, Which, by_job, doing};
use super::rates::{Carries, Watch};
use super::{peers, route, show, table};
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
    watch: Watch,
    order: Order,
    filter: String,
    /// The filter is being typed.
    typing: bool,
    stopped: bool,
    chosen: TableState,
}

impl Picture {
    fn new(seen: Seen) -> Self {
        let mut picture = Self {
            seen: Seen { nodes: Vec::new(), now: 0, odd: Vec::new() },
            watch: Watch::default(),
            order: Order::Job,
            filter: String::new(),
            typing: false,
            stopped: false,
            chosen: TableState::default().with_selected(0),
        };
        picture.take(seen);
        picture
    }

    /// A new look.
    fn take(&mut self, seen: Seen) {
        self.watch.take(&seen.nodes, seen.now);
        self.seen = seen;
        self.sort();
    }

    fn sort(&mut self) {
        by_job(&mut self.seen);
        let watch = &self.watch;
        let rate = |node: &Snapshot| watch.of(node);
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
                let lost = |node: &Snapshot| rate(node).resent + rate(node).dropped;
                self.seen.nodes.sort_by(|a, b| lost(b).total_cmp(&lost(a)));
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
        let rates = self.watch.of(node);
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

const PEER_HEADS: [&str; 12] = [
    "NODE", "PEER", "STATE", "LINK", "RTT", "WINDOW", "FLIGHT", "FRAMES/S", "LOST/S", "OUT", "IN",
    "WAITS",
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

/// What a node has dropped and sent again, by reason.
fn losses(node: &Snapshot) -> impl Iterator<Item = (String, u64)> {
    let is =
        |text: &str| text.starts_with("drop_") || ["frames_resent", "timeouts"].contains(&text);
    let all = node.counters.iter().map(|counter| (counter.name.show(), counter.value));
    all.filter(move |(text, value)| *value > 0 && is(text))
}

/// The same for people, the most first.
fn losses_line(node: &Snapshot) -> String {
    let mut all: Vec<_> = losses(node).collect();
    all.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
    let all: Vec<String> = all.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if all.is_empty() { "nothing was dropped or sent again".into() } else { all.join("  ") }
}

/// What a relay has sent on for each of its neighbours, a line each.
fn relay_lines(node: &Snapshot) -> String {
    let mut text = String::new();
    for of in &node.neighbours {
        text += &format!(
            "{}: of {} on {}: sent on {} frames, {}, {} searches; dropped {}, of these {} for want of room, {} cut off\n",
            show::node(node),
            show::address(&of.address),
            show::link(node, of.link),
            of.frames,
            show::bytes(of.bytes),
            of.searches,
            of.dropped,
            of.dropped_full,
            of.dropped_cut
        );
    }
    text
}

/// The same for programs.
fn relay_values(node: &Snapshot) -> Vec<serde_json::Value> {
    let each = node.neighbours.iter().map(|of| {
        json!({
            "from": show::address(&of.address), "link": show::link(node, of.link), "frames": of.frames, "bytes": of.bytes,
            "searches": of.searches, "dropped": of.dropped, "dropped_full": of.dropped_full, "dropped_cut": of.dropped_cut,
        })
    });
    each.collect()
}

/// The peers of a node: who is waited for longest first, then who has most under way.
fn peers_of(node: &Snapshot) -> Vec<&Peer> {
    let mut all: Vec<_> = node.peers.iter().collect();
    all.sort_by_key(|peer| {
        let since = [peer.out_since, peer.in_since].into_iter().filter(|at| *at > 0).min();
        (since.unwrap_or(u64::MAX), std::cmp::Reverse(peer.out_messages + peer.in_messages))
    });
    all
}

/// They and their paths. A peer of several paths has a line of what goes by all, then one for each.
fn peer_rows(picture: &Picture, node: &Snapshot) -> Vec<[String; 12]> {
    let rates = picture.watch.of(node);
    let rate = |carries: Carries| [carries.frames, carries.lost].map(|rate| format!("{rate:.0}"));
    let mut rows = Vec::new();
    for peer in peers_of(node) {
        let [all, by_path @ ..] = rates.of(peer.node);
        let lines = peers::rows(picture.seen.now, node, peer);
        let of = |line: &[String; 12], carries: Carries| {
            let [_, who, state, link, rtt, window, flight, out, back, _, _, waits] = line.clone();
            let [frames, lost] = rate(carries);
            let node = if who.is_empty() { String::new() } else { show::node(node) };
            [node, who, state, link, rtt, window, flight, frames, lost, out, back, waits]
        };
        let [first, more @ ..] = lines.as_slice() else { continue };
        if more.is_empty() {
            rows.push(of(first, all));
            continue;
        }
        let mut whole = of(first, all);
        whole[3] = format!("{} paths", lines.len());
        whole[4..7].fill(String::new());
        rows.push(whole);
        for (line, carries) in lines.iter().zip(by_path) {
            let mut line = of(line, carries);
            line[..3].fill(String::new());
            line[9..].fill(String::new());
            rows.push(line);
        }
    }
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
    let mut text = table::render(HEADS, &rows);
    let rows: Vec<_> = shown.iter().flat_map(|node| peer_rows(picture, node)).collect();
    if !rows.is_empty() {
        text += &format!("\n{}", table::render(PEER_HEADS, &rows));
    }
    let relays: String = shown.iter().map(|node| relay_lines(node)).collect();
    if !relays.is_empty() {
        text += &format!("\n{relays}");
    }
    let lossy: Vec<_> = shown.into_iter().filter(|node| losses(node).next().is_some()).collect();
    if !lossy.is_empty() {
        text += "\n";
    }
    for node in lossy {
        text += &format!("{}: {}\n", show::node(node), losses_line(node));
    }
    text
}

/// The picture for programs: rates are those since each node's start.
fn values(picture: &Picture) -> serde_json::Value {
    let nodes = picture.shown().into_iter().map(|node| {
        let rates = picture.watch.of(node);
        let peers = peers_of(node).into_iter().map(|peer| {
            let [all, by_path @ ..] = rates.of(peer.node);
            let mut paths = route::paths(node, peer);
            for (path, carries) in paths.iter_mut().zip(by_path) {
                path["frames_per_s"] = carries.frames.into();
                path["lost_per_s"] = carries.lost.into();
            }
            json!({
                "peer": format!("{:016x}", peer.node), "name": peer.name.show(), "state": peer.state().word(),
                "frames_per_s": all.frames, "lost_per_s": all.lost, "out_messages": peer.out_messages,
                "in_messages": peer.in_messages, "paths_up": peer.paths_up, "paths": paths,
            })
        });
        let losses: serde_json::Map<_, _> =
            losses(node).map(|(name, value)| (name, value.into())).collect();
        json!({
            "node": show::node(node), "process": node.identity.process, "job": node.identity.job.show(),
            "rank": node.identity.rank, "doing": doing(node.life), "messages_per_s": rates.messages,
            "bytes_per_s": rates.bytes, "resent_per_s": rates.resent, "dropped_per_s": rates.dropped,
            "waits": show::waits(node, picture.seen.now), "losses": losses, "peers": peers.collect::<Vec<_>>(), "relays_for": relay_values(node),
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
        // The node that they are peers of stands above them.
        let mut rows = peer_rows(picture, node);
        rows.iter_mut().for_each(|row| row[0].clear());
        let mut heads = PEER_HEADS;
        heads[0] = "";
        let widths = columns(heads, &rows, [1, 3]);
        let title = format!(" peers of {} ", show::node(node));
        let list = Table::new(rows.into_iter().map(Row::new), widths)
            .header(Row::new(heads).style(head))
            .block(Block::bordered().title(title));
        frame.render_widget(list, middle);
        let text = Paragraph::new(losses_line(node)).wrap(ratatui::widgets::Wrap { trim: true });
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
