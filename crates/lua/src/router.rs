//! The lookup of the handler for a path. It is pure: patterns in, numbers out.
//!
//! A pattern is a path whose segments are text, `:name` for exactly one segment that is not empty,
//! or, as the last one, `*name` for all the rest, which may be empty. Text has precedence over
//! `:name`, and that over `*name`, segment by segment from the left; the order of registration does
//! not matter.

use crate::limits::{PATTERN_MAX_BYTES, PATTERN_PARAMETERS_MAX, ROUTES_MAX};
use pinion_http::grammar::is_token;
use std::fmt;
use std::ops::Range;

/// All routes of a site.
#[derive(Debug, Default)]
pub struct Router {
    nodes: Vec<RouteNode>,
    routes: Vec<Route>,
}

/// A node in the tree of segments. The first one is the root.
#[derive(Debug, Default)]
struct RouteNode {
    /// Children for segments that are text, sorted by text.
    texts: Vec<(Box<[u8]>, usize)>,
    one: Option<usize>,
    /// The routes that end here.
    here: Methods,
    /// The routes that match all the rest.
    rest: Methods,
}

/// The routes of one node.
#[derive(Debug, Default)]
struct Methods {
    named: Vec<(Box<[u8]>, usize)>,
    any: Option<usize>,
}

/// A registered route.
#[derive(Debug)]
struct Route {
    pattern: Box<str>,
    parameters: Vec<Box<str>>,
}

/// A route and the values of its parameters, in the order of the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The number that [`Router::add`] returned for it.
    pub route: usize,
    values: [(u16, u16); PATTERN_PARAMETERS_MAX],
    count: usize,
}

impl Match {
    /// Returns whether its pattern has parameters.
    #[must_use]
    pub fn has_values(&self) -> bool {
        self.count > 0
    }

    /// Returns the ranges of the values in the path.
    pub fn values(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.values[..self.count].iter().map(|&(from, to)| usize::from(from)..usize::from(to))
    }
}

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundRoute {
    /// A handler.
    Route(Match),
    /// Handlers of other methods only.
    Methods(Vec<String>),
    /// No handler.
    Nothing,
}

/// The reason why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternError {
    /// The pattern does not begin with a slash.
    NoSlash,
    /// `*name` is not the last segment.
    RestNotLast,
    /// A parameter has no name: the sign that begins it.
    Nameless(char),
    /// The name of a parameter is not a word.
    Name(String),
    /// Two parameters have the same name.
    NameTwice(String),
    /// There are more than [`PATTERN_PARAMETERS_MAX`] parameters.
    TooManyParameters,
    /// The pattern has more than [`PATTERN_MAX_BYTES`] bytes.
    TooLong,
    /// It can match nothing, because of a query, a percent sign, a fragment or a control character.
    Character(char),
    /// The method is no token.
    Method(String),
    /// There are more than [`ROUTES_MAX`] routes.
    TooManyRoutes,
    /// Another route of the same method matches exactly the same paths.
    Taken(String),
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSlash => write!(f, "a pattern begins with a slash, such as \"/hello/:name\""),
            Self::RestNotLast => write!(f, "`*name` takes all the rest, so it has to come last"),
            Self::Nameless(sign) => write!(
                f,
                "`{sign}` needs a name, such as \"/hello/{sign}name\", by which req.params has \
                 the value"
            ),
            Self::Name(name) => write!(
                f,
                "\"{name}\" is not a valid name of a parameter; use letters, digits and \
                 underscores"
            ),
            Self::NameTwice(name) => write!(f, "two parameters have the name \"{name}\""),
            Self::TooManyParameters => {
                write!(f, "a pattern has at most {PATTERN_PARAMETERS_MAX} parameters")
            }
            Self::TooLong => write!(f, "a pattern has at most {PATTERN_MAX_BYTES} bytes"),
            Self::Character('%') => write!(
                f,
                "write the pattern decoded: a space, not %20; paths are decoded before they are \
                 matched"
            ),
            Self::Character('?') => write!(
                f,
                "a pattern has no query and no optional parameters: req.query has the query; \
                 register a second pattern for a path without the parameter"
            ),
            Self::Character(character) => write!(
                f,
                "{character:?} is in no path that is looked up; patterns are written decoded and \
                 without a query"
            ),
            Self::Method(method) => write!(f, "\"{method}\" is not a valid method"),
            Self::TooManyRoutes => write!(f, "a site has at most {ROUTES_MAX} routes"),
            Self::Taken(pattern) => {
                write!(f, "the route \"{pattern}\" matches the same requests; remove one of them")
            }
        }
    }
}

impl std::error::Error for PatternError {}

impl Router {
    /// Creates a router without routes.
    #[must_use]
    pub fn new() -> Self {
        Self { nodes: vec![RouteNode::default()], routes: Vec::new() }
    }

    /// Returns whether there are no routes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns the number of routes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Returns the pattern of a route, as it was written.
    #[must_use]
    pub fn pattern(&self, route: usize) -> Option<&str> {
        self.routes.get(route).map(|route| &*route.pattern)
    }

    /// Returns the names of the parameters of a route.
    pub fn parameters(&self, route: usize) -> impl Iterator<Item = &str> {
        let route = self.routes.get(route);
        route.into_iter().flat_map(|route| route.parameters.iter().map(|name| &**name))
    }

    /// Adds a route for a method, or for all of them, and returns its number, counted from 0.
    ///
    /// # Errors
    /// Returns [`PatternError`]; nothing has changed then.
    pub fn add(&mut self, method: Option<&str>, pattern: &str) -> Result<usize, PatternError> {
        if let Some(method) = method
            && !is_token(method.as_bytes())
        {
            return Err(PatternError::Method(method.to_owned()));
        }
        let parameters = check(pattern)?;
        let number = self.routes.len();
        if number == ROUTES_MAX {
            return Err(PatternError::TooManyRoutes);
        }
        let methods = self.place(pattern, false);
        let taken = match method {
            Some(method) => {
                methods.named.iter().find(|(name, _)| **name == *method.as_bytes()).map(|at| at.1)
            }
            None => methods.any,
        };
        if let Some(taken) = taken {
            let pattern = self.routes.get(taken).map(|route| route.pattern.to_string());
            return Err(PatternError::Taken(pattern.unwrap_or_default()));
        }
        match method {
            Some(method) => methods.named.push((method.as_bytes().into(), number)),
            None => methods.any = Some(number),
        }
        self.routes.push(Route { pattern: pattern.into(), parameters });
        Ok(number)
    }

    /// Adds a route for one path, in which `:` and `*` are characters like all others, unless
    /// requests for it have a route of the same pattern already; then there is no number.
    ///
    /// # Errors
    /// Returns [`PatternError`], for a path that is too long or one route too many.
    pub(crate) fn add_path(
        &mut self,
        method: &str,
        path: &str,
    ) -> Result<Option<usize>, PatternError> {
        if !path.starts_with('/') {
            return Err(PatternError::NoSlash);
        }
        if path.len() > PATTERN_MAX_BYTES {
            return Err(PatternError::TooLong);
        }
        let number = self.routes.len();
        if number == ROUTES_MAX {
            return Err(PatternError::TooManyRoutes);
        }
        let methods = self.place(path, true);
        if methods.of(method.as_bytes()).is_some() {
            return Ok(None);
        }
        methods.named.push((method.as_bytes().into(), number));
        self.routes.push(Route { pattern: path.into(), parameters: Vec::new() });
        Ok(Some(number))
    }

    /// Returns the routes of a checked pattern, or of a path.
    fn place(&mut self, pattern: &str, is_path: bool) -> &mut Methods {
        let mut at = 0;
        for segment in pattern[1..].split('/') {
            let next = self.nodes.len();
            let node = &mut self.nodes[at];
            if !is_path && segment.starts_with('*') {
                return &mut self.nodes[at].rest;
            }
            at = if !is_path && segment.starts_with(':') {
                *node.one.get_or_insert(next)
            } else {
                let text = segment.as_bytes();
                match node.texts.binary_search_by(|(have, _)| (**have).cmp(text)) {
                    Ok(index) => node.texts[index].1,
                    Err(index) => {
                        node.texts.insert(index, (text.into(), next));
                        next
                    }
                }
            };
            if at == next {
                self.nodes.push(RouteNode::default());
            }
        }
        &mut self.nodes[at].here
    }

    /// Finds the route of a decoded path. A HEAD without a route of its own uses the route of GET.
    #[must_use]
    pub fn find(&self, method: &[u8], path: &[u8]) -> FoundRoute {
        let mut search = Search { router: self, method, path, allowed: Vec::new() };
        let mut found = Match { route: 0, values: [(0, 0); PATTERN_PARAMETERS_MAX], count: 0 };
        if path.first() != Some(&b'/') || path.len() > usize::from(u16::MAX) {
            return FoundRoute::Nothing;
        }
        if search.walk(0, 1, &mut found) {
            return FoundRoute::Route(found);
        }
        if search.allowed.is_empty() {
            FoundRoute::Nothing
        } else {
            FoundRoute::Methods(search.allowed)
        }
    }
}

/// One lookup.
struct Search<'r> {
    router: &'r Router,
    method: &'r [u8],
    path: &'r [u8],
    /// Methods of routes that match the path, but not the method.
    allowed: Vec<String>,
}

impl Search<'_> {
    /// Returns whether a route below a node matches the path from `from` on. Each node is visited
    /// once at most for one way that leads to it, and never deeper than the longest pattern.
    fn walk(&mut self, node: usize, from: usize, found: &mut Match) -> bool {
        let router = self.router;
        let Some(node) = router.nodes.get(node) else { return false };
        let Some(rest) = self.path.get(from..) else {
            return self.take(&node.here, found);
        };
        let length = memchr::memchr(b'/', rest).unwrap_or(rest.len());
        let (segment, next) = (&rest[..length], from + length + 1);
        if let Ok(index) = node.texts.binary_search_by(|(have, _)| (**have).cmp(segment))
            && self.walk(node.texts[index].1, next, found)
        {
            return true;
        }
        let count = found.count;
        if let Some(one) = node.one
            && !segment.is_empty()
        {
            Self::capture(found, from, from + length);
            if self.walk(one, next, found) {
                return true;
            }
            found.count = count;
        }
        if node.rest.is_empty() {
            return false;
        }
        Self::capture(found, from, self.path.len());
        if self.take(&node.rest, found) {
            return true;
        }
        found.count = count;
        false
    }

    fn capture(found: &mut Match, from: usize, to: usize) {
        // A pattern has no more parameters than there are places, and a path fits 16 bits.
        if let Some(place) = found.values.get_mut(found.count) {
            *place = (from as u16, to as u16);
            found.count += 1;
        }
    }

    fn take(&mut self, methods: &Methods, found: &mut Match) -> bool {
        if let Some(route) = methods.of(self.method) {
            found.route = route;
            return true;
        }
        methods.list(&mut self.allowed);
        false
    }
}

impl Methods {
    fn is_empty(&self) -> bool {
        self.any.is_none() && self.named.is_empty()
    }

    fn of(&self, method: &[u8]) -> Option<usize> {
        let named = |method: &[u8]| {
            self.named.iter().find(|(name, _)| **name == *method).map(|&(_, route)| route)
        };
        let get = || if method == b"HEAD" { named(b"GET") } else { None };
        // TRACE sends back the fields of clients, and those that their browser adds. A route for it
        // has to name it (RFC 9110 §9.3.8).
        let any = || if method == b"TRACE" { None } else { self.any };
        named(method).or_else(get).or_else(any)
    }

    fn list(&self, allowed: &mut Vec<String>) {
        let mut add = |name: &str| {
            if !allowed.iter().any(|have| have == name) {
                allowed.push(name.to_owned());
            }
        };
        for (name, _) in &self.named {
            add(&String::from_utf8_lossy(name));
            if **name == *b"GET" {
                add("HEAD");
            }
        }
        if self.any.is_some() {
            ANY.iter().for_each(|name| add(name));
        }
    }
}

/// The methods that a route for any of them lists where it does not answer.
const ANY: &[&str] = &["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY"];

/// Checks that patterns can begin with a prefix, which may be empty.
///
/// # Errors
/// Returns [`PatternError`].
pub(crate) fn check_prefix(prefix: &str) -> Result<(), PatternError> {
    // Another segment follows, so that `*name` is not the last one.
    check(&format!("{prefix}/-")).map(drop)
}

/// Returns whether a path is below a checked prefix: it begins with the segments of the prefix,
/// where `:name` matches any one.
pub(crate) fn is_below_prefix(prefix: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    let matches = |wanted: &str, have: &str| {
        if wanted.starts_with(':') { !have.is_empty() } else { wanted == have }
    };
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    prefix.split('/').all(|wanted| segments.next().is_some_and(|have| matches(wanted, have)))
}

/// Returns a segment of a pattern that is a parameter in the patterns of other servers, such as
/// `<int:id>` or `{id}`, and its replacement.
pub(crate) fn foreign_parameter(pattern: &str) -> Option<(&str, String)> {
    let mut segments = pattern.split('/').peekable();
    while let Some(segment) = segments.next() {
        let within = |open, close| segment.strip_prefix(open)?.strip_suffix(close);
        let (inner, is_path) = match (within('<', '>'), within('{', '}')) {
            // A converter comes first: `<path:file>`.
            (Some(inner), _) => match inner.rsplit_once(':') {
                Some((converter, name)) => (name, converter == "path"),
                None => (inner, false),
            },
            // An expression comes last: `{id:[0-9]+}`; `{*file}` and `{file...}` take the rest.
            (None, Some(inner)) => {
                let name = inner.split(':').next().unwrap_or_default();
                let rest = name.strip_prefix('*').or_else(|| name.strip_suffix("..."));
                (rest.unwrap_or(name), rest.is_some())
            }
            (None, None) => continue,
        };
        let name = if is_word(inner) && !inner.is_empty() { inner } else { "name" };
        let sign = if is_path && segments.peek().is_none() { '*' } else { ':' };
        return Some((segment, format!("{sign}{name}")));
    }
    None
}

fn is_word(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Checks a pattern, and returns the names of its parameters.
fn check(pattern: &str) -> Result<Vec<Box<str>>, PatternError> {
    if pattern.len() > PATTERN_MAX_BYTES {
        return Err(PatternError::TooLong);
    }
    let Some(rest) = pattern.strip_prefix('/') else { return Err(PatternError::NoSlash) };
    if let Some(bad) = pattern.chars().find(|&c| matches!(c, '?' | '#' | '%') || c.is_control()) {
        return Err(PatternError::Character(bad));
    }
    let mut names: Vec<Box<str>> = Vec::new();
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let parameter = match segment.strip_prefix('*') {
            Some(_) if segments.peek().is_some() => return Err(PatternError::RestNotLast),
            Some(name) => Some(('*', name)),
            None => segment.strip_prefix(':').map(|name| (':', name)),
        };
        let Some((sign, name)) = parameter else { continue };
        if name.is_empty() {
            return Err(PatternError::Nameless(sign));
        } else if !is_word(name) {
            return Err(PatternError::Name(name.to_owned()));
        }
        if names.iter().any(|have| **have == *name) {
            return Err(PatternError::NameTwice(name.to_owned()));
        }
        names.push(name.into());
    }
    if names.len() <= PATTERN_PARAMETERS_MAX {
        Ok(names)
    } else {
        Err(PatternError::TooManyParameters)
    }
}

#[cfg(test)]
mod tests;
