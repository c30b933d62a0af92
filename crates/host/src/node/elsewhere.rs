//! Starting a node whose engine is in the service.

use std::path::Path;
use std::time::Duration;

use emp_firmware::Integrity;
use emp_link::Capabilities;
use emp_link::service::protocol::{Engine as Wanted, NAME_LINE_BYTES};
use emp_link::service::{ask_engine, socket_path};
use emp_wire::{Epoch, NodeId};

use crate::boards::seat::{Beside, Engine, Parts, Seat};
use crate::daemon::Interface;
use crate::daemon::remote::Remote;
use crate::links::capture;
use crate::links::choice::{Choice, Outcome};
use crate::links::error::BuildError;
use crate::links::want::Want;
use crate::machine::system;
use crate::memory::process::ProcessMemory;
use crate::node::running::{Node, NodeInner};
use crate::node::start::{NodeBuilder, system_error};
use crate::told::journal::{Journal, Level};
use crate::told::news::News;
use crate::told::shown;

/// How long the service may take to answer: as its links.
const PATIENCE: Duration = Duration::from_secs(10);

impl NodeBuilder {
    /// What was asked for that such a node has not.
    fn not_elsewhere(&self) -> Option<&'static str> {
        let want = self.auto_links.as_ref().map_or(Want::Auto, |auto| auto.want);
        if !self.links.is_empty() {
            Some("its links are the service's; this node was given its own")
        } else if !matches!(want, Want::Auto | Want::Empd) {
            Some("its links are the service's: leave the link to choose, or say empd")
        } else if self.relay {
            Some("it does not relay: start the node on another board")
        } else if self.capture.is_some() || capture::asked_for().is_some() {
            Some("it captures nothing: unset EMP_CAPTURE, or start the node on another board")
        } else {
            None
        }
    }

    /// Asks the service for an engine, and takes its place as a node.
    pub(super) fn start_elsewhere(self, name: String, id: NodeId) -> Result<Node, BuildError> {
        let refuse = |why: &str| Err(BuildError::Engine(why.into()));
        if let Some(why) = self.not_elsewhere() {
            return refuse(why);
        }
        let auto = self.auto_links.unwrap_or_default();
        if name.len() > NAME_LINE_BYTES {
            return refuse("the node's name is longer than 100 bytes");
        }
        let [interface] = match auto.interfaces.as_slice() {
            [] => [String::new()],
            [one] => [one.clone()],
            _ => return refuse("it uses one interface that is named, or all that are served"),
        };
        let mut journal = Journal::new(&name, self.log, self.notices);
        journal.set_alarms(self.alarms);
        let random = || system::random().map_err(system_error("drawing random numbers"));
        let epoch = Epoch::new(self.epoch.map_or_else(|| random().map(|bits| bits as u32), Ok)?);
        let profile = self.profile;
        let wanted = Wanted {
            node: id,
            epoch: epoch.0,
            seed: self.seed.map_or_else(random, Ok)?,
            interface,
            profile: profile.name.into(),
            collection: profile.collection,
            patience_ns: profile.unreachable_after.0,
            eager_bytes: [profile.eager_bytes, profile.long_eager_bytes],
            operations_max: u32::try_from(profile.operations_max).unwrap_or(u32::MAX),
            incoming_max: u32::try_from(profile.incoming_max).unwrap_or(u32::MAX),
            end_to_end: profile.integrity == Integrity::EndToEnd,
            linger_ms: u32::try_from(self.linger.as_millis()).unwrap_or(u32::MAX),
            faults: self.faults.map(|plan| plan.to_string()).unwrap_or_default(),
            name: name.clone(),
        };
        if wanted.faults.len() > NAME_LINE_BYTES {
            return refuse("the faults are longer than 100 bytes");
        }
        let path = self.service.unwrap_or_else(socket_path);
        let remote = ask_engine(&path, &wanted, PATIENCE).and_then(Remote::begin);
        let mut remote = remote.map_err(BuildError::Engine)?;
        let patience = profile.unreachable_after;
        let identity = shown::identity((id, epoch, &name), self.board, patience);
        if let Some(file) = shown::to_hand_over(self.state, &identity, &mut journal) {
            remote.show_in(file).map_err(system_error("handing the state file over"))?;
        }
        let capabilities: Vec<_> = remote.facts().interfaces.iter().map(capabilities).collect();
        let choice = chosen(&path, &capabilities);
        choice.lines().for_each(|line| journal.say(Level::Info, &line));
        let links = capabilities.iter().map(crate::links::choice::name).collect();
        let news = News::new(links, self.patience_hint);
        let collections = self.collections;
        // SAFETY: what is posted comes by `Seat::post` and its kin, which ask their callers for what the module's invariant asks for.
        let memory = unsafe { ProcessMemory::new(Vec::new()) };
        let engine = Engine::Away(Box::new(remote), profile.completions_max());
        let (links, shown, joining, beside) = (Vec::new(), None, None, Beside::default());
        let parts =
            Parts { engine, links, memory, journal, news, collections, shown, joining, beside };
        let seat = Seat::compose(parts, self.board, self.wait_mode)
            .map_err(|(what, reason)| BuildError::System { what, reason })?;
        let (linger, path_costs) = (self.linger, None);
        let node =
            NodeInner { seat, id, epoch, name, profile, choice, path_costs, linger, capabilities };
        Ok(Node { inner: std::sync::Arc::new(node) })
    }
}

/// What there is to say of such a node's links.
fn chosen(service: &Path, links: &[Capabilities]) -> Choice {
    let mut choice = Choice::default();
    let engine = format!("the engine of empd at {}", service.display());
    choice.note("board daemon".into(), Outcome::Chosen(engine));
    for of in links {
        let able = format!("frames of {} bytes, by the service", of.frame_bytes_max);
        choice.note(crate::links::choice::name(of), Outcome::Chosen(able));
    }
    choice
}

/// What is known here of a link of the service's.
fn capabilities(of: &Interface) -> Capabilities {
    Capabilities {
        kind: "empd",
        interface: of.name.clone(),
        frame_bytes_max: of.frame_bytes_max as usize,
        long_frame_bytes: 0,
        long_frames_held: 0,
        parts_max: 0,
        batch_max: 0,
        segmentation: false,
        sums: false,
        past_ip: false,
        broadcast: true,
        privileged: false,
        address: of.address,
    }
}
