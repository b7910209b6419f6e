//! Explains how access rules treat a request. The client and its rate are not known here, so only
//! properties of the request alone lead to a response.

use super::super::explanation::{ExplanationStep, HeaderSource, StepName};
use super::super::header_origins::HeaderOrigins;
use super::super::sites::LoadedSite;
use super::ExplanationDraft;
use crate::server::access::cors::is_preflight;
use crate::server::access::path_scope::PathReadings;
use crate::server::access::request_authorization::GateRefusal;
use crate::server::access::rules::{AccessRule, AccessRules, MetRules, RuleSet};
use crate::terminal::shown;
use pinion_archive::Archive;
use pinion_http::basic_credentials;
use pinion_http::prepared_response::{Prepared, SharedFields};
use pinion_http::request_head::RequestHead;
use pinion_site::{Pieces, RequestBuffers, error_for, generated_fields, respond_traced};

impl ExplanationDraft<'_> {
    /// Explains the access rules for the path of a request, and the further ones that its look-up
    /// in an archive meets. Returns whether one of them gives the response.
    pub(super) fn is_refused(
        &mut self,
        archive: Option<&Archive<'_>>,
        site: &LoadedSite,
        head: &RequestHead<'_>,
    ) -> bool {
        let Some(rules) = site.generation.access() else { return false };
        let asked = rules.covering(&PathReadings::of_sent(head.target.path));
        let Some(archive) = archive else {
            return self.explain_cors(asked, site, head) || self.checked(asked, site, head);
        };
        let met = MetRules::new(Some(rules));
        let (mut work, mut pieces) = (RequestBuffers::new(), Pieces::new());
        respond_traced(archive, head, 0, &mut work, &mut pieces, &met);
        let further = met.get().without(asked);
        !further.is_empty() && self.checked(further, site, head)
    }

    /// Explains the CORS fields of the access rules for the path of a request. Returns whether it
    /// is a preflight request that one of them responds to.
    fn explain_cors(&mut self, set: RuleSet, site: &LoadedSite, head: &RequestHead<'_>) -> bool {
        let Some(rules) = site.generation.access() else { return false };
        if rules.gives_request_ids {
            let note = "the response has an X-Request-Id with a random number";
            self.explanation.notes.push(note.to_owned());
        }
        let cors = rules.cors_rule(set).and_then(|rule| rule.table.cors.as_ref());
        let Some(cors) = cors else { return false };
        let is_preflight = is_preflight(head);
        let fields =
            if is_preflight { cors.preflight_fields(head) } else { cors.response_fields(head) };
        self.added.append(fields.as_bytes());
        if is_preflight {
            self.preflight(rules, set, site);
        }
        is_preflight
    }

    /// Explains the effect of these rules. Returns whether one of them gives the response.
    pub(super) fn checked(
        &mut self,
        set: RuleSet,
        site: &LoadedSite,
        head: &RequestHead<'_>,
    ) -> bool {
        let Some(rules) = site.generation.access() else { return false };
        let lacks = |rule: &AccessRule| rule.password.is_some() && !has_password(head);
        let refusing = rules.of(set).map(|(_, rule)| rule).find(|rule| lacks(rule));
        for (_, rule) in rules.of(set).filter(|(_, rule)| !lacks(rule)) {
            self.step(ExplanationStep::passed(
                None,
                StepName::Access,
                shown(rule.to_string().as_bytes()),
            ));
        }
        if let Some(rule) = refusing {
            self.refused_by(rule, site, head);
            return true;
        }
        if rules.of(set).any(|(_, rule)| rule.password.is_some()) {
            self.added.set_private();
        }
        false
    }

    /// Explains the response to a request without a password.
    fn refused_by(&mut self, rule: &AccessRule, site: &LoadedSite, head: &RequestHead<'_>) {
        let reason = format!("{}; the request has none", shown(rule.to_string().as_bytes()));
        self.step(ExplanationStep::responds(None, StepName::Access, reason));
        let challenge = rule.password.as_ref().map(|password| &*password.challenge);
        let refusal = GateRefusal::unauthorized(challenge.unwrap_or_default());
        self.added.append(refusal.fields.as_bytes());
        let (archive, mut work) = (site.generation.archive(), RequestBuffers::new());
        let response = error_for(refusal.status, &archive, head, &mut work);
        self.finish_error(&response, site, head);
    }

    fn preflight(&mut self, rules: &AccessRules, set: RuleSet, site: &LoadedSite) {
        let rule = rules.cors_rule(set).map(ToString::to_string).unwrap_or_default();
        let reason = format!("{}; the request is a preflight request", shown(rule.as_bytes()));
        self.step(ExplanationStep::responds(None, StepName::Access, reason));
        let shared = SharedFields::h1(generated_fields(&site.generation.archive()).h1);
        self.finish(&Prepared { shared, ..Prepared::empty(204) }, &HeaderOrigins::default());
    }

    /// Explains the origin of the headers that rules add.
    pub(super) fn name_added(&mut self) {
        for field in self.added.iter() {
            let is_match = |name: &str, value: &str| {
                name.as_bytes().eq_ignore_ascii_case(field.name) && value.as_bytes() == field.value
            };
            let headers = self.explanation.headers.iter_mut();
            for header in headers.filter(|header| is_match(&header.name, &header.value)) {
                header.source = HeaderSource::Flag;
                "[[site.access]]".clone_into(&mut header.reason);
                header.lines.clear();
            }
        }
    }
}

/// Returns whether a request has a user and a password. They are not verified.
fn has_password(head: &RequestHead<'_>) -> bool {
    let value = head.fields.get(b"authorization");
    value.is_some_and(|value| basic_credentials::parse(value, &mut Vec::new()).is_some())
}
