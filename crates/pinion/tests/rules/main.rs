//! Builds a folder with rules and requests its paths: a comparison with the plain interpreter of
//! its lines.
//!
//! `crates/site` compares the evaluation of rules with the interpreter, on archives in which every
//! rule is tried in order. Here the builder decides which rules become entries, which come before
//! entries, and which are tried in order; the responses must not depend on that.

mod archive_client;
#[path = "../../../builder/tests/build/fields_oracle.rs"]
mod fields_oracle;
#[path = "../../../site/tests/site/reference_model.rs"]
mod reference_model;
mod response_field_rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pinion_archive::Layout;
use pinion_builder::{BuildError, Options};
use proptest::prelude::*;

use crate::archive_client::ask;
use crate::reference_model::{Request, Resolution, Rule, Site, resolve};

/// Files, and the other paths of each: its folder, with a slash at its end, and itself without its
/// extension.
const FILES: [(&str, &[&str]); 9] = [
    ("/index.html", &["/", "/index"]),
    ("/a.html", &["/a"]),
    ("/b", &[]),
    ("/ab/index.html", &["/ab/", "/ab/index"]),
    ("/ab/a.css", &[]),
    ("/a/b/a.html", &["/a/b/a"]),
    ("/old.txt", &["/old"]),
    ("/aa/bb", &[]),
    ("/b b/%.html", &["/b b/%"]),
];

/// Fallback pages: file, folder, status.
const FALLBACKS: [(&str, &str, u16); 3] =
    [("/_200.html", "/", 200), ("/ab/_404.txt", "/ab/", 404), ("/a/_wildcard.html", "/a/", 200)];

/// A folder in the file system, and its description for the interpreter.
#[derive(Clone, Debug)]
struct Case {
    files: BTreeSet<usize>,
    fallbacks: BTreeSet<usize>,
    /// The rules in the files that they come from, in the order of precedence: of [`FOLDER`], of
    /// the root, and of a file outside of the folder.
    rules: [Vec<Rule>; 3],
    single_page: bool,
    conventions: Conventions,
}

/// The kinds of paths besides those of files and rules.
#[derive(Clone, Copy, Debug)]
struct Conventions {
    slash_redirects: bool,
    index: bool,
    clean_urls: bool,
}

impl Conventions {
    const ALL: Conventions = Conventions { slash_redirects: true, index: true, clean_urls: true };

    /// Returns whether a file has this path too.
    fn hold_for(self, alias: &str) -> bool {
        if alias.ends_with('/') { self.index } else { self.clean_urls }
    }
}

/// The folder with rules of its own.
const FOLDER: &str = "/ab";

impl Case {
    fn site(&self) -> Site {
        let files = self.files.iter().map(|&number| FILES[number]);
        let held = |alias: &&str| self.conventions.hold_for(alias);
        let pages =
            files.flat_map(|(file, aliases)| aliases.iter().copied().filter(held).chain([file]));
        let fallbacks = self.fallbacks.iter().map(|&number| FALLBACKS[number]);
        Site {
            pages: pages.map(str::to_owned).collect(),
            rules: self.rules.concat(),
            fallbacks: fallbacks.map(|(_, folder, status)| (folder.to_owned(), status)).collect(),
            single_page: self.single_page,
            no_slash_redirects: !self.conventions.slash_redirects,
        }
    }

    /// Builds it. Rules that lead to themselves, which a build refuses, are removed first.
    fn build(&mut self) -> Vec<u8> {
        let (folder, beside) = (Temporary::new(), Temporary::new());
        for (file, _) in self.files.iter().map(|&number| FILES[number]) {
            folder.write(file, file);
        }
        for (file, of, _) in self.fallbacks.iter().map(|&number| FALLBACKS[number]) {
            folder.write(file, &format!("fallback {of}"));
        }
        let single_page = self.single_page.then(|| {
            folder.write("/app.single", "single page");
            "app.single".to_owned()
        });
        let Conventions { slash_redirects, index, clean_urls } = self.conventions;
        let options = Options {
            codings: Vec::new(),
            slash_redirects,
            index,
            clean_urls,
            single_page,
            rules: vec![beside.0.join("rules")],
            ..Options::new(0)
        };
        loop {
            let [of_folder, of_root, others] = &self.rules;
            folder.write("/ab/_redirects", &lines(of_folder, FOLDER));
            folder.write("/_redirects", &lines(of_root, ""));
            beside.write("/rules", &lines(others, ""));
            match pinion_builder::build(&folder.0, &options, Cursor::new(Vec::new()), &()) {
                Ok(built) => return built.out.into_inner(),
                Err(BuildError::Rules(errors)) => {
                    let looping = |expected: &str| expected.starts_with("another target");
                    assert!(errors.iter().all(|error| looping(&error.expected)), "{errors:?}");
                    let files =
                        [Path::new("ab/_redirects"), Path::new("_redirects"), &options.rules[0]];
                    for (rules, file) in self.rules.iter_mut().zip(files) {
                        let lost = errors.iter().filter(|error| error.file == file);
                        let lost: BTreeSet<usize> = lost.map(|error| error.line - 1).collect();
                        let mut rank = 0..;
                        rules.retain(|_| rank.next().is_none_or(|rank| !lost.contains(&rank)));
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Returns the lines of rules in a folder, all of which begin with it.
fn lines(rules: &[Rule], folder: &str) -> String {
    rules.iter().map(|rule| line(rule, folder)).collect::<Vec<_>>().join("\n")
}

fn line(rule: &Rule, folder: &str) -> String {
    let host = if rule.host.is_empty() { String::new() } else { format!("https://{}", rule.host) };
    let query: String = rule
        .query
        .iter()
        .map(|(key, value)| format!(" {key}={}", value.replace(' ', "+")))
        .collect();
    let force = if rule.force { "!" } else { "" };
    let escaped = |text: &str| text.replace('%', "%25").replace(' ', "%20");
    let Rule { from, to, status, .. } = rule;
    // The interpreter has targets of redirects ready for a field, and other targets decoded.
    let to = if (300..400).contains(status) { to.clone() } else { escaped(to) };
    let below = |path: &str| match path.strip_prefix(folder) {
        Some(rest) if !folder.is_empty() => format!(".{rest}"),
        _ => path.to_owned(),
    };
    format!("{host}{}{query} {} {status}{force}", below(&escaped(from)), below(&to))
}

/// A folder that is removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Temporary {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinion-rules-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        Temporary(folder)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.join(Path::new(path).strip_prefix("/").expect("a slash at the front"));
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("written");
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _left_for_the_system = fs::remove_dir_all(&self.0);
    }
}

fn path() -> impl Strategy<Value = String> {
    let known: Vec<String> = FILES
        .iter()
        .flat_map(|(file, aliases)| aliases.iter().copied().chain([*file]))
        .map(str::to_owned)
        .collect();
    let segment = prop_oneof!["[ab]{1,2}", Just("old".to_owned()), Just("x.css".to_owned())];
    let made = proptest::collection::vec(segment, 0..4)
        .prop_map(|segments| format!("/{}", segments.join("/")));
    (prop_oneof![prop::sample::select(known), made], prop::bool::weighted(0.2)).prop_map(
        |(path, slash)| if slash && !path.ends_with('/') { format!("{path}/") } else { path },
    )
}

fn from() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => path(),
        1 => Just("/*".to_owned()),
        1 => Just("/a*".to_owned()),
        1 => Just("/ab/*".to_owned()),
        1 => Just("/:x".to_owned()),
        1 => Just("/:x/*".to_owned()),
        1 => Just("/a/:x/:y".to_owned()),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let host = prop_oneof![8 => Just(""), 1 => Just("example.org"), 1 => Just("*.example.org")];
    let query = prop_oneof![
        8 => Just(vec![]),
        1 => Just(vec![("k", "a b")]),
        1 => Just(vec![("k", ":q"), ("l", "1")]),
    ];
    let redirects = prop::sample::select(vec![301u16, 301, 301, 302, 303, 307, 308]);
    let status = prop_oneof![5 => redirects, 3 => Just(200), 2 => Just(404)];
    let target = (path(), prop::option::weighted(0.5, 0..4usize), 0..3usize);
    (host, query, from(), target, status, any::<bool>()).prop_map(
        |(host, query, from, (path, capture, query_of_target), status, force)| {
            let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
            let query: Vec<_> = query.into_iter().map(owned).collect();
            let names = ["x", "y", "splat", "q"].into_iter().filter(|name| match *name {
                "splat" => from.contains('*'),
                "q" => query.iter().any(|(_, value)| value == ":q"),
                name => from.contains(&format!(":{name}")),
            });
            let names: Vec<&str> = names.collect();
            let redirects = (300..400).contains(&status);
            let mut to = if redirects { path.replace([' ', '%'], "-") } else { path };
            if let Some(name) = capture.and_then(|number| names.get(number)) {
                to = format!("{}/:{name}", to.trim_end_matches('/'));
            }
            if redirects {
                to += ["", "?y=1", "#end"][query_of_target];
            }
            Rule { host: host.to_owned(), from, query, to, status, force }
        },
    )
}

/// Generates a rule of the folder with its own rules: for paths and pages below it.
fn rule_of_folder() -> impl Strategy<Value = Rule> {
    rule().prop_map(|rule| Rule {
        host: String::new(),
        from: FOLDER.to_owned() + &rule.from,
        to: FOLDER.to_owned() + &rule.to,
        ..rule
    })
}

fn case() -> impl Strategy<Value = Case> {
    (
        proptest::collection::btree_set(0..FILES.len(), 0..FILES.len()),
        proptest::collection::btree_set(0..FALLBACKS.len(), 0..FALLBACKS.len()),
        [
            proptest::collection::vec(rule_of_folder(), 0..3).boxed(),
            proptest::collection::vec(rule(), 1..8).boxed(),
            proptest::collection::vec(rule(), 0..3).boxed(),
        ],
        any::<bool>(),
        conventions(),
    )
        .prop_map(|(files, fallbacks, rules, single_page, conventions)| Case {
            files,
            fallbacks,
            rules,
            single_page,
            conventions,
        })
}

/// Returns the conventions of a site. Most sites have all of them.
fn conventions() -> impl Strategy<Value = Conventions> {
    let holds = || prop::bool::weighted(0.75);
    (holds(), holds(), holds()).prop_map(|(slash_redirects, index, clean_urls)| Conventions {
        slash_redirects,
        index,
        clean_urls,
    })
}

fn request() -> impl Strategy<Value = Request> {
    let host = prop_oneof![
        3 => Just("else.example"),
        1 => Just("EXAMPLE.org:80"),
        1 => Just("a.example.org"),
    ];
    let query = prop_oneof![
        3 => Just(None),
        1 => Just(Some("k=a+b".to_owned())),
        1 => Just(Some("l=1&k=%41&z".to_owned())),
    ];
    (host, path(), query, any::<bool>()).prop_map(|(host, path, query, navigation)| Request {
        host: host.to_owned(),
        path,
        query,
        navigation,
    })
}

proptest! {
    #[test]
    fn a_folder_with_rules_responds_like_the_interpreter(
        mut case in case(),
        requests in proptest::collection::vec(request(), 1..60),
    ) {
        let bytes = case.build();
        let mut site = case.site();
        if case.single_page {
            site.pages.insert("/app.single".to_owned());
        }
        let layout = Layout::open(&bytes).expect("sound");
        // Every path of the rules and files is requested too, not only generated ones.
        let exact = site.rules.iter().map(|rule| rule.from.clone());
        let exact = exact.filter(|from| !from.contains([':', '*'])).chain(site.pages.clone());
        let exact = exact.map(|path| Request {
            host: "else.example".to_owned(),
            path,
            query: None,
            navigation: false,
        });
        for request in requests.into_iter().chain(exact) {
            let response = ask(&layout, &bytes, &request);
            let expected = match resolve(&site, &request) {
                Resolution::Page(_, path) if path == "/app.single" => Resolution::SinglePage,
                // The content of a page is its file's name, and several paths have one file.
                Resolution::Page(status, path) => Resolution::Page(status, file_of(&path)),
                response => response,
            };
            let rules = lines(&site.rules, "");
            prop_assert_eq!(response, expected, "{:?}\n{:?}\n{}", request, case.conventions, rules);
        }
    }
}

/// Returns the content of the page at a path.
fn file_of(path: &str) -> String {
    let has = |(file, aliases): &&(&str, &[&str])| *file == path || aliases.contains(&path);
    FILES.iter().find(has).expect("a page of the site").0.to_owned()
}

/// The paths of the files of a test are those of the table.
#[test]
fn the_paths_of_the_files_match_the_table() {
    let mut case = Case {
        files: (0..FILES.len()).collect(),
        fallbacks: BTreeSet::new(),
        rules: Default::default(),
        single_page: false,
        conventions: Conventions::ALL,
    };
    let bytes = case.build();
    let layout = Layout::open(&bytes).expect("sound");
    let mut responses = BTreeMap::new();
    for (file, aliases) in FILES {
        for path in aliases.iter().chain([&file]) {
            let (host, path_asked) = ("a.example".to_owned(), (*path).to_owned());
            let request = Request { host, path: path_asked, ..Request::default() };
            responses.insert(*path, ask(&layout, &bytes, &request));
            assert_eq!(responses[path], Resolution::Page(200, file.to_owned()), "{path}");
        }
    }
    assert_eq!(responses.len(), case.site().pages.len());
}
