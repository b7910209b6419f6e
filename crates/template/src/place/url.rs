//! A place in a URL, as a browser takes it apart (URL Standard, "basic URL parser").

use super::context::Context;
use crate::limits::NAME_MAX_BYTES;

/// A place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    part: Part,
    /// What stands before, in small letters, as long as it may be a scheme.
    scheme: Option<Vec<u8>>,
    /// A value stands before.
    is_computed: bool,
}

/// How far into it; a later part is escaped more strictly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Front,
    Path,
    /// Behind the `/` that all before it comes to: a second one would begin a host.
    Root,
    Query,
}

/// Schemes whose URLs are run or shown as a page of this site. Browsers take percent-encoding off
/// before they do so, and nothing else can be done to a value.
const RUN: &[&[u8]] = &[b"javascript", b"vbscript", b"data"];

impl Default for Url {
    fn default() -> Self {
        Self { part: Part::Front, scheme: Some(Vec::new()), is_computed: false }
    }
}

impl Url {
    /// Goes on by some text.
    ///
    /// # Errors
    /// Why no value can stand behind it.
    pub(crate) fn text(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        bytes.iter().try_for_each(|&byte| self.step(byte))
    }

    fn step(&mut self, byte: u8) -> Result<(), &'static str> {
        // Browsers leave these out wherever they stand.
        if matches!(byte, b'\t' | b'\n' | b'\r') {
            return Ok(());
        }
        let Some(scheme) = &mut self.scheme else {
            self.part = match byte {
                b'?' | b'#' | b'&' => Part::Query,
                _ if self.part == Part::Root => Part::Path,
                _ => self.part,
            };
            return Ok(());
        };
        match byte {
            b':' if self.is_computed => return Err(UNKNOWN_SCHEME),
            b':' if RUN.iter().any(|known| scheme.ends_with(known)) => return Err(RUN_SCHEME),
            b'&' => return Err(UNKNOWN_SCHEME),
            b'/' | b'\\' if scheme.is_empty() => self.ends_scheme(Part::Root),
            b':' | b'/' | b'\\' => self.ends_scheme(Part::Path),
            b'?' | b'#' => self.ends_scheme(Part::Query),
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

    fn ends_scheme(&mut self, part: Part) {
        self.scheme = None;
        self.part = self.part.max(part);
    }

    /// How a value here is escaped; goes on by it.
    pub(crate) fn value(&mut self) -> Context {
        let is_front = !self.is_computed && self.scheme.as_ref().is_some_and(Vec::is_empty);
        let context = match self.part {
            Part::Front if is_front => Context::Url,
            Part::Front | Part::Path => Context::UrlPath,
            Part::Root => Context::UrlRoot,
            Part::Query => Context::UrlQuery,
        };
        self.is_computed = true;
        if self.part == Part::Root {
            self.part = Part::Path;
        }
        context
    }

    pub(crate) fn joined(&self, other: &Self) -> Self {
        let scheme = match (&self.scheme, &other.scheme) {
            (Some(one), Some(other)) if one != other => Some(Vec::new()),
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        let is_computed = self.is_computed || other.is_computed || self.scheme != other.scheme;
        Self { part: self.part.max(other.part), scheme, is_computed }
    }
}

const RUN_SCHEME: &str = "a value in a URL of `javascript:`, `vbscript:` or `data:` cannot be \
     escaped, as browsers undo that before they run it; put the value into a `data-` attribute \
     and read it from a script, or show it as it is by `#[[!…]]` if it cannot do harm";

const UNKNOWN_SCHEME: &str = "the scheme of this URL is not known here, and may be one that runs \
     what follows; write the scheme as text, or show the whole URL as one value";
