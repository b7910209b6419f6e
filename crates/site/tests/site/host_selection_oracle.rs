//! The assignment of requests to hosts, computed a second time, plainly: the fuzz target `hosts`
//! checks it.
//!
//! An input is lines: host patterns, an empty line between those of two sites, and last the
//! requested authority.

use std::net::Ipv6Addr;

use pinion_http::host::split;
use pinion_site::host_selection::{HOST_MAX_BYTES, HostPattern, Hosts};

/// Panics when a pattern is read, or a site chosen, in another way than the plain one.
pub(crate) fn check(data: &[u8]) {
    let Some(end) = data.iter().rposition(|&byte| byte == b'\n') else { return };
    let (patterns, authority) = (&data[..end], &data[end + 1..]);
    let Ok(patterns) = std::str::from_utf8(patterns) else { return };
    let mut sites: Vec<Vec<HostPattern>> = vec![Vec::new()];
    let mut plain: Vec<Vec<String>> = vec![Vec::new()];
    for line in patterns.split('\n') {
        if line.is_empty() {
            sites.push(Vec::new());
            plain.push(Vec::new());
            continue;
        }
        let parsed = HostPattern::parse(line);
        assert_eq!(parsed.as_ref().ok().map(ToString::to_string), name(line), "{line:?}");
        let Ok(pattern) = parsed else { continue };
        assert_eq!(HostPattern::parse(&pattern.to_string()), Ok(pattern.clone()), "{line:?}");
        plain.last_mut().expect("one").push(pattern.to_string());
        sites.last_mut().expect("one").push(pattern);
    }
    let hosts = Hosts::new(sites.iter().map(Vec::as_slice));
    let rest = sites.iter().position(Vec::is_empty);
    assert_eq!((hosts.rest(), hosts.select(None)), (rest, rest));
    let chosen = hosts.select(Some(authority));
    assert_eq!(chosen, model(&plain, authority), "{}", authority.escape_ascii());
}

/// Returns a pattern in small letters, without the dot at its end; None when it is none.
fn name(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let text = text.strip_suffix('.').filter(|text| *text != "*").unwrap_or(&text);
    let is_address = text.starts_with('[') && text.ends_with(']');
    if is_address {
        return text[1..text.len() - 1].parse::<Ipv6Addr>().is_ok().then(|| text.to_owned());
    }
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_label = |label: &str| !label.is_empty() && label.chars().all(is_letter);
    (name.len() <= HOST_MAX_BYTES && name.split('.').all(is_label)).then(|| text.to_owned())
}

/// Compares every pattern with the host.
fn model(sites: &[Vec<String>], authority: &[u8]) -> Option<usize> {
    let rest = sites.iter().position(Vec::is_empty);
    if split(authority).is_err() {
        return rest;
    }
    let text = std::str::from_utf8(authority).expect("no host has other letters");
    let text = text.to_ascii_lowercase();
    let host = match text.find(']') {
        Some(end) => &text[..=end],
        None => text.split(':').next().unwrap_or_default(),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let mut best: Option<(usize, usize)> = None;
    for (site, patterns) in sites.iter().enumerate() {
        for pattern in patterns {
            let rank = match pattern.strip_prefix('*') {
                None if pattern == host => usize::MAX,
                Some(end) if host.ends_with(end) && host.len() > end.len() => end.len(),
                _ => continue,
            };
            if best.is_none_or(|(best, _)| rank > best) {
                best = Some((rank, site));
            }
        }
    }
    let best = best.filter(|_| host.len() <= HOST_MAX_BYTES);
    best.map(|(_, site)| site).or(rest)
}
