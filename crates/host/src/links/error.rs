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
    #[error("{what}: {source}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// The reason.
        source: std::io::Error,
    },
}
