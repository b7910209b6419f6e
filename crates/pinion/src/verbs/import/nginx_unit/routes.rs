//! Routes: the steps that a listener leads to, in their order.

use super::super::configuration_draft::{DraftTable, named};
use super::super::json_document::{JsonNode, pointer};
use super::super::limits::{ROUTE_DEPTH_MAX, STEPS_MAX};
use super::{ListenerTarget, Unit};
use crate::directive_value_parsers::http_values;

/// A pattern for the path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UriPattern {
    /// `/favicon.ico`.
    Exact(String),
    /// `/static/*`, without its last two characters.
    Below(String),
    /// `*.php`, with its dot.
    Extension(String),
    /// `/admin*`, without its last character.
    Prefix(String),
}

impl UriPattern {
    /// Returns the pattern as it is written.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Exact(path) => path.clone(),
            Self::Below(path) => format!("{path}/*"),
            Self::Extension(extension) => format!("*{extension}"),
            Self::Prefix(start) => format!("{start}*"),
        }
    }
}

/// The action for a request.
#[derive(Clone, Debug)]
pub(super) enum StepAction<'n> {
    /// The target of a listener: `applications/shop`.
    Pass(&'n str),
    /// The action of a route.
    Action(&'n JsonNode),
}

/// One step: the hosts, paths and clients that it is for, `None` for all.
#[derive(Clone, Debug)]
pub(super) struct RouteStep<'n> {
    pub(super) hosts: Option<Vec<String>>,
    pub(super) uris: Option<Vec<UriPattern>>,
    /// Networks as they are written.
    pub(super) sources: Option<Vec<String>>,
    pub(super) action: StepAction<'n>,
    pub(super) at: String,
}

/// The conditions under which routes are passed to.
#[derive(Clone, Debug, Default)]
struct Conditions {
    hosts: Option<Vec<String>>,
    uris: Option<Vec<UriPattern>>,
    sources: Option<Vec<String>>,
    /// Hosts and paths that are left out.
    lost: Vec<String>,
}

impl<'n> Unit<'n> {
    /// Returns the steps of a listener.
    pub(super) fn steps(
        &self,
        target: &ListenerTarget<'n>,
        notes: &mut DraftTable,
    ) -> Vec<RouteStep<'n>> {
        let mut steps = Vec::new();
        let ListenerTarget { pass, at } = target;
        self.steps_seen.set(0);
        self.pass(pass, at, &Conditions::default(), 0, &mut steps, notes);
        if self.steps_seen.get() > STEPS_MAX {
            let message =
                format!("routes lead to more than {STEPS_MAX} steps; the rest is missing");
            notes.leave_out(at.clone(), message);
        }
        steps
    }

    /// Adds the steps that something passes to.
    fn pass(
        &self,
        pass: &'n str,
        at: &str,
        outer: &Conditions,
        depth: usize,
        steps: &mut Vec<RouteStep<'n>>,
        notes: &mut DraftTable,
    ) {
        let Some(name) = route_name(pass) else {
            let Conditions { hosts, uris, sources, .. } = outer.clone();
            let action = StepAction::Pass(pass);
            return steps.push(RouteStep { hosts, uris, sources, action, at: at.to_owned() });
        };
        let routes = self.root.member("routes");
        let (route, place) = match name {
            None => (routes, pointer(&self.at, "routes")),
            Some(name) => {
                let place = pointer(&pointer(&self.at, "routes"), name);
                (routes.and_then(|routes| routes.member(name)), place)
            }
        };
        if route.is_none() {
            return notes.leave_out(at, format!("there are no routes of the name {}", named(pass)));
        }
        let Some(JsonNode::List(nodes)) = route else {
            return notes.leave_out(at, format!("{} is no list of routes", named(pass)));
        };
        if depth == ROUTE_DEPTH_MAX {
            return notes.leave_out(at, "routes pass to each other in a circle");
        }
        for (number, node) in nodes.iter().enumerate() {
            // Also those from which nothing comes count: routes that pass to each other in circles
            // have more ways than there is time.
            self.steps_seen.set(self.steps_seen.get() + 1);
            if self.steps_seen.get() > STEPS_MAX {
                return;
            }
            let at = pointer(&place, &number.to_string());
            let conditions = match conditions(node, &at, outer, notes) {
                CarriedConditions::All(conditions) => conditions,
                CarriedConditions::Never => continue,
                CarriedConditions::Not => {
                    self.opened(node, &at, &[described(node, &at)], notes);
                    continue;
                }
            };
            self.opened(node, &at, &conditions.lost, notes);
            let Some(action) = node.member("action") else {
                notes.leave_out(at, "has no action");
                continue;
            };
            let inner = action.member("pass").and_then(JsonNode::text);
            let at = pointer(&at, "action");
            match inner.filter(|inner| route_name(inner).is_some()) {
                Some(inner) => self.pass(inner, &at, &conditions, depth + 1, steps, notes),
                None => {
                    let Conditions { hosts, uris, sources, .. } = conditions;
                    let action = StepAction::Action(action);
                    steps.push(RouteStep { hosts, uris, sources, action, at });
                }
            }
        }
    }
}

/// Returns the name of the routes that something passes to: `Some(None)` for those without one.
pub(super) fn route_name(pass: &str) -> Option<Option<&str>> {
    match pass.split_once('/') {
        None if pass == "routes" => Some(None),
        Some(("routes", name)) => Some(Some(name)),
        _ => None,
    }
}

/// The conditions of a step after the conversion.
enum CarriedConditions {
    All(Conditions),
    /// There is no request that they are for.
    Never,
    Not,
}

/// Returns the conditions of a step together with those of the step that leads to it.
fn conditions(
    step: &JsonNode,
    at: &str,
    outer: &Conditions,
    notes: &mut DraftTable,
) -> CarriedConditions {
    let mut conditions = outer.clone();
    conditions.lost.clear();
    let at = pointer(at, "match");
    for (name, node) in step.member("match").map(JsonNode::members).unwrap_or_default() {
        let at = pointer(&at, name);
        let is_known = ["host", "uri", "source"].contains(&name.as_str());
        let Some(texts) = node.texts().filter(|texts| is_known && !texts.is_empty()) else {
            notes.leave_out(at, condition(name));
            return CarriedConditions::Not;
        };
        match name.as_str() {
            "host" => {
                let Some(hosts) = hosts(&texts, &at, &mut conditions.lost, notes) else {
                    return CarriedConditions::Not;
                };
                conditions.hosts = both(conditions.hosts, hosts);
                if conditions.hosts.as_ref().is_some_and(Vec::is_empty) {
                    let message = "never applies: the route that leads here is for other hosts";
                    notes.leave_out(at, message);
                    return CarriedConditions::Never;
                }
            }
            "source" if conditions.sources.is_some() => {
                notes.leave_out(at, "networks within those of another route were not carried");
                return CarriedConditions::Not;
            }
            "source" => {
                conditions.sources = Some(texts.into_iter().map(str::to_owned).collect());
            }
            _ => {
                let Some(uris) = uris(&texts, &at, &mut conditions.lost, notes) else {
                    return CarriedConditions::Not;
                };
                if conditions.uris.is_some() && uris.is_some() {
                    notes.leave_out(at, "paths within paths of another route were not carried");
                    return CarriedConditions::Not;
                }
                conditions.uris = conditions.uris.or(uris);
            }
        }
    }
    CarriedConditions::All(conditions)
}

/// Returns the paths of a step for a message.
fn described(step: &JsonNode, at: &str) -> String {
    let uris = step.member("match").and_then(|conditions| conditions.member("uri"));
    match uris.and_then(JsonNode::texts) {
        Some(texts) if !texts.is_empty() => named(&texts.join(", ")),
        _ => format!("what {at}/match describes"),
    }
}

pub(super) fn condition(name: &str) -> &'static str {
    match name {
        "scheme" => {
            "this step was not carried: for redirects to HTTPS write [[listen]] redirect-http"
        }
        "source" => "this step was not carried: allow and deny of [[site.access]] name networks",
        "method" | "headers" | "arguments" | "cookies" | "query" => {
            "this step was not carried: a Lua script can look at method, headers and query"
        }
        _ => "this step was not carried: Pinion has no such condition",
    }
}

/// Returns the texts that are in both lists.
fn both(first: Option<Vec<String>>, second: Option<Vec<String>>) -> Option<Vec<String>> {
    match (first, second) {
        (Some(first), Some(second)) => {
            Some(first.into_iter().filter(|host| second.contains(host)).collect())
        }
        (first, second) => first.or(second),
    }
}

/// Reads hosts: `None` if a step is for none that Pinion has, `Some(None)` for all.
fn hosts(
    texts: &[&str],
    at: &str,
    lost: &mut Vec<String>,
    notes: &mut DraftTable,
) -> Option<Option<Vec<String>>> {
    let mut hosts = Vec::new();
    for text in texts {
        let host = text.to_ascii_lowercase();
        let name = host.strip_prefix("*.").unwrap_or(&host);
        if host == "*" {
            return Some(None);
        }
        if name.contains(['*', '!', '~']) || http_values::host(&host).is_err() {
            let message =
                format!("{} was not carried: hosts are names, or *. and a name", named(text));
            notes.leave_out(at, message);
            lost.push(format!("the host {}", named(text)));
        } else {
            hosts.push(host);
        }
    }
    if hosts.is_empty() {
        notes.leave_out(at, "this step was not carried: no host is left");
        return None;
    }
    Some(Some(hosts))
}

/// Reads paths: `None` if a step is for none that Pinion has, `Some(None)` for all.
fn uris(
    texts: &[&str],
    at: &str,
    lost: &mut Vec<String>,
    notes: &mut DraftTable,
) -> Option<Option<Vec<UriPattern>>> {
    let mut uris = Vec::new();
    for text in texts {
        let below = text.strip_suffix("/*").filter(|path| path.is_empty() || path.starts_with('/'));
        let extension = text.strip_prefix('*').filter(|rest| rest.starts_with('.'));
        let pattern = match (below, extension) {
            _ if *text == "*" || *text == "/*" => return Some(None),
            (Some(path), _) => UriPattern::Below(path.to_owned()),
            (_, Some(extension)) => {
                // The text after the name of a script is PATH_INFO.
                UriPattern::Extension(extension.strip_suffix("/*").unwrap_or(extension).to_owned())
            }
            _ => match text.strip_suffix('*').filter(|start| start.starts_with('/')) {
                Some(start) => UriPattern::Prefix(start.to_owned()),
                None => UriPattern::Exact((*text).to_owned()),
            },
        };
        let (UriPattern::Below(path)
        | UriPattern::Exact(path)
        | UriPattern::Extension(path)
        | UriPattern::Prefix(path)) = &pattern;
        if path.contains(['*', '!', '~', '?', '#', '%']) || path.is_empty() {
            let message = format!("{} was not carried: paths are /a, /a/* and *.php", named(text));
            notes.leave_out(at, message);
            lost.push(named(text));
        } else if !uris.contains(&pattern) {
            uris.push(pattern);
        }
    }
    if uris.is_empty() {
        notes.leave_out(at, "this step was not carried: no path is left");
        return None;
    }
    Some(Some(uris))
}
