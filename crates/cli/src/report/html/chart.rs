//! One chart as inline SVG: logarithmic axes, curves named at their ends, colours left to the page's style sheet so that
//! the same picture serves light, dark and paper.

use std::fmt::Write as _;
use std::ops::Range;

use super::escape::escape;

/// Units of the picture; a page scales it to its width, down to where text of 13 units can still be read.
const PICTURE: (f64, f64) = (900.0, 430.0);

/// Units around the plot: left for the numbers (`1/1024×` is 62 units wide and stands 8 from the axis), right for the names,
/// above for the unit, below for numbers and unit.
const MARGIN: Margin = Margin { left: 74.0, right: 168.0, top: 26.0, bottom: 46.0 };

/// Units between two names, a line of text.
const NAME_APART: f64 = 17.0;

struct Margin {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A logarithmic axis.
pub struct Axis {
    /// What it counts, in which unit.
    pub title: &'static str,
    /// From where to where.
    pub range: Range<f64>,
    /// Where there is a number, and which.
    pub ticks: Vec<(f64, String)>,
}

/// One curve.
pub struct Curve {
    /// What it is called, beside its end.
    pub name: String,
    /// Classes of the style sheet: its colour, and `bare` for a broken line.
    pub class: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    /// Upper end of the band above each point, if it has one.
    pub band: Vec<f64>,
    /// Points that are marked, with the words that appear under the pointer.
    pub dots: Vec<((f64, f64), String)>,
    /// A level that the curve has on average.
    pub mean: Option<f64>,
}

/// A chart.
pub struct Chart {
    /// What it shows, for those who can't see it.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From below.
    pub y: Axis,
    /// In the order of drawing.
    pub curves: Vec<Curve>,
    /// A line from left to right.
    pub parity: Option<f64>,
    /// A line from top to bottom, and what it means.
    pub mark: Option<(f64, String)>,
}

impl Axis {
    /// Where a value is, 0 to 1.
    fn place(&self, value: f64) -> f64 {
        (value / self.range.start).ln() / (self.range.end / self.range.start).ln()
    }

    fn holds(&self, value: f64) -> bool {
        self.range.start <= value && value <= self.range.end
    }
}

impl Chart {
    /// The picture.
    pub fn svg(&self) -> String {
        let (width, height) = PICTURE;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
            escape(&self.title)
        );
        self.axes(&mut svg);
        for curve in &self.curves {
            self.curve(&mut svg, curve);
        }
        self.names(&mut svg);
        svg + "</svg>\n"
    }

    fn x(&self, value: f64) -> f64 {
        MARGIN.left + self.x.place(value) * (PICTURE.0 - MARGIN.left - MARGIN.right)
    }

    fn y(&self, value: f64) -> f64 {
        PICTURE.1 - MARGIN.bottom - self.y.place(value) * (PICTURE.1 - MARGIN.top - MARGIN.bottom)
    }

    fn axes(&self, svg: &mut String) {
        let (right, bottom) = (PICTURE.0 - MARGIN.right, PICTURE.1 - MARGIN.bottom);
        let (left, top) = (MARGIN.left, MARGIN.top);
        for (value, label) in self.x.ticks.iter().filter(|(value, _)| self.x.holds(*value)) {
            let x = self.x(*value);
            line(svg, "grid", (x, top), (x, bottom));
            text(svg, (x, bottom + 18.0), "middle", label);
        }
        for (value, label) in self.y.ticks.iter().filter(|(value, _)| self.y.holds(*value)) {
            let y = self.y(*value);
            line(svg, "grid", (left, y), (right, y));
            text(svg, (left - 8.0, y + 4.5), "end", label);
        }
        line(svg, "axis", (left, bottom), (right, bottom));
        text(svg, (f64::midpoint(left, right), PICTURE.1 - 8.0), "middle", self.x.title);
        text(svg, (left - 66.0, top - 12.0), "start", self.y.title);
        if let Some((value, label)) = self.mark.as_ref().filter(|(value, _)| self.x.holds(*value)) {
            let x = self.x(*value);
            line(svg, "mark", (x, top), (x, bottom));
            text(svg, (x + 5.0, bottom - 7.0), "start", label);
        }
        if let Some(value) = self.parity.filter(|value| self.y.holds(*value)) {
            line(svg, "parity", (left, self.y(value)), (right, self.y(value)));
        }
    }

    fn curve(&self, svg: &mut String, curve: &Curve) {
        let class = &curve.class;
        let at = |&(x, y): &(f64, f64)| (self.x(x), self.y(y));
        if curve.band.len() == curve.points.len() && curve.points.len() > 1 {
            let above = curve.points.iter().zip(&curve.band).map(|((x, _), y)| at(&(*x, *y)));
            let outline = path(above.chain(curve.points.iter().rev().map(at)));
            let _ = writeln!(svg, "<path class=\"band {class}\" d=\"{outline}Z\"/>");
        }
        if let Some(mean) = curve.mean.filter(|mean| self.y.holds(*mean)) {
            let y = self.y(mean);
            line(svg, &format!("mean {class}"), (MARGIN.left, y), (PICTURE.0 - MARGIN.right, y));
        }
        let points = path(curve.points.iter().map(at));
        let _ = writeln!(svg, "<path class=\"curve {class}\" d=\"{points}\"/>");
        for (point, words) in &curve.dots {
            let ((x, y), words) = (at(point), escape(words));
            let _ = writeln!(
                svg,
                "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.1\"><title>{words}</title></circle>"
            );
        }
    }

    /// Names at the right, level with the ends of their curves as far as they leave each other room.
    fn names(&self, svg: &mut String) {
        let mut ends: Vec<(&Curve, (f64, f64))> = self
            .curves
            .iter()
            .filter_map(|curve| Some((curve, *curve.points.last()?)))
            .map(|(curve, (x, y))| (curve, (self.x(x), self.y(y))))
            .collect();
        ends.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let heights: Vec<f64> = ends.iter().map(|(_, (_, y))| *y).collect();
        let room = MARGIN.top..PICTURE.1 - MARGIN.bottom;
        for ((curve, (x, y)), height) in ends.into_iter().zip(spread(&heights, &room)) {
            let (class, from) = (&curve.class, PICTURE.0 - MARGIN.right + 14.0);
            let leader = path([(x + 3.0, y), (from - 4.0, height)].into_iter());
            let _ = writeln!(svg, "<path class=\"leader {class}\" d=\"{leader}\"/>");
            let name = escape(&curve.name);
            let baseline = height + 4.5;
            let _ = writeln!(
                svg,
                "<text class=\"name {class}\" x=\"{from:.1}\" y=\"{baseline:.1}\">{name}</text>"
            );
        }
    }
}

/// Moves heights, which come sorted, apart until each has a line of text to itself.
fn spread(heights: &[f64], room: &Range<f64>) -> Vec<f64> {
    let mut spread = heights.to_vec();
    for at in 1..spread.len() {
        spread[at] = spread[at].max(spread[at - 1] + NAME_APART);
    }
    let mut limit = room.end;
    for height in spread.iter_mut().rev() {
        *height = height.min(limit);
        limit = *height - NAME_APART;
    }
    spread
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (number, (x, y)) in points.enumerate() {
        let letter = if number == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{x:.1} {y:.1}");
    }
    path
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

fn text(svg: &mut String, at: (f64, f64), anchor: &str, words: &str) {
    let ((x, y), words) = (at, escape(words));
    let _ =
        writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_overlap_and_stay_inside() {
        let heights = [100.0, 101.0, 102.0, 380.0, 383.0, 384.0];
        let apart = spread(&heights, &(26.0..384.0));
        assert!(apart.windows(2).all(|pair| pair[1] - pair[0] >= NAME_APART - 1e-9), "{apart:?}");
        assert!(apart.iter().all(|height| *height <= 384.0), "{apart:?}");
        assert_eq!(apart[0], 100.0, "nothing moves without need");
        assert!(spread(&[], &(0.0..1.0)).is_empty());
    }

    #[test]
    fn values_lie_where_their_logarithms_do() {
        let axis = Axis { title: "x", range: 1.0..10_000.0, ticks: Vec::new() };
        assert!((axis.place(100.0) - 0.5).abs() < 1e-12);
        assert!(axis.holds(1.0) && !axis.holds(0.5) && !axis.holds(20_000.0));
    }

    #[test]
    fn words_cannot_break_out() {
        let curve = Curve {
            name: "<script>".to_owned(),
            class: "tcp".to_owned(),
            points: vec![(1.0, 1.0), (2.0, 2.0)],
            band: Vec::new(),
            dots: vec![((1.0, 1.0), "a & \"b\"".to_owned())],
            mean: None,
        };
        let axis = || Axis { title: "x", range: 1.0..2.0, ticks: vec![(1.0, "1".to_owned())] };
        let title = "a \"title\"".to_owned();
        let svg =
            Chart { title, x: axis(), y: axis(), curves: vec![curve], parity: None, mark: None }
                .svg();
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"), "{svg}");
        assert!(
            svg.contains("a &amp; &quot;b&quot;") && svg.contains("a &quot;title&quot;"),
            "{svg}"
        );
    }
}
