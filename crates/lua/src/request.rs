//! A request as a script sees it: a copy, because it outlives the bytes of its head as soon as its
//! handler waits.

use mlua::{Lua, LuaString, Result, Table, Value};
use pinion_http::field::KnownField;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::method::Method;
use pinion_http::request_head::{ConditionalRequest, Framing, RequestHead};
use pinion_http::request_target::{Scheme, decode_path};
use pinion_http::version::Version;
use std::net::SocketAddr;
use std::ops::Range;

use crate::body::urlencoded;
use crate::router::{Match, Router};

/// The head of a request, its client, and its route. The value is reused between requests, so that
/// none allocates once there was a large one.
#[derive(Debug, Default)]
pub(crate) struct HandledRequest {
    /// All copied texts, one after the other.
    text: Vec<u8>,
    method: Range<usize>,
    target: Range<usize>,
    path: Range<usize>,
    query: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    fields: Vec<[Range<usize>; 2]>,
    version: Option<Version>,
    is_secured: bool,
    has_content: bool,
    peer: Option<SocketAddr>,
    user: Option<Range<usize>>,
    id: Option<Range<usize>>,
    route: Option<Match>,
}

impl HandledRequest {
    /// Copies a head and the decoded path.
    pub(crate) fn fill(&mut self, head: &RequestHead<'_>, path: &[u8], route: Option<Match>) {
        self.text.clear();
        self.fields.clear();
        self.method = self.keep(head.method_token);
        self.target = self.keep(head.target.raw);
        self.path = self.keep(path);
        self.query = head.target.query.map(|query| self.keep(query));
        self.authority = head.authority.map(|authority| self.keep(authority));
        for field in head.fields.iter() {
            let line = [self.keep(field.name), self.keep(field.value)];
            self.fields.push(line);
        }
        self.user = head.user().map(|user| self.keep(user.as_bytes()));
        self.id = head.request_id().map(|id| self.keep(id.as_bytes()));
        self.version = Some(head.version);
        self.is_secured = head.target.scheme == Some(Scheme::Https);
        self.has_content = head.framing != Framing::None;
        self.route = route;
    }

    /// Sets the client of the request.
    pub(crate) fn came_from(&mut self, client: &ClientIdentity) {
        self.peer = client.peer;
        self.is_secured = client.is_secured;
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.text.len();
        self.text.extend_from_slice(bytes);
        from..self.text.len()
    }

    fn part(&self, range: &Range<usize>) -> &[u8] {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// Returns whether content follows.
    pub(crate) fn has_content(&self) -> bool {
        self.has_content
    }

    /// Returns the value of a field that has to occur once; empty when it occurs more often.
    pub(crate) fn only_field(&self, name: &[u8]) -> Option<&[u8]> {
        let mut values = self.values_of(name);
        let value = values.next()?;
        Some(if values.next().is_none() { value } else { b"" })
    }

    /// Returns the values of all fields of a name.
    pub(crate) fn values_of(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        let lines = self.fields.iter();
        let lines = lines.filter(move |line| self.part(&line[0]).eq_ignore_ascii_case(name));
        lines.map(|line| self.part(&line[1]))
    }

    /// Returns whether its method is GET or HEAD.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.part(&self.method), b"GET" | b"HEAD")
    }

    /// Returns the method and the target, for the log.
    pub(crate) fn shown(&self) -> String {
        let text = |range| String::from_utf8_lossy(self.part(range)).into_owned();
        format!("{} {}", text(&self.method), text(&self.target))
    }

    /// Returns the route of the request.
    pub(crate) fn route(&self) -> Option<&Match> {
        self.route.as_ref()
    }

    /// Returns the value of `req.KEY`; nil when there is none of that name.
    pub(crate) fn value(&self, lua: &Lua, router: &Router, key: &[u8]) -> Result<Value> {
        let text = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
        let part = |range: &Range<usize>| text(self.part(range));
        match key {
            b"params" => self.params(lua, router).map(Value::Table),
            b"method" => part(&self.method),
            b"path" => part(&self.path),
            b"target" => part(&self.target),
            b"query" => {
                let query = self.query.as_ref().map(|query| self.part(query));
                urlencoded::table(lua, query.unwrap_or_default()).map(Value::Table)
            }
            b"query_string" => self.query.as_ref().map_or(Ok(Value::Nil), part),
            b"host" => match &self.authority {
                Some(authority) => text(&host_of(self.part(authority))),
                None => Ok(Value::Nil),
            },
            b"fields" => self.fields(lua).map(Value::Table),
            b"cookies" => self.cookies(lua).map(Value::Table),
            b"protocol" => text(self.version.map_or("", Version::as_str).as_bytes()),
            b"tls" => Ok(Value::Boolean(self.is_secured)),
            b"scheme" => text(if self.is_secured { b"https" } else { b"http" }),
            b"peer" => match self.peer {
                Some(peer) => text(peer.ip().to_canonical().to_string().as_bytes()),
                None => Ok(Value::Nil),
            },
            b"user" => self.user.as_ref().map_or(Ok(Value::Nil), part),
            b"id" => self.id.as_ref().map_or(Ok(Value::Nil), part),
            b"route" => match self.route.as_ref().and_then(|found| router.pattern(found.route)) {
                Some(pattern) => text(pattern.as_bytes()),
                None => Ok(Value::Nil),
            },
            _ => Ok(Value::Nil),
        }
    }

    /// Returns the value of a field; several lines are joined as RFC 9110 §5.3 specifies.
    pub(crate) fn field(&self, lua: &Lua, name: &[u8]) -> Result<Option<LuaString>> {
        let mut lines =
            self.fields.iter().filter(|line| self.part(&line[0]).eq_ignore_ascii_case(name));
        let Some(first) = lines.next() else { return Ok(None) };
        let first = self.part(&first[1]);
        let Some(second) = lines.next() else { return lua.create_string(first).map(Some) };
        let between: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
        let mut joined = first.to_vec();
        for line in [second].into_iter().chain(lines) {
            joined.extend_from_slice(between);
            joined.extend_from_slice(self.part(&line[1]));
        }
        lua.create_string(joined).map(Some)
    }

    pub(crate) fn params(&self, lua: &Lua, router: &Router) -> Result<Table> {
        let count = self.route.as_ref().map_or(0, |found| found.values().count());
        let params = lua.create_table_with_capacity(0, count)?;
        if let Some(found) = &self.route {
            let path = self.part(&self.path);
            for (name, range) in router.parameters(found.route).zip(found.values()) {
                let value = lua.create_string(path.get(range).unwrap_or_default())?;
                params.raw_set(name, value)?;
            }
        }
        Ok(params)
    }

    /// Returns all fields under their names in small letters.
    fn fields(&self, lua: &Lua) -> Result<Table> {
        let fields = lua.create_table()?;
        for line in &self.fields {
            let name = self.part(&line[0]).to_ascii_lowercase();
            if fields.raw_get::<Value>(lua.create_string(&name)?)?.is_nil() {
                let value = self.field(lua, &name)?;
                fields.raw_set(lua.create_string(&name)?, value)?;
            }
        }
        Ok(fields)
    }

    /// Returns cookies by name; of two with the same name the first (RFC 6265 §4.2.2: servers
    /// should not rely on the order, and browsers send the one with the longest path first).
    fn cookies(&self, lua: &Lua) -> Result<Table> {
        let cookies = lua.create_table()?;
        for line in &self.fields {
            if !self.part(&line[0]).eq_ignore_ascii_case(b"cookie") {
                continue;
            }
            for pair in self.part(&line[1]).split(|&byte| byte == b';') {
                let pair = pair.trim_ascii();
                let Some(at) = memchr::memchr(b'=', pair) else { continue };
                let (name, value) = (&pair[..at], &pair[at + 1..]);
                let value = value
                    .strip_prefix(b"\"")
                    .map_or(value, |inner| inner.strip_suffix(b"\"").unwrap_or(value));
                let name = lua.create_string(name)?;
                if cookies.raw_get::<Value>(&name)?.is_nil() {
                    cookies.raw_set(name, lua.create_string(value)?)?;
                }
            }
        }
        Ok(cookies)
    }
}

impl ConditionalRequest for HandledRequest {
    fn method(&self) -> Method {
        Method::from_token(self.part(&self.method))
    }

    fn first_value(&self, field: KnownField) -> Option<&[u8]> {
        self.all_values(field).next()
    }

    fn all_values(&self, field: KnownField) -> impl Iterator<Item = &[u8]> {
        self.values_of(field.name().as_bytes())
    }

    fn is_repeated(&self, field: KnownField) -> bool {
        self.all_values(field).nth(1).is_some()
    }
}

/// Returns the host of an authority, in small letters and without its port.
fn host_of(authority: &[u8]) -> Vec<u8> {
    let end = match authority {
        // An IPv6 address has colons of its own, between brackets.
        [b'[', ..] => memchr::memchr(b']', authority).map(|at| at + 1),
        _ => memchr::memchr(b':', authority),
    };
    authority[..end.unwrap_or(authority.len())].to_ascii_lowercase()
}

/// Returns the decoded path of a request, which every lookup uses; none for a target without a
/// valid path.
pub(crate) fn path<'p>(head: &RequestHead<'p>, scratch: &'p mut Vec<u8>) -> Option<&'p [u8]> {
    decode_path(head.target.path, scratch).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_lowercase_and_without_port() {
        for (authority, host) in [
            ("example.org", "example.org"),
            ("EXAMPLE.org:8080", "example.org"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[2001:DB8::1]:443", "[2001:db8::1]"),
            ("[::1", "[::1"),
            ("", ""),
            (":80", ""),
        ] {
            assert_eq!(host_of(authority.as_bytes()), host.as_bytes(), "{authority}");
        }
    }
}
