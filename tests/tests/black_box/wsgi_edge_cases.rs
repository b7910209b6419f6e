//! Edge cases of WSGI, and those that it shares with ASGI, in which other servers and frameworks
//! have had bugs according to their change logs and issues. Each case is a request, byte by byte,
//! and parts of the response.

use crate::mounts::{site, start};
use pinion_tests::matrix::Io;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use rustix::process::geteuid;

/// Applications by the first segment of the path.
const APPLICATION: &str = r#"
import sys
text = [('Content-Type', 'text/plain')]

def app(environ, start_response):
    name = environ['PATH_INFO'].split('/')[1:2]
    return globals().get(''.join(name), shows)(environ, start_response)

def shows(environ, start_response):
    start_response('200 OK', text)
    names = sorted(name for name in environ if name.isupper())
    return [('%s=%s\n' % (name, environ[name])).encode('latin-1') for name in names]

def content(environ, start_response):
    start_response('200 OK', text)
    return [b'first ', b'', b'last']

def status(environ, start_response):
    start_response(environ['QUERY_STRING'].replace('+', ' '), text)
    return [b'content']

def pieces(environ, start_response):
    start_response('200 OK', text)
    for piece in (b'', b'a', b'', b'b', b''):
        yield piece

def cut(environ, start_response):
    start_response('200 OK', text + [('Content-Length', '99')] * (environ['QUERY_STRING'] == '99'))
    yield b'first'
    raise ValueError('in the middle')

def nothing(environ, start_response):
    start_response('200 OK', [])
    return iter([])

def fields(environ, start_response):
    start_response('200 OK', text + [
        ('Transfer-Encoding', 'chunked'), ('Connection', 'X-Own'), ('Keep-Alive', '5'),
        ('Upgrade', 'x'), ('Date', 'Sun, 06 Nov 1994 08:49:37 GMT'), ('X-Tab', 'a\tb'),
        ('X-Latin', '\xc3\xa4'), ('X-Twice', '1'), ('X-Twice', '2'), ('X-Empty', ''),
        ('X-Space', ' a '), ('Set-Cookie', 'a=1'), ('Set-Cookie', 'b=2')])
    return [b'x']

def lengths(environ, start_response):
    values = environ['QUERY_STRING'].split('&')
    start_response('200 OK', text + [('Content-Length', value) for value in values])
    return [b'12345']

def twice(environ, start_response):
    start_response('200 OK', text)
    start_response('404 Not Found', text)
    return [b'x']

def replaced(environ, start_response):
    start_response('200 OK', text)
    try:
        raise ValueError
    except ValueError:
        start_response('503 Sorry', text, sys.exc_info())
    return [b'x']

def fails(environ, start_response):
    start_response('200 OK', text)
    if environ:
        raise ValueError
    yield b'x'

def later(environ, start_response):
    yield b''
    start_response('202 Fine', text)
    yield b'x'

def writes(environ, start_response):
    write = start_response('200 OK', text)
    write(b'written ')
    return [b'returned']

def returns(environ, start_response):
    start_response('200 OK', text)
    return {'bytes': b'abc', 'str': 'abc', 'none': None, 'number': 5, 'strs': ['abc'],
            'tuple': (b'a', b'b'), 'set': {b'a'}, 'view': [memoryview(b'abc')],
            }[environ['QUERY_STRING']]

def reads(environ, start_response):
    body = environ['wsgi.input'].read()
    start_response('200 OK', text)
    return [b'read %d %d' % (len(body), len(environ['wsgi.input'].read(10)))]

def lines(environ, start_response):
    start_response('200 OK', text)
    return [repr(environ['wsgi.input'].readlines()).encode()]
"#;

/// The end of the response of a client.
const END: &str = "<end>";

/// A request, its content, and parts of the response; those after a `!` must be absent.
pub(crate) type Row<'a> = (&'a str, &'a str, &'a [&'a str]);

/// Cases of both interfaces: the data of a request for an application, and refused requests.
pub(crate) const REQUESTS: [Row<'_>; 17] = [
    // Segments that lead upwards are refused in all spellings, and so is a NUL.
    ("GET /run/a%2F%2e%2E/b", "", &["400 "]),
    ("GET /run/%00", "", &["400 "]),
    ("GET /run/a\\b", "", &["400 "]),
    ("GET /run/x?\u{e4}", "", &["400 "]),
    ("GET /run/x HTTP/1.1\nHost: a\nHost: b", "", &["400 "]),
    ("CONNECT /run/x", "", &["400 "]),
    ("TRACE /run/x", "", &["405 "]),
    // The target is the server itself.
    ("OPTIONS *", "", &["204 ", "Allow: "]),
    // Lengths and codings that two programs could interpret differently.
    ("POST /run/reads\nContent-Length: +3", "abc", &["400 ", "!read"]),
    ("POST /run/reads\nContent-Length: 3\nContent-Length: 3", "abc", &["400 ", "!read"]),
    ("POST /run/reads\nContent-Length: 3\nTransfer-Encoding: chunked", "abc", &["400 ", "!read"]),
    ("POST /run/reads\nTransfer-Encoding: gzip, chunked", "0\r\n\r\n", &["501 ", "!read"]),
    ("POST /run/reads\nExpect: something", "", &["417 ", "!read"]),
    // Content is allowed with any method.
    ("GET /run/reads\nContent-Length: 3", "abc", &["200 ", "read 3"]),
    ("DELETE /run/reads\nContent-Length: 3", "abc", &["200 ", "read 3"]),
    (
        "PUT /run/reads\nTransfer-Encoding: chunked",
        "3;x=y\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
        &["read 3"],
    ),
    ("POST /run/reads", "", &["200 ", "read 0"]),
];

const ROWS: [Row<'_>; 47] = [
    // PEP 3333: the path is decoded once, with non-ASCII bytes as Latin-1.
    ("GET /run/a%2Fb%252F/%C3%A4", "", &["\nPATH_INFO=/a/b%2F/\u{e4}\n", "\nSCRIPT_NAME=/run\n"]),
    ("GET /run/a%2Fb?%ff=%00&a=%2F+", "", &["\nREQUEST_URI=/run/a%2Fb?%ff=%00&a=%2F+\n"]),
    ("GET /run/x?%ff=%00&a=%2F+", "", &["\nQUERY_STRING=%ff=%00&a=%2F+\n"]),
    ("GET /run//a//b", "", &["\nPATH_INFO=//a//b\n"]),
    ("GET /run?x", "", &["\nPATH_INFO=\n", "\nQUERY_STRING=x\n"]),
    ("GET /run/?", "", &["\nPATH_INFO=/\n", "\nQUERY_STRING=\n"]),
    ("M-SEARCH /run/x", "", &["\nREQUEST_METHOD=M-SEARCH\n", "!CONTENT_LENGTH", "!CONTENT_TYPE"]),
    ("get /run/x", "", &["\nREQUEST_METHOD=get\n"]),
    (
        "GET http://example.org:81/run/x HTTP/1.1\nHost: other",
        "",
        &["\nHTTP_HOST=example.org:81\n", "\nSERVER_NAME=example.org\n", "\nSERVER_PORT=81\n"],
    ),
    ("GET /run/x\nHost: [::1]:8080", "", &["\nSERVER_NAME=[::1]\n", "\nSERVER_PORT=8080\n"]),
    ("GET /run/x HTTP/1.0", "", &["\nSERVER_PROTOCOL=HTTP/1.0\n", "!HTTP_HOST"]),
    // Fields in several lines, and fields that could be mistaken for others.
    (
        "GET /run/x\nCookie: a=1\nCookie: b=2\nX-A: 1\nx-a: 2\nX-Empty:",
        "",
        &["\nHTTP_COOKIE=a=1; b=2\n", "\nHTTP_X_A=1, 2\n", "\nHTTP_X_EMPTY=\n"],
    ),
    (
        "GET /run/x\nX_A: own\nContent_Length: own\nContent_Type: own\nHost_: own\nProxy: own",
        "",
        &["200 ", "!own", "!HTTP_PROXY"],
    ),
    (
        "GET /run/x\nScript-Name: /own\nPath-Info: /own\nRemote-Addr: own\nWsgi.Url-Scheme: own",
        "",
        &["\nSCRIPT_NAME=/run\n", "\nPATH_INFO=/x\n", "\nREMOTE_ADDR=127.0.0.1\n"],
    ),
    (
        "POST /run/x\nTransfer-Encoding: chunked",
        "1\r\na\r\n0\r\nX-Trailer: 1\r\nContent-Type: own\r\n\r\n",
        &["\nCONTENT_LENGTH=1\n", "!TRAILER", "!own", "!TRANSFER_ENCODING"],
    ),
    (
        "POST /run/lines\nTransfer-Encoding: chunked",
        "2\r\na\n\r\n1\r\nb\r\n0\r\n\r\n",
        &["[b'a\\n', b'b']"],
    ),
    ("POST /run/reads\nContent-Length: 3", "abcmore", &["read 3 0<end>"]),
    // Content of responses that must have none, and its length.
    ("HEAD /run/content", "", &["200 ", "\nContent-Length: 10\r\n", "\r\n\r\n<end>"]),
    ("HEAD /run/pieces", "", &["200 ", "!Content-Length", "\r\n\r\n<end>"]),
    ("GET /run/status?204", "", &["204 ", "!Content-Length", "!chunked", "\r\n\r\n<end>"]),
    ("GET /run/status?304+Not+Modified", "", &["304 ", "!Content-Length", "\r\n\r\n<end>"]),
    ("GET /run/status?205+x", "", &["205 ", "\nContent-Length: 0\r\n", "\r\n\r\n<end>"]),
    ("GET /run/nothing", "", &["200 ", "\nContent-Length: 0\r\n", "\r\n\r\n<end>"]),
    // An empty piece does not end the content.
    ("GET /run/pieces", "", &["\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n<end>"]),
    ("GET /run/pieces HTTP/1.0", "", &["!Transfer-Encoding", "\r\n\r\nab<end>"]),
    ("GET /run/later", "", &["202 ", "\r\n\r\n1\r\nx\r\n0\r\n\r\n<end>"]),
    ("GET /run/writes", "", &["8\r\nwritten \r\n8\r\nreturned\r\n0\r\n\r\n<end>"]),
    ("GET /run/replaced", "", &["503 ", "\r\n\r\nx<end>"]),
    (
        "GET /run/fields",
        "",
        &[
            "X-Tab: a\tb\r\n",
            "X-Latin: \u{e4}\r\n",
            "X-Twice: 1\r\nX-Twice: 2\r\n",
            "X-Empty: \r\n",
            "X-Space: a\r\n",
            "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n",
            "Content-Length: 1\r\n",
            "!1994",
            "!chunked",
            "!X-Own",
            "!Keep-Alive",
            "!Upgrade",
        ],
    ),
    ("GET /run/lengths?5", "", &["200 ", "\r\n\r\n12345<end>"]),
    ("GET /run/lengths?4", "", &["200 ", "\nContent-Length: 4\r\n", "\r\n\r\n1234<end>"]),
    ("GET /run/returns?tuple", "", &["\r\n\r\nab<end>"]),
    ("GET /run/returns?set", "", &["\r\n\r\na<end>"]),
    // Bytes that were sent before an error arrive, and the response does not look complete.
    ("GET /run/cut", "", &["200 ", "\r\n\r\n5\r\nfirst\r\n<end>"]),
    ("GET /run/cut?99", "", &["200 ", "\nContent-Length: 99\r\n", "\r\n\r\nfirst<end>"]),
    ("GET /run/cut HTTP/1.0", "", &["!<end>"]),
    // Errors of the application are never a part of the response.
    ("GET /run/fails", "", &["500 "]),
    ("GET /run/twice", "", &["500 "]),
    ("GET /run/lengths?6", "", &["500 ", "!12345"]),
    ("GET /run/lengths?5&5", "", &["500 ", "!12345"]),
    ("GET /run/lengths?x", "", &["500 ", "!12345"]),
    ("GET /run/lengths?-1", "", &["500 ", "!12345"]),
    ("GET /run/status?", "", &["500 "]),
    // The application has not read, and the client waits: there is no interim response.
    (
        "POST /run/status?401+Unauthorized\nExpect: 100-continue\nContent-Length: 5",
        "",
        &["!100 ", "HTTP/1.1 401 ", "content<end>"],
    ),
    (
        "POST /run/status?413+Too+Large\nExpect: 100-continue\nContent-Length: 900000000",
        "",
        &["!100 ", "HTTP/1.1 413 ", "content<end>"],
    ),
    ("POST /run/reads\nExpect: 100-continue\nContent-Length: 0", "", &["!100 ", "read 0 0<end>"]),
    (
        "POST /run/reads HTTP/1.0\nExpect: 100-continue\nContent-Length: 5",
        "12345",
        &["!100 ", "read 5 0<end>"],
    ),
];

/// Errors that only differ in the query.
const FAULTS: [&str; 14] = [
    "status?2000",
    "status?20",
    "status?200OK",
    "status?ab+c",
    "status?100+Continue",
    "status?101+x",
    "status?199+x",
    "status?600+x",
    "returns?bytes",
    "returns?str",
    "returns?none",
    "returns?number",
    "returns?strs",
    "returns?view",
];

/// Returns the bytes of a request that ends its connection. A version and a host are added if it
/// has none; HTTP/1.0 needs no host.
fn bytes(head: &str, content: &str) -> Vec<u8> {
    let mut lines: Vec<String> = head.split('\n').map(str::to_owned).collect();
    if !lines[0].contains(" HTTP/1.") {
        lines[0] += " HTTP/1.1";
    }
    if !lines[0].ends_with("1.0") && !lines.iter().any(|line| line.starts_with("Host:")) {
        lines.push("Host: localhost".to_owned());
    }
    format!("{}\r\nConnection: close\r\n\r\n{content}", lines.join("\r\n")).into_bytes()
}

#[track_caller]
pub(crate) fn check(server: &Server, (head, content, parts): Row<'_>) {
    let mut connection = server.connect();
    connection.send(bytes(head, content));
    let text = match connection.try_rest() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned() + END,
        // The response is cut off.
        Err(_) => String::new(),
    };
    for part in parts {
        match part.strip_prefix('!') {
            None => assert!(text.contains(part), "{head:?}: no {part:?} in {text}"),
            Some(part) => assert!(!text.contains(part), "{head:?}: {part:?} in {text}"),
        }
    }
}

/// Returns a mount of the application at `/run`.
pub(crate) fn mount(folder: &Folder, interface: &str) -> String {
    let path = folder.join("app");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    format!(
        "[[site.mount]]\npath = \"/run\"\n{interface} = \"app\"\npython = \"/usr/bin/python3\"\n\
         python-folder = {path:?}\n{user}"
    )
}

pub(crate) fn check_faults(server: &Server, paths: &[&str]) {
    for path in paths {
        check(server, (&format!("GET /run/{path}"), "", &["HTTP/1.1 500 ", "!content<end>"]));
    }
}

#[test]
fn wsgi_edge_cases_have_the_expected_results() {
    let folder = site("wsgi-edges");
    folder.write("app/app.py", APPLICATION);
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, "wsgi"));
        for row in REQUESTS.into_iter().chain(ROWS) {
            check(&server, row);
        }
        check_faults(&server, &FAULTS);
        // The result must not depend on the speed of earlier calls and the load of the server.
        for _ in 0..30 {
            server.get("/run/nothing");
            check(&server, ("GET /run/cut", "", &["\r\n\r\n5\r\nfirst\r\n<end>"]));
        }
        // No bytes follow responses without content.
        let requests = ["status?204", "status?304", "nothing", "fields", "pieces", "content"];
        check_pipelined(&server, &requests, "\r\n\r\nfirst last<end>");
        check_waiting(&server, "\r\n\r\nread 5 0<end>");
        server.stop();
    }
}

/// Sends requests with both methods at once, and checks that the last response is complete.
#[track_caller]
pub(crate) fn check_pipelined(server: &Server, paths: &[&str], end: &str) {
    let mut connection = server.connect();
    let request = |method, path| format!("{method} /run/{path} HTTP/1.1\r\nHost: localhost\r\n");
    let (last, others) = paths.split_last().expect("paths");
    let mut all = String::new();
    for path in others {
        all += &(request("GET", path) + "\r\n" + &request("HEAD", path) + "\r\n");
    }
    connection.send(all + &request("GET", last) + "Connection: close\r\n\r\n");
    let text = String::from_utf8_lossy(&connection.rest()).into_owned() + END;
    let hints = text.matches("HTTP/1.1 103 ").count();
    assert_eq!(text.matches("HTTP/1.1 ").count() - hints, 2 * others.len() + 1, "{text}");
    assert!(text.ends_with(end), "{text}");
}

/// Checks a client that waits for the interim response before it sends its content.
#[track_caller]
pub(crate) fn check_waiting(server: &Server, end: &str) {
    for framing in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let mut connection = server.connect();
        connection.send(bytes(&format!("POST /run/reads\nExpect: 100-continue\n{framing}"), ""));
        let interim = connection.receive();
        assert_eq!(interim.status, 100, "{interim}");
        let is_chunked = framing.ends_with("chunked");
        connection.send(if is_chunked { "5\r\n12345\r\n0\r\n\r\n" } else { "12345" });
        let text = String::from_utf8_lossy(&connection.rest()).into_owned() + END;
        assert!(text.ends_with(end), "{text}");
    }
}
