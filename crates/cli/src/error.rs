//! How `emp` ends: 0 done, 1 something broke, 2 the user asked for what cannot be had, or the
//! code of the command that was run on the user's behalf.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use emp_host::BuildError;

/// A mistake the user can mend. It is shown as one helpful line and ends with exit code 2.
///
/// Make one with [`user_error`], or with `bail_user!` as one would use `anyhow::bail!`.
#[derive(Debug)]
pub struct UserError(String);

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UserError {}

/// A [`UserError`] as the error every subcommand returns.
pub fn user_error(message: impl Into<String>) -> anyhow::Error {
    UserError(message.into()).into()
}

/// Returns from the function with a [`UserError`] made from a format string.
#[macro_export]
macro_rules! bail_user {
    ($($message:tt)*) => {
        return Err($crate::error::user_error(format!($($message)*)))
    };
}

/// The command run for the user ended with this status, which becomes ours. Nothing is printed.
#[derive(Debug)]
pub struct PassThrough(pub ExitStatus);

impl fmt::Display for PassThrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the command ended with {}", self.0)
    }
}

impl std::error::Error for PassThrough {}

/// Whoever read our output wants no more of it.
#[derive(Debug)]
struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output is closed")
    }
}

impl std::error::Error for ReaderGone {}

/// Prints to standard output; a reader that went away (`emp … | head`) is an error that
/// [`report`] keeps quiet about, where `println!` would panic.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What came of writing to standard output, likewise.
pub fn printed<T>(written: io::Result<T>) -> anyhow::Result<T> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        written => Ok(written?),
    }
}

/// Says in one line what should be known though the program goes on.
pub fn warn(text: &str) {
    // As in `report`.
    let _ = writeln!(io::stderr(), "emp: {text}");
}

/// Tells the user why the program ends, in one line, and chooses the exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(PassThrough(status)) = error.downcast_ref() {
        return ExitCode::from(shell_code(*status));
    }
    // Not every broken pipe: a peer that breaks a connection must not look like success.
    if error.is::<ReaderGone>() {
        return ExitCode::SUCCESS;
    }
    // Standard error may be closed too; then there is nobody left to tell.
    let _ = writeln!(io::stderr(), "emp: {}", one_line(error));
    let mistaken = error.downcast_ref::<UserError>().is_some()
        || matches!(
            error.downcast_ref::<BuildError>(),
            Some(BuildError::Peers(_) | BuildError::Interfaces(_) | BuildError::Engine(_))
        );
    if mistaken { ExitCode::from(2) } else { ExitCode::from(1) }
}

/// Says in one line what is wrong with the command line (exit code 2), or shows the help that was asked for.
pub fn report_line(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand as NoArguments, DisplayVersion,
    };
    if matches!(error.kind(), DisplayHelp | DisplayVersion | NoArguments) {
        let _ = error.print();
        return ExitCode::from(u8::from(error.kind() == NoArguments) * 2);
    }
    let _ = writeln!(io::stderr(), "emp: {}", condense(&error.render().to_string()));
    ExitCode::from(2)
}

/// The paragraphs of a complaint about the command line as one line.
fn condense(complaint: &str) -> String {
    let paragraphs = complaint.split("\n\n").map(|text| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = text.trim_start_matches("error: ");
        text.strip_prefix("Usage:").map_or_else(|| text.to_owned(), |line| format!("usage:{line}"))
    });
    let told =
        paragraphs.filter(|text| !text.is_empty() && !text.starts_with("For more information"));
    told.collect::<Vec<_>>().join("; ")
}

/// The exit code a shell would show for `status`: 128 + n for a death by signal n.
fn shell_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_user_error_is_found_under_context_and_shown_on_one_line() {
        let error = Err::<(), _>(user_error("no such\nhost")).context("lab").unwrap_err();
        assert!(error.downcast_ref::<UserError>().is_some());
        assert_eq!(one_line(&error), "lab: no such host");
    }

    #[test]
    fn a_broken_connection_is_no_success() {
        let broken = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(report(&broken.context("TCP connection")), ExitCode::from(1));
        assert_eq!(report(&anyhow::Error::from(ReaderGone)), ExitCode::SUCCESS);
    }

    #[test]
    fn a_complaint_about_the_command_line_is_one_line() {
        let long = "error: the following required arguments were not provided:\n  <HOST>\n\n\
                    Usage: emp lab exec <HOST>\n\nFor more information, try '--help'.\n";
        let short = "the following required arguments were not provided: <HOST>; \
                     usage: emp lab exec <HOST>";
        assert_eq!(condense(long), short);
    }

    #[test]
    fn exit_codes_follow_the_shell() {
        assert_eq!(shell_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(shell_code(ExitStatus::from_raw(9)), 137);
    }
}
