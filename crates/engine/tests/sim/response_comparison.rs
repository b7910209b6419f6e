//! Compares the received bytes of a client with the model, byte for byte. Only two things are open:
//! which of several correct dates a response has, and where chunks begin and end.

use crate::request_model::{Body, CLOSE, CONTINUE, Response, page};

const DATE_BYTES: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();

/// Returns whether the clock showed a second between the first byte of the nth request, counted
/// from 0, and now.
pub(crate) type Dates<'d> = dyn Fn(usize, i64) -> bool + 'd;

/// The result of comparing the received bytes with one response.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Match {
    /// This many bytes are the whole response.
    Whole(usize),
    /// All bytes agree, and some are missing.
    Part,
    /// The bytes differ.
    Wrong(String),
}

/// Responses that a connection may get instead of the expected ones, because of the behaviour of
/// its client or of the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowed {
    /// Error pages that may be the last response.
    pub(crate) pages: Vec<u16>,
    /// Whether any response may be the last.
    pub(crate) any_may_close: bool,
}

/// Reads the responses of one connection.
pub(crate) struct Reader {
    responses: Vec<Response>,
    allowed: Allowed,
    /// Responses that were read in full.
    pub(crate) complete: usize,
    /// Whether the last response announced, or showed, that nothing follows.
    pub(crate) over: bool,
    at: usize,
}

impl Reader {
    pub(crate) fn new(responses: Vec<Response>, allowed: Allowed) -> Self {
        Self { responses, allowed, complete: 0, over: false, at: 0 }
    }

    /// Returns the number of expected responses.
    pub(crate) fn expected(&self) -> usize {
        self.responses.len()
    }

    /// Returns the number of responses that a well-behaved client must get. An aborted response
    /// also discards earlier ones that were not read before it was requested.
    pub(crate) fn needed(&self, in_turn: bool) -> usize {
        let broken =
            |response: &Response| matches!(response.body, Body::Broken(_) | Body::BrokenChunks(_));
        match (self.responses.last().is_some_and(broken), in_turn) {
            (true, true) => self.responses.len() - 1,
            (true, false) => 0,
            (false, _) => self.responses.len(),
        }
    }

    /// Checks all received bytes so far. A date is checked as soon as it has arrived.
    ///
    /// # Errors
    /// Returns a description of the difference.
    pub(crate) fn look(&mut self, received: &[u8], was_right: &Dates) -> Result<(), String> {
        while self.at < received.len() {
            let rest = &received[self.at..];
            let nth = self.complete;
            let was_right = |second| was_right(nth, second);
            if self.over {
                return Err(format!("{} bytes behind the last answer: {}", rest.len(), show(rest)));
            }
            let Some(response) = self.responses.get(self.complete) else {
                return self.look_for_page(rest, "an answer to a request never sent", &was_right);
            };
            match match_response(response, &response.connection, rest, &was_right) {
                Match::Whole(bytes) => {
                    self.over = response.closes;
                    self.complete += 1;
                    self.at += bytes;
                    continue;
                }
                Match::Part => return Ok(()),
                Match::Wrong(why) => {
                    if !self.allowed.any_may_close {
                        return self.look_for_page(rest, &why, &was_right);
                    }
                    match match_response(response, CLOSE, rest, &was_right) {
                        Match::Whole(bytes) => {
                            self.over = true;
                            self.complete += 1;
                            self.at += bytes;
                        }
                        Match::Part => return Ok(()),
                        Match::Wrong(_) => return self.look_for_page(rest, &why, &was_right),
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether the received bytes end in the middle of a response. A page that refuses HEAD
    /// ends with its head.
    pub(crate) fn is_within(&self, received: &[u8]) -> bool {
        received.get(self.at..).is_some_and(|rest| !rest.is_empty() && !rest.ends_with(b"\r\n\r\n"))
    }

    /// Checks whether an error page was received instead of the expected response.
    fn look_for_page(
        &mut self,
        rest: &[u8],
        instead: &str,
        was_right: &dyn Fn(i64) -> bool,
    ) -> Result<(), String> {
        let expected = self.responses.get(self.complete);
        let interim = expected.is_some_and(|response| response.start.starts_with(CONTINUE));
        for &status in &self.allowed.pages {
            let mut response = page(status);
            if interim && rest.starts_with(CONTINUE) {
                // The interim response came too late for the requested content.
                response.start.splice(0..0, CONTINUE.iter().copied());
            }
            match match_response(&response, &response.connection, rest, was_right) {
                Match::Whole(bytes) if bytes == rest.len() => {
                    self.at += bytes;
                    self.over = true;
                    return Ok(());
                }
                Match::Part => return Ok(()),
                Match::Whole(_) | Match::Wrong(_) => {}
            }
        }
        Err(format!("answer {}: {instead}; received {}", self.complete + 1, show(rest)))
    }
}

fn match_response(
    response: &Response,
    connection: &[u8],
    received: &[u8],
    was_right: &dyn Fn(i64) -> bool,
) -> Match {
    let mut expected = response.start.clone();
    let dated = !matches!(response.body, Body::Stream(_));
    expected.extend_from_slice(connection);
    let mut at = match match_bytes(&expected, received) {
        Match::Whole(bytes) => bytes,
        other => return other,
    };
    if dated {
        at += match match_date(&received[at..], was_right) {
            Match::Whole(bytes) => bytes,
            other => return other,
        };
    }
    let body = match_body(&response.body, &received[at..]);
    if let Match::Whole(bytes) = body { Match::Whole(at + bytes) } else { body }
}

fn match_bytes(expected: &[u8], received: &[u8]) -> Match {
    let common = expected.len().min(received.len());
    // A response is compared again as a whole whenever a part of it arrives, so this must be fast.
    if expected[..common] != received[..common] {
        let at = (0..common).find(|&at| expected[at] != received[at]).unwrap_or(common);
        return Match::Wrong(format!("differs at byte {at}, expected {}", show(&expected[at..])));
    }
    if common == expected.len() { Match::Whole(common) } else { Match::Part }
}

/// Compares the `Date` field, whose second must have been correct, and the end of the head.
fn match_date(received: &[u8], was_right: &dyn Fn(i64) -> bool) -> Match {
    const NAME: &[u8] = b"Date: ";
    let mut line = NAME.to_vec();
    let Some(date) = received.get(NAME.len()..NAME.len() + DATE_BYTES) else {
        let common = NAME.len().min(received.len());
        return match match_bytes(&NAME[..common], received.get(..common).unwrap_or_default()) {
            Match::Whole(_) => Match::Part,
            other => other,
        };
    };
    match pinion_http::date::parse(date, 1_790_000_000) {
        Some(second) if was_right(second) => {}
        Some(_) => return Match::Wrong(format!("a date that was never right: {}", show(date))),
        None => return Match::Wrong(format!("no date: {}", show(date))),
    }
    line.extend_from_slice(date);
    line.extend_from_slice(b"\r\n\r\n");
    match_bytes(&line, received)
}

fn match_body(body: &Body, received: &[u8]) -> Match {
    match body {
        Body::Plain(content) | Body::Stream(content) => match_bytes(content, received),
        Body::Broken(content) => match match_bytes(content, received) {
            Match::Whole(bytes) if bytes < received.len() => {
                Match::Wrong("more than was written".to_owned())
            }
            // The missing bytes never come.
            Match::Whole(_) => Match::Part,
            other => other,
        },
        Body::Chunked(content, trailers) => match_chunks(content, trailers, received),
        Body::BrokenChunks(content) => match match_chunks(content, b"", received) {
            Match::Whole(_) => Match::Wrong("an answer that must not be whole".to_owned()),
            other => other,
        },
    }
}

fn match_chunks(mut content: &[u8], trailers: &[u8], received: &[u8]) -> Match {
    let mut at = 0;
    loop {
        let rest = &received[at..];
        let Some(line) = rest.windows(2).position(|two| two == b"\r\n") else {
            return Match::Part;
        };
        let size = std::str::from_utf8(&rest[..line]).ok();
        let Some(size) = size.and_then(|size| usize::from_str_radix(size, 16).ok()) else {
            return Match::Wrong(format!("no chunk size: {}", show(rest)));
        };
        at += line + 2;
        if size == 0 {
            break;
        }
        if size > content.len() {
            return Match::Wrong(format!("{} bytes too much", size - content.len()));
        }
        for part in [&content[..size], b"\r\n"] {
            match match_bytes(part, &received[at..]) {
                Match::Whole(bytes) => at += bytes,
                other => return other,
            }
        }
        content = &content[size..];
    }
    if !content.is_empty() {
        return Match::Wrong(format!("{} bytes too few", content.len()));
    }
    let mut end = trailers.to_vec();
    end.extend_from_slice(b"\r\n");
    match match_bytes(&end, &received[at..]) {
        Match::Whole(bytes) => Match::Whole(at + bytes),
        other => other,
    }
}

/// Returns the beginning of some bytes, for a message.
fn show(bytes: &[u8]) -> String {
    let some = &bytes[..bytes.len().min(120)];
    format!("{:?} ({} bytes)", String::from_utf8_lossy(some), bytes.len())
}

/// Sun, 06 Nov 1994 08:49:37 GMT.
const SECOND: i64 = 784_111_777;
const RIGHT: fn(usize, i64) -> bool = |_, second| second == SECOND;

#[test]
fn a_reader_finds_wrong_bytes() {
    let responses = || vec![page(404)];
    let whole = {
        let mut whole = responses()[0].start.clone();
        whole.extend_from_slice(CLOSE);
        whole.extend_from_slice(b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n");
        whole.extend_from_slice(
            pinion_http::error_page::page(404, pinion_http::error_page::ErrorFormat::Html).body,
        );
        whole
    };
    for until in 0..whole.len() {
        let mut reader = Reader::new(responses(), Allowed::default());
        reader.look(&whole[..until], &RIGHT).expect("a part is no error");
        assert_eq!(reader.complete, 0);
        let mut wrong = whole.clone();
        wrong[until] ^= 0x80;
        let mut reader = Reader::new(responses(), Allowed::default());
        assert!(reader.look(&wrong, &RIGHT).is_err(), "byte {until} was changed unnoticed");
    }
    let mut reader = Reader::new(responses(), Allowed::default());
    reader.look(&whole, &RIGHT).expect("right");
    assert_eq!((reader.complete, reader.over), (1, true));
    assert!(reader.look(&[&whole[..], b"H"].concat(), &RIGHT).is_err(), "a byte too much");
    let late =
        Reader::new(responses(), Allowed::default()).look(&whole, &|_, second| second > SECOND);
    assert!(late.is_err(), "a date that was never right");
}

#[test]
fn chunks_may_have_any_size_but_must_hold_the_content() {
    let body = Body::Chunked(b"hello".to_vec(), b"");
    for right in [&b"5\r\nhello\r\n0\r\n\r\n"[..], b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"] {
        assert_eq!(match_body(&body, right), Match::Whole(right.len()));
    }
    for wrong in
        [&b"4\r\nhell\r\n0\r\n\r\n"[..], b"6\r\nhello!\r\n0\r\n\r\n", b"x\r\n", b"5\r\nhelpo"]
    {
        assert!(matches!(match_body(&body, wrong), Match::Wrong(_)), "{}", show(wrong));
    }
}
