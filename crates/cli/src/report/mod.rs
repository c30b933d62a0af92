//! Figures for people: tables for a terminal, curves for a browser.

pub mod plot;
pub mod table;
