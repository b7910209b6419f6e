//! The manual, as roff for man(1), made from the directive table: a page for the program, one for
//! each verb, and one for the configuration file.

mod roff;

use crate::directives::config_file_tables::TABLES;
use crate::directives::group::grouped;
use crate::directives::manual_sections::{self, ManualSection};
use crate::directives::verb_wording::push_sentences;
use crate::directives::verbs::{self, Verb, VerbRow};
use crate::directives::{Default, Directive, Kind};
use roff::ManualPage;

/// The page of the program itself.
pub(crate) const PROGRAM: &str = "pinion";

/// The page of the configuration file.
const FILE: &str = "pinion.toml";

/// Returns the names of all pages.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    [PROGRAM].into_iter().chain(verbs::ALL.iter().map(|verb| verb.name)).chain([FILE])
}

/// Returns a page as roff; `None` if there is none of that name.
pub(crate) fn page(name: &str) -> Option<String> {
    match name {
        PROGRAM => Some(of_program()),
        FILE => Some(of_file()),
        _ => verbs::ALL.iter().find(|verb| verb.name == name).map(of_verb),
    }
}

fn of_program() -> String {
    let mut page = ManualPage::new(PROGRAM, 1, "one small, fast web server");
    page.section("SYNOPSIS");
    page.usage("pinion", "COMMAND [OPTION]... [ARGUMENT]...");
    page.section("DESCRIPTION");
    page.paragraph(
        "Pinion serves static files, and handlers and pages in Lua. `pinion build` compiles a \
         folder into one immutable archive, with the response for each path. `pinion serve` serves \
         an archive, or a folder that it first builds into an archive in memory.",
    );
    page.section("COMMANDS");
    for verb in verbs::ALL {
        page.item(&format!("`{}`", synopsis(verb)), &format!("{}.", verb.brief));
    }
    notes(&mut page, manual_sections::program_sections());
    let others = verbs::ALL.iter().map(|verb| (format!("pinion-{}", verb.name), 1));
    page.see_also(others.chain([(FILE.to_owned(), 5)]));
    page.text()
}

fn of_verb(verb: &VerbRow) -> String {
    let mut page = ManualPage::new(&format!("pinion-{}", verb.name), 1, &lower_first(verb.brief));
    page.section("SYNOPSIS");
    let words = synopsis(verb);
    let operands = words.strip_prefix(verb.name).unwrap_or_default();
    page.usage(&format!("pinion {}", verb.name), &format!("[OPTION]...{operands}"));
    page.section("DESCRIPTION");
    match verb.long {
        "" => page.paragraph(&format!("{}.", verb.brief)),
        long => page.paragraph(long),
    }
    if !verb.operands.is_empty() {
        page.section("ARGUMENTS");
    }
    for operand in verb.operands {
        page.item(&format!("_{}_", operand.name), &format!("{}.", operand.brief));
    }
    page.section("OPTIONS");
    for (group, rows) in grouped(verb.verb) {
        page.subsection(group.title());
        rows.into_iter()
            .for_each(|row| page.item(&flag(row, verb.verb), &about_flag(row, verb.verb)));
    }
    page.item("`-h`, `--help`", "Show the flags; `--help` shows more than `-h`.");
    notes(&mut page, manual_sections::sections(verb.verb));
    page.see_also([(PROGRAM.to_owned(), 1), (FILE.to_owned(), 5)]);
    page.text()
}

fn of_file() -> String {
    let mut page = ManualPage::new(FILE, 5, "configuration of the pinion web server");
    page.section("DESCRIPTION");
    page.paragraph(
        "`pinion serve` reads its sites and settings from a TOML file: the one it is given, or \
         `pinion.toml` in the current folder. Relative paths are below the folder of the file. \
         Flags of the command line override the file. `pinion check` reports \
         all errors of a file.",
    );
    for table in TABLES {
        page.section(&table.header());
        page.paragraph(&format!("{}.", table.brief()));
        for (row, key) in table.rows() {
            page.item(&format!("`{key}` = {}", type_of(row)), &about_key(row));
        }
    }
    page.section("EXAMPLE");
    page.example(EXAMPLE);
    page.section("FILES");
    page.item("`./pinion.toml`", "Read by `pinion serve` and `pinion check` without a PATH.");
    page.item("`/etc/pinion/pinion.toml`", "Read by the systemd unit of the packages.");
    page.see_also([("pinion-serve".to_owned(), 1), ("pinion-check".to_owned(), 1)]);
    page.text()
}

/// Two sites; a test of this file reads it.
const EXAMPLE: &str = "\
[[site]]
hosts = [\"example.org\", \"www.example.org\"]
path = \"example.pinion\"

[[site]]
path = \"public\"
exclude = [\"*.psd\", \"drafts/**\"]
cache-control = \"max-age=60\"

[[listen]]
address = \":8080\"

[log]
access = \"access.log\"
format = \"json\"
";

fn synopsis(verb: &VerbRow) -> String {
    let operands = verb.operands.iter().map(|operand| format!(" {}", operand.usage()));
    operands.fold(verb.name.to_owned(), |line, operand| line + &operand)
}

/// Writes sections of entries.
fn notes(page: &mut ManualPage, sections: impl IntoIterator<Item = ManualSection>) {
    for ManualSection { title, entries } in sections {
        page.section(title);
        entries.iter().for_each(|(entry, about)| page.item(&format!("`{entry}`"), about));
    }
}

fn flag(row: &Directive, verb: Verb) -> String {
    let mut line = row.short.map_or(String::new(), |letter| format!("`-{letter}`, "));
    line.push_str(&format!("`--{}`", row.name));
    if !row.is_switch() {
        line.push_str(&format!(" _{}_", row.wording(verb).placeholder));
    }
    line
}

/// Returns the TOML type of the value of a row.
pub(crate) fn type_of(row: &Directive) -> &'static str {
    match row.kind {
        Kind::Switch => "true or false",
        Kind::Number { .. } | Kind::Nice => "number",
        Kind::Variable => "table of strings",
        Kind::Account | Kind::Size if !row.is_list() => "string or number",
        _ if row.is_list() => "string or list of strings",
        _ => "string",
    }
}

/// Returns the default of a flag, as a phrase.
pub(crate) fn default_of_flag(default: Default) -> String {
    match default {
        Default::Auto(text) | Default::Nothing(text) => text.to_owned(),
        Default::Off => "off".to_owned(),
        Default::Required => REQUIRED.to_owned(),
        Default::Value(text) => format!("`{text}`"),
    }
}

/// Returns the default of a key, as a phrase. Keys are about `pinion serve`.
pub(crate) fn default_of_key(row: &Directive) -> String {
    match row.wording(Verb::Serve).default {
        Default::Auto(text) | Default::Nothing(text) => text.to_owned(),
        Default::Off => format!("`{}`", row.is_inverted()),
        Default::Required => REQUIRED.to_owned(),
        Default::Value(text) if matches!(row.kind, Kind::Number { .. }) => format!("`{text}`"),
        Default::Value(text) => format!("`\"{text}\"`"),
    }
}

const REQUIRED: &str = "none, it must be given";

/// Returns the description of a flag of a verb.
fn about_flag(row: &Directive, verb: Verb) -> String {
    let wording = row.wording(verb);
    let mut text = format!("{}.", wording.brief);
    push_sentences(&mut text, [wording.long, row.repetition(), row.effect()]);
    push_values(&mut text, row, &default_of_flag(wording.default));
    if let Some(key) = row.file.filter(|_| verb == Verb::Serve) {
        text.push_str(&format!(" In pinion.toml: `{}` of {}.", key.name, key.table.header()));
    }
    text
}

/// Returns the description of a key.
fn about_key(row: &Directive) -> String {
    let wording = row.wording(Verb::Serve);
    let mut text = if row.is_inverted() {
        format!("With `false`: {}.", lower_first(wording.brief))
    } else {
        format!("{}.", wording.brief)
    };
    push_sentences(&mut text, [wording.long, row.effect()]);
    push_values(&mut text, row, &default_of_key(row));
    if !row.verbs.is_empty() {
        text.push_str(&format!(" Flag: `--{}`.", row.name));
    }
    text
}

fn push_values(text: &mut String, row: &Directive, default: &str) {
    if !row.is_switch() {
        text.push_str(&format!(" Allowed: {}.", row.bounds()));
    }
    text.push_str(&format!(" Default: {default}."));
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        // A name of HTTP (the Cache-Control field) keeps its capital.
        Some(first) if !text.starts_with("Cache-") => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use std::path::Path;

    #[test]
    fn every_page_has_a_title_and_the_file_page_every_key() {
        for name in names() {
            let text = page(name).expect("a page");
            assert!(text.starts_with(".TH "), "{name}");
            assert!(!text.contains("\n\n"), "{name}: roff has no empty lines");
        }
        let text = page(FILE).expect("a page");
        for (_, key) in TABLES.iter().flat_map(|table| table.rows()) {
            assert!(text.contains(&format!("\\fB{}\\fR", key.replace('-', "\\-"))), "{key}");
        }
        assert!(text.contains(".SH \"FILES\"\n") && text.contains("/etc/pinion/pinion.toml"));
        assert_eq!(page("xyzzy"), None);
    }

    #[test]
    fn the_example_is_a_valid_configuration() {
        let (_, faults) = config::parse(EXAMPLE, Path::new("pinion.toml")).expect("TOML");
        assert_eq!(faults, []);
    }
}
