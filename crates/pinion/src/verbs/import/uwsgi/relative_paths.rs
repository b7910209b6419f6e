//! Relative paths. uWSGI changes to the folder of `chdir` before it looks at most of them; the
//! certificates of `https` and files of configurations are read before.

use super::super::configuration_draft::{DraftTable, named};
use super::ini::IniOption;
use super::options::{OptionUse, option_use};

/// The folder that relative paths belong to.
#[derive(Debug)]
pub(super) struct StartFolder {
    chdir: Option<String>,
}

impl StartFolder {
    /// Returns that of some options, and says where paths belong to the folder in which uWSGI was
    /// started: no file names it.
    pub(super) fn of(options: &[IniOption], notes: &mut DraftTable) -> Self {
        let last = options.iter().rev().find(|option| option_use(&option.name) == OptionUse::Chdir);
        let chdir = last.map(|option| option.value.trim_end_matches('/').to_owned());
        let chdir = match last {
            Some(option) if option.value.starts_with('/') => return Self { chdir },
            Some(option) => {
                let message = format!(
                    "chdir = {} belongs to the folder in which uWSGI was started, here to that of \
                     pinion.toml",
                    named(&option.value)
                );
                notes.leave_out(option.line.to_string(), message);
                chdir
            }
            None => {
                if let Some(IniOption { name, value, line }) = options.iter().find(|o| is_path(o)) {
                    let message = format!(
                        "{name} = {} belongs to the folder in which uWSGI was started, here to \
                         that of pinion.toml, as do all relative paths: there is no chdir",
                        named(value)
                    );
                    notes.leave_out(line.to_string(), message);
                }
                None
            }
        };
        Self { chdir }
    }

    /// Returns a path as it is seen from there.
    pub(super) fn path(&self, path: &str) -> String {
        let own = path.strip_prefix("./").unwrap_or(path);
        match &self.chdir {
            Some(chdir) if path == "." => chdir.clone(),
            Some(chdir) if !path.starts_with('/') => format!("{chdir}/{own}"),
            _ => path.to_owned(),
        }
    }
}

/// Returns whether an option names a relative path that becomes one in the new file.
fn is_path(option: &IniOption) -> bool {
    let IniOption { name, value, .. } = option;
    let path = match option_use(name) {
        OptionUse::Home | OptionUse::PythonPath | OptionUse::StaticFolder => value,
        OptionUse::StaticMap { .. } => value.split_once('=').map_or("/", |(_, folder)| folder),
        OptionUse::Module if ["wsgi-file", "file"].contains(&name.as_str()) => value,
        _ => "/",
    };
    !path.starts_with('/')
}
