//! TCP, MPI over it, and VIA on the hosts of the LAM/MPICH/MVICH comparison (A1 to A4): two 450 MHz machines with PCI of 32 bits and 33 MHz.
//!
//! No part of EMP runs here: these are what it is measured against. A byte costs what copies and checksums take; a packet costs what drivers,
//! interrupts and the stack take; MPI copies once or twice more. NetPIPE's Mb are 2^20 bits (A7).

use crate::card::{Parameter, Source};

/// A card of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nic {
    /// Alteon ACEnic.
    Alteon,
    /// SysKonnect SK-NET.
    SysKonnect,
    /// Packet Engines GNIC-II.
    Gnic,
}

/// A message-passing library over TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mpi {
    /// LAM 6.3, client to client.
    Lam,
    /// MPICH 1.1.2.
    Mpich,
}

/// A window of 64 KB or 128 KB (A10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    /// 64 KB.
    K64,
    /// 128 KB.
    K128,
}

/// Nanoseconds of a packet, of a byte, of a stall where a window of 64 KB holds few jumbo frames, and of a message's first byte with frames of
/// 1500 bytes and of 9000: interrupts that are deferred, for the most part.
struct Costs {
    packet: f64,
    byte: f64,
    stall: f64,
    first: [f64; 2],
}

/// Of a frame, what TCP and IP take.
const HEADERS: f64 = 40.0;
/// NetPIPE 2.3 counts 2^20 bits as a Mb (A7).
const MEGABIT: f64 = 1_048_576.0;
/// Frames whose buffers are more than a page: the kernel takes four or more of them at a time, and counts that against the window.
const SEVERAL_PAGES: u32 = 8_000;

impl Nic {
    const fn costs(self) -> Costs {
        match self {
            Self::Alteon => Costs {
                packet: 17_400.0,
                byte: 13.36,
                stall: 337_000.0,
                first: [171_000.0, 121_000.0],
            },
            Self::SysKonnect => Costs {
                packet: 17_700.0,
                byte: 10.95,
                stall: 135_000.0,
                first: [43_000.0, 46_000.0],
            },
            // From what LAM and MPICH lost (A14, A15): 372 Mb/s at MTU 1500; per packet as the other two. It has no longer frames.
            Self::Gnic => Costs { packet: 17_550.0, byte: 8.5, stall: 0.0, first: [117_000.0; 2] },
        }
    }
}

/// Nanoseconds that a byte takes through TCP.
fn tcp_byte_ns(nic: Nic, mtu: u32, window: Window) -> f64 {
    let Costs { packet, byte, stall, .. } = nic.costs();
    let stalls = window == Window::K64 && mtu >= SEVERAL_PAGES;
    let stalled = if stalls { stall / 65_536.0 } else { 0.0 };
    packet / (f64::from(mtu) - HEADERS) + byte + stalled
}

fn mbps(byte_ns: f64) -> f64 {
    8e9 / byte_ns / MEGABIT
}

/// TCP's peak, in NetPIPE's Mb/s (A10).
pub fn tcp(nic: Nic, mtu: u32, window: Window) -> f64 {
    mbps(tcp_byte_ns(nic, mtu, window))
}

/// Microseconds of a message's first byte (A12).
pub fn tcp_us(nic: Nic, mtu: u32) -> f64 {
    nic.costs().first[usize::from(mtu > 1_500)] / 1e3
}

/// Times that a sender of a block waits for an acknowledgement before its window has grown to the block, each as long as a first byte takes; so
/// many in the first 16 KB (A11).
const WAITS: f64 = 1.7;
const WAITED_BYTES: f64 = 16_384.0;

/// TCP's throughput with blocks of so many bytes, in NetPIPE's Mb/s: a first byte, the waits, and then what its peak has.
pub fn tcp_block(nic: Nic, mtu: u32, bytes: u32) -> f64 {
    let bytes = f64::from(bytes);
    let waits = WAITS * (bytes / WAITED_BYTES).min(1.0);
    let ns = tcp_us(nic, mtu) * 1e3 * (1.0 + waits) + tcp_byte_ns(nic, mtu, Window::K128) * bytes;
    mbps(ns / bytes)
}

/// What a library adds to a message (A14, A15).
const LAM_FIXED_US: f64 = 23.0;
const MPICH_FIXED_US: f64 = 56.0;

/// A library's message of a byte, one way (A14 to A16).
pub fn mpi_us(library: Mpi, nic: Nic, mtu: u32) -> f64 {
    let adds = match library {
        Mpi::Lam => LAM_FIXED_US,
        Mpi::Mpich => MPICH_FIXED_US,
    };
    tcp_us(nic, mtu) + adds
}

/// What a library adds to each byte: LAM one copy of a memory of 75 MB/s, MPICH one and a half.
const LAM_BYTE_NS: f64 = 13.3;
const MPICH_BYTE_NS: f64 = 20.0;

/// A library's peak over TCP, in NetPIPE's Mb/s (A14 to A16). MPICH has fixed socket buffers of 4096 bytes, so that longer frames are never filled
/// (A19).
pub fn mpi(library: Mpi, nic: Nic, mtu: u32) -> f64 {
    match library {
        Mpi::Lam => mbps(tcp_byte_ns(nic, mtu, Window::K128) + LAM_BYTE_NS),
        Mpi::Mpich => mbps(tcp_byte_ns(nic, mtu.min(1_500), Window::K128) + MPICH_BYTE_NS),
    }
}

/// VIA on the GNIC-II (A13): no copy at the sender, one at the receiver, no stack.
const VIA_BYTE_NS: f64 = 16.5;
const VIA_FIXED_NS: f64 = 16_000.0;
/// What MVICH adds (A17): a copy, and matching.
const MVICH_BYTE_NS: f64 = 9.9;
const MVICH_FIXED_NS: f64 = 10_000.0;

/// One way, microseconds of so many bytes over M-VIA; with MVICH on it.
pub fn via_us(bytes: u32, mvich: bool) -> f64 {
    let (fixed, byte) = if mvich {
        (VIA_FIXED_NS + MVICH_FIXED_NS, VIA_BYTE_NS + MVICH_BYTE_NS)
    } else {
        (VIA_FIXED_NS, VIA_BYTE_NS)
    };
    (fixed + byte * f64::from(bytes)) / 1e3
}

/// The same as throughput, in NetPIPE's Mb/s.
pub fn via_mbps(bytes: u32, mvich: bool) -> f64 {
    f64::from(bytes) * 8e6 / via_us(bytes, mvich) / MEGABIT
}

/// All figures, for people.
pub fn list() -> Vec<Parameter> {
    let fitted = Source::Fitted;
    let us = |name, ns: f64, to| Parameter::new(name, ns / 1e3, "us", fitted(to));
    let (alteon, sysk, gnic) = (Nic::Alteon.costs(), Nic::SysKonnect.costs(), Nic::Gnic.costs());
    vec![
        Parameter::new(
            "Alteon, a packet",
            alteon.packet / 1e3,
            "us",
            fitted("301.8 and 441.9 Mb/s at MTU 1500 and 4500, 128 K (A10)"),
        ),
        Parameter::new("Alteon, a byte", alteon.byte, "ns", fitted("the same")),
        Parameter::new(
            "Alteon, stall of a 64 K window",
            alteon.stall / 1e3,
            "us",
            fitted("373.0 Mb/s at MTU 9000, 64 K (A10)"),
        ),
        Parameter::new(
            "SysKonnect, a packet",
            sysk.packet / 1e3,
            "us",
            fitted("331.0 and 509.8 Mb/s at MTU 1500 and 4500, 128 K (A10)"),
        ),
        Parameter::new("SysKonnect, a byte", sysk.byte, "ns", fitted("the same")),
        Parameter::new(
            "SysKonnect, stall of a 64 K window",
            sysk.stall / 1e3,
            "us",
            fitted("512.5 Mb/s at MTU 9000, 64 K (A10)"),
        ),
        Parameter::new(
            "GNIC-II, a byte",
            gnic.byte,
            "ns",
            fitted("372 Mb/s, from LAM's 216 and its loss of 42 % (A14)"),
        ),
        us("Alteon, a first byte, MTU 1500", alteon.first[0], "LAM's 194 us (A14)"),
        us("Alteon, a first byte, MTU 9000", alteon.first[1], "121 us (A12)"),
        us("SysKonnect, a first byte, MTU 1500", sysk.first[0], "LAM's 66 us (A14)"),
        us("SysKonnect, a first byte, MTU 9000", sysk.first[1], "46 us (A12)"),
        us("GNIC-II, a first byte", gnic.first[0], "LAM's 140 us (A14)"),
        Parameter::new(
            "waits of a block's first 16 KB",
            WAITS,
            "",
            fitted("SK-NET 32 % ahead of GNIC-II at 16 KB (A11)"),
        ),
        us("LAM, a message", LAM_FIXED_US * 1e3, "69 us on SK-NET, MTU 9000 (A16)"),
        us("MPICH, a message", MPICH_FIXED_US * 1e3, "99 us on SK-NET (A15)"),
        Parameter::new("LAM, a byte", LAM_BYTE_NS, "ns", fitted("210 Mb/s on SK-NET (A14)")),
        Parameter::new("MPICH, a byte", MPICH_BYTE_NS, "ns", fitted("188 Mb/s on GNIC-II (A15)")),
        Parameter::new("M-VIA, a message", VIA_FIXED_NS / 1e3, "us", fitted("16 us (A13)")),
        Parameter::new("M-VIA, a byte", VIA_BYTE_NS, "ns", fitted("448 Mb/s at 30 KB (A13)")),
        Parameter::new("MVICH, a message", MVICH_FIXED_NS / 1e3, "us", fitted("26 us (A17)")),
        Parameter::new("MVICH, a byte", MVICH_BYTE_NS, "ns", fitted("280 Mb/s at 32 KB (A17)")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_frames_and_windows_carry_more_and_a_library_less() {
        for nic in [Nic::Alteon, Nic::SysKonnect, Nic::Gnic] {
            let of = |mtu| tcp(nic, mtu, Window::K128);
            assert!(of(1_500) < of(4_500) && of(4_500) < of(9_000));
            assert!(tcp(nic, 9_000, Window::K64) <= of(9_000));
            assert!(mpi(Mpi::Lam, nic, 9_000) > mpi(Mpi::Lam, nic, 1_500));
            assert!(mpi(Mpi::Mpich, nic, 9_000) <= of(1_500));
        }
        assert!(via_mbps(30_000, true) < via_mbps(30_000, false));
    }

    #[test]
    fn blocks_come_near_the_peak_and_a_slow_card_comes_late() {
        for nic in [Nic::Alteon, Nic::SysKonnect, Nic::Gnic] {
            let of = |bytes| tcp_block(nic, 1_500, bytes);
            assert!(of(1_024) < of(16_384) && of(16_384) < of(1 << 20));
            let peak = tcp(nic, 1_500, Window::K128);
            assert!((0.95..1.0).contains(&(of(8 << 20) / peak)), "{nic:?}");
            assert!(tcp_us(nic, 1_500) < mpi_us(Mpi::Lam, nic, 1_500));
        }
        let part = |nic| tcp_block(nic, 1_500, 16_384) / tcp(nic, 1_500, Window::K128);
        assert!(part(Nic::Alteon) < part(Nic::SysKonnect));
    }
}
