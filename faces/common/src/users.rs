//! Who uses whom: an object must not be closed before those that were opened from it or bound to it.

use std::sync::Arc;

/// The users of an object.
#[derive(Default, Debug)]
pub struct Users(Arc<()>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Use(Arc<()>);

impl Users {
    /// One more.
    pub fn one(&self) -> Use {
        Use(Arc::clone(&self.0))
    }

    /// True if there are any.
    pub fn any(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Use {
    /// The same user again.
    pub fn again(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_count_until_they_go() {
        let users = Users::default();
        assert!(!users.any());
        let (one, two) = (users.one(), users.one());
        let three = two.again();
        drop((one, two));
        assert!(users.any());
        drop(three);
        assert!(!users.any());
    }
}
