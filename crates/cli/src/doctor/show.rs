//! The report as text: never wider than a terminal, coloured only on one.

use super::interfaces::{Interface, Kind, Offloads};
use super::report::Report;
use super::rung::Rung;
use crate::finding::{Finding, Mark};

/// Columns of the whole report.
const WIDTH: usize = 100;

/// Columns a name takes: the longest of our findings' names, and of interface names (15).
const NAME_WIDTH: usize = 17;

/// Columns before the value: indent, mark, name, and the spaces between.
const VALUE_COLUMN: usize = 2 + 4 + 1 + NAME_WIDTH + 1;

/// Microseconds that a card may hold a frame back before it is worth a word: about a message's time.
const TOLERABLE_DELAY: u32 = 3;

/// The report for a person.
pub fn text(report: &Report, colour: bool) -> String {
    let mut page = Page { text: String::new(), colour };
    for (title, findings) in [
        ("privilege", &report.privilege),
        ("kernel", &report.kernel),
        ("CPU", &report.cpu),
        ("network", &report.network),
        ("left behind", &report.left_behind),
    ] {
        page.title(title);
        findings.iter().for_each(|finding| page.finding(finding));
    }
    page.title("interfaces");
    report.interfaces.iter().for_each(|interface| page.finding(&describe(interface)));
    page.title("what auto takes");
    report.rungs.iter().for_each(|rung| page.finding(&verdict(rung)));
    page.title("MPI");
    report.mpi.iter().for_each(|finding| page.finding(finding));
    page.text
}

/// Findings under one title.
pub fn findings(title: &str, findings: &[Finding], colour: bool) -> String {
    let mut page = Page { text: String::new(), colour };
    page.title(title);
    findings.iter().for_each(|finding| page.finding(finding));
    page.text
}

fn describe(interface: &Interface) -> Finding {
    let mut parts = vec![interface.state.clone()];
    parts.extend(interface.mtu.map(|mtu| format!("MTU {mtu}")));
    parts.extend(interface.speed.map(|speed| format!("{speed} Mb/s")));
    parts.extend(interface.driver.as_ref().map(|driver| format!("driver {driver}")));
    parts.push(format!("{} rx {} tx queues", interface.receive_queues, interface.send_queues));
    if interface.kind != Kind::Loopback {
        parts.extend(offloads(&interface.offloads));
    }
    let addresses = interface.addresses.iter().map(ToString::to_string);
    parts.extend(addresses);
    let value = parts.join(", ");
    let (name, offloads) = (&interface.name, &interface.offloads);
    let mut advice = Vec::new();
    if offloads.lro == Some(true) {
        advice.push(format!("sudo ethtool -K {name} lro off"));
    }
    if let Some(delay) = offloads.receive_delay.filter(|delay| *delay > TOLERABLE_DELAY) {
        advice.push(format!(
            "sudo ethtool -C {name} adaptive-rx off rx-usecs 0: a frame waits up to {delay} µs for others before its interrupt \
             (more interrupts take CPU time)"
        ));
    }
    match advice.as_slice() {
        [] if interface.running => Finding::ok(name, value),
        [] => Finding::note(name, value),
        advice => Finding::warn(name, value, advice.join("; ")),
    }
}

fn offloads(offloads: &Offloads) -> impl Iterator<Item = String> {
    let switches = [
        ("GRO", offloads.gro),
        ("GSO", offloads.gso),
        ("TSO", offloads.tso),
        ("LRO", offloads.lro),
    ];
    let switches = switches
        .into_iter()
        .filter_map(|(name, on)| on.map(|on| format!("{name} {}", if on { "on" } else { "off" })));
    switches.chain(offloads.receive_delay.map(|delay| format!("rx-usecs {delay}")))
}

fn verdict(rung: &Rung) -> Finding {
    let value = format!("{}: {}", rung.link.unwrap_or("none"), rung.reason);
    let mark = match (rung.link, &rung.better) {
        (None, _) => Mark::Note,
        (Some(_), Some(_)) => Mark::Warn,
        (Some(_), None) => Mark::Ok,
    };
    Finding { name: rung.interface.clone(), mark, value, advice: rung.better.clone() }
}

struct Page {
    text: String,
    colour: bool,
}

impl Page {
    fn title(&mut self, title: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let (bold, plain) = if self.colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        self.text += &format!("{gap}{bold}{title}{plain}\n");
    }

    fn finding(&mut self, finding: &Finding) {
        let (colour, mark) = match finding.mark {
            Mark::Ok => ("\x1b[32m", "ok"),
            Mark::Warn => ("\x1b[33m", "warn"),
            Mark::Note => ("", ""),
        };
        let (colour, plain) =
            if self.colour && !colour.is_empty() { (colour, "\x1b[0m") } else { ("", "") };
        let mut lines = wrap(&finding.value, WIDTH - VALUE_COLUMN).into_iter();
        let first = lines.next().unwrap_or_default();
        let name = &finding.name;
        self.text += &format!("  {colour}{mark:<4}{plain} {name:<NAME_WIDTH$} {first}\n");
        let advice = finding.advice.iter().flat_map(|advice| arrow(advice));
        for line in lines.chain(advice) {
            self.text += &format!("{:VALUE_COLUMN$}{line}\n", "");
        }
    }
}

fn arrow(advice: &str) -> Vec<String> {
    let lines = wrap(advice, WIDTH - VALUE_COLUMN - 3).into_iter().enumerate();
    lines.map(|(nth, line)| format!("{} {line}", if nth == 0 { "->" } else { "  " })).collect()
}

/// Breaks at spaces. A word wider than a line has one to itself: a command must stay whole to be
/// copied.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { continue };
        let used = line.chars().count();
        if used == 0 {
            line.push_str(word);
        } else if used + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(colour: bool, finding: &Finding) -> String {
        let mut page = Page { text: String::new(), colour };
        page.finding(finding);
        page.text
    }

    #[test]
    fn lines_stay_within_the_width_and_aligned() {
        let long = "word ".repeat(60);
        let text = page(false, &Finding::warn("name", long.clone(), long));
        assert!(text.lines().count() > 6);
        for (nth, line) in text.lines().enumerate() {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert!(nth == 0 || line.starts_with(&" ".repeat(VALUE_COLUMN)));
        }
        assert_eq!(text.matches("->").count(), 1);
    }

    #[test]
    fn colour_only_when_asked() {
        let finding = Finding::ok("name", "value");
        assert!(!page(false, &finding).contains('\x1b'));
        assert!(page(true, &finding).contains("\x1b[32mok  \x1b[0m"));
    }

    #[test]
    fn wrapping_keeps_every_word() {
        assert_eq!(wrap("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrap("toolongword a", 4), ["toolongword", "a"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
