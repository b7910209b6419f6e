//! A listing as one HTML page: style inside, no script, nothing loaded.

use std::borrow::Cow;
use std::fmt::Write as _;

use pinion_http::date::{self, UnixSeconds};
use pinion_http::html_escape::escape;

use super::{Listing, ListingRow};
use crate::limits::LISTING_ROWS_MAX;
use crate::number_format::{count, size};

/// The style of a page.
const STYLE: &str = include_str!("page.css");

macro_rules! style_hash {
    () => {
        "'sha256-6iHsGpKP38V7c6z9GxaI23eQ+HiCrXfqI2CYe1Qx9vw='"
    };
}

/// The source expression of that style in a `Content-Security-Policy`: the hash of its bytes, as
/// `openssl dgst -sha256 -binary page.css | openssl base64` prints it. A browser that finds another
/// one shows a page without style, which a test in `tests/tests/black_box/listing.rs` would see.
pub(crate) const STYLE_HASH: &str = style_hash!();

/// The policy of a page where the site has none of its own: a name that were taken for more than
/// a name could still do nothing.
pub(crate) const POLICY: &str = concat!(
    "default-src 'none'; img-src 'self'; style-src ",
    style_hash!(),
    "; base-uri 'none'; form-action 'none'",
);

/// Returns the page of a folder.
pub(crate) fn page(listing: &Listing<'_>) -> Vec<u8> {
    let shown = listing.rows.get(..LISTING_ROWS_MAX).unwrap_or(&listing.rows);
    let mut page = String::with_capacity(STYLE.len() + 1024 + 224 * shown.len());
    let folder = text(listing.folder);
    push(
        &mut page,
        &[
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>Index of ",
            &folder,
            "</title>\n<style>",
            STYLE,
            "</style>\n</head>\n<body>\n",
        ],
    );
    heading(&mut page, listing.folder);
    page.push_str("<main>\n<table>\n<caption>");
    page.push_str(&caption(listing));
    page.push_str(
        "</caption>\n<thead>\n<tr><th scope=\"col\">Name</th><th scope=\"col\">Size</th>\
         <th scope=\"col\">Modified<span> (UTC)</span></th></tr>\n</thead>\n<tbody>\n",
    );
    if listing.folder != b"/" {
        page.push_str(
            "<tr><th scope=\"row\" class=\"u\"><a href=\"../\">Parent folder</a></th>\
             <td></td><td></td></tr>\n",
        );
    }
    shown.iter().for_each(|row| write_row(&mut page, row));
    page.push_str("</tbody>\n</table>\n");
    if shown.len() < listing.rows.len() {
        let more = count((listing.rows.len() - shown.len()) as u64);
        push(
            &mut page,
            &[
                "<p>",
                &more,
                " more are not shown. Programs that accept application/json get all of them.</p>\n",
            ],
        );
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page.into_bytes()
}

/// Writes the links from the root down to the folder, and its name.
fn heading(page: &mut String, folder: &[u8]) {
    let names: Vec<&[u8]> =
        folder.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
    let Some((name, above)) = names.split_last() else {
        page.push_str("<h1>/</h1>\n");
        return;
    };
    page.push_str("<nav aria-label=\"Breadcrumb\">\n<ol>");
    for (depth, name) in std::iter::once(None).chain(above.iter().map(Some)).enumerate() {
        page.push_str("<li><a href=\"");
        (depth..names.len()).for_each(|_| page.push_str("../"));
        page.push_str("\">");
        match name {
            None => page.push_str("Home"),
            Some(name) => push(page, &["<bdi>", &text(name), "</bdi>"]),
        }
        page.push_str("</a></li>");
    }
    push(page, &["</ol>\n</nav>\n<h1><bdi>", &text(name), "</bdi></h1>\n"]);
}

fn write_row(page: &mut String, row: &ListingRow<'_>) {
    let url = row.url();
    let (class, slash) = if row.is_folder() { (" class=\"d\"", "/") } else { ("", "") };
    push(
        page,
        &[
            "<tr><th scope=\"row\"",
            class,
            "><a href=\"",
            &escape(&String::from_utf8_lossy(&url)),
            "\"><bdi>",
            &text(row.name),
            "</bdi>",
            slash,
            "</a></th><td>",
        ],
    );
    if let Some(bytes) = row.bytes {
        // A string takes every write.
        let _ = write!(page, "<data value=\"{bytes}\">{}</data>", size(bytes));
    }
    page.push_str("</td><td>");
    if let Some(modified) = row.modified {
        write_time(page, modified);
    }
    page.push_str("</td></tr>\n");
}

/// Writes a time as `1994-11-06 08:49`, and to the second for programs.
fn write_time(page: &mut String, time: UnixSeconds) {
    let iso = date::iso(time);
    let iso = String::from_utf8_lossy(&iso);
    let (day, minute) = (iso.get(..10).unwrap_or_default(), iso.get(11..16).unwrap_or_default());
    let parts = ["<time datetime=\"", &iso, "Z\">", day, "<span> ", minute, "</span></time>"];
    push(page, &parts);
}

/// Returns the caption such as `2 folders, 3 files, 12.0 KiB`.
fn caption(listing: &Listing<'_>) -> String {
    let files = listing.rows.iter().filter_map(|row| row.bytes);
    let (files, bytes) = (files.clone().count(), files.sum());
    let folders = listing.rows.len() - files;
    let counted = |number: usize, one: &str| {
        format!("{} {one}{}", count(number as u64), if number == 1 { "" } else { "s" })
    };
    match (folders, files) {
        (0, 0) => "Nothing is here.".to_owned(),
        (0, files) => format!("{}, {}", counted(files, "file"), size(bytes)),
        (folders, 0) => counted(folders, "folder"),
        (folders, files) => {
            format!("{}, {}, {}", counted(folders, "folder"), counted(files, "file"), size(bytes))
        }
    }
}

/// Returns a name as inert text. Characters without a letter, and characters that would change the
/// direction of the text around it, are replaced.
fn text(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let is_formatting = |char: char| match char {
        // The formatting characters of Unicode Standard Annex #9 §2.
        '\u{61c}' | '\u{200e}' | '\u{200f}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        char => char.is_control(),
    };
    let text = if text.contains(is_formatting) {
        Cow::Owned(text.replace(is_formatting, "\u{fffd}"))
    } else {
        text
    };
    escape(&text).into_owned()
}

fn push(page: &mut String, parts: &[&str]) {
    parts.iter().for_each(|part| page.push_str(part));
}

#[cfg(test)]
mod tests {
    use super::super::tests::listed;
    use super::*;

    fn html(folder: &str, files: &[(&str, u64, UnixSeconds)]) -> String {
        String::from_utf8(page(&Listing::new(folder.as_bytes(), listed(files)))).unwrap()
    }

    #[test]
    fn a_listing_page_links_to_parents_and_children() {
        let html = html("/a/b/", &[("/a/b/c/x", 1, 0), ("/a/b/d", 2048, 784_111_777)]);
        for part in [
            "<title>Index of /a/b/</title>",
            "<li><a href=\"../../\">Home</a></li><li><a href=\"../\"><bdi>a</bdi></a></li></ol>",
            "<h1><bdi>b</bdi></h1>",
            "<a href=\"../\">Parent folder</a>",
            "<tr><th scope=\"row\" class=\"d\"><a href=\"c/\"><bdi>c</bdi>/</a></th><td></td>\
             <td><time datetime=\"1970-01-01T00:00:00Z\">1970-01-01<span> 00:00</span></time></td>",
            "<td><data value=\"2048\">2.00 KiB</data></td>\
             <td><time datetime=\"1994-11-06T08:49:37Z\">1994-11-06<span> 08:49</span></time></td>",
            "<caption>1 folder, 1 file, 2.00 KiB</caption>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn the_listing_of_the_root_links_to_no_parent() {
        let html = html("/", &[]);
        assert!(!html.contains("../") && !html.contains("<nav"), "{html}");
        assert!(html.contains("<caption>Nothing is here.</caption>"), "{html}");
    }

    #[test]
    fn file_names_are_escaped_in_listing_pages() {
        let names = [("/<b>\"&'\u{202e}gpj.exe", 1, 0), ("/<td>/x", 1, 0), ("/a\nb", 1, 0)];
        let html = html("/", &names);
        let row = "<a href=\"%3Cb%3E%22&amp;'%E2%80%AEgpj.exe\">\
                   <bdi>&lt;b&gt;&quot;&amp;'\u{fffd}gpj.exe</bdi></a>";
        assert!(html.contains(row), "{html}");
        assert_eq!(html.matches("<tr>").count(), 4, "{html}");
        assert!(html.contains("<bdi>a\u{fffd}b</bdi>"), "{html}");
    }

    #[test]
    fn a_listing_page_has_a_limited_number_of_rows() {
        let names: Vec<String> = (0..LISTING_ROWS_MAX + 2).map(|n| format!("/{n:06}")).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), 1, 0)).collect();
        let html = html("/", &files);
        assert_eq!(html.matches("<data").count(), LISTING_ROWS_MAX);
        assert!(html.contains("<p>2 more are not shown."), "no note");
        assert!(html.contains(&format!("<caption>{} files", count(files.len() as u64))));
    }
}
