//! Requests for a tunnel over a stream of HTTP/2 or HTTP/3 (RFC 8441, RFC 9220), such as those for
//! WebSockets. Only other servers respond to them, where they would respond to a GET as well.

use super::gateway::Gateway;
use super::mounts::Mount;
use super::site_generation::Generation;
use pinion_engine::clock::Now;
use pinion_http::method::Method;
use pinion_http::request_head::RequestHead;
use pinion_site::{Pieces, RequestBuffers, respond};

/// Returns the mount that responds to an extended CONNECT whose path no mount covers: the mount for
/// its extension or that of the whole site, if the site has nothing for a GET.
#[cold]
pub(super) fn fallback_for<'g>(
    generation: &'g Generation,
    head: &RequestHead<'_>,
    now: Now,
    work: &mut RequestBuffers,
    gateway: &mut Gateway,
) -> Option<&'g Mount> {
    let mount = generation.mounts().fallback_for(head.target.path)?;
    if generation.live().is_some_and(|live| live.responses(head.target.path)) {
        return None;
    }
    let archive = generation.archive();
    let get = RequestHead { method: Method::Get, method_token: b"GET", ..*head };
    let mut pieces = Pieces::new();
    let is_missing = respond(&archive, &get, now.unix_seconds, work, &mut pieces).status == 404;
    let is_forwarded =
        is_missing && !gateway.is_refused_by_rule(&archive, &get, now.unix_seconds, None);
    is_forwarded.then_some(mount)
}
