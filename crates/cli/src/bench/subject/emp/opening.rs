//! One end of a pair, from its start to when it has found the other.

use emp_host::Endpoint;

use super::end::Emp;
use super::idle;
use super::node::OpenNode;
use super::post::ENDPOINT;
use crate::bench::job::Spec;
use crate::bench::subject::kind::{Card, Opening, Subject};
use crate::bench::subject::place::{Neighbour, Place};
use crate::bench::verify;

/// One end of a pair, open but not connected.
pub struct EmpOpening {
    open: OpenNode,
    endpoint: Endpoint,
    mailboxes: verify::Mailboxes,
    peer: Neighbour,
    /// Small messages are to share frames.
    bundle: bool,
    /// Nodes that do nothing.
    idle: Vec<OpenNode>,
}

impl EmpOpening {
    /// Starts the node.
    pub fn open(spec: &Spec, place: &Place, ethertype: u16) -> anyhow::Result<Self> {
        // First, as those of a busy host would be.
        let idle = idle::start(spec, place, ethertype)?;
        let open = OpenNode::start(spec, place, ethertype)?;
        let endpoint = open.node.endpoint(ENDPOINT)?;
        // Before the other end knows of this node: what came for a closed endpoint would end with an error.
        let mailboxes = verify::Mailboxes::open(&open.node)?;
        Ok(Self { open, endpoint, mailboxes, bundle: spec.bundle, peer: place.neighbour(), idle })
    }
}

impl Opening for EmpOpening {
    fn card(&self) -> Card {
        self.open.card()
    }

    fn connect(self: Box<Self>, other: &Card) -> anyhow::Result<Box<dyn Subject>> {
        let to = (self.open.find(other, self.peer)?, ENDPOINT).into();
        let ends = (self.endpoint, self.mailboxes);
        let emp = Emp::new(self.open.node, ends, to, self.open.faults, self.bundle);
        Ok(Box::new(emp.beside(self.idle)))
    }
}
