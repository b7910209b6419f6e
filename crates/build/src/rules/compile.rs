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

use pinion_archive::SegmentPattern;

use super::path_matching::{covers, covers_host, covers_path, matches};
use super::redirects::{Redirect, RedirectPart, TargetPart};
use crate::limits::TARGETS_LOOKED_AT_MAX;
use crate::options::Options;
use crate::url_plan::{UrlPlan, index_url};

/// A warning about a rule that did not fail the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectWarning {
    /// A rule before it applies to all it is about: the number of that rule.
    Covered(usize),
    /// Its path is a file's, and files come before rules without `!`.
    FileFirst,
    /// The content that it is to send is not in the site.
    Missing,
    /// Who follows it is led to it again.
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

/// The paths of a site that have an entry, by a file, index, clean URL or listing.
pub(crate) struct SitePaths<'s> {
    files: &'s [&'s [u8]],
    plan: &'s UrlPlan<'s>,
    /// Sorted. A table of all paths would take several times the memory.
    aliases: Vec<&'s [u8]>,
    /// Whether the slash form that exists is redirected to from the other.
    pub(crate) slash_redirects: bool,
    /// The hosts that it responds to; empty: any.
    pub(crate) hosts: &'s [String],
}

impl<'s> SitePaths<'s> {
    /// Returns the paths at which files with these keys respond, by the plan of them.
    pub(crate) fn of(
        files: &'s [&'s [u8]],
        plan: &'s UrlPlan<'s>,
        options: &'s Options,
    ) -> SitePaths<'s> {
        let mut aliases: Vec<&[u8]> = plan.aliases.iter().map(|&(_, alias)| alias).collect();
        aliases.sort_unstable();
        let (slash_redirects, hosts) = (options.slash_redirects, &*options.hosts);
        SitePaths { files, plan, aliases, slash_redirects, hosts }
    }

    /// Returns whether it is certain that requests for a host come to the site.
    pub(crate) fn answers_for(&self, host: &[u8]) -> bool {
        self.hosts.iter().any(|known| covers_host(Some(known.as_bytes()), Some(host)))
    }

    /// Returns whether requests for a host may come to the site; it may begin with `*.`.
    fn may_answer_for(&self, host: &[u8]) -> bool {
        let is_below = |known: &String| covers_host(Some(host), Some(known.as_bytes()));
        self.hosts.is_empty() || self.answers_for(host) || self.hosts.iter().any(is_below)
    }

    /// Returns whether a rewrite may send something for some path: a path of the site is like its
    /// target.
    fn may_send(&self, rule: &Redirect) -> bool {
        if let Some(target) = rule.only_target() {
            return self.sends(target);
        }
        let Some(TargetPart::Literal(begin)) = rule.target.first() else { return true };
        let begin = begin.strip_suffix(b"/").unwrap_or(begin);
        let is_filled = |part: &RedirectPart| match part {
            RedirectPart::Literal(_) | RedirectPart::Capture => true,
            RedirectPart::Mixed(encoded) => !SegmentPattern::of(encoded).has_star(),
            RedirectPart::Rest(_) => false,
        };
        // Neither a `*` nor a value of the query need have anything in it.
        let is_filled = rule.query.is_empty() && rule.path.iter().all(is_filled);
        let least_bytes = usize::from(is_filled);
        let paths = [self.files, &self.aliases, &self.plan.listings];
        paths.into_iter().any(|paths| {
            let first = paths.partition_point(|path| *path < begin);
            let below = paths.get(first..).unwrap_or_default();
            let mut below = below.iter().take_while(|path| path.starts_with(begin));
            let mut looked_at = 0;
            below.any(|path| {
                looked_at += 1;
                looked_at > TARGETS_LOOKED_AT_MAX || is_like_target(path, &rule.target, least_bytes)
            })
        })
    }

    /// Returns whether a page with status 200 may respond for missing resources at the target of a
    /// rewrite.
    fn may_have_page_near(&self, rule: &Redirect) -> bool {
        let Some(TargetPart::Literal(begin)) = rule.target.first() else { return true };
        let is_above = |folder: &[u8]| {
            begin.starts_with(folder) || folder.strip_suffix(b"/") == Some(&**begin)
        };
        let mut fallbacks = self.plan.fallbacks.iter();
        fallbacks.any(|fallback| fallback.status == 200 && is_above(fallback.folder))
    }

    /// Returns whether a path begins so.
    pub(crate) fn has_below(&self, begin: &[u8]) -> bool {
        let is_below = |paths: &[&[u8]]| {
            let place = paths.partition_point(|path| *path < begin);
            paths.get(place).is_some_and(|path| path.starts_with(begin))
        };
        is_below(self.files) || is_below(&self.aliases) || is_below(&self.plan.listings)
    }

    /// Returns whether a rewrite to a path sends something: a request for it would, perhaps by way
    /// of the other slash form.
    pub(crate) fn sends(&self, path: &[u8]) -> bool {
        let has_other = || match path {
            [] | [b'/'] | [.., b'/', b'/'] => false,
            [without @ .., b'/'] => self.has(without),
            _ => self.has(&[path, b"/"].concat()),
        };
        self.has(path) || (self.slash_redirects && has_other())
    }

    pub(crate) fn has(&self, path: &[u8]) -> bool {
        let is_file = || self.files.binary_search(&path).is_ok_and(|f| !self.plan.is_hidden(f));
        is_file()
            || self.aliases.binary_search(&path).is_ok()
            || self.plan.listings.binary_search(&path).is_ok()
    }
}

/// All rules, ready to be asked about paths.
pub(crate) struct Compiled<'r> {
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
pub(crate) struct Placed {
    /// Paths that the site does not have, and the rule that responds to each.
    pub(crate) entries: Vec<(Vec<u8>, usize)>,
    /// Rules that are walked, in their order.
    pub(crate) walked: Vec<usize>,
    /// Rules and the warnings about them.
    pub(crate) doubts: Vec<(usize, RedirectWarning)>,
}

impl<'r> Compiled<'r> {
    pub(crate) fn new(rules: &'r [Redirect]) -> Compiled<'r> {
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
        Compiled { rules, exact, patterns, forced, rewrites }
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
    pub(crate) fn place(&self, site: &SitePaths<'_>) -> Placed {
        let mut placed = Placed::default();
        for (number, rule) in self.rules.iter().enumerate() {
            if let Some(earlier) = self.covered_by(number) {
                placed.doubts.push((number, RedirectWarning::Covered(earlier)));
                continue;
            }
            if rule.host.as_deref().is_some_and(|host| !site.may_answer_for(host)) {
                placed.doubts.push((number, RedirectWarning::ForeignHost));
            } else if !(rule.is_redirect() || site.may_send(rule) || site.may_have_page_near(rule))
            {
                placed.doubts.push((number, RedirectWarning::Missing));
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
        placed: &mut Placed,
    ) -> bool {
        let Some(rule) = self.rules.get(number) else { return false };
        let forms = forms(path);
        let there = match site.slash_redirects {
            true => forms.iter().any(|form| site.has(form)),
            false => forms.iter().all(|form| site.has(form)),
        };
        let is_first = rule.is_unconditional() && self.matching(path) == [number];
        if there && !rule.force {
            let guards = self.guards(number, path);
            if !guards {
                placed.doubts.push((number, RedirectWarning::FileFirst));
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

/// Returns whether a target with captures may become a path of the site, or its other slash form.
/// An index file is asked for by its folder, so it counts only if the target names it.
fn is_like_target(path: &[u8], target: &[TargetPart], least_bytes: usize) -> bool {
    let names_index = target.iter().any(|part| match part {
        TargetPart::Literal(text) => text.windows(5).any(|name| name == b"index"),
        TargetPart::Capture(_) => false,
    });
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let is_index = index_url(path).is_some() || name == b"index" || name == b"_index";
    if is_index && !names_index {
        return false;
    }
    let without = path.strip_suffix(b"/").unwrap_or(path);
    let is_made_of = |path: &[u8]| is_made_of(path, target, least_bytes);
    is_made_of(without) || is_made_of(&[without, b"/"].concat())
}

/// Returns whether a path is the texts of a target with at least so many bytes for each capture.
fn is_made_of(path: &[u8], target: &[TargetPart], least_bytes: usize) -> bool {
    // The rest of the path; and whether any text may stand before the next one.
    let (mut rest, mut is_open) = (path, false);
    let last = target.len().saturating_sub(1);
    for (rank, part) in target.iter().enumerate() {
        let TargetPart::Literal(text) = part else {
            let Some(behind) = rest.get(least_bytes..) else { return false };
            (rest, is_open) = (behind, true);
            continue;
        };
        let at = match is_open {
            false => rest.starts_with(text).then_some(0),
            true if rank == last => rest.strip_suffix(&**text).map(<[u8]>::len),
            true => rest.windows(text.len().max(1)).position(|place| place == &**text),
        };
        let Some(at) = at else { return false };
        rest = rest.get(at + text.len()..).unwrap_or_default();
        is_open = false;
    }
    is_open || rest.is_empty()
}

/// Returns the rules that respond to every missing path in and below some folder, for all clients:
/// no page for missing resources there ever does.
pub(crate) fn of_whole_folders<'r>(
    rules: &'r [Redirect],
    site: &SitePaths<'_>,
) -> Vec<&'r Redirect> {
    // A page that is not there, or none at all, falls to fallbacks again; so do paths that reach
    // the rules after that one.
    let answers = |rule: &&Redirect| {
        rule.is_redirect() || rule.only_target().is_some_and(|target| site.sends(target))
    };
    // A rule that uses captures does not apply to a path with an escaped slash.
    let is_whole = |rule: &&Redirect| {
        rule.is_unconditional()
            && rule.only_target().is_some()
            && matches!(rule.path.last(), Some(RedirectPart::Rest(_)))
    };
    rules.iter().take_while(answers).filter(is_whole).collect()
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
mod tests {
    use std::path::Path;

    use super::super::redirect_loops::Circles;
    use super::super::redirects::parse;
    use super::*;
    use crate::url_plan::Fallback;

    const FILES: [&[u8]; 4] = [b"/", b"/index.html", b"/file", b"/dir/"];

    /// Entries, walked rules, doubts and loops of a file, in short; then the verdicts about files.
    fn placed(text: &str) -> String {
        placed_on(&[], text)
    }

    /// The same for a site with hosts.
    fn placed_on(hosts: &[&str], text: &str) -> String {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let rules = parse(Path::new("_redirects"), b"/", text.as_bytes()).expect(text);
        let plan = UrlPlan::default();
        let mut files = FILES;
        files.sort_unstable();
        let (aliases, slash_redirects) = (Vec::new(), true);
        let site =
            SitePaths { files: &files, plan: &plan, aliases, slash_redirects, hosts: &hosts };
        let compiled = Compiled::new(&rules);
        let Placed { entries, walked, doubts } = compiled.place(&site);
        let Circles { certain, around } = compiled.circles(&site);
        let name = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let entries = entries.iter().map(|(path, rule)| format!("{}={rule}", name(path)));
        let walked = walked.iter().map(|rule| format!("walk {rule}"));
        let doubts = doubts.iter().map(|(rule, doubt)| format!("{rule} {doubt:?}"));
        let certain = certain.iter().map(|rule| format!("loop {rule}"));
        let around = around.iter().map(|rule| format!("{rule} Around"));
        let circles = certain.chain(around);
        let verdicts = FILES.iter().filter_map(|path| match compiled.verdict(path, &site) {
            EntryVerdict::Keep => None,
            verdict => Some(format!("{} {verdict:?}", name(path))),
        });
        let all: Vec<String> = entries.chain(walked).chain(doubts).chain(circles).collect();
        [all, verdicts.collect()].concat().join(", ")
    }

    #[test]
    fn exact_rules_become_entries() {
        assert_eq!(placed("/a /b"), "/a=0, /a/=0");
        assert_eq!(placed("/a /file 200"), "/a=0, /a/=0");
        assert_eq!(placed("/a /file 404"), "/a=0, /a/=0");
        assert_eq!(placed("/a/ /b\n/b /c 302!"), "/a=0, /a/=0, /b=1, /b/=1");
        assert_eq!(placed("/* /file\n/a /b"), "walk 0, 1 Covered(0)");
        assert_eq!(placed("/a /b\n/* /x/:splat"), "/a=0, /a/=0, walk 1, 1 Around");
        assert_eq!(placed("/a x=1 /b\n/a /c"), "walk 0, walk 1");
        assert_eq!(placed("http://h/* /file\n/a /c"), "walk 0, walk 1");
        assert_eq!(placed("/a /b\n/a /c"), "/a=0, /a/=0, 1 Covered(0)");
        assert_eq!(placed("/a /none 200"), "walk 0, 0 Missing");
        assert_eq!(placed("/a /dir 200"), "/a=0, /a/=0");
        assert_eq!(placed("/a /file/ 200"), "/a=0, /a/=0");
    }

    #[test]
    fn files_come_first() {
        assert_eq!(placed("/file /b"), "0 FileFirst");
        assert_eq!(placed("/file/ /b\n/dir /c"), "0 FileFirst, 1 FileFirst");
        assert_eq!(placed("/file /b\n/f* /c"), "walk 1, 0 FileFirst");
        // Without the first rule, /file/ would be the second one's.
        assert_eq!(placed("/file /b\n/f* /c 302!"), "walk 0, walk 1");
        assert_eq!(placed("/* /index.html 200"), "walk 0");
    }

    #[test]
    fn forced_rules_come_before_files() {
        assert_eq!(placed("/file /b 301!"), "/file/=0, /file Replace(0)");
        assert_eq!(placed("/dir/ /b 301!"), "/dir=0, /dir/ Replace(0)");
        assert_eq!(placed("/f* /b 301!"), "walk 0, /file Replace(0)");
        assert_eq!(placed("/file x=1 /b 301!"), "walk 0, /file RulesFirst");
        assert_eq!(placed("/file x=1 /b\n/f* /c 301!"), "walk 0, walk 1, /file RulesFirst");
        assert_eq!(placed("/file /none 200!"), "walk 0, 0 Missing, /file RulesFirst");
        assert_eq!(
            placed("http://h/* http://i/ 301!\n/file /c"),
            "walk 0, walk 1, 1 FileFirst, \
             / RulesFirst, /index.html RulesFirst, /file RulesFirst, /dir/ RulesFirst"
        );
    }

    #[test]
    fn a_rewrite_means_the_file() {
        let text = "/file /b 301!\n/a /file 200";
        assert_eq!(placed(text), "/file/=0, /a=1, /a/=1, walk 0, /file RulesFirst");
        let text = "/file /b 301!\n/a /file/ 200";
        assert_eq!(placed(text), "/file/=0, /a=1, /a/=1, walk 0, /file RulesFirst");
        let text = "/file /b 301!\n/a/* /file/:splat 200";
        assert_eq!(placed(text), "/file/=0, walk 0, walk 1, /file RulesFirst");
    }

    #[test]
    fn rules_that_lead_to_themselves() {
        for (text, is_loop) in [
            ("/a /a", true),
            ("/a /a/", true),
            ("/a /a?x=1", true),
            ("/a x=1 /a?y=1", false),
            ("/a/* /a/:splat 302", true),
            ("/a/* /a/b/:splat 302", false),
            ("/a/* /a/b/:splat 302!", true),
            ("/* /none 302", true),
            ("/* /index.html 302", false),
            ("/* /index.html 302!", true),
            ("/* https://example.org/:splat 301!", false),
            ("http://example.org/* https://example.org/:splat 301!", true),
            ("http://example.org/* https://www.example.org/:splat 301!", false),
            ("http://*.example.org/* https://example.org/:splat", false),
            ("http://*.example.org/* https://www.example.org/:splat", true),
            ("/:x/:y /:y/:x", false),
            ("/:x /:x", true),
            ("/a /a 200", false),
            ("/a%20b /a%20b#c", true),
            ("/a x=1 /b\n/a /a", true),
            // An earlier rule answers.
            ("/soon /index.html 200\n/* /soon 302", false),
            ("/a/b/* /b/:splat 301!\n/a/* /a/b/:splat 301!", false),
        ] {
            assert_eq!(placed(text).contains("loop "), is_loop, "{text}: {}", placed(text));
        }
    }

    /// With `--lax-rules` those that are found are left out: each rule that they hide is found too.
    #[test]
    fn a_rule_that_leads_to_itself_hides_no_other_one() {
        for (text, expected) in [
            ("/a /a\n/a /a 302\n/a /b\n/a /a", "loop 0, loop 1"),
            ("/* /:splat\n/* /:splat 302\n/a/* /a/:splat", "loop 0, loop 1, loop 2"),
        ] {
            let found = placed(text);
            assert!(found.contains(expected), "{text}: {found}");
            assert_eq!(found.matches("loop").count(), expected.matches("loop").count(), "{found}");
        }
    }

    /// A redirect to a host of the site comes back to it.
    #[test]
    fn hosts_of_the_site() {
        for (hosts, text, expected) in [
            (&[][..], "/* https://example.org/:splat 301!", "walk 0"),
            (&["example.org"], "/* https://example.org/:splat 301!", "loop 0"),
            (&["*.example.org"], "/* https://www.example.org/:splat 301!", "loop 0"),
            (&["*.example.org"], "/* https://example.org/:splat 301!", "walk 0"),
            (&["example.org"], "/* https://example.com/:splat 301!", "walk 0"),
            (&["example.org"], "/a https://example.org/a", "loop 0"),
            (&["example.org"], "/a https://example.org:3000/a", "/a=0, /a/=0"),
            (&["example.org"], "/g/* https://example.org:3000/g/:splat", "0 Around"),
            (&["example.org"], "/a https://example.org/b\n/b /a", "0 Around, 1 Around"),
            (&["example.org"], "/a https://example.org/file", "/a=0, /a/=0"),
            (&["example.org"], "http://example.com/* https://a.net/ 302!", "0 ForeignHost"),
            (&["example.org"], "http://*.example.org/* https://a.net/ 302!", "0 ForeignHost"),
            (&["*.example.org"], "http://a.example.org/* https://a.net/ 302!", "walk 0"),
            (&["a.example.org"], "http://*.example.org/* https://a.net/ 302!", "walk 0"),
        ] {
            let found = placed_on(hosts, text);
            assert!(found.contains(expected), "{hosts:?} {text}: {found}");
            let is_certain = expected.contains("loop");
            assert_eq!(found.contains("loop"), is_certain, "{hosts:?} {text}: {found}");
            let is_foreign = expected.contains("ForeignHost");
            assert_eq!(found.contains("ForeignHost"), is_foreign, "{hosts:?} {text}: {found}");
        }
    }

    #[test]
    fn rewrites_that_only_lead_to_404() {
        for (text, is_missing) in [
            ("/api/* /.netlify/functions/:splat 200", true),
            ("/posts/* /posts/:splat.html 200!", true),
            ("/i/* /:splat.html 200", true),
            ("/i/* /:splat 200", false),
            ("/i/* /:splat/ 200", false),
            ("/i/* /ind:splat 200", true),
            ("/i/* /index:splat 200", false),
            ("/:x /index.:x 200", false),
            ("/:x /fi:x 200", false),
            ("/:x /dir/:x 200", true),
            ("/a/* /dir/:splat 200", false),
            ("/a/* /dir:splat 200", false),
            ("/:x/* /f:x-:splat 200", true),
            ("/x id=:id /f:id 200", false),
            ("/x id=:id /g:id 404", true),
            ("/x/* /file/:splat 302", false),
        ] {
            assert_eq!(placed(text).contains("Missing"), is_missing, "{text}: {}", placed(text));
        }
    }

    /// What is missing where a rewrite leads is answered by the page for it, if there is one.
    #[test]
    fn rewrites_that_lead_to_a_page_for_what_is_missing() {
        for (status, text, is_missing) in [
            (200, "/a /dir/x 200", false),
            (200, "/a /dir 200", false),
            (200, "/a/* /dir/x/:splat 200", false),
            (200, "/a /none 200", true),
            (200, "/a/* /none/:splat 200", true),
            (404, "/a /dir/x 200", true),
        ] {
            let rules = parse(Path::new("_redirects"), b"/", text.as_bytes()).expect(text);
            let fallbacks = vec![Fallback { file: 0, folder: b"/dir/", status }];
            let plan = UrlPlan { fallbacks, ..UrlPlan::default() };
            let (aliases, slash_redirects) = (Vec::new(), true);
            let site = SitePaths { files: &[], plan: &plan, aliases, slash_redirects, hosts: &[] };
            let Placed { doubts, .. } = Compiled::new(&rules).place(&site);
            let expected =
                if is_missing { vec![(0, RedirectWarning::Missing)] } else { Vec::new() };
            assert_eq!(doubts, expected, "{status} {text}");
        }
    }

    #[test]
    fn rules_that_lead_around() {
        for (text, is_around) in [
            ("/a/* /a/b/:splat", true),
            ("/dir/* /dir/x/:splat", true),
            ("/* /dir/:splat", false),
            ("/* /d/:splat", true),
            ("/:x /x-:x", true),
            ("/a/b/* /dir/:splat 200\n/a/* /a/b/:splat", false),
            ("/a /b\n/b /a", true),
            ("/a /b\n/b/ /c/?x#y\n/c /a", true),
            ("/a /file\n/file /a 302!", true),
            ("/a /b\n/* /a", true),
            ("/a /b\n/b /file", false),
            ("/a /file\n/file /a", false),
            ("/a /b\n/b /a 200", false),
            ("/a /b\n/b x=1 /a", false),
            ("/a /b\nhttp://h/b /c\n/b /a", false),
            ("/a /b\n/b https://example.org/a", false),
            ("/a/* /b/:splat", false),
            ("/a/* x=1 /a/b/:splat", false),
            ("/a/* /a/b/:splat 200", false),
            ("/a/* https://example.org/a/:splat", false),
        ] {
            assert_eq!(placed(text).contains("Around"), is_around, "{text}: {}", placed(text));
        }
    }
}
