//! `pinion man [PAGE]`: a page of the manual.

use crate::failure::Failure;
use crate::manual;
use std::io::{self, Write as _};

/// Writes a page to stdout.
pub(crate) fn run(page: Option<&str>) -> Result<(), Failure> {
    let Some(text) = manual::page(page.unwrap_or(manual::PROGRAM)) else {
        let names: Vec<&str> = manual::names().collect();
        let page = page.unwrap_or_default();
        return Err(Failure::usage(format!("no page {page:?}; there are {}", names.join(", "))));
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
