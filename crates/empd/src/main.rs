//! The service's program.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use emp_link::{interfaces, service};
use empd::config::Config;
use empd::door::{Door, Listening};
use empd::succession::{self, Predecessor};
use empd::switch::{Lanes, Options};
use empd::{log, privilege, supervisor};

/// The exit status of a service that was asked for what can't be.
const MISUSED: u8 = 2;

/// Owns raw links for programs that may not open them: lends sockets to whom the configuration names, and moves the frames of others.
#[derive(Debug, Parser)]
#[command(name = "empd", version)]
struct Arguments {
    /// Configuration file [default: /etc/emp/empd.toml, if it is there].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen, whatever the configuration says.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Take the place of the service that listens there, which goes on with the clients that it has; if there is none, just listen.
    #[arg(long)]
    replace: bool,
    /// Look whether the configuration is sound, say what it means, and end.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.check {
        return check(&arguments);
    }
    let prepared = match prepare(&arguments) {
        Ok(prepared) => prepared,
        Err(problem) => {
            log::say(&problem);
            return ExitCode::from(MISUSED);
        }
    };
    match serve(prepared) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::say(&format!("it can't go on: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Says what the configuration means, or what is wrong with it, and changes nothing.
fn check(arguments: &Arguments) -> ExitCode {
    let found = sound(arguments).and_then(|config| {
        Listening::may_be_at(&config.socket)?;
        Ok(meaning(&config))
    });
    let meaning = match found {
        Ok(meaning) => meaning,
        Err(problem) => {
            log::say(&problem);
            return ExitCode::from(MISUSED);
        }
    };
    match writeln!(std::io::stdout(), "{meaning}") {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read it has gone, as `head` does: it has what it wanted.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            log::say(&format!("writing to standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The configuration, with what the command line says, if what it names is there.
fn sound(arguments: &Arguments) -> Result<Config, String> {
    let mut config = Config::read(arguments.config.as_deref())?;
    if let Some(path) = &arguments.socket {
        config.socket.clone_from(path);
    }
    config.socket = service::here(&config.socket);
    known(&config)?;
    if let Some(name) = &config.user {
        privilege::user(name)?;
    }
    Ok(config)
}

/// What it serves with.
struct Prepared {
    config: Config,
    listening: Listening,
    predecessor: Option<Predecessor>,
}

/// All that can be wrong with how it was started is found out here.
fn prepare(arguments: &Arguments) -> Result<Prepared, String> {
    // Before anything else opens descriptors.
    let handed = supervisor::socket()?;
    let config = sound(arguments)?;
    let handed = handed.filter(|_| arguments.socket.is_none()).map(Listening::handed);
    let confine = || privilege::confine(config.user.as_deref());
    let there = arguments.replace && handed.is_none() && succession::listens(&config.socket);
    let (listening, predecessor) = if there {
        // Last of all: after it there is no going back, as clients come to this one.
        confine()?;
        match succession::take_over(&config.socket)? {
            Some((listening, predecessor)) => (listening, Some(predecessor)),
            None => (Listening::at(&config.socket)?, None),
        }
    } else {
        // Maybe a place that only root makes.
        let listening = handed.map_or_else(|| Listening::at(&config.socket), Ok)?;
        confine()?;
        (listening, None)
    };
    if !privilege::raise_descriptors(config.limits.connections) {
        let connections = config.limits.connections;
        log::say(&format!(
            "fewer descriptors are allowed (ulimit -n) than {connections} connections take"
        ));
    }
    Ok(Prepared { config, listening, predecessor })
}

/// The interfaces that the configuration names are there.
fn known(config: &Config) -> Result<(), String> {
    let all = interfaces().map_err(|error| format!("listing the interfaces: {error}"))?;
    let unknown = |name: &&String| all.iter().all(|interface| interface.name != **name);
    let Some(name) = config.interfaces.iter().find(unknown) else { return Ok(()) };
    let names: Vec<_> = all.iter().map(|interface| interface.name.as_str()).collect();
    Err(format!("interfaces: there is no interface {name}; there are: {}", names.join(", ")))
}

fn meaning(config: &Config) -> String {
    let interfaces = match config.interfaces.as_slice() {
        [] => "every Ethernet interface".into(),
        some => some.join(", "),
    };
    format!(
        "listens at {}, serves {interfaces}, EtherType {:#06x}; lends to {}; {} may attach",
        config.socket.display(),
        config.ethertype,
        config.lend,
        config.attach,
    )
}

fn serve(Prepared { config, listening, predecessor }: Prepared) -> std::io::Result<()> {
    let (end, told) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, end.try_clone()?)?;
    }
    // A limit of files' lengths (`ulimit -f`) counts memory that is shared, too: a client that gets none is told so, and the others are served.
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
    let meaning = meaning(&config);
    let rate = config.limits.rate();
    let polling = config.polling;
    let options = Options { polling, rate: Box::new(move |_| rate), ..Options::default() };
    let switch = Lanes::new(options).map_err(std::io::Error::other)?;
    let mut door = Door::open(config, listening, switch)?.after(predecessor);
    log::say(&meaning);
    supervisor::ready(&meaning);
    let served = door.serve(told.as_fd());
    supervisor::stopping();
    log::say("it ends");
    served
}

#[cfg(test)]
mod tests {
    use empd::config::CONFIG_PATH;

    use super::*;

    #[test]
    fn the_help_names_the_file_that_is_read() {
        use clap::CommandFactory;
        let help = Arguments::command().render_help().to_string();
        assert!(help.contains(CONFIG_PATH), "{help}");
    }
}
