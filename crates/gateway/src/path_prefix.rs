//! Paths of mounts: the requests that they cover, and the paths that upstream servers get in their
//! place.

use std::fmt;

use pinion_http::grammar::hex_digit;
use thiserror::Error;

/// The path of a mount and of all below it: `/api` covers `/api` and `/api/users`, but not `/apis`.
/// The root covers everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPrefix {
    /// The path without a slash at its end; empty for the root.
    text: Box<str>,
}

impl PathPrefix {
    /// Takes a path that begins with a slash. One at its end has no meaning, and neither has the
    /// spelling: the path is kept as a normalised one (RFC 3986 §6.2.2).
    #[must_use]
    pub fn new(path: &str) -> Self {
        let (mut rest, mut text) = (path.as_bytes(), Vec::with_capacity(path.len()));
        while let Some((character, behind)) = next_character(rest) {
            match character {
                Character::Plain(byte) => text.push(byte),
                Character::Encoded(byte) => text.extend(format!("%{byte:02X}").bytes()),
            }
            rest = behind;
        }
        // Only ASCII characters have taken the place of others.
        let text = String::from_utf8_lossy(&text);
        Self { text: text.trim_end_matches('/').into() }
    }

    /// Returns the path without a slash at its end; it is empty for the root.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether it is the path of the whole site.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the rest after the prefix in a path that it covers, as the client has sent it: it is
    /// empty or begins with a slash. Paths are compared as normalised ones (RFC 3986 §6.2.2).
    #[must_use]
    pub fn rest<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let (mut rest, mut text) = (path, self.text.as_bytes());
        while let Some((expected, text_behind)) = next_character(text) {
            let (character, behind) = next_character(rest)?;
            if character != expected {
                return None;
            }
            (rest, text) = (behind, text_behind);
        }
        // A request target that is no path, such as `*`, is covered by nothing.
        let is_whole = match rest {
            [] => !self.is_root(),
            [first, ..] => *first == b'/',
        };
        is_whole.then_some(rest)
    }
}

/// The path, `/` for the root.
impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "/" } else { &self.text })
    }
}

/// A character of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Character {
    /// The byte as it is, or encoded although it need not be (RFC 3986 §2.3).
    Plain(u8),
    /// Encoded, with digits of either case, and not the same as the character itself.
    Encoded(u8),
}

/// Takes the next character of a path.
fn next_character(path: &[u8]) -> Option<(Character, &[u8])> {
    match path {
        [b'%', high, low, rest @ ..] if let Some(byte) = encoded(*high, *low) => {
            let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            let character =
                if is_unreserved { Character::Plain(byte) } else { Character::Encoded(byte) };
            Some((character, rest))
        }
        [byte, rest @ ..] => Some((Character::Plain(*byte), rest)),
        [] => None,
    }
}

/// Returns the byte that two hexadecimal digits stand for.
fn encoded(high: u8, low: u8) -> Option<u8> {
    Some(hex_digit(high)? << 4 | hex_digit(low)?)
}

/// The end of the paths of a mount: `.php` covers `/index.php`, but not `/.php` and not
/// `/index.php/x`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathSuffix {
    /// The extension with the dot.
    text: Box<str>,
}

impl PathSuffix {
    /// Takes an extension with its dot.
    #[must_use]
    pub fn new(extension: &str) -> Self {
        Self { text: extension.into() }
    }

    /// Returns the extension with its dot.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the last segment of a path, as the client has sent it, is a name with this
    /// extension.
    #[must_use]
    pub fn covers(&self, path: &[u8]) -> bool {
        let mut segment = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let mut name = Vec::with_capacity(segment.len());
        while let Some((character, rest)) = next_character(segment) {
            name.push(match character {
                Character::Plain(byte) => byte,
                // It is in no extension.
                Character::Encoded(_) => 0,
            });
            segment = rest;
        }
        name.len() > self.text.len() && name.ends_with(self.text.as_bytes())
    }
}

/// A path that an upstream server has in the place of that of the mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRewrite {
    mount: PathPrefix,
    upstream: PathPrefix,
}

/// A path that an upstream server cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UpstreamPathError {
    /// It does not begin with a slash.
    #[error("has to begin with /")]
    Relative,
    /// It has a character that is not allowed in a path.
    #[error("has a character that has to be percent-encoded in a path")]
    Character,
    /// It has a segment `.` or `..`.
    #[error("has a segment . or ..")]
    DotSegment,
}

impl PathRewrite {
    /// Puts `upstream` in the place of the path of a mount.
    ///
    /// # Errors
    /// It is no path.
    pub fn new(mount: PathPrefix, upstream: &str) -> Result<Self, UpstreamPathError> {
        if !upstream.starts_with('/') {
            return Err(UpstreamPathError::Relative);
        }
        // RFC 3986 §3.3: pchar, and `%` of encoded ones.
        let is_allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&byte);
        if !upstream.bytes().all(is_allowed) {
            return Err(UpstreamPathError::Character);
        }
        if crate::request_forwarding::has_dot_segment(upstream.as_bytes()) {
            return Err(UpstreamPathError::DotSegment);
        }
        Ok(Self { mount, upstream: PathPrefix::new(upstream) })
    }

    /// Returns the path that the upstream server is asked for; `None` if the mount does not cover
    /// it.
    #[must_use]
    pub fn to_upstream(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut sent = exchanged(&self.mount, &self.upstream, path)?;
        // Two slashes at the beginning of a target would name a host for some servers.
        if self.upstream.is_root() && !self.mount.is_root() {
            let slashes = sent.iter().take_while(|byte| **byte == b'/').count();
            sent.drain(..slashes.saturating_sub(1));
        }
        Some(sent)
    }

    /// Returns the path that clients ask for, if the upstream server has it below its own path.
    #[must_use]
    pub fn to_client(&self, path: &[u8]) -> Option<Vec<u8>> {
        exchanged(&self.upstream, &self.mount, path)
    }
}

/// The path of the upstream server.
impl fmt::Display for PathRewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.upstream.fmt(f)
    }
}

/// Puts one prefix in the place of another one.
fn exchanged(from: &PathPrefix, to: &PathPrefix, path: &[u8]) -> Option<Vec<u8>> {
    let rest = from.rest(path)?;
    let path = [to.as_str().as_bytes(), rest].concat();
    Some(if path.is_empty() { b"/".to_vec() } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_prefix_covers_itself_and_all_below() {
        let rest = |prefix: &str, path: &'static str| {
            PathPrefix::new(prefix).rest(path.as_bytes()).map(|rest| String::from_utf8_lossy(rest))
        };
        for (prefix, path, expected) in [
            ("/api", "/api", Some("")),
            ("/api/", "/api/", Some("/")),
            ("/api", "/api/v2", Some("/v2")),
            ("/api", "/%61p%69/x%2Fy", Some("/x%2Fy")),
            ("/caf%c3%A9", "/caf%C3%a9/x", Some("/x")),
            ("/caf%C3%A9", "/caf%C3%AA", None),
            ("/%61pi", "/api", Some("")),
            ("/a%3Ab", "/a:b", None),
            ("/api", "/api%2Fx", None),
            ("/api", "/apis", None),
            ("/api", "/ap", None),
            ("/api", "/%6", None),
            ("/", "/x", Some("/x")),
            ("/", "*", None),
            ("/api", "*", None),
            ("/", "", None),
        ] {
            assert_eq!(rest(prefix, path).as_deref(), expected, "{prefix} {path}");
        }
    }

    #[test]
    fn a_suffix_covers_names_with_the_extension() {
        let suffix = PathSuffix::new(".php");
        for (path, is_covered) in [
            ("/index.php", true),
            ("/a/b.php", true),
            ("/a%2Ep%68p", true),
            ("/.php", false),
            ("/index.php/x", false),
            ("/index.php5", false),
            ("/index.PHP", false),
            ("/php", false),
            ("*", false),
        ] {
            assert_eq!(suffix.covers(path.as_bytes()), is_covered, "{path}");
        }
    }

    #[test]
    fn the_upstream_path_replaces_the_mount_path() {
        for (mount, upstream, path, expected) in [
            ("/api", "/", "/api", "/"),
            ("/api", "/", "/api/", "/"),
            ("/api", "/", "/api/x?", "/x?"),
            ("/api", "/", "/api//evil.example/x", "/evil.example/x"),
            ("/api", "/v1", "/api", "/v1"),
            ("/api", "/v1/", "/api/", "/v1/"),
            ("/api", "/v1", "/%61pi/%41", "/v1/%41"),
            ("/", "/app", "/x", "/app/x"),
            ("/", "/app", "/", "/app/"),
        ] {
            let rewrite = PathRewrite::new(PathPrefix::new(mount), upstream).expect(upstream);
            let path = rewrite.to_upstream(path.as_bytes()).expect(path);
            assert_eq!(String::from_utf8_lossy(&path), expected, "{mount} {upstream}");
        }
        for (mount, path) in [("/", "*"), ("/a%3Ab", "/a:b/x"), ("/api", "/api%2Fx")] {
            let rewrite = PathRewrite::new(PathPrefix::new(mount), "/v1").expect("a path");
            assert_eq!(rewrite.to_upstream(path.as_bytes()), None, "{mount} {path}");
        }
        for (upstream, error) in [
            ("x", UpstreamPathError::Relative),
            ("", UpstreamPathError::Relative),
            ("/a?b", UpstreamPathError::Character),
            ("/a b", UpstreamPathError::Character),
            ("/a#", UpstreamPathError::Character),
            ("/a/../b", UpstreamPathError::DotSegment),
            ("/a/%2e%2e", UpstreamPathError::DotSegment),
        ] {
            assert_eq!(PathRewrite::new(PathPrefix::new("/"), upstream), Err(error), "{upstream}");
        }
    }

    proptest! {
        /// The path that the upstream server gets converts back to the client's path, and never
        /// leads out of the upstream server's own path.
        #[test]
        fn rewritten_paths_convert_back(
            mount in "(/[a-c]{1,3}){0,2}",
            upstream in "(/[a-c]{1,3}){0,2}",
            rest in "(/[a-c%.]{0,4}){1,3}",
        ) {
            let (mount, upstream) = (format!("{mount}/"), format!("{upstream}/"));
            let prefix = PathPrefix::new(&mount);
            let rewrite = PathRewrite::new(prefix.clone(), &upstream).expect("a path");
            let path = format!("{}{rest}", prefix.as_str());
            let sent = rewrite.to_upstream(path.as_bytes()).expect("it is covered");
            prop_assert!(PathPrefix::new(&upstream).rest(&sent).is_some());
            prop_assert!(!sent.starts_with(b"//") || mount == "/");
            // Slashes that would name a host are an exception.
            if upstream != "/" || !rest.starts_with("//") {
                prop_assert_eq!(rewrite.to_client(&sent), Some(path.into_bytes()));
            }
        }
    }
}
