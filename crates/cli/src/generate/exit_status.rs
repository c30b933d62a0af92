//! What each command's exit status means: section EXIT STATUS of its page. `error.rs` is what does it.

/// Of every command.
const ALL: &str = "0 if it did what was asked for; 1 if something broke; 2 if what was asked for cannot be had, with one line that says why.";

/// Commands, and what their manuals add about exit statuses.
const MORE: [(&[&str], &str); 8] = [
    (
        &["emp-lab-exec", "emp-lab-run", "emp-lab-rsh", "emp-lab-mpirun"],
        "Once the command runs, its status, and 128 and a signal's number if that ended it.",
    ),
    (
        &["emp-bench-verify", "emp-bench-bars", "emp-reproduce", "emp-sim"],
        "1 is also that what was checked does not hold: a byte or number that is wrong, a figure that misses its bar, a seed that fails.",
    ),
    (
        &["emp-nodes", "emp-peers", "emp-counters", "emp-top", "emp-metrics"],
        "0 also if no node runs here. 2 if no node of the name that was given is there or may be seen, or if the file that was named is cut, of another \
         version, or no state file; of files that were not named, each such is a line on standard error.",
    ),
    (
        &["emp-why", "emp-route"],
        "0 whatever is found out. 2 if no node that may be seen has anything to do with such a peer, or if the file that was named is cut, of another version, \
         or no state file.",
    ),
    (
        &["emp-doctor"],
        "0 whatever is found: findings that are marked warn are for people, and for programs with --json. 2 also if the host of --peer cannot be reached, or \
         is no emp doctor --listen.",
    ),
    (
        &["emp-capture"],
        "1 is also a full disk: the file then ends with a whole frame. 2 is also an interface that is not there, a file that cannot be made, and no \
         CAP_NET_RAW.",
    ),
    (
        &["emp-trace"],
        "2 is also a file that is no capture of emp's, or is cut: what was before that is written.",
    ),
    (&["emp-relay"], "0 after SIGINT or SIGTERM."),
];

/// Of the command of this page.
pub fn of(page: &str) -> String {
    let more = MORE.iter().filter(|(pages, _)| pages.contains(&page)).map(|(_, text)| *text);
    std::iter::once(ALL).chain(more).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that is named here and is not there would have its text lost.
    #[test]
    fn each_command_that_is_named_has_a_page() {
        use clap::CommandFactory;
        let pages = super::super::pages(crate::with_negative_numbers(crate::Cli::command()));
        for page in MORE.iter().flat_map(|(pages, _)| *pages) {
            assert!(pages.iter().any(|it| it.section == 1 && it.name == *page), "{page}");
        }
        for page in pages.iter().filter(|page| page.section != 7) {
            let text = page.text.to_uppercase();
            assert!(text.contains(".SH \"EXIT STATUS\"\n"), "{}({})", page.name, page.section);
        }
        assert!(of("emp-why").starts_with(ALL) && of("emp-why").contains("such a peer"));
        assert_eq!(of("emp-lab"), ALL);
    }
}
