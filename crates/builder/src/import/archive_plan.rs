//! Turns references into the plan of our archive.
//!
//! kawipiko looks first at paths of the request's host, then at the others; in each pass for the
//! path itself and then for the nearest folder above with a `/*` of its own. In our order of
//! resolution that is: rules that apply to a host come first and are forced; paths are entries;
//! redirects of whole folders are rules, the deepest first; pages of whole folders are fallback
//! pages, or rules in front of a redirect of a folder above.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use pinion_http::request_target;
use pinion_kawipiko::{Archive, Damage, Kind, Reference};

use crate::import::reference_responses::ImportedResponse;
use crate::media_type::MediaType;
use crate::path_aliases;

/// The plan of our archive.
#[derive(Debug, Default)]
pub(super) struct ImportPlan<'a> {
    pub(super) responses: Vec<ImportedResponse<'a>>,
    /// The pages, by path.
    pub(super) pages: BTreeMap<Vec<u8>, PlannedPage>,
    /// The fallback pages, by folder, with a slash at both ends.
    pub(super) fallbacks: BTreeMap<Vec<u8>, usize>,
    /// Redirects of one path, by path.
    pub(super) moved: BTreeMap<Vec<u8>, usize>,
    /// The rules, in the order in which they apply.
    pub(super) rules: Vec<Rule>,
    /// Whether a path leads to its other slash form, if only that exists.
    pub(super) redirects_slashes: bool,
    /// `Cache-Control` of these redirects.
    pub(super) slash_cache_control: Option<&'a str>,
    pub(super) leftovers: Vec<Leftover>,
}

/// Content with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedPage {
    /// The number of its response in [`ImportPlan::responses`].
    pub(super) response: usize,
    /// The path of which this one is another name.
    pub(super) alias_of: Option<Vec<u8>>,
}

/// A redirect, or a page, for more than one path or for one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The host in lower case, without a port.
    pub(super) host: Option<Vec<u8>>,
    /// The path without a slash at its end.
    pub(super) path: Vec<u8>,
    /// Whether it is for all that is below `path` too.
    pub(super) below: bool,
    /// The number of its response in [`ImportPlan::responses`].
    pub(super) response: usize,
    /// The page that responds; `None` for a redirect.
    pub(super) page: Option<Vec<u8>>,
}

/// A part that is not carried over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The place as the other archive has it, escaped.
    pub place: String,
    /// Why.
    pub reason: LeftoverReason,
}

/// The reason why a part is not carried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftoverReason {
    /// No request ever finds it.
    NeverMatches,
    /// It leads to itself.
    Circular,
    /// A file for one host, which no archiver makes.
    FileOfHost,
    /// A redirect to something that is neither a path nor a URL with a host.
    Target,
    /// Another reference to the same path is found first.
    Shadowed,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = match self.reason {
            LeftoverReason::NeverMatches => "no request can match it",
            LeftoverReason::Circular => "redirects to itself",
            LeftoverReason::FileOfHost => "a file for one host only, which an archive cannot have",
            LeftoverReason::Target => "its target is neither a path nor a URL",
            LeftoverReason::Shadowed => "another entry of the same path comes first",
        };
        write!(f, "{}: {problem}", self.place)
    }
}

/// Takes everything in, then sorts it out.
pub(super) fn plan<'a>(archive: &Archive<'a>) -> Result<ImportPlan<'a>, Damage> {
    let mut gathered = Gathered::default();
    for reference in archive.references() {
        gathered.take(archive, &reference?)?;
    }
    Ok(gathered.sort_out())
}

/// All references by their purpose.
#[derive(Default)]
struct Gathered<'a> {
    plan: ImportPlan<'a>,
    /// The number of the response for each pair of numbers of fields and content.
    known: HashMap<(u32, u32), usize>,
    listings: BTreeMap<Vec<u8>, usize>,
    /// Redirects of one path or all below a folder, as they are written.
    redirects: BTreeMap<Vec<u8>, usize>,
    /// Redirects of a host.
    host_redirects: BTreeMap<(Vec<u8>, Vec<u8>), usize>,
}

impl<'a> Gathered<'a> {
    fn take(&mut self, archive: &Archive<'a>, reference: &Reference<'a>) -> Result<(), Damage> {
        let response = self.response(archive, reference)?;
        let path = reference.path.to_vec();
        match (reference.kind, reference.host) {
            (Kind::File, None) => {
                if let Some(folder) = folder(&path) {
                    self.plan.fallbacks.insert(folder.to_vec(), response);
                } else {
                    self.plan.pages.insert(path, PlannedPage { response, alias_of: None });
                }
            }
            (Kind::Redirect, None) => {
                self.redirects.insert(path, response);
            }
            (Kind::Listing, None) => {
                self.listings.insert(path, response);
            }
            (Kind::Redirect, Some(host)) => {
                self.host_redirects.insert((host.to_vec(), path), response);
            }
            (Kind::File | Kind::Listing, Some(host)) => {
                self.leave_out(&[b"://", host, &path], LeftoverReason::FileOfHost);
            }
        }
        Ok(())
    }

    fn response(
        &mut self,
        archive: &Archive<'a>,
        reference: &Reference<'a>,
    ) -> Result<usize, Damage> {
        let numbers = (reference.fields_number(), reference.content_number());
        if let Some(&known) = self.known.get(&numbers) {
            return Ok(known);
        }
        self.plan.responses.push(ImportedResponse::of(archive, reference)?);
        self.known.insert(numbers, self.plan.responses.len() - 1);
        Ok(self.plan.responses.len() - 1)
    }

    fn leave_out(&mut self, place: &[&[u8]], reason: LeftoverReason) {
        let place = place.concat().escape_ascii().to_string();
        self.plan.leftovers.push(Leftover { place, reason });
    }

    fn sort_out(mut self) -> ImportPlan<'a> {
        self.plan.redirects_slashes = self.redirects_slashes();
        for (path, response) in std::mem::take(&mut self.listings) {
            if !self.redirects.contains_key(&path) {
                self.plan.pages.entry(path).or_insert(PlannedPage { response, alias_of: None });
            }
        }
        self.hosts();
        let redirects = std::mem::take(&mut self.redirects).into_iter();
        let (whole_folders, paths): (Vec<_>, Vec<_>) =
            redirects.partition(|(path, _)| folder(path).is_some());
        let folders = whole_folders.iter().filter_map(|(path, _)| folder(path));
        let folders = folders.map(<[u8]>::to_vec).collect();
        self.single_paths(paths, &folders);
        self.whole_folders(whole_folders);
        if self.plan.slash_cache_control.is_none() {
            let redirects = self.plan.rules.iter().filter(|rule| rule.page.is_none());
            let mut responses = redirects.filter_map(|rule| self.plan.responses.get(rule.response));
            self.plan.slash_cache_control = responses.find_map(|response| response.cache_control);
        }
        self.folder_pages();
        self.aliases();
        self.types();
        self.plan
    }

    /// Returns whether the archiver was configured to add the other slash form of each path. Then
    /// all of them are there; otherwise the one of some path is missing.
    fn redirects_slashes(&self) -> bool {
        let folders = self.plan.fallbacks.keys().map(|folder| [folder, &b"*"[..]].concat());
        let files = self.plan.pages.keys().cloned().chain(folders);
        let paths: BTreeSet<Vec<u8>> =
            files.chain(self.redirects.keys().chain(self.listings.keys()).cloned()).collect();
        let has_other = |path: &Vec<u8>| match folder(path) {
            Some(b"/") => true,
            Some(folder) => paths.contains(&other_form(folder)),
            None => {
                let other = other_form(path);
                path == b"/"
                    || paths.contains(&other)
                    || paths.contains(&[&other, &b"*"[..]].concat())
            }
        };
        paths.iter().all(has_other)
    }

    /// Redirects for one host, which come before everything else.
    fn hosts(&mut self) {
        let all = std::mem::take(&mut self.host_redirects);
        let mut rules = Vec::new();
        for ((host, path), &response) in &all {
            let place: [&[u8]; 3] = [b"://", host, path];
            let other_forms = [other_form(path), [&other_form(path)[..], b"*"].concat()];
            let has_other_form =
                other_forms.iter().any(|other| all.contains_key(&(host.clone(), other.clone())));
            if has_other_form && self.leads_to_other_form(response, path) {
                continue;
            }
            let name = without_port(host).to_ascii_lowercase();
            match decoded(path) {
                Some(path) if is_host(&name) => {
                    if self.leads_somewhere(response) {
                        rules.push(rule(Some(name), &path, response));
                    } else {
                        self.leave_out(&place, LeftoverReason::Target);
                    }
                }
                _ => self.leave_out(&place, LeftoverReason::NeverMatches),
            }
        }
        // Of one host: paths before folders, the deepest folder first.
        rules.sort_by_key(|rule: &Rule| (rule.below, std::cmp::Reverse(rule.path.len())));
        self.plan.rules = rules;
    }

    /// Redirects of one path.
    fn single_paths(&mut self, paths: Vec<(Vec<u8>, usize)>, folders: &BTreeSet<Vec<u8>>) {
        // Two that lead to each other respond to neither.
        let leads =
            |(path, response): &&(Vec<u8>, usize)| !self.leads_to_other_form(*response, path);
        let written: BTreeSet<Vec<u8>> =
            paths.iter().filter(leads).map(|(path, _)| path.clone()).collect();
        for (path, response) in paths {
            if self.plan.redirects_slashes && self.leads_to_other_form(response, &path) {
                // Our server does this automatically where the other form has content. Where it has
                // only the response of a whole folder, this form gets that too.
                let other = other_form(&path);
                let by_itself = self.plan.pages.contains_key(&other)
                    || written.contains(&other)
                    || self.plan.fallbacks.contains_key(&other)
                    || folders.contains(&other);
                if !by_itself {
                    self.leave_out(&[&path], LeftoverReason::Circular);
                }
                let left_out = self.plan.responses.get(response);
                let cache_control = left_out.and_then(|response| response.cache_control);
                self.plan.slash_cache_control = self.plan.slash_cache_control.or(cache_control);
                continue;
            }
            let Some(key) = decoded(&path) else {
                self.leave_out(&[&path], LeftoverReason::NeverMatches);
                continue;
            };
            let taken = self.plan.pages.contains_key(&key) || self.plan.moved.contains_key(&key);
            if taken {
                self.leave_out(&[&path], LeftoverReason::Shadowed);
            } else {
                self.plan.moved.insert(key, response);
            }
        }
    }

    /// Redirects of all paths below a folder: rules, the deepest first. A page for a folder below
    /// such a one becomes a rule in front of it.
    fn whole_folders(&mut self, mut redirects: Vec<(Vec<u8>, usize)>) {
        redirects.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        for (path, response) in redirects {
            let Some(key) = decoded(&path) else {
                self.leave_out(&[&path], LeftoverReason::NeverMatches);
                continue;
            };
            let Some(top) = folder(&key) else { continue };
            if self.plan.fallbacks.contains_key(top) {
                self.leave_out(&[&path], LeftoverReason::Shadowed);
                continue;
            }
            if !self.leads_somewhere(response) {
                self.leave_out(&[&path], LeftoverReason::Target);
                continue;
            }
            let below = self.plan.fallbacks.range(top.to_vec()..);
            let below = below.take_while(|(folder, _)| folder.starts_with(top));
            let mut pages: Vec<Rule> = below
                .map(|(folder, &response)| {
                    let pattern = [&folder[..], b"*"].concat();
                    Rule { page: Some(pattern.clone()), ..rule(None, &pattern, response) }
                })
                .filter(|page| !self.plan.rules.contains(page))
                .collect();
            pages.sort_by_key(|page| std::cmp::Reverse(page.path.len()));
            for page in pages {
                // The response of kawipiko to this very path.
                if let Some(key) = &page.page {
                    let content = PlannedPage { response: page.response, alias_of: None };
                    self.plan.pages.entry(key.clone()).or_insert(content);
                }
                self.plan.rules.push(page);
            }
            self.plan.rules.push(rule(None, &key, response));
        }
    }

    /// Gives a folder with a page for everything below it that page, too. Our server does this
    /// automatically where no rule comes before the page.
    fn folder_pages(&mut self) {
        let rules = self.plan.rules.iter().filter(|rule| rule.host.is_none());
        let ruled: BTreeSet<Vec<u8>> = rules.map(|rule| [&rule.path[..], b"/"].concat()).collect();
        for (folder, &response) in &self.plan.fallbacks {
            let found =
                self.plan.responses.get(response).is_some_and(|response| response.status == 200);
            let without_slash = folder.strip_suffix(b"/").unwrap_or_default();
            let taken = [&folder[..], without_slash].iter().any(|path| {
                self.plan.moved.contains_key(*path) || self.plan.pages.contains_key(*path)
            });
            let mut above = folder.iter().zip(1..).filter(|(byte, _)| **byte == b'/');
            let is_ruled =
                above.any(|(_, end)| folder.get(..end).is_some_and(|top| ruled.contains(top)));
            if found && !taken && is_ruled && folder.len() > 1 {
                self.plan.pages.insert(folder.clone(), PlannedPage { response, alias_of: None });
            }
        }
    }

    /// Makes aliases of pages that repeat a file under the name of its folder or a shorter one.
    fn aliases(&mut self) {
        let pages = &self.plan.pages;
        let same = |path: &[u8], file: &[u8]| {
            pages.get(file).is_some_and(|found| {
                pages.get(path).is_some_and(|page| page.response == found.response)
            })
        };
        let aliases: Vec<(Vec<u8>, Vec<u8>)> = pages
            .keys()
            .filter_map(|path| {
                let file = path_aliases::files_of(path).find(|file| same(path, file))?;
                Some((path.clone(), file))
            })
            .collect();
        for (path, file) in aliases {
            if let Some(page) = self.plan.pages.get_mut(&path) {
                page.alias_of = Some(file);
            }
        }
    }

    /// Gives empty files without a type that of their names.
    fn types(&mut self) {
        let mut typed = HashMap::new();
        for (path, page) in &mut self.plan.pages {
            let Some(response) = self.plan.responses.get(page.response) else { continue };
            if response.media.is_some() || response.stored.bytes() > 0 {
                continue;
            }
            let file = page.alias_of.as_deref().unwrap_or(path);
            let media = MediaType::of(file, b"").field();
            let response = ImportedResponse { media: Some(media.clone()), ..response.clone() };
            page.response = *typed.entry((page.response, media)).or_insert_with(|| {
                self.plan.responses.push(response);
                self.plan.responses.len() - 1
            });
        }
    }

    /// Returns whether a response is a permanent redirect to the path with a slash more, or less.
    fn leads_to_other_form(&self, response: usize, path: &[u8]) -> bool {
        let response = self.plan.responses.get(response);
        response.is_some_and(|response| response.location == other_form(path))
    }

    /// Returns whether the target of a rule is a path, or a URL with a host.
    fn leads_somewhere(&self, response: usize) -> bool {
        let Some(response) = self.plan.responses.get(response) else { return false };
        let to = response.location;
        let is_path = to.first() == Some(&b'/') && !matches!(to.get(1), Some(b'/' | b'\\'));
        let has_host = [&b"http://"[..], b"https://"].iter().any(|scheme| {
            to.strip_prefix(*scheme)
                .is_some_and(|rest| rest.first().is_some_and(|byte| !b"/?#".contains(byte)))
        });
        is_path || has_host
    }
}

fn rule(host: Option<Vec<u8>>, path: &[u8], response: usize) -> Rule {
    let (path, below) = match path.strip_suffix(b"/*") {
        Some(folder) => (folder, true),
        None => (path.strip_suffix(b"/").unwrap_or(path), false),
    };
    Rule { host, path: path.to_vec(), below, response, page: None }
}

/// Decodes the source of a redirect, which is written as in a URL, unlike ours. Returns `None` for
/// one that no request can have.
fn decoded(path: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    request_target::decode_path(path, &mut buffer).ok().map(<[u8]>::to_vec)
}

/// Returns `/dir/` of `/dir/*`.
fn folder(path: &[u8]) -> Option<&[u8]> {
    path.strip_suffix(b"*").filter(|folder| folder.ends_with(b"/"))
}

/// Returns the path with a slash at its end, if it has none; else without.
fn other_form(path: &[u8]) -> Vec<u8> {
    match path.strip_suffix(b"/") {
        Some(without) => without.to_vec(),
        None => [path, b"/"].concat(),
    }
}

/// Returns a host without its port, as our rules compare hosts.
fn without_port(host: &[u8]) -> &[u8] {
    let colon = host.iter().rposition(|&byte| byte == b':');
    match colon.map(|colon| host.split_at(colon)) {
        Some((name, port)) if port.iter().skip(1).all(u8::is_ascii_digit) => name,
        _ => host,
    }
}

/// Returns whether a request can name it: `*` stands for itself in kawipiko.
fn is_host(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'*')
}
