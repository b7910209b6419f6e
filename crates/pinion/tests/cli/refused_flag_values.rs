//! Every flag of every verb, as its help lists it: the values that it refuses. The effects of the
//! flags are tested elsewhere; the end of this file has those that fit nowhere else.

use crate::pinion_runner::{build_site, command, run, verbs};
use crate::server::Server;
use crate::temporary_folder::Folder;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

/// The verbs with correct operands: every verb needs a row.
const VERBS: [(&str, &str); 24] = [
    ("build", "site -o out"),
    ("serve", "site --listen 127.0.0.1:0"),
    ("check", "none.toml"),
    ("inspect", "site.pinion"),
    ("ls", "site.pinion"),
    ("cat", "site.pinion /"),
    ("completions", "bash"),
    ("diff", "site.pinion site.pinion"),
    ("drain", ""),
    ("extract", "site.pinion -o out"),
    ("import", "site.cdb -o out"),
    ("man", "pinion"),
    ("verify", "site.pinion"),
    ("publish", "site.pinion live"),
    ("releases", "live"),
    ("reload", ""),
    ("reopen-logs", ""),
    ("rollback", "live"),
    ("run", SCRIPT),
    ("status", ""),
    ("stop", ""),
    ("store", "127.0.0.1:0"),
    ("version", ""),
    ("why", "site /"),
];

/// The script of `run`: the words after it are its own arguments.
const SCRIPT: &str = "none.lua";

/// Values that flags do not accept. Whole numbers are in [`NUMBERS`].
const WRONG: [(&str, &[&str]); 74] = [
    ("--acme-webroot", &[""]),
    ("--access-log", &[""]),
    ("--alt-svc", &["", "on", " a=b", "h3=\n"]),
    ("--asgi", &["", "/api=", "/a b=app"]),
    ("--cache-control", &["", " a", "a ", "a\nb", "\u{fc}"]),
    ("--coding", &["", "deflate", "BR"]),
    ("--canonical-host", &["", "*.a.org", "a.org:0", "https://a.org", "a b"]),
    ("--cert", &[""]),
    ("--cgi", &["", "..", "/", "/run=", "/srv/a b", "/a b=/srv", "/a*=/srv"]),
    ("--cgi-chroot", &[""]),
    ("--cgi-user", &["", "a b", "a:b"]),
    ("--client-ca", &[""]),
    ("--codings", &["", "deflate", "gzip:0", "gzip:13", "br:12", "zstd:23", "br:", "br,br"]),
    ("--codings-for", &["", "*.svg", "=br", "*.svg=", "*.svg=lzma", "[=br", "a=gzip,zopfli"]),
    ("--compat", &["", "90s", "80S"]),
    ("--control", &[""]),
    ("--dummy-delay", &["", "60", "ms", "0s", "61s", "1.5s", "-1s", "99999999999999999999s"]),
    ("--exclude", &["", "[", "{a"]),
    ("--fetch-ca", &[""]),
    ("--fetch-network", &["", "localhost", "10.0.0.0/33", "10.1.0.0/8", "unix", "::ffff:0:0/96"]),
    ("--fetch-pin", &["", "AB:CD", "sha256//", "sha256//AAAA", "sha1//AAAA"]),
    ("--fetch-socket", &[""]),
    ("--fields", &[""]),
    ("--header", &["", "Accept", ": a", "A b: c", "A: b\nC: d", "A: \u{1}"]),
    ("--health", &["", "healthz", "/a b", "/a?b", "/\u{fc}", "http://h/"]),
    ("--hsts", &["", "1", "y", "1y,preload", "1y;subdomains"]),
    ("--immutable", &["", "[", "{a"]),
    ("--include", &["", "[", "{a"]),
    ("--io", &["", "kqueue", "AUTO"]),
    ("--key", &[""]),
    ("--level", &["", "slow", "MAX"]),
    ("--listen", &["", "port", "99999", "host:99999", "::1:80", "[::1]", "unix:", "a b:80"]),
    ("--store", &["", "port", "99999", "unix:"]),
    ("--store-eviction", &["", "lru", "ALLKEYS-LRU"]),
    ("--store-pages", &["/a b=x", "/*.html=x", "/../a=x"]),
    ("--store-password", &[""]),
    ("--store-tls", &["", "port", "99999", "unix:"]),
    ("--log-format", &["", "common"]),
    ("--live", &["", "..", "a/../b", "a//b", "/srv/a", ".git", "/a=", "/../a=b", "/%61=b"]),
    ("--lua-folder", &["", "/srv", "=/srv", "a b=/srv", "a=", "a=:ro", "a/b=/srv", "\u{fc}=/srv"]),
    ("--lua-program", &["", "sh", "=/bin/sh", "a b=/bin/sh", "sh=sh", "sh=./sh"]),
    ("--memory", &["", "mmap"]),
    ("--no-exec", &["", "/etc", "..", "a/../b", "."]),
    ("--method", &["", "GE T", "GET/", "\u{fc}"]),
    ("--php-fpm", &[""]),
    ("--php-upload-limit", &["", "1X", "-1", "M"]),
    ("--php-send-files", &["", "/a=", "/a//b=c", "/..=c", "/%61=c"]),
    ("--php-user", &["", "a b", "a:b"]),
    ("--previous", &[""]),
    ("--previous-for", &["", "[", "{a"]),
    ("--protocols", &["", "h4", "h1,", "http/1.1", "h1,h1"]),
    ("--proxy", &["", "3000", "127.0.0.1:3000", "ftp://a", "http://a/b", "/a=", "a=http://b"]),
    ("--redirect-http", &["", "port", "99999", "::1:80", "unix:"]),
    ("--remote-pinion", &[""]),
    ("--report", &[""]),
    ("--reuse", &[""]),
    ("--single-page", &[""]),
    ("--rules", &[""]),
    ("--secret", &["", "/srv", "=/srv", "a b=/srv", "a=", "a/b=/srv"]),
    ("--server-name", &["", " a", "a\r\nb", "\u{fc}"]),
    ("--quic", &["", "port", "99999", "host:99999", "::1:80", "[::1]", "a b:80", "unix:/a"]),
    ("--socket", &[""]),
    ("--state", &[""]),
    ("--tls", &["", "port", "99999", "host:99999", "::1:80", "[::1]", "unix:", "a b:80"]),
    ("--quic-congestion", &["", "BBR", "reno"]),
    ("--tls-self", &["", "P256", "rsa4096"]),
    ("--proxy-protocol", &["", "localhost", "10.0.0.0/33", "10.1.0.0/8", "::1/129"]),
    ("--client-ip-header", &["", "X Real", "X-Real-IP:", "\u{fc}"]),
    ("--trusted-proxy", &["", "localhost", "10.0.0.0/33", "10.1.0.0/8", "::1/129"]),
    ("--python", &[""]),
    ("--python-folder", &[""]),
    ("--python-nice", &["", "20", "-21", "5.0", "low"]),
    ("--python-user", &["", "a b", "a:b"]),
    ("--wsgi", &["", "/api=", "/a b=app"]),
];

/// Flags that take a whole number, none of which takes more than 10^9.
const NUMBERS: [&str; 26] = [
    "--dummy-bytes",
    "--grace",
    "--jobs",
    "--keep",
    "--lua-cpu",
    "--lua-memory",
    "--lua-time",
    "--lua-vm-memory",
    "--max-connections",
    "--max-connections-per-client",
    "--max-outgoing",
    "--max-tunnels-per-client",
    "--proxy-timeout",
    "--keep-alive-timeout",
    "--header-timeout",
    "--body-timeout",
    "--max-requests-per-connection",
    "--memory-budget",
    "--php-processes",
    "--python-processes",
    "--python-threads",
    "--previous-keep",
    "--stats",
    "--store-memory",
    "--upload-space",
    "--workers",
];
/// Values that none of them accepts.
const WRONG_NUMBERS: [&str; 8] =
    ["", "-1", "1.5", "1e3", "x", "0x10", "1000000001", "99999999999999999999999"];

/// One flag in a help text.
struct Flag {
    /// The name, such as `--listen`.
    name: String,
    /// The short form, such as `-l`.
    short: Option<String>,
    takes_value: bool,
}

/// The column at which the descriptions of a help text begin.
const DESCRIPTION_COLUMN: usize = 10;

/// Returns the flags of a help text, from its lines such as `  -l, --listen <ADDR>`.
fn flags(help: &str) -> Vec<Flag> {
    // Lines further to the right are descriptions, which may begin with a flag.
    let is_flag = |line: &&str| line.len() - line.trim_start().len() < DESCRIPTION_COLUMN;
    let lines = help.lines().filter(is_flag).map(str::trim).filter(|line| line.starts_with('-'));
    let flag = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| word.starts_with("--")).expect("a long name");
        let short = words[..at].first().map(|word| word.trim_end_matches(',').to_owned());
        Flag { name: words[at].to_owned(), short, takes_value: words.len() > at + 1 }
    };
    lines.map(flag).filter(|flag| flag.name != "--help").collect()
}

/// Asserts that a command line is refused: exit 2, one line about this flag, and no effect.
#[track_caller]
fn is_refused(folder: &Folder, verb: &str, operands: &str, words: &[&str], about: &str) {
    let misses_value = matches!(words, [word] if !word.contains('='));
    let (before, behind) = match operands {
        // Without a value a flag would take the operand as its value.
        SCRIPT if misses_value => ("", None),
        SCRIPT => ("", Some(SCRIPT)),
        operands => (operands, None),
    };
    let mut command = command(folder, &format!("{verb} {before}"));
    let output = command.args(words).args(behind).output().expect("it runs");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{verb} {words:?}: {said}");
    assert!(said.starts_with(&format!("pinion: {about}")), "{verb} {words:?}: {said:?}");
    assert_eq!(said.lines().count(), 1, "{verb} {words:?}: {said:?}");
}

#[test]
fn every_flag_refuses_wrong_values_and_is_named() {
    let folder = Folder::with_site();
    build_site(&folder);
    let mut seen = BTreeSet::new();
    let mut verbs = verbs(&folder);
    verbs.sort();
    let mut rows = VERBS.map(|(verb, _)| verb);
    rows.sort_unstable();
    assert_eq!(verbs, rows, "which operands does it take?");
    for (verb, operands) in VERBS {
        let help = run(&folder, &format!("{verb} --help"));
        for flag in flags(help.text()) {
            let name = flag.name.as_str();
            let operands = if name == "--output" { "site" } else { operands };
            if !flag.takes_value {
                is_refused(&folder, verb, operands, &[&format!("{name}=yes")], name);
                is_refused(&folder, verb, operands, &[name, name], name);
                continue;
            }
            is_refused(&folder, verb, operands, &[name], name);
            if let Some(short) = &flag.short {
                is_refused(&folder, verb, operands, &[short], name);
            }
            for value in wrong_values(name) {
                // The flag and the value are one word, so that a value may begin with a dash.
                is_refused(&folder, verb, operands, &[&format!("{name}={value}")], name);
            }
            seen.insert(name.to_owned());
        }
    }
    for name in WRONG.iter().map(|(name, _)| name).chain(&NUMBERS) {
        assert!(seen.contains(*name), "{name} is no flag any more");
    }
    assert_eq!(folder.names(), ["site", "site.pinion"]);
}

/// Returns values that a flag refuses; every flag with a value needs a row.
fn wrong_values(flag: &str) -> &'static [&'static str] {
    if NUMBERS.contains(&flag) {
        return &WRONG_NUMBERS;
    }
    if flag == "--output" {
        return &[""];
    }
    let row = WRONG.iter().find(|(name, _)| *name == flag);
    row.unwrap_or_else(|| panic!("no row for {flag}: what does it not take?")).1
}

#[test]
fn build_flags_apply_to_a_served_folder() {
    let folder = Folder::with_site();
    symlink("nowhere", folder.join("site/dangling")).expect("a link");
    let failed = run(&folder, "serve site --listen 127.0.0.1:0");
    assert_eq!((failed.code, failed.stderr.lines().count()), (1, 2), "{}", failed.stderr);
    let first = "pinion: site/dangling: broken symbolic link\n";
    assert!(failed.stderr.starts_with(first), "{}", failed.stderr);
    let flags = "--keep-going --exclude docs --codings br:5 --jobs 1 --cache-control no-cache";
    let server = Server::start(&folder, &format!("site {flags}"));
    assert!(server.start.iter().any(|line| line.contains("dangling")), "{:?}", server.start);
    assert_eq!(server.get("/docs/").status, 404);
    assert_eq!(server.get("/").field("Cache-Control"), Some("no-cache"));
    for (asked, got) in [("br", Some("br")), ("gzip", None)] {
        let response = server.get_with("/style.css", &format!("Accept-Encoding: {asked}\r\n"));
        assert_eq!(response.field("Content-Encoding"), got, "{asked}");
    }
}

#[test]
fn cat_writes_each_stored_form() {
    let folder = Folder::with_site();
    assert_eq!(run(&folder, "build site -o site.pinion --codings gzip,br,zstd").code, 0);
    let list = run(&folder, "ls site.pinion --json").json();
    let style = list["entries"].as_array().expect("entries").iter();
    let style = style.clone().find(|entry| entry["path"] == "/style.css").expect("the entry");
    let forms = style["representations"].as_array().expect("forms");
    let coded = |form: &serde_json::Value| form["coding"].as_str().expect("a word").to_owned();
    let codings: Vec<String> = forms.iter().map(coded).collect();
    assert_eq!(codings, ["identity", "gzip", "br", "zstd"]);
    let server = Server::start(&folder, "site.pinion");
    for (form, coding) in forms.iter().zip(codings) {
        let cat = run(&folder, &format!("cat site.pinion /style.css --coding {coding}"));
        assert_eq!((cat.code, &form["bytes"]), (0, &cat.stdout.len().into()), "{coding}");
        let response = server.get_with("/style.css", &format!("Accept-Encoding: {coding}\r\n"));
        assert!(response.body == cat.stdout, "{coding}");
    }
}
