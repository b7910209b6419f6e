//! A configuration file: `pinion check`, and `pinion serve` with one.

use crate::pinion_runner::{build_site, members, run};
use crate::server::Server;
use crate::temporary_folder::Folder;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

#[track_caller]
fn says(folder: &Folder, lines: &[&str]) {
    let run = run(folder, "check");
    assert_eq!(run.text().lines().collect::<Vec<_>>(), lines, "{}", run.stderr);
    assert_eq!((run.code, run.stderr.as_str()), (2, ""));
}

/// Asserts that a server does not start because of one error in its configuration, and reports it.
#[track_caller]
fn does_not_start(folder: &Folder, hint: &str) {
    let run = run(folder, "serve");
    let lines: Vec<&str> = run.stderr.lines().collect();
    let [error, last] = lines[..] else { panic!("{}", run.stderr) };
    assert!(error.contains(hint), "{error}");
    assert_eq!((run.code, last), (2, "pinion: cannot start: 1 error in pinion.toml"));
}

#[test]
fn every_error_is_a_line_with_its_position() {
    let folder = Folder::with_site();
    folder.write("damaged.pinion", [&b"PINION\0\0"[..], &[0; 5000]].concat());
    folder.write(
        "pinion.toml",
        "workers = 2\n\
         [[site]]\n\
         path = \"site\"\n\
         coding = \"br\"\n\
         codings = [\"br:99\"]\n\
         \n\
         [[site]]\n\
         hosts = [\"a.test\", \"b.test:80\"]\n\
         path = \"nowhere\"\n\
         \n\
         [[site]]\n\
         hosts = [\"A.test\"]\n\
         exclude = [\"[\"]\n\
         path = \"site\"\n\
         \n\
         [[listen]]\n\
         address = \"unix:run/x.sock\"\n\
         [server]\n\
         workers = \"two\"\n\
         io = \"kqueue\"\n\
         grace = 1_000_000\n\
         [log]\n\
         access = \"logs/access.log\"\n\
         [limit]\n\
         max-connections = 1\n",
    );
    says(
        &folder,
        &[
            "pinion.toml:1:1: workers belongs in [server]",
            "pinion.toml:4:1: unknown key coding in [[site]]; did you mean codings?",
            "pinion.toml:5:11: codings: br has the levels 0 to 11, not \"99\"",
            "pinion.toml:8:20: hosts: \"b.test:80\" is more than a host: leave out scheme, port \
             and path",
            "pinion.toml:9:8: nowhere does not exist; give a folder, an archive or a script",
            "pinion.toml:12:10: hosts: a.test is named in line 8 already; a host can belong to one \
             site only, remove it from one of them",
            "pinion.toml:13:12: exclude: \"[\" is not a pattern: unclosed character class; \
             missing ']'",
            "pinion.toml:17:11: address: there is no folder run",
            "pinion.toml:19:11: workers: a whole number (1 to 1024) is needed, not a string",
            "pinion.toml:20:6: io: \"kqueue\" is none of: auto, uring, epoll",
            "pinion.toml:21:9: grace: 1000000 is out of bounds: 0 to 86400 seconds",
            "pinion.toml:23:10: access: there is no folder logs",
            "pinion.toml:24:2: unknown table limit; did you mean [limits]?",
        ],
    );
}

#[test]
fn settings_without_effect_are_reported_once() {
    let folder = Folder::with_site();
    let client_ca = "pinion.toml:7:13: client-ca: has no effect without tls, quic or store-tls";
    let both = "pinion.toml:11:15: [tls] self-signed has no effect with [[certificate]] cert; \
                leave out one of them";
    let self_signed = "pinion.toml:9:15: [tls] self-signed has no effect without [[listen]] tls, \
                       [[listen]] quic or [[listen]] store-tls; add it";
    let (tls, plain) = ("tls = \"127.0.0.1:0\"", "address = \"unix:x\"");
    let certificate = "[[certificate]]\ncert = \"a\"\n";
    let own = "[tls]\nself-signed = \"p256\"\n";
    for (listen, certificate, own, expected) in [
        (tls, certificate, own, &[client_ca, both][..]),
        (tls, certificate, "", &[client_ca]),
        (plain, "", own, &[client_ca, self_signed]),
        (plain, "", "", &[client_ca]),
    ] {
        folder.write(
            "pinion.toml",
            format!(
                "[[site]]\npath = \"site\"\n[[listen]]\n{listen}\n\
                 [[listen]]\naddress = \"127.0.0.1:0\"\nclient-ca = \"ca\"\n{certificate}{own}"
            ),
        );
        let output = run(&folder, "check").text().to_owned();
        let lines: Vec<&str> = output.lines().filter(|line| line.contains("no effect")).collect();
        assert_eq!(lines, expected, "{output}");
    }
    let quic = "[[listen]]\nquic = \"127.0.0.1:0\"\nproxy-protocol = [\"10.0.0.0/8\"]\n";
    folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\n{quic}"));
    let why = "pinion.toml:5:19: proxy-protocol: has no effect with quic; leave it out";
    assert!(run(&folder, "check").text().contains(why), "over QUIC there is none");
    let why = "proxy-protocol has no effect with --quic alone; leave it out";
    run(&folder, "serve site --quic 127.0.0.1:0 --proxy-protocol unix").refused(2, why);
}

/// The certificate is in a table of its own, whose position is reported.
#[test]
fn a_certificate_without_a_listener_is_named_where_it_is_written() {
    let folder = Folder::with_site();
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\n[[certificate]]\ncert = \"a.pem\"\n");
    says(
        &folder,
        &[
            "pinion.toml:4:8: [[certificate]] cert has no effect without [[listen]] tls, \
             [[listen]] quic or [[listen]] store-tls; add it",
            "pinion.toml:4:8: cert: a.pem: does not exist; give the file of the certificate",
        ],
    );
}

/// The intention is clear, so no missing keys are reported.
#[test]
fn a_site_in_single_brackets_is_one_error() {
    let folder = Folder::with_site();
    let several = "of which there can be several";
    for (text, expected) in [
        (
            "[site]\npath = \"site\"\n",
            format!("1:2: write [[site]] instead of [site]: a table {several}"),
        ),
        (
            "[[sites]]\npath = \"site\"\n",
            "1:3: unknown table sites; did you mean [[site]]?".to_owned(),
        ),
        (
            "site = \"site\"\n",
            "1:1: site is a table; write [[site]], and its keys below".to_owned(),
        ),
    ] {
        folder.write("pinion.toml", text);
        says(&folder, &[&format!("pinion.toml:{expected}")]);
    }
}

#[test]
fn a_failed_start_ends_with_a_summary_line() {
    let folder = Folder::with_site();
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\nwokers = 1\nrule = \"a\"\n");
    let wrong = run(&folder, "serve");
    assert_eq!((wrong.code, wrong.stderr.lines().count()), (2, 3), "{}", wrong.stderr);
    let last = wrong.stderr.lines().last();
    assert_eq!(last, Some("pinion: cannot start: 2 errors in pinion.toml"));
    folder.write("site/_redirects", "/b c\n");
    let wrong = run(&folder, "serve site --listen 127.0.0.1:0");
    let last = wrong.stderr.lines().last();
    let expected = "pinion: cannot start: nothing was built because of 1 error in rules files; \
                    correct it, or skip the wrong lines with --lax-rules";
    assert_eq!((wrong.code, last), (2, Some(expected)), "{}", wrong.stderr);
}

/// If only one site was reported at a time, the operator would have to start the server once for
/// each.
#[test]
fn a_start_reports_every_site_that_cannot_be_loaded() {
    let folder = Folder::with_site();
    let site = |name: &str| {
        folder.write(&format!("{name}/_redirects"), "/b c\n");
        format!("[[site]]\npath = \"{name}\"\nhosts = [\"{name}.test\"]\n")
    };
    let listen = "[[listen]]\naddress = \"127.0.0.1:0\"\n";
    folder.write("pinion.toml", site("a") + &site("b") + listen);
    let wrong = run(&folder, "serve");
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    for name in ["a", "b"] {
        let line = format!("pinion: site {name}.test: {name}/_redirects:1:4: expected a target");
        assert!(wrong.stderr.contains(&line), "{}", wrong.stderr);
    }
    let last = "pinion: cannot start: 2 sites cannot be loaded; correct what the lines above say";
    assert_eq!(wrong.stderr.lines().last(), Some(last));
}

#[test]
fn an_address_in_use_is_named_where_it_is_written() {
    let folder = Folder::with_site();
    let server = Server::start(&folder, "site");
    let address = server.address();
    let (_, port) = address.rsplit_once(':').expect("a port");
    let listen = format!("[[listen]]\naddress = \"{address}\"\n");
    folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\n{listen}"));
    let used = format!(
        "cannot listen on {address}: another program listens there already, `ss -ltnp 'sport = \
         :{port}'` shows which one; stop it or choose another address"
    );
    let of_file = format!("pinion: cannot start: pinion.toml:4:11: address: {used} in this line\n");
    run(&folder, "serve").refused(1, &of_file);
    // A flag replaces the listeners of the file.
    let of_flag = format!("pinion: cannot start: {used} with --listen\n");
    run(&folder, &format!("serve --listen {address}")).refused(1, &of_flag);
}

#[test]
fn a_listener_needs_a_protocol_and_a_suitable_address() {
    let folder = Folder::with_site();
    let silent = "protocols: leaves nothing to speak at";
    for (listen, expected) in [
        (
            "quic = \"unix:x\"",
            "pinion.toml:4:8: quic: unix:x: HTTP/3 needs UDP; give an address \
                              and a port, like :443"
                .to_owned(),
        ),
        ("quic = \":1\"\nprotocols = [\"h1\"]", format!("pinion.toml:5:13: {silent} quic; add h3")),
        (
            "tls = \":1\"\nprotocols = [\"h3\"]",
            format!("pinion.toml:5:13: {silent} tls; add h1 or h2"),
        ),
    ] {
        folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\n[[listen]]\n{listen}\n"));
        says(&folder, &[&expected]);
    }
}

#[test]
fn no_flag_drops_the_client_checks_of_the_file() {
    let folder = Folder::with_site();
    let listen = "[[listen]]\ntls = \"127.0.0.1:0\"\nclient-ca = \"ca\"\n";
    folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\n{listen}"));
    // The certificate does not exist, so nothing is ever served.
    let serve = "serve pinion.toml --cert none --tls 127.0.0.1:0";
    let why = "5:13: client-ca: --tls takes the place of this listener; give --client-ca beside it";
    let refused = run(&folder, serve);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    run(&folder, &format!("{serve} --client-ca other")).refused(1, "none: does not exist");
    // A listener that does not expect the header would refuse a proxy that sends one.
    let listen = "[[listen]]\naddress = \"127.0.0.1:0\"\nproxy-protocol = [\"unix\"]\n";
    folder.write("pinion.toml", format!("[[site]]\npath = \"site\"\n{listen}"));
    let why = "5:19: proxy-protocol: --listen takes the place of this listener; give \
               --proxy-protocol beside it";
    let refused = run(&folder, "serve pinion.toml --listen 127.0.0.1:0");
    assert!(refused.code == 2 && refused.stderr.contains(why), "{}", refused.stderr);
}

#[test]
fn malformed_toml_is_one_line() {
    let folder = Folder::with_site();
    folder.write("pinion.toml", "[[site]]\npath = \"site\n");
    let run = run(&folder, "check");
    assert_eq!(run.code, 2);
    assert!(run.text().starts_with("pinion.toml:2:"), "{}", run.text());
    folder.write("pinion.toml", b"[[site]]\npath = \"\xff\"\n");
    says(&folder, &["pinion.toml:2:9: is not UTF-8 from here on"]);
    folder.write("pinion.toml", "");
    let hint = "for a server with only a store, write [[listen]], and below it store = \
                \"127.0.0.1:6379\"";
    let no_site = "pinion.toml:1:1: no site: write [[site]], and below it path = \"public\"";
    says(&folder, &[&format!("{no_site}; {hint}")]);
}

#[test]
fn a_file_that_cannot_be_read_is_a_line() {
    let folder = Folder::with_site();
    run(&folder, "check").refused(2, "there is no pinion.toml here");
    for none in ["none.toml", "none", "~/none.toml"] {
        let missing = "does not exist; give a configuration (.toml), a folder, an archive or a";
        run(&folder, &format!("check {none}")).refused(2, &format!("pinion: {none} {missing}"));
    }
    run(&folder, "check ~/none").refused(2, "; ~ and $HOME are not expanded");
    run(&folder, "serve none.toml").refused(2, "does not exist");
    for name in ["a.html", "a.pem", "a.zip", "c.conf"] {
        folder.write(name, "text");
        let neither =
            format!("{name} is neither a configuration (.toml) nor a folder, an archive or");
        run(&folder, &format!("check {name}")).refused(2, &neither);
    }
    run(&folder, "check /dev/null").refused(2, "/dev/null is neither a configuration (.toml)");
    folder.write("pinion.toml", "[[site]]\npath = \"~/public\"\nhosts = [\"a\", \"A\"]\n");
    says(
        &folder,
        &[
            "pinion.toml:2:8: ~/public does not exist; give a folder, an archive or a script; ~ \
             and $HOME are not expanded",
            "pinion.toml:3:15: hosts: a is given twice in this list; remove one",
        ],
    );
    folder.write("pinion.toml", "[[site]]\npath = \"\"\n");
    says(&folder, &["pinion.toml:2:8: path: the path is empty; give one"]);
}

#[test]
fn archives_and_folders_are_opened() {
    let folder = Folder::with_site();
    build_site(&folder);
    folder.write(
        "pinion.toml",
        "[[site]]\npath = \"site.pinion\"\n[[site]]\nhosts = [\"a\"]\npath = \"site\"\n",
    );
    let right = run(&folder, "check");
    assert_eq!((right.code, right.text()), (0, "pinion.toml: no errors, 2 sites\n"));
    let mut bytes = folder.read("site.pinion");
    bytes[40] ^= 1;
    folder.write("site.pinion", bytes);
    let damaged = run(&folder, "check");
    assert_eq!(damaged.code, 2);
    assert!(
        damaged.text().starts_with("pinion.toml:2:8: path: site.pinion: "),
        "{}",
        damaged.text()
    );
    // Root can read all files and sees no difference.
    fs::set_permissions(folder.join("site"), fs::Permissions::from_mode(0o0)).expect("set");
    let is_root = fs::read_dir(folder.join("site")).is_ok();
    let lines = run(&folder, "check").text().lines().count();
    fs::set_permissions(folder.join("site"), fs::Permissions::from_mode(0o755)).expect("set");
    assert_eq!(lines, if is_root { 1 } else { 2 });
}

/// A check finds the files that a build cannot read, and a site that is built without them gives no
/// error.
#[test]
fn a_file_that_a_build_cannot_read_is_found() {
    let folder = Folder::with_site();
    // The file cannot be read completely, not even by root: it has more content than its size.
    symlink("/proc/version", folder.join("site/version.txt")).expect("a link");
    folder.write("site/secret.html", "secret");
    fs::set_permissions(folder.join("site/secret.html"), fs::Permissions::from_mode(0o0))
        .expect("set");
    let built = run(&folder, "build site -o site.pinion");
    assert_eq!(built.code, 1, "{}", built.stderr);
    let problems = built.stderr.lines().filter_map(|line| line.strip_prefix("pinion: "));
    let problems: Vec<&str> = problems.filter(|line| !line.contains("nothing was built")).collect();
    assert!(problems.iter().any(|line| line.starts_with("version.txt: ")), "{problems:?}");
    let lines: Vec<String> = problems.iter().map(|line| format!("site/{line}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let of_folder = run(&folder, "check site");
    assert_eq!((of_folder.code, of_folder.text()), (2, &*(lines.join("\n") + "\n")));
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\n");
    says(&folder, &lines);
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\nkeep-going = true\n");
    let kept = run(&folder, "check");
    assert_eq!((kept.code, kept.text()), (0, "pinion.toml: no errors, 1 site\n"));
    for problem in problems {
        let warning = format!("warning: site: left out {problem}\n");
        assert!(kept.stderr.contains(&warning), "{}", kept.stderr);
    }
}

/// `serve` and `build` accept the same files.
#[test]
fn rules_files_named_by_flags_are_checked_with_the_folder() {
    let folder = Folder::with_site();
    folder.write("our-redirects", "/old /new\n/b c\n");
    folder.write("our-headers", "/*\n  X-A\n");
    let checked = run(&folder, "check site --rules our-redirects --fields our-headers");
    let lines: Vec<&str> = checked.text().lines().collect();
    assert_eq!((checked.code, lines.len()), (2, 2), "{}", checked.text());
    assert!(lines[0].starts_with("./our-headers:2:3: expected a path"), "{}", lines[0]);
    assert!(lines[1].starts_with("./our-redirects:2:4: expected a target"), "{}", lines[1]);
    let missing = run(&folder, "check site --rules none");
    assert!(missing.code == 2 && missing.text().starts_with("./none: "), "{}", missing.text());
    folder.write("our-redirects", "/old /\n");
    folder.write("our-headers", "/*\n  X-A: b\n");
    let right = run(&folder, "check site --rules our-redirects --fields our-headers");
    assert_eq!((right.code, right.text()), (0, "site: no errors, 1 site\n"), "{}", right.stderr);
    build_site(&folder);
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\n");
    for (path, why) in [
        ("site.pinion", "site.pinion, which is no folder; leave it out"),
        ("pinion.toml", "pinion.toml, a configuration; write a key of that name in its [[site]]"),
    ] {
        for flag in ["--rules our-redirects", "--fields our-headers", "--lax-rules"] {
            let refused = run(&folder, &format!("check {path} {flag}"));
            let (flag, _) = flag.split_once(' ').unwrap_or((flag, ""));
            let expected = format!("{flag} has no effect on {why}");
            assert_eq!(refused.code, 2, "{path} {flag}");
            assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
        }
    }
}

#[test]
fn rules_within_folders_are_checked_with_their_positions() {
    let folder = Folder::with_site();
    folder.write("site/_redirects", "/old /new\n/b c\n/ /other\n");
    folder.write("site/_headers", "/*\n  X-A\n");
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\nmemry = 1\n");
    let rules = [
        "site/_headers:2:3: expected a path, Name: value, or ! Name, found \"X-A\"; a path begins \
         with /, and ! removes a header",
        "site/_redirects:2:4: expected a target that begins with /, ./, http:// or https://, found \
         \"c\"; write `/old /new`, and a status such as 301 after it if you need one",
    ];
    let of_folder = run(&folder, "check site");
    assert_eq!((of_folder.code, of_folder.text()), (2, &*(rules.join("\n") + "\n")));
    says(
        &folder,
        &[&["pinion.toml:3:1: unknown key memry in [[site]]; did you mean memory?"], &rules[..]]
            .concat(),
    );
    let lax = run(&folder, "check site --lax-rules");
    assert_eq!((lax.code, lax.text()), (0, "site: no errors, 1 site\n"));
    let skipped = "site/_redirects:2:4: skipped by --lax-rules: expected";
    assert!(lax.stderr.contains(skipped), "{}", lax.stderr);
    let built = run(&folder, "build site -o site.pinion --lax-rules");
    assert_eq!(built.code, 0, "{}", built.stderr);
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\nlax-rules = true\n");
    assert_eq!(run(&folder, "check").code, 0);
    folder.write("site/_redirects", "/old /new\n/ /other\n");
    folder.write("site/_headers", "");
    let right = run(&folder, "check site");
    assert_eq!((right.code, right.text()), (0, "site: no errors, 1 site\n"));
    assert!(right.stderr.starts_with("warning: site/_redirects:2:1: "), "{}", right.stderr);
    assert_eq!(right.stderr.lines().count(), 1);
    let document = run(&folder, "check site --json").json();
    assert_eq!(document["warnings"].as_array().map(Vec::len), Some(1));
}

/// With the hosts of a site, the check knows which redirects lead back to it.
#[test]
fn redirects_to_a_host_of_the_site_are_found() {
    let folder = Folder::with_site();
    folder.write("site/_redirects", "/* https://example.org/:splat 301!\n");
    assert_eq!(run(&folder, "check site").code, 0);
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\nhosts = [\"Example.org\"]\n");
    says(
        &folder,
        &["site/_redirects:1:4: expected another target: this one leads back to the same rule; \
           rules apply to http and https alike: remove the line, and redirect http with \
           --redirect-http"],
    );
    folder.write("site/_redirects", "http://other.example/* https://example.com/ 301!\n");
    let warned = run(&folder, "check");
    assert!(
        warned.stderr.contains("site/_redirects:1:1: never applies: its host"),
        "{}",
        warned.stderr
    );
}

#[test]
fn rules_files_named_by_keys_are_checked_with_their_positions() {
    let folder = Folder::with_site();
    folder.write("conf/rules", "/old /new\n/b c\n");
    folder.write("conf/fields", "/*\n  X-A\n");
    folder.write(
        "conf/pinion.toml",
        "[[site]]\npath = \"../site\"\nrules = [\"rules\", \"none\"]\nfields = [\".\"]\n",
    );
    let wrong = run(&folder, "check conf/pinion.toml");
    let lines = [
        "conf/pinion.toml:3:19: rules: conf/none cannot be read: No such file or directory",
        "conf/pinion.toml:4:11: fields: conf/. is not a file",
    ];
    assert_eq!((wrong.code, wrong.text()), (2, &*(lines.join("\n") + "\n")));
    // Two sites share the files; each error is reported once.
    let site = "[[site]]\npath = \"../site\"\nrules = [\"rules\"]\nfields = [\"fields\"]\n";
    folder.write("conf/pinion.toml", [site, "hosts = [\"a\"]\n", site].concat());
    let wrong = run(&folder, "check conf/pinion.toml");
    let lines = [
        "./conf/fields:2:3: expected a path, Name: value, or ! Name, found \"X-A\"; a path begins \
         with /, and ! removes a header",
        "./conf/rules:2:4: expected a target that begins with /, ./, http:// or https://, found \
         \"c\"; write `/old /new`, and a status such as 301 after it if you need one",
    ];
    assert_eq!((wrong.code, wrong.text()), (2, &*(lines.join("\n") + "\n")));
    // An archive is built already.
    build_site(&folder);
    folder.write("pinion.toml", "[[site]]\npath = \"site.pinion\"\nrules = [\"conf/rules\"]\n");
    let archive = run(&folder, "check");
    assert!(archive.text().starts_with("pinion.toml:3:"), "{}", archive.text());
    assert!(archive.text().contains("rules: has no effect on an archive"), "{}", archive.text());
}

#[test]
fn the_json_of_check_always_has_all_members() {
    let folder = Folder::with_site();
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\nnope = 1\n");
    let wrong = run(&folder, "check --json");
    assert_eq!(wrong.code, 2);
    let document = wrong.json();
    assert_eq!(members(&document), ["config", "faults", "listeners", "notes", "sites", "warnings"]);
    let fault = &document["faults"][0];
    assert_eq!(members(fault), ["column", "file", "line", "message"]);
    assert_eq!((&fault["line"], &fault["column"]), (&3.into(), &1.into()));
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\n");
    let right = run(&folder, "check --json");
    assert_eq!((right.code, right.json()["faults"].as_array().map(Vec::len)), (0, Some(0)));
    fs::remove_file(folder.join("pinion.toml")).expect("gone");
    assert!(run(&folder, "check --json").json()["error"].is_string());
}

#[test]
fn flags_override_the_file() {
    let folder = Folder::with_site();
    folder.write(
        "conf/pinion.toml",
        "[[site]]\npath = \"../site\"\ncache-control = \"no-cache\"\n\
         [[listen]]\naddress = \"unix:x.sock\"\n[server]\nserver-name = \"file\"\n",
    );
    let server = Server::start(&folder, "conf/pinion.toml --cache-control max-age=7");
    assert!(!folder.join("conf/x.sock").exists(), "--listen stands for all listeners");
    let response = server.get("/");
    assert_eq!(response.field("Cache-Control"), Some("max-age=7"));
    assert_eq!(response.field("Server"), Some("file"));
    let start = server.start.join("\n");
    assert!(start.contains("conf/pinion.toml with 1 site, 2 workers"), "{start}");
    let of_site = server.start.iter().find(|line| line.starts_with("site conf/../site ("));
    let of_site = of_site.unwrap_or_else(|| panic!("no line of the site: {start}"));
    assert!(of_site.ends_with(" files, snapshot until SIGHUP) for every host"), "{of_site}");
    assert_eq!(server.stop().0, Some(0));
    // A path in the file is relative to its folder, that of a flag to the current folder.
    let server = Server::start_with(&folder, "conf/pinion.toml --server-name flag", 1);
    assert!(folder.join("conf/x.sock").exists());
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn cache_control_is_a_value_or_switched_off() {
    let folder = Folder::with_site();
    let got = |value: &str, flags: &str| {
        let text = format!("[[site]]\npath = \"site\"\ncache-control = {value}\n");
        folder.write("pinion.toml", text);
        let server = Server::start(&folder, &format!("pinion.toml {flags}"));
        let field = server.get("/").field("Cache-Control").map(str::to_owned);
        assert_eq!(server.stop().0, Some(0));
        field
    };
    assert_eq!(got("false", ""), None);
    assert_eq!(got("true", "").as_deref(), Some("max-age=0, must-revalidate"));
    // Each flag overrides each value.
    assert_eq!(got("false", "--cache-control no-cache").as_deref(), Some("no-cache"));
    assert_eq!(got("\"no-cache\"", "--no-cache-control"), None);
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\ncache-control = 5\n");
    let hint = "cache-control: a string (visible ASCII), true or false is needed, not a number";
    does_not_start(&folder, hint);
    build_site(&folder);
    folder.write("pinion.toml", "[[site]]\npath = \"site.pinion\"\ncache-control = false\n");
    let hint = "pinion.toml:3:17: cache-control: has no effect on an archive";
    does_not_start(&folder, hint);
}

#[test]
fn pinion_toml_precedes_the_public_folder() {
    let folder = Folder::with_site();
    folder.write("public/index.html", "public");
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\n");
    let server = Server::start(&folder, "");
    assert!(server.get("/").body.starts_with(b"<!doctype html><title>first"));
    assert!(server.start.join("\n").contains("pinion.toml with 1 site"));
}

#[test]
fn keys_without_effect_on_an_archive_are_errors() {
    let folder = Folder::with_site();
    build_site(&folder);
    folder.write("pinion.toml", "[[site]]\npath = \"site.pinion\"\nsecurity-headers = false\n");
    let hint = "pinion.toml:3:20: security-headers: has no effect on an archive";
    does_not_start(&folder, hint);
    folder.write("pinion.toml", "[[site]]\npath = \"site.pinion\"\n");
    run(&folder, "serve --codings br").refused(2, "no site of pinion.toml is a folder");
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\n[log]\nformat = \"json\"\n");
    does_not_start(&folder, "pinion.toml:4:10: format: has no effect without access");
}

#[test]
fn an_archive_is_checked_as_it_would_be_served() {
    let folder = Folder::with_site();
    build_site(&folder);
    let sound = run(&folder, "check site.pinion");
    assert_eq!((sound.code, sound.text()), (0, "site.pinion: no errors, 1 site\n"));
    let bytes = folder.read("site.pinion");
    folder.write("site.pinion", &bytes[..bytes.len() - 1]);
    let cut = run(&folder, "check site.pinion");
    assert_eq!(cut.code, 2);
    assert!(cut.text().starts_with("site.pinion: "), "{}", cut.text());
}

/// A check reports omitted files and the caching of clients, for a folder and for a site of a file.
#[test]
fn check_prints_omitted_and_long_cached_files() {
    let folder = Folder::with_site();
    for name in [".a", ".b", "c~", "d.log", "e.tmp", "f.lock", "x.priv.txt"] {
        folder.write(&format!("site/{name}"), "left out");
    }
    for name in ["index-BxK3q2_a.js", "index-C-x2dF-Q.css", "vendor-DiwrgTda.js", "z-Dx7z1aPq.js"] {
        folder.write(&format!("site/assets/{name}"), name);
    }
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\n");
    let left_out = "6 paths left out (publish with --include): .a, .b, c~, d.log, e.tmp and 1 more";
    let kept = "4 files with a fingerprint in the name, cached by browsers for a year: \
                assets/index-BxK3q2_a.js, \
                assets/index-C-x2dF-Q.css, assets/vendor-DiwrgTda.js, …";
    for line in ["check site", "check"] {
        let checked = run(&folder, line);
        assert_eq!(checked.code, 0, "{}", checked.stderr);
        for note in [left_out, kept, "1 path never served because of the name: x.priv.txt"] {
            let note = format!("note: site: {note}\n");
            assert!(checked.stderr.contains(&note), "{line}: {}", checked.stderr);
        }
    }
    let built = run(&folder, "build site -o site.pinion --include .a");
    assert!(built.stderr.contains(&format!("note: {kept}\n")), "{}", built.stderr);
    let left_out =
        "note: 5 paths left out (publish with --include): .b, c~, d.log, e.tmp, f.lock\n";
    assert!(built.stderr.contains(left_out), "{}", built.stderr);
}
