//! Explains how live files, which are read at the time of each request, respond to a request.

use super::super::explanation::{ExplanationStep, StepName};
use super::super::header_origins::HeaderOrigins;
use super::super::sites::LoadedSite;
use super::ExplanationDraft;
use crate::server::access::path_scope::PathReadings;
use crate::server::live_files::{LiveFiles, LiveOutcome, OpenLiveFile};
use crate::terminal::shown;
use pinion_engine::clock::Now;
use pinion_engine::response_compression;
use pinion_http::content_coding::Coding;
use pinion_http::method::Method;
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::decode_path;
use pinion_site::live_file::{live_response, live_slash_redirect};
use pinion_site::{Pieces, RequestBuffers, has_rule_before_files};

impl ExplanationDraft<'_> {
    /// Explains the response of a live file, or why there is none. Returns whether the response is
    /// explained.
    pub(super) fn is_live(&mut self, site: &LoadedSite, head: &RequestHead<'_>) -> bool {
        let mut decoded = Vec::new();
        let live = site.generation.live();
        let (Some(live), Ok(path)) = (live, decode_path(head.target.path, &mut decoded)) else {
            return false;
        };
        let is_ruled =
            has_rule_before_files(&site.generation.archive(), head, &mut RequestBuffers::new());
        if is_ruled || !live.covers(path) {
            return false;
        }
        let outcome = live.find(path);
        if let Some(rules) = site.generation.access() {
            let asked = rules.covering(&PathReadings::of_sent(head.target.path));
            let met = rules.covering(&PathReadings::of_decoded(&outcome.key(path)));
            let further = met.without(asked);
            if !further.is_empty() && self.checked(further, site, head) {
                return true;
            }
        }
        match outcome {
            LiveOutcome::Nothing => {
                let reason = "no live file has this path".to_owned();
                self.step(ExplanationStep::passed(None, StepName::LiveFile, reason));
                return false;
            }
            LiveOutcome::Withheld => {
                let reason = "files of such names are not served from live folders";
                self.failed(404, (StepName::LiveFile, reason), site, head);
            }
            LiveOutcome::Failed(failure) => {
                let reason = shown(failure.to_string().as_bytes());
                self.failed(failure.status, (StepName::LiveFile, &reason), site, head);
            }
            LiveOutcome::SlashRedirect => {
                let reason = "a live folder with an index.html";
                self.step(ExplanationStep::responds(None, StepName::LiveFile, reason.to_owned()));
                let location = Some(("the slash at the end of a folder".to_owned(), Vec::new()));
                let (archive, mut work) = (site.generation.archive(), RequestBuffers::new());
                let response = live_slash_redirect(&archive, head, &mut work);
                let origins = HeaderOrigins { path: Some(path), location, ..site.origins() };
                self.finish(&response, &origins);
            }
            LiveOutcome::File(file) => self.live_file(live, &file, path, site, head),
        }
        true
    }

    fn live_file(
        &mut self,
        live: &LiveFiles,
        file: &OpenLiveFile,
        path: &[u8],
        site: &LoadedSite,
        head: &RequestHead<'_>,
    ) {
        let (archive, now) = (site.generation.archive(), Now::read().unix_seconds);
        let place = live.disk_path(&file.path).unwrap_or_default();
        let place = shown(place.as_os_str().as_encoded_bytes());
        let reason = format!("{place}, as it is now");
        self.step(ExplanationStep::responds(None, StepName::LiveFile, reason));
        let etag = file.stamp.etag();
        let described = file.described(live, &etag, "", now);
        let (mut work, mut pieces) = (RequestBuffers::new(), Pieces::new());
        let response = live_response(&archive, head, now, &described, &mut work, &mut pieces);
        self.method_and_conditions(head, response.status);
        let is_error = response.status >= 400;
        let file = Some(place).filter(|_| !is_error);
        self.finish(
            &response,
            &HeaderOrigins { path: Some(path), is_error, file, ..site.origins() },
        );
        let is_read = matches!(head.method, Method::Get | Method::Head);
        if described.varies && is_read && response_compression::choose(head) != Coding::Identity {
            let note = "the server compresses the file as it is sent, if it is sent as a whole";
            self.explanation.notes.push(note.to_owned());
        }
    }
}
