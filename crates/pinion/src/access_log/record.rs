//! One request as the log keeps it, and its binary form in the ring: fixed numbers first, then the
//! texts, each with its length and cut to a bound.

use super::open_logs::LogId;
use pinion_http::version::Version;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;

/// Longest method token that is kept; the longest registered one has 17 letters.
const METHOD_MAX_BYTES: usize = 20;
/// Longest target that is kept: tools that read logs give up on longer lines.
const TARGET_MAX_BYTES: usize = 2048;
/// Longest host that is kept: the longest name of the DNS, and a port.
const HOST_MAX_BYTES: usize = 260;
/// Longest `Referer` and `User-Agent` that are kept.
const FIELD_MAX_BYTES: usize = 512;
/// The longest user name that is kept, in bytes: the limit of password files.
const USER_MAX_BYTES: usize = 254;
/// Longest number of a request that is kept: twice that of a number of this server.
const REQUEST_ID_MAX_BYTES: usize = 64;

const FIXED_BYTES: usize = 48;

/// The positions in the fixed part of the members that [`LogRecord::amend`] sets.
const BODY_BYTES: Range<usize> = 8..16;
const DURATION: Range<usize> = 32..36;
const CUT_AT: usize = 42;
/// The position of the flag whether a user and a number of the request follow the other texts.
const IDENTITY_AT: usize = 43;
/// The position of the number of the log.
const LOG: Range<usize> = 44..46;

/// The most that [`LogRecord::encode`] appends.
pub(crate) const RECORD_MAX_BYTES: usize = FIXED_BYTES
    + 7 * 2
    + USER_MAX_BYTES
    + REQUEST_ID_MAX_BYTES
    + METHOD_MAX_BYTES
    + TARGET_MAX_BYTES
    + HOST_MAX_BYTES
    + 2 * FIELD_MAX_BYTES;

/// One request that got its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogRecord<'a> {
    /// The log of its line.
    pub(crate) log: LogId,
    /// The time when its request had been read, in microseconds since 1970-01-01 00:00 UTC.
    pub(crate) unix_micros: i64,
    /// Who asked.
    pub(crate) peer: LoggedPeer,
    /// The version in the request line; `None` when the request could not be read.
    pub(crate) version: Option<Version>,
    /// The status of the final response.
    pub(crate) status: u16,
    /// Bytes of content that the kernel has taken. Of those, a client that went away may have got
    /// fewer.
    pub(crate) body_bytes: u64,
    /// The time from when the head of the request had been read, to when the kernel had taken the
    /// last byte of the response, or the connection had ended.
    pub(crate) duration_micros: u32,
    /// The connection ended before the kernel had taken all of the response.
    pub(crate) cut: bool,
    /// The method as sent; empty when the request could not be read.
    pub(crate) method: Text<'a>,
    /// The target as sent.
    pub(crate) target: Text<'a>,
    /// The host of the request, from its target or its `Host`; empty when not sent.
    pub(crate) host: Text<'a>,
    /// Empty when not sent.
    pub(crate) referer: Text<'a>,
    /// Empty when not sent.
    pub(crate) user_agent: Text<'a>,
    /// Whose password was verified; empty when none was.
    pub(crate) user: Text<'a>,
    /// The number of the request; empty when it has none.
    pub(crate) request_id: Text<'a>,
}

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoggedPeer {
    /// Over TCP.
    Ip(SocketAddr),
    /// Over a Unix socket.
    Unix,
}

/// Bytes a client chose, perhaps cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    /// The bytes, at most the bound of its member.
    pub(crate) bytes: &'a [u8],
    /// The client sent more.
    pub(crate) cut: bool,
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, cut: false }
    }
}

/// The top bit of a text's length says that it was cut.
const CUT: u16 = 1 << 15;

impl<'a> LogRecord<'a> {
    /// Returns the bytes of the binary form.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let text = |text: Text<'_>, max_bytes| size_of::<u16>() + text.bytes.len().min(max_bytes);
        FIXED_BYTES
            + text(self.method, METHOD_MAX_BYTES)
            + text(self.target, TARGET_MAX_BYTES)
            + text(self.host, HOST_MAX_BYTES)
            + text(self.referer, FIELD_MAX_BYTES)
            + text(self.user_agent, FIELD_MAX_BYTES)
            + self.identity_bytes()
    }

    /// Returns the bytes of the user and the number of the request in the binary form.
    fn identity_bytes(&self) -> usize {
        let text = |text: Text<'_>, max_bytes| size_of::<u16>() + text.bytes.len().min(max_bytes);
        if !self.has_identity() {
            return 0;
        }
        text(self.user, USER_MAX_BYTES) + text(self.request_id, REQUEST_ID_MAX_BYTES)
    }

    /// Returns whether it has a user or a number of the request. Most requests have neither.
    fn has_identity(&self) -> bool {
        !(self.user.bytes.is_empty() && self.request_id.bytes.is_empty())
    }

    /// Appends the binary form, at most [`RECORD_MAX_BYTES`].
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (ip, port) = match self.peer {
            LoggedPeer::Ip(SocketAddr::V4(peer)) => (peer.ip().to_ipv6_mapped(), peer.port()),
            LoggedPeer::Ip(SocketAddr::V6(peer)) => (*peer.ip(), peer.port()),
            LoggedPeer::Unix => (Ipv6Addr::UNSPECIFIED, 0),
        };
        let mut fixed = [0; FIXED_BYTES];
        fixed[0..8].copy_from_slice(&self.unix_micros.to_ne_bytes());
        fixed[BODY_BYTES].copy_from_slice(&self.body_bytes.to_ne_bytes());
        fixed[16..32].copy_from_slice(&ip.octets());
        fixed[DURATION].copy_from_slice(&self.duration_micros.to_ne_bytes());
        fixed[36..38].copy_from_slice(&port.to_ne_bytes());
        fixed[38..40].copy_from_slice(&self.status.to_ne_bytes());
        fixed[40] = u8::from(matches!(self.peer, LoggedPeer::Unix));
        fixed[CUT_AT] = u8::from(self.cut);
        fixed[LOG].copy_from_slice(&self.log.0.to_ne_bytes());
        fixed[IDENTITY_AT] = u8::from(self.has_identity());
        fixed[41] = self.version.map_or(0, |version| 1 + version as u8);
        out.extend_from_slice(&fixed);
        append(out, self.method, METHOD_MAX_BYTES);
        append(out, self.target, TARGET_MAX_BYTES);
        append(out, self.host, HOST_MAX_BYTES);
        append(out, self.referer, FIELD_MAX_BYTES);
        append(out, self.user_agent, FIELD_MAX_BYTES);
        if self.has_identity() {
            append(out, self.user, USER_MAX_BYTES);
            append(out, self.request_id, REQUEST_ID_MAX_BYTES);
        }
    }

    /// Sets, in the binary form, the values that are known only at the end.
    pub(crate) fn amend(message: &mut [u8], body_bytes: u64, duration_micros: u32, cut: bool) {
        if let Some(fixed) = message.first_chunk_mut::<FIXED_BYTES>() {
            fixed[BODY_BYTES].copy_from_slice(&body_bytes.to_ne_bytes());
            fixed[DURATION].copy_from_slice(&duration_micros.to_ne_bytes());
            fixed[CUT_AT] = u8::from(cut);
        }
    }

    /// Reads the binary form back; none when it is none.
    pub(crate) fn decode(message: &'a [u8]) -> Option<Self> {
        let (fixed, mut texts) = message.split_first_chunk::<FIXED_BYTES>()?;
        let ip = IpAddr::from(number::<16>(fixed, 16)?).to_canonical();
        let port = u16::from_ne_bytes(number(fixed, 36)?);
        let has_identity = fixed[IDENTITY_AT] != 0;
        let nothing = Text::from(&b""[..]);
        Some(Self {
            log: LogId(u16::from_ne_bytes(number(fixed, LOG.start)?)),
            unix_micros: i64::from_ne_bytes(number(fixed, 0)?),
            peer: match fixed[40] {
                0 => LoggedPeer::Ip(SocketAddr::new(ip, port)),
                _ => LoggedPeer::Unix,
            },
            version: version(fixed[41]),
            status: u16::from_ne_bytes(number(fixed, 38)?),
            body_bytes: u64::from_ne_bytes(number(fixed, 8)?),
            cut: fixed[CUT_AT] != 0,
            duration_micros: u32::from_ne_bytes(number(fixed, 32)?),
            method: split(&mut texts)?,
            target: split(&mut texts)?,
            host: split(&mut texts)?,
            referer: split(&mut texts)?,
            user_agent: split(&mut texts)?,
            user: if has_identity { split(&mut texts)? } else { nothing },
            request_id: if has_identity { split(&mut texts)? } else { nothing },
        })
    }
}

fn append(out: &mut Vec<u8>, text: Text<'_>, max_bytes: usize) {
    let kept = text.bytes.get(..max_bytes);
    let cut = text.cut || (kept.is_some() && text.bytes.len() > max_bytes);
    let kept = kept.unwrap_or(text.bytes);
    // Every bound above is far below 2^15.
    let length = kept.len() as u16 | if cut { CUT } else { 0 };
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(kept);
}

fn split<'a>(texts: &mut &'a [u8]) -> Option<Text<'a>> {
    let (length, rest) = texts.split_first_chunk::<2>()?;
    let length = u16::from_ne_bytes(*length);
    let (bytes, rest) = rest.split_at_checked(usize::from(length & !CUT))?;
    *texts = rest;
    Some(Text { bytes, cut: length & CUT != 0 })
}

fn number<const N: usize>(fixed: &[u8; FIXED_BYTES], at: usize) -> Option<[u8; N]> {
    fixed.get(at..)?.first_chunk().copied()
}

fn version(code: u8) -> Option<Version> {
    [Version::Http10, Version::Http11, Version::Http2, Version::Http3]
        .into_iter()
        .find(|version| code == 1 + *version as u8)
}

/// Returns a record for tests to vary.
#[cfg(test)]
pub(crate) fn example() -> LogRecord<'static> {
    LogRecord {
        log: LogId::default(),
        unix_micros: 784_111_777_123_456,
        peer: LoggedPeer::Ip(SocketAddr::from(([192, 0, 2, 7], 50123))),
        version: Some(Version::Http11),
        status: 200,
        body_bytes: 13,
        duration_micros: 42,
        cut: false,
        method: Text::from(&b"GET"[..]),
        target: Text::from(&b"/a?b=c"[..]),
        host: Text::from(&b"localhost:8080"[..]),
        referer: Text::from(&b"https://example.org/"[..]),
        user_agent: Text::from(&b"curl/8"[..]),
        user: Text::from(&b""[..]),
        request_id: Text::from(&b""[..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_round_trips() {
        let v6 = LoggedPeer::Ip("[2001:db8::1]:443".parse().expect("an address"));
        for record in [
            example(),
            LogRecord { peer: v6, version: Some(Version::Http10), ..example() },
            LogRecord {
                peer: LoggedPeer::Unix,
                version: None,
                method: Text::from(&b""[..]),
                ..example()
            },
            LogRecord { log: LogId(u16::MAX), ..example() },
            LogRecord { user: Text::from(&b"ann"[..]), ..example() },
            LogRecord { request_id: Text::from(&b"7f"[..]), ..example() },
            LogRecord { unix_micros: -1, body_bytes: u64::MAX, cut: true, ..example() },
        ] {
            let mut message = Vec::new();
            record.encode(&mut message);
            assert_eq!(message.len(), record.encoded_bytes());
            assert_eq!(LogRecord::decode(&message), Some(record));
        }
    }

    #[test]
    fn amending_changes_only_the_size_duration_and_cut() {
        let mut message = Vec::new();
        example().encode(&mut message);
        LogRecord::amend(&mut message, 7, 99, true);
        let amended = LogRecord { body_bytes: 7, duration_micros: 99, cut: true, ..example() };
        assert_eq!(LogRecord::decode(&message), Some(amended));
    }

    #[test]
    fn long_texts_are_truncated_and_marked() {
        let long = [b'x'; 1 << 16];
        let long = Text::from(&long[..]);
        let mut message = Vec::new();
        let texts = LogRecord { method: long, target: long, host: long, ..example() };
        let texts = LogRecord { user: long, request_id: long, ..texts };
        LogRecord { referer: long, user_agent: long, ..texts }.encode(&mut message);
        assert_eq!(message.len(), RECORD_MAX_BYTES);
        let record = LogRecord::decode(&message).expect("a record");
        for (text, bound) in [
            (record.method, METHOD_MAX_BYTES),
            (record.target, TARGET_MAX_BYTES),
            (record.host, HOST_MAX_BYTES),
            (record.user_agent, FIELD_MAX_BYTES),
            (record.user, USER_MAX_BYTES),
            (record.request_id, REQUEST_ID_MAX_BYTES),
        ] {
            assert_eq!((text.bytes.len(), text.cut), (bound, true));
        }
    }

    #[test]
    fn an_incomplete_record_is_not_decoded() {
        let mut message = Vec::new();
        example().encode(&mut message);
        for length in 0..message.len() {
            assert_eq!(LogRecord::decode(&message[..length]), None, "{length}");
        }
    }

    #[test]
    fn a_client_of_a_dual_stack_socket_is_shown_by_its_own_address() {
        let mapped = LoggedPeer::Ip("[::ffff:192.0.2.7]:50123".parse().expect("an address"));
        let mut message = Vec::new();
        LogRecord { peer: mapped, ..example() }.encode(&mut message);
        assert_eq!(LogRecord::decode(&message), Some(example()));
    }
}
