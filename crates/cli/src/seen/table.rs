//! Tables of at most 100 columns, one line a row: what is too long is cut, the last column first.

/// Columns of a terminal that everybody has.
const WIDTH: usize = 100;

/// A table: its heads, then its rows.
pub fn render<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heads.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let gaps = 2 * (N.max(1) - 1);
    // The widest gives way, the last of several.
    while widths.iter().sum::<usize>() + gaps > WIDTH {
        let Some(widest) = (0..N).max_by_key(|at| (widths[*at], *at)) else { break };
        widths[widest] -= 1;
    }
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| {
            let short: String = if cell.chars().count() > width {
                cell.chars().take(width.saturating_sub(1)).chain(['…']).collect()
            } else {
                cell.clone()
            };
            format!("{short:width$}")
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&heads.map(str::to_owned));
    rows.iter().for_each(|row| text += &line(row));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_never_wider_than_a_terminal() {
        let long = "x".repeat(90);
        let text = render(["A", "B", "C"], &[["a".into(), long.clone(), long]]);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.lines().nth(1).unwrap().contains('…'));
        assert_eq!(render(["A", "B"], &[["1".into(), "2".into()]]), "A  B\n1  2\n");
    }
}
