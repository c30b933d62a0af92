//! `emp bench listen`: does the other half of whatever clients order, one client after the other.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use super::control::{self, Answer, Control, Request};
use super::named::first_of;
use super::subject::{self, Card, Named, Place, Role, Subject};
use crate::error::{UserError, print};
use crate::{bail_user, error};

/// Do the other half for `emp bench PATTERN PEER` on another host.
///
/// The two ends agree over a TCP connection on what to do, so both hosts need an IP address, whatever link is measured.
#[derive(clap::Args)]
pub struct Args {
    /// Address to wait at [default: every address].
    #[arg(long)]
    bind: Option<IpAddr>,
    /// TCP port to wait at.
    #[arg(long, default_value_t = control::PORT_DEFAULT)]
    port: u16,
    /// Network interface of the packet link [default: the one that owns the address the client asked for].
    #[arg(long)]
    interface: Option<String>,
    /// Interfaces that EMP uses together: see `emp bench pingpong --help`.
    #[arg(long, value_name = "INTERFACES", value_delimiter = ',', conflicts_with = "interface")]
    interfaces: Vec<String>,
    /// Other interfaces that lead to the clients: see `emp bench pingpong --help`.
    #[arg(long, value_name = "INTERFACES", value_delimiter = ',')]
    spare_interface: Vec<String>,
    /// Leave it to the clients to say what went wrong with them.
    #[arg(long)]
    quiet: bool,
}

/// A client says hello at once; a connection that says nothing for so long is none.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// The longest that a client may be silent between two orders. One order follows the other, unless its user has stopped it
/// or its host has lost power; a client that comes back later is told so and can start again.
const SILENCE_LIMIT: Duration = Duration::from_secs(600);

/// What is printed before the address when clients may come.
pub const GREETING: &str = "listening on";

/// Runs `emp bench listen`.
pub fn run(args: Args) -> anyhow::Result<()> {
    for name in args.interface.iter().chain(&args.interfaces).chain(&args.spare_interface) {
        Place::named(name)?;
    }
    let listener = bind(args.bind, args.port)?;
    print(&format!("{GREETING} {}\n", listener.local_addr()?))?;
    loop {
        let (stream, client) = listener.accept()?;
        // The connection goes with the session, so that a client learns of a failure here at once.
        let ended = Control::new(stream).and_then(|control| serve(control, &args));
        if let (Err(problem), false) = (ended, args.quiet) {
            eprintln!("emp: {client}: {problem:#}");
        }
    }
}

fn bind(address: Option<IpAddr>, port: u16) -> anyhow::Result<TcpListener> {
    // The unspecified IPv6 address takes IPv4 clients too, where there is IPv6 at all.
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    let chosen = match address {
        Some(address) => TcpListener::bind(SocketAddr::new(address, port)),
        None => TcpListener::bind(any).or_else(|_| TcpListener::bind(("0.0.0.0", port))),
    };
    match chosen {
        Ok(listener) => Ok(listener),
        Err(problem) => {
            bail_user!("can't listen at port {port}: {problem}; choose another with --port")
        }
    }
}

/// Serves one client until it goes away.
fn serve(mut control: Control, args: &Args) -> anyhow::Result<()> {
    let ended = session(&mut control, args);
    if let Err(problem) = &ended {
        let user = problem.downcast_ref::<UserError>().is_some();
        // The client may be gone already; then there is nobody to tell.
        let _ = control.send(&Answer::Refused { reason: format!("{problem:#}"), user });
    }
    ended
}

fn session(control: &mut Control, args: &Args) -> anyhow::Result<()> {
    // Others wait behind this client: it must speak soon, and go on.
    control.patience(HELLO_LIMIT)?;
    let hello = control.next()?;
    control.patience(SILENCE_LIMIT)?;
    let Some(Request::Hello { version, end, mtu }) = hello else {
        return Err(error::user_error("a client went away, or did not say hello"));
    };
    control::check_version(version)?;
    let (first, together) = first_of(&args.interface, &args.interfaces)?;
    let named = first.is_some();
    let interfaces = Named { first, together, spares: args.spare_interface.clone() };
    let mut place = Place::find(control.addresses()?, &interfaces, mtu)?;
    place.follow(&end, named)?;
    let own = place.end()?;
    place.meet(&own, &end);
    control.send(&Answer::Here(own))?;
    let (specs, cards) = match control.next()? {
        Some(Request::Open { specs, cards }) => (specs, cards),
        // Whoever can't open its own half has learned that meanwhile, and says so there.
        None => return Ok(()),
        Some(_) => bail_user!("a client asked for work before it said what is to be opened"),
    };
    let openings = subject::open_all(&specs, &place, Role::Passive)?;
    let own: Vec<Card> = openings.iter().map(|opening| opening.card()).collect();
    control.send(&Answer::Welcome { cards: own })?;
    let pairs = openings.into_iter().zip(&cards);
    let mut subjects: Vec<Box<dyn Subject>> =
        pairs.map(|(opening, card)| opening.connect(card)).collect::<Result<_, _>>()?;
    while let Some(request) = control.next()? {
        answer(control, &mut subjects, request)?;
    }
    Ok(())
}

fn answer(
    control: &mut Control,
    subjects: &mut [Box<dyn Subject>],
    request: Request,
) -> anyhow::Result<()> {
    match request {
        Request::Run { subject, job } => {
            let subject = known(subjects, subject)?;
            subject.prepare(Role::Passive, &job)?;
            control.send(&Answer::Ready)?;
            let before = subject.copied();
            subject.passive(&job)?;
            subject.leave_memory(&job);
            let copied = subject.copied().zip(before).map(|(after, before)| after - before);
            control.send(&Answer::Done { copied })
        }
        Request::Play { subject, script } => {
            let mut calls = known(subjects, subject)?.calls(&script)?;
            script.prepare(&mut *calls)?;
            control.send(&Answer::Ready)?;
            script.passive(&mut *calls)?;
            control.send(&Answer::Done { copied: None })
        }
        Request::Verify { subject, plan } => {
            let subject = known(subjects, subject)?;
            control.send(&Answer::Ready)?;
            let tally = subject.verify(&plan, Role::Passive)?;
            control.send(&Answer::Verified(tally))
        }
        Request::Hello { .. } | Request::Open { .. } => {
            bail_user!("a client said hello twice, or opened twice")
        }
    }
}

fn known(subjects: &mut [Box<dyn Subject>], index: usize) -> anyhow::Result<&mut Box<dyn Subject>> {
    match subjects.get_mut(index) {
        Some(subject) => Ok(subject),
        None => bail_user!("a client asked for subject {index}, which it did not name before"),
    }
}
