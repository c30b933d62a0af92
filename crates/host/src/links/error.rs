//! Why a node could not be built.

use emp_link::LinkError;
use emp_wire::NodeId;

use crate::links::choice::Choice;

/// Why a node could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No link was given and none was to be chosen.
    #[error("a node needs a link: add one with `link`, or let `auto_links` choose")]
    NoLinks,
    /// More links than the firmware can name.
    #[error("a node has at most {max} links, not {given}")]
    TooManyLinks {
        /// How many were given.
        given: usize,
        /// How many there may be.
        max: usize,
    },
    /// A link cannot gather frames from as many parts as the firmware makes them of.
    #[error("{link} gathers a frame from at most {parts_max} parts; {needed} are needed")]
    LinkGathersTooLittle {
        /// The link.
        link: String,
        /// Parts that it takes.
        parts_max: usize,
        /// Parts that are needed.
        needed: usize,
    },
    /// None of the links that were asked for is to be had. The report says what was tried.
    #[error("no link is to be had:\n{0}")]
    NoRung(Choice),
    /// A required link is not to be had.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The interfaces that are named make no sense together; the text says why.
    #[error("interfaces: {0}")]
    Interfaces(String),
    /// `EMP_PEERS` makes no sense; the text says why.
    #[error("{0}")]
    Peers(String),
    /// The identity is [`NodeId::ANY`], which stands for all nodes.
    #[error("a node cannot have the identity {}", NodeId::ANY)]
    Identity,
    /// The daemon board was asked for, and the service gives no engine.
    #[error("no engine is to be had of empd: {0}")]
    Engine(String),
    /// The system refused something that a node needs (descriptors, a thread, randomness).
    #[error("{what}: {reason}{}", advice(.reason))]
    System {
        /// What was wanted.
        what: &'static str,
        /// The reason. It is in the text, so it is not the error's source too: whoever prints both would print it twice.
        reason: std::io::Error,
    },
}

/// What to do about a refusal of the system, where that is known.
fn advice(reason: &std::io::Error) -> &'static str {
    match reason.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "; raise `ulimit -n`",
        // Threads are processes to that limit.
        Some(libc::EAGAIN) => "; raise `ulimit -u`",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn a_refusal_of_the_system_is_told_once_and_with_what_to_do() {
        let reason = std::io::Error::from_raw_os_error(libc::EMFILE);
        let error = BuildError::System { what: "making an event descriptor", reason };
        let line =
            "making an event descriptor: Too many open files (os error 24); raise `ulimit -n`";
        assert_eq!(error.to_string(), line);
        assert!(error.source().is_none());
    }
}
