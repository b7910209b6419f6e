//! What a rule of `_redirects` is about: host, path and query.

use pinion_archive::limits::{PATH_MAX_BYTES, RULE_CAPTURES_MAX, RULE_HOST_MAX_BYTES};
use pinion_http::host;

use super::decode::{decoded, query_decoded};
use super::redirects::{Part, QueryValue};
use super::text::{Fault, Word};

/// The name of what a trailing `*` stands for.
pub(super) const SPLAT: &str = "splat";

/// The left side of a rule.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) host: Option<Box<[u8]>>,
    pub(super) path: Vec<Part>,
    pub(super) query: Vec<(Box<[u8]>, QueryValue)>,
    /// Of the captures, in their order.
    pub(super) names: Vec<String>,
}

impl Source {
    /// Reads `from` and the parameters behind it.
    pub(super) fn parse(
        folder: &[u8],
        from: Word<'_>,
        query: &[Word<'_>],
    ) -> Result<Source, Fault> {
        let mut source = Source::default();
        let path = if let Some(below) = from.text.strip_prefix("./") {
            source.enter(folder);
            from.from(from.text.len() - below.len())
        } else if folder != b"/" {
            let expected = "a path that begins with ./: only the root's file has other rules";
            return Err(Fault::new(from.column, expected));
        } else {
            let path = source.take_host(from)?;
            path.from(1)
        };
        source.take_path(path)?;
        let bytes = |part: &Part| match part {
            Part::Literal(text) | Part::Rest(text) => 1 + text.len(),
            Part::Capture => 1,
        };
        if source.path.iter().map(bytes).sum::<usize>() >= PATH_MAX_BYTES {
            return Err(Fault::new(
                from.column,
                format!("less than {PATH_MAX_BYTES} bytes of path"),
            ));
        }
        for parameter in query {
            source.take_parameter(*parameter)?;
        }
        Ok(source)
    }

    /// Whether the path ends with `/*`.
    pub(super) fn ends_with_rest(&self) -> bool {
        matches!(self.path.last(), Some(Part::Rest(prefix)) if prefix.is_empty())
    }

    fn enter(&mut self, folder: &[u8]) {
        let segments = folder.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty());
        self.path.extend(segments.map(|segment| Part::Literal(segment.into())));
    }

    /// Takes the host of a URL; the path is left, with its slash.
    fn take_host<'t>(&mut self, from: Word<'t>) -> Result<Word<'t>, Fault> {
        if from.text.starts_with('/') {
            return Ok(from);
        }
        let schemes = ["http://", "https://", "://"];
        let Some(scheme) = schemes.into_iter().find(|scheme| from.text.starts_with(scheme)) else {
            let expected = "a path that begins with / or ./, or a URL";
            return Err(Fault::new(from.column, expected));
        };
        let behind = from.from(scheme.len());
        let end = behind.text.find(['/', '?', '#']).unwrap_or(behind.text.len());
        let authority = behind.text.get(..end).unwrap_or_default();
        self.host = match authority {
            "*" => None,
            _ => Some(host_pattern(authority).ok_or_else(|| {
                Fault::new(behind.column, "a host such as example.org or *.example.org")
            })?),
        };
        let path = behind.from(end);
        Ok(if path.text.is_empty() { Word { text: "/", ..path } } else { path })
    }

    /// Takes what stands behind the first slash.
    fn take_path(&mut self, path: Word<'_>) -> Result<(), Fault> {
        if let Some(at) = path.text.find(['?', '#']) {
            let expected = match path.text.as_bytes().get(at) {
                Some(b'?') => "a path without ?; a query is written as words behind it: key=value",
                _ => "a path without #, which is never sent to a server",
            };
            return Err(Fault::new(path.column_at(at), expected));
        }
        let whole = path.text.strip_suffix('/').unwrap_or(path.text);
        if path.text.is_empty() {
            return Ok(());
        }
        let mut start = 0;
        for segment in whole.split('/') {
            let word = Word { text: segment, column: path.column_at(start) };
            start += segment.len() + 1;
            if matches!(self.path.last(), Some(Part::Rest(_))) {
                return Err(Fault::new(word.column - 1, END_OF_PATH));
            }
            self.take_segment(word)?;
        }
        Ok(())
    }

    fn take_segment(&mut self, segment: Word<'_>) -> Result<(), Fault> {
        if let Some(name) = segment.text.strip_prefix(':') {
            self.name(segment, name)?;
            self.path.push(Part::Capture);
            return Ok(());
        }
        let Some((prefix, behind)) = segment.text.split_once('*') else {
            let decoded = decoded(segment)?;
            // A request has no segments of dots any more when it is looked up.
            if matches!(decoded.as_slice(), b"" | b"." | b"..") {
                return Err(Fault::new(segment.column, "a name between the slashes"));
            }
            self.path.push(Part::Literal(decoded.into()));
            return Ok(());
        };
        if !behind.is_empty() {
            return Err(Fault::new(segment.column_at(prefix.len() + 1), END_OF_PATH));
        }
        self.name(segment, SPLAT)?;
        let prefix = decoded(Word { text: prefix, ..segment })?;
        self.path.push(Part::Rest(prefix.into()));
        Ok(())
    }

    fn take_parameter(&mut self, word: Word<'_>) -> Result<(), Fault> {
        let Some((key, value)) = word.text.split_once('=').filter(|(key, _)| !key.is_empty())
        else {
            return Err(Fault::new(word.column, "key=value, or a target that begins with /"));
        };
        let decoded_key = query_decoded(Word { text: key, ..word })?;
        if self.query.iter().any(|(known, _)| **known == *decoded_key) {
            return Err(Fault::new(word.column, format!("another parameter: {key} stands twice")));
        }
        let value = match value.strip_prefix(':') {
            Some(name) => {
                self.name(word.from(key.len() + 1), name)?;
                QueryValue::Capture
            }
            None => QueryValue::Is(query_decoded(word.from(key.len() + 1))?.into()),
        };
        self.query.push((decoded_key.into(), value));
        Ok(())
    }

    /// Gives the next capture its name.
    fn name(&mut self, word: Word<'_>, name: &str) -> Result<(), Fault> {
        if name.is_empty() || !name.bytes().all(is_name_byte) {
            let expected = "a placeholder: a colon and letters, digits, - or _";
            return Err(Fault::new(word.column, expected));
        }
        if self.names.iter().any(|known| known == name) {
            return Err(Fault::new(word.column, format!("another name: :{name} stands twice")));
        }
        if self.names.len() == RULE_CAPTURES_MAX {
            let expected = format!("at most {RULE_CAPTURES_MAX} placeholders");
            return Err(Fault::new(word.column, expected));
        }
        self.names.push(name.to_owned());
        Ok(())
    }
}

const END_OF_PATH: &str = "the end of the path: * stands for all that follows";

/// What the name of a placeholder is made of.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// A host as it is compared: lower case, without its port.
fn host_pattern(authority: &str) -> Option<Box<[u8]>> {
    let (any, name) = match authority.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", authority),
    };
    if name.contains('*') {
        return None;
    }
    let host = [any.as_bytes(), &host_of(name)?].concat();
    (host.len() <= RULE_HOST_MAX_BYTES).then(|| host.into())
}

/// The host of an authority, lower case.
pub(super) fn host_of(authority: &str) -> Option<Box<[u8]>> {
    let split = host::split(authority.as_bytes()).ok()?;
    Some(split.host.to_ascii_lowercase().into())
}
