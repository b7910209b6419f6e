//! A request stream of HTTP/3 through the wire machine: from the bytes of its frame to a head.

use std::hint::black_box;

use pinion_http::field_section::FieldSection;
use pinion_http::h3::event::RequestStreamEvent;
use pinion_http::h3::session::{Session, SessionSettings};

use crate::header_compression::Compressed;

/// A connection, and the stream that comes again and again.
pub(crate) struct Http3 {
    session: Session,
    section: FieldSection,
    next_stream: u64,
    stream: Vec<u8>,
}

impl Http3 {
    pub(crate) fn new() -> Http3 {
        let section = Compressed::new().of_qpack();
        // HEADERS, of a length in two bytes.
        let [high, low] = (section.len() as u16 | 0x4000).to_be_bytes();
        Http3 {
            session: Session::new(&SessionSettings::default(), 0),
            section: FieldSection::new(),
            next_stream: 0,
            stream: [&[1, high, low], &section[..]].concat(),
        }
    }

    pub(crate) fn request(&mut self) -> u64 {
        let Http3 { session, section, next_stream, stream } = self;
        let Ok(mut request) = session.begin(*next_stream, 0) else { return 0 };
        *next_stream += 4;
        let mut place = None;
        let step = request.step(black_box(stream), true, session, section, &mut place, 0);
        step.map_or(0, |step| happened(&step.event))
    }
}

/// Reads an event as the engine does, in a separate function.
#[inline(never)]
fn happened(event: &RequestStreamEvent<'_>) -> u64 {
    match black_box(event) {
        RequestStreamEvent::Head { head, .. } => head.fields.len() as u64,
        _ => 0,
    }
}
