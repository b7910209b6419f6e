//! Errors that Pinion responds with, and the pages of a site that problem details replace.

use super::ExplanationDraft;
use crate::explain::explanation::{ExplanationStep, StepName};
use crate::explain::header_origins::HeaderOrigins;
use crate::explain::sites::LoadedSite;
use pinion_archive::Archive;
use pinion_http::error_page;
use pinion_http::field::KnownField;
use pinion_http::method::Method;
use pinion_http::negotiate::preferred_error_format;
use pinion_http::prepared_response::Prepared;
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::decode_path;
use pinion_site::{RequestBuffers, error_for, error_in_format_for, options_for};

impl ExplanationDraft<'_> {
    /// Explains an error that is not about the request.
    pub(super) fn failed(
        &mut self,
        status: u16,
        (name, reason): (StepName, &str),
        site: &LoadedSite,
        head: &RequestHead<'_>,
    ) {
        self.step(ExplanationStep::responds(None, name, reason.to_owned()));
        let (archive, mut work) = (site.generation.archive(), RequestBuffers::new());
        let response = error_for(status, &archive, head, &mut work);
        self.finish_error(&response, site, head);
    }

    /// Explains the response to a QUERY for a handler without a Content-Type.
    pub(super) fn untyped_query(&mut self, site: &LoadedSite, head: &RequestHead<'_>) {
        let reason = "a QUERY needs a Content-Type, such as application/json".to_owned();
        self.step(ExplanationStep::responds(None, StepName::Method, reason));
        let (archive, mut work) = (site.generation.archive(), RequestBuffers::new());
        let error_format = preferred_error_format(head.values(KnownField::Accept));
        let response = error_in_format_for(400, error_format, &archive, head, &mut work)
            .with_built_in_page(error_page::untyped_query_page(error_format));
        self.finish_error(&response, site, head);
    }

    /// Explains the headers of an error of a site.
    pub(super) fn finish_error(
        &mut self,
        response: &Prepared<'_>,
        site: &LoadedSite,
        head: &RequestHead<'_>,
    ) {
        let mut scratch = Vec::new();
        let path = decode_path(head.target.path, &mut scratch).ok();
        self.finish(response, &HeaderOrigins { path, is_error: true, ..site.origins() });
        self.note_replaced_page(&site.generation.archive(), response);
    }

    /// Notes that problem details replace the page that the site has for a status.
    pub(super) fn note_replaced_page(&mut self, archive: &Archive<'_>, response: &Prepared<'_>) {
        if archive.error_page(response.status).is_some() {
            self.note_problem_details(response);
        }
    }

    /// Notes that problem details replace a page of the site, if the response has them.
    pub(super) fn note_problem_details(&mut self, response: &Prepared<'_>) {
        if response.content_type == Some(error_page::PROBLEM_TYPE) {
            let note = "Accept prefers JSON, so problem details take the place of the page";
            self.explanation.notes.push(note.to_owned());
        }
    }

    /// Explains the response of a path that has only routes for other methods.
    pub(super) fn other_method(
        &mut self,
        mut methods: Vec<String>,
        site: &LoadedSite,
        head: &RequestHead<'_>,
    ) {
        if !methods.iter().any(|method| method == "OPTIONS") {
            methods.push("OPTIONS".to_owned());
        }
        let allow = methods.join(", ");
        let (archive, mut work) = (site.generation.archive(), RequestBuffers::new());
        let response = match head.method {
            Method::Options => options_for(&archive, head, &mut work),
            _ => error_for(405, &archive, head, &mut work),
        };
        let response = Prepared { allow: Some(allow.as_bytes()), ..response };
        let reason = format!("the routes of the path have {allow}");
        self.step(ExplanationStep::responds(None, StepName::Method, reason));
        self.finish_error(&response, site, head);
    }
}
