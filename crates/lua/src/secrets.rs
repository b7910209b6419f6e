//! Secrets of a site: values that its scripts need and that do not stand in its code.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Secrets by name. Copies share them, and their values are shown nowhere.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Arc<BTreeMap<String, Vec<u8>>>);

impl Secrets {
    /// Returns the value of a secret.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.get(std::str::from_utf8(name).ok()?).map(Vec::as_slice)
    }

    /// Returns the names of all secrets, for messages.
    pub(crate) fn names(&self) -> String {
        self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

impl FromIterator<(String, Vec<u8>)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, Vec<u8>)>>(secrets: I) -> Self {
        Self(Arc::new(secrets.into_iter().collect()))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        let secrets: Secrets = [("token".to_owned(), b"hunter2".to_vec())].into_iter().collect();
        assert_eq!(secrets.get(b"token"), Some(&b"hunter2"[..]));
        assert_eq!(secrets.get(b"other"), None);
        assert_eq!(format!("{secrets:?} {}", secrets.names()), "{\"token\"} token");
    }
}
