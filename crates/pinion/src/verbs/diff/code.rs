//! Files of code that differ.

use super::{Class, Sides};
use crate::failure::Failure;
use serde::Serialize;
use std::collections::BTreeSet;

/// One file. The member names are part of the `--json` contract.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct CodeChange {
    /// The path as the archive has it.
    pub(super) path: String,
    /// `added`, `removed` or `changed`.
    pub(super) change: &'static str,
    /// Its length, if it was there.
    pub(super) bytes_before: Option<u64>,
    /// Its length, if it is there.
    pub(super) bytes_after: Option<u64>,
}

/// Returns all changes of code, by path.
pub(super) fn code(sides: &Sides) -> Result<Vec<CodeChange>, Failure> {
    let before = sides.before.view().code().map_err(|damage| sides.before.damaged(damage))?;
    let after = sides.after.view().code().map_err(|damage| sides.after.damaged(damage))?;
    let paths: BTreeSet<&[u8]> = before.iter().chain(after.iter()).map(|(path, _)| path).collect();
    let change = |path: &[u8]| {
        let (old, new) = (before.find(path), after.find(path));
        let class = match (old, new) {
            _ if old == new => return None,
            (None, _) => Class::Added,
            (_, None) => Class::Removed,
            _ => Class::Changed,
        };
        let bytes = |content: Option<&[u8]>| content.map(|content| content.len() as u64);
        Some(CodeChange {
            path: String::from_utf8_lossy(path).into_owned(),
            change: class.name(),
            bytes_before: bytes(old),
            bytes_after: bytes(new),
        })
    };
    Ok(paths.into_iter().filter_map(change).collect())
}
