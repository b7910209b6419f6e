//! Streams of HTTP/3: bytes cut in any way give the same events. Those of a request are equal to
//! the result of a simple reader of all frames from one buffer (RFC 9114 §4.1, §7.1); those of
//! unidirectional streams keep the connection within its memory limit.

use pinion_http::field::Fields;
use pinion_http::field_section::FieldSection;
use pinion_http::h3::event::{RequestStreamEvent, StreamError, UniEvent};
use pinion_http::h3::frame::ErrorCode;
use pinion_http::h3::limits::{BLOCK_MAX_BYTES, CONTROL_FRAME_MAX_BYTES};
use pinion_http::h3::request_stream::INPUT_MAX_BYTES;
use pinion_http::h3::session::{Session, SessionSettings};
use pinion_http::h3::unidirectional_streams::UniState;
use pinion_http::limits::{Limits, STREAMS_MAX};
use pinion_http::multiplexed_request_head;
use pinion_http::qpack::decoder;
use pinion_http::version::Version;

use super::extended_connect;

/// The events in words; consecutive content is joined.
type Seen = Vec<String>;

/// Checks a stream. The first byte determines its kind and the cuts. Returns the events.
pub(crate) fn check(data: &[u8]) -> Seen {
    let [how, bytes @ ..] = data else { return Vec::new() };
    let (fin, cut) = (how & 2 != 0, usize::from(how >> 2) + 1);
    if how & 1 == 0 {
        let whole = request(bytes, usize::MAX, fin);
        assert_eq!(whole, request(bytes, cut, fin), "cut every {cut}");
        assert_eq!(whole, plain(bytes, fin));
        whole
    } else {
        let whole = uni(bytes, usize::MAX, fin);
        assert_eq!(whole, uni(bytes, cut, fin), "cut every {cut}");
        whole
    }
}

/// Returns the parts of a stream, the last of which ends it.
fn parts(bytes: &[u8], cut: usize, fin: bool) -> Vec<(&[u8], bool)> {
    let mut parts: Vec<_> =
        bytes.chunks(cut.min(bytes.len()).max(1)).map(|part| (part, false)).collect();
    match parts.last_mut() {
        Some(last) => last.1 = fin,
        None if fin => parts.push((b"", true)),
        None => {}
    }
    parts
}

fn request(bytes: &[u8], cut: usize, fin: bool) -> Seen {
    let settings = SessionSettings { extended_connect: true, ..SessionSettings::default() };
    let mut session = Session::new(&settings, 0);
    let mut stream = session.begin(0, 0).expect("the first one");
    let mut section = FieldSection::new();
    let (mut seen, mut input) = (Seen::new(), Vec::new());
    for (part, fin) in parts(bytes, cut, fin) {
        input.extend_from_slice(part);
        let mut at = 0;
        while at < input.len() || fin {
            let (rest, mut place) = (&input[at..], None);
            let step = stream.step(rest, fin, &mut session, &mut section, &mut place, 0);
            let step = match step {
                Ok(step) => step,
                Err(error) => {
                    assert!(stream.is_ended());
                    seen.push(format!("{error:?}"));
                    return seen;
                }
            };
            at += step.used;
            assert!(at <= input.len());
            match step.event {
                RequestStreamEvent::NeedMore => {
                    assert_eq!(step.used, 0);
                    assert!(input.len() - at < INPUT_MAX_BYTES, "a whole frame waits for more");
                    break;
                }
                RequestStreamEvent::End => assert!(at == input.len() && fin),
                _ => assert!(step.used > 0, "an event that uses nothing"),
            }
            match step.event {
                RequestStreamEvent::NeedMore | RequestStreamEvent::Nothing => {}
                RequestStreamEvent::Data { bytes } => content(&mut seen, bytes),
                RequestStreamEvent::Trailers { fields } => {
                    seen.push(trailers_in_words(&fields, |_| true));
                }
                event => seen.push(format!("{event:?}")),
            }
            if stream.is_ended() {
                assert_eq!(at, input.len());
                return seen;
            }
        }
        input.drain(..at);
    }
    seen
}

fn content(seen: &mut Seen, bytes: &[u8]) {
    assert!(!bytes.is_empty());
    let text = bytes.escape_ascii().to_string();
    match seen.last_mut() {
        Some(last) if last.starts_with("content ") => last.push_str(&text),
        _ => seen.push(format!("content {text}")),
    }
}

/// The reason why reading a message stopped.
enum Over {
    /// There are no more bytes, and the stream has not ended.
    Waits,
    Fails(StreamError),
}

fn stream(code: ErrorCode) -> Over {
    Over::Fails(StreamError::Stream(code))
}

fn fatal(code: ErrorCode) -> Over {
    Over::Fails(StreamError::Connection(code.into()))
}

/// Reads a whole stream from one buffer.
fn plain(bytes: &[u8], fin: bool) -> Seen {
    let mut seen = Seen::new();
    if let Err(Over::Fails(error)) = message(bytes, fin, &mut seen) {
        seen.push(format!("{error:?}"));
    }
    seen
}

fn message(bytes: &[u8], fin: bool, seen: &mut Seen) -> Result<(), Over> {
    let limits = Limits::default();
    let mut section = FieldSection::new();
    let (mut at, mut head, mut trailers, mut trifles) = (0, false, false, 0);
    let (mut announced, mut tunnel): (Option<u64>, bool) = (None, false);
    let truncated = || if fin { fatal(ErrorCode::FrameError) } else { Over::Waits };
    while at < bytes.len() {
        let kind = number(bytes, &mut at).ok_or_else(truncated)?;
        let length = number(bytes, &mut at).ok_or_else(truncated)?;
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
        let rest = &bytes[at..];
        let payload = end.and_then(|end| bytes.get(at..end));
        at = end.unwrap_or(usize::MAX);
        match kind {
            0 if !head || trailers => return Err(fatal(ErrorCode::FrameUnexpected)),
            0 => {
                trifles += u32::from(length == 0);
                if let Some(left) = &mut announced {
                    let over = || stream(ErrorCode::MessageError);
                    *left = left.checked_sub(length).ok_or_else(over)?;
                }
                let there = payload.unwrap_or(rest);
                if trifles <= 1024 && !there.is_empty() {
                    content(seen, there);
                }
            }
            // RFC 9114 §4.4: a tunnel has no trailers.
            1 if trailers || tunnel => return Err(fatal(ErrorCode::FrameUnexpected)),
            1 if length > BLOCK_MAX_BYTES as u64 => {
                if head {
                    return Err(stream(ErrorCode::ExcessiveLoad));
                }
                let front = rest.get(..BLOCK_MAX_BYTES).ok_or_else(truncated)?;
                // The only requirement here is that the result does not depend on the cut.
                long(front, seen)?;
                head = true;
            }
            1 => {
                let payload = payload.ok_or_else(truncated)?;
                decoder::decode(payload, &mut section, &limits)
                    .map_err(|_| fatal(ErrorCode::QpackDecompressionFailed))?;
                if head {
                    trailers = true;
                    end_of_content(announced, &mut section, seen)?;
                } else {
                    head = true;
                    let last = fin && at == bytes.len();
                    (announced, tunnel) = begin(last, &section, &limits, seen)?;
                    if last {
                        return Ok(());
                    }
                }
            }
            2..=9 | 0xd | 0xf0700 | 0xf0701 => {
                return Err(fatal(ErrorCode::FrameUnexpected));
            }
            _ => trifles += 1,
        }
        if trifles > 1024 {
            let budget = pinion_http::flood_budget::Budget::Trifles;
            return Err(Over::Fails(StreamError::Connection(budget.into())));
        }
        if payload.is_none() {
            return Err(truncated());
        }
    }
    match (fin, head, announced) {
        (false, ..) => return Err(Over::Waits),
        (_, false, _) => return Err(stream(ErrorCode::RequestIncomplete)),
        (_, _, Some(1..)) => return Err(stream(ErrorCode::MessageError)),
        _ => seen.push("End".to_owned()),
    }
    Ok(())
}

/// Reads the head of a message; returns the announced length, and whether it opens a tunnel.
fn begin(
    end: bool,
    section: &FieldSection,
    limits: &Limits,
    seen: &mut Seen,
) -> Result<(Option<u64>, bool), Over> {
    use pinion_http::multiplexed_request_head::Rejected;
    let fields = section.fields();
    let head = multiplexed_request_head::of_section(Version::Http3, section, end, limits, true);
    extended_connect::check(&fields, &head);
    match head {
        Ok(head) => {
            seen.push(format!("{:?}", RequestStreamEvent::Head { head: &head, end }));
            Ok((multiplexed_request_head::content_length(&head), head.protocol.is_some()))
        }
        Err(Rejected::Malformed) => Err(stream(ErrorCode::MessageError)),
        Err(Rejected::Refused(refusal)) => {
            seen.push(format!("{:?}", RequestStreamEvent::HeadRefused { refusal, fields, end }));
            Ok((None, false))
        }
    }
}

/// Reads a head over the limit.
fn long(front: &[u8], seen: &mut Seen) -> Result<(), Over> {
    use pinion_http::hpack::CompressionError::Truncated;
    let mut section = FieldSection::new();
    match decoder::decode(front, &mut section, &Limits::default()) {
        Ok(_) | Err(Truncated) => {}
        Err(_) => return Err(fatal(ErrorCode::QpackDecompressionFailed)),
    }
    let fields = section.fields();
    let refusal = pinion_http::refusal::Refusal::HeadTooLarge;
    seen.push(format!("{:?}", RequestStreamEvent::HeadRefused { refusal, fields, end: false }));
    Ok(())
}

/// Reads trailers.
fn end_of_content(
    announced: Option<u64>,
    section: &mut FieldSection,
    seen: &mut Seen,
) -> Result<(), Over> {
    let fields = section.fields();
    if !multiplexed_request_head::trailers_fit(section) {
        return Err(stream(ErrorCode::ExcessiveLoad));
    }
    if matches!(announced, Some(1..)) || multiplexed_request_head::trailers(section).is_err() {
        return Err(stream(ErrorCode::MessageError));
    }
    seen.push(trailers_in_words(&fields, multiplexed_request_head::keep_trailer));
    Ok(())
}

fn trailers_in_words(fields: &Fields<'_>, keep: fn(&[u8]) -> bool) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let kept = fields.iter().filter(|field| keep(field.name));
    let kept = kept.map(|field| format!("{}: {}", text(field.name), text(field.value)));
    format!("trailers {:?}", kept.collect::<Vec<_>>())
}

/// Reads an integer (RFC 9000 §16).
fn number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    let length = [1, 2, 4, 8][usize::from(first / 64)];
    let all = bytes.get(*at..*at + length)?;
    *at += length;
    let mut value = u64::from(first % 64);
    for byte in &all[1..] {
        value = value * 256 + u64::from(*byte);
    }
    Some(value)
}

fn uni(bytes: &[u8], cut: usize, fin: bool) -> Seen {
    let mut session = Session::new(&SessionSettings::default(), 0);
    assert!(session.begin(0, 0).is_ok());
    let (mut state, mut seen) = (UniState::default(), Seen::new());
    for (part, fin) in parts(bytes, cut, fin) {
        let mut at = 0;
        loop {
            let step = match session.uni(&mut state, &part[at..], fin, 0) {
                Ok(step) => step,
                Err(error) => {
                    seen.push(format!("{error:?}"));
                    return seen;
                }
            };
            at += step.used;
            assert!(at <= part.len() && (step.used > 0 || part.is_empty()));
            let early = usize::from(STREAMS_MAX) * 32;
            assert!(session.memory_bytes() <= 2 * (CONTROL_FRAME_MAX_BYTES + early));
            if let UniEvent::Priority { stream, .. } = step.event {
                assert_eq!(stream, 0, "a stream that has not begun");
            }
            if step.event != UniEvent::Nothing {
                seen.push(format!("{:?}", step.event));
            }
            if at == part.len() {
                break;
            }
        }
    }
    seen
}
