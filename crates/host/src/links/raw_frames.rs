//! By whose socket raw frames leave by an interface: this process's own, one that the service `empd` lends, or the service's. Nodes, faces, `emp doctor`
//! and the bench choose here, so what one of them says holds for all.

use emp_link::service::{ServiceLink, ServiceOptions, socket_path};
use emp_link::{Link, LinkError, PacketLink, PacketOptions};
use emp_wire::{ETHERTYPE_DEFAULT, NodeId};

use crate::links::want::Want;

/// Whose socket it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawSource {
    /// This process's own.
    Own,
    /// One that the service lends.
    Lent,
    /// The service's, which sends and receives.
    Served,
}

impl RawSource {
    /// Those that a wish allows, the quickest first.
    #[must_use]
    pub const fn wanted(want: Want) -> &'static [Self] {
        match want {
            Want::Lent => &[Self::Lent],
            Want::Empd => &[Self::Served],
            Want::Packet => &[Self::Own, Self::Lent],
            Want::Auto => &[Self::Own, Self::Lent, Self::Served],
            Want::Xdp | Want::Udp | Want::Shm => &[],
        }
    }
}

/// A source that was passed by.
#[derive(Debug)]
pub enum PassedBy {
    /// It is not to be had.
    Failed(LinkError),
    /// No service was asked, as there is none: why.
    NoService(String),
}

/// Whose frames leave by which interface.
#[derive(Clone, Debug)]
pub struct RawFrames {
    /// The interface's name.
    pub interface: String,
    /// The node.
    pub node: NodeId,
    /// EtherType of the frames.
    pub ethertype: u16,
    /// Long messages leave otherwise: the ring may be short.
    pub small_frames_only: bool,
}

impl RawFrames {
    /// All frames of a node, of the usual EtherType.
    pub fn new(interface: impl Into<String>, node: NodeId) -> Self {
        let (ethertype, small_frames_only) = (ETHERTYPE_DEFAULT, false);
        Self { interface: interface.into(), node, ethertype, small_frames_only }
    }

    /// A link by the first of several sources that is open. The service's come after this process's own where that lacks the privilege, and nothing else.
    ///
    /// # Errors
    ///
    /// Why the last that was tried is not to be had; of those before it `passed` is told.
    pub fn open(
        &self,
        sources: &[RawSource],
        mut passed: impl FnMut(PassedBy),
    ) -> Result<Box<dyn Link>, LinkError> {
        let mut before = None;
        for source in sources {
            let error = match self.open_by(*source) {
                Ok(link) => {
                    before.into_iter().for_each(|error| passed(PassedBy::Failed(error)));
                    return Ok(link);
                }
                Err(error) => error,
            };
            before.into_iter().for_each(|error| passed(PassedBy::Failed(error)));
            if *source == RawSource::Own && !error.privilege {
                return Err(error);
            }
            let path = socket_path();
            if *source == RawSource::Own && sources.len() > 1 && !path.exists() {
                passed(PassedBy::NoService(format!("no service listens at {}", path.display())));
                return Err(error);
            }
            before = Some(error);
        }
        Err(before.unwrap_or_else(|| LinkError {
            link: format!("raw frames on {}", self.interface),
            problem: "no source was allowed".into(),
            advice: "ask for another link".into(),
            source: None,
            privilege: false,
        }))
    }

    fn open_by(&self, source: RawSource) -> Result<Box<dyn Link>, LinkError> {
        let lender = match source {
            RawSource::Own => None,
            RawSource::Lent => Some(socket_path()),
            RawSource::Served => {
                let usual = ServiceOptions::new(&self.interface, self.node);
                let options = ServiceOptions { ethertype: self.ethertype, ..usual };
                return Ok(Box::new(ServiceLink::open(&options)?));
            }
        };
        let options = PacketOptions {
            ethertype: self.ethertype,
            small_frames_only: self.small_frames_only,
            lender,
            ..PacketOptions::new(&self.interface, self.node.destination_tag())
        };
        Ok(Box::new(PacketLink::open(&options)?))
    }
}
