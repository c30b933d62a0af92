//! All tests in simulated networks, in one program: each program of its own would compile the engine anew. Those that count
//! a process's memory or instructions are programs of their own.

mod absence;
mod carrier;
mod delivery;
mod eager;
mod full_table;
mod golden;
mod hostile;
mod incast;
mod job_start;
mod lifecycle;
mod limited;
mod limits;
mod long;
mod long_bursts;
mod long_questions;
mod long_tails;
mod long_uncopied;
mod messaging;
mod one_sided;
mod path_costs;
mod path_lengths;
mod path_size;
mod paths;
mod profiles;
mod raised;
mod random_frames;
mod random_one_sided;
mod round_trips;
mod sharing;
mod silence;
mod strangers;
mod support;
mod swarm;
mod unasked;
mod wraps;
