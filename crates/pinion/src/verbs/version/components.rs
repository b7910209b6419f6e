//! The components of the program, for `pinion version --sbom`.
//!
//! The document is part of the source tree: `cargo xtask sbom` writes it as `Cargo.lock` is, and
//! its test says when that has changed.

use crate::failure::Failure;
use crate::terminal::{Align, Columns, TerminalStyle};
use serde::Deserialize;
use std::io::{self, Write};

/// A CycloneDX document.
const DOCUMENT: &str = include_str!("pinion.cdx.json");

/// The parts of the document that the table shows.
#[derive(Deserialize)]
struct Document {
    components: Vec<Component>,
}

#[derive(Deserialize)]
struct Component {
    name: String,
    version: String,
    /// `required`: it is part of the program. `excluded`: it only takes part in the build.
    scope: String,
    licenses: Vec<Licence>,
}

#[derive(Deserialize)]
struct Licence {
    expression: String,
}

/// Writes the document as it is, or as a table for people.
pub(super) fn write(json: bool, out: &mut impl Write) -> Result<(), Failure> {
    if json {
        return Ok(out.write_all(DOCUMENT.as_bytes())?);
    }
    let document: Document = serde_json::from_str(DOCUMENT).map_err(io::Error::from)?;
    let style = TerminalStyle::of_stdout();
    let mut rows = vec![["name", "version", "licence", ""].map(|head| style.dim(head))];
    rows.extend(document.components.iter().map(|component| cells(component, style)));
    for line in Columns::new([Align::Left; 4]).lines(&rows) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn cells(component: &Component, style: TerminalStyle) -> [String; 4] {
    let licences: Vec<&str> =
        component.licenses.iter().map(|licence| licence.expression.as_str()).collect();
    let is_part = component.scope == "required";
    [
        component.name.clone(),
        component.version.clone(),
        licences.join(", "),
        if is_part { String::new() } else { style.dim("for the build alone") },
    ]
}
