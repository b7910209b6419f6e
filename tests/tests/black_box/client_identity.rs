//! The client of a request that comes from a trusted proxy: `X-Forwarded-For` and similar fields,
//! and `Forwarded` (RFC 7239), from trusted proxies and from other clients.

use crate::lua_fetch::Running;
use crate::proxy_protocol::HaProxy;
use pinion_tests::client::Client;
use pinion_tests::client::byte_stream::Peer;
use pinion_tests::external_programs::{output, program};
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::Io;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use pinion_tests::wait_for;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

const SCRIPT: &str = r#"
pinion.get("/who", function(req)
  return tostring(req.peer) .. " " .. req.scheme .. " " .. tostring(req.host)
end)
"#;

/// Returns the client of a request with these headers according to a script, or the status.
#[track_caller]
fn client_line(server: &Server, protocol: Protocol, headers: &[(&str, &str)]) -> String {
    let mut client = Client::open(&Peer::new(server.address(), protocol, None));
    let mut request = Request::get("/who").host("a.example");
    for (name, value) in headers {
        request = request.field(name, value);
    }
    let response = client.exchange(&request);
    match response.status {
        200 => response.text().to_owned(),
        status => status.to_string(),
    }
}

const XFF: &str = "X-Forwarded-For";
const PROTO: &str = "X-Forwarded-Proto";
const HOST: &str = "X-Forwarded-Host";

/// Only the part of the list that trusted proxies have written is used, and the rest is not even
/// parsed.
#[test]
fn a_trusted_proxy_names_its_client() {
    let (_folder, script) = script(SCRIPT);
    let trusted = ["--trusted-proxy", "127.0.0.1", "--trusted-proxy", "10.0.0.0/8"];
    for io in Io::BOTH {
        let flags: Vec<&str> = trusted.iter().copied().chain(["--io", io.as_str()]).collect();
        let server = Start::site(&script).flags(&flags).start();
        for (headers, expected) in [
            (&[][..], "127.0.0.1 http a.example"),
            (&[(XFF, "203.0.113.9")][..], "203.0.113.9 http a.example"),
            (&[(XFF, "203.0.113.9:4711")][..], "203.0.113.9 http a.example"),
            (&[(XFF, "2001:db8::1, 10.0.0.2")][..], "2001:db8::1 http a.example"),
            (&[(XFF, "1.2.3.4, 203.0.113.9, 10.0.0.2")][..], "203.0.113.9 http a.example"),
            (&[(XFF, "127.0.0.1, 203.0.113.9")][..], "203.0.113.9 http a.example"),
            (&[(XFF, "\"; rubbish, 203.0.113.9")][..], "203.0.113.9 http a.example"),
            (&[(XFF, "1.2.3.4"), (XFF, "203.0.113.9")][..], "203.0.113.9 http a.example"),
            (&[(XFF, "10.9.9.9, 10.0.0.2")][..], "10.9.9.9 http a.example"),
            (&[(XFF, "203.0.113.9"), (PROTO, "https")][..], "203.0.113.9 https a.example"),
            (&[(PROTO, "https")][..], "127.0.0.1 https a.example"),
            (&[(XFF, "203.0.113.9"), (PROTO, "https, http")][..], "203.0.113.9 http a.example"),
            // Neither another header nor the host is used unless that was configured.
            (&[("Forwarded", "for=1.2.3.4;proto=https")][..], "127.0.0.1 http a.example"),
            (&[("X-Real-IP", "1.2.3.4")][..], "127.0.0.1 http a.example"),
            (&[(XFF, "203.0.113.9"), (HOST, "b.example")][..], "203.0.113.9 http a.example"),
            // The value of a trusted proxy must be an address.
            (&[(XFF, "203.0.113.9, unknown")][..], "400"),
            (&[(XFF, "203.0.113.9, 10.0.0.2:x")][..], "400"),
            (&[(XFF, "203.0.113.999")][..], "400"),
        ] {
            for protocol in [Protocol::Http1, Protocol::Http2Clear] {
                let came = client_line(&server, protocol, headers);
                assert_eq!(came, expected, "{headers:?} with {protocol:?} over {io:?}");
            }
        }
        let lines = server.last_words();
        let line = "pinion: refused a request (400): X-Forwarded-For of the trusted proxy \
                    127.0.0.1: it has no address where the proxy writes one";
        assert!(lines.iter().any(|logged| logged.starts_with(line)), "{lines:?}");
    }
}

/// The headers of an untrusted client have no effect, whatever their values.
#[test]
fn forwarding_headers_of_untrusted_clients_are_ignored() {
    let (_folder, script) = script(SCRIPT);
    for flags in [&[][..], &["--trusted-proxy", "10.0.0.0/8", "--trust-forwarded-host"][..]] {
        let server = Start::site(&script).flags(flags).start();
        for headers in [
            &[(XFF, "203.0.113.9"), (PROTO, "https"), (HOST, "b.example")][..],
            &[(XFF, "rubbish")][..],
            &[("Forwarded", "for=203.0.113.9;proto=https;host=b.example")][..],
        ] {
            let came = client_line(&server, Protocol::Http1, headers);
            assert_eq!(came, "127.0.0.1 http a.example", "{headers:?} with {flags:?}");
        }
        server.stop();
    }
}

#[test]
fn another_header_may_name_the_client() {
    let (_folder, script) = script(SCRIPT);
    let trusted = ["--trusted-proxy", "127.0.0.1", "--trusted-proxy", "10.0.0.0/8"];
    let start = |header: &str| {
        let flags = [&trusted[..], &["--client-ip-header", header]].concat();
        Start::site(&script).flags(&flags).flags(&["--trust-forwarded-host"]).start()
    };
    let server = start("cf-connecting-ip");
    let headers = [("CF-Connecting-IP", "203.0.113.9"), (XFF, "1.2.3.4"), (HOST, "b.example:81")];
    assert_eq!(client_line(&server, Protocol::Http1, &headers), "203.0.113.9 http b.example");
    // An invalid host is ignored.
    let headers = [(HOST, "b.example/path")];
    assert_eq!(client_line(&server, Protocol::Http1, &headers), "127.0.0.1 http a.example");
    server.stop();
    let server = start("Forwarded");
    for (value, expected) in [
        ("for=203.0.113.9;proto=https;host=b.example", "203.0.113.9 https b.example"),
        ("For=\"[2001:db8::1]:80\", for=10.0.0.2;proto=https", "2001:db8::1 https a.example"),
        ("for=\"_hidden\", for=203.0.113.9;by=unknown", "203.0.113.9 http a.example"),
        ("for=unknown", "400"),
        ("for=203.0.113.9;for=1.2.3.4", "400"),
        ("proto=https", "400"),
        ("for=203.0.113.9;x=\"", "400"),
    ] {
        let came = client_line(&server, Protocol::Http1, &[("Forwarded", value), (XFF, "1.2.3.4")]);
        assert_eq!(came, expected, "{value}");
    }
    server.stop();
}

/// The address is used for the access log and other servers, the scheme for redirects, and the host
/// for the selection of the site.
#[test]
fn the_client_is_the_same_for_the_log_other_servers_redirects_and_sites() {
    let upstream = Upstream::echo();
    let folder = Folder::with("identity", [("a/index.html", "site a"), ("b/index.html", "site b")]);
    let config = format!(
        "[server]\ntrusted-proxies = [\"127.0.0.1\"]\ntrust-forwarded-host = true\n\
         [log]\naccess = \"access.log\"\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n\
         [[listen]]\nredirect-http = \"127.0.0.1:0\"\n\
         [[listen]]\ntls = \"127.0.0.1:0\"\n\
         [tls]\ncanonical-host = \"b.example\"\n\
         [[site]]\npath = \"a\"\nhosts = [\"a.example\"]\n\
         [[site]]\npath = \"b\"\nproxy = \"/api={}\"\n",
        upstream.url()
    );
    folder.write("pinion.toml", config);
    let start = Start::configured(&folder.join("pinion.toml"));
    let server = start.flags(&["--state".as_ref(), folder.join("state").as_os_str()]).start();
    let listen: Vec<_> = server.lines().iter().filter_map(|line| listener(line)).collect();
    let [plain, redirecting] = listen[..] else { panic!("{:?}", server.lines()) };
    let get = |address, target: &str, headers: &[(&str, &str)]| {
        let mut client = Client::open(&Peer::new(address, Protocol::Http1, None));
        let mut request = Request::get(target).host("b.example");
        for (name, value) in headers {
            request = request.field(name, value);
        }
        client.exchange(&request)
    };
    let proxied = [(XFF, "203.0.113.9"), (PROTO, "https"), (HOST, "a.example")];
    assert_eq!(get(plain, "/", &proxied).text(), "site a");
    assert_eq!(get(plain, "/", &proxied[..2]).text(), "site b");
    // A client that has used TLS is not redirected to it.
    assert_eq!(get(redirecting, "/", &proxied[..1]).status, 308);
    assert_eq!(get(redirecting, "/", &proxied[..2]).text(), "site b");
    let head = get(plain, "/api", &proxied[..2]).text().to_owned();
    for line in ["X-Forwarded-For: 203.0.113.9\r\n", "X-Forwarded-Proto: https\r\n"] {
        assert_eq!(head.matches(line).count(), 1, "{head}");
    }
    let lines = wait_for("a line for each request", || {
        let text = fs::read_to_string(folder.join("access.log")).unwrap_or_default();
        (text.lines().count() == 5).then_some(text)
    });
    assert!(lines.lines().all(|line| line.starts_with("203.0.113.9 - - [")), "{lines}");
    server.stop();
}

/// Returns the address of a listener without TLS from its line at the start.
fn listener(line: &str) -> Option<SocketAddr> {
    let url = line.split(' ').find_map(|word| word.strip_prefix("http://"))?;
    url.trim_end_matches(['/', ',']).parse().ok()
}

/// The limit of connections of one client does not apply to a trusted proxy, which has many
/// clients.
#[test]
fn a_trusted_proxy_may_have_more_connections_than_one_client() {
    let site = Folder::with("identity", [("index.html", "home")]);
    for (network, admitted) in [("127.0.0.1", 8), ("10.0.0.0/8", 2)] {
        let flags = ["--max-connections-per-client", "2", "--trusted-proxy", network];
        let server = Start::site(site.path()).flags(&flags).start();
        let connect = || TcpStream::connect(server.address()).expect("a connection");
        let clients: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
        let is_served = |mut client: &TcpStream| {
            let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
            let mut start = [0; 13];
            let came = client.write_all(request).and_then(|()| client.read_exact(&mut start));
            came.is_ok() && &start == b"HTTP/1.1 200 "
        };
        let served = clients.iter().filter(|client| is_served(client)).count();
        assert_eq!(served, admitted, "{network}");
        server.stop();
    }
}

/// Forged values of clients.
const FORGED: [&str; 5] = ["", "1.2.3.4", "10.0.0.1, 127.0.0.1", "unknown", "\"open, quote"];

/// Returns the output of the script through a proxy for a client with a forged header.
fn through(proxy: &[&str], url: &str, forged: &str) -> String {
    let mut curl = program("curl", "curl");
    curl.args(["--silent", "--show-error", "--max-time", "30"]).args(proxy);
    curl.args(["--header", &format!("X-Forwarded-For: {forged}")]);
    curl.args(["--header", "X-Forwarded-Proto: https", "--header", "Forwarded: for=1.2.3.4"]);
    let output = output(curl.arg(url));
    assert!(output.status.success(), "{forged}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// HAProxy adds a line with the address of its client after those of the client.
#[test]
fn haproxy_names_its_client_despite_forged_headers() {
    let (_script, script) = script(SCRIPT);
    let folder = Folder::new("identity");
    let server = Start::site(&script).flags(&["--trusted-proxy", "127.0.0.1"]).start();
    let scheme = "http-request set-header X-Forwarded-Proto http";
    let mode = format!("http\noption forwardfor\n{scheme}");
    let (_haproxy, ports) = HaProxy::start(&folder, &[(&mode, server.address().to_string())]);
    let url = format!("http://127.0.0.1:{}/who", ports[0]);
    for forged in FORGED {
        let said = through(&["--interface", "127.0.0.7"], &url, forged);
        assert_eq!(said, "127.0.0.7 http 127.0.0.1", "{forged}");
    }
    server.stop();
}

/// nginx appends the address of its client to the line of the client, and writes `unix:` for a
/// client on a Unix socket. Such clients may be trusted proxies, too.
#[test]
fn nginx_names_its_client_despite_forged_headers() {
    let (_script, script) = script(SCRIPT);
    for (trusts_unix, expected) in [(false, "nil http a"), (true, "203.0.113.9 http a")] {
        let folder = Folder::new("identity");
        let unix: &[&str] = if trusts_unix { &["--trusted-proxy", "unix"] } else { &[] };
        let start = Start::site(&script).flags(&["--trusted-proxy", "127.0.0.1"]);
        let server = start.flags(unix).start();
        let path = folder.path().display().to_string();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {path}/{kind};\n"));
        let config = format!(
            "daemon off;\nmaster_process off;\npid {path}/pid;\nevents {{}}\n\
             http {{\n{}access_log off;\nserver {{\n\
             listen unix:{path}/nginx.sock;\nlocation / {{\nproxy_pass http://{};\n\
             proxy_set_header Host $host;\n\
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n\
             proxy_set_header X-Forwarded-Proto $scheme;\n}}\n}}\n}}\n",
            temporary.concat(),
            server.address(),
        );
        folder.write("nginx.conf", config);
        let mut nginx = program("nginx", "nginx-light");
        nginx.args(["-e", "stderr", "-p", &path, "-c", "nginx.conf"]);
        let _nginx = Running::on_socket(&mut nginx, &folder.join("nginx.sock"));
        let socket = folder.join("nginx.sock").display().to_string();
        let through = |forged| through(&["--unix-socket", &socket], "http://a/who", forged);
        if trusts_unix {
            assert_eq!(through("1.2.3.4, 203.0.113.9"), expected);
        } else {
            for forged in FORGED {
                assert_eq!(through(forged), expected, "{forged}");
            }
        }
        server.stop();
    }
}
