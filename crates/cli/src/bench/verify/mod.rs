//! `emp bench verify`: random messages both ways, and not one byte unchecked.
//!
//! Both ends know from a seed what the other sends ([`message`]), so that nothing but the messages themselves has to
//! cross. [`outgoing`] sends, [`incoming`] receives and checks, [`remote`] puts, gets and adds, [`exchange`] does all of it
//! until the time is over.

mod exchange;
mod incoming;
mod mailboxes;
mod message;
mod outgoing;
mod plan;
mod remote;

pub use exchange::exchange;
pub use incoming::GROUP;
pub use mailboxes::Mailboxes;
pub use plan::{Plan, Tally};
