//! The types of pages: by the extension of a file, the media type of its response, and the syntax
//! by which values in it are escaped.

/// The syntax of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageSyntax {
    Html,
    Xml,
    /// JavaScript and JSON.
    Script,
    /// CSS.
    Style,
    /// Text in which nothing is escaped.
    Plain,
}

/// A type of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageType {
    pub(crate) extension: &'static str,
    /// The media type of responses. XML declares its own encoding, and JSON is UTF-8.
    pub(crate) media: &'static str,
    pub(crate) syntax: PageSyntax,
}

/// The types that pages can have. A type without a syntax of its own is escaped as HTML, where
/// forgotten escaping costs most.
pub(crate) const PAGE_TYPES: &[PageType] = &[
    of("html", "text/html; charset=utf-8", PageSyntax::Html),
    of("htm", "text/html; charset=utf-8", PageSyntax::Html),
    of("xhtml", "application/xhtml+xml", PageSyntax::Xml),
    of("atom", "application/atom+xml", PageSyntax::Xml),
    of("css", "text/css; charset=utf-8", PageSyntax::Style),
    of("csv", "text/csv; charset=utf-8", PageSyntax::Plain),
    of("geojson", "application/geo+json", PageSyntax::Script),
    of("gpx", "application/gpx+xml", PageSyntax::Xml),
    of("ics", "text/calendar; charset=utf-8", PageSyntax::Plain),
    of("js", "text/javascript; charset=utf-8", PageSyntax::Script),
    of("json", "application/json", PageSyntax::Script),
    of("jsonld", "application/ld+json", PageSyntax::Script),
    of("kml", "application/vnd.google-earth.kml+xml", PageSyntax::Xml),
    of("map", "application/json", PageSyntax::Script),
    of("md", "text/markdown; charset=utf-8", PageSyntax::Plain),
    of("mjs", "text/javascript; charset=utf-8", PageSyntax::Script),
    of("opml", "text/x-opml", PageSyntax::Xml),
    of("rss", "application/rss+xml", PageSyntax::Xml),
    of("svg", "image/svg+xml", PageSyntax::Xml),
    of("srt", "text/plain; charset=utf-8", PageSyntax::Html),
    of("text", "text/plain; charset=utf-8", PageSyntax::Plain),
    of("toml", "application/toml", PageSyntax::Html),
    of("tsv", "text/tab-separated-values; charset=utf-8", PageSyntax::Plain),
    of("txt", "text/plain; charset=utf-8", PageSyntax::Plain),
    of("vcf", "text/vcard; charset=utf-8", PageSyntax::Plain),
    of("vtt", "text/vtt; charset=utf-8", PageSyntax::Html),
    of("webmanifest", "application/manifest+json", PageSyntax::Script),
    of("xml", "application/xml", PageSyntax::Xml),
    of("xsl", "application/xslt+xml", PageSyntax::Xml),
    of("xslt", "application/xslt+xml", PageSyntax::Xml),
    of("yaml", "application/yaml", PageSyntax::Html),
    of("yml", "application/yaml", PageSyntax::Html),
];

/// The extensions of files that are XML and can be included, but are no pages.
const INCLUDED_XML: &[&str] = &["mml", "xht"];

const fn of(extension: &'static str, media: &'static str, syntax: PageSyntax) -> PageType {
    PageType { extension, media, syntax }
}

/// Returns the syntax of a file with this extension, in any case.
pub(crate) fn syntax(extension: &str) -> PageSyntax {
    let is_match = |known: &str| known.eq_ignore_ascii_case(extension);
    if INCLUDED_XML.iter().any(|known| is_match(known)) {
        return PageSyntax::Xml;
    }
    let found = PAGE_TYPES.iter().find(|page_type| is_match(page_type.extension));
    found.map_or(PageSyntax::Html, |page_type| page_type.syntax)
}
