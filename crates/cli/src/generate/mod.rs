//! `emp generate`: manual pages and completions, made from the command line's own definition and from the guide, so that none of
//! them can say what the program does not.

mod commands;
mod exit_status;
mod markdown;
mod page;
mod topics;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_complete::Shell;

use self::page::Page;
use crate::error::print;

/// Options of `emp generate`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Write the manual pages of `emp` and its subcommands, emp(7), emp-fi(7) and empd(8).
    Man {
        /// Where man1, man7 and man8 are, or will be.
        directory: PathBuf,
    },
    /// Write what makes a shell complete `emp`'s subcommands and options to standard output.
    Completions {
        /// Whose.
        shell: Shell,
    },
}

/// Runs the subcommand, of this command line.
pub fn run(args: &Args, command: clap::Command) -> anyhow::Result<()> {
    match &args.what {
        What::Man { directory } => write_pages(&pages(command), directory),
        What::Completions { shell } => print(&completions(command, *shell)),
    }
}

fn pages(command: clap::Command) -> Vec<Page> {
    let mut pages = commands::pages(command);
    pages.extend(topics::pages());
    pages
}

fn write_pages(pages: &[Page], directory: &Path) -> anyhow::Result<()> {
    for page in pages {
        let directory = directory.join(format!("man{}", page.section));
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let file = directory.join(format!("{}.{}", page.name, page.section));
        fs::write(&file, &page.text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn completions(mut command: clap::Command, shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "emp", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> clap::Command {
        use clap::CommandFactory;
        crate::with_negative_numbers(crate::Cli::command())
    }

    #[test]
    fn each_command_has_a_page_and_hidden_ones_have_none() {
        let pages = pages(command());
        let named = |name: &str| pages.iter().filter(|page| page.name == name).count();
        for name in ["emp", "emp-lab", "emp-lab-up", "emp-bench", "emp-bench-pingpong", "emp-sim"] {
            assert_eq!(named(name), if name == "emp" { 2 } else { 1 }, "{name}");
        }
        assert_eq!(named("emp-fi"), 1);
        for name in ["emp-generate", "emp-fi-probe", "emp-help", "emp-lab-help"] {
            assert_eq!(named(name), 0, "{name}");
        }
        for page in &pages {
            for heading in ["NAME", "DESCRIPTION", "SEE ALSO"] {
                let line = format!(".SH {heading}\n").replace("SEE ALSO", "\"SEE ALSO\"");
                assert!(page.text.contains(&line), "{}({}) {heading}", page.name, page.section);
            }
            let title = page.text.lines().find(|line| line.starts_with(".TH ")).unwrap_or_default();
            assert!(title.ends_with("\"Ethernet Message Passing\""), "{title}");
            let bad = page.text.lines().find(|line| line.starts_with('\''));
            assert_eq!(bad, None, "a line of text that roff takes for a request");
        }
    }

    #[test]
    fn a_page_refers_only_to_pages_that_are_there() {
        let pages = pages(command());
        // Those of the faces, and of others' packages, are written by hand.
        let others = "myriexpress(3) vipl(3) vmmc(3) fabric(7) fi_info(1) mpirun(1) tshark(1) setcap(8) \
             systemd.socket(5) packet(7)";
        for page in &pages {
            let Some((_, list)) = page.text.split_once(".SH \"SEE ALSO\"\n") else { continue };
            for word in list.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-").split(',')
            {
                let word = word.trim();
                let there =
                    pages.iter().any(|page| word == format!("{}({})", page.name, page.section));
                assert!(there || others.split(' ').any(|other| other == word), "{word:?}");
            }
        }
    }

    #[test]
    fn shells_complete_subcommands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = completions(command(), shell);
            for word in ["pingpong", "doctor", "mpirun", "topology"] {
                assert!(text.contains(word), "{shell}: {word}");
            }
        }
    }
}
