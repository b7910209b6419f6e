//! Finds the fields of a response that differ.

use super::{FoundDifference, Sides};
use crate::failure::Failure;
use crate::terminal::shown;
use pinion_archive::{Archive, Damage, Entry, SharedBlock};
use pinion_http::content_coding::Coding;
use serde::Serialize;

/// A field that differs. The member names are part of the `--json` contract.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct FieldChange {
    /// The name as the newer archive spells it, if it has it.
    pub(super) name: String,
    /// None: it was not there. Several lines of one name are joined by commas (RFC 9110 §5.3).
    pub(super) before: Option<String>,
    /// None: it is not there any more.
    pub(super) after: Option<String>,
}

/// Returns the fields that differ in a path that both archives have.
pub(super) fn changes(
    sides: &Sides,
    found: &FoundDifference<'_>,
) -> Result<Vec<FieldChange>, Failure> {
    let change = &found.change;
    let (Some(before), Some(after)) = (change.before, change.after) else { return Ok(Vec::new()) };
    if !change.aspects.fields {
        return Ok(Vec::new());
    }
    let old = blocks(&sides.before.view(), &before).map_err(|error| sides.before.damaged(error))?;
    let new = blocks(&sides.after.view(), &after).map_err(|error| sides.after.damaged(error))?;
    let mut changes = Vec::new();
    for (coding, new) in &new {
        let same = old.iter().find(|(other, _)| other == coding);
        for change in same.map(|(_, old)| between(old, new)).unwrap_or_default() {
            if !changes.contains(&change) {
                changes.push(change);
            }
        }
    }
    Ok(changes)
}

/// Returns the blocks of an entry, with the coding of the form each belongs to; its own one has
/// none.
fn blocks<'a>(
    archive: &Archive<'a>,
    entry: &Entry<'_>,
) -> Result<Vec<(Option<Coding>, SharedBlock<'a>)>, Damage> {
    let own = entry.shared().map(|id| (None, id));
    let forms = entry.representations().map(|form| (Some(form.coding()), form.shared()));
    let all = own.into_iter().chain(forms);
    all.map(|(coding, id)| archive.shared(id).map(|block| (coding, block))).collect()
}

/// Returns the differences in the full form of two blocks.
pub(super) fn between(old: &SharedBlock<'_>, new: &SharedBlock<'_>) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    for (name, _) in new.fields().chain(old.fields()) {
        let (before, after) = (value(old, name), value(new, name));
        let known = changes
            .iter()
            .any(|change: &FieldChange| change.name.as_bytes().eq_ignore_ascii_case(name));
        if before != after && !known {
            changes.push(FieldChange { name: shown(name), before, after });
        }
    }
    changes
}

/// Returns all values of a field in one.
fn value(block: &SharedBlock<'_>, name: &[u8]) -> Option<String> {
    let lines = block.fields().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let values: Vec<String> = lines.map(|(_, value)| shown(value)).collect();
    (!values.is_empty()).then(|| values.join(", "))
}
