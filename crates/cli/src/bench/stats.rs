//! Medians: machines are noisy, and one slow run out of five must not change the figure.

/// The median; the mean of the middle two if there is an even number. `None` without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> =
        samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The mean; `None` without samples.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The median of `a[i] / b[i]`: both were measured one right after the other, so what disturbed one run mostly
/// disturbed both and cancels out, which it doesn't in the ratio of two medians.
pub fn paired_ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
        assert_eq!(median(&[f64::NAN, 1.0, f64::INFINITY]), Some(1.0));
    }

    #[test]
    fn means_feel_what_medians_do_not() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[1.0, 1.0, 7.0]), Some(3.0));
        assert_eq!(median(&[1.0, 1.0, 7.0]), Some(1.0));
    }

    #[test]
    fn a_disturbance_of_both_sides_cancels_out() {
        let (a, b) = ([1.0, 5.0, 1.0, 7.0, 9.0], [2.0, 10.0, 2.0, 14.0, 18.0]);
        assert_eq!(paired_ratio(&a, &b), Some(0.5));
    }
}
