//! `docs/flags.md` is printed from the table, and this test fails when the page is stale. To write
//! it anew: `PINION_WRITE_REFERENCE=1 cargo test -p pinion reference`.

use super::verbs::{self, VerbRow};
use super::{Default, Directive, Kind, of};
use std::fmt::Write as _;
use std::path::Path;

fn page() -> String {
    let mut page = String::from(
        "<!-- @generated from the directive table in crates/pinion/src/directives/; edit it there, \
         then:\n     PINION_WRITE_REFERENCE=1 cargo test -p pinion reference -->\n\n# Flags\n",
    );
    for verb in verbs::ALL {
        section(&mut page, verb).expect("a string takes every write");
    }
    page
}

fn section(page: &mut String, verb: &VerbRow) -> std::fmt::Result {
    write!(page, "\n## pinion {}", verb.name)?;
    for operand in verb.operands {
        match operand.required {
            true => write!(page, " {}", operand.name)?,
            false => write!(page, " [{}]", operand.name)?,
        }
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
    of(verb.verb).try_for_each(|row| entry(page, row))
}

fn entry(page: &mut String, row: &Directive) -> std::fmt::Result {
    write!(page, "\n### `")?;
    if let Some(letter) = row.short {
        write!(page, "-{letter}, ")?;
    }
    write!(page, "--{}", row.name)?;
    if !matches!(row.kind, Kind::Switch) {
        write!(page, " {}", row.kind.placeholder())?;
    }
    write!(page, "`\n\n{}.", row.brief)?;
    if !row.long.is_empty() {
        write!(page, " {}", row.long)?;
    }
    if !row.effect().is_empty() {
        write!(page, " {}", row.effect())?;
    }
    let default = match row.default {
        Default::Auto(text) => text.to_owned(),
        Default::Off => "off".to_owned(),
        Default::Required => "none, it must be given".to_owned(),
        Default::Value(text) => format!("`{text}`"),
    };
    let often = if row.repeatable { "; may be repeated" } else { "" };
    let (level, bounds) = (row.level.name(), row.kind.bounds());
    writeln!(page, "\n\n*{level}* · {bounds}{often} · default: {default}")
}

#[test]
fn the_reference_page_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flags.md");
    if std::env::var_os("PINION_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, page()).expect("docs/ can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("docs/flags.md is there");
    for (kept, told) in kept.lines().zip(page().lines()) {
        assert_eq!(kept, told, "docs/flags.md is stale; the head of this file says what to do");
    }
    assert!(kept == page(), "docs/flags.md is stale: its length");
}
