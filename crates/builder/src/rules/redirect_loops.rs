//! Finds redirects that lead a client in a circle.

use pinion_archive::{SegmentPart, SegmentPattern};
use pinion_http::host;
use pinion_http::request_target::decode_path;

use super::compile_redirects::{CompiledRedirects, forms};
use super::path_matching::{covers_host, matches};
use super::redirects::{Redirect, RedirectPart, TargetPart};
use super::site_paths::SitePaths;
use crate::limits::REDIRECTS_FOLLOWED_MAX;

/// Rules by their numbers.
#[derive(Debug, Default)]
pub(crate) struct RedirectCircles {
    /// They lead to themselves for every request.
    pub(crate) certain: Vec<usize>,
    /// They lead to themselves in other words each time, or by way of other rules.
    pub(crate) around: Vec<usize>,
}

impl CompiledRedirects<'_> {
    /// Finds the redirects that lead a client in a circle.
    pub(crate) fn circles(&self, site: &SitePaths<'_>) -> RedirectCircles {
        let mut circles = RedirectCircles::default();
        let next = self.next_rules(site);
        for (number, rule) in self.rules.iter().enumerate() {
            let certain = &circles.certain;
            let comes_there = |to: Vec<u8>| !self.is_taken_before(number, &to, certain);
            let is_own = |host: &[u8]| site.responds_for(host);
            if leads_to_itself(rule, |path| site.has(path), is_own).is_some_and(comes_there) {
                circles.certain.push(number);
                continue;
            }
            let has_below = |begin: &[u8]| site.has_below(begin);
            let around = leads_around(rule, has_below, is_own).is_some_and(comes_there)
                || is_in_circle(&next, number);
            // One that never applies leads nowhere.
            if around && self.covered_by(number).is_none() {
                circles.around.push(number);
            }
        }
        circles
    }

    /// Returns whether a rule before that one always takes a path. Rules that lead to themselves,
    /// sorted in `certain`, do not count: otherwise the rule after them would be found only next
    /// time.
    fn is_taken_before(&self, number: usize, path: &[u8], certain: &[usize]) -> bool {
        let about = self.about(path).into_iter().take_while(|&earlier| earlier < number);
        let mut about = about.filter(|earlier| certain.binary_search(earlier).is_err());
        about.any(|earlier| self.rules.get(earlier).is_some_and(Redirect::is_unconditional))
    }

    /// Returns for each redirect to one path the rule that certainly redirects again a client that
    /// follows it.
    fn next_rules(&self, site: &SitePaths<'_>) -> Vec<Option<usize>> {
        let next = |rule: &Redirect| {
            let path = next_path(rule, |host| site.responds_for(host))?;
            let &next = self.matching(&path).first()?;
            let rule = self.rules.get(next).filter(|rule| rule.is_unconditional())?;
            let is_file = || forms(without_slash(&path)).iter().any(|form| site.has(form));
            (rule.force || !is_file()).then_some(next)
        };
        self.rules.iter().map(next).collect()
    }
}

/// Returns whether a client that follows a rule, and the rules after it, comes to it again.
fn is_in_circle(next: &[Option<usize>], number: usize) -> bool {
    let follow = |&at: &usize| next.get(at).copied().flatten();
    let mut followed = std::iter::successors(follow(&number), follow).take(REDIRECTS_FOLLOWED_MAX);
    followed.any(|at| at == number)
}

/// Returns the path to which the rule leads, if it certainly redirects again a client that follows
/// it; unless an earlier rule takes that path, which the caller has to check.
///
/// The target of `/docs/* /docs/latest/:splat` may be a file, which comes first unless the rule is
/// forced; `has` reports the paths of the site, and `is_own` its hosts. A text that no path can
/// have stands for the captures, so that the result holds for all.
pub(crate) fn leads_to_itself(
    rule: &Redirect,
    has: impl Fn(&[u8]) -> bool,
    is_own: impl Fn(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let same_host = match (&rule.target_host, &rule.host) {
        (None, _) => true,
        (Some(target), Some(host)) => covers_host(Some(host), Some(target)),
        // At another port another server may respond.
        (Some(target), None) => is_own(target) && !names_port(rule),
    };
    // A target with a query of its own may lack the parameters that the rule asks for.
    let same_query = rule.query.is_empty() || rule.keeps_query;
    if !rule.is_redirect() || !same_host || !same_query {
        return None;
    }
    let (from, captures) = sample(&rule.path);
    let to = target_path(rule, &captures)?;
    let same = without_slash(&to) == without_slash(&from);
    let is_file = || forms(without_slash(&to)).iter().any(|form| has(form));
    let comes_back = rule.force || (rule.only_target().is_some() && !is_file());
    (matches(&rule.path, &to) && (same || comes_back)).then_some(to)
}

/// Returns the path to which the rule leads, if it redirects a client that follows it again unless
/// a file comes first, and there is none: `/a/* /a/b/:splat` without a file below `/a/b/`.
/// `has_below` returns whether a path of the site begins with its argument, and `is_own` whether a
/// host is one of the site's.
pub(crate) fn leads_around(
    rule: &Redirect,
    has_below: impl Fn(&[u8]) -> bool,
    is_own: impl Fn(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    if !stays_here(rule, is_own) || rule.only_target().is_some() {
        return None;
    }
    let (_, captures) = sample(&rule.path);
    let to = target_path(rule, &captures)?;
    // No path has the bytes that stand for captures.
    let known = to.iter().position(|&byte| byte <= 2).unwrap_or(to.len());
    let begin = to.get(..known).unwrap_or_default();
    (matches(&rule.path, &to) && !has_below(begin)).then_some(to)
}

/// Returns the path that a redirect of one path leads to on the same host, for all clients.
fn next_path(rule: &Redirect, is_own: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    rule.only_target().filter(|_| stays_here(rule, is_own))?;
    target_path(rule, &[])
}

/// Returns whether a rule redirects every request for its path to the same site.
fn stays_here(rule: &Redirect, is_own: impl Fn(&[u8]) -> bool) -> bool {
    let is_here = rule.target_host.as_deref().is_none_or(is_own);
    rule.is_redirect() && rule.is_unconditional() && is_here
}

/// Returns a path that the parts match, and its captures.
fn sample(parts: &[RedirectPart]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut path, mut captures) = (Vec::new(), Vec::new());
    let mut capture = |path: &mut Vec<u8>| {
        let unlike_any = vec![1, captures.len() as u8 + 1];
        path.extend_from_slice(&unlike_any);
        captures.push(unlike_any);
    };
    for part in parts {
        path.push(b'/');
        match part {
            RedirectPart::Literal(segment) => path.extend_from_slice(segment),
            RedirectPart::Capture => capture(&mut path),
            RedirectPart::Mixed(encoded) => {
                for part in SegmentPattern::of(encoded).parts() {
                    match part {
                        SegmentPart::Literal(text) => path.extend_from_slice(text),
                        SegmentPart::Capture | SegmentPart::Star => capture(&mut path),
                    }
                }
            }
            RedirectPart::Rest(prefix) => {
                path.extend_from_slice(prefix);
                capture(&mut path);
            }
        }
    }
    (if path.is_empty() { vec![b'/'] } else { path }, captures)
}

/// Returns the path of a redirect's target, decoded.
fn target_path(rule: &Redirect, captures: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for part in &rule.target {
        match part {
            TargetPart::Literal(literal) => text.extend_from_slice(literal),
            // Text of the query cannot be part of a path that is certain.
            TargetPart::Capture(number) => text.extend_from_slice(
                captures.get(usize::from(*number)).map_or(&b"\x02"[..], Vec::as_slice),
            ),
        }
    }
    let mut path = text.as_slice();
    if rule.target_host.is_some() {
        let behind = path.windows(3).position(|three| three == b"://")? + 3;
        path = path.get(behind..)?;
        let end = path.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(path.len());
        path = path.get(end..)?;
    }
    let end = path.iter().position(|byte| b"?#".contains(byte)).unwrap_or(path.len());
    let path = path.get(..end).filter(|path| !path.is_empty()).unwrap_or(b"/");
    decode_path(path, &mut Vec::new()).ok().map(<[u8]>::to_vec)
}

/// Returns whether the target of a rule is a URL with a port.
fn names_port(rule: &Redirect) -> bool {
    let Some(TargetPart::Literal(url)) = rule.target.first() else { return false };
    let behind = |at: usize| url.get(at + 3..).unwrap_or_default();
    let authority = url.windows(3).position(|three| three == b"://").map_or(&b""[..], behind);
    let end = authority.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(authority.len());
    let authority = host::split(authority.get(..end).unwrap_or_default());
    authority.is_ok_and(|authority| authority.port.is_some())
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").filter(|rest| !rest.is_empty()).unwrap_or(path)
}
