//! The differences as a list for people.

use super::fields::{self, FieldChange};
use super::{Class, FoundDifference, Sides, Totals, code, rules};
use crate::failure::Failure;
use crate::listed_entry::{ListedEntry, ListedRule};
use crate::terminal::{TerminalStyle, count, counted, size};
use std::io::{self, Write};

/// Writes the list and a line of figures at its end.
pub(super) fn write(
    sides: &Sides,
    out: &mut impl Write,
    style: TerminalStyle,
) -> Result<Totals, Failure> {
    let totals = sides.each(|found| {
        if found.follows || found.class == Class::Touched {
            Ok(())
        } else {
            line(sides, found, out, style)
        }
    })?;
    for built_in in rules::built_in(sides) {
        writeln!(out, "{} {}", style.yellow("~"), built_in.responses)?;
        field_lines(built_in.fields, out, style)?;
    }
    let rules = rules::rules(sides);
    for rule in &rules.added {
        writeln!(out, "{} rule {}", style.green("+"), rule_text(rule))?;
    }
    for rule in &rules.removed {
        writeln!(out, "{} rule {}", style.red("-"), rule_text(rule))?;
    }
    if rules.reordered {
        writeln!(out, "{} rules  in another order", style.yellow("~"))?;
    }
    for code::CodeChange { path, change, bytes_before, bytes_after } in code::code(sides)? {
        let sign = match change {
            "added" => style.green("+"),
            "removed" => style.red("-"),
            _ => style.yellow("~"),
        };
        let sizes: Vec<_> = bytes_before.into_iter().chain(bytes_after).map(size).collect();
        writeln!(out, "{sign} code {path}  {}", style.dim(sizes.join(" -> ")))?;
    }
    for line in summary(&totals) {
        writeln!(out, "{line}")?;
    }
    Ok(totals)
}

fn line(
    sides: &Sides,
    found: &FoundDifference<'_>,
    out: &mut impl Write,
    style: TerminalStyle,
) -> Result<(), Failure> {
    let change = &found.change;
    let before =
        change.before.map(|entry| ListedEntry::new(&sides.before.view(), &entry)).transpose();
    let after = change.after.map(|entry| ListedEntry::new(&sides.after.view(), &entry)).transpose();
    let before = before.map_err(|damage| sides.before.damaged(damage))?;
    let after = after.map_err(|damage| sides.after.damaged(damage))?;
    match (&before, &after) {
        (Some(before), Some(after)) => {
            write!(out, "{} {}", style.yellow("~"), path(after))?;
            match details(found, before, after) {
                details if details.is_empty() => writeln!(out)?,
                details => writeln!(out, "  {}", style.dim(details.join(", ")))?,
            }
        }
        (None, Some(new)) => {
            writeln!(out, "{} {}  {}", style.green("+"), path(new), style.dim(about(new)))?;
        }
        (Some(old), None) => {
            writeln!(out, "{} {}  {}", style.red("-"), path(old), style.dim(about(old)))?;
        }
        (None, None) => {}
    }
    Ok(field_lines(fields::changes(sides, found)?, out, style)?)
}

fn field_lines(
    fields: Vec<FieldChange>,
    out: &mut impl Write,
    style: TerminalStyle,
) -> io::Result<()> {
    for field in fields {
        let value = |value: Option<String>| value.unwrap_or_else(|| style.dim("none"));
        let (before, after) = (value(field.before), value(field.after));
        writeln!(out, "    {}: {before} -> {after}", field.name)?;
    }
    Ok(())
}

fn rule_text(rule: &ListedRule) -> String {
    let ListedRule { host, path, query, target, status, force } = rule;
    let host = host.as_ref().map_or(String::new(), |host| format!("//{host}"));
    let query: String = query.iter().map(|condition| format!(" {condition}")).collect();
    let force = if *force { "!" } else { "" };
    format!("{host}{path}{query} -> {target}  {status}{force}")
}

fn path(listed: &ListedEntry) -> String {
    match listed.kind {
        "not-found" | "fallback" => format!("anything else below {}", listed.path),
        "error-page" => format!("errors with status {}", listed.status),
        "single-page" => "any other page".to_owned(),
        "listing" => format!("{} list of what is in it", listed.path),
        "variant" => format!("{} for clients of JSON", listed.path),
        "private" => format!("{} itself, which no client is sent", listed.path),
        _ => listed.path.clone(),
    }
}

/// Describes an entry that was added or removed.
fn about(listed: &ListedEntry) -> String {
    let mut parts = Vec::new();
    if listed.status != 200 {
        parts.push(listed.status.to_string());
    }
    parts.extend(listed.bytes().map(size));
    parts.extend(listed.media_type.clone());
    let arrow = if listed.is_alias() { "=" } else { "->" };
    parts.extend(listed.target.as_ref().map(|target| format!("{arrow} {target}")));
    parts.join("  ")
}

/// Returns the differences of the two entries, except in their fields.
fn details(found: &FoundDifference<'_>, before: &ListedEntry, after: &ListedEntry) -> Vec<String> {
    let aspects = found.change.aspects;
    let mut details = Vec::new();
    let mut arrow = |differs: bool, label: &str, before: String, after: String| match differs {
        true if before == after => details.push(format!("{label} {after}").trim().to_owned()),
        true => details.push(format!("{label} {before} -> {after}").trim().to_owned()),
        false => {}
    };
    let none = || "none".to_owned();
    arrow(aspects.kind, "", before.kind.to_owned(), after.kind.to_owned());
    arrow(aspects.status, "status", before.status.to_string(), after.status.to_string());
    let target = |listed: &ListedEntry| listed.target.clone().unwrap_or_else(none);
    arrow(aspects.target, "leads to", target(before), target(after));
    let query = |carried: bool| if carried { "carried over" } else { "dropped" }.to_owned();
    let carried = found.change.after.is_some_and(|entry| entry.keeps_query());
    arrow(aspects.query, "query", query(!carried), query(carried));
    let bytes = |listed: &ListedEntry| listed.bytes().map_or_else(none, size);
    arrow(aspects.content, "content", bytes(before), bytes(after));
    arrow(aspects.codings, "codings", codings(before), codings(after));
    details
}

fn codings(listed: &ListedEntry) -> String {
    let forms = listed.representations.iter().skip(1);
    let forms: Vec<String> =
        forms.map(|form| format!("{} {}", form.coding, size(form.bytes))).collect();
    if forms.is_empty() { "none".to_owned() } else { forms.join(" + ") }
}

/// Returns the summary of the differences.
fn summary(totals: &Totals) -> Vec<String> {
    if totals.same {
        return vec!["the same archive".to_owned()];
    }
    let Totals { added, removed, changed, .. } = *totals;
    let mut line = format!(
        "{} added, {} removed, {} changed, {} unchanged",
        count(added),
        count(removed),
        count(changed),
        count(totals.unchanged)
    );
    if totals.touched > 0 {
        line.push_str(&format!(", {} with another time only", count(totals.touched)));
    }
    if totals.other_names > 0 {
        line.push_str(&format!("; {} of these", counted(totals.other_names, "other name")));
    }
    let bytes = |label: &str, figure: super::BeforeAfter| {
        let (before, after) = (figure.before, figure.after);
        let sign = if after < before { "-" } else { "+" };
        let (old, new, by) = (size(before), size(after), size(before.abs_diff(after)));
        format!("{label} {old} -> {new} ({sign}{by})")
    };
    let sizes = [bytes("content", totals.content_bytes), bytes("archive", totals.archive_bytes)];
    vec![line, sizes.join(", ")]
}
