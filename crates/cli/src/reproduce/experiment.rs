//! An experiment: a paper's rows, its curves, and what its model is made of.

use emp_model::card::Parameter;

use super::row::Row;

/// What a paper's model gave.
pub struct Experiment {
    pub name: &'static str,
    pub title: &'static str,
    pub rows: Vec<Row>,
    pub parameters: Vec<(&'static str, Vec<Parameter>)>,
}

/// One of the papers' pictures.
pub struct Picture {
    pub title: &'static str,
    pub x: &'static str,
    pub y: &'static str,
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
    /// What the paper says of it: single points.
    pub points: Vec<(f64, f64)>,
}

/// A run of a model that did not end is a fault of the model.
pub fn ran<T>(result: Result<T, String>) -> anyhow::Result<T> {
    result.map_err(anyhow::Error::msg)
}
