//! Maps the paths of files to the other paths at which they are served (docs/resolution.md).
//!
//! Every file is served at its own path. The response to `/dir/` is the first of [`INDEX_NAMES`] in
//! it, that to `/dir/name` the first `name` + one of [`CLEAN_SUFFIXES`], unless a file has exactly
//! that path. Two files that could respond to one URL never fail a build: the order decides, and
//! the one that lost is reported. Some names are pages for missing resources in and below their
//! folder ([`FALLBACK_NAMES`]); `404.html` is, under its own path, a page like any other.

use std::collections::HashMap;

use pinion_http::request_target::{escape, is_path_byte};

/// Names of folder indexes, best first.
const INDEX_NAMES: [&[u8]; 14] = [
    b"_index.html",
    b"_index.htm",
    b"_index.xhtml",
    b"_index.xht",
    b"_index.txt",
    b"_index.json",
    b"_index.xml",
    b"index.html",
    b"index.htm",
    b"index.xhtml",
    b"index.xht",
    b"index.txt",
    b"index.json",
    b"index.xml",
];

/// Extensions that a URL may leave out, best first.
const CLEAN_SUFFIXES: [&[u8]; 5] = [b".html", b".htm", b".xhtml", b".xht", b".txt"];

/// The icon that browsers request for every site.
pub(crate) const FAVICON: &[u8] = b"/favicon.ico";

/// The files that respond for it where it is missing, best first: formats that browsers of this
/// decade accept.
pub(crate) const FAVICON_FILES: [&[u8]; 2] = [b"/favicon.svg", b"/favicon.png"];

/// The page for missing resources.
pub(crate) const NOT_FOUND_NAME: &[u8] = b"404.html";

/// Names of pages for missing resources in and below a folder, best first, and their status. All
/// but the last have no other purpose: they do not respond under their own name.
const FALLBACK_NAMES: [(&[u8], u16); 4] =
    [(b"_wildcard.", 200), (b"_200.", 200), (b"_404.", 404), (NOT_FOUND_NAME, 404)];

/// The files that respond to each URL beside their own paths. Files are numbers in the list given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UrlPlan<'a> {
    /// File and alias, sorted.
    pub(crate) aliases: Vec<(usize, &'a [u8])>,
    /// Pages for missing resources, sorted.
    pub(crate) fallbacks: Vec<FallbackPage<'a>>,
    /// Pages of errors, by rising status, and the file of each.
    pub(crate) errors: Vec<(u16, usize)>,
    /// Files that do not respond under their own name, sorted.
    pub(crate) hidden: Vec<usize>,
    /// Pages for missing resources in a folder that has a better one, and second pages of an error,
    /// sorted.
    pub(crate) second: Vec<usize>,
    /// URL, the file that lost it and the file that has it.
    pub(crate) shadowed: Vec<(&'a [u8], usize, usize)>,
    /// Folders for which no file responds and a listing does, sorted.
    pub(crate) listings: Vec<&'a [u8]>,
}

/// A page for missing resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FallbackPage<'a> {
    pub(crate) file: usize,
    /// The path with a slash at its end.
    pub(crate) folder: &'a [u8],
    pub(crate) status: u16,
}

/// Which conventions hold.
#[derive(Clone, Copy)]
pub(crate) struct UrlConventions {
    /// An index file responds for its folder.
    pub(crate) index: bool,
    /// A page responds without its extension.
    pub(crate) clean_urls: bool,
    /// A listing responds for a folder without a response of its own.
    pub(crate) listings: bool,
    /// Another icon responds for the one that browsers ask for.
    pub(crate) favicon: bool,
}

impl UrlPlan<'_> {
    /// Returns the page that comes before the second one with this key.
    pub(crate) fn before_second(&self, key: &[u8]) -> Option<usize> {
        let Some(status) = error_status(key) else {
            let (folder, _) = key.split_at(name_at(key));
            let of_folder = self.fallbacks.iter().find(|fallback| fallback.folder == folder);
            return of_folder.map(|fallback| fallback.file);
        };
        self.errors.iter().find(|(known, _)| *known == status).map(|(_, file)| *file)
    }

    pub(crate) fn is_hidden(&self, file: usize) -> bool {
        self.hidden.binary_search(&file).is_ok()
    }
}

/// A file that could respond to a URL which is not its own path. The first of those of one URL
/// does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct UrlCandidate<'a> {
    url: &'a [u8],
    /// The rank of its name for that URL.
    rank: u8,
    file: u32,
}

/// Plans the paths of `keys`, which are different, sorted, and begin with a slash; there are at
/// most [`FILES_MAX`](crate::limits::FILES_MAX).
pub(crate) fn plan<'a>(keys: &[&'a [u8]], conventions: UrlConventions) -> UrlPlan<'a> {
    let mut plan = UrlPlan::default();
    plan_fallbacks(keys, &mut plan);
    let candidates = candidates(keys, &plan.hidden, conventions);
    let is_own = |url: &[u8]| keys.binary_search(&url).ok().filter(|file| !plan.is_hidden(*file));
    // The winners, by URL.
    let (mut aliases, mut shadowed) = (Vec::new(), Vec::new());
    for rivals in candidates.chunk_by(|one, other| one.url == other.url) {
        let Some((&UrlCandidate { url, file, .. }, losers)) = rivals.split_first() else {
            continue;
        };
        let (winner, losers) = match is_own(url) {
            Some(own) => (own, rivals),
            None => {
                aliases.push((file as usize, url));
                (file as usize, losers)
            }
        };
        shadowed.extend(losers.iter().map(|lost| (url, lost.file as usize, winner)));
    }
    drop(candidates);
    let responds = |aliases: &[(usize, &[u8])], url: &[u8]| {
        aliases.binary_search_by(|(_, known)| (*known).cmp(url)).is_ok()
    };
    let mut listings = Vec::new();
    if conventions.listings {
        let shown = keys.iter().enumerate().filter(|(file, _)| !plan.is_hidden(*file));
        let folders = folders(shown.map(|(_, &key)| key));
        listings.extend(folders.filter(|folder| !responds(&aliases, folder)));
    }
    if conventions.favicon && is_own(FAVICON).is_none() && !responds(&aliases, FAVICON) {
        let icon = FAVICON_FILES.iter().find_map(|icon| keys.binary_search(icon).ok());
        aliases.extend(icon.map(|file| (file, FAVICON)));
    }
    aliases.sort_unstable();
    shadowed.sort_unstable();
    UrlPlan { aliases, shadowed, listings, ..plan }
}

/// Returns the candidates sorted by URL, the best first. A table by URL of all paths took a quarter
/// of the memory of a whole build.
fn candidates<'a>(
    keys: &[&'a [u8]],
    hidden: &[usize],
    conventions: UrlConventions,
) -> Vec<UrlCandidate<'a>> {
    let of_file = |(file, &key): (usize, &&'a [u8])| {
        let index = index_url(key).filter(|_| conventions.index);
        let clean = clean_url(key).filter(|_| conventions.clean_urls);
        let shown = hidden.binary_search(&file).is_err();
        let urls = [index, clean].into_iter().flatten().filter(move |_| shown);
        urls.map(move |(url, rank)| UrlCandidate { url, rank, file: file as u32 })
    };
    let mut candidates: Vec<_> = keys.iter().enumerate().flat_map(of_file).collect();
    // The keys were in order, and so is nearly all that became of them: a stable sort profits.
    candidates.sort();
    candidates
}

/// Returns the files that respond to a URL if they exist and none has its very path, best first.
pub(crate) fn files_of(url: &[u8]) -> impl Iterator<Item = Vec<u8>> + use<'_> {
    let names: &[&[u8]] = if url.ends_with(b"/") { &INDEX_NAMES } else { &CLEAN_SUFFIXES };
    let icons: &[&[u8]] = if url == FAVICON { &FAVICON_FILES } else { &[] };
    let icons = icons.iter().map(|icon| icon.to_vec());
    names.iter().map(move |name| [url, name].concat()).chain(icons)
}

/// Returns the folders that hold files with these keys, which are sorted, and the root.
fn folders<'a>(keys: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    let mut last: &[u8] = b"";
    let below = keys.flat_map(move |key| {
        // Keys of one folder follow each other: it is new if the last one is not below it too.
        let common = key.iter().zip(last).take_while(|(a, b)| a == b).count();
        last = key;
        let slashes = (common.max(1)..key.len()).filter(|&at| key.get(at) == Some(&b'/'));
        slashes.filter_map(|at| key.get(..=at))
    });
    std::iter::once(&b"/"[..]).chain(below)
}

/// Finds the pages for missing resources: the best of each folder.
fn plan_fallbacks<'a>(keys: &[&'a [u8]], plan: &mut UrlPlan<'a>) {
    let mut best: HashMap<&'a [u8], (usize, usize)> = HashMap::new();
    for (file, &key) in keys.iter().enumerate() {
        if let Some(status) = error_status(key) {
            plan.hidden.push(file);
            if plan.errors.iter().any(|(known, _)| *known == status) {
                plan.second.push(file);
            } else {
                plan.errors.push((status, file));
            }
            continue;
        }
        let (folder, name) = key.split_at(name_at(key));
        let Some(rank) = fallback_rank(name) else { continue };
        if rank + 1 < FALLBACK_NAMES.len() {
            plan.hidden.push(file);
        }
        let holder = best.entry(folder).or_insert((rank, file));
        let lost = (*holder).max((rank, file));
        *holder = (*holder).min((rank, file));
        if lost != *holder {
            plan.second.push(lost.1);
        }
    }
    let status = |rank: usize| FALLBACK_NAMES.get(rank).map_or(404, |(_, status)| *status);
    let found = best.iter().map(|(folder, &(rank, file))| FallbackPage {
        file,
        folder,
        status: status(rank),
    });
    plan.fallbacks.extend(found);
    plan.fallbacks.sort_unstable();
    plan.errors.sort_unstable();
    plan.second.sort_unstable();
}

/// Returns the status whose built-in page a file at the root replaces: `_500.html`. Missing
/// resources have pages of their own.
pub(crate) fn error_status(key: &[u8]) -> Option<u16> {
    let [b'/', b'_', class @ (b'4' | b'5'), tens, units, b'.', _, ..] = key else { return None };
    let mut digits = [class, tens, units].into_iter().map(|digit| char::from(*digit).to_digit(10));
    let status = digits.try_fold(0, |status, digit| Some(10 * status + digit? as u16))?;
    (status != 404 && !key.get(1..)?.contains(&b'/')).then_some(status)
}

/// Returns whether a file with this key responds in place of others and not under its own name.
pub(crate) fn is_hidden(key: &[u8]) -> bool {
    let (_, name) = key.split_at(name_at(key));
    let rank = fallback_rank(name);
    error_status(key).is_some() || rank.is_some_and(|rank| rank + 1 < FALLBACK_NAMES.len())
}

/// Returns whether a file with this key, at the root, responds in place of others.
pub(crate) fn is_page_for_others(key: &[u8]) -> bool {
    name_at(key) == 1 && (is_hidden(key) || key.get(1..) == Some(NOT_FOUND_NAME))
}

/// Returns the rank of a name among those of pages for missing resources.
fn fallback_rank(name: &[u8]) -> Option<usize> {
    FALLBACK_NAMES.iter().position(|(known, _)| match known.last() {
        Some(b'.') => name.len() > known.len() && name.starts_with(known),
        _ => name == *known,
    })
}

/// Returns `/dir/` for an index file, and its rank.
pub(crate) fn index_url(key: &[u8]) -> Option<(&[u8], u8)> {
    let (folder, name) = key.split_at(name_at(key));
    let (_, rank) = INDEX_NAMES.iter().zip(0..).find(|(index, _)| **index == name)?;
    Some((folder, rank))
}

/// Returns `/dir/name` for a page, and its rank.
pub(crate) fn clean_url(key: &[u8]) -> Option<(&[u8], u8)> {
    let mut suffixes = CLEAN_SUFFIXES.iter().zip(0..);
    let (url, rank) =
        suffixes.find_map(|(suffix, rank)| Some((key.strip_suffix(*suffix)?, rank)))?;
    (!url.ends_with(b"/")).then_some((url, rank))
}

/// Returns where the last component begins.
fn name_at(key: &[u8]) -> usize {
    key.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1)
}

/// Returns the key of a file by its path below the source, with or without a slash or `./` in
/// front.
pub(crate) fn of_path(path: &str) -> Vec<u8> {
    let below = path.strip_prefix("./").unwrap_or(path);
    [b"/", below.strip_prefix('/').unwrap_or(below).as_bytes()].concat()
}

/// Returns a path as it stands in a field: every byte that RFC 3986 does not allow in a path is
/// escaped.
pub(crate) fn escaped(key: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(key.len());
    escape(&mut text, key.iter().copied(), is_path_byte);
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const ALL: UrlConventions =
        UrlConventions { index: true, clean_urls: true, listings: false, favicon: true };

    fn aliases(keys: &[&str]) -> Vec<String> {
        aliases_with(keys, ALL)
    }

    fn aliases_with(keys: &[&str], conventions: UrlConventions) -> Vec<String> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let name = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let plan = plan(&keys, conventions);
        plan.aliases
            .iter()
            .map(|(file, url)| format!("{} {}", name(url), name(keys[*file])))
            .collect()
    }

    #[test]
    fn pages_and_index_files_have_aliases() {
        assert_eq!(aliases(&["/about.html"]), ["/about /about.html"]);
        assert_eq!(aliases(&["/a/index.html"]), ["/a/ /a/index.html", "/a/index /a/index.html"]);
        assert_eq!(aliases(&["/a/index.json"]), ["/a/ /a/index.json"]);
        assert_eq!(aliases(&["/x.rst.txt", "/a.css", "/b.HTML"]), ["/x.rst /x.rst.txt"]);
        assert_eq!(aliases(&["/404.html", "/200.png"]), ["/404 /404.html"]);
        assert_eq!(aliases(&["/.html", "/a/.txt"]), Vec::<String>::new());
    }

    #[test]
    fn the_preferred_extension_gets_a_contested_alias() {
        assert_eq!(aliases(&["/a", "/a.htm", "/a.html", "/a.txt"]), Vec::<String>::new());
        assert_eq!(aliases(&["/a.txt", "/a.xht", "/a.xhtml"]), ["/a /a.xhtml"]);
        assert_eq!(
            aliases(&["/_index.xml", "/index.html"]),
            ["/ /_index.xml", "/index /index.html"]
        );
    }

    #[test]
    fn shadowed_files_name_the_winning_file() {
        let keys: Vec<&[u8]> = vec![b"/a.txt", b"/a.htm", b"/a.html"];
        assert_eq!(plan(&keys, ALL).shadowed, [(&b"/a"[..], 0, 2), (b"/a", 1, 2)]);
        let keys: Vec<&[u8]> = vec![b"/a", b"/a.html"];
        assert_eq!(plan(&keys, ALL).shadowed, [(&b"/a"[..], 1, 0)]);
    }

    #[test]
    fn url_conventions_can_be_disabled() {
        let keys = ["/a/index.html", "/b.html"];
        let index = UrlConventions { index: false, ..ALL };
        assert_eq!(aliases_with(&keys, index), ["/a/index /a/index.html", "/b /b.html"]);
        let clean = UrlConventions { clean_urls: false, ..ALL };
        assert_eq!(aliases_with(&keys, clean), ["/a/ /a/index.html"]);
    }

    #[test]
    fn folders_without_an_index_are_listed() {
        let listings = |keys: &[&str], conventions| {
            let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
            let text = |folder: &[u8]| String::from_utf8(folder.to_vec()).unwrap();
            plan(&keys, conventions).listings.into_iter().map(text).collect::<Vec<_>>()
        };
        let listed = UrlConventions { listings: true, ..ALL };
        let keys = ["/a/b/c", "/a/b/d/e", "/a/index.html", "/b-1/x", "/b/_404.html", "/b/x", "/c"];
        assert_eq!(listings(&keys, listed), ["/", "/a/b/", "/a/b/d/", "/b-1/", "/b/"]);
        assert_eq!(listings(&keys, ALL), Vec::<String>::new());
        let index = UrlConventions { index: false, ..listed };
        assert_eq!(listings(&["/a/index.html", "/index.html"], index), ["/", "/a/"]);
        // What is not published makes no folder.
        assert_eq!(listings(&["/a/_200.html", "/a/b/_404.html"], listed), ["/"]);
        assert_eq!(listings(&[], listed), ["/"]);
    }

    #[test]
    fn favicon_ico_is_an_alias_of_another_icon() {
        let svg = "/favicon.ico /favicon.svg";
        assert_eq!(aliases(&["/favicon.png", "/favicon.svg"]), [svg]);
        assert_eq!(aliases(&["/favicon.png"]), ["/favicon.ico /favicon.png"]);
        let keys: Vec<&[u8]> = vec![b"/favicon.ico", b"/favicon.svg"];
        assert_eq!(plan(&keys, ALL), UrlPlan::default());
        assert_eq!(aliases(&["/a/favicon.svg", "/favicon.gif"]), Vec::<String>::new());
        let none = UrlConventions { favicon: false, ..ALL };
        assert_eq!(aliases_with(&["/favicon.svg"], none), Vec::<String>::new());
    }

    #[test]
    fn not_found_pages_and_fallbacks_are_recognized() {
        let keys: Vec<&[u8]> = vec![
            b"/200.png",
            b"/404.html",
            b"/404.png",
            b"/_200.",
            b"/a/404.html",
            b"/a/_404.html",
            b"/a/x404.html",
            b"/b/_200.html",
            b"/b/_200.txt",
            b"/b/_404.html",
            b"/b/_wildcard.html/x",
            b"/c/404.htm",
        ];
        let plan = plan(&keys, ALL);
        let found: Vec<_> = plan.fallbacks.iter().map(|f| (f.file, f.folder, f.status)).collect();
        assert_eq!(found, [(1, &b"/"[..], 404), (5, b"/a/", 404), (7, b"/b/", 200)]);
        assert_eq!(plan.hidden, [5, 7, 8, 9]);
        assert_eq!(plan.second, [4, 8, 9]);
        let before = plan.second.iter().map(|&second| plan.before_second(keys[second]));
        assert_eq!(before.collect::<Vec<_>>(), [Some(5), Some(7), Some(7)]);
        assert!(plan.aliases.iter().all(|(file, _)| !plan.is_hidden(*file)));
    }

    #[test]
    fn error_page_names_are_recognized() {
        for (key, status) in [
            (&b"/_500.html"[..], Some(500)),
            (b"/_400.x", Some(400)),
            (b"/_599.txt", Some(599)),
            (b"/_404.html", None),
            (b"/_500", None),
            (b"/_500.", None),
            (b"/500.html", None),
            (b"/_50x.html", None),
            (b"/_300.html", None),
            (b"/_600.html", None),
            (b"/_500.d/x", None),
            (b"/a/_500.html", None),
        ] {
            assert_eq!(error_status(key), status, "{}", key.escape_ascii());
        }
        let keys: Vec<&[u8]> = vec![b"/_404.html", b"/_500.html", b"/_500.txt", b"/_503.html"];
        let plan = plan(&keys, ALL);
        assert_eq!(plan.errors, [(500, 1), (503, 3)]);
        assert_eq!(plan.before_second(keys[2]), Some(1));
        assert_eq!((plan.hidden, plan.second), (vec![0, 1, 2, 3], vec![2]));
        assert_eq!(plan.aliases, []);
    }

    #[test]
    fn paths_are_percent_escaped() {
        let text = |key: &[u8]| String::from_utf8(escaped(key)).unwrap();
        assert_eq!(text(b"/a/b-c._~!$&'()*+,;=:@"), "/a/b-c._~!$&'()*+,;=:@");
        assert_eq!(text("/ä %?#\"<".as_bytes()), "/%C3%A4%20%25%3F%23%22%3C");
        assert_eq!(text(b"/\x00\xff\r\n[]"), "/%00%FF%0D%0A%5B%5D");
    }

    /// A simple implementation of docs/resolution.md: for each URL, it looks through all files in
    /// the documented order.
    fn model(keys: &[&[u8]]) -> BTreeMap<Vec<u8>, usize> {
        let find = |key: Vec<u8>| keys.iter().position(|known| *known == key);
        let mut urls: Vec<Vec<u8>> = Vec::new();
        for key in keys {
            urls.extend((1..=key.len()).map(|length| key[..length].to_vec()));
        }
        let response = |url: &[u8]| {
            find(url.to_vec()).map(|_| None).or_else(|| files_of(url).find_map(find).map(Some))
        };
        urls.iter().filter_map(|url| Some((url.clone(), response(url)??))).collect()
    }

    /// For each URL, the files that could respond to it and do not, and the one that does.
    fn losers<'a>(keys: &[&'a [u8]]) -> Vec<(&'a [u8], usize, usize)> {
        let find = |key: Vec<u8>| keys.iter().position(|known| *known == key);
        let urls = keys.iter().flat_map(|key| (1..=key.len()).map(|length| &key[..length]));
        let losers = urls.collect::<std::collections::BTreeSet<_>>().into_iter().flat_map(|url| {
            let mut able = std::iter::once(url.to_vec()).chain(files_of(url)).filter_map(find);
            let first = able.next();
            able.filter_map(move |lost| Some((url, lost, first?))).collect::<Vec<_>>()
        });
        let mut losers: Vec<_> = losers.collect();
        losers.sort_unstable();
        losers
    }

    proptest! {
        #[test]
        fn aliases_agree_with_the_model(
            names in prop::collection::btree_set(
                "/(a/|b/)?(_?index|a|b|a\\.b|404)(\\.(html|htm|xhtml|xht|txt|json|xml|css))?",
                0..20,
            ),
        ) {
            let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            let plan = plan(&keys, ALL);
            let found: BTreeMap<Vec<u8>, usize> =
                plan.aliases.iter().map(|(file, url)| (url.to_vec(), *file)).collect();
            prop_assert_eq!(found.len(), plan.aliases.len(), "no URL twice");
            prop_assert_eq!(&found, &model(&keys));
            prop_assert_eq!(plan.shadowed, losers(&keys));
        }
    }
}
