//! docs/reference/json.md is compared with real output: each member that a command writes is in its
//! table, with the type that it has, and each member of a table is written.

use pinion_tests::binary::source_root;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Start, run, run_under};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::geteuid;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

/// The type of one member, as its row has it.
#[derive(Clone, Debug)]
struct Member {
    types: Vec<String>,
    is_optional: bool,
}

/// The tables, by the headings above them in small letters.
struct Reference(BTreeMap<String, BTreeMap<String, Member>>);

impl Reference {
    fn read() -> Reference {
        let page = source_root().join("docs/reference/json.md");
        let (mut tables, mut heading) = (BTreeMap::new(), String::new());
        for line in fs::read_to_string(page).expect("the page").lines() {
            if let Some(text) = line.strip_prefix("## ") {
                heading = text.to_lowercase().replace(' ', "-");
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, member, types, _, _] = cells[..] else { continue };
            let Some(member) = member.strip_prefix('`').and_then(|name| name.strip_suffix('`'))
            else {
                continue;
            };
            let (types, is_optional) = match types.strip_suffix(", optional") {
                Some(types) => (types, true),
                None => (types, false),
            };
            let types = types.split(" or ").map(str::to_owned).collect();
            let table: &mut BTreeMap<_, _> = tables.entry(heading.clone()).or_default();
            table.insert(member.to_owned(), Member { types, is_optional });
        }
        Reference(tables)
    }

    /// Checks the members of an object against those below `front` in a table.
    fn check(&self, table: &str, front: &str, object: &Value, seen: &mut BTreeSet<String>) {
        let rows = &self.0[table];
        let members = object.as_object().unwrap_or_else(|| panic!("{table} {front}: {object}"));
        for (name, value) in members {
            let [path, any] = [name.as_str(), "*"].map(|name| format!("{front}{name}"));
            let path = if rows.contains_key(&path) { path } else { any };
            let row =
                rows.get(&path).unwrap_or_else(|| panic!("{table}: no row for {front}{name}"));
            seen.insert(format!("{table} {path}"));
            let fits = row.types.iter().any(|types| self.fits(table, &path, types, value, seen));
            assert!(fits, "{table} {path}: {value} is not {:?}", row.types);
        }
        for (path, row) in rows {
            let own = path.strip_prefix(front).filter(|name| !name.contains(['.', '[', '*']));
            let is_missing = own.is_some_and(|name| !members.contains_key(name));
            assert!(!is_missing || row.is_optional, "{table}: no member {path} in {object}");
        }
    }

    /// Returns whether a value has a type of a row.
    fn fits(
        &self,
        table: &str,
        path: &str,
        types: &str,
        value: &Value,
        seen: &mut BTreeSet<String>,
    ) -> bool {
        if let Some(elements) = types.strip_prefix("array of ") {
            let Some(values) = value.as_array() else { return false };
            let path = format!("{path}[]");
            return values.iter().all(|value| self.fits(table, &path, elements, value, seen));
        }
        if let Some((_, anchor)) = types.split_once("](#") {
            let is_object = value.is_object();
            if is_object {
                self.check(anchor.trim_end_matches(')'), "", value, seen);
            }
            return is_object;
        }
        match types {
            "string" => value.is_string(),
            "integer" => value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            "object" if value.is_object() => {
                self.check(table, &format!("{path}."), value, seen);
                true
            }
            _ => false,
        }
    }
}

/// Sites and archives with something for nearly every member.
fn folder() -> Folder {
    let folder = Folder::new("json-reference");
    let page = "<h1>home</h1>";
    for (site, text) in [("site", "a".repeat(5000)), ("next", "b".repeat(5000))] {
        folder.write(format!("{site}/index.html"), page);
        folder.write(format!("{site}/docs/index.html"), page);
        folder.write(format!("{site}/a.txt"), text);
        folder.write(format!("{site}/404.html"), "nothing");
        folder.write(format!("{site}/.hidden"), "");
        folder.write(format!("{site}/_redirects"), format!("/old /new\n/x/* /{site}/:splat 302\n"));
        folder.write(
            format!("{site}/_headers"),
            format!("/*\n  X-Site: {site}\n  ! X-Frame-Options\n"),
        );
    }
    folder.write("site/app.3f2a9c1b57a0d79d.js", "1");
    folder.write("site/pixel.bin", [0xff, 0xfe, 0]);
    folder.write("site/page.html", page);
    folder.write("site/page", "it has the URL that page.html could have");
    let listener = "[[listen]]\naddress = \":8080\"\n";
    folder.write(
        "why.toml",
        format!("[[site]]\nhosts = [\"localhost\"]\npath = \"site\"\n{listener}"),
    );
    folder.write("uwsgi.ini", "[uwsgi]\nmodule = app\ncron = 1\n");
    folder.write("wrong.toml", "[server]\nwokers = 1\n");
    folder.write("code/main.lua", "pinion.get('/', function() return 'one' end)");
    folder.write("code/public_html/page.html", page);
    symlink("nowhere", folder.join("code/public_html/link")).expect("a link");
    folder
}

/// Returns the output of the commands for a running server, with their tables.
fn of_a_server(folder: &Folder) -> [(&'static str, Value); 2] {
    folder.write(
        "served/main.lua",
        "pinion.get('/', function() pinion.process.run('sleep', {'600'}):wait() end)",
    );
    // Of another folder, which is not for the user of the server alone.
    let application = Folder::new("json-reference-python");
    let mode = Permissions::from_mode(0o755);
    fs::set_permissions(application.path(), mode).expect("permissions");
    application.write("app.py", "def app(environ, start_response):\n    return []\n");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    folder.write(
        "served.toml",
        format!(
            "[[site]]\npath = \"served\"\nproxy = \"/api=http://127.0.0.1:9\"\n\
             [[site.mount]]\npath = \"/python\"\nwsgi = \"app\"\npython-folder = {:?}\n\
             python = \"/usr/bin/python3\"\n{user}\
             [[program]]\nname = \"app\"\ncommand = [\"/bin/sleep\", \"600\"]\n\
             [[program]]\nname = \"ends\"\ncommand = \"/bin/true\"\n",
            application.path()
        ),
    );
    let start = Start::site(&folder.join("served.toml")).session(folder.path()).in_way(Way {
        protocol: Protocol::Http1Tls,
        io: Io::Epoll,
        form: Form::Folder,
    });
    let flags = ["--lua-program", "sleep=/bin/sleep", "--store-memory", "16"];
    let server = start.flags(&flags).start();
    assert_eq!(server.get("/none").status, 404);
    let mut client = server.client();
    let _waiting = client.begin(&Request::get("/"));
    let ask = |command: &str| -> Value {
        let mut env = Command::new("env");
        env.arg(format!("XDG_RUNTIME_DIR={}", folder.path().display()));
        serde_json::from_str(&run_under(env, &[command, "--json"]).stdout).expect("a document")
    };
    let status = wait_for("a program", || {
        let status = ask("status");
        let programs = &status["servers"][0]["programs"];
        let children = programs["children"].as_array().map_or(0, Vec::len);
        let is_waiting = programs["supervised"][1]["state"] == "waiting";
        (children == 3 && is_waiting).then_some(status)
    });
    let documents = [("status", status), ("reload", ask("reload"))];
    server.stop();
    documents
}

#[test]
fn every_member_is_in_the_reference() {
    let (reference, folder) = (Reference::read(), folder());
    let mut seen = BTreeSet::new();
    let at = |name: &str| folder.join(name).display().to_string();
    let old = source_root().join("crates/kawipiko/tests/archives/made/app-plain.cdb");
    let old = old.display().to_string();
    let (site, next, code) = (at("site.pinion"), at("next.pinion"), at("code.pinion"));
    let damaged = at("damaged.pinion");
    let commands: Vec<Vec<String>> = [
        format!("build {} -o {site}", at("site")),
        format!("build {} -o {next} --previous {site} --listing", at("next")),
        format!("build {} -o {code} --keep-going", at("code")),
        format!("build {} -o {}", at("none"), at("x.pinion")),
        format!("check {}", at("site")),
        format!("check {}", at("wrong.toml")),
        format!("inspect {site}"),
        format!("ls {site}"),
        format!("ls {next}"),
        format!("ls {code}"),
        format!("ls {}", at("none")),
        format!("cat {site} /index.html"),
        format!("cat {site} /pixel.bin"),
        format!("cat {site} /old"),
        format!("diff {site} {next}"),
        format!("diff {site} {code}"),
        format!("extract {site} -o {}", at("copy")),
        format!("import {old} -o {}", at("imported.pinion")),
        format!("import {} -o {}", at("uwsgi.ini"), at("imported.toml")),
        format!("verify {site}"),
        format!("verify {damaged}"),
        format!("publish {site} {}", at("live")),
        format!("publish {next} {}", at("live")),
        format!("releases {}", at("live")),
        format!("rollback {}", at("live")),
        "version".to_owned(),
        format!("why {} http://localhost/x/a", at("why.toml")),
        format!("why {site} /a.txt"),
        format!("why {code} /"),
    ]
    .iter()
    .map(|line| line.split(' ').map(str::to_owned).collect())
    .collect();
    for words in &commands {
        if words[1..].contains(&damaged) {
            let mut bytes = fs::read(&site).expect("an archive");
            bytes[4100] ^= 0xff;
            folder.write("damaged.pinion", bytes);
        }
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--json"]).collect();
        let ended = run(&arguments);
        let document: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", ended.stdout));
        // The tests of the command line cover the other members beside an error.
        if let Some(error) = document.get("error") {
            assert!(error.is_string(), "{arguments:?}: {document}");
            continue;
        }
        if arguments[0] == "cat" {
            let is_own = |name: &str| ["coding", "body", "body_base64"].contains(&name);
            let members = document.as_object().expect("an object").clone();
            let (own, entry): (Vec<_>, Vec<_>) =
                members.into_iter().partition(|(name, _)| is_own(name));
            reference.check("cat", "", &Value::from_iter(own), &mut seen);
            reference.check("entry", "", &Value::from_iter(entry), &mut seen);
            continue;
        }
        let is_configuration = arguments.contains(&"import") && document.get("config").is_some();
        let table = if is_configuration { "import-configuration" } else { arguments[0] };
        reference.check(table, "", &document, &mut seen);
    }
    for (table, document) in of_a_server(&folder) {
        reference.check(table, "", &document, &mut seen);
    }
    let rows = reference.0.iter().flat_map(|(table, rows)| {
        rows.keys().map(move |path| format!("{table} {path}")).collect::<Vec<_>>()
    });
    let unseen: Vec<String> = rows.filter(|row| !seen.contains(row)).collect();
    assert!(unseen.is_empty(), "no command here writes {unseen:#?}");
}
