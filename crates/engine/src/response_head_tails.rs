//! The tail of every response head: `Date`, then the listener's own fields, then the blank line.
//! Each is rendered once a second, in the form of each protocol.

use pinion_http::date::{self, DATE_BYTES};
use pinion_http::hpack;
use pinion_http::qpack;

use crate::settings::ListenerSettings;

/// The tails of all listeners.
pub(crate) struct Tails {
    listeners: Vec<Tail>,
    /// The tail without fields of a listener.
    bare: Tail,
    second: i64,
}

/// The tail of one listener, in each form.
struct Tail {
    h1: Vec<u8>,
    hpack: Vec<u8>,
    /// The index at which the fields after the date begin.
    hpack_fields_at: usize,
    qpack: Vec<u8>,
    qpack_fields_at: usize,
}

impl Tail {
    fn new(fields: &[u8], unix_seconds: i64) -> Self {
        let mut h1 = DATE_NAME.to_vec();
        h1.extend_from_slice(&date::format(unix_seconds));
        h1.extend_from_slice(b"\r\n");
        h1.extend_from_slice(fields);
        h1.extend_from_slice(b"\r\n");
        let (hpack, qpack) = Default::default();
        let mut tail = Self { h1, hpack, hpack_fields_at: 0, qpack, qpack_fields_at: 0 };
        tail.compress();
        tail
    }

    fn refresh(&mut self, date: &[u8]) {
        if let Some(place) = self.h1.get_mut(DATE_NAME.len()..DATE_NAME.len() + date.len()) {
            place.copy_from_slice(date);
        }
        self.compress();
    }

    /// Returns one of the binary forms, in which the fields after the date begin at `fields_at`.
    fn binary<'a>(&'a self, all: &'a [u8], fields_at: usize) -> hpack::dynamic_encoder::Tail<'a> {
        let date = self.h1.get(DATE_NAME.len()..).and_then(<[u8]>::first_chunk);
        hpack::dynamic_encoder::Tail {
            date: date.unwrap_or(&date::TEMPLATE),
            fields: all.get(fields_at..).unwrap_or_default(),
            all,
        }
    }

    /// Renders the binary forms of the lines that HTTP/1 has before its blank line.
    fn compress(&mut self) {
        let lines = self.h1.strip_suffix(b"\r\n").unwrap_or_default();
        let (date, fields) = lines.split_at(DATE_LINE_BYTES.min(lines.len()));
        self.hpack.clear();
        hpack::static_encoder::lines(&mut self.hpack, date);
        self.hpack_fields_at = self.hpack.len();
        hpack::static_encoder::lines(&mut self.hpack, fields);
        self.qpack.clear();
        qpack::static_encoder::lines(&mut self.qpack, date);
        self.qpack_fields_at = self.qpack.len();
        qpack::static_encoder::lines(&mut self.qpack, fields);
    }
}

const DATE_NAME: &[u8] = b"Date: ";
const DATE_LINE_BYTES: usize = DATE_NAME.len() + DATE_BYTES + "\r\n".len();

impl Tails {
    pub(crate) fn new(listeners: &[ListenerSettings], unix_seconds: i64) -> Self {
        let tail = |listener: &ListenerSettings| Tail::new(&listener.fields, unix_seconds);
        let bare = Tail::new(b"", unix_seconds);
        Self { listeners: listeners.iter().map(tail).collect(), bare, second: unix_seconds }
    }

    #[inline]
    pub(crate) fn refresh(&mut self, unix_seconds: i64) {
        if unix_seconds == self.second {
            return;
        }
        self.second = unix_seconds;
        let date = date::format(unix_seconds);
        self.listeners.iter_mut().chain([&mut self.bare]).for_each(|tail| tail.refresh(&date));
    }

    /// Returns the tail for HTTP/1.
    #[inline]
    pub(crate) fn line(&self, listener: u16) -> &[u8] {
        &self.listeners[usize::from(listener)].h1
    }

    /// Returns the tail for HTTP/1, with the date alone.
    pub(crate) fn bare_line(&self) -> &[u8] {
        &self.bare.h1
    }

    /// Returns the tail for HTTP/3.
    #[inline]
    pub(crate) fn qpack(&self, listener: u16) -> qpack::dynamic_encoder::Tail<'_> {
        let tail = &self.listeners[usize::from(listener)];
        tail.binary(&tail.qpack, tail.qpack_fields_at)
    }

    /// Returns the tail for HTTP/2.
    #[inline]
    pub(crate) fn hpack(&self, listener: u16) -> hpack::dynamic_encoder::Tail<'_> {
        let tail = &self.listeners[usize::from(listener)];
        tail.binary(&tail.hpack, tail.hpack_fields_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Protocol, Protocols};
    use pinion_http::field_section::FieldSection;
    use pinion_http::limits::Limits;

    #[test]
    fn every_encoding_of_a_tail_has_the_current_date() {
        let listener = ListenerSettings {
            fields: b"Server: Pinion\r\n".to_vec(),
            ..ListenerSettings::plain(Protocol::Http(Protocols::ALL))
        };
        let mut tails = Tails::new(&[listener], 784_111_777);
        for (unix_seconds, date) in [
            (784_111_777, b"Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778, b"Sun, 06 Nov 1994 08:49:38 GMT"),
        ] {
            tails.refresh(unix_seconds);
            let lines = [&b"Date: "[..], date, b"\r\nServer: Pinion\r\n\r\n"].concat();
            assert_eq!(tails.line(0), lines);
            assert_eq!(tails.bare_line(), [&b"Date: "[..], date, b"\r\n\r\n"].concat());
            let (mut section, limits) = (FieldSection::new(), Limits::default());
            let mut hpack = hpack::decoder::Decoder::new(4096);
            hpack.decode(tails.hpack(0).all, &mut section, &limits).expect("a block");
            assert_eq!(section.fields().get(b"date"), Some(&date[..]));
            // A prefix precedes all fields (RFC 9204 §4.5.1).
            let block = [&[0, 0], tails.qpack(0).all].concat();
            qpack::decoder::decode(&block, &mut section, &limits).expect("a section");
            assert_eq!(section.fields().get(b"date"), Some(&date[..]));
        }
    }
}
