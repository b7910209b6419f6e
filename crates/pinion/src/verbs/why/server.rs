//! What a server does with a request: its listeners, what it answers on every host, the site of the
//! host and its script. The order is that of `SitesApp::request` (server/app.rs), whose functions
//! make the responses.

use super::explanation::{
    CodingShown, Explanation, FileLine, ListenerShown, SiteShown, Step, StepName, VERSION,
};
use super::headers::{Headers, Origins};
use super::listener::ChosenListener;
use super::recorder::Recorder;
use super::request::WhyRequest;
use super::site::LoadedSite;
use super::steps::Lookup;
use crate::failure::Failure;
use crate::plan::{Plan, PlannedSite};
use crate::server::acme::AcmeChallenges;
use crate::server::app::{health, misdirected};
use crate::server::redirect::{Leads, Redirect};
use crate::server::tls::redirect_origin;
use crate::settings::Serve;
use crate::source::Source;
use crate::terminal::shown;
use pinion_archive::layout::VARIANT_PREFIX;
use pinion_archive::{Archive, Scratch};
use pinion_engine::clock::Now;
use pinion_http::h1::encode::{self, ConnectionFields};
use pinion_http::h1::glance::glance;
use pinion_http::h1::head::{self, HeadStorage, Parsed};
use pinion_http::limits::Limits;
use pinion_http::method::Method;
use pinion_http::page;
use pinion_http::prepared::Prepared;
use pinion_http::refusal::RefusedRequest;
use pinion_http::request::RequestHead;
use pinion_http::target::{PathError, decode_path};
use pinion_lua::routes::RouteFound;
use pinion_site::hosts::{HostPattern, Hosts};
use pinion_site::{Pieces, Work, answer_traced, error_for, has_file, options_for, refused_page};

/// Explains the response of a server to a request.
///
/// # Errors
/// The site cannot be loaded, or its archive is damaged.
pub(super) fn explain(plan: Plan, request: &WhyRequest) -> Result<Explanation, Failure> {
    let Plan { serve, sites, config, .. } = plan;
    let mut storage = HeadStorage::new();
    let parsed = head::parse(&request.head, 0, &mut storage, &Limits::default());
    let mut draft = Draft::new(&serve, config.is_some(), request);
    match parsed {
        Ok(Parsed::Head { head, .. }) => draft.head(&head, sites)?,
        // The head ends with its blank line, so it is never partial.
        Ok(Parsed::Partial { .. }) => draft.refused(400, "incomplete request", request, sites)?,
        Err(refusal) => draft.refused(refusal.status(), refusal.as_str(), request, sites)?,
    }
    Ok(draft.explanation)
}

/// An explanation that is being made.
struct Draft<'s> {
    serve: &'s Serve,
    listener: ChosenListener<'s>,
    /// The lines that every response of the listener has.
    tail: Vec<u8>,
    explanation: Explanation,
}

impl<'s> Draft<'s> {
    fn new(serve: &'s Serve, is_configured: bool, request: &WhyRequest) -> Self {
        let listener = ChosenListener::of(serve, is_configured, request);
        let tail = listener.fields(serve, Now::read().unix_seconds);
        let method = request.head.split(|&byte| byte == b' ').next().unwrap_or_default();
        let explanation = Explanation {
            version: VERSION,
            url: request.url.clone(),
            method: String::from_utf8_lossy(method).into_owned(),
            listener: listener.listen.map(|listen| ListenerShown {
                address: listen.address.to_string(),
                kind: listener.kind_name(),
            }),
            site: None,
            steps: Vec::new(),
            status: None,
            headers: Vec::new(),
            removed: Vec::new(),
            codings: Vec::new(),
            notes: listener.note.iter().cloned().collect(),
        };
        Self { serve, listener, tail, explanation }
    }

    /// A request whose head can be parsed.
    fn head(&mut self, head: &RequestHead<'_>, sites: Vec<PlannedSite>) -> Result<(), Failure> {
        if self.answers_for_every_host(head) {
            return Ok(());
        }
        let chosen = choose(sites, head.authority);
        if self.listener.is_redirect() && !is_challenge(head) {
            return self.redirect(head);
        }
        let site = chosen.map(|chosen| self.load(chosen)).transpose()?;
        if self.listener.is_redirect() && !has_proof(head, site.as_ref()) {
            return self.redirect(head);
        }
        let Some(site) = site else {
            let reason = "no site has this host, and every site has hosts".to_owned();
            let response = misdirected(head);
            self.step(Step::responds(None, StepName::Host, reason));
            self.finish(&response, &Origins { is_error: true, ..Origins::default() });
            return Ok(());
        };
        self.site(&site, head)
    }

    /// The health check and the challenges of certificate authorities.
    fn answers_for_every_host(&mut self, head: &RequestHead<'_>) -> bool {
        let health_check = self.serve.health.as_ref();
        if health_check.is_some_and(|check| check.path.as_bytes() == head.target.path) {
            let reason = "the path of --health, on every host".to_owned();
            self.step(Step::responds(None, StepName::HealthCheck, reason));
            self.finish(&health(head, false), &Origins::default());
            return true;
        }
        let Some(webroot) = &self.serve.tls.acme_webroot else { return false };
        let mut challenges = AcmeChallenges::new(webroot.as_path().into());
        let Some(response) = challenges.respond(head) else { return false };
        let reason = {
            let webroot = shown(webroot.as_os_str().as_encoded_bytes());
            format!("a file below {webroot}, on every host")
        };
        self.step(Step::responds(None, StepName::AcmeChallenge, reason));
        self.finish(&response, &Origins::default());
        true
    }

    /// The response of a listener that redirects to HTTPS.
    fn redirect(&mut self, head: &RequestHead<'_>) -> Result<(), Failure> {
        let Some(origin) = redirect_origin(self.serve)? else {
            return Err(Failure::usage("--redirect-http leads nowhere without a TLS listener"));
        };
        let leads = Leads { listeners: [true].into(), origin: origin.into() };
        let mut redirect = Redirect::new(leads);
        let reason = "this listener redirects to HTTPS, on every host".to_owned();
        self.step(Step::responds(None, StepName::RedirectToHttps, reason.clone()));
        let location = Some((reason, Vec::new()));
        self.finish(&redirect.answer(head), &Origins { location, ..Origins::default() });
        Ok(())
    }

    /// A request that is refused before anything is looked up.
    fn refused(
        &mut self,
        status: u16,
        reason: &str,
        request: &WhyRequest,
        sites: Vec<PlannedSite>,
    ) -> Result<(), Failure> {
        let hints: RefusedRequest<'_> = glance(&request.head);
        self.step(Step::responds(None, StepName::Request, reason.to_owned()));
        let chosen = choose(sites, hints.authority);
        let Some(site) = chosen.map(|chosen| self.load(chosen)).transpose()? else {
            let response = page::answer(status, hints.text, page::BUILT_IN_FIELDS);
            self.finish_with(&response, ConnectionFields::Close, &Origins::default());
            return Ok(());
        };
        let (mut work, mut scratch) = (Work::new(), Vec::new());
        let path = hints.path.and_then(|path| decode_path(path, &mut scratch).ok());
        let response = refused_page(status, &hints, &site.generation.archive(), &mut work);
        let origins = Origins { path, is_error: true, ..site.origins() };
        self.finish_with(&response, ConnectionFields::Close, &origins);
        Ok(())
    }

    /// Loads the site of the host.
    fn load(
        &mut self,
        (planned, host): (PlannedSite, Option<String>),
    ) -> Result<LoadedSite, Failure> {
        let kind = match planned.source {
            Source::Archive(_) => "archive",
            Source::Folder(_) => "folder",
            Source::Releases(_) => "releases",
            Source::Script(_) => "script",
            Source::Upstream(_) => "proxy",
        };
        let path = planned.source.path().display().to_string();
        self.explanation.site = Some(SiteShown { path, kind, host });
        LoadedSite::load(planned)
    }

    /// What a site responds.
    fn site(&mut self, site: &LoadedSite, head: &RequestHead<'_>) -> Result<(), Failure> {
        let routes = site.routes()?;
        let found = routes.as_ref().map_or(RouteFound::Nothing, |routes| routes.find(head));
        if let RouteFound::Handler { pattern, place } = &found {
            self.handler(StepName::Route, pattern.as_deref(), place.as_deref(), (site, head));
            return Ok(());
        }
        if routes.is_some() {
            let reason = match &found {
                RouteFound::Methods(methods) => {
                    format!("the route of this path is for {}", methods.join(", "))
                }
                _ => "no route matches".to_owned(),
            };
            self.step(Step::passed(None, StepName::Route, reason));
        }
        let (archive, now) = (site.generation.archive(), Now::read().unix_seconds);
        let (recorder, mut scratch) = (Recorder::default(), Vec::new());
        let mut work = Work::new();
        let mut pieces = Pieces::new();
        let response = answer_traced(&archive, head, now, &mut work, &mut pieces, &recorder);
        let is_missing = response.status == 404;
        match (is_missing, found) {
            (true, RouteFound::Methods(methods)) => {
                self.other_method(methods, site, head);
                return Ok(());
            }
            (true, _) => {
                let special = routes.as_ref().map(pinion_lua::routes::Routes::not_found);
                if let Some(RouteFound::Handler { place, .. }) = special {
                    let step = StepName::NotFoundHandler;
                    self.handler(step, None, place.as_deref(), (site, head));
                    return Ok(());
                }
            }
            (false, _) => {}
        }
        let heard = recorder.heard();
        let decoded = decode_path(head.target.path, &mut scratch).map(<[u8]>::to_vec);
        let path = match decoded {
            Ok(path) => Some(path),
            Err(PathError::NeverMatches) => Some(scratch),
            Err(PathError::Malformed | PathError::AboveRoot) => None,
        };
        let looked_up = path.as_deref().unwrap_or(head.target.path);
        let rules = &site.rules;
        let lookup = Lookup { archive, head, path: looked_up, heard: &heard, rules };
        let steps = lookup.steps();
        let (file, location) = (file_of(&archive, heard.key.as_deref()), location(&steps));
        self.explanation.steps.extend(steps);
        self.method_and_conditions(head, response.status);
        let sent = heard.target.as_deref();
        let is_error = response.status >= 400;
        let file = file.filter(|_| !is_error || heard.key.is_some());
        let origins =
            Origins { path: path.as_deref(), sent, is_error, location, file, ..site.origins() };
        let has_file = !matches!(response.status, 300..=399 | 405 | 501);
        self.finish(&response, &origins);
        if has_file {
            self.codings(&archive, heard.key.as_deref());
        }
        if let Some(damage) = work.damage() {
            let note =
                format!("the archive is damaged: {damage}; `pinion verify` lists all damage");
            self.explanation.notes.push(note);
        }
        Ok(())
    }

    /// A request that a handler of a script answers.
    fn handler(
        &mut self,
        name: StepName,
        pattern: Option<&str>,
        place: Option<&str>,
        (site, head): (&LoadedSite, &RequestHead<'_>),
    ) {
        let pattern = pattern.map_or(String::new(), |pattern| format!("{pattern}, "));
        let place = place.unwrap_or("a handler");
        let reason = shown(format!("{pattern}{place}").as_bytes());
        self.step(Step::responds(None, name, reason));
        let fields = site.script_fields(head);
        let mut scratch = Vec::new();
        let path = decode_path(head.target.path, &mut scratch).ok();
        let origins = Origins { path, is_error: true, ..site.origins() };
        let lines = [&*fields, &*self.tail].concat();
        (self.explanation.headers, self.explanation.removed) = origins.of(&lines);
        let note = "the handler decides about the status, and may replace these headers";
        self.explanation.notes.push(note.to_owned());
    }

    /// A path that has routes, for other methods alone.
    fn other_method(
        &mut self,
        mut methods: Vec<String>,
        site: &LoadedSite,
        head: &RequestHead<'_>,
    ) {
        if !methods.iter().any(|method| method == "OPTIONS") {
            methods.push("OPTIONS".to_owned());
        }
        let allow = methods.join(", ");
        let (archive, mut work) = (site.generation.archive(), Work::new());
        let response = match head.method {
            Method::Options => options_for(&archive, head, &mut work),
            _ => error_for(405, &archive, head, &mut work),
        };
        let response = Prepared { allow: Some(allow.as_bytes()), ..response };
        let reason = format!("the routes of the path have {allow}");
        self.step(Step::responds(None, StepName::Method, reason));
        let mut scratch = Vec::new();
        let path = decode_path(head.target.path, &mut scratch).ok();
        self.finish(&response, &Origins { path, is_error: true, ..site.origins() });
    }

    /// What of the request decides about the status beside its path.
    fn method_and_conditions(&mut self, head: &RequestHead<'_>, status: u16) {
        let method = String::from_utf8_lossy(head.method_token);
        let (name, reason) = match status {
            204 if head.method == Method::Options => {
                (StepName::Method, "OPTIONS asks for the methods".to_owned())
            }
            405 => (StepName::Method, format!("{method} is not a method of a file")),
            501 => (StepName::Method, format!("{method} is not supported")),
            206 => (StepName::Condition, "Range asks for a part".to_owned()),
            304 => (StepName::Condition, "the client has the current version".to_owned()),
            412 => (StepName::Condition, "a condition of the request is false".to_owned()),
            416 => (StepName::Condition, "Range asks for what there is not".to_owned()),
            _ => return,
        };
        if self.explanation.steps.last().is_none_or(|last| last.name != name) {
            self.step(Step::responds(None, name, reason));
        }
    }

    /// The stored codings of an entry.
    fn codings(&mut self, archive: &Archive<'_>, key: Option<&[u8]>) {
        let mut scratch = Scratch::new();
        let entry = key.and_then(|key| archive.find(key, &mut scratch).ok().flatten());
        let Some(entry) = entry else { return };
        let sent = self.explanation.headers.iter().find(|header| header.name == "Content-Encoding");
        let sent = sent.map_or("identity", |header| header.value.as_str()).to_owned();
        let forms = entry.representations().map(|form| (form.coding().token(), form.bytes()));
        let forms: Vec<_> = forms.collect();
        let smallest = forms.iter().map(|(_, bytes)| *bytes).min();
        let shown = |(coding, bytes)| CodingShown {
            coding,
            bytes,
            sent: coding == sent,
            smallest: Some(bytes) == smallest,
        };
        self.explanation.codings = forms.into_iter().map(shown).collect();
    }

    fn step(&mut self, step: Step) {
        self.explanation.steps.push(step);
    }

    fn finish(&mut self, response: &Prepared<'_>, origins: &Origins<'_>) {
        self.finish_with(response, ConnectionFields::Stay, origins);
    }

    fn finish_with(
        &mut self,
        response: &Prepared<'_>,
        connection: ConnectionFields,
        origins: &Origins<'_>,
    ) {
        let mut out = Vec::new();
        encode::prepared(&mut out, response, connection, &self.tail);
        let status_line = out.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let headers: Headers = origins.of(out.get(status_line..).unwrap_or_default());
        (self.explanation.headers, self.explanation.removed) = headers;
        self.explanation.status = Some(response.status);
    }
}

/// Chooses the site of a host, and the pattern that names it.
fn choose(
    sites: Vec<PlannedSite>,
    authority: Option<&[u8]>,
) -> Option<(PlannedSite, Option<String>)> {
    let hosts = Hosts::new(sites.iter().map(|site| site.settings.hosts.as_slice()));
    let site = sites.into_iter().nth(hosts.select(authority)?)?;
    let selects = |pattern: &&HostPattern| {
        let alone = Hosts::new([std::slice::from_ref(*pattern)]);
        alone.select(authority).is_some()
    };
    let matching = site.settings.hosts.iter().filter(selects).map(ToString::to_string);
    // A name comes before patterns, and the longest of these first.
    let best = matching.max_by_key(|host| (!host.starts_with("*."), host.len()));
    Some((site, best))
}

/// Whether a request may be for the challenge of a certificate authority.
fn is_challenge(head: &RequestHead<'_>) -> bool {
    Redirect::new(Leads { listeners: [true].into(), origin: "".into() }).proof(head).is_some()
}

/// Whether the site has a file for the challenge of a certificate authority.
fn has_proof(head: &RequestHead<'_>, site: Option<&LoadedSite>) -> bool {
    let Some(site) = site else { return false };
    let mut redirect = Redirect::new(Leads { listeners: [true].into(), origin: "".into() });
    let Some(path) = redirect.proof(head) else { return false };
    has_file(&site.generation.archive(), path, &mut Work::new())
}

/// The path of the file of an entry; none for what is no file.
fn file_of(archive: &Archive<'_>, key: Option<&[u8]>) -> Option<String> {
    let mut scratch = Scratch::new();
    let key = key?;
    let entry = archive.find(key, &mut scratch).ok()??;
    entry.representations().next()?;
    if entry.has_variant() || key.starts_with(VARIANT_PREFIX) {
        return Some("the directory listing".to_owned());
    }
    let path = entry.target().unwrap_or(key);
    match path.starts_with(b"/") {
        true => Some(shown(path)),
        false => Some("the fallback page".to_owned()),
    }
}

/// Where a `Location` comes from.
fn location(steps: &[Step]) -> Option<(String, Vec<FileLine>)> {
    let last = steps.last()?;
    let lines = last
        .rule
        .iter()
        .filter_map(|rule| Some(FileLine { file: rule.file.clone()?, line: rule.line? }));
    match last.name {
        StepName::SlashForm | StepName::FallbackPage => {
            Some(("the other slash form".to_owned(), Vec::new()))
        }
        StepName::Rule | StepName::ForcedRule => {
            Some(("a rule for paths".to_owned(), lines.collect()))
        }
        _ => None,
    }
}
