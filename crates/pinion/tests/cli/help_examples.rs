//! The end of the help and of the manual page of every verb: the examples work in a folder with the
//! files that they name, builds run first, and each verb has the sections that it needs.

use crate::pinion_runner::{run, verbs};
use crate::server::Server;
use crate::temporary_folder::Folder;
use std::fs;
use std::path::Path;

/// An archive of kawipiko for `pinion import`.
const OLD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../kawipiko/tests/archives/made/site-bare.cdb");

/// Verbs that need a running server.
const CONTROL: [&str; 5] = ["status", "reload", "stop", "drain", "reopen-logs"];

/// Creates the files that the examples name and do not create themselves.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("public/index.html", "<h1>home</h1>");
    folder.write("next/index.html", "<h1>the next home</h1>");
    folder.write("pinion.toml", "[[site]]\npath = \"public\"\n");
    folder.write("script.lua", "print(1)");
    folder.write("password", "open sesame\n");
    folder.write("uwsgi.ini", "[uwsgi]\ncheck-static = public\n");
    fs::copy(Path::new(OLD), folder.path().join("old.cdb")).expect("an archive");
    folder
}

/// Returns the commands below `Examples:` in the help of a verb.
fn examples(folder: &Folder, verb: &str) -> Vec<String> {
    let help = run(folder, format!("{verb} --help").trim());
    let lines = help.text().lines().skip_while(|line| *line != "Examples:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let commands: Vec<_> =
        lines.filter_map(|line| line.trim().strip_prefix("pinion ")).map(str::to_owned).collect();
    assert!(!commands.is_empty(), "{verb}: {}", help.text());
    commands
}

/// Starts a server with the arguments of an example, at ports of the kernel's choice, and stops it.
#[track_caller]
fn serves(folder: &Folder, arguments: &str) {
    let arguments = arguments.replace("127.0.0.1:8443", "127.0.0.1:0").replace(" --listen :80", "");
    let server = Server::start(folder, &format!("{arguments} --state state"));
    assert_eq!(server.stop().0, Some(0), "{arguments}");
}

/// Starts a store as an example does, at a port of the kernel's choice, and stops it.
#[track_caller]
fn stores(folder: &Folder, example: &str) {
    let example = match example {
        "store" => "store 127.0.0.1:0".to_owned(),
        example => example.replace(" :6379", " 127.0.0.1:0"),
    };
    let server = Server::start_as(folder, &format!("{example} --workers 2"), 1);
    assert_eq!(server.stop().0, Some(0), "{example}");
}

/// Runs an example to its end.
#[track_caller]
fn succeeds(folder: &Folder, example: &str) {
    // There is no other machine; tests/tests/black_box/ssh_releases.rs has one.
    let example = example.replace("ssh://deploy@www.example.org/srv/live", "live");
    // There is a `pinion.toml` already.
    let example = example.replace("import uwsgi.ini", "import uwsgi.ini -o imported.toml");
    let verb = example.split(' ').next().unwrap_or_default();
    let needs_server = CONTROL.contains(&verb) || example == "why /about";
    let server = needs_server.then(|| Server::start(folder, "public"));
    let ended = run(folder, &example);
    assert_eq!(ended.code, 0, "{example}: {}", ended.stderr);
    drop(server);
}

#[test]
fn the_examples_of_every_verb_work() {
    let folder = folder();
    // An example may use a file that another one has made: builds come first.
    let mut verbs = verbs(&folder);
    verbs.sort_by_key(|verb| verb != "build");
    for verb in verbs {
        for example in examples(&folder, &verb) {
            match example.strip_prefix("serve ") {
                Some(arguments) => serves(&folder, arguments),
                None if verb == "store" => stores(&folder, &example),
                None => succeeds(&folder, &example),
            }
        }
    }
}

#[test]
fn the_examples_of_the_program_work() {
    let folder = folder();
    for example in examples(&folder, "") {
        match (example.as_str(), example.strip_prefix("serve ")) {
            ("public", _) => serves(&folder, "public"),
            (_, Some(arguments)) => serves(&folder, arguments),
            (_, None) => succeeds(&folder, &example),
        }
    }
}

/// Entries that the sections of a verb have to have; those of the program are named `pinion`.
const REQUIRED: &[(&str, &str, &[&str])] = &[
    ("pinion", "Signals", &["SIGHUP", "SIGUSR2", "SIGTERM, SIGINT"]),
    ("pinion", "Files", &["pinion.toml", "_redirects, _headers", "~/.local/state/pinion"]),
    ("pinion", "Environment", &["PUBLIC_HTML", "MASTER_KEY", "TMPDIR", "NO_COLOR"]),
    ("pinion", "Exit status", &["0", "1", "2"]),
    ("serve", "Signals", &["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGTERM, SIGINT"]),
    ("serve", "Files", &["pinion.toml", "main.lua", "~/.local/state/pinion"]),
    ("serve", "Environment", &["PUBLIC_HTML", "MASTER_KEY", "TMPDIR", "NO_COLOR"]),
    ("serve", "Exit status", &["0", "1", "2"]),
    ("store", "Signals", &["SIGHUP", "SIGTERM, SIGINT"]),
    ("store", "Files", &["~/.local/state/pinion"]),
    ("store", "Environment", &["LISTEN_FDS, LISTEN_FDNAMES", "NOTIFY_SOCKET, WATCHDOG_USEC"]),
    ("store", "Exit status", &["0", "1", "2"]),
    ("run", "Signals", &["SIGTERM", "SIGINT"]),
    ("run", "Exit status", &["0", "1", "2", "others"]),
    ("run", "Environment", &["MASTER_KEY"]),
    ("build", "Signals", &["SIGINT, SIGTERM"]),
    ("build", "Files", &["_redirects, _headers", ".NAME.stat"]),
    ("build", "Environment", &["SOURCE_DATE_EPOCH", "NO_COLOR"]),
    ("check", "Exit status", &["0", "1", "2"]),
    ("verify", "Exit status", &["0", "1", "2"]),
    ("check", "Files", &["pinion.toml", "_redirects, _headers"]),
    ("check", "Environment", &["MASTER_KEY", "SOURCE_DATE_EPOCH"]),
    ("publish", "Files", &["DIR/current.pinion", "DIR/releases/", "DIR/log", "DIR/.lock"]),
    ("publish", "Environment", &["MASTER_KEY", "SUDO_USER, USER, LOGNAME", "SSH_CONNECTION"]),
    ("releases", "Files", &["DIR/current.pinion", "DIR/log"]),
    ("rollback", "Files", &["DIR/current.pinion", "DIR/log"]),
    ("rollback", "Environment", &["SUDO_USER, USER, LOGNAME"]),
];

/// Returns the text from the title of a section to the next one, whose title begins with `next`.
fn section<'t>(text: &'t str, title: &str, next: &str) -> &'t str {
    let (_, rest) = text.split_once(title).unwrap_or_else(|| panic!("{title:?}: {text}"));
    rest.split_once(next).map_or(rest, |(section, _)| section)
}

#[test]
fn the_help_and_the_manual_of_every_verb_have_the_sections_that_it_needs() {
    let folder = Folder::new();
    let all = verbs(&folder);
    for (verb, title, entries) in REQUIRED {
        let is_program = *verb == "pinion";
        assert!(is_program || all.iter().any(|name| name == verb), "{verb}");
        let help =
            run(&folder, &if is_program { "--help".into() } else { format!("{verb} --help") });
        let manual = run(&folder, &format!("man {verb}"));
        let in_help = section(help.text(), &format!("\n{title}:\n"), "\n\n");
        let heading = format!(".SH \"{}\"\n", title.to_uppercase());
        let in_manual = section(manual.text(), &heading, ".SH ").replace('\\', "");
        for entry in *entries {
            assert!(in_help.contains(&format!("  {entry}\n")), "{verb} {title}: {in_help}");
            assert!(in_manual.contains(entry), "{verb} {title} {entry}: {in_manual}");
        }
    }
}
