//! The names of the files of a site in errors: one form everywhere, `FOLDER/FILE:LINE:`, which an
//! editor can open. `FOLDER` is the folder of the site as it was named to the server.
//!
//! Lua cuts long names off at their front, and pages run under short names of their own, because
//! the lines of their compiled form are not lines of a file. `Sources` translates both to files.

use std::sync::Arc;

use crate::pages::{self, HandlerPage};
use pinion_template::Formatted;

/// Bytes of a name from which on Lua shows only its end, in both Luas (`LUA_IDSIZE`).
const CUT_BYTES: usize = 60;

/// Bytes of its end that Lua shows then, after three points.
const END_BYTES: usize = 56;

/// The names of the files of a site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceNames {
    /// The text before the path of a file beside the content; none where only the content has code.
    beside: Option<String>,
    /// The text before the path of a file of the content.
    content: Option<String>,
}

impl SourceNames {
    /// Returns the names of a site in a folder, which has its content in a folder of that name
    /// below it, or is the content itself.
    #[must_use]
    pub fn of_folder(folder: &str, content: Option<&str>) -> Self {
        let folder = folder.trim_end_matches('/');
        let within = content.map_or(folder.to_owned(), |content| format!("{folder}/{content}"));
        Self { beside: content.map(|_| folder.to_owned()), content: Some(within) }
    }

    /// Returns the name of a file by its path in the site, which begins with `/`, or with `//`
    /// where it lies beside the content. Without a folder that is the path itself.
    #[must_use]
    pub fn name(&self, path: &str) -> String {
        match (path.strip_prefix("//"), &self.beside, &self.content) {
            (Some(rest), Some(folder), _) | (Some(rest), None, Some(folder)) => {
                format!("{folder}/{rest}")
            }
            (None, _, Some(folder)) => format!("{folder}{path}"),
            _ => path.to_owned(),
        }
    }

    /// Returns whether code can lie beside the content.
    pub(crate) fn has_beside(&self) -> bool {
        self.beside.is_some() || self.content.is_none()
    }
}

/// The names that translate messages of a program's VMs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Names as Lua cuts them off, and in full.
    long: Vec<(String, String)>,
    pages: Arc<[HandlerPage]>,
}

impl Sources {
    /// Creates the names of a program with scripts of these names.
    pub(crate) fn new(names: impl Iterator<Item = String>, pages: Arc<[HandlerPage]>) -> Self {
        let mut long: Vec<_> = names.filter_map(|name| Some((shortened(&name)?, name))).collect();
        long.sort();
        long.dedup();
        // Two names with the same end cannot be distinguished.
        let ends: Vec<_> = long.iter().map(|(end, _)| end.clone()).collect();
        long.retain(|(end, _)| ends.iter().filter(|other| *other == end).count() == 1);
        Self { long, pages }
    }

    /// Returns the values of pages with a format at `file:line`, each once.
    pub(crate) fn formats_at(&self, place: &str) -> Vec<&Formatted> {
        let parts =
            place.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let Some((file, line)) = parts else { return Vec::new() };
        let mut found: Vec<&Formatted> = Vec::new();
        for value in self.pages.iter().flat_map(|page| page.formats_at(file, line)) {
            let is_same = |other: &&Formatted| {
                (&other.expression, &other.format) == (&value.expression, &value.format)
            };
            if !found.iter().any(is_same) {
                found.push(value);
            }
        }
        found
    }

    /// Translates a message of Lua to the names and the lines of files.
    pub(crate) fn explained(&self, message: &str) -> String {
        let mut shown = pages::explained(message, &self.pages);
        for (end, name) in &self.long {
            if shown.contains(end.as_str()) {
                shown = shown.replace(end.as_str(), name);
            }
        }
        shown
    }
}

/// Returns the name as Lua shortens it.
fn shortened(name: &str) -> Option<String> {
    let from = name.len().checked_sub(END_BYTES).filter(|_| name.len() >= CUT_BYTES)?;
    Some(format!("...{}", String::from_utf8_lossy(&name.as_bytes()[from..])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlua::Lua;

    #[test]
    fn a_name_is_a_path_below_the_folder_of_the_site() {
        let beside = SourceNames::of_folder("/srv/shop/", Some("public_html"));
        let within = SourceNames::of_folder("shop", None);
        for (path, outer, inner) in [
            ("/a.dyn.html", "/srv/shop/public_html/a.dyn.html", "shop/a.dyn.html"),
            ("//lib/db.lua", "/srv/shop/lib/db.lua", "shop/lib/db.lua"),
        ] {
            assert_eq!((beside.name(path).as_str(), within.name(path).as_str()), (outer, inner));
            assert_eq!(SourceNames::default().name(path), path);
        }
        assert!(beside.has_beside() && !within.has_beside());
        assert_eq!(SourceNames::of_folder("/", None).name("/a.lua"), "/a.lua");
    }

    /// However long a name is, and wherever Lua cuts it, a message has all of it.
    #[test]
    fn source_names_that_lua_truncates_are_shown_in_full() {
        let lua = Lua::new();
        for length in 50..80 {
            let name = format!("/{}é/main.lua", "x".repeat(length - 12));
            let chunk = lua.load("\nerror('why')").set_name(format!("@{name}"));
            let message = chunk.exec().expect_err("an error").to_string();
            let sources = Sources::new([name.clone()].into_iter(), Arc::default());
            let shown = sources.explained(&message);
            assert!(shown.contains(&format!("{name}:2: why")), "{shown}");
            assert!(!shown.contains("..."), "{shown}");
        }
        let end = "y".repeat(60);
        let names = [format!("a{end}"), format!("b{end}")];
        assert!(Sources::new(names.into_iter(), Arc::default()).long.is_empty());
    }
}
