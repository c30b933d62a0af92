//! Files as NetPIPE writes them, for the tools and spreadsheets that read its `np.out` (lineage, section 4.1).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::measured::Point;

/// Which NetPIPE's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Columns {
    /// NetPIPE 3.7: bytes, best throughput in units of 2^20 bits per second, best time in seconds.
    #[value(name = "3")]
    Three,
    /// NetPIPE 5: bytes, mean, least and best throughput in Gb/s, mean time in µs.
    #[value(name = "5")]
    Five,
}

/// NetPIPE 3 counts megabits of 2^20 bits.
const BITS_PER_MEGABIT: f64 = (1 << 20) as f64;

/// Writes one file a subject, `np.SUBJECT.out`, and names them.
pub fn write(directory: &Path, columns: Columns, points: &[Point]) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    let mut names: Vec<String> = Vec::new();
    for point in points {
        if !names.contains(&file_name(point)) {
            names.push(file_name(point));
        }
    }
    let paths = names.into_iter().map(|name| {
        let path = directory.join(&name);
        let own = points.iter().filter(|point| file_name(point) == name);
        let text: String = own.map(|point| line(point, columns)).collect();
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    });
    paths.collect()
}

/// `np.emp-packet.out`
fn file_name(point: &Point) -> String {
    let link = point.row.link.as_ref().map(|link| format!("-{link}")).unwrap_or_default();
    format!("np.{}{link}.out", point.row.subject.name())
}

fn line(point: &Point, columns: Columns) -> String {
    let bytes = point.bytes();
    let bits = bytes as f64 * 8.0;
    // Trials that took no time at all are none.
    let mean_us = point.row.mean_us.unwrap_or(f64::NAN);
    let gbps = |us: f64| bits * 1e-3 / us;
    let mut line = String::new();
    // Writing to a string does not fail.
    let _ = match columns {
        Columns::Three => {
            let seconds = point.best_us * 1e-6;
            writeln!(line, "{bytes:8} {:.6} {seconds:12.8}", bits / seconds / BITS_PER_MEGABIT)
        }
        Columns::Five => writeln!(
            line,
            "{bytes:9} {:9.3} {:9.3} {:9.3} {:7.2}",
            gbps(mean_us),
            gbps(point.worst_us),
            gbps(point.best_us),
            mean_us
        ),
    };
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::SubjectKind;
    use crate::measured::fixtures::point;

    #[test]
    fn lines_are_those_of_netpipe() {
        let point = point(SubjectKind::Emp, 1024, 2.0);
        // 1024 B in 2 µs: 8192 bits · 500,000 / 2^20 = 3906.25 Mb/s, or 4.096 Gb/s.
        assert_eq!(line(&point, Columns::Three), "    1024 3906.250000   0.00000200\n");
        assert_eq!(
            line(&point, Columns::Five),
            "     1024     4.096     4.096     4.096    2.00\n"
        );
    }

    #[test]
    fn each_subject_has_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let points = [
            point(SubjectKind::Emp, 1, 1.0),
            point(SubjectKind::Tcp, 1, 2.0),
            point(SubjectKind::Emp, 2, 1.0),
        ];
        let paths = write(&directory.path().join("new"), Columns::Three, &points).unwrap();
        let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["np.emp-packet.out", "np.tcp.out"]);
        assert_eq!(fs::read_to_string(&paths[0]).unwrap().lines().count(), 2);
        assert_eq!(fs::read_to_string(&paths[1]).unwrap().lines().count(), 1);
    }
}
