//! Every command of the README, of the other documents and of the example site is tried out, in the
//! order in which a reader meets it.
#![forbid(unsafe_code)]

use pinion_tests::binary::{pinion, source_root};
use pinion_tests::blocks::{
    CONFIGURATION, FILE, SAMPLE, SCRIPT, fenced_commands, routes, shown_commands, words,
};
use pinion_tests::folder::Folder;
use pinion_tests::peers::{program, stdout};
use pinion_tests::request::Request;
use pinion_tests::script::script;
use pinion_tests::server::{Server, Start, build, run};
use pinion_tests::tls::Pair;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn every_command_of_the_documents_works() {
    let mut tried = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        let commands = match path.extension().is_some_and(|extension| extension == "html") {
            true => shown_commands(&text),
            false => fenced_commands(&text),
        };
        let mut reader = Reader::of(&path);
        for command in &commands {
            match command.split_once(" = ") {
                Some((CONFIGURATION, text)) => reader.configures(text),
                Some((SCRIPT, text)) => reader.writes_a_script(text),
                Some((FILE, named)) => reader.writes_a_file(named),
                _ => reader.tries(command),
            }
        }
        reader.leaves();
        tried += commands.len();
    }
    assert!(tried >= 15, "only {tried} commands found: are they still marked as such?");
}

#[test]
fn every_command_in_running_text_exists() {
    let mut found = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        let codes = text.split('`').skip(1).step_by(2).map(words);
        for words in codes.filter(|words| words.len() > 1) {
            let own: Vec<&str> = words.iter().map(String::as_str).collect();
            match own.as_slice() {
                ["pinion", verb, rest @ ..] => has_flags(&path, verb, rest),
                ["cargo", "xtask", chore @ ..] => is_chore(&path, chore),
                _ => continue,
            }
            found += 1;
        }
    }
    assert!(found > 0, "no command in running text");
}

/// The README and its like, `docs/`, and the pages of the example site.
fn documents() -> Vec<PathBuf> {
    let root = source_root();
    let top = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root.join(name));
    let mut documents = top.to_vec();
    for folder in ["docs", "examples/site"] {
        let mut below = Vec::new();
        collect(&root.join(folder), &mut below);
        below.sort();
        documents.extend(below);
    }
    documents
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md" || extension == "html")
        {
            found.push(path);
        }
    }
}

/// Somebody who follows a document, with the folder `public` and the archive `site.pinion` that
/// all of them speak of, `old.cdb`, an archive of kawipiko, and rules beside the folder.
struct Reader {
    document: PathBuf,
    folder: Folder,
    /// The server that was started last.
    server: Option<Server>,
    /// Folders that the document has written files of.
    sites: BTreeSet<String>,
}

impl Reader {
    fn of(document: &Path) -> Reader {
        let folder = Folder::new("docs");
        for copy in ["public", "examples/site"] {
            copy_folder(&source_root().join("examples/site"), &folder.join(copy));
        }
        let old = source_root().join("crates/kawipiko/tests/archives/made/site-gzip.cdb");
        fs::copy(old, folder.join("old.cdb")).expect("a copy");
        folder.write("our-redirects", "/old /new\n");
        folder.write("our-headers", "/*\n  X-Frame-Options: DENY\n");
        build(&folder.join("public"), &folder.join("site.pinion"), &[]);
        Reader { document: document.to_owned(), folder, server: None, sites: BTreeSet::new() }
    }

    /// Writes the file, with whatever it names beside it, and has it checked. What it names in the
    /// system's own folders is beside it here.
    fn configures(&self, text: &str) {
        let text = &text.replace("\"/", &format!("\"{}/", self.folder.path().display()));
        let paths = text.lines().filter_map(|line| line.strip_prefix("path = \""));
        for path in paths.map(|rest| rest.trim_end_matches('"')) {
            let target = self.folder.join(path);
            match path.ends_with(".pinion") {
                _ if target.exists() => {}
                true => drop(fs::copy(self.folder.join("site.pinion"), target).expect("a copy")),
                false => copy_folder(&self.folder.join("public"), &target),
            }
        }
        self.certifies(text);
        // A log is written into a folder that is there.
        let logs = text.lines().filter_map(|line| line.strip_prefix("access = \""));
        for path in logs.map(|rest| self.folder.join(rest.trim_end_matches('"'))) {
            fs::create_dir_all(path.parent().expect("a folder")).expect("it is there");
        }
        self.folder.write("pinion.toml", text);
        let mut check = Command::new(pinion());
        stdout(check.arg("check").current_dir(self.folder.path()));
    }

    /// Writes the file, has it checked and started, and asks all that it answers.
    fn writes_a_script(&self, text: &str) {
        self.folder.write(SCRIPT, text);
        stdout(Command::new(pinion()).args(["check", SCRIPT]).current_dir(self.folder.path()));
        let (folder, path) = script(text);
        folder.write("shown/some", "some\n");
        folder.write(format!("data/{SAMPLE}.txt"), "some\n");
        let mut routes = routes(text);
        let mut site = path;
        if routes.is_empty() {
            // It is about pages: it stands around one.
            site = folder.join("site");
            folder.write("site/main.lua", text);
            folder.write("site/index.dyn.html", "<p>#[[1 + 1]]</p>\n");
            routes.push(("GET".to_owned(), "/".to_owned()));
        }
        let flags = "--workers 1 --lua-folder data=data --lua-folder shown=shown:ro";
        let start = Start::site(&site).working_in(folder.path());
        let server = start.flags(&flags.split(' ').collect::<Vec<_>>()).start();
        for (method, path) in &routes {
            eprintln!("{}: {method} {path}", self.document.display());
            let answer = server.exchange(&filled_in(method, path));
            let is_well = (200..400).contains(&answer.status);
            assert!(is_well, "{method} {path}: {}", answer.status);
        }
        // Work that was spawned may end behind the answers.
        let said = server.last_words();
        assert!(!said.iter().any(|line| is_error(line)), "{}", said.join("\n"));
    }

    /// Writes a file of a site; a server that watches it takes it up.
    fn writes_a_file(&mut self, named: &str) {
        let (path, text) = named.split_once('\n').expect("a path");
        eprintln!("{}: {path}", self.document.display());
        let site = path.split('/').next().expect("a folder");
        let watching = self.server.as_ref().filter(|_| self.sites.contains(site));
        let from = watching.map_or(0, |server| server.lines().len());
        let file = self.folder.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("it is there");
        // By a rename, as editors do: nobody sees half of it.
        self.folder.write("written", format!("{text}\n"));
        fs::rename(self.folder.join("written"), file).expect("renamed");
        self.sites.insert(site.to_owned());
        stdout(Command::new(pinion()).args(["check", site]).current_dir(self.folder.path()));
        if let Some(server) = watching {
            server.wait_for_line(from, |line| line.starts_with("reloaded "));
        }
    }

    /// Puts a certificate and a key where a configuration or a command names them.
    fn certifies(&self, text: &str) {
        let file = |end: &str| self.folder.join(format!("made.{end}"));
        let mut pair = Pair { cert: file("crt"), key: file("key") };
        if !pair.cert.exists() {
            pair = Pair::new(&self.folder, "made", &["example.org"]);
        }
        for (key, made) in [("cert", &pair.cert), ("key", &pair.key), ("client-ca", &pair.cert)] {
            let head = format!("{key} = \"");
            for file in text.lines().filter_map(|line| line.strip_prefix(&head)) {
                let file = self.folder.join(file.trim_end_matches('"'));
                fs::create_dir_all(file.parent().expect("a folder")).expect("it is there");
                fs::copy(made, file).expect("a copy");
            }
        }
    }

    fn tries(&mut self, command: &str) {
        eprintln!("{}: {command}", self.document.display());
        let words = words(command);
        let own: Vec<&str> = words.iter().map(String::as_str).collect();
        match own.as_slice() {
            ["pinion", "serve", rest @ ..]
            | ["cargo", "run", "--release", "--", "serve", rest @ ..] => self.serves(rest),
            // Another machine is not at hand: tests/tests/ssh.rs has one.
            ["pinion", verb, rest @ ..] if rest.iter().any(|word| word.starts_with("ssh://")) => {
                has_flags(&self.document, verb, rest);
            }
            ["pinion", rest @ ..] | ["cargo", "run", "--release", "--", rest @ ..] => {
                stdout(Command::new(pinion()).args(rest).current_dir(self.folder.path()));
            }
            // The test that runs this very moment, and what would take as long.
            ["cargo", "xtask", chore @ ..] => is_chore(&self.document, chore),
            ["cargo", "build" | "test", rest @ ..] => is_build(&self.document, rest),
            [setting, rest @ ..] if setting.starts_with("PINION_") => self.tries(&rest.join(" ")),
            [tool, rest @ ..] if measures(tool) => are_built(&self.document, rest),
            [program, ..] if program.starts_with(PROFILED) => {
                are_built(&self.document, &own);
            }
            ["curl", rest @ ..] => self.asks(rest),
            ["mkdir", folders @ ..] => folders.iter().for_each(|folder| {
                fs::create_dir(self.folder.join(folder)).expect("a new folder");
            }),
            ["sudo", ..] => self.tries(command.trim_start_matches("sudo ")),
            ["tar", rest @ ..] => is_package_of_ours(&self.document, rest),
            ["systemctl", verb, rest @ ..] => is_for_the_unit(&self.document, verb, rest),
            ["journalctl", "--unit", "pinion"] => {}
            ["podman", "build", rest @ ..] => builds_an_image(&self.document, rest),
            ["podman", "run", rest @ ..] => runs_an_image(&self.document, rest),
            ["kill", "-HUP", "$(pidof pinion)"] => self.reloads(),
            _ => panic!("{}: nobody knows how to try `{command}`", self.document.display()),
        }
    }

    /// Where it listens is changed: no port of a machine is a test's to take.
    fn serves(&mut self, arguments: &[&str]) {
        self.leaves();
        let mut kept = Vec::new();
        let (words, mut arguments) = (arguments, arguments.iter());
        while let Some(argument) = arguments.next() {
            if *argument == "--tls" {
                let address = arguments.next().expect("an address behind --tls");
                assert!([":443", "8443"].contains(address), "{}", self.document.display());
                kept.extend(["--tls", "127.0.0.1:0"]);
                if !words.contains(&"--cert") {
                    kept.extend(["--state", "state"]);
                }
                continue;
            }
            if let ("--cert" | "--key", Some(file)) = (*argument, arguments.as_slice().first()) {
                self.certifies(&format!("{} = \"{file}\"", argument.trim_start_matches('-')));
            }
            if *argument != "--listen" {
                kept.push(*argument);
                continue;
            }
            let address = arguments.next().expect("an address behind --listen");
            match address.starts_with("unix:") {
                true => kept.extend([argument, address]),
                false => assert_eq!(*address, ":8080", "{}", self.document.display()),
            }
        }
        let server = Start::serve(&kept).working_in(self.folder.path()).start();
        let is_own = |word: &&str| self.sites.contains(word.trim_end_matches(".pinion"));
        if !words.contains(&SCRIPT) && !words.iter().any(is_own) {
            let page = fs::read(self.folder.join("public/index.html")).expect("the first page");
            assert_eq!(server.get("/").body, page);
        }
        self.server = Some(server);
    }

    fn asks(&self, arguments: &[&str]) {
        let server = self.server.as_ref().expect("a document starts a server before it asks one");
        let address = server.address().to_string();
        let own = |argument: &&str| {
            if argument.starts_with("https://") {
                return argument.replace("localhost:8443", &server.address_of("https").to_string());
            }
            argument.replace("localhost:8080", &address).replace("127.0.0.1:8080", &address)
        };
        let mut curl = program("curl", "curl");
        curl.args(["--fail", "--silent", "--show-error"]).args(arguments.iter().map(own));
        stdout(curl.current_dir(self.folder.path()));
    }

    /// With a server of its own where the document takes one for granted.
    fn reloads(&mut self) {
        if self.server.is_none() {
            self.serves(&["site.pinion"]);
        }
        let server = self.server.as_ref().expect("it runs");
        let lines = server.lines().len();
        server.signal(Signal::HUP);
        server.wait_for_line(lines, |line| line.starts_with("reloaded "));
    }

    fn leaves(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

/// A request with all that the scripts of documents ask for: a password of theirs, and a form with
/// a file in it.
fn filled_in(method: &str, path: &str) -> Request {
    const PART: &str = "--part\r\nContent-Disposition: form-data; name=";
    let request = Request::new(method, path).field("Authorization", "Bearer secret");
    if method != "POST" {
        return request;
    }
    let form = format!(
        "{PART}\"name\"\r\n\r\nyou\r\n{PART}\"password\"\r\n\r\nopen sesame\r\n\
         {PART}\"photo\"; filename=\"a.png\"\r\n\r\nPNG\r\n--part--\r\n"
    );
    let mark = "multipart/form-data; boundary=part";
    request.field("Content-Type", mark).body(form.as_bytes())
}

/// Whether a line of stderr is about something that has failed, of a script or else. What scripts
/// write themselves has no name behind it.
fn is_error(line: &str) -> bool {
    let is_ours = line.starts_with("pinion: ") && !line.starts_with("pinion: lua: ");
    is_ours || line.contains(" (id ")
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("a copy")),
        }
    }
}

/// The help of the verb knows every flag.
#[track_caller]
fn has_flags(document: &Path, verb: &str, rest: &[&str]) {
    let help = run(&[verb, "--help"]);
    assert_eq!(help.code, Some(0), "{}: pinion {verb}", document.display());
    // Behind a bar stands another program.
    let own = rest.iter().take_while(|word| **word != "|");
    for flag in own.filter(|word| word.starts_with('-')) {
        let is_listed = help.stdout.split([' ', ',', '\n', '[']).any(|word| word == *flag);
        assert!(is_listed, "{}: pinion {verb} {flag}", document.display());
    }
}

/// Tools that measure. They run for minutes, and not every machine lets them: what they are pointed
/// at must exist.
fn measures(program: &str) -> bool {
    ["callgrind_annotate", "perf", "taskset", "valgrind"].contains(&program)
}

/// Where programs lie that were built to be measured.
const PROFILED: &str = "target/profiling/";

/// It is one that `cargo xtask dist` makes; tests/tests/packages.rs unpacks them.
#[track_caller]
fn is_package_of_ours(document: &Path, words: &[&str]) {
    let workspace = fs::read_to_string(source_root().join("Cargo.toml")).expect("the workspace");
    let version = workspace.lines().find_map(|line| line.strip_prefix("version = "));
    let version = version.expect("a version").trim_matches('"');
    for package in words.iter().filter(|word| word.ends_with(".tar.gz")) {
        let name = package.strip_prefix("target/dist/pinion-").unwrap_or(package);
        let rest = name.strip_prefix(version);
        let is_made = ["-x86_64-linux.tar.gz", "-x86_64-linux-static.tar.gz"].map(Some);
        assert!(is_made.contains(&rest), "{}: {package}", document.display());
    }
    assert!(words.contains(&"--strip-components=1"), "{}: {words:?}", document.display());
}

/// The unit has what the verb needs.
#[track_caller]
fn is_for_the_unit(document: &Path, verb: &str, rest: &[&str]) {
    let unit = fs::read_to_string(source_root().join("packaging/pinion.service")).expect("a unit");
    let needs = match verb {
        "enable" => "\nWantedBy=",
        "reload" => "\nExecReload=",
        "restart" | "start" | "status" | "stop" => "\nExecStart=",
        _ => panic!("{}: systemctl {verb}", document.display()),
    };
    assert!(unit.contains(needs), "{}: systemctl {verb}", document.display());
    let units = rest.iter().filter(|word| !word.starts_with('-'));
    assert_eq!(units.collect::<Vec<_>>(), [&"pinion"], "{}", document.display());
}

/// The name that documents give to the image of `packaging/Containerfile`.
const IMAGE: &str = "site";

/// What it is built from is there; tests/tests/packaging.rs does what the file says.
#[track_caller]
fn builds_an_image(document: &Path, words: &[&str]) {
    for pair in words.windows(2) {
        match pair {
            ["--file", file] => {
                assert!(source_root().join(file).is_file(), "{}: {file}", document.display());
            }
            ["--build-arg", setting] => {
                let (name, site) = setting.split_once('=').expect("a value");
                assert_eq!(name, "SITE", "{}", document.display());
                assert!(source_root().join(site).is_dir(), "{}: {site}", document.display());
            }
            _ => {}
        }
    }
}

/// What stands behind the image is a command line of ours.
#[track_caller]
fn runs_an_image(document: &Path, words: &[&str]) {
    let at = words.iter().position(|word| *word == IMAGE);
    let at = at.unwrap_or_else(|| panic!("{}: which image?", document.display()));
    if let Some((verb, rest)) = words[at + 1..].split_first() {
        has_flags(document, verb, rest);
    }
}

/// Every program of ours among the words is a package of the workspace.
#[track_caller]
fn are_built(document: &Path, words: &[&str]) {
    for name in words.iter().filter_map(|word| word.strip_prefix(PROFILED)) {
        assert!(is_package(name), "{}: {PROFILED}{name}", document.display());
    }
}

/// The packages and the profile exist.
#[track_caller]
fn is_build(document: &Path, words: &[&str]) {
    let workspace = fs::read_to_string(source_root().join("Cargo.toml")).expect("the workspace");
    for pair in words.windows(2) {
        let exists = match pair {
            ["-p" | "--package", name] => is_package(name),
            ["--profile", name] => workspace.contains(&format!("[profile.{name}]")),
            ["--test", name] => is_test(name),
            _ => true,
        };
        assert!(exists, "{}: cargo … {}", document.display(), words.join(" "));
    }
}

/// Whether some crate has tests of that name.
fn is_test(name: &str) -> bool {
    let crates = fs::read_dir(source_root().join("crates")).expect("the crates");
    crates.filter_map(Result::ok).any(|entry| {
        let tests = entry.path().join("tests");
        tests.join(name).join("main.rs").exists() || tests.join(format!("{name}.rs")).exists()
    })
}

fn is_package(name: &str) -> bool {
    let lock = fs::read_to_string(source_root().join("Cargo.lock")).expect("the lock file");
    lock.contains(&format!("name = \"{name}\"\nversion"))
}

/// `cargo xtask help` lists it, and the chores read every flag; words in capitals stand for
/// something else.
#[track_caller]
fn is_chore(document: &Path, words: &[&str]) {
    let sources = chores();
    let (chore, rest) = words.split_first().expect("a chore");
    let is_known =
        |line: &str| line.trim_start_matches('"').starts_with(&format!("cargo xtask {chore} "));
    let is_read = |flag: &&&str| sources.contains(&format!("\"{flag}\""));
    let unknown = rest.iter().filter(|word| word.starts_with('-')).find(|flag| !is_read(flag));
    assert!(
        sources.lines().any(is_known) && unknown.is_none(),
        "{}: cargo xtask {}: {unknown:?}",
        document.display(),
        words.join(" ")
    );
}

/// The sources of `cargo xtask`, one behind the other.
fn chores() -> String {
    let mut folders = vec![source_root().join("xtask/src")];
    let mut sources = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => sources += &fs::read_to_string(entry.path()).expect("a source file"),
            }
        }
    }
    sources
}
