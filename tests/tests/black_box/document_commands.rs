//! Every command of the README, of the other documents and of the example site is executed, in the
//! order of the text.

mod document_sites;
mod external_tools;
mod known_words;
mod messages;
mod nginx;
mod shown_responses;
mod skipped_commands;
mod yaml;

use document_sites::all_response;
use known_words::{has_flags, is_build_setting, is_chore};
use pinion_tests::binary::{pinion, source_root};
use pinion_tests::document_blocks::{
    CONFIGURATION, FILE, SAMPLE, SCRIPT, routes, shown_commands, words, yaml_commands,
};
use pinion_tests::external_programs::{program, stdout};
use pinion_tests::lua_script_site::script;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::Pair;
use pinion_tests::upstream::Upstream;
use rustix::process::Signal;
use shown_responses::{Part, Shown, parts};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The application that the documents call `app:app`.
const WSGI_APPLICATION: &str = "def app(environ, start_response):\n\
    \x20   start_response('200 OK', [('Content-Type', 'text/plain')])\n\
    \x20   return [b'hello']\n";

/// The media type of a query.
const FORM: &str = "application/x-www-form-urlencoded";

/// The foreign server to which scripts in documents send requests.
const OTHER: &str = "https://api.example.org";

/// The script of its replacement.
const OTHER_SERVER: &str = "pinion.any('/*path', function(req, res)
    return res:json({ temperature = 7 })
end)";

#[test]
fn every_command_of_the_documents_works() {
    let (mut tried, mut asked, mut compared) = (0, 0, 0);
    let mut not_run = BTreeSet::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        let parts = if path.extension().is_some_and(|extension| extension == "html") {
            vec![Part { commands: shown_commands(&text), shown: None }]
        } else {
            parts(&text)
        };
        let mut reader = Reader::of(&path);
        for Part { commands, shown } in &parts {
            commands.iter().for_each(|command| reader.follows(command));
            tried += commands.len();
            if let Some(shown) = shown {
                reader.compares(shown);
                compared += 1;
            }
        }
        reader.leaves();
        asked += reader.pages;
        not_run.append(&mut reader.not_run);
    }
    assert!(tried >= 15, "only {tried} commands found: are they still marked as such?");
    assert!(asked >= 25, "only {asked} answers of pages: are their files still named?");
    skipped_commands::is_needed(&not_run);
    assert!(compared >= 5, "only {compared} outputs: do they still stand behind their commands?");
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

#[test]
fn every_command_of_jobs_and_containers_exists() {
    let mut found = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        for command in yaml_commands(&text) {
            let words = words(&command);
            let own: Vec<&str> = words.iter().map(String::as_str).collect();
            has_flags(&path, own.get(1).expect("a verb"), &own[2..]);
            found += 1;
        }
    }
    assert!(found >= 6, "only {found} commands: are the blocks still marked as yaml?");
}

/// Returns the README and similar files, `docs/`, and the pages of the example site.
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

/// Commands for a running server.
const CONTROL: [&str; 5] = ["status", "reload", "stop", "drain", "reopen-logs"];

/// The status of a page behind a password; the documents show with curl that it opens.
const ASKS_FOR_PASSWORD: u16 = 401;

/// The state of a reader who follows a document, with the files that all documents use: the folder
/// `public`, the archive `site.pinion`, `old.cdb`, an archive of kawipiko, configurations of uWSGI
/// and NGINX Unit, and rules outside of the folder.
struct Reader {
    document: PathBuf,
    folder: Folder,
    /// The server that was started last.
    server: Option<Server>,
    /// Folders with files that the document has written.
    sites: BTreeSet<String>,
    /// The number of responses of their pages and routes that were checked.
    pages: usize,
    /// The output of curl, one entry for each command.
    responses: Vec<Vec<u8>>,
    /// The clients that read a stream until the server stops.
    streams: Vec<Child>,
    /// The rows of the table of commands that are not run which the document needs.
    not_run: BTreeSet<usize>,
}

impl Reader {
    fn of(document: &Path) -> Reader {
        let folder = Folder::new("docs");
        for copy in ["public", "examples/site"] {
            copy_folder(&source_root().join("examples/site"), &folder.join(copy));
        }
        let old = source_root().join("crates/kawipiko/tests/archives/made/site-gzip.cdb");
        fs::copy(old, folder.join("old.cdb")).expect("a copy");
        let public = folder.join("public");
        let public = public.display();
        folder.write("uwsgi.ini", format!("[uwsgi]\nhttp = :8080\ncheck-static = {public}\n"));
        let route = format!(r#"{{"action": {{"share": "{public}$uri"}}}}"#);
        let listeners = r#""listeners": {"*:8080": {"pass": "routes"}}"#;
        folder.write("unit.json", format!(r#"{{{listeners}, "routes": [{route}]}}"#));
        folder.write("our-redirects", "/old /new\n");
        folder.write("our-headers", "/*\n  X-Frame-Options: DENY\n");
        build(&folder.join("public"), &folder.join("site.pinion"), &[]);
        Reader {
            document: document.to_owned(),
            folder,
            server: None,
            sites: BTreeSet::new(),
            pages: 0,
            responses: Vec::new(),
            streams: Vec::new(),
            not_run: BTreeSet::new(),
        }
    }

    fn follows(&mut self, command: &str) {
        match command.split_once(" = ") {
            Some((CONFIGURATION, text)) => self.configures(text),
            Some((SCRIPT, text)) => self.writes_a_script(text),
            Some((FILE, named)) => self.writes_a_file(named),
            _ => self.tries(command),
        }
    }

    /// Asserts that the document shows the responses to the last commands.
    fn compares(&self, shown: &Shown) {
        let got = self.responses[self.responses.len() - shown.responses..].concat();
        let got = String::from_utf8(got).expect("an answer that is shown is text");
        // Newlines at the end are invisible in a document.
        assert_eq!(got.trim_end_matches('\n'), shown.text, "{}", self.document.display());
    }

    /// Writes a configuration, with the files that it names, and checks it. Files in folders of the
    /// system are created in the same folder here.
    fn configures(&self, text: &str) {
        let own = format!("{}/", self.folder.path().display());
        let text = &text.replace("\"/", &format!("\"{own}")).replace("=/", &format!("={own}"));
        for secret in text.lines().filter_map(|line| line.strip_prefix("secret = [\"")) {
            let file = Path::new(secret.trim_end_matches("\"]").split_once('=').expect("a file").1);
            fs::create_dir_all(file.parent().expect("a folder")).expect("it is there");
            fs::write(file, "secret\n").expect("written");
        }
        let paths = text.lines().filter_map(|line| line.strip_prefix("path = \""));
        for path in paths.map(|rest| rest.trim_end_matches('"')) {
            let target = self.folder.join(path);
            match path.ends_with(".pinion") {
                _ if target.exists() => {}
                true => drop(fs::copy(self.folder.join("site.pinion"), target).expect("a copy")),
                false => copy_folder(&self.folder.join("public"), &target),
            }
        }
        self.makes_live_folders(text);
        let text = &self.makes_scripts(text);
        self.installs_programs(text);
        self.certifies(text);
        // A log needs an existing folder.
        let logs = text.lines().filter_map(|line| line.strip_prefix("access = \""));
        for path in logs.map(|rest| self.folder.join(rest.trim_end_matches('"'))) {
            fs::create_dir_all(path.parent().expect("a folder")).expect("it is there");
        }
        self.folder.write("pinion.toml", text);
        let mut check = Command::new(pinion());
        stdout(check.arg("check").current_dir(self.folder.path()));
    }

    /// Creates the CGI scripts and the Python application of a file, and returns the file with a
    /// user for them, which a server that root starts requires.
    fn makes_scripts(&self, text: &str) -> String {
        let mut lines = Vec::new();
        for line in text.lines() {
            lines.push(line);
            if let Some(folder) = line.strip_prefix("python-folder = \"") {
                let folder = Path::new(folder.trim_end_matches('"'));
                fs::create_dir_all(folder).expect("it is there");
                fs::write(folder.join("app.py"), WSGI_APPLICATION).expect("written");
                lines.extend(["python-user = \"nobody\"", "python = \"/usr/bin/python3\""]);
            }
            let Some(path) = line.strip_prefix("cgi = \"") else { continue };
            let path = Path::new(path.trim_end_matches('"'));
            let is_folder = path.ends_with("cgi-bin");
            let folder = if is_folder { path } else { path.parent().expect("a folder") };
            fs::create_dir_all(folder).expect("it is there");
            if !is_folder {
                fs::write(path, "#!/bin/sh\n").expect("written");
                fs::set_permissions(path, Permissions::from_mode(0o755)).expect("set");
            }
            if !text.contains("cgi-user") {
                lines.extend(["cgi-user = \"nobody\"", "cgi-no-chroot = true"]);
            }
        }
        lines.join("\n") + "\n"
    }

    /// Creates the folders that a site serves live, and those from which applications send files.
    fn makes_live_folders(&self, text: &str) {
        let mut site = self.folder.join("public");
        for line in text.lines() {
            if let Some(path) = line.strip_prefix("path = \"") {
                site = self.folder.join(path.trim_end_matches('"'));
            }
            let keys = ["live = [", "send-files = ["];
            let list = keys.into_iter().find_map(|key| line.strip_prefix(key));
            let list = list.and_then(|list| list.strip_suffix(']'));
            for named in list.iter().flat_map(|list| list.split(", ")) {
                let named = named.trim_matches('"');
                let folder = match named.split_once('=') {
                    Some((_, path)) => PathBuf::from(path),
                    None => site.join(named),
                };
                fs::create_dir_all(folder).expect("it is there");
            }
        }
    }

    /// Writes a script, checks and starts it, and requests all its routes.
    fn writes_a_script(&self, text: &str) {
        self.folder.write(SCRIPT, text);
        stdout(Command::new(pinion()).args(["check", SCRIPT]).current_dir(self.folder.path()));
        let (folder, path) = script(text);
        folder.write("shown/some", "some\n");
        folder.write(format!("data/{SAMPLE}.txt"), "some\n");
        let mut routes = routes(text);
        let mut site = path;
        if routes.is_empty() {
            // The script uses pages, so it gets a site with one.
            site = folder.join("site");
            folder.write("site/main.lua", text);
            folder.write("site/index.dyn.html", "<p>#[[1 + 1]]</p>\n");
            routes.push(("GET".to_owned(), "/".to_owned()));
        }
        // The foreign server of documents is replaced by one that responds to everything.
        let (_other_folder, other_script) = script(OTHER_SERVER);
        let other = text.contains(OTHER).then(|| Start::site(&other_script).start());
        if let Some(other) = &other {
            let text = text.replace(OTHER, &format!("http://{}", other.address()));
            fs::write(&site, text).expect("written");
        }
        folder.write("token", "token");
        let flags = "--workers 1 --lua-folder data=data --lua-folder shown=shown:ro \
                     --fetch-private --secret api-token=token \
                     --lua-program sort=/usr/bin/sort --store-memory 16";
        let start = Start::site(&site).working_in(folder.path());
        let server = start.flags(&flags.split(' ').collect::<Vec<_>>()).start();
        // Streams end when the server stops.
        let has_streams = text.contains("pinion.subscribe(");
        let mut streams = Vec::new();
        for (method, path) in &routes {
            eprintln!("{}: {method} {path}", self.document.display());
            if has_streams && method == "GET" {
                let mut client = server.client();
                let begun = client.begin(&filled_in(method, path));
                streams.push((client, begun));
                continue;
            }
            let response = server.exchange(&filled_in(method, path));
            let is_well =
                (200..400).contains(&response.status) || response.status == ASKS_FOR_PASSWORD;
            assert!(is_well, "{method} {path}: {}", response.status);
        }
        if has_streams {
            server.signal(Signal::TERM);
        }
        for (mut client, begun) in streams {
            assert_eq!(client.finish(begun, b"").status, 200, "a stream");
        }
        // Spawned work may end after the responses.
        let said = server.last_words();
        assert!(!said.iter().any(|line| is_error(line)), "{}", said.join("\n"));
    }

    /// Writes a file of a site, which a watching server reloads. All routes that the site has by
    /// then are requested, whether the document does so or not.
    fn writes_a_file(&mut self, named: &str) {
        let (path, text) = named.split_once('\n').expect("a path");
        eprintln!("{}: {path}", self.document.display());
        let site = path.split('/').next().expect("a folder");
        let watching = self.server.as_ref().filter(|_| self.sites.contains(site));
        let from = watching.map_or(0, |server| server.lines().len());
        let file = self.folder.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("it is there");
        // The file is replaced by a rename, as editors do, so that the server never reads half of
        // it.
        self.folder.write("written", format!("{text}\n"));
        fs::rename(self.folder.join("written"), file).expect("renamed");
        // A file that a configuration names is no site.
        if site.ends_with(".users") {
            return;
        }
        self.sites.insert(site.to_owned());
        stdout(Command::new(pinion()).args(["check", site]).current_dir(self.folder.path()));
        if let Some(server) = watching {
            server.wait_for_line(from, |line| line.starts_with("reloaded "));
        }
        let site = self.folder.join(site);
        // A module waits for the script that will load it.
        let is_module = path.ends_with(".lua") && !path.ends_with("/main.lua");
        if site.is_dir() && !is_module {
            self.pages += all_response(&self.document, &site);
        }
    }

    /// Creates a program without function where a configuration names one, and the folders in which
    /// it runs.
    fn installs_programs(&self, text: &str) {
        for command in text.lines().filter_map(|line| line.strip_prefix("command = [\"")) {
            let program = Path::new(command.split('"').next().expect("a path"));
            fs::create_dir_all(program.parent().expect("a folder")).expect("it is there");
            fs::write(program, "#!/bin/sh\nexec sleep 600\n").expect("written");
            fs::set_permissions(program, Permissions::from_mode(0o755)).expect("a mode");
        }
        for folder in text.lines().filter_map(|line| line.strip_prefix("directory = \"")) {
            fs::create_dir_all(folder.trim_end_matches('"')).expect("it is there");
        }
    }

    /// Creates a certificate and a key where a configuration or a command names them, if they do
    /// not exist yet.
    fn certifies(&self, text: &str) {
        let file = |end: &str| self.folder.join(format!("made.{end}"));
        let mut pair = Pair { cert: file("crt"), key: file("key") };
        if !pair.cert.exists() {
            pair = Pair::new(&self.folder, "made", &["example.org"]);
        }
        for (key, made) in [
            ("cert", &pair.cert),
            ("key", &pair.key),
            ("client-ca", &pair.cert),
            ("tls-ca", &pair.cert),
        ] {
            let head = format!("{key} = \"");
            for file in text.lines().filter_map(|line| line.strip_prefix(&head)) {
                let file = self.folder.join(file.trim_end_matches('"'));
                if !file.exists() {
                    fs::create_dir_all(file.parent().expect("a folder")).expect("it is there");
                    fs::copy(made, file).expect("a copy");
                }
            }
        }
    }

    fn tries(&mut self, command: &str) {
        eprintln!("{}: {command}", self.document.display());
        let words = words(command);
        let own: Vec<&str> = words.iter().map(String::as_str).collect();
        if self.leaves_out(&own) {
            return;
        }
        match own.as_slice() {
            ["pinion", "serve", rest @ ..]
            | ["cargo", "run", "--release", "--", "serve", rest @ ..] => self.serves(rest),
            ["pinion", site] if self.folder.join(site).is_dir() => self.serves(&[site]),
            ["pinion", verb, ..] if CONTROL.contains(verb) => self.controls(&own[1..]),
            ["pinion", "why", url, ..] if url.starts_with(['/', '-']) || url.contains("://") => {
                self.controls(&own[1..]);
            }
            ["pinion", rest @ ..] | ["cargo", "run", "--release", "--", rest @ ..] => {
                stdout(Command::new(pinion()).args(rest).current_dir(self.folder.path()));
            }
            [setting, rest @ ..] if setting.starts_with("PINION_") || is_build_setting(setting) => {
                self.tries(&rest.join(" "));
            }
            ["curl", "--no-buffer", address] => self.reads_a_stream(address),
            ["curl", rest @ ..] => self.asks(rest),
            ["openssl", rest @ ..] => self.converts(rest),
            ["mkdir", folders @ ..] => folders.iter().for_each(|folder| {
                fs::create_dir(self.folder.join(folder)).expect("a new folder");
            }),
            ["systemd-socket-activate", "--listen", "8080", "--fdname", name, rest @ ..] => {
                self.serves_passed(name, rest);
            }
            ["sudo", ..] => self.tries(command.trim_start_matches("sudo ")),
            ["journalctl", rest @ ..] => self.reads_the_journal(rest),
            ["logrotate", "--debug", configuration] => self.rotates(configuration),
            ["kill", "-HUP", "$(pidof pinion)"] => self.reloads(),
            _ => panic!("{}: nobody knows how to try `{command}`", self.document.display()),
        }
    }

    /// Creates the output folder of a site generator.
    fn generates(&self, output: &str) {
        let output = self.folder.join(output);
        if !output.exists() {
            copy_folder(&self.folder.join("public"), &output);
        }
    }

    /// Starts a server. Its address is changed, because a test must not use a fixed port.
    fn serves(&mut self, arguments: &[&str]) {
        self.leaves();
        let application = arguments.contains(&"--proxy").then(Upstream::echo);
        let url = application.as_ref().map_or_else(String::new, Upstream::url);
        let scripts = self.folder.join("cgi-bin").display().to_string();
        let own = |word: &&str| {
            word.replace("http://127.0.0.1:3000", &url).replace("/srv/cgi-bin", &scripts)
        };
        let arguments: Vec<String> = arguments.iter().map(own).collect();
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if arguments.contains(&"--cgi") {
            fs::create_dir_all(&scripts).expect("it is there");
            // A server that root starts requires a user for them.
            arguments.extend(["--cgi-user", "nobody"]);
        }
        let mut kept = Vec::new();
        let (words, mut arguments) = (&arguments[..], arguments.iter());
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
            if address.starts_with("unix:") {
                kept.extend([argument, address]);
            } else {
                assert_eq!(*address, ":8080", "{}", self.document.display());
            }
        }
        if words.contains(&"--watch") && !words.contains(&"--workers") {
            // Workers reload in turns, but readers are slower than that.
            kept.extend(["--workers", "1"]);
        }
        let start = Start::serve(&kept).working_in(self.folder.path());
        let server = start.session(self.folder.path()).start();
        // The source is the folder itself, or its archive.
        let is_own = |word: &&str| word.split('.').next().is_some_and(|it| self.sites.contains(it));
        if words.first() == Some(&"--proxy") {
            assert_eq!(server.get("/").status, 200, "the application responds");
        } else if !words.contains(&SCRIPT) && !words.iter().any(is_own) {
            let page = fs::read(self.folder.join("public/index.html")).expect("the first page");
            let response = if words.contains(&"--proxy-protocol") {
                let header = b"PROXY TCP4 192.0.2.7 192.0.2.1 50000 80\r\n";
                let mut connection = server.connect();
                connection.send([header, &*Request::get("/").bytes()].concat());
                connection.receive()
            } else {
                server.get("/")
            };
            assert_eq!(response.body, page);
        }
        self.server = Some(server);
    }

    /// Runs a command for the running server.
    fn controls(&mut self, arguments: &[&str]) {
        let mut command = Command::new(pinion());
        command.args(arguments).current_dir(self.folder.path());
        stdout(command.env("XDG_RUNTIME_DIR", self.folder.path()).env_remove("RUNTIME_DIRECTORY"));
        if ["stop", "drain"].contains(&arguments[0]) {
            let mut server = self.server.take().expect("a document starts the server it stops");
            assert!(server.wait().success());
        }
    }

    fn asks(&mut self, arguments: &[&str]) {
        let server = self.server.as_ref().expect("a document starts a server before it asks one");
        let address = server.address().to_string();
        let own = |argument: &&str| {
            if argument.contains(":8443") {
                let address = server.address_of("https");
                let argument = argument.replace("localhost:8443", &address.to_string());
                return argument.replace(":8443", &format!(":{}", address.port()));
            }
            argument.replace("localhost:8080", &address).replace("127.0.0.1:8080", &address)
        };
        let mut curl = program("curl", "curl");
        // A command that shows the status may request an error: its output is compared.
        if !arguments.contains(&"--write-out") {
            curl.arg("--fail");
        }
        curl.args(["--silent", "--show-error"]).args(arguments.iter().map(own));
        self.responses.push(stdout(curl.current_dir(self.folder.path())));
    }

    /// Reloads the server, after starting one if the document assumes it.
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
        self.ends_streams();
    }
}

/// Returns a request with everything that the scripts of documents need: a password of theirs, and
/// a form with a file in it.
fn filled_in(method: &str, path: &str) -> Request {
    const PART: &str = "--part\r\nContent-Disposition: form-data; name=";
    let request = Request::new(method, path).field("Authorization", "Bearer secret");
    if method == "QUERY" {
        return request.field("Content-Type", FORM).body(b"least=0.5");
    }
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

/// Returns whether a line of stderr is about an error, of a script or of the server. Log lines of
/// scripts themselves have no ID.
fn is_error(line: &str) -> bool {
    let is_ours = line.starts_with("pinion: ") && !line.starts_with("pinion: lua: ");
    is_ours || line.contains(" (id ")
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
