//! Sites written for 80s: the parts of their folders that have another meaning there than here.
//!
//! In 80s nothing below a folder `static/` is code, wherever in the path that folder is: a page
//! (`.dyn.`) in it is a file like any other.

use std::path::Path;

use pinion_archive::limits::CODE_FILE_MAX_BYTES;
use pinion_template::file_name::MAIN;

use crate::walk::consistent_file_read::OpenSource;
use crate::walk::file_kinds_by_name::{is_leftover, path_and_name};
use crate::walk::found_files::{FoundFiles, relative};

/// The folder in which 80s has files alone.
const STATIC_NAME: &[u8] = b"static";

/// The main script of a site whose content has a folder of its own and no main script beside it.
const MAIN_IN_CONTENT: &[u8] = b"/public_html/main.lua";

/// The module that every site of 80s loads.
const MODULE: &[u8] = b"aio.aio";

/// Returns whether a file with this key is a page by its name, below a folder `static/`: for 80s it
/// is a file.
pub(crate) fn is_page_below_static(key: &[u8]) -> bool {
    let (path, name) = path_and_name(key);
    let folders = path.get(..path.len() - name.len()).unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    let has = |infix: &[u8]| memchr::memmem::find(&lower, infix).is_some();
    folders.split(|&byte| byte == b'/').any(|folder| folder == STATIC_NAME)
        && has(b".dyn.")
        && !has(b".priv.")
        && !lower.ends_with(b".lua")
        && !is_leftover(name)
}

/// Returns whether the main script that a walk has found loads the module of 80s. One that cannot
/// be read does not: its error shows when it is read as code.
pub(crate) fn main_is_of_80s(source: &Path, found: &FoundFiles) -> bool {
    let has = |key: &[u8]| found.code.iter().any(|file| &*file.key == key);
    let main = [MAIN.as_bytes(), MAIN_IN_CONTENT].into_iter().find(|key| has(key));
    let file = main.and_then(|key| OpenSource::open(&source.join(relative(key))).ok());
    let file = file.filter(|file| file.stamp().bytes <= CODE_FILE_MAX_BYTES);
    file.and_then(|file| file.read().ok()).is_some_and(|text| loads_module(&text))
}

/// Returns whether a script has `require("aio.aio")`, in any form that Lua allows, outside of a
/// comment of one line.
pub(crate) fn loads_module(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'\n').any(|line| {
        let comment = memchr::memmem::find(line, b"--").unwrap_or(line.len());
        let line = line.get(..comment).unwrap_or_default();
        memchr::memmem::find_iter(line, b"require").any(|at| {
            let rest = line.get(at + b"require".len()..).unwrap_or_default().trim_ascii_start();
            let rest = rest.strip_prefix(b"(").unwrap_or(rest).trim_ascii_start();
            let quoted = |quote: &[u8]| {
                let name = rest.strip_prefix(quote)?.strip_prefix(MODULE)?;
                name.starts_with(quote).then_some(())
            };
            quoted(b"\"").or_else(|| quoted(b"'")).is_some()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_pages_below_static_are_recognized() {
        for key in ["/static/a.dyn.html", "/x/static/y/a.DYN.html", "/static/a.dyn.html.gz"] {
            assert!(is_page_below_static(key.as_bytes()), "{key}");
        }
        for key in [
            "/a.dyn.html",
            "/statics/a.dyn.html",
            "/Static/a.dyn.html",
            "/static.dyn.html",
            "/static/a.html",
            "/static/a.dyn.lua",
            "/static/a.dyn.priv.html",
            "/static/.a.dyn.html",
            "/static/a.dyn.html~",
        ] {
            assert!(!is_page_below_static(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn scripts_that_load_the_module_of_80s_are_recognized() {
        for text in [
            "local aio = require(\"aio.aio\")",
            "-- a site\nrequire 'aio.aio'\n",
            "x = 1 aio = require ( \"aio.aio\" ):start()",
        ] {
            assert!(loads_module(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "-- local aio = require(\"aio.aio\")",
            "require(\"aio.aio.http\")",
            "require(\"my.aio.aio\")",
            "require(\"aio.aio')",
            "local aio = \"aio.aio\"",
        ] {
            assert!(!loads_module(text.as_bytes()), "{text}");
        }
    }
}
