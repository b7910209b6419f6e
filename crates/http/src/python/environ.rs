//! The variables of a request that is not in a batch yet, or its [scope](super::asgi_scope).

use super::marshal_writer::{write_interned, write_str};
use crate::cgi::limits::VARIABLES_MAX_BYTES;
use crate::cgi::variable_error::{VariableError, check_variable};

/// The variables of a request as Python values: names and values in turn.
#[derive(Clone, Debug, Default)]
pub struct Environ {
    pub(super) encoded: Vec<u8>,
    /// Bytes of all variables, each with [`VARIABLE_BYTES`].
    pub(super) bytes: usize,
}

impl Environ {
    /// Makes one without variables, and with memory for so many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Environ {
        Environ { encoded: Vec::with_capacity(bytes), bytes: 0 }
    }

    /// Makes it empty. It keeps its memory.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.bytes = 0;
    }

    /// Appends a variable; of several with the same name the last one stays.
    ///
    /// # Errors
    /// Refuses a malformed variable, and one with which all of them are longer than
    /// [`VARIABLES_MAX_BYTES`]. It is then not appended.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), VariableError> {
        check_variable(name, value)?;
        let bytes = self.bytes + VARIABLE_BYTES + name.len() + value.len();
        if bytes > VARIABLES_MAX_BYTES {
            return Err(VariableError::TooLarge);
        }
        self.bytes = bytes;
        if is_well_known(name) {
            write_interned(&mut self.encoded, name);
        } else {
            write_str(&mut self.encoded, name);
        }
        write_str(&mut self.encoded, value);
        Ok(())
    }
}

/// Bytes that a variable counts besides its name and its value: their types and lengths.
const VARIABLE_BYTES: usize = 10;

/// Returns whether the name of a variable is one of few, so that it may be interned: it does not
/// belong to a field, or belongs to a field that clients often send.
fn is_well_known(name: &[u8]) -> bool {
    let Some(field) = name.strip_prefix(b"HTTP_") else { return true };
    matches!(
        field,
        b"ACCEPT"
            | b"ACCEPT_ENCODING"
            | b"ACCEPT_LANGUAGE"
            | b"AUTHORIZATION"
            | b"CACHE_CONTROL"
            | b"COOKIE"
            | b"DNT"
            | b"FORWARDED"
            | b"HOST"
            | b"IF_MATCH"
            | b"IF_MODIFIED_SINCE"
            | b"IF_NONE_MATCH"
            | b"IF_RANGE"
            | b"IF_UNMODIFIED_SINCE"
            | b"ORIGIN"
            | b"PRAGMA"
            | b"PRIORITY"
            | b"RANGE"
            | b"REFERER"
            | b"SEC_CH_UA"
            | b"SEC_CH_UA_MOBILE"
            | b"SEC_CH_UA_PLATFORM"
            | b"SEC_FETCH_DEST"
            | b"SEC_FETCH_MODE"
            | b"SEC_FETCH_SITE"
            | b"SEC_FETCH_USER"
            | b"SEC_GPC"
            | b"UPGRADE_INSECURE_REQUESTS"
            | b"USER_AGENT"
            | b"X_FORWARDED_FOR"
            | b"X_FORWARDED_HOST"
            | b"X_FORWARDED_PROTO"
            | b"X_REAL_IP"
            | b"X_REQUESTED_WITH"
    )
}
