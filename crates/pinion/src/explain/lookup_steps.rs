//! Converts the reports of a look-up into the steps of docs/resolution.md, in words.

use super::explanation::{ExplanationStep, RuleShown, StepName};
use super::lookup_recorder::{Compared, Heard};
use super::rule_lines::RuleLines;
use crate::terminal::shown;
use pinion_archive::layout::{FALLBACK_PREFIX, VARIANT_PREFIX};
use pinion_archive::{Archive, Entry, EntryKind, Scratch};
use pinion_http::method::Method;
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::PathError;
use pinion_site::lookup_trace::{LookupOutcome, SinglePage};

/// A look-up and its request.
pub(super) struct Lookup<'a> {
    /// The archive of the site.
    pub(super) archive: Archive<'a>,
    /// The request.
    pub(super) head: &'a RequestHead<'a>,
    /// Its path, decoded as far as it can be.
    pub(super) path: &'a [u8],
    /// The reports of the look-up.
    pub(super) heard: &'a Heard,
    /// The rules of the site.
    pub(super) rules: &'a RuleLines,
}

/// The step that gives the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Last {
    ForcedRule,
    File,
    SlashForm,
    Rule,
    FallbackPage,
    SinglePage,
    NotFoundPage,
    BuiltInPage,
}

/// A rule that gives the response, or that a fallback page stands in for.
struct AppliedRule {
    shown: Option<RuleShown>,
    is_forced: bool,
}

impl Lookup<'_> {
    /// Returns the steps, the one that gives the response last.
    pub(super) fn steps(&self) -> Vec<ExplanationStep> {
        let heard = self.heard;
        if let Some(error @ (PathError::Malformed | PathError::AboveRoot)) = heard.path_error {
            let reason = match error {
                PathError::AboveRoot => "the path leads above the root",
                _ => "the path has a % without two hexadecimal digits",
            };
            return vec![ExplanationStep::responds(None, StepName::Path, reason.to_owned())];
        }
        let Some(outcome) = heard.outcome else {
            return vec![self.without_outcome()];
        };
        let applied = self.applied(outcome);
        let last = self.last(outcome, applied.as_ref());
        let mut steps = Vec::new();
        if self.rules.has_redirects(&self.archive) {
            self.forced_rule(applied.as_ref(), last, &mut steps);
        }
        let is_forced = applied.as_ref().is_some_and(|rule| rule.is_forced);
        if !is_forced {
            self.file_and_slash_form(last, &mut steps);
            if last >= Last::Rule && self.rules.has_redirects(&self.archive) {
                self.rule(applied.as_ref(), last, &mut steps);
            }
        }
        self.fallbacks(last, &mut steps);
        steps
    }

    /// Returns the step of a request whose look-up has no result.
    fn without_outcome(&self) -> ExplanationStep {
        match self.head.method {
            Method::Connect => {
                let reason = "Pinion opens no tunnels".to_owned();
                ExplanationStep::responds(None, StepName::Method, reason)
            }
            _ => {
                ExplanationStep::responds(None, StepName::File, "the archive is damaged".to_owned())
            }
        }
    }

    /// Returns the rule that is applied, which may be stored as the entry of the path.
    fn applied(&self, outcome: LookupOutcome) -> Option<AppliedRule> {
        if let Some(number) = self.heard.applied {
            let rule = self.archive.rules().get(number);
            let is_forced = rule.is_some_and(|rule| rule.is_forced());
            return Some(AppliedRule { shown: self.rules.rule(&self.archive, number), is_forced });
        }
        let is_entry = outcome == LookupOutcome::Redirect || self.heard.target.is_some();
        is_entry.then(|| self.rule_of_entry()).flatten()
    }

    fn rule_of_entry(&self) -> Option<AppliedRule> {
        let mut scratch = Scratch::new();
        let entry = self.archive.find(self.path, &mut scratch).ok()??;
        let said = (entry.kind(), entry.status(), entry.target()?);
        let found = self.rules.rule_of_entry(self.path, said);
        let (shown, is_forced) = found.map_or((None, false), |(rule, forced)| (Some(rule), forced));
        Some(AppliedRule { shown, is_forced })
    }

    fn last(&self, outcome: LookupOutcome, applied: Option<&AppliedRule>) -> Last {
        let heard = self.heard;
        let by_rule = match applied {
            Some(rule) if rule.is_forced => Last::ForcedRule,
            Some(rule) if rule.shown.is_some() || heard.applied.is_some() => Last::Rule,
            // An imported archive has redirects without lines.
            _ => Last::File,
        };
        match outcome {
            LookupOutcome::Resource => Last::File,
            LookupOutcome::Redirect | LookupOutcome::RuleRedirect(_) => by_rule,
            LookupOutcome::SlashRedirect if heard.has_page_of_folder => Last::FallbackPage,
            LookupOutcome::SlashRedirect => Last::SlashForm,
            LookupOutcome::StandIn if heard.single_page == Some(SinglePage::Sent) => {
                Last::SinglePage
            }
            LookupOutcome::StandIn if heard.has_page_of_folder || heard.fallback.is_some() => {
                Last::FallbackPage
            }
            LookupOutcome::StandIn => by_rule,
            LookupOutcome::Page(_) if heard.fallback.is_some() => Last::NotFoundPage,
            LookupOutcome::Page(_) => by_rule,
            LookupOutcome::Error(414) if heard.is_too_long => by_rule,
            LookupOutcome::Error(404) => Last::BuiltInPage,
            LookupOutcome::Error(_) => Last::File,
        }
    }

    fn forced_rule(
        &self,
        applied: Option<&AppliedRule>,
        last: Last,
        steps: &mut Vec<ExplanationStep>,
    ) {
        let (number, name) = (1, StepName::ForcedRule);
        if let Some(rule) = applied.filter(|rule| rule.is_forced) {
            let reason = self.effect();
            let step = match last {
                Last::ForcedRule => ExplanationStep::responds(number, name, reason),
                _ => ExplanationStep::passed(number, name, reason),
            };
            steps.push(step.with_rule(rule.shown.clone()));
            return;
        }
        steps.extend(self.unmatched(number, name, true));
        let reason = "no forced rule matches".to_owned();
        match self.heard.not_forced {
            Some(rule) if last <= Last::SlashForm => {
                let reason = "a rule matches, but is not forced with !".to_owned();
                let rule = self.rules.rule(&self.archive, rule);
                steps.push(ExplanationStep::passed(number, name, reason).with_rule(rule));
            }
            _ => steps.push(ExplanationStep::passed(number, name, reason)),
        }
    }

    /// Returns a step for each rule whose path matches and whose host or query does not.
    fn unmatched(
        &self,
        number: u8,
        name: StepName,
        forced: bool,
    ) -> impl Iterator<Item = ExplanationStep> {
        let is_forced =
            |number: u32| self.archive.rules().get(number).is_some_and(|rule| rule.is_forced());
        let rules = self.heard.rules.iter().filter(move |(rule, _)| is_forced(*rule) == forced);
        rules.filter_map(move |(rule, compared)| {
            let reason = match compared {
                Compared::Matches => return None,
                Compared::OtherHost => "a rule for another host".to_owned(),
                Compared::Query(key) => {
                    format!("a rule that needs {} in the query, or another value", shown(key))
                }
            };
            let rule = self.rules.rule(&self.archive, *rule);
            Some(ExplanationStep::passed(number, name, reason).with_rule(rule))
        })
    }

    fn file_and_slash_form(&self, last: Last, steps: &mut Vec<ExplanationStep>) {
        let heard = self.heard;
        if last == Last::File {
            return steps.push(ExplanationStep::responds(2, StepName::File, self.file()));
        }
        let path = shown(self.path);
        let reason = match heard.entry {
            _ if heard.path_error.is_some() => "no file has %2F or %00 in its path".to_owned(),
            Some(Some(EntryKind::Private)) => "the file is private".to_owned(),
            _ if path.ends_with('/') => format!("there is no index file in {path}"),
            _ => format!("there is no {path}"),
        };
        steps.push(ExplanationStep::passed(2, StepName::File, reason));
        match &heard.slash_form {
            Some((other, _)) if last == Last::SlashForm => {
                let reason = format!("redirect to {}", shown(other));
                steps.push(ExplanationStep::responds(3, StepName::SlashForm, reason));
            }
            Some((other, _)) => {
                let reason = format!("there is no {}", shown(other));
                steps.push(ExplanationStep::passed(3, StepName::SlashForm, reason));
            }
            None if heard.has_no_slash_redirects => {
                let reason = "the site is built with --no-slash-redirects".to_owned();
                steps.push(ExplanationStep::passed(3, StepName::SlashForm, reason));
            }
            None => {}
        }
    }

    fn rule(&self, applied: Option<&AppliedRule>, last: Last, steps: &mut Vec<ExplanationStep>) {
        let (number, name) = (4, StepName::Rule);
        steps.extend(self.unmatched(number, name, false));
        if let Some(nul) = self.heard.nul {
            let reason = "a rule with captures does not apply to a path with %00".to_owned();
            let rule = self.rules.rule(&self.archive, nul);
            return steps.push(ExplanationStep::passed(number, name, reason).with_rule(rule));
        }
        let Some(rule) = applied else {
            let reason = "no rule matches".to_owned();
            return steps.push(ExplanationStep::passed(number, name, reason));
        };
        let step = match last {
            Last::Rule => ExplanationStep::responds(number, name, self.effect()),
            _ => ExplanationStep::passed(number, name, self.effect()),
        };
        steps.push(step.with_rule(rule.shown.clone()));
    }

    /// Returns in words the effect of a rule that is applied.
    fn effect(&self) -> String {
        let heard = self.heard;
        let is_missing = heard.fallback.is_some() || heard.has_page_of_folder;
        match &heard.target {
            _ if heard.is_too_long => "a rule leads to a path that is too long".to_owned(),
            None => "redirect".to_owned(),
            Some(target) if is_missing => {
                format!("rewrite to {}, which does not exist", shown(target))
            }
            Some(target) => match heard.other_target.as_ref().filter(|_| !self.sends(target)) {
                Some(other) => format!("rewrite to {}, as {}", shown(target), shown(other)),
                None => format!("rewrite to {}", shown(target)),
            },
        }
    }

    /// Returns whether the entry that is sent is that of a path.
    fn sends(&self, path: &[u8]) -> bool {
        self.heard.key.as_deref() == Some(path)
    }

    fn fallbacks(&self, last: Last, steps: &mut Vec<ExplanationStep>) {
        let heard = self.heard;
        let name = StepName::FallbackPage;
        if last < Last::FallbackPage {
            return;
        }
        if last == Last::FallbackPage {
            let reason = match heard.outcome {
                Some(LookupOutcome::SlashRedirect) => {
                    format!("redirect to {}/, which has a fallback page", shown(self.path))
                }
                _ => format!("{}, with status 200", self.fallback_page()),
            };
            return steps.push(ExplanationStep::responds(5, name, reason));
        }
        let nearest = heard.fallback.flatten();
        let reason = match nearest {
            Some(status) => format!("the nearest has status {status}"),
            None => "there is none".to_owned(),
        };
        steps.push(ExplanationStep::passed(5, name, reason));
        let name = StepName::SinglePage;
        let reason = match heard.single_page {
            Some(SinglePage::Sent) => "the request is a navigation".to_owned(),
            Some(SinglePage::NoNavigation) => self.no_navigation(),
            Some(SinglePage::None) | None => "the site is built without --single-page".to_owned(),
        };
        if last == Last::SinglePage {
            return steps.push(ExplanationStep::responds(6, name, reason));
        }
        steps.push(ExplanationStep::passed(6, name, reason));
        if last == Last::NotFoundPage {
            let reason = self.fallback_page();
            return steps.push(ExplanationStep::responds(7, StepName::NotFoundPage, reason));
        }
        steps.push(ExplanationStep::passed(7, StepName::NotFoundPage, "there is none".to_owned()));
        let reason = "the page of Pinion for 404".to_owned();
        steps.push(ExplanationStep::responds(8, StepName::BuiltInPage, reason));
    }

    /// Returns the fallback page that is sent, by the name of its file as far as that is known.
    fn fallback_page(&self) -> String {
        let key = self.heard.key.as_deref().unwrap_or_default();
        let folder = key.strip_prefix(FALLBACK_PREFIX).unwrap_or(b"/");
        let (mut one, mut other) = (Scratch::new(), Scratch::new());
        let page = [folder, b"404.html"].concat();
        let found = self.archive.find(&page, &mut one).ok().flatten();
        let sent = self.archive.find(key, &mut other).ok().flatten();
        let first = |entry: Entry<'_>| entry.representations().next().map(|form| *form.etag());
        if found.is_some() && found.and_then(first) == sent.and_then(first) {
            return format!("the file {}", shown(&page));
        }
        match self.rules.file_in(folder, &["_wildcard.", "_200.", "_404."]) {
            Some(name) => format!("the file {}{}", shown(folder), shown(&name)),
            None => format!("the page of {}", shown(folder)),
        }
    }

    /// Returns why a request is not a navigation (docs/resolution.md).
    fn no_navigation(&self) -> String {
        let path = self.heard.target.as_deref().unwrap_or(self.path);
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let extension = name.iter().rposition(|&byte| byte == b'.').and_then(|at| name.get(at..));
        let method = self.head.method;
        match extension.filter(|extension| !extension.eq_ignore_ascii_case(b".html")) {
            _ if !matches!(method, Method::Get | Method::Head) => {
                "a navigation is a GET or HEAD".to_owned()
            }
            Some(extension) => format!("a path with {} is no navigation", shown(extension)),
            None => "no navigation: no Sec-Fetch-Mode: navigate, no text/html in Accept".to_owned(),
        }
    }

    /// Returns the description of the file that is sent, or of the entry of the path.
    fn file(&self) -> String {
        let heard = self.heard;
        let path = shown(self.path);
        let mut scratch = Scratch::new();
        let key = heard.key.as_deref().unwrap_or(self.path);
        let is_listing = heard.is_variant || key.starts_with(VARIANT_PREFIX);
        let entry = self.archive.find(key, &mut scratch).ok().flatten();
        let Some(entry) = entry else { return "the archive is damaged".to_owned() };
        match (entry.kind(), entry.target()) {
            _ if is_listing => "the directory listing, as JSON".to_owned(),
            (EntryKind::Resource, _) if entry.has_variant() => "the directory listing".to_owned(),
            (EntryKind::Resource, Some(file)) => format!("the file {}", shown(file)),
            (EntryKind::Resource, None) => format!("the file {path}"),
            (EntryKind::Redirect, _) => "a redirect that the archive has for the path".to_owned(),
            (EntryKind::Rewrite, Some(target)) => {
                format!("the archive sends {} for the path", shown(target))
            }
            _ => "the archive has an entry that this version does not know".to_owned(),
        }
    }
}
