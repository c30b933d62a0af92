//! The messages between a client and the service: fixed layout, numbers big endian, one message a datagram.
//!
//! A client says [`Hello`] first and then one request, [`Lend`] or [`Attach`] (or a new service [`Request::Replace`]); it may send both at once. The service answers each, in
//! order, with [`Welcome`] and with [`Lent`] or [`Attached`], or with [`Refused`], after which it closes the connection. What was
//! given is given for as long as the connection is open; who has an engine and is put out is told why by a [`Refused`], before that. Each message begins with its kind; what is not one of this version, has
//! another length, or names what can't be is no message ([`Malformed`]).

mod engine;
mod fields;

use emp_wire::NodeId;

pub use engine::{Engine, NAME_LINE_BYTES, Seated};
use fields::{Fields, Writer};

/// Version of these messages and of what they hand over. Another one's are refused, which both sides say with their versions.
pub const VERSION: u16 = 1;

/// First bytes of a connection, after the kind: another program's client or service is told apart by them.
const MAGIC: [u8; 7] = *b"EMPempd";

/// Bytes of the longest name of an interface, with the zero that ends it (`IFNAMSIZ`).
const NAME_BYTES: usize = 16;

/// Bytes of the longest reason in a [`Refused`], a line; and of all else, of which an [`Engine`] with its two is the longest.
pub const REASON_BYTES: usize = 400;

/// Most entries of a [`Held`]: as many as fit into a message.
pub const HOLDINGS_MAX: usize = REASON_BYTES / 6;

/// Bytes of the longest message, and one more, so that a longer one is seen to be one.
pub const BUFFER_BYTES: usize = REASON_BYTES + 3;

const HELLO: u8 = 1;
const LEND: u8 = 2;
const ATTACH: u8 = 3;
const REPLACE: u8 = 4;
const ENGINE: u8 = 5;
const WELCOME: u8 = 0x81;
const LENT: u8 = 0x82;
const ATTACHED: u8 = 0x83;
const HELD: u8 = 0x84;
const HANDED: u8 = 0x85;
const SEATED: u8 = 0x86;
const REFUSED: u8 = 0xff;

/// Bytes that are no message of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// Another length than its kind's, or no bytes at all.
    #[error("a message of {0} bytes, which is another length than its kind has")]
    Length(usize),
    /// An unknown kind.
    #[error("a message of unknown kind {0}")]
    Kind(u8),
    /// It is some other program's.
    #[error("a first message that is not EMP's")]
    Magic,
    /// A field has a value that it can't have.
    #[error("{0}")]
    Field(&'static str),
}

/// A client's first message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The client's [`VERSION`].
    pub version: u16,
    /// The client's network namespace by its number (inode of `/proc/self/ns/net`), 0 where there is no telling. An interface's name means
    /// something in one namespace only, and a path to a socket may lead to another's service.
    pub namespace: u64,
}

/// The service's answer to it: what this client may ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The service's [`VERSION`].
    pub version: u16,
    /// The service lends this user raw sockets.
    pub lends: bool,
    /// The service lets this user attach.
    pub attaches: bool,
    /// Most connections that this user may have at once.
    pub clients_max: u32,
}

/// Asks for a packet socket bound to an interface and an EtherType, in the interface's group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lend {
    /// Name of the interface.
    pub interface: String,
    /// EtherType of frames.
    pub ethertype: u16,
    /// Destination tag of the client's node.
    pub tag: u16,
    /// Long messages come by another link: half a ring will do.
    pub small_frames_only: bool,
}

/// The answer: the socket comes with it (one descriptor).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lent {
    /// The interface as the service sees it.
    pub carrier: Carrier,
    /// Bytes of a slot of the socket's receive ring.
    pub slot_bytes: u32,
    /// Slots of the ring.
    pub slots: u32,
}

/// Asks for a link of two rings, whose frames are this node's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attach {
    /// Name of the interface.
    pub interface: String,
    /// EtherType of frames.
    pub ethertype: u16,
    /// The client's node: each frame that leaves must bear its source tag, and frames that come with its destination tag are its.
    pub node: NodeId,
    /// Where it asks from, a number that it draws: one that attaches again, as its connection broke, takes its own place.
    pub token: u64,
}

/// The answer: the rings' memory and the client's end of the bell come with it (two descriptors, in this order).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attached {
    /// The interface as the service sees it.
    pub carrier: Carrier,
    /// Bytes of the memory.
    pub memory_bytes: u32,
}

/// A destination tag, and the user whose node has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// The tag.
    pub tag: u16,
    /// The user's number.
    pub user: u32,
}

/// To the service's successor: what its clients hold, at most [`HOLDINGS_MAX`] in a message. Nobody else may have their tags for as long as
/// the connection is open, as this service goes on serving them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// Some of them.
    pub holdings: Vec<Holding>,
}

/// To the service's successor, after all that its clients hold: the listening socket comes with it (one descriptor).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handed {
    /// The service has made the socket, and not somebody who removes it in the end.
    pub own: bool,
}

/// An interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carrier {
    /// The number by which the kernel knows it.
    pub index: u32,
    /// Largest packet in bytes after the link header.
    pub mtu: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// The answer to what is not to be had, and the last message of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// A line for people: what is refused, and what to do.
    pub reason: String,
}

/// What a client says.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each is described with its structure")]
pub enum Request {
    Hello(Hello),
    Lend(Lend),
    Attach(Attach),
    /// Asks the service to let the asker take new clients in its place: of the same user, or root. Answered with [`Held`] and [`Handed`].
    Replace,
    Engine(Engine),
}

/// What the service says.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each is described with its structure")]
pub enum Answer {
    Welcome(Welcome),
    Lent(Lent),
    Attached(Attached),
    Held(Held),
    Handed(Handed),
    Seated(Seated),
    Refused(Refused),
}

impl Request {
    /// Reads a client's message.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::of(bytes)?;
        let request = match fields.kind {
            HELLO => {
                fields.magic()?;
                // Whoever speaks another version has another layout behind this, and is answered all the same.
                let version = fields.half()?;
                if version != VERSION {
                    return Ok(Self::Hello(Hello { version, namespace: 0 }));
                }
                Self::Hello(Hello { version, namespace: fields.long()? })
            }
            LEND => Self::Lend(Lend {
                interface: fields.name()?,
                ethertype: fields.half()?,
                tag: fields.half()?,
                small_frames_only: fields.truth()?,
            }),
            ATTACH => Self::Attach(Attach {
                interface: fields.name()?,
                ethertype: fields.half()?,
                node: NodeId(fields.long()?),
                token: fields.long()?,
            }),
            REPLACE => Self::Replace,
            ENGINE => Self::Engine(Engine::parse(&mut fields)?),
            kind => return Err(Malformed::Kind(kind)),
        };
        fields.end()?;
        Ok(request)
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Self::Hello(Hello { version, namespace }) => Writer::new(HELLO)
                .bytes(&MAGIC)
                .bytes(&version.to_be_bytes())
                .bytes(&namespace.to_be_bytes()),
            Self::Lend(Lend { interface, ethertype, tag, small_frames_only }) => Writer::new(LEND)
                .name(interface)
                .bytes(&ethertype.to_be_bytes())
                .bytes(&tag.to_be_bytes())
                .bytes(&[u8::from(*small_frames_only)]),
            Self::Attach(Attach { interface, ethertype, node, token }) => Writer::new(ATTACH)
                .name(interface)
                .bytes(&ethertype.to_be_bytes())
                .bytes(&node.0.to_be_bytes())
                .bytes(&token.to_be_bytes()),
            Self::Replace => Writer::new(REPLACE),
            Self::Engine(engine) => engine.emit(Writer::new(ENGINE)),
        }
        .0
    }
}

impl Answer {
    /// Reads a message of the service.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::of(bytes)?;
        let answer = match fields.kind {
            WELCOME => {
                fields.magic()?;
                let version = fields.half()?;
                if version != VERSION {
                    let (lends, attaches, clients_max) = (false, false, 0);
                    return Ok(Self::Welcome(Welcome { version, lends, attaches, clients_max }));
                }
                Self::Welcome(Welcome {
                    version,
                    lends: fields.truth()?,
                    attaches: fields.truth()?,
                    clients_max: fields.word()?,
                })
            }
            LENT => Self::Lent(Lent {
                carrier: fields.carrier()?,
                slot_bytes: fields.word()?,
                slots: fields.word()?,
            }),
            ATTACHED => Self::Attached(Attached {
                carrier: fields.carrier()?,
                memory_bytes: fields.word()?,
            }),
            HELD => Self::Held(Held { holdings: fields.holdings()? }),
            HANDED => Self::Handed(Handed { own: fields.truth()? }),
            SEATED => Self::Seated(Seated { memory_bytes: fields.word()? }),
            REFUSED => Self::Refused(Refused { reason: fields.line()? }),
            kind => return Err(Malformed::Kind(kind)),
        };
        fields.end()?;
        Ok(answer)
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Self::Welcome(Welcome { version, lends, attaches, clients_max }) => {
                Writer::new(WELCOME)
                    .bytes(&MAGIC)
                    .bytes(&version.to_be_bytes())
                    .bytes(&[u8::from(*lends), u8::from(*attaches)])
                    .bytes(&clients_max.to_be_bytes())
            }
            Self::Lent(Lent { carrier, slot_bytes, slots }) => Writer::new(LENT)
                .carrier(carrier)
                .bytes(&slot_bytes.to_be_bytes())
                .bytes(&slots.to_be_bytes()),
            Self::Attached(Attached { carrier, memory_bytes }) => {
                Writer::new(ATTACHED).carrier(carrier).bytes(&memory_bytes.to_be_bytes())
            }
            Self::Held(Held { holdings }) => {
                holdings.iter().fold(Writer::new(HELD), |writer, Holding { tag, user }| {
                    writer.bytes(&tag.to_be_bytes()).bytes(&user.to_be_bytes())
                })
            }
            Self::Handed(Handed { own }) => Writer::new(HANDED).bytes(&[u8::from(*own)]),
            Self::Seated(Seated { memory_bytes }) => {
                Writer::new(SEATED).bytes(&memory_bytes.to_be_bytes())
            }
            Self::Refused(Refused { reason }) => Writer::new(REFUSED).line(reason),
        }
        .0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requests() -> [Request; 4] {
        let interface = String::from("enp0s31f6.4094a");
        [
            Request::Hello(Hello { version: VERSION, namespace: 0xF000_0098 }),
            Request::Lend(Lend {
                interface: interface.clone(),
                ethertype: 0x88b5,
                tag: 0x1c1d,
                small_frames_only: true,
            }),
            Request::Attach(Attach {
                interface,
                ethertype: 0x88b5,
                node: NodeId(7 << 40),
                token: 5,
            }),
            Request::Replace,
        ]
    }

    fn answers() -> [Answer; 6] {
        let carrier = Carrier { index: 3, mtu: 9000, mac: [2, 0, 0, 0, 0, 9] };
        let refused = Refused { reason: "user ŝ is in no group that …".into() };
        [
            Answer::Welcome(Welcome {
                version: VERSION,
                lends: true,
                attaches: false,
                clients_max: 512,
            }),
            Answer::Lent(Lent { carrier, slot_bytes: 2048, slots: 1024 }),
            Answer::Attached(Attached { carrier, memory_bytes: 1 << 20 }),
            Answer::Refused(refused),
            Answer::Held(Held { holdings: vec![Holding { tag: 7, user: 65_534 }; HOLDINGS_MAX] }),
            Answer::Handed(Handed { own: true }),
        ]
    }

    #[test]
    fn what_is_said_is_understood_and_nothing_shorter_or_longer_is() {
        for request in requests() {
            let bytes = request.emit();
            assert!(bytes.len() < BUFFER_BYTES);
            assert_eq!(Request::parse(&bytes), Ok(request));
            for end in 0..bytes.len() {
                assert!(Request::parse(&bytes[..end]).is_err(), "{bytes:?} to {end}");
            }
            assert!(Request::parse(&[&bytes[..], &[0]].concat()).is_err());
            assert!(Answer::parse(&bytes).is_err(), "not what a service says");
        }
        for answer in answers() {
            let bytes = answer.emit();
            assert!(bytes.len() < BUFFER_BYTES);
            assert_eq!(Answer::parse(&bytes), Ok(answer));
            assert!(Request::parse(&bytes).is_err(), "not what a client says");
        }
    }

    #[test]
    fn another_version_is_understood_as_far_as_its_version() {
        let mut hello = Request::Hello(Hello { version: 7, namespace: 9 }).emit();
        hello.extend([1, 2, 3]);
        let parsed = Request::parse(&hello);
        assert_eq!(parsed, Ok(Request::Hello(Hello { version: 7, namespace: 0 })));
        hello[3] ^= 1;
        assert_eq!(Request::parse(&hello), Err(Malformed::Magic));
    }

    #[test]
    fn names_are_such_as_interfaces_have() {
        let lend = |interface: &str| {
            let (ethertype, tag, small_frames_only) = (1, 2, false);
            let lend = Lend { interface: interface.into(), ethertype, tag, small_frames_only };
            Request::parse(&Request::Lend(lend).emit())
        };
        assert!(lend("eth0").is_ok());
        for wrong in ["", "a b", "../../etc", "sixteen-letters!", "é", "e\0f"] {
            assert!(lend(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_reason_is_one_line_of_bounded_length() {
        let reason = "two\nlines ".to_owned() + &"ŝ".repeat(REASON_BYTES);
        let bytes = Answer::Refused(Refused { reason }).emit();
        let Ok(Answer::Refused(parsed)) = Answer::parse(&bytes) else { panic!("it is one") };
        assert!(parsed.reason.starts_with("two lines ŝŝ"));
        assert!(parsed.reason.len() <= REASON_BYTES && parsed.reason.len() > REASON_BYTES - 2);
    }

    proptest! {
        /// Whatever comes is a message, or not, and what is one has its bytes.
        #[test]
        fn bytes_are_what_they_are(bytes in prop::collection::vec(any::<u8>(), 0..BUFFER_BYTES)) {
            if let Ok(request) = Request::parse(&bytes) {
                let other = matches!(request, Request::Hello(hello) if hello.version != VERSION);
                prop_assert!(other || request.emit() == bytes);
            }
            if let Ok(answer) = Answer::parse(&bytes) {
                let other = matches!(answer, Answer::Welcome(told) if told.version != VERSION);
                prop_assert!(other || answer.emit() == bytes);
            }
        }

        #[test]
        fn a_changed_byte_is_no_panic(which in 0..4usize, at in 0..64usize, to in any::<u8>()) {
            let mut bytes = requests()[which].emit();
            let at = at % bytes.len();
            bytes[at] = to;
            let _ = Request::parse(&bytes);
        }
    }
}
