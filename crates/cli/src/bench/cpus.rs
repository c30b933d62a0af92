//! The CPUs of a board on two threads.

use emp_host::stay_on_cpu;

use crate::bail_user;
use crate::error::user_error;
use crate::process;

/// CPUs as they were named for a board, checked: two for one on two threads, none for others.
pub fn check(cpus: &[usize], board: &str) -> anyhow::Result<Option<Ends>> {
    check_among(cpus, board, &usable_cpus())
}

/// Of either end, the CPU of the engine and that of the board's other thread.
pub type Ends = [[usize; 2]; 2];

/// Those of a board for which none were named, where both ends are on this machine, their engines on its first two: no thread shares one, as two that
/// spin would take it from each other. `None`: there are too few, or the board has one thread.
pub fn apart(board: &str, usable: &[usize]) -> Option<Ends> {
    match *usable {
        [a, b, c, d, ..] if board.starts_with("split") => Some([[a, c], [b, d]]),
        _ => None,
    }
}

fn check_among(cpus: &[usize], board: &str, usable: &[usize]) -> anyhow::Result<Option<Ends>> {
    if cpus.is_empty() {
        return Ok(None);
    }
    if !board.starts_with("split") {
        bail_user!(
            "--cpus is for boards on two threads, such as split:io; {board} takes its caller's"
        );
    }
    let &[first, second] = cpus else {
        bail_user!("{board} is on 2 CPUs, and --cpus names {}", cpus.len());
    };
    if first == second {
        bail_user!("--cpus names CPU {first} twice; {board} is on two");
    }
    if let Some(missing) = cpus.iter().find(|cpu| !usable.contains(cpu)) {
        let all: Vec<_> = usable.iter().map(usize::to_string).collect();
        bail_user!(
            "CPU {missing} is not one that this process may use, which are {}",
            all.join(", ")
        );
    }
    Ok(Some([[first, second], [second, first]]))
}

/// Keeps the calling thread on the engine's CPU; returned is that of the board's other thread. They are the second end's for one whose engine is on that
/// CPU alone, as one of a lab is, else the first's.
pub fn settle(cpus: Option<Ends>) -> anyhow::Result<Option<usize>> {
    let Some([first, second]) = cpus else { return Ok(None) };
    let [own, other] = if usable_cpus() == second[..1] { second } else { first };
    stay_on_cpu(own).map_err(|error| user_error(format!("CPU {own} is not to be had: {error}")))?;
    Ok(Some(other))
}

/// The CPUs that this process may use.
pub fn usable_cpus() -> Vec<usize> {
    parse_cpu_list(&process::own_status("Cpus_allowed_list").unwrap_or_default())
}

/// Numbers in the kernel's notation: `0-3,8`.
fn parse_cpu_list(text: &str) -> Vec<usize> {
    let ranges = text.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserError;

    #[test]
    fn two_threads_take_two_cpus() {
        let of = |cpus: &[usize], board| check_among(cpus, board, &[0, 1, 4]);
        assert_eq!(of(&[], "inline").unwrap(), None);
        assert_eq!(of(&[4, 0], "split:io").unwrap(), Some([[4, 0], [0, 4]]));
        for (cpus, board, says) in [
            (&[0, 1][..], "thread", "split:io; thread takes its caller's"),
            (&[1], "split:io", "is on 2 CPUs, and --cpus names 1"),
            (&[0, 1, 4], "split:io", "is on 2 CPUs, and --cpus names 3"),
            (&[1, 1], "split:io", "names CPU 1 twice"),
            (&[0, 7], "split:io", "CPU 7 is not one that this process may use, which are 0, 1, 4"),
        ] {
            let error = of(cpus, board).unwrap_err();
            assert!(error.is::<UserError>() && error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn four_threads_take_four_cpus_of_a_machine_that_has_them() {
        assert_eq!(apart("split:io", &[0, 1, 4, 5, 6]), Some([[0, 4], [1, 5]]));
        assert_eq!(apart("split:io", &[0, 1, 4]), None);
        assert_eq!(apart("inline", &[0, 1, 4, 5]), None);
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-1"), [0, 1]);
        assert_eq!(parse_cpu_list("3"), [3]);
        assert_eq!(parse_cpu_list("0-2,8,10-11\n"), [0, 1, 2, 8, 10, 11]);
        assert!(parse_cpu_list("").is_empty());
    }
}
