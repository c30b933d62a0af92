//! Pages that are no command's: chapters of the guide, which the book has as well.

use super::markdown;
use super::page::{MANUAL, Page, SOURCE, date};

/// A chapter, and what its page adds to it.
struct Topic {
    name: &'static str,
    section: u8,
    about: &'static str,
    chapter: &'static str,
    see_also: &'static [(&'static str, u8)],
}

const TOPICS: [Topic; 3] = [
    Topic {
        name: "empd",
        section: 8,
        about: "raw Ethernet links for programs without privilege",
        chapter: include_str!("../../../../docs/guide/empd.md"),
        see_also: &[("emp", 1), ("emp", 7), ("systemd.socket", 5), ("packet", 7)],
    },
    Topic {
        name: "emp",
        section: 7,
        about: "settings of programs that run on Ethernet Message Passing",
        chapter: include_str!("../../../../docs/guide/settings.md"),
        see_also: &[("emp", 1), ("emp-fi", 7), ("myriexpress", 3), ("vipl", 3), ("vmmc", 3)],
    },
    Topic {
        name: "emp-fi",
        section: 7,
        about: "the libfabric provider of Ethernet Message Passing",
        chapter: include_str!("../../../../docs/guide/libfabric.md"),
        see_also: &[("emp", 7), ("emp-mpi-env", 1), ("fi_info", 1), ("fabric", 7)],
    },
];

/// The pages of sections 7 and 8.
pub fn pages() -> Vec<Page> {
    TOPICS.iter().map(page).collect()
}

fn page(topic: &Topic) -> Page {
    let (name, section) = (topic.name, topic.section);
    let mut text = format!(
        ".TH {} {section} \"{}\" \"{SOURCE}\" \"{MANUAL}\"\n.SH NAME\n{} \\- {}\n.SH DESCRIPTION\n",
        name.to_uppercase(),
        date(),
        markdown::escape(name),
        markdown::escape(topic.about),
    );
    text += &markdown::to_roff(topic.chapter);
    text += ".SH \"SEE ALSO\"\n";
    let list: Vec<String> = topic
        .see_also
        .iter()
        .map(|(name, section)| format!("\\fB{}\\fR({section})", markdown::escape(name)))
        .collect();
    text += &list.join(",\n");
    text.push('\n');
    Page { name: name.to_owned(), section, text }
}
