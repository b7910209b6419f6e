//! The client of a request that has come through proxies, read from the whole list: addresses by
//! the standard library, `Forwarded` character by character.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use pinion_http::forwarded_client::{ClientField, ClientIdentityError, identify};
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;

/// The client at the end of the chain of [`check`].
const CLIENT: &str = "203.0.113.7";

/// Returns whether a peer is trusted: 10.0.0.0/8, ::1 and Unix sockets.
fn trusts(peer: Option<SocketAddr>) -> bool {
    match peer.map(|peer| peer.ip()) {
        None => true,
        Some(IpAddr::V4(ip)) => ip.octets()[0] == 10,
        Some(IpAddr::V6(ip)) => ip == Ipv6Addr::LOCALHOST,
    }
}

/// Checks an input. The first byte selects the field, the others are the values of its lines.
/// Compares the result with a simple parser, and checks that the values of a client have no effect
/// once trusted proxies have added their own lines after them.
pub(crate) fn check(data: &[u8]) {
    let Some((kind, values)) = data.split_first() else { return };
    let (field, name) = match kind % 2 {
        0 => (ClientField::List((*b"X-Forwarded-For").into()), "X-Forwarded-For"),
        _ => (ClientField::Forwarded, "Forwarded"),
    };
    let lines: Vec<&[u8]> = values.split(|byte| *byte == b'\n').collect();
    let peer: SocketAddr = "10.0.0.1:1000".parse().expect("an address");
    let Some(found) = identity(name, &lines, &field, peer) else { return };
    let expected = match field {
        ClientField::Forwarded => forwarded(&lines, peer),
        ClientField::List(_) => list(&lines, peer),
    };
    match (found, expected) {
        (Ok((found, is_secured)), Some(expected)) => {
            assert_eq!((found, is_secured), expected, "{}", values.escape_ascii());
        }
        (Err(_), None) => {}
        (found, expected) => panic!("{}: {found:?}, {expected:?}", values.escape_ascii()),
    }
    let own: [&[u8]; 2] = match field {
        ClientField::Forwarded => [b"for=203.0.113.7;proto=https", b"for=10.0.0.2"],
        ClientField::List(_) => [b"203.0.113.7", b"10.0.0.2"],
    };
    let lines: Vec<&[u8]> = lines.into_iter().chain(own).collect();
    match identity(name, &lines, &field, peer) {
        Some(Ok((found, _))) => {
            let client = CLIENT.parse().expect("an address");
            assert_eq!(found.map(|peer| peer.ip()), Some(client), "{}", values.escape_ascii());
        }
        Some(Err(error)) => assert_eq!(error, ClientIdentityError::TooMany),
        None => {}
    }
}

/// A client, and whether its connection is encrypted, if that is known.
type Found = (Option<SocketAddr>, Option<bool>);

/// Returns the result of the parser; `None` if the lines are invalid in a request.
fn identity(
    name: &str,
    lines: &[&[u8]],
    field: &ClientField,
    peer: SocketAddr,
) -> Option<Result<Found, ClientIdentityError>> {
    let mut text = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for line in lines {
        text.extend_from_slice(&[name.as_bytes(), b": ", line, b"\r\n"].concat());
    }
    text.extend_from_slice(b"\r\n");
    let mut storage = HeadStorage::reserved();
    let parsed = parse(&text, 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { return None };
    let found = identify(&head.fields, field, Some(peer), trusts);
    Some(found.map(|identity| (identity.peer, identity.is_secured)))
}

/// Evaluates the hops from the peer to the left. `None` is an unreadable hop.
fn walk(
    peer: SocketAddr,
    hops: impl DoubleEndedIterator<Item = Option<(Option<SocketAddr>, Option<bool>)>>,
) -> Option<Found> {
    let (mut client, mut is_secured) = (Some(peer), None);
    for hop in hops.rev() {
        let (address, secured) = hop?;
        (client, is_secured) = (address, secured.or(is_secured));
        if !trusts(client) {
            break;
        }
    }
    Some((client, is_secured))
}

fn list(lines: &[&[u8]], peer: SocketAddr) -> Option<Found> {
    let whole = lines.join(&b","[..]);
    let text: String = whole.iter().map(|byte| char::from(*byte)).collect();
    let members: Vec<&str> =
        text.split(',').map(|member| member.trim_matches([' ', '\t'])).collect();
    let members: Vec<&str> = members.into_iter().filter(|member| !member.is_empty()).collect();
    if members.len() > 100 {
        return None;
    }
    let hop = |member: &&str| {
        if *member == "unix:" {
            return Some((None, None));
        }
        let bare = member.parse::<Ipv6Addr>().ok().map(|ip| SocketAddr::new(ip.into(), 0));
        Some((Some(canonical(bare.or_else(|| address(member))?)), None))
    };
    walk(peer, members.iter().map(hop))
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Parses `192.0.2.1`, `192.0.2.1:80`, `[::1]`, `[::1]:80`, and `_hidden` for a port.
fn address(text: &str) -> Option<SocketAddr> {
    if text.contains('%') {
        return None;
    }
    let of_ip = |text: &str| match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => text.parse::<IpAddr>().ok().filter(IpAddr::is_ipv4),
    };
    if let Some(ip) = of_ip(text) {
        return Some(SocketAddr::new(ip, 0));
    }
    let (ip, port) = text.rsplit_once(':')?;
    let ip = of_ip(ip)?;
    let is_hidden = port.len() > 1
        && port.starts_with('_')
        && port.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if is_hidden {
        return Some(SocketAddr::new(ip, 0));
    }
    let is_number = port.len() <= 5 && port.chars().all(|c| c.is_ascii_digit());
    let port = port.parse().ok().filter(|_| is_number)?;
    Some(SocketAddr::new(ip, port))
}

fn forwarded(lines: &[&[u8]], peer: SocketAddr) -> Option<Found> {
    let elements: Vec<String> =
        lines.iter().flat_map(|line| split(line, ',')).filter(|part| !part.is_empty()).collect();
    if elements.len() > 100 {
        return None;
    }
    let hop = |element: &String| {
        let (mut node, mut proto, mut host) = (None, None, None);
        let bytes: Vec<u8> = element.chars().map(|c| c as u8).collect();
        for pair in split(&bytes, ';').iter().filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=')?;
            let is_quoted = value.len() >= 2 && value.starts_with('"') && value.ends_with('"');
            let value = if is_quoted {
                Some(&value[1..value.len() - 1]).filter(|text| !text.contains(['"', '\\']))?
            } else {
                Some(value).filter(|text| is_token(text))?
            };
            let slot = match name.to_ascii_lowercase().as_str() {
                "for" => &mut node,
                "proto" => &mut proto,
                "host" => &mut host,
                other if is_token(other) => continue,
                _ => return None,
            };
            if slot.replace(value.to_owned()).is_some() {
                return None;
            }
        }
        let address = canonical(address(&node?)?);
        let is_https = |proto: String| ["https", "wss"].contains(&&*proto.to_ascii_lowercase());
        Some((Some(address), proto.map(is_https)))
    };
    walk(peer, elements.iter().map(hop))
}

fn is_token(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(is_allowed)
}

/// Returns the parts between separators outside of quotes, without white space around them.
fn split(bytes: &[u8], separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in bytes.iter().map(|byte| char::from(*byte)) {
        if c == separator && !is_quoted {
            parts.push(String::new());
            continue;
        }
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' && is_quoted {
            is_escaped = true;
        } else if c == '"' {
            is_quoted = !is_quoted;
        }
        parts.last_mut().expect("a part").push(c);
    }
    parts.iter().map(|part| part.trim_matches([' ', '\t']).to_owned()).collect()
}
