//! How the two ends agree on what to do next: one JSON value a line over a TCP connection.
//!
//! Each end says where it is, so that both choose the same links; the client opens its subjects and says so, the listener
//! opens the same and answers; then the client orders slices of work one at a time. While a slice runs the connection is
//! silent, so it disturbs nothing.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::calls::Script;
use super::job::{Job, Spec};
use super::lifeline::{self, Lost};
use super::subject::{Card, End};
use super::verify;
use crate::{bail_user, error};

/// TCP port of the control connection: the one after EMP's own UDP port.
pub const PORT_DEFAULT: u16 = emp_wire::UDP_PORT_DEFAULT + 1;

/// Both ends must speak the same version of this protocol, or they would measure different things.
const VERSION: u32 = 6;

/// Bytes of a line. The longest names all subjects, under 4 KB.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// How long to try to reach the peer.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// What a client asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// First of all.
    Hello {
        /// See [`VERSION`].
        version: u32,
        /// Where the client is. (Other versions leave it out; they are told so by the version.)
        #[serde(default)]
        end: End,
        /// Largest link frame to use, if it is to be less than the link's.
        mtu: Option<usize>,
    },
    /// Open subjects.
    Open {
        /// Which, in the order that `Run` counts them.
        specs: Vec<Spec>,
        /// What the client opened for each.
        cards: Vec<Card>,
    },
    /// Do the other half of a job.
    Run {
        /// Which subject.
        subject: usize,
        /// The job.
        job: Job,
    },
    /// Do the other half of a script.
    Play {
        /// Which subject.
        subject: usize,
        /// The script.
        script: Script,
    },
    /// Do the other half of a verify run.
    Verify {
        /// Which subject.
        subject: usize,
        /// How.
        plan: verify::Plan,
    },
}

/// What a listener answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To a hello: where the listener is.
    Here(End),
    /// The subjects are open.
    Welcome {
        /// What the listener opened for each.
        cards: Vec<Card>,
    },
    /// Buffers are there and receives are posted: go.
    Ready,
    /// The other half is done.
    Done {
        /// User-space bytes that this end copied for a job, where that is counted.
        copied: Option<u64>,
    },
    /// The other half of a verify run is done.
    Verified(verify::Tally),
    /// It can't be done.
    Refused {
        /// Why, in one line.
        reason: String,
        /// The user can mend it.
        user: bool,
    },
}

/// The other end said nothing for so long although it was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent(pub Duration);

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the other end said nothing for {} s", self.0.as_secs())
    }
}

impl std::error::Error for Silent {}

/// An end of the control connection.
pub struct Control {
    reader: BufReader<TcpStream>,
    /// How long to wait for a value.
    limit: Option<Duration>,
    /// The same connection, looked at while subjects are waited for.
    _lifeline: Rc<TcpStream>,
}

impl Control {
    /// Reaches the listener at `peer`, a name or address with an optional port.
    pub fn connect(peer: &str) -> anyhow::Result<Self> {
        let mut refused = None;
        for address in resolve(peer)? {
            match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
                Ok(stream) => return Self::new(stream),
                Err(problem) => refused = Some((address, problem)),
            }
        }
        match refused {
            Some((at, problem)) if problem.kind() == ErrorKind::ConnectionRefused => {
                bail_user!("nobody listens at {at}; run `emp bench listen` on {peer} first")
            }
            Some((at, problem)) => bail_user!("{peer} ({at}) can't be reached: {problem}"),
            None => bail_user!("the name {peer} has no address"),
        }
    }

    /// Takes a connection that is there.
    pub fn new(stream: TcpStream) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        let lifeline = Rc::new(stream.try_clone()?);
        lifeline::hold(&lifeline);
        Ok(Self { reader: BufReader::new(stream), limit: None, _lifeline: lifeline })
    }

    /// Bounds the wait for each value.
    pub fn patience(&mut self, limit: Duration) -> anyhow::Result<()> {
        self.limit = Some(limit);
        Ok(self.reader.get_ref().set_read_timeout(self.limit)?)
    }

    /// The addresses of this end and of the other.
    pub fn addresses(&self) -> anyhow::Result<(IpAddr, IpAddr)> {
        let stream = self.reader.get_ref();
        Ok((stream.local_addr()?.ip().to_canonical(), stream.peer_addr()?.ip().to_canonical()))
    }

    /// Sends one value.
    pub fn send(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line).map_err(|problem| self.explain(problem))
    }

    /// What a failure of the connection means.
    fn explain(&self, problem: io::Error) -> anyhow::Error {
        match (problem.kind(), self.limit) {
            (ErrorKind::BrokenPipe | ErrorKind::ConnectionReset, _) => Lost::Ended.into(),
            (ErrorKind::WouldBlock | ErrorKind::TimedOut, Some(limit)) => Silent(limit).into(),
            _ => anyhow::Error::new(problem).context("control connection"),
        }
    }

    /// The next value; `None` if the other end is gone.
    pub fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        let mut line = String::new();
        let read = self.reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        if read.map_err(|problem| self.explain(problem))? == 0 {
            return Ok(None);
        }
        let value = serde_json::from_str(&line);
        value.map(Some).context("the other end does not speak this version of emp bench")
    }

    /// Asks, and gets the answer or the reason why not.
    pub fn ask(&mut self, request: &Request) -> anyhow::Result<Answer> {
        self.send(request)?;
        self.answer()
    }

    /// The next answer, or the reason why there is none.
    pub fn answer(&mut self) -> anyhow::Result<Answer> {
        match self.next()? {
            None => Err(Lost::Ended.into()),
            Some(Answer::Refused { reason, user: true }) => {
                Err(error::user_error(format!("the other end says: {reason}")))
            }
            Some(Answer::Refused { reason, user: false }) => bail!("the other end says: {reason}"),
            Some(answer) => Ok(answer),
        }
    }
}

/// The first request of a session.
pub fn hello(end: End, mtu: Option<usize>) -> Request {
    Request::Hello { version: VERSION, end, mtu }
}

/// Checks that both ends mean the same.
pub fn check_version(version: u32) -> anyhow::Result<()> {
    if version != VERSION {
        bail_user!(
            "this emp bench speaks version {VERSION}, the other {version}; install the same emp on both"
        );
    }
    Ok(())
}

/// Host and port, as `name`, `name:port`, an address, or `[address]:port`; that of IPv6 with its interface if it is link-local
/// (`fe80::1%eth0`).
fn resolve(peer: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let bare_v6 = peer.split('%').next().is_some_and(|front| front.matches(':').count() > 1);
    let (host, port) = match peer.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or(port))),
        // A bare IPv6 address has colons too.
        None if bare_v6 => (peer, None),
        None => peer.split_once(':').map_or((peer, None), |(host, port)| (host, Some(port))),
    };
    let port = match port.map_or(Ok(PORT_DEFAULT), str::parse) {
        Ok(port) => port,
        Err(_) => bail_user!("{peer} names no port (1 to 65535) behind its colon"),
    };
    match (host, port).to_socket_addrs() {
        Ok(addresses) => Ok(addresses.collect()),
        Err(problem) => bail_user!("no host is known as {host}: {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserError;

    #[test]
    fn peers_are_names_addresses_and_ports() {
        let one = |peer| resolve(peer).unwrap()[0].to_string();
        assert_eq!(one("10.77.0.2"), "10.77.0.2:51967");
        assert_eq!(one("10.77.0.2:9"), "10.77.0.2:9");
        assert_eq!(one("::1"), "[::1]:51967");
        assert_eq!(one("[::1]:9"), "[::1]:9");
        assert_eq!(one("[::1]"), "[::1]:51967");
        for (peer, port) in [("fe80::1%lo", 51_967), ("[fe80::1%lo]:9", 9)] {
            let SocketAddr::V6(there) = resolve(peer).unwrap()[0] else { panic!("{peer}") };
            assert_eq!(
                (there.ip().to_string(), there.scope_id(), there.port()),
                ("fe80::1".into(), 1, port)
            );
        }
        let error = |peer| {
            let error = resolve(peer).unwrap_err();
            assert!(error.is::<UserError>());
            error.to_string()
        };
        assert!(
            error("no.such.host.invalid").contains("no host is known as no.such.host.invalid:")
        );
        assert!(error("fe80::1%no-such-card").contains("no host is known as fe80::1%no-such-card"));
        assert!(error("host:http").contains("names no port"));
    }

    #[test]
    fn a_missing_listener_is_the_users_to_mend() {
        // A port that was just free: bound, learned, released.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = Control::connect(&free.to_string()).err().unwrap();
        assert!(error.is::<UserError>());
        assert!(error.to_string().contains("emp bench listen"), "{error}");
    }

    #[test]
    fn the_hello_of_another_version_is_understood_as_far_as_its_version() {
        let before = r#"{"Hello":{"version":5,"specs":[],"cards":[],"mtu":null}}"#;
        let Request::Hello { version, .. } = serde_json::from_str(before).unwrap() else {
            panic!()
        };
        assert!(check_version(version).unwrap_err().to_string().contains("speaks version 6"));
    }

    #[test]
    fn whoever_stays_silent_is_waited_for_so_long_and_no_longer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut control = Control::connect(&listener.local_addr().unwrap().to_string()).unwrap();
        let limit = Duration::from_millis(20);
        control.patience(limit).unwrap();
        let error = control.ask(&hello(End::default(), None)).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Silent(limit)));
    }

    #[test]
    fn values_cross_and_reasons_become_errors() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let other = std::thread::spawn(move || {
            let mut control = Control::new(listener.accept().unwrap().0).unwrap();
            let Some(Request::Open { specs, .. }) = control.next().unwrap() else { panic!() };
            control.send(&Answer::Welcome { cards: vec![Card::default(); specs.len()] }).unwrap();
            let reason = "no such profile".to_owned();
            control.send(&Answer::Refused { reason, user: true }).unwrap();
        });
        let mut control = Control::connect(&at).unwrap();
        let specs = vec![Spec::emp(super::super::job::LinkChoice::Udp)];
        let open = Request::Open { specs, cards: vec![Card::default()] };
        let answer = control.ask(&open).unwrap();
        assert!(matches!(answer, Answer::Welcome { cards } if cards.len() == 1));
        let error = control.answer().unwrap_err();
        assert!(error.is::<UserError>() && error.to_string().contains("no such profile"));
        assert!(control.answer().unwrap_err().to_string().contains("has ended"));
        other.join().unwrap();
    }
}
