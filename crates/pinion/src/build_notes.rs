//! Notes for a person about the names in a folder: which files are left out, and which ones clients
//! keep.

use crate::terminal::{count, counted};
use pinion_builder::{Examined, Fingerprinted, Summary, is_script_source};
use std::path::{Path, PathBuf};

/// Paths that are left out and named; more are counted.
const LEFT_OUT_NAMED: usize = 5;

/// Returns the notes about a build, one line each. `is_run` returns whether a script of the folder
/// is run.
pub(crate) fn of_build(summary: &Summary, is_run: impl Fn(&Path) -> bool) -> Vec<String> {
    let unasked = unasked(&summary.skipped, &summary.excluded);
    lines(&not_run(unasked, is_run), &summary.special, &summary.fingerprinted)
}

/// Returns the notes about a folder that was not built, one line each. `is_run` returns whether a
/// script of the folder is run.
pub(crate) fn of_examined(examined: &Examined, is_run: impl Fn(&Path) -> bool) -> Vec<String> {
    let Examined { skipped, excluded, special, fingerprinted, .. } = examined;
    lines(&not_run(unasked(skipped, excluded), is_run), special, fingerprinted)
}

/// Leaves out scripts that are run: everything is as it should be.
fn not_run(mut paths: Vec<&PathBuf>, is_run: impl Fn(&Path) -> bool) -> Vec<&PathBuf> {
    paths.retain(|path| !is_script(path) || !is_run(path));
    paths
}

fn lines(unasked: &[&PathBuf], special: &[PathBuf], fingerprinted: &Fingerprinted) -> Vec<String> {
    let never_served = (!special.is_empty()).then(|| {
        let paths = counted(special.len() as u64, "path");
        let special: Vec<&PathBuf> = special.iter().collect();
        format!("{paths} never served because of the name: {}", some(&special))
    });
    let notes = [left_out(unasked), scripts(unasked), never_served, kept_by_clients(fingerprinted)];
    notes.into_iter().flatten().collect()
}

/// Returns notes about the files that a build has left out without being asked to: paths, and
/// scripts.
pub(crate) fn left_out_of(summary: &Summary) -> [Option<String>; 2] {
    let unasked = unasked(&summary.skipped, &summary.excluded);
    [left_out(&unasked), scripts(&unasked)]
}

/// Returns the paths that are left out for their name alone. Both lists are sorted.
fn unasked<'p>(skipped: &'p [PathBuf], excluded: &[PathBuf]) -> Vec<&'p PathBuf> {
    skipped.iter().filter(|path| excluded.binary_search(path).is_err()).collect()
}

/// Returns a note about scripts of other programs, whose sources are left out; `None` without any.
fn scripts(skipped: &[&PathBuf]) -> Option<String> {
    let scripts: Vec<&PathBuf> = skipped.iter().copied().filter(|path| is_script(path)).collect();
    let count = counted(scripts.len() as u64, "script");
    let named = some(&scripts);
    (!scripts.is_empty()).then(|| format!("{count} whose source is not published: {named}"))
}

fn is_script(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_script_source(name.as_encoded_bytes()))
}

/// Returns a note about the files that are left out beside scripts; `None` if there are none.
fn left_out(skipped: &[&PathBuf]) -> Option<String> {
    let skipped: Vec<&PathBuf> = skipped.iter().copied().filter(|path| !is_script(path)).collect();
    let paths = counted(skipped.len() as u64, "path");
    let named = some(&skipped);
    (!skipped.is_empty()).then(|| format!("{paths} left out (publish with --include): {named}"))
}

/// Returns a note about files that clients keep and do not ask for again; `None` if there is no
/// such file.
pub(crate) fn kept_by_clients(fingerprinted: &Fingerprinted) -> Option<String> {
    let Fingerprinted { files, examples } = fingerprinted;
    let examples: Vec<String> = examples.iter().map(|path| path.display().to_string()).collect();
    let more = if *files > examples.len() as u64 { ", …" } else { "" };
    let (files, examples) = (counted(*files, "file"), examples.join(", "));
    let cached = "cached by browsers for a year";
    (!examples.is_empty())
        .then(|| format!("{files} with a fingerprint in the name, {cached}: {examples}{more}"))
}

/// Returns the first paths, and how many more there are.
pub(crate) fn some(paths: &[&PathBuf]) -> String {
    let named = paths.iter().take(LEFT_OUT_NAMED).map(|path| path.display().to_string());
    let named = named.collect::<Vec<_>>().join(", ");
    match paths.len().checked_sub(LEFT_OUT_NAMED) {
        None | Some(0) => named,
        Some(more) => format!("{named} and {} more", count(more as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_five_omitted_paths_are_named() {
        let paths: Vec<PathBuf> = ["a", "b", "c", "d", "e", "f", "g"].map(PathBuf::from).to_vec();
        let line = |count: usize| left_out(&unasked(&paths[..count], &[])).unwrap_or_default();
        assert_eq!(line(0), "");
        assert_eq!(line(1), "1 path left out (publish with --include): a");
        assert_eq!(line(5), "5 paths left out (publish with --include): a, b, c, d, e");
        assert_eq!(line(7), "7 paths left out (publish with --include): a, b, c, d, e and 2 more");
    }

    /// A user who has excluded a path does not want to publish it.
    #[test]
    fn explicitly_excluded_paths_are_not_reported() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let line = |excluded: &[&str]| {
            left_out(&unasked(&paths(&[".git", "a.psd", "b.log"]), &paths(excluded)))
        };
        let expected = "2 paths left out (publish with --include): .git, b.log";
        assert_eq!(line(&["a.psd"]).as_deref(), Some(expected));
        assert_eq!(line(&[".git", "a.psd", "b.log"]), None);
    }

    #[test]
    fn scripts_have_a_line_of_their_own() {
        let paths: Vec<PathBuf> = [".git", "a.php", "b/index.php"].map(PathBuf::from).to_vec();
        let paths = unasked(&paths, &[]);
        let line = left_out(&paths);
        assert_eq!(line.as_deref(), Some("1 path left out (publish with --include): .git"));
        let expected = "2 scripts whose source is not published: a.php, b/index.php";
        assert_eq!(scripts(&paths).as_deref(), Some(expected));
        assert_eq!(scripts(&paths[..1]), None);
    }

    #[test]
    fn fingerprinted_files_are_reported_with_three_examples() {
        let examples: Vec<PathBuf> = ["a.js", "b.js", "c.js"].map(PathBuf::from).to_vec();
        let line = |files| kept_by_clients(&Fingerprinted { files, examples: examples.clone() });
        let text =
            "with a fingerprint in the name, cached by browsers for a year: a.js, b.js, c.js";
        assert_eq!(line(3), Some(format!("3 files {text}")));
        assert_eq!(line(1234), Some(format!("1 234 files {text}, …")));
        assert_eq!(kept_by_clients(&Fingerprinted::default()), None);
    }
}
