//! Checks everything that a configuration file names, without starting anything, and reports at
//! once all errors that a start would meet.

use super::access_log_conflicts;
use super::fault::{ConfigFault, TextPlace};
use super::live_folder_symlinks;
use super::mount_checks;
use super::password_file_checks;
use super::server_plan_builder::{ConfiguredSite, LoadedFile};
use super::table_conflicts::address_of;
use super::tables::TableSection;
use crate::archive_file::ArchiveFile;
use crate::build_notes;
use crate::build_options;
use crate::catch_all_rule;
use crate::certificate_files::{client_authorities, is_named, redirect_host};
use crate::directives::{self, Directive};
use crate::failure::{Failure, without_number};
use crate::listen_address::Address;
use crate::lua_program_loader;
use crate::path_warnings;
use crate::served_source::ServedSource;
use crate::server::live_files::LiveFiles;
use crate::server::mounts::Mounts;
use crate::server::php::php_pools;
use crate::server::php::unrun_scripts::{UNRUN, first_unrun, is_run};
use crate::server::python::interpreter;
use crate::settings::{
    BuildSettings, CanonicalHost, CertificateFiles, Certificates, ListenKind, LogTarget, Serve,
};
use pinion_builder::{BuildError, CodeError, Examined, FileProblem, Globs, Options, RuleError};
use pinion_engine::tls::certificate::Certificate;
use pinion_lua::script_quotas::Allowance;
use pinion_lua::shared_site_state::ScriptSite;
use pinion_site::host_selection::HostPattern;
use std::collections::HashSet;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;

/// Adds the faults in the files and folders that `loaded` names; `path` is its file.
pub(crate) fn examine(loaded: &mut LoadedFile, path: &Path) {
    let (mut found, mut below, mut said) = (Vec::new(), Vec::new(), Said::default());
    let mut known = HashSet::new();
    let mut add =
        |place: TextPlace, message: String| found.push(ConfigFault::at(path, place, message));
    for site in &loaded.sites {
        examine_live(site, &mut add);
        match examine_site(site, &mut add) {
            Ok(of_site) => said.add(of_site),
            // Sites may share files of rules; a fault in one is reported once.
            Err(of_site) => {
                below.extend(of_site.into_iter().filter(|fault| known.insert(fault.clone())));
            }
        }
    }
    let mut certificates = Vec::new();
    for section in &loaded.certificates {
        if let Some((files, certificate)) = examine_certificate(section, &mut add) {
            said.warnings.extend(files.warnings(&certificate));
            said.warnings.extend(files.expiry_warning(&certificate));
            certificates.push(certificate);
        }
    }
    // Where one could not be read, it may be the one that names the host.
    if !certificates.is_empty() && certificates.len() == loaded.certificates.len() {
        said.warnings.extend(hosts_without_certificate(&loaded.sites, &certificates, path));
        said.warnings.extend(unnamed_canonical_host(loaded, &certificates, path));
    }
    for listener in &loaded.listeners {
        if let Some(file) = listener.low.values("client-ca").next()
            && let Err(bad) = client_authorities(Path::new(file))
        {
            add(listener.place_of("client-ca"), format!("client-ca: {bad}"));
        }
        if let Some((key, Address::Unix(socket), place)) = address_of(listener)
            && let Some(wrong) = no_folder(&socket)
        {
            add(place, format!("{key}: {wrong}"));
        }
    }
    if let Some(serve) = &loaded.serve
        && let Some(why) = leads_nowhere(serve)
    {
        let redirects = |listener: &&TableSection| listener.is_written("redirect-http");
        let listener = loaded.listeners.iter().find(redirects);
        let place =
            listener.map_or(TextPlace::START, |listener| listener.place_of("redirect-http"));
        add(place, format!("redirect-http: {why}; write canonical-host = \"HOST\" in [tls]"));
    }
    examine_access_logs(loaded, &mut add);
    said.warnings.extend(password_file_checks::examine(&loaded.sites, &mut add, &mut below));
    said.warnings.extend(doubtful_paths(loaded, path));
    let meaningless = loaded.sites.iter().flat_map(|site| meaningless_values(&site.section, path));
    said.warnings.extend(meaningless);
    loaded.faults.extend(found);
    loaded.faults.sort_by_key(|fault| fault.place);
    loaded.faults.extend(below);
    (loaded.warnings, loaded.notes) = (said.warnings, said.notes);
}

/// Adds the faults in the access logs of the server and of its sites.
fn examine_access_logs(loaded: &LoadedFile, add: &mut impl FnMut(TextPlace, String)) {
    if let (Some(server), Some(serve)) = (&loaded.server, &loaded.serve)
        && let Some(wrong) = serve.access_log.as_ref().and_then(no_log)
    {
        add(server.place_of("access-log"), format!("access: {wrong}"));
    }
    for site in &loaded.sites {
        if let Some((log, _)) = &site.planned.settings.access_log
            && let Some(wrong) = no_log(log)
        {
            add(site.section.place_of("site-access-log"), format!("access-log: {wrong}"));
        }
    }
    let server = loaded.server.as_ref().zip(loaded.serve.as_ref());
    access_log_conflicts::find(server, &loaded.sites, add);
}

/// Warns about each key of a site that is `true` where only a value or `false` says anything.
fn meaningless_values(section: &TableSection, path: &Path) -> Vec<String> {
    let is_one = |row: &&Directive| {
        let is_inverted_twin = row.is_inverted() && row.twin().is_some();
        is_inverted_twin && section.is_written(row.name) && !section.low.given(row.name)
    };
    let warning = |row: &Directive| {
        let key = row.file.map_or(row.name, |key| key.name);
        let message = format!(
            "{key}: true is the default and has no effect; write a value in quotes, or false"
        );
        ConfigFault::at(path, section.place_of(row.name), message).to_string()
    };
    directives::all().filter(is_one).map(warning).collect()
}

/// Returns why nothing can be logged there.
fn no_log(target: &LogTarget) -> Option<String> {
    let LogTarget::File(log) = target else { return None };
    if log.is_dir() {
        return Some(format!("{} is a folder", log.display()));
    }
    no_folder(log)
}

/// The warnings and notes about a folder without faults.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Rules without effect.
    pub(crate) warnings: Vec<String>,
    /// Files of it that are left out, and files that clients keep.
    pub(crate) notes: Vec<String>,
}

impl Said {
    fn add(&mut self, other: Self) {
        self.warnings.extend(other.warnings);
        self.notes.extend(other.notes);
    }
}

/// Returns the faults in an archive or in its code; without any, a note that its contents were not
/// verified.
pub(crate) fn examine_archive(path: &Path, allowance: Allowance) -> Result<Said, Failure> {
    let file = ArchiveFile::open(path)?;
    let proven =
        lua_program_loader::of_archive(&file.view(), path, allowance, &ScriptSite::default())?;
    let warnings = proven.map(|proven| proven.warnings).unwrap_or_default();
    let shown = path.display();
    let note =
        format!("{shown}: its contents were not verified; `pinion verify {shown}` does that");
    Ok(Said { notes: vec![note], warnings })
}

/// Returns the faults in the files of a folder; without any, the warnings and notes about it.
pub(crate) fn examine_folder(
    folder: &Path,
    options: &Options,
    allowance: Allowance,
    mounts: Option<&Mounts>,
) -> Result<Said, Vec<ConfigFault>> {
    let on_disk = |file: &Path| pinion_builder::path_on_disk(folder, file);
    match pinion_builder::examine(folder, options) {
        Ok(examined) => {
            let Examined { skipped, excluded, .. } = &examined;
            let unrun = mounts.and_then(|mounts| first_unrun(skipped, excluded, mounts));
            if let Some(script) = unrun {
                return Err(vec![ConfigFault::of(&folder.join(script), UNRUN)]);
            }
            let code = examined.code.iter().map(|(path, content)| (&**path, &**content));
            let proven = match lua_program_loader::of_code(
                folder,
                code,
                allowance,
                &ScriptSite::default(),
            ) {
                Ok(proven) => proven,
                Err(failure) => return Err(faults_of_code(folder, &failure, &examined.code)),
            };
            let code_warnings = proven.map(|proven| proven.warnings).unwrap_or_default();
            let shown = |text: &dyn Display| format!("{}: {text}", folder.display());
            let left_out =
                examined.problems.iter().map(|problem| shown(&format_args!("left out {problem}")));
            let warnings = examined
                .warnings
                .iter()
                .map(|warning| warning.of_rule(folder).unwrap_or_else(|| shown(warning)));
            let warnings = left_out.chain(warnings).chain(code_warnings).collect();
            let is_run = |path: &Path| mounts.is_some_and(|mounts| is_run(path, mounts));
            let notes = build_notes::of_examined(&examined, is_run);
            Ok(Said { warnings, notes: notes.iter().map(|note| shown(note)).collect() })
        }
        Err(BuildError::Code(errors)) => {
            let fault = |CodeError { file, line, what, .. }: &CodeError| match line {
                Some(line) => {
                    let place = TextPlace::of_line(*line as usize);
                    ConfigFault::at(&on_disk(file), place, what.clone())
                }
                None => ConfigFault::of(&on_disk(file), what.clone()),
            };
            Err(errors.iter().map(fault).chain(syntax_errors(folder, options)).collect())
        }
        Err(BuildError::Rules(errors)) => {
            let fault = |RuleError { file, line, column, expected }: &RuleError| {
                let place = TextPlace { line: *line, column: *column };
                ConfigFault::at(&on_disk(file), place, format!("expected {expected}"))
            };
            Err(errors.iter().map(fault).chain(syntax_errors(folder, options)).collect())
        }
        Err(BuildError::Problems(problems) | BuildError::UnreadRules(problems)) => {
            let fault = |problem: &FileProblem| {
                let reason = without_number(&problem.reason.to_string());
                ConfigFault::of(&on_disk(&problem.path), reason)
            };
            Err(problems.iter().map(fault).collect())
        }
        Err(error) => Err(vec![ConfigFault::of(folder, without_number(&error.to_string()))]),
    }
}

/// Returns the syntax errors in the Lua files of a folder that cannot be built.
fn syntax_errors(folder: &Path, options: &Options) -> Vec<ConfigFault> {
    let scripts = pinion_builder::scripts(folder, options);
    let wrong = lua_program_loader::syntax_errors(folder, &scripts);
    wrong.iter().map(|reason| of_code(folder, reason)).collect()
}

/// Returns the faults in the code of a folder: the reason why it did not start, and the syntax
/// errors in its other files.
fn faults_of_code(
    folder: &Path,
    failure: &Failure,
    code: &[(Box<[u8]>, Vec<u8>)],
) -> Vec<ConfigFault> {
    let first = of_code(folder, &failure.reason().unwrap_or_default());
    let others = lua_program_loader::syntax_errors(folder, code);
    let others = others.iter().map(|reason| of_code(folder, reason));
    let others: Vec<ConfigFault> = others.filter(|fault| *fault != first).collect();
    [vec![first.with_stack(failure.stack())], others].concat()
}

/// Returns the fault in the code of a site, in its file and line if the reason names them.
pub(crate) fn of_code(source: &Path, reason: &str) -> ConfigFault {
    let named = reason.split_once(": ").and_then(|(place, what)| {
        let (file, line) = place.rsplit_once(':')?;
        let is_within = Path::new(file).starts_with(source);
        let line = line.parse().ok().filter(|_| is_within)?;
        Some(ConfigFault::at(Path::new(file), TextPlace::of_line(line), what))
    });
    // For a limit of memory the line is not always known.
    let of_file = || {
        let (file, what) = reason.split_once(": ")?;
        let file = Path::new(file);
        (file != source && file.starts_with(source)).then(|| ConfigFault::of(file, what))
    };
    named.or_else(of_file).unwrap_or_else(|| ConfigFault::of(source, without_name(source, reason)))
}

/// Returns a reason without the name of the file at its beginning: a fault begins with it anyway.
fn without_name<'r>(file: &Path, reason: &'r str) -> &'r str {
    let rest = reason.strip_prefix(&*file.to_string_lossy());
    let rest = rest.and_then(|rest| rest.strip_prefix([':', ' ']));
    rest.map_or(reason, str::trim_start)
}

/// Adds the faults in the files of secrets and of certificate authorities.
fn examine_access(site: &ConfiguredSite, add: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    let access = &planned.settings.script_access;
    let reason = |failure: Failure| failure.reason().unwrap_or_default();
    for (secret, place) in access.secrets().iter().zip(section.places_of("secret")) {
        if let Err(failure) = secret.read() {
            add(place, reason(failure));
        }
    }
    if let Err(failure) = access.trust() {
        add(section.place_of("fetch-ca"), reason(failure));
    }
    examine_php(site, add);
    examine_python(site, add);
}

/// Adds the requirements of the Python applications of a site that this machine lacks.
fn examine_python(site: &ConfiguredSite, add: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    for mount in planned.settings.mounts.python() {
        let settings = &mount.settings;
        let found = interpreter::find(settings.python.as_deref(), &settings.folder);
        if let Err(error) = found {
            add(section.place, format!("{}: {error}", settings.application));
        }
    }
}

/// Adds the requirements of the PHP of a site that this machine lacks.
fn examine_php(site: &ConfiguredSite, add: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    let php = planned.settings.php.as_ref();
    if let Some(Err((row, wrong))) = php.map(php_pools::check) {
        add(section.place_of(row), format!("{row}: {wrong}"));
    }
}

/// Adds the faults in the keys of a site; returns the faults in its files, or the warnings and
/// notes about them.
fn examine_site(
    site: &ConfiguredSite,
    add: &mut impl FnMut(TextPlace, String),
) -> Result<Said, Vec<ConfigFault>> {
    let ConfiguredSite { planned, section } = site;
    let at_path = section.place_of("path");
    let reason = |failure: Failure| failure.reason().unwrap_or_default();
    let allowance = planned.settings.lua.allowance;
    for (folder, place) in planned.settings.lua_folders.iter().zip(section.places_of("lua-folder"))
    {
        if let Err(failure) = lua_program_loader::folders(std::slice::from_ref(folder)) {
            add(place, reason(failure));
        }
    }
    examine_access(site, add);
    let folder = match &planned.source {
        ServedSource::Archive(_) | ServedSource::Releases(_) => {
            let archive = planned.source.file().unwrap_or_default();
            leaves_something(site, &archive, add);
            return Ok(examine_archive(&archive, allowance).unwrap_or_else(|failure| {
                add(at_path, format!("path: {}", reason(failure)));
                Said::default()
            }));
        }
        ServedSource::Upstream(_) => return Ok(Said::default()),
        ServedSource::Script(script) => {
            return Ok(
                match lua_program_loader::proven(script, allowance, &ScriptSite::default()) {
                    Ok(proven) => Said { warnings: proven.warnings, ..Said::default() },
                    Err(failure) => {
                        add(at_path, format!("path: {}", reason(failure)));
                        Said::default()
                    }
                },
            );
        }
        ServedSource::Folder(folder) => folder,
    };
    if let Err(error) = fs::read_dir(folder) {
        let shown = folder.display();
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => "; let the user that runs Pinion read and enter it",
            _ => "",
        };
        let error = without_number(&error.to_string());
        add(at_path, format!("path: {shown} cannot be read: {error}{advice}"));
        return Ok(Said::default());
    }
    let content = &planned.settings.content;
    // Both report all of their faults.
    let keys_are_right =
        examine_globs(content, section, add) & examine_rules_files(content, section, add);
    match build_options::options(content, Options::serving) {
        Ok(options) if keys_are_right => examine_files(site, folder, &options),
        Ok(_) => Ok(Said::default()),
        Err(failure) => {
            add(section.place, reason(failure));
            Ok(Said::default())
        }
    }
}

/// Adds the faults of the keys that name files of rules and of fields; returns whether there are
/// none.
fn examine_rules_files(
    content: &BuildSettings,
    section: &TableSection,
    add: &mut impl FnMut(TextPlace, String),
) -> bool {
    let mut keys_are_right = true;
    for (key, files) in [("rules", &content.rules), ("fields", &content.fields)] {
        for (file, place) in files.iter().zip(section.places_of(key)) {
            let wrong = match fs::metadata(file) {
                Ok(metadata) if metadata.is_file() => continue,
                Ok(_) => "is not a file".to_owned(),
                Err(error) => format!("cannot be read: {}", without_number(&error.to_string())),
            };
            add(place, format!("{key}: {} {wrong}", file.display()));
            keys_are_right = false;
        }
    }
    keys_are_right
}

/// Looks at the files of a site. Its PHP scripts are run, unless they are left out on purpose.
fn examine_files(
    site: &ConfiguredSite,
    folder: &Path,
    options: &Options,
) -> Result<Said, Vec<ConfigFault>> {
    let settings = &site.planned.settings;
    let leaves_out_scripts = site.section.low.given("no-php");
    let mounts = if leaves_out_scripts { None } else { settings.planned_mounts() };
    examine_folder(folder, options, settings.lua.allowance, mounts.as_ref())
}

/// Adds the faults in the live folders of a site.
fn examine_live(site: &ConfiguredSite, add: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    let in_folder = match &planned.source {
        ServedSource::Folder(folder) => Some(folder.as_path()),
        _ => None,
    };
    for (folder, place) in planned.settings.live.iter().zip(section.places_of("live")) {
        if let Err(why) = LiveFiles::check(folder, in_folder) {
            add(place, format!("live: {why}"));
        }
    }
}

/// Checks that the rules of an archive leave something for the mount `/` of a site.
fn leaves_something(
    site: &ConfiguredSite,
    archive: &Path,
    add: &mut impl FnMut(TextPlace, String),
) {
    // An archive that cannot be opened is reported when its content is checked.
    if site.planned.settings.mounts.has_root_mount()
        && let Ok(file) = ArchiveFile::open(archive)
        && let Err(failure) = catch_all_rule::check(&file.view(), archive)
    {
        let reason = failure.reason().unwrap_or_default();
        add(site.section.place_of("path"), format!("path: {reason}"));
    }
}

/// Adds the faults in the patterns of a site; returns whether there are none.
fn examine_globs(
    content: &BuildSettings,
    section: &TableSection,
    add: &mut impl FnMut(TextPlace, String),
) -> bool {
    let mut are_right = true;
    let globs = [
        ("exclude", &content.exclude),
        ("include", &content.include),
        ("immutable", &content.immutable),
    ];
    for (key, globs) in globs {
        for (glob, place) in globs.iter().zip(section.places_of(key)) {
            if let Err(error) = Globs::new(std::slice::from_ref(glob)) {
                add(place, format!("{key}: {error}"));
                are_right = false;
            }
        }
    }
    are_right
}

/// Adds the faults in a certificate or its key; returns the certificate for warnings about it.
fn examine_certificate(
    section: &TableSection,
    add: &mut impl FnMut(TextPlace, String),
) -> Option<(CertificateFiles, Certificate)> {
    let cert = section.low.values("cert").next()?;
    let key = section.low.values("key").next().unwrap_or(cert);
    let files = CertificateFiles { cert: cert.into(), key: key.into() };
    match files.load() {
        Ok(certificate) => Some((files, certificate)),
        Err(bad) => {
            let name = if bad.file == files.cert { "cert" } else { "key" };
            add(section.place_of(name), format!("{name}: {bad}"));
            None
        }
    }
}

/// Warns about each host of a site that no certificate names: browsers refuse it over TLS.
fn hosts_without_certificate<'l>(
    sites: &'l [ConfiguredSite],
    certificates: &'l [Certificate],
    path: &'l Path,
) -> impl Iterator<Item = String> + 'l {
    let hosts = sites.iter().flat_map(|site| {
        let places = site.section.places_of("hosts");
        site.planned.settings.hosts.iter().map(HostPattern::to_string).zip(places)
    });
    let unnamed = hosts.filter(|(host, _)| !is_named(host, certificates.iter()));
    unnamed.map(|(host, place)| {
        let message = format!("hosts: no certificate names {host}; browsers refuse it over TLS");
        ConfigFault::at(path, place, message).to_string()
    })
}

/// Warns if no certificate names the host that redirects lead to.
fn unnamed_canonical_host(
    loaded: &LoadedFile,
    certificates: &[Certificate],
    path: &Path,
) -> Option<String> {
    let CanonicalHost { host, .. } = loaded.serve.as_ref()?.tls.canonical.as_ref()?;
    let place =
        loaded.server.as_ref().map_or(TextPlace::START, |server| server.place_of("canonical-host"));
    let message = format!("canonical-host: no certificate names {host}; browsers refuse it");
    let is_named = is_named(host, certificates.iter());
    (!is_named).then(|| ConfigFault::at(path, place, message).to_string())
}

/// Returns warnings about paths that were most likely not meant.
fn doubtful_paths(loaded: &LoadedFile, path: &Path) -> Vec<String> {
    let (Some(server), Some(serve)) = (&loaded.server, &loaded.serve) else { return Vec::new() };
    let webroot = serve.tls.acme_webroot.as_deref().and_then(path_warnings::of_acme_webroot);
    let webroot = webroot.map(|what| (server.place_of("acme-webroot"), "acme-webroot", what));
    let in_site = |log: &LogTarget| {
        path_warnings::of_log(log, loaded.sites.iter().map(|site| &site.planned.source))
    };
    let log = serve.access_log.as_ref().and_then(in_site);
    let log = log.map(|what| (server.place_of("access-log"), "access", what));
    let logs = loaded.sites.iter().filter_map(|site| {
        let (log, _) = site.planned.settings.access_log.as_ref()?;
        Some((site.section.place_of("site-access-log"), "access-log", in_site(log)?))
    });
    let scripts = loaded.sites.iter().flat_map(mount_checks::missing_no_exec);
    let warned = webroot.into_iter().chain(log).chain(logs).chain(scripts);
    let links = loaded.sites.iter().flat_map(live_folder_symlinks::warnings);
    warned
        .map(|(place, key, what)| {
            ConfigFault::at(path, place, format!("{key}: {what}")).to_string()
        })
        .chain(links)
        .collect()
}

/// Returns the reason why redirects have no host to lead to, if there are redirects. A fault in the
/// certificate is reported at its own table.
fn leads_nowhere(serve: &Serve) -> Option<&'static str> {
    if !serve.has(ListenKind::Redirect) || !serve.has(ListenKind::Tls) {
        return None;
    }
    let first = match &serve.tls.certificates {
        Certificates::Files(files) => Some(files.first()?.load().ok()?),
        Certificates::SelfSigned { .. } => None,
    };
    redirect_host(serve.tls.canonical.as_ref(), first.as_ref()).err()
}

/// Returns why a file cannot be made there, if it cannot.
fn no_folder(file: &Path) -> Option<String> {
    let folder = file.parent().filter(|folder| *folder != Path::new(""))?;
    (!folder.is_dir()).then(|| format!("there is no folder {}", folder.display()))
}
