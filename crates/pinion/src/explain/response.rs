//! Explains how a server responds to a request: the responses that it has on every host, the site
//! of the host and its script. The functions of the server choose the source of the response and
//! make the responses.

mod access_steps;
mod error_steps;
mod live_file_steps;
mod script_steps;

use super::explanation::{
    CodingShown, Explanation, ExplanationStep, FileLine, ListenerShown, StepName, VERSION,
};
use super::header_origins::{HeaderOrigins, Headers};
use super::listener::ChosenListener;
use super::lookup_recorder::{Heard, Recorder};
use super::lookup_steps::Lookup;
use super::request::WhyRequest;
use super::server_settings::ServerSettings;
use super::sites::{ExplainedSites, LoadedSite};
use crate::failure::Failure;
use crate::server::acme::AcmeChallenges;
use crate::server::app::{has_challenge, health, misdirected};
use crate::server::dispatch::{RequestRoute, ServerResponders};
use crate::server::https_redirect::{Leads, Redirect};
use crate::server::not_found_reason::is_by_rule;
use crate::terminal::shown;
use pinion_archive::layout::VARIANT_PREFIX;
use pinion_archive::{Archive, Scratch};
use pinion_engine::clock::Now;
use pinion_engine::exchange::AddedFields;
use pinion_http::error_page;
use pinion_http::h1::head_parser::{self, HeadStorage, Parsed};
use pinion_http::h1::refused_request_hints::glance;
use pinion_http::h1::response_encoder::{self, ConnectionFields};
use pinion_http::limits::Limits;
use pinion_http::method::Method;
use pinion_http::prepared_response::{Prepared, SharedFields};
use pinion_http::refusal::RefusedRequest;
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::{PathError, decode_path};
use pinion_lua::route_inspection::{RouteFound, Routes};
use pinion_site::lookup_trace::LookupOutcome;
use pinion_site::{Pieces, RequestBuffers, refused_page, respond_traced};
use std::path::Path;

/// Explains the response of a server to a request.
///
/// # Errors
/// The site of the host cannot be loaded, or its archive is damaged.
pub(super) fn explain(
    settings: &ServerSettings,
    sites: ExplainedSites<'_>,
    request: &WhyRequest,
) -> Result<Explanation, Failure> {
    let mut storage = HeadStorage::new();
    let parsed = head_parser::parse(&request.head, 0, &mut storage, &Limits::default());
    let mut draft = ExplanationDraft::new(settings, request);
    match parsed {
        Ok(Parsed::Head { head, .. }) => draft.head(&head, sites)?,
        // The head ends with its blank line, so it is never partial.
        Ok(Parsed::Partial { .. }) => draft.refused(400, "incomplete request", request, sites)?,
        Err(refusal) => draft.refused(refusal.status(), refusal.as_str(), request, sites)?,
    }
    Ok(draft.explanation)
}

/// An explanation that is being made.
struct ExplanationDraft<'s> {
    settings: &'s ServerSettings,
    listener: ChosenListener<'s>,
    /// The lines that every response of the listener has.
    tail: Vec<u8>,
    /// The fields that access rules add to the response.
    added: AddedFields,
    explanation: Explanation,
}

impl<'s> ExplanationDraft<'s> {
    fn new(settings: &'s ServerSettings, request: &WhyRequest) -> Self {
        let listener = ChosenListener::of(settings, request);
        let tail = listener.fields(settings, Now::read().unix_seconds);
        let method = request.head.split(|&byte| byte == b' ').next().unwrap_or_default();
        let explanation = Explanation {
            version: VERSION,
            url: request.url.clone(),
            method: String::from_utf8_lossy(method).into_owned(),
            listener: listener.listen.map(|listen| ListenerShown {
                address: listen.address.to_string(),
                kind: listener.kind(),
            }),
            site: None,
            steps: Vec::new(),
            status: None,
            headers: Vec::new(),
            removed: Vec::new(),
            codings: Vec::new(),
            notes: listener.note.iter().cloned().collect(),
        };
        Self { settings, listener, tail, added: AddedFields::default(), explanation }
    }

    /// Explains a request whose head can be parsed.
    fn head(&mut self, head: &RequestHead<'_>, sites: ExplainedSites<'_>) -> Result<(), Failure> {
        let mut challenges = self.settings.acme_webroot.clone().map(AcmeChallenges::new);
        let mut redirect = self.redirect()?;
        let mut loaded = None;
        let mut server = ServerResponders {
            health: self.settings.health.as_ref(),
            challenges: challenges.as_mut(),
            redirect: redirect.as_mut(),
        };
        let select = || sites.select(head.authority);
        let route = server.route(head, select, |redirect, site| {
            redirect.proof(head).is_some()
                && loaded.insert(site.load()).as_ref().is_ok_and(|site: &LoadedSite| {
                    has_challenge(redirect, head, &site.generation, &mut RequestBuffers::new())
                })
        });
        // The site of a challenge at a listener that redirects is loaded already, or cannot be.
        let is_served = matches!(route, RequestRoute::Site(_)) || loaded.is_some();
        if let (RequestRoute::Site(site) | RequestRoute::Redirect(Some(site)), true) =
            (&route, is_served)
        {
            self.explanation.site = Some(site.shown(head.authority));
            let loaded = loaded.unwrap_or_else(|| site.load())?;
            if matches!(route, RequestRoute::Site(_)) {
                return self.site(&loaded, head);
            }
        }
        match (route, challenges, redirect) {
            (RequestRoute::HealthCheck, _, _) => {
                let reason = "the path of --health, on every host".to_owned();
                self.step(ExplanationStep::responds(None, StepName::HealthCheck, reason));
                self.finish(&health(head, false), &HeaderOrigins::default());
            }
            (RequestRoute::AcmeChallenge, Some(challenges), _) => {
                let webroot = self.settings.acme_webroot.as_deref().map(Path::as_os_str);
                let webroot = shown(webroot.unwrap_or_default().as_encoded_bytes());
                let reason = format!("a file below {webroot}, on every host");
                self.step(ExplanationStep::responds(None, StepName::AcmeChallenge, reason));
                self.finish(&challenges.response(), &HeaderOrigins::default());
            }
            (RequestRoute::Redirect(_), _, Some(mut redirect)) => {
                let reason = "this listener redirects to HTTPS, on every host".to_owned();
                self.step(ExplanationStep::responds(
                    None,
                    StepName::RedirectToHttps,
                    reason.clone(),
                ));
                let location = Some((reason, Vec::new()));
                let origins = HeaderOrigins { location, ..HeaderOrigins::default() };
                self.finish(&redirect.response(head), &origins);
            }
            _ => {
                let reason = "no site has this host, and every site has hosts".to_owned();
                self.step(ExplanationStep::responds(None, StepName::Host, reason));
                let origins = HeaderOrigins { is_error: true, ..HeaderOrigins::default() };
                self.finish(&misdirected(head), &origins);
            }
        }
        Ok(())
    }

    /// Returns the redirect of a listener that redirects to HTTPS.
    fn redirect(&self) -> Result<Option<Redirect>, Failure> {
        if !self.listener.is_redirect() {
            return Ok(None);
        }
        let Some(origin) = self.settings.redirect_origin.clone() else {
            return Err(Failure::usage("--redirect-http leads nowhere without a TLS listener"));
        };
        Ok(Some(Redirect::new(Leads { listeners: [true].into(), origin })))
    }

    /// Explains a request that is refused before anything is looked up.
    fn refused(
        &mut self,
        status: u16,
        reason: &str,
        request: &WhyRequest,
        sites: ExplainedSites<'_>,
    ) -> Result<(), Failure> {
        let hints: RefusedRequest<'_> = glance(&request.head);
        self.step(ExplanationStep::responds(None, StepName::Request, reason.to_owned()));
        let Some(site) = sites.select(hints.authority) else {
            let response =
                error_page::response(status, hints.error_format, error_page::BUILT_IN_FIELDS);
            self.finish_with(&response, ConnectionFields::Close, &HeaderOrigins::default());
            return Ok(());
        };
        self.explanation.site = Some(site.shown(hints.authority));
        let site = site.load()?;
        let (mut work, mut scratch) = (RequestBuffers::new(), Vec::new());
        let path = hints.path.and_then(|path| decode_path(path, &mut scratch).ok());
        let response = refused_page(status, &hints, &site.generation.archive(), &mut work);
        let origins = HeaderOrigins { path, is_error: true, ..site.origins() };
        self.finish_with(&response, ConnectionFields::Close, &origins);
        self.note_replaced_page(&site.generation.archive(), &response);
        Ok(())
    }

    /// Explains the response of a site.
    fn site(&mut self, site: &LoadedSite, head: &RequestHead<'_>) -> Result<(), Failure> {
        if site.generation.has_no_content() {
            let reason = "the site could not be loaded when the server started; see its log";
            self.failed(503, (StepName::LoadError, reason), site, head);
            return Ok(());
        }
        if self.is_refused(None, site, head) {
            return Ok(());
        }
        if let Some(mount) =
            site.generation.mount_before_files_and_rules(head, &mut RequestBuffers::new())
        {
            return self.forwarded(mount, site, head);
        }
        let routes = site.routes()?;
        let found = routes.as_ref().map_or(RouteFound::Nothing, |routes| routes.find(head));
        if let RouteFound::Handler { pattern, place } = &found {
            self.handler(StepName::Route, pattern.as_deref(), place.as_deref(), (site, head));
            return Ok(());
        }
        if routes.is_some() {
            self.without_route(&found);
        }
        if site.generation.is_damaged() {
            let reason = "the archive was truncated or its disk failed; load a whole one";
            self.failed(500, (StepName::Damage, reason), site, head);
            return Ok(());
        }
        if self.is_live(site, head) {
            return Ok(());
        }
        self.archived(site, head, found, routes.as_ref())
    }

    /// Explains the response of the archive of a site, or of the fallback where the archive has
    /// none. `found` is the result of the routes of its script.
    fn archived(
        &mut self,
        site: &LoadedSite,
        head: &RequestHead<'_>,
        found: RouteFound,
        routes: Option<&Routes>,
    ) -> Result<(), Failure> {
        let mounts = site.generation.mounts();
        let (archive, now) = (site.generation.archive(), Now::read().unix_seconds);
        let (recorder, mut work, mut pieces) =
            (Recorder::default(), RequestBuffers::new(), Pieces::new());
        let response = respond_traced(&archive, head, now, &mut work, &mut pieces, &recorder);
        if site.generation.is_outdated(&response) {
            let reason = "the file has changed since the folder was built; reload the site";
            self.failed(500, (StepName::Damage, reason), site, head);
            return Ok(());
        }
        if self.is_refused(Some(&archive), site, head) {
            return Ok(());
        }
        let is_missing = response.status == 404;
        match (is_missing, found) {
            (true, RouteFound::Methods(methods)) => {
                self.other_method(methods, site, head);
                return Ok(());
            }
            (true, _) => {
                let special = routes.map(Routes::not_found);
                if let Some(RouteFound::Handler { place, .. }) = special {
                    let step = StepName::NotFoundHandler;
                    self.handler(step, None, place.as_deref(), (site, head));
                    return Ok(());
                }
                if let Some(mount) = mounts.fallback_for(head.target.path)
                    && !is_by_rule(&archive, head, now, &mut RequestBuffers::new())
                {
                    self.step(ExplanationStep::passed(
                        None,
                        StepName::File,
                        "no file responds".to_owned(),
                    ));
                    return self.forwarded(mount, site, head);
                }
            }
            (false, _) => {}
        }
        let heard = recorder.heard();
        self.looked_up((site, head), &heard, &response);
        if let Some(damage) = work.damage() {
            let note =
                format!("the archive is damaged: {damage}; `pinion verify` lists all damage");
            self.explanation.notes.push(note);
        }
        Ok(())
    }

    /// Explains that no route of the script is for a request.
    fn without_route(&mut self, found: &RouteFound) {
        let reason = match found {
            RouteFound::Methods(methods) => {
                format!("the route of this path is for {}", methods.join(", "))
            }
            _ => "no route matches".to_owned(),
        };
        self.step(ExplanationStep::passed(None, StepName::Route, reason));
    }

    /// Explains a response that was looked up in the archive of a site.
    fn looked_up(
        &mut self,
        (site, head): (&LoadedSite, &RequestHead<'_>),
        heard: &Heard,
        response: &Prepared<'_>,
    ) {
        let (archive, mut scratch) = (site.generation.archive(), Vec::new());
        let decoded = decode_path(head.target.path, &mut scratch).map(<[u8]>::to_vec);
        let path = match decoded {
            Ok(path) => Some(path),
            Err(PathError::NeverMatches) => Some(scratch),
            Err(PathError::Malformed | PathError::AboveRoot) => None,
        };
        let looked_up = path.as_deref().unwrap_or(head.target.path);
        let rules = &site.rules;
        let lookup = Lookup { archive, head, path: looked_up, heard, rules };
        let steps = lookup.steps();
        let (file, location) = (file_of(&archive, heard.key.as_deref()), location(&steps));
        self.explanation.steps.extend(steps);
        self.method_and_conditions(head, response.status);
        let sent = heard.target.as_deref();
        let is_error = response.status >= 400;
        // A built-in page is sent in place of the file.
        let is_built_in = is_error && response.content_type.is_some();
        let file = file.filter(|_| !is_built_in && (!is_error || heard.key.is_some()));
        let origins = HeaderOrigins {
            path: path.as_deref(),
            sent,
            is_error,
            location,
            file,
            ..site.origins()
        };
        let has_file = !is_built_in && !matches!(response.status, 300..=399 | 405 | 501);
        self.finish(response, &origins);
        if matches!(heard.outcome, Some(LookupOutcome::Page(_))) {
            self.note_problem_details(response);
        } else {
            self.note_replaced_page(&archive, response);
        }
        if has_file {
            self.codings(&archive, heard.key.as_deref());
        }
    }

    /// Explains the headers that a response has unless a script or another server sets them.
    fn fields_unless_set(&mut self, site: &LoadedSite, head: &RequestHead<'_>) {
        let fields = site.script_fields(head);
        let mut scratch = Vec::new();
        let path = decode_path(head.target.path, &mut scratch).ok();
        let origins = HeaderOrigins { path, is_error: true, ..site.origins() };
        let lines = [&*self.added.with(&SharedFields::h1(&fields)), &*self.tail].concat();
        (self.explanation.headers, self.explanation.removed) = origins.of(&lines);
        self.name_added();
    }

    /// Explains a request that a handler of a script responds to.
    fn handler(
        &mut self,
        name: StepName,
        pattern: Option<&str>,
        place: Option<&str>,
        (site, head): (&LoadedSite, &RequestHead<'_>),
    ) {
        if head.is_untyped_query() {
            return self.untyped_query(site, head);
        }
        let pattern = pattern.map_or(String::new(), |pattern| format!("{pattern}, "));
        let place = place.unwrap_or("a handler");
        let reason = shown(format!("{pattern}{place}").as_bytes());
        self.step(ExplanationStep::responds(None, name, reason));
        self.fields_unless_set(site, head);
        let note = "the handler decides about the status, and may replace these headers";
        self.explanation.notes.push(note.to_owned());
    }

    /// Explains a status that the method or a condition of the request decides about.
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
            self.step(ExplanationStep::responds(None, name, reason));
        }
    }

    /// Adds the stored codings of an entry.
    fn codings(&mut self, archive: &Archive<'_>, key: Option<&[u8]>) {
        let mut scratch = Scratch::new();
        let entry = key.and_then(|key| archive.find(key, &mut scratch).ok().flatten());
        let Some(entry) = entry else { return };
        let sent = self.explanation.headers.iter().find(|header| header.name == "Content-Encoding");
        let sent = sent.map_or("identity", |header| header.value.as_str()).to_owned();
        let forms = entry.representations().map(|form| (form.coding().token(), form.bytes()));
        let forms: Vec<_> = forms.collect();
        let smallest = forms.iter().map(|(_, bytes)| *bytes).min();
        let shown = |(coding, bytes): (&str, u64)| CodingShown {
            coding: coding.to_owned(),
            bytes,
            sent: coding == sent,
            smallest: Some(bytes) == smallest,
        };
        self.explanation.codings = forms.into_iter().map(shown).collect();
    }

    fn step(&mut self, step: ExplanationStep) {
        self.explanation.steps.push(step);
    }

    fn finish(&mut self, response: &Prepared<'_>, origins: &HeaderOrigins<'_>) {
        self.finish_with(response, ConnectionFields::Stay, origins);
    }

    fn finish_with(
        &mut self,
        response: &Prepared<'_>,
        connection: ConnectionFields,
        origins: &HeaderOrigins<'_>,
    ) {
        let lines = self.added.with(&response.shared);
        let response = &Prepared { shared: SharedFields::h1(&lines), ..*response };
        let mut out = Vec::new();
        response_encoder::prepared(&mut out, response, connection, &self.tail);
        let status_line = out.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let headers: Headers = origins.of(out.get(status_line..).unwrap_or_default());
        (self.explanation.headers, self.explanation.removed) = headers;
        self.explanation.status = Some(response.status);
        self.name_added();
    }
}

/// Returns the path of the file of an entry; `None` for an entry that is not a file.
fn file_of(archive: &Archive<'_>, key: Option<&[u8]>) -> Option<String> {
    let mut scratch = Scratch::new();
    let key = key?;
    let entry = archive.find(key, &mut scratch).ok()??;
    entry.representations().next()?;
    if entry.has_variant() || key.starts_with(VARIANT_PREFIX) {
        return Some("the directory listing".to_owned());
    }
    let path = entry.target().unwrap_or(key);
    let is_file = path.starts_with(b"/");
    Some(if is_file { shown(path) } else { "the fallback page".to_owned() })
}

/// Returns where a `Location` comes from.
fn location(steps: &[ExplanationStep]) -> Option<(String, Vec<FileLine>)> {
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
