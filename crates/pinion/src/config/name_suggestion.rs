//! The name that was probably meant.

use strsim::osa_distance;

/// The longest name that can be a typing error, in bytes.
const NAME_MAX_BYTES: usize = 64;

/// The most steps from a name to its beginning: a slip in a whole name is nearer.
const START_STEPS_MAX: usize = 2;

/// Returns the nearest of `names`, if it is near: at most a third of its letters are others.
pub(crate) fn nearest<'n>(
    wrong: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    if wrong.len() > NAME_MAX_BYTES {
        return None;
    }
    let wrong = wrong.replace('_', "-").to_ascii_lowercase();
    // A person who writes `cache` means `cache-control`.
    let is_start =
        |name: &str| wrong.len() >= 3 && (name.starts_with(&wrong) || wrong.starts_with(name));
    let candidate = |name: &'n str| {
        let steps = osa_distance(&wrong, name);
        if is_start(name) {
            return Some((steps.min(START_STEPS_MAX), true, name));
        }
        (steps * 3 <= name.len()).then_some((steps, false, name))
    };
    names.into_iter().filter_map(candidate).min().map(|(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_gets_a_suggestion_and_nonsense_none() {
        let names = ["workers", "watch", "cache-control", "path", "hosts"];
        for (wrong, name) in [
            ("wokers", Some("workers")),
            ("wrokers", Some("workers")),
            ("Workers", Some("workers")),
            ("cache_control", Some("cache-control")),
            ("cache", Some("cache-control")),
            ("host", Some("hosts")),
            ("paths", Some("path")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, names), name, "{wrong}");
        }
        assert_eq!(nearest(&"w".repeat(65), names), None);
        let names = ["php", "php-user", "php-processes"];
        for (wrong, name) in [
            ("php-usr", "php-user"),
            ("php-procesess", "php-processes"),
            ("php-x", "php"),
            ("php", "php"),
        ] {
            assert_eq!(nearest(wrong, names), Some(name), "{wrong}");
        }
    }
}
