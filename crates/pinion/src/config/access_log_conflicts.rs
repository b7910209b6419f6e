//! Access logs of a configuration file, compared without opening them: one file has one format, and
//! only so many can be open.

use super::fault::TextPlace;
use super::server_plan_builder::ConfiguredSite;
use super::tables::TableSection;
use crate::access_log::LOGS_MAX;
use crate::settings::{LogFormat, LogTarget, Serve};
use std::path::{Path, PathBuf};

/// Links that are followed one after the other, fewer than the kernel follows.
const LINKS_MAX: usize = 8;

/// A log that the file names.
struct NamedLog<'l> {
    /// The key, as a message names it.
    key: &'static str,
    place: TextPlace,
    target: &'l LogTarget,
    format: LogFormat,
}

/// Adds a message for each log that a start would refuse because of another one.
pub(super) fn find(
    server: Option<(&TableSection, &Serve)>,
    sites: &[ConfiguredSite],
    add: &mut impl FnMut(TextPlace, String),
) {
    let server = server.and_then(|(section, serve)| {
        let (target, format) = (serve.access_log.as_ref()?, serve.log_format);
        Some(NamedLog { key: "access", place: section.place_of("access-log"), target, format })
    });
    let sites = sites.iter().filter_map(|site| {
        let (target, format) = site.planned.settings.access_log.as_ref()?;
        let place = site.section.place_of("site-access-log");
        Some(NamedLog { key: "access-log", place, target, format: *format })
    });
    let mut known: Vec<(PathBuf, NamedLog<'_>)> = Vec::new();
    for log in server.into_iter().chain(sites) {
        let real = real_path(log.target);
        if let Some((_, first)) = known.iter().find(|(path, _)| *path == real) {
            if first.format != log.format {
                add(log.place, contradiction(&log, first));
            }
            continue;
        }
        if known.len() == LOGS_MAX {
            let message_end = "is one access log too many";
            let message = format!("{}: {} {message_end}", log.key, log.target);
            let advice = format!("at most {LOGS_MAX} can be open, so let sites share one");
            add(log.place, format!("{message}: {advice}"));
            return;
        }
        known.push((real, log));
    }
}

/// Returns the error for a log that is written in another format elsewhere.
fn contradiction(log: &NamedLog<'_>, first: &NamedLog<'_>) -> String {
    let NamedLog { key, target, format, .. } = log;
    let (line, first_format) = (first.place.line, first.format.name());
    let format = format.name();
    format!(
        "{key}: {target} is written in the format {first_format} by line {line}, and here in \
         {format}; write log-format = \"{first_format}\" here, or name another file"
    )
}

/// Returns the identity of a log: its path with links resolved, whether or not the file exists.
pub(crate) fn real_path(target: &LogTarget) -> PathBuf {
    let LogTarget::File(path) = target else { return PathBuf::from("-") };
    let mut path = path.clone();
    // A link to a file that does not exist yet leads to where a start creates it.
    for _ in 0..LINKS_MAX {
        let Ok(next) = path.read_link() else { break };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    let in_folder = || {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| path.clone())
}
