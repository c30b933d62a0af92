//! A page for `emp` and for each of its subcommands, from what their `--help` shows.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::exit_status;
use super::page::{self, Page};

/// One page for each command that is not hidden.
pub fn pages(command: Command) -> Vec<Page> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, None, &mut pages);
    pages
}

/// Adds the pages of a command and of those under it.
fn add(command: &Command, parent: Option<&str>, pages: &mut Vec<Page>) {
    let name = name(command);
    pages.push(page(command, &name, parent));
    for below in shown(command) {
        add(below, Some(&name), pages);
    }
}

/// `emp-lab-up`
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}

fn page(command: &Command, name: &str, parent: Option<&str>) -> Page {
    let man = Man::new(command.clone()).source(page::SOURCE).manual(page::MANUAL);
    let man = man.title(name.to_uppercase()).date(page::date());
    let mut text = Vec::new();
    // A vector takes everything that is written to it.
    let rendered = |part: std::io::Result<()>| part.expect("memory is there");
    rendered(man.render_title(&mut text));
    rendered(man.render_name_section(&mut text));
    rendered(man.render_synopsis_section(&mut text));
    rendered(man.render_description_section(&mut text));
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        rendered(man.render_options_section(&mut text));
    }
    if shown(command).next().is_some() {
        rendered(man.render_subcommands_section(&mut text));
    }
    rendered(ending(command, parent).to_writer(&mut text));
    let text = String::from_utf8_lossy(&text).into_owned();
    Page { name: name.to_owned(), section: 1, text }
}

/// What all pages end with.
fn ending(command: &Command, parent: Option<&str>) -> Roff {
    let mut roff = Roff::new();
    if let Some(more) = command.get_after_long_help().or(command.get_after_help()) {
        roff.control("SH", ["NOTES"]).text([roman(more.to_string())]);
    }
    roff.control("SH", ["EXIT STATUS"]).text([roman(exit_status::of(&name(command)))]);
    roff.control("SH", ["SEE ALSO"]);
    let mut others: Vec<String> = parent.iter().map(|parent| format!("{parent}(1)")).collect();
    others.extend(shown(command).map(|below| format!("{}(1)", name(below))));
    others.push("emp(7)".to_owned());
    for (index, other) in others.iter().enumerate() {
        let (name, section) = other.split_once('(').unwrap_or((other, ""));
        let comma = if index + 1 < others.len() { "," } else { "" };
        roff.text([bold(name), roman(format!("({section}{comma}"))]);
    }
    roff
}
