//! Errors that a client of HTTP/3 must not make, and input that is allowed although it has no
//! meaning here: the rows of `pinion_tests::h3_errors`, played by quinn.

use pinion_tests::client::http3::kind;
use pinion_tests::client::qpack;
use pinion_tests::client::quic::{Quic, at_once, take_frame, wait};
use pinion_tests::h3_errors::{self, Direction, End, Outcome, Row, Write, harmless};
use pinion_tests::server::Server;
use quinn::{ConnectionError, ReadToEndError, RecvStream, SendStream, VarInt};

const CANCELLED: VarInt = VarInt::from_u32(h3_errors::CANCELLED);

struct Played {
    quic: Quic,
    /// The last request stream.
    last: Option<RecvStream>,
    /// Senders that are kept so that their streams do not end when they are dropped.
    _open: Vec<SendStream>,
}

/// Plays a row on a new connection. The server may have closed it before the end.
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
        // Both are sent together, so that the end of the stream arrives with its last byte.
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
            // The request after those bytes has got its response.
            assert_eq!(next(&quic), Ok(Outcome::Status(200)), "before a reset");
            sender.reset(CANCELLED).expect("an open stream");
        }
        open.push(sender);
    }
    Played { quic, last, _open: open }
}

/// Stops the control stream of the server, which is the only stream that it opens: it pushes
/// nothing, and neither side of QPACK has a dynamic table.
fn stop_control(quic: &Quic) {
    let control = wait(quic.connection().accept_uni()).expect("no wait");
    control.expect("a stream").stop(CANCELLED).expect("an open stream");
}

impl Played {
    /// Returns the outcome of the row.
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

/// Returns the outcome of a correct request.
fn next(quic: &Quic) -> Result<Outcome, String> {
    let opened = wait(quic.connection().open_bi()).expect("no wait");
    let (mut sender, receiver) = opened.map_err(|error| error.to_string())?;
    let written = wait(sender.write_all(&harmless())).expect("room");
    written.map_err(|error| error.to_string())?;
    sender.finish().map_err(|error| error.to_string())?;
    answered(receiver)
}

/// Returns the outcome of a request stream.
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

/// Plays a row and returns its outcome.
fn played(server: &Server, row: &Row) -> Result<Outcome, String> {
    play(server, &row.writes).outcome(row.outcome)
}

pinion_tests::h3_error_tests!(played);
