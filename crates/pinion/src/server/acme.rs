//! Answers the challenges of a certificate authority (RFC 8555 §8.3) with files that an ACME client
//! such as certbot has written. They are read at each request, so they are found as soon as they
//! are there, with every kind of site.

use pinion_http::method::Method;
use pinion_http::prepared_response::{Prepared, PreparedBody, SharedFields};
use pinion_http::request_head::RequestHead;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The path of challenges; a token follows right below.
pub(crate) const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

/// The longest key authorization that is read: a token and a thumbprint have some hundred bytes.
const AUTHORIZATION_MAX_BYTES: u64 = 4096;

const FIELDS: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n";

/// The challenges of one server, as one worker responds to them.
pub(crate) struct AcmeChallenges {
    /// The folder that stands for the root of every host, as certbot knows it by `--webroot-path`.
    webroot: Arc<Path>,
    /// The content of the file that was read last.
    body: Vec<u8>,
}

impl AcmeChallenges {
    /// Makes the responses from this folder.
    pub(crate) fn new(webroot: Arc<Path>) -> Self {
        Self { webroot, body: Vec::new() }
    }

    /// Reads the file of a challenge. Returns false if there is none, and for any other request.
    #[inline]
    pub(crate) fn find(&mut self, head: &RequestHead<'_>) -> bool {
        let token = head.target.path.strip_prefix(CHALLENGES);
        token.is_some_and(|token| self.read(head.method, token).is_some())
    }

    /// Returns the response with the file that was read last.
    #[cold]
    pub(crate) fn response(&self) -> Prepared<'_> {
        Prepared {
            shared: SharedFields::h1(FIELDS),
            content_length: Some(self.body.len() as u64),
            body: PreparedBody::Bytes(&self.body),
            ..Prepared::empty(200)
        }
    }

    #[cold]
    fn read(&mut self, method: Method, token: &[u8]) -> Option<()> {
        if !matches!(method, Method::Get | Method::Head) || !is_token(token) {
            return None;
        }
        let relative = [&CHALLENGES[1..], token].concat();
        let path = self.webroot.join(std::ffi::OsStr::from_bytes(&relative));
        // A pipe is opened without waiting for its other end, and a link is not followed.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let file = File::from(openat(CWD, &path, flags, Mode::empty()).ok()?);
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > AUTHORIZATION_MAX_BYTES {
            return None;
        }
        self.body.clear();
        file.take(AUTHORIZATION_MAX_BYTES).read_to_end(&mut self.body).ok()?;
        Some(())
    }
}

/// Returns whether something is a token in base64url (RFC 8555 §8.3), which no path hides in.
pub(crate) fn is_token(token: &[u8]) -> bool {
    let is_token_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !token.is_empty() && token.iter().all(is_token_byte)
}
