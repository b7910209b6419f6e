//! Parameters that are sent encrypted in `?e=`, bound to the path that they are for.
//!
//! The sealed text is a query, as forms write it. It is bound to the path, so parameters of one
//! page are valid for no other page.

use crate::body::urlencoded;
use crate::bounded_output::{BoundedResult, check, percent};
use crate::library::crypto::seal::{open, open_siv, seal, seal_siv};
use crate::library::crypto::{expand, named};
use crate::library::limits::KEY_MIN_BYTES;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mlua::{Lua, LuaString, Result, Table, Value};
use pinion_http::request_target::is_path_byte;
use std::borrow::Cow;
use std::fmt;

/// The name of the parameter.
const NAME: &str = "e";

/// The `info` from which keys for links are derived.
const INFO: &[u8] = b"pinion to_url 1";

/// The key that encrypts links of a site.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LinkKey([u8; 32]);

impl LinkKey {
    /// Derives it from the master key of a site.
    ///
    /// # Errors
    /// Fails for a key that is too short to be a secret.
    pub(crate) fn of_master(master: &[u8]) -> std::result::Result<Self, String> {
        let mut key = [0; 32];
        let is_long = master.len() >= KEY_MIN_BYTES;
        is_long.then(|| expand(master, b"", INFO, &mut key)).flatten().ok_or_else(|| {
            let length = master.len();
            format!(
                "the master key has {length} bytes, it needs at least {KEY_MIN_BYTES} random ones; \
                 `head -c 32 /dev/urandom | base64` prints one"
            )
        })?;
        Ok(Self(key))
    }

    /// Derives a key for another purpose from the same master key.
    pub(crate) fn named(&self, name: &[u8]) -> Option<[u8; 32]> {
        named(&self.0, name)
    }

    /// Seals a query. Returns `None` if there are no random bytes, or the query is too long for any
    /// URL.
    fn sealed(&self, query: &[u8], path: &[u8], is_random: bool) -> Option<String> {
        let sealed =
            if is_random { seal(&self.0, query, path) } else { seal_siv(&self.0, query, path) };
        Some(URL_SAFE_NO_PAD.encode(sealed?))
    }

    /// Opens a query. Returns `None` if it was not sealed with this key for this path.
    fn opened(&self, text: &[u8], path: &[u8]) -> Option<Vec<u8>> {
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        open_siv(&self.0, &sealed, path).or_else(|| open(&self.0, &sealed, path))
    }
}

/// The key is never written to a log.
impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkKey")
    }
}

/// The parts of a link: the decoded path, the query, whether it is encrypted, whether the
/// encryption is random each time, and the fragment.
pub(super) type Parts = (LuaString, LuaString, bool, bool, Option<LuaString>);

/// Returns the URL of a path on this site; nil and the reason if it is none. Without a key the
/// parameters are plain text.
pub(super) fn url(
    lua: &Lua,
    key: Option<&LinkKey>,
    (path, query, is_sealed, is_random, fragment): Parts,
) -> Result<(Option<LuaString>, Option<String>)> {
    let (path, query) = (path.as_bytes(), query.as_bytes());
    // Two slashes would lead to another host.
    if !path.starts_with(b"/") || path.starts_with(b"//") || path.iter().any(|b| b"?#".contains(b))
    {
        let why = format!(
            "to_url: {:?} is not a path of this site; it begins with one slash, is not encoded, \
             and has its query and its fragment in the arguments after it",
            String::from_utf8_lossy(&path)
        );
        return Ok((None, Some(why)));
    }
    let query = match key.filter(|_| is_sealed) {
        _ if query.is_empty() => None,
        Some(key) => {
            let Some(sealed) = key.sealed(&query, &path, is_random) else {
                return Ok((None, Some("to_url: the parameters cannot be encrypted".to_owned())));
            };
            Some(Cow::Owned(format!("{NAME}={sealed}").into_bytes()))
        }
        None => Some(Cow::Borrowed(&*query)),
    };
    let fragment = fragment.as_ref().map(LuaString::as_bytes);
    match joined(&path, query.as_deref(), fragment.as_deref()) {
        Ok(url) => Ok((Some(lua.create_string(url)?), None)),
        Err(why) => Ok((None, Some(format!("to_url: {why}")))),
    }
}

/// Joins the parts of a URL, of which the query is escaped already.
fn joined(path: &[u8], query: Option<&[u8]>, fragment: Option<&[u8]>) -> BoundedResult {
    let mut out = Vec::new();
    percent(&mut out, path, |byte| is_path_byte(byte) && byte != b'\'')?;
    if let Some(query) = query {
        check(out.len() + query.len())?;
        out.push(b'?');
        out.extend_from_slice(query);
    }
    if let Some(fragment) = fragment {
        out.push(b'#');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        percent(&mut out, fragment, is_plain)?;
    }
    Ok(out)
}

/// Adds the encrypted parameters to the others, over which they take precedence, and sets `e` to a
/// table of all of them. `e` is nil if there are none, or none that are authentic: a value that the
/// client has written there is removed.
pub(super) fn open_query(
    lua: &Lua,
    key: Option<&LinkKey>,
    (query, path): (Table, LuaString),
) -> Result<Table> {
    let list_of = |name: &[u8]| lua.create_string([name, b"[]"].concat());
    let sent: Value = query.raw_get(NAME)?;
    query.raw_set(NAME, Value::Nil)?;
    query.raw_set(list_of(NAME.as_bytes())?, Value::Nil)?;
    let (Value::String(sent), Some(key)) = (sent, key) else { return Ok(query) };
    let Some(text) = key.opened(&sent.as_bytes(), &path.as_bytes()) else { return Ok(query) };
    let opened = urlencoded::table(lua, &text)?;
    for pair in opened.pairs::<LuaString, Value>() {
        let (name, value) = pair?;
        let list = list_of(&name.as_bytes())?;
        if opened.raw_get::<Value>(&list)?.is_nil() {
            query.raw_set(list, Value::Nil)?;
        }
        query.raw_set(name, value)?;
    }
    query.raw_set(NAME, opened)?;
    Ok(query)
}

#[cfg(test)]
mod tests;
