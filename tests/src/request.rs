//! Requests, as bytes of HTTP/1 and as field sections of HTTP/2 and HTTP/3.

/// A request that is correct in every way unless a method changes it: HTTP/1.1, with `Host`.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    target: String,
    version: &'static str,
    fields: Vec<(String, String)>,
    /// The bytes of the body in HTTP/1, with their framing.
    body: Vec<u8>,
    content: Vec<u8>,
}

impl Request {
    /// Returns a request of any method.
    pub fn new(method: &str, target: &str) -> Request {
        Request {
            method: method.to_owned(),
            target: target.to_owned(),
            version: "HTTP/1.1",
            fields: vec![("Host".to_owned(), "localhost".to_owned())],
            body: Vec::new(),
            content: Vec::new(),
        }
    }

    /// Returns `GET target`.
    pub fn get(target: &str) -> Request {
        Request::new("GET", target)
    }

    /// Returns `HEAD target`.
    pub fn head(target: &str) -> Request {
        Request::new("HEAD", target)
    }

    /// Returns the request with another method.
    #[must_use]
    pub fn method(mut self, method: &str) -> Request {
        method.clone_into(&mut self.method);
        self
    }

    /// Returns the request with one more field.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl AsRef<str>) -> Request {
        self.fields.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Returns the request for another host.
    #[must_use]
    pub fn host(self, host: &str) -> Request {
        self.hostless().field("Host", host)
    }

    /// Returns the request without `Host`.
    #[must_use]
    pub fn hostless(mut self) -> Request {
        self.fields.retain(|(name, _)| name != "Host");
        self
    }

    /// Returns the request in HTTP/1.0.
    #[must_use]
    pub fn http10(mut self) -> Request {
        self.version = "HTTP/1.0";
        self
    }

    /// Returns the request with a body of known length.
    #[must_use]
    pub fn body(self, body: &[u8]) -> Request {
        let mut request = self.field("Content-Length", body.len().to_string());
        request.body = body.to_vec();
        request.content = body.to_vec();
        request
    }

    /// Returns the request with a body in chunks of at most `chunk_bytes`.
    #[must_use]
    pub fn chunked(self, body: &[u8], chunk_bytes: usize) -> Request {
        let mut request = self.field("Transfer-Encoding", "chunked");
        for chunk in body.chunks(chunk_bytes) {
            request.body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            request.body.extend_from_slice(chunk);
            request.body.extend_from_slice(b"\r\n");
        }
        request.body.extend_from_slice(b"0\r\n\r\n");
        request.content = body.to_vec();
        request
    }

    /// Returns whether the response never has a body.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Returns the bytes up to the blank line.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} {}\r\n", self.method, self.target, self.version);
        for (name, value) in &self.fields {
            bytes += &format!("{name}: {value}\r\n");
        }
        bytes += "\r\n";
        bytes.into_bytes()
    }

    /// Returns the bytes after the blank line.
    pub fn body_bytes(&self) -> &[u8] {
        &self.body
    }

    /// Its content, without framing.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Returns the field section over HTTP/2 and HTTP/3, with names in lower case and without the
    /// fields about the connection (RFC 9113 §8.2, §8.3.1, RFC 9114 §4.3.1).
    ///
    /// # Panics
    /// Panics if the request is one of HTTP/1.0.
    #[track_caller]
    pub fn section(&self, scheme: &str) -> Vec<(String, String)> {
        const OF_HTTP1: [&str; 6] =
            ["host", "connection", "keep-alive", "transfer-encoding", "upgrade", "http2-settings"];
        assert_eq!(self.version, "HTTP/1.1", "a case about a version has to say `http1_only`");
        let host = self.fields.iter().find(|(name, _)| name == "Host");
        let host = host.map(|(_, value)| value.as_str());
        let mut section = vec![(":method".to_owned(), self.method.clone())];
        let mut pseudo =
            |name: &str, value: &str| section.push((name.to_owned(), value.to_owned()));
        match self.target.split_once("://") {
            _ if self.method == "CONNECT" => pseudo(":authority", &self.target),
            Some((scheme, rest)) if !self.target.starts_with('/') => {
                let end = rest.find(['/', '?']).unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                let root = match path.starts_with('/') {
                    true => "",
                    false if path.is_empty() && self.method == "OPTIONS" => "*",
                    false => "/",
                };
                pseudo(":scheme", &scheme.to_ascii_lowercase());
                pseudo(":authority", authority);
                pseudo(":path", &format!("{root}{path}"));
            }
            _ => {
                pseudo(":scheme", scheme);
                if let Some(host) = host {
                    pseudo(":authority", host);
                }
                pseudo(":path", &self.target);
            }
        }
        // White space around a value is framing of HTTP/1, and forbidden here (§8.2.1).
        let own = self.fields.iter().map(|(name, value)| {
            let value = value.trim_matches([' ', '\t']);
            (name.to_ascii_lowercase(), value.to_owned())
        });
        for (name, value) in own.filter(|(name, _)| !OF_HTTP1.contains(&name.as_str())) {
            match name.as_str() {
                // §8.2.3, §4.2.1: in crumbs, as browsers send them.
                "cookie" => {
                    let crumbs = value.split("; ").map(|crumb| (name.clone(), crumb.into()));
                    section.extend(crumbs);
                }
                _ => section.push((name, value)),
            }
        }
        section
    }

    /// Returns all bytes of the request.
    pub fn bytes(&self) -> Vec<u8> {
        [self.head_bytes().as_slice(), &self.body].concat()
    }
}

/// Returns a text as the value of a query: every byte is percent-encoded (RFC 3986 §2.1).
pub fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_encoded_as_http1() {
        let request = Request::new("POST", "/a?b").field("X", "y").chunked(b"hello", 3);
        let text = "POST /a?b HTTP/1.1\r\nHost: localhost\r\nX: y\r\nTransfer-Encoding: chunked\
                    \r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        assert_eq!(String::from_utf8(request.bytes()).expect("ASCII"), text);
        assert_eq!(request.content(), b"hello");
        let old = Request::head("/").http10().body(b"x");
        assert!(old.is_head() && old.bytes().ends_with(b"Content-Length: 1\r\n\r\nx"));
    }

    #[test]
    fn a_request_is_encoded_as_a_field_section() {
        let shown = |request: &Request| {
            let section = request.section("https");
            let lines: Vec<_> =
                section.iter().map(|(name, value)| format!("{name}={value}")).collect();
            lines.join(" ")
        };
        let request = Request::new("POST", "/a?b").field("X-Y", "Z").field("Connection", "close");
        let text = ":method=POST :scheme=https :authority=localhost :path=/a?b x-y=Z";
        assert_eq!(shown(&request.chunked(b"x", 1)), text);
        let text = ":method=GET :scheme=http :authority=a:1 :path=/?b";
        assert_eq!(shown(&Request::get("HTTP://a:1?b")), text);
        let text = ":method=OPTIONS :scheme=https :path=*";
        assert_eq!(shown(&Request::new("OPTIONS", "*").hostless()), text);
        let text = ":method=CONNECT :authority=a:1";
        assert_eq!(shown(&Request::new("CONNECT", "a:1")), text);
    }
}
