//! Lines of `_redirects` in the manner of other servers: what to write here instead.

use super::text::{Fault, Word, words};

/// Returns what to say about a line that is no rule, if it is written as for another server.
pub(super) fn fault(line: Word<'_>) -> Option<Fault> {
    let words = words(line);
    let first = *words.first()?;
    if first.text.starts_with("//") {
        let fault = Fault::new(first.column, "a path, or a comment that begins with #");
        return Some(fault.advise("// does not begin one"));
    }
    if let Some(arrow) = words.iter().find(|word| is_arrow(word.text)) {
        let others = words.iter().filter(|word| !is_arrow(word.text));
        let others: Vec<&str> = others.map(|word| word.text).collect();
        let fault = Fault::new(arrow.column, "nothing between the path and the target");
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
    let fault = Fault::new(first.column, "a path that begins with /");
    let rule = rule(&name, words.get(1..).unwrap_or_default());
    let rule = rule.unwrap_or_else(|| "/old /new 301".to_owned());
    Some(fault.advise(format!("this is a line of {server}; write `{rule}`")))
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
    // What these mean without a word about it.
    let default = if matches!(name, "redirect" | "redirecttemp" | "redir") { 302 } else { 301 };
    Some(format!("{from} {to} {}", status.unwrap_or(default)))
}
