//! The configuration of uWSGI (`uwsgi.ini`).
//!
//! | Module | Part |
//! |---|---|
//! | [`ini`] | lines → options with their values, placeholders replaced |
//! | [`placeholders`] | `%n`, `%(name)` → their values |
//! | [`options`] | the meaning of each option |
//! | [`relative_paths`] | relative paths: which folder they belong to |

mod ini;
mod options;
mod placeholders;
mod relative_paths;

use super::configuration_draft::{ConfigurationDraft, DraftTable, Setting, is_variable, named};
use super::limits::PYTHON_PROCESSES_MAX;
use crate::server::mounts::MountPath;
use crate::settings::LiveFolder;
use ini::IniOption;
use options::{OptionUse, option_use};
use relative_paths::StartFolder;
use std::path::Path;

/// The settings that are gathered from the options.
struct Gathered {
    first: DraftTable,
    site: DraftTable,
    listeners: Vec<DraftTable>,
    certificates: Vec<DraftTable>,
    /// Keys that all applications have.
    python: DraftTable,
    variables: Vec<(String, String)>,
    python_paths: Vec<String>,
    /// The folder that relative paths belong to.
    folder: StartFolder,
    /// Values of `socket`, with their lines; `protocol` names their protocol.
    sockets: Vec<(String, usize)>,
    protocol: Option<(String, usize)>,
    module: Option<String>,
    callable: Option<String>,
    /// Path and application, with the line.
    mounts: Vec<(String, String, usize)>,
    manages_script_name: bool,
    not_needed: u64,
    has_socket: bool,
}

/// Converts a section of a configuration, `[uwsgi]` if none is named. `file` is its absolute path,
/// which some placeholders name.
///
/// # Errors
/// A phrase that says why nothing can be made of it.
pub(super) fn convert(
    text: &str,
    file: &Path,
    section: Option<&str>,
) -> Result<ConfigurationDraft, String> {
    let mut first = DraftTable::new("");
    let options = ini::options(text, file, section, &mut first)?;
    let folder = StartFolder::of(&options, &mut first);
    let mut gathered = Gathered {
        first,
        site: DraftTable::new("[[site]]"),
        listeners: Vec::new(),
        certificates: Vec::new(),
        python: DraftTable::new(""),
        variables: Vec::new(),
        python_paths: Vec::new(),
        folder,
        sockets: Vec::new(),
        protocol: None,
        module: None,
        callable: None,
        mounts: Vec::new(),
        manages_script_name: false,
        not_needed: 0,
        has_socket: false,
    };
    for option in &options {
        gathered.takes(option);
    }
    gathered.draft()
}

impl Gathered {
    fn takes(&mut self, option: &IniOption) {
        let IniOption { name, value, line } = option;
        let at = line.to_string();
        let how = option_use(name);
        let mut is_wrong = false;
        match how {
            OptionUse::Listen => self.listens(value, "address"),
            OptionUse::Https => self.listens_tls(value, &at),
            OptionUse::Socket => self.sockets.push((value.clone(), *line)),
            OptionUse::OtherSocket => self.other_socket(name, at),
            OptionUse::Protocol => self.protocol = Some((value.clone(), *line)),
            OptionUse::Module => self.module = Some(value.clone()),
            OptionUse::Callable => self.callable = Some(value.clone()),
            OptionUse::Mount => match value.split_once('=') {
                Some((path, app)) if path.starts_with('/') && MountPath::parse(path).is_ok() => {
                    self.mounts.push((path.to_owned(), app.to_owned(), *line));
                }
                _ => is_wrong = true,
            },
            OptionUse::ManageScriptName => self.manages_script_name = is_on(value),
            OptionUse::PythonPath => self.python_paths.push(value.clone()),
            OptionUse::Variable => match value.split_once('=') {
                Some((name, value)) if is_variable(name, value) => {
                    self.variables.retain(|(known, _)| known != name);
                    self.variables.push((name.to_owned(), value.to_owned()));
                }
                _ => is_wrong = true,
            },
            OptionUse::Chdir => self.python.text("python-folder", value.as_str()),
            OptionUse::Home => {
                let home = self.folder.path(value);
                self.python.text("python", home);
            }
            OptionUse::Text(key) => self.python.text(key, value.as_str()),
            OptionUse::Number(key) => match value.parse::<u64>() {
                Ok(0) if key != "python-processes" => {}
                Ok(number) => self.number(key, number, name, &at),
                Err(_) => is_wrong = true,
            },
            OptionUse::MiB(key) => match value.parse::<u64>() {
                Ok(number) => self.python.text(key, format!("{number}M")),
                Err(_) => is_wrong = true,
            },
            OptionUse::StaticMap { is_parent } => self.maps(value, is_parent, &at),
            OptionUse::StaticFolder => self.static_folder(value, &at),
            OptionUse::StaticIndex if value == "index.html" => {}
            OptionUse::StaticIndex => {
                self.first.leave_out(at, format!("{name}: the page of a folder is index.html"));
            }
            OptionUse::NotNeeded => self.not_needed += 1,
            OptionUse::LeftOut(why) => self.first.leave_out(at, format!("{name}: {why}")),
            OptionUse::Rule(why) => self.rule(name, value, why, at),
            OptionUse::SkippedExtension => self.skips(name, value, at),
            OptionUse::Unknown => {
                let message = format!("{} is not known, and was not carried", named(name));
                self.first.leave_out(at, message);
            }
        }
        if is_wrong {
            let message = format!("{name} = {} was not understood", named(value));
            self.first.leave_out(line.to_string(), message);
        }
    }

    fn number(&mut self, key: &'static str, number: u64, name: &str, at: &str) {
        if key == "python-processes" {
            if number > PYTHON_PROCESSES_MAX {
                let message = format!("{name}: at most {PYTHON_PROCESSES_MAX} processes");
                self.python.leave_out(at, message);
            }
            return self.python.number(key, number.clamp(1, PYTHON_PROCESSES_MAX));
        }
        self.python.number(key, number);
    }

    fn other_socket(&mut self, name: &str, at: String) {
        self.has_socket = true;
        self.first.leave_out(at, format!("{name}: {}", options::SOCKET));
    }

    /// Converts a rule of the router inside of uWSGI. Some keep requests out.
    fn rule(&mut self, name: &str, value: &str, why: &str, at: String) {
        let keeps_out = KEEPS_OUT.iter().any(|action| value.contains(action));
        if keeps_out {
            let message =
                format!("{name} = {}: what it has refused is open now: {why}", named(value));
            return self.first.opens(at, message);
        }
        self.first.leave_out(at, format!("{name}: {why}"));
    }

    /// Converts the option for files that are not sent. Pinion never sends the sources of scripts.
    fn skips(&mut self, name: &str, value: &str, at: String) {
        if SOURCES.contains(&value) {
            self.not_needed += 1;
            return;
        }
        let message = format!(
            "{name}: files whose names end in {} are sent now: leave them out with exclude, or \
             keep them in another folder",
            named(value)
        );
        self.first.opens(at, message);
    }

    /// Converts `:8080`, `0.0.0.0:8080`, or the path of a Unix socket.
    fn listens(&mut self, value: &str, key: &'static str) {
        let address = match value {
            path if path.starts_with('/') => format!("unix:{path}"),
            path if !path.is_empty() && !path.contains([':', ',', '@']) => {
                format!("unix:{}", self.folder.path(path))
            }
            other => other.to_owned(),
        };
        let mut table = DraftTable::new("[[listen]]");
        table.text(key, address);
        if !self.listeners.contains(&table) {
            self.listeners.push(table);
        }
    }

    /// Converts `:443,chain.crt,key.key`.
    fn listens_tls(&mut self, value: &str, at: &str) {
        let mut parts = value.split(',');
        self.listens(parts.next().unwrap_or_default(), "tls");
        let mut table = DraftTable::new("[[certificate]]");
        if let Some(cert) = parts.next() {
            table.text("cert", cert);
        }
        if let Some(key) = parts.next() {
            table.text("key", key);
        }
        if parts.next().is_some() {
            self.first.leave_out(at, "https: ciphers and authorities of clients were not carried");
        }
        self.certificates.push(table);
    }

    /// Converts `/static=/srv/static`. With `is_parent` the path is kept below the folder.
    fn maps(&mut self, value: &str, is_parent: bool, at: &str) {
        let Some((path, folder)) = value.split_once('=').filter(|(path, _)| path.starts_with('/'))
        else {
            return self.first.leave_out(at, format!("{} was not understood", named(value)));
        };
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return self.static_folder(folder, at);
        }
        let below = if is_parent { path } else { "" };
        let folder = self.folder.path(folder);
        let folder = folder.trim_end_matches('/');
        let known = match self.site.get("live") {
            Some(Setting::Texts(texts)) => texts.clone(),
            _ => Vec::new(),
        };
        if known.iter().any(|known| known.starts_with(&format!("{path}="))) {
            let message = format!("{} has a folder already; this one was not carried", named(path));
            return self.site.leave_out(at, message);
        }
        let text = format!("{path}={folder}{below}");
        match LiveFolder::parse(&text) {
            Ok(_) => self.site.add("live", text),
            Err(why) => self.site.leave_out(at, why),
        }
    }

    fn static_folder(&mut self, value: &str, at: &str) {
        if self.site.get("path").is_some() {
            let message = format!("{} was not carried: a site has one folder", named(value));
            return self.site.leave_out(at, message);
        }
        let folder = self.folder.path(value);
        self.site.text("path", folder);
        self.site.set("watch", Setting::Switch(true));
    }

    fn draft(mut self) -> Result<ConfigurationDraft, String> {
        let mut applications: Vec<(String, String, usize)> = Vec::new();
        if let Some(module) = &self.module {
            applications.push(("/".to_owned(), application(module, self.callable.as_deref()), 0));
        }
        for (path, module, line) in std::mem::take(&mut self.mounts) {
            let path = path.trim_end_matches('/');
            let path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
            if applications.iter().any(|(known, ..)| *known == path) {
                let message = format!("{} has an application already", named(&path));
                self.first.leave_out(line.to_string(), message);
                continue;
            }
            applications.push((path, application(&module, self.callable.as_deref()), line));
        }
        if applications.is_empty() && self.site.get("path").is_none() {
            return Err(
                "names no application that Pinion runs (module, wsgi-file or mount) and no \
                        folder"
                    .to_owned(),
            );
        }
        self.speaks();
        if self.listeners.is_empty() {
            let message = "no http or http-socket: Pinion listens at 127.0.0.1:8080; add a \
                           [[listen]] with another address";
            self.first.leave_out(if self.has_socket { "socket" } else { "http" }, message);
        }
        self.paths();
        let mut tables = vec![self.first.clone(), self.site.clone()];
        for (path, name, line) in &applications {
            tables.push(self.mount(path, name, *line));
        }
        tables.append(&mut self.listeners);
        tables.append(&mut self.certificates);
        Ok(ConfigurationDraft { tables, not_needed: self.not_needed })
    }

    /// Converts sockets for which no protocol is named by the option itself.
    fn speaks(&mut self) {
        let protocol = self.protocol.take();
        let is_http = protocol.as_ref().is_some_and(|(protocol, _)| protocol == "http");
        for (address, line) in std::mem::take(&mut self.sockets) {
            if is_http {
                self.listens(&address, "address");
            } else {
                self.other_socket("socket", line.to_string());
            }
        }
        if let Some((protocol, line)) = protocol.filter(|_| !is_http) {
            let message = format!("protocol = {}: Pinion speaks HTTP", named(&protocol));
            self.first.leave_out(line.to_string(), message);
        }
    }

    /// Converts the folders of modules beside that of the application. uWSGI looks at the last one
    /// first.
    fn paths(&mut self) {
        let paths = std::mem::take(&mut self.python_paths);
        let folder = match self.python.get("python-folder") {
            Some(Setting::Text(folder)) => folder.trim_end_matches('/').to_owned(),
            _ => ".".to_owned(),
        };
        let paths = paths.iter().rev().filter(|path| !path.is_empty() && *path != ".");
        let mut paths: Vec<String> = paths.map(|path| self.folder.path(path)).collect();
        paths.retain(|path| path.trim_end_matches('/') != folder);
        if paths.is_empty() {
            return;
        }
        if let Some((_, known)) = self.variables.iter().find(|(name, _)| name == "PYTHONPATH") {
            paths.push(known.clone());
        }
        self.variables.retain(|(name, _)| name != "PYTHONPATH");
        self.variables.push(("PYTHONPATH".to_owned(), paths.join(":")));
    }

    fn mount(&self, path: &str, name: &str, line: usize) -> DraftTable {
        let mut mount = DraftTable::new("[[site.mount]]");
        if path != "/" {
            mount.text("path", path);
            if !self.manages_script_name {
                let message = format!(
                    "mount: the application gets {} as SCRIPT_NAME, and the path without it as \
                     PATH_INFO, as with manage-script-name",
                    named(path)
                );
                mount.leave_out(line.to_string(), message);
            }
        }
        mount.text("wsgi", name);
        mount.lines.extend(self.python.lines.iter().cloned());
        if !self.variables.is_empty() {
            mount.set("variables", Setting::Variables(self.variables.clone()));
        }
        mount
    }
}

/// Actions of rules that keep requests out.
const KEEPS_OUT: [&str; 8] =
    ["break:4", "break:5", "return:4", "return:5", "basicauth", "ldapauth", "spnego", "access:"];

/// Ends of the names of scripts.
const SOURCES: [&str; 4] = [".php", ".py", ".pyc", ".cgi"];

/// Returns the name of an application with its object, if that was named.
fn application(module: &str, callable: Option<&str>) -> String {
    match callable {
        Some(callable) if !module.contains(':') => format!("{module}:{callable}"),
        _ => module.to_owned(),
    }
}

fn is_on(value: &str) -> bool {
    !["false", "0", "no", "off"].contains(&value)
}
