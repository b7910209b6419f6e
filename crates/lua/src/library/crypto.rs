//! `pinion.crypto`: digests, keys, sealed texts, tokens.
//!
//! All strings are bytes; `pinion.codec` writes them as text.

mod jwt;
pub(crate) mod seal;
#[cfg(test)]
mod tests;

use super::limits::{BLAKE3_KEY_BYTES, HKDF_OUTPUT_MAX_BYTES, KEY_MIN_BYTES, RANDOM_MAX_BYTES};
use super::options::CallOptions;
use crate::clock::Clock;
use crate::pages::LinkKey;
use crate::shared_site_state::ScriptSite;
use aws_lc_rs::{constant_time, digest, hkdf, hmac};
use mlua::{Error, Function, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value};

pub(crate) fn table(lua: &Lua, clock: &Clock) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("sha1", hash(lua, &digest::SHA1_FOR_LEGACY_USE_ONLY)?)?;
    table.raw_set("sha256", hash(lua, &digest::SHA256)?)?;
    table.raw_set("sha512", hash(lua, &digest::SHA512)?)?;
    table.raw_set("hmac_sha1", keyed_hash(lua, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY)?)?;
    table.raw_set("hmac_sha256", keyed_hash(lua, hmac::HMAC_SHA256)?)?;
    table.raw_set("hmac_sha512", keyed_hash(lua, hmac::HMAC_SHA512)?)?;
    table.raw_set("blake3", lua.create_function(blake3_hash)?)?;
    table.raw_set("random", lua.create_function(random)?)?;
    table.raw_set("equal", lua.create_function(equal)?)?;
    table.raw_set("hkdf", lua.create_function(derive)?)?;
    table.raw_set("seal", lua.create_function(seal_randomly)?)?;
    table.raw_set("open", lua.create_function(open_random)?)?;
    table.raw_set("seal_siv", lua.create_function(seal_always_alike)?)?;
    table.raw_set("open_siv", lua.create_function(open_always_alike)?)?;
    table.raw_set("jwt", jwt::table(lua, clock)?)?;
    Ok(table)
}

/// `crypto.sha1(data) -> 20 bytes`, `crypto.sha256(data) -> 32 bytes`,
/// `crypto.sha512(data) -> 64 bytes` (FIPS 180-4). SHA-1 is for protocols that require it: two
/// texts with the same digest can be made.
fn hash(lua: &Lua, algorithm: &'static digest::Algorithm) -> Result<Function> {
    lua.create_function(move |lua, data: LuaString| {
        lua.create_string(digest::digest(algorithm, &data.as_bytes()))
    })
}

/// `crypto.hmac_sha1(key, data) -> 20 bytes`, `crypto.hmac_sha256(key, data) -> 32 bytes`,
/// `crypto.hmac_sha512(key, data) -> 64 bytes` (RFC 2104). Compare them by `crypto.equal`.
fn keyed_hash(lua: &Lua, algorithm: hmac::Algorithm) -> Result<Function> {
    lua.create_function(move |lua, (key, data): (LuaString, LuaString)| {
        let key = hmac::Key::new(algorithm, &key.as_bytes());
        lua.create_string(hmac::sign(&key, &data.as_bytes()))
    })
}

/// `crypto.blake3(data [, key]) -> 32 bytes`; with a key of 32 bytes it is a keyed digest.
fn blake3_hash(lua: &Lua, (data, key): (LuaString, Option<LuaString>)) -> Result<LuaString> {
    let data = data.as_bytes();
    let hash = match key {
        None => blake3::hash(&data),
        Some(key) => {
            let key = <[u8; BLAKE3_KEY_BYTES]>::try_from(&*key.as_bytes()).map_err(|_| {
                let length = key.as_bytes().len();
                Error::runtime(format!(
                    "crypto.blake3: the key has {length} bytes, it needs {BLAKE3_KEY_BYTES}"
                ))
            })?;
            blake3::keyed_hash(&key, &data)
        }
    };
    lua.create_string(hash.as_bytes())
}

/// `crypto.random(n) -> n bytes` that are unpredictable.
fn random(lua: &Lua, count: f64) -> Result<LuaString> {
    let mut bytes = zeros("crypto.random", count, RANDOM_MAX_BYTES)?;
    getrandom::fill(&mut bytes).map_err(|_| no_random_bytes())?;
    lua.create_string(bytes)
}

/// Allocates as many bytes as a script requests.
fn zeros(function: &str, count: f64, most: usize) -> Result<Vec<u8>> {
    if (0.0..=most as f64).contains(&count) && count.fract() == 0.0 {
        return Ok(vec![0; count as usize]);
    }
    let message = format!("{function}: a number of bytes from 0 to {most} is needed, not {count}");
    Err(Error::runtime(message))
}

fn no_random_bytes() -> Error {
    Error::runtime("the system gives no random bytes")
}

/// `crypto.equal(a, b) -> boolean`: the time it takes depends only on the lengths. It is for
/// anything that a client has sent as proof of a secret.
fn equal(_: &Lua, (a, b): (LuaString, LuaString)) -> Result<bool> {
    Ok(constant_time::verify_slices_are_equal(&a.as_bytes(), &b.as_bytes()).is_ok())
}

/// `crypto.hkdf(key, n [, {salt = …, info = …}]) -> n bytes` (RFC 5869, SHA-256): other keys from
/// one that has at least 16 bytes, each for the purpose that `info` names.
fn derive(lua: &Lua, (key, count, options): (LuaString, f64, Option<Table>)) -> Result<LuaString> {
    let options = CallOptions::of(lua, "crypto.hkdf", options, &["salt", "info"])?;
    let bytes = |name: &str| {
        let value: Option<LuaString> = options.get(name)?;
        Ok::<_, Error>(value.map(|value| value.as_bytes().to_vec()).unwrap_or_default())
    };
    let key = long_enough("crypto.hkdf", &key)?;
    let mut out = zeros("crypto.hkdf", count, HKDF_OUTPUT_MAX_BYTES)?;
    expand(&key, &bytes("salt")?, &bytes("info")?, &mut out)
        .ok_or_else(|| Error::runtime("crypto.hkdf: no key could be derived"))?;
    lua.create_string(out)
}

/// Fills `out` by HKDF with SHA-256; returns `None` if that is too long for it.
pub(crate) fn expand(key: &[u8], salt: &[u8], info: &[u8], out: &mut [u8]) -> Option<()> {
    /// The type in which the library takes the length of a key.
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(key);
    extracted.expand(&[info], Length(out.len())).ok()?.fill(out).ok()
}

/// The prefix of `info` for keys with names.
const NAMED_INFO: &[u8] = b"pinion crypto.key 1 ";

/// Derives the key of a name from `secret`.
pub(crate) fn named(secret: &[u8; 32], name: &[u8]) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    expand(secret, b"", &[NAMED_INFO, name].concat(), &mut key).map(|()| key)
}

/// `crypto.key(name) -> 32 bytes`: a secret of the site, another one for each name and the same in
/// all workers. With a master key it is always the same, without one until the server ends.
pub(crate) fn of_site(lua: &Lua, site: ScriptSite, master: Option<LinkKey>) -> Result<Function> {
    lua.create_function(move |lua, name: LuaString| {
        let name = name.as_bytes();
        let key = match &master {
            Some(master) => master.named(&name),
            None => site.secret().and_then(|secret| named(&secret, &name)),
        };
        lua.create_string(key.ok_or_else(no_random_bytes)?)
    })
}

fn long_enough(function: &str, key: &LuaString) -> Result<Vec<u8>> {
    let key = key.as_bytes().to_vec();
    if key.len() < KEY_MIN_BYTES {
        let length = key.len();
        return Err(Error::runtime(format!(
            "{function}: the key has {length} bytes, it needs at least {KEY_MIN_BYTES} random \
             ones; `head -c 32 /dev/urandom | base64` prints one"
        )));
    }
    Ok(key)
}

type Texts = (LuaString, LuaString, Option<LuaString>);

/// `crypto.seal(key, text [, context]) -> string`
///
/// Encrypts a text so that only the key can read it, and every change is noticed (AES-256-GCM under
/// a key of its own for each text). Each call returns another string, 41 bytes longer than the
/// text. `context` is bound to it, not contained in it: the same context is necessary to open it.
/// The key has at least 16 random bytes.
fn seal_randomly(lua: &Lua, texts: Texts) -> Result<LuaString> {
    let (key, text, context) = arguments("crypto.seal", texts)?;
    let sealed = seal::seal(&key, &text.as_bytes(), &context).ok_or_else(no_random_bytes)?;
    lua.create_string(sealed)
}

/// `crypto.open(key, sealed [, context]) -> text`, or `nil, why` if it was sealed with another key
/// or context, or changed on the way. The message does not distinguish these cases.
fn open_random(lua: &Lua, texts: Texts) -> Result<MultiValue> {
    let (key, sealed, context) = arguments("crypto.open", texts)?;
    opened(lua, seal::open(&key, &sealed.as_bytes(), &context))
}

/// `crypto.seal_siv(key, text [, context]) -> string`
///
/// As `seal`, but the same text gives the same string, 17 bytes longer than the text (AES-SIV, RFC
/// 5297). It is for links that caches have to recognize; anyone who sees two such strings sees
/// whether the texts are the same.
fn seal_always_alike(lua: &Lua, texts: Texts) -> Result<LuaString> {
    let (key, text, context) = arguments("crypto.seal_siv", texts)?;
    let sealed = seal::seal_siv(&key, &text.as_bytes(), &context);
    lua.create_string(
        sealed.ok_or_else(|| Error::runtime("crypto.seal_siv: the text is too long"))?,
    )
}

/// `crypto.open_siv(key, sealed [, context]) -> text`, or `nil, why`, as `open`.
fn open_always_alike(lua: &Lua, texts: Texts) -> Result<MultiValue> {
    let (key, sealed, context) = arguments("crypto.open_siv", texts)?;
    opened(lua, seal::open_siv(&key, &sealed.as_bytes(), &context))
}

/// Checks the arguments. The text is not copied: it may be long.
fn arguments(function: &str, (key, text, context): Texts) -> Result<(Vec<u8>, LuaString, Vec<u8>)> {
    let context = context.map(|context| context.as_bytes().to_vec()).unwrap_or_default();
    Ok((long_enough(function, &key)?, text, context))
}

fn opened(lua: &Lua, text: Option<Vec<u8>>) -> Result<MultiValue> {
    match text {
        Some(text) => lua.create_string(text)?.into_lua_multi(lua),
        None => (Value::Nil, "it cannot be opened with this key and context").into_lua_multi(lua),
    }
}
