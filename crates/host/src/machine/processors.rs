//! On which CPUs a thread runs.

use std::io;
use std::mem::{size_of, zeroed};

fn set(cpus: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: reads as many bytes as the set has.
    let done = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps the calling thread on one CPU, by the number that the system has for it; threads that it starts from then on as well.
///
/// # Errors
///
/// There is no such CPU, or the process may not use it.
pub fn stay_on_cpu(cpu: usize) -> io::Result<()> {
    // SAFETY: all-zero is the empty set.
    let mut one: libc::cpu_set_t = unsafe { zeroed() };
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: `cpu` is below the number of the set's bits.
    unsafe { libc::CPU_SET(cpu, &mut one) };
    set(&one)
}

/// The calling thread is on a CPU, and where it was before once this is dropped.
pub(crate) struct Visit(libc::cpu_set_t);

impl Visit {
    /// # Errors
    ///
    /// As for [`stay_on_cpu`].
    pub(crate) fn to(cpu: usize) -> io::Result<Self> {
        // SAFETY: all-zero is the empty set.
        let mut before: libc::cpu_set_t = unsafe { zeroed() };
        // SAFETY: writes as many bytes as the set has.
        let got =
            unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut before) };
        if got != 0 {
            return Err(io::Error::last_os_error());
        }
        stay_on_cpu(cpu)?;
        Ok(Self(before))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        // It was there before; if it may not be any more, it stays where it is.
        let _ = set(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_ends_where_it_began() {
        let cpus = || std::thread::available_parallelism().map_or(0, usize::from);
        std::thread::spawn(move || {
            let before = cpus();
            // SAFETY: no pointers.
            let here = unsafe { libc::sched_getcpu() };
            let visit = Visit::to(usize::try_from(here).unwrap()).unwrap();
            assert_eq!(cpus(), 1);
            drop(visit);
            assert_eq!(cpus(), before);
            assert!(Visit::to(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }
}
