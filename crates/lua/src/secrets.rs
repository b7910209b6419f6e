//! Secrets of a site: values that its scripts need and that are not in its code.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Secrets by name. Copies share them, and their values are shown nowhere.
///
/// The default contains none: a script that is run without its server, such as by `pinion check`,
/// gets a stand-in for each.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Option<Arc<BTreeMap<String, Vec<u8>>>>);

/// The value of every secret for a script that is run without its server.
const STAND_IN: &[u8] = b"(a secret that only the server knows)";

impl Secrets {
    /// Returns the value of a secret.
    ///
    /// # Errors
    /// Fails if there is none of this name; the message lists the secrets, and names the
    /// correction.
    pub(crate) fn get(&self, name: &str) -> Result<&[u8], String> {
        let Some(secrets) = &self.0 else { return Ok(STAND_IN) };
        secrets.get(name).map(Vec::as_slice).ok_or_else(|| {
            let names: Vec<&str> = secrets.keys().map(String::as_str).collect();
            let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!(
                "there is no secret {name:?} (there is {has}); start Pinion with --secret \
                 {name}=FILE, or add it to `secret` of the site"
            )
        })
    }
}

impl FromIterator<(String, Vec<u8>)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, Vec<u8>)>>(secrets: I) -> Self {
        Self(Some(Arc::new(secrets.into_iter().collect())))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().flat_map(|secrets| secrets.keys())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_values_are_not_in_debug_output() {
        let secrets: Secrets = [("token".to_owned(), b"hunter2".to_vec())].into_iter().collect();
        assert_eq!(secrets.get("token"), Ok(&b"hunter2"[..]));
        let why = secrets.get("other").expect_err("there is none");
        assert!(why.contains("token") && why.contains("--secret other=FILE"), "{why}");
        assert_eq!(format!("{secrets:?}"), "{\"token\"}");
        assert_eq!(Secrets::default().get("other"), Ok(STAND_IN));
    }
}
