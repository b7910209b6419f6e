//! The draft of a configuration that is made of another one: tables with their keys, and with notes
//! about parts that could not be carried over, at the place where they would be.

use super::limits::SHOWN_MAX_CHARS;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Text(String),
    Texts(Vec<String>),
    Number(u64),
    Switch(bool),
    Variables(Vec<(String, String)>),
}

/// Something that could not be carried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leftover {
    /// A JSON pointer, or the number of a line.
    pub(super) place: String,
    /// The part that was left out, and the advice.
    pub(super) message: String,
    /// Requests that were refused are let in without it.
    pub(super) opens: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DraftLine {
    Key(&'static str, Setting),
    LeftOut(Leftover),
}

/// A table of `pinion.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DraftTable {
    /// The header as it is written: `[[site]]`. It is empty for the part before the first table.
    pub(super) header: &'static str,
    pub(super) lines: Vec<DraftLine>,
}

/// All tables, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct ConfigurationDraft {
    pub(super) tables: Vec<DraftTable>,
    /// Settings that Pinion needs no key for.
    pub(super) not_needed: u64,
}

impl DraftTable {
    pub(super) fn new(header: &'static str) -> Self {
        Self { header, lines: Vec::new() }
    }

    pub(super) fn text(&mut self, key: &'static str, text: impl Into<String>) {
        self.set(key, Setting::Text(text.into()));
    }

    pub(super) fn number(&mut self, key: &'static str, number: u64) {
        self.set(key, Setting::Number(number));
    }

    /// Sets a key; an earlier value is replaced, since TOML takes a key once.
    pub(super) fn set(&mut self, key: &'static str, setting: Setting) {
        let line = DraftLine::Key(key, setting);
        let is_same =
            |line: &&mut DraftLine| matches!(line, DraftLine::Key(known, _) if *known == key);
        match self.lines.iter_mut().find(is_same) {
            Some(known) => *known = line,
            None => self.lines.push(line),
        }
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Setting> {
        self.lines.iter().find_map(|line| match line {
            DraftLine::Key(known, setting) if *known == key => Some(setting),
            _ => None,
        })
    }

    /// Adds a text to the list of a key, unless it is there.
    pub(super) fn add(&mut self, key: &'static str, text: String) {
        let mut texts = match self.get(key) {
            Some(Setting::Texts(texts)) => texts.clone(),
            _ => Vec::new(),
        };
        if !texts.contains(&text) {
            texts.push(text);
        }
        self.set(key, Setting::Texts(texts));
    }

    /// Adds a note at this place about a part that could not be carried over.
    pub(super) fn leave_out(&mut self, place: impl Into<String>, message: impl AsRef<str>) {
        self.note(&place.into(), message.as_ref(), false);
    }

    /// Notes at this place that requests are let in now that were refused.
    pub(super) fn opens(&mut self, place: impl Into<String>, message: impl AsRef<str>) {
        self.note(&place.into(), message.as_ref(), true);
    }

    fn note(&mut self, place: &str, message: &str, opens: bool) {
        let leftover = Leftover { place: shown(place), message: shown(message), opens };
        self.lines.push(DraftLine::LeftOut(leftover));
    }

    /// Makes a comment of a key that is refused. Says whether the rest of the table is right
    /// without it: a site without its hosts would respond for all.
    pub(super) fn refuse(&mut self, line: usize, why: &str) -> bool {
        let is_mount = self.header == "[[site.mount]]";
        // Without one of its keys the table would say something else.
        let is_access = self.header == "[[site.access]]";
        let Some(DraftLine::Key(key, setting)) = self.lines.get(line) else { return false };
        let (key, value) = (*key, named(&toml(setting)));
        let message = shown(&format!("{value} was not carried: {why}"));
        let leftover = Leftover { place: key.to_owned(), message, opens: is_access };
        self.lines[line] = DraftLine::LeftOut(leftover);
        if is_access || is_mount && key == "path" {
            self.lines.retain(|line| matches!(line, DraftLine::LeftOut(_)));
        }
        key != "hosts"
    }

    pub(super) fn has_keys(&self) -> bool {
        self.lines.iter().any(|line| matches!(line, DraftLine::Key(..)))
    }
}

/// The table of the draft that a line of the file is of, and which of its lines that is; `None` for
/// its header. Nothing for lines that are of no table.
pub(super) type LineOrigin = Option<(usize, Option<usize>)>;

impl ConfigurationDraft {
    /// Returns the notes about parts that could not be carried over, each once, in the order of the
    /// file.
    pub(super) fn leftovers(&self) -> Vec<&Leftover> {
        let mut known = BTreeSet::new();
        let lines = self.tables.iter().flat_map(|table| &table.lines);
        let leftovers = lines.filter_map(|line| match line {
            DraftLine::LeftOut(leftover) => Some(leftover),
            DraftLine::Key(..) => None,
        });
        leftovers.filter(|leftover| known.insert(*leftover)).collect()
    }

    /// Returns the number of keys.
    pub(super) fn keys(&self) -> u64 {
        let lines = self.tables.iter().flat_map(|table| &table.lines);
        lines.filter(|line| matches!(line, DraftLine::Key(..))).count() as u64
    }

    /// Returns the file, and where each of its lines comes from.
    pub(super) fn render(&self, source: &str) -> (String, Vec<LineOrigin>) {
        let mut text = format!("# Converted by pinion import from {}.\n", shown(source));
        let mut origins = vec![None];
        let mut known = BTreeSet::new();
        for (at, table) in self.tables.iter().enumerate() {
            if table.lines.is_empty() && table.header != "[[site]]" {
                continue;
            }
            text.push('\n');
            origins.push(None);
            // Sites come before their mounts, even if only those say something.
            if table.has_keys() || table.header == "[[site]]" {
                text.push_str(table.header);
                text.push('\n');
                origins.push(Some((at, None)));
            }
            for (number, line) in table.lines.iter().enumerate() {
                match line {
                    DraftLine::Key(key, setting) => {
                        text.push_str(&format!("{key} = {}\n", toml(setting)));
                    }
                    // A note that all sites share is written once.
                    DraftLine::LeftOut(leftover) if !known.insert(leftover) => continue,
                    DraftLine::LeftOut(Leftover { place, message, .. }) => {
                        text.push_str(&format!("# {place}: {message}\n"));
                    }
                }
                origins.push(Some((at, Some(number))));
            }
        }
        (text, origins)
    }
}

/// Returns a value as TOML has it, in one line.
pub(super) fn toml(setting: &Setting) -> String {
    match setting {
        Setting::Text(text) => quoted(text),
        Setting::Texts(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("[{}]", texts.join(", "))
        }
        Setting::Number(number) => number.to_string(),
        Setting::Switch(on) => on.to_string(),
        Setting::Variables(variables) => {
            let pair =
                |(name, value): &(String, String)| format!("{} = {}", quoted(name), quoted(value));
            let pairs: Vec<String> = variables.iter().map(pair).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

/// Returns a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            character if character.is_control() => {
                // Writing to a string does not fail.
                let _ = write!(quoted, "\\u{:04X}", u32::from(character));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a text that may be part of a comment and of a line of a terminal.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (number, character) in text.chars().enumerate() {
        if number == SHOWN_MAX_CHARS * 2 {
            shown.push('…');
            break;
        }
        match character {
            character if character.is_control() => shown.extend(character.escape_default()),
            // They turn the direction of the text after them.
            '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(character.escape_unicode());
            }
            character => shown.push(character),
        }
    }
    shown
}

/// Returns the beginning of a text of the other file, for a message.
pub(super) fn named(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX_CHARS / 2) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

impl ConfigurationDraft {
    /// Makes comments of mounts whose server was left out: they would be refused.
    pub(super) fn drop_empty_mounts(&mut self) {
        let servers = ["wsgi", "asgi", "proxy"];
        let mounts = self.tables.iter_mut().filter(|table| table.header == "[[site.mount]]");
        for mount in mounts.filter(|mount| !servers.iter().any(|key| mount.get(key).is_some())) {
            mount.lines.retain(|line| matches!(line, DraftLine::LeftOut(_)));
        }
        let sole = ["[[listen]]", "[[certificate]]"];
        for table in self.tables.iter_mut().filter(|table| sole.contains(&table.header)) {
            let needed =
                if table.header == "[[listen]]" { ["address", "tls"] } else { ["cert", "cert"] };
            if !needed.iter().any(|key| table.get(key).is_some()) {
                table.lines.retain(|line| matches!(line, DraftLine::LeftOut(_)));
            }
        }
    }
}

/// Returns whether a variable can be part of an environment.
pub(super) fn is_variable(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

/// Returns whether a row of the directive table takes a value.
pub(super) fn is_value(row: &str, value: &str) -> bool {
    let row = crate::directives::all().find(|known| known.name == row);
    row.is_some_and(|row| crate::directive_value_parsers::check(&row.kind, value).is_ok())
}
