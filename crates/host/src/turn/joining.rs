//! A running node gets links by interfaces that have appeared.

use emp_firmware::Time;

use crate::links::attention::{self, Seldom};
use crate::links::joining::Joined;
use crate::told::journal::Level;
use crate::turn::core::Core;

impl Core {
    /// Takes up what has appeared, if anything has.
    #[cold]
    pub(super) fn look_for_interfaces(&mut self, now: Time) {
        let Some(joining) = &mut self.joining else { return };
        let Joined { links, before, infos, names, lines } = joining.look(now, &mut self.links);
        for line in lines {
            self.journal.say_often(Level::Warn, &line);
        }
        if let Some(before) = before {
            self.news.rename_links(before);
        }
        if links.is_empty() {
            return;
        }
        let Some(firmware) = &mut self.firmware else { return };
        if !firmware.set_links(now, infos) {
            return;
        }
        self.links.extend(links);
        self.news.add_links(names);
        let kinds: Vec<_> = self.links.iter().map(|link| link.capabilities().clone()).collect();
        let seldom = attention::seldom(&kinds);
        match (&mut self.seldom, seldom) {
            (Some(known), Some(links)) => known.links = links,
            (known, seldom) => *known = seldom.map(Seldom::new),
        }
        self.dirty = true;
    }
}
