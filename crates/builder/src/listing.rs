//! The response of a folder without an index page with `--listing`: its entries as a page, and as
//! JSON for clients that prefer that.
//!
//! | Module | Does |
//! |---|---|
//! | `natural_order` | names as people sort them |
//! | `page` | entries → HTML, without script, nothing loaded |
//! | `json` | entries → the array that nginx's `autoindex_format json` has |
//! | `style_policy` | lets the page have its style where a site forbids inline styles |
//!
//! Only published files are listed: files that respond under their own name, and folders that hold
//! some. Names are bytes. Where they have to be text, bytes that are none are replaced; addresses
//! are escaped from the bytes themselves and lead to every file.

mod json;
mod natural_order;
mod page;
mod style_policy;

use std::cmp::Reverse;

use pinion_http::date::UnixSeconds;
use pinion_http::request_target::{escape, is_path_byte};

pub(crate) use json::json;
pub(crate) use page::{POLICY, STYLE_HASH, page};
pub(crate) use style_policy::allowing_style;

/// A file that is listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedFile<'a> {
    /// Its path, with a slash in front.
    pub(crate) key: &'a [u8],
    pub(crate) bytes: u64,
    pub(crate) modified: Option<UnixSeconds>,
}

/// The content of one folder.
#[derive(Debug)]
pub(crate) struct Listing<'a> {
    /// Its path, with a slash on both ends.
    pub(crate) folder: &'a [u8],
    /// Folders first, each kind in the order of names.
    pub(crate) rows: Vec<ListingRow<'a>>,
}

/// A file or a folder in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListingRow<'a> {
    /// The name without a slash.
    pub(crate) name: &'a [u8],
    /// The length of a file; `None` for a folder.
    pub(crate) bytes: Option<u64>,
    /// The modification time; of a folder, that of the newest file below it.
    pub(crate) modified: Option<UnixSeconds>,
}

impl<'a> Listing<'a> {
    /// Lists a folder. `below` are all files in it and in folders below it, sorted by path.
    pub(crate) fn new(
        folder: &'a [u8],
        below: impl IntoIterator<Item = ListedFile<'a>>,
    ) -> Listing<'a> {
        let mut rows: Vec<ListingRow<'a>> = Vec::new();
        for ListedFile { key, bytes, modified } in below {
            let path = key.get(folder.len()..).unwrap_or_default();
            let slash = path.iter().position(|&byte| byte == b'/');
            let row = match slash.and_then(|slash| path.get(..slash)) {
                Some(name) => ListingRow { name, bytes: None, modified },
                None => ListingRow { name: path, bytes: Some(bytes), modified },
            };
            match rows.last_mut() {
                // The files of a folder follow each other.
                Some(last) if row.is_folder() && last.is_folder() && last.name == row.name => {
                    last.modified = last.modified.max(modified);
                }
                _ => rows.push(row),
            }
        }
        rows.sort_unstable_by(|a, b| {
            Reverse(a.is_folder())
                .cmp(&Reverse(b.is_folder()))
                .then(natural_order::natural(a.name, b.name))
        });
        Listing { folder, rows }
    }

    /// Returns when the newest of its entries was modified.
    pub(crate) fn modified(&self) -> Option<UnixSeconds> {
        self.rows.iter().filter_map(|row| row.modified).max()
    }
}

impl ListingRow<'_> {
    pub(crate) fn is_folder(&self) -> bool {
        self.bytes.is_none()
    }

    /// Returns the address of the row, relative to that of its folder.
    fn url(&self) -> Vec<u8> {
        let mut url = Vec::with_capacity(self.name.len() + 3);
        // RFC 3986 §4.2: text before a colon would be a scheme.
        if self.name.contains(&b':') {
            url.extend_from_slice(b"./");
        }
        escape(&mut url, self.name.iter().copied(), is_path_byte);
        if self.is_folder() {
            url.push(b'/');
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn listed<'a>(files: &[(&'a str, u64, UnixSeconds)]) -> Vec<ListedFile<'a>> {
        let mut listed: Vec<_> = files
            .iter()
            .map(|&(key, bytes, modified)| ListedFile {
                key: key.as_bytes(),
                bytes,
                modified: Some(modified),
            })
            .collect();
        listed.sort_unstable_by_key(|listed| listed.key);
        listed
    }

    #[test]
    fn folders_are_listed_first_with_the_time_of_their_newest_file() {
        let files = [
            ("/d/b10", 1, 5),
            ("/d/b9", 2, 6),
            ("/d/x/1", 3, 7),
            ("/d/x/y/2", 4, 9),
            ("/d/x/z", 4, 8),
            ("/d/x-1", 5, 1),
        ];
        let listing = Listing::new(b"/d/", listed(&files));
        let rows: Vec<_> =
            listing.rows.iter().map(|row| (row.name, row.bytes, row.modified)).collect();
        assert_eq!(
            rows,
            [
                (&b"x"[..], None, Some(9)),
                (b"b9", Some(2), Some(6)),
                (b"b10", Some(1), Some(5)),
                (b"x-1", Some(5), Some(1)),
            ]
        );
        assert_eq!(listing.modified(), Some(9));
        assert_eq!(Listing::new(b"/", []).modified(), None);
    }

    #[test]
    fn urls_of_listed_names_are_escaped_relative_paths() {
        for (name, url) in [
            ("a b", "a%20b"),
            ("javascript:alert(1)", "./javascript:alert(1)"),
            ("100%", "100%25"),
            ("%2e%2e", "%252e%252e"),
            ("q?x#y", "q%3Fx%23y"),
            ("\"<'&", "%22%3C'&"),
            ("ä\\", "%C3%A4%5C"),
        ] {
            let row = ListingRow { name: name.as_bytes(), bytes: Some(0), modified: None };
            assert_eq!(String::from_utf8(row.url()).unwrap(), url);
        }
        let folder = ListingRow { name: b"a:b\xff", bytes: None, modified: None };
        assert_eq!(folder.url(), b"./a:b%FF/");
    }
}
