//! What each face adds to the host API: the difference where messages are short, the ratio where they are long.

use super::table::{align_right, bare, number, subject};
use crate::measured::{Row, SubjectKind};
use crate::sizes;

/// A row for each face and size; nothing without faces.
pub fn added(rows: &[Row]) -> String {
    let mut table =
        bare(&["face", "size", "host API µs", "face µs", "adds µs", "of its throughput"]);
    let mut any = false;
    for row in rows.iter().filter(|row| row.subject.is_face()) {
        let Some((host, face)) = host(rows, row) else { continue };
        any = true;
        table.add_row([
            subject(row),
            row.size.map_or_else(|| "-".to_owned(), sizes::show),
            number(Some(host), 2),
            number(Some(face), 2),
            format!("{:+.2}", face - host),
            format!("{:.2}×", host / face),
        ]);
    }
    align_right(&mut table, &[1, 2, 3, 4, 5]);
    if any { format!("\n{table}\n") } else { String::new() }
}

/// The times of the host API and of a face at the same size.
fn host(rows: &[Row], face: &Row) -> Option<(f64, f64)> {
    let same = |row: &&Row| {
        row.subject == SubjectKind::Emp && (row.pattern, row.size) == (face.pattern, face.size)
    };
    Some((rows.iter().find(same)?.one_way_us?, face.one_way_us?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::fixtures::point;

    #[test]
    fn a_face_stands_beside_the_host_api_at_its_size() {
        let points = [
            point(SubjectKind::Emp, 32, 1.0),
            point(SubjectKind::Face("mx"), 32, 1.25),
            point(SubjectKind::Emp, 64, 5.0),
            point(SubjectKind::Tcp, 32, 9.0),
        ];
        let rows: Vec<Row> = points.into_iter().map(|point| point.row).collect();
        let text = added(&rows);
        let line = text.lines().find(|line| line.starts_with(" MX")).unwrap_or_default();
        for part in [" 32 ", "1.00", "1.25", "+0.25", "0.80×"] {
            assert!(line.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("9.00") && !text.contains("5.00"), "{text}");
        assert_eq!(added(&rows[..1]), "");
    }
}
