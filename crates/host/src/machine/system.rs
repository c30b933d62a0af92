//! The two things asked of the system when a node starts: the machine's name and random bits.

use std::io;

use emp_wire::NAME_BYTES_MAX;

/// A name for a node that has none: the machine's, and the process's number. Fits what is told to others.
pub(crate) fn process_name() -> String {
    let process = std::process::id().to_string();
    let mut name = host_name();
    let mut most = NAME_BYTES_MAX - 1 - process.len();
    while !name.is_char_boundary(most.min(name.len())) {
        most -= 1;
    }
    name.truncate(most);
    format!("{name}-{process}")
}

/// The machine's name, or `emp` if it has none.
pub(crate) fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is valid and as long as said; the result is terminated only if it fits, which `position` and
    // its fallback below take into account.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    match String::from_utf8_lossy(&name[..end]) {
        name if result == 0 && !name.is_empty() => name.into_owned(),
        _ => "emp".into(),
    }
}

/// 64 random bits.
pub(crate) fn random() -> io::Result<u64> {
    let mut bits = [0u8; 8];
    // SAFETY: the buffer is valid and as long as said.
    let got = unsafe { libc::getrandom(bits.as_mut_ptr().cast(), bits.len(), 0) };
    match got {
        8 => Ok(u64::from_ne_bytes(bits)),
        // Requests of up to 256 bytes are never cut short once the generator is ready.
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn random_bits_differ() {
        assert_ne!(super::random().unwrap(), super::random().unwrap());
    }

    #[test]
    fn the_machine_has_a_name() {
        assert!(!super::host_name().is_empty());
    }
}
