//! Checks everything that a configuration file names, without starting anything, and reports at
//! once all errors that a start would meet.

use super::access_log_conflicts;
use super::fault::{ConfigFault, TextPlace};
use super::live_folder_symlinks;
use super::mount_checks;
use super::password_file_checks;
use super::server_plan_builder::{ConfiguredSite, LoadedFile};
use super::site_content_checks::CheckNotes;
use super::site_path_checks;
use super::table_conflicts::address_of;
use super::tables::TableSection;
use crate::certificate_files::{client_authorities, is_named, redirect_host};
use crate::directives::{self, Directive};
use crate::listen_address::Address;
use crate::path_warnings;
use crate::settings::{
    CanonicalHost, CertificateFiles, Certificates, ListenKind, LogTarget, Serve,
};
use pinion_engine::tls::certificate::Certificate;
use pinion_site::host_selection::HostPattern;
use std::collections::HashSet;
use std::path::Path;

/// Adds the faults in the files and folders that `loaded` names; `path` is its file.
pub(crate) fn examine(loaded: &mut LoadedFile, path: &Path) {
    let (mut found, mut below, mut said) = (Vec::new(), Vec::new(), CheckNotes::default());
    let mut known = HashSet::new();
    let mut add =
        |place: TextPlace, message: String| found.push(ConfigFault::at(path, place, message));
    for site in &loaded.sites {
        match site_path_checks::check_site(site, &mut add) {
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
    let webroot = webroot.map(|problem| (server.place_of("acme-webroot"), "acme-webroot", problem));
    let in_site = |log: &LogTarget| {
        path_warnings::of_log(log, loaded.sites.iter().map(|site| &site.planned.source))
    };
    let log = serve.access_log.as_ref().and_then(in_site);
    let log = log.map(|problem| (server.place_of("access-log"), "access", problem));
    let logs = loaded.sites.iter().filter_map(|site| {
        let (log, _) = site.planned.settings.access_log.as_ref()?;
        Some((site.section.place_of("site-access-log"), "access-log", in_site(log)?))
    });
    let scripts = loaded.sites.iter().flat_map(mount_checks::missing_no_exec);
    let warned = webroot.into_iter().chain(log).chain(logs).chain(scripts);
    let links = loaded.sites.iter().flat_map(live_folder_symlinks::warnings);
    warned
        .map(|(place, key, problem)| {
            ConfigFault::at(path, place, format!("{key}: {problem}")).to_string()
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
