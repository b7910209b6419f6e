//! The parts of a site that other servers respond to, by their paths.

use pinion_gateway::upstream::Upstream;
use std::fmt;
use std::sync::Arc;

/// A path, and the server that responds to requests for it and all below it.
#[derive(Clone, Debug)]
pub(crate) struct Mount {
    /// Without a slash at its end; empty for the whole site.
    path: Box<str>,
    pub(crate) upstream: Arc<Upstream>,
}

/// The mounts of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts {
    /// Those below the root, the longest path first.
    below_root: Vec<Mount>,
    /// What responds where no file does.
    fallback: Option<Mount>,
}

impl Mount {
    pub(crate) fn new(path: &str, upstream: Upstream) -> Self {
        Self { path: path.trim_end_matches('/').into(), upstream: Arc::new(upstream) }
    }

    /// With the longest time that the server may be silent.
    pub(crate) fn with_timeout(self, timeout_ms: u64) -> Self {
        let mut upstream = (*self.upstream).clone();
        upstream.timeout_ms = timeout_ms;
        Self { upstream: Arc::new(upstream), ..self }
    }

    /// Whether a path is this one or below it.
    fn covers(&self, path: &[u8]) -> bool {
        let mut rest = path.iter();
        let mut next = || match *rest.as_slice() {
            // Characters may be encoded that need not (RFC 3986 §2.3).
            [b'%', high, low, ..] if let Some(byte) = unreserved(high, low) => {
                rest.nth(2);
                Some(byte)
            }
            _ => rest.next().copied(),
        };
        self.path.bytes().all(|byte| next() == Some(byte)) && matches!(next(), None | Some(b'/'))
    }
}

/// Returns the character that two hexadecimal digits stand for if it need not be encoded.
fn unreserved(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = u8::try_from(digit(high)? * 16 + digit(low)?).ok()?;
    let is_unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    is_unreserved.then_some(byte)
}

/// What is forwarded and where to, in words.
impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.path {
            "" => write!(f, "forwarded to {}", self.upstream),
            path => write!(f, "{path} is forwarded to {}", self.upstream),
        }
    }
}

impl Mounts {
    /// Puts mounts in their order.
    ///
    /// # Errors
    /// A path that is given twice.
    pub(crate) fn new(mounts: Vec<Mount>) -> Result<Self, String> {
        let mut this = Self::default();
        for mount in mounts {
            let is_taken = match mount.path.is_empty() {
                true => this.fallback.is_some(),
                false => this.below_root.iter().any(|other| other.path == mount.path),
            };
            if is_taken {
                return Err(if mount.path.is_empty() { "/".into() } else { mount.path.into() });
            }
            match mount.path.is_empty() {
                true => this.fallback = Some(mount),
                false => this.below_root.push(mount),
            }
        }
        this.below_root.sort_by_key(|mount| std::cmp::Reverse(mount.path.len()));
        Ok(this)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.below_root.is_empty() && self.fallback.is_none()
    }

    /// Returns the mount below the root that covers a path, as the client has sent it.
    #[inline]
    pub(crate) fn covering(&self, path: &[u8]) -> Option<&Mount> {
        self.below_root.iter().find(|mount| mount.covers(path))
    }

    /// Returns what responds where no file does.
    #[inline]
    pub(crate) fn fallback(&self) -> Option<&Mount> {
        self.fallback.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(paths: &[&str]) -> Result<Mounts, String> {
        let upstream = |text: &str| Upstream::parse(text).expect(text);
        let mount = |path: &&str| Mount::new(path, upstream(&format!("http://a{}", path.len())));
        Mounts::new(paths.iter().map(mount).collect())
    }

    #[test]
    fn the_longest_path_covers_itself_and_all_below() {
        let mounts = mounts(&["/", "/api", "/api/v2/"]).expect("mounts");
        let covering = |path: &str| mounts.covering(path.as_bytes()).map(|found| &*found.path);
        for (path, expected) in [
            ("/api", Some("/api")),
            ("/api/", Some("/api")),
            ("/api/v2", Some("/api/v2")),
            ("/api/v2/x", Some("/api/v2")),
            ("/api/v22", Some("/api")),
            ("/%61p%69/x", Some("/api")),
            ("/api%2Fx", None),
            ("/apis", None),
            ("/%6", None),
            ("/ap", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(covering(path), expected, "{path}");
        }
        assert!(mounts.fallback().is_some() && !mounts.is_empty());
        assert!(Mounts::default().is_empty());
    }

    #[test]
    fn a_path_has_one_server() {
        assert_eq!(mounts(&["/a", "/b", "/a/"]).err().as_deref(), Some("/a"));
        assert_eq!(mounts(&["/", "/a", "/"]).err().as_deref(), Some("/"));
    }
}
