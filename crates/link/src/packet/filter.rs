//! The classic BPF programs that let frames up: this node's alone, or, where a group's program picks the socket, all that came
//! from outside.

use emp_wire::{DESTINATION_TAG_OFFSET, TAG_EVERYONE};

use crate::gather::ETHERNET_HEADER_BYTES;

/// Offset of the EtherType in a frame.
const ETHERTYPE_OFFSET: u32 = 12;
/// Ancillary load: what the kernel thinks a frame is (`PACKET_HOST` and so on).
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
/// The program's answer for "take it": more bytes than any frame has.
const TAKE_ALL: u32 = 0x4_0000;

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

const fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Jumps `yes` instructions ahead if the loaded value is `k`, else `no`.
const fn branch(k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code: IF_EQUAL as u16, jt: yes, jf: no, k }
}

/// Takes frames of `ethertype` that carry `node_tag` or everyone's tag. Frames too short to have a
/// tag, copies of outgoing frames and (promiscuous mode) frames to other machines are dropped: a
/// load beyond the end of a frame makes the kernel drop it.
pub(crate) fn own_frames(ethertype: u16, node_tag: u16) -> [libc::sock_filter; 10] {
    let tag_offset = (ETHERNET_HEADER_BYTES + DESTINATION_TAG_OFFSET) as u32;
    [
        step(LOAD_HALF, ETHERTYPE_OFFSET),
        branch(u32::from(ethertype), 0, 7),
        step(LOAD_BYTE, PACKET_TYPE),
        branch(u32::from(libc::PACKET_OUTGOING), 5, 0),
        branch(u32::from(libc::PACKET_OTHERHOST), 4, 0),
        step(LOAD_HALF, tag_offset),
        branch(u32::from(node_tag), 1, 0),
        branch(u32::from(TAG_EVERYONE), 0, 1),
        step(RETURN, TAKE_ALL),
        step(RETURN, 0),
    ]
}

/// Takes what was sent to this machine, whatever its tag.
pub(crate) fn incoming_frames() -> [libc::sock_filter; 5] {
    [
        step(LOAD_BYTE, PACKET_TYPE),
        branch(u32::from(libc::PACKET_OUTGOING), 2, 0),
        branch(u32::from(libc::PACKET_OTHERHOST), 1, 0),
        step(RETURN, TAKE_ALL),
        step(RETURN, 0),
    ]
}
