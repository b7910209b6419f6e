//! What a client of HTTP/3 must not do (RFC 9114, RFC 9204, RFC 9218), one thing at a time, and
//! what it may do although it means nothing here. Each is a row: bytes on streams, and what has to
//! come of them.
//!
//! A row names no client. [`h3_error_tests!`](crate::h3_error_tests) makes a test of each group,
//! for whoever can do what a row says: `tests/tests/black_box/h3_errors.rs` by quinn, `tests/h3i/`
//! by quiche.

mod compression;
mod messages;
mod rows;

use crate::client::http3::{kind, stream};
use crate::client::qpack;
use crate::client::quic::{frame, integer};
use crate::folder::Folder;
use crate::matrix::{Form, Io, Way};
use crate::protocol::Protocol;
use crate::server::{Server, Start};
pub use compression::{instructions, sections};
pub use messages::malformed;
pub use rows::{control_stream, frames, ignored, numbers, request_streams, settings, streams};

/// One misdeed, or something that is none.
#[derive(Debug)]
pub struct Row {
    /// The section that says so; RFC 9114 unless another one is named.
    pub section: &'static str,
    /// What the client does.
    pub what: String,
    /// How it does it, one after the other.
    pub writes: Vec<Write>,
    /// What has to come of it.
    pub outcome: Outcome,
}

/// What a client does on one stream.
#[derive(Clone, Debug)]
pub struct Write {
    /// Which stream that is; a new one if the client can open it.
    pub on: Direction,
    /// All that it sends there, at once.
    pub bytes: Vec<u8>,
    /// What it does behind them.
    pub end: End,
}

/// Streams, by who sends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A request stream.
    Both,
    /// One of the client alone; its type is in the bytes.
    Uni,
    /// The control stream of the server: the client wants nothing more of it.
    Stopped,
}

/// How the client leaves a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It may send more.
    Open,
    /// Together with the last byte it says that it is the last one.
    Fin,
    /// It takes back what it has sent.
    Reset,
    /// Reset when the server has read what there is: when it has answered [`harmless`].
    ResetLater,
}

/// What comes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The connection closes with this code.
    Connection(u64),
    /// The last request stream is reset with this code, and the next request is answered.
    Stream(u64),
    /// The last request is answered like this, and so is the next one.
    Status(u16),
    /// Nothing comes of it: the next request is answered.
    Nothing,
}

/// H3_REQUEST_CANCELLED, as good as any other code for what a client takes back.
pub const CANCELLED: u32 = 0x10c;

/// A request that is right, as the bytes of its stream. Its answer has the status 200.
pub fn harmless() -> Vec<u8> {
    let first = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost")];
    section(&[&first[..], &[(":path", "/")]].concat())
}

/// The client's control stream, right in every way, with more frames.
fn control(frames: &[Vec<u8>]) -> Write {
    bare_control(&[&[frame(kind::SETTINGS, &[])], frames].concat())
}

/// A control stream that may lack its settings.
fn bare_control(frames: &[Vec<u8>]) -> Write {
    uni(stream::CONTROL, &frames.concat())
}

fn uni(kind: u64, bytes: &[u8]) -> Write {
    let bytes = [&integer(kind)[..], bytes].concat();
    Write { on: Direction::Uni, bytes, end: End::Open }
}

/// A request stream that ends behind these frames.
fn request(frames: &[Vec<u8>]) -> Write {
    Write { on: Direction::Both, bytes: frames.concat(), end: End::Fin }
}

impl Write {
    /// STOP_SENDING for the server's control stream.
    fn stop() -> Write {
        Write { on: Direction::Stopped, bytes: Vec::new(), end: End::Open }
    }

    fn left(self, end: End) -> Write {
        Write { end, ..self }
    }
}

/// HEADERS with a request that is right.
fn head() -> Vec<u8> {
    fields(&[])
}

/// The same with further fields.
fn fields(more: &[(&str, &str)]) -> Vec<u8> {
    let first = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost")];
    section(&[&first[..], &[(":path", "/")], more].concat())
}

/// HEADERS with these fields.
fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, &qpack::encode(fields))
}

/// Plays rows over both backends, each by `play` on a connection of its own, which gives what came
/// of it or what it cannot make sense of.
///
/// # Panics
/// When a row comes to something else than it has to; with all that do.
#[track_caller]
pub fn play_all(rows: &[Row], play: impl Fn(&Server, &Row) -> Result<Outcome, String>) {
    let site = Folder::with("h3-errors", [("index.html", "home")]);
    for io in Io::BOTH {
        let way = Way { protocol: Protocol::Http3, io, form: Form::Folder };
        let server = Start::site(site.path()).in_way(way).start();
        let mut wrong = Vec::new();
        for row in rows {
            let Row { section, what, outcome, .. } = row;
            let found = play(&server, row);
            if found.as_ref() != Ok(outcome) {
                wrong.push(format!("{section} {what}: {found:?}, not {outcome:?}"));
            }
        }
        assert!(wrong.is_empty(), "over {io:?}:\n{}", wrong.join("\n"));
        server.stop();
    }
}

/// A test for each group of rows, for a function that `play_all` takes.
#[macro_export]
macro_rules! h3_error_tests {
    ($play:ident) => {
        $crate::h3_error_tests! { $play:
            what_a_control_stream_may_not_have = control_stream,
            settings_that_may_not_be = settings,
            streams_that_may_not_be = streams,
            frames_that_have_no_place_on_a_request_stream = request_streams,
            frames_that_are_not_what_they_say = frames,
            messages_that_are_malformed = malformed,
            numbers_that_cannot_be = numbers,
            compression_that_cannot_be_undone = sections,
            instructions_for_a_table_that_is_not_there = instructions,
            what_means_nothing_is_passed_over = ignored,
        }
    };
    ($play:ident: $($test:ident = $group:ident,)+) => {$(
        #[test]
        fn $test() {
            $crate::h3_errors::play_all(&$crate::h3_errors::$group(), $play);
        }
    )+};
}
