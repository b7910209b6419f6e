//! Computes the response of a site from its files and the rules in their source form, following
//! docs/resolution.md sentence by sentence. It is slow and uses only the standard library. Tests
//! compare the compiled site with it.

use std::collections::{BTreeMap, BTreeSet};

/// A parsed line of `_redirects`; escapes of the path and the query are decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// In lower case; empty for any host. It may begin with `*.`.
    pub(crate) host: String,
    /// A path such as `/a/:name/*`.
    pub(crate) from: String,
    /// Pairs of a key and a value or `:name`.
    pub(crate) query: Vec<(String, String)>,
    /// A path or a URL, with `:name` and `:splat`.
    pub(crate) to: String,
    pub(crate) status: u16,
    pub(crate) force: bool,
}

/// The data of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site {
    /// The paths with an entry: files, index files, short paths.
    pub(crate) pages: BTreeSet<String>,
    /// The rules in the order in which they are tried.
    pub(crate) rules: Vec<Rule>,
    /// The status of the fallback page of each folder. The path of a folder begins and ends with a
    /// slash.
    pub(crate) fallbacks: BTreeMap<String, u16>,
    /// Whether there is a single-page fallback.
    pub(crate) single_page: bool,
    /// Whether a path stays missing when it exists with a slash more or less at its end.
    pub(crate) no_slash_redirects: bool,
}

/// A request; its path is decoded and has no dot segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) host: String,
    pub(crate) path: String,
    /// The query as it was sent.
    pub(crate) query: Option<String>,
    /// Whether the request is the navigation of a browser to a page.
    pub(crate) navigation: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// The content of a page.
    Page(u16, String),
    Redirect(u16, String),
    /// The fallback page of a folder.
    Fallback(u16, String),
    SinglePage,
    /// The built-in page.
    NotFound,
}

/// The captured texts by name; the name of the text that a `*` matches is `splat`.
type Captures = BTreeMap<String, String>;

pub(crate) fn resolve(site: &Site, request: &Request) -> Resolution {
    let first = site.rules.iter().find_map(|rule| Some((rule, captures(rule, request)?)));
    let by_rule = || match &first {
        Some((rule, captures)) => apply(rule, captures, site, request),
        None => fallback(site, request),
    };
    let path = &request.path;
    if first.as_ref().is_some_and(|(rule, _)| rule.force) {
        return by_rule();
    }
    if site.pages.contains(path) {
        return Resolution::Page(200, path.clone());
    }
    let other = match path.strip_suffix('/') {
        Some(without) => without.to_owned(),
        None => format!("{path}/"),
    };
    let leads_there = !path.ends_with("//") && !other.starts_with("//");
    if site.pages.contains(&other) && leads_there && !site.no_slash_redirects {
        return Resolution::Redirect(308, with_query(&escaped(&other, PATH), request));
    }
    by_rule()
}

fn fallback(site: &Site, request: &Request) -> Resolution {
    let path = &request.path;
    let folder = format!("{path}/");
    let leads_there = !path.ends_with('/') && !folder.starts_with("//");
    if site.fallbacks.get(&folder) == Some(&200) && leads_there && !site.no_slash_redirects {
        return Resolution::Redirect(308, with_query(&escaped(&folder, PATH), request));
    }
    nearest_page(site, path, request)
}

/// Returns the fallback page of a missing path.
fn nearest_page(site: &Site, path: &str, request: &Request) -> Resolution {
    let folders = path.rmatch_indices('/').map(|(slash, _)| &path[..=slash]);
    let page = folders.filter_map(|folder| Some((*site.fallbacks.get(folder)?, folder))).next();
    let name = &path[path.rfind('/').expect("a slash at the front") + 1..];
    let is_page = name.rsplit_once('.').is_none_or(|(_, extension)| extension == "html");
    match page {
        Some((200, folder)) => Resolution::Fallback(200, folder.to_owned()),
        _ if site.single_page && request.navigation && is_page => Resolution::SinglePage,
        Some((status, folder)) => Resolution::Fallback(status, folder.to_owned()),
        None => Resolution::NotFound,
    }
}

/// Returns the response of the target of a rewrite. The other slash form is used without a
/// redirect.
fn target(site: &Site, status: u16, key: String, request: &Request) -> Resolution {
    if site.pages.contains(&key) {
        return Resolution::Page(status, key);
    }
    let other = match key.strip_suffix('/') {
        Some(without) => without.to_owned(),
        None => format!("{key}/"),
    };
    if site.pages.contains(&other) && !key.ends_with("//") && !site.no_slash_redirects {
        return Resolution::Page(status, other);
    }
    let folder = format!("{key}/");
    let is_folder = !key.ends_with('/') && !site.no_slash_redirects;
    if is_folder && site.fallbacks.get(&folder) == Some(&200) {
        return Resolution::Fallback(200, folder);
    }
    nearest_page(site, &key, request)
}

/// Returns the response of a rule.
fn apply(rule: &Rule, captures: &Captures, site: &Site, request: &Request) -> Resolution {
    if !(300..400).contains(&rule.status) {
        let key = filled(&rule.to, |name, _| captures.get(name).cloned());
        return target(site, rule.status, key, request);
    }
    let in_path = |before: &str| !before.contains(['?', '#']);
    let mut to = filled(&rule.to, |name, before| {
        let value = captures.get(name)?;
        Some(escaped(value, if in_path(before) { PATH } else { VALUE }))
    });
    if to.starts_with('/') {
        to = format!("/{}", to.trim_start_matches('/'));
    }
    if rule.to.contains('?') {
        return Resolution::Redirect(rule.status, to);
    }
    let (before, fragment) = to.split_at(to.find('#').unwrap_or(to.len()));
    Resolution::Redirect(rule.status, with_query(before, request) + fragment)
}

fn with_query(path: &str, request: &Request) -> String {
    match &request.query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}

/// Returns a target with its names replaced; `value` gets the name and the text in front of it.
fn filled(to: &str, value: impl Fn(&str, &str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = to;
    while let Some((before, behind)) = rest.split_once(':') {
        out += before;
        let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, after) = behind.split_at(end.unwrap_or(behind.len()));
        match value(name, &to[..to.len() - behind.len()]) {
            Some(value) => out += &value,
            None => out += &format!(":{name}"),
        }
        rest = after;
    }
    out + rest
}

/// Returns the captures of a rule, or `None` if it does not match.
fn captures(rule: &Rule, request: &Request) -> Option<Captures> {
    let host = request.host.to_ascii_lowercase();
    let host = host.rsplit_once(':').map_or(host.as_str(), |(host, _port)| host);
    let host = host.strip_suffix('.').unwrap_or(host);
    let right_host = match rule.host.strip_prefix('*') {
        _ if rule.host.is_empty() => true,
        Some(domain) => host.strip_suffix(domain).is_some_and(|label| !label.is_empty()),
        None => host == rule.host,
    };
    if !right_host {
        return None;
    }
    let mut captures = path_captures(&rule.from, &request.path)?;
    let query = request.query.as_deref().unwrap_or_default();
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let pairs: Vec<_> = pairs.map(|(key, value)| (decoded(key), decoded(value))).collect();
    for (key, wanted) in &rule.query {
        let mut values = pairs.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
        match wanted.strip_prefix(':') {
            Some(name) => captures.insert(name.to_owned(), values.next()?.clone()),
            None if values.any(|value| value == wanted) => None,
            None => return None,
        };
    }
    Some(captures)
}

fn path_captures(from: &str, path: &str) -> Option<Captures> {
    let segments =
        |path: &str| -> Vec<String> { path.split('/').skip(1).map(str::to_owned).collect() };
    let without_slash = |mut segments: Vec<String>| {
        if segments.last().is_some_and(String::is_empty) {
            segments.pop();
        }
        segments
    };
    let all = segments(path);
    let (pattern, asked) = (without_slash(segments(from)), without_slash(all.clone()));
    let mut captures = Captures::new();
    for (rank, part) in pattern.iter().enumerate() {
        if let Some(prefix) = part.strip_suffix('*') {
            // The rest of the path is captured, with the slash at its end if there is one.
            let rest = all.get(rank..).unwrap_or_default().join("/");
            captures.insert("splat".to_owned(), rest.strip_prefix(prefix)?.to_owned());
            return Some(captures);
        }
        let segment = asked.get(rank)?;
        match part.strip_prefix(':') {
            Some(_) if segment.is_empty() => return None,
            Some(name) => {
                captures.insert(name.to_owned(), segment.clone());
            }
            None if segment != part => return None,
            None => {}
        }
    }
    (pattern.len() == asked.len()).then_some(captures)
}

/// Decodes a key or value of a query; `+` is a space.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let escape =
            text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[at], escape) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8(out).expect("tests ask for text")
}

/// The characters that are not escaped in a path, besides letters and digits (RFC 3986 §3.3).
const PATH: &str = "/-._~!$&'()*+,;=:@";
/// The characters that are not escaped in a value of a query.
const VALUE: &str = "/-._~!$'()*,:@";

fn escaped(text: &str, plain: &str) -> String {
    let escape = |byte: u8| match char::from(byte) {
        c if c.is_ascii_alphanumeric() || plain.contains(c) => c.to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
