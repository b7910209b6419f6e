//! The pages of `docs/reference/` are printed from the table, and these tests fail when a page is
//! stale. To write them anew: `cargo xtask gen`.

use super::config_file_tables::TABLES;
use super::group::grouped;
use super::verb_wording::push_sentences;
use super::verbs::{self, Verb, VerbRow};
use super::{Directive, Kind};
use crate::manual::{default_of_flag, default_of_key, type_of};
use std::fmt::Write as _;
use std::path::Path;

const HEAD: &str = "<!-- @generated from the directive table in crates/pinion/src/directives/; \
                    edit it there, then: cargo xtask gen -->\n\n";

fn flags() -> String {
    let mut page = format!("{HEAD}# Flags\n");
    for verb in verbs::ALL {
        section(&mut page, verb).expect("a string takes every write");
    }
    page
}

fn section(page: &mut String, verb: &VerbRow) -> std::fmt::Result {
    write!(page, "\n## pinion {}", verb.name)?;
    for operand in verb.operands {
        write!(page, " {}", operand.usage())?;
    }
    write!(page, "\n\n{}.", verb.brief)?;
    if !verb.long.is_empty() {
        write!(page, " {}", verb.long)?;
    }
    page.push('\n');
    for operand in verb.operands {
        write!(page, "\n- `{}`: {}", operand.name, operand.brief)?;
    }
    if !verb.operands.is_empty() {
        page.push('\n');
    }
    for (group, rows) in grouped(verb.verb) {
        write!(page, "\n### {}\n", group.title())?;
        rows.into_iter().try_for_each(|row| entry(page, row, verb.verb))?;
    }
    Ok(())
}

fn entry(page: &mut String, row: &Directive, verb: Verb) -> std::fmt::Result {
    let wording = row.wording(verb);
    write!(page, "\n#### `")?;
    if let Some(letter) = row.short {
        write!(page, "-{letter}, ")?;
    }
    write!(page, "--{}", row.name)?;
    if !row.is_switch() {
        write!(page, " {}", wording.placeholder)?;
    }
    write!(page, "`\n\n{}.", wording.brief)?;
    push_sentences(page, [wording.long, row.repetition(), row.effect()]);
    let (level, bounds) = (row.level.name(), row.bounds());
    let default = default_of_flag(wording.default);
    write!(page, "\n\n*{level}* · {bounds} · default: {default}")?;
    if let Some(key) = row.file.filter(|_| verb == Verb::Serve) {
        write!(page, " · in a file: `{}` `{}`", key.table.header(), key.name)?;
    }
    page.push('\n');
    Ok(())
}

fn configuration() -> String {
    let mut page = format!(
        "{HEAD}# Configuration\n\nThe keys of `pinion.toml`, table by table. How they are used is \
         in [configuration.md](../configuration.md).\n"
    );
    for table in TABLES {
        write!(page, "\n## `{}`\n\n{}.\n", table.header(), table.brief()).expect("a string");
        for (row, key) in table.rows() {
            self::key(&mut page, row, key).expect("a string takes every write");
        }
    }
    page
}

fn key(page: &mut String, row: &Directive, key: &str) -> std::fmt::Result {
    // A key with two rows has two entries.
    let off = if row.is_switch() && row.twin().is_some() { " = false" } else { "" };
    write!(page, "\n### `{}.{key}{off}`\n\n", row.file.map_or("", |key| key.table.name()))?;
    let wording = row.wording(Verb::Serve);
    if row.is_inverted() {
        write!(page, "`false`: {}.", wording.brief)?;
    } else {
        write!(page, "{}.", wording.brief)?;
    }
    push_sentences(page, [wording.long, row.effect()]);
    write!(page, "\n\n*{}*", type_of(row))?;
    if !matches!(row.kind, Kind::Switch) {
        write!(page, " · {}", row.bounds())?;
    }
    write!(page, " · default: {}", default_of_key(row))?;
    if row.verbs.is_empty() { writeln!(page) } else { writeln!(page, " · flag: `--{}`", row.name) }
}

#[test]
fn the_flags_reference_matches_the_table() {
    is_kept("flags.md", &flags());
}

#[test]
fn the_configuration_reference_matches_the_table() {
    is_kept("configuration.md", &configuration());
}

#[track_caller]
fn is_kept(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("PINION_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, page).expect("docs/reference/ can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("the page is there");
    for (kept, generated) in kept.lines().zip(page.lines()) {
        assert_eq!(kept, generated, "{name} is stale; the head of this file says what to do");
    }
    assert!(kept == page, "{name} is stale: its length");
}
