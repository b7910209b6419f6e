//! Converts redirects, rewrites and rules of an archive to lines of `_redirects` from which a build
//! makes the same. The meaning of the lines is in docs/rules.md.

use std::path::Path;

use pinion_archive::{
    Archive, Damage, Entry, EntryKind, PathPart, QueryValue, Rule, Scratch, SegmentPart,
    SegmentPattern, TargetPart,
};

use crate::extract::entry_paths;
use crate::path_aliases;
use crate::rules::leads_to_itself;
use crate::rules::redirects::parse;

/// The name of the capture of a `*` at the end.
const SPLAT: &str = "splat";

/// Returns whether the entry becomes a line.
pub(super) fn is_line(entry: &Entry<'_>) -> bool {
    matches!(entry.kind(), EntryKind::Redirect | EntryKind::Rewrite)
        && entry.path().first() == Some(&b'/')
}

/// Returns the line, or the reason why a build would refuse it: targets such as `mailto:`, and
/// redirects that end nowhere, come from other servers.
pub(super) fn readable(archive: &Archive<'_>, line: String) -> Result<String, &'static str> {
    let rules = parse(Path::new("_redirects"), b"/", line.as_bytes());
    let rules = rules.map_err(|_| "a redirect that no line can say")?;
    let is_file = |path: &[u8]| {
        let mut scratch = Scratch::new();
        // Content of a folder without an index file becomes no file.
        archive.load(path, &mut scratch).is_ok_and(|found| found)
            && scratch.entry().is_some_and(|entry| {
                entry_paths::is_page(&entry) && (entry.target().is_some() || !path.ends_with(b"/"))
            })
    };
    if rules.iter().any(|rule| leads_to_itself(rule, is_file, |_| false).is_some()) {
        Err("a redirect that leads back to itself")
    } else {
        Ok(line)
    }
}

/// Returns the line of an entry for one path; `None` if the line of its other slash form says it
/// too. The error is the reason why there is no line.
pub(super) fn line_of_entry(
    archive: &Archive<'_>,
    entry: &Entry<'_>,
) -> Result<Option<Result<String, &'static str>>, Damage> {
    let Some(target) = entry.target() else { return Ok(None) };
    if let Some(without) = entry.path().strip_suffix(b"/").filter(|path| !path.is_empty()) {
        let mut scratch = Scratch::new();
        if let Some(other) = archive.find(without, &mut scratch)?
            && (other.kind(), other.status(), other.target())
                == (entry.kind(), entry.status(), entry.target())
        {
            return Ok(None);
        }
    }
    let redirects = entry.kind() == EntryKind::Redirect;
    let to = match target_text(redirects, entry.keeps_query(), target) {
        Ok(to) => to,
        Err(wrong) => return Ok(Some(Err(wrong))),
    };
    // A file would come before the line, if it were not forced.
    let force = if has_file(archive, entry.path())? { "!" } else { "" };
    let from = from_text(entry.path());
    Ok(Some(Ok(format!("{from} {to} {}{force}\n", entry.status()))))
}

/// Returns the line of a rule.
pub(super) fn line_of_rule(rule: &Rule<'_>) -> Result<String, &'static str> {
    let mut line = String::new();
    if let Some(host) = rule.host() {
        line.push_str("https://");
        line.push_str(std::str::from_utf8(host).map_err(|_| "a host that is not ASCII")?);
    }
    let mut names: Vec<String> = Vec::new();
    let from = line.len();
    for part in rule.path() {
        line.push('/');
        match part {
            PathPart::Literal(segment) => line.push_str(&segment_text(segment)),
            PathPart::Capture => {
                names.push(format!("p{}", names.len()));
                line.push(':');
                line.push_str(names.last().map_or("", String::as_str));
            }
            PathPart::Mixed(pattern) => push_segment(&mut line, pattern, &mut names, rule)?,
            PathPart::Rest { prefix } => {
                names.push(SPLAT.to_owned());
                line.push_str(&segment_text(prefix));
                line.push('*');
            }
        }
    }
    if line.len() == from {
        line.push('/');
    }
    for (key, value) in rule.query() {
        line.push_str(&format!(" {}=", query_text(key)));
        match value {
            QueryValue::Is(value) => line.push_str(&query_text(value)),
            QueryValue::Capture => {
                names.push(format!("q{}", names.len()));
                line.push(':');
                line.push_str(names.last().map_or("", String::as_str));
            }
        }
    }
    line.push(' ');
    let (mut to, mut has_query) = (String::new(), false);
    let mut behind_name = false;
    for part in rule.target() {
        if behind_name && matches!(part, TargetPart::Literal([begin, ..]) if is_name_byte(*begin)) {
            return Err("a target with text right behind a placeholder");
        }
        behind_name = matches!(part, TargetPart::Capture(_));
        match part {
            TargetPart::Literal(text) if rule.is_redirect() => {
                has_query |= text.contains(&b'?');
                to.push_str(location_text(text)?);
            }
            TargetPart::Literal(text) => to.push_str(&key_text(text)),
            TargetPart::Capture(number) => {
                to.push(':');
                to.push_str(names.get(usize::from(number)).map_or("", String::as_str));
            }
        }
    }
    if rule.is_redirect() && rule.keeps_query() == has_query {
        return Err(OTHER_QUERY);
    }
    let force = if rule.is_forced() { "!" } else { "" };
    Ok(format!("{line}{to} {}{force}\n", rule.status()))
}

/// Writes a segment of texts and placeholders. A text that would be read as part of a name is
/// escaped.
fn push_segment(
    line: &mut String,
    pattern: SegmentPattern<'_>,
    names: &mut Vec<String>,
    rule: &Rule<'_>,
) -> Result<(), &'static str> {
    let is_used = |number: usize| {
        let names_it = |part| part == TargetPart::Capture(number as u8);
        rule.target().any(names_it)
    };
    let mut is_behind_name = false;
    for part in pattern.parts() {
        match part {
            SegmentPart::Literal([first, rest @ ..]) if is_behind_name && is_name_byte(*first) => {
                line.push_str(&format!("%{first:02X}"));
                line.push_str(&segment_text(rest));
            }
            SegmentPart::Literal(text) => line.push_str(&segment_text(text)),
            SegmentPart::Capture => {
                let is_behind_letter = line.ends_with(|c: char| c.is_ascii_alphanumeric());
                if is_behind_letter && !is_behind_name && !is_used(names.len()) {
                    return Err(
                        "a placeholder right behind a letter that the target does not name",
                    );
                }
                names.push(format!("p{}", names.len()));
                line.push(':');
                line.push_str(names.last().map_or("", String::as_str));
            }
            SegmentPart::Star => {
                names.push(SPLAT.to_owned());
                line.push('*');
            }
        }
        is_behind_name = part == SegmentPart::Capture;
    }
    Ok(())
}

const OTHER_QUERY: &str = "a redirect that treats the query as no line can say";

fn target_text(redirects: bool, keeps_query: bool, target: &[u8]) -> Result<String, &'static str> {
    if !redirects {
        return Ok(key_text(target));
    }
    if keeps_query == target.contains(&b'?') {
        Err(OTHER_QUERY)
    } else {
        location_text(target).map(str::to_owned)
    }
}

/// Returns whether a build of the files would respond to one of the slash forms of a path.
fn has_file(archive: &Archive<'_>, path: &[u8]) -> Result<bool, Damage> {
    let without = path.strip_suffix(b"/").unwrap_or(path);
    let with = [without, b"/"].concat();
    let mut scratch = Scratch::new();
    for form in [without, &with] {
        for file in path_aliases::files_of(form).chain([form.to_vec()]) {
            if archive.load(&file, &mut scratch)?
                && scratch.entry().is_some_and(|entry| entry_paths::is_page(&entry))
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns a path on the left: everything that could mean something else is escaped.
pub(super) fn from_text(path: &[u8]) -> String {
    let segments: Vec<String> = path.split(|&byte| byte == b'/').map(segment_text).collect();
    segments.join("/")
}

fn segment_text(segment: &[u8]) -> String {
    escaped_but(segment, |byte| b"-._~!$&'(),;=@+".contains(&byte))
}

fn query_text(text: &[u8]) -> String {
    escaped_but(text, |byte| b"-._~".contains(&byte))
}

/// Returns the text of the key that is sent, escaped: a colon begins a placeholder.
fn key_text(key: &[u8]) -> String {
    escaped_but(key, |byte| b"/-._~!$&'()*,;=@+".contains(&byte))
}

/// Returns a `Location` as it is.
fn location_text(location: &[u8]) -> Result<&str, &'static str> {
    let text = std::str::from_utf8(location).map_err(|_| "a target that is not ASCII")?;
    // Finds text that a line would take for a placeholder.
    let placeholder = |(at, _): (usize, &str)| {
        let before = text.as_bytes().get(..at).and_then(|before| before.last());
        let behind = text.as_bytes().get(at + 1);
        matches!(before, None | Some(b'/' | b'=')) && behind.is_some_and(|&byte| is_name_byte(byte))
    };
    if text.match_indices(':').any(placeholder) {
        Err("a target with what would be a placeholder")
    } else {
        Ok(text)
    }
}

/// Returns whether a byte may be part of the name of a placeholder.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn escaped_but(text: &[u8], plain: fn(u8) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_alphanumeric() || plain(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use pinion_archive::{Layout, NewEntry, NewRule, Writer};

    use super::*;

    fn entry<'a>(kind: EntryKind, status: u16, path: &'a [u8], target: &'a [u8]) -> NewEntry<'a> {
        NewEntry {
            kind,
            status,
            path,
            target,
            keeps_query: !target.contains(&b'?'),
            rules_first: false,
            has_variant: false,
            modified: None,
            shared: None,
            representations: &[],
        }
    }

    /// The lines of an archive; what no line can say, by its reason.
    fn lines(entries: &[NewEntry<'_>], rules: &[NewRule<'_>]) -> Vec<String> {
        let mut writer = Writer::new(Cursor::new(Vec::new())).expect("memory");
        entries.iter().for_each(|entry| writer.entry(entry).expect("valid"));
        rules.iter().for_each(|rule| writer.rule(rule).expect("valid"));
        let bytes = writer.finish(&[]).expect("an archive").1.into_inner();
        let layout = Layout::open(&bytes).expect("an archive");
        let archive = layout.view(&bytes);
        let (mut lines, mut all) = (Vec::new(), archive.entries());
        while let Some(entry) = all.next_entry().expect("sound") {
            lines.extend(line_of_entry(&archive, &entry).expect("sound"));
        }
        lines.extend(archive.rules().iter().map(|rule| line_of_rule(&rule)));
        let text = |line: Result<String, &str>| line.unwrap_or_else(str::to_owned);
        lines.into_iter().map(|line| text(line).trim_end().to_owned()).collect()
    }

    #[test]
    fn redirect_entries_become_lines() {
        let redirect = |path, target| entry(EntryKind::Redirect, 301, path, target);
        let entries = [
            redirect(b"/old", b"/new"),
            redirect(b"/old/", b"/new"),
            redirect(b"/a b/:x*", b"https://example.org:8080/?q=1"),
            entry(EntryKind::Rewrite, 200, b"/app", "/index \u{fc}:1.html".as_bytes()),
            NewEntry { keeps_query: false, ..redirect(b"/dropped", b"/x") },
            redirect(b"/colon", b"/:name"),
        ];
        assert_eq!(
            lines(&entries, &[]),
            [
                "/old /new 301",
                "/a%20b/%3Ax%2A https://example.org:8080/?q=1 301",
                "/app /index%20%C3%BC%3A1.html 200",
                OTHER_QUERY,
                "a target with what would be a placeholder",
            ]
        );
    }

    #[test]
    fn rules_with_all_parts_become_lines() {
        let (literal, capture) = (TargetPart::Literal, TargetPart::Capture);
        fn rule<'a>(path: &'a [PathPart<'a>], target: &'a [TargetPart<'a>]) -> NewRule<'a> {
            NewRule { path, target, keeps_query: true, ..NewRule::EMPTY }
        }
        let rest = PathPart::Rest { prefix: b"v" };
        let all = [PathPart::Rest { prefix: b"" }];
        let path = [PathPart::Literal(b"a:b"), PathPart::Capture, rest];
        let target = [literal(b"/x/"), capture(2), literal(b"/"), capture(0), capture(1)];
        let (same, none) = ([literal(b"/"), capture(0)], [literal(b"/none here")]);
        let rules = [
            NewRule {
                force: true,
                status: 302,
                host: Some(b"*.example.org"),
                query: &[(b"k 1", QueryValue::Is(b"a&b")), (b"n", QueryValue::Capture)],
                ..rule(&path, &target)
            },
            rule(&all, &same),
            NewRule { status: 404, keeps_query: false, ..rule(&[], &none) },
        ];
        assert_eq!(
            lines(&[], &rules),
            [
                "https://*.example.org/a%3Ab/:p0/v* k%201=a%26b n=:q2 /x/:q2/:p0:splat 302!",
                "/* /:splat 301",
                "/ /none%20here 404",
            ]
        );
    }

    #[test]
    fn mixed_segments_become_placeholders_or_are_refused() {
        use SegmentPart::{Capture, Literal, Star};
        let target = [TargetPart::Literal(b"/x/"), TargetPart::Capture(0)];
        for (parts, expected) in [
            (&[Literal(b"p-"), Capture][..], "/p-:p0 /x/:p0 301"),
            (&[Capture, Literal(b"-x")], "/:p0%2Dx /x/:p0 301"),
            (&[Capture, Literal(b"abc"), Capture], NAMELESS),
            (&[Capture, Literal(b"ab-"), Capture], "/:p0%61b-:p1 /x/:p0 301"),
            (&[Star, Literal(b".txt")], "/*.txt /x/:splat 301"),
            (&[Literal(b"v"), Capture], "/v:p0 /x/:p0 301"),
        ] {
            let encoded = SegmentPattern::encode(parts).expect("a segment");
            let path = [PathPart::Mixed(SegmentPattern::of(&encoded)), PathPart::Literal(b"z")];
            for (path, end) in [(&path[..1], ""), (&path[..], "/z")] {
                let rule = NewRule { path, target: &target, keeps_query: true, ..NewRule::EMPTY };
                let line = lines(&[], &[rule]).remove(0);
                let expected = expected.replacen(' ', &format!("{end} "), 1);
                if line.starts_with('/') {
                    assert_eq!(line, expected);
                    let read = parse(Path::new("_redirects"), b"/", line.as_bytes());
                    let stored: Vec<_> = path.to_vec();
                    let rule = read.expect(&line).remove(0);
                    assert_eq!(
                        rule.path.iter().map(|part| part.stored()).collect::<Vec<_>>(),
                        stored
                    );
                } else {
                    assert_eq!(line, NAMELESS);
                }
            }
        }
    }

    const NAMELESS: &str = "a placeholder right behind a letter that the target does not name";
}
