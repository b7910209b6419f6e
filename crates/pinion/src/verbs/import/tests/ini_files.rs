//! Tests of the ini files of uWSGI: folders, sections, placeholders, sockets.

use super::*;

/// Returns the tables for a file with these lines, and the settings that were left out.
fn ini(lines: &[&str]) -> (Table, Converted) {
    let text = format!("[uwsgi]\n{}\n", lines.join("\n"));
    let converted = converted("/etc/uwsgi/shop.ini", &text);
    (table(&converted.text), converted)
}

#[test]
fn relative_paths_belong_to_chdir() {
    let lines = [
        "home = venv",
        "http = shop.sock",
        "https = :443,a.crt,a.key",
        "static-map = /static=static",
        "static-map2 = /media=./files/",
        "static-map = /root=.",
        "check-static = public",
        "pythonpath = lib",
        "pythonpath = /srv/lib",
        "chdir = /srv/shop/",
        "wsgi-file = shop.py",
    ];
    let expected = r#"
[[site]]
live = ["/static=/srv/shop/static", "/media=/srv/shop/files/media", "/root=/srv/shop"]
path = "/srv/shop/public"
watch = true
[[site.mount]]
wsgi = "shop.py"
python-folder = "/srv/shop/"
python = "/srv/shop/venv"
variables = { PYTHONPATH = "/srv/lib:/srv/shop/lib" }
[[listen]]
address = "unix:/srv/shop/shop.sock"
[[listen]]
tls = ":443"
# uWSGI reads these before it changes to the folder.
[[certificate]]
cert = "a.crt"
key = "a.key"
"#;
    let (got, converted) = ini(&lines);
    assert_eq!(got, table(expected), "{}", converted.text);
    names(&converted, &[]);
    // No file says where uWSGI was started.
    let (got, converted) = ini(&["chdir = proj", "module = a", "home = venv", "http = :80"]);
    let mount = &got["site"][0]["mount"][0];
    assert_eq!((&mount["python-folder"], &mount["python"]), (&"proj".into(), &"proj/venv".into()));
    names(&converted, &[("2", "the folder in which uWSGI was started")]);
    let (got, converted) = ini(&["wsgi-file = a.py", "home = venv", "http = :80"]);
    let mount = &got["site"][0]["mount"][0];
    assert_eq!((mount.get("python-folder"), &mount["python"]), (None, &"venv".into()));
    names(
        &converted,
        &[("2", "wsgi-file = a.py belongs to the folder in which uWSGI was started")],
    );
}

#[test]
fn pythonpath_is_not_the_working_directory() {
    let (got, converted) = ini(&["pythonpath = /srv/proj", "module = shop:app", "http = :80"]);
    let mount = &got["site"][0]["mount"][0];
    assert_eq!(mount.get("python-folder"), None, "{}", converted.text);
    assert_eq!(mount["variables"]["PYTHONPATH"], "/srv/proj");
    names(&converted, &[]);
}

#[test]
fn a_socket_listens_if_its_protocol_is_http() {
    let lines = ["socket = 127.0.0.1:8000", "module = a", "protocol = http", "scgi-socket = :1"];
    let (got, converted) = ini(&lines);
    assert_eq!(got["listen"], serde_json::json!([{"address": "127.0.0.1:8000"}]));
    names(&converted, &[("5", "scgi-socket: speaks another protocol")]);
    let (got, converted) = ini(&["socket = :8000", "module = a", "protocol = fastcgi"]);
    assert_eq!(got.get("listen"), None);
    names(
        &converted,
        &[("2", "another protocol"), ("4", "protocol = fastcgi"), ("socket", "127.0.0.1:8080")],
    );
}

#[test]
fn a_section_is_chosen_and_can_include_others() {
    let text = "[uwsgi]\nmodule = a\n[production]\nini = :base\nhttp = :80\nmodule = %x\n\
                [base]\ninclude = shop.ini:more\nini = :production\n[more]\nthreads = 3\n";
    let convert = |section| {
        let text = text.as_bytes().to_vec();
        convert(Path::new("/srv/shop.ini"), section, text)
    };
    let converted = convert(Some("production")).expect("a configuration");
    let got = table(&converted.text);
    assert_eq!(got["site"][0]["mount"][0]["wsgi"], "production", "{}", converted.text);
    assert_eq!(got["site"][0]["mount"][0]["python-threads"], 3, "{}", converted.text);
    names(&converted, &[("1", "pinion import shop.ini:uwsgi")]);
    let error = convert(Some("nope")).expect_err("no such section");
    assert!(error.contains("no section [nope]"), "{error}");
}

#[test]
fn placeholders_are_named_one_by_one() {
    let lines = [
        "module = a",
        "http = :80",
        "env = Z=100%",
        "log-format = %(addr) %(uri)",
        "threads = %(later)",
        "later = 3",
        "env = A=%(nope)/%(other)",
        "env = U=%U",
        "env = D=%0/%1",
        "processes = %k",
    ];
    let (got, converted) = ini(&lines);
    let mount = &got["site"][0]["mount"][0];
    assert_eq!(mount["variables"], serde_json::json!({"Z": "100%", "D": "etc/uwsgi"}));
    assert_eq!(mount["python-threads"], 3);
    assert!(mount["python-processes"].as_u64().is_some_and(|cores| cores > 0));
    names(
        &converted,
        &[
            ("4", "uWSGI takes the next line for a part of this value"),
            ("5", "log-format: was not carried: messages go to stderr"),
            ("8", "the placeholder %(nope) was not carried"),
            ("9", "the name of the user that starts uWSGI"),
            ("11", "%k is the number of cores of this machine"),
        ],
    );
}

#[test]
fn common_options_name_their_replacement() {
    let lines = [
        "module = a",
        "http = :80",
        "autostart = true",
        "plugins-dir = /usr/lib/uwsgi",
        "skip-atexit-teardown",
        "wsgi-manage-chunked-input = true",
        "umask = 022",
        "enable-proxy-protocol = true",
        "log-to = /var/log/a",
        "import = tasks",
    ];
    let (_, converted) = ini(&lines);
    assert_eq!(converted.draft.not_needed, 4);
    names(
        &converted,
        &[
            ("8", "set UMask in the unit of systemd"),
            ("9", "proxy-protocol of [[listen]]"),
            ("10", "messages go to stderr"),
            ("11", "import the module in that of the application"),
        ],
    );
}
