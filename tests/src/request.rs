//! Requests, as bytes.

/// A request that is right in every way unless told otherwise: HTTP/1.1, with `Host`.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    target: String,
    version: &'static str,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A request of any method.
    pub fn new(method: &str, target: &str) -> Request {
        Request {
            method: method.to_owned(),
            target: target.to_owned(),
            version: "HTTP/1.1",
            fields: vec![("Host".to_owned(), "localhost".to_owned())],
            body: Vec::new(),
        }
    }

    /// `GET target`.
    pub fn get(target: &str) -> Request {
        Request::new("GET", target)
    }

    /// `HEAD target`.
    pub fn head(target: &str) -> Request {
        Request::new("HEAD", target)
    }

    /// The same with one more field.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl AsRef<str>) -> Request {
        self.fields.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The same for another host.
    #[must_use]
    pub fn host(self, host: &str) -> Request {
        self.hostless().field("Host", host)
    }

    /// The same without `Host`.
    #[must_use]
    pub fn hostless(mut self) -> Request {
        self.fields.retain(|(name, _)| name != "Host");
        self
    }

    /// The same in HTTP/1.0.
    #[must_use]
    pub fn http10(mut self) -> Request {
        self.version = "HTTP/1.0";
        self
    }

    /// The same with a body of known length.
    #[must_use]
    pub fn body(self, body: &[u8]) -> Request {
        let mut request = self.field("Content-Length", body.len().to_string());
        request.body = body.to_vec();
        request
    }

    /// The same with a body in chunks of at most `chunk_bytes`.
    #[must_use]
    pub fn chunked(self, body: &[u8], chunk_bytes: usize) -> Request {
        let mut request = self.field("Transfer-Encoding", "chunked");
        for chunk in body.chunks(chunk_bytes) {
            request.body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            request.body.extend_from_slice(chunk);
            request.body.extend_from_slice(b"\r\n");
        }
        request.body.extend_from_slice(b"0\r\n\r\n");
        request
    }

    /// Whether the answer has no body whatever it says.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// The bytes up to the blank line.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} {}\r\n", self.method, self.target, self.version);
        for (name, value) in &self.fields {
            bytes += &format!("{name}: {value}\r\n");
        }
        bytes += "\r\n";
        bytes.into_bytes()
    }

    /// The bytes behind the blank line.
    pub fn body_bytes(&self) -> &[u8] {
        &self.body
    }

    /// All of its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        [self.head_bytes().as_slice(), &self.body].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_as_the_standard_has_it() {
        let request = Request::new("POST", "/a?b").field("X", "y").chunked(b"hello", 3);
        let text = "POST /a?b HTTP/1.1\r\nHost: localhost\r\nX: y\r\nTransfer-Encoding: chunked\
                    \r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        assert_eq!(String::from_utf8(request.bytes()).expect("ASCII"), text);
        let old = Request::head("/").http10().body(b"x");
        assert!(old.is_head() && old.bytes().ends_with(b"Content-Length: 1\r\n\r\nx"));
    }
}
