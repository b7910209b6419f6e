//! Finds names in a folder with a meaning that its author most likely did not intend.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pinion_template::file_name::{MAIN, MAIN_BESIDE, route};

use crate::code_or_content::{CodeFile, ignored_folder, is_code_among_files, key_of, name_of};
use crate::legacy_80s_server::is_page_below_static;
use crate::options::Options;
use crate::walk::file_kinds_by_name::{RulesFile, is_copy_of_code, rules_file};
use crate::walk::found_files::{FoundFiles, relative};
use crate::warning::Warning;

/// Returns warnings for the author of a site about the names of its files.
pub(crate) fn name_warnings(found: &FoundFiles, options: &Options) -> Vec<Warning> {
    let mut warnings = dynamic_site_warnings(found);
    let has_rules = !found.rules.is_empty() || options.named_files().next().is_some();
    if found.files.is_empty() && !found.is_dynamic && !has_rules && options.live.is_empty() {
        warnings.push(Warning::NoFiles);
    }
    warnings.extend(options.cache_control.as_deref().and_then(number_as_directive));
    let content = Path::new(found.content);
    let published = found.files.iter().filter(|file| is_at_root(&file.key)).filter_map(|file| {
        let path = content.join(relative(&file.key));
        Some(Warning::MisnamedRules { kind: meant(&path)?, path, is_published: true })
    });
    let special = found.special.iter().filter(|path| path.parent() == Some(content));
    let unpublished = special.filter_map(|path| {
        Some(Warning::MisnamedRules { kind: meant(path)?, path: path.clone(), is_published: false })
    });
    warnings.extend(published.chain(unpublished));
    warnings
}

/// Returns warnings for the author of a dynamic site about the names of its files.
fn dynamic_site_warnings(found: &FoundFiles) -> Vec<Warning> {
    let mut warnings = below_static(found);
    if !found.is_dynamic {
        return warnings;
    }
    let content = |path: &Path| path.strip_prefix(found.content).map(key_of).ok();
    for path in &found.special {
        let Some(key) = content(path) else { continue };
        if is_page_below_static(&key) {
            continue;
        }
        if is_code_among_files(&key) {
            warnings.push(Warning::CodeAmongFiles(path.clone()));
        } else if is_copy_of_code(name_of(&key)) {
            warnings.push(Warning::CopyOfCode(path.clone()));
        }
    }
    let has_code = |path: &str| found.code.iter().any(|file| &*file.path == path.as_bytes());
    if has_code(MAIN_BESIDE) && has_code(MAIN) {
        warnings.push(Warning::SecondMain(Path::new(found.content).join("main.lua")));
    }
    for page in &found.code {
        if let Some(file) = behind_page(page, found) {
            warnings.push(Warning::BehindPage { file, page: page.relative() });
        }
    }
    warnings
}

/// Returns warnings about pages below a folder `static/`, which would be files in a site of 80s.
fn below_static(found: &FoundFiles) -> Vec<Warning> {
    let is_live = |path: &PathBuf| found.code.iter().any(|file| file.relative() == *path);
    let paths = found.below_static.iter().map(|(key, _)| relative(key));
    let is_ignored = |path: &PathBuf| {
        found.is_dynamic && ignored_folder(&key_of(path)).is_some()
            || !found.content.is_empty() && path.strip_prefix(found.content).is_err()
    };
    let warning = |path: PathBuf| {
        if is_live(&path) { Warning::PageBelowStatic(path) } else { Warning::CodeAmongFiles(path) }
    };
    paths.filter(|path| !is_ignored(path)).map(warning).collect()
}

/// Returns the file with the same URL as a page, below the source.
fn behind_page(page: &CodeFile, found: &FoundFiles) -> Option<PathBuf> {
    let route = route(std::str::from_utf8(&page.path).ok()?).ok()??;
    let names: &[&str] = if route.path.ends_with('/') { &["index.html"] } else { &["", ".html"] };
    let mut keys = names.iter().map(|name| [route.path.as_bytes(), name.as_bytes()].concat());
    let has = |key: &Vec<u8>| found.files.binary_search_by(|file| (*file.key).cmp(key)).is_ok();
    let key = keys.find(has).filter(|_| route.method == "GET")?;
    Some(Path::new(found.content).join(relative(&key)))
}

/// Warns about a `Cache-Control` with a number alone where a directive should be.
fn number_as_directive(value: &str) -> Option<Warning> {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let number = value.split(',').map(str::trim).find(is_number)?;
    Some(Warning::CacheControlNumber { value: value.to_owned(), number: number.to_owned() })
}

/// Returns whether a key is that of a file in no folder.
fn is_at_root(key: &[u8]) -> bool {
    !key.get(1..).unwrap_or_default().contains(&b'/')
}

/// Returns which rules file is meant by a name that is almost the name of one: without the `_` or
/// the `s`, in capitals, or with an ending that an editor has added.
fn meant(path: &Path) -> Option<RulesFile> {
    let name = path.file_name()?.as_bytes();
    if rules_file(name).is_some() {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let stem = name.strip_suffix(b".txt").unwrap_or(&name);
    let stem = stem.strip_prefix(b"_").unwrap_or(stem);
    match stem.strip_suffix(b"s").unwrap_or(stem) {
        b"redirect" => Some(RulesFile::Redirects),
        b"header" => Some(RulesFile::Headers),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::separate_code::{set_code_apart, tests::found};

    #[test]
    fn misleading_file_names_are_warned_about() {
        let files = ["about.dyn.html", "index.dyn.html", "main.lua", "post.x.dyn.html"];
        let plain = ["about.html", "index.html", "static/x.lua", "x.dyn.html.bak", "x.html"];
        let mut found = found(&[&files[..], &plain].concat());
        found.files.sort_by(|one, next| one.key.cmp(&next.key));
        let behind =
            |file: &str, page: &str| Warning::BehindPage { file: file.into(), page: page.into() };
        let expected = [
            Warning::CodeAmongFiles("static/x.lua".into()),
            Warning::CopyOfCode("x.dyn.html.bak".into()),
            behind("about.html", "about.dyn.html"),
            behind("index.html", "index.dyn.html"),
        ];
        assert_eq!(dynamic_site_warnings(&set_code_apart(found)), expected);
    }

    #[test]
    fn a_number_as_a_cache_control_directive_is_warned_about() {
        for (value, expected) in [
            ("600", "--cache-control 600: 600 is not a directive; did you mean max-age=600?"),
            (
                "public, 60",
                "--cache-control public, 60: 60 is not a directive; did you mean max-age=60?",
            ),
            ("max-age=600", ""),
            ("no-cache, s-maxage=60", ""),
        ] {
            let said = number_as_directive(value).map_or(String::new(), |one| one.to_string());
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn misspelt_names_of_rules_files_are_recognized() {
        use RulesFile::{Headers, Redirects};
        for (name, expected) in [
            ("_headers", None),
            ("_redirects", None),
            ("_redirects.txt", None),
            ("_header", Some(Headers)),
            ("_headers.txt", Some(Headers)),
            ("headers", Some(Headers)),
            ("header.txt", Some(Headers)),
            ("_Headers", Some(Headers)),
            ("_redirect", Some(Redirects)),
            ("redirects", Some(Redirects)),
            ("REDIRECTS.TXT", Some(Redirects)),
            ("header.html", None),
            ("headers.css", None),
            ("myheaders", None),
            ("_", None),
        ] {
            assert_eq!(meant(Path::new(name)), expected, "{name}");
        }
    }
}
