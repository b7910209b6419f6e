//! Whether status 404 is what a rule of the site says, or says that the site has nothing.

use pinion_archive::Archive;
use pinion_http::request::RequestHead;
use pinion_site::trace::{Outcome, Step, Trace};
use pinion_site::{Pieces, Work, answer_traced};
use std::cell::Cell;

/// What a look-up has met.
#[derive(Default)]
struct Met {
    rule: Cell<bool>,
    fallback_page: Cell<bool>,
    page: Cell<bool>,
}

impl Trace for &Met {
    fn step(self, step: Step<'_>) {
        match step {
            Step::Applied { .. } => self.rule.set(true),
            Step::Fallback { found: Some(_), .. } => self.fallback_page.set(true),
            Step::End { outcome: Outcome::Page(_), .. } => self.page.set(true),
            _ => {}
        }
    }
}

/// Looks up again why a request gets status 404. Returns whether a rule of `_redirects` says so:
/// then nothing else may respond.
#[cold]
pub(crate) fn is_by_rule(
    archive: &Archive<'_>,
    head: &RequestHead<'_>,
    unix_seconds: i64,
    work: &mut Work,
) -> bool {
    let met = Met::default();
    answer_traced(archive, head, unix_seconds, work, &mut Pieces::new(), &met);
    met.rule.get() || (met.page.get() && !met.fallback_page.get())
}
