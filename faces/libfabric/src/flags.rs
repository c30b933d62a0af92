//! libfabric's flags, a type for each kind. A bit may mean as many things as there are kinds: 59 is directed receives among
//! capabilities, a claim among an operation's flags, selective completion in a binding, and symmetric hosts in an address
//! vector. What C hands in becomes a kind once, by [`from_c`](Caps::from_c), where its argument is named.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! kind {
    ($(#[$doc:meta])* $kind:ident { $($(#[$of:meta])* $flag:ident = $bits:expr;)* }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $kind(u64);

        #[allow(dead_code, reason = "not each kind is asked everything")]
        impl $kind {
            pub const NONE: Self = Self(0);
            $($(#[$of])* pub const $flag: Self = Self($bits);)*

            /// Bits that C calls by this kind.
            pub const fn from_c(bits: u64) -> Self {
                Self(bits)
            }

            pub const fn bits(self) -> u64 {
                self.0
            }

            /// These and those.
            pub const fn with(self, more: Self) -> Self {
                Self(self.0 | more.0)
            }

            pub const fn without(self, others: Self) -> Self {
                Self(self.0 & !others.0)
            }

            /// Those of these that are among the others.
            pub const fn only(self, others: Self) -> Self {
                Self(self.0 & others.0)
            }

            /// True if all of the others are among these.
            pub const fn has(self, others: Self) -> bool {
                self.0 & others.0 == others.0
            }

            /// True if one of the others is among these.
            pub const fn has_any(self, others: Self) -> bool {
                self.0 & others.0 != 0
            }

            /// True if one of these is not among the others.
            pub const fn exceeds(self, others: Self) -> bool {
                self.0 & !others.0 != 0
            }
        }
    };
}

kind! {
    /// Capabilities of an endpoint or a domain.
    Caps {
        MSG = 1 << 1;
        RMA = 1 << 2;
        TAGGED = 1 << 3;
        ATOMIC = 1 << 4;
        MULTICAST = 1 << 5;
        READ = 1 << 8;
        WRITE = 1 << 9;
        RECV = 1 << 10;
        SEND = 1 << 11;
        REMOTE_READ = 1 << 12;
        REMOTE_WRITE = 1 << 13;
        MULTI_RECV = 1 << 16;
        FENCE = 1 << 21;
        AV_USER_ID = 1 << 41;
        SOURCE_ERR = 1 << 50;
        LOCAL_COMM = 1 << 51;
        REMOTE_COMM = 1 << 52;
        RMA_EVENT = 1 << 56;
        SOURCE = 1 << 57;
        NAMED_RX_CTX = 1 << 58;
        DIRECTED_RECV = 1 << 59;
    }
}

kind! {
    /// Flags that an operation is posted with.
    OpFlags {
        MULTICAST = 1 << 5;
        MULTI_RECV = 1 << 16;
        REMOTE_CQ_DATA = 1 << 17;
        MORE = 1 << 18;
        PEEK = 1 << 19;
        /// Begun by a counter, or (the second bit) by a device.
        TRIGGERS = 1 << 20 | 1 << 44;
        FENCE = 1 << 21;
        COMPLETION = 1 << 24;
        INJECT = 1 << 25;
        INJECT_COMPLETE = 1 << 26;
        TRANSMIT_COMPLETE = 1 << 27;
        DELIVERY_COMPLETE = 1 << 28;
        COMMIT_COMPLETE = 1 << 30;
        MATCH_COMPLETE = 1 << 31;
        /// How far an operation is to be before it is told to have ended, at least.
        COMPLETION_LEVELS = 1 << 26 | 1 << 27 | 1 << 28 | 1 << 31;
        DISCARD = 1 << 58;
        CLAIM = 1 << 59;
    }
}

kind! {
    /// What a completion says of its operation.
    CqFlags {
        MSG = 1 << 1;
        RMA = 1 << 2;
        TAGGED = 1 << 3;
        ATOMIC = 1 << 4;
        READ = 1 << 8;
        WRITE = 1 << 9;
        RECV = 1 << 10;
        SEND = 1 << 11;
        REMOTE_WRITE = 1 << 13;
        /// The buffer for several messages is the application's again.
        MULTI_RECV = 1 << 16;
        REMOTE_CQ_DATA = 1 << 17;
    }
}

kind! {
    /// Flags by which a completion queue is bound to an endpoint.
    BindFlags {
        RECV = 1 << 10;
        TRANSMIT = 1 << 11;
        /// Only operations that ask for it have an entry.
        SELECTIVE_COMPLETION = 1 << 59;
    }
}

kind! {
    /// Which way an operation goes: what a counter counts, and how a region may be reached.
    Directions {
        READ = 1 << 8;
        WRITE = 1 << 9;
        RECV = 1 << 10;
        SEND = 1 << 11;
        REMOTE_READ = 1 << 12;
        REMOTE_WRITE = 1 << 13;
        /// Of others, to memory of ours.
        REMOTE = 1 << 12 | 1 << 13;
        ALL = 0x3F << 8;
    }
}

impl Directions {
    /// One by one.
    pub const EACH: [Self; 6] =
        [Self::READ, Self::WRITE, Self::RECV, Self::SEND, Self::REMOTE_READ, Self::REMOTE_WRITE];

    /// Of one direction, its place among [`EACH`](Self::EACH), whose bits follow each other.
    #[inline]
    pub const fn place(self) -> usize {
        self.0.trailing_zeros().wrapping_sub(Self::READ.0.trailing_zeros()) as usize
    }
}

kind! {
    /// Flags of an address vector, and of inserting into one.
    AvFlags {
        MORE = 1 << 18;
        EVENT = 1 << 24;
        /// Of an address vector, and of single insertions into others.
        USER_ID = 1 << 41;
        /// A peer that cannot be called, but calls: all peers of EMP can.
        FIREWALL = 1 << 42;
        SYNC_ERR = 1 << 58;
        /// Each host has as many endpoints: nothing that would make a difference here.
        SYMMETRIC = 1 << 59;
    }
}

kind! {
    /// Flags of opening an event queue.
    EqOpenFlags {
        /// The application adds events: each queue takes them.
        WRITE = 1 << 9;
        /// As with completion queues.
        AFFINITY = 1 << 29;
    }
}

kind! {
    /// Flags of opening a completion queue.
    CqOpenFlags {
        /// Where its interrupts are to go, which is a hint: it has none.
        AFFINITY = 1 << 29;
    }
}

kind! {
    /// Flags of reading an event queue.
    EqFlags {
        PEEK = 1 << 19;
    }
}

kind! {
    /// Flags of `fi_getinfo`.
    InfoFlags {
        PROV_ATTR_ONLY = 1 << 54;
        NUMERICHOST = 1 << 55;
        /// `node` and `service` are where this process is to be reached.
        SOURCE = 1 << 57;
        /// The core's own: a provider of the core asks whether it could be put on top of this one.
        FROM_WITHIN = 1 << 59;
    }
}

kind! {
    /// Flags of registering memory.
    MrFlags {
        /// Memory of a device, by descriptor or otherwise, and memory that survives a loss of power.
        REFUSED = 1 << 40 | 1 << 46 | 1 << 49;
    }
}

kind! {
    /// Flags of asking for an atomic operation.
    QueryFlags {
        FETCH_ATOMIC = 1 << 58;
        COMPARE_ATOMIC = 1 << 59;
    }
}

/// The flags of an endpoint's operations that are posted without any, which any thread may set.
pub struct Defaults(AtomicU64);

impl Defaults {
    pub fn new(flags: OpFlags) -> Self {
        Self(AtomicU64::new(flags.bits()))
    }

    #[inline]
    pub fn get(&self) -> OpFlags {
        OpFlags::from_c(self.0.load(Ordering::Relaxed))
    }

    pub fn set(&self, flags: OpFlags) {
        self.0.store(flags.bits(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_compared_as_sets() {
        let both = Caps::MSG.with(Caps::TAGGED);
        assert!(both.has(Caps::MSG) && !Caps::MSG.has(both) && Caps::MSG.has_any(both));
        assert!(both.exceeds(Caps::MSG) && !Caps::MSG.exceeds(both));
        assert_eq!(both.without(Caps::MSG), Caps::TAGGED);
        assert_eq!(both.only(Caps::MSG.with(Caps::RMA)), Caps::MSG);
        assert!(!Caps::NONE.has_any(both) && both.has(Caps::NONE));
    }

    #[test]
    fn they_are_what_c_has_in_their_place() {
        assert_eq!((size_of::<Caps>(), align_of::<Caps>()), (8, align_of::<u64>()));
        assert_eq!(
            Directions::EACH.into_iter().fold(Directions::NONE, Directions::with),
            Directions::ALL
        );
        let levels = [
            OpFlags::INJECT_COMPLETE,
            OpFlags::TRANSMIT_COMPLETE,
            OpFlags::DELIVERY_COMPLETE,
            OpFlags::MATCH_COMPLETE,
        ];
        assert_eq!(
            levels.into_iter().fold(OpFlags::NONE, OpFlags::with),
            OpFlags::COMPLETION_LEVELS
        );
    }

    #[test]
    fn of_two_threads_one_sees_what_the_other_sets() {
        let defaults = Defaults::new(OpFlags::COMPLETION);
        std::thread::scope(|scope| {
            scope.spawn(|| defaults.set(OpFlags::INJECT));
        });
        assert_eq!(defaults.get(), OpFlags::INJECT);
    }
}
