//! Who may have something: what the configuration says of users and groups, and whether a client is one of them.

use std::fmt;

use emp_link::service::socket::Peer;
use nix::unistd::{Gid, Group, Uid, User};

/// Some people.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct People(Vec<Entry>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Entry {
    Everyone,
    User { id: u32, name: String },
    Group { id: u32, name: String },
}

impl People {
    /// Every user of the machine.
    #[must_use]
    pub fn everyone() -> Self {
        Self(vec![Entry::Everyone])
    }

    /// Reads a list such as `group:emp`, `user:alice`, `everyone`; names, or numbers.
    ///
    /// # Errors
    ///
    /// A line that says which of them is nobody.
    pub fn parse<S: AsRef<str>>(list: &[S]) -> Result<Self, String> {
        list.iter().map(|text| entry(text.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// True if nobody is meant.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a client is one of them: by its user, its group, or a supplementary group that it had when it connected.
    #[must_use]
    pub fn include(&self, peer: &Peer) -> bool {
        self.0.iter().any(|entry| match entry {
            Entry::Everyone => true,
            Entry::User { id, .. } => peer.user == *id,
            Entry::Group { id, .. } => peer.is_in(*id),
        })
    }
}

impl fmt::Display for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nobody() {
            return f.write_str("nobody");
        }
        for (place, entry) in self.0.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            match entry {
                Entry::Everyone => write!(f, "{comma}everyone")?,
                Entry::User { name, .. } => write!(f, "{comma}user {name}")?,
                Entry::Group { name, .. } => write!(f, "{comma}group {name}")?,
            }
        }
        Ok(())
    }
}

fn entry(text: &str) -> Result<Entry, String> {
    let form = || format!("`{text}` is neither `group:NAME`, `user:NAME` nor `everyone`");
    if text == "everyone" {
        return Ok(Entry::Everyone);
    }
    let (kind, name) = text.split_once(':').ok_or_else(form)?;
    let looked_up = |error: nix::Error| format!("looking up {kind} `{name}`: {error}");
    let unknown = || format!("there is no {kind} `{name}`: make one, or correct the name");
    let number = name.parse::<u32>().ok();
    let name = name.to_owned();
    match kind {
        "group" if number.is_some_and(is_known_group) => {
            Ok(Entry::Group { id: number.unwrap_or_default(), name })
        }
        "user" if number.is_some_and(is_known_user) => {
            Ok(Entry::User { id: number.unwrap_or_default(), name })
        }
        "group" => {
            let found = Group::from_name(&name).map_err(looked_up)?.ok_or_else(unknown)?;
            Ok(Entry::Group { id: found.gid.as_raw(), name })
        }
        "user" => {
            let found = User::from_name(&name).map_err(looked_up)?.ok_or_else(unknown)?;
            Ok(Entry::User { id: found.uid.as_raw(), name })
        }
        _ => Err(form()),
    }
}

fn is_known_group(id: u32) -> bool {
    Group::from_gid(Gid::from_raw(id)).is_ok_and(|found| found.is_some())
}

fn is_known_user(id: u32) -> bool {
    User::from_uid(Uid::from_raw(id)).is_ok_and(|found| found.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(user: u32, group: u32, groups: &[u32]) -> Peer {
        Peer { user, group, process: 1, groups: groups.to_vec() }
    }

    #[test]
    fn members_are_known_by_user_group_and_further_groups() {
        let root = People::parse(&["group:root"]).expect("there is one");
        assert!(root.include(&peer(5, 0, &[])) && root.include(&peer(5, 6, &[7, 0])));
        assert!(!root.include(&peer(0, 6, &[7])), "a user is no group");
        let user = People::parse(&["user:0"]).expect("there is one");
        assert!(user.include(&peer(0, 6, &[])) && !user.include(&peer(6, 0, &[0])));
        assert!(People::everyone().include(&peer(5, 6, &[])));
        assert!(!People::default().include(&peer(0, 0, &[0])) && People::default().is_nobody());
        let both = People::parse(&["user:root", "group:root"]).expect("there are");
        assert_eq!(both.to_string(), "user root, group root");
    }

    #[test]
    fn who_is_nobody_is_named() {
        let error = |text: &str| People::parse(&[text]).expect_err("it is nobody");
        assert!(error("group:no-such-group").contains("no group `no-such-group`"));
        assert!(error("user:no-such-user").contains("no user `no-such-user`"));
        assert!(error("group:4000000000").contains("no group `4000000000`"));
        for text in ["emp", "", "groups:root", "group", ":"] {
            assert!(error(text).contains("neither"), "{text}: {}", error(text));
        }
    }
}
