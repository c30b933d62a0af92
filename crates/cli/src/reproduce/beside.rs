//! EMP on today's hardware, as benches have measured it, in the axes of the papers' pictures.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::experiment::{Axes, Curve, Picture};
use crate::bail_user;
use crate::measured::{LogpRow, OverlapRow, Pattern, Point, SubjectKind};

/// What files of benches have.
#[derive(Default)]
pub struct Beside {
    netpipe: Vec<Point>,
    overlap: Vec<OverlapRow>,
    logp: Vec<LogpRow>,
}

/// What all benches' files have.
#[derive(Deserialize)]
struct Results<R> {
    results: Vec<R>,
}

fn results<R: DeserializeOwned>(text: &[u8]) -> Option<Vec<R>> {
    let Results { results } = serde_json::from_slice(text).ok()?;
    (!results.is_empty()).then_some(results)
}

impl Beside {
    /// Reads one more file, of whichever of the benches.
    pub fn read(&mut self, file: &Path) -> anyhow::Result<()> {
        let text = match fs::read(file) {
            Ok(text) => text,
            Err(problem) => bail_user!("{} can't be read: {problem}", file.display()),
        };
        if let Some(points) = results::<Point>(&text) {
            self.netpipe.extend(points);
        } else if let Some(rows) = results::<OverlapRow>(&text) {
            self.overlap.extend(rows);
        } else if let Some(rows) = results::<LogpRow>(&text) {
            self.logp.extend(rows);
        } else {
            bail_user!(
                "{} is not what `emp bench netpipe`, `overlap` or `logp` writes with --json",
                file.display()
            );
        }
        Ok(())
    }

    /// The picture of today that belongs beside a paper's, if its bench was run: the same quantities, and no further than the paper goes.
    pub fn picture(&self, paper: &Picture) -> Option<Picture> {
        let end = paper.curves.iter().flat_map(|(_, points)| points).chain(&paper.points);
        let end = end.map(|point| point.0).fold(0.0, f64::max);
        let mut curves = match paper.axes {
            Axes::Latency { unit } => self.by_size(unit, |row| row.one_way_us),
            Axes::Bandwidth { unit, bits } => {
                self.by_size(unit, |row| row.gbps.map(|gbps| gbps * 1e9 / bits))
            }
            Axes::Overlap => self.overlaps(),
            Axes::Other => Vec::new(),
        };
        for (_, points) in &mut curves {
            points.retain(|point| point.0 <= end);
        }
        curves.retain(|(_, points)| !points.is_empty());
        let (title, x, y, axes) = (paper.title, paper.x, paper.y, paper.axes);
        (!curves.is_empty()).then(|| Picture {
            title,
            x,
            y,
            axes,
            curves,
            points: Vec::new(),
            note: "",
        })
    }

    /// NetPIPE's curves, by link.
    fn by_size(&self, unit: f64, y: impl Fn(&crate::measured::Row) -> Option<f64>) -> Vec<Curve> {
        let mut curves = Vec::new();
        let emp = |point: &&Point| {
            point.row.subject == SubjectKind::Emp && point.row.pattern != Pattern::Bidir
        };
        for point in self.netpipe.iter().filter(emp) {
            let name = format!("EMP {}", point.row.link.as_deref().unwrap_or_default());
            if let Some(y) = y(&point.row) {
                add(&mut curves, name, (point.bytes() as f64 / unit, y));
            }
        }
        curves
    }

    fn overlaps(&self) -> Vec<Curve> {
        let mut curves = Vec::new();
        for row in self.overlap.iter().filter(|row| row.subject == SubjectKind::Emp) {
            add(&mut curves, row.name(), (row.user_percent / 100.0, row.gbps * 1e3));
        }
        curves
    }

    /// LogP's figures: who, bytes, half a round trip, L, Os, Or, g.
    pub fn log_p(&self) -> impl Iterator<Item = (String, usize, [f64; 5])> {
        self.logp.iter().map(|row| {
            let more = row.board.as_ref().or(row.congestion.as_ref());
            let more = more.map(|more| format!(" {more}")).unwrap_or_default();
            let name = format!("{}{more}", row.subject.name());
            let figures = [
                row.half_round_trip_us,
                row.latency_us,
                row.send_overhead_us,
                row.receive_overhead_us,
                row.gap_us,
            ];
            (name, row.size, figures)
        })
    }
}

fn add(curves: &mut Vec<Curve>, name: String, point: (f64, f64)) {
    match curves.iter_mut().find(|(known, _)| *known == name) {
        Some((_, points)) => points.push(point),
        None => curves.push((name, vec![point])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::fixtures::{overlap_row, point};

    fn paper(axes: Axes) -> Picture {
        let curves = vec![("model".to_owned(), vec![(0.0, 1.0), (2.0, 1.0)])];
        Picture { title: "", x: "", y: "", axes, curves, points: Vec::new(), note: "" }
    }

    #[test]
    fn todays_curves_are_in_the_papers_units_and_end_where_the_paper_does() {
        let netpipe = vec![
            point(SubjectKind::Emp, 1 << 10, 2.0),
            point(SubjectKind::Emp, 4 << 10, 4.0),
            point(SubjectKind::Tcp, 1 << 10, 9.0),
        ];
        let beside = Beside { netpipe, overlap: vec![overlap_row(50.0, 0.5)], logp: Vec::new() };
        let latency = beside.picture(&paper(Axes::Latency { unit: 1_024.0 })).unwrap();
        assert_eq!(latency.curves, [("EMP packet".to_owned(), vec![(1.0, 2.0)])]);
        let megabytes = Axes::Bandwidth { unit: 1_024.0, bits: 8e6 };
        let bandwidth = beside.picture(&paper(megabytes)).unwrap();
        assert!((bandwidth.curves[0].1[0].1 - 512.0).abs() < 1e-6, "{:?}", bandwidth.curves);
        let overlap = beside.picture(&paper(Axes::Overlap)).unwrap();
        assert_eq!(overlap.curves, [("emp inline".to_owned(), vec![(0.5, 4_000.0)])]);
        assert!(beside.picture(&paper(Axes::Other)).is_none());
    }
}
