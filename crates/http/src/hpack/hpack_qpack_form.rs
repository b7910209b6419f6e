//! The differences between the two forms of a field line where only a static table is used: the
//! bits of the first byte, and the table.

use super::static_table::{self, StaticTable};
use super::{integer, string};
use crate::grammar;
use crate::qpack;

/// The form of HPACK or of QPACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompressionForm {
    /// RFC 7541 §6.
    Hpack,
    /// RFC 9204 §4.5.
    Qpack,
}

impl CompressionForm {
    /// Returns the static table.
    pub(crate) const fn table(self) -> &'static StaticTable {
        match self {
            CompressionForm::Hpack => &static_table::HPACK,
            CompressionForm::Qpack => &qpack::static_table::QPACK,
        }
    }

    /// Appends a reference to a whole entry. Places count from 0.
    #[inline(always)]
    pub(crate) fn indexed(self, out: &mut Vec<u8>, place: usize) {
        match self {
            CompressionForm::Hpack => integer::write(out, 0x80, 7, place + 1),
            CompressionForm::Qpack => integer::write(out, 0xc0, 6, place),
        }
    }

    /// Appends a reference to the name of an entry; the value follows.
    #[inline(always)]
    pub(crate) fn named(self, out: &mut Vec<u8>, place: usize) {
        match self {
            CompressionForm::Hpack => integer::write(out, 0, 4, place + 1),
            CompressionForm::Qpack => integer::write(out, 0x50, 4, place),
        }
    }

    /// Returns whether the name of an entry is that of a field with a secret, which no proxy on the
    /// way may put into a table (RFC 7541 §7.1.3, RFC 9204 §7.1.3): a cookie or credentials. Places
    /// count from 0.
    fn is_secret(self, place: usize) -> bool {
        match self {
            // authorization, cookie, proxy-authorization, set-cookie
            CompressionForm::Hpack => matches!(place, 22 | 31 | 48 | 54),
            // cookie, set-cookie, authorization
            CompressionForm::Qpack => matches!(place, 5 | 14 | 84),
        }
    }

    /// Appends a reference to the name of an entry; the value that follows is never to be indexed.
    fn named_secret(self, out: &mut Vec<u8>, place: usize) {
        match self {
            CompressionForm::Hpack => integer::write(out, 0x10, 4, place + 1),
            CompressionForm::Qpack => integer::write(out, 0x70, 4, place),
        }
    }

    /// Appends a name, by reference if the table has it; the value follows.
    pub(crate) fn name(self, out: &mut Vec<u8>, name: &[u8]) {
        match self.table().find(name, b"") {
            (_, Some(place)) => self.named(out, place),
            (_, None) => self.literal_name(out, name),
        }
    }

    /// Appends a field line in its shortest form: the name in small letters (RFC 9113 §8.2.1), the
    /// value without white space at its ends.
    pub(crate) fn field(self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        let value = grammar::trim(value);
        match self.table().find(name, value) {
            (Some(place), _) => return self.indexed(out, place),
            (None, Some(place)) if self.is_secret(place) => self.named_secret(out, place),
            (None, Some(place)) => self.named(out, place),
            (None, None) => self.literal_name(out, name),
        }
        string::write(out, 0, 7, value.iter().copied(), value.len());
    }

    /// Appends a name in small letters.
    fn literal_name(self, out: &mut Vec<u8>, name: &[u8]) {
        let small = name.iter().map(u8::to_ascii_lowercase);
        match self {
            CompressionForm::Hpack => {
                out.push(0);
                string::write(out, 0, 7, small, name.len());
            }
            CompressionForm::Qpack => string::write(out, 0x20, 3, small, name.len()),
        }
    }
}
