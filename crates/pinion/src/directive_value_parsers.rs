//! Reads the value of each kind of directive. Every error is a phrase that follows the name of the
//! flag: `--grace 99999999 is out of bounds: 0 to 86400 seconds`.

use crate::cidr_network::Network;
use crate::directives::Kind;
use crate::listen_address::Address;
use crate::server::mounts::MountPath;
use crate::settings::{
    AltSvc, CanonicalHost, LiveFolder, PythonApplicationFlag, ScriptFolderFlag, SentFolder, Spoken,
};
use crate::settings::{ProgramFile, SecretFile};
use pinion_builder::{CodingEffort, CodingsFor, NamedCoding};
use pinion_client::certificate_pin::{CertificatePin, PinError};
use pinion_client::client_tls::ServerTrust;
use pinion_client::ip_network::{IpNetwork, IpNetworkError};
use pinion_client::lazy_client_tls::LazyClientTls;
use pinion_engine::settings::Protocols;
use pinion_gateway::balancing::Balance;
use pinion_gateway::path_prefix::PathPrefix;
use pinion_gateway::upstream::{Upstream, UpstreamHost, UpstreamProtocol};
use pinion_http::grammar::{is_token, is_value_byte};
use pinion_http::host;
use pinion_jobs::confined_folders::FolderAt;
use pinion_site::host_selection::HostPattern;
use pinion_spawner::limits::NAME_MAX_BYTES as NAME_MAX_BYTES_OF_PROGRAM;
use std::time::Duration;

/// Reads a whole number between `min` and `max`.
pub(crate) fn number(kind: &Kind, text: &str) -> Result<u64, String> {
    let Kind::Number { min, max, unit } = *kind else {
        return Err("is not counted".to_owned());
    };
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(match whole_number(unit) {
            Some(needed) => format!("{text:?} is not valid; write {needed} ({min} to {max})"),
            None => format!("{text:?} is not a whole number: {}", kind.bounds()),
        });
    }
    // Digits alone fail to parse only when there are too many of them.
    let value = text.parse().unwrap_or(u64::MAX);
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{text} is out of bounds: {}", kind.bounds()))
    }
}

/// Returns how a number of a unit is written; none for a bare count.
pub(crate) fn whole_number(unit: &str) -> Option<String> {
    (!unit.is_empty()).then(|| format!("a whole number of {unit}, without a unit"))
}

/// Reads one of the words of a choice; returns it as the table has it.
pub(crate) fn choice(kind: &Kind, text: &str) -> Result<&'static str, String> {
    let Kind::Choice(words) = *kind else {
        return Err("is not a choice".to_owned());
    };
    let known = words.iter().find(|word| **word == text).copied();
    known.ok_or_else(|| format!("{text:?} is none of: {}", kind.bounds()))
}

/// Reads `gzip,br:11`, or `identity` for none.
pub(crate) fn codings(text: &str) -> Result<Vec<NamedCoding>, String> {
    if text.is_empty() {
        return Err(format!("is empty: {}", Kind::Codings.bounds()));
    }
    pinion_builder::parse_codings(text).map_err(|error| error.to_string())
}

/// Reads `*.svg=br:11`: a pattern and the codings of the paths that it matches.
pub(crate) fn codings_for(text: &str, level: CodingEffort) -> Result<CodingsFor, String> {
    CodingsFor::parse(text, level).map_err(|error| error.to_string())
}

/// Reads a field value without anything that could end the field or start another one.
pub(crate) fn field_value(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the value is empty; give one".to_owned());
    }
    let visible = text.bytes().all(|b| (0x20..0x7f).contains(&b));
    if !visible || text.trim() != text {
        return Err(format!("{text:?} is not a header value: visible ASCII, no space at the ends"));
    }
    Ok(text.to_owned())
}

/// Reads the path of a request as clients send it, with nothing after it.
pub(crate) fn url_path(text: &str) -> Result<String, String> {
    let sent = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
    if !text.starts_with('/') || !text.bytes().all(sent) {
        return Err(format!("{text:?} is not a path of a URL: /healthz is one"));
    }
    Ok(text.to_owned())
}

/// Reads `example.org`, or `*.example.org` for all below.
pub(crate) fn host(text: &str) -> Result<HostPattern, String> {
    HostPattern::parse(text).map_err(|error| format!("{text:?} {error}"))
}

/// Reads `example.org`, `example.org:8443`: the host at which everything of a server is to be
/// found.
pub(crate) fn canonical_host(text: &str) -> Result<CanonicalHost, String> {
    let wrong = || format!("{text:?} is not a host: write example.org or example.org:8443");
    let split = host::split(text.as_bytes()).map_err(|_| wrong())?;
    let name = std::str::from_utf8(split.without_dot()).map_err(|_| wrong())?;
    HostPattern::parse(name).map_err(|_| wrong())?;
    if name.contains('*') || text.ends_with(':') || split.port == Some(0) {
        return Err(wrong());
    }
    Ok(CanonicalHost { host: name.to_ascii_lowercase(), port: split.port })
}

/// Reads `h1,h2,h3`: the protocols that clients of a listener may speak.
pub(crate) fn protocols(text: &str) -> Result<Spoken, String> {
    let mut spoken = Spoken { tcp: Protocols { http1: false, http2: false }, http3: false };
    for word in text.split(',') {
        let known = match word.trim() {
            "h1" => &mut spoken.tcp.http1,
            "h2" => &mut spoken.tcp.http2,
            "h3" => &mut spoken.http3,
            _ => return Err(format!("{word:?} is none of: {}", Kind::Protocols.bounds())),
        };
        if std::mem::replace(known, true) {
            return Err(format!("{word:?} is given twice"));
        }
    }
    Ok(spoken)
}

/// Reads a value of `Alt-Svc` (RFC 7838 §3), or `off`.
pub(crate) fn alt_svc(text: &str) -> Result<AltSvc, String> {
    if text == "off" {
        return Ok(AltSvc::Off);
    }
    let value = field_value(text)?;
    if text != "clear" && !text.contains('=') {
        return Err(format!("{text:?} names no service: write h3=\":443\"; ma=86400, or off"));
    }
    Ok(AltSvc::Value(value))
}

/// Reads the value of `Strict-Transport-Security` (RFC 6797 §6.1); `None` for `off`.
pub(crate) fn hsts(text: &str) -> Result<Option<String>, String> {
    /// The minimum of the preload lists of browsers.
    const PRELOAD_MIN_SECONDS: u64 = 31_536_000;
    if text == "off" {
        return Ok(None);
    }
    let mut words = text.split(',').map(str::trim);
    let age = words.next().unwrap_or_default();
    let whole = parse_duration(age).filter(|_| !age.ends_with("ms"));
    let whole =
        whole.ok_or_else(|| format!("{age:?} is not a duration: {}", Kind::Hsts.bounds()))?;
    let seconds = whole.as_secs();
    let mut value = format!("max-age={seconds}");
    match (words.next(), words.next(), words.next()) {
        (None, _, _) => {}
        (Some("subdomains"), None, _) => value.push_str("; includeSubDomains"),
        (Some("subdomains"), Some("preload"), None) if seconds >= PRELOAD_MIN_SECONDS => {
            value.push_str("; includeSubDomains; preload");
        }
        (Some("subdomains"), Some("preload"), None) => {
            return Err("preload needs a year or more: 1y,subdomains,preload".to_owned());
        }
        _ => return Err(format!("{text:?} is none of: {}", Kind::Hsts.bounds())),
    }
    Ok(Some(value))
}

/// Most bytes of the name of a folder or a secret: scripts write it again and again.
const NAME_MAX_BYTES: usize = 64;

/// Checks a name that scripts have for something.
fn check_name(name: &str) -> Result<(), String> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.is_empty() || name.len() > NAME_MAX_BYTES || !name.bytes().all(is_fine) {
        return Err(format!("{name:?} is not a valid name: letters, digits, - and _, at most 64"));
    }
    Ok(())
}

/// Reads `data=/srv/data`, or `data=/srv/data:ro` for one that is only read.
pub(crate) fn lua_folder(text: &str) -> Result<FolderAt, String> {
    let Some((name, path)) = text.split_once('=') else {
        return Err(format!("{text:?} has no =: {}", Kind::LuaFolder.bounds()));
    };
    check_name(name)?;
    let (path, is_read_only) = match path.strip_suffix(":ro") {
        Some(path) => (path, true),
        None => (path, false),
    };
    if path.is_empty() || path.contains('\0') {
        return Err(format!("{text:?} names no folder: {}", Kind::LuaFolder.bounds()));
    }
    Ok(FolderAt { name: name.to_owned(), path: path.into(), is_read_only })
}

/// Reads `token=/etc/pinion/token`.
pub(crate) fn secret(text: &str) -> Result<SecretFile, String> {
    let Some((name, path)) = text.split_once('=') else {
        return Err(format!("{text:?} has no =: {}", Kind::Secret.bounds()));
    };
    check_name(name)?;
    if path.is_empty() || path.contains('\0') {
        return Err(format!("{text:?} names no file: {}", Kind::Secret.bounds()));
    }
    Ok(SecretFile { name: name.to_owned(), path: path.into() })
}

/// Reads `convert=/usr/bin/convert`: the name of a program in scripts, and its path.
pub(crate) fn lua_program(text: &str) -> Result<ProgramFile, String> {
    let Some((name, path)) = text.split_once('=') else {
        return Err(format!("{text:?} has no =: {}", Kind::Program.bounds()));
    };
    check_name(name)?;
    if !path.starts_with('/') || path.contains('\0') {
        return Err(format!("{path:?} is not an absolute path: {}", Kind::Program.bounds()));
    }
    Ok(ProgramFile { name: name.to_owned(), path: path.into() })
}

/// Reads `http://127.0.0.1:3000` or `/api=http://127.0.0.1:3000`: the forwarded path, and the
/// server.
pub(crate) fn proxy_mount(text: &str) -> Result<(MountPath, Upstream), String> {
    let (path, url) = match text.split_once('=') {
        Some((path, url)) if path.starts_with('/') => (path, url),
        _ => ("/", text),
    };
    let upstream = upstream(url)?;
    url_path(path)?;
    Ok((MountPath::Prefix(PathPrefix::new(path)), upstream))
}

/// Reads the path of pages of the store, and the prefix of their keys.
pub(crate) fn store_pages(text: &str) -> Result<(PathPrefix, String), String> {
    let (path, prefix) = match text.split_once('=') {
        Some((path, prefix)) if path.starts_with('/') => (path, prefix),
        _ => ("/", text),
    };
    match MountPath::parse(path)? {
        MountPath::Prefix(path) => Ok((path, prefix.to_owned())),
        MountPath::Suffix(_) => Err(format!("{path:?} is an extension; write a path")),
    }
}

/// Reads the URL of a server that requests are forwarded to.
pub(crate) fn upstream(url: &str) -> Result<Upstream, String> {
    Upstream::parse(url).map_err(|error| {
        if url.contains(':') {
            error.to_string()
        } else {
            format!("{url:?} is no URL: {}", Kind::UpstreamUrl.bounds())
        }
    })
}

/// Reads the address of an application that speaks FastCGI or SCGI.
pub(crate) fn application(text: &str, protocol: UpstreamProtocol) -> Result<Upstream, String> {
    Upstream::parse_application(text, protocol).map_err(|error| format!("{text:?}: {error}"))
}

/// Reads the host that a server is asked for.
pub(crate) fn upstream_host(text: &str) -> Result<UpstreamHost, String> {
    let wrong = || format!("{text:?} is none of: {}", Kind::UpstreamHost.bounds());
    Ok(match text {
        "client" => UpstreamHost::Client,
        "upstream" => UpstreamHost::Upstream,
        name => {
            let split = host::split(name.as_bytes()).map_err(|_| wrong())?;
            let is_whole = !name.ends_with(':') && split.port != Some(0);
            if !is_whole || split.without_dot().is_empty() {
                return Err(wrong());
            }
            UpstreamHost::Fixed(name.into())
        }
    })
}

/// Reads how requests are distributed over several servers.
pub(crate) fn balance(text: &str) -> Result<Balance, String> {
    match text.split_once(':') {
        None if text == "least-connections" => Ok(Balance::LeastConnections),
        None if text == "client-hash" => Ok(Balance::ClientHash),
        Some(("header-hash", name)) if is_token(name.as_bytes()) => {
            Ok(Balance::HeaderHash(name.into()))
        }
        _ => Err(format!("{text:?} is none of: {}", Kind::Balance.bounds())),
    }
}

/// Checks the name of a server in its certificate.
fn server_name(text: &str) -> Result<(), String> {
    let named = LazyClientTls::new(ServerTrust::SystemRoots, &[]).with_server_name(text);
    named.map(drop).map_err(|error| error.to_string())
}

/// Reads the name of a field.
pub(crate) fn field_name(text: &str) -> Result<String, String> {
    if is_token(text.as_bytes()) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not the name of a header: {}", Kind::FieldName.bounds()))
    }
}

/// Checks the name of a program in the log.
fn program_name(text: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=NAME_MAX_BYTES_OF_PROGRAM).contains(&text.len());
    if is_name && text.bytes().all(is_allowed) {
        Ok(())
    } else {
        Err(format!("{text:?} is not a valid name: {}", Kind::ProgramName.bounds()))
    }
}

/// Checks a user or a group.
fn account(text: &str) -> Result<(), String> {
    let is_allowed = |c: char| !c.is_control() && !c.is_whitespace() && c != ':';
    if !text.is_empty() && text.chars().all(is_allowed) {
        Ok(())
    } else {
        Err(format!("{text:?} is neither a name nor a number: {}", Kind::Account.bounds()))
    }
}

/// Checks a path that begins with a slash.
fn absolute_path(text: &str) -> Result<(), String> {
    if text.starts_with('/') && !text.contains('\0') {
        Ok(())
    } else {
        Err(format!("{text:?} is not an absolute path: begin it with /"))
    }
}

/// Reads a number from -20 to 19.
pub(crate) fn nice(text: &str) -> Result<i8, String> {
    let value = text.parse().ok().filter(|value| (-20..=19).contains(value));
    value.ok_or_else(|| format!("{text} is out of bounds: {}", Kind::Nice.bounds()))
}

/// Reads `512M`: a number of bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size: {}", Kind::Size.bounds());
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let count: u64 = count.parse().map_err(|_| wrong())?;
    let bytes = count.checked_mul(1 << shift).filter(|bytes| (1..u64::MAX).contains(bytes));
    bytes.ok_or_else(|| format!("{text} is out of bounds: 1 byte to {}T", u64::MAX >> 40))
}

/// Reads `wp-content/uploads`: a folder below that of the site. Returns it without a slash at its
/// end.
pub(crate) fn site_folder(text: &str) -> Result<&str, String> {
    let folder = text.strip_suffix('/').unwrap_or(text);
    let is_wrong = |name: &str| matches!(name, "" | "." | "..") || name.contains('\0');
    if folder.split('/').any(is_wrong) {
        Err(format!("{text:?} is no folder of the site: {}", Kind::SiteFolder.bounds()))
    } else {
        Ok(folder)
    }
}

/// Reads `LANG=C.UTF-8`: a variable and its value.
pub(crate) fn variable(text: &str) -> Result<(&str, &str), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !text.contains('\0') => Ok((name, value)),
        _ => Err(format!("{text:?} is not a variable: {}", Kind::Variable.bounds())),
    }
}

/// Reads `10.0.0.0/8`, or one address.
pub(crate) fn ip_network(text: &str) -> Result<IpNetwork, String> {
    text.parse().map_err(|error: IpNetworkError| error.to_string())
}

/// Reads the hash of a certificate or of a public key.
pub(crate) fn certificate_pin(text: &str) -> Result<CertificatePin, String> {
    text.parse().map_err(|error: PinError| error.to_string())
}

/// Reads a duration between `min` and `max`.
pub(crate) fn duration(kind: &Kind, text: &str) -> Result<Duration, String> {
    let Kind::Duration { min, max } = *kind else {
        return Err("takes no time".to_owned());
    };
    let given = parse_duration(text);
    let given = given.ok_or_else(|| format!("{text:?} is not a duration: {}", kind.bounds()))?;
    if parse_duration(min) <= Some(given) && Some(given) <= parse_duration(max) {
        Ok(given)
    } else {
        Err(format!("{text} is out of bounds: {}", kind.bounds()))
    }
}

/// Reads `500ms`, `90s`, `5m`, `12h`, `30d`, `4w`, `1y`.
fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at_checked(digits)?;
    let count = u64::from(count.parse::<u32>().ok()?);
    let seconds = match unit {
        "ms" => return Some(Duration::from_millis(count)),
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "y" => 365 * 86_400,
        _ => return None,
    };
    count.checked_mul(seconds).map(Duration::from_secs)
}

/// Splits a header of a request into name and value.
///
/// # Errors
/// A phrase that names the fault.
pub(crate) fn header(text: &str) -> Result<(&str, &str), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("{text:?} has no colon: write 'Accept-Encoding: br'"))?;
    let value = value.trim_matches([' ', '\t']);
    if !is_token(name.as_bytes()) {
        return Err(format!("{name:?} is not a valid name of a header"));
    }
    if value.bytes().all(is_value_byte) {
        Ok((name, value))
    } else {
        Err(format!("{value:?} is not a valid value of a header"))
    }
}

/// Checks that `text` is a method.
///
/// # Errors
/// A phrase that names the fault.
pub(crate) fn method(text: &str) -> Result<(), String> {
    if is_token(text.as_bytes()) {
        Ok(())
    } else {
        Err(format!("{text:?} is not a method: {}", Kind::Method.bounds()))
    }
}

/// Reads a number of requests in a time, and that time in nanoseconds: `10/s`, `100/min`, `1000/h`.
pub(crate) fn rate(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("{text:?} is not a rate: {}", Kind::Rate.bounds());
    let (count, period) = text.split_once('/').ok_or_else(wrong)?;
    let period_seconds = match period.trim() {
        "s" | "second" => 1,
        "min" | "m" | "minute" => 60,
        "h" | "hour" => 3600,
        _ => return Err(wrong()),
    };
    let count = count.trim();
    let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let count = count.parse().ok().filter(|count| is_number && (1..=1_000_000).contains(count));
    Ok((count.ok_or_else(wrong)?, period_seconds * 1_000_000_000))
}

/// Reads an origin of web pages, in the form that browsers send (RFC 6454 §6.2): scheme, host, and
/// the port if it is not that of the scheme.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    let wrong = || format!("{text:?} is not an origin: {}", Kind::Origin.bounds());
    let (scheme, authority) = text.split_once("://").ok_or_else(wrong)?;
    let own_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return Err(wrong()),
    };
    if let Some(front) = authority.strip_suffix('/') {
        return Err(format!("{text:?}: an origin has no path; write {scheme}://{front}"));
    }
    let split = host::split(authority.as_bytes()).map_err(|_| wrong())?;
    if split.port == Some(own_port) || authority.ends_with(':') {
        let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
        return Err(format!("{text:?}: browsers leave this port out; write {scheme}://{name}"));
    }
    if authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
        let lower = authority.to_ascii_lowercase();
        return Err(format!("{text:?}: browsers write small letters; write {scheme}://{lower}"));
    }
    let is_host = !authority.is_empty() && !authority.contains(['*', '@', '%']);
    if is_host { Ok(text.to_owned()) } else { Err(wrong()) }
}

/// Checks that `text` is a value of this kind.
pub(crate) fn check(kind: &Kind, text: &str) -> Result<(), String> {
    match kind {
        Kind::AbsolutePath => absolute_path(text),
        Kind::Account => account(text),
        Kind::Argument if text.contains('\0') => Err("has a NUL byte; leave it out".to_owned()),
        Kind::Argument => Ok(()),
        Kind::Nice => nice(text).map(drop),
        Kind::ProgramName => program_name(text),
        Kind::Size => size(text).map(drop),
        Kind::Variable => variable(text).map(drop),
        Kind::Address => Address::parse(text).map(drop),
        Kind::CanonicalHost => canonical_host(text).map(drop),
        Kind::Choice(_) => choice(kind, text).map(drop),
        Kind::Codings => codings(text).map(drop),
        Kind::GlobCodings => codings_for(text, CodingEffort::Best).map(drop),
        Kind::Duration { .. } => duration(kind, text).map(drop),
        Kind::FieldValue => field_value(text).map(drop),
        Kind::Header => header(text).map(drop),
        Kind::Method => method(text),
        Kind::Host => host(text).map(drop),
        Kind::AltSvc => alt_svc(text).map(drop),
        Kind::Hsts => hsts(text).map(drop),
        Kind::Protocols => protocols(text).map(drop),
        Kind::UrlPath => url_path(text).map(drop),
        Kind::CertificatePin => certificate_pin(text).map(drop),
        Kind::IpNetwork => ip_network(text).map(drop),
        Kind::LiveFolder => LiveFolder::parse(text).map(drop),
        Kind::SentFolder => SentFolder::parse(text).map(drop),
        Kind::LuaFolder => lua_folder(text).map(drop),
        Kind::Secret => secret(text).map(drop),
        Kind::Program => lua_program(text).map(drop),
        Kind::Balance => balance(text).map(drop),
        Kind::MountPath => MountPath::parse(text).map(drop),
        Kind::ServerName => server_name(text),
        Kind::UpstreamHost => upstream_host(text).map(drop),
        Kind::Rate => rate(text).map(drop),
        Kind::Origin => origin(text).map(drop),
        Kind::ScriptFolder => ScriptFolderFlag::parse(text).map(drop),
        Kind::StorePages => store_pages(text).map(drop),
        Kind::PythonApplication => PythonApplicationFlag::parse(text).map(drop),
        Kind::Upstream => proxy_mount(text).map(drop),
        Kind::UpstreamUrl => upstream(text).map(drop),
        Kind::Application => application(text, UpstreamProtocol::Scgi).map(drop),
        Kind::FieldName => field_name(text).map(drop),
        Kind::Network => Network::parse(text).map(drop),
        Kind::Number { .. } => number(kind, text).map(drop),
        Kind::Glob if text.is_empty() => Err("the pattern is empty; give one".to_owned()),
        Kind::Folder | Kind::Path | Kind::SiteFile if text.is_empty() => {
            Err("the path is empty; give one".to_owned())
        }
        Kind::SiteFolder => site_folder(text).map(drop),
        Kind::Folder | Kind::Glob | Kind::Path | Kind::SiteFile => Ok(()),
        Kind::Switch => Err("takes no value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_builder::Method;

    const SECONDS: Kind = Kind::Number { min: 1, max: 60, unit: "seconds" };

    #[test]
    fn numbers_keep_their_bounds() {
        assert_eq!(number(&SECONDS, "1"), Ok(1));
        assert_eq!(number(&SECONDS, "60"), Ok(60));
        for text in ["0", "61", "99999999999999999999999"] {
            let error = number(&SECONDS, text).expect_err(text);
            assert!(error.contains("out of bounds: 1 to 60 seconds"), "{error}");
        }
        for text in ["", "+1", "-1", "1s", " 1", "0x1", "1.5"] {
            assert!(number(&SECONDS, text).expect_err(text).contains("whole number"));
        }
    }

    #[test]
    fn a_folder_of_the_site_is_below_it() {
        for (text, expected) in [("a", "a"), ("a/b.c/", "a/b.c"), (".well-known", ".well-known")] {
            assert_eq!(site_folder(text), Ok(expected));
        }
        for text in ["", "/", "/etc", ".", "..", "a/../b", "../a", "a//b", "./a", "a/.", "a\0"] {
            assert!(site_folder(text).is_err_and(|why| why.contains("no folder")), "{text:?}");
        }
    }

    #[test]
    fn the_bounds_of_codings_are_those_of_the_build() {
        for method in Method::ALL {
            let (text, levels) = (method.name(), method.levels());
            let (low, high) = (*levels.start(), *levels.end());
            assert!(Kind::Codings.bounds().contains(&format!("{text}[:{low}-{high}]")));
            for level in levels {
                assert!(codings(&format!("{text}:{level}")).is_ok());
            }
            assert!(codings(&format!("{text}:{}", high + 1)).is_err());
        }
        assert_eq!(codings("identity"), Ok(Vec::new()));
        assert!(codings("").is_err() && codings("lzma").is_err() && codings("br,br").is_err());
        let text = |text: &str| codings_for(text, CodingEffort::Max).map(|rule| rule.to_string());
        assert_eq!(text("*.svg=zopfli,br:9").as_deref(), Ok("*.svg=zopfli:15,br:9"));
        assert!(text("*.svg").is_err() && text("a[=br").is_err());
    }

    #[test]
    fn a_time_for_browsers_is_a_field_value() {
        let value = |text| hsts(text).map(Option::unwrap_or_default);
        for (text, expected) in [
            ("off", ""),
            ("0s", "max-age=0"),
            ("2h", "max-age=7200"),
            ("1y", "max-age=31536000"),
            ("52w,subdomains", "max-age=31449600; includeSubDomains"),
            ("1y,subdomains,preload", "max-age=31536000; includeSubDomains; preload"),
        ] {
            assert_eq!(value(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "y",
            "1",
            "+1y",
            "1 y",
            "-1d",
            "4294967296s",
            "1000ms",
            "1y,preload",
            "1y,subdomains,x",
            "364d,subdomains,preload",
            "1y,subdomains,preload,",
            "on",
            "\u{fc}",
        ] {
            assert!(hsts(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_duration_has_a_unit_and_keeps_its_bounds() {
        let kind = Kind::Duration { min: "1ms", max: "60s" };
        for (text, millis) in
            [("1ms", 1), ("500ms", 500), ("2s", 2000), ("1m", 60_000), ("60000ms", 60_000)]
        {
            assert_eq!(duration(&kind, text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["0ms", "61s", "60001ms", "1y", "4294967295y"] {
            let error = duration(&kind, text).expect_err(text);
            assert!(error.contains("out of bounds: 1ms to 60s"), "{error}");
        }
        for text in ["", "60", "ms", "+1s", "1.5s", "1 s", "1S", "1s1s", "4294967296ms", "1\u{fc}"]
        {
            assert!(duration(&kind, text).expect_err(text).contains("is not a duration"), "{text}");
        }
    }

    #[test]
    fn a_canonical_host_is_one_host() {
        let shown = |text| canonical_host(text).map(|found| (found.host, found.port));
        assert_eq!(shown("Example.org."), Ok(("example.org".to_owned(), None)));
        assert_eq!(shown("a.org:8443"), Ok(("a.org".to_owned(), Some(8443))));
        assert_eq!(shown("[::1]:1"), Ok(("[::1]".to_owned(), Some(1))));
        for text in ["", "*.a.org", "a.org:", "a.org:0", "a.org:65536", "https://a", "a/b", "a b"] {
            assert!(canonical_host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_of_protocols_names_each_once() {
        let spoken = |http1, http2, http3| Spoken { tcp: Protocols { http1, http2 }, http3 };
        assert_eq!(protocols("h2,h1, h3"), Ok(Spoken::ALL));
        assert_eq!(protocols("h1"), Ok(spoken(true, false, false)));
        assert_eq!(protocols("h2"), Ok(spoken(false, true, false)));
        assert_eq!(protocols("h3"), Ok(spoken(false, false, true)));
        for text in ["", "h1,", "h1,h1", "H1", "http/1.1"] {
            assert!(protocols(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_field_value_cannot_start_another_field() {
        assert!(field_value("public, max-age=60").is_ok());
        for text in ["", " a", "a ", "a\r\nSet-Cookie: b", "a\0", "ä"] {
            assert!(field_value(text).is_err(), "{text:?}");
        }
    }
}
