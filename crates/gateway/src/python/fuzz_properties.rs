//! Properties that hold for the variables and the scope of any request. The fuzz target checks
//! them, and so does the replay of its corpus. The bytes that a process gets are read as Python's
//! `marshal` reads them, and compared with a plain reading of the fields.

use pinion_http::field::Field;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;
use pinion_http::python::environ::Environ;
use pinion_http::python::frame_header::FRAME_HEADER_BYTES;
use pinion_http::python::request_batch::{BatchedContent, RequestBatch};
use pinion_http::request_head::RequestHead;
use std::collections::BTreeMap;

use super::python_app::{PythonApp, PythonInterface};
use super::python_environ::environ;
use super::python_scope::http_scope;
use crate::path_prefix::PathPrefix;

/// Mounts, and their paths without percent escapes and without a slash at the end.
const MOUNTS: [(&str, &str); 4] =
    [("/", ""), ("/run", "/run"), ("/a%20b", "/a b"), ("/%C3%A4/", "/\u{e4}")];

/// Variables that are of no field.
const OWN_VARIABLES: [&str; 17] = [
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "HTTP_HOST",
    "PATH_INFO",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_NAME",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];

/// Fields that no application gets from a client.
const NEVER_PASSED: [&str; 15] = [
    "connection",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "via",
];

/// Prefixes of further ones: proxies name the client and its request by them.
const NEVER_PASSED_FRONTS: [&str; 9] = [
    "remote-",
    "x-auth-request-",
    "x-authenticated-",
    "x-forwarded-",
    "x-original-",
    "x-real-",
    "x-remote-",
    "x-rewrite-",
    "x-webauth-",
];

/// A value as Python reads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PythonValue {
    None,
    Int(u32),
    Bytes(Vec<u8>),
    Str(String),
    Tuple(Vec<PythonValue>),
    List(Vec<PythonValue>),
    Dict(BTreeMap<String, PythonValue>),
}

/// Checks the request whose head follows the first byte, which says how the application is mounted.
///
/// # Panics
/// If a process would read something else than the head says.
pub fn check(data: &[u8]) {
    let Some((&options, input)) = data.split_first() else { return };
    let mut storage = HeadStorage::new();
    let Ok(Parsed::Head { head, .. }) = parse(input, 0, &mut storage, &Limits::default()) else {
        return;
    };
    let (mount, mount_path) = MOUNTS[usize::from(options % 4)];
    let client = ClientIdentity {
        peer: (options & 4 == 0).then(|| ([192, 0, 2, 1], 7).into()),
        is_secured: options & 8 != 0,
    };
    let interface = PythonInterface::Wsgi { threads: 1 };
    let mut app = PythonApp::new("app", PathPrefix::new(mount), interface);
    app.passes_authorization = options & 16 != 0;
    let case = Case { app, mount_path, client, head: &head };
    let variables = environ(&case.app, &client, &head, &mut Default::default());
    let scope = http_scope(&case.app, &client, &head);
    assert_eq!(variables.is_ok(), scope.is_ok(), "{variables:?}, {scope:?}");
    let (Ok(variables), Ok(scope)) = (variables, scope) else { return };
    // From the second request on, values refer to those of earlier ones.
    let kinds = [&variables, &scope].repeat(3);
    for (read, is_scope) in read_batch(&kinds).iter().zip([false, true].into_iter().cycle()) {
        if is_scope { case.check_scope(read) } else { case.check_environ(read) }
    }
}

/// A request, and the application that gets it.
struct Case<'a> {
    app: PythonApp,
    mount_path: &'a str,
    client: ClientIdentity,
    head: &'a RequestHead<'a>,
}

impl Case<'_> {
    /// Returns the fields that the application gets, with names in lower case. One of them does so
    /// although `Connection` lists it.
    fn passed(&self, always: &str) -> Vec<(String, &[u8])> {
        let lower = |field: &Field<'_>| String::from_utf8_lossy(field.name).to_ascii_lowercase();
        let connection = self.head.fields.iter().filter(|field| lower(field) == "connection");
        let listed: Vec<String> = connection
            .flat_map(|field| field.value.split(|byte| *byte == b','))
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
            .collect();
        let is_passed = |name: &String| {
            !name.contains('_')
                && !NEVER_PASSED.contains(&name.as_str())
                && !NEVER_PASSED_FRONTS.iter().any(|front| name.starts_with(front))
                && (name == always || !listed.contains(name))
                && (self.app.passes_authorization || name != "authorization")
        };
        let fields = self.head.fields.iter().map(|field| (lower(&field), field.value));
        fields.filter(|(name, _)| is_passed(name)).collect()
    }

    /// Returns the path of the request without escapes.
    fn path(&self) -> Vec<u8> {
        let mut decoded = Vec::new();
        let mut bytes = self.head.target.path.iter();
        while let Some(&byte) = bytes.next() {
            let mut digit = || char::from(*bytes.next().expect("a digit")).to_digit(16);
            decoded.push(match byte {
                b'%' => (digit().expect("a digit") * 16 + digit().expect("a digit")) as u8,
                other => other,
            });
        }
        decoded
    }

    fn check_environ(&self, read: &BTreeMap<String, PythonValue>) {
        let text = |name: &str| match read.get(name) {
            Some(PythonValue::Str(text)) => Some(latin1(text)),
            None => None,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(text("SCRIPT_NAME").as_deref(), Some(self.mount_path.as_bytes()));
        let path = ["SCRIPT_NAME", "PATH_INFO"].map(|name| text(name).expect("a path"));
        assert_eq!(path.concat(), self.path());
        let query = self.head.target.query.unwrap_or_default();
        assert_eq!(text("QUERY_STRING").as_deref(), Some(query));
        assert_eq!(text("REQUEST_METHOD").as_deref(), Some(self.head.method_token));
        assert_eq!(text("HTTP_HOST").as_deref(), self.head.authority);
        let scheme = self.client.scheme().as_bytes();
        assert_eq!(text("wsgi.url_scheme").as_deref(), Some(scheme));
        assert_eq!(text("HTTPS").is_some(), self.client.is_secured);
        let remote = if self.client.peer.is_some() { "192.0.2.1" } else { "unix:" };
        assert_eq!(text("REMOTE_ADDR").as_deref(), Some(remote.as_bytes()));

        let mut expected: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (name, value) in self.passed("content-type") {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            let is_own = matches!(
                name.as_str(),
                "content-length"
                    | "transfer-encoding"
                    | "date"
                    | "alt-svc"
                    | "strict-transport-security"
            );
            if !name.bytes().all(is_plain) || is_own {
                continue;
            }
            let variable = match name.as_str() {
                "content-type" => "CONTENT_TYPE".to_owned(),
                _ => format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_")),
            };
            let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
            match expected.get_mut(&variable) {
                Some(known) => known.extend([separator, value].concat()),
                None => drop(expected.insert(variable, value.to_vec())),
            }
        }
        for name in read.keys() {
            let is_known = OWN_VARIABLES.contains(&name.as_str()) || name == "wsgi.url_scheme";
            assert!(is_known || expected.contains_key(name), "{name} of no field");
        }
        for (name, value) in &expected {
            assert_eq!(text(name).as_ref(), Some(value), "{name}");
        }
        assert_eq!(text("CONTENT_TYPE").as_ref(), expected.get("CONTENT_TYPE"));
    }

    fn check_scope(&self, read: &BTreeMap<String, PythonValue>) {
        let path = String::from_utf8_lossy(&self.path()).into_owned();
        assert_eq!(read.get("path"), Some(&PythonValue::Str(path)));
        let raw_path = PythonValue::Bytes(self.head.target.path.to_vec());
        assert_eq!(read.get("raw_path"), Some(&raw_path));
        let query = PythonValue::Bytes(self.head.target.query.unwrap_or_default().to_vec());
        assert_eq!(read.get("query_string"), Some(&query));
        let root_path = PythonValue::Str(self.mount_path.to_owned());
        assert_eq!(read.get("root_path"), Some(&root_path));
        let peer =
            PythonValue::Tuple(vec![PythonValue::Str("192.0.2.1".to_owned()), PythonValue::Int(7)]);
        let client = if self.client.peer.is_some() { peer } else { PythonValue::None };
        assert_eq!(read.get("client"), Some(&client));
        assert_eq!(read.len(), 11, "{read:?}");

        let mut headers: Vec<(&[u8], Vec<u8>)> = Vec::new();
        headers.extend(self.head.authority.map(|authority| (&b"host"[..], authority.to_vec())));
        let passed = self.passed("content-length");
        for (name, value) in &passed {
            let cookie = headers.iter_mut().find(|(known, _)| *known == b"cookie");
            match cookie.filter(|_| name == "cookie") {
                Some((_, known)) => known.extend([b"; ", *value].concat()),
                None => headers.push((name.as_bytes(), value.to_vec())),
            }
        }
        let pair = |(name, value): (&[u8], Vec<u8>)| {
            PythonValue::Tuple(vec![PythonValue::Bytes(name.to_vec()), PythonValue::Bytes(value)])
        };
        let headers = PythonValue::List(headers.into_iter().map(pair).collect());
        assert_eq!(read.get("headers"), Some(&headers));
    }
}

/// Returns the bytes of a string of WSGI.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|one| u8::try_from(u32::from(one)).expect("Latin-1")).collect()
}

/// Returns the dictionaries that a process gets with a batch of these.
fn read_batch(environs: &[&Environ]) -> Vec<BTreeMap<String, PythonValue>> {
    let mut batch = RequestBatch::new();
    for environ in environs {
        batch.add(1, BatchedContent::Streamed, environ).expect("there is space");
    }
    let rest = batch.frame().get(FRAME_HEADER_BYTES..).expect("a frame");
    let mut reader = MarshalReader { rest, values: Vec::new() };
    let value = reader.value().expect("a value");
    assert!(reader.rest.is_empty(), "{} bytes behind the value", reader.rest.len());
    let PythonValue::List(requests) = value else { panic!("{value:?}") };
    assert_eq!(requests.len(), environs.len());
    let dict = |request| match request {
        PythonValue::Tuple(values) => match values.as_slice() {
            [PythonValue::Int(1), PythonValue::Dict(dict), PythonValue::None] => dict.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    requests.into_iter().map(dict).collect()
}

/// Reads values of `marshal` (`Python/marshal.c`).
struct MarshalReader<'a> {
    rest: &'a [u8],
    /// The values that others can refer to; one that is not complete is `None`.
    values: Vec<Option<PythonValue>>,
}

impl<'a> MarshalReader<'a> {
    /// Reads a value; `None` is the end of a dictionary.
    fn value(&mut self) -> Option<PythonValue> {
        const REFERRED: u8 = 0x80;
        let kind = self.take(1)[0];
        if kind == b'r' {
            let number = self.number() as usize;
            return Some(self.values[number].clone().expect("a value that is complete"));
        }
        let place = (kind & REFERRED != 0).then(|| {
            self.values.push(None);
            self.values.len() - 1
        });
        let value = self.value_of(kind & !REFERRED)?;
        if let Some(place) = place {
            self.values[place] = Some(value.clone());
        }
        Some(value)
    }

    fn value_of(&mut self, kind: u8) -> Option<PythonValue> {
        Some(match kind {
            b'N' => PythonValue::None,
            b'i' => PythonValue::Int(self.number()),
            b's' => {
                let bytes = self.number();
                PythonValue::Bytes(self.take(bytes).to_vec())
            }
            b'u' => {
                let bytes = self.number();
                PythonValue::Str(String::from_utf8(self.take(bytes).to_vec()).expect("UTF-8"))
            }
            b'a' | b'A' | b'z' | b'Z' => {
                let is_short = matches!(kind, b'z' | b'Z');
                let bytes = if is_short { self.take(1)[0].into() } else { self.number() };
                let text = self.take(bytes);
                assert!(text.is_ascii(), "{}", text.escape_ascii());
                PythonValue::Str(String::from_utf8_lossy(text).into_owned())
            }
            b')' => {
                let count = self.take(1)[0].into();
                PythonValue::Tuple(self.values(count))
            }
            b'[' => {
                let count = self.number();
                PythonValue::List(self.values(count))
            }
            b'{' => PythonValue::Dict(self.dict()),
            b'0' => return None,
            other => panic!("the type {}", other.escape_ascii()),
        })
    }

    fn values(&mut self, count: u32) -> Vec<PythonValue> {
        (0..count).map(|_| self.value().expect("a value")).collect()
    }

    fn dict(&mut self) -> BTreeMap<String, PythonValue> {
        let mut dict = BTreeMap::new();
        while let Some(key) = self.value() {
            let PythonValue::Str(key) = key else { panic!("the key {key:?}") };
            let value = self.value().expect("a value");
            let before = dict.insert(key.clone(), value);
            assert_eq!(before, None, "{key} twice");
        }
        dict
    }

    fn take(&mut self, bytes: u32) -> &'a [u8] {
        let (front, behind) = self.rest.split_at(bytes as usize);
        self.rest = behind;
        front
    }

    fn number(&mut self) -> u32 {
        let number = u32::from_le_bytes(self.take(4).try_into().expect("four bytes"));
        assert!(i32::try_from(number).is_ok(), "marshal has 31 bits");
        number
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_corpus_is_replayed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/python_request");
        let mut count = 0;
        for entry in fs::read_dir(&folder).expect("the corpus") {
            let path = entry.expect("an entry").path();
            println!("{}", path.display());
            check(&fs::read(&path).expect("a file"));
            count += 1;
        }
        assert!(count >= 8, "{}: only {count} files", folder.display());
    }

    /// Fields whose names resemble those of variables that they must not become.
    fn field() -> impl Strategy<Value = String> {
        let name = prop_oneof![
            "[A-Za-z0-9_-]{1,12}",
            "(?i)(script|path|content|remote|x|proxy|http)[-_](name|info|length|type|user|a)",
            "(?i)(cookie|connection|proxy|authorization|x-forwarded-for|date|te|keep-alive)",
        ];
        (name, "[ -~]{0,20}").prop_map(|(name, value)| format!("{name}: {}\r\n", value.trim()))
    }

    proptest! {
        #[test]
        fn a_process_gets_the_request_of_the_client(
            options in any::<u8>(),
            path in "(/run|/a%20b|/%c3%a4|)/[a-z%0-9A-F/._-]{0,12}(\\?[!-~]{0,8})?",
            fields in proptest::collection::vec(field(), 0..12),
        ) {
            let fields = fields.concat();
            let head = format!("GET {path} HTTP/1.1\r\nHost: a:1\r\n{fields}\r\n");
            check(&[&[options], head.as_bytes()].concat());
        }
    }
}
