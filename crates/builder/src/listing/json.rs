//! A listing as JSON: an array as nginx makes it with `autoindex_format json`, so that the same
//! programs can read it, and in each entry its address, which distinguishes names that are no text.

use std::fmt::Write as _;

use pinion_http::date;

use super::{Listing, ListingRow};

/// Returns the entries, one to a line.
pub(crate) fn json(listing: &Listing<'_>) -> Vec<u8> {
    let mut json = String::with_capacity(2 + 112 * listing.rows.len());
    json.push('[');
    for (number, row) in listing.rows.iter().enumerate() {
        json.push_str(if number == 0 { "\n" } else { ",\n" });
        write_row(&mut json, row);
    }
    json.push_str("\n]\n");
    json.into_bytes()
}

fn write_row(json: &mut String, row: &ListingRow<'_>) {
    json.push_str("{\"name\":\"");
    write_text(json, &String::from_utf8_lossy(row.name));
    json.push_str("\",\"type\":");
    json.push_str(if row.is_folder() { "\"directory\"" } else { "\"file\"" });
    if let Some(modified) = row.modified {
        json.push_str(",\"mtime\":\"");
        json.push_str(&String::from_utf8_lossy(&date::format(modified)));
        json.push('"');
    }
    if let Some(bytes) = row.bytes {
        // A string takes every write.
        let _ = write!(json, ",\"size\":{bytes}");
    }
    json.push_str(",\"url\":\"");
    write_text(json, &String::from_utf8_lossy(&row.url()));
    json.push_str("\"}");
}

/// Writes the inside of a string (RFC 8259 §7).
fn write_text(json: &mut String, text: &str) {
    for char in text.chars() {
        match char {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\0'..='\x1f' | '\x7f' => {
                let _ = write!(json, "\\u{:04x}", u32::from(char));
            }
            _ => json.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use pinion_http::request_target::decode_path;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::ListedFile;
    use super::*;

    #[test]
    fn a_json_listing_has_the_expected_format() {
        let file = |key, bytes, modified| ListedFile { key, bytes, modified };
        let files = [
            file(&b"/d/a\"b\n.txt"[..], 12, Some(784_111_777)),
            file(b"/d/\xff", 0, None),
            file(b"/d/sub/x", 1, Some(0)),
        ];
        let listing = Listing::new(b"/d/", files);
        assert_eq!(
            String::from_utf8(json(&listing)).unwrap(),
            "[\n\
             {\"name\":\"sub\",\"type\":\"directory\",\"mtime\":\"Thu, 01 Jan 1970 00:00:00 GMT\",\
             \"url\":\"sub/\"},\n\
             {\"name\":\"a\\\"b\\u000a.txt\",\"type\":\"file\",\
             \"mtime\":\"Sun, 06 Nov 1994 08:49:37 GMT\",\"size\":12,\"url\":\"a%22b%0A.txt\"},\n\
             {\"name\":\"\u{fffd}\",\"type\":\"file\",\"size\":0,\"url\":\"%FF\"}\n\
             ]\n"
        );
        assert_eq!(json(&Listing::new(b"/", [])), b"[\n]\n");
    }

    /// A name that a file system could have.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![any::<u8>(), Just(b':'), Just(b'%'), Just(b'"'), Just(b'.')];
        prop::collection::vec(byte, 1..8).prop_filter("a name", |name| {
            !name.contains(&b'/') && !name.contains(&0) && name != b"." && name != b".."
        })
    }

    proptest! {
        /// Every name is there once, and its address leads to it from the folder's own.
        #[test]
        fn a_json_listing_parses_to_the_listed_names(
            files in prop::collection::btree_map(name(), any::<u32>(), 0..12),
            folders in prop::collection::btree_set(name(), 0..6),
        ) {
            let folders: BTreeSet<_> =
                folders.into_iter().filter(|name| !files.contains_key(name)).collect();
            let mut keys: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            for (name, bytes) in &files {
                keys.insert([&b"/d/"[..], name].concat(), u64::from(*bytes));
            }
            for name in &folders {
                keys.insert([&b"/d/"[..], name, b"/1"].concat(), 1);
                keys.insert([&b"/d/"[..], name, b"/2/3"].concat(), 2);
            }
            let below = keys.iter().map(|(key, &bytes)| ListedFile { key, bytes, modified: None });
            let json = json(&Listing::new(b"/d/", below));
            let parsed: Value = serde_json::from_slice(&json).unwrap();
            let mut found = BTreeMap::new();
            for entry in parsed.as_array().unwrap() {
                let url = entry["url"].as_str().unwrap();
                let path = format!("/d/{}", url.strip_prefix("./").unwrap_or(url));
                let mut decoded = Vec::new();
                let decoded = decode_path(path.as_bytes(), &mut decoded).unwrap();
                let name = decoded.strip_prefix(b"/d/").unwrap();
                let is_folder = entry["type"] == "directory";
                prop_assert_eq!(name.ends_with(b"/"), is_folder);
                let name = name.strip_suffix(b"/").unwrap_or(name);
                prop_assert_eq!(&entry["name"], &*String::from_utf8_lossy(name));
                found.insert((is_folder, name.to_vec()), entry["size"].as_u64());
            }
            let files = files.iter().map(|(name, &bytes)| {
                ((false, name.clone()), Some(u64::from(bytes)))
            });
            let folders = folders.iter().map(|name| ((true, name.clone()), None));
            prop_assert_eq!(found, files.chain(folders).collect::<BTreeMap<_, _>>());
        }
    }
}
