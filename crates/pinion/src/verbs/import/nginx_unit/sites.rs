//! Steps of routes → sites. Unit looks at the steps one after the other; a site of Pinion has
//! mounts for paths, then live folders, then its files, then the mount for everything else.

use super::super::configuration_draft::{DraftLine, DraftTable, Setting, is_value, named};
use super::super::json_document::{JsonNode, pointer};
use super::super::limits::{FALLBACK_DEPTH_MAX, REASONS_MAX};
use super::Unit;
use super::access_rules::refusal;
use super::mounts::MountDraft;
use super::routes::{RouteStep, StepAction, UriPattern, condition};
use super::upstreams;
use crate::server::live_files::limits::LIVE_FOLDERS_MAX;
use crate::settings::LiveFolder;
use pinion_gateway::field_changes::{ChangedMessage, check_changed_field};

/// A site that is being made.
pub(super) struct SiteDraft {
    pub(super) site: DraftTable,
    /// Who may request a part of it.
    pub(super) accesses: Vec<DraftTable>,
    pub(super) mounts: Vec<MountDraft>,
    /// Paths of steps that are for some clients, where all others are refused.
    pub(super) limited: Vec<UriPattern>,
    /// Paths of the steps so far that were carried.
    pub(super) served: Vec<UriPattern>,
    /// A step refuses the paths that no other one takes.
    pub(super) refuses_rest: bool,
    /// Where the folder of PHP is named, unless its other files are shared as well.
    pub(super) php_root: Option<String>,
    /// Steps after one for all paths are never reached.
    is_complete: bool,
    pub(super) has_php: bool,
}

/// Returns the tables of all sites: one for each set of hosts that have the same steps.
///
/// # Errors
/// No site has anything that Pinion can serve.
pub(super) fn tables(
    unit: &Unit<'_>,
    steps: &[RouteStep<'_>],
    max_body: Option<u64>,
    notes: &DraftTable,
) -> Result<Vec<DraftTable>, String> {
    let mut hosts: Vec<Option<&str>> = Vec::new();
    for host in steps.iter().flat_map(|step| step.hosts.iter().flatten()) {
        if !hosts.contains(&Some(host)) {
            hosts.push(Some(host));
        }
    }
    hosts.push(None);
    let mut groups: Vec<(Vec<&str>, Vec<&RouteStep<'_>>)> = Vec::new();
    for host in hosts {
        let own: Vec<&RouteStep<'_>> = steps.iter().filter(|step| is_for(step, host)).collect();
        let same = |group: &&mut (Vec<&str>, Vec<&RouteStep<'_>>)| {
            let pairs = group.1.iter().zip(&own);
            host.is_some()
                && group.1.len() == own.len()
                && pairs.into_iter().all(|(a, b)| std::ptr::eq(*a, *b))
        };
        match (groups.iter_mut().find(same), host) {
            (Some(group), Some(host)) => group.0.push(host),
            _ => groups.push((host.into_iter().collect(), own)),
        }
    }
    let mut tables = Vec::new();
    for (hosts, steps) in groups {
        let own = steps.iter().find(|step| step.hosts.is_some() && !hosts.is_empty());
        let at = own.map(|step| step.at.as_str());
        tables.extend(site(unit, &hosts, &steps, max_body).tables(&hosts, at));
    }
    if tables.iter().any(|table| table.header == "[[site]]") {
        return Ok(tables);
    }
    let lines = notes.lines.iter().chain(tables.iter().flat_map(|table| &table.lines));
    let reasons = lines.filter_map(|line| match line {
        DraftLine::LeftOut(leftover) => Some(format!("{}: {}", leftover.place, leftover.message)),
        DraftLine::Key(..) => None,
    });
    let reasons: Vec<String> = reasons.take(REASONS_MAX).collect();
    Err(if reasons.is_empty() {
        "nothing that a listener passes to can be carried: no Python or PHP application, \
         folder or server"
            .to_owned()
    } else {
        format!("nothing that a listener passes to can be carried: {}", reasons.join("; "))
    })
}

/// Returns whether a step applies to a host, to all others without one.
fn is_for(step: &RouteStep<'_>, host: Option<&str>) -> bool {
    let (Some(hosts), Some(host)) = (&step.hosts, host) else { return step.hosts.is_none() };
    hosts.iter().any(|pattern| {
        let is_below = pattern.strip_prefix('*').is_some_and(|end| host.ends_with(end));
        pattern == host || is_below
    })
}

fn site(
    unit: &Unit<'_>,
    hosts: &[&str],
    steps: &[&RouteStep<'_>],
    max_body: Option<u64>,
) -> SiteDraft {
    let mut draft = SiteDraft {
        site: DraftTable::new("[[site]]"),
        accesses: Vec::new(),
        limited: Vec::new(),
        mounts: Vec::new(),
        served: Vec::new(),
        refuses_rest: false,
        php_root: None,
        is_complete: false,
        has_php: false,
    };
    if !hosts.is_empty() {
        draft.site.set("hosts", Setting::Texts(hosts.iter().map(|&host| host.into()).collect()));
    }
    for (number, step) in steps.iter().enumerate() {
        if draft.is_complete {
            // A step for all hosts is reached for others than these.
            let is_own = hosts.is_empty() || step.hosts.is_some();
            if !is_own {
                continue;
            }
            draft.site.leave_out(step.at.clone(), "is never reached: a step before it takes all");
            continue;
        }
        draft.takes(unit, step, &steps[number + 1..]);
    }
    draft.leave_out_same();
    if let Some(at) = draft.php_root.take() {
        let message = "files of this folder that are no scripts are open now: in Unit nothing \
                       shares them; leave them out with exclude";
        draft.site.opens(at, message);
    }
    if draft.has_php
        && let Some(bytes) = max_body
    {
        draft.site.set("php-upload-limit", Setting::Number(bytes));
    } else if max_body.is_some() {
        let at = format!("{}/settings/http/max_body_size", unit.at);
        draft.site.leave_out(at, "was not carried: the application limits its content itself");
    }
    draft
}

impl SiteDraft {
    /// Carries a step; those of `later` come after it.
    fn takes(&mut self, unit: &Unit<'_>, step: &RouteStep<'_>, later: &[&RouteStep<'_>]) {
        let uris = step.uris.as_deref();
        let is_for_all = uris.is_none() && step.sources.is_none();
        let action = match step.action {
            StepAction::Pass(pass) => {
                self.passes(unit, pass, &step.at, uris, &[]);
                self.is_complete = is_for_all;
                return;
            }
            StepAction::Action(action) => action,
        };
        if let Some(status) = refusal(action) {
            self.refuse(step, status);
            self.is_complete = is_for_all;
            return;
        }
        if step.sources.is_some() && action.member("return").is_some() {
            let message = format!("what it has redirected is open now: {}", condition("source"));
            return self.site.opens(step.at.clone(), message);
        }
        if !self.limit(step, later) {
            let at = step.at.strip_suffix("/action").unwrap_or(&step.at);
            return self.site.leave_out(format!("{at}/match/source"), condition("source"));
        }
        self.acts(unit, action, &step.at, uris, 0);
        self.is_complete = uris.is_none();
        if step.sources.is_none() {
            self.served.extend(uris.unwrap_or_default().iter().cloned());
        }
    }

    /// Returns the tables, if there is anything to serve; otherwise only the notes about parts that
    /// were left out.
    fn tables(mut self, hosts: &[&str], at: Option<&str>) -> Vec<DraftTable> {
        if self.site.get("path").is_some() || !self.mounts.is_empty() {
            let mounts = self.mounts.into_iter().map(|mount| mount.table).collect();
            return [vec![self.site], self.accesses, mounts].concat();
        }
        if let Some(at) = at.filter(|_| self.refuses_rest || !self.accesses.is_empty()) {
            let message = format!(
                "{} was refused and is open now: requests for it get what other hosts get; give it \
                 a [[site]] with a folder and [[site.access]]",
                named(&hosts.join(", "))
            );
            self.site.opens(at, message);
        } else if let Some(at) = at {
            let message = format!(
                "nothing is served for {}: requests for it get what other hosts get",
                named(&hosts.join(", "))
            );
            self.site.leave_out(at, message);
        }
        let is_left_out = |line: &DraftLine| matches!(line, DraftLine::LeftOut(_));
        self.site.lines.retain(is_left_out);
        self.site.header = "";
        vec![self.site]
    }

    fn acts(
        &mut self,
        unit: &Unit<'_>,
        action: &JsonNode,
        at: &str,
        uris: Option<&[UriPattern]>,
        depth: usize,
    ) {
        let main = ["pass", "proxy", "share", "return"].into_iter();
        let main = main.filter_map(|name| Some((name, action.member(name)?))).next();
        let fields = action.member("response_headers").map(JsonNode::members).unwrap_or_default();
        for (name, node) in action.members() {
            let is_known = ["pass", "proxy", "share", "return", "location", "fallback", "index"];
            if let Some(message) = open_option(name, node, uris) {
                self.site.opens(pointer(at, name), message);
            } else if !is_known.contains(&name.as_str()) && name != "response_headers" {
                self.site.leave_out(pointer(at, name), option(name));
            }
        }
        match main {
            Some(("pass", JsonNode::Text(pass))) => {
                let fields = self.fields(fields, &pointer(at, "response_headers"));
                self.passes(unit, pass, &pointer(at, "pass"), uris, &fields);
            }
            Some(("proxy", JsonNode::Text(url))) => {
                let fields = self.fields(fields, &pointer(at, "response_headers"));
                let at = pointer(at, "proxy");
                self.mount(uris, &at, &fields, |mount, _| {
                    upstreams::proxy(url, mount);
                    true
                });
            }
            Some(("share", share)) => {
                if !fields.is_empty() {
                    let message = "was not carried: headers of files are set in _headers";
                    self.site.leave_out(pointer(at, "response_headers"), message);
                }
                self.shares(unit, action, share, at, uris, depth);
            }
            Some(("return", code)) => self.returns(action, code, at, uris),
            _ => {
                self.site
                    .leave_out(at, "was not carried: there is no pass, proxy, share or return");
            }
        }
    }

    /// Returns the headers that responses get, as keys of a mount.
    fn fields(&mut self, fields: &[(String, JsonNode)], at: &str) -> Vec<(&'static str, String)> {
        let mut keys = Vec::new();
        for (name, node) in fields {
            let is_allowed = check_changed_field(name, ChangedMessage::Response).is_ok();
            match node {
                JsonNode::Text(value)
                    if is_allowed
                        && !value.contains(['$', '`'])
                        && is_value("mount-set-response-headers", &format!("{name}: {value}")) =>
                {
                    keys.push(("set-response-headers", format!("{name}: {value}")));
                }
                JsonNode::Null if is_allowed && is_value("mount-remove-response-headers", name) => {
                    keys.push(("remove-response-headers", name.clone()));
                }
                _ => self.site.leave_out(
                    pointer(at, name),
                    "was not carried: only plain values of headers that an application may set",
                ),
            }
        }
        keys
    }

    fn shares(
        &mut self,
        unit: &Unit<'_>,
        action: &JsonNode,
        share: &JsonNode,
        at: &str,
        uris: Option<&[UriPattern]>,
        depth: usize,
    ) {
        let place = pointer(at, "share");
        for text in share.texts().unwrap_or_default() {
            let folder = text.strip_suffix("$uri").or_else(|| text.strip_suffix("${uri}"));
            // Before version 1.26 the path was added to each share.
            let folder =
                folder.or_else(|| text.strip_suffix('/')).filter(|path| !path.contains('$'));
            let Some(folder) = folder else {
                let message = format!("{} was not carried: {FOLDERS}", named(text));
                self.site.leave_out(place.clone(), message);
                continue;
            };
            match uris {
                None => {
                    self.files(folder, &place);
                    self.php_root = None;
                }
                Some(uris) => uris.iter().for_each(|uri| self.live(folder, uri, &place)),
            }
        }
        if let Some(index) = action.member("index")
            && *index != JsonNode::Text("index.html".to_owned())
        {
            let message = "was not carried: the page of a folder is index.html";
            self.site.leave_out(pointer(at, "index"), message);
        }
        let Some(fallback) = action.member("fallback") else { return };
        let at = pointer(at, "fallback");
        if uris.is_some() {
            let message = "was not carried: what is no file here goes to the mount /";
            return self.site.leave_out(at, message);
        }
        if let Some(page) = self.fallback_page(fallback) {
            return self.site.text("single-page", page);
        }
        match fallback.member("return") {
            Some(JsonNode::Number(404)) => {}
            _ if depth == FALLBACK_DEPTH_MAX => self.site.leave_out(at, "is too deep"),
            _ => self.acts(unit, fallback, &at, None, depth + 1),
        }
    }

    /// Returns the page of a fallback that is one file of the folder of the site.
    fn fallback_page(&self, fallback: &JsonNode) -> Option<String> {
        let Some(Setting::Text(folder)) = self.site.get("path") else { return None };
        let share = fallback.member("share")?.text()?;
        let page = share.strip_prefix(folder.trim_end_matches('/'))?.strip_prefix('/')?;
        let is_page = !page.is_empty() && !page.contains('$') && !page.ends_with('/');
        (is_page && !self.has_php && fallback.members().len() == 1).then(|| page.to_owned())
    }

    /// Sets the folder of the site.
    pub(super) fn files(&mut self, folder: &str, at: &str) {
        let folder = if folder.is_empty() { "/" } else { folder };
        match self.site.get("path") {
            Some(Setting::Text(known))
                if known.trim_end_matches('/') == folder.trim_end_matches('/') => {}
            Some(_) => {
                let message = format!("{} was not carried: a site has one folder", named(folder));
                self.site.leave_out(at, message);
            }
            None => {
                self.site.text("path", folder);
                if !self.has_php {
                    self.site.set("watch", Setting::Switch(true));
                }
            }
        }
    }

    fn live(&mut self, folder: &str, uri: &UriPattern, at: &str) {
        let UriPattern::Below(path) = uri else {
            return self.site.leave_out(
                at,
                "was not carried: put the file into the folder of the site, or share a path such \
                 as /static/*",
            );
        };
        let text = format!("{path}={}{path}", folder.trim_end_matches('/'));
        if let Err(why) = LiveFolder::parse(&text) {
            return self.site.leave_out(at, why);
        }
        let known = match self.site.get("live") {
            Some(Setting::Texts(known)) => known.clone(),
            _ => Vec::new(),
        };
        let has_path = known.iter().any(|known| known.starts_with(&format!("{path}=")));
        if has_path && !known.contains(&text) {
            let message = format!("{} has a folder already; this one was not carried", named(path));
            self.site.leave_out(at, message);
        } else if known.len() == LIVE_FOLDERS_MAX {
            self.site.leave_out(at, format!("a site has at most {LIVE_FOLDERS_MAX} live folders"));
        } else {
            self.site.add("live", text);
        }
    }

    fn returns(
        &mut self,
        action: &JsonNode,
        code: &JsonNode,
        at: &str,
        uris: Option<&[UriPattern]>,
    ) {
        let from = match uris {
            Some([UriPattern::Exact(path)]) => path.clone(),
            Some([uri @ UriPattern::Below(_)]) => uri.shown(),
            None => "/*".to_owned(),
            Some(_) => "PATH".to_owned(),
        };
        let status = code.number().unwrap_or_default();
        let message = match action.member("location").and_then(JsonNode::text) {
            Some(to) if !to.contains('$') => {
                format!("write to _redirects: {} {} {status}!", named(&from), named(to))
            }
            Some(_) => "was not carried: for redirects to HTTPS write [[listen]] redirect-http, \
                        for others _redirects"
                .to_owned(),
            None => format!("write to _redirects: {} /PAGE.html {status}!", named(&from)),
        };
        self.site.leave_out(pointer(at, "return"), message);
    }
}

const FOLDERS: &str = "a share is a folder and $uri";

/// Returns a note about the files of a share that are open without an option.
fn open_option(name: &str, node: &JsonNode, uris: Option<&[UriPattern]>) -> Option<&'static str> {
    match name {
        "types" => {
            Some("files of other types were refused and are open now: leave them out with exclude")
        }
        "chroot" | "follow_symlinks" if uris.is_none() && *node != JsonNode::Bool(true) => Some(
            "links in this folder were refused and are open now: they are followed, also out of \
             it; remove them",
        ),
        _ => None,
    }
}

fn option(name: &str) -> &'static str {
    match name {
        "rewrite" => "was not carried: see upstream-path of a mount, or _redirects",
        "chroot" | "follow_symlinks" | "traverse_mounts" => {
            "was not carried: links in a live folder are not followed"
        }
        _ => "is not known, and was not carried",
    }
}
