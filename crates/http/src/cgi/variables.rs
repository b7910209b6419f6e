//! The variables of a request, which CGI, FastCGI and SCGI have in common (RFC 3875 §4.1).
//!
//! A program trusts its variables, so a client chooses the value of those that begin with `HTTP_`
//! and of a few others, and the name of none but those. Fields never become variables if:
//!
//! - the name has a byte that is no letter, digit or hyphen: `X_Real-IP` and `X-Real-IP` would be
//!   one variable (RFC 3875 §4.1.18);
//! - the name is `Proxy`: libraries take `HTTP_PROXY` for the address of a proxy (CVE-2016-5385);
//! - they are of the connection, by their names or because `Connection` names them (RFC 9110
//!   §7.6.1), or ask the server for something (`Expect`);
//! - they have a password that the server has checked or may check: `Authorization`, unless the
//!   program is to get it, and `Proxy-Authorization` (RFC 3875 §9.2).

use core::fmt::Write as _;
use core::net::{IpAddr, SocketAddr};

use crate::field::{Field, KnownField};
use crate::forwarded_client::ClientIdentity;
use crate::grammar::list;
use crate::h1::client::request_writer::RequestContent;
use crate::h1::response_encoder::decimal;
use crate::limits::LIST_MEMBERS_MAX;
use crate::request_head::RequestHead;
use crate::reserved_fields::{FieldUses, is_reserved};

/// Everything that the variables of one request are made of.
#[derive(Clone, Copy, Debug)]
pub struct RequestVariables<'a> {
    /// The request. `REMOTE_USER` and `AUTH_TYPE` are of the user that the server has verified,
    /// never of a field.
    pub head: &'a RequestHead<'a>,
    /// The client: `REMOTE_ADDR`, `REMOTE_PORT`, `HTTPS` and `REQUEST_SCHEME`.
    pub client: ClientIdentity,
    /// Which server has got it.
    pub server: ServerVariables<'a>,
    /// Which program responds.
    pub script: ScriptVariables<'a>,
    /// The length of the content: `CONTENT_LENGTH`. The length of chunked content is not known.
    pub content: RequestContent,
    /// Whether the program gets `Authorization` as `HTTP_AUTHORIZATION`.
    pub passes_authorization: bool,
    /// Variables that the owner of the site has added. They replace those of the same name.
    pub added: &'a [(&'a [u8], &'a [u8])],
}

/// Variables of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerVariables<'a> {
    /// `SERVER_NAME`: the host without a port, an IPv6 address in brackets (RFC 3875 §4.1.14). It
    /// is the host that the server has matched, not the text of the client.
    pub name: &'a [u8],
    /// `SERVER_PORT`.
    pub port: u16,
    /// `SERVER_SOFTWARE`.
    pub software: &'a [u8],
}

/// Variables of the program that responds.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptVariables<'a> {
    /// `DOCUMENT_ROOT`; left out if it is empty.
    pub document_root: &'a [u8],
    /// `SCRIPT_FILENAME`: the path of the file; left out if it is empty.
    pub filename: &'a [u8],
    /// `SCRIPT_NAME`: the front of the decoded path that leads to the program (RFC 3875 §4.1.13).
    pub name: &'a [u8],
    /// `PATH_INFO`: the decoded path behind it (RFC 3875 §4.1.5); left out if it is empty.
    pub path_info: &'a [u8],
}

/// Memory for names and values that are put together. Kept from request to request it allocates
/// once.
#[derive(Clone, Debug, Default)]
pub struct VariableScratch {
    name: Vec<u8>,
    value: Vec<u8>,
    text: String,
}

impl RequestVariables<'_> {
    /// Calls `visit` with the name and value of each variable. No name comes twice.
    ///
    /// # Errors
    /// Returns the first error of `visit`, and does not call it again.
    pub fn visit<E>(
        &self,
        scratch: &mut VariableScratch,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (name, value) in self.added {
            visit(name, value)?;
        }
        let is_added = |name: &[u8]| self.added.iter().any(|(added, _)| *added == name);
        let mut give = |name: &[u8], value: &[u8]| {
            if is_added(name) { Ok(()) } else { visit(name, value) }
        };
        self.visit_request(scratch, &mut give)?;
        self.visit_server(scratch, &mut give)?;
        self.visit_client(scratch, &mut give)?;
        self.visit_fields(scratch, &mut give)
    }

    /// Variables of the request line, of the content and of the program.
    fn visit_request<E>(
        &self,
        scratch: &mut VariableScratch,
        give: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { head, script, .. } = self;
        let VariableScratch { value, .. } = scratch;
        give(b"GATEWAY_INTERFACE", b"CGI/1.1")?;
        give(b"SERVER_PROTOCOL", head.version.as_str().as_bytes())?;
        give(b"REQUEST_METHOD", head.method_token)?;
        give(b"QUERY_STRING", head.target.query.unwrap_or_default())?;
        value.clear();
        value.extend_from_slice(head.target.path);
        if let Some(query) = head.target.query {
            value.push(b'?');
            value.extend_from_slice(query);
        }
        give(b"REQUEST_URI", value)?;
        give(b"SCRIPT_NAME", script.name)?;
        let paths: [(&[u8], &[u8]); 3] = [
            (b"PATH_INFO", script.path_info),
            (b"SCRIPT_FILENAME", script.filename),
            (b"DOCUMENT_ROOT", script.document_root),
        ];
        for (name, path) in paths.into_iter().filter(|(_, path)| !path.is_empty()) {
            give(name, path)?;
        }
        if let RequestContent::Length(bytes) = self.content
            && (bytes > 0 || head.method.expects_content())
        {
            value.clear();
            decimal(value, bytes);
            give(b"CONTENT_LENGTH", value)?;
        }
        if join(value, head.fields.iter(), b"Content-Type") {
            give(b"CONTENT_TYPE", value)?;
        }
        Ok(())
    }

    fn visit_server<E>(
        &self,
        scratch: &mut VariableScratch,
        give: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let ServerVariables { name, port, software } = self.server;
        give(b"SERVER_NAME", name)?;
        scratch.value.clear();
        decimal(&mut scratch.value, u64::from(port));
        give(b"SERVER_PORT", &scratch.value)?;
        give(b"SERVER_SOFTWARE", software)
    }

    /// Variables of the client. One on a Unix socket has the address `unix:`, as nginx writes it,
    /// and an IPv4 address that is mapped into IPv6 is written as IPv4.
    fn visit_client<E>(
        &self,
        scratch: &mut VariableScratch,
        give: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let ClientIdentity { peer, is_secured } = self.client;
        let text = &mut scratch.text;
        text.clear();
        let written = match peer.map(|peer| peer.ip().to_canonical()) {
            None => text.write_str("unix:"),
            Some(IpAddr::V4(ip)) => write!(text, "{ip}"),
            Some(IpAddr::V6(ip)) => write!(text, "{ip}"),
        };
        debug_assert!(written.is_ok(), "a string takes everything");
        give(b"REMOTE_ADDR", text.as_bytes())?;
        if let Some(port) = peer.as_ref().map(SocketAddr::port).filter(|&port| port > 0) {
            scratch.value.clear();
            decimal(&mut scratch.value, u64::from(port));
            give(b"REMOTE_PORT", &scratch.value)?;
        }
        give(b"REQUEST_SCHEME", self.client.scheme().as_bytes())?;
        if is_secured {
            give(b"HTTPS", b"on")?;
        }
        if let Some(user) = self.head.user() {
            give(b"AUTH_TYPE", b"Basic")?;
            give(b"REMOTE_USER", user.as_bytes())?;
        }
        Ok(())
    }

    /// Variables of the fields (RFC 3875 §4.1.18). `HTTP_HOST` is the authority of the request,
    /// which in HTTP/2 and HTTP/3 is no field.
    fn visit_fields<E>(
        &self,
        scratch: &mut VariableScratch,
        give: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(authority) = self.head.authority {
            give(b"HTTP_HOST", authority)?;
        }
        let fields = self.head.fields;
        for (position, field) in fields.iter().enumerate() {
            let is_same = |other: &Field<'_>| other.name.eq_ignore_ascii_case(field.name);
            if fields.iter().take(position).any(|before| is_same(&before))
                || !self.is_passed(field.name)
            {
                continue;
            }
            let VariableScratch { name, value, .. } = scratch;
            name.clear();
            name.extend_from_slice(b"HTTP_");
            name.extend(field.name.iter().map(|&byte| match byte {
                b'-' => b'_',
                byte => byte.to_ascii_uppercase(),
            }));
            join(value, fields.iter().skip(position), field.name);
            give(name, value)?;
        }
        Ok(())
    }

    /// Returns whether a field becomes a variable.
    fn is_passed(&self, name: &[u8]) -> bool {
        let is_plain = |&byte: &u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if !name.iter().all(is_plain)
            || is_reserved(name, FieldUses::CGI_VARIABLES)
            || (is("Authorization") && !self.passes_authorization)
        {
            return false;
        }
        let options = self.head.values(KnownField::Connection).flat_map(list);
        !options.take(LIST_MEMBERS_MAX).any(|option| option.eq_ignore_ascii_case(name))
    }
}

/// Puts the values of all lines of a name together (RFC 9110 §5.3, RFC 9113 §8.2.3), and returns
/// whether there is one.
fn join<'a>(out: &mut Vec<u8>, fields: impl Iterator<Item = Field<'a>>, name: &[u8]) -> bool {
    let separator: &[u8] = if name.eq_ignore_ascii_case(b"Cookie") { b"; " } else { b", " };
    out.clear();
    let mut is_first = true;
    for field in fields.filter(|field| field.name.eq_ignore_ascii_case(name)) {
        if !is_first {
            out.extend_from_slice(separator);
        }
        is_first = false;
        out.extend_from_slice(field.value);
    }
    !is_first
}
