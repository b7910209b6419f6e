//! The settings of the verbs about release folders.

use super::{number, operand};
use crate::failure::Failure;
use crate::releases::turn::Back;
use crate::written::Low;
use std::path::PathBuf;

/// `pinion publish`.
#[derive(Debug)]
pub(crate) struct Publish {
    /// The archive; `-` for stdin.
    pub(crate) file: PathBuf,
    /// The release folder.
    pub(crate) folder: PathBuf,
    /// How many releases stay.
    pub(crate) keep: usize,
    /// `--json`
    pub(crate) json: bool,
}

/// `pinion releases`.
#[derive(Debug)]
pub(crate) struct Releases {
    /// The release folder.
    pub(crate) folder: PathBuf,
    /// `--json`
    pub(crate) json: bool,
}

/// `pinion rollback`.
#[derive(Debug)]
pub(crate) struct Rollback {
    /// The release folder.
    pub(crate) folder: PathBuf,
    /// Where to.
    pub(crate) back: Back,
    /// `--json`
    pub(crate) json: bool,
}

pub(super) fn publish(low: &Low) -> Result<Publish, Failure> {
    Ok(Publish {
        file: operand(low, "FILE")?,
        folder: operand(low, "DIR")?,
        keep: number(low, "keep")?.unwrap_or_default(),
        json: low.given("json"),
    })
}

pub(super) fn releases(low: &Low) -> Result<Releases, Failure> {
    Ok(Releases { folder: operand(low, "DIR")?, json: low.given("json") })
}

pub(super) fn rollback(low: &Low) -> Result<Rollback, Failure> {
    let back = match low.given("N") {
        true => {
            let text = operand(low, "N")?;
            let text = text.to_string_lossy();
            Back::parse(&text).map_err(|error| Failure::usage(format!("N: {error}")))?
        }
        false => Back::Steps(1),
    };
    Ok(Rollback { folder: operand(low, "DIR")?, back, json: low.given("json") })
}
