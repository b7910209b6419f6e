//! Lines of `_redirects` in the manner of other servers, and their right form here.

use super::redirects::ForeignMark;
use super::source_lines::{LineFault, Word, words};

/// Returns the advice about a line that is no rule, if it is written as for another server.
pub(super) fn fault(line: Word<'_>) -> Option<LineFault> {
    let words = words(line);
    let first = *words.first()?;
    if first.text.starts_with("//") {
        let fault = LineFault::new(first.column, "a path, or a comment that begins with #");
        return Some(fault.advise("// does not begin one"));
    }
    if first.text.starts_with("<!--") {
        let fault = LineFault::new(first.column, "a path, or a comment that begins with #");
        return Some(fault.advise("<!-- does not begin one"));
    }
    if is_of_netlify_toml(&words) {
        let fault = LineFault::new(first.column, "a path that begins with /");
        return Some(fault.advise("this is a line of netlify.toml; write `/old /new 301`"));
    }
    if let Some(arrow) = words.iter().find(|word| is_arrow(word.text)) {
        let others = words.iter().filter(|word| !is_arrow(word.text));
        let others: Vec<&str> = others.map(|word| word.text).collect();
        let fault = LineFault::new(arrow.column, "nothing between the path and the target");
        return Some(fault.advise(format!("write `{}`", others.join(" "))));
    }
    let name = first.text.to_ascii_lowercase();
    let server = match name.as_str() {
        "redirect" | "redirectpermanent" | "redirecttemp" | "redirectmatch" | "rewriterule"
        | "rewritecond" | "rewriteengine" | "rewritebase" => "Apache",
        "rewrite" | "return" | "location" => "nginx",
        "redir" => "Caddy",
        _ => return None,
    };
    let fault = LineFault::new(first.column, "a path that begins with /");
    let rule = rule(&name, words.get(1..).unwrap_or_default());
    let rule = rule.unwrap_or_else(|| "/old /new 301".to_owned());
    Some(fault.advise(format!("this is a line of {server}; write `{rule}`")))
}

/// Returns whether a line is one of a table of redirects in netlify.toml.
fn is_of_netlify_toml(words: &[Word<'_>]) -> bool {
    let text = |at: usize| words.get(at).map_or("", |word| word.text);
    let key = text(0).split('=').next().unwrap_or_default();
    let is_key = matches!(key, "from" | "to" | "status" | "force");
    let has_value = text(0).contains('=') || text(1).starts_with('=');
    matches!(text(0), "[[redirects]]" | "[[headers]]") || is_key && has_value
}

/// Returns the first placeholder or pattern of another server in a word: `$1` and `\1` of regular
/// expressions and `(.*)` itself, `$splat`, `{path}` of Caddy.
pub(super) fn mark(word: Word<'_>, is_in_target: bool) -> Option<ForeignMark> {
    let at = word.text.char_indices().find_map(|(at, _)| {
        let rest = word.text.get(at..)?;
        Some((at, mark_length(rest)?))
    });
    let (at, length) = at?;
    let text = word.text.get(at..at + length)?.to_owned();
    Some(ForeignMark { column: word.column_at(at), text, is_in_target })
}

/// Returns how many bytes the placeholder has that a text begins with.
fn mark_length(text: &str) -> Option<usize> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name_bytes = |text: &str| text.bytes().take_while(is_name).count();
    if let Some(name) = text.strip_prefix('$') {
        return Some(1 + name_bytes(name)).filter(|length| *length > 1);
    }
    if let Some(number) = text.strip_prefix('\\') {
        return number.starts_with(|c: char| c.is_ascii_digit()).then_some(2);
    }
    if ["(.*", "(.+", "([^", "(\\"].iter().any(|group| text.starts_with(group)) {
        return text.find(')').map(|end| end + 1);
    }
    let name = text.strip_prefix('{')?;
    let end = name.find('}').filter(|end| *end > 0)?;
    let is_placeholder = name.get(..end)?.bytes().all(|byte| is_name(&byte) || byte == b'.');
    is_placeholder.then_some(end + 2)
}

fn is_arrow(word: &str) -> bool {
    matches!(word, "->" | "=>" | "-->" | "→")
}

/// Returns the same rule as it is written here, if the words have a path and a target.
fn rule(name: &str, words: &[Word<'_>]) -> Option<String> {
    let words = || words.iter().map(|word| word.text.trim_end_matches(';'));
    let is_place = |word: &&str| ["/", "http://", "https://"].iter().any(|b| word.starts_with(b));
    let mut places = words().filter(is_place);
    let (from, to) = (places.next()?, places.next()?);
    let status = words().find_map(|word| match word {
        "301" | "permanent" => Some(301),
        "302" | "temp" | "redirect" => Some(302),
        "303" | "seeother" => Some(303),
        "307" => Some(307),
        "308" => Some(308),
        _ => None,
    });
    // The default status of these words.
    let default = if matches!(name, "redirect" | "redirecttemp" | "redir") { 302 } else { 301 };
    Some(format!("{from} {to} {}", status.unwrap_or(default)))
}
