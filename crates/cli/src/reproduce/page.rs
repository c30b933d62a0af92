//! One page that needs nothing beside it: tables, and the papers' curves in the papers' own axes.

use std::fmt::Write;

use plotters::prelude::*;

use super::beside::Beside;
use super::experiment::{Experiment, Picture};
use super::row::{Row, Verdict};
use super::table::{bar, basis, difference, figure, paper, verdict};

/// Pixels of a picture.
const PICTURE: (u32, u32) = (900, 460);

/// Colours that differ in lightness too.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 0, 0),
    RGBColor(220, 80, 30),
    RGBColor(0, 90, 181),
    RGBColor(60, 160, 110),
    RGBColor(150, 70, 160),
];

const STYLE: &str = "body{font:16px/1.45 sans-serif;max-width:1000px;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;font-size:14px}td,th{padding:2px 10px;border-bottom:1px solid #ccc;text-align:left}\
td.n{text-align:right;font-variant-numeric:tabular-nums}tr.missed td{background:#fbe3d8}tr.known td{background:#f6f0d4}\
svg{max-width:100%;height:auto}.pair{display:flex;gap:8px}.pair>*{flex:1 1 0;min-width:0;margin:0}figcaption{text-align:center;font-size:14px}";

/// The whole page.
pub fn page(
    experiments: &[Experiment],
    pictures: &[Vec<Picture>],
    beside: &Beside,
) -> anyhow::Result<String> {
    let mut body = String::from(
        "<h1>The papers' figures, and what EMP's engine gives on models of their machines</h1>\n",
    );
    for (experiment, pictures) in experiments.iter().zip(pictures) {
        write!(body, "<h2>{}</h2>\n{}", escape(experiment.title), rows(&experiment.rows))?;
        if experiment.name == "vmmc" {
            body += &log_p(beside);
        }
        for picture in pictures {
            body += &side_by_side(picture, beside)?;
        }
        for (name, parameters) in &experiment.parameters {
            write!(body, "<details><summary>Parameters {}</summary><table>", escape(name))?;
            for p in parameters {
                let (name, source) = (escape(p.name), escape(&p.source.to_string()));
                let value = figure(p.value);
                writeln!(
                    body,
                    "<tr><td>{name}</td><td class=n>{value}</td><td>{}</td><td>{source}</td></tr>",
                    p.unit
                )?;
            }
            body += "</table></details>\n";
        }
    }
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>EMP: the papers' figures</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    ))
}

fn rows(rows: &[Row]) -> String {
    let mut text = String::from(
        "<table><tr><th>item</th><th>what</th><th>paper</th><th>model</th><th>unit</th><th>difference</th><th>bar</th><th></th><th></th></tr>\n",
    );
    for row in rows {
        let class = match row.verdict() {
            Verdict::Missed => " class=missed",
            Verdict::Known => " class=known",
            Verdict::Met | Verdict::Unpublished => "",
        };
        text += &format!("<tr{class}><td>{}</td><td>{}", row.item, escape(&row.what));
        for why in row.told() {
            text += &format!("<br><small>{}</small>", escape(why));
        }
        text += "</td>";
        for cell in [paper(row), figure(row.model)] {
            text += &format!("<td class=n>{cell}</td>");
        }
        for cell in [row.unit, &difference(row), &bar(row), basis(row), verdict(row)] {
            text += &format!("<td>{}</td>", escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</table>\n"
}

/// A paper's picture, and today's beside it.
fn side_by_side(picture: &Picture, beside: &Beside) -> anyhow::Result<String> {
    let mut text =
        format!("<h3>{}</h3>\n<div class=pair>{}", escape(picture.title), draw(picture)?);
    if let Some(today) = beside.picture(picture) {
        write!(
            text,
            "<figure>{}<figcaption>EMP today, as measured</figcaption></figure>",
            draw(&today)?
        )?;
    }
    text += "</div>\n";
    if !picture.note.is_empty() {
        writeln!(text, "<p><small>{}.</small></p>", escape(picture.note))?;
    }
    Ok(text)
}

/// LogP's five figures as measured today.
fn log_p(beside: &Beside) -> String {
    let rows = beside.log_p().map(|(name, bytes, figures)| {
        let figures = figures.map(|us| format!("<td class=n>{us:.2}</td>")).concat();
        format!("<tr><td>{}</td><td class=n>{bytes} B</td>{figures}</tr>\n", escape(&name))
    });
    let rows: String = rows.collect();
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<h3>LogP today, as measured, us</h3>\n<table><tr><th></th><th>size</th><th>RTT/2</th><th>L</th><th>Os</th><th>Or</th><th>g</th></tr>\n{rows}</table>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn draw(picture: &Picture) -> anyhow::Result<String> {
    let all = || picture.curves.iter().flat_map(|(_, points)| points).chain(&picture.points);
    let most = |of: fn(&(f64, f64)) -> f64| all().map(of).fold(0.0, f64::max).max(1e-3) * 1.05;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, PICTURE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(46)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..most(|point| point.0), 0.0..most(|point| point.1))?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(picture.x)
            .y_desc(picture.y)
            .label_style(("sans-serif", 15))
            .draw()?;
        for ((name, points), colour) in picture.curves.iter().zip(COLOURS.into_iter().cycle()) {
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
                });
        }
        let published = picture.points.iter().map(|at| Cross::new(*at, 5, RED.stroke_width(2)));
        let series = chart.draw_series(published)?;
        if !picture.points.is_empty() {
            series.label("paper").legend(|(x, y)| Cross::new((x + 9, y), 5, RED.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 15))
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}
