//! What a client of HTTP/3 must not do (RFC 9114, RFC 9204, RFC 9218), one thing at a time, and
//! what it may do although it means nothing here. Each is a row of `rows.rs` or of a file beside
//! it: bytes on streams, and what has to come of them.
#![forbid(unsafe_code)]

mod compression;
mod messages;
mod rows;

use pinion_tests::client::http3::{kind, stream};
use pinion_tests::client::qpack;
use pinion_tests::client::quic::{Quic, at_once, frame, integer, take_frame, wait};
use pinion_tests::folder::Folder;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use quinn::{ConnectionError, ReadToEndError, RecvStream, SendStream, VarInt};

/// One misdeed, or something that is none.
struct Row {
    /// The section that says so; RFC 9114 unless another one is named.
    section: &'static str,
    what: String,
    writes: Vec<Write>,
    outcome: Outcome,
}

/// What a client does on one stream.
struct Write {
    on: Direction,
    bytes: Vec<u8>,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// A request stream.
    Both,
    /// One of the client alone; its type is in the bytes.
    Uni,
    /// The control stream of the server: the client wants nothing more of it.
    Stopped,
}

/// How the client leaves a stream.
#[derive(Clone, Copy)]
enum End {
    Open,
    Fin,
    Reset,
    /// Reset when the server has read what there is.
    ResetLater,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The connection closes with this code.
    Connection(u64),
    /// The last request stream is reset with this code, and the next request is answered.
    Stream(u64),
    /// The last request is answered like this, and so is the next one.
    Status(u16),
    /// Nothing comes of it: the next request is answered.
    Nothing,
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

/// H3_REQUEST_CANCELLED, as good as any other code.
const CANCELLED: VarInt = VarInt::from_u32(0x10c);

struct Played {
    quic: Quic,
    /// The last request stream.
    last: Option<RecvStream>,
    /// Streams must not end because the test lets go of them.
    _open: Vec<SendStream>,
}

/// Does what a row says, on a connection of its own. The server may have closed it before the end.
fn play(server: &Server, writes: &[Write]) -> Played {
    let quic = Quic::open(server.peer()).expect("a connection");
    let (mut last, mut open) = (None, Vec::new());
    for write in writes {
        let opened = match write.on {
            Direction::Stopped => {
                stop_control(&quic);
                continue;
            }
            Direction::Uni => wait(quic.connection().open_uni()).expect("no wait"),
            Direction::Both => {
                let opened = wait(quic.connection().open_bi()).expect("no wait");
                opened.map(|(sender, receiver)| {
                    last = Some(receiver);
                    sender
                })
            }
        };
        let Ok(mut sender) = opened else { break };
        let (bytes, end) = (write.bytes.clone(), write.end);
        // Together: that the stream ends is known with the last of its bytes.
        let written = at_once(async move {
            let _closed_meanwhile = sender.write_all(&bytes).await;
            let _stopped_meanwhile = match end {
                End::Open | End::ResetLater => Ok(()),
                End::Fin => sender.finish(),
                End::Reset => sender.reset(CANCELLED),
            };
            sender
        });
        let mut sender = written.expect("room");
        if let End::ResetLater = write.end {
            // What comes behind those bytes has been answered.
            assert_eq!(next(&quic), Ok(Outcome::Status(200)), "before a reset");
            sender.reset(CANCELLED).expect("an open stream");
        }
        open.push(sender);
    }
    Played { quic, last, _open: open }
}

/// The only stream that a server opens is its control stream: it promises nothing, and neither side
/// of QPACK has a table.
fn stop_control(quic: &Quic) {
    let control = wait(quic.connection().accept_uni()).expect("no wait");
    control.expect("a stream").stop(CANCELLED).expect("an open stream");
}

impl Played {
    /// What came of it.
    fn outcome(mut self, wanted: Outcome) -> Result<Outcome, String> {
        let found = match (wanted, self.last.take()) {
            (Outcome::Connection(_), _) => return self.closed(),
            (Outcome::Nothing, _) => Outcome::Nothing,
            (_, Some(last)) => answered(last)?,
            (_, None) => return Err("no request".to_owned()),
        };
        match next(&self.quic)? {
            Outcome::Status(200) => Ok(found),
            other => Err(format!("{other:?} for the next request, behind {found:?}")),
        }
    }

    fn closed(&self) -> Result<Outcome, String> {
        let error = wait(self.quic.connection().closed());
        match error.map_err(|_| "it is still open")? {
            ConnectionError::ApplicationClosed(closed) => {
                Ok(Outcome::Connection(closed.error_code.into_inner()))
            }
            other => Err(other.to_string()),
        }
    }
}

/// The answer to a request that is right.
fn next(quic: &Quic) -> Result<Outcome, String> {
    let first = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost")];
    let bytes = section(&[&first[..], &[(":path", "/")]].concat());
    let opened = wait(quic.connection().open_bi()).expect("no wait");
    let (mut sender, receiver) = opened.map_err(|error| error.to_string())?;
    let written = wait(sender.write_all(&bytes)).expect("room");
    written.map_err(|error| error.to_string())?;
    sender.finish().map_err(|error| error.to_string())?;
    answered(receiver)
}

/// What came on a request stream.
fn answered(mut stream: RecvStream) -> Result<Outcome, String> {
    let mut bytes = match wait(stream.read_to_end(1 << 20)).map_err(|_| "no end")? {
        Ok(bytes) => bytes,
        Err(ReadToEndError::Read(quinn::ReadError::Reset(code))) => {
            return Ok(Outcome::Stream(code.into_inner()));
        }
        Err(error) => return Err(format!("{error:?}")),
    };
    let Some((kind::HEADERS, block)) = take_frame(&mut bytes) else {
        return Err(format!("no head in front: {}", bytes.escape_ascii()));
    };
    match qpack::decode(&block)?.first() {
        Some((name, status)) if name == b":status" => {
            let status = String::from_utf8_lossy(status).parse();
            status.map(Outcome::Status).map_err(|_| "no number".to_owned())
        }
        other => Err(format!("{other:?} in front")),
    }
}

fn site() -> Folder {
    Folder::with("h3-errors", [("index.html", "home")])
}

/// Plays all rows and tells of all that come to something else.
#[track_caller]
fn all(rows: &[Row]) {
    let site = site();
    for io in Io::BOTH {
        let way = Way { protocol: Protocol::Http3, io, form: Form::Folder };
        let server = Start::site(site.path()).in_way(way).start();
        let mut wrong = Vec::new();
        for Row { section, what, writes, outcome } in rows {
            let found = play(&server, writes).outcome(*outcome);
            if found.as_ref() != Ok(outcome) {
                wrong.push(format!("{section} {what}: {found:?}, not {outcome:?}"));
            }
        }
        assert!(wrong.is_empty(), "over {io:?}:\n{}", wrong.join("\n"));
        server.stop();
    }
}

#[test]
fn what_a_control_stream_may_not_have() {
    all(&rows::control_stream());
}

#[test]
fn settings_that_may_not_be() {
    all(&rows::settings());
}

#[test]
fn streams_that_may_not_be() {
    all(&rows::streams());
}

#[test]
fn frames_that_have_no_place_on_a_request_stream() {
    all(&rows::request_streams());
}

#[test]
fn frames_that_are_not_what_they_say() {
    all(&rows::frames());
}

#[test]
fn messages_that_are_malformed() {
    all(&messages::all());
}

#[test]
fn numbers_that_cannot_be() {
    all(&rows::numbers());
}

#[test]
fn compression_that_cannot_be_undone() {
    all(&compression::sections());
}

#[test]
fn instructions_for_a_table_that_is_not_there() {
    all(&compression::instructions());
}

#[test]
fn what_means_nothing_is_passed_over() {
    all(&rows::ignored());
}
