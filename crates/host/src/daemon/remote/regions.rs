//! Memory of the program's that others reach by its engine, which has a descriptor of it: the kernel copies, whether the program runs or not.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::Duration;

use emp_firmware::{PostError, RegionId, Rights, Segment};
use emp_link::service::channel::{Gift, Heard};

use crate::daemon::questions::{Answer, Export, Question};
use crate::daemon::remote::Remote;
use crate::memory::guarded;

/// How often it is looked whether a service that does not answer is gone, beside its bell.
const GONE_NAP: Duration = Duration::from_millis(100);

impl Remote {
    /// Exports memory. The first time the service is given a descriptor of all of it, of which it uses what is exported.
    pub(crate) fn export(
        &mut self,
        key: Option<u64>,
        memory: Segment,
        rights: Rights,
        endpoint: u16,
    ) -> Result<RegionId, PostError> {
        if self.is_over() {
            return Err(PostError::Closing);
        }
        if !self.memory_given {
            self.give_memory().map_err(|_| PostError::MemoryFault)?;
        }
        let Segment { address, bytes } = guarded::real(memory);
        match self.ask(Question::Export(Export { key, address, bytes, rights, endpoint })) {
            Some(Answer::Exported(exported)) => exported,
            _ => Err(PostError::Closing),
        }
    }

    /// What this process may read and write of itself, it may have another do: no more is asked of the system. One that the system lets nobody of
    /// its user look at, as it has changed its user and not been executed since, may not even by itself.
    fn give_memory(&mut self) -> std::io::Result<()> {
        let memory = File::options().read(true).write(true).open("/proc/thread-self/mem")?;
        self.channel.give(Gift::Memory, memory.as_fd())?;
        self.memory_given = true;
        Ok(())
    }

    /// Has offsets in a region count from there. False: there is none.
    pub(crate) fn set_region_base(&mut self, key: u64, base: u64) -> bool {
        self.ask(Question::SetBase(key, base)) == Some(Answer::Done(true))
    }

    /// Takes a region back: once this returns the service does not use its memory. False: there is none.
    pub(crate) fn remove_region(&mut self, key: u64) -> bool {
        match self.ask(Question::Remove(key)) {
            Some(answer) => answer == Answer::Done(true),
            None => {
                self.await_gone();
                false
            }
        }
    }

    /// Waits until the service is gone, or has let go of this program, if it was given memory: one that does not answer may be stopped in the
    /// midst of a copy, and go on with it later. There is no other way to be sure of one's memory, so there is no limit.
    pub(super) fn await_gone(&mut self) {
        if !self.memory_given || self.gone {
            return;
        }
        self.end("the service does not answer");
        self.channel.hang_up();
        while !self.gone {
            // What it says to the last is nothing any more, nor whether it rings too often.
            self.gone = self.channel.nap(GONE_NAP) == Ok(Heard::Gone);
        }
    }
}
