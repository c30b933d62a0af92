//! Which interface is meant by a name, after it may have been renamed.

use crate::system;

/// An interface, by the number that it keeps when it is renamed. Where it is gone, another one of its last name takes its place: it was deleted and
/// made again.
///
/// All of it in the network namespace of the calling thread.
#[derive(Clone, Debug)]
pub struct NamedInterface {
    name: String,
    /// 0: it was gone when this was last looked at. Its number may be another interface's by now.
    number: u32,
}

impl NamedInterface {
    /// The one that has this name now.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), number: system::interface_index(name) }
    }

    /// Its name when this was last looked at.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is there, and has this number.
    #[must_use]
    pub fn is(&self, number: u32) -> bool {
        number != 0 && self.number == number
    }

    /// Looks at it: some system calls. True if it has another name than before.
    pub fn follow(&mut self) -> bool {
        match system::interface_called(self.number) {
            Some(name) => std::mem::replace(&mut self.name, name) != self.name,
            None => {
                self.number = system::interface_index(&self.name);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_known_by_its_number_while_it_is_there() {
        let mut loopback = NamedInterface::new("lo");
        let number = system::interface_index("lo");
        assert!(loopback.is(number) && !loopback.is(0) && !loopback.follow());
        // As if it had been called otherwise when this was made.
        loopback.name = "lo7".into();
        assert!(loopback.follow());
        assert_eq!(loopback.name(), "lo");
        // And as if it had been deleted and made again since.
        let mut again = NamedInterface { name: "lo".into(), number: u32::MAX / 2 };
        assert!(!again.follow() && again.is(number));
        let mut nobody = NamedInterface::new("no-such-one");
        assert!(!nobody.follow() && !nobody.is(0) && !nobody.is(number));
    }
}
