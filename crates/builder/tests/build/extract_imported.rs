//! Archives of kawipiko are imported, extracted to folders and built again: the new archives give
//! the same responses, except for the reported differences.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pinion_archive::{Layout, Role, Rule};
use pinion_builder::{
    BuildError, Difference, DifferenceReason, ExtractOptions, Extracted, Options, extract,
    import_file,
};

use crate::archive_reader::{Page, Site, built_with, options, read};
use crate::temporary_folder::Folder;

fn archives() -> Vec<PathBuf> {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kawipiko/tests/archives/made");
    let files = fs::read_dir(made).expect("a folder").map(|file| file.expect("a file").path());
    let mut archives: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|extension| extension == "cdb")).collect();
    archives.sort();
    assert!(archives.len() > 10);
    archives
}

fn imported(cdb: &[u8]) -> Site {
    let folder = Folder::new();
    let out = folder.join("out.pinion");
    import_file(cdb, &options(), &out, &()).expect("imported");
    read(fs::read(out).expect("it was written"))
}

fn extracted(site: &Site, out: &Folder) -> Extracted {
    let layout = Layout::open(&site.bytes).expect("an archive");
    let options = ExtractOptions { force: true, keep_going: true };
    extract(&layout.view(&site.bytes), out.path(), options, &()).expect("a folder")
}

/// Builds with the flags that the extraction has named.
fn built(out: &Folder, flags: &[String]) -> Result<Site, BuildError> {
    let is = |flag: &str| !flags.iter().any(|given| given == flag);
    let options = Options {
        index: is("--no-index"),
        clean_urls: is("--no-clean-urls"),
        slash_redirects: is("--no-slash-redirects"),
        ..options()
    };
    built_with(out, &options)
}

/// Returns the paths with reported differences, as keys of entries.
fn reported_paths(extracted: &Extracted) -> BTreeSet<String> {
    let refused = extracted.refused.iter().map(|refusal| refusal.path.clone());
    let of_one = |difference: &&Difference| {
        use DifferenceReason::{BothForms, SlashRedirects};
        !matches!(difference.reason, BothForms | SlashRedirects)
    };
    let others = extracted.differences.iter().filter(of_one);
    let others = others.map(|difference| {
        if difference.below { format!("404:{}", difference.path) } else { difference.path.clone() }
    });
    refused.chain(others).collect()
}

/// Returns whether a key is the other slash form of a redirect of the first archive.
fn is_other_form(site: &Site, key: &str) -> bool {
    let other = key.strip_suffix('/').map_or_else(|| format!("{key}/"), str::to_owned);
    site.entries.get(&other).is_some_and(|page| (300..400).contains(&page.status))
}

/// Returns an entry without its time, which no such archive has.
fn without_time(page: &Page) -> Page {
    Page { modified: None, ..page.clone() }
}

/// Returns all rules except the refused ones.
fn rules(site: &Site, done: &Extracted) -> Vec<String> {
    let layout = Layout::open(&site.bytes).expect("an archive");
    let archive = layout.view(&site.bytes);
    let is_refused = |rule: &Rule<'_>| {
        let name = format!("rule {}", rule.number());
        done.refused.iter().any(|refusal| refusal.path == name)
    };
    archive.rules().iter().filter(|rule| !is_refused(rule)).map(|rule| shown_rule(&rule)).collect()
}

fn shown_rule(rule: &Rule<'_>) -> String {
    let path: Vec<String> = rule.path().map(|part| format!("{part:?}")).collect();
    let target: Vec<String> = rule.target().map(|part| format!("{part:?}")).collect();
    let host = rule.host().map(<[u8]>::escape_ascii);
    let host = host.map(|host| host.to_string()).unwrap_or_default();
    format!("{host} {path:?} {target:?} {} {}", rule.status(), rule.is_forced())
}

/// Returns the unreported differences between an imported archive and the archive that is built
/// from its folder, and the reports without a difference, which would hide important ones.
fn wrong_reports(file: &Path) -> Vec<String> {
    let site = imported(&fs::read(file).expect("an archive"));
    let out = Folder::new();
    let done = extracted(&site, &out);
    let again = match built(&out, &done.flags) {
        Ok(again) => again,
        Err(error) => return vec![format!("{}: {error}", file.display())],
    };
    let is_reported =
        |reason| done.differences.iter().any(|difference| difference.reason == reason);
    let reported = reported_paths(&done);
    let mut wrong = Vec::new();
    let was = rules(&site, &done);
    // A build has a rule after a rule of a host where the import has an entry.
    let (is, more): (Vec<_>, Vec<_>) =
        rules(&again, &Extracted::default()).into_iter().partition(|rule| was.contains(rule));
    if was != is {
        wrong.push(format!("rules: {was:#?} {is:#?}"));
    }
    let mut more = more.len();
    let keys: BTreeSet<&String> = site.entries.keys().chain(again.entries.keys()).collect();
    for key in keys.into_iter().filter(|key| !key.starts_with("file:")) {
        let (was, is) = (site.entries.get(key), again.entries.get(key));
        if was.is_none() && is_other_form(&site, key) && is_reported(DifferenceReason::BothForms) {
            continue;
        }
        let same = was.map(without_time) == is.map(without_time);
        if more > 0 && is.is_none() && was.is_some_and(|was| (300..400).contains(&was.status)) {
            more -= 1;
            continue;
        }
        // An additional name disappears together with its file.
        let file = was.and_then(|was| was.target.as_ref());
        if same && reported.contains(key) {
            wrong.push(format!("{key}, reported in vain: {was:?}"));
        } else if !same
            && !reported.contains(key)
            && !file.is_some_and(|file| reported.contains(file))
        {
            wrong.push(format!("{key}\n  was {was:?}\n  is  {is:?}"));
        }
    }
    if is_reported(DifferenceReason::SlashRedirects) == (slash(&site) == slash(&again)) {
        wrong.push(format!("slash redirects: {} {}", slash(&site), slash(&again)));
    }
    wrong.iter().map(|wrong| format!("{}: {wrong}", file.display())).collect()
}

/// Returns the fields of redirects between slash forms.
fn slash(site: &Site) -> String {
    let layout = Layout::open(&site.bytes).expect("an archive");
    let block = layout.view(&site.bytes).shared_for(Role::SlashRedirect).expect("a block");
    String::from_utf8(block.full.to_vec()).expect("text")
}

#[test]
fn an_imported_site_round_trips_or_differences_are_reported() {
    let wrong: Vec<String> = archives().iter().flat_map(|file| wrong_reports(file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
