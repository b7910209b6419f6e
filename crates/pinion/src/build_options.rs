//! The flags about content as the build room takes them.

use crate::failure::Failure;
use crate::settings::BuildSettings;
use crate::timestamp_format;
use anyhow::anyhow;
use pinion_builder::{BuildError, Occupant, Options};
use pinion_http::date::UnixSeconds;
use std::time::SystemTime;

/// Returns the options of one build. `defaults` is [`Options::new`] or [`Options::serving`].
///
/// # Errors
/// [`Failure::Usage`] for a `SOURCE_DATE_EPOCH` that is no number.
pub(crate) fn options(
    content: &BuildSettings,
    defaults: fn(UnixSeconds) -> Options,
) -> Result<Options, Failure> {
    let defaults = defaults(timestamp_format::unix_seconds(SystemTime::now()));
    Ok(Options {
        codings: content.codings.clone().unwrap_or(defaults.codings),
        codings_for: content.codings_for.clone(),
        exclude: content.exclude.clone(),
        include: content.include.clone(),
        live: content.live.clone(),
        immutable: content.immutable.clone(),
        compat_80s: content.compat_80s,
        rules: content.rules.clone(),
        fields: content.fields.clone(),
        lax_rules: content.lax_rules,
        hosts: content.hosts.clone(),
        keep_going: content.keep_going,
        threads: content.jobs,
        source_date_epoch: source_date_epoch(std::env::var("SOURCE_DATE_EPOCH").ok().as_deref())?,
        cache_control: content.cache_control.clone(),
        security_fields: !content.no_security_fields,
        index: !content.no_index,
        clean_urls: !content.no_clean_urls,
        listings: content.listing,
        slash_redirects: !content.no_slash_redirects,
        etags: !content.no_etag,
        cache_control_field: !content.no_cache_control,
        single_page: content.single_page.clone(),
        has_fallback_server: content.has_fallback_server,
        ..defaults
    })
}

/// Returns the failure of a build, by its kind: a wrong pattern is a wrong command line.
pub(crate) fn failure(error: BuildError) -> Failure {
    match error {
        BuildError::Problems(problems) => Failure::UnusableFiles(problems),
        BuildError::Cancelled => anyhow!("cancelled; nothing was written").into(),
        BuildError::Occupied { by: Occupant::OtherFile, .. } => {
            anyhow!("{error}; give another name with -o, or replace it with --force").into()
        }
        BuildError::Occupied { .. } => anyhow!("{error}; give another name with -o").into(),
        BuildError::Glob { option, message } => Failure::usage(format!("--{option}: {message}")),
        BuildError::Rules(errors) => Failure::InvalidRules(errors),
        BuildError::UnreadRules(problems) => Failure::UnreadableRules(problems),
        BuildError::Code(errors) => Failure::InvalidCode(errors),
        BuildError::SinglePage(_) => Failure::usage(format!("--single-page: {error}")),
        BuildError::FieldValue { .. } => Failure::usage(error.to_string()),
        error => anyhow!(error).into(),
    }
}

/// Reads `SOURCE_DATE_EPOCH` (<https://reproducible-builds.org/specs/source-date-epoch/>): seconds
/// since 1970.
fn source_date_epoch(value: Option<&str>) -> Result<Option<UnixSeconds>, Failure> {
    match value {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            Failure::usage(format!(
                "SOURCE_DATE_EPOCH is {text:?}; it has to be seconds since 1970"
            ))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_override_defaults() {
        let serving = options(&BuildSettings::default(), Options::serving).expect("options");
        assert_eq!(serving.codings, Options::serving(0).codings);
        assert!(serving.security_fields && serving.external_min_bytes.is_some());
        let content = BuildSettings {
            codings: Some(Vec::new()),
            exclude: vec!["*.psd".to_owned()],
            cache_control: Some("no-cache".to_owned()),
            no_security_fields: true,
            no_index: true,
            listing: true,
            ..BuildSettings::default()
        };
        let building = options(&content, Options::new).expect("options");
        assert!(building.codings.is_empty() && !building.security_fields);
        assert!(!building.index && building.clean_urls && building.listings);
        assert_eq!(building.exclude, ["*.psd"]);
        assert_eq!(building.cache_control.as_deref(), Some("no-cache"));
        assert_eq!(building.external_min_bytes, None);
    }

    #[test]
    fn the_epoch_is_a_number_or_nothing() {
        assert!(matches!(source_date_epoch(None), Ok(None)));
        assert!(matches!(source_date_epoch(Some("")), Ok(None)));
        assert!(matches!(source_date_epoch(Some("1700000000")), Ok(Some(1_700_000_000))));
        assert!(matches!(source_date_epoch(Some("today")), Err(Failure::Usage(_))));
    }
}
