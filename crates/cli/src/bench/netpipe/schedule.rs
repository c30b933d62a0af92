//! Which sizes NetPIPE measures: steps that double every other time, and a little less and more around each, so that
//! neither a round number nor the one beside it stands for all.

/// Bytes that each size is varied by, as in NetPIPE.
pub const PERTURBATION_DEFAULT: usize = 3;

/// One message size of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes.
    pub bytes: usize,
    /// It is a step itself, not one of the sizes beside it.
    pub round: bool,
}

/// The schedule of NetPIPE 3 and 5 (lineage, section 4.1) from `start` to `end` bytes. The last step's larger neighbour may
/// exceed `end`. A `perturbation` of 0 leaves the neighbours out; small steps have none, as they would overlap.
pub fn schedule(start: usize, end: usize, perturbation: usize) -> Vec<Size> {
    steps(start)
        .take_while(|&(size, _)| size <= end)
        .flat_map(|(size, step)| {
            let apart = perturbation > 0 && step > perturbation + 1;
            let around = if apart {
                vec![size - perturbation, size, size + perturbation]
            } else {
                vec![size]
            };
            around.into_iter().map(move |bytes| Size { bytes, round: bytes == size })
        })
        .collect()
}

/// Sizes and the steps that lead to the next ones.
fn steps(start: usize) -> impl Iterator<Item = (usize, usize)> {
    let (mut size, mut step) = (start, (start / 2).max(1));
    let first = usize::from(start > 1);
    (first..).map_while(move |number| {
        if number > 2 && number % 2 == 1 {
            step = step.checked_mul(2)?;
        }
        let here = size;
        size = size.checked_add(step)?;
        Some((here, step))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(start: usize, end: usize, perturbation: usize) -> Vec<usize> {
        schedule(start, end, perturbation).into_iter().map(|size| size.bytes).collect()
    }

    #[test]
    fn the_usual_schedule_is_that_of_netpipe() {
        let all = bytes(1, 10_000_000, 3);
        assert_eq!(all.len(), 124);
        let first = [
            1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67, 93,
            96, 99, 125, 128, 131, 189, 192, 195, 253, 256, 259,
        ];
        assert_eq!(all[..first.len()], first);
        assert_eq!(
            all[all.len() - 6..],
            [6_291_453, 6_291_456, 6_291_459, 8_388_605, 8_388_608, 8_388_611]
        );
        assert_eq!(bytes(1, 8 << 20, 3), all, "8 MiB is the last step below NetPIPE's end");
    }

    #[test]
    fn without_perturbation_the_steps_are_left() {
        let all = bytes(1, 10_000_000, 0);
        assert_eq!(all.len(), 46);
        assert_eq!(all[..14], [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]);
        let with: Vec<Size> = schedule(1, 10_000_000, 3);
        let round: Vec<usize> =
            with.iter().filter(|size| size.round).map(|size| size.bytes).collect();
        assert_eq!(round, all);
    }

    #[test]
    fn odd_ranges_end() {
        assert_eq!(bytes(64, 64, 3), [61, 64, 67]);
        assert!(bytes(100, 50, 3).is_empty());
        assert_eq!(bytes(2, 9, 3), [2, 3, 4, 6, 8]);
        assert!(bytes(1, usize::MAX, 0).len() < 2 * 64 + 8);
        // The lesser neighbours of a large perturbation would not be sizes at all.
        assert!(bytes(1, 4096, 900).iter().all(|&size| size > 0));
    }
}
