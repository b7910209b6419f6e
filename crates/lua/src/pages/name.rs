//! What the name of a file says: which requests its page answers, and with what type.
//!
//! | name | answers |
//! |---|---|
//! | `/about.dyn.html` | `GET /about` |
//! | `/a/index.dyn.html` | `GET /a/` |
//! | `/feed.dyn.xml` | `GET /feed.xml` |
//! | `/a/post.login.dyn.html` | `POST /a/login` |
//! | `/parts/menu.priv.dyn.html` | nothing: it is for other pages to include |

/// The requests of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) method: &'static str,
    /// Decoded, as routes are.
    pub(super) path: String,
    /// The `Content-Type` of its answers.
    pub(super) media: &'static str,
}

/// What tells a page from other files.
const DYNAMIC: &str = ".dyn.";

/// What keeps a file for includes alone.
const PRIVATE: &str = ".priv.";

/// Fronts of names, for pages that change something.
const METHODS: [(&str, &str); 3] = [("post.", "POST"), ("put.", "PUT"), ("delete.", "DELETE")];

/// Types by extensions; those that `pinion-template` escapes as something else than HTML are among
/// them. XML says by itself how it is encoded, and JSON is UTF-8.
const TYPES: &[(&str, &str)] = &[
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("xhtml", "application/xhtml+xml"),
    ("atom", "application/atom+xml"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("geojson", "application/geo+json"),
    ("gpx", "application/gpx+xml"),
    ("ics", "text/calendar; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("kml", "application/vnd.google-earth.kml+xml"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("opml", "text/x-opml"),
    ("rss", "application/rss+xml"),
    ("svg", "image/svg+xml"),
    ("tsv", "text/tab-separated-values; charset=utf-8"),
    ("vcf", "text/vcard; charset=utf-8"),
    ("webmanifest", "application/manifest+json"),
    ("xml", "application/xml"),
    ("xsl", "application/xslt+xml"),
    ("xslt", "application/xslt+xml"),
];

/// What no row has: no browser takes it for a program.
const OTHER: &str = "text/plain; charset=utf-8";

/// Whether a file is Lua, for `require` or as the main script.
pub(crate) fn is_code(path: &str) -> bool {
    path.ends_with(".lua")
}

/// Which requests a file answers, if it is a page. Files whose path begins with `//` stand beside
/// the content.
///
/// # Errors
/// A name with nothing in front of `.dyn.`.
pub(super) fn route(path: &str) -> Result<Option<Route>, String> {
    if path.starts_with("//") || is_code(path) {
        return Ok(None);
    }
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name.contains(PRIVATE) {
        return Ok(None);
    }
    let Some((stem, extension)) = name.rsplit_once(DYNAMIC) else { return Ok(None) };
    let method =
        METHODS.iter().find_map(|(front, method)| Some((stem.strip_prefix(front)?, *method)));
    let (stem, method) = method.unwrap_or((stem, "GET"));
    if stem.is_empty() {
        return Err(format!(
            "a page needs a name in front of `{DYNAMIC}`, such as index{DYNAMIC}html"
        ));
    }
    let kind = extension.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let media = TYPES.iter().find(|(known, _)| *known == kind).map_or(OTHER, |(_, media)| media);
    let path = match (stem, kind == "html" || kind == "htm") {
        ("index", true) => format!("{folder}/"),
        (stem, true) => format!("{folder}/{stem}"),
        (stem, false) => format!("{folder}/{stem}.{extension}"),
    };
    Ok(Some(Route { method, path, media }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_page_answers() {
        for (file, answers) in [
            ("/about.dyn.html", Some("GET /about text/html; charset=utf-8")),
            ("/index.dyn.html", Some("GET / text/html; charset=utf-8")),
            ("/a/index.dyn.htm", Some("GET /a/ text/html; charset=utf-8")),
            ("/a/index.dyn.xml", Some("GET /a/index.xml application/xml")),
            ("/feed.v2.dyn.XML", Some("GET /feed.v2.XML application/xml")),
            ("/app.dyn.min.js", Some("GET /app.min.js text/javascript; charset=utf-8")),
            ("/x.dyn.y.dyn.txt", Some("GET /x.dyn.y.txt text/plain; charset=utf-8")),
            ("/x.dyn.exe", Some("GET /x.exe text/plain; charset=utf-8")),
            ("/a/post.login.dyn.html", Some("POST /a/login text/html; charset=utf-8")),
            ("/put.index.dyn.json", Some("PUT /index.json application/json")),
            ("/delete.index.dyn.html", Some("DELETE / text/html; charset=utf-8")),
            ("/post.dyn.html", Some("GET /post text/html; charset=utf-8")),
            ("/get.x.dyn.html", Some("GET /get.x text/html; charset=utf-8")),
            ("/:id.dyn.html", Some("GET /:id text/html; charset=utf-8")),
            ("/menu.priv.dyn.html", None),
            ("/menu.dyn.priv.html", None),
            ("/a.dyn.lua", None),
            ("//a.dyn.html", None),
            ("/a.html", None),
            ("/a.dyn", None),
            ("/x.dyn.y/z.html", None),
        ] {
            let found = route(file).expect(file);
            let shown =
                found.map(|found| format!("{} {} {}", found.method, found.path, found.media));
            assert_eq!(shown.as_deref(), answers, "{file}");
        }
        for file in ["/.dyn.html", "/a/post..dyn.html"] {
            route(file).expect_err(file);
        }
    }
}
