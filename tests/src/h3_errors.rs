//! Errors of a client of HTTP/3 (RFC 9114, RFC 9204, RFC 9218), one at a time, and input that is
//! allowed although it has no meaning here. Each is a row: bytes on streams, and the required
//! outcome.
//!
//! A row does not depend on a client. [`h3_error_tests!`](crate::h3_error_tests) makes a test of
//! each group for every client that can play a row: `tests/tests/black_box/h3_errors.rs` with
//! quinn, `tests/h3i/` with quiche.

mod malformed_messages;
mod qpack_errors;
mod streams_and_settings;

use crate::client::http3::{kind, stream};
use crate::client::qpack;
use crate::client::quic::{frame, integer};
use crate::matrix::{Form, Io, Way};
use crate::protocol::Protocol;
use crate::server::{Server, Start};
use crate::temporary_folder::Folder;
pub use malformed_messages::malformed;
pub use qpack_errors::{instructions, sections};
pub use streams_and_settings::{
    control_stream, frames, ignored, numbers, request_streams, settings, streams,
};

/// One error of a client, or a permitted input.
#[derive(Debug)]
pub struct Row {
    /// The section with the rule; of RFC 9114 unless another one is named.
    pub section: &'static str,
    /// The behaviour of the client, in words.
    pub case: String,
    /// The steps of the behaviour, in order.
    pub writes: Vec<Write>,
    /// The required outcome.
    pub outcome: Outcome,
}

/// The actions of a client on one stream.
#[derive(Clone, Debug)]
pub struct Write {
    /// The kind of the stream; a new one if the client can open it.
    pub on: Direction,
    /// All bytes that it sends there, at once.
    pub bytes: Vec<u8>,
    /// The state in which it leaves the stream after the bytes.
    pub end: End,
}

/// Kinds of streams, by their senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A request stream.
    Both,
    /// A unidirectional stream of the client; its type is in the bytes.
    Uni,
    /// The control stream of the server, which the client asks the server to stop.
    Stopped,
}

/// How the client leaves a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The stream stays open.
    Open,
    /// The last byte arrives together with the end of the stream.
    Fin,
    /// The stream is reset.
    Reset,
    /// The stream is reset when the server has read all bytes: when it has responded to
    /// [`harmless`].
    ResetLater,
}

/// The outcome of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The connection closes with this code.
    Connection(u64),
    /// The last request stream is reset with this code, and the next request gets its response.
    Stream(u64),
    /// The last request gets a response with this status, and so does the next one.
    Status(u16),
    /// Nothing happens: the next request gets its response.
    Nothing,
}

/// H3_REQUEST_CANCELLED, with which the client resets streams. Any other code would do as well.
pub const CANCELLED: u32 = 0x10c;

/// Returns a correct request, as the bytes of its stream. Its response has the status 200.
pub fn harmless() -> Vec<u8> {
    let first = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost")];
    section(&[&first[..], &[(":path", "/")]].concat())
}

/// Returns the client's control stream, correct in every way, with more frames.
fn control(frames: &[Vec<u8>]) -> Write {
    bare_control(&[&[frame(kind::SETTINGS, &[])], frames].concat())
}

/// Returns a control stream that may lack its settings.
fn bare_control(frames: &[Vec<u8>]) -> Write {
    uni(stream::CONTROL, &frames.concat())
}

fn uni(kind: u64, bytes: &[u8]) -> Write {
    let bytes = [&integer(kind)[..], bytes].concat();
    Write { on: Direction::Uni, bytes, end: End::Open }
}

/// Returns a request stream that ends after these frames.
fn request(frames: &[Vec<u8>]) -> Write {
    Write { on: Direction::Both, bytes: frames.concat(), end: End::Fin }
}

impl Write {
    /// Returns STOP_SENDING for the server's control stream.
    fn stop() -> Write {
        Write { on: Direction::Stopped, bytes: Vec::new(), end: End::Open }
    }

    fn left(self, end: End) -> Write {
        Write { end, ..self }
    }
}

/// Returns HEADERS with a correct request.
fn head() -> Vec<u8> {
    fields(&[])
}

/// Returns the same with further fields.
fn fields(more: &[(&str, &str)]) -> Vec<u8> {
    let first = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost")];
    section(&[&first[..], &[(":path", "/")], more].concat())
}

/// Returns HEADERS with these fields.
fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, &qpack::encode(fields))
}

/// Plays rows over both backends, each by `play` on a connection of its own, which returns the
/// outcome, or a description of an unknown one.
///
/// # Panics
/// Panics with all rows that have another outcome than the required one.
#[track_caller]
pub fn play_all(rows: &[Row], play: impl Fn(&Server, &Row) -> Result<Outcome, String>) {
    let site = Folder::with("h3-errors", [("index.html", "home")]);
    for io in Io::BOTH {
        let way = Way { protocol: Protocol::Http3, io, form: Form::Folder };
        let server = Start::site(site.path()).in_way(way).start();
        let mut wrong = Vec::new();
        for row in rows {
            let Row { section, case, outcome, .. } = row;
            let found = play(&server, row);
            if found.as_ref() != Ok(outcome) {
                wrong.push(format!("{section} {case}: {found:?}, not {outcome:?}"));
            }
        }
        assert!(wrong.is_empty(), "over {io:?}:\n{}", wrong.join("\n"));
        server.stop();
    }
}

/// Makes a test for each group of rows, with a function that `play_all` takes.
#[macro_export]
macro_rules! h3_error_tests {
    ($play:ident) => {
        $crate::h3_error_tests! { $play:
            violations_of_the_control_stream_are_errors = control_stream,
            invalid_settings_are_errors = settings,
            forbidden_streams_are_errors = streams,
            frames_that_request_streams_forbid_are_errors = request_streams,
            frames_of_a_wrong_length_are_errors = frames,
            malformed_messages_are_errors = malformed,
            impossible_identifiers_are_errors = numbers,
            undecodable_field_sections_are_errors = sections,
            instructions_for_an_absent_dynamic_table_are_errors = instructions,
            input_without_a_meaning_is_ignored = ignored,
        }
    };
    ($play:ident: $($test:ident = $group:ident,)+) => {$(
        #[test]
        fn $test() {
            $crate::h3_errors::play_all(&$crate::h3_errors::$group(), $play);
        }
    )+};
}
