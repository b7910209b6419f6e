//! Finds the rule that applies to a request: the first one, in the order of the archive, whose
//! host, path and query are those of the request. Captures are not copied.

use pinion_archive::limits::RULE_CAPTURES_MAX;
use pinion_archive::{QueryValue, Rule, Rules, path_matches};
use pinion_http::host;
use pinion_http::request_head::RequestHead;

use crate::form_urlencoded;
use crate::lookup_trace::{LookupStep, RuleMatch, Trace};

/// The parts of a request that rules match.
#[derive(Clone, Copy)]
pub(crate) struct RuleInput<'a> {
    /// The path, decoded, with a slash at the front.
    pub(crate) path: &'a [u8],
    /// The host, as sent.
    host: &'a [u8],
    /// The query, as sent; empty without one.
    query: &'a [u8],
}

/// A part of a request that a rule has captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleCapture<'a> {
    /// A part of the path, decoded.
    Path(&'a [u8]),
    /// A part of the query, as sent.
    Query(&'a [u8]),
}

/// The captures of one rule, by their numbers.
pub(crate) struct RuleCaptures<'a> {
    parts: [RuleCapture<'a>; RULE_CAPTURES_MAX],
    count: usize,
}

impl<'a> RuleInput<'a> {
    pub(crate) fn new(path: &'a [u8], head: &RequestHead<'a>) -> RuleInput<'a> {
        let authority = head.authority.and_then(|authority| host::split(authority).ok());
        let host = authority.map_or(&b""[..], |authority| authority.without_dot());
        RuleInput { path, host, query: head.target.query.unwrap_or_default() }
    }
}

impl<'a> RuleCaptures<'a> {
    pub(crate) const NONE: RuleCaptures<'static> =
        RuleCaptures { parts: [RuleCapture::Path(b""); RULE_CAPTURES_MAX], count: 0 };

    pub(crate) fn get(&self, number: u8) -> Option<RuleCapture<'a>> {
        self.parts.get(..self.count)?.get(usize::from(number)).copied()
    }

    /// Adds a capture. An archive has no rule with more captures than there is room for.
    fn push(&mut self, part: RuleCapture<'a>) {
        if let Some(place) = self.parts.get_mut(self.count) {
            *place = part;
            self.count += 1;
        }
    }
}

/// Returns the first rule that matches, and its captures.
pub(crate) fn first<'r, 'a>(
    rules: &'r Rules,
    asked: &RuleInput<'a>,
    captures: &mut RuleCaptures<'a>,
    trace: impl Trace,
) -> Option<Rule<'r>> {
    let mut applies = |rule: &Rule<'_>| matches(rule, asked, captures, trace);
    let exact = rules.exact(asked.path).find(&mut applies);
    let end = exact.map_or(u32::MAX, |rule| rule.number());
    if let Some(pattern) = rules.patterns(asked.path, end).find(&mut applies) {
        return Some(pattern);
    }
    // The rule is matched once more, because patterns that were tried have left their captures.
    exact.filter(applies)
}

fn matches<'a>(
    rule: &Rule<'_>,
    asked: &RuleInput<'a>,
    captures: &mut RuleCaptures<'a>,
    trace: impl Trace,
) -> bool {
    captures.count = 0;
    if !path_matches(rule.path(), asked.path, &mut |text| captures.push(RuleCapture::Path(text))) {
        return false;
    }
    let mut is_missing = |&(key, value): &(_, _)| !query_matches(asked.query, key, value, captures);
    let matched = if rule.host().is_some_and(|pattern| !host_matches(pattern, asked.host)) {
        RuleMatch::OtherHost
    } else if let Some((key, _)) = rule.query().find(&mut is_missing) {
        RuleMatch::Query(key)
    } else {
        RuleMatch::Yes
    };
    trace.step(LookupStep::Rule { number: rule.number(), matched });
    matched == RuleMatch::Yes
}

/// Returns whether a host matches a pattern. `*.example.org` is every name below `example.org`, and
/// not that one.
fn host_matches(pattern: &[u8], host: &[u8]) -> bool {
    let Some(domain) = pattern.strip_prefix(b"*") else {
        return host.eq_ignore_ascii_case(pattern);
    };
    let below = host.len().checked_sub(domain.len()).and_then(|at| host.split_at_checked(at));
    below.is_some_and(|(label, end)| !label.is_empty() && end.eq_ignore_ascii_case(domain))
}

fn query_matches<'a>(
    query: &'a [u8],
    key: &[u8],
    value: QueryValue<'_>,
    captures: &mut RuleCaptures<'a>,
) -> bool {
    let mut found =
        form_urlencoded::pairs(query).filter(|(name, _)| form_urlencoded::is(name, key));
    match value {
        QueryValue::Is(value) => found.any(|(_, found)| form_urlencoded::is(found, value)),
        QueryValue::Capture => match found.next() {
            Some((_, found)) => {
                captures.push(RuleCapture::Query(found));
                true
            }
            None => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::host_matches;

    #[test]
    fn a_wildcard_is_one_label_or_more() {
        for (pattern, host, expected) in [
            ("example.org", "EXAMPLE.org", true),
            ("example.org", "www.example.org", false),
            ("*.example.org", "www.example.org", true),
            ("*.example.org", "a.b.Example.ORG", true),
            ("*.example.org", "example.org", false),
            ("*.example.org", ".example.org", false),
            ("*.example.org", "badexample.org", false),
            ("*.example.org", "", false),
        ] {
            let found = host_matches(pattern.as_bytes(), host.as_bytes());
            assert_eq!(found, expected, "{pattern} {host}");
        }
    }
}
