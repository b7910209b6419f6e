//! Explains responses for clients of the control socket. Each explanation has a thread of its own,
//! because it reads the whole index of an archive and starts the script of a site.

use crate::control::protocol::Response;
use crate::explain::explain_served;
use crate::explain::explanation::Explanation;
use crate::explain::request::{ExplainRequest, WhyRequest};
use crate::explain::server_settings::ServerSettings;
use crate::failure::{Failure, without_number};
use crate::server::control_clients::CLIENTS_MAX;
use crate::server::site_roster::Published;
use pinion_engine::release_memory;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

/// Explanations at the same time: as many as clients. There are more only if clients leave without
/// the response to their request.
const EXPLANATIONS_MAX: usize = CLIENTS_MAX;

/// Bytes of an explanation as JSON. A usual one has less than 10 KiB; that of a site in which a
/// thousand rules match the path has some hundred.
const EXPLANATION_MAX_BYTES: usize = 1 << 20;

/// The data that explanations of this server need.
pub(super) struct Explainer {
    explained: Arc<Explained>,
}

struct Explained {
    settings: ServerSettings,
    published: Arc<Published>,
}

impl Explainer {
    /// Returns `None` for a server without a control socket, and for one without sites.
    pub(super) fn new(
        socket: Option<&OwnedFd>,
        settings: ServerSettings,
        published: Option<&Arc<Published>>,
    ) -> Option<Self> {
        let (_socket, published) = (socket?, Arc::clone(published?));
        if settings.is_store_only() {
            return None;
        }
        Some(Self { explained: Arc::new(Explained { settings, published }) })
    }

    /// Begins an explanation. `done` gets the response on another thread.
    ///
    /// # Errors
    /// Too many explanations are being made, or no thread can be started. Then `done` is dropped.
    pub(super) fn start(
        &self,
        request: ExplainRequest,
        done: impl FnOnce(Response) + Send + 'static,
    ) -> Result<(), String> {
        // Each thread holds one reference.
        if Arc::strong_count(&self.explained) > EXPLANATIONS_MAX {
            return Err(format!(
                "{EXPLANATIONS_MAX} explanations are being made, the most at a time; try again"
            ));
        }
        let explained = Arc::clone(&self.explained);
        let run = move || {
            let explanation = catch_unwind(AssertUnwindSafe(|| explained.explain(&request)));
            drop(explained);
            release_memory::release_heap();
            done(match explanation {
                Ok(Ok(explanation)) => bounded(explanation),
                Ok(Err(failure)) => Response::refused(failure.reason().unwrap_or_default()),
                Err(_) => Response::refused("internal error, see the log of the server"),
            });
        };
        let spawned = thread::Builder::new().name("why".to_owned()).spawn(run);
        spawned.map(drop).map_err(|error| {
            let error = without_number(&error.to_string());
            format!("cannot start a thread for the explanation: {error}")
        })
    }
}

impl Explained {
    fn explain(&self, request: &ExplainRequest) -> Result<Explanation, Failure> {
        let request = WhyRequest::received(request)?;
        explain_served(&self.settings, &self.published, &request)
    }
}

/// Returns the response with an explanation, unless that is too long.
fn bounded(explanation: Explanation) -> Response {
    let bytes = serde_json::to_vec(&explanation).map_or(usize::MAX, |json| json.len());
    if bytes > EXPLANATION_MAX_BYTES {
        return Response::refused(format!(
            "the explanation has {bytes} bytes, and this server sends at most \
             {EXPLANATION_MAX_BYTES}; give what it serves: pinion why SOURCE URL"
        ));
    }
    Response { explanation: Some(Box::new(explanation)), ..Response::done(Vec::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_explanation_that_is_too_long_is_refused() {
        let of_bytes = |bytes: usize| {
            let explanation = |note: String| -> Explanation {
                let explanation = json!({
                    "version": 1, "url": "http://a/", "method": "GET", "listener": null,
                    "site": null, "steps": [], "status": 404, "headers": [], "removed": [],
                    "codings": [], "notes": [note],
                });
                serde_json::from_value(explanation).expect("an explanation")
            };
            let empty = serde_json::to_vec(&explanation(String::new())).expect("written").len();
            explanation("x".repeat(bytes - empty))
        };
        let response = bounded(of_bytes(EXPLANATION_MAX_BYTES));
        assert!(response.explanation.is_some() && response.error.is_none(), "{response:?}");
        let response = bounded(of_bytes(EXPLANATION_MAX_BYTES + 1));
        let expected = "the explanation has 1048577 bytes, and this server sends at most 1048576; \
                        give what it serves: pinion why SOURCE URL";
        assert_eq!((response.explanation, response.error.as_deref()), (None, Some(expected)));
    }
}
