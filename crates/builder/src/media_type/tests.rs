use proptest::prelude::*;

use super::*;

fn field(key: &str, content: &[u8]) -> String {
    MediaType::of(key.as_bytes(), content).field().into_owned()
}

#[test]
fn the_type_table_is_sorted_and_its_types_are_valid() {
    assert!(BY_EXTENSION.is_sorted_by(|a, b| a.0 < b.0));
    for (extension, essence) in BY_EXTENSION {
        assert!(!extension.is_empty() && !extension.contains(char::is_uppercase), "{extension}");
        let parsed = pinion_http::media_type::MediaType::parse(essence.as_bytes());
        assert!(parsed.is_some_and(|media| media.parameters.is_empty()), "{essence}");
    }
}

/// Every type the older servers know by name (and what they lacked).
#[test]
fn known_extensions_have_their_media_types() {
    for (extensions, essence) in [
        ("html htm", "text/html"),
        ("txt", "text/plain"),
        ("css", "text/css"),
        ("csv", "text/csv"),
        ("tsv", "text/tab-separated-values"),
        ("js mjs cjs", "text/javascript"),
        ("json map", "application/json"),
        ("xml", "application/xml"),
        ("xsl xslt", "application/xslt+xml"),
        ("xhtml xht", "application/xhtml+xml"),
        ("svg", "image/svg+xml"),
        ("png", "image/png"),
        ("jpg jpeg", "image/jpeg"),
        ("webp", "image/webp"),
        ("gif", "image/gif"),
        ("ico cur", "image/x-icon"),
        ("bmp", "image/bmp"),
        ("tif tiff", "image/tiff"),
        ("apng", "image/apng"),
        ("avif", "image/avif"),
        ("avifs", "image/avif"),
        ("jxl", "image/jxl"),
        ("heic", "image/heic"),
        ("heif", "image/heif"),
        ("otf", "font/otf"),
        ("ttf", "font/ttf"),
        ("woff", "font/woff"),
        ("woff2", "font/woff2"),
        ("wav", "audio/wav"),
        ("mid midi", "audio/midi"),
        ("aac", "audio/aac"),
        ("opus oga ogg", "audio/ogg"),
        ("mp3", "audio/mpeg"),
        ("weba", "audio/webm"),
        ("flac", "audio/flac"),
        ("avi", "video/x-msvideo"),
        ("mp4", "video/mp4"),
        ("mpeg", "video/mpeg"),
        ("webm", "video/webm"),
        ("ogv", "video/ogg"),
        ("pdf", "application/pdf"),
        ("ps", "application/postscript"),
        ("ics", "text/calendar"),
        ("zip", "application/zip"),
        ("gz tgz svgz", "application/gzip"),
        ("wasm", "application/wasm"),
        ("md", "text/markdown"),
        ("webmanifest", "application/manifest+json"),
        ("rss", "application/rss+xml"),
        ("atom", "application/atom+xml"),
        ("eot", "application/vnd.ms-fontobject"),
        ("toml", "application/toml"),
        ("yaml yml", "text/yaml"),
        ("vtt", "text/vtt"),
    ] {
        for extension in extensions.split(' ') {
            let upper = extension.to_uppercase();
            for key in [format!("/a.b/x.{extension}"), format!("/x.y.{upper}")] {
                assert_eq!(essence_of(&key), essence, "{key}");
            }
        }
    }
}

fn essence_of(key: &str) -> &'static str {
    essence(key.as_bytes(), b"")
}

#[test]
fn charset_follows_the_content() {
    assert_eq!(field("/a.html", "<p>ü".as_bytes()), "text/html; charset=utf-8");
    assert_eq!(field("/a.html", b""), "text/html; charset=utf-8");
    assert_eq!(field("/a.html", b"<p>\xfc"), "text/html");
    assert_eq!(field("/a.html", b"\x1b$B$3\x1b(B"), "text/html");
    assert_eq!(field("/a.js", b"x"), "text/javascript; charset=utf-8");
    assert_eq!(field("/a.json", b"{}"), "application/json");
    assert_eq!(field("/a.svg", b"<svg/>"), "image/svg+xml");
    assert_eq!(field("/a.txt", b"\xff\xfea\0"), "text/plain");
}

#[test]
fn unknown_extensions_are_sniffed() {
    for (content, expected) in [
        (&b"plain"[..], "text/plain; charset=utf-8"),
        (b"", "text/plain; charset=utf-8"),
        (b"gr\xfc\xdfe", "text/plain"),
        (b"\xff\xfeg\0r\0", "text/plain"),
        (b"\n <!DOCTYPE HTML><p>", "text/html; charset=utf-8"),
        (b"\xef\xbb\xbf<html >", "text/html; charset=utf-8"),
        (b"<!-- x -->", "text/html; charset=utf-8"),
        (b"<bold>", "text/plain; charset=utf-8"),
        (b"<a", "text/plain; charset=utf-8"),
        (b"<?xml version=\"1.0\"?><x/>", "application/xml"),
        (b"{ \"applinks\": {} }", "application/json"),
        (b"{x}", "text/plain; charset=utf-8"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"PK\x03\x04\x14\0\0\0", "application/zip"),
        (b"\0asm\x01\0\0\0", "application/wasm"),
        (b"\0\x01\x02\x03", "application/octet-stream"),
    ] {
        for key in ["/LICENSE", "/x.unheardof", "/x.", "/a.html/x"] {
            assert_eq!(field(key, content), expected, "{key} {}", content.escape_ascii());
        }
    }
}

/// TypeScript has the extensions of MPEG transport streams, and one with times in front.
#[test]
fn typescript_and_transport_streams_are_distinguished() {
    let packets = |bytes: usize, offset: usize| {
        let mut stream = vec![0; 3 * bytes];
        (offset..stream.len()).step_by(bytes).for_each(|at| stream[at] = 0x47);
        stream
    };
    let script = "Get.all().map((one: number) => one + 1);\n".repeat(20);
    for key in ["/a.ts", "/a.mts", "/A.TS"] {
        assert_eq!(field(key, script.as_bytes()), "text/typescript; charset=utf-8");
        assert_eq!(field(key, b""), "text/typescript; charset=utf-8");
        assert_eq!(field(key, &b"G".repeat(600)), "text/typescript; charset=utf-8");
        assert_eq!(field(key, &packets(188, 0)), "video/mp2t");
        assert_eq!(field(key, &packets(192, 4)), "video/mp2t");
        assert_eq!(field(key, &packets(187, 0)), "text/typescript; charset=utf-8");
        assert!(may_be(key.as_bytes(), "video/mp2t") && may_be(key.as_bytes(), TYPESCRIPT));
    }
    assert!(!may_be(b"/a.css", "video/mp2t") && may_be(b"/a.wasm.br", "application/wasm"));
}

#[test]
fn formats_read_in_ranges_are_recognized_by_their_first_bytes() {
    for (content, expected) in [
        (&b"SQLite format 3\0\x10\0"[..], "application/vnd.sqlite3"),
        (b"PMTiles\x03\x7f", "application/vnd.pmtiles"),
        (b"PAR1\x15\x04", "application/vnd.apache.parquet"),
    ] {
        let found = MediaType::of(b"/data.db", content);
        assert_eq!(found.essence, expected);
        assert!(is_packed(found.essence));
    }
}

/// The window for sniffing may end inside a character.
#[test]
fn text_cut_inside_a_character_by_the_window_is_utf_8() {
    let content = "ü".repeat(crate::limits::SNIFF_BYTES);
    for shift in ["", "x"] {
        let text = format!("{shift}{content}");
        assert_eq!(field("/x", text.as_bytes()), "text/plain; charset=utf-8");
    }
}

proptest! {
    /// However a stream is cut, the response is that of the whole.
    #[test]
    fn utf8_check_agrees_with_the_standard_library(
        text in "\\PC{0,40}",
        spoil in prop::option::of((0usize..40, any::<u8>())),
        cuts in prop::collection::vec(0usize..120, 0..6),
    ) {
        let mut bytes = text.into_bytes();
        if let Some((at, byte)) = spoil && at < bytes.len() {
            bytes[at] = byte;
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut check = Utf8Check::default();
        cuts.windows(2).for_each(|cut| check.update(&bytes[cut[0]..cut[1]]));
        let expected = std::str::from_utf8(&bytes).is_ok() && !bytes.contains(&0x1b);
        prop_assert_eq!(check.finish(), expected);
    }

    /// Nothing that a file can hold makes the sniffing panic.
    #[test]
    fn any_content_has_a_type(
        key in ".{0,12}",
        content in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let media = MediaType::of(key.as_bytes(), &content);
        prop_assert!(media.essence.contains('/'));
    }
}
