//! A position in a URL, as a browser parses it (URL Standard, "basic URL parser").

use super::context::Context;
use crate::limits::NAME_MAX_BYTES;

/// A position in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    part: UrlPart,
    /// The preceding text, in small letters, as long as it may be a scheme.
    scheme: Option<Vec<u8>>,
    /// Whether a value precedes.
    is_computed: bool,
    origin: UrlOrigin,
}

/// The state of the part of the URL that decides the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UrlOrigin {
    /// Nothing precedes.
    Open,
    /// The text may be a scheme, or the beginning of a relative path.
    Name,
    /// One slash: a second one would begin a host.
    Slash,
    /// A scheme or slashes precede: a host may begin.
    Authority,
    /// The beginning of a host precedes.
    Host,
    /// Branches of the code that join here differ in it.
    Unknown,
    /// The host is decided.
    Settled,
}

impl UrlOrigin {
    fn step(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Open, 0..=b' ') => self,
            (Self::Open, b'/' | b'\\') => Self::Slash,
            (Self::Open | Self::Name, b':') | (Self::Slash, b'/' | b'\\') => Self::Authority,
            (Self::Authority, b'/' | b'\\') => self,
            (_, b'?' | b'#') | (Self::Name | Self::Host, b'/' | b'\\') => Self::Settled,
            (Self::Open, _) => Self::Name,
            (Self::Slash, _) => Self::Settled,
            (Self::Authority, _) => Self::Host,
            (Self::Name | Self::Host | Self::Unknown | Self::Settled, _) => self,
        }
    }

    /// Returns whether a value here may be the host, or a part of it, with any escaping.
    fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Authority | Self::Host | Self::Unknown)
    }

    /// Advances by a value.
    fn value(self) -> Self {
        match self {
            Self::Open | Self::Authority | Self::Host => Self::Host,
            Self::Slash => Self::Settled,
            Self::Name | Self::Unknown | Self::Settled => self,
        }
    }

    fn joined(self, other: Self) -> Self {
        if self == other { self } else { Self::Unknown }
    }
}

/// The part of the URL; a later part is escaped more strictly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UrlPart {
    Front,
    Path,
    /// Directly after the `/` that is the whole text so far: a second one would begin a host.
    Root,
    Query,
}

/// Schemes whose URLs are run or shown as a page of this site. Browsers decode percent-encoding
/// before they do so, and no other escaping is possible.
const RUN: &[&[u8]] = &[b"javascript", b"vbscript", b"data"];

impl Default for Url {
    fn default() -> Self {
        let scheme = Some(Vec::new());
        Self { part: UrlPart::Front, scheme, is_computed: false, origin: UrlOrigin::Open }
    }
}

impl Url {
    /// Advances by some text.
    ///
    /// # Errors
    /// Returns why no value may follow it.
    pub(crate) fn text(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        bytes.iter().try_for_each(|&byte| self.step(byte))
    }

    fn step(&mut self, byte: u8) -> Result<(), &'static str> {
        // Browsers ignore these at any position.
        if matches!(byte, b'\t' | b'\n' | b'\r') {
            return Ok(());
        }
        self.origin = self.origin.step(byte);
        let Some(scheme) = &mut self.scheme else {
            self.part = match byte {
                b'?' | b'#' | b'&' => UrlPart::Query,
                _ if self.part == UrlPart::Root => UrlPart::Path,
                _ => self.part,
            };
            return Ok(());
        };
        match byte {
            b':' if self.is_computed => return Err(UNKNOWN_SCHEME),
            b':' if RUN.iter().any(|known| scheme.ends_with(known)) => return Err(RUN_SCHEME),
            b'&' => return Err(UNKNOWN_SCHEME),
            b'/' | b'\\' if scheme.is_empty() => self.ends_scheme(UrlPart::Root),
            b':' | b'/' | b'\\' => self.ends_scheme(UrlPart::Path),
            b'?' | b'#' => self.ends_scheme(UrlPart::Query),
            0..=b' ' if scheme.is_empty() => {}
            _ => {
                if scheme.len() == NAME_MAX_BYTES {
                    scheme.remove(0);
                }
                scheme.push(byte.to_ascii_lowercase());
            }
        }
        Ok(())
    }

    fn ends_scheme(&mut self, part: UrlPart) {
        self.scheme = None;
        self.part = self.part.max(part);
    }

    /// Returns whether a value here decides the host to which the URL leads.
    pub(crate) fn decides_origin(&self) -> bool {
        self.origin.is_open()
    }

    /// Returns the escaping of a value here, and advances by it.
    pub(crate) fn value(&mut self) -> Context {
        self.origin = self.origin.value();
        let is_front = !self.is_computed && self.scheme.as_ref().is_some_and(Vec::is_empty);
        let context = match self.part {
            UrlPart::Front if is_front => Context::Url,
            UrlPart::Front | UrlPart::Path => Context::UrlPath,
            UrlPart::Root => Context::UrlRoot,
            UrlPart::Query => Context::UrlQuery,
        };
        self.is_computed = true;
        if self.part == UrlPart::Root {
            self.part = UrlPart::Path;
        }
        context
    }

    pub(crate) fn joined(&self, other: &Self) -> Self {
        let scheme = match (&self.scheme, &other.scheme) {
            (Some(one), Some(other)) if one != other => Some(Vec::new()),
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        let is_computed = self.is_computed || other.is_computed || self.scheme != other.scheme;
        let origin = self.origin.joined(other.origin);
        Self { part: self.part.max(other.part), scheme, is_computed, origin }
    }
}

const RUN_SCHEME: &str = "a value in a URL of `javascript:`, `vbscript:` or `data:` cannot be \
     escaped, as browsers undo that before they run it; put the value into a `data-` attribute \
     and read it from a script, or show it as it is by `#[[!…]]` if it cannot do harm";

const UNKNOWN_SCHEME: &str = "the scheme of this URL is not known here, and may be one that runs \
     what follows; write the scheme as text, or show the whole URL as one value";
