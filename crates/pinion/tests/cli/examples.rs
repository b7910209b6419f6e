//! The examples of every verb, as its help shows them: they work, in the order of the verbs, in a
//! folder that has what they name.

use crate::folder::Folder;
use crate::program::{run, verbs};
use crate::server::Server;
use std::fs;
use std::path::Path;

/// An archive of kawipiko for `pinion import`.
const OLD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../kawipiko/tests/archives/made/site-bare.cdb");

/// Makes what the examples name and do not make themselves.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("public/index.html", "<h1>home</h1>");
    folder.write("next/index.html", "<h1>the next home</h1>");
    folder.write("pinion.toml", "[[site]]\npath = \"public\"\n");
    folder.write("script.lua", "print(1)");
    fs::copy(Path::new(OLD), folder.path().join("old.cdb")).expect("an archive");
    folder
}

/// The commands below `Examples:` in the help of a verb.
fn examples(folder: &Folder, verb: &str) -> Vec<String> {
    let help = run(folder, &format!("{verb} --help"));
    let lines = help.text().lines().skip_while(|line| *line != "Examples:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let commands: Vec<_> =
        lines.filter_map(|line| line.trim().strip_prefix("pinion ")).map(str::to_owned).collect();
    assert!(!commands.is_empty(), "{verb}: {}", help.text());
    commands
}

/// Starts a server with an example, at ports of the kernel's choice, and stops it.
#[track_caller]
fn serves(folder: &Folder, example: &str) {
    let arguments = example.strip_prefix("serve ").expect("serve");
    let arguments = arguments.replace("127.0.0.1:8443", "127.0.0.1:0").replace(" --listen :80", "");
    let server = Server::start(folder, &format!("{arguments} --state state"));
    assert_eq!(server.stop().0, Some(0), "{example}");
}

#[test]
fn the_examples_of_every_verb_work() {
    let folder = folder();
    // What an example takes another one has made: builds come first, as in the list of verbs.
    for verb in verbs(&folder) {
        for example in examples(&folder, &verb) {
            match verb.as_str() {
                "serve" => serves(&folder, &example),
                _ => {
                    // There is no other machine; tests/tests/black_box/ssh.rs has one.
                    let example = example.replace("ssh://deploy@www.example.org/srv/live", "live");
                    let ended = run(&folder, &example);
                    assert_eq!(ended.code, 0, "{example}: {}", ended.stderr);
                }
            }
        }
    }
}

#[test]
fn the_help_and_the_manual_of_serve_name_signals_files_and_the_environment() {
    let folder = Folder::new();
    let (help, manual) = (run(&folder, "serve --help"), run(&folder, "man serve"));
    for (title, entry) in
        [("Signals", "SIGHUP"), ("Files", "pinion.toml"), ("Environment", "PUBLIC_HTML")]
    {
        let (_, rest) = help.text().split_once(&format!("\n{title}:\n")).expect(title);
        assert!(rest.contains(&format!("  {entry}\n")), "{title}: {rest}");
        let section = format!(".SH \"{}\"\n", title.to_uppercase());
        let (_, rest) = manual.text().split_once(&section).expect(title);
        assert!(rest.contains(entry), "{title}: {rest}");
    }
}
