//! Records the steps of a look-up.

use pinion_archive::EntryKind;
use pinion_http::request_target::PathError;
use pinion_site::lookup_trace::{LookupOutcome, LookupStep, RuleMatch, SinglePage, Sought, Trace};
use std::cell::RefCell;

/// Records the reports of the steps of one look-up.
#[derive(Debug, Default)]
pub(super) struct Recorder(RefCell<Heard>);

/// The reports of the steps of a look-up. Paths are decoded.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Why the path names no resource.
    pub(super) path_error: Option<PathError>,
    /// The rules whose path matches, in the order in which they were compared, each once.
    pub(super) rules: Vec<(u32, Compared)>,
    /// The rule that is applied.
    pub(super) applied: Option<u32>,
    /// The rule that would have been applied if it were forced.
    pub(super) not_forced: Option<u32>,
    /// The rule that is not applied because of a `%00`.
    pub(super) nul: Option<u32>,
    /// The location or the target of the rule is too long.
    pub(super) is_too_long: bool,
    /// The entry of the path, if it was looked up.
    pub(super) entry: Option<Option<EntryKind>>,
    /// The other slash form and its entry, if that was looked up.
    pub(super) slash_form: Option<(Vec<u8>, Option<EntryKind>)>,
    /// The site has no redirects between slash forms.
    pub(super) has_no_slash_redirects: bool,
    /// Where a rewrite leads.
    pub(super) target: Option<Vec<u8>>,
    /// The slash form of the target that was found.
    pub(super) other_target: Option<Vec<u8>>,
    /// A listing is sent as JSON.
    pub(super) is_variant: bool,
    /// The folder of the path has a fallback page of its own with status 200.
    pub(super) has_page_of_folder: bool,
    /// The status of the nearest fallback page, if that was looked up.
    pub(super) fallback: Option<Option<u16>>,
    /// The result for the page of the single-page application.
    pub(super) single_page: Option<SinglePage>,
    /// The result; none for CONNECT and `*`, and for a damaged archive.
    pub(super) outcome: Option<LookupOutcome>,
    /// The key of the entry that is sent.
    pub(super) key: Option<Vec<u8>>,
}

/// The result of comparing a request with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// The rule matches.
    Matches,
    /// It is for another host.
    OtherHost,
    /// The query lacks this parameter, or it has another value.
    Query(Vec<u8>),
}

impl Recorder {
    /// Returns the recorded reports.
    pub(super) fn heard(self) -> Heard {
        self.0.into_inner()
    }
}

impl Trace for &Recorder {
    fn step(self, step: LookupStep<'_>) {
        let mut heard = self.0.borrow_mut();
        match step {
            LookupStep::Path(_) => {}
            LookupStep::NoPath(error) => heard.path_error = Some(error),
            LookupStep::Entry { sought: Sought::Path, found, .. } => heard.entry = Some(found),
            LookupStep::Entry { sought: Sought::OtherSlashForm, path, found } => {
                heard.slash_form = Some((path.to_vec(), found));
            }
            LookupStep::Entry { sought: Sought::Target, .. } => {}
            LookupStep::Entry { sought: Sought::TargetOtherSlashForm, path, found } => {
                heard.other_target = found.map(|_| path.to_vec());
            }
            LookupStep::Variant => heard.is_variant = true,
            LookupStep::NoSlashRedirects => heard.has_no_slash_redirects = true,
            LookupStep::Rule { number, matched } => heard.compared(number, matched),
            LookupStep::NotForced { number } => heard.not_forced = Some(number),
            LookupStep::Applied { number } => heard.applied = Some(number),
            LookupStep::NulInPath { number } => heard.nul = Some(number),
            LookupStep::TooLong => heard.is_too_long = true,
            LookupStep::Rewritten(target) => heard.target = Some(target.to_vec()),
            LookupStep::PageOfFolder { found, .. } => heard.has_page_of_folder = found,
            LookupStep::Fallback { found, .. } => heard.fallback = Some(found),
            LookupStep::SinglePage(page) => heard.single_page = Some(page),
            LookupStep::End { outcome, key, .. } => {
                heard.outcome = Some(outcome);
                heard.key = key.map(<[u8]>::to_vec);
            }
        }
    }
}

impl Heard {
    fn compared(&mut self, number: u32, matched: RuleMatch<'_>) {
        // A rule for one path is compared once more after the patterns before it.
        if self.rules.iter().any(|(known, _)| *known == number) {
            return;
        }
        let compared = match matched {
            RuleMatch::Yes => Compared::Matches,
            RuleMatch::OtherHost => Compared::OtherHost,
            RuleMatch::Query(key) => Compared::Query(key.to_vec()),
        };
        self.rules.push((number, compared));
    }
}
