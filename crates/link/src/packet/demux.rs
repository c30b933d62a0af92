//! The classic BPF program that picks the socket of a `PACKET_FANOUT` group by destination tag.
//!
//! All nodes of one interface are members of one group, so that the kernel looks at a frame once and not once for each node
//! (38 ns each). The program answers with a member's *index*, its place among the group's sockets; who has which is in
//! [`members`](super::members).

use emp_wire::{DESTINATION_TAG_OFFSET, TAG_EVERYONE};

use crate::TAG_ANY;

/// Members of a group at most: a program has 4,096 instructions at most, and a member takes five.
pub(super) const MEMBERS_MAX: usize = 512;

/// Ancillary load: a random number.
const RANDOM: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_NOT_LESS: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const RETURN_LOADED: u32 = libc::BPF_RET | libc::BPF_A;
const MODULO: u32 = libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K;
const ADD: u32 = libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K;

const fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const fn branch(code: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k }
}

/// The program for members `(tag, index)` in ascending order of their tags, each tag once. A frame for everyone goes to a
/// member drawn at random: who repeats it reaches others. One for nobody here goes to the member with [`TAG_ANY`]; without such a one
/// anywhere, as the kernel must pick a member, and is dropped there. Loads count from the EMP header: at this point the kernel has passed the Ethernet header by.
pub(super) fn program(members: &[(u16, u16)]) -> Vec<libc::sock_filter> {
    let mut steps = vec![
        step(LOAD_HALF, DESTINATION_TAG_OFFSET as u32),
        branch(IF_EQUAL, TAG_EVERYONE.into(), 0, 2),
        step(LOAD_WORD, RANDOM),
        step(RETURN_LOADED, 0),
    ];
    let (others, rest) = match members {
        [(TAG_ANY, index), rest @ ..] => (step(RETURN, u32::from(*index)), rest),
        all => (step(RETURN_LOADED, 0), all),
    };
    search(rest, others, &mut steps);
    steps
}

/// As [`program`], of a group whose first socket is nobody's, of `sockets` in all: that one is given what is for nobody here, and drops it.
pub(super) fn program_behind_first(members: &[(u16, u16)], sockets: u16) -> Vec<libc::sock_filter> {
    let others = u32::from(sockets.saturating_sub(1));
    let mut steps = vec![step(LOAD_HALF, DESTINATION_TAG_OFFSET as u32)];
    // By nothing nobody divides.
    if others > 0 {
        steps.extend([
            branch(IF_EQUAL, TAG_EVERYONE.into(), 0, 4),
            step(LOAD_WORD, RANDOM),
            step(MODULO, others),
            step(ADD, 1),
            step(RETURN_LOADED, 0),
        ]);
    }
    search(members, step(RETURN, 0), &mut steps);
    steps
}

/// A binary search, which ends with `nobodys` for other tags: 256 members take eight comparisons.
fn search(members: &[(u16, u16)], nobodys: libc::sock_filter, steps: &mut Vec<libc::sock_filter>) {
    match members {
        [] => steps.push(nobodys),
        [(tag, index)] => {
            steps.push(branch(IF_EQUAL, u32::from(*tag), 0, 1));
            steps.push(step(RETURN, u32::from(*index)));
            steps.push(nobodys);
        }
        _ => {
            let (low, high) = members.split_at(members.len() / 2);
            steps.push(branch(IF_NOT_LESS, u32::from(high[0].0), 0, 1));
            // A conditional jump reaches 255 steps, this one any number.
            let jump = steps.len();
            steps.push(step(JUMP, 0));
            search(low, nobodys, steps);
            steps[jump].k = (steps.len() - jump - 1) as u32;
            search(high, nobodys, steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel's machine answers for a frame with this tag; `random` is its random number.
    fn run(program: &[libc::sock_filter], tag: u16, random: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            let jump = |yes: bool| usize::from(if yes { jt } else { jf });
            at += 1;
            match u32::from(code) {
                LOAD_HALF => loaded = u32::from(tag),
                LOAD_WORD => loaded = random,
                IF_EQUAL => at += jump(loaded == k),
                IF_NOT_LESS => at += jump(loaded >= k),
                JUMP => at += k as usize,
                MODULO => loaded %= k,
                ADD => loaded += k,
                RETURN => return k,
                RETURN_LOADED => return loaded,
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    #[test]
    fn each_member_has_its_frames() {
        for count in [0, 1, 2, 3, 7, 64, 255, MEMBERS_MAX] {
            let members: Vec<(u16, u16)> =
                (0..count as u16).map(|i| (1 + i * 100, (i * 7 + 3) % 600)).collect();
            let program = program(&members);
            assert!(program.len() <= 4096, "{count} members: {} steps", program.len());
            for (tag, index) in &members {
                assert_eq!(run(&program, *tag, 0), u32::from(*index));
                assert_eq!(run(&program, tag + 1, 0), u32::from(tag + 1), "nobody's");
            }
            assert_eq!(run(&program, TAG_EVERYONE, 4711), 4711);
        }
    }

    #[test]
    fn the_first_socket_has_what_is_nobodys() {
        assert_eq!(run(&program_behind_first(&[], 1), TAG_EVERYONE, 7), 0);
        for count in [1, 2, 5, MEMBERS_MAX - 1] {
            let members: Vec<(u16, u16)> =
                (0..count as u16).map(|i| (1 + i * 100, i + 1)).collect();
            let program = program_behind_first(&members, count as u16 + 1);
            assert!(program.len() <= 4096, "{count} members: {} steps", program.len());
            for (tag, index) in &members {
                assert_eq!(run(&program, *tag, 0), u32::from(*index));
                assert_eq!(run(&program, tag + 1, 0), 0, "nobody's");
            }
            for random in [0, 1, 4711, u32::MAX] {
                let drawn = run(&program, TAG_EVERYONE, random);
                assert!((1..=count as u32).contains(&drawn), "{drawn}");
            }
        }
    }

    #[test]
    fn what_is_nobodys_goes_to_who_takes_any() {
        for count in [0, 1, 2, 100, MEMBERS_MAX - 1] {
            let mut members: Vec<(u16, u16)> =
                (0..count as u16).map(|i| (5 + i * 100, i + 1)).collect();
            members.insert(0, (TAG_ANY, 0));
            let program = program(&members);
            for (tag, index) in &members[1..] {
                assert_eq!(run(&program, *tag, 0), u32::from(*index));
                assert_eq!(run(&program, tag + 1, 0), 0);
            }
            assert_eq!(run(&program, 3, 9), 0);
            assert_eq!(run(&program, TAG_EVERYONE, 4711), 4711);
        }
    }

    #[test]
    fn a_search_is_short() {
        let members: Vec<(u16, u16)> = (0..256).map(|i| (i * 3, i)).collect();
        let program = program(&members);
        assert!(program.len() < 6 * 256);
    }
}
