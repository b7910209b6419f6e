//! `cargo xtask gen`: writes the generated files of the tree again; `gen --check` fails if one of
//! them differs from the output of its generator.

use crate::{nextest, process, sbom, workspace_paths};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::process::Command;

/// A generator.
struct Generator {
    /// The files that it makes, for people.
    files: &'static str,
    write: fn() -> Result<()>,
    check: fn() -> Result<()>,
}

const GENERATORS: &[Generator] = &[
    Generator { files: MEDIA_TABLE, write: write_media_table, check: check_media_table },
    Generator {
        files: "docs/reference/*.md",
        write: || reference(true),
        check: || reference(false),
    },
    Generator { files: sbom::FILE, write: sbom::run, check: sbom::check },
];

/// The media types by extension, made of the database `mime-db`.
const MEDIA_TABLE: &str = "crates/builder/src/media_type/extension_table.rs";

/// Writes all generated files, or checks them.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        [] => GENERATORS.iter().try_for_each(|generator| {
            println!("writing {}", generator.files);
            (generator.write)()
        }),
        ["--check"] => check(),
        _ => bail!("usage: cargo xtask gen [--check]"),
    }
}

/// Checks all generated files.
pub(crate) fn check() -> Result<()> {
    for Generator { files, check, .. } in GENERATORS {
        check().with_context(|| format!("{files} is not current; run `cargo xtask gen`"))?;
    }
    Ok(())
}

fn media_table() -> Result<String> {
    let database = workspace_paths::target().join("node/node_modules/mime-db");
    let script = workspace_paths::root().join("crates/builder/media/generate.py");
    process::output(Command::new("python3").arg(script).arg(database))
}

fn write_media_table() -> Result<()> {
    fs::write(workspace_paths::root().join(MEDIA_TABLE), media_table()?).context(MEDIA_TABLE)?;
    process::run(&mut process::cargo(&["fmt", "--package", "pinion-builder"]))
}

fn check_media_table() -> Result<()> {
    let kept =
        fs::read_to_string(workspace_paths::root().join(MEDIA_TABLE)).context(MEDIA_TABLE)?;
    // rustfmt breaks some lines; nothing else differs.
    let without_space = |text: &str| text.split_whitespace().collect::<String>().replace(",)", ")");
    ensure!(without_space(&kept) == without_space(&media_table()?), "it differs from mime-db");
    Ok(())
}

/// The reference of flags and keys, which unit tests of the program make of its tables.
fn reference(writes: bool) -> Result<()> {
    let filter = Some("package(pinion) & test(/^directives::reference_pages::/)");
    let mut command = nextest::command(nextest::Selection { filter, ..Default::default() });
    if writes {
        command.env("PINION_WRITE_REFERENCE", "1");
    }
    process::run(&mut command)
}
