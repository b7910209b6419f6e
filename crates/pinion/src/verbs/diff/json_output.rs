//! The differences as one JSON document, one of them on each line, so that lists of any size
//! stream.

use super::fields::{self, FieldChange};
use super::{FoundDifference, Sides, Totals, code, rules};
use crate::failure::Failure;
use crate::json_failure_document;
use crate::listed_entry::ListedEntry;
use pinion_archive::{Aspects, Entry};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};

/// One path. The member names are part of the `--json` contract.
#[derive(Serialize)]
struct ListedChange {
    path: String,
    change: &'static str,
    aspects: Vec<&'static str>,
    fields: Vec<FieldChange>,
    /// It is another name of a resource that changed in the same way.
    follows: bool,
    before: Option<ListedEntry>,
    after: Option<ListedEntry>,
}

/// Writes the document.
pub(super) fn write(sides: &Sides, out: &mut impl Write) -> Result<Totals, Failure> {
    let name = |file: &crate::archive_file::ArchiveFile| {
        Value::from(json_failure_document::text(file.path()))
    };
    let (before, after) = (name(&sides.before), name(&sides.after));
    write!(out, "{{\"before\":{before},\"after\":{after},\"changes\":[")?;
    let mut separator = "\n";
    let totals = sides.each(|found| {
        let listed = listed(sides, found)?;
        out.write_all(separator.as_bytes())?;
        separator = ",\n";
        Ok(serde_json::to_writer(&mut *out, &listed).map_err(io::Error::from)?)
    });
    let found = totals.and_then(|totals| Ok((totals, code::code(sides)?)));
    match &found {
        Ok((totals, code)) => {
            let rest = serde_json::json!({
                "rules": rules::rules(sides),
                "code": code,
                "built_in": rules::built_in(sides),
                "summary": totals,
            });
            // An object too: its members stand after those above.
            let rest = rest.to_string();
            writeln!(out, "\n],{}", rest.strip_prefix('{').unwrap_or_default())?;
        }
        // Damage that shows only now ends the list, but not the document.
        Err(failure) => match failure.reason() {
            Some(reason) => writeln!(out, "\n],\"error\":{}}}", Value::from(reason))?,
            None => writeln!(out, "\n]}}")?,
        },
    }
    out.flush()?;
    found.map(|(totals, _)| totals).map_err(Failure::printed)
}

fn listed(sides: &Sides, found: &FoundDifference<'_>) -> Result<ListedChange, Failure> {
    let entry = |file: &crate::archive_file::ArchiveFile, entry: Option<Entry<'_>>| {
        let listed = entry.map(|entry| ListedEntry::new(&file.view(), &entry)).transpose();
        listed.map_err(|damage| file.damaged(damage))
    };
    let before = entry(&sides.before, found.change.before)?;
    let after = entry(&sides.after, found.change.after)?;
    Ok(ListedChange {
        path: after
            .as_ref()
            .or(before.as_ref())
            .map(|entry| entry.path.clone())
            .unwrap_or_default(),
        change: found.class.name(),
        aspects: aspects(found.change.aspects),
        fields: fields::changes(sides, found)?,
        follows: found.follows,
        before,
        after,
    })
}

fn aspects(aspects: Aspects) -> Vec<&'static str> {
    let Aspects { kind, status, target, query, modified, content, codings, fields } = aspects;
    [
        (kind, "kind"),
        (status, "status"),
        (target, "target"),
        (query, "query"),
        (modified, "modified"),
        (content, "content"),
        (codings, "codings"),
        (fields, "fields"),
    ]
    .into_iter()
    .filter_map(|(differs, name)| differs.then_some(name))
    .collect()
}
