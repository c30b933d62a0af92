//! The classic BPF programs that let frames up: this node's alone, or, where a group's program picks the socket, all but those of
//! nodes in no group. Where there are no such nodes a member has no filter: running one costs a frame some 40 ns.

use emp_wire::{
    DESTINATION_TAG_OFFSET, KIND_OFFSET, Kind, RELAY_KIND, RelayUse, TAG_EVERYONE, VERSION,
};

use crate::TAG_ANY;
use crate::gather::ETHERNET_HEADER_BYTES;

/// Offset of the EtherType in a frame.
const ETHERTYPE_OFFSET: u32 = 12;
/// Ancillary load: what the kernel thinks a frame is (`PACKET_HOST` and so on).
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
/// The bits of a frame's first byte that are its kind.
const KIND_BITS: u32 = 0x1f;
/// The program's answer for "take it": more bytes than any frame has.
const TAKE_ALL: u32 = 0x4_0000;

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_GREATER: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
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
        // Any tag: neither comparison fails.
        branch(u32::from(node_tag), 1, 0),
        branch(u32::from(TAG_EVERYONE), 0, if node_tag == TAG_ANY { 0 } else { 1 }),
        step(RETURN, TAKE_ALL),
        step(RETURN, 0),
    ]
}

/// Takes searches, whatever their tag, and nothing else: a relay's own filter, where there is no group.
pub(super) fn searches(ethertype: u16) -> [libc::sock_filter; 10] {
    let first = (ETHERNET_HEADER_BYTES + KIND_OFFSET) as u32;
    let start = u32::from(u16::from(VERSION << 5 | RELAY_KIND) << 8 | RelayUse::Search as u16);
    [
        step(LOAD_HALF, ETHERTYPE_OFFSET),
        branch(u32::from(ethertype), 0, 7),
        step(LOAD_BYTE, PACKET_TYPE),
        branch(u32::from(libc::PACKET_OUTGOING), 5, 0),
        branch(u32::from(libc::PACKET_OTHERHOST), 4, 0),
        step(LOAD_HALF, first),
        branch(start, 1, 0),
        step(RETURN, 0),
        step(RETURN, TAKE_ALL),
        step(RETURN, 0),
    ]
}

/// Takes nothing.
pub(super) const NONE: [libc::sock_filter; 1] = [step(RETURN, 0)];

/// Tags of others that a member of a group can be told to pass over.
pub(super) const PASSED_OVER_MAX: usize = 8;

/// The last of the kinds by which nodes find each other, which are the first two.
const LAST_CONTACT: u32 = Kind::HelloReply as u32;
const _: () = assert!(Kind::Hello.contact() && Kind::HelloReply.contact() && LAST_CONTACT == 2);

/// Whether a frame is one of those.
pub(super) fn is_greeting(frame: &[u8]) -> bool {
    frame.get(KIND_OFFSET).is_some_and(|byte| u32::from(*byte) & KIND_BITS <= LAST_CONTACT)
}

/// Takes what was sent to this machine, whatever its tag: others' frames show that a group's program is wrong. But not those with
/// the tags of nodes that are in no group, whose every frame the kernel hands to some member, and each that is taken wakes it: of
/// these greetings alone. A node that becomes a member greets its peers anew, and one that is not reached any more is looked for
/// by greetings: should the group's program take this member for such a one, it shows.
pub(super) fn members_frames(passed_over: &[u16]) -> Vec<libc::sock_filter> {
    let tag_offset = (ETHERNET_HEADER_BYTES + DESTINATION_TAG_OFFSET) as u32;
    let kind_offset = (ETHERNET_HEADER_BYTES + KIND_OFFSET) as u32;
    let tags = &passed_over[..passed_over.len().min(PASSED_OVER_MAX)];
    let mut steps = vec![
        step(LOAD_BYTE, PACKET_TYPE),
        branch(u32::from(libc::PACKET_OUTGOING), tags.len() as u8 + 6, 0),
        branch(u32::from(libc::PACKET_OTHERHOST), tags.len() as u8 + 5, 0),
        step(LOAD_HALF, tag_offset),
    ];
    let compare = |(i, tag): (usize, &u16)| branch(u32::from(*tag), (tags.len() - i) as u8, 0);
    steps.extend(tags.iter().enumerate().map(compare));
    steps.extend([
        step(RETURN, TAKE_ALL),
        step(LOAD_BYTE, kind_offset),
        step(AND, KIND_BITS),
        libc::sock_filter { code: IF_GREATER as u16, jt: 0, jf: 1, k: LAST_CONTACT },
        step(RETURN, 0),
        step(RETURN, TAKE_ALL),
    ]);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel's machine answers for an incoming frame of a kind with this tag.
    fn run(program: &[libc::sock_filter], packet: u8, tag: u16, kind: Kind) -> u32 {
        let kind_offset = (ETHERNET_HEADER_BYTES + KIND_OFFSET) as u32;
        let (mut at, mut loaded) = (0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            let jump = |yes: bool| usize::from(if yes { jt } else { jf });
            at += 1;
            match u32::from(code) {
                LOAD_BYTE if k == kind_offset => loaded = 1 << 5 | kind as u32,
                LOAD_BYTE => loaded = packet.into(),
                LOAD_HALF => loaded = tag.into(),
                AND => loaded &= k,
                IF_EQUAL => at += jump(loaded == k),
                IF_GREATER => at += jump(loaded > k),
                RETURN => return k,
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    #[test]
    fn a_member_takes_all_but_what_it_passes_over_and_of_that_greetings() {
        let tags: Vec<u16> = (0..PASSED_OVER_MAX as u16 + 3).map(|i| 100 + i).collect();
        for count in 0..tags.len() {
            let program = members_frames(&tags[..count]);
            let passed_over = &tags[..count.min(PASSED_OVER_MAX)];
            for (tag, kind) in (95..115).flat_map(|tag| Kind::ALL.map(|kind| (tag, kind))) {
                let over = passed_over.contains(&tag) && !kind.contact();
                let host = libc::PACKET_HOST;
                let taken = run(&program, host, tag, kind);
                assert_eq!(taken, if over { 0 } else { TAKE_ALL }, "{tag} {kind:?}");
                assert_eq!(run(&program, libc::PACKET_OUTGOING, tag, kind), 0);
                assert_eq!(run(&program, libc::PACKET_OTHERHOST, tag, kind), 0);
            }
        }
    }
}
