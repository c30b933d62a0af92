//! Whether the other end is still there, while both are busy with a subject and the control connection is silent.
//!
//! The thread that has a session waits for the subject's messages in many places; each looks here now and then.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// How often to look while nothing happens: soon for whoever waits, and too seldom to cost anything.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// How a refusal begins on the connection. The other end says it before it gives up.
pub const REFUSAL: &[u8] = br#"{"Refused""#;

thread_local! {
    /// The connection of the session that this thread opened last.
    static HELD: RefCell<Weak<TcpStream>> = const { RefCell::new(Weak::new()) };
}

/// Why it is no use to go on waiting for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The other end's process is gone, or its session.
    Ended,
    /// The other end has said why it does not go on.
    GaveUp,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the other end has ended: its connection is closed",
            Self::GaveUp => "the other end gave up",
        })
    }
}

impl std::error::Error for Lost {}

/// Makes this connection the one that [`check`] looks at, as long as somebody else holds it.
pub fn hold(stream: &Rc<TcpStream>) {
    HELD.with(|held| *held.borrow_mut() = Rc::downgrade(stream));
}

/// Fails if the other end is not there any more.
pub fn check() -> Result<(), Lost> {
    let held = HELD.with(|held| held.borrow().upgrade());
    held.map_or(Ok(()), |stream| verdict(&stream))
}

fn verdict(stream: &TcpStream) -> Result<(), Lost> {
    let mut start = [0; REFUSAL.len()];
    match peek(stream, &mut start) {
        Ok(0) => Err(Lost::Ended),
        Ok(_) if start == REFUSAL => Err(Lost::GaveUp),
        // It is done with its half.
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(())
        }
        Err(_) => Err(Lost::Ended),
    }
}

/// Reads without taking and without waiting. Only the session's own thread uses the connection, so nobody meets it while
/// it does not wait.
fn peek(stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    stream.set_nonblocking(true)?;
    let seen = stream.peek(into);
    stream.set_nonblocking(false)?;
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    /// What is told soon.
    fn soon() -> Result<(), Lost> {
        (0..200).try_for_each(|_| {
            std::thread::sleep(Duration::from_millis(1));
            check()
        })
    }

    #[test]
    fn an_end_that_is_gone_or_gave_up_is_noticed_and_one_that_is_done_is_not() {
        assert_eq!(check(), Ok(()), "no session");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for (says, lost) in [
            (&b""[..], Err(Lost::Ended)),
            (br#"{"Refused":{"reason":"no room"}}"#, Err(Lost::GaveUp)),
            (br#"{"Done":{"copied":null}}"#, Ok(())),
        ] {
            let stream = Rc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            hold(&stream);
            let mut other = listener.accept().unwrap().0;
            assert_eq!(check(), Ok(()));
            other.write_all(says).unwrap();
            drop(other);
            assert_eq!(soon(), lost);
            drop(stream);
            assert_eq!(check(), Ok(()), "its session is over");
        }
    }
}
