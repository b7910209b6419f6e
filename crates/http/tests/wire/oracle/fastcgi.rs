//! Responses over FastCGI: complete records from one buffer, one after the other (§3.3, §5 of the
//! specification). [`plain_cgi_output`](super::plain_cgi_output) parses the output in them.

use pinion_http::cgi::error::CgiError;
use pinion_http::fastcgi::error::FastCgiError;
use pinion_http::fastcgi::limits::{IGNORED_RECORDS_MAX, STDERR_MAX_BYTES};
use pinion_http::fastcgi::response_reader::FastCgiReader;
use pinion_http::h1::client::response_parser::{InputEnd, Persistence};

use super::plain_cgi_output::{Case, Ended, Event, Found, PlainOutput, Step, plain_output, run};

/// Checks an input. The first byte selects the request, the limits and the end of the input, see
/// [`Case`]; the second one determines the cuts and the space for output. The rest is the bytes of
/// an application.
pub(crate) fn check(data: &[u8]) {
    let [kind, cut, wire @ ..] = data else { return };
    check_case(&Case::of(*kind), wire, usize::from(*cut));
}

/// Panics if the result of the reader differs from that of reading record by record, or depends on
/// the cuts.
pub(crate) fn check_case(case: &Case, wire: &[u8], cut: usize) -> Found<FastCgiError> {
    let read = |cut| {
        let mut reader = FastCgiReader::new(case.request, &case.limits);
        run(case.end, wire, cut, |input, end, room, storage| {
            reader.step(input, end, room, storage).map(|step| Step::of(&step))
        })
    };
    let found = read(0);
    for cut in [cut, 1] {
        assert_eq!(found, read(cut), "in parts of {cut} bytes: {}", wire.escape_ascii());
    }
    let plain = Records::default().read(case, wire);
    assert_eq!(found, plain, "{}", wire.escape_ascii());
    if matches!(found.ended, Ended::End(_)) {
        let ends = wire.windows(2).any(|bytes| bytes == [1, 3]);
        assert!(ends, "a response without the end of a request is never complete");
    }
    found
}

/// The data in the records of a response.
#[derive(Default)]
struct Records {
    stdout: Vec<u8>,
    stderr: u64,
    /// Streams that have ended.
    ended: [bool; 2],
    ignored: u32,
    events: Vec<Event>,
    /// Events of the output that are in `events`.
    output_events: usize,
    /// Bytes of content that are in `events`.
    content: usize,
}

impl Records {
    fn read(mut self, case: &Case, wire: &[u8]) -> Found<FastCgiError> {
        let ended = match self.records(case, wire) {
            Ok(Some(persistence)) => Ended::End(persistence),
            Ok(None) if case.end == InputEnd::Open => Ended::NeedMore,
            Ok(None) if wire.is_empty() => Ended::Error(FastCgiError::NoResponse),
            Ok(None) => Ended::Error(FastCgiError::Aborted),
            Err(error) => Ended::Error(error),
        };
        Found { events: self.events, ended }
    }

    /// Reads records until the end of the request, which gives the persistence.
    fn records(&mut self, case: &Case, wire: &[u8]) -> Result<Option<Persistence>, FastCgiError> {
        let mut at = 0;
        while at < wire.len() {
            if wire[at] != 1 {
                return Err(FastCgiError::Version { version: wire[at] });
            }
            let Some(&[_, kind, id_1, id_0, length_1, length_0, padding, _]) =
                wire.get(at..at + 8).and_then(|header| header.as_array())
            else {
                return Ok(None);
            };
            let id = u16::from_be_bytes([id_1, id_0]);
            let length = usize::from(length_1) * 256 + usize::from(length_0);
            let content = &wire[at + 8..wire.len().min(at + 8 + length)];
            at += 8 + length + usize::from(padding);
            match (kind, id) {
                (3 | 6 | 7, 1) | (10 | 11, 0) => {}
                (3 | 6 | 7 | 10 | 11, _) => return Err(FastCgiError::RequestId { id }),
                _ => return Err(FastCgiError::RecordType { kind }),
            }
            match kind {
                3 if length != 8 => return Err(FastCgiError::EndRequest),
                3 if content.len() < 8 => return Ok(None),
                3 => {
                    self.end(case, content[4])?;
                    let close = case.request.close;
                    let persistence = if close { Persistence::Close } else { Persistence::Reuse };
                    return Ok((at <= wire.len()).then_some(persistence));
                }
                10 | 11 => self.ignore()?,
                _ => self.stream(case, kind, length, content)?,
            }
        }
        Ok(None)
    }

    fn ignore(&mut self) -> Result<(), FastCgiError> {
        self.ignored += 1;
        if self.ignored > IGNORED_RECORDS_MAX { Err(FastCgiError::TooManyRecords) } else { Ok(()) }
    }

    fn stream(
        &mut self,
        case: &Case,
        kind: u8,
        length: usize,
        content: &[u8],
    ) -> Result<(), FastCgiError> {
        let ended = &mut self.ended[usize::from(kind == 7)];
        match (length, *ended) {
            (0, true) => return self.ignore(),
            (0, false) => {
                *ended = true;
                return Ok(());
            }
            (_, true) => return Err(FastCgiError::StreamEnded),
            (_, false) => {}
        }
        if kind == 7 {
            let given = (STDERR_MAX_BYTES - self.stderr).min(content.len() as u64) as usize;
            self.stderr += given as u64;
            self.push(Event::Stderr(content[..given].to_vec()));
            return Ok(());
        }
        self.stdout.extend_from_slice(content);
        let PlainOutput { events, error, .. } = plain_output(case, &self.stdout);
        let mut rest = events.into_iter().skip(self.output_events.min(1));
        if self.output_events == 0
            && let Some(event) = rest.next()
        {
            self.output_events = 1;
            self.push(event);
        }
        if let Some(Event::Content(bytes)) = rest.next() {
            let fresh = bytes[self.content..].to_vec();
            self.content = bytes.len();
            self.push(Event::Content(fresh));
        }
        error.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Adds an event; data of the same stream as the last one is appended to it.
    fn push(&mut self, event: Event) {
        match (event, self.events.last_mut()) {
            (Event::Content(bytes) | Event::Stderr(bytes), _) if bytes.is_empty() => {}
            (Event::Content(bytes), Some(Event::Content(all)))
            | (Event::Stderr(bytes), Some(Event::Stderr(all))) => all.extend(bytes),
            (event, _) => self.events.push(event),
        }
    }

    fn end(&mut self, case: &Case, status: u8) -> Result<(), FastCgiError> {
        match status {
            0 => {}
            1 => return Err(FastCgiError::CannotMultiplex),
            2 => return Err(FastCgiError::Overloaded),
            3 => return Err(FastCgiError::UnknownRole),
            status => return Err(FastCgiError::ProtocolStatus { status }),
        }
        let error: Option<CgiError> = plain_output(case, &self.stdout).error_at_end;
        error.map_or(Ok(()), |error| Err(error.into()))
    }
}
