//! A client's request for an engine of its own in the service, and the answer.

use emp_wire::NodeId;

use super::{Fields, Malformed, Writer};

/// Bytes of the longest name of a node that a request carries, and of the longest faults, so that the whole is one message.
pub const NAME_LINE_BYTES: usize = 100;

/// Asks for an engine: a node that the service runs, whose user this client is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Engine {
    /// The node's identity. While it runs it is this user's, and nobody else's.
    pub node: NodeId,
    /// Its generation.
    pub epoch: u32,
    /// Seed of its randomness.
    pub seed: u64,
    /// Name of the interface that it uses; empty: all that the service serves.
    pub interface: String,
    /// Name of its protocol parameters; what follows replaces some of them.
    pub profile: String,
    /// Frames that one acknowledgement covers.
    pub collection: u32,
    /// Nanoseconds after which a silent peer is given up.
    pub patience_ns: u64,
    /// Bytes up to which messages leave whole, and the same where frames longer than the MTU get through.
    pub eager_bytes: [u64; 2],
    /// Operations of each kind that may be outstanding.
    pub operations_max: u32,
    /// Messages that may wait unexpected.
    pub incoming_max: u32,
    /// Payloads are summed from end to end, whatever their carrier does.
    pub end_to_end: bool,
    /// Milliseconds for which what was sent goes on being delivered after the program has ended.
    pub linger_ms: u32,
    /// Faults to be injected into its links, for tests; none: empty.
    pub faults: String,
    /// Name for people.
    pub name: String,
}

/// The answer: the memory of two rings and the client's end of the bell come with it (two descriptors, in this order). What the engine is like
/// comes by the ring, when it has started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seated {
    /// Bytes of the memory.
    pub memory_bytes: u32,
}

impl Engine {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let engine = Self {
            node: NodeId(fields.long()?),
            epoch: fields.word()?,
            seed: fields.long()?,
            interface: fields.optional_name()?,
            profile: fields.name()?,
            collection: fields.word()?,
            patience_ns: fields.long()?,
            eager_bytes: [fields.long()?, fields.long()?],
            operations_max: fields.word()?,
            incoming_max: fields.word()?,
            end_to_end: fields.truth()?,
            linger_ms: fields.word()?,
            faults: fields.short_line()?,
            name: fields.line()?,
        };
        if engine.node == NodeId::ANY {
            return Err(Malformed::Field("an identity that stands for all nodes"));
        }
        if engine.name.len().max(engine.faults.len()) > NAME_LINE_BYTES {
            return Err(Malformed::Field("a name or faults that are too long"));
        }
        Ok(engine)
    }

    pub(super) fn emit(&self, into: Writer) -> Writer {
        into.bytes(&self.node.0.to_be_bytes())
            .bytes(&self.epoch.to_be_bytes())
            .bytes(&self.seed.to_be_bytes())
            .name(&self.interface)
            .name(&self.profile)
            .bytes(&self.collection.to_be_bytes())
            .bytes(&self.patience_ns.to_be_bytes())
            .bytes(&self.eager_bytes[0].to_be_bytes())
            .bytes(&self.eager_bytes[1].to_be_bytes())
            .bytes(&self.operations_max.to_be_bytes())
            .bytes(&self.incoming_max.to_be_bytes())
            .bytes(&[u8::from(self.end_to_end)])
            .bytes(&self.linger_ms.to_be_bytes())
            .short_line(&self.faults)
            .line(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, BUFFER_BYTES, Request};
    use super::*;

    fn engine() -> Engine {
        Engine {
            node: NodeId(7 << 40),
            epoch: 3,
            seed: 5,
            interface: String::new(),
            profile: "default".into(),
            collection: 16,
            patience_ns: 10_000_000_000,
            eager_bytes: [1 << 16, u64::MAX],
            operations_max: 4096,
            incoming_max: 1024,
            end_to_end: true,
            linger_ms: 1000,
            faults: "f".repeat(NAME_LINE_BYTES),
            name: "a".repeat(NAME_LINE_BYTES),
        }
    }

    #[test]
    fn what_is_asked_for_is_understood_and_nothing_shorter_is() {
        for interface in ["", "enp0s31f6.4094a"] {
            let asked = Request::Engine(Engine { interface: interface.into(), ..engine() });
            let bytes = asked.emit();
            assert!(bytes.len() < BUFFER_BYTES);
            assert_eq!(Request::parse(&bytes), Ok(asked));
            assert!(bytes.len() + 2 < BUFFER_BYTES, "none of it is cut");
            let fixed = bytes.len() - NAME_LINE_BYTES;
            for shorter in 1..fixed {
                assert!(Request::parse(&bytes[..shorter]).is_err(), "{shorter}");
            }
        }
        let seated = Answer::Seated(Seated { memory_bytes: 7 });
        assert_eq!(Answer::parse(&seated.emit()), Ok(seated));
    }

    #[test]
    fn a_node_that_is_none_or_has_too_long_a_name_is_refused() {
        let parse = |engine| Request::parse(&Request::Engine(engine).emit());
        assert!(parse(Engine { node: NodeId::ANY, ..engine() }).is_err());
        assert!(parse(Engine { name: "a".repeat(NAME_LINE_BYTES + 1), ..engine() }).is_err());
        assert!(parse(Engine { faults: "f".repeat(NAME_LINE_BYTES + 1), ..engine() }).is_err());
        assert!(parse(Engine { profile: String::new(), ..engine() }).is_err());
    }
}
