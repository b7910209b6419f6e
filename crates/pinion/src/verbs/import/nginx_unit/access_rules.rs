//! Converts steps that refuse requests to `[[site.access]]`. Parts that cannot be carried over are
//! reported as open.

use super::super::configuration_draft::{DraftTable, Setting, is_value, named};
use super::super::json_document::{JsonNode, pointer};
use super::Unit;
use super::routes::{RouteStep, StepAction, UriPattern, route_name};
use super::sites::SiteDraft;

/// The status of a client that may not request a path.
const FORBIDDEN: u64 = 403;

/// All clients.
const ALL: [&str; 3] = ["0.0.0.0/0", "::/0", "unix"];

/// Conditions that distinguish clients: a redirect under one of them keeps clients out.
const CLIENT_CONDITIONS: [&str; 5] = ["source", "cookies", "headers", "arguments", "query"];

/// The networks of a step, as far as Pinion has them.
#[derive(Debug, Default)]
struct Sources {
    networks: Vec<String>,
    /// `!10.0.0.0/8`, without its first character.
    except: Vec<String>,
    lost_networks: Vec<String>,
    lost_exceptions: Vec<String>,
}

impl Sources {
    fn read(texts: &[String]) -> Self {
        let mut sources = Self::default();
        for text in texts {
            let (network, is_except) = match text.strip_prefix('!') {
                Some(network) => (network, true),
                None => (text.as_str(), false),
            };
            let network = network.strip_prefix('[').map_or(network, |rest| {
                // An address of IPv6 may have brackets.
                rest.strip_suffix(']').unwrap_or(network)
            });
            let is_known = is_value("access-allow", network);
            let list = match (is_known, is_except) {
                (true, true) => &mut sources.except,
                (true, false) => &mut sources.networks,
                (false, true) => &mut sources.lost_exceptions,
                (false, false) => &mut sources.lost_networks,
            };
            list.push(network.to_owned());
        }
        sources
    }

    /// Returns whether the step is for clients of some networks, not for all others.
    fn is_positive(&self) -> bool {
        !self.networks.is_empty() || !self.lost_networks.is_empty()
    }
}

/// Returns the status with which an action refuses a request.
pub(super) fn refusal(action: &JsonNode) -> Option<u64> {
    let is_other = ["pass", "proxy", "share"].iter().any(|name| action.member(name).is_some());
    let status = action.member("return")?.number()?;
    (!is_other && status >= 400).then_some(status)
}

impl<'n> Unit<'n> {
    /// Notes the paths that a step has refused and that are open without it.
    pub(super) fn opened(
        &self,
        step: &JsonNode,
        at: &str,
        lost: &[String],
        notes: &mut DraftTable,
    ) {
        if lost.is_empty() || !self.refuses(step, &mut Vec::new()) {
            return;
        }
        for subject in lost {
            notes.opens(at, format!("{subject} was refused and is open now: {CLOSE}"));
        }
    }

    /// Returns whether a step, or one of the routes that it leads to, refuses requests. `seen` are
    /// the names of the routes that were looked at: each is looked at once, however many steps lead
    /// to it.
    fn refuses(&self, step: &'n JsonNode, seen: &mut Vec<Option<&'n str>>) -> bool {
        let Some(action) = step.member("action") else { return false };
        let code = action.member("return").and_then(JsonNode::number);
        if let Some(code) = code {
            let conditions = step.member("match").map(JsonNode::members).unwrap_or_default();
            let of_client =
                |(name, _): &(String, JsonNode)| CLIENT_CONDITIONS.contains(&name.as_str());
            return code >= 400 || code >= 300 && conditions.iter().any(of_client);
        }
        let name = action.member("pass").and_then(JsonNode::text).and_then(route_name);
        let Some(name) = name.filter(|name| !seen.contains(name)) else { return false };
        seen.push(name);
        let routes = self.root.member("routes");
        let route = name.map_or(routes, |name| routes.and_then(|routes| routes.member(name)));
        let Some(JsonNode::List(steps)) = route else { return false };
        steps.iter().any(|step| self.refuses(step, seen))
    }
}

/// The advice about paths that are open.
const CLOSE: &str = "write [[site.access]], or leave out what is behind it";

impl SiteDraft {
    /// Carries a step that refuses requests.
    pub(super) fn refuse(&mut self, step: &RouteStep<'_>, status: u64) {
        let sources = step.sources.as_ref().map(|texts| Sources::read(texts));
        let at = step.at.as_str();
        let Some(uris) = &step.uris else {
            match sources {
                // Paths that no other step takes are 404 anyway.
                None => self.refuses_rest = true,
                Some(sources) => self.forbid("/", Some(&sources), "all paths", at),
            }
            return;
        };
        let mut paths: Vec<&str> = Vec::new();
        for uri in uris {
            let shown = named(&uri.shown());
            let (UriPattern::Exact(path) | UriPattern::Below(path) | UriPattern::Prefix(path)) =
                uri
            else {
                self.opens(at, &shown);
                continue;
            };
            if self.served.iter().any(|served| covers(served, uri)) {
                self.site
                    .leave_out(at, format!("{shown} is never reached: a step before takes it"));
                continue;
            }
            if path == "/" || !is_value("access-path", path) {
                self.opens(at, &shown);
                continue;
            }
            if let UriPattern::Prefix(_) = uri {
                self.opens(at, &format!("{shown} beside {path} and {path}/*"));
            }
            if sources.is_none() && self.is_limited(path) {
                // The table of the path refuses all but the clients of an earlier step. It covers
                // `/a` and `/a/*`, but that step may be for one of them alone.
                if !self.limited.contains(uri) {
                    self.opens(at, &format!("{shown} for the clients of an earlier step"));
                }
            } else if !paths.contains(&path.as_str()) {
                // `/a` and `/a/*` of one step are the same table.
                self.forbid(path, sources.as_ref(), &shown, at);
            }
            if matches!(uri, UriPattern::Exact(_))
                && !uris.contains(&UriPattern::Below(path.clone()))
            {
                let message = format!("{shown} is refused with all paths below it");
                self.site.leave_out(at, message);
            }
            paths.push(path);
        }
        if status != FORBIDDEN {
            let message = format!("refused requests get status {FORBIDDEN}, not {status}");
            self.site.leave_out(pointer(at, "return"), message);
        }
    }

    fn opens(&mut self, at: &str, subject: &str) {
        self.site.opens(at, format!("{subject} was refused and is open now: {CLOSE}"));
    }

    /// Writes that the clients of some networks, or all of them, get status 403 below a path.
    fn forbid(&mut self, path: &str, sources: Option<&Sources>, shown: &str, at: &str) {
        self.overlaps(path, at);
        let all: Vec<String> = ALL.map(str::to_owned).into();
        let Some(sources) = sources else { return self.add(path, "deny", &all) };
        for network in &sources.lost_exceptions {
            let message = format!("clients of {} are refused: {NETWORKS}", named(network));
            self.site.leave_out(at, message);
        }
        if !sources.is_positive() {
            match self.access(path).get("allow") {
                _ if sources.except.is_empty() => self.add(path, "deny", &all),
                None => self.add(path, "allow", &sources.except),
                Some(Setting::Texts(known)) if *known == sources.except => {}
                Some(_) => self.opens(at, &format!("{shown} for other networks")),
            }
            return;
        }
        for network in &sources.lost_networks {
            self.opens(at, &format!("{shown} for {} ({NETWORKS})", named(network)));
        }
        for network in &sources.except {
            let message = format!("clients of {} are refused, too", named(network));
            self.site.leave_out(at, message);
        }
        if !sources.networks.is_empty() {
            self.add(path, "deny", &sources.networks);
        }
    }

    /// Limits the paths of a step to its clients, if all others are refused there. Says whether it
    /// did: else the step cannot be carried.
    pub(super) fn limit(&mut self, step: &RouteStep<'_>, later: &[&RouteStep<'_>]) -> bool {
        let Some(texts) = &step.sources else { return true };
        let sources = Sources::read(texts);
        let root = [UriPattern::Below(String::new())];
        let uris = step.uris.as_deref().unwrap_or(&root);
        let mut paths = Vec::new();
        for uri in uris {
            match uri {
                UriPattern::Below(path) if path.is_empty() => paths.push("/"),
                UriPattern::Below(path) | UriPattern::Exact(path)
                    if path != "/" && is_value("access-path", path) =>
                {
                    paths.push(path.as_str());
                }
                _ => return false,
            }
        }
        let is_refused = later.iter().find(|later| may_meet(uris, later.uris.as_deref()));
        let is_refused = is_refused.is_none_or(|later| {
            let StepAction::Action(action) = later.action else { return false };
            let has_all = |known: &Vec<UriPattern>| uris.iter().all(|uri| known.contains(uri));
            later.sources.is_none()
                && later.uris.as_ref().is_none_or(has_all)
                && refusal(action).is_some()
        });
        let is_plain = sources.lost_exceptions.is_empty()
            && (!sources.networks.is_empty() || sources.lost_networks.is_empty());
        if !is_refused || !is_plain || paths.iter().any(|path| self.has_access(path)) {
            return false;
        }
        for network in &sources.lost_networks {
            let message = format!("clients of {} are refused: {NETWORKS}", named(network));
            self.site.leave_out(step.at.clone(), message);
        }
        self.limited.extend(uris.iter().cloned());
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            self.overlaps(path, &step.at);
            for (key, networks) in [("allow", &sources.networks), ("deny", &sources.except)] {
                if !networks.is_empty() {
                    self.add(path, key, networks);
                }
            }
        }
        true
    }

    /// Returns whether the table of a path allows only the clients of an earlier step.
    fn is_limited(&self, path: &str) -> bool {
        self.limited.iter().any(|limited| match limited {
            UriPattern::Exact(of) | UriPattern::Below(of) => of == path,
            UriPattern::Extension(_) | UriPattern::Prefix(_) => false,
        })
    }

    fn has_access(&self, path: &str) -> bool {
        let path = Setting::Text(path.to_owned());
        self.accesses.iter().any(|table| table.get("path") == Some(&path))
    }

    /// Returns the table of a path.
    fn access(&mut self, path: &str) -> &mut DraftTable {
        let key = Setting::Text(path.to_owned());
        let known = self.accesses.iter().position(|table| table.get("path") == Some(&key));
        let at = known.unwrap_or_else(|| {
            let mut table = DraftTable::new("[[site.access]]");
            table.set("path", key);
            self.accesses.push(table);
            self.accesses.len() - 1
        });
        &mut self.accesses[at]
    }

    fn add(&mut self, path: &str, key: &'static str, networks: &[String]) {
        for network in networks {
            self.access(path).add(key, network.clone());
        }
    }

    /// Notes which paths are refused that a step before has served.
    fn overlaps(&mut self, path: &str, at: &str) {
        let served: Vec<String> = self
            .served
            .iter()
            .filter(|uri| match uri {
                UriPattern::Exact(of) | UriPattern::Below(of) | UriPattern::Prefix(of) => {
                    is_below(of, path)
                }
                UriPattern::Extension(_) => true,
            })
            .map(UriPattern::shown)
            .collect();
        if !served.is_empty() {
            let message = format!(
                "{path} is refused with all paths below it, also where a step before has taken {}",
                named(&served.join(", "))
            );
            self.site.leave_out(at, message);
        }
    }
}

const NETWORKS: &str = "networks are addresses such as 10.0.0.0/8, without a port";

/// Returns whether a path is another one, or is below it.
pub(super) fn is_below(path: &str, of: &str) -> bool {
    let of = of.trim_end_matches('/');
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether a pattern takes all requests that another one is for.
fn covers(served: &UriPattern, uri: &UriPattern) -> bool {
    let (UriPattern::Exact(path) | UriPattern::Below(path) | UriPattern::Prefix(path)) = uri else {
        return served == uri;
    };
    match (served, uri) {
        (UriPattern::Exact(of), UriPattern::Exact(_)) => of == path,
        (UriPattern::Below(of), UriPattern::Below(_)) => is_below(path, of),
        (UriPattern::Below(of), _) => of != path && is_below(path, of),
        (UriPattern::Prefix(start), _) => path.starts_with(start.as_str()),
        _ => false,
    }
}

/// Returns whether a request may be for both; if that is not known, it may.
fn may_meet(uris: &[UriPattern], others: Option<&[UriPattern]>) -> bool {
    let path = |uri: &UriPattern| match uri {
        UriPattern::Exact(path) | UriPattern::Below(path) => Some(path.clone()),
        UriPattern::Extension(_) | UriPattern::Prefix(_) => None,
    };
    let Some(others) = others else { return true };
    uris.iter().any(|uri| {
        others.iter().any(|other| match (path(uri), path(other)) {
            (Some(one), Some(two)) => is_below(&one, &two) || is_below(&two, &one),
            _ => true,
        })
    })
}
