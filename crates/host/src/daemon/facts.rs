//! What an engine is like, told once when it has started.

use emp_wire::LinkAddress;

use crate::daemon::codec::{Fields, Writer, Wrong};
use crate::daemon::questions::{put_address, take_address};

/// Most interfaces of an engine.
const INTERFACES_MAX: usize = 64;

/// What an engine is like.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Sends, and as many receives, that may be outstanding.
    pub operations_max: u64,
    /// Bytes of messages and buffers that may be outstanding together: the service keeps them meanwhile.
    pub held_bytes_max: u64,
    /// Longest message that is over for the program when it is posted.
    pub buffered_bytes_max: u64,
    /// Longest message that fits one frame to any peer.
    pub single_frame_bytes_max: u64,
    /// Most bytes of operands of an atomic operation.
    pub atomic_bytes_max: u64,
    /// Its interfaces, by index of link.
    pub interfaces: Vec<Interface>,
}

/// An interface by which an engine sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Longest frame in bytes.
    pub frame_bytes_max: u64,
    /// The engine's address there.
    pub address: LinkAddress,
}

impl Facts {
    /// Its bytes.
    pub fn emit(&self) -> Vec<u8> {
        let count = self.interfaces.len().min(INTERFACES_MAX);
        let writer = Writer::default()
            .long(self.operations_max)
            .long(self.held_bytes_max)
            .long(self.buffered_bytes_max)
            .long(self.single_frame_bytes_max)
            .long(self.atomic_bytes_max)
            .byte(count as u8);
        let interfaces = self.interfaces.iter().take(INTERFACES_MAX);
        let add = |writer: Writer, interface: &Interface| {
            let writer = writer.text(&interface.name).long(interface.frame_bytes_max);
            put_address(writer, &interface.address)
        };
        interfaces.fold(writer, add).0
    }

    /// Reads them.
    ///
    /// # Errors
    ///
    /// If they cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut fields = Fields(bytes);
        let mut facts = Self {
            operations_max: fields.long()?,
            held_bytes_max: fields.long()?,
            buffered_bytes_max: fields.long()?,
            single_frame_bytes_max: fields.long()?,
            atomic_bytes_max: fields.long()?,
            interfaces: Vec::new(),
        };
        for _ in 0..fields.byte()? {
            facts.interfaces.push(Interface {
                name: fields.text()?.to_owned(),
                frame_bytes_max: fields.long()?,
                address: take_address(&mut fields)?,
            });
        }
        fields.end()?;
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_were_told() {
        let interface = Interface {
            name: "eth0".into(),
            frame_bytes_max: 1500,
            address: LinkAddress::mac([2, 0, 0, 0, 0, 9]),
        };
        let facts = Facts {
            operations_max: 1,
            held_bytes_max: 2,
            buffered_bytes_max: 3,
            single_frame_bytes_max: 4,
            atomic_bytes_max: 5,
            interfaces: vec![interface.clone(), interface],
        };
        let bytes = facts.emit();
        assert_eq!(Facts::parse(&bytes), Ok(facts));
        (0..bytes.len()).for_each(|shorter| assert!(Facts::parse(&bytes[..shorter]).is_err()));
    }
}
