//! The blocks for nginx in documents: nginx accepts them.

use super::documents;
use pinion_tests::document_blocks::marked;
use pinion_tests::external_programs::{output, program};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::Pair;
use std::fs;

/// Names that a block uses, and their definitions, which are in other blocks of its document.
const DEFINED: [(&str, &str, &str); 2] = [
    ("http://pinion", "upstream pinion", "upstream pinion { server 127.0.0.1:8080; }\n"),
    (
        "zone=visitors ",
        "limit_req_zone",
        "limit_req_zone $binary_remote_addr zone=visitors:10m rate=20r/s;\n",
    ),
];

/// The module is part of the package `libnginx-mod-stream`.
const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// Lets nginx check a block; returns the error. Files and ports of the system are replaced by those
/// of the folder.
fn wrong(block: &str) -> Option<String> {
    let folder = Folder::new("nginx");
    let pair = Pair::new(&folder, "made", &["example.org"]);
    let path = folder.path().display().to_string();
    let mut http = String::new();
    for line in block.lines() {
        let (indentation, text) = line.split_at(line.len() - line.trim_start().len());
        let directive = text.split([' ', ';']).next().unwrap_or_default();
        let replaced = match directive {
            "listen" => {
                let more = if text.contains(" ssl") { " ssl" } else { "" };
                format!("listen unix:{path}/{}.socket{more};", http.len())
            }
            "ssl_certificate" => format!("ssl_certificate {};", pair.cert.display()),
            "ssl_certificate_key" => format!("ssl_certificate_key {};", pair.key.display()),
            "access_log" => format!("access_log {path}/access.log;"),
            _ => text.to_owned(),
        };
        http += &format!("{indentation}{replaced}\n");
    }
    if http.starts_with("location ") {
        http = format!("server {{\n{http}}}\n");
    }
    for (used, defined, definition) in DEFINED {
        if http.contains(used) && !http.contains(defined) {
            http = format!("{definition}{http}");
        }
    }
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {path}/{kind};\n"));
    let temporary = temporary.concat();
    // Forwarding TCP connections needs a module.
    let text = if http.starts_with("stream ") {
        format!("load_module {STREAM_MODULE};\npid {path}/pid;\nevents {{}}\n{http}")
    } else {
        format!("pid {path}/pid;\nevents {{}}\nhttp {{\n{temporary}{http}}}\n")
    };
    folder.write("nginx.conf", text);
    let mut nginx = program("nginx", "nginx-light");
    nginx.args(["-t", "-q", "-e", "stderr", "-p", &path, "-c", "nginx.conf"]);
    let ended = output(&mut nginx);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    (!ended.status.success()).then_some(said)
}

#[test]
fn nginx_accepts_every_block_for_it() {
    let mut found = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        for block in marked(&text, "nginx") {
            assert_eq!(wrong(&block), None, "{}:\n{block}", path.display());
            found += 1;
        }
    }
    assert!(found >= 6, "only {found} blocks: are they still marked as nginx?");
}

/// Without this test the other could miss all errors.
#[test]
fn nginx_refuses_a_block_with_a_mistake() {
    let said = wrong("server {\n    lisen 80;\n}\n").expect("a mistake");
    assert!(said.contains("unknown directive \"lisen\""), "{said}");
    assert!(wrong("location / {\n    proxy_pass http://pinion\n}\n").is_some());
}
