//! The meaning of a file's name: whether the file is code, of which kind, and the requests and
//! media type of a page. The build and the runtime both use it. Only the last part of a path
//! counts, in any case: code must not become public because its name has capital letters.
//!
//! | name | is |
//! |---|---|
//! | ends in `.lua` | a script |
//! | has `.priv.` in it | private: for pages to include |
//! | ends in `.dyn.` and a type of text, such as `.dyn.html` | a page |
//! | has `.lua` or `.dyn.` in it in another way: `main.lua.bak`, `a.dyn.html.gz` | a copy of code |
//!
//! | name | answers |
//! |---|---|
//! | `/about.dyn.html` | `GET /about` |
//! | `/a/index.dyn.html` | `GET /a/` |
//! | `/feed.dyn.xml` | `GET /feed.xml` |
//! | `/a/post.login.dyn.html` | `POST /a/login` |
//! | `/a/query.find.dyn.json` | `QUERY /a/find.json` |
//! | `/parts/menu.priv.dyn.html` | no request: other pages include it |

use std::collections::BTreeMap;

use crate::page_types::{PAGE_TYPES, PageType};

/// The kind of a file of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Lua, for `require` or as the main script.
    Script,
    /// A page, which answers requests.
    Page,
    /// A file that only other pages include.
    Private,
    /// A backup, or compressed code: it may contain the text of code, and is none.
    Copy,
}

/// The requests of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The method as HTTP writes it: `GET`.
    pub method: &'static str,
    /// The path, decoded like the paths of routes.
    pub path: String,
    /// The `Content-Type` of its responses.
    pub media: &'static str,
}

/// The files that respond to requests, by request: no two pages may answer the same one.
#[derive(Debug, Default)]
pub struct Routes(BTreeMap<(&'static str, String), String>);

impl Routes {
    /// Adds a file, if it is a page. Errors about other files call it `shown`.
    ///
    /// # Errors
    /// Returns the error of [`route`], or names the file that answers its requests already.
    pub fn add(&mut self, path: &str, shown: String) -> Result<Option<Route>, String> {
        let Some(route) = route(path)? else { return Ok(None) };
        let Route { method, path, .. } = &route;
        match self.0.insert((method, path.clone()), shown) {
            None => Ok(Some(route)),
            Some(other) => {
                Err(format!("{method} {path} is answered by {other} already; rename one of them"))
            }
        }
    }
}

/// The main script of a site, among its content.
pub const MAIN: &str = "/main.lua";

/// The main script of a site, beside its content.
pub const MAIN_BESIDE: &str = "//main.lua";

/// Returns the main script that runs, by its path and the result of `file`: the first one that
/// exists, whatever its content.
pub fn main_script<F>(file: impl Fn(&str) -> Option<F>) -> Option<(&'static str, F)> {
    [MAIN_BESIDE, MAIN].into_iter().find_map(|path| Some((path, file(path)?)))
}

/// The end of the name of a script.
const SCRIPT: &str = ".lua";

/// The part of a name that marks a page.
const DYNAMIC: &str = ".dyn.";

/// The part of a name that marks a file that is only for includes.
const PRIVATE: &str = ".priv.";

/// Prefixes of names, for pages of other methods than GET.
const METHODS: [(&str, &str); 4] =
    [("post.", "POST"), ("put.", "PUT"), ("delete.", "DELETE"), ("query.", "QUERY")];

/// Returns the kind of a file, by the last part of its path; none for a file that is no code.
#[must_use]
pub fn kind(name: &[u8]) -> Option<Kind> {
    let has =
        |part: &str| name.windows(part.len()).any(|at| at.eq_ignore_ascii_case(part.as_bytes()));
    if ends_in(name, SCRIPT.as_bytes()) {
        Some(Kind::Script)
    } else if has(SCRIPT) {
        Some(Kind::Copy)
    } else if has(PRIVATE) {
        Some(Kind::Private)
    } else if has(DYNAMIC) {
        let is_page = page_type(name).is_some();
        Some(if is_page { Kind::Page } else { Kind::Copy })
    } else {
        None
    }
}

/// Returns the requests of a file, if it is a page. Files whose path begins with `//` lie beside
/// the content.
///
/// # Errors
/// Fails for a name with nothing before `.dyn.`.
pub fn route(path: &str) -> Result<Option<Route>, String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if path.starts_with("//") || kind(name.as_bytes()) != Some(Kind::Page) {
        return Ok(None);
    }
    let Some(PageType { extension, media, .. }) = page_type(name.as_bytes()) else {
        return Ok(None);
    };
    let end = name.len() - DYNAMIC.len() - extension.len();
    let (stem, written) = (&name[..end], &name[end + DYNAMIC.len()..]);
    let front = |(front, method): &(&str, &'static str)| {
        let is_match = stem.get(..front.len())?.eq_ignore_ascii_case(front);
        is_match.then(|| (&stem[front.len()..], *method))
    };
    let (stem, method) = METHODS.iter().find_map(front).unwrap_or((stem, "GET"));
    if stem.is_empty() {
        return Err(format!(
            "a page needs a name in front of `{DYNAMIC}`, such as index{DYNAMIC}html"
        ));
    }
    let path = match (stem, extension == "html" || extension == "htm") {
        ("index", true) => format!("{folder}/"),
        (stem, true) => format!("{folder}/{stem}"),
        (stem, false) => format!("{folder}/{stem}.{written}"),
    };
    Ok(Some(Route { method, path, media }))
}

/// Returns the type of a page, by the extension directly after the last `.dyn.` of its name.
fn page_type(name: &[u8]) -> Option<PageType> {
    let is_match = |PageType { extension, .. }: &&PageType| {
        let rest = name.len().checked_sub(extension.len());
        rest.is_some_and(|rest| {
            ends_in(name, extension.as_bytes()) && ends_in(&name[..rest], DYNAMIC.as_bytes())
        })
    };
    PAGE_TYPES.iter().find(is_match).copied()
}

/// Returns whether a name ends so, in any case.
fn ends_in(name: &[u8], end: &[u8]) -> bool {
    let rest = name.len().checked_sub(end.len()).and_then(|start| name.get(start..));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_determine_method_path_and_type_of_a_page() {
        for (file, responses) in [
            ("/about.dyn.html", Some("GET /about text/html; charset=utf-8")),
            ("/index.dyn.html", Some("GET / text/html; charset=utf-8")),
            ("/a/index.dyn.htm", Some("GET /a/ text/html; charset=utf-8")),
            ("/a/index.dyn.xml", Some("GET /a/index.xml application/xml")),
            ("/feed.v2.dyn.XML", Some("GET /feed.v2.XML application/xml")),
            ("/app.min.dyn.js", Some("GET /app.min.js text/javascript; charset=utf-8")),
            ("/up.DYN.html", Some("GET /up text/html; charset=utf-8")),
            ("/DELETE.z.dyn.html", Some("DELETE /z text/html; charset=utf-8")),
            ("/x.dyn.y.dyn.txt", Some("GET /x.dyn.y.txt text/plain; charset=utf-8")),
            ("/x.dyn.exe", None),
            ("/s.dyn.html.gz", None),
            ("/app.dyn.min.js", None),
            ("/menu.PRIV.dyn.html", None),
            ("/c.dyn.LUA", None),
            ("/a/post.login.dyn.html", Some("POST /a/login text/html; charset=utf-8")),
            ("/put.index.dyn.json", Some("PUT /index.json application/json")),
            ("/delete.index.dyn.html", Some("DELETE / text/html; charset=utf-8")),
            ("/a/Query.find.dyn.json", Some("QUERY /a/find.json application/json")),
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
            assert_eq!(shown.as_deref(), responses, "{file}");
        }
        for file in ["/.dyn.html", "/a/post..dyn.html"] {
            route(file).expect_err(file);
        }
    }

    #[test]
    fn file_names_determine_the_kind_of_code() {
        for (name, expected) in [
            ("main.lua", Some(Kind::Script)),
            ("X.LUA", Some(Kind::Script)),
            ("c.dyn.LUA", Some(Kind::Script)),
            ("x.priv.lua", Some(Kind::Script)),
            ("a.dyn.html", Some(Kind::Page)),
            ("up.DYN.Html", Some(Kind::Page)),
            (".dyn.html", Some(Kind::Page)),
            ("menu.PRIV.dyn.html", Some(Kind::Private)),
            ("keys.priv.d", Some(Kind::Private)),
            ("s.dyn.html.gz", Some(Kind::Copy)),
            ("s.dyn.html.zip", Some(Kind::Copy)),
            ("post.wish.dyn.html.orig", Some(Kind::Copy)),
            ("p.dyn.html.bak", Some(Kind::Copy)),
            ("p.dyn.html-old", Some(Kind::Copy)),
            ("p.dyn.", Some(Kind::Copy)),
            ("main.lua-old", Some(Kind::Copy)),
            ("main.lua_bak", Some(Kind::Copy)),
            ("main.Lua,v", Some(Kind::Copy)),
            ("main.lua ", Some(Kind::Copy)),
            ("main.luac", Some(Kind::Copy)),
            ("a.html", None),
            ("dyn.html", None),
            ("a.dynamic.html", None),
            ("lua", None),
            ("", None),
        ] {
            assert_eq!(kind(name.as_bytes()), expected, "{name}");
        }
    }
}
