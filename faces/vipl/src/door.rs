//! The node that everyone can find. Addresses of connection points name a machine's NIC; the node of this name is that of one
//! process, which passes requests on to whichever process waits at the point: by a socket of the machine with the point's name.
//! Should the process end, one of those that wait takes its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use emp_face::claim::Claim;
use emp_face::log;

use crate::nic::Nic;
use crate::points::{Point, claim_door};
use crate::wire::Message;
use crate::{ending, open};

/// A node that this process has beside that of a NIC, since others can find it.
pub struct Door(Arc<Nic>);

/// Where the user's settings leave no choice, one line is enough for all attempts.
static TOLD: AtomicBool = AtomicBool::new(false);

impl Nic {
    /// Gives a request to whoever waits at a point of this machine. False: nobody does.
    pub fn pass_on(&self, point: &Point, ask: &Message) -> bool {
        Claim::tell(&point.socket(), &ask.encode()).is_ok()
    }

    /// Takes the place of the process that had the node, if there is none. To be called now and then by those that wait to be
    /// connected to.
    pub fn keep_door(&self) {
        if self.claim.is_some() || self.door.get().is_some() {
            return;
        }
        let Some(claim) = claim_door(self.host) else { return };
        match open::start(&self.way, &self.settings, Some(claim)) {
            Ok(nic) => {
                log::inform("VIPL: this process takes connection requests for its machine now");
                if let Err(Door(nic)) = self.door.set(Door(nic)) {
                    ending::close(&nic);
                }
            }
            Err(problem) if !TOLD.swap(true, Ordering::Relaxed) => {
                log::warn(&format!("VIPL: this machine cannot be connected to: {problem}"));
            }
            Err(_) => {}
        }
    }

    pub fn close_door(&self) {
        if let Some(Door(nic)) = self.door.get() {
            ending::close(nic);
        }
    }
}
