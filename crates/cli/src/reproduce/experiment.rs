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

/// A curve with its name.
pub type Curve = (String, Vec<(f64, f64)>);

/// What a picture's axes are, so that what was measured today can be put in them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Axes {
    /// Microseconds one way over message size, in units of so many bytes.
    Latency { unit: f64 },
    /// Bandwidth one way in units of so many bits a second, over message size in units of so many bytes.
    Bandwidth { unit: f64, bits: f64 },
    /// 10^6 bits a second over the part of the time that the program computes.
    Overlap,
    /// No bench of today has them.
    Other,
}

/// One of the papers' pictures.
pub struct Picture {
    pub title: &'static str,
    pub x: &'static str,
    pub y: &'static str,
    pub axes: Axes,
    pub curves: Vec<Curve>,
    /// What the paper says of it: single points.
    pub points: Vec<(f64, f64)>,
    /// What is to be known of it, if anything.
    pub note: &'static str,
}

/// A run of a model that did not end is a fault of the model.
pub fn ran<T>(result: Result<T, String>) -> anyhow::Result<T> {
    result.map_err(anyhow::Error::msg)
}
