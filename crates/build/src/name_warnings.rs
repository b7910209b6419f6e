//! Finds names in a folder with a meaning that its author most likely did not intend.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::dynamic_site;
use crate::options::Options;
use crate::walk::file_names::{RulesFile, rules_file};
use crate::walk::found_files::{FoundFiles, relative};
use crate::warning::Warning;

/// Returns warnings for the author of a site about the names of its files.
pub(crate) fn doubts(found: &FoundFiles, options: &Options) -> Vec<Warning> {
    let mut doubts = dynamic_site::doubts(found);
    let has_rules = !found.rules.is_empty() || options.named_files().next().is_some();
    if found.files.is_empty() && !found.is_dynamic && !has_rules && options.live.is_empty() {
        doubts.push(Warning::NoFiles);
    }
    doubts.extend(options.cache_control.as_deref().and_then(number_as_directive));
    let content = Path::new(found.content);
    let published = found.files.iter().filter(|file| is_at_root(&file.key)).filter_map(|file| {
        let path = content.join(relative(&file.key));
        Some(Warning::MisnamedRules { kind: meant(&path)?, path, is_published: true })
    });
    let special = found.special.iter().filter(|path| path.parent() == Some(content));
    let unpublished = special.filter_map(|path| {
        Some(Warning::MisnamedRules { kind: meant(path)?, path: path.clone(), is_published: false })
    });
    doubts.extend(published.chain(unpublished));
    doubts
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

    #[test]
    fn a_number_is_not_a_directive_of_cache_control() {
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
    fn names_that_are_almost_those_of_rules_files() {
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
