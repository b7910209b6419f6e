//! Fields that the responses of a connection of HTTP/2 repeat, as other decoders see them.

use pinion_tests::external_programs::{build_go, program, stdout};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use std::collections::BTreeMap;
use std::process::Command;

/// Requests each target again and again on one connection, and prints the fields of each response
/// in a line, sorted, without the date.
const GO: &str = r#"
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"sort"
	"strings"
)

func main() {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	connections := 0
	dial := func(context context.Context, network, address string) (net.Conn, error) {
		connections++
		return (&net.Dialer{}).DialContext(context, network, address)
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Protocols: protocols, DialContext: dial, TLSClientConfig: &tls.Config{},
			DisableCompression: true,
		},
	}
	for turn := 0; turn < 12; turn++ {
		for _, target := range os.Args[2:] {
			response, err := client.Get(os.Args[1] + target)
			if err != nil {
				panic(err)
			}
			response.Body.Close()
			lines := []string{}
			for name, values := range response.Header {
				if name != "Date" {
					lines = append(lines, strings.ToLower(name)+"="+strings.Join(values, ","))
				}
			}
			sort.Strings(lines)
			fmt.Printf("%s\t%d\t%s\n", target, response.StatusCode, strings.Join(lines, "\t"))
		}
	}
	if connections != 1 {
		panic(fmt.Sprint(connections, " connections"))
	}
}
"#;

const TARGETS: [&str; 7] =
    ["/", "/a.css", "/b.css", "/picture.svg", "/none", "/folder", "/with-cookie.html"];

fn site() -> Folder {
    let folder = Folder::with(
        "header-tables",
        [
            ("site/index.html", "home"),
            ("site/a.css", "a {}"),
            ("site/b.css", "b {}"),
            ("site/picture.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
            ("site/folder/index.html", "folder"),
            ("site/with-cookie.html", "cookie"),
        ],
    );
    folder.write(
        "site/_headers",
        "/*\n  X-Content-Type-Options: nosniff\n  Content-Security-Policy: default-src 'self'\n\
         /with-cookie.html\n  Set-Cookie: a=1\n",
    );
    folder
}

#[test]
fn go_decodes_repeated_fields_as_over_http1() {
    let site = site();
    site.write("client.go", GO);
    build_go(site.path(), "client.go", "client");
    for io in Io::BOTH {
        let flags = ["--io", io.as_str(), "--workers", "1"];
        let server = Start::site(&site.join("site")).flags(&flags).start();
        let mut expected = BTreeMap::new();
        for target in TARGETS {
            let response = server.exchange(&Request::get(target));
            let mut fields: BTreeMap<String, Vec<&str>> = BTreeMap::new();
            for (name, value) in &response.fields {
                fields.entry(name.to_ascii_lowercase()).or_default().push(value);
            }
            fields.remove("date");
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, values)| format!("{name}={}", values.join(",")))
                .collect();
            let line = format!("{target}\t{}\t{}", response.status, fields.join("\t"));
            expected.insert(target, line);
        }
        let mut client = Command::new(site.join("client"));
        client.arg(format!("http://{}", server.address())).args(TARGETS);
        let printed = String::from_utf8(stdout(&mut client)).expect("text");
        assert_eq!(printed.lines().count(), 12 * TARGETS.len());
        for (line, target) in printed.lines().zip(TARGETS.iter().cycle()) {
            assert_eq!(line, expected[target]);
        }
        server.stop();
    }
}

/// RFC 7541 §6.3: a client without a table, or with a small one, gets all fields too. nghttp exits
/// with an error if a block cannot be decoded.
#[test]
fn a_client_chooses_the_size_of_its_table() {
    let site = site();
    let way = Way { protocol: Protocol::Http2, io: Io::Epoll, form: Form::Folder };
    let server = Start::site(&site.join("site")).in_way(way).start();
    for bytes in ["0", "100", "1024", "4096", "65536"] {
        let mut client = program("nghttp", "nghttp2-client");
        client.args(["-v", "--no-dep", "-m", "4", "-c", bytes]);
        client.args(TARGETS.map(|target| server.url(target)));
        let printed = String::from_utf8(stdout(&mut client)).expect("text");
        let policies = printed.matches("content-security-policy: default-src 'self'").count();
        assert!(policies >= 4 * 5, "table of {bytes}: {printed}");
        assert!(!printed.contains("COMPRESSION_ERROR"), "{printed}");
    }
    server.stop();
}
