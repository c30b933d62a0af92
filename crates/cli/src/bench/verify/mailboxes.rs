//! Where messages of a run go to.

use emp_host::{Endpoint, Node, Region};

use super::remote;

/// The endpoints of a verify run, the same numbers at both ends.
pub struct Mailboxes {
    /// Receives name a tag.
    pub tagged: Endpoint,
    /// Receives take anything.
    pub wild: Endpoint,
    /// How many messages there were is told here.
    pub end: Endpoint,
    /// What the other end puts to, gets from, and adds to.
    pub region: Region,
}

/// Numbers of the endpoints.
pub const TAGGED: u16 = 2;
/// See [`TAGGED`].
pub const WILD: u16 = 3;
/// See [`TAGGED`].
pub const END: u16 = 4;

impl Mailboxes {
    /// Opens them.
    pub fn open(node: &Node) -> anyhow::Result<Self> {
        Ok(Self {
            tagged: node.endpoint(TAGGED)?,
            wild: node.endpoint(WILD)?,
            end: node.endpoint(END)?,
            region: remote::export(node)?,
        })
    }
}
