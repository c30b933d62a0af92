//! The words for what is measured: patterns, subjects.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// What the two ends do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One message there, one back.
    Pingpong,
    /// Messages one way, some outstanding, and one acknowledgement when the last has arrived.
    Stream,
    /// Streams both ways at once.
    Bidir,
    /// A stream of small messages, of which the number counts.
    Rate,
    /// Bytes written to the other end's memory.
    Put,
    /// Bytes read from there.
    Get,
    /// Numbers there added to, and fetched.
    Atomic,
    /// Random messages both ways, every byte checked.
    Verify,
}

impl Pattern {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pingpong => "pingpong",
            Self::Stream => "stream",
            Self::Bidir => "bidir",
            Self::Rate => "rate",
            Self::Put => "put",
            Self::Get => "get",
            Self::Atomic => "atomic",
            Self::Verify => "verify",
        }
    }

    /// One end does all of it, the other is only reached.
    pub fn one_sided(self) -> bool {
        matches!(self, Self::Put | Self::Get | Self::Atomic)
    }
}

/// A way into EMP beside its own API: what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceName {
    /// Its name on the command line, and among the words that both ends share.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
}

/// All of them.
pub const FACES: [FaceName; 4] = [
    FaceName { name: "libfabric", title: "libfabric" },
    FaceName { name: "mx", title: "MX" },
    FaceName { name: "vipl", title: "VIPL" },
    FaceName { name: "vmmc", title: "VMMC" },
];

/// A face's name for people.
pub fn face_title(name: &'static str) -> &'static str {
    FACES.iter().find(|face| face.name == name).map_or(name, |face| face.title)
}

/// What is measured against what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "&str")]
pub enum SubjectKind {
    /// EMP through its public interface.
    Emp,
    /// EMP through one of its faces, as programs for other interfaces reach it: by the name in [`FACES`].
    Face(&'static str),
    /// An MPI over EMP, and over TCP: measured beside the others by programs of its own, by the names in [`Self::MPIS`].
    Mpi(&'static str),
    /// The bare link that EMP uses: frames, no reliability.
    Raw,
    /// TCP with `TCP_NODELAY`, polled without sleeping.
    Tcp,
    /// TCP with `TCP_NODELAY`, sleeping in the kernel.
    TcpBlock,
}

impl SubjectKind {
    /// EMP through its libfabric provider, as MPIs reach it.
    pub const LIBFABRIC: Self = Self::Face("libfabric");

    /// An MPI over EMP, and over TCP.
    pub const MPIS: [Self; 2] = [Self::Mpi("mpi-emp"), Self::Mpi("mpi-tcp")];

    /// What EMP can be measured against.
    pub fn yardsticks() -> impl Iterator<Item = Self> {
        let faces = FACES.iter().map(|face| Self::Face(face.name));
        faces.chain([Self::Raw, Self::Tcp, Self::TcpBlock])
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Emp => "emp",
            Self::Face(name) | Self::Mpi(name) => name,
            Self::Raw => "raw",
            Self::Tcp => "tcp",
            Self::TcpBlock => "tcp-block",
        }
    }

    /// Whether it is EMP through one of its faces.
    pub fn is_face(self) -> bool {
        matches!(self, Self::Face(_))
    }
}

impl<'de> Deserialize<'de> for SubjectKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let mut all = Self::yardsticks().chain(Self::MPIS).chain([Self::Emp]);
        let found = all.find(|kind| kind.name() == name);
        found.ok_or_else(|| D::Error::custom(format!("there is no subject {name}")))
    }
}

impl From<SubjectKind> for &'static str {
    fn from(kind: SubjectKind) -> Self {
        kind.name()
    }
}

/// What shares the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ShareSubject {
    /// EMP by its host API: one node at the receiver.
    Emp,
    /// TCP under cubic, sleeping in the kernel.
    TcpCubic,
    /// TCP under bbr.
    TcpBbr,
    /// Both at once: of the senders, the first, third and so on are EMP's, the others TCP's under cubic. The ping-pong is EMP's.
    #[serde(rename = "emp+cubic")]
    #[value(name = "emp+cubic")]
    EmpBesideCubic,
}

impl ShareSubject {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Emp => "emp",
            Self::TcpCubic => "tcp-cubic",
            Self::TcpBbr => "tcp-bbr",
            Self::EmpBesideCubic => "emp+cubic",
        }
    }

    /// What is to steer its connections, if it has any.
    pub fn congestion(self) -> Option<&'static str> {
        match self {
            Self::Emp => None,
            Self::TcpCubic | Self::EmpBesideCubic => Some("cubic"),
            Self::TcpBbr => Some("bbr"),
        }
    }

    /// Whether a sender's part is EMP's, by its number.
    pub fn is_emp(self, sender: usize) -> bool {
        match self {
            Self::Emp => true,
            Self::TcpCubic | Self::TcpBbr => false,
            Self::EmpBesideCubic => sender.is_multiple_of(2),
        }
    }
}

/// Congestion controls that TCP is measured under, Linux's default first.
pub const CONGESTION_NAMES: [&str; 2] = ["cubic", "bbr"];
