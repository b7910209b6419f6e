//! The scope of a request to an ASGI application (ASGI 3, "HTTP & WebSocket message format"), as a
//! Python value in its final shape. The process adds the values that are the same for all requests:
//! `asgi`, `state` and `extensions`.

use core::fmt::Write as _;
use core::net::SocketAddr;

use super::environ::Environ;
use super::limits::SCOPE_ADDRESS_MAX_BYTES;
use super::marshal_writer::{
    begin_bytes, begin_list, begin_tuple, write_bytes, write_int, write_interned, write_none,
    write_str, write_utf8,
};
use crate::cgi::limits::VARIABLES_MAX_BYTES;
use crate::cgi::variable_error::VariableError;
use crate::field::Field;
use crate::method::Method;
use crate::version::Version;

/// The values of a request's scope besides its fields.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The protocol of the request.
    pub protocol: ScopeProtocol<'a>,
    /// The version of HTTP.
    pub version: Version,
    /// Whether the connection of the client is encrypted.
    pub is_secured: bool,
    /// The whole decoded path. Bytes that are not UTF-8 become U+FFFD.
    pub path: &'a [u8],
    /// The path as the client has sent it, without the query.
    pub raw_path: &'a [u8],
    /// The query, without the question mark.
    pub query: &'a [u8],
    /// The decoded path of the mount, without a slash at its end.
    pub root_path: &'a [u8],
    /// The address of the client; `None` on a Unix socket.
    pub client: Option<SocketAddr>,
    /// The host and the port of the server.
    pub server: (&'a [u8], u16),
}

/// The protocol that a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeProtocol<'a> {
    /// A response.
    Http {
        /// The token of the method.
        method: &'a [u8],
    },
    /// A WebSocket, with the subprotocols that the client offers.
    WebSocket {
        /// The protocols of `Sec-WebSocket-Protocol`, in the order of the client.
        subprotocols: &'a [&'a [u8]],
    },
}

/// Values of a tuple with a name and a value, or with a host and a port.
const PAIR: u8 = 2;

impl Scope<'_> {
    /// Appends the scope to an empty value. `fields` are those that the application gets, except
    /// for `Host`: the host comes first, from `authority` (ASGI says so for HTTP/2, and here it is
    /// the same for all versions). Several lines of `Cookie` become one (RFC 9113 §8.2.3).
    ///
    /// # Errors
    /// [`VariableError::TooLarge`] if the scope has more than [`VARIABLES_MAX_BYTES`].
    pub fn write<'f>(
        &self,
        authority: Option<&[u8]>,
        fields: impl Iterator<Item = Field<'f>> + Clone,
        environ: &mut Environ,
    ) -> Result<(), VariableError> {
        debug_assert!(environ.encoded.is_empty(), "a scope is written into an empty value");
        let out = &mut environ.encoded;
        self.write_protocol(out);
        entry(out, "http_version");
        write_interned(out, version(self.version));
        entry(out, "path");
        write_utf8(out, self.path);
        entry(out, "raw_path");
        write_bytes(out, self.raw_path);
        entry(out, "query_string");
        write_bytes(out, self.query);
        entry(out, "root_path");
        write_utf8(out, self.root_path);
        entry(out, "client");
        self.write_client(out);
        entry(out, "server");
        begin_tuple(out, PAIR);
        write_str(out, self.server.0);
        write_int(out, self.server.1.into());
        entry(out, "headers");
        write_fields(out, authority, fields);
        environ.bytes = environ.encoded.len();
        if environ.bytes > VARIABLES_MAX_BYTES {
            return Err(VariableError::TooLarge);
        }
        Ok(())
    }

    fn write_protocol(&self, out: &mut Vec<u8>) {
        entry(out, "type");
        match self.protocol {
            ScopeProtocol::Http { method } => {
                write_interned(out, b"http");
                entry(out, "method");
                match Method::from_token(method) {
                    Method::Other => write_str(out, method),
                    _ => write_interned(out, method),
                }
            }
            ScopeProtocol::WebSocket { subprotocols } => {
                write_interned(out, b"websocket");
                entry(out, "subprotocols");
                begin_list(out, subprotocols.len() as u32);
                subprotocols.iter().for_each(|protocol| write_str(out, protocol));
            }
        }
        entry(out, "scheme");
        let is_http = matches!(self.protocol, ScopeProtocol::Http { .. });
        write_interned(
            out,
            match (is_http, self.is_secured) {
                (true, false) => b"http",
                (true, true) => b"https",
                (false, false) => b"ws",
                (false, true) => b"wss",
            },
        );
    }

    /// Writes the address and the port, or `None`. An IPv4 address that is mapped into IPv6 is
    /// written as IPv4.
    fn write_client(&self, out: &mut Vec<u8>) {
        let Some(peer) = self.client else { return write_none(out) };
        let mut address = AddressText { bytes: [0; SCOPE_ADDRESS_MAX_BYTES], length: 0 };
        let written = write!(address, "{}", peer.ip().to_canonical());
        debug_assert!(written.is_ok(), "every address fits");
        begin_tuple(out, PAIR);
        write_str(out, address.bytes.get(..address.length).unwrap_or_default());
        write_int(out, peer.port().into());
    }
}

/// Writes the fields as a list of tuples, with names in lower case.
fn write_fields<'f>(
    out: &mut Vec<u8>,
    authority: Option<&[u8]>,
    fields: impl Iterator<Item = Field<'f>> + Clone,
) {
    let is_cookie = |field: &Field<'_>| field.name.eq_ignore_ascii_case(b"Cookie");
    let cookies = fields.clone().filter(is_cookie);
    let cookie_count = cookies.clone().count();
    let written = fields.clone().count() - cookie_count.saturating_sub(1);
    begin_list(out, (written + usize::from(authority.is_some())) as u32);
    if let Some(authority) = authority {
        begin_tuple(out, PAIR);
        write_bytes(out, b"host");
        write_bytes(out, authority);
    }
    let mut has_cookie = false;
    for field in fields {
        if is_cookie(&field) {
            if !has_cookie {
                has_cookie = true;
                begin_tuple(out, PAIR);
                write_bytes(out, b"cookie");
                write_joined(out, cookies.clone());
            }
            continue;
        }
        begin_tuple(out, PAIR);
        let name_at = out.len();
        write_bytes(out, field.name);
        if let Some(name) = out.get_mut(name_at + 1 + size_of::<u32>()..) {
            name.make_ascii_lowercase();
        }
        write_bytes(out, field.value);
    }
}

/// Writes the lines of a cookie as one value.
fn write_joined<'f>(out: &mut Vec<u8>, cookies: impl Iterator<Item = Field<'f>> + Clone) {
    const SEPARATOR: &[u8] = b"; ";
    let bytes: usize = cookies.clone().map(|cookie| cookie.value.len() + SEPARATOR.len()).sum();
    begin_bytes(out, bytes.saturating_sub(SEPARATOR.len()));
    for (position, cookie) in cookies.enumerate() {
        if position > 0 {
            out.extend_from_slice(SEPARATOR);
        }
        out.extend_from_slice(cookie.value);
    }
}

/// Writes a key of the scope.
fn entry(out: &mut Vec<u8>, key: &str) {
    write_interned(out, key.as_bytes());
}

/// Returns a version as ASGI writes it.
fn version(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"1.0",
        Version::Http11 => b"1.1",
        Version::Http2 => b"2",
        Version::Http3 => b"3",
    }
}

/// The text of an address, without an allocation.
struct AddressText {
    bytes: [u8; SCOPE_ADDRESS_MAX_BYTES],
    length: usize,
}

impl core::fmt::Write for AddressText {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(core::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
