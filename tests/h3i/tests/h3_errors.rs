//! The rows of `pinion_tests::h3_errors`, played by h3i: its QUIC, its frames and its QPACK are
//! those of quiche, which shares no code with quinn.
#![forbid(unsafe_code)]

use h3i::actions::h3::{Action, StreamEvent, StreamEventType, WaitType};
use h3i::client::connection_summary::ConnectionSummary;
use h3i::client::sync_client;
use h3i::config::Config;
use h3i::frame::H3iFrame;
use h3i::quiche::ConnectionError;
use pinion_tests::PATIENCE;
use pinion_tests::h3_errors::{self, Direction, End, Outcome, Row, Write, harmless};
use pinion_tests::server::Server;

const CANCELLED: u64 = h3_errors::CANCELLED as u64;

/// H3_NO_ERROR (RFC 9114 §8.1).
const NO_ERROR: u64 = 0x100;

/// The first unidirectional stream of the server (RFC 9000 §2.1): it opens no other one than its
/// control stream.
const SERVER_CONTROL: u64 = 3;

/// The actions of h3i on one connection.
struct Script {
    actions: Vec<Action>,
    /// The streams that it opens next.
    next_both: u64,
    next_uni: u64,
    /// The last request stream of the row.
    last: Option<u64>,
    /// The streams of correct requests, each of which must get a 200.
    harmless: Vec<u64>,
}

impl Script {
    fn of(row: &Row) -> Script {
        // RFC 9000 §2.1: the last two bits of a stream ID have its initiator and its kind.
        let (actions, harmless) = (Vec::new(), Vec::new());
        let mut script = Script { actions, next_both: 0, next_uni: 2, last: None, harmless };
        for write in &row.writes {
            script.write(write);
        }
        match (row.outcome, script.last) {
            // The server closes the connection.
            (Outcome::Connection(_), _) => return script,
            (Outcome::Stream(_) | Outcome::Status(_), Some(last)) => script.wait_for_end(last),
            _ => {}
        }
        script.ask();
        let error = ConnectionError { is_app: true, error_code: NO_ERROR, reason: Vec::new() };
        script.actions.push(Action::ConnectionClose { error });
        script
    }

    fn write(&mut self, write: &Write) {
        let stream_id = match write.on {
            Direction::Stopped => {
                // The stream is stopped after a response to another request, so that it has
                // arrived.
                self.ask();
                let (stream_id, error_code) = (SERVER_CONTROL, CANCELLED);
                self.actions.push(Action::StopSending { stream_id, error_code });
                return;
            }
            Direction::Uni => next(&mut self.next_uni),
            Direction::Both => next(&mut self.next_both),
        };
        if write.on == Direction::Both {
            self.last = Some(stream_id);
        }
        let (bytes, fin_stream) = (write.bytes.clone(), write.end == End::Fin);
        self.actions.push(Action::StreamBytes { stream_id, fin_stream, bytes });
        if write.end == End::ResetLater {
            self.ask();
        }
        if matches!(write.end, End::Reset | End::ResetLater) {
            self.actions.push(Action::ResetStream { stream_id, error_code: CANCELLED });
        }
    }

    /// Sends a correct request and waits for its response.
    fn ask(&mut self) {
        let stream_id = next(&mut self.next_both);
        let bytes = harmless();
        self.actions.push(Action::StreamBytes { stream_id, fin_stream: true, bytes });
        self.wait_for_end(stream_id);
        self.harmless.push(stream_id);
    }

    fn wait_for_end(&mut self, stream_id: u64) {
        let event = StreamEvent { stream_id, event_type: StreamEventType::Finished };
        self.actions.push(Action::Wait { wait_type: WaitType::StreamEvent(event) });
    }

    /// Runs the script until one side closes the connection, or neither does for too long.
    fn run(&self, server: &Server) -> Result<ConnectionSummary, String> {
        let address = server.address();
        let config = Config::new()
            .with_host_port(format!("localhost:{}", address.port()))
            .with_connect_to(address.to_string())
            // Other tests check the certificate.
            .verify_peer(false)
            .with_idle_timeout(PATIENCE.as_millis() as u64)
            .build()
            .map_err(|error| error.to_string())?;
        let summary = sync_client::connect(config, self.actions.clone(), None);
        summary.map_err(|error| format!("{error:?}"))
    }
}

/// Returns the ID of a new stream; later ones of the same kind are each greater by four.
fn next(number: &mut u64) -> u64 {
    let this = *number;
    *number += 4;
    this
}

/// Plays a row and returns its outcome.
fn played(server: &Server, row: &Row) -> Result<Outcome, String> {
    let script = Script::of(row);
    let summary = script.run(server)?;
    let found = match (summary.conn_close_details.peer_error(), row.outcome, script.last) {
        (Some(error), ..) if error.is_app => Outcome::Connection(error.error_code),
        (Some(error), ..) => return Err(format!("{error:?}")),
        (None, Outcome::Connection(_), _) => return Err("it is still open".to_owned()),
        (None, Outcome::Nothing, _) => Outcome::Nothing,
        (None, _, Some(last)) => answered(&summary, last)?,
        (None, _, None) => return Err("no request".to_owned()),
    };
    for &stream in &script.harmless {
        let response = answered(&summary, stream);
        if response != Ok(Outcome::Status(200)) {
            return Err(format!("{response:?} for a request that is right, beside {found:?}"));
        }
    }
    Ok(found)
}

/// Returns the outcome of a request stream.
fn answered(summary: &ConnectionSummary, stream: u64) -> Result<Outcome, String> {
    let frames = summary.stream_map.stream(stream);
    let reset = frames.iter().find_map(|frame| match frame {
        H3iFrame::ResetStream(reset) => Some(Outcome::Stream(reset.error_code)),
        _ => None,
    });
    if let Some(reset) = reset {
        return Ok(reset);
    }
    let Some(H3iFrame::Headers(head)) = frames.first() else {
        return Err(format!("no head in front: {frames:?}"));
    };
    let status = head.status_code().and_then(|status| std::str::from_utf8(status).ok());
    let status = status.and_then(|status| status.parse().ok()).map(Outcome::Status);
    status.ok_or_else(|| format!("no status: {head:?}"))
}

pinion_tests::h3_error_tests!(played);
