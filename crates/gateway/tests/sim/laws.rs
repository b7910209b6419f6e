//! The laws of a gateway, checked at the end of a run.
//!
//! 1. A client gets the complete response of its upstream server; or a response of the gateway
//!    itself, if nothing was forwarded; or a visibly incomplete response, because its connection is
//!    reset in the middle. It never gets another response that looks complete.
//! 2. A request is sent once, unless it is safe and without content, and no byte of a response has
//!    arrived.
//! 3. A server gets the complete request of the client, or one that is visibly incomplete.
//! 4. A client whose servers do not fail gets its responses, whatever happens to the others.
//! 5. A server is out of use exactly if a request has failed because of it.

use pinion_engine::backend::sim::Read;
use pinion_gateway::proxy::Ended;

use crate::application::OWN_FIELD;
use crate::fastcgi_scgi_records::Spoken;
use crate::http1_client::{Actor, Content, Outcome, Request};
use crate::http1_reader::{FieldLine, Message, Reading};
use crate::run::{FAILING, HEALTHY, Report};
use crate::upstream::{Attempt, Way};

/// Bytes of a message that an error shows.
const SHOWN_BYTES: usize = 300;

/// An attempt, and its server.
type Tried<'r> = (usize, &'r Attempt);

/// Checks a run. `is_exact` means that the kernel has caused no faults, so that every event has its
/// reason in the behaviour of a server or a client.
///
/// # Errors
/// Returns the law that was broken.
pub(crate) fn check(report: &Report, is_exact: bool) -> Result<(), String> {
    for (request, outcome) in report.results() {
        let tried = tried(report, request);
        let shown = |why: String| {
            let (ended, lines) = (report.ended.get(&request.target()), shown(outcome, &tried));
            format!("{request:?}: {why}\n{ended:?}\n{lines}")
        };
        check_attempts(request, outcome, &tried, report, is_exact).map_err(shown)?;
        let is_exact = is_exact && !is_behind_aborted(report, request);
        check_outcome(request, outcome, &tried, is_exact).map_err(shown)?;
        check_end(report, request, outcome, &tried).map_err(shown)?;
    }
    Ok(())
}

/// Checks which servers are out of use, if only one client has sent requests to the failing ones.
///
/// # Errors
/// Returns an error if they differ from the expected ones.
pub(crate) fn check_health(report: &Report) -> Result<(), String> {
    let mut out = vec![false; report.out.len()];
    for (request, _) in report.clients.iter().flat_map(Actor::results) {
        let tried = tried(report, request);
        let ended = report.ended.get(&request.target());
        let has_failed = matches!(ended, Some(Ended::Failed(_) | Ended::Aborted { .. }));
        let is_open = |response: Reading| response.has_all_content && response.end.is_none();
        let has_gone = matches!(ended, Some(Ended::Gone { .. }));
        if has_gone && tried.last().is_some_and(|(_, attempt)| is_open(attempt.response())) {
            // The client had all content and has disconnected while the application failed: the
            // order of the two events determines whether the request has failed.
            return Ok(());
        }
        for (index, (server, _)) in tried.iter().enumerate() {
            let is_last = index + 1 == tried.len();
            // A closed kept connection is no sign of a failure of its server.
            let is_kept = tried.get(index + 1).is_some_and(|(next, _)| next == server);
            if let Some(out) = out.get_mut(*server).filter(|_| !is_kept) {
                // A successful request makes a server usable again.
                *out = !is_last || has_failed;
            }
        }
    }
    // A single server is always used.
    if report.out.len() > 1 && out != report.out {
        return Err(format!("servers that are out: {:?}, and not {out:?}", report.out));
    }
    Ok(())
}

/// Returns whether the response before this one was aborted although its client had all of it, for
/// example because an application ended between its content and its end: then the connection is
/// closed on which the client has sent this request already.
fn is_behind_aborted(report: &Report, request: &Request) -> bool {
    let is_cut = |results: Vec<(&Request, &Outcome)>| {
        results.windows(2).any(|pair| {
            let ((before, outcome), (behind, _)) = (pair[0], pair[1]);
            let ended = report.ended.get(&before.target());
            let is_whole = outcome.reading.end.is_some();
            is_whole && matches!(ended, Some(Ended::Aborted { .. })) && behind.id == request.id
        })
    };
    report.clients.iter().any(|client| is_cut(client.results().collect()))
}

/// Returns the attempts for a request in their order.
fn tried<'r>(report: &'r Report, request: &Request) -> Vec<Tried<'r>> {
    let mut attempts: Vec<Tried<'r>> = Vec::new();
    let is_failing = |client: &&Actor| client.results().any(|(one, _)| one.mount == FAILING);
    let is_alone = report.http2_clients.is_empty();
    let is_alone = is_alone && report.clients.iter().filter(is_failing).count() == 1;
    for (server, upstream) in report.servers.iter().enumerate() {
        let target = request.target();
        let is_failing = server < report.out.len();
        if is_failing != (request.mount == FAILING) {
            continue;
        }
        let is_alone = is_alone && is_failing;
        let of_request = |one: &&Attempt| one.is_for(request.method, &target, is_alone);
        attempts.extend(upstream.attempts.iter().filter(of_request).map(|one| (server, one)));
    }
    attempts.sort_by_key(|(_, attempt)| attempt.number);
    attempts
}

/// Describes the data of a client, and the input and output of its servers.
fn shown(outcome: &Outcome, tried: &[Tried<'_>]) -> String {
    let mut lines = format!("{outcome:?}");
    for (server, attempt) in tried {
        let Attempt { behaviour, input, sent, has_ended, is_lossy, .. } = attempt;
        let [input, sent] = [input, sent].map(|bytes| {
            let front = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
            format!("{} ({} bytes)", front.escape_ascii(), bytes.len())
        });
        lines += &format!("\nserver {server}, {behaviour:?}: {input}\n{sent}");
        lines += &format!("\nhas ended: {has_ended}, lossy: {is_lossy}");
    }
    lines
}

fn check_attempts(
    request: &Request,
    outcome: &Outcome,
    tried: &[Tried<'_>],
    report: &Report,
    is_exact: bool,
) -> Result<(), String> {
    if tried.len() > 1 && !request.is_repeatable() {
        return Err("sent twice".to_owned());
    }
    for (_, attempt) in &tried[..tried.len().saturating_sub(1)] {
        if is_exact && !attempt.sent.is_empty() && !attempt.is_lossy {
            return Err("sent again behind a byte of a response".to_owned());
        }
    }
    for (_, attempt) in tried {
        check_request(request, outcome, attempt, report.is_stored && request.mount == FAILING)?;
    }
    Ok(())
}

/// Checks the request that has reached a server.
fn check_request(
    request: &Request,
    outcome: &Outcome,
    attempt: &Attempt,
    is_stored: bool,
) -> Result<(), String> {
    let reading = attempt.request();
    let Some(message) = reading.message else { return Ok(()) };
    let sent = request.content();
    if reading.is_malformed || !sent.starts_with(&message.content) {
        return Err("a server gets another request".to_owned());
    }
    if reading.end.is_none() {
        return Ok(());
    }
    if message.content != sent || (outcome.has_left && !request.is_whole_when_left()) {
        return Err("a server gets a request that looks whole and is not".to_owned());
    }
    let trailers = match request.content {
        // Stored content is sent with its length.
        // FastCGI and SCGI have no trailers.
        Content::Chunked(_) if !is_stored && attempt.spoken == Spoken::Http => {
            vec![("X-Sum".to_owned(), request.id.to_string())]
        }
        _ => Vec::new(),
    };
    if !are_same(&message.trailers, &trailers) {
        return Err(format!("a server gets the trailers {:?}", message.trailers));
    }
    Ok(())
}

fn check_outcome(
    request: &Request,
    outcome: &Outcome,
    tried: &[Tried<'_>],
    is_exact: bool,
) -> Result<(), String> {
    let reading = &outcome.reading;
    if reading.is_malformed {
        return Err("a malformed response".to_owned());
    }
    let own = reading.message.as_ref().filter(|message| message.field(OWN_FIELD).is_some());
    let last = tried.last().map(|(_, attempt)| *attempt);
    if let Some(own) = own {
        return check_own(own, last, is_exact);
    }
    let is_whole = reading.end.is_some();
    let has_nothing = reading.message.is_none() && reading.interims.is_empty();
    let Some(last) = last else {
        let is_refused = !is_exact || outcome.has_left;
        return if is_refused && has_nothing { Ok(()) } else { Err("no response".to_owned()) };
    };
    let meant = last.response();
    let is_right = check_interims(request, outcome, last)
        .and_then(|()| check_message(request, outcome, &meant.message));
    is_right?;
    if is_whole {
        let is_right = meant.end.is_some() || meant.has_all_content;
        return if is_right { Ok(()) } else { Err("it looks whole and is not".to_owned()) };
    }
    if outcome.has_left {
        return Ok(());
    }
    // RFC 9112, section 8: a response with framing is visibly incomplete.
    let is_framed = |message: &Message| {
        let names = ["Content-Length", "Transfer-Encoding"];
        names.iter().any(|name| message.field(name).is_some())
    };
    if outcome.saw == Some(Read::Ended) && !reading.message.as_ref().is_some_and(is_framed) {
        return Err("an orderly end that could be that of a whole response".to_owned());
    }
    if outcome.saw == Some(Read::Ended) && is_exact && !last.is_lossy {
        let bytes = |of: &Reading| of.message.as_ref().map_or(0, |message| message.content.len());
        if bytes(reading) < bytes(&meant) {
            return Err("content that a server has sent was lost".to_owned());
        }
    }
    if is_exact && meant.end.is_some() && !last.is_lossy {
        return Err("a whole response was cut off".to_owned());
    }
    if is_exact && meant.message.is_none() {
        return Err("the gateway has not responded".to_owned());
    }
    Ok(())
}

/// Checks a response of the gateway itself.
fn check_own(own: &Message, last: Option<&Attempt>, is_exact: bool) -> Result<(), String> {
    let status = own.status();
    if !is_exact {
        let is_known = matches!(status, 502..=504);
        return if is_known { Ok(()) } else { Err("another status".to_owned()) };
    }
    let has_head = last.is_some_and(|one| !one.is_lossy && one.response().message.is_some());
    if has_head {
        return Err("the response of the server is lost".to_owned());
    }
    let way = last.and_then(|one| one.behaviour.failure).map(|(_, way)| way);
    let expected = if way == Some(Way::Silence) { 504 } else { 502 };
    if status != expected {
        return Err(format!("the status is not {expected}"));
    }
    Ok(())
}

fn check_interims(request: &Request, outcome: &Outcome, last: &Attempt) -> Result<(), String> {
    let meant = last.response().interims;
    let link = |one: &Message| {
        // The client of HTTP/2 only counts them.
        let value = if request.is_http2 { None } else { one.field("Link") };
        value.map(str::to_owned)
    };
    let passed = meant.iter().filter(|one| one.status() != 100 && !request.is_http10);
    let passed: Vec<_> = passed.map(|one| (one.status(), link(one))).collect();
    let came: Vec<_> = outcome.reading.interims.iter().collect();
    let came: Vec<_> = came.iter().map(|one| (one.status(), link(one))).collect();
    let is_right = match outcome.reading.end {
        Some(_) => came == passed,
        None => passed.starts_with(&came),
    };
    if is_right { Ok(()) } else { Err(format!("interim responses {came:?}, and not {passed:?}")) }
}

/// Checks the received part of the final response.
fn check_message(
    request: &Request,
    outcome: &Outcome,
    meant: &Option<Message>,
) -> Result<(), String> {
    let Some(came) = &outcome.reading.message else { return Ok(()) };
    let Some(meant) = meant else { return Err("a response that nobody has sent".to_owned()) };
    let shared = ["X-Id", "ETag", "X-Form"];
    let is_same = |name: &&str| came.field(name) == meant.field(name);
    let is_right = came.status() == meant.status()
        && shared.iter().all(is_same)
        && came.field("X-Hop").is_none()
        && came.field("X-Id") == Some(request.id.to_string().as_str());
    if !is_right {
        return Err("another head".to_owned());
    }
    if let Some(length) = meant.field("Content-Length")
        && came.field("Content-Length") != Some(length)
    {
        return Err("another length".to_owned());
    }
    if !meant.content.starts_with(&came.content) {
        return Err("other content".to_owned());
    }
    if outcome.reading.end.is_none() {
        return Ok(());
    }
    let has_trailers = !request.is_http10;
    let has_same = are_same(&came.trailers, &meant.trailers) || !has_trailers;
    if came.content != meant.content || !has_same {
        return Err("less content, or other trailers".to_owned());
    }
    Ok(())
}

/// Returns whether field lines are the same; their names are in lower case in HTTP/2.
fn are_same(one: &[FieldLine], two: &[FieldLine]) -> bool {
    let is_same = |((name, value), (other, same)): (&FieldLine, &FieldLine)| {
        name.eq_ignore_ascii_case(other) && value == same
    };
    one.len() == two.len() && one.iter().zip(two).all(is_same)
}

/// Checks that the gateway's record of the end of a request agrees with the client's data.
fn check_end(
    report: &Report,
    request: &Request,
    outcome: &Outcome,
    tried: &[Tried<'_>],
) -> Result<(), String> {
    let has_all_content = || tried.last().is_some_and(|(_, one)| one.response().has_all_content);
    let ended = report.ended.get(&request.target());
    let is_own = |message: &Message| message.field(OWN_FIELD).is_some();
    let is_right = match (&outcome.reading.message, ended) {
        (Some(message), Some(Ended::Answered { status, .. })) => {
            *status == message.status() && !is_own(message)
        }
        (Some(message), Some(Ended::Failed(_))) => is_own(message),
        (Some(_), Some(Ended::Aborted { .. } | Ended::Gone { .. })) => {
            outcome.reading.end.is_none() || has_all_content()
        }
        // No mount here sends files.
        (Some(_), Some(Ended::File(_))) => false,
        (None, Some(_)) => true,
        (message, None) => message.is_none(),
    };
    if is_right { Ok(()) } else { Err(format!("the gateway says {ended:?}")) }
}

/// Checks that the requests to the server that does not fail have their responses.
///
/// # Errors
/// Returns a request without one.
pub(crate) fn check_healthy(report: &Report) -> Result<(), String> {
    for (request, outcome) in report.results() {
        let is_answered = outcome.reading.end.is_some()
            && outcome.reading.message.as_ref().is_some_and(|one| one.status() == 200);
        if request.mount == HEALTHY && !is_answered {
            return Err(format!("{request:?} has no response: {outcome:?}"));
        }
    }
    Ok(())
}
