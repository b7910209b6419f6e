//! The additions of `--dev` to a site for its developer: pages that reload when the site changes,
//! and pages that show why a build or a script has failed.
//!
//! A developer is a client on this machine that asks for a host of this machine
//! ([`Developer::of`]). Everybody else gets the site as it is without `--dev`.
//!
//! | Module | Holds |
//! |---|---|
//! | [`developer_responses`] | responses of the archive as a developer gets them |
//! | [`developer_error_page`] | the page about an error, with lines of the source |
//! | [`load_failure`] | why a site could not be loaded |
//! | [`reload_streams`] | the script of the pages, and the streams that tell it to reload |
//! | [`source_lines`] | positions in error messages, and the lines of the source around them |

pub(crate) mod developer_error_page;
pub(crate) mod developer_responses;
pub(crate) mod load_failure;
pub(crate) mod reload_streams;
pub(crate) mod source_lines;

use pinion_http::field::KnownField;
use pinion_http::host;
use pinion_http::method::Method;
use pinion_http::negotiate::names_html;
use pinion_http::request_head::RequestHead;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The script that reloads a page.
pub(crate) const SCRIPT_PATH: &str = "/.pinion/reload.js";

/// The stream of events that the script listens to.
pub(crate) const STREAM_PATH: &str = "/.pinion/reload";

/// Fields by which a proxy says that it forwards the request of another client.
const FORWARDED: [&[u8]; 4] = [b"Forwarded", b"Via", b"X-Forwarded-For", b"X-Real-IP"];

/// A request of the developer of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Developer {
    /// The version of the site that the response shows.
    pub(crate) version: u64,
    /// Whether the response becomes a page of a browser, which is to reload.
    pub(crate) wants_page: bool,
}

impl Developer {
    /// Returns the developer who sends a request to a site that is served with `--dev`; `None` for
    /// any other client.
    ///
    /// The address alone is no proof: a page of another site can send the browser here under a name
    /// of its own (DNS rebinding), and a proxy on this machine has the address of this machine.
    pub(crate) fn of(
        version: u64,
        head: &RequestHead<'_>,
        peer: Option<SocketAddr>,
    ) -> Option<Self> {
        let is_near = peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
        let is_developer = is_near
            && head.authority.is_some_and(is_local_authority)
            && !FORWARDED.iter().any(|name| head.fields.get(name).is_some());
        is_developer.then(|| Self { version, wants_page: wants_page(head) })
    }

    /// Returns the text at the end of a page that makes the page reload; nothing where the response
    /// does not become a page.
    pub(crate) fn page_end(self) -> Vec<u8> {
        if !self.wants_page {
            return Vec::new();
        }
        format!("<script src={SCRIPT_PATH}?{:x}></script>\n", self.version).into_bytes()
    }
}

/// Returns whether an authority names this machine: `localhost`, a name below it, which browsers
/// resolve to this machine (RFC 6761 §6.3), or a loopback address.
fn is_local_authority(authority: &[u8]) -> bool {
    let Ok(split) = host::split(authority) else { return false };
    let Ok(name) = std::str::from_utf8(split.without_dot()) else { return false };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = address.parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns whether a request is for a page that a browser shows. Responses to scripts of a page,
/// such as parts of HTML that replace others, do not change.
fn wants_page(head: &RequestHead<'_>) -> bool {
    let is_read = matches!(head.method, Method::Get | Method::Head);
    is_read
        && match head.fields.get(b"Sec-Fetch-Dest") {
            Some(destination) => matches!(destination, b"document" | b"frame" | b"iframe"),
            None => names_html(head.values(KnownField::Accept)),
        }
}

/// Returns a number that is greater than those of all earlier states of all sites, also of those
/// of a server that ran before on this machine.
pub(crate) fn next_version() -> u64 {
    static NEXT: OnceLock<AtomicU64> = OnceLock::new();
    let first = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        AtomicU64::new(since.as_micros() as u64)
    };
    NEXT.get_or_init(first).fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_addresses_of_this_machine_are_local() {
        for (authority, expected) in [
            ("localhost", true),
            ("LOCALHOST.:8080", true),
            ("shop.localhost:8080", true),
            ("127.0.0.1:8080", true),
            ("127.8.9.1", true),
            ("[::1]:80", true),
            ("[::ffff:127.0.0.1]", true),
            ("example.org", false),
            ("localhost.example.org", false),
            ("notlocalhost", false),
            ("192.168.1.2:8080", false),
            ("[2001:db8::1]", false),
            ("0.0.0.0", false),
            ("", false),
            ("user@localhost", false),
        ] {
            assert_eq!(is_local_authority(authority.as_bytes()), expected, "{authority}");
        }
    }

    #[test]
    fn version_numbers_increase() {
        let (first, second) = (next_version(), next_version());
        assert!(first > 0 && second > first);
    }

    #[test]
    fn a_page_ends_with_the_reload_script_of_its_version() {
        let developer = Developer { version: 0xabc, wants_page: true };
        let end = developer.page_end();
        assert_eq!(end, b"<script src=/.pinion/reload.js?abc></script>\n");
        assert!(Developer { wants_page: false, ..developer }.page_end().is_empty());
    }
}
