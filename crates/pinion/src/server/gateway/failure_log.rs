//! The lines of the log about requests that no application, script or server has responded to.
//!
//! Clients can cause them as often as they like, so there is one for each kind of failure now and
//! then, and a count of the others. A kind is a mount, a script or a server, and the cause, so that
//! a new cause has its line at once.

use super::OpenRequest;
use super::log_limits::FAILURE_KINDS_MAX;
use crate::server::log_throttle::LogThrottle;
use pinion_engine::exchange::Exchange;
use pinion_engine::stderr;
use pinion_gateway::cgi::cgi_failure::CgiFailure;
use pinion_gateway::proxy_error::ProxyError;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

/// Decides for all workers together which failures are logged.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    kinds: Mutex<HashMap<u64, LogThrottle>>,
    /// The throttle of further kinds.
    others: LogThrottle,
}

/// A request that has failed.
pub(super) struct LoggedFailure<'f> {
    /// The status of the response, or its fate.
    pub(super) outcome: &'f str,
    /// The script or the server; "" if it is about none.
    pub(super) subject: &'f str,
    /// The object of the failure that a client may choose; "" if there is none.
    pub(super) about: &'f str,
    /// The cause. Numbers in it make no other kind: they are sizes and times.
    pub(super) cause: &'f dyn fmt::Display,
    /// The advice that is logged after the cause.
    pub(super) advice: Option<String>,
}

impl<'f> LoggedFailure<'f> {
    /// Returns the failure of a script, whose mount has this path.
    pub(super) fn of_script(outcome: &'f str, failure: &'f CgiFailure, mount: &str) -> Self {
        let advice = match failure {
            CgiFailure::LengthRequired => Some(raise_buffer_limit(mount)),
            failure => failure.malformed_line().map(|line| format!("; the line is \"{line}\"")),
        };
        Self { outcome, subject: failure.script(), about: "", cause: failure, advice }
    }

    /// Returns the failure of another server, whose mount has this path.
    pub(super) fn of_server(outcome: &'f str, error: &'f ProxyError, mount: &str) -> Self {
        let is_length = matches!(error, ProxyError::LengthRequired);
        let advice = is_length.then(|| raise_buffer_limit(mount));
        Self { outcome, subject: error.upstream(), about: "", cause: error, advice }
    }

    /// Returns a number for its kind.
    fn kind(&self, mount: &str) -> u64 {
        let mut hasher = KindHasher(DefaultHasher::new());
        (mount, self.outcome, self.subject).hash(&mut hasher.0);
        // Writing to a hasher does not fail.
        let _written = write!(hasher, "{}", self.cause);
        hasher.0.finish()
    }
}

fn raise_buffer_limit(mount: &str) -> String {
    format!(" of the mount {mount}; raise that key to accept the request")
}

/// Hashes a text without its digits.
struct KindHasher(DefaultHasher);

impl fmt::Write for KindHasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let bytes = text.bytes().filter(|byte| !byte.is_ascii_digit());
        bytes.for_each(|byte| self.0.write_u8(byte));
        Ok(())
    }
}

impl FailureLog {
    /// Logs why a request has no response, or not all of one, unless there are too many such lines.
    #[cold]
    pub(super) fn log(
        &self,
        failure: &LoggedFailure<'_>,
        waiting: &OpenRequest,
        exchange: &Exchange<'_>,
    ) {
        let kind = failure.kind(&waiting.mount);
        let Some(suppressed) = self.admit(kind, exchange.now().monotonic_ms) else { return };
        let LoggedFailure { outcome, about, cause, advice, .. } = failure;
        let target = waiting.target.escape_ascii();
        let advice = advice.as_deref().unwrap_or_default();
        match suppressed {
            0 => {
                stderr::line(format_args!(
                    "pinion: {outcome} for {target}: {about}{cause}{advice}"
                ));
            }
            count => stderr::line(format_args!(
                "pinion: {outcome} for {target}: {about}{cause}{advice} (and {count} more before)"
            )),
        }
    }

    /// Returns how many failures of this kind were not logged before this one if it is to be
    /// logged.
    fn admit(&self, kind: u64, now_ms: u64) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if !kinds.contains_key(&kind) && kinds.len() >= FAILURE_KINDS_MAX {
            kinds.retain(|_, throttle| !throttle.is_over(now_ms));
            if kinds.len() >= FAILURE_KINDS_MAX {
                return self.others.admit(now_ms);
            }
        }
        kinds.entry(kind).or_default().admit(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::log_throttle::BETWEEN_LINES_MS;

    fn kind(mount: &str, subject: &str, cause: &str) -> u64 {
        LoggedFailure { outcome: "502", subject, about: "", cause: &cause, advice: None }
            .kind(mount)
    }

    #[test]
    fn a_failure_kind_is_a_mount_a_script_and_a_cause() {
        let one = kind("/cgi", "/srv/a1", "no output for 60 s");
        assert_eq!(one, kind("/cgi", "/srv/a1", "no output for 7 s"));
        for other in [
            kind("/run", "/srv/a1", "no output for 60 s"),
            kind("/cgi", "/srv/a2", "no output for 60 s"),
            kind("/cgi", "/srv/a1", "no interpreter"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn each_kind_is_logged_at_once_and_repetitions_are_counted() {
        let log = FailureLog::default();
        for kind in 0..FAILURE_KINDS_MAX as u64 {
            assert_eq!(log.admit(kind, 5_000), Some(0));
            assert_eq!(log.admit(kind, 5_000), None);
        }
        // Further kinds share a line.
        assert_eq!((log.admit(1_000, 5_000), log.admit(1_001, 5_000)), (Some(0), None));
        let later_ms = 5_000 + BETWEEN_LINES_MS;
        assert_eq!(log.admit(3, later_ms), Some(1));
        // Those that have not failed for a while make room.
        assert_eq!((log.admit(1_001, later_ms), log.admit(1_002, later_ms)), (Some(0), Some(0)));
        assert_eq!(log.admit(3, later_ms), None);
        let kinds = log.kinds.lock().expect("no panic").len();
        assert!(kinds <= FAILURE_KINDS_MAX, "{kinds}");
    }
}
