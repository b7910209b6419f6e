//! Requests that two servers could read differently (RFC 9112 §11.2), sent through Pinion to
//! servers with parsers of their own, and through nginx to Pinion: no server sees a request that
//! its client has hidden in the content of another one.

use crate::lua_fetch::Running;
use pinion_tests::client::http1::Connection;
use pinion_tests::external_programs::{build_go, program, python_program};
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A text that no server must receive as a request: the content of the requests below.
const HIDDEN: &str = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Servers that print their port, and respond to `/seen` with the paths of all requests.
const NODE: &str = "
const seen = [];
const server = require('node:http').createServer((request, response) => {
  seen.push(request.url);
  request.resume();
  response.setHeader('Content-Type', 'text/plain');
  request.on('end', () => response.end(request.url === '/seen' ? seen.join(' ') : 'node'));
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
";
const PYTHON: &str = "
import http.server
seen = []
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def respond(self):
        seen.append(self.path)
        if self.headers.get('Transfer-Encoding', '').lower() == 'chunked':
            while size := int(self.rfile.readline().split(b';')[0], 16):
                self.rfile.read(size + 2)
            while self.rfile.readline() not in (b'\\r\\n', b''):
                pass
        self.rfile.read(int(self.headers.get('Content-Length', 0)))
        content = ' '.join(seen).encode() if self.path == '/seen' else b'python'
        self.send_response(200)
        self.send_header('Content-Type', 'text/plain')
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        self.wfile.write(content)
    do_GET = do_POST = respond
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
";
const GO: &str = r#"package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

func main() {
	var lock sync.Mutex
	var seen []string
	respond := func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		seen = append(seen, r.RequestURI)
		io.Copy(io.Discard, r.Body)
		if r.RequestURI == "/seen" {
			fmt.Fprint(w, strings.Join(seen, " "))
		} else {
			fmt.Fprint(w, "go")
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	http.Serve(listener, http.HandlerFunc(respond))
}
"#;

/// Requests whose content begins a request in some reading. In the right reading they are one
/// request, or none.
fn requests() -> Vec<String> {
    let hidden = format!("0\r\n\r\n{HIDDEN}");
    let (length, short) = (hidden.len(), HIDDEN.len());
    let mut cases = Vec::new();
    let mut add = |lines: &str, content: &str| {
        let head = "POST /first HTTP/1.1\r\nHost: localhost\r\n";
        cases.push(format!("{head}{lines}\r\n{content}"));
    };
    // Both framings, in every disguise (RFC 9112 §6.1, §6.3).
    for disguise in [
        "Transfer-Encoding: chunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        " Transfer-Encoding: chunked",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunkedx",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding:\u{b}chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
        "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding:\r\n chunked",
        "Transfer_Encoding: chunked",
        "Transfer.Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "X: y\rTransfer-Encoding: chunked",
        "X: y\r\n\r Transfer-Encoding: chunked",
        "X: y\0\r\nTransfer-Encoding: chunked",
    ] {
        add(&format!("Content-Length: {length}\r\n{disguise}\r\n"), &hidden);
        add(&format!("{disguise}\r\nContent-Length: {length}\r\n"), &hidden);
    }
    // Lengths that are none, or several (§6.3).
    for value in ["+N", "-N", "0xN", "N,N", "N, N", "N;", "\"N\"", "N 0", "N.0", "Ne0", "0N,0"] {
        add(&format!("Content-Length: {}\r\n", value.replace('N', &short.to_string())), HIDDEN);
    }
    for lines in [
        format!("Content-Length: 0\r\nContent-Length: {short}\r\n"),
        format!("Content-Length: {short}\r\nContent-Length: 0\r\n"),
        format!("Content-Length : {short}\r\n"),
        format!("Content-Length: {short}\r\nContent_Length: 0\r\n"),
        format!("Content_Length: 0\r\nContent-Length: {short}\r\n"),
        format!("Content-Length:\r\n {short}\r\n"),
        format!("X: y\nContent-Length: {short}\r\n"),
        format!("Connection: Content-Length\r\nContent-Length: {short}\r\n"),
        format!("Connection: close, Content-Length\r\nContent-Length: {short}\r\n"),
        format!("Connection: Host\r\nContent-Length: {short}\r\n"),
        format!("Expect: 100-continue\r\nContent-Length: {short}\r\n"),
        format!("Expect: y 100-continue\r\nContent-Length: {short}\r\n"),
        format!("Expect: 100-continue, x\r\nContent-Length: {short}\r\n"),
        format!(
            "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAAA\r\n\
             Content-Length: {short}\r\n"
        ),
        format!("Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: {short}\r\n"),
    ] {
        add(&lines, HIDDEN);
    }
    // Chunks whose sizes and ends servers read differently (§7.1).
    let size = format!("{short:x}");
    for content in [
        format!("{size}\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("{size};a=b\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("{size};\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("{size}\n{HIDDEN}\n0\n\n"),
        format!("{size} \r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("0x{size}\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("+{size}\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("1{:0>16}{size}\r\n{HIDDEN}\r\n0\r\n\r\n", ""),
        format!("1\r\nxx\r\n0\r\n\r\n{HIDDEN}"),
        format!("1\r\nx0\r\n\r\n{HIDDEN}"),
        format!("1;\nxx\r\n{size}\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("2;a=\"\r\nxx\r\n{size}\r\n\"\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("0\r\nX: y\r\nContent-Length: {short}\r\nno-field\r\n\r\n{HIDDEN}"),
    ] {
        add("Transfer-Encoding: chunked\r\n", &content);
    }
    let old = format!("POST /first HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n");
    cases.push(format!("{old}Transfer-Encoding: chunked\r\n\r\n{hidden}"));
    cases.push(format!(
        "GET /first HTTP/1.1\r\nHost: localhost\r\nContent-Length: {short}\r\n\r\n{HIDDEN}"
    ));
    cases
}

/// Chunks in which a request follows the last one in any reading, and which are right.
fn is_pipelined(request: &str) -> bool {
    request.ends_with(&format!("\r\nxx\r\n0\r\n\r\n{HIDDEN}"))
}

/// A server that responds, on a port.
struct Application {
    port: u16,
    _running: Running,
    _folder: Folder,
}

impl Application {
    fn start(command: &mut Command, folder: Folder) -> Application {
        let mut running = Running::start(command.stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(running.stdout()).read_line(&mut line).expect("its port");
        let port = line.trim().parse().expect("a port");
        Application { port, _running: running, _folder: folder }
    }

    /// Returns the paths of all its requests.
    fn seen(&self) -> String {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let mut stream = TcpStream::connect(address).expect("a connection");
        let request = "GET /seen HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        response
    }
}

/// Sends every request on a connection of its own and waits for the response or the end.
fn send_all(server: &Server) {
    for request in requests().iter().filter(|request| !is_pipelined(request)) {
        let mut connection: Connection = server.connect();
        connection.send_if_open(request);
        let _refused_or_responded = connection.try_receive(false);
    }
}

#[test]
fn no_application_sees_a_hidden_request() {
    let folder = Folder::with("smuggling", [("app.go", GO)]);
    build_go(folder.path(), "app.go", "app");
    let go = Application::start(&mut Command::new(folder.join("app")), folder);
    let node = Folder::with("smuggling", [("app.js", NODE)]);
    let mut command = program("node", "nodejs");
    let node = Application::start(command.arg(node.join("app.js")), node);
    let mut command = python_program("python");
    let python = Application::start(command.args(["-c", PYTHON]), Folder::new("smuggling"));
    for (name, application) in [("Node", node), ("Python", python), ("Go", go)] {
        let url = format!("http://127.0.0.1:{}", application.port);
        let server = Start::serve(&["--proxy", &url]).start();
        send_all(&server);
        // A request of another client comes over the same connections.
        assert_eq!(server.get("/other").status, 200, "{name}");
        let seen = application.seen();
        // The requests with only one meaning have arrived, so the others could have arrived as
        // well.
        let arrived = seen.matches("/first").count();
        assert!(seen.contains("/other") && arrived >= 8, "{name}: {arrived} in {seen}");
        assert!(!seen.contains("/smuggled"), "{name}: {seen}");
        server.stop();
    }
}

/// nginx reads the requests first, and forwards them over connections that it keeps.
#[test]
fn pinion_behind_nginx_sees_no_hidden_request() {
    let folder = Folder::with("smuggling", [("site/index.html", "home")]);
    let log = folder.join("access.log");
    let flags = ["--trusted-proxy", "127.0.0.1", "--access-log", &log.display().to_string()];
    let server = Start::site(&folder.join("site")).flags(&flags).start();
    let path = folder.path().display().to_string();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {path}/{kind};\n"));
    let config = format!(
        "daemon off;\nmaster_process off;\npid {path}/pid;\nevents {{}}\n\
         http {{\n{}access_log off;\n\
         upstream pinion {{\nserver {};\nkeepalive 8;\n}}\n\
         keepalive_timeout 0;\nclient_header_timeout 1s;\nclient_body_timeout 1s;\n\
         server {{\nlisten unix:{path}/nginx.sock;\nlocation / {{\nproxy_pass http://pinion;\n\
         proxy_http_version 1.1;\nproxy_set_header Connection \"\";\n\
         proxy_request_buffering off;\nproxy_set_header Host $host;\n}}\n}}\n}}\n",
        temporary.concat(),
        server.address(),
    );
    folder.write("nginx.conf", config);
    let mut nginx = program("nginx", "nginx-light");
    nginx.args(["-e", "stderr", "-p", &path, "-c", "nginx.conf"]);
    let socket = folder.join("nginx.sock");
    let _nginx = Running::on_socket(&mut nginx, &socket);
    let mut responses = 0;
    for request in requests().iter().filter(|request| !is_pipelined(request)) {
        let mut stream = UnixStream::connect(&socket).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        let _refused_early = stream.write_all(request.as_bytes());
        let mut response = Vec::new();
        let _cut = stream.read_to_end(&mut response);
        responses += usize::from(response.starts_with(b"HTTP/1.1 "));
    }
    assert!(responses > requests().len() / 2, "{responses} responses");
    let log = wait_for("lines of the log", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains("POST /first").then_some(text)
    });
    server.stop();
    assert!(!log.contains("/smuggled"), "{log}");
}
