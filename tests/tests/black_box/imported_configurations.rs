//! Configurations of NGINX Unit and of uWSGI, imported and served: the application gets the
//! requests that it got there.

use pinion_tests::binary::source_root;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

/// Responds with values of the request and of its environment.
const APPLICATION: &str = "import os\n\
    import helper\n\
    def app(environ, start_response):\n\
    \x20   start_response('200 OK', [('Content-Type', 'text/plain')])\n\
    \x20   names = 'SCRIPT_NAME', 'PATH_INFO', 'wsgi.multithread'\n\
    \x20   text = ' '.join('%s' % environ[name] for name in names)\n\
    \x20   return [('%s %s %s' % (text, os.environ['OWN'], helper.NAME)).encode()]\n";

fn folder(name: &str) -> Folder {
    let folder = Folder::with(
        name,
        [
            ("shop/app.py", APPLICATION),
            ("lib/helper.py", "NAME = 'helper'\n"),
            ("shop/static/a.css", "a{}"),
            ("shop/media/b.txt", "b"),
        ],
    );
    // The application runs as another user if the tests run as root.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    folder
}

/// Imports the file, runs `pinion check` on the result, and serves it on a free port.
fn imported(folder: &Folder, file: &str) -> Server {
    let [from, to] = [file, "pinion.toml"].map(|name| folder.join(name).display().to_string());
    let imported = run(&["import", &from, "-o", &to]);
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    let checked = run(&["check", &to]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    Start::serve(&[&to]).start()
}

/// Returns `line`, which names the user of the application, if the tests run as root; otherwise an
/// empty text.
fn user_if_root(line: &str) -> &str {
    if geteuid().is_root() { line } else { "" }
}

/// Asserts that the response has the status 200 and this text.
#[track_caller]
fn assert_response(server: &Server, target: &str, text: &str) {
    let response = server.get(target);
    assert_eq!((response.status, response.text()), (200, text), "{target}: {response}");
}

#[test]
fn an_application_of_unit_gets_its_requests() {
    let folder = folder("import-unit");
    let root = folder.path().display();
    let user = user_if_root("\"user\": \"nobody\",");
    folder.write(
        "unit.json",
        format!(
            r#"{{
    "listeners": {{"127.0.0.1:0": {{"pass": "routes"}}}},
    "routes": [
        {{"match": {{"uri": "/static/*"}}, "action": {{"share": "{root}/shop$uri"}}}},
        {{"match": {{"uri": ["/api", "/api/*"]}}, "action": {{"pass": "applications/api"}}}},
        {{"action": {{"pass": "applications/shop"}}}}
    ],
    "applications": {{
        "shop": {{"type": "python 3", "path": ["{root}/shop", "{root}/lib"], "module": "app",
            "callable": "app", "protocol": "wsgi", "home": "/usr/bin/python3", {user}
            "environment": {{"OWN": "it's \"own\""}}}},
        "api": {{"type": "python", "path": ["{root}/shop", "{root}/lib"], "module": "app", {user}
            "callable": "app", "protocol": "wsgi", "prefix": "/api", "threads": 2,
            "home": "/usr/bin/python3", "environment": {{"OWN": "api"}}}}
    }}
}}"#
        ),
    );
    let server = imported(&folder, "unit.json");
    assert_response(&server, "/static/a.css", "a{}");
    assert_response(&server, "/x/y", " /x/y False it's \"own\" helper");
    assert_response(&server, "/api/x", "/api /x True api helper");
    // A later file is served immediately, as in Unit.
    folder.write("shop/static/later.css", "b{}");
    assert_response(&server, "/static/later.css", "b{}");
    server.stop();
}

#[test]
fn an_application_of_uwsgi_gets_its_requests() {
    let folder = folder("import-uwsgi");
    let user = user_if_root("uid = nobody");
    folder.write(
        "uwsgi.ini",
        format!(
            "[uwsgi]\nbase = %d\nhttp = 127.0.0.1:0\nmaster = true\nchdir = %(base)shop\n\
             pythonpath = %(base)lib\nwsgi-file = app.py\ncallable = app\nthreads = 2\n\
             home = /usr/bin/python3\nenv = OWN=a = \"b\"\n{user}\n\
             static-map = /static=%(base)shop/static\nstatic-map2 = /media=%(base)shop\n"
        ),
    );
    let server = imported(&folder, "uwsgi.ini");
    assert_response(&server, "/static/a.css", "a{}");
    assert_response(&server, "/media/b.txt", "b");
    assert_response(&server, "/x/y", " /x/y True a = \"b\" helper");
    server.stop();
}

#[test]
fn paths_that_unit_has_refused_stay_closed_or_are_named_as_open() {
    let folder = folder("import-refusals");
    let root = folder.path().display();
    let user = user_if_root("\"user\": \"nobody\",");
    let unit = |more: &str| {
        format!(
            r#"{{
    "listeners": {{"127.0.0.1:0": {{"pass": "routes"}}}},
    "routes": [{more}
        {{"match": {{"uri": "/admin/*", "source": "!10.0.0.0/8"}}, "action": {{"return": 403}}}},
        {{"match": {{"uri": "/local/*", "source": "127.0.0.0/8"}},
            "action": {{"pass": "applications/shop"}}}},
        {{"match": {{"uri": ["/local/*", "/private/*"]}}, "action": {{"return": 404}}}},
        {{"match": {{"uri": "/path/*"}}, "action": {{"pass": "applications/shop"}}}},
        {{"action": {{"pass": "applications/shop"}}}}
    ],
    "applications": {{
        "shop": {{"type": "python 3", "path": ["{root}/shop", "{root}/lib"], "module": "app",
            "callable": "app", "protocol": "wsgi", "home": "/usr/bin/python3", {user}
            "environment": {{"OWN": "own"}}}}
    }}
}}"#
        )
    };
    folder.write("unit.json", unit(""));
    let server = imported(&folder, "unit.json");
    // The import makes access rules of these refusals, which respond with 403 whatever the status
    // was.
    for target in ["/admin/x", "/private/x", "/%61dmin/x"] {
        assert_eq!(server.get(target).status, 403, "{target}");
    }
    assert_response(&server, "/x", " /x False own helper");
    assert_response(&server, "/path/x", " /path/x False own helper");
    assert_response(&server, "/local/x", " /local/x False own helper");
    server.stop();
    let cookies = r#"{"match": {"uri": "/staff/*", "cookies": {"a": "!b"}},
        "action": {"return": 403}},"#;
    folder.write("open.json", unit(cookies));
    let [from, to] = ["open.json", "open.toml"].map(|name| folder.join(name).display().to_string());
    let ended = run(&["import", &from, "-o", &to]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("\nOPEN: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("/staff/* was refused and is open now"), "{}", ended.stderr);
    let written = fs::read_to_string(&to).expect("the configuration");
    assert!(written.contains("/staff/* was refused and is open now"), "{written}");
}

/// Returns the first block of a language in a document.
fn block<'t>(document: &'t str, language: &str) -> &'t str {
    let (_, rest) = document.split_once(&format!("```{language}\n")).expect("a block");
    rest.split_once("```").expect("its end").0
}

#[test]
fn document_examples_match_the_import() {
    for (name, language, file) in [("unit", "json", "unit.json"), ("uwsgi", "ini", "uwsgi.ini")] {
        let document = source_root().join(format!("docs/coming-from-{name}.md"));
        let document = fs::read_to_string(document).expect("the document");
        let folder = Folder::new("import-documents");
        folder.write(file, block(&document, language));
        let [from, to] = [file, "pinion.toml"].map(|name| folder.join(name).display().to_string());
        let imported = run(&["import", &from, "-o", &to]);
        assert_eq!(imported.code, Some(0), "{}", imported.stderr);
        assert!(!imported.stderr.contains("warning"), "{}", imported.stderr);
        let written = fs::read_to_string(&to).expect("the configuration");
        let (first, written) = written.split_once("\n\n").expect("a first line");
        assert!(first.starts_with("# Converted by pinion import from "), "{first}");
        assert_eq!(written, block(&document, "text"), "{name}");
    }
}
