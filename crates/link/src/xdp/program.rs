//! The program that an interface runs on each frame: this node's frames go to the socket of the
//! queue that they came by, everything else goes on into the kernel as if there were no program.

use emp_rings::BpfInstruction;
use emp_wire::{DESTINATION_TAG_OFFSET, TAG_EVERYONE};

use crate::gather::ETHERNET_HEADER_BYTES;

/// Verdicts of an XDP program, from `<linux/bpf.h>`.
pub(super) const PASS: u32 = 2;
pub(super) const REDIRECT: u32 = 4;

/// Offset of the EtherType in a frame.
const ETHERTYPE_OFFSET: i16 = 12;
const TAG_OFFSET: i16 = (ETHERNET_HEADER_BYTES + DESTINATION_TAG_OFFSET) as i16;

/// What the program is handed (`struct xdp_md`): offsets of the frame's start, its end, and the
/// queue.
const CONTEXT_DATA: i16 = 0;
const CONTEXT_END: i16 = 4;
const CONTEXT_QUEUE: i16 = 16;

/// The kernel function `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
/// Marks the constant of a 64-bit load as a map's descriptor.
const IS_MAP: u8 = 1;

// Operations that `libc` has no names for, beside those it has from the classic machine.
const LOAD_WORD: u8 = (libc::BPF_LDX | libc::BPF_MEM | libc::BPF_W) as u8;
const LOAD_HALF: u8 = (libc::BPF_LDX | libc::BPF_MEM | libc::BPF_H) as u8;
const LOAD_DOUBLE: u8 = (libc::BPF_LD | libc::BPF_IMM) as u8 | DOUBLE;
const DOUBLE: u8 = 0x18;
const ALU64: u8 = 0x07;
const MOVE: u8 = 0xB0 | ALU64;
const FROM_REGISTER: u8 = libc::BPF_X as u8;
const ADD: u8 = libc::BPF_ADD as u8 | ALU64;
const JUMP: u8 = libc::BPF_JMP as u8;
const IF_GREATER: u8 = libc::BPF_JGT as u8 | JUMP;
const IF_EQUAL: u8 = libc::BPF_JEQ as u8 | JUMP;
const IF_DIFFERENT: u8 = 0x50 | JUMP;
const CALL: u8 = 0x80 | JUMP;
const EXIT: u8 = 0x90 | JUMP;

/// Instructions of the program, of which one fills two places.
pub(super) const INSTRUCTIONS: usize = 18;
/// Where frames of no concern go: sets the verdict and ends.
const PASS_AT: i16 = 16;
/// Where frames go that are taken.
const TAKE_AT: i16 = 10;

const fn step(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> BpfInstruction {
    BpfInstruction::new(code, to, from, offset, constant)
}

/// A 16-bit value of a frame as the machine loads it.
const fn loaded(wire: u16) -> i32 {
    u16::from_ne_bytes(wire.to_be_bytes()) as i32
}

/// Redirects frames of `ethertype` that carry `node_tag` or everyone's tag through the map `map`;
/// frames of queues that have no socket there pass.
///
/// Tags are looked at here, and not only the EtherType, so that other nodes on this interface (by
/// the packet link) still get theirs. Frames to everyone go to the one node that is here.
pub(super) fn redirect(ethertype: u16, node_tag: u16, map: i32) -> [BpfInstruction; INSTRUCTIONS] {
    // r1: context; r2: start; r3: end; r4, r5: scratch.
    let unless = |code, constant, at: i16| step(code, 5, 0, PASS_AT - at - 1, constant);
    [
        step(LOAD_WORD, 2, 1, CONTEXT_DATA, 0),
        step(LOAD_WORD, 3, 1, CONTEXT_END, 0),
        step(MOVE | FROM_REGISTER, 4, 2, 0, 0),
        step(ADD, 4, 0, 0, i32::from(TAG_OFFSET) + 2),
        step(IF_GREATER | FROM_REGISTER, 4, 3, PASS_AT - 5, 0),
        step(LOAD_HALF, 5, 2, ETHERTYPE_OFFSET, 0),
        unless(IF_DIFFERENT, loaded(ethertype), 6),
        step(LOAD_HALF, 5, 2, TAG_OFFSET, 0),
        step(IF_EQUAL, 5, 0, TAKE_AT - 9, loaded(node_tag)),
        unless(IF_DIFFERENT, loaded(TAG_EVERYONE), 9),
        // bpf_redirect_map(map, queue, PASS)
        step(LOAD_WORD, 2, 1, CONTEXT_QUEUE, 0),
        step(LOAD_DOUBLE, 1, IS_MAP, 0, map),
        step(0, 0, 0, 0, 0),
        step(MOVE, 3, 0, 0, PASS as i32),
        step(CALL, 0, 0, 0, REDIRECT_MAP),
        step(EXIT, 0, 0, 0, 0),
        step(MOVE, 0, 0, 0, PASS as i32),
        step(EXIT, 0, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use emp_rings::{XdpProgram, XskMap};

    use emp_testing::{Need, skip};

    use super::*;
    use std::os::fd::{AsFd, AsRawFd};

    const ETHERTYPE: u16 = 0x88B5;
    const TAG: u16 = 0x0A0B;

    #[test]
    fn every_jump_ends_at_a_landing() {
        let code = redirect(ETHERTYPE, TAG, 3);
        assert_eq!(code[PASS_AT as usize].code, MOVE);
        assert_eq!(code[TAKE_AT as usize].offset, CONTEXT_QUEUE);
        let landings: Vec<i16> = (0..)
            .zip(code)
            .filter(|(_, step)| step.code & 7 == JUMP && ![CALL, EXIT].contains(&step.code))
            .map(|(at, step)| at + 1 + step.offset)
            .collect();
        assert_eq!(landings, [PASS_AT, PASS_AT, TAKE_AT, PASS_AT]);
    }

    /// None, loudly, where the user may not load programs.
    fn map() -> Option<XskMap> {
        let map = XskMap::new(1);
        let may_not = |error: &_| {
            skip(Need::Root, &format!("this user may not load programs: {error}"));
        };
        map.inspect_err(may_not).ok()
    }

    fn frame(ethertype: u16, tag: u16, bytes: usize) -> Vec<u8> {
        let mut frame = vec![0x24; 64];
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        frame[18..20].copy_from_slice(&tag.to_be_bytes());
        frame.truncate(bytes);
        frame
    }

    /// The kernel runs the program: this needs the right to load one, and no interface.
    #[test]
    fn the_kernel_runs_it_as_meant() {
        let socket_for_queue_0 = emp_rings::Xsk::new(emp_rings::XskShape::new(0, 0, 0));
        let (map, socket) = match (XskMap::new(1), socket_for_queue_0) {
            (Ok(map), Ok(socket)) => (map, socket),
            (Err(error), _) | (_, Err(error)) => {
                // SAFETY: takes no arguments and cannot fail.
                assert_ne!(unsafe { libc::geteuid() }, 0, "root may, yet: {error}");
                return skip(Need::Root, &format!("this user may not load programs: {error}"));
            }
        };
        map.set(0, socket.as_fd()).expect("queue 0 is in the map");
        for several in [false, true] {
            let code = redirect(ETHERTYPE, TAG, map.as_fd().as_raw_fd());
            let program = XdpProgram::load(&code, several).expect("the verifier takes it");
            let verdict = |frame: &[u8]| program.test(frame, None).expect("it runs");
            assert_eq!(verdict(&frame(ETHERTYPE, TAG, 64)), REDIRECT);
            assert_eq!(verdict(&frame(ETHERTYPE, TAG_EVERYONE, 64)), REDIRECT);
            assert_eq!(verdict(&frame(ETHERTYPE, TAG, 20)), REDIRECT, "just long enough");
            assert_eq!(verdict(&frame(ETHERTYPE, TAG, 19)), PASS, "too short for a tag");
            assert_eq!(verdict(&frame(ETHERTYPE, TAG ^ 1, 64)), PASS, "another node's");
            assert_eq!(verdict(&frame(ETHERTYPE, TAG.swap_bytes(), 64)), PASS);
            for other in [0x0800, 0x0806, 0x86DD, 0x8100, ETHERTYPE + 1, ETHERTYPE.swap_bytes()] {
                assert_eq!(verdict(&frame(other, TAG, 64)), PASS, "{other:#06x}");
            }
            assert_eq!(verdict(&frame(ETHERTYPE, TAG, 14)), PASS);
        }
    }

    #[test]
    fn a_queue_without_socket_passes() {
        let Some(map) = map() else { return };
        let code = redirect(ETHERTYPE, TAG, map.as_fd().as_raw_fd());
        let program = XdpProgram::load(&code, true).expect("the verifier takes it");
        assert_eq!(program.test(&frame(ETHERTYPE, TAG, 64), None).expect("it runs"), PASS);
    }

    #[test]
    fn what_the_verifier_says_is_handed_on() {
        let Some(map) = map() else { return };
        let mut code = redirect(ETHERTYPE, TAG, map.as_fd().as_raw_fd());
        // A read beyond what was checked.
        code[7].offset += 2;
        let error = XdpProgram::load(&code, true).expect_err("it is unsafe").to_string();
        assert!(error.contains("packet"), "{error}");
    }
}
