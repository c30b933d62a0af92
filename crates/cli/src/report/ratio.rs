//! EMP's throughput as a multiple of TCP's, size by size, and the geometric mean: the same factor counts the same, whether
//! up or down and whatever the size.

use super::table;
use crate::measured::{Point, SubjectKind};
use crate::sizes;

/// How one of EMP's curves stands to TCP's.
pub struct Ratio {
    /// Whose.
    pub subject: String,
    /// Bytes of a message, and EMP's throughput divided by spinning TCP's, under whichever congestion control that was faster.
    pub points: Vec<(usize, f64)>,
}

impl Ratio {
    /// The geometric mean over the sizes.
    pub fn mean(&self) -> f64 {
        let logs: f64 = self.points.iter().map(|(_, ratio)| ratio.ln()).sum();
        (logs / self.points.len() as f64).exp()
    }

    /// The size with the least ratio, and that.
    pub fn least(&self) -> (usize, f64) {
        self.extreme(|a, b| a < b)
    }

    /// The size with the greatest ratio, and that.
    pub fn greatest(&self) -> (usize, f64) {
        self.extreme(|a, b| a > b)
    }

    /// Sizes where EMP is at least as fast.
    pub fn ahead(&self) -> usize {
        self.points.iter().filter(|(_, ratio)| *ratio >= 1.0).count()
    }

    fn extreme(&self, better: fn(f64, f64) -> bool) -> (usize, f64) {
        let points = self.points.iter().copied();
        points
            .reduce(|best, at| if better(at.1, best.1) { at } else { best })
            .unwrap_or((0, f64::NAN))
    }
}

/// One for each of EMP's subjects, in their order; none without TCP.
pub fn all(points: &[Point]) -> Vec<Ratio> {
    let tcp = |bytes| {
        let mut tcps = points.iter().filter(|point| point.row.subject == SubjectKind::Tcp);
        tcps.find(|point| point.bytes() == bytes)?.row.one_way_us
    };
    let mut ratios: Vec<Ratio> = Vec::new();
    for point in points.iter().filter(|point| point.row.subject == SubjectKind::Emp) {
        let (Some(own), Some(theirs)) = (point.row.one_way_us, tcp(point.bytes())) else {
            continue;
        };
        let (subject, at) = (table::subject(&point.row), (point.bytes(), theirs / own));
        match ratios.iter_mut().find(|ratio| ratio.subject == subject) {
            Some(ratio) => ratio.points.push(at),
            None => ratios.push(Ratio { subject, points: vec![at] }),
        }
    }
    ratios
}

/// A line for each.
pub fn show(ratios: &[Ratio]) -> String {
    let line = |ratio: &Ratio| {
        let ((low, least), (high, greatest)) = (ratio.least(), ratio.greatest());
        format!(
            "{} ÷ TCP: geometric mean {:.2}×; {least:.2}× ({}) to {greatest:.2}× ({}); ahead at {}/{}\n",
            ratio.subject,
            ratio.mean(),
            sizes::show(low),
            sizes::show(high),
            ratio.ahead(),
            ratio.points.len()
        )
    };
    ratios.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::fixtures::point;

    #[test]
    fn the_mean_is_geometric() {
        let points = [
            point(SubjectKind::Emp, 8, 1.0),
            point(SubjectKind::Tcp, 8, 4.0),
            point(SubjectKind::Emp, 64, 2.0),
            point(SubjectKind::Tcp, 64, 1.0),
            point(SubjectKind::Emp, 512, 2.0),
        ];
        let ratios = all(&points);
        assert_eq!(ratios.len(), 1);
        assert_eq!(ratios[0].points, [(8, 4.0), (64, 0.5)]);
        assert!((ratios[0].mean() - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!((ratios[0].least(), ratios[0].greatest()), ((64, 0.5), (8, 4.0)));
        assert_eq!(ratios[0].ahead(), 1);
        let text = show(&ratios);
        assert_eq!(
            text,
            "EMP packet ÷ TCP: geometric mean 1.41×; 0.50× (64) to 4.00× (8); ahead at 1/2\n"
        );
    }

    #[test]
    fn without_tcp_there_is_no_ratio() {
        assert!(all(&[point(SubjectKind::Emp, 8, 1.0)]).is_empty());
        assert_eq!(show(&[]), "");
    }
}
