//! Scopes of ASGI requests, decoded by Python itself, which computes the expected ones.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;

use pinion_http::cgi::limits::VARIABLES_MAX_BYTES;
use pinion_http::cgi::variable_error::VariableError;
use pinion_http::field::Field;
use pinion_http::python::asgi_scope::{Scope, ScopeProtocol};
use pinion_http::python::environ::Environ;
use pinion_http::python::limits::BATCH_MAX_BYTES;
use pinion_http::python::request_batch::{BatchedContent, RequestBatch};
use pinion_http::version::Version;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The program that reads a line of JSON with the cases, and the frames that were made of them.
const READER: &str = r#"
import json, marshal, struct, sys

def expected(case):
    raw = {name: bytes.fromhex(case[name]) for name in case if type(case[name]) is str}
    headers = []
    if case["authority"] is not None:
        headers.append((b"host", raw["authority"]))
    cookies = []
    for name, value in case["fields"]:
        name, value = bytes.fromhex(name).lower(), bytes.fromhex(value)
        if name != b"cookie":
            headers.append((name, value))
            continue
        if not cookies:
            place = len(headers)
            headers.append(None)
        cookies.append(value)
    if cookies:
        headers[place] = (b"cookie", b"; ".join(cookies))
    scope = {
        "type": "http",
        "http_version": raw["version"].decode(),
        "scheme": "https" if case["secured"] else "http",
        "path": raw["path"].decode("utf-8", "replace"),
        "raw_path": raw["raw_path"],
        "query_string": raw["query"],
        "root_path": raw["root_path"].decode("utf-8", "replace"),
        "client": None if case["port"] is None else (raw["client"].decode(), case["port"]),
        "server": (raw["server"].decode("latin-1"), case["server_port"]),
        "headers": headers,
    }
    if case["subprotocols"] is None:
        scope["method"] = raw["method"].decode()
    else:
        scope["type"] = "websocket"
        scope["scheme"] = "wss" if case["secured"] else "ws"
        scope["subprotocols"] = [bytes.fromhex(one).decode() for one in case["subprotocols"]]
    return scope

data = sys.stdin.buffer.read()
line, data = data.split(b"\n", 1)
scopes = []
while data:
    kind, number, length = struct.unpack_from("<III", data)
    content, data = data[12:12 + length], data[12 + length:]
    assert (kind, number, len(content)) == (1, 0, length)
    scopes += [scope for _, scope, _ in marshal.loads(content)]
cases = json.loads(line)
assert len(scopes) == len(cases)
for scope, case in zip(scopes, cases):
    assert scope == expected(case), (scope, expected(case))
    assert all(type(header) is tuple for header in scope["headers"])
    for key in scope:
        assert sys.implementation.name != "cpython" or sys.intern((key + " ")[:-1]) is key
"#;

/// The data of a scope.
#[derive(Clone, Debug)]
struct Case {
    version: Version,
    is_secured: bool,
    method: Vec<u8>,
    subprotocols: Option<Vec<Vec<u8>>>,
    paths: [Vec<u8>; 4],
    client: Option<SocketAddr>,
    server: (Vec<u8>, u16),
    authority: Option<Vec<u8>>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Case {
    fn write(&self, environ: &mut Environ) -> Result<(), VariableError> {
        let subprotocols: Vec<&[u8]> =
            self.subprotocols.iter().flatten().map(Vec::as_slice).collect();
        let [path, raw_path, query, root_path] = &self.paths;
        let scope = Scope {
            protocol: match self.subprotocols {
                None => ScopeProtocol::Http { method: &self.method },
                Some(_) => ScopeProtocol::WebSocket { subprotocols: &subprotocols },
            },
            version: self.version,
            is_secured: self.is_secured,
            path,
            raw_path,
            query,
            root_path,
            client: self.client,
            server: (&self.server.0, self.server.1),
        };
        let fields = self.fields.iter().map(|(name, value)| Field { name, value });
        scope.write(self.authority.as_deref(), fields, environ)
    }

    /// Returns the data from which [`READER`] computes the scope.
    fn describe(&self) -> String {
        let list = |values: &mut dyn Iterator<Item = String>| {
            format!("[{}]", values.collect::<Vec<_>>().join(","))
        };
        let pair = |(name, value): &(Vec<u8>, Vec<u8>)| format!("[{},{}]", hex(name), hex(value));
        let version = match self.version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
            Version::Http2 => "2",
            Version::Http3 => "3",
        };
        let address = self.client.map(|client| client.ip().to_canonical().to_string());
        let null = || "null".to_owned();
        let [path, raw_path, query, root_path] = &self.paths;
        format!(
            "{{\"version\":{},\"secured\":{},\"method\":{},\"subprotocols\":{},\"path\":{},\
             \"raw_path\":{},\"query\":{},\"root_path\":{},\"client\":{},\"port\":{},\
             \"server\":{},\"server_port\":{},\"authority\":{},\"fields\":{}}}",
            hex(version.as_bytes()),
            self.is_secured,
            hex(&self.method),
            self.subprotocols
                .as_ref()
                .map_or_else(null, |all| list(&mut all.iter().map(|one| { hex(one) }))),
            hex(path),
            hex(raw_path),
            hex(query),
            hex(root_path),
            address.map_or_else(null, |address| hex(address.as_bytes())),
            self.client.map_or_else(null, |client| client.port().to_string()),
            hex(&self.server.0),
            self.server.1,
            self.authority.as_ref().map_or_else(null, |authority| hex(authority)),
            list(&mut self.fields.iter().map(pair)),
        )
    }
}

/// Returns bytes as a string of JSON.
fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    format!("\"{digits}\"")
}

fn any_case() -> impl Strategy<Value = Case> {
    let version = prop::sample::select(
        &[Version::Http10, Version::Http11, Version::Http2, Version::Http3][..],
    );
    let method = prop_oneof![
        prop::sample::select(&["GET", "HEAD", "POST", "DELETE"][..]).prop_map(str::to_owned),
        "[A-Z!-]{1,20}",
    ];
    let protocol = "[a-z.]{1,12}".prop_map(String::into_bytes);
    let path = || {
        prop_oneof![
            "/[ -~]{0,30}".prop_map(String::into_bytes),
            "/.{0,300}".prop_map(String::into_bytes),
            vec(any::<u8>(), 0..300),
        ]
    };
    let client = any::<Option<([u8; 16], bool, u16)>>().prop_map(|client| {
        client.map(|(bytes, is_v4, port)| {
            let [a, b, c, d, ..] = bytes;
            let ip = if is_v4 { [a, b, c, d].into() } else { std::net::IpAddr::from(bytes) };
            SocketAddr::new(ip, port)
        })
    });
    let name = prop_oneof![
        4 => "[A-Za-z-]{1,20}",
        1 => "[Cc]ookie",
    ];
    let fields = vec((name.prop_map(String::into_bytes), vec(1..=255_u8, 0..300)), 0..12);
    (
        (version, any::<bool>(), method, prop::option::of(vec(protocol, 0..4))),
        [path(), path(), path(), path()],
        (client, ("[a-z.]{0,300}".prop_map(String::into_bytes), any::<u16>())),
        (prop::option::of(vec(1..=255_u8, 0..40)), fields),
    )
        .prop_map(
            |((version, is_secured, method, subprotocols), paths, of, (authority, fields))| {
                let (client, server) = of;
                let method = method.into_bytes();
                Case {
                    version,
                    is_secured,
                    method,
                    subprotocols,
                    paths,
                    client,
                    server,
                    authority,
                    fields,
                }
            },
        )
}

#[test]
fn python_reads_scopes() {
    let mut runner = TestRunner::deterministic();
    let (mut cases, mut frames) = (Vec::new(), Vec::new());
    let mut batch = RequestBatch::new();
    for number in 1..=1000 {
        let case = any_case().new_tree(&mut runner).expect("a case").current();
        let mut environ = Environ::default();
        case.write(&mut environ).expect("the scope is short");
        // The same request is repeated several times, so that later ones refer to values of earlier
        // ones.
        for _ in 0..1 + number % 4 {
            assert_eq!(batch.add(1, BatchedContent::Streamed, &environ), Ok(()));
            cases.push(case.describe());
        }
        if number % 6 < 2 {
            frames.extend_from_slice(batch.frame());
            batch.clear();
        }
    }
    frames.extend_from_slice(batch.frame());
    let input = [format!("[{}]\n", cases.join(",")).as_bytes(), &frames].concat();
    for name in ["python3", "pypy3"] {
        let child = Command::new(name).args(["-c", READER]).stdin(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            assert_eq!(name, "pypy3", "python3 must be there");
            continue;
        };
        let mut stdin = child.stdin.take().expect("a pipe");
        let status = thread::scope(|scope| {
            scope.spawn(|| {
                // The interpreter ends early if the result differs.
                let _ = stdin.write_all(&input);
                drop(stdin);
            });
            child.wait().expect("the interpreter ends")
        });
        assert!(status.success(), "{name} reads another scope");
    }
}

/// An accepted scope of any length fits into a batch with its content.
#[test]
fn a_scope_has_a_limit() {
    let case = |bytes: usize| Case {
        version: Version::Http11,
        is_secured: false,
        method: b"GET".to_vec(),
        subprotocols: None,
        paths: [const { Vec::new() }; 4],
        client: None,
        server: (Vec::new(), 0),
        authority: None,
        fields: vec![(b"a".to_vec(), vec![b'b'; bytes])],
    };
    let write = |bytes: usize| case(bytes).write(&mut Environ::default());
    let longest = (VARIABLES_MAX_BYTES - 300..VARIABLES_MAX_BYTES)
        .rev()
        .find(|bytes| write(*bytes).is_ok())
        .expect("some length is allowed");
    assert_eq!(write(longest + 1), Err(VariableError::TooLarge));
    const { assert!(VARIABLES_MAX_BYTES + 128 * 1024 < BATCH_MAX_BYTES) };
}
