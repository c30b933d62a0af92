//! The words of the report: what was measured, in a line, in three figures, and in full.

use std::fmt::Write as _;

use super::curves::{Line, best_gbps, bytes_in_words};
use super::escape::escape;
use crate::measured::{Environment, NetpipeRun, SubjectKind, is_loaded};
use crate::report::ratio::Ratio;

/// Title, and where and when.
pub fn head(run: &NetpipeRun) -> String {
    let Environment { date, kernel, mtu, interface, .. } = &run.environment;
    let place = if run.environment.lab {
        "two network namespaces on one machine".to_owned()
    } else if interface == "lo" {
        "both ends on one host, over loopback".to_owned()
    } else {
        format!("two hosts, here over {}", escape(interface))
    };
    format!(
        "<h1>EMP, the bare link and TCP: a NetPIPE report</h1>\n\
         <p class=\"soft\">{place} · MTU {mtu} · kernel {} · {}</p>\n",
        escape(kernel),
        escape(date)
    )
}

/// Latency, throughput and the mean ratio, each with what it is beside.
pub fn cards(lines: &[Line<'_>], ratios: &[Ratio]) -> String {
    let mut cards = String::new();
    let mut card = |title: &str, figure: &str, beside: &str| {
        let _ = writeln!(
            cards,
            "<div><dt>{title}</dt><dd class=\"figure\">{figure}</dd><dd class=\"beside\">{beside}</dd></div>"
        );
    };
    let of = |kind| lines.iter().filter(move |line| line.kind == kind);
    let smallest =
        |line: &&Line<'_>| Some((line.points.first()?.row.one_way_us?, line.name.clone()));
    let latency = of(SubjectKind::Emp).filter_map(|line| smallest(&line)).reduce(less);
    if let (Some((us, name)), Some(first)) =
        (latency, lines.first().and_then(|line| line.points.first()))
    {
        let tcp = of(SubjectKind::Tcp).filter_map(|line| smallest(&line)).next();
        let tcp = tcp.map(|(us, name)| format!("; {name} {us:.2} µs")).unwrap_or_default();
        let title = format!("One way, {}", bytes_in_words(first.bytes()));
        card(&title, &format!("{us:.2} µs"), &escape(&format!("{name}{tcp}")));
    }
    let peak = |line: &Line<'_>| {
        let points = line.points.iter().map(|point| (-best_gbps(point), line.name.clone()));
        points.reduce(less).map(|(gbps, name)| (-gbps, name))
    };
    let peaks = |kind| of(kind).filter_map(peak).map(|(gbps, name)| (-gbps, name)).reduce(less);
    if let Some((gbps, name)) = peaks(SubjectKind::Emp) {
        let tcp = peaks(SubjectKind::Tcp);
        let tcp = tcp.map(|(gbps, name)| format!("; {name} {:.1} Gb/s", -gbps)).unwrap_or_default();
        card(
            "Highest throughput of a ping-pong",
            &format!("{:.1} Gb/s", -gbps),
            &escape(&format!("{name}{tcp}")),
        );
    }
    if let Some(ratio) = ratios.first() {
        let ((at, least), count) = (ratio.least(), ratio.points.len());
        let beside = format!(
            "{}; ahead at {} of {count} sizes, least {least:.2}× at {}",
            ratio.subject,
            ratio.ahead(),
            bytes_in_words(at)
        );
        card("EMP ÷ TCP, geometric mean", &format!("{:.2}×", ratio.mean()), &escape(&beside));
    }
    format!("<dl class=\"cards\">\n{cards}</dl>\n")
}

fn less(a: (f64, String), b: (f64, String)) -> (f64, String) {
    if b.0 < a.0 { b } else { a }
}

/// What a reader must know before believing the figures.
pub fn notes(run: &NetpipeRun) -> String {
    let mut notes = String::new();
    if run.environment.lab {
        notes += "<p class=\"note\">Both ends share one machine and a virtual cable, which shows what software costs and \
                  nothing of a card or a wire. Read the ratios; the figures themselves do not carry over.</p>\n";
    }
    if is_loaded(run.environment.load, run.environment.cores) {
        let _ = writeln!(
            notes,
            "<p class=\"note\">Other programs used this machine when the run began (load {:.1} on {} cores). \
             The figures may be far off.</p>",
            run.environment.load, run.environment.cores
        );
    }
    notes
}

/// The machine, the path and the command.
pub fn environment(run: &NetpipeRun) -> String {
    let facts = &run.environment;
    let list = |words: &[String]| match words {
        [] => "none".to_owned(),
        words => words.join(", "),
    };
    let commit = facts.commit.as_deref().unwrap_or("not recorded in this build");
    let offloads = facts.offloads.as_deref().map_or("the interface does not say".to_owned(), list);
    let all = [
        ("Date", facts.date.clone()),
        ("emp", format!("{}, commit {commit}", facts.version)),
        ("Kernel", facts.kernel.clone()),
        ("CPU", format!("{}, {} cores", facts.cpu, facts.cores)),
        ("Load before the run", format!("{:.2}", facts.load)),
        ("Interface", facts.interface.clone()),
        ("Driver", facts.driver.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("MTU", facts.mtu.to_string()),
        ("Offloads that are on", offloads),
        ("TCP’s congestion control unless chosen", facts.tcp_congestion.clone()),
        ("Links", facts.links.join("; ")),
        ("auto takes", run.auto.clone().unwrap_or_else(|| "not asked".to_owned())),
        ("Trials", format!("{} of {} s for each subject and size", run.trials, run.seconds)),
    ];
    let mut text = "<h2>Environment</h2>\n<dl class=\"facts\">\n".to_owned();
    for (name, fact) in all {
        let _ = writeln!(text, "<dt>{name}</dt><dd>{}</dd>", escape(&fact));
    }
    text += "</dl>\n<h2>Command</h2>\n";
    let _ = writeln!(text, "<pre>{}</pre>", escape(&run.command));
    text
}
