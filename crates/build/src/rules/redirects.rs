//! `_redirects`: a line each for a rule, `from [query…] [to] [status[!]]`.
//!
//! Lines fall into words as in npm's `@netlify/redirect-parser`; what that parser takes and the
//! server could only ignore is an error here. docs/rules.md has the list.

use std::path::Path;
use std::sync::Arc;

use pinion_archive::limits::{RULES_MAX, TARGET_MAX_BYTES};
use pinion_archive::{PathPart, SegmentPattern};

use super::pattern::Source;
use super::target::{Captures, Target};
use super::text::{Fault, RuleError, Word, lines, words};

/// A rule. Captures are numbered in their order: those of the path first, then those of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The file it stands in, below the source.
    pub file: Arc<Path>,
    /// Its line, from 1.
    pub line: usize,
    /// Comes before the files of the site.
    pub force: bool,
    /// 200, a redirect's 3xx, or the 4xx or 5xx that the body of the target is sent with.
    pub status: u16,
    /// Lower case, without port; may begin with `*.`. None: any.
    pub host: Option<Box<[u8]>>,
    /// The path, decoded, a part for each segment.
    pub path: Vec<Part>,
    /// What the query has to have, decoded.
    pub query: Vec<(Box<[u8]>, QueryValue)>,
    /// Where it leads: a URI reference ready for a field, or the key of what is sent.
    pub target: Vec<TargetPart>,
    /// Whether the query of the request is carried over.
    pub keeps_query: bool,
    /// The host of a target that is a URL, lower case, without port.
    pub(crate) target_host: Option<Box<[u8]>>,
    /// Where the target stands in its line.
    pub(crate) target_column: usize,
}

/// A piece of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// This segment.
    Literal(Box<[u8]>),
    /// Any one segment that is not empty.
    Capture,
    /// A segment of texts and placeholders, as an archive stores it.
    Mixed(Box<[u8]>),
    /// All that follows and begins so; with an empty prefix also nothing. The last part.
    Rest(Box<[u8]>),
}

/// What a parameter of the query has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryValue {
    /// This.
    Is(Box<[u8]>),
    /// Anything.
    Capture,
}

/// A piece of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPart {
    /// These bytes.
    Literal(Box<[u8]>),
    /// What was captured under that number.
    Capture(u8),
}

impl Part {
    /// As an archive has it.
    pub(crate) fn stored(&self) -> PathPart<'_> {
        match self {
            Part::Literal(segment) => PathPart::Literal(segment),
            Part::Capture => PathPart::Capture,
            Part::Mixed(encoded) => PathPart::Mixed(SegmentPattern::of(encoded)),
            Part::Rest(prefix) => PathPart::Rest { prefix },
        }
    }
}

impl Redirect {
    /// Whether it sends a `Location`, not a body.
    pub(crate) fn is_redirect(&self) -> bool {
        (300..400).contains(&self.status)
    }

    /// Whether only the path decides if it matches.
    pub(crate) fn is_unconditional(&self) -> bool {
        self.host.is_none() && self.query.is_empty()
    }

    /// The one path it is about, without a slash at its end.
    pub(crate) fn only_path(&self) -> Option<Vec<u8>> {
        let mut path = Vec::new();
        for part in &self.path {
            let Part::Literal(segment) = part else { return None };
            path.push(b'/');
            path.extend_from_slice(segment);
        }
        Some(if path.is_empty() { vec![b'/'] } else { path })
    }

    /// The target if nothing in it is captured.
    pub(crate) fn only_target(&self) -> Option<&[u8]> {
        match self.target.as_slice() {
            [TargetPart::Literal(target)] => Some(target),
            _ => None,
        }
    }
}

/// Reads a file. `folder` is where it lies, `/` or `/docs/`: its relative rules are about what is
/// below, and in any folder but the root there are no others.
///
/// # Errors
/// Everything that is wrong, in the order of the file.
pub fn parse(file: &Path, folder: &[u8], text: &[u8]) -> Result<Vec<Redirect>, Vec<RuleError>> {
    let (rules, errors) = parse_lines(file, folder, text);
    if errors.is_empty() { Ok(rules) } else { Err(errors) }
}

/// Reads a file like [`parse`]: the rules of the lines that are right, and what is wrong in others.
pub(super) fn parse_lines(
    file: &Path,
    folder: &[u8],
    text: &[u8],
) -> (Vec<Redirect>, Vec<RuleError>) {
    let (mut rules, mut errors) = (Vec::new(), Vec::new());
    let shared: Arc<Path> = file.into();
    for (number, line) in lines(text) {
        match line.and_then(|line| rule(folder, line)) {
            Ok(rule) => rules.push(Redirect { file: Arc::clone(&shared), line: number, ..rule }),
            Err(fault) => errors.push(fault.at(file, number)),
        }
        if rules.len() > RULES_MAX {
            let fault = Fault::new(1, format!("at most {RULES_MAX} rules"));
            errors.push(fault.at(file, number));
            break;
        }
    }
    (rules, errors)
}

/// A line, its words told apart by what they may be.
struct Fields<'t> {
    from: Word<'t>,
    query: Vec<Word<'t>>,
    to: Option<Word<'t>>,
    status: Option<Word<'t>>,
    conditions: Vec<Word<'t>>,
    /// Behind the last word.
    end: usize,
}

/// Reads a line; which one it is, is for the caller to say.
fn rule(folder: &[u8], text: Word<'_>) -> Result<Redirect, Fault> {
    let Fields { from, query, to, status, conditions, end } = Fields::of(text)?;
    let source = Source::parse(folder, from, &query, to.map_or("", |to| to.text))?;
    let (status, force) = status.map_or(Ok((301, false)), parse_status)?;
    if let Some(condition) = conditions.first() {
        return Err(refused(*condition));
    }
    let captures = Captures(&source.names);
    let target = match to {
        Some(to) => Target::parse(folder, to, status, &captures)?,
        // What Netlify calls forward rules.
        None if status == 200 && source.ends_with_rest() => Target::same_as(&source),
        None => return Err(Fault::new(end, "a target: a path or a URL")),
    };
    let literal = |part: &TargetPart| match part {
        TargetPart::Literal(text) => text.len(),
        TargetPart::Capture(_) => 0,
    };
    let target_column = to.map_or(from.column, |to| to.column);
    if target.parts.iter().map(literal).sum::<usize>() > TARGET_MAX_BYTES {
        let expected = format!("a target of at most {TARGET_MAX_BYTES} bytes, escaped");
        return Err(Fault::new(target_column, expected));
    }
    Ok(Redirect {
        file: Path::new("").into(),
        line: 0,
        force,
        status,
        host: source.host,
        path: source.path,
        query: source.query,
        keeps_query: target.keeps_query,
        target: target.parts,
        target_host: target.host,
        target_column,
    })
}

impl<'t> Fields<'t> {
    fn of(line: Word<'t>) -> Result<Fields<'t>, Fault> {
        let mut words = words(line);
        let comment = words.iter().position(|word| word.text.starts_with('#'));
        words.truncate(comment.unwrap_or(words.len()));
        let [from, rest @ ..] = words.as_slice() else {
            return Err(Fault::new(line.column, "a path"));
        };
        let (from, end) = (*from, words.last().unwrap_or(from).end());
        let Some(first) = rest.first() else {
            return Err(Fault::new(end, "a target: a path or a URL"));
        };
        let (query, to, behind) = if is_number(first.text) {
            (Vec::new(), None, rest)
        } else {
            let Some(at) = rest.iter().position(|word| is_target(word.text)) else {
                let expected = "a target that begins with /, ./, http:// or https://";
                return Err(Fault::new(first.column, expected));
            };
            let (query, behind) = rest.split_at(at);
            let (to, behind) = behind.split_first().unzip();
            (query.to_vec(), to.copied(), behind.unwrap_or_default())
        };
        let (status, conditions) = behind.split_first().unzip();
        let conditions = conditions.unwrap_or_default().to_vec();
        Ok(Fields { from, query, to, status: status.copied(), conditions, end })
    }
}

/// What JavaScript's `parseInt` finds a number in: decides only that a word is meant as a status.
fn is_number(word: &str) -> bool {
    word.strip_prefix(['+', '-']).unwrap_or(word).starts_with(|c: char| c.is_ascii_digit())
}

fn is_target(word: &str) -> bool {
    ["/", "./", "http://", "https://"].iter().any(|begin| word.starts_with(begin))
}

fn parse_status(word: Word<'_>) -> Result<(u16, bool), Fault> {
    let (digits, force) = match word.text.strip_suffix('!') {
        Some(digits) => (digits, true),
        None => (word.text, false),
    };
    let status = (digits.len() == 3).then(|| digits.parse::<u16>().ok()).flatten();
    match status {
        Some(status @ (200 | 301 | 302 | 303 | 307 | 308 | 400..=599)) => Ok((status, force)),
        _ if is_number(word.text) => Err(Fault::new(
            word.column,
            "a status: 200, 301, 302, 303, 307, 308, 4xx or 5xx, and ! to force it",
        )),
        _ => Err(refused(word)),
    }
}

/// A word behind the target that is no status, or one behind the status.
fn refused(word: Word<'_>) -> Fault {
    let name = word.text.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let expected = match name.as_str() {
        "country" | "language" | "role" | "cookie" | "sign" | "signed" => format!(
            "no condition: {name:?} is not supported, and the wrong people would see the page"
        ),
        _ => "a status such as 301, or the end of the line".to_owned(),
    };
    Fault::new(word.column, expected)
}

#[cfg(test)]
mod tests {
    use pinion_archive::SegmentPart;
    use proptest::prelude::*;

    use super::*;

    fn rules_in(folder: &str, text: &str) -> Result<Vec<Redirect>, Vec<RuleError>> {
        parse(Path::new("_redirects"), folder.as_bytes(), text.as_bytes())
    }

    fn one(text: &str) -> Redirect {
        let mut rules = rules_in("/", text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
        assert_eq!(rules.len(), 1, "{text}");
        rules.remove(0)
    }

    fn error(text: &str) -> String {
        let errors = rules_in("/", text).expect_err(text);
        errors.iter().map(RuleError::to_string).collect::<Vec<_>>().join("\n")
    }

    fn literal(text: &str) -> Part {
        Part::Literal(text.as_bytes().into())
    }

    fn target(parts: &[TargetPart]) -> String {
        let parts = parts.iter().map(|part| match part {
            TargetPart::Literal(text) => text.escape_ascii().to_string(),
            TargetPart::Capture(number) => format!("<{number}>"),
        });
        parts.collect()
    }

    #[test]
    fn words_by_their_place() {
        let rule = one("/a/b /c 302! # why");
        assert_eq!((rule.status, rule.force, rule.keeps_query), (302, true, true));
        assert_eq!(rule.path, [literal("a"), literal("b")]);
        assert_eq!(target(&rule.target), "/c");
        assert_eq!(one("/a /b").status, 301);
        assert_eq!(one("  /a\t/b\r").line, 1);
        assert_eq!(rules_in("/", "# none\n\n").unwrap(), []);
    }

    #[test]
    fn captures_are_numbered_path_first() {
        let rule = one("/store/:x/* id=:id id2=7 /blog/:id/:splat/:x?y=:id 302");
        assert_eq!(rule.path, [literal("store"), Part::Capture, Part::Rest(Box::default())]);
        assert_eq!(
            rule.query,
            [
                (b"id".as_slice().into(), QueryValue::Capture),
                (b"id2".as_slice().into(), QueryValue::Is(b"7".as_slice().into()))
            ]
        );
        assert_eq!(target(&rule.target), "/blog/<2>/<1>/<0>?y=<2>");
        assert!(!rule.keeps_query);
    }

    #[test]
    fn hosts_without_port_and_case() {
        for (from, host) in [
            ("http://Example.org:8080/a", Some("example.org")),
            ("https://*.Example.org/a", Some("*.example.org")),
            ("://example.org/a", Some("example.org")),
            ("https://*/a", None),
            ("https://[::1]:80/a", Some("[::1]")),
        ] {
            let rule = one(&format!("{from} /b"));
            assert_eq!(rule.host.as_deref(), host.map(str::as_bytes), "{from}");
            assert_eq!(rule.path, [literal("a")], "{from}");
        }
        assert_eq!(one("http://example.org https://example.com/ 301").path, []);
    }

    #[test]
    fn targets_are_ready_for_their_use() {
        assert_eq!(target(&one("/a /ä%20\"?q=ü#f").target), "/%C3%A4%20%22?q=%C3%BC#f");
        assert_eq!(target(&one("/a /%C3%A4.html 200").target), "/\\xc3\\xa4.html");
        assert_eq!(target(&one("/a/* 200").target), "/a/<0>");
        assert_eq!(target(&one("/a/* 200!").target), "/a/<0>");
        assert_eq!(target(&one("/s /wiki/Special:Search 301").target), "/wiki/Special:Search");
        assert_eq!(target(&one("/:y/:m /p/:y-:m.html").target), "/p/<0>-<1>.html");
        assert_eq!(
            target(&one("/a https://Bücher.example:80/ü?x").target),
            "https://xn--bcher-kva.example:80/%C3%BC?x"
        );
        assert_eq!(one("/a https://bücher.example").target_host.as_deref(), BOOKS);
        assert_eq!(one("http://*.bücher.example/a /b").host.as_deref(), ALL_BOOKS);
        assert_eq!(
            target(&one("/a https://example.org:80/x:y").target),
            "https://example.org:80/x:y"
        );
    }

    const BOOKS: Option<&[u8]> = Some(b"xn--bcher-kva.example");
    const ALL_BOOKS: Option<&[u8]> = Some(b"*.xn--bcher-kva.example");

    /// The parts of a path in short: `<…>` for a segment of texts and placeholders.
    fn path(text: &str) -> String {
        let part = |part: &Part| match part.stored() {
            PathPart::Literal(text) => text.escape_ascii().to_string(),
            PathPart::Capture => ":".to_owned(),
            PathPart::Rest { prefix } => format!("{}*", prefix.escape_ascii()),
            PathPart::Mixed(pattern) => {
                let part = |part| match part {
                    SegmentPart::Literal(text) => text.escape_ascii().to_string(),
                    SegmentPart::Capture => ":".to_owned(),
                    SegmentPart::Star => "*".to_owned(),
                };
                format!("<{}>", pattern.parts().map(part).collect::<String>())
            }
        };
        one(text).path.iter().map(|part_of| format!("/{}", part(part_of))).collect()
    }

    #[test]
    fn placeholders_and_stars_within_segments() {
        for (text, expected) in [
            ("/*.:extension /b", "/<*.:>"),
            ("/p-:id /b", "/<p-:>"),
            ("/assets/:name.css /b", "/assets/<:.css>"),
            ("/*.txt /b", "/<*.txt>"),
            ("/k/kubectl_*.md /b", "/k/<kubectl_*.md>"),
            ("/a/*/b /b", "/a/<*>/b"),
            ("/a/b* /b", "/a/b*"),
            ("/a/:x-* /b", "/a/<:-*>"),
            ("/:year-:month /:year/:month", "/<:-:>"),
            ("/:my-name /b", "/:"),
            ("/:my-name /:my-name", "/:"),
            ("/:my-name /:my", "/<:-name>"),
            ("/File:Name /b", "/File:Name"),
            ("/v:major /b/:major", "/<v:>"),
            ("/a:80 /b", "/a:80"),
            ("/:a:b /:b", "/<::>"),
            ("/%2A.%3Ax /b", "/*.:x"),
            ("/. /b", ""),
        ] {
            if expected.is_empty() {
                assert!(rules_in("/", text).is_err(), "{text}");
            } else {
                assert_eq!(path(text), expected, "{text}");
            }
        }
        let rule = one("/*.:e k=:q /:splat/:e?:q 302");
        assert_eq!(target(&rule.target), "/<0>/<1>?<2>");
        assert_eq!(target(&one("/:a-:b/* 200").target), "/<0>-<1>/<2>");
    }

    #[test]
    fn relative_rules_are_about_their_folder() {
        let rule = rules_in("/docs/v1/", "./a/* ./b/:splat 302").unwrap().remove(0);
        let path = [literal("docs"), literal("v1"), literal("a"), Part::Rest(Box::default())];
        assert_eq!(rule.path, path);
        assert_eq!(target(&rule.target), "/docs/v1/b/<0>");
        assert_eq!(one("./a ./b").path, [literal("a")]);
        let errors = rules_in("/docs/", "/a /b\nhttps://h/a /b").unwrap_err();
        assert_eq!(errors.len(), 2);
        assert!(errors[0].expected.contains("./"), "{errors:?}");
    }

    #[test]
    fn every_error_has_its_place() {
        for (text, expected) in [
            ("/a", "_redirects:1:3: expected a target: a path or a URL"),
            ("\n/a b", "_redirects:2:4: expected a target that begins"),
            ("/a 301", "_redirects:1:7: expected a target"),
            ("/a /b 300", "_redirects:1:7: expected a status"),
            ("/a /b 3011", "_redirects:1:7: expected a status"),
            ("/a /b 301!!", "_redirects:1:7: expected a status"),
            ("/a /b Country=us", "_redirects:1:7: expected no condition: \"country\""),
            ("/a /b 302 Language=de", "_redirects:1:11: expected no condition: \"language\""),
            ("/a /b 302 x", "_redirects:1:11: expected a status such as 301, or the end"),
            ("a /b", "_redirects:1:1: expected a path"),
            ("/a?x=1 /b", "_redirects:1:3: expected a path without ?"),
            ("/a#x /b", "_redirects:1:3: expected a path without #"),
            ("/a//b /b", "_redirects:1:4: expected a name"),
            ("/a/../b /b", "_redirects:1:4: expected a name"),
            ("/%zz /b", "_redirects:1:2: expected two hexadecimal digits"),
            ("/a%2fb /b", "_redirects:1:3: expected a path without %2F"),
            ("/a/*/b* /b", "_redirects:1:7: expected at most one *"),
            ("/a*b* /b", "_redirects:1:5: expected at most one *"),
            ("/:a/:a /b", "_redirects:1:5: expected another name"),
            ("/: /b", "_redirects:1:2: expected a placeholder"),
            ("/a :x /b", "_redirects:1:4: expected key=value"),
            ("/a x=1 x=2 /b", "_redirects:1:8: expected another parameter"),
            ("/a /:x", "_redirects:1:5: expected a placeholder of the path or query"),
            ("/a/* /:splat/:y", "_redirects:1:14: expected a placeholder"),
            ("/a https://example.org/ 200", "_redirects:1:4: expected a path of this site"),
            ("/a //example.org/ 404", "_redirects:1:4: expected a path of this site"),
            ("/a /b?c 200", "_redirects:1:6: expected a path without ?"),
            ("/a/:x https://:x.example.org/", "_redirects:1:15: expected a host"),
            ("http:///a /b", "_redirects:1:8: expected a host"),
            ("http://u@h/a /b", "_redirects:1:8: expected a host"),
            ("http://a.*/a /b", "_redirects:1:8: expected a host"),
        ] {
            let found = error(text);
            assert!(found.starts_with(expected), "{text}: {found}");
        }
    }

    #[test]
    fn all_errors_of_a_file_are_told() {
        assert_eq!(error("/a\n/b /c\n/d 999 /e\n").lines().count(), 2);
    }

    #[test]
    fn captures_and_rules_have_limits() {
        let path: String = (0..16).map(|number| format!("/:a{number}")).collect();
        assert_eq!(one(&format!("{path} /b")).path.len(), 16);
        assert!(error(&format!("{path}/* /b")).contains("at most 16"));
        let many = "/a /b\n".repeat(RULES_MAX + 2);
        assert_eq!(
            error(&many),
            format!("_redirects:{}:1: expected at most 10000 rules", RULES_MAX + 1)
        );
    }

    proptest! {
        #[test]
        fn anything_is_parsed_or_refused_with_a_place(
            text in "([/:*.a#!= \n]|http://|200|301|%2f){0,60}",
        ) {
            let lines = text.split('\n').count();
            match rules_in("/", &text) {
                Ok(rules) => prop_assert!(rules.len() <= lines),
                Err(errors) => for error in errors {
                    prop_assert!((1..=lines).contains(&error.line));
                    let line = text.split('\n').nth(error.line - 1).unwrap();
                    prop_assert!((1..=line.chars().count() + 1).contains(&error.column));
                },
            }
        }
    }
}
