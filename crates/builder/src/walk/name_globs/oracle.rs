//! A second, plain implementation of the matching of name patterns. The fuzz target `globs`
//! compares it with the first, and so does the replay of its corpus.
//!
//! An input is lines: patterns, and last the path that is held against them. Patterns are read as
//! of `--exclude` and `--previous-for` (all at once) and as of `--codings-for` (one by one, the
//! last that matches counts).

use super::Globs;
use crate::coding_options::{CodingEffort, CodingsFor};
use crate::coding_rules::CodingRules;
use crate::options::Options;

/// The most bytes of a pattern and of a path that the model reads.
const READ_MAX_BYTES: usize = 200;
/// Plain patterns that braces may stand for.
const BRANCHES_MAX: usize = 64;

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPiece {
    /// This byte.
    Byte(u8),
    /// `?`: any one but a slash.
    Any,
    /// `*`: any number of those.
    Star,
    /// `[a-z]`, `[!a-z]`; a slash too.
    Class { negated: bool, ranges: Vec<(u8, u8)> },
    /// `**/` in front: nothing, or anything that ends in a slash.
    Above,
    /// `/**/`: a slash, or anything between two.
    Between,
    /// `/**` at the end: a slash and anything.
    Below,
    /// `**` alone.
    Everything,
}

/// Panics when patterns match other paths than the model says.
pub(crate) fn check(data: &[u8]) {
    let Some(end) = data.iter().rposition(|&byte| byte == b'\n') else { return };
    let (patterns, path) = (&data[..end], &data[end + 1..]);
    let Ok(patterns) = std::str::from_utf8(patterns) else { return };
    if path.split(|&byte| byte == b'/').any(|name| name == b"..") {
        return; // which no file is called
    }
    let key = [b"/", path].concat();
    let mut good: Vec<String> = Vec::new();
    for pattern in patterns.split('\n') {
        let one = Globs::new(&[pattern.to_owned()]);
        let as_coding = CodingsFor::parse(&format!("{pattern}=br"), CodingEffort::Best);
        // A pattern of nothing is one of a name, and no override.
        assert_eq!(one.is_ok(), as_coding.is_ok() || pattern.is_empty(), "{pattern:?}");
        if let Ok(one) = one {
            let is_match = one.is_match(&key);
            assert_eq!(one.unused().count(), usize::from(!is_match), "{pattern:?}");
            if let Some(expected) = model(pattern, path) {
                let path = path.escape_ascii();
                assert_eq!(is_match, expected, "{pattern:?} on {path}");
            }
            good.push(pattern.to_owned());
        }
    }
    check_together(&good, &key);
}

/// Checks that several patterns match the paths that one of them matches; of overrides the last one
/// counts.
fn check_together(patterns: &[String], key: &[u8]) {
    let alone = |pattern: &String| {
        Globs::new(std::slice::from_ref(pattern)).is_ok_and(|globs| globs.is_match(key))
    };
    let all = Globs::new(patterns).expect("each of them is one");
    assert_eq!(all.is_match(key), patterns.iter().any(alone), "{patterns:?}");
    assert_eq!(all.unused().count(), patterns.iter().filter(|one| !alone(one)).count());

    let named: Vec<&String> = patterns.iter().filter(|pattern| !pattern.is_empty()).collect();
    let of = |(number, pattern): (usize, &&String)| CodingsFor {
        glob: (*pattern).clone(),
        codings: vec![CodingEffort::Best.codings()[number % 2]],
    };
    let codings_for = named.iter().enumerate().map(of).collect();
    let options = Options { codings_for, codings: Vec::new(), ..Options::new(0) };
    let lists = CodingRules::new(&options).expect("each of them is one");
    let last = named.iter().rposition(|pattern| alone(pattern));
    let expected = last.map_or(&[][..], |last| &options.codings_for[last].codings);
    assert_eq!(lists.codings(lists.of(key)), expected, "{patterns:?} on {}", key.escape_ascii());
}

/// Returns whether a pattern matches the path; `None` for one that this model does not read.
fn model(pattern: &str, path: &[u8]) -> Option<bool> {
    let is_long = pattern.len().max(path.len()) > READ_MAX_BYTES;
    // Braces before or after `**` change its meaning; they are left to the original.
    let is_mixed = pattern.contains("**") && pattern.contains('{');
    if !pattern.is_ascii() || is_long || is_mixed || pattern.contains("//") {
        return None;
    }
    let pattern = pattern.strip_suffix('/').unwrap_or(pattern);
    let is_of_paths = pattern.contains('/');
    let pattern = if pattern.starts_with("./") { &pattern[1..] } else { pattern };
    let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let text = if is_of_paths { path } else { name };
    let branches = branches(pattern.as_bytes(), &mut 0, 0)?;
    let pieces: Option<Vec<_>> = branches.iter().map(|branch| pieces(branch)).collect();
    Some(pieces?.iter().any(|pieces| matches(pieces, text)))
}

/// Returns the plain patterns that one with braces stands for. Within braces an empty one counts
/// for nothing, unless there is no other.
fn branches(pattern: &[u8], at: &mut usize, depth: usize) -> Option<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut own = vec![Vec::new()];
    while let Some(&byte) = pattern.get(*at) {
        let start = *at;
        *at += 1;
        match byte {
            b'{' => {
                let inner = branches(pattern, at, depth + 1)?;
                *at += 1; // the brace
                let joined = |one: &Vec<u8>| {
                    let one = one.clone();
                    inner.iter().map(move |inner| [&one[..], inner].concat()).collect::<Vec<_>>()
                };
                own = own.iter().flat_map(joined).collect();
            }
            b'}' if depth > 0 => {
                *at = start;
                break;
            }
            b',' if depth > 0 => all.append(&mut std::mem::replace(&mut own, vec![Vec::new()])),
            b'\\' => *at += 1,
            b'[' => *at = class(pattern, *at)?.1,
            _ => {}
        }
        if !matches!(byte, b'{' | b',') || byte == b',' && depth == 0 {
            own.iter_mut().for_each(|one| one.extend_from_slice(&pattern[start..*at]));
        }
        if all.len() + own.len() > BRANCHES_MAX {
            return None;
        }
    }
    all.append(&mut own);
    if depth > 0 && all.iter().any(|one| !one.is_empty()) {
        all.retain(|one| !one.is_empty());
    }
    Some(all)
}

/// Returns a class whose bracket stands before `at`, and where it ends.
fn class(pattern: &[u8], mut at: usize) -> Option<(PatternPiece, usize)> {
    let negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(negated);
    let first = at;
    let mut ranges: Vec<(u8, u8)> = Vec::new();
    loop {
        let byte = *pattern.get(at)?;
        at += 1;
        match byte {
            b']' if at > first + 1 => return Some((PatternPiece::Class { negated, ranges }, at)),
            b'-' if at > first + 1 && pattern.get(at).is_some_and(|&next| next != b']') => {
                ranges.last_mut()?.1 = pattern[at];
                at += 1;
                // `[a-c-e]` is read from left to right, each step widening the last range.
                if pattern.get(at) == Some(&b'-') {
                    return None;
                }
            }
            byte => ranges.push((byte, byte)),
        }
    }
}

fn pieces(pattern: &[u8]) -> Option<Vec<PatternPiece>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        let rest = &pattern[at..];
        at += 1;
        let piece = match byte {
            b'?' => PatternPiece::Any,
            b'*' if rest.starts_with(b"**") => {
                let is_whole = rest.len() == 2 || rest[2] == b'/';
                let (piece, next) = stars(&mut pieces, is_whole, rest.len() == 2)?;
                at += next;
                piece
            }
            b'*' => PatternPiece::Star,
            b'[' => {
                let (class, next) = class(pattern, at)?;
                at = next;
                class
            }
            b'\\' => {
                at += 1;
                PatternPiece::Byte(*pattern.get(at - 1)?)
            }
            byte => PatternPiece::Byte(byte),
        };
        pieces.push(piece);
    }
    Some(pieces)
}

/// Returns the meaning of `**` after `pieces`, and how much more of the pattern it takes; `None`
/// unless it is a whole name, once.
fn stars(
    pieces: &mut Vec<PatternPiece>,
    is_whole: bool,
    is_last: bool,
) -> Option<(PatternPiece, usize)> {
    match (pieces.last().cloned(), is_last) {
        _ if !is_whole => None,
        (None, true) => Some((PatternPiece::Everything, 1)),
        (None, false) => Some((PatternPiece::Above, 2)),
        (Some(PatternPiece::Byte(b'/')), _) => {
            pieces.pop();
            Some(if is_last { (PatternPiece::Below, 1) } else { (PatternPiece::Between, 2) })
        }
        (Some(_), _) => None,
    }
}

/// Returns all positions that can be reached, piece by piece.
fn matches(pieces: &[PatternPiece], text: &[u8]) -> bool {
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for piece in pieces {
        let mut next = vec![false; text.len() + 1];
        for from in (0..=text.len()).filter(|&from| reached[from]) {
            for to in from..=text.len() {
                next[to] |= covers(piece, &text[from..to]);
            }
        }
        reached = next;
    }
    reached[text.len()]
}

fn covers(piece: &PatternPiece, text: &[u8]) -> bool {
    match piece {
        PatternPiece::Byte(byte) => text == [*byte],
        PatternPiece::Any => text.len() == 1 && text != b"/",
        PatternPiece::Star => !text.contains(&b'/'),
        PatternPiece::Class { negated, ranges } => {
            let [byte] = text else { return false };
            ranges.iter().any(|(first, last)| (first..=last).contains(&byte)) != *negated
        }
        PatternPiece::Above => text.is_empty() || text.ends_with(b"/"),
        PatternPiece::Between => text.starts_with(b"/") && text.ends_with(b"/"),
        PatternPiece::Below => text.starts_with(b"/"),
        PatternPiece::Everything => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn globs_of_the_corpus_agree_with_the_model() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/globs");
        let mut count = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            check(&fs::read(&path).unwrap());
            count += 1;
        }
        assert!(count >= 20, "{}: only {count} files", folder.display());
    }

    /// The model says something, and not always the same.
    #[test]
    fn the_model_matches_known_patterns() {
        for (pattern, path, expected) in [
            ("*.psd", "a/x.psd", Some(true)),
            ("a/*.md", "a/b/x.md", Some(false)),
            ("a/**/*.md", "a/x.md", Some(true)),
            ("**/x", "a/b/x", Some(true)),
            ("a/**", "a", Some(false)),
            ("**", "a/b", Some(true)),
            ("x.{js,cs{s,v}}", "a/x.csv", Some(true)),
            ("{,a}b", "b", Some(false)),
            ("[!a-c]?", "dx", Some(true)),
            ("[]-]", "-", Some(true)),
            ("./a,\\*/", "a,*", Some(true)),
            ("a**", "ab", None),
            ("ä", "ä", None),
        ] {
            assert_eq!(model(pattern, path.as_bytes()), expected, "{pattern} on {path}");
        }
    }
}
