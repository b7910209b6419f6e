//! Corners of ASGI, as those of WSGI in `wsgi_edge_cases.rs`.

use crate::mounts::{site, start};
use crate::wsgi_edge_cases::{
    REQUESTS, Row, check, check_faults, check_pipelined, check_waiting, mount,
};
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;

/// Applications by the first segment of the path.
const APPLICATION: &str = r#"
import asyncio, http
text = [(b'content-type', b'text/plain')]

async def app(scope, receive, send):
    if scope['type'] == 'lifespan':
        raise NotImplementedError('this application has no lifespan')
    name = scope['path'][len(scope['root_path']):].strip('/').split('/')[0]
    await globals().get(name, shows)(scope, receive, send)

async def begin(send, status=200, headers=text):
    await send({'type': 'http.response.start', 'status': status, 'headers': headers})

async def body(send, content=b'', more=False):
    await send({'type': 'http.response.body', 'body': content, 'more_body': more})

async def shows(scope, receive, send):
    names = ['method', 'path', 'raw_path', 'query_string', 'root_path', 'http_version', 'server']
    lines = ['%s=%r\n' % (name, scope[name]) for name in names]
    lines += ['%r: %r\n' % field for field in scope['headers']]
    await begin(send)
    await body(send, ''.join(lines).encode())

async def status(scope, receive, send):
    code = scope['query_string'].decode()
    await begin(send, int(code) if code.isdigit() else code)
    await body(send, b'content')

async def named(scope, receive, send):
    await begin(send, http.HTTPStatus.NOT_FOUND)
    await body(send, bytearray(b'content'))

async def pieces(scope, receive, send):
    await begin(send)
    for piece in (b'', b'a', b'', b'b', b''):
        await body(send, piece, True)
    await body(send)

async def fields(scope, receive, send):
    await begin(send, 200, iter([
        [b'Content-Type', b'text/plain'], (b'transfer-encoding', b'chunked'),
        (b'connection', b'x-own'), (b'keep-alive', b'5'), (b'upgrade', b'x'),
        (b'date', b'Sun, 06 Nov 1994 08:49:37 GMT'), (b'x-tab', b'a\tb'), (b'x-empty', b''),
        (b'x-twice', b'1'), (b'x-twice', b'2'), (b'set-cookie', b'a=1'), (b'set-cookie', b'b=2')]))
    await body(send, b'x')

async def reads(scope, receive, send):
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message['body']), message['more_body']
    await begin(send)
    await body(send, b'read %d' % size)

async def after(scope, receive, send):
    await receive()
    await begin(send)
    await body(send, b'x')
    seen = [(await receive())['type'] for _ in range(3)]
    try:
        await body(send, b'y')
    except RuntimeError:
        seen.append('an error')
    print('after the end:', *seen)

async def endless(scope, receive, send):
    await begin(send)
    try:
        while True:
            await body(send, bytes(10000), True)
    except OSError:
        print('the client has left:', (await receive())['type'], (await receive())['type'])
        raise

async def early(scope, receive, send):
    await send({'type': 'http.response.early_hint', 'links': [b'</a>; rel=preload', b'</b>']})
    await send({'type': 'http.response.informational', 'status': 103,
                'headers': [(b'link', b'</c>')]})
    await send({'type': 'http.response.informational', 'status': 102, 'headers': []})
    await begin(send)
    await body(send, b'x')

async def headless(scope, receive, send):
    await body(send, b'x')

async def silent(scope, receive, send):
    return

async def bodiless(scope, receive, send):
    await begin(send)

async def unfinished(scope, receive, send):
    await begin(send)
    await body(send, b'x', True)

async def lengths(scope, receive, send):
    await begin(send, 200, text + [(b'content-length', scope['query_string'])])
    await body(send, b'12345')

async def injects(scope, receive, send):
    await begin(send, 200, [(b'x-a', b'a\r\nx-b: c')])
    await body(send, b'x')
"#;

const ROWS: [Row<'_>; 28] = [
    (
        "GET /run/a%2Fb/%C3%A4?%ff=%00&a=%2F+",
        "",
        &[
            "\npath='/run/a/b/\u{e4}'\n",
            "\nraw_path=b'/run/a%2Fb/%C3%A4'\n",
            "\nquery_string=b'%ff=%00&a=%2F+'\n",
            "\nroot_path='/run'\n",
        ],
    ),
    ("GET /run//x//", "", &["\npath='/run//x//'\n", "\nraw_path=b'/run//x//'\n"]),
    ("GET /run?x", "", &["\npath='/run'\n", "\nquery_string=b'x'\n"]),
    ("get /run/x", "", &["method='get'\n"]),
    ("GET /run/x HTTP/1.0", "", &["\nhttp_version='1.0'\n", "!b'host'"]),
    (
        "GET http://a:81/run/x HTTP/1.1\nHost: other",
        "",
        &["\nserver=('a', 81)\n", "b'host': b'a:81'"],
    ),
    (
        "GET /run/x\nCookie: a=1\nCookie: b=2\nX-A: 1\nx-a: 2\nX-Empty:",
        "",
        &["b'cookie': b'a=1; b=2'\n", "b'x-a': b'1'\nb'x-a': b'2'\nb'x-empty': b''\n"],
    ),
    ("GET /run/x\nX_A: own\nContent_Length: own\nProxy: own", "", &["200 ", "!own", "!proxy"]),
    ("POST /run/x\nTransfer-Encoding: chunked", "0\r\nX-T: 1\r\n\r\n", &["200 ", "!x-t"]),
    ("HEAD /run/status?200", "", &["200 ", "\nContent-Length: 7\r\n", "\r\n\r\n<end>"]),
    ("HEAD /run/pieces", "", &["200 ", "!Content-Length", "\r\n\r\n<end>"]),
    ("GET /run/status?204", "", &["204 ", "!Content-Length", "!chunked", "\r\n\r\n<end>"]),
    ("GET /run/status?304", "", &["304 ", "!Content-Length", "\r\n\r\n<end>"]),
    ("GET /run/status?299", "", &["HTTP/1.1 299 ", "\r\n\r\ncontent<end>"]),
    ("GET /run/named", "", &["404 ", "\r\n\r\ncontent<end>"]),
    ("GET /run/pieces", "", &["\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n<end>"]),
    ("GET /run/pieces HTTP/1.0", "", &["!Transfer-Encoding", "\r\n\r\nab<end>"]),
    (
        "GET /run/fields",
        "",
        &[
            "x-tab: a\tb\r\n",
            "x-empty: \r\n",
            "x-twice: 1\r\nx-twice: 2\r\n",
            "set-cookie: a=1\r\nset-cookie: b=2\r\n",
            "Content-Length: 1\r\n",
            "!1994",
            "!chunked",
            "!x-own",
            "!keep-alive",
            "!upgrade",
        ],
    ),
    (
        "GET /run/early",
        "",
        &[
            "HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\nlink: </b>\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\nlink: </c>\r\n\r\nHTTP/1.1 200 OK\r\n",
            "!102",
        ],
    ),
    // A client of HTTP/1.0 knows no informational responses.
    ("GET /run/early HTTP/1.0", "", &["HTTP/1.1 200 OK\r\n", "!103"]),
    ("GET /run/after", "", &["200 ", "\r\n\r\nx<end>"]),
    ("GET /run/lengths?5", "", &["200 ", "\r\n\r\n12345<end>"]),
    ("GET /run/unfinished", "", &["!0\r\n\r\n", "!500"]),
    // The application has not read, and the client waits: no interim response.
    (
        "POST /run/status?200\nExpect: 100-continue\nContent-Length: 5",
        "",
        &["!100 ", "content<end>"],
    ),
    ("POST /run/reads\nExpect: 100-continue\nContent-Length: 0", "", &["!100 ", "read 0<end>"]),
    (
        "POST /run/reads HTTP/1.0\nExpect: 100-continue\nContent-Length: 5",
        "12345",
        &["!100 ", "read 5<end>"],
    ),
    ("POST /run/status?200\nContent-Length: 5", "123", &["200 ", "content<end>"]),
    ("POST /run/after\nContent-Length: 5", "12345", &["200 ", "\r\n\r\nx<end>"]),
];

const FAULTS: [&str; 13] = [
    "status?99",
    "status?100",
    "status?101",
    "status?600",
    "status?x",
    "status?",
    "lengths?4",
    "lengths?6",
    "lengths?x",
    "injects",
    "headless",
    "silent",
    "bodiless",
];

#[test]
fn asgi_edge_cases_have_the_expected_results() {
    let folder = site("asgi-edges");
    folder.write("app/app.py", APPLICATION);
    for io in Io::BOTH {
        let server = start(&folder, io, &mount(&folder, "asgi"));
        for row in REQUESTS.into_iter().chain(ROWS) {
            check(&server, row);
        }
        check_faults(&server, &FAULTS);
        let requests = ["status?204", "status?304", "early", "fields", "pieces", "status?200"];
        check_pipelined(&server, &requests, "\r\n\r\ncontent<end>");
        check_waiting(&server, "\r\n\r\nread 5<end>");
        let end = "after the end: http.disconnect http.disconnect http.disconnect an error";
        server.wait_for_line(0, |line| line.ends_with(end));
        server.client().leave_within(&Request::get("/run/endless"));
        let end = "the client has left: http.disconnect http.disconnect";
        let lines = server.lines().len();
        server.wait_for_line(0, |line| line.ends_with(end));
        check(&server, ("GET /run/named", "", &["404 "]));
        let said = server.last_words();
        let has_failed = |line: &String| line.contains("/run/endless: the application has failed");
        assert!(!said.iter().skip(lines).any(has_failed), "it is no fault: {said:?}");
        assert!(!said.iter().any(|line| line.contains("NotImplementedError")), "{said:?}");
    }
}
