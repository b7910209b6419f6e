//! Explains the responses of another server or of a script: which script that is, or why there is
//! none.

use super::super::explanation::{ExplanationStep, StepName};
use super::super::header_origins::HeaderOrigins;
use super::super::sites::LoadedSite;
use super::ExplanationDraft;
use crate::failure::Failure;
use crate::server::mounts::{Mount, MountTarget};
use crate::terminal::shown;
use pinion_gateway::cgi::cgi_scripts::CgiScripts;
use pinion_gateway::cgi::located_script;
use pinion_gateway::script_location::{LocatedScript, ScriptFolder, ScriptLocation};
use pinion_http::prepared_response::{Location, Prepared, SharedFields};
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::decode_path;

impl ExplanationDraft<'_> {
    /// Explains a request that another server or a script responds to.
    pub(super) fn forwarded(
        &mut self,
        mount: &Mount,
        site: &LoadedSite,
        head: &RequestHead<'_>,
    ) -> Result<(), Failure> {
        if self.is_of_scripts(mount, site, head) {
            return Ok(());
        }
        let reason = shown(mount.to_string().as_bytes());
        self.step(ExplanationStep::responds(None, StepName::Proxy, reason));
        if mount.is_of_store() {
            let note = "the value of a key of the running server decides about the response";
            self.explanation.notes.push(note.to_owned());
            return Ok(());
        }
        self.fields_unless_set(site, head);
        let note = "the server decides about the status, and may replace these headers";
        self.explanation.notes.push(note.to_owned());
        Ok(())
    }

    /// Explains which script of a mount responds, or why none does. Returns whether the mount runs
    /// scripts.
    fn is_of_scripts(&mut self, mount: &Mount, site: &LoadedSite, head: &RequestHead<'_>) -> bool {
        if let MountTarget::Scripts(cgi) = &mount.target {
            self.cgi_script(&cgi.scripts, site, head);
            return true;
        }
        let Some(scripts) = mount.scripts() else { return false };
        let root = shown(scripts.root.as_os_str().as_encoded_bytes());
        match scripts.locate(head.target.path) {
            Ok(ScriptLocation::Script(LocatedScript { name, path_info })) => {
                let script = format!("{root}{}", shown(&name));
                self.script(&script, &path_info, &by_whom(mount), site, head);
            }
            Ok(ScriptLocation::MissingSlash) => {
                let reason = "a folder with a script";
                self.step(ExplanationStep::responds(None, StepName::Proxy, reason.to_owned()));
                self.slash_redirect(site, head);
            }
            Ok(ScriptLocation::NotFound) => {
                let reason = why_none(scripts, head.target.path, &root);
                self.failed(404, (StepName::Proxy, &reason), site, head);
            }
            Err(error) => {
                let reason = format!("cannot open the folder of the scripts, {root}: {error}");
                self.failed(500, (StepName::Proxy, &reason), site, head);
            }
        }
        true
    }

    fn cgi_script(&mut self, scripts: &CgiScripts, site: &LoadedSite, head: &RequestHead<'_>) {
        match located_script(scripts, head.target.path) {
            Ok((script, path_info)) => self.script(&script, &path_info, "as CGI", site, head),
            Err(failure) => {
                let folder = scripts.folder.display();
                let reason = shown(format!("{failure} in {folder}").as_bytes());
                self.failed(failure.status(), (StepName::Proxy, &reason), site, head);
            }
        }
    }

    /// Explains the response of a script.
    fn script(
        &mut self,
        script: &str,
        path_info: &[u8],
        how: &str,
        site: &LoadedSite,
        head: &RequestHead<'_>,
    ) {
        let path_info = match path_info {
            [] => String::new(),
            rest => format!(", with PATH_INFO {}", shown(rest)),
        };
        let reason = format!("{script} is run {how}{path_info}");
        self.step(ExplanationStep::responds(None, StepName::Proxy, reason));
        self.fields_unless_set(site, head);
        let note = "the script decides about the status, and may replace these headers";
        self.explanation.notes.push(note.to_owned());
    }

    fn slash_redirect(&mut self, site: &LoadedSite, head: &RequestHead<'_>) {
        let mut decoded = Vec::new();
        let path = decode_path(head.target.path, &mut decoded).ok();
        let with_slash = [head.target.path, b"/"].concat();
        let response = Prepared {
            shared: SharedFields::h1(site.generation.generated_fields()),
            location: Some(Location { path: &with_slash, query: head.target.query }),
            content_length: Some(0),
            ..Prepared::empty(308)
        };
        let location = Some(("the slash at the end of a folder".to_owned(), Vec::new()));
        self.finish(&response, &HeaderOrigins { path, location, ..site.origins() });
    }
}

/// Returns the program that runs the scripts of a mount.
fn by_whom(mount: &Mount) -> String {
    match mount.upstreams() {
        Some(_) if mount.is_own_php() => "by PHP".to_owned(),
        Some(upstreams) => format!("by {upstreams}"),
        None => String::new(),
    }
}

/// Returns why no script responds to a path.
fn why_none(scripts: &ScriptFolder, path: &[u8], root: &str) -> String {
    match scripts.no_exec_folder(path) {
        Some(folder) => format!("no script is run in the folder {} (no-exec)", shown(folder)),
        None => format!("there is no script for the path in {root}"),
    }
}
