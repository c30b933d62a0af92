//! Rows for a terminal, and for programs.

use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::{Value, json as value};

use super::experiment::Experiment;
use super::row::{Bar, Basis, Row, Verdict};

/// Three to four digits: more are not in the papers either.
pub fn figure(number: f64) -> String {
    match number.abs() {
        n if n >= 1_000.0 => format!("{number:.0}"),
        n if n >= 100.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

pub fn paper(row: &Row) -> String {
    match (row.paper, row.bar) {
        (Some(paper), _) => figure(paper),
        (None, Bar::Between(low, high)) => format!("{} to {}", figure(low), figure(high)),
        (None, _) => "-".to_owned(),
    }
}

pub fn difference(row: &Row) -> String {
    match (row.bar, row.paper, row.percent()) {
        (Bar::Within(_), Some(paper), _) => format!("{:+.2}", row.model - paper),
        (_, _, Some(percent)) => format!("{percent:+.1} %"),
        _ => String::new(),
    }
}

pub fn bar(row: &Row) -> String {
    match row.bar {
        Bar::Percent(most) => format!("{most} %"),
        Bar::Within(most) => format!("{most}"),
        Bar::Between(..) => "words".to_owned(),
        Bar::None => String::new(),
    }
}

pub const fn basis(row: &Row) -> &'static str {
    match row.basis {
        Basis::Fitted => "fitted",
        Basis::Predicted => "predicted",
    }
}

pub fn verdict(row: &Row) -> &'static str {
    match row.verdict() {
        Verdict::Met => "ok",
        Verdict::Missed => "MISSED",
        Verdict::Known => "missed*",
        Verdict::Unpublished => "-",
    }
}

fn table<const N: usize>(header: [&str; N], right: std::ops::Range<usize>) -> Table {
    let mut table = Table::new();
    let style = comfy_table::TableStyle::new()
        .header_lines(comfy_table::ContentLineStyle::none())
        .header_separator(comfy_table::LineStyle::none().fill('-').junction('-'))
        .content_lines(comfy_table::ContentLineStyle::none());
    table.set_header(header);
    table.load_style(style).set_content_arrangement(ContentArrangement::Disabled);
    for index in right {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn finish(title: &str, table: &Table) -> String {
    let mut text = format!("{title}\n\n");
    for line in table.to_string().lines() {
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// An experiment's rows, and why some are missed.
pub fn show(experiment: &Experiment) -> String {
    let header = ["item", "what", "paper", "model", "unit", "difference", "bar", "", ""];
    let mut rows = table(header, 2..4);
    for row in &experiment.rows {
        rows.add_row([
            row.item.to_owned(),
            row.what.clone(),
            paper(row),
            figure(row.model),
            row.unit.to_owned(),
            difference(row),
            bar(row),
            basis(row).to_owned(),
            verdict(row).to_owned(),
        ]);
    }
    let mut text = finish(&format!("{}: {}", experiment.name, experiment.title), &rows);
    let mut told = Vec::new();
    for (row, why) in experiment.rows.iter().flat_map(|row| row.told().map(move |why| (row, why))) {
        if !told.contains(&why) {
            told.push(why);
            text += &format!("* {} {}: {why}.\n", row.item, row.what);
        }
    }
    text + "\n"
}

/// What a model is made of.
pub fn show_parameters(experiment: &Experiment) -> String {
    let mut text = String::new();
    for (name, parameters) in &experiment.parameters {
        let mut rows = table(["parameter", "value", "unit", "source"], 1..2);
        for parameter in parameters {
            rows.add_row([
                parameter.name.to_owned(),
                figure(parameter.value),
                parameter.unit.to_owned(),
                parameter.source.to_string(),
            ]);
        }
        text += &finish(&format!("{}: parameters {name}", experiment.name), &rows);
        text.push('\n');
    }
    text
}

/// All rows, with their parameters.
pub fn json(experiments: &[Experiment]) -> Value {
    let row = |row: &Row| {
        value!({
            "item": row.item, "what": row.what, "unit": row.unit, "paper": row.paper, "model": row.model,
            "bar": bar(row), "basis": row.basis, "verdict": row.verdict(), "reason": row.reason,
            "note": row.note,
        })
    };
    let each = |experiment: &Experiment| {
        let rows: Vec<Value> = experiment.rows.iter().map(row).collect();
        let parameters = experiment.parameters.iter().flat_map(|(set, parameters)| {
            parameters.iter().map(move |parameter| {
                value!({
                    "set": set, "name": parameter.name, "value": parameter.value, "unit": parameter.unit,
                    "source": parameter.source.to_string(),
                })
            })
        });
        let parameters: Vec<Value> = parameters.collect();
        value!({ "name": experiment.name, "title": experiment.title, "rows": rows, "parameters": parameters })
    };
    Value::Array(experiments.iter().map(each).collect())
}
