//! The paths of a site, with which the rules of `_redirects` are compared.

use pinion_archive::SegmentPattern;

use super::path_matching::covers_host;
use super::redirects::{Redirect, RedirectPart, TargetPart};
use crate::limits::TARGETS_LOOKED_AT_MAX;
use crate::options::Options;
use crate::path_aliases::{UrlPlan, index_url};

/// The paths of a site that have an entry, by a file, index, clean URL or listing.
pub(crate) struct SitePaths<'s> {
    pub(super) files: &'s [&'s [u8]],
    pub(super) plan: &'s UrlPlan<'s>,
    /// Sorted. A table of all paths would take several times the memory.
    pub(super) aliases: Vec<&'s [u8]>,
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
    pub(crate) fn responds_for(&self, host: &[u8]) -> bool {
        self.hosts.iter().any(|known| covers_host(Some(known.as_bytes()), Some(host)))
    }

    /// Returns whether requests for a host may come to the site; it may begin with `*.`.
    pub(super) fn may_respond_for(&self, host: &[u8]) -> bool {
        let is_below = |known: &String| covers_host(Some(host), Some(known.as_bytes()));
        self.hosts.is_empty() || self.responds_for(host) || self.hosts.iter().any(is_below)
    }

    /// Returns whether a rewrite may send something for some path: a path of the site is like its
    /// target.
    pub(super) fn may_send(&self, rule: &Redirect) -> bool {
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
    pub(super) fn may_have_page_near(&self, rule: &Redirect) -> bool {
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
        let at = if !is_open {
            rest.starts_with(text).then_some(0)
        } else if rank == last {
            rest.strip_suffix(&**text).map(<[u8]>::len)
        } else {
            rest.windows(text.len().max(1)).position(|place| place == &**text)
        };
        let Some(at) = at else { return false };
        rest = rest.get(at + text.len()..).unwrap_or_default();
        is_open = false;
    }
    is_open || rest.is_empty()
}
