//! A server that fails after every byte of its response, and after every byte of a request.

use std::ops::RangeInclusive;

use pinion_engine::backend::sim::Faults;

use crate::fastcgi_scgi_records::Spoken;
use crate::http1_client::{Actor, Content, Request};
use crate::http2_client::Http2Client;
use crate::laws;
use crate::run::{FAILING, HEALTHY, Plan, run_over};
use crate::upstream::{Behaviour, Shape, Way};

/// Bytes of content of a response.
const CONTENT_BYTES: usize = 18;

/// Seeds of each case with `PINION_LONG`.
const LONG_SEEDS: u64 = 10;
/// Bytes of the longest first line of a request.
const LINE_BYTES: usize = "OPTIONS /failing/2 HTTP/1.1\r\n".len();
/// More bytes than a request has when it is forwarded.
const FORWARDED_MAX_BYTES: usize = 300;
/// More bytes than a request has as variables.
const VARIABLES_MAX_BYTES: usize = 900;

/// A server, and the first request of the client to it.
#[derive(Clone, Copy, Debug)]
struct Case {
    spoken: Spoken,
    shape: Shape,
    method: &'static str,
    content: Content,
    is_http10: bool,
    /// Whether the client uses HTTP/2, with other requests on the same connection.
    is_http2: bool,
    /// Whether the connection has served another request before.
    is_reused: bool,
    /// The number of servers.
    servers: usize,
    reads_bytes: Option<usize>,
    window_bytes: Option<usize>,
    failure: Option<(usize, Way)>,
}

impl Case {
    fn plan(&self, seed: u64) -> Plan {
        let good = Behaviour::good(self.shape, CONTENT_BYTES);
        let failing = Behaviour {
            reads_bytes: self.reads_bytes,
            window_bytes: self.window_bytes.unwrap_or(good.window_bytes),
            failure: self.failure,
            ..good
        };
        let front = self.is_reused.then(|| Behaviour::good(Shape::Length, CONTENT_BYTES));
        let behaviours: Vec<_> = front.into_iter().chain([failing]).collect();
        let first = self.is_reused.then(|| Request::new(1, FAILING, "GET"));
        let second = Request {
            is_http10: self.is_http10,
            ..Request::new(2, FAILING, self.method).with(self.content)
        };
        let last = Request::new(3, FAILING, "GET");
        let others = (4..7).map(|id| Request::new(id, HEALTHY, "GET"));
        let (clients, http2_clients) = if self.is_http2 {
            (Vec::new(), vec![Http2Client::new([second].into_iter().chain(others).collect())])
        } else {
            let requests = first.into_iter().chain([second, last]).collect();
            (vec![Actor::new(requests), Actor::new(others.collect())], Vec::new())
        };
        Plan {
            seed,
            faults: slow_kernel(seed),
            pieces: if seed.is_multiple_of(3) { 300 } else { 0 },
            clients,
            http2_clients,
            servers: vec![behaviours; self.servers],
            spoken: self.spoken,
            stored_upload_max_bytes: None,
        }
    }

    /// Runs it in both forms of the kernel, with several seeds if `PINION_LONG` is set.
    fn check(&self, seed: u64) {
        let is_long = std::env::var_os("PINION_LONG").is_some();
        let seeds = if is_long { LONG_SEEDS } else { 1 };
        for seed in (0..seeds).map(|more| seed + 1_000_003 * more) {
            self.check_over(true, seed);
            self.check_over(false, seed);
        }
    }

    fn check_over(&self, readiness: bool, seed: u64) {
        let report = run_over(readiness, self.plan(seed));
        let checked = report.and_then(|report| {
            laws::check(&report, true)?;
            // A server that has read nothing does not know the request that was tried.
            if self.reads_bytes != Some(0) && !self.is_http2 {
                laws::check_health(&report)?;
            }
            laws::check_healthy(&report)
        });
        if let Err(why) = checked {
            panic!("{self:?}, readiness {readiness}, seed {seed}: {why}");
        }
    }
}

/// Returns faults of a kernel that is sometimes slow, short of resources and out of order, but
/// breaks no connection.
fn slow_kernel(seed: u64) -> Faults {
    if seed.is_multiple_of(2) {
        return Faults::default();
    }
    Faults {
        short: 300,
        late: 100,
        late_ms: 5,
        interrupt: 50,
        shortage: 20,
        disarm: 200,
        buffers: 2 + (seed % 18) as u16,
        batch: (seed % 6) as u16,
        ..Faults::default()
    }
}

/// Calls this for every `step`th byte in a range, with a different start each time; for every byte
/// if `PINION_LONG` is set.
fn every(step: usize, bytes: RangeInclusive<usize>, offset: u64, call: impl FnMut(usize)) {
    let is_long = std::env::var_os("PINION_LONG").is_some();
    let step = if is_long { 1 } else { step };
    let (first, last) = (*bytes.start(), *bytes.end());
    (first + offset as usize % step..=last).step_by(step).for_each(call);
}

#[test]
fn a_server_may_fail_after_every_byte_of_its_response() {
    sweep_responses(Spoken::Http, 1);
}

#[test]
fn an_application_may_fail_after_every_byte_of_its_response() {
    Spoken::APPLICATIONS.into_iter().for_each(|spoken| sweep_responses(spoken, 5));
}

fn sweep_responses(spoken: Spoken, step: usize) {
    let mut seed = 0u64;
    for shape in Shape::ALL {
        for method in ["GET", "HEAD"] {
            let bytes = spoken.response(shape, "2", method, &[b'a'; CONTENT_BYTES]).len();
            for way in Way::ALL {
                every(step, 0..=bytes, seed, |at| {
                    seed += 1;
                    let case = Case {
                        spoken,
                        shape,
                        method,
                        content: Content::None,
                        is_http10: seed.is_multiple_of(5),
                        is_http2: seed.is_multiple_of(3),
                        is_reused: seed.is_multiple_of(2) && !seed.is_multiple_of(3),
                        servers: 1 + (seed % 7) as usize / 4,
                        reads_bytes: None,
                        window_bytes: None,
                        failure: Some((at, way)),
                    };
                    case.check(seed);
                });
            }
        }
    }
}

/// Responses that a server sends before it has the whole request, or failures without one.
const EARLY: [(Shape, Option<(usize, Way)>); 12] = [
    (Shape::LengthClose, Some((0, Way::End))),
    (Shape::LengthClose, Some((0, Way::Leave))),
    (Shape::LengthClose, Some((0, Way::Reset))),
    (Shape::LengthClose, Some((0, Way::Silence))),
    (Shape::LengthClose, Some((0, Way::Garbage))),
    (Shape::LengthClose, Some((usize::MAX, Way::End))),
    (Shape::LengthClose, Some((usize::MAX, Way::Leave))),
    (Shape::LengthClose, Some((usize::MAX, Way::Reset))),
    (Shape::LengthClose, Some((usize::MAX, Way::HastyReset))),
    (Shape::Chunked, Some((70, Way::Reset))),
    (Shape::Length, None),
    (Shape::UntilClose, None),
];

#[test]
fn a_server_may_fail_after_every_byte_of_a_request() {
    sweep_requests(Spoken::Http, FORWARDED_MAX_BYTES, 1);
}

#[test]
fn an_application_may_fail_after_every_byte_of_a_request() {
    for spoken in Spoken::APPLICATIONS {
        sweep_requests(spoken, VARIABLES_MAX_BYTES, 9);
    }
}

fn sweep_requests(spoken: Spoken, max_bytes: usize, step: usize) {
    let mut seed = 0u64;
    let requests =
        [("OPTIONS", Content::None), ("PUT", Content::Length(30)), ("POST", Content::Chunked(30))];
    for (method, content) in requests {
        for (shape, failure) in EARLY {
            // A server needs the request line to respond.
            let is_mute = failure.is_some_and(|(bytes, _)| bytes == 0);
            let first = if is_mute { 0 } else { LINE_BYTES };
            every(step, first..=max_bytes, seed, |at| {
                for window_bytes in [None, Some(at)] {
                    seed += 1;
                    let case = Case {
                        spoken,
                        shape,
                        method,
                        content,
                        is_http10: false,
                        is_http2: false,
                        is_reused: seed % 4 < 2 && window_bytes.is_none(),
                        servers: 1 + (seed % 7) as usize / 4,
                        reads_bytes: Some(at),
                        window_bytes: window_bytes.filter(|_| at > 0),
                        failure,
                    };
                    case.check(seed);
                }
            });
        }
    }
}
