//! One rule: as it is written, as it is stored, and as it is read.

use zerocopy::{FromBytes, IntoBytes};

use crate::damage::Fault;
use crate::layout::{RULE_FORCED, RULE_KEEPS_QUERY, RuleHeader};
use crate::limits::{PATH_MAX_BYTES, RULE_CAPTURES_MAX, RULE_HOST_MAX_BYTES, TARGET_MAX_BYTES};
use crate::path_pattern::SegmentPattern;
use crate::tagged_text::{PartIterator, Read, push_length, push_text, text};

/// A rule to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewRule<'a> {
    /// Whether it applies to paths that have an entry, too.
    pub force: bool,
    /// 200, 301, 302, 303, 307, 308, or from 400 to 599.
    pub status: u16,
    /// The host it is for, in lower case and without a port, perhaps with `*.` before it, which
    /// stands for one or more labels; `None` for any.
    pub host: Option<&'a [u8]>,
    /// Its path, segment by segment, decoded. None is the root. A slash at the end of a request's
    /// path does not matter.
    pub path: &'a [PathPart<'a>],
    /// The parameters that the query must have, decoded.
    pub query: &'a [(&'a [u8], QueryValue<'a>)],
    /// The target. Of a redirect, it is a URL or a path, whose literals stand in `Location` as they
    /// are. Of any other rule, it is the key of the entry whose content is sent.
    pub target: &'a [TargetPart<'a>],
    /// Whether a redirect carries the request's query over.
    pub keeps_query: bool,
}

/// A part of a rule's path. Captures are numbered in their order, those of the path first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPart<'a> {
    /// A segment with these bytes; never empty.
    Literal(&'a [u8]),
    /// A segment that is not empty; a capture.
    Capture,
    /// A segment of texts and captures. With a star it stands for several segments; then no other
    /// part of the path has one, and none is a [`Rest`](PathPart::Rest).
    Mixed(SegmentPattern<'a>),
    /// The last part: text that begins with `prefix` and everything after it, slashes too; a
    /// capture, without the prefix. Without a prefix the slash before it need not be there.
    Rest {
        /// The beginning of the text, in one segment.
        prefix: &'a [u8],
    },
}

/// The required value of one key of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryValue<'a> {
    /// It is there with this value.
    Is(&'a [u8]),
    /// It is there; the first value is a capture.
    Capture,
}

/// A part of a rule's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPart<'a> {
    /// These bytes.
    Literal(&'a [u8]),
    /// The capture of that number.
    Capture(u8),
}

/// A stored rule, borrowed from [`Rules`](crate::Rules).
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    number: u32,
    bytes: u32,
    status: u16,
    flags: u8,
    host: &'a [u8],
    path: &'a [u8],
    query: &'a [u8],
    target: &'a [u8],
}

impl NewRule<'_> {
    /// A permanent redirect of the root, without a target: the start of the others.
    pub const EMPTY: NewRule<'static> = NewRule {
        force: false,
        status: 301,
        host: None,
        path: &[],
        query: &[],
        target: &[],
        keeps_query: false,
    };
}

impl<'a> Rule<'a> {
    /// Returns its rank among the rules of the archive: the first that matches applies.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether it applies to paths that have an entry, too.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.flags & RULE_FORCED != 0
    }

    /// Returns whether a redirect carries the request's query over.
    #[must_use]
    pub fn keeps_query(&self) -> bool {
        self.flags & RULE_KEEPS_QUERY != 0
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns whether it leads elsewhere, rather than to the content of an entry.
    #[must_use]
    pub fn is_redirect(&self) -> bool {
        is_redirect(self.status)
    }

    /// Returns the host it is for, see [`NewRule::host`].
    #[must_use]
    pub fn host(&self) -> Option<&'a [u8]> {
        Some(self.host).filter(|host| !host.is_empty())
    }

    /// Returns the parts of its path.
    pub fn path(&self) -> impl Iterator<Item = PathPart<'a>> + Clone + use<'a> {
        PartIterator { rest: self.path, read: path_part }
    }

    /// Returns the parameters that the query must have.
    pub fn query(&self) -> impl Iterator<Item = (&'a [u8], QueryValue<'a>)> + use<'a> {
        PartIterator { rest: self.query, read: query_part }
    }

    /// Returns the parts of its target.
    pub fn target(&self) -> impl Iterator<Item = TargetPart<'a>> + use<'a> {
        PartIterator { rest: self.target, read: target_part }
    }

    /// Returns its length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Returns the rule at the start of `rest`. Only lengths and reserved bytes are checked.
    #[inline]
    pub(crate) fn split(rest: &'a [u8], number: u32) -> Result<Rule<'a>, Fault> {
        let (header, _) = RuleHeader::ref_from_prefix(rest).map_err(|_| Fault::Length)?;
        let rule = rest.get(..header.bytes.get() as usize).ok_or(Fault::Outside)?;
        let parts = rule.get(size_of::<RuleHeader>()..).ok_or(Fault::Length)?;
        let cut = |parts: &'a [u8], bytes: usize| parts.split_at_checked(bytes);
        let (host, parts) = cut(parts, header.host_bytes.into()).ok_or(Fault::Length)?;
        let (path, parts) = cut(parts, header.path_bytes.get().into()).ok_or(Fault::Length)?;
        let (query, parts) = cut(parts, header.query_bytes.get().into()).ok_or(Fault::Length)?;
        let (target, zeros) = cut(parts, header.target_bytes.get().into()).ok_or(Fault::Length)?;
        if !rule.len().is_multiple_of(8) || zeros.len() >= 8 {
            return Err(Fault::Length);
        }
        if header.reserved.get() != 0 || zeros.iter().any(|&byte| byte != 0) {
            return Err(Fault::Reserved);
        }
        Ok(Rule {
            number,
            bytes: header.bytes.get(),
            status: header.status.get(),
            flags: header.flags,
            host,
            path,
            query,
            target,
        })
    }

    /// Checks everything: a rule that passes can be walked without further checks.
    pub(crate) fn validate(&self) -> Result<(), Fault> {
        if self.flags & !(RULE_FORCED | RULE_KEEPS_QUERY) != 0 {
            return Err(Fault::Reserved);
        }
        if !is_redirect(self.status) && self.status != 200 && !(400..=599).contains(&self.status) {
            return Err(Fault::Status);
        }
        let name = self.host.strip_prefix(b"*.").unwrap_or(self.host);
        let in_name = |byte: &u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
        if !name.iter().all(|byte| in_name(byte) && !b"/*".contains(byte))
            || (name.is_empty() && !self.host.is_empty())
        {
            return Err(Fault::Syntax);
        }
        let captures = self.validate_path()? + self.validate_query()?;
        if captures > RULE_CAPTURES_MAX {
            return Err(Fault::TooMany);
        }
        self.validate_target(captures)
    }

    /// Returns the number of captures in the path.
    fn validate_path(&self) -> Result<usize, Fault> {
        let (mut captures, mut text_bytes, mut stars, mut rest) = (0, 1, 0, self.path);
        while !rest.is_empty() {
            let (part, behind) = path_part(rest).ok_or(Fault::Syntax)?;
            let sound = |text: &[u8]| !text.iter().any(|byte| b"/\0".contains(byte));
            match part {
                PathPart::Literal(text) if !text.is_empty() && sound(text) => {
                    text_bytes += 1 + text.len();
                }
                PathPart::Capture => captures += 1,
                PathPart::Mixed(pattern) => {
                    captures += pattern.validate()?;
                    text_bytes += 1 + pattern.encoded().len();
                    stars += usize::from(pattern.has_star());
                }
                PathPart::Rest { prefix } if sound(prefix) && behind.is_empty() => {
                    text_bytes += 1 + prefix.len();
                    captures += 1;
                    stars += 1;
                }
                _ => return Err(Fault::Syntax),
            }
            rest = behind;
        }
        if stars > 1 {
            return Err(Fault::Syntax);
        }
        if text_bytes > PATH_MAX_BYTES { Err(Fault::Length) } else { Ok(captures) }
    }

    /// Returns the number of captures in the query.
    fn validate_query(&self) -> Result<usize, Fault> {
        let (mut captures, mut rest) = (0, self.query);
        while !rest.is_empty() {
            let ((key, value), behind) = query_part(rest).ok_or(Fault::Syntax)?;
            if key.is_empty() {
                return Err(Fault::Syntax);
            }
            captures += usize::from(value == QueryValue::Capture);
            rest = behind;
        }
        Ok(captures)
    }

    fn validate_target(&self, captures: usize) -> Result<(), Fault> {
        let (mut literal_bytes, mut rest) = (0, self.target);
        while !rest.is_empty() {
            let (part, behind) = target_part(rest).ok_or(Fault::Syntax)?;
            match part {
                TargetPart::Capture(number) if usize::from(number) >= captures => {
                    return Err(Fault::CaptureNumber);
                }
                TargetPart::Capture(_) => {}
                TargetPart::Literal(text) => {
                    let visible = !self.is_redirect() || text.iter().all(u8::is_ascii_graphic);
                    if !visible || text.contains(&0) {
                        return Err(Fault::Target);
                    }
                    literal_bytes += text.len();
                }
            }
            rest = behind;
        }
        if literal_bytes > TARGET_MAX_BYTES {
            return Err(Fault::Length);
        }
        let mut parts = self.target();
        let Some(TargetPart::Literal(first)) = parts.next() else { return Err(Fault::Target) };
        let sound = if self.is_redirect() {
            names_its_host(first, parts.next().is_some())
        } else {
            first.starts_with(b"/")
        };
        if sound { Ok(()) } else { Err(Fault::Target) }
    }
}

/// Returns whether no capture can decide to which host a target that begins with `first` leads: it
/// is a path, or a URL whose authority ends before anything else follows.
fn names_its_host(first: &[u8], more_follows: bool) -> bool {
    match first {
        [b'/', b'/' | b'\\', ..] => false,
        [b'/', ..] => true,
        _ => {
            let Some(colon) = first.iter().position(|&byte| byte == b':') else { return false };
            let (scheme, rest) = first.split_at(colon);
            let Some(rest) = rest.strip_prefix(b"://") else { return false };
            let end = rest.iter().position(|byte| b"/?#".contains(byte));
            !scheme.is_empty()
                && scheme.iter().all(u8::is_ascii_alphanumeric)
                && !matches!((end, rest), (Some(0), _) | (_, []))
                && (end.is_some() || !more_follows)
        }
    }
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Returns the bytes of a rule, or why the reader would refuse it.
pub(crate) fn encode(rule: &NewRule<'_>) -> Result<Vec<u8>, Fault> {
    let (mut path, mut query, mut target) = (Vec::new(), Vec::new(), Vec::new());
    for part in rule.path {
        match part {
            PathPart::Literal(text) => push_text(&mut path, TEXT, text)?,
            PathPart::Capture => path.push(CAPTURE),
            PathPart::Mixed(pattern) => push_text(&mut path, MIXED, pattern.encoded())?,
            PathPart::Rest { prefix } => push_text(&mut path, REST, prefix)?,
        }
    }
    for (key, value) in rule.query {
        match value {
            QueryValue::Is(text) => {
                push_text(&mut query, TEXT, key)?;
                push_length(&mut query, text)?;
            }
            QueryValue::Capture => push_text(&mut query, CAPTURE, key)?,
        }
    }
    for part in rule.target {
        match part {
            TargetPart::Literal(text) => push_text(&mut target, TEXT, text)?,
            TargetPart::Capture(number) => target.extend_from_slice(&[CAPTURE, *number]),
        }
    }
    let host = rule.host.unwrap_or_default();
    let parts = [host, &path, &query, &target].concat();
    if host.len() > RULE_HOST_MAX_BYTES {
        return Err(Fault::Length);
    }
    let length = |bytes: usize| u16::try_from(bytes).map_err(|_| Fault::Length);
    let total = (size_of::<RuleHeader>() + parts.len()).next_multiple_of(8);
    let forced = if rule.force { RULE_FORCED } else { 0 };
    let header = RuleHeader {
        bytes: (total as u32).into(),
        status: rule.status.into(),
        flags: forced | if rule.keeps_query { RULE_KEEPS_QUERY } else { 0 },
        host_bytes: host.len() as u8,
        path_bytes: length(path.len())?.into(),
        query_bytes: length(query.len())?.into(),
        target_bytes: length(target.len())?.into(),
        reserved: 0.into(),
    };
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(&parts);
    bytes.resize(total, 0);
    Rule::split(&bytes, 0)?.validate()?;
    Ok(bytes)
}

/// A part with text: its length in two bytes, and the text.
const TEXT: u8 = 0;
/// A part that captures.
const CAPTURE: u8 = 1;
/// The rest of a path, with the text that it begins with.
const REST: u8 = 2;
/// A segment with more parts than one.
const MIXED: u8 = 3;

#[inline]
fn path_part(bytes: &[u8]) -> Read<'_, PathPart<'_>> {
    match bytes.split_first()? {
        (&TEXT, rest) => text(rest).map(|(text, rest)| (PathPart::Literal(text), rest)),
        (&CAPTURE, rest) => Some((PathPart::Capture, rest)),
        (&MIXED, rest) => {
            text(rest).map(|(text, rest)| (PathPart::Mixed(SegmentPattern::of(text)), rest))
        }
        (&REST, rest) => text(rest).map(|(prefix, rest)| (PathPart::Rest { prefix }, rest)),
        _ => None,
    }
}

#[inline]
fn query_part(bytes: &[u8]) -> Read<'_, (&[u8], QueryValue<'_>)> {
    let (&tag, rest) = bytes.split_first()?;
    let (key, rest) = text(rest)?;
    match tag {
        TEXT => text(rest).map(|(value, rest)| ((key, QueryValue::Is(value)), rest)),
        CAPTURE => Some(((key, QueryValue::Capture), rest)),
        _ => None,
    }
}

#[inline]
fn target_part(bytes: &[u8]) -> Read<'_, TargetPart<'_>> {
    match bytes.split_first()? {
        (&TEXT, rest) => text(rest).map(|(text, rest)| (TargetPart::Literal(text), rest)),
        (&CAPTURE, [number, rest @ ..]) => Some((TargetPart::Capture(*number), rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PathPart::{Capture, Literal, Mixed, Rest};

    /// A segment that is a star.
    const STAR: &[u8] = b"\x02";

    const TARGET: &[TargetPart<'static>] = &[TargetPart::Literal(b"/x")];

    fn fault(rule: NewRule<'_>) -> Option<Fault> {
        encode(&rule).err()
    }

    #[test]
    fn a_rule_round_trips() {
        let mixed = Mixed(SegmentPattern::of(b"\0\x02\0v-\x01"));
        let path = [Literal(b"a"), mixed, Rest { prefix: b"p" }];
        let query = [(&b"k"[..], QueryValue::Is(b"")), (b"id", QueryValue::Capture)];
        let target = [TargetPart::Literal(b"https://h/"), TargetPart::Capture(2)];
        let new = NewRule {
            force: true,
            status: 302,
            host: Some(b"*.example.org"),
            path: &path,
            query: &query,
            target: &target,
            keeps_query: true,
        };
        let bytes = encode(&new).expect("well-formed");
        let rule = Rule::split(&bytes, 7).expect("whole");
        assert_eq!((rule.number(), rule.status(), rule.bytes()), (7, 302, bytes.len()));
        assert!(rule.is_forced() && rule.keeps_query() && rule.is_redirect());
        assert_eq!(rule.host(), new.host);
        assert_eq!(rule.path().collect::<Vec<_>>(), path);
        assert_eq!(rule.query().collect::<Vec<_>>(), query);
        assert_eq!(rule.target().collect::<Vec<_>>(), target);
        let plain = encode(&NewRule { target: TARGET, ..NewRule::EMPTY }).expect("well-formed");
        let plain = Rule::split(&plain, 0).expect("whole");
        assert!(!plain.is_forced() && !plain.keeps_query() && plain.host().is_none());
    }

    #[test]
    fn invalid_rules_are_not_encoded() {
        let rule = NewRule { target: TARGET, ..NewRule::EMPTY };
        assert_eq!(fault(rule), None);
        for status in [0, 100, 199, 201, 299, 300, 304, 305, 399, 600, u16::MAX] {
            assert_eq!(fault(NewRule { status, ..rule }), Some(Fault::Status), "{status}");
        }
        for host in ["Example.org", "a/b", "*", "*.", "a.*.b", "**.b", "a b", "ü"] {
            let host = Some(host.as_bytes());
            assert_eq!(fault(NewRule { host, ..rule }), Some(Fault::Syntax), "{host:?}");
        }
        for path in [
            &[Literal(b"")][..],
            &[Literal(b"a/b")],
            &[Literal(b"a\0")],
            &[Rest { prefix: b"" }, Literal(b"a")],
            &[Rest { prefix: b"a/" }],
            &[Mixed(SegmentPattern::of(STAR)), Rest { prefix: b"" }],
            &[Mixed(SegmentPattern::of(STAR)), Mixed(SegmentPattern::of(STAR))],
            &[Mixed(SegmentPattern::of(b""))],
            &[Mixed(SegmentPattern::of(b"\x03"))],
        ] {
            assert_eq!(fault(NewRule { path, ..rule }), Some(Fault::Syntax), "{path:?}");
        }
        let long = [b'a'; PATH_MAX_BYTES];
        let (path, query) = ([Literal(&long)], [(&b""[..], QueryValue::Capture)]);
        assert_eq!(fault(NewRule { path: &path, ..rule }), Some(Fault::Length));
        assert_eq!(fault(NewRule { query: &query, ..rule }), Some(Fault::Syntax));
        let many = [Capture; RULE_CAPTURES_MAX + 1];
        assert_eq!(fault(NewRule { path: &many, ..rule }), Some(Fault::TooMany));
        assert_eq!(fault(NewRule { path: &many[1..], ..rule }), None);
    }

    /// A client must not be able to choose the host to which it is redirected.
    #[test]
    fn a_capture_cannot_choose_the_host_of_a_target() {
        let path = [Rest { prefix: b"" }];
        for (first, alone, followed) in [
            ("/", true, true),
            ("/a?x#y", true, true),
            ("//host/", false, false),
            ("/\\host/", false, false),
            ("https://host", true, false),
            ("https://host/", true, true),
            ("https://host?", true, true),
            ("https:///", false, false),
            ("https://", false, false),
            ("https:host/", false, false),
            ("://host/", false, false),
            ("host/", false, false),
            ("", false, false),
        ] {
            let parts = [TargetPart::Literal(first.as_bytes()), TargetPart::Capture(0)];
            let sound = |target| fault(NewRule { path: &path, target, ..NewRule::EMPTY }).is_none();
            assert_eq!((sound(&parts[..1]), sound(&parts)), (alone, followed), "{first}");
            assert!(!sound(&parts[1..]));
        }
        let other = [TargetPart::Literal(b"/"), TargetPart::Capture(1)];
        let rule = NewRule { path: &path, target: &other, ..NewRule::EMPTY };
        assert_eq!(fault(rule), Some(Fault::CaptureNumber), "no such capture");
        for target in [&b"/a b"[..], b"/\xc3\xbc", b"/a\r\nX: y"] {
            let target = [TargetPart::Literal(target)];
            let rule = NewRule { target: &target, ..NewRule::EMPTY };
            assert_eq!(fault(rule), Some(Fault::Target));
            assert_eq!(fault(NewRule { status: 200, ..rule }), None, "a key may be any bytes");
        }
    }
}
