//! Reads the value of each kind of directive. Every error is a phrase that follows the name of the
//! flag: `--grace 99999999 is out of bounds: 0 to 86400 seconds`.
//!
//! Values of HTTP are in [`http_values`], values of mounts in [`mount_values`], and names for Lua
//! scripts in [`script_resource_values`]. Numbers, sizes, times and names of the system are here.

pub(crate) mod http_values;
pub(crate) mod mount_values;
pub(crate) mod script_resource_values;

use crate::cidr_network::Network;
use crate::directives::Kind;
use crate::listen_address::Address;
use crate::server::mounts::MountPath;
use crate::settings::{LiveFolder, PythonApplicationFlag, ScriptFolderFlag, SentFolder};
use pinion_builder::{CodingEffort, CodingsFor, NamedCoding};
use pinion_client::certificate_pin::{CertificatePin, PinError};
use pinion_client::ip_network::{IpNetwork, IpNetworkError};
use pinion_gateway::upstream::UpstreamProtocol;
use pinion_spawner::limits::NAME_MAX_BYTES;
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

/// Checks the name of a program in the log.
fn program_name(text: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=NAME_MAX_BYTES).contains(&text.len());
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
        Kind::CanonicalHost => http_values::canonical_host(text).map(drop),
        Kind::Choice(_) => choice(kind, text).map(drop),
        Kind::Codings => codings(text).map(drop),
        Kind::GlobCodings => codings_for(text, CodingEffort::Best).map(drop),
        Kind::Duration { .. } => duration(kind, text).map(drop),
        Kind::FieldValue => http_values::field_value(text).map(drop),
        Kind::Header => http_values::header(text).map(drop),
        Kind::Method => http_values::method(text),
        Kind::Host => http_values::host(text).map(drop),
        Kind::AltSvc => http_values::alt_svc(text).map(drop),
        Kind::Hsts => http_values::hsts(text).map(drop),
        Kind::Protocols => http_values::protocols(text).map(drop),
        Kind::UrlPath => http_values::url_path(text).map(drop),
        Kind::CertificatePin => certificate_pin(text).map(drop),
        Kind::IpNetwork => ip_network(text).map(drop),
        Kind::LiveFolder => LiveFolder::parse(text).map(drop),
        Kind::SentFolder => SentFolder::parse(text).map(drop),
        Kind::LuaFolder => script_resource_values::lua_folder(text).map(drop),
        Kind::Secret => script_resource_values::secret(text).map(drop),
        Kind::Program => script_resource_values::lua_program(text).map(drop),
        Kind::Balance => mount_values::balance(text).map(drop),
        Kind::MountPath => MountPath::parse(text).map(drop),
        Kind::ServerName => mount_values::server_name(text),
        Kind::UpstreamHost => mount_values::upstream_host(text).map(drop),
        Kind::Rate => rate(text).map(drop),
        Kind::Origin => http_values::origin(text).map(drop),
        Kind::ScriptFolder => ScriptFolderFlag::parse(text).map(drop),
        Kind::StorePages => mount_values::store_pages(text).map(drop),
        Kind::PythonApplication => PythonApplicationFlag::parse(text).map(drop),
        Kind::Upstream => mount_values::proxy_mount(text).map(drop),
        Kind::UpstreamUrl => mount_values::upstream(text).map(drop),
        Kind::Application => mount_values::application(text, UpstreamProtocol::Scgi).map(drop),
        Kind::FieldName => http_values::field_name(text).map(drop),
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
}
