//! Mounts of a site: one for each path that leads to a server or an application.

use super::super::configuration_draft::{DraftLine, DraftTable, Setting, named};
use super::access_rules::is_below;
use super::routes::UriPattern;
use super::sites::SiteDraft;
use crate::server::mounts::MountPath;

/// A mount that is being made.
pub(super) struct MountDraft {
    pub(super) table: DraftTable,
    /// The application that gets the whole path of a request: a pointer to it.
    pub(super) whole_path_of: Option<String>,
}

impl SiteDraft {
    /// Adds a mount for each path; `make` sets its server, and says whether there is one.
    pub(super) fn mount(
        &mut self,
        uris: Option<&[UriPattern]>,
        at: &str,
        fields: &[(&'static str, String)],
        mut make: impl FnMut(&mut DraftTable, &str) -> bool,
    ) {
        let paths: Vec<Result<String, String>> = match uris {
            None => vec![Ok("/".to_owned())],
            Some(uris) => uris.iter().map(mount_path).collect(),
        };
        for path in paths {
            let path = match path {
                Ok(path) => match MountPath::parse(&path) {
                    Ok(path) => path.to_string(),
                    Err(why) => {
                        self.site.leave_out(at, why);
                        continue;
                    }
                },
                Err(pattern) => {
                    let message = format!("{} was not carried: write a path", named(&pattern));
                    self.site.leave_out(at, message);
                    continue;
                }
            };
            let key = Setting::Text(path.clone());
            if self.mounts.iter().any(|mount| mount.table.get("path") == Some(&key)) {
                let message =
                    format!("{} has a mount already; this one was not carried", named(&path));
                // `/a` and `/a/*` of one step are the same mount.
                if uris.is_none_or(|uris| uris.len() == 1) {
                    self.site.leave_out(at, message);
                }
                continue;
            }
            let mut mount = DraftTable::new("[[site.mount]]");
            mount.set("path", key);
            if !make(&mut mount, &path) {
                mount.lines.retain(|line| !matches!(line, DraftLine::Key(..)));
                self.site.lines.append(&mut mount.lines);
                continue;
            }
            for (key, text) in fields {
                mount.add(key, text.clone());
            }
            self.mounts.push(MountDraft { table: mount, whole_path_of: None });
        }
    }

    /// Leaves out mounts whose application is that of the mount `/`, and gets the same there.
    pub(super) fn leave_out_same(&mut self) {
        let root = Setting::Text("/".to_owned());
        let is_root = |mount: &&MountDraft| mount.table.get("path") == Some(&root);
        let Some(same) = self.mounts.iter().find(is_root).map(|mount| mount.whole_path_of.clone())
        else {
            return;
        };
        let live = match self.site.get("live") {
            Some(Setting::Texts(folders)) => folders.clone(),
            _ => Vec::new(),
        };
        let has_files = self.site.get("path").is_some();
        let site = &mut self.site;
        self.mounts.retain(|mount| {
            let Some(Setting::Text(path)) = mount.table.get("path") else { return true };
            let is_live =
                |folder: &String| folder.split_once('=').is_some_and(|(of, _)| is_below(path, of));
            let stays = path == "/"
                || mount.whole_path_of.is_none()
                || mount.whole_path_of != same
                || live.iter().any(is_live);
            if !stays && has_files {
                let message = format!(
                    "{} is left to the mount / of the same application: a file of the site comes \
                     before it",
                    named(path)
                );
                site.leave_out(mount.whole_path_of.clone().unwrap_or_default(), message);
            }
            stays
        });
    }
}

/// Returns the path of a mount, or the pattern if it is none.
fn mount_path(uri: &UriPattern) -> Result<String, String> {
    match uri {
        UriPattern::Exact(path) | UriPattern::Below(path) => Ok(path.clone()),
        UriPattern::Extension(_) | UriPattern::Prefix(_) => Err(uri.shown()),
    }
}
