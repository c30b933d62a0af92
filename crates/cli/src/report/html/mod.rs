//! The report of `emp bench netpipe`: one page that needs nothing beside it, no script, no other file; readable in light
//! and dark and on paper.

mod chart;
mod curves;
mod escape;
mod facts;
mod tables;

use self::escape::escape;
use super::ratio;
use crate::measured::{CONGESTION_NAMES, NetpipeRun};

/// Everything about how it looks; the colours of the curves too.
const STYLE: &str = include_str!("style.css");

/// The whole page.
pub fn page(run: &NetpipeRun) -> String {
    let lines = curves::lines(&run.results);
    let ratios = ratio::all(&run.results);
    let mtu = run.environment.mtu;
    let mut body = facts::head(run);
    body += &facts::cards(&lines, &ratios);
    body += &facts::notes(run);
    body +=
        &section("Throughput", &curves::throughput(&lines, mtu).svg(), &explain_throughput(run));
    body += &section("Signature", &curves::signature(&lines).svg(), SIGNATURE);
    if !ratios.is_empty() {
        body += &section("EMP ÷ TCP", &curves::ratio(&ratios, &lines, mtu).svg(), RATIO);
    }
    body += &tables::table(&lines, &ratios);
    body += &tables::every_size(&lines);
    body += &facts::environment(run);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>EMP NetPIPE report, MTU {mtu}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

const SIGNATURE: &str = "Throughput over the time of one message. The left end of a curve is its latency. It rises steeply \
                         while more bytes take hardly more time, and flattens where they take as much more.";

const RATIO: &str = "EMP’s throughput as a multiple of spinning TCP’s at the same size, of medians; TCP’s under whichever \
                     congestion control it was faster. Above the line at 1 EMP \
                     is faster. The dotted line is the geometric mean over all sizes.";

fn explain_throughput(run: &NetpipeRun) -> String {
    format!(
        "Ping-pong: bytes divided by half a round trip. Lines are medians of {} trials, the bands reach up to the best trial. \
         Broken lines are bare links: frames without any protocol, where nothing is resent.{}",
        run.trials,
        explain_congestion(run)
    )
}

/// What TCP ran under, if it took part.
fn explain_congestion(run: &NetpipeRun) -> String {
    let mut names: Vec<&str> =
        run.results.iter().filter_map(|point| point.row.congestion.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => String::new(),
        names => format!(
            " TCP was measured under each congestion control that is to be had of {}; its line is the faster one at each size: {} \
             here, named in the tables.",
            CONGESTION_NAMES.join(" and "),
            escape(&names.join(" or "))
        ),
    }
}

fn section(title: &str, picture: &str, caption: &str) -> String {
    format!(
        "<h2>{title}</h2>\n<figure>\n<div class=\"picture\">\n{picture}</div>\n<figcaption>{caption}</figcaption>\n</figure>\n"
    )
}

#[cfg(test)]
mod tests;
