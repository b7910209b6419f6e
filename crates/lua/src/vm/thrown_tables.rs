//! Tables that a script throws: `error({ code = 404 })`. An error of mlua has only their address,
//! and the reader of the log needs their values.

use std::fmt::Write as _;

use mlua::{Function, Lua, Table, Value};

use crate::limits::{THROWN_DEPTH_MAX, THROWN_ENTRIES_MAX, THROWN_TEXT_MAX_BYTES};
use crate::sandbox::THROWN;

/// Returns the values of the table whose address a message begins with, if it is the last thrown
/// one.
pub(super) fn described(lua: &Lua, message: &str) -> Option<String> {
    let message = message.strip_prefix("runtime error: ").unwrap_or(message);
    let line = message.lines().next()?;
    if !line.starts_with("table: ") && !line.starts_with("<table ") {
        return None;
    }
    let thrown: Function = lua.named_registry_value(THROWN).ok()?;
    let table = thrown.call::<Option<Table>>(()).ok()??;
    let at = table.to_pointer();
    if line != format!("table: {at:?}") && line != format!("<table {at:?}>") {
        return None;
    }
    let mut text = String::new();
    show_table(&mut text, &table, THROWN_DEPTH_MAX);
    Some(text)
}

/// Returns the replacement of the first line of a message, if it stands for a value that is neither
/// a text nor a known table.
pub(super) fn without_text(line: &str) -> Option<String> {
    let is_address = |kind: &str| {
        let address = line.strip_prefix(kind).and_then(|rest| rest.strip_prefix(": "));
        address.is_some_and(|address| address.starts_with("0x") || address.starts_with("builtin"))
    };
    match line {
        "nil" => Some("an error without a message: error() or error(nil) was called".to_owned()),
        "true" | "false" => Some(format!("error({line}) was called, without a message")),
        _ => ["table", "function", "thread", "userdata"]
            .into_iter()
            .find(|kind| is_address(kind))
            .map(|kind| format!("a {kind} was thrown as an error, without a message")),
    }
}

fn show(text: &mut String, value: &Value, depth: usize) {
    if text.len() > THROWN_TEXT_MAX_BYTES {
        text.push('…');
        return;
    }
    let _always = match value {
        Value::Boolean(value) => write!(text, "{value}"),
        Value::Integer(number) => write!(text, "{number}"),
        Value::Number(number) => write!(text, "{number}"),
        Value::String(value) => {
            let all = value.to_string_lossy();
            let shown: String = all.chars().take(THROWN_TEXT_MAX_BYTES).collect();
            write!(text, "{shown:?}{}", if shown.len() < all.len() { "…" } else { "" })
        }
        Value::Table(table) if depth > 0 => {
            show_table(text, table, depth - 1);
            Ok(())
        }
        Value::Table(_) => write!(text, "{{…}}"),
        other => write!(text, "a {}", other.type_name()),
    };
}

fn show_table(text: &mut String, table: &Table, depth: usize) {
    let pairs = table.pairs::<Value, Value>().take(THROWN_ENTRIES_MAX + 1);
    let mut entries: Vec<(String, Value)> = pairs
        .filter_map(|pair| {
            let (key, value) = pair.ok()?;
            let mut name = String::new();
            match &key {
                Value::String(key) => name.push_str(&key.to_string_lossy()),
                other => {
                    name.push('[');
                    show(&mut name, other, 0);
                    name.push(']');
                }
            }
            Some((name, value))
        })
        .collect();
    let is_cut = entries.len() > THROWN_ENTRIES_MAX;
    entries.truncate(THROWN_ENTRIES_MAX);
    // The entries are sorted, because the order of a table means nothing to readers.
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    text.push('{');
    for (at, (name, value)) in entries.iter().enumerate() {
        text.push_str(if at == 0 { " " } else { ", " });
        text.push_str(name);
        text.push_str(" = ");
        show(text, value, depth);
    }
    text.push_str(if is_cut { ", … }" } else { " }" });
}
