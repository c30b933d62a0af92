//! The borrower's side of a lent socket: asking the service for one, and for another when that one is of no use any more.
//!
//! The service makes the socket, its ring and its place in a group, and takes all of it back when the connection ends
//! ([`lender`](super::lender)). Until then the holder sends and receives by it as by one of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use emp_rings::{PacketRing, RingShape};

use super::PacketOptions;
use super::open::name_of;
use crate::LinkError;
use crate::namespace::Namespace;
use crate::service::held::Held;
use crate::service::protocol::{Answer, BUFFER_BYTES, Hello, Lend, Lent, Request, VERSION};
use crate::service::socket;
use crate::system::{self, Polled};

/// How long the service may take to say who it is: it waits for nobody as it does, but may share its core with a hundred programs that
/// start.
const GREETING: Duration = Duration::from_secs(5);

/// And to lend: some grace periods of the kernel's for each of those who ask at once, 10 to 40 ms each.
const LENDING: Duration = Duration::from_secs(20);

/// A socket that is lent, for as long as this is kept.
#[derive(Debug)]
pub(super) struct Loan(Option<Held>);

impl Loan {
    /// The service does not know of it any more: it has ended, or has taken the socket back.
    pub(super) fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(Held::is_over)
    }

    /// Tells the service that it is over.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}

/// What was lent.
pub(super) type Borrowed = (OwnedFd, PacketRing, Loan);

/// A question under way.
#[derive(Debug)]
pub(super) struct Asking {
    connection: OwnedFd,
    since: Instant,
    greeted: bool,
}

/// Asks, and waits for the answer.
pub(super) fn borrow_from(path: &Path, options: &PacketOptions) -> Result<Borrowed, LinkError> {
    let mut asking = Asking::start_at(path, options)?;
    loop {
        if let Some(borrowed) = asking.poll(options)? {
            return Ok(borrowed);
        }
        // An end of the connection is seen by the next look.
        let limit = Some(asking.limit().saturating_sub(asking.since.elapsed()));
        if system::poll(asking.descriptor(), limit) == Polled::Error {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Asking {
    /// Asks the service that these options name.
    pub(super) fn start(options: &PacketOptions) -> Result<Self, LinkError> {
        match &options.lender {
            Some(path) => Self::start_at(path, options),
            None => Err(failure(options, "no service is named".into(), "name one")),
        }
    }

    fn start_at(path: &Path, options: &PacketOptions) -> Result<Self, LinkError> {
        let unreachable = |error: io::Error| {
            let place = path.display();
            let (problem, advice) = match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => (
                    format!("no service listens at {place}"),
                    "have empd started, or EMP_SERVICE name its socket",
                ),
                Some(libc::ECONNREFUSED) => {
                    (format!("nobody listens at {place} any more"), "have empd started again")
                }
                Some(libc::EPROTOTYPE | libc::ENOTSOCK) => (
                    format!("{place} is not empd's socket, but another program's"),
                    "have EMP_SERVICE name empd's",
                ),
                _ => (format!("connecting to {place}: {error}"), "look at empd's log"),
            };
            LinkError { source: Some(error), ..failure(options, problem, advice) }
        };
        let connection = socket::connect(path).map_err(unreachable)?;
        let hello = Hello { version: VERSION, namespace: Namespace::number() };
        let lend = Lend {
            interface: options.interface.clone(),
            ethertype: options.ethertype,
            tag: options.node_tag,
            small_frames_only: options.small_frames_only,
        };
        for request in [Request::Hello(hello), Request::Lend(lend)] {
            match socket::send(connection.as_fd(), &request.emit(), &[]) {
                // It has answered already, and gone.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => break,
                sent => sent.map_err(unreachable)?,
            }
        }
        Ok(Self { connection, since: Instant::now(), greeted: false })
    }

    /// Readable when there is something to look at.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    fn limit(&self) -> Duration {
        if self.greeted { LENDING } else { GREETING }
    }

    /// Looks for the answer. Does not wait.
    pub(super) fn poll(&mut self, options: &PacketOptions) -> Result<Option<Borrowed>, LinkError> {
        let mut bytes = [0; BUFFER_BYTES];
        loop {
            let (got, descriptors) = match socket::receive_with(self.descriptor(), &mut bytes) {
                Ok((0, _)) => {
                    let problem = "the service hung up without an answer".into();
                    return Err(failure(options, problem, "look at empd's log"));
                }
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.not_yet(options);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // It closed its end with a request unread, and may have said why before: that comes next, then the end.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => continue,
                Err(error) => {
                    let problem = format!("hearing from the service: {error}");
                    return Err(failure(options, problem, "look at empd's log"));
                }
            };
            match Answer::parse(&bytes[..got]) {
                Ok(Answer::Welcome(welcome)) if welcome.version == VERSION => self.greeted = true,
                Ok(Answer::Welcome(welcome)) => {
                    let problem = format!(
                        "the service speaks version {} of its messages, this program version \
                         {VERSION}",
                        welcome.version
                    );
                    return Err(failure(options, problem, "upgrade the older of the two"));
                }
                Ok(Answer::Lent(lent)) if self.greeted => {
                    return self.take(options, &lent, descriptors).map(Some);
                }
                Ok(Answer::Refused(refused)) => {
                    let advice = "ask whoever runs this machine's empd, or use the udp link";
                    return Err(failure(options, refused.reason, advice));
                }
                Ok(_) => return Err(stranger(options, "an answer to another question")),
                Err(malformed) => return Err(stranger(options, &malformed.to_string())),
            }
        }
    }

    fn not_yet(&self, options: &PacketOptions) -> Result<Option<Borrowed>, LinkError> {
        if self.since.elapsed() < self.limit() {
            return Ok(None);
        }
        let seconds = self.limit().as_secs();
        let problem = format!("the service has not answered for {seconds} s");
        Err(failure(options, problem, "look whether empd runs"))
    }

    /// The socket is what the service says, and a packet socket, whose ring nobody but this process writes to.
    fn take(
        &self,
        options: &PacketOptions,
        lent: &Lent,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Borrowed, LinkError> {
        let Ok([socket]) = <[OwnedFd; 1]>::try_from(descriptors) else {
            return Err(stranger(options, "a loan without a socket"));
        };
        if !is_raw_packet_socket(socket.as_fd()) {
            return Err(stranger(options, "a loan of something else than a packet socket"));
        }
        let shape = RingShape::of(lent.slot_bytes as usize, lent.slots as usize)
            .ok_or_else(|| stranger(options, "a loan with an impossible ring"))?;
        let ring = PacketRing::map(socket.as_fd(), shape).map_err(|error| LinkError {
            source: Some(io::Error::from(error.kind())),
            ..failure(options, format!("mapping the ring: {error}"), "free memory")
        })?;
        let connection = self.connection.try_clone().map_err(|error| {
            failure(options, format!("keeping the connection: {error}"), "free descriptors")
        })?;
        Ok((socket, ring, Loan(Some(Held::new(connection)))))
    }
}

fn is_raw_packet_socket(socket: BorrowedFd<'_>) -> bool {
    let option = |name| {
        let mut value: libc::c_int = 0;
        system::get_option(socket, libc::SOL_SOCKET, name, &mut value).map(|_| value).ok()
    };
    option(libc::SO_DOMAIN) == Some(libc::AF_PACKET)
        && option(libc::SO_TYPE) == Some(libc::SOCK_RAW)
}

fn failure(options: &PacketOptions, problem: String, advice: &str) -> LinkError {
    let (link, advice) = (name_of(options), advice.into());
    LinkError { link, problem, advice, source: None, privilege: false }
}

/// Whoever listens there is not the service.
fn stranger(options: &PacketOptions, what: &str) -> LinkError {
    let problem = format!("what listens there is no empd that this program knows: it sent {what}");
    failure(
        options,
        problem,
        "have EMP_SERVICE name empd's socket, or upgrade the older of the two",
    )
}
