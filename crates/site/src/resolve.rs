//! Resolves a path to an entry. First match wins (docs/resolution.md):
//!
//! 1. the first rule that matches, if it is forced
//! 2. the entry of the path; the build has made entries for index files, clean URLs and most rules
//! 3. the other slash form, if only that exists
//! 4. the first rule that matches
//! 5. the nearest fallback page, if its status is 200; first a redirect to the folder's other form,
//!    if that folder itself has one
//! 6. for navigations, the single-page fallback
//! 7. the nearest fallback page, else the built-in one
//!
//! The target of a rewrite is looked up in the same way, but without the rules; where a request
//! would be redirected to the other slash form, that form is sent.

use pinion_archive::layout::{SINGLE_PAGE_KEY, VARIANT_PREFIX};
use pinion_archive::{Archive, Damage, EntryKind, Rule, Scratch, TargetPart};
use pinion_http::field::KnownField;
use pinion_http::method::Method;
use pinion_http::negotiate;
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::PathError;

use crate::lookup_trace::{LookupOutcome, LookupStep, SinglePage, Sought, Trace};
use crate::redirect_location;
use crate::request_buffers::RequestBuffers;
use crate::rule_matching::{self, RuleCaptures, RuleInput};
use crate::rule_target;

/// Looks the path of a request up.
///
/// The entry of the outcome, if it has one, is in the `scratch` of `request_buffers`. The path that
/// a rewrite leads to is in `target`, which is empty without one. The location of a redirect by a
/// rule is in `text`, and so is that of a redirect to the other slash form, which lacks the query.
#[inline]
pub(crate) fn resolve<'x>(
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    request_buffers: &mut RequestBuffers,
    trace: impl Trace,
) -> Result<LookupOutcome, Damage> {
    let RequestBuffers { path: buffer, key, target, scratch, text, .. } = request_buffers;
    target.clear();
    let path = match head.target.decoded_path(buffer) {
        Ok(path) => path,
        Err(PathError::NeverMatches) => {
            trace.step(LookupStep::NoPath(PathError::NeverMatches));
            let mut search = EntrySearch { archive, head, key, target, scratch, text, trace };
            return search.never_matching(buffer);
        }
        Err(error) => {
            trace.step(LookupStep::NoPath(error));
            return Ok(LookupOutcome::Error(error.status()));
        }
    };
    trace.step(LookupStep::Path(path));
    let found = archive.load(path, scratch)?;
    if found && is_alone(scratch) {
        trace.step(LookupStep::entry(Sought::Path, path, scratch));
        return Ok(LookupOutcome::Resource);
    }
    if found {
        return EntrySearch { archive, head, key, target, scratch, text, trace }.found(path);
    }
    trace.step(LookupStep::entry(Sought::Path, path, scratch));
    EntrySearch { archive, head, key, target, scratch, text, trace }.missing(path)
}

/// Returns whether a file has this path, which is decoded, and no rule or variant may have
/// precedence over it; a page that is sent for missing paths does not count. A damaged entry is no
/// file.
pub fn has_file(archive: &Archive<'_>, path: &[u8], request_buffers: &mut RequestBuffers) -> bool {
    archive.load(path, &mut request_buffers.scratch).unwrap_or(false)
        && is_alone(&request_buffers.scratch)
}

/// Returns whether a rule has precedence over any file for the path of a request: a forced rule, or
/// a rule for this path alone, because an archive does not tell whether it is forced.
pub fn has_rule_before_files(
    archive: &Archive<'_>,
    head: &RequestHead<'_>,
    request_buffers: &mut RequestBuffers,
) -> bool {
    let Ok(path) = head.target.decoded_path(&mut request_buffers.path) else { return false };
    let is_found = archive.load(path, &mut request_buffers.scratch).unwrap_or(false);
    let kind = request_buffers.scratch.entry().filter(|_| is_found).map(|entry| entry.kind());
    if matches!(kind, Some(EntryKind::Redirect | EntryKind::Rewrite)) {
        return true;
    }
    if archive.rules().is_empty() {
        return false;
    }
    let (asked, mut captures) = (RuleInput::new(path, head), RuleCaptures::NONE);
    let rule =
        rule_matching::first(archive.rules(), &asked, &mut captures, crate::lookup_trace::Untraced);
    rule.is_some_and(|rule| rule.is_forced())
}

/// Returns whether the entry is a resource that no rule and no variant may replace.
#[inline]
fn is_alone(scratch: &Scratch) -> bool {
    scratch
        .entry()
        .is_some_and(|entry| entry.kind() == EntryKind::Resource && !entry.is_conditional())
}

impl<'t> LookupStep<'t> {
    /// Returns the step of a lookup that has left its entry, or none, in `scratch`.
    #[inline(always)]
    fn entry(sought: Sought, path: &'t [u8], scratch: &Scratch) -> LookupStep<'t> {
        LookupStep::Entry { sought, path, found: scratch.entry().map(|entry| entry.kind()) }
    }
}

/// A lookup that goes on after the first entry.
struct EntrySearch<'w, 'q, 'x, T> {
    archive: &'q Archive<'x>,
    head: &'q RequestHead<'x>,
    key: &'w mut Vec<u8>,
    /// The target path of a rewrite; empty until there is one.
    target: &'w mut Vec<u8>,
    scratch: &'w mut Scratch,
    text: &'w mut Vec<u8>,
    trace: T,
}

impl<'x, T: Trace> EntrySearch<'_, '_, 'x, T> {
    /// Handles a path that has an entry, which is in `scratch`.
    fn found(&mut self, path: &[u8]) -> Result<LookupOutcome, Damage> {
        let Some(entry) = self.scratch.entry() else { return Ok(LookupOutcome::Error(500)) };
        if entry.rules_first() {
            let mut captures = RuleCaptures::NONE;
            let rule = self.first_rule(path, &mut captures);
            if let Some(rule) = rule {
                if rule.is_forced() {
                    return self.apply(&rule, &captures, path);
                }
                self.trace.step(LookupStep::NotForced { number: rule.number() });
            }
        }
        self.trace.step(LookupStep::entry(Sought::Path, path, self.scratch));
        let Some(entry) = self.scratch.entry() else { return Ok(LookupOutcome::Error(500)) };
        match entry.kind() {
            EntryKind::Resource => self.variant(),
            EntryKind::Redirect => Ok(LookupOutcome::Redirect),
            EntryKind::Private => self.missing(path),
            EntryKind::Rewrite => {
                let status = entry.status();
                self.target.extend_from_slice(entry.target().unwrap_or_default());
                self.rewritten(status)
            }
            EntryKind::Handler | EntryKind::Unknown(_) => Ok(LookupOutcome::Error(500)),
        }
    }

    /// Handles a path without an entry, or with a private one.
    fn missing(&mut self, path: &[u8]) -> Result<LookupOutcome, Damage> {
        if self.archive.rules().is_empty() {
            return if self.other_slash_form(path)? {
                Ok(LookupOutcome::SlashRedirect)
            } else {
                self.fallback(path)
            };
        }
        let mut captures = RuleCaptures::NONE;
        let rule = self.first_rule(path, &mut captures);
        if !rule.is_some_and(|rule| rule.is_forced()) && self.other_slash_form(path)? {
            if let Some(rule) = rule {
                self.trace.step(LookupStep::NotForced { number: rule.number() });
            }
            return Ok(LookupOutcome::SlashRedirect);
        }
        match rule {
            Some(rule) => self.apply(&rule, &captures, path),
            None => self.fallback(path),
        }
    }

    /// Handles a path with bytes that are in no key: no entry has it, but fallbacks still apply. An
    /// escaped slash stays one where a rule captures it; `%00` could not be distinguished from it.
    fn never_matching(&mut self, path: &[u8]) -> Result<LookupOutcome, Damage> {
        let mut captures = RuleCaptures::NONE;
        let rule = self.first_rule(path, &mut captures);
        let has_nul = self.head.target.path.windows(3).any(|escape| escape == b"%00");
        let captures_nothing =
            |rule: &Rule<'_>| rule.target().all(|part| matches!(part, TargetPart::Literal(_)));
        match rule {
            Some(rule) if !has_nul || captures_nothing(&rule) => self.apply(&rule, &captures, path),
            other => {
                if let Some(rule) = other {
                    self.trace.step(LookupStep::NulInPath { number: rule.number() });
                }
                self.fallback(path)
            }
        }
    }

    fn first_rule<'p>(&self, path: &'p [u8], captures: &mut RuleCaptures<'p>) -> Option<Rule<'x>>
    where
        'x: 'p,
    {
        let asked = RuleInput::new(path, self.head);
        rule_matching::first(self.archive.rules(), &asked, captures, self.trace)
    }

    /// Applies a rule; returns the fallback when its target does not exist.
    fn apply(
        &mut self,
        rule: &Rule<'_>,
        captures: &RuleCaptures<'_>,
        path: &[u8],
    ) -> Result<LookupOutcome, Damage> {
        self.trace.step(LookupStep::Applied { number: rule.number() });
        if rule.is_redirect() {
            let fits = rule_target::location(rule, captures, self.head.target.query, self.text);
            // RFC 9110 §15.5.15: the target is longer than the server is willing to interpret.
            if !fits {
                self.trace.step(LookupStep::TooLong);
                return Ok(LookupOutcome::Error(414));
            }
            return Ok(LookupOutcome::RuleRedirect(rule.status()));
        }
        if rule_target::key(rule, captures, self.target) {
            self.rewritten(rule.status())
        } else {
            self.trace.step(LookupStep::TooLong);
            self.target.clear();
            self.fallback(path)
        }
    }

    /// Returns the outcome of a request for the path in `target`, with a status if that is a
    /// resource. Rules do not apply to it, and it never redirects.
    fn rewritten(&mut self, status: u16) -> Result<LookupOutcome, Damage> {
        let target = core::mem::take(self.target);
        let outcome = self.target_outcome(status, &target);
        *self.target = target;
        outcome
    }

    fn target_outcome(&mut self, status: u16, target: &[u8]) -> Result<LookupOutcome, Damage> {
        self.trace.step(LookupStep::Rewritten(target));
        if self.load_resource(Sought::Target, target)? || self.load_other_form(target)? {
            return match status {
                200 => self.variant().map(standing_in),
                _ => Ok(LookupOutcome::Page(status)),
            };
        }
        if self.load_page_of_folder(target)? {
            return Ok(LookupOutcome::StandIn);
        }
        self.nearest_page(target)
    }

    fn load_resource(&mut self, sought: Sought, key: &[u8]) -> Result<bool, Damage> {
        let found = self.archive.load(key, self.scratch)?;
        self.trace.step(LookupStep::entry(sought, key, self.scratch));
        let kind = self.scratch.entry().map(|entry| entry.kind());
        Ok(found && kind == Some(EntryKind::Resource))
    }

    /// Loads the resource under the other slash form of a path, if requests are led there.
    fn load_other_form(&mut self, path: &[u8]) -> Result<bool, Damage> {
        if !self.archive.redirects_slashes() {
            return Ok(false);
        }
        let key = core::mem::take(self.key);
        let mut buffer = key;
        let found = match other_form(path, &mut buffer) {
            Some(other) => self.load_resource(Sought::TargetOtherSlashForm, other),
            None => Ok(false),
        };
        *self.key = buffer;
        found
    }

    /// Returns the resource in `scratch`, or its variant if the client prefers that.
    fn variant(&mut self) -> Result<LookupOutcome, Damage> {
        let Some(entry) = self.scratch.entry() else { return Ok(LookupOutcome::Error(500)) };
        if !entry.has_variant() || !negotiate::prefers_json(self.head.values(KnownField::Accept)) {
            return Ok(LookupOutcome::Resource);
        }
        self.trace.step(LookupStep::Variant);
        self.key.clear();
        self.key.extend_from_slice(VARIANT_PREFIX);
        self.key.extend_from_slice(entry.path());
        let found = self.archive.load(self.key, self.scratch)?;
        let kind = self.scratch.entry().map(|entry| entry.kind());
        let resource = found && kind == Some(EntryKind::Resource);
        Ok(if resource { LookupOutcome::Resource } else { LookupOutcome::Error(500) })
    }

    /// Returns whether the path exists with a slash more or less at its end; then `text` has its
    /// location.
    fn other_slash_form(&mut self, path: &[u8]) -> Result<bool, Damage> {
        if !self.archive.redirects_slashes() {
            self.trace.step(LookupStep::NoSlashRedirects);
            return Ok(false);
        }
        let Some(other) = other_form(path, self.key) else { return Ok(false) };
        let found = self.archive.load(other, self.scratch)?;
        self.trace.step(LookupStep::entry(Sought::OtherSlashForm, other, self.scratch));
        let kind = self.scratch.entry().map(|entry| entry.kind());
        Ok(found
            && kind != Some(EntryKind::Private)
            && redirect_location::write_path(self.text, other))
    }

    /// Returns whether the path is a folder's without its slash, and that folder has a fallback
    /// page of its own; then it is in `scratch`.
    fn load_page_of_folder(&mut self, path: &[u8]) -> Result<bool, Damage> {
        if !self.archive.redirects_slashes() || path.ends_with(b"/") {
            return Ok(false);
        }
        let found = self.archive.load_fallback_of(path, self.scratch)?;
        let status = self.scratch.entry().map(|entry| entry.status());
        let found = found && status == Some(200);
        self.trace.step(LookupStep::PageOfFolder { path, found });
        Ok(found)
    }

    /// Returns the fallback of a path that no other step has resolved.
    fn fallback(&mut self, path: &[u8]) -> Result<LookupOutcome, Damage> {
        if self.load_page_of_folder(path)?
            && redirect_location::write_path(self.text, with_slash(path, self.key))
        {
            return Ok(LookupOutcome::SlashRedirect);
        }
        self.nearest_page(path)
    }

    /// Returns the fallback page that is nearest to a path, or that of a single-page site.
    fn nearest_page(&mut self, path: &[u8]) -> Result<LookupOutcome, Damage> {
        let found = self.archive.load_fallback(path, self.scratch)?;
        let status = self.scratch.entry().map_or(404, |entry| entry.status());
        self.trace.step(LookupStep::Fallback { path, found: found.then_some(status) });
        if found && status == 200 {
            return Ok(LookupOutcome::StandIn);
        }
        if !self.archive.has_single_page() {
            self.trace.step(LookupStep::SinglePage(SinglePage::None));
        } else if !is_navigation(self.head, path) {
            self.trace.step(LookupStep::SinglePage(SinglePage::NoNavigation));
        } else if self.archive.load(SINGLE_PAGE_KEY, self.scratch)? {
            self.trace.step(LookupStep::SinglePage(SinglePage::Sent));
            return Ok(LookupOutcome::StandIn);
        }
        Ok(if found { LookupOutcome::Page(status) } else { LookupOutcome::Error(404) })
    }
}

/// Marks a resource that is sent for another path.
fn standing_in(outcome: LookupOutcome) -> LookupOutcome {
    if outcome == LookupOutcome::Resource { LookupOutcome::StandIn } else { outcome }
}

/// Returns a path with a slash more or less at its end, perhaps in `key`.
fn other_form<'k>(path: &'k [u8], key: &'k mut Vec<u8>) -> Option<&'k [u8]> {
    match path {
        // An empty segment at the end is a segment, not the slash of another form.
        [b'/'] | [.., b'/', b'/'] => None,
        [without @ .., b'/'] => Some(without),
        _ => Some(with_slash(path, key)),
    }
}

fn with_slash<'k>(path: &[u8], key: &'k mut Vec<u8>) -> &'k [u8] {
    key.clear();
    key.extend_from_slice(path);
    key.push(b'/');
    key
}

/// Returns whether a user navigates to a page, as opposed to a page that loads its parts: a missing
/// style sheet must not become HTML.
fn is_navigation(head: &RequestHead<'_>, path: &[u8]) -> bool {
    if !matches!(head.method, Method::Get | Method::Head) {
        return false;
    }
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let extension = name.iter().rposition(|&byte| byte == b'.').and_then(|at| name.get(at + 1..));
    if extension.is_some_and(|extension| !extension.eq_ignore_ascii_case(b"html")) {
        return false;
    }
    // Fetch §3.1 (Sec-Fetch-Mode); for clients without it, `Accept` decides.
    let mode = head.fields.get(b"sec-fetch-mode");
    mode.is_some_and(|mode| mode == b"navigate")
        || negotiate::names_html(head.values(KnownField::Accept))
}
