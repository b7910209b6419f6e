//! Selects one of several sites by the host of a request.
//!
//! The order is: the site that names the host, the one with the longest `*.` pattern that covers
//! it, the one that names no hosts. Hosts are compared without regard to ASCII case, port and one
//! trailing dot (RFC 9110 §4.2.3, RFC 3986 §3.2.2).

use pinion_http::host::split;
use std::fmt;
use std::net::Ipv6Addr;

/// Most bytes of a host that a pattern names or covers: the longest name of the DNS as text (RFC
/// 1035 §2.3.4). A longer one is never looked up, so that a request costs no more than this.
pub const HOST_MAX_BYTES: usize = 253;

/// A host that a site serves, or all hosts below a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPattern {
    /// The name, in lower case, without a trailing dot.
    name: Vec<u8>,
    /// Whether the pattern is `*.name`: every host below the name, at any depth, and not the name
    /// itself.
    below: bool,
}

/// The reason why a text is no [`HostPattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPatternError {
    /// The text is `*` alone: a site without hosts has this meaning.
    Every,
    /// The text is neither a name nor an address.
    NoHost,
    /// The text is not ASCII: a client sends the ASCII form of such a name.
    NotAscii,
    /// The text is longer than [`HOST_MAX_BYTES`].
    TooLong,
    /// The text contains a port, a scheme or a path.
    TooMuch,
    /// The text contains a `*` that is not at the begin.
    Wildcard,
}

impl fmt::Display for HostPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Every => "is not needed: a site for every other host has no hosts",
            Self::NoHost => "is not a host: write example.org, *.example.org, 192.0.2.1 or [::1]",
            Self::NotAscii => "is not ASCII: write it as clients send it, xn--…",
            Self::TooLong => "is longer than 253 bytes",
            Self::TooMuch => "is more than a host: leave out scheme, port and path",
            Self::Wildcard => "has a * that is not the first label: write *.example.org",
        })
    }
}

impl HostPattern {
    /// Parses `example.org`, `*.example.org`, `192.0.2.1` or `[::1]`.
    ///
    /// # Errors
    /// Returns the error of the text.
    pub fn parse(text: &str) -> Result<Self, HostPatternError> {
        if text == "*" {
            return Err(HostPatternError::Every);
        }
        if !text.is_ascii() {
            return Err(HostPatternError::NotAscii);
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        let bracketed = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(address) = bracketed {
            let is_address = !below && address.parse::<Ipv6Addr>().is_ok();
            if !is_address {
                return Err(HostPatternError::NoHost);
            }
            return Ok(Self { name: name.to_ascii_lowercase().into_bytes(), below });
        }
        if name.contains('*') {
            return Err(HostPatternError::Wildcard);
        }
        if name.contains(['/', ':', '@']) {
            return Err(HostPatternError::TooMuch);
        }
        if name.len() > HOST_MAX_BYTES {
            return Err(HostPatternError::TooLong);
        }
        if !name.split('.').all(is_label) {
            return Err(HostPatternError::NoHost);
        }
        Ok(Self { name: name.to_ascii_lowercase().into_bytes(), below })
    }
}

/// Writes the spelling that [`HostPattern::parse`] reads back.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.below { "*." } else { "" };
        write!(f, "{star}{}", self.name.escape_ascii())
    }
}

/// Returns whether a text consists of letters, digits and hyphens (RFC 1123 §2.1; `_` is in use
/// too).
fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// The hosts of several sites.
#[derive(Debug)]
pub struct Hosts {
    /// The names, sorted, each with the site that names it.
    exact: Box<[(Box<[u8]>, usize)]>,
    /// The names of `*.` patterns, sorted, without the `*.`.
    below: Box<[(Box<[u8]>, usize)]>,
    /// The site without hosts, which serves all other hosts.
    rest: Option<usize>,
}

impl Hosts {
    /// Creates the hosts of sites in their order; a site without patterns serves every other host.
    /// If two sites name the same host, or no hosts at all, the first one has precedence.
    pub fn new<'p>(sites: impl IntoIterator<Item = &'p [HostPattern]>) -> Self {
        let (mut exact, mut below, mut rest) = (Vec::new(), Vec::new(), None);
        for (site, patterns) in sites.into_iter().enumerate() {
            if patterns.is_empty() {
                rest = rest.or(Some(site));
            }
            for pattern in patterns {
                let names = if pattern.below { &mut below } else { &mut exact };
                names.push((pattern.name.clone().into_boxed_slice(), site));
            }
        }
        for names in [&mut exact, &mut below] {
            names.sort();
            names.dedup_by(|later, first| later.0 == first.0);
        }
        Self { exact: exact.into(), below: below.into(), rest }
    }

    /// Returns the site of a request; none when no site serves its host.
    ///
    /// `authority` is a host with or without a port, valid by [`split`]; none in a request of
    /// HTTP/1.0 that names no host. Nothing is allocated; the cost grows with the labels of the
    /// host and the logarithm of the number of patterns.
    #[inline]
    #[must_use]
    pub fn select(&self, authority: Option<&[u8]>) -> Option<usize> {
        let nobody_is_named = self.exact.is_empty() && self.below.is_empty();
        match authority {
            Some(authority) if !nobody_is_named => self.named(authority).or(self.rest),
            _ => self.rest,
        }
    }

    /// Returns the site without hosts.
    #[must_use]
    pub fn rest(&self) -> Option<usize> {
        self.rest
    }

    fn named(&self, authority: &[u8]) -> Option<usize> {
        let host = split(authority).ok()?.without_dot();
        let mut lower = [0; HOST_MAX_BYTES];
        let lower = lower.get_mut(..host.len())?;
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        let lower: &[u8] = lower;
        if let Some(site) = find(&self.exact, lower) {
            return Some(site);
        }
        if self.below.is_empty() {
            return None;
        }
        // The search goes from the left: the first suffix that is found is the longest.
        let dots = lower.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'.');
        dots.map(|(dot, _)| dot).find_map(|dot| find(&self.below, lower.get(dot + 1..)?))
    }
}

fn find(names: &[(Box<[u8]>, usize)], name: &[u8]) -> Option<usize> {
    let at = names.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
    names.get(at).map(|(_, site)| *site)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn patterns(texts: &[&str]) -> Vec<HostPattern> {
        texts.iter().map(|text| HostPattern::parse(text).expect(text)).collect()
    }

    fn hosts(sites: &[&[&str]]) -> Hosts {
        let sites: Vec<Vec<HostPattern>> = sites.iter().map(|texts| patterns(texts)).collect();
        Hosts::new(sites.iter().map(Vec::as_slice))
    }

    #[test]
    fn exact_hosts_precede_the_longest_wildcard_and_the_default_site() {
        let hosts = hosts(&[
            &[],
            &["example.org", "www.example.org"],
            &["*.example.org"],
            &["*.deep.example.org"],
            &["[::1]", "192.0.2.1"],
        ]);
        for (host, site) in [
            ("example.org", 1),
            ("www.example.org", 1),
            ("WWW.Example.ORG", 1),
            ("example.org:8080", 1),
            ("example.org.", 1),
            ("example.org.:80", 1),
            ("a.example.org", 2),
            ("a.b.example.org", 2),
            ("deep.example.org", 2),
            ("a.deep.example.org", 3),
            ("a.b.DEEP.example.org.", 3),
            ("[::1]:80", 4),
            ("[::1]", 4),
            ("192.0.2.1:80", 4),
            ("other.org", 0),
            ("xexample.org", 0),
            ("org", 0),
            (".example.org", 0),
            ("example.org..", 0),
        ] {
            assert_eq!(hosts.select(Some(host.as_bytes())), Some(site), "{host}");
        }
        assert_eq!((hosts.select(None), hosts.rest()), (Some(0), Some(0)));
    }

    #[test]
    fn without_a_default_site_unknown_hosts_select_none() {
        let hosts = hosts(&[&["a.org"], &["*.b.org"]]);
        for host in [Some("c.org"), Some("b.org"), Some("not a host"), None] {
            assert_eq!(hosts.select(host.map(str::as_bytes)), None, "{host:?}");
        }
        let long = format!("{}.b.org", "x".repeat(HOST_MAX_BYTES));
        assert_eq!(hosts.select(Some(long.as_bytes())), None);
        let longest = format!("{}.b.org", "x".repeat(HOST_MAX_BYTES - 6));
        assert_eq!(hosts.select(Some(longest.as_bytes())), Some(1));
    }

    #[test]
    fn a_single_site_without_hosts_is_selected_for_every_request() {
        let hosts = hosts(&[&[]]);
        for host in [Some(&b"a.org"[..]), Some(b"[::1]:1"), None] {
            assert_eq!(hosts.select(host), Some(0));
        }
    }

    #[test]
    fn errors_about_host_patterns_say_how_to_write_them() {
        for (text, error) in [
            ("*", HostPatternError::Every),
            ("", HostPatternError::NoHost),
            (".", HostPatternError::NoHost),
            ("a..b", HostPatternError::NoHost),
            ("a b", HostPatternError::NoHost),
            ("[::1", HostPatternError::TooMuch),
            ("[::g]", HostPatternError::NoHost),
            ("*.[::1]", HostPatternError::NoHost),
            ("bücher.de", HostPatternError::NotAscii),
            ("a.*.org", HostPatternError::Wildcard),
            ("*.*.org", HostPatternError::Wildcard),
            ("*a.org", HostPatternError::Wildcard),
            ("a.org:80", HostPatternError::TooMuch),
            ("http://a.org", HostPatternError::TooMuch),
            ("a.org/", HostPatternError::TooMuch),
        ] {
            assert_eq!(HostPattern::parse(text), Err(error), "{text}");
        }
        let long = "x".repeat(HOST_MAX_BYTES + 1);
        assert_eq!(HostPattern::parse(&long), Err(HostPatternError::TooLong));
        for text in ["a.org", "*.a.org", "[::1]", "a_b-c.org"] {
            assert_eq!(HostPattern::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(HostPattern::parse("A.Org."), HostPattern::parse("a.org"));
    }

    /// The same, read off the words: every pattern is held against the host.
    fn model(sites: &[Vec<HostPattern>], host: &str) -> Option<usize> {
        let host = host.to_ascii_lowercase();
        let host = host.rsplit_once(':').map_or(host.as_str(), |(host, _)| host);
        let host = host.strip_suffix('.').unwrap_or(host);
        let mut best = None;
        for (site, patterns) in sites.iter().enumerate() {
            for pattern in patterns {
                let text = pattern.to_string();
                let rank = match text.strip_prefix('*') {
                    None if text == host => usize::MAX,
                    Some(end) if host.ends_with(end) && host.len() > end.len() => end.len(),
                    _ => continue,
                };
                if best.is_none_or(|(best, _)| rank > best) {
                    best = Some((rank, site));
                }
            }
        }
        best.map(|(_, site)| site).or_else(|| sites.iter().position(Vec::is_empty))
    }

    proptest! {
        #[test]
        fn host_selection_agrees_with_the_model(
            sites in prop::collection::vec(
                prop::collection::vec("(\\*\\.)?([ab]\\.){0,3}[abc]", 0..4), 0..5),
            host in "([abAB]\\.){0,5}[abcC]\\.?(:80)?",
        ) {
            let parse = |texts: Vec<String>| -> Vec<HostPattern> {
                texts.iter().map(|text| HostPattern::parse(text).expect("a pattern")).collect()
            };
            let sites: Vec<Vec<HostPattern>> = sites.into_iter().map(parse).collect();
            let hosts = Hosts::new(sites.iter().map(Vec::as_slice));
            // A name of a site that has none may be one of several: the first has it in both.
            prop_assert_eq!(hosts.select(Some(host.as_bytes())), model(&sites, &host));
        }
    }
}
