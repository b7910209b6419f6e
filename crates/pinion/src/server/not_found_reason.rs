//! Decides whether a status 404 is the effect of a rule of the site, or means that the site has no
//! such resource.

use pinion_archive::Archive;
use pinion_http::request_head::RequestHead;
use pinion_site::lookup_trace::{LookupOutcome, LookupStep, Trace};
use pinion_site::{Pieces, RequestBuffers, respond_traced};
use std::cell::Cell;

/// Receives the steps of a look-up, and records the inputs of its result.
#[derive(Default)]
pub(crate) struct RefusalTrace {
    rule: Cell<bool>,
    fallback_page: Cell<bool>,
    page: Cell<bool>,
}

impl RefusalTrace {
    /// Returns whether a rule of `_redirects` says that there is nothing, if the look-up has led to
    /// status 404: then nothing else may respond.
    pub(crate) fn is_by_rule(&self) -> bool {
        self.rule.get() || (self.page.get() && !self.fallback_page.get())
    }
}

impl Trace for &RefusalTrace {
    fn step(self, step: LookupStep<'_>) {
        match step {
            LookupStep::Applied { .. } => self.rule.set(true),
            LookupStep::Fallback { found: Some(_), .. } => self.fallback_page.set(true),
            LookupStep::End { outcome: LookupOutcome::Page(_), .. } => self.page.set(true),
            _ => {}
        }
    }
}

/// Looks up again why a request gets status 404 ([`RefusalTrace::is_by_rule`]).
#[cold]
pub(crate) fn is_by_rule(
    archive: &Archive<'_>,
    head: &RequestHead<'_>,
    unix_seconds: i64,
    work: &mut RequestBuffers,
) -> bool {
    let trace = RefusalTrace::default();
    respond_traced(archive, head, unix_seconds, work, &mut Pieces::new(), &trace);
    trace.is_by_rule()
}
