//! `_redirects` and the paths of a site → index entries, marks on entries, and the rules that are
//! left to be walked.
//!
//! The meaning is in docs/rules.md. Three things keep the compiled rules equal to it:
//!
//! * A rule becomes entries only if no rule before it can match its path; a rule after it then
//!   never gets a request for it.
//! * An entry that a forced rule may come before is marked, unless that rule always does: then it
//!   takes the entry's place. It does not when a rewrite may lead there, which means the file.
//! * A rule without an effect of its own stays as long as it keeps a later one from matching.

use std::collections::HashMap;

use super::path_matching::{covers, covers_path, matches};
use super::redirects::{Redirect, RedirectPart, TargetPart};
use super::site_paths::SitePaths;

/// A warning about a rule that did not fail the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectWarning {
    /// A rule before it applies to all it is about: the number of that rule.
    Covered(usize),
    /// Its path is a file's, and files come before rules without `!`.
    FileFirst,
    /// The content that it is to send is not in the site.
    Missing,
    /// It redirects clients back to itself, perhaps by way of other redirects.
    Around,
    /// The site does not respond for its host.
    ForeignHost,
}

/// The fate of the entry of a path that the site has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryVerdict {
    /// The entry responds.
    Keep,
    /// The entry responds unless a forced rule does.
    RulesFirst,
    /// The rule of that number responds in its place.
    Replace(usize),
}

/// All rules, ready to be asked about paths.
pub(crate) struct CompiledRedirects<'r> {
    pub(super) rules: &'r [Redirect],
    /// Rules for one path only, by it.
    exact: HashMap<Vec<u8>, Vec<usize>>,
    patterns: Vec<usize>,
    /// Whether a pattern is forced; whether an exact rule is.
    forced: (bool, bool),
    /// Rules that send a body.
    rewrites: Vec<usize>,
}

/// The places of the rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PlacedRedirects {
    /// Paths that the site does not have, and the rule that responds to each.
    pub(crate) entries: Vec<(Vec<u8>, usize)>,
    /// Rules that are walked, in their order.
    pub(crate) walked: Vec<usize>,
    /// Rules and the warnings about them.
    pub(crate) warnings: Vec<(usize, RedirectWarning)>,
}

impl<'r> CompiledRedirects<'r> {
    pub(crate) fn new(rules: &'r [Redirect]) -> CompiledRedirects<'r> {
        let mut exact: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        let (mut patterns, mut rewrites, mut forced) = (Vec::new(), Vec::new(), (false, false));
        for (number, rule) in rules.iter().enumerate() {
            if !rule.is_redirect() {
                rewrites.push(number);
            }
            match rule.only_path() {
                Some(path) => {
                    exact.entry(path).or_default().push(number);
                    forced.1 |= rule.force;
                }
                None => {
                    patterns.push(number);
                    forced.0 |= rule.force;
                }
            }
        }
        CompiledRedirects { rules, exact, patterns, forced, rewrites }
    }

    /// Decides about the entry of a path that the site has.
    pub(crate) fn verdict(&self, path: &[u8], site: &SitePaths<'_>) -> EntryVerdict {
        let exact = self.exact_at(path);
        if !self.forced.0 && (!self.forced.1 || exact.is_empty()) {
            return EntryVerdict::Keep;
        }
        let matching = self.matching(path);
        if !matching.iter().any(|&number| self.is_forced(number)) {
            return EntryVerdict::Keep;
        }
        match matching.as_slice() {
            [only] if self.becomes_entry(*only, site) && !self.may_be_rewritten_to(path) => {
                EntryVerdict::Replace(*only)
            }
            _ => EntryVerdict::RulesFirst,
        }
    }

    /// Finds the place of every rule.
    pub(crate) fn place(&self, site: &SitePaths<'_>) -> PlacedRedirects {
        let mut placed = PlacedRedirects::default();
        for (number, rule) in self.rules.iter().enumerate() {
            if let Some(earlier) = self.covered_by(number) {
                placed.warnings.push((number, RedirectWarning::Covered(earlier)));
                continue;
            }
            if rule.host.as_deref().is_some_and(|host| !site.may_respond_for(host)) {
                placed.warnings.push((number, RedirectWarning::ForeignHost));
            } else if !(rule.is_redirect() || site.may_send(rule) || site.may_have_page_near(rule))
            {
                placed.warnings.push((number, RedirectWarning::Missing));
            }
            let is_entry = match rule.only_path() {
                Some(path) => self.place_exact(number, &path, site, &mut placed),
                None => false,
            };
            if !is_entry {
                placed.walked.push(number);
            }
        }
        placed
    }

    /// Makes entries of a rule about one path; false when it has to be walked.
    fn place_exact(
        &self,
        number: usize,
        path: &[u8],
        site: &SitePaths<'_>,
        placed: &mut PlacedRedirects,
    ) -> bool {
        let Some(rule) = self.rules.get(number) else { return false };
        let forms = forms(path);
        let there = if site.slash_redirects {
            forms.iter().any(|form| site.has(form))
        } else {
            forms.iter().all(|form| site.has(form))
        };
        let is_first = rule.is_unconditional() && self.matching(path) == [number];
        if there && !rule.force {
            let guards = self.guards(number, path);
            if !guards {
                placed.warnings.push((number, RedirectWarning::FileFirst));
            }
            return is_first && !guards;
        }
        if !is_first || !self.becomes_entry(number, site) {
            return false;
        }
        let (old, new): (Vec<_>, Vec<_>) = forms.into_iter().partition(|form| site.has(form));
        let stays = |form: &Vec<u8>| self.verdict(form, site) == EntryVerdict::RulesFirst;
        placed.entries.extend(new.into_iter().map(|form| (form, number)));
        !old.iter().any(stays)
    }

    /// Returns whether a rule can stand in the index: it sends a location, or a body that is there.
    fn becomes_entry(&self, number: usize, site: &SitePaths<'_>) -> bool {
        let Some(rule) = self.rules.get(number) else { return false };
        let target = rule.only_target();
        rule.is_unconditional()
            && target.is_some_and(|target| rule.is_redirect() || site.sends(target))
    }

    /// Returns whether a forced rule would get requests for the path if this one were not before
    /// it.
    fn guards(&self, number: usize, path: &[u8]) -> bool {
        let behind = self.about(path).into_iter().filter(|&later| later > number);
        behind.into_iter().any(|later| self.is_forced(later))
    }

    /// Returns the rules that can match a path, in order, up to the first that always does.
    pub(super) fn matching(&self, path: &[u8]) -> Vec<usize> {
        let mut about = self.about(path);
        let always =
            |&number: &usize| self.rules.get(number).is_some_and(Redirect::is_unconditional);
        if let Some(last) = about.iter().position(always) {
            about.truncate(last + 1);
        }
        about
    }

    /// Returns the rules whose path a path is, in order.
    pub(super) fn about(&self, path: &[u8]) -> Vec<usize> {
        let mut about = self.exact_at(path).to_vec();
        let patterns = self.patterns.iter().copied();
        about.extend(patterns.filter(|&number| {
            self.rules.get(number).is_some_and(|rule| matches(&rule.path, path))
        }));
        about.sort_unstable();
        about
    }

    fn exact_at(&self, path: &[u8]) -> &[usize] {
        let without = path.strip_suffix(b"/").filter(|rest| !rest.is_empty()).unwrap_or(path);
        self.exact.get(without).map_or(&[], Vec::as_slice)
    }

    fn is_forced(&self, number: usize) -> bool {
        self.rules.get(number).is_some_and(|rule| rule.force)
    }

    /// Returns whether a rewrite may look the path up, in either slash form. It means the file,
    /// with any rules.
    fn may_be_rewritten_to(&self, path: &[u8]) -> bool {
        let without = |path: &[u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
        let leads_there = |rule: &Redirect| match rule.target.first() {
            Some(TargetPart::Literal(begin)) if rule.target.len() > 1 => {
                path.starts_with(&without(begin))
            }
            _ => rule.only_target().is_some_and(|target| without(target) == without(path)),
        };
        self.rewrites.iter().any(|&number| self.rules.get(number).is_some_and(leads_there))
    }

    /// Returns the first rule before this one that applies to everything it is about.
    pub(super) fn covered_by(&self, number: usize) -> Option<usize> {
        let rule = self.rules.get(number)?;
        let covers = |&earlier: &usize| {
            earlier < number && self.rules.get(earlier).is_some_and(|other| covers(other, rule))
        };
        let same_path = match rule.only_path() {
            Some(path) => self.exact_at(&path).iter().copied().find(covers),
            None => None,
        };
        let pattern =
            self.patterns.iter().copied().take_while(|&earlier| earlier < number).find(covers);
        same_path.into_iter().chain(pattern).min()
    }
}

/// Returns the rules that respond to every missing path in and below some folder, for all clients:
/// no page for missing resources there ever does.
pub(crate) fn of_whole_folders<'r>(
    rules: &'r [Redirect],
    site: &SitePaths<'_>,
) -> Vec<&'r Redirect> {
    // A page that is not there, or none at all, falls to fallbacks again; so do paths that reach
    // the rules after that one.
    let responds = |rule: &&Redirect| {
        rule.is_redirect() || rule.only_target().is_some_and(|target| site.sends(target))
    };
    // A rule that uses captures does not apply to a path with an escaped slash.
    let is_whole = |rule: &&Redirect| {
        rule.is_unconditional()
            && rule.only_target().is_some()
            && matches!(rule.path.last(), Some(RedirectPart::Rest(_)))
    };
    rules.iter().take_while(responds).filter(is_whole).collect()
}

/// Returns whether such a rule is for all of a folder.
pub(crate) fn is_of_folder(rule: &Redirect, folder: &[u8]) -> bool {
    let names = folder.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    let mut all: Vec<RedirectPart> = names.map(|name| RedirectPart::Literal(name.into())).collect();
    all.push(RedirectPart::Rest(Box::default()));
    covers_path(&rule.path, &all)
}

/// Returns a path and its other slash form.
pub(super) fn forms(path: &[u8]) -> Vec<Vec<u8>> {
    match path {
        b"/" => vec![path.to_vec()],
        _ => vec![path.to_vec(), [path, b"/"].concat()],
    }
}

#[cfg(test)]
mod tests;
