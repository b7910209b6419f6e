//! Applications: Python becomes a mount, PHP keys of the site.

use super::super::configuration_draft::{DraftLine, DraftTable, Setting, is_variable, named};
use super::super::json_document::{JsonNode, pointer};
use super::super::limits::PYTHON_PROCESSES_MAX;
use super::Unit;
use super::routes::UriPattern;
use super::sites::SiteDraft;

/// An application with one of its targets: members of the target come first.
struct Application<'n> {
    node: &'n JsonNode,
    target: Option<&'n JsonNode>,
    at: String,
    target_at: String,
}

impl<'n> Application<'n> {
    fn member(&self, name: &str) -> Option<&'n JsonNode> {
        self.target.and_then(|target| target.member(name)).or_else(|| self.node.member(name))
    }

    fn text(&self, name: &str) -> Option<&'n str> {
        self.member(name).and_then(JsonNode::text)
    }

    /// Returns whether the application has the path of a mount as its prefix.
    fn is_at(&self, path: Option<&Setting>) -> bool {
        let prefix = self.text("prefix").map(|prefix| prefix.trim_end_matches('/'));
        prefix.is_some_and(|prefix| path == Some(&Setting::Text(prefix.to_owned())))
    }
}

impl SiteDraft {
    /// Carries over the target that a step or a listener passes to.
    pub(super) fn passes(
        &mut self,
        unit: &Unit<'_>,
        pass: &str,
        at: &str,
        uris: Option<&[UriPattern]>,
        fields: &[(&'static str, String)],
    ) {
        let missing = || format!("{} leads to nothing: there is no such part", named(pass));
        match pass.split_once('/') {
            Some(("upstreams", name)) => {
                self.mount(uris, at, fields, |mount, _| unit.upstream(name, at, mount));
            }
            Some(("applications", name)) => match unit.application(name) {
                Some(application) => self.application(&application, at, uris, fields),
                None => self.site.leave_out(at, missing()),
            },
            _ => self.site.leave_out(at, missing()),
        }
    }

    fn application(
        &mut self,
        application: &Application<'_>,
        at: &str,
        uris: Option<&[UriPattern]>,
        fields: &[(&'static str, String)],
    ) {
        let kind = application.text("type").unwrap_or_default();
        let (language, version) = kind.split_once(' ').unwrap_or((kind, ""));
        let place = pointer(&application.at, "type");
        match language {
            "python" if version.trim_start().starts_with('2') => {
                self.site.leave_out(place, "Python 2 is not supported");
            }
            "python" => {
                let known = self.mounts.len();
                self.mount(uris, at, fields, |mount, path| python(application, path, mount));
                for mount in &mut self.mounts[known..] {
                    let has_prefix = application.is_at(mount.table.get("path"));
                    // Headers of responses make it another mount.
                    mount.whole_path_of =
                        (!has_prefix && fields.is_empty()).then(|| application.target_at.clone());
                }
            }
            "php" => self.php(application, fields, at),
            _ => self.site.leave_out(place, other_language(language)),
        }
    }

    fn php(&mut self, application: &Application<'_>, fields: &[(&'static str, String)], at: &str) {
        let Application { node, target, at: place, target_at } = application;
        let target_root = target.and_then(|target| target.member("root")).and_then(JsonNode::text);
        let root = target_root.or_else(|| node.member("root").and_then(JsonNode::text));
        let Some(root) = root else {
            return self.site.leave_out(place.clone(), "has no root, and was not carried");
        };
        if self
            .mounts
            .iter()
            .any(|mount| mount.table.get("path") == Some(&Setting::Text("/".into())))
        {
            return self.site.leave_out(at, "was not carried: the mount / responds to all paths");
        }
        if !fields.is_empty() {
            self.site.leave_out(at, "headers were not carried: set them in _headers");
        }
        let is_new = !self.has_php;
        self.has_php = true;
        if is_new && self.site.get("path").is_none() {
            self.php_root = Some(pointer(target_at, "root"));
        }
        self.site.lines.retain(|line| !matches!(line, DraftLine::Key("watch" | "single-page", _)));
        self.files(root, &pointer(target_at, "root"));
        self.site.set("php", Setting::Switch(true));
        for name in ["script", "index"] {
            let script = target.and_then(|target| target.member(name));
            if script
                .or_else(|| node.member(name))
                .is_some_and(|script| script.text() != Some("index.php"))
            {
                let message = "was not carried: index.php responds to other paths; for another \
                               script see index of a mount with fastcgi";
                self.site.leave_out(pointer(target_at, name), message);
            }
        }
        if is_new {
            self.php_keys(node, place);
        }
    }

    fn php_keys(&mut self, node: &JsonNode, place: &str) {
        for (name, node) in node.members() {
            let at = pointer(place, name);
            match name.as_str() {
                "type" | "root" | "script" | "index" | "targets" => {}
                "user" if node.text().is_some() => {
                    self.site.text("php-user", node.text().unwrap_or_default());
                }
                "processes" => match processes(node) {
                    Some(number) => self.site.number("php-processes", number),
                    None => self.site.leave_out(at, "was not carried: there is no number in it"),
                },
                "options" => {
                    self.site.leave_out(at, "write settings of PHP to .user.ini or php.ini");
                }
                _ => self.site.leave_out(at, common(name)),
            }
        }
    }
}

impl<'n> Unit<'n> {
    /// Returns the application of `shop` or `shop/target`.
    fn application(&self, name: &str) -> Option<Application<'n>> {
        if let Some((node, at)) = self.part("applications", name) {
            return Some(Application { node, target: None, target_at: at.clone(), at });
        }
        let (name, target) = name.rsplit_once('/')?;
        let (node, at) = self.part("applications", name)?;
        let target_at = pointer(&pointer(&at, "targets"), target);
        let target = Some(node.member("targets")?.member(target)?);
        Some(Application { node, target, at, target_at })
    }
}

/// Sets the keys of a Python application. Says whether there is one.
fn python(application: &Application<'_>, path: &str, mount: &mut DraftTable) -> bool {
    let at = &application.at;
    let Some(module) = application.text("module") else {
        mount.leave_out(at.clone(), "has no module, and was not carried");
        return false;
    };
    let callable = application.text("callable").unwrap_or("application");
    let name = format!("{module}:{callable}");
    match application.text("protocol") {
        Some("asgi") => mount.text("asgi", name),
        protocol => {
            mount.text("wsgi", name);
            if protocol.is_none() {
                let message = "no protocol is given, WSGI was written; write asgi in its place for \
                               an application such as FastAPI";
                mount.leave_out(application.target_at.clone(), message);
            }
        }
    }
    if application.member("factory") == Some(&JsonNode::Bool(true)) {
        mount.set("python-factory", Setting::Switch(true));
    }
    if path != "/" && !application.is_at(mount.get("path")) {
        let message = whole_path(path, mount.get("asgi").is_some());
        mount.leave_out(application.target_at.clone(), message);
    }
    if path == "/" && application.text("prefix").is_some_and(|prefix| prefix != "/") {
        let message = "was not carried: write path = PREFIX to this mount";
        mount.leave_out(pointer(&application.target_at, "prefix"), message);
    }
    folders(application, mount);
    for (name, node) in application.node.members() {
        python_key(name, node, &pointer(at, name), mount);
    }
    environment(application, mount);
    true
}

/// Returns the note that an application without a prefix does not get the whole path of a request.
fn whole_path(path: &str, is_asgi: bool) -> String {
    let (names, wrapper) = if is_asgi {
        ("as root_path", "scope[\"root_path\"] = \"\"")
    } else {
        (
            "as SCRIPT_NAME, not as a part of PATH_INFO",
            "environ[\"PATH_INFO\"] = environ[\"SCRIPT_NAME\"] + environ[\"PATH_INFO\"]; \
         environ[\"SCRIPT_NAME\"] = \"\"",
        )
    };
    format!(
        "there is no prefix = {0}: the application gets {0} {names}; if its routes begin with {0}, \
         wrap it: {wrapper}",
        named(path)
    )
}

/// Converts the folders in which modules are found: Pinion has one folder, which is the working
/// directory, too.
fn folders(application: &Application<'_>, mount: &mut DraftTable) {
    let directory = application.text("working_directory");
    let paths = application.member("path").and_then(JsonNode::texts).unwrap_or_default();
    let folder = directory.or_else(|| paths.first().copied());
    if let Some(folder) = folder {
        mount.text("python-folder", folder);
    }
}

fn python_key(name: &str, node: &JsonNode, at: &str, mount: &mut DraftTable) {
    match (name, node) {
        (
            "type" | "module" | "callable" | "factory" | "prefix" | "protocol" | "path" | "targets"
            | "working_directory" | "environment",
            _,
        ) => {}
        ("home", JsonNode::Text(home)) => mount.text("python", home.as_str()),
        ("user", JsonNode::Text(user)) => mount.text("python-user", user.as_str()),
        ("threads", JsonNode::Number(threads)) => mount.number("python-threads", *threads),
        ("processes", _) => match processes(node) {
            Some(number) => {
                mount.number("python-processes", number.clamp(1, PYTHON_PROCESSES_MAX));
                if number > PYTHON_PROCESSES_MAX || node.number().is_none() {
                    let message =
                        format!("the number of processes is fixed, at most {PYTHON_PROCESSES_MAX}");
                    mount.leave_out(at, message);
                }
            }
            None => mount.leave_out(at, "was not carried: there is no number in it"),
        },
        ("limits", _) => {
            for (name, node) in node.members() {
                match (name.as_str(), node.number()) {
                    ("timeout", Some(seconds)) if seconds > 0 => mount.number("timeout", seconds),
                    ("requests", Some(number)) if number > 0 => {
                        mount.number("python-max-requests", number);
                    }
                    _ => mount.leave_out(pointer(at, name), "has no equal in Pinion"),
                }
            }
        }
        _ => mount.leave_out(at, common(name)),
    }
}

/// Sets the environment, with the folders that modules are found in beside `python-folder`.
fn environment(application: &Application<'_>, mount: &mut DraftTable) {
    let mut variables: Vec<(String, String)> = Vec::new();
    for (name, node) in
        application.node.member("environment").map(JsonNode::members).unwrap_or_default()
    {
        match node.text() {
            Some(value) if is_variable(name, value) => {
                variables.push((name.clone(), value.to_owned()));
            }
            _ => {
                let at = pointer(&pointer(&application.at, "environment"), name);
                mount.leave_out(at, "was not carried: it is no variable of an environment");
            }
        }
    }
    let folder = match mount.get("python-folder") {
        Some(Setting::Text(folder)) => folder.clone(),
        _ => String::new(),
    };
    let paths = application.member("path").and_then(JsonNode::texts).unwrap_or_default();
    let others: Vec<&str> = paths.into_iter().filter(|path| **path != folder).collect();
    if !others.is_empty() {
        let mut path = others.join(":");
        match variables.iter_mut().find(|(name, _)| name == "PYTHONPATH") {
            Some((_, known)) => *known = format!("{path}:{known}"),
            None => variables.push(("PYTHONPATH".to_owned(), std::mem::take(&mut path))),
        }
    }
    if !variables.is_empty() {
        mount.set("variables", Setting::Variables(variables));
    }
}

/// Returns the number of processes: a number, or the most of an object.
fn processes(node: &JsonNode) -> Option<u64> {
    node.number()
        .or_else(|| node.member("max").map_or(Some(1), JsonNode::number))
        .filter(|n| *n > 0)
}

fn common(name: &str) -> &'static str {
    match name {
        "group" => "was not carried: the group is that of the user",
        "isolation" => "was not carried: set namespaces and limits in the unit of systemd",
        "stdout" | "stderr" => "was not carried: output of applications is in the log of Pinion",
        "environment" => "was not carried: PHP gets no environment; use a file of settings",
        "limits" => "was not carried: see the limits of PHP in .user.ini",
        _ => "has no equal in Pinion",
    }
}

fn other_language(language: &str) -> String {
    let why = match language {
        "external" | "go" | "nodejs" | "node" => {
            "speaks the protocol of Unit: let the program listen for HTTP, start it with \
             [[program]], and name it as proxy of a mount"
        }
        "java" | "perl" | "ruby" => {
            "is not run by Pinion: start its own server (Tomcat, Starman, Puma) with [[program]], \
             and name it as proxy of a mount"
        }
        _ => "is not run by Pinion; name a server for it as proxy of a mount",
    };
    format!("{} {why}", named(language))
}
