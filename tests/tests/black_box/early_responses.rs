//! Responses that arrive before the client has sent all of its request: real clients see them,
//! whatever they do first (RFC 9112 §9.6, RFC 9113 §8.1).

use pinion_tests::PATIENCE;
use pinion_tests::browser::Browser;
use pinion_tests::external_programs::{output_within, program, python_program};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};

/// Programs with clients; their heads describe them.
const PYTHON_CLIENTS: &str = include_str!("../../src/early_response.py");
const NODE_CLIENTS: &str = include_str!("../../src/early_response.mjs");

/// Starts a server of a static site, whose pages accept no content.
fn start(site: &Folder, io: Io) -> Server {
    let way = Way { protocol: Protocol::Http2, io, form: Form::Folder };
    let server = Start::site(site.path()).in_way(way).flags(&["--listen", "127.0.0.1:0"]);
    server.start()
}

/// Runs clients that print how many responses they have seen.
#[track_caller]
fn see_all(server: &Server, mut client: Command, seen: &str) {
    let plain = format!("http://{}/index.html", server.address_of("http"));
    let encrypted = format!("https://localhost:{}/index.html", server.address().port());
    let certificate = server.certificate().expect("a certificate");
    client.args([plain, encrypted]).arg(certificate).env("no_proxy", "*");
    let output = output_within(&mut client, 4 * PATIENCE);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), seen);
}

#[test]
fn python_gets_an_early_response() {
    let site = Folder::with("early-python", [("index.html", "home")]);
    for io in Io::BOTH {
        let server = start(&site, io);
        let mut python = python_program("python");
        python.args(["-c", PYTHON_CLIENTS]);
        see_all(&server, python, "11");
        server.stop();
    }
}

#[test]
fn node_gets_an_early_response() {
    let site = Folder::with("early-node", [("index.html", "home")]);
    let clients = Folder::with("early-node-clients", [("clients.mjs", NODE_CLIENTS)]);
    for io in Io::BOTH {
        let server = start(&site, io);
        let mut node = program("node", "nodejs");
        node.arg(clients.join("clients.mjs"));
        see_all(&server, node, "6");
        server.stop();
    }
}

/// Content that is longer than the dropped amount over HTTP/2, and much longer.
const LARGE_BYTES: [usize; 2] = [1_100_000, 16 << 20];

/// Creates a site, and files of content for programs that send one.
fn with_content() -> Folder {
    let folder = Folder::with("early-content", [("site/index.html", "home")]);
    for bytes in LARGE_BYTES {
        folder.write(format!("{bytes}.bin"), vec![b'x'; bytes]);
    }
    folder
}

/// Returns a curl command for an upload that prints the status of the response.
fn curl(folder: &Folder, bytes: usize, version: &str, url: &str) -> Command {
    let content = format!("@{}", folder.join(format!("{bytes}.bin")).display());
    let mut curl = program("curl", "curl");
    curl.args(["--disable", "--silent", "--show-error", "--noproxy", "*", version]);
    curl.args(["--output", "/dev/null", "--write-out", "%{http_code}", "--header", "Expect:"]);
    curl.args(["--data-binary", &content, url]);
    curl
}

/// curl is asked to stop by RST_STREAM with NO_ERROR (RFC 9113 §8.1).
#[test]
fn curl_gets_an_early_response() {
    let folder = with_content();
    for io in Io::BOTH {
        let way = Way { protocol: Protocol::Http2, io, form: Form::Folder };
        let server = Start::site(&folder.join("site")).in_way(way).start();
        let url = format!("https://localhost:{}/index.html", server.address().port());
        for bytes in LARGE_BYTES {
            for version in ["--http1.1", "--http2"] {
                let mut curl = curl(&folder, bytes, version, &url);
                curl.arg("--cacert").arg(server.certificate().expect("a certificate"));
                let output = output_within(&mut curl, 4 * PATIENCE);
                let complaint = String::from_utf8_lossy(&output.stderr);
                let status = String::from_utf8_lossy(&output.stdout);
                assert_eq!(status, "413", "{bytes} bytes, {version}, {io:?}: {complaint}");
                assert!(output.status.success(), "{bytes} bytes, {version}: {complaint}");
            }
        }
        server.stop();
    }
}

/// wget reads nothing before it has sent all.
#[test]
fn wget_gets_an_early_response() {
    let folder = with_content();
    for io in Io::BOTH {
        let server = start_folder(&folder, io);
        let url = format!("http://{}/index.html", server.address_of("http"));
        for bytes in LARGE_BYTES {
            let mut wget = program("wget", "wget");
            wget.args(["--no-config", "--no-proxy", "--tries=1", "--output-document=-"]);
            wget.arg(format!("--post-file={}", folder.join(format!("{bytes}.bin")).display()));
            let output = output_within(wget.arg(&url), 4 * PATIENCE);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("413 Content Too Large"), "{bytes} bytes, {io:?}: {said}");
            // "Server issued an error response."
            assert_eq!(output.status.code(), Some(8), "{said}");
        }
        server.stop();
    }
}

/// A proxy that is reset before it has read the response would respond with 502, whether it
/// forwards the content at once or stores it first.
#[test]
fn the_client_of_a_proxy_gets_an_early_response() {
    let folder = with_content();
    for io in Io::BOTH {
        let server = start_folder(&folder, io);
        for buffering in ["on", "off"] {
            let nginx = Nginx::start(&folder, server.address_of("http"), buffering);
            for bytes in LARGE_BYTES {
                for _ in 0..5 {
                    let mut curl = curl(&folder, bytes, "--http1.1", "http://a/index.html");
                    curl.arg("--unix-socket").arg(&nginx.socket);
                    let output = output_within(&mut curl, 4 * PATIENCE);
                    let status = String::from_utf8_lossy(&output.stdout);
                    assert_eq!(status, "413", "{bytes} bytes, buffering {buffering}, {io:?}");
                }
            }
        }
        server.stop();
    }
}

/// Starts a server of a folder's site over HTTP/1.
fn start_folder(folder: &Folder, io: Io) -> Server {
    let way = Way { protocol: Protocol::Http1, io, form: Form::Folder };
    Start::site(&folder.join("site")).in_way(way).start()
}

/// A proxy in front of a server. It ends when the value is dropped.
struct Nginx {
    process: Child,
    socket: PathBuf,
}

impl Nginx {
    #[track_caller]
    fn start(folder: &Folder, server: SocketAddr, buffering: &str) -> Nginx {
        let socket = folder.join("nginx.sock");
        let root = folder.path().display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {root}/nginx-{name};"));
        let config = format!(
            "daemon off; master_process off; pid {root}/nginx.pid; error_log stderr;
            events {{ worker_connections 64; }}
            http {{
                access_log off; client_max_body_size 0; {}
                server {{
                    listen unix:{};
                    location / {{
                        proxy_pass http://{server};
                        proxy_http_version 1.1;
                        proxy_request_buffering {buffering};
                    }}
                }}
            }}",
            temporary.join(" "),
            socket.display()
        );
        folder.write("nginx.conf", config);
        let mut nginx = program("nginx", "nginx-light");
        nginx.arg("-p").arg(folder.path()).arg("-c").arg(folder.join("nginx.conf"));
        let process = nginx.spawn().expect("nginx starts");
        wait_for("nginx", || UnixStream::connect(&socket).ok());
        Nginx { process, socket }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it.
        let process = rustix::process::Pid::from_child(&self.process);
        let _ended = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        let _code = self.process.wait();
        let _removed = std::fs::remove_file(&self.socket);
    }
}

#[cfg(feature = "long")]
const LONG: &[(&str, &str, &str, &[&str])] = &[
    ("EarlyResponse.java", include_str!("../../src/EarlyResponse.java"), "java", &[]),
    ("early_response.go", include_str!("../../src/early_response.go"), "go", &["run"]),
];

/// The client programs must be compiled, and Java is a large package: feature `long`.
#[cfg(feature = "long")]
#[test]
fn java_and_go_get_an_early_response() {
    let site = Folder::with("early-long", [("index.html", "home")]);
    for (name, text, runner, words) in LONG {
        let clients = Folder::with("early-long-clients", [(*name, *text)]);
        for io in Io::BOTH {
            let server = start(&site, io);
            let package = if *runner == "java" { "default-jdk-headless" } else { "golang-go" };
            let mut client = program(runner, package);
            client.args(*words).arg(clients.join(name));
            see_all(&server, client, "9");
            server.stop();
        }
    }
}

/// A page sends more than a window allows to a path that accepts no content.
#[test]
fn chromium_gets_an_early_response() {
    const SEND: &str = "Promise.all([0, 1, 2].map(() =>
        fetch('/index.html', { method: 'POST', body: new Uint8Array(900 * 1024) })
            .then(response => response.status + ' ' + response.headers.get('allow'))
            .catch(error => String(error))
    ))";
    let icon = ("favicon.ico", "<svg xmlns='http://www.w3.org/2000/svg'/>");
    let site = Folder::with("early-chromium", [("index.html", "home"), icon]);
    for protocol in [Protocol::Http1Tls, Protocol::Http2, Protocol::Http3] {
        let way = Way { protocol, io: Io::Epoll, form: Form::Folder };
        let server = Start::site(site.path()).in_way(way).start();
        let mut browser = Browser::trusting(&server);
        browser.visit(&server.url("/"));
        let seen = browser.evaluate(SEND);
        let expected = vec!["405 GET, HEAD, OPTIONS"; 3];
        assert_eq!(seen, serde_json::json!(expected), "{protocol:?}");
        server.stop();
    }
}
