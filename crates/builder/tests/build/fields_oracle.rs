//! A plain reading of rules for fields. Tests of other crates use this file too.

/// Patterns that meet each other, some with placeholders within a segment.
pub(crate) const PATTERNS: [&str; 20] = [
    "/*",
    "/a",
    "/A",
    "/a*",
    "/*.css",
    "/*b*",
    "/:x",
    "/:x/:y",
    "/d/*",
    "/D/e/",
    "/d/*/b",
    "/*/b",
    "/d/:x/*",
    "/*/*.txt",
    "/*/e/*",
    "/",
    "/none/*",
    "/d/:x.css",
    "/*.:x",
    "/:x-:y",
];

/// The value that a line sets, or none if it removes the field.
pub(crate) type Line = (&'static str, Option<u8>);
pub(crate) type Rule = (&'static str, Vec<Line>);

/// Returns whether a pattern without a slash at its end matches a path, by trying everything.
pub(crate) fn fits(pattern: &str, path: &str) -> bool {
    let (head, rest) = match pattern.strip_prefix('/') {
        Some(segment) => segment.split_at(segment.find('/').unwrap_or(segment.len())),
        None => ("", pattern),
    };
    let below = path.strip_prefix('/');
    if head == "*" {
        return fits(rest, path)
            || below
                .is_some_and(|below| (0..=below.len()).any(|length| fits(rest, &below[length..])));
    }
    if let Some(name) = pattern.strip_prefix(':') {
        let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        let segment = path.find('/').unwrap_or(path.len());
        return (1..=segment).any(|length| fits(rest, &path[length..]));
    }
    let Some(first) = pattern.chars().next() else { return path.is_empty() };
    let rest = &pattern[first.len_utf8()..];
    match first {
        '*' => (0..=path.len()).any(|length| fits(rest, &path[length..])),
        _ => path
            .strip_prefix(|other: char| other.eq_ignore_ascii_case(&first))
            .is_some_and(|path| fits(rest, path)),
    }
}

/// Returns whether a pattern matches a path: a slash at the end is ignored.
pub(crate) fn is_about(pattern: &str, path: &str) -> bool {
    let pattern = pattern.trim_end_matches('/');
    fits(pattern, path) || path.strip_suffix('/').is_some_and(|path| fits(pattern, path))
}

pub(crate) fn text(rules: &[Rule]) -> String {
    let line = |(name, value): &Line| match value {
        Some(value) => format!("  {name}: v{value}\n"),
        None => format!("  ! {name}\n"),
    };
    let rule = |(pattern, lines): &Rule| {
        format!("{pattern}\n{}", lines.iter().map(line).collect::<String>())
    };
    rules.iter().map(rule).collect()
}

/// Returns the values of the lines of a field in a response that is for all of these paths: the
/// first one replaces the built-in one, others are joined, and none appears twice. `Vary` keeps its
/// own.
pub(crate) fn expected_values(
    rules: &[Rule],
    paths: &[&str],
    name: &str,
    built_in: Option<&str>,
) -> Vec<String> {
    let is_of = |(pattern, _): &&Rule| paths.iter().any(|path| is_about(pattern, path));
    let lines = rules.iter().filter(is_of).flat_map(|(_, lines)| lines);
    let of_own: Vec<String> = built_in.map(str::to_owned).into_iter().collect();
    let (mut found, mut is_given) = (of_own.clone(), name == "Vary");
    for (_, value) in lines.filter(|(of, _)| *of == name) {
        match value {
            None if name == "Vary" => found.clone_from(&of_own),
            None => (found, is_given) = (Vec::new(), false),
            Some(value) if is_given => found.push(format!("v{value}")),
            Some(value) => (found, is_given) = (vec![format!("v{value}")], true),
        }
    }
    if name == "Set-Cookie" || found.is_empty() {
        return found;
    }
    let mut members: Vec<String> = Vec::new();
    for member in found {
        if !members.contains(&member) {
            members.push(member);
        }
    }
    vec![members.join(", ")]
}
