//! Labs whose process was killed before it could remove them. Whoever makes a lab removes those first.
//!
//! Only what such a lab's own record names is touched, and of that only namespaces that are still the ones it made.

use super::state::State;
use super::{inhabitants, make};

/// Removes them all, ends what still runs inside, and returns their names. For a process that is able to (see
/// [`super::rootless`]).
pub fn remove_with_processes() -> anyhow::Result<Vec<String>> {
    remove(|state| {
        inhabitants::end(state);
    })
}

/// Their names, if labs can be seen from here.
pub fn names() -> anyhow::Result<Vec<String>> {
    Ok(State::load_all()?.into_iter().filter(State::is_stale).map(|state| state.name).collect())
}

fn remove(before: impl Fn(&State)) -> anyhow::Result<Vec<String>> {
    let mut removed = Vec::new();
    for state in State::load_all()?.into_iter().filter(State::is_stale) {
        before(&state);
        match make::undo(&state) {
            Ok(()) => removed.push(state.name),
            // Another process was faster.
            Err(_) if State::load(&state.name)?.is_none() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

/// Removes them before a lab is made. One that cannot be removed is no reason not to make it.
pub fn remove_quietly() {
    if let Err(error) = remove(|_| ()) {
        eprintln!(
            "note: a lab of a process that was killed is left: {error:#}; `emp lab down --stale` tries again"
        );
    }
}
