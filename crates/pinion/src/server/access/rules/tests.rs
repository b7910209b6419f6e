use super::*;
use crate::server::access::limits::RULES_MAX;
use pinion_archive::{Archive, Layout};
use pinion_builder::Options;
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;
use pinion_site::{Pieces, RequestBuffers, respond_traced};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::{fs, process};

/// Files with everything that gives a file further names.
const FILES: &[&str] = &[
    "index.html",
    "about.html",
    "about/team.html",
    "plain.txt",
    "page.xhtml",
    "admin/index.html",
    "admin/list.json",
    "admin/deep/a.css",
    "admin/404.html",
    "docs/_index.htm",
    "docs/guide.htm",
    "docs/_200.html",
    "area/_wildcard.html",
    "icons/a.svg",
    "favicon.svg",
    "404.html",
    "with space/\u{fc}.html",
    "app.html",
];

/// Pages for missing files: they have no path of their own, and are sent for any other one.
const HIDDEN: &[&str] = &["docs/_200.html", "area/_wildcard.html"];

const REDIRECTS: &str = "/way/* /admin/:splat 200\n/team /about/team 200\n/old /about 301\n\
    /gone /admin/index.html 404\n/area2/* /area/:splat 200\n/forced/* /admin/deep/a.css 200!\n\
    /nothing/* /admin/missing 200\n";

/// An archive of these files, each with another content.
struct Site {
    bytes: Vec<u8>,
    layout: Layout,
}

impl Site {
    fn get() -> &'static Self {
        static SITE: OnceLock<Site> = OnceLock::new();
        SITE.get_or_init(Self::build)
    }

    fn build() -> Self {
        let folder = PathBuf::from(format!("pinion-access-{}", process::id()));
        let folder = std::env::temp_dir().join(folder);
        for file in FILES {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, format!("the content of {file}\n")).expect("a file");
        }
        fs::write(folder.join("_redirects"), REDIRECTS).expect("a file");
        let single_page = Some("app.html".to_owned());
        let options = Options { listings: true, single_page, ..Options::new(0) };
        let built = pinion_builder::build(&folder, &options, Cursor::new(Vec::new()), &());
        fs::remove_dir_all(&folder).expect("removed");
        let bytes = built.expect("built").out.into_inner();
        let layout = Layout::open(&bytes).expect("an archive");
        Self { bytes, layout }
    }

    fn archive(&self) -> Archive<'_> {
        self.layout.view(&self.bytes)
    }

    /// Returns the status and the tag of the content of a path, and the rules that apply.
    fn get_path(&self, rules: &AccessRules, path: &str) -> Option<(u16, Vec<u8>, RuleSet)> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n");
        let mut storage = HeadStorage::new();
        let parsed = parse(head.as_bytes(), 0, &mut storage, &Limits::default());
        let Ok(Parsed::Head { head, .. }) = parsed else { return None };
        let met = MetRules::new(Some(rules));
        let (mut work, mut pieces) = (RequestBuffers::new(), Pieces::new());
        let response = respond_traced(&self.archive(), &head, 0, &mut work, &mut pieces, &met);
        let asked = rules.covering(&PathReadings::of_sent(head.target.path));
        let tag = response.etag.unwrap_or_default().to_vec();
        Some((response.status, tag, asked.with(met.get())))
    }

    /// Returns the file of each content, by its tag.
    fn files_by_tag(&self) -> BTreeMap<Vec<u8>, &'static str> {
        let none = AccessRules::default();
        let tag = |file: &&'static str| {
            let path = escaped(&format!("/{file}"));
            let (status, tag, _) = self.get_path(&none, &path)?;
            (status == 200).then_some((tag, *file))
        };
        FILES.iter().filter(|file| !HIDDEN.contains(file)).filter_map(tag).collect()
    }
}

fn escaped(path: &str) -> String {
    let mut text = Vec::new();
    pinion_http::request_target::escape(
        &mut text,
        path.bytes(),
        pinion_http::request_target::is_path_byte,
    );
    String::from_utf8(text).expect("ASCII")
}

/// Makes a rule for each of these paths, in any spelling.
fn rules_for(paths: &[String]) -> AccessRules {
    let rule = |path: &String| AccessRule {
        scope: PathScope::new(path),
        table: AccessTable::for_tests(path),
        password: None,
        number: 0,
    };
    let rules = AccessRules { rules: paths.iter().map(rule).collect(), ..AccessRules::default() };
    rules.with_single_page(&Site::get().archive())
}

/// After a reload, rules are found again in any order.
#[test]
fn rules_are_found_again_after_a_reload() {
    let rules = |numbers: &[u64]| {
        let mut rules = rules_for(&vec!["/".to_owned(); numbers.len()]);
        rules.rules.iter_mut().zip(numbers).for_each(|(rule, number)| rule.number = *number);
        rules
    };
    let (earlier, now) = (rules(&[1, 2, 3]), rules(&[3, 4, 1]));
    let [first, second, third] = [0, 1, 2].map(RuleSet::of);
    assert_eq!(now.same_as(&earlier, first.with(third)), third.with(first));
    assert_eq!(now.same_as(&earlier, first), third);
    assert_eq!(now.same_as(&earlier, second), RuleSet::default());
    assert_eq!(AccessRules::default().same_as(&earlier, first), RuleSet::default());
}

/// Paths that rules may be about: every file, its other names, and every folder.
fn scopes() -> Vec<String> {
    let mut paths = vec!["/".to_owned()];
    for file in FILES {
        let path = format!("/{file}");
        let folder = path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        paths.push(escaped(&path));
        paths.extend(path.rsplit_once('.').map(|(stem, _)| escaped(stem)));
        paths.extend(folder.filter(|folder| !folder.is_empty()).map(|path| escaped(&path)));
    }
    paths.sort();
    paths.dedup();
    paths.truncate(64);
    paths
}

/// Whatever is sent for a path, every rule that covers the file is checked, as for the path of that
/// file itself.
fn assert_law(path: &str) -> Result<(), TestCaseError> {
    static BY_TAG: OnceLock<BTreeMap<Vec<u8>, &str>> = OnceLock::new();
    static RULES: OnceLock<AccessRules> = OnceLock::new();
    let site = Site::get();
    let by_tag = BY_TAG.get_or_init(|| site.files_by_tag());
    let rules = RULES.get_or_init(|| rules_for(&scopes()));
    let Some((status, tag, asked)) = site.get_path(rules, path) else { return Ok(()) };
    let Some(file) = by_tag.get(&tag).filter(|_| !tag.is_empty()) else { return Ok(()) };
    let own = escaped(&format!("/{file}"));
    let needed = rules.covering(&PathReadings::of_sent(own.as_bytes()));
    let missed = needed.without(asked);
    let missed: Vec<&str> = rules.of(missed).map(|(_, rule)| &*rule.table.path).collect();
    // A page that says that something is missing is for everyone below its folder, and nothing
    // else can be read by it.
    let is_error_page = status == 404 && file.ends_with("404.html");
    prop_assert!(
        missed.is_empty() || is_error_page,
        "{} sends {} with {} and is not asked about {:?}",
        path,
        file,
        status,
        missed
    );
    Ok(())
}

#[test]
fn all_files_have_contents_of_their_own() {
    assert_eq!(Site::get().files_by_tag().len(), FILES.len() - HIDDEN.len());
}

/// For each of these paths it is known in which way they lead to a file.
#[test]
fn every_way_to_a_file_is_checked() {
    let paths = ["/admin", "/about.html", "/favicon.svg", "/app.html"];
    let rules = rules_for(&paths.map(str::to_owned));
    let [admin, about, icon, app] = [0, 1, 2, 3].map(RuleSet::of);
    let none = RuleSet::default();
    for (path, status, expected) in [
        ("/admin", 308, admin),
        ("/admin/", 200, admin),
        ("/admin/index", 200, admin),
        ("/%61dmin/list.json", 200, admin),
        ("/x/../admin/list.json", 200, admin),
        // Rewrites lead into the folder.
        ("/way/list.json", 200, admin),
        ("/way/deep/a.css", 200, admin),
        ("/way/", 200, admin),
        ("/forced/x", 200, admin),
        ("/gone", 404, admin),
        // The page of a single-page application.
        ("/nothing/x", 200, admin.with(app)),
        ("/unknown", 200, app),
        ("/about", 200, about),
        ("/about.html", 200, about),
        ("/team", 200, none),
        ("/favicon.ico", 200, icon),
        ("/", 200, none),
        ("/plain", 200, none),
        ("/docs/x", 200, none),
    ] {
        let found = Site::get().get_path(&rules, path).expect(path);
        assert_eq!((found.0, found.2), (status, expected), "{path}");
    }
}

/// The page for missing files of a folder is a part of the folder, whatever leads to it.
#[test]
fn not_found_pages_are_protected_with_their_folder() {
    let rules = rules_for(&["/docs".to_owned()]);
    for path in [
        "/docs/x",
        "/docs/x%2F",
        "/docs/x%00",
        "/docs/%20../x%2F",
        "/%64ocs/%20../x%2F",
        "/%64ocs/%252e%252e/x%2F",
        "/DOCS/../docs/..%00/x%2F",
    ] {
        let (status, _, asked) = Site::get().get_path(&rules, path).expect(path);
        assert_eq!((status, asked), (200, RuleSet::of(0)), "{path}");
    }
}

/// The set of all rules has room for the maximum number of rules.
#[test]
fn a_site_can_have_the_most_rules() {
    let paths: Vec<String> = (0..RULES_MAX).map(|number| format!("/{number}")).collect();
    let rules = rules_for(&paths);
    let all = (0..RULES_MAX).map(RuleSet::of).fold(RuleSet::default(), RuleSet::with);
    let met = rules.of(all).map(|(_, rule)| &*rule.table.path);
    assert_eq!(met.collect::<Vec<_>>(), paths);
    for (number, path) in paths.iter().enumerate() {
        let (_, _, asked) = Site::get().get_path(&rules, path).expect(path);
        assert_eq!(asked, RuleSet::of(number), "{path}");
    }
}

/// A segment of a path that may lead somewhere, in some spelling.
fn segment() -> impl Strategy<Value = String> {
    let names = "index|about|team|plain|page|admin|list|deep|a|docs|guide|area|icons|favicon|404|\
                 way|old|gone|area2|forced|nothing|x|app|with%20space|%C3%BC|_index|_200|_wildcard";
    let names: Vec<String> = names.split('|').map(str::to_owned).collect();
    let suffixes = ["", "", "", ".html", ".htm", ".xhtml", ".txt", ".json", ".css", ".svg", ".ico"];
    let noise = prop_oneof![8 => Just(""), 1 => Just("."), 1 => Just("%2F"), 1 => Just(";a")];
    (prop::sample::select(names), prop::sample::select(suffixes.to_vec()), 0_u8..5, noise).prop_map(
        |(name, suffix, way, noise)| {
            let name = match way {
                0 => name.to_ascii_uppercase(),
                1 => match name.chars().next() {
                    Some(first) if first.is_ascii_alphanumeric() => {
                        format!("%{:02x}{}", first as u32, &name[1..])
                    }
                    _ => name,
                },
                _ => name,
            };
            format!("{name}{suffix}{noise}")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn no_file_is_sent_without_its_check(
        segments in prop::collection::vec(
            prop_oneof![
                12 => segment(),
                1 => Just("..".to_owned()),
                1 => Just(".".to_owned()),
                1 => Just(String::new()),
                1 => prop::sample::select(vec!["%20..", "%252e%252e", "..%00", "..%2F"])
                    .prop_map(str::to_owned),
            ],
            0..5,
        ),
        ends_with_slash: bool,
    ) {
        let end = if ends_with_slash { "/" } else { "" };
        assert_law(&format!("/{}{end}", segments.join("/")))?;
    }
}

/// The same holds for all paths that files have in this archive, without random input.
#[test]
fn no_path_of_the_archive_bypasses_a_rule() {
    let archive = Site::get().archive();
    let (mut entries, mut paths) = (archive.entries(), 0);
    while let Some(entry) = entries.next_entry().expect("an entry") {
        if let Ok(path) = std::str::from_utf8(entry.path())
            && path.starts_with('/')
        {
            assert_law(&escaped(path)).expect(path);
            paths += 1;
        }
    }
    assert!(paths > FILES.len(), "{paths}");
}
