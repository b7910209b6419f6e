//! httpbin, a real application that shows its request and responds in every requested way: the same
//! requests are sent to the server and to gunicorn, and the responses are compared.

use crate::python_applications::{FLASK, application, folder_with};
use pinion_tests::client::{Broken, Connection};
use pinion_tests::external_programs::{python_package, stdout};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// Packages in addition to those of Flask.
const PACKAGES: [&str; 6] =
    ["httpbin", "brotlicffi", "decorator", "six.py", "gunicorn", "packaging"];
/// The beginnings of names of further ones, which end with a version: the application reads its
/// own version.
const VERSIONED: [&str; 2] = ["_cffi_backend.", "httpbin-"];

/// The requests, one per line: method, target, fields after bars, content after an arrow. Both
/// servers respond alike.
const REQUESTS: &str = r#"
GET /anything?a=1
POST /anything > x
PUT /anything | Content-Length: 0
PATCH /anything > x
DELETE /anything
DELETE /anything > x
OPTIONS /anything
HEAD /anything
PURGE /anything
GET /get
HEAD /get
POST /get | Content-Length: 0
OPTIONS /get | Origin: http://a | Access-Control-Request-Headers: X-A
GET /post
DELETE /post
GET /none
GET /anything/
GET /anything/a%2Fb
GET /anything/a%20b/
GET /anything/a//b
GET /anything/a;b=c
GET /anything/a+b
GET /anything/%C3%A4
GET /anything/%E4%FF
GET /anything/%25
GET /anything/%252F
GET /anything/%3Fx
GET /anything/%23
GET /anything/a%0Ab
GET /anything/~!$&'()*+,;=:@
GET /anything?
GET /anything??
GET /anything?x
GET /anything?x=
GET /anything?=x
GET /anything?&&
GET /anything?x=1&x=2
GET /anything?x=%
GET /anything?x=%zz
GET /anything?x=%FF
GET /anything?x=%00
GET /anything?x=%C3%A4
GET /anything?x=a+b%2B
GET /anything?x=a;y=b
GET /anything?a[]=1&a[]=2
POST /post | Content-Type: application/x-www-form-urlencoded > a=1&b=%C3%A4&a=2+3
POST /post | Content-Type: application/json > {"a": [1, 2]}
POST /post | Content-Type: application/octet-stream > ä
DELETE /delete | Content-Type: application/x-www-form-urlencoded > a=1
GET /get > content
GET /get | Content-Type: text/x
GET /headers | X-B: ä | X-C: a  b	c | X-D:
GET /headers | X-Forwarded-For: 192.0.2.1 | X-Forwarded-Proto: https
GET /ip
GET /user-agent | User-Agent: own
GET /status/200
HEAD /status/200
GET /status/201
GET /status/202
GET /status/204
HEAD /status/204
POST /status/204 > x
GET /status/205
GET /status/206
GET /status/301
GET /status/304
HEAD /status/304
POST /status/304 > x
GET /status/401
GET /status/402
GET /status/404
HEAD /status/404
GET /status/406
GET /status/407
GET /status/410
GET /status/418
GET /status/431
GET /status/500
POST /status/500 > x
GET /status/503
GET /status/511
GET /status/599
GET /status/x
GET /redirect/3
HEAD /redirect/1
GET /relative-redirect/2
GET /absolute-redirect/2
GET /redirect-to?url=http%3A%2F%2Fexample.org%2Fa%3Fb&status_code=307
GET /redirect-to?url=%2F%C3%A4
GET /cookies | Cookie: a=1; b="x y"
GET /cookies/set/a/b
GET /cookies/set?a=1&b=2
GET /cookies/delete?a=&b=
GET /gzip | Accept-Encoding: gzip
HEAD /gzip
GET /deflate
GET /brotli
GET /html | Accept-Encoding: gzip, br
GET /stream/0
GET /stream/7
GET /stream/100
HEAD /stream/7
GET /drip?numbytes=5&duration=0.05
GET /drip?numbytes=3&duration=0&code=404
GET /drip?numbytes=0
GET /drip?numbytes=20000&duration=0
HEAD /drip?numbytes=5&duration=0
GET /bytes/0
GET /bytes/1?seed=7
GET /bytes/100000?seed=3
HEAD /bytes/10?seed=1
GET /stream-bytes/0
GET /stream-bytes/2000?seed=1&chunk_size=1
GET /stream-bytes/100000?seed=1&chunk_size=1000
GET /range/1000
HEAD /range/1000
GET /range/1000 | Range: bytes=0-9
GET /range/1000 | Range: bytes=990-
GET /range/1000 | Range: bytes=-10
GET /range/1000 | Range: bytes=5000-
GET /range/1000 | Range: bytes=9-5
GET /range/1000 | Range: bytes=0-0,5-9
GET /range/1000 | Range: x
GET /range/0
GET /links/3/0
GET /links/3
GET /image | Accept: image/webp
GET /image | Accept: text/plain
GET /image/png
HEAD /image/png
GET /image/jpeg
GET /image/svg
GET /xml
GET /json
GET /robots.txt
GET /deny
GET /encoding/utf8
GET /forms/post
GET /
GET /static/favicon.ico
GET /base64/SGVsbG8gd8O2cmxk
GET /base64/%2F%2F
GET /basic-auth/u/p%20x | Authorization: Basic dTpwIHg=
GET /basic-auth/u/p | Authorization: Basic eDp5
GET /basic-auth/u/p
GET /hidden-basic-auth/u/p | Authorization: Basic dTpw
GET /hidden-basic-auth/u/p
GET /bearer | Authorization: Bearer abc
GET /bearer
GET /response-headers?X-A=1&X-A=2&X-B=%C3%83%C2%A4
GET /response-headers?Content-Type=text/plain%3B%20charset%3DUTF-8
GET /response-headers?Server=own&Date=never
GET /response-headers?X-A=a%0D%0ASet-Cookie:%20b
GET /cache | If-None-Match: x
GET /cache | If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT
GET /cache/60
GET /etag/x | If-None-Match: "x"
GET /etag/x | If-None-Match: W/"x"
GET /etag/x | If-None-Match: *
GET /etag/x | If-Match: "y"
GET /etag/x | If-Match: *
GET /etag/x
"#;

/// Requests to which the server responds in its own way: the status, and a part of the content.
const OWN: [(&str, u16, &str); 9] = [
    // RFC 9110 §9.3.8: a trace shows fields that scripts of a page must not see.
    ("TRACE /anything", 405, ""),
    // RFC 3986 §2: no such characters in a target.
    ("GET /anything?x=\"<>^`{|}", 400, ""),
    // HTTP has no such status; gunicorn sends the status of the application.
    ("GET /status/600", 500, ""),
    ("GET /status/999", 500, ""),
    // A final response cannot have such a status.
    ("GET /status/103", 500, ""),
    ("GET /status/199", 500, ""),
    // The content is longer; gunicorn cuts it off.
    ("GET /response-headers?Content-Length=3", 500, ""),
    // RFC 9113 §8.2.3: the lines of this field are joined by a semicolon.
    ("GET /cookies | Cookie: a=1 | Cookie: b=2", 200, "\"a\": \"1\",\n    \"b\": \"2\""),
    // RFC 9110 §5.2: a comma and a space.
    ("GET /headers | X-A: 1 | X-A: 2", 200, "\"X-A\": \"1, 2\""),
];

/// Fields that each server has of its own, and those of the connection.
const FIELDS_OF_SERVERS: [&str; 7] = [
    "Server",
    "Date",
    "Connection",
    "Transfer-Encoding",
    "X-Content-Type-Options",
    "Referrer-Policy",
    "X-Frame-Options",
];

/// gunicorn with the application of a folder.
struct Gunicorn {
    process: Child,
    address: SocketAddr,
}

impl Gunicorn {
    fn start(folder: &Folder) -> Self {
        let mut process = Command::new("/usr/bin/python3")
            .args(["-m", "gunicorn", "--no-control-socket", "--bind", "127.0.0.1:0"])
            // Connections are kept for as long as a test may take.
            .args(["--keep-alive", "3600", "--worker-class", "gthread", "app:app"])
            .current_dir(folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("gunicorn starts");
        let stderr = process.stderr.take().expect("piped");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, rest) = line.split_once("Listening at: http://")?;
            Some(rest.split(' ').next()?.parse().expect("an address"))
        });
        // The later output is read, so that the process never waits for that.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, address: address.expect("an address") }
    }
}

impl Drop for Gunicorn {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        let _ended = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ended = self.process.wait();
    }
}

fn request(line: &str) -> Request {
    let (head, content) = match line.split_once(" > ") {
        Some((head, content)) => (head, Some(content)),
        None => (line, None),
    };
    let mut parts = head.split(" | ");
    let first = parts.next().and_then(|first| first.split_once(' '));
    let (method, target) = first.expect("a method and a target");
    let mut request = Request::new(method, target);
    for field in parts {
        let (name, value) = field.split_once(':').expect("a field");
        request = request.field(name, value.trim_start());
    }
    match content {
        Some(content) => request.body(content.as_bytes()),
        None => request,
    }
}

/// A connection that is opened again when the server has closed it.
struct Asked {
    address: SocketAddr,
    connection: Option<Connection>,
}

impl Asked {
    fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    #[track_caller]
    fn exchange(&mut self, request: &Request) -> Response {
        self.try_exchange(request).unwrap_or_else(|broken| panic!("{broken:?} to {request:?}"))
    }

    fn try_exchange(&mut self, request: &Request) -> Result<Response, Broken> {
        let kept = self.connection.take();
        let mut connection = kept.unwrap_or_else(|| Connection::open(self.address));
        connection.send(request.bytes());
        let response = connection.try_receive_of_others(request.is_head())?;
        self.connection = (!response.says_close()).then_some(connection);
        Ok(response)
    }
}

/// Returns the compared parts of a response.
fn compared(mut response: Response) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let is_own = |name: &str| FIELDS_OF_SERVERS.iter().any(|own| own.eq_ignore_ascii_case(name));
    let mut fields: Vec<(String, String)> = Vec::new();
    for (name, value) in response.fields {
        let value = match name.to_ascii_lowercase().as_str() {
            // A set of Python, whose order is that of the process.
            "allow" => {
                let mut methods: Vec<&str> = value.split(", ").collect();
                methods.sort_unstable();
                methods.join(", ")
            }
            // They are new in each response.
            "etag" if value.len() == 32 => String::new(),
            "last-modified" => String::new(),
            _ => value,
        };
        if !is_own(&name) {
            fields.push((name.to_ascii_lowercase(), value));
        }
    }
    // The length is known to the server that waits for the end of the content, or it is in chunks.
    if response.body.is_empty() {
        fields.retain(|field| field != &("content-length".to_owned(), "0".to_owned()));
    }
    fields.sort_by_key(|(name, _)| name == "content-length");
    // RFC 1952 §2.3.1: the time of a compressed content.
    if response.body.starts_with(&[0x1f, 0x8b]) {
        response.body[4..8].fill(0);
    }
    (response.status, fields, response.body)
}

fn httpbin() -> Folder {
    let all = python_package("httpbin");
    let all = fs::read_dir(all.parent().expect("a folder")).expect("packages").flatten();
    let all = all.filter_map(|entry| entry.file_name().into_string().ok());
    let is_versioned = |name: &String| VERSIONED.iter().any(|begin| name.starts_with(begin));
    let versioned: Vec<String> = all.filter(is_versioned).collect();
    assert_eq!(versioned.len(), VERSIONED.len(), "{versioned:?}");
    let packages = FLASK.iter().chain(&PACKAGES).copied();
    let packages: Vec<&str> = packages.chain(versioned.iter().map(String::as_str)).collect();
    let folder = folder_with("httpbin", &packages);
    folder.write("app.py", "from httpbin import app\n");
    folder
}

fn serve(folder: &Folder, io: Io, protocol: Protocol) -> Server {
    let way = Way { io, protocol, form: Form::Folder };
    application(&folder.join("app.py")).in_way(way).start()
}

#[test]
fn responses_are_those_of_another_server() {
    let folder = httpbin();
    let other = Gunicorn::start(&folder);
    let mut theirs = Asked::new(other.address);
    for io in Io::BOTH {
        let server = serve(&folder, io, Protocol::Http1);
        let mut ours = Asked::new(server.address());
        for line in REQUESTS.lines().filter(|line| !line.is_empty()) {
            let request = request(line);
            let expected = theirs.exchange(&request);
            let shown = format!("{line}\nours: ");
            let response = ours.exchange(&request);
            let shown = format!("{shown}{response}\ntheirs: {expected}");
            assert_eq!(compared(response), compared(expected), "{shown}");
        }
        for (line, status, part) in OWN {
            let response = ours.exchange(&request(line));
            assert_eq!(response.status, status, "{line}: {response}");
            let text = String::from_utf8_lossy(&response.body);
            assert!(text.contains(part), "{line}: {text}");
        }
        server.stop();
    }
}

/// The length of an upload in chunks is found out for the application; gunicorn gives it none.
#[test]
fn uploads_are_those_of_another_server() {
    let folder = httpbin();
    let other = Gunicorn::start(&folder);
    let mut theirs = Asked::new(other.address);
    let form = "application/x-www-form-urlencoded";
    let multipart =
        b"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"\xc3\xa4.txt\"\r\n\
                      Content-Type: text/plain\r\n\r\nfile\r\n--b\r\n\
                      Content-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--b--\r\n";
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for io in Io::BOTH {
        let server = serve(&folder, io, Protocol::Http1);
        let mut ours = Asked::new(server.address());
        for (media, content) in [
            (form, &b"a=1&b=%C3%A4&a=2+3"[..]),
            (form, &[&b"a="[..], &[b'x'; 200_000]].concat()),
            ("application/json", b"{\"a\": [1, 2]}"),
            ("application/octet-stream", &binary),
            ("application/octet-stream", b""),
            ("multipart/form-data; boundary=b", multipart),
        ] {
            let request = Request::new("POST", "/post").field("Content-Type", media);
            for request in [
                request.clone().body(content),
                request.clone().chunked(content, 1),
                request.clone().chunked(content, 1000),
                request.chunked(content, 70_000),
            ] {
                let [ours, theirs] = [&mut ours, &mut theirs].map(|asked| {
                    let text = asked.exchange(&request).text().to_owned();
                    let mut seen: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                    let fields = seen["headers"].as_object_mut().expect("fields");
                    fields
                        .retain(|name, _| name != "Content-Length" && name != "Transfer-Encoding");
                    seen
                });
                assert_eq!(ours, theirs, "{media}, {} bytes", content.len());
            }
        }
        server.stop();
    }
}

/// A client that follows redirects, keeps cookies, decodes content and logs in.
#[test]
fn curl_works_with_the_application() {
    let folder = httpbin();
    for (io, protocol) in [(Io::Epoll, Protocol::Http1), (Io::Uring, Protocol::Http2)] {
        let server = serve(&folder, io, protocol);
        for (arguments, target, parts) in [
            (&[][..], "/redirect/5", &["/get\"", "200 5"][..]),
            (&[], "/cookies/set?a=1&b=2", &["\"a\": \"1\"", "\"b\": \"2\"", "200 1"]),
            (&["--compressed"], "/gzip", &["\"gzipped\": true", "200 0"]),
            (&["--compressed"], "/brotli", &["\"brotli\": true", "200 0"]),
            (&["--compressed"], "/deflate", &["\"deflated\": true", "200 0"]),
            (&["-u", "u:p"], "/basic-auth/u/p", &["\"authenticated\": true", "200 0"]),
            (&["-u", "u:x"], "/basic-auth/u/p", &["401 0"]),
            (&["--digest", "-u", "u:p"], "/digest-auth/auth/u/p", &["\"user\": \"u\"", "200 "]),
            (
                &["--digest", "-u", "u:p", "-d", "a=1"],
                "/digest-auth/auth-int/u/p/SHA-256",
                &["405 "],
            ),
            (&["--digest", "-u", "u:x"], "/digest-auth/auth/u/p/MD5", &["401 "]),
            (&["-r", "10-12"], "/range/26", &["klm206 0"]),
            (&["-F", "a=b", "-F", "f=@app.py"], "/post", &["from httpbin import app", "200 0"]),
            (&["-T", "app.py", "-H", "Expect: 100-continue"], "/put", &["from httpbin", "200 0"]),
            (&[], "/stream/20", &["\"id\": 19", "200 0"]),
            (&[], "/uuid", &["\"uuid\": \"", "200 0"]),
        ] {
            let mut curl = server.curl();
            curl.current_dir(folder.path()).args(["-s", "-L", "-b", ""]).args(arguments);
            curl.args(["-w", "%{http_code} %{num_redirects}"]).arg(server.url(target));
            let text = String::from_utf8_lossy(&stdout(&mut curl)).into_owned();
            for part in parts {
                assert!(text.contains(part), "{protocol:?} {target}: {part:?} in {text}");
            }
        }
        server.stop();
    }
}
