//! Markdown, as the guide is written in, to roff with the `man` macros: headings, paragraphs, lists, tables, code.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A text as roff shows it.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped += "\\e",
            '-' => escaped += "\\-",
            // Else groff makes typographic quotes of them, which nobody can paste into a shell.
            '\'' => escaped += "\\(aq",
            '`' => escaped += "\\(ga",
            '^' => escaped += "\\(ha",
            '~' => escaped += "\\(ti",
            other => escaped.push(other),
        }
    }
    escaped
}

/// A chapter without its title, which the page has already. What stands before the first heading belongs to the section that
/// the page has opened.
pub fn to_roff(chapter: &str) -> String {
    let mut writer = Writer::default();
    for event in Parser::new_ext(chapter, Options::ENABLE_TABLES) {
        writer.take(event);
    }
    writer.out
}

#[derive(Default)]
struct Writer {
    out: String,
    /// The paragraph, heading or cell that is being read.
    line: String,
    /// Inside a block of code.
    code: bool,
    lists: usize,
    /// An item's first paragraph stands beside its bullet.
    item_begins: bool,
    /// Heads of the table's columns, and of the row what was read.
    heads: Vec<String>,
    row: Vec<String>,
}

impl Writer {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => self.code_text(&text),
            Event::Text(text) => self.line += &escape(&text),
            Event::Code(text) => self.line += &format!("\\fB{}\\fR", escape(&text)),
            Event::SoftBreak | Event::HardBreak => self.line.push(' '),
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Emphasis => self.line += "\\fI",
            Tag::Strong => self.line += "\\fB",
            Tag::CodeBlock(_) => {
                self.flush();
                self.out += ".PP\n.RS 4\n.nf\n";
                self.code = true;
            }
            Tag::List(_) => {
                self.flush();
                self.lists += 1;
                if self.lists > 1 {
                    self.out += ".RS 4\n";
                }
            }
            Tag::Item => {
                self.out += ".IP \\(bu 2\n";
                self.item_begins = true;
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis | TagEnd::Strong => self.line += "\\fR",
            TagEnd::CodeBlock => {
                self.out += ".fi\n.RE\n";
                self.code = false;
            }
            TagEnd::List(_) => {
                self.lists -= 1;
                if self.lists > 0 {
                    self.out += ".RE\n";
                }
            }
            TagEnd::Paragraph | TagEnd::Item => self.flush(),
            TagEnd::Heading(level) => self.heading(level),
            TagEnd::TableHead => self.heads = std::mem::take(&mut self.row),
            TagEnd::TableCell => self.row.push(std::mem::take(&mut self.line)),
            TagEnd::TableRow => self.table_row(),
            _ => {}
        }
    }

    fn heading(&mut self, level: HeadingLevel) {
        let text = std::mem::take(&mut self.line);
        match level {
            HeadingLevel::H1 => {}
            HeadingLevel::H2 => self.out += &format!(".SH \"{text}\"\n"),
            _ => self.out += &format!(".SS \"{text}\"\n"),
        }
    }

    /// The first column names what the others tell of; the second tells most, and later ones have their heads.
    fn table_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        let mut cells = row.iter().zip(&self.heads);
        let Some((name, _)) = cells.next() else { return };
        self.out += &format!(".TP\n{}\n", shield(name));
        let mut text = String::new();
        for (index, (cell, head)) in cells.filter(|(cell, _)| !cell.is_empty()).enumerate() {
            match (index, head.as_str()) {
                (0, _) | (_, "") => text += cell,
                (_, head) => text += &format!("{head}: {cell}"),
            }
            text += "\n";
        }
        self.out += &text
            .lines()
            .map(|line| format!("{}\n", shield(line)))
            .collect::<Vec<_>>()
            .join(".br\n");
    }

    fn code_text(&mut self, text: &str) {
        for line in text.lines() {
            self.out += &shield(&escape(line));
            self.out.push('\n');
        }
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.line);
        if text.is_empty() {
            return;
        }
        match (std::mem::take(&mut self.item_begins), self.lists) {
            (true, _) => {}
            (false, 0) => self.out += ".PP\n",
            (false, _) => self.out += ".IP\n",
        }
        self.out += &shield(&text);
        self.out.push('\n');
    }
}

/// A line that roff does not take for a request.
fn shield(line: &str) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chapter_becomes_a_page() {
        let chapter = "# Title\n\nFirst `--flag`, *so* [there](x.md).\n\n## Part one\n\n```sh\nrun 'x' \\n\n.so y\n```\n\n\
                       - one\n- two\n\n| name | what | default |\n|---|---|---|\n| `A` | b | c |\n| `.D` | e | |\n";
        let wanted = ".PP\nFirst \\fB\\-\\-flag\\fR, \\fIso\\fR there.\n.SH \"Part one\"\n.PP\n.RS 4\n.nf\n\
                      run \\(aqx\\(aq \\en\n\\&.so y\n.fi\n.RE\n.IP \\(bu 2\none\n.IP \\(bu 2\ntwo\n\
                      .TP\n\\fBA\\fR\nb\n.br\ndefault: c\n.TP\n\\fB.D\\fR\ne\n";
        assert_eq!(to_roff(chapter), wanted);
    }
}
