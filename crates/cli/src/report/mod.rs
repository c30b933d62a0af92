//! Figures for people: tables for a terminal, curves for a browser.

pub mod calls_table;
pub mod face_costs;
pub mod html;
pub mod mpi;
pub mod plot;
pub mod ratio;
pub mod share;
pub mod table;
