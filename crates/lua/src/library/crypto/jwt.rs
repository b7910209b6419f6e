//! `pinion.crypto.jwt`: claims that are signed (RFC 7519, RFC 7515).
//!
//! The verifier states the algorithm; the algorithm in a token is compared with it and decides
//! nothing (RFC 8725 §3.1). There is no `none`.

mod algorithm;
#[cfg(test)]
mod tests;

use super::super::json;
use super::super::limits::{LEEWAY_MAX_SECONDS, TOKEN_MAX_BYTES};
use super::super::options::CallOptions;
use crate::clock::Clock;
use algorithm::Algorithm;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mlua::{Error, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value};
use serde::Deserialize;
use serde::de::IgnoredAny;

pub(super) fn table(lua: &Lua, clock: &Clock) -> Result<Table> {
    let table = lua.create_table()?;
    let of = clock.clone();
    let sign = move |lua: &Lua, arguments| sign(lua, seconds(&of), arguments);
    table.raw_set("sign", lua.create_function(sign)?)?;
    let of = clock.clone();
    let verify = move |lua: &Lua, arguments| verify(lua, seconds(&of), arguments);
    table.raw_set("verify", lua.create_function(verify)?)?;
    Ok(table)
}

/// Returns the seconds since 1970.
fn seconds(clock: &Clock) -> f64 {
    clock.now().unix_seconds as f64
}

type Arguments = (Value, LuaString, Option<Table>);

/// `jwt.sign(claims, key [, {alg = "HS256", expires_in = 3600}]) -> token`
///
/// `alg` is one of `HS256` (the default), `HS384`, `HS512`, whose key is at least as long as the
/// digest, or `RS256`, `PS256`, `ES256`, `ES384`, `EdDSA`, whose key is a private one as PEM.
/// `expires_in` adds the claims `iat` and `exp`, so many seconds from now. Raises an error for keys
/// that do not fit, and for claims that are no table or that JSON cannot represent.
fn sign(lua: &Lua, now: f64, (claims, key, options): Arguments) -> Result<LuaString> {
    let options = CallOptions::of(lua, "jwt.sign", options, &["alg", "expires_in"])?;
    let algorithm = match options.get::<LuaString>("alg")? {
        Some(name) => named("jwt.sign", &name)?,
        None => Algorithm::Hs256,
    };
    let lifetime = options.get("expires_in")?;
    let payload = payload(lua, &claims, now, lifetime)?;
    let header = format!(r#"{{"alg":"{}","typ":"JWT"}}"#, algorithm.name());
    let mut token = URL_SAFE_NO_PAD.encode(header);
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(payload, &mut token);
    let signature = algorithm.sign(&key.as_bytes(), token.as_bytes());
    let signature = signature.map_err(|error| Error::runtime(format!("jwt.sign: {error}")))?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    if token.len() > TOKEN_MAX_BYTES {
        let message =
            format!("jwt.sign: the claims make a token longer than {TOKEN_MAX_BYTES} bytes");
        return Err(Error::runtime(message));
    }
    lua.create_string(token)
}

fn named(function: &str, name: &LuaString) -> Result<Algorithm> {
    Algorithm::named(&name.as_bytes()).ok_or_else(|| {
        let known: Vec<&str> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
        let (name, known) = (name.to_string_lossy(), known.join(", "));
        Error::runtime(format!("{function}: alg is one of {known}, not {name:?}"))
    })
}

/// Returns the claims as a JSON object, with times added if requested.
fn payload(lua: &Lua, claims: &Value, now: f64, lifetime: Option<f64>) -> Result<Vec<u8>> {
    let style = json::JsonStyle { indent: Vec::new(), is_sorted: true };
    let mut text = json::encode(lua, claims, &style)?;
    let Some(claims) = claims.as_table().filter(|_| text.starts_with(b"{")) else {
        let message = "jwt.sign: claims are a table with names, such as {sub = \"anna\"}";
        return Err(Error::runtime(message));
    };
    let Some(lifetime) = lifetime else { return Ok(text) };
    if !(lifetime.is_finite() && lifetime > 0.0) {
        return Err(Error::runtime("jwt.sign: expires_in is a number of seconds above 0"));
    }
    if !claims.raw_get::<Value>("exp")?.is_nil() {
        return Err(Error::runtime("jwt.sign: either the claim exp or expires_in, not both"));
    }
    text.pop();
    let mut add = |name: &str, seconds: f64| {
        let comma = if text.len() > 1 { "," } else { "" };
        text.extend_from_slice(format!("{comma}\"{name}\":").as_bytes());
        json::write_number(&mut text, seconds.floor());
    };
    if claims.raw_get::<Value>("iat")?.is_nil() {
        add("iat", now);
    }
    add("exp", now + lifetime);
    text.push(b'}');
    Ok(text)
}

/// `jwt.verify(token, key, {alg = …, iss = …, aud = …, leeway = 0, require = {…}}) -> claims`, or
/// `nil, why`
///
/// `alg` must be stated, as for `sign`; all but the `HS…` take a public key as PEM. `exp` and `nbf`
/// are enforced if the token has them, with `leeway` seconds between the two clocks. `iss` and
/// `aud` must be those of the token; a token with an audience (`aud`) is valid only for a caller
/// that states it. `require` lists claims that must be there. Raises an error for keys that do not
/// fit.
fn verify(
    lua: &Lua,
    now: f64,
    (token, key, options): (LuaString, LuaString, Option<Table>),
) -> Result<MultiValue> {
    let known = ["alg", "iss", "aud", "leeway", "require"];
    let options = CallOptions::of(lua, "jwt.verify", options, &known)?;
    let Some(name) = options.get::<LuaString>("alg")? else {
        let message = "jwt.verify: state the algorithm, as in {alg = \"HS256\"}: if the token \
                       chose, it could choose a weaker one";
        return Err(Error::runtime(message));
    };
    let algorithm = named("jwt.verify", &name)?;
    let expected = Expected::of(&options)?;
    // The key is checked before the token: a wrong key is an error with any token.
    let key = algorithm.verifier(&key.as_bytes());
    let key = key.map_err(|error| Error::runtime(format!("jwt.verify: {error}")))?;
    let is_signature = |message: &[u8], signature: &[u8]| key.is_signature(message, signature);
    let claims = match signed_payload(algorithm, &token.as_bytes(), is_signature) {
        Ok(payload) => json::decode(lua, &payload)?,
        Err(why) => Err(why.to_owned()),
    };
    match claims {
        Ok(Value::Table(claims)) => match expected.refuse(&claims, now)? {
            None => claims.into_lua_multi(lua),
            Some(why) => (Value::Nil, why).into_lua_multi(lua),
        },
        Ok(_) => (Value::Nil, FORM).into_lua_multi(lua),
        Err(why) => (Value::Nil, why).into_lua_multi(lua),
    }
}

/// The error of a text that is no token at all.
const FORM: &str = "the token is not of the form header.claims.signature";

/// The header of a token. Other members are ignored.
#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    /// Extensions that must be understood (RFC 7515 §4.1.11); none is.
    crit: Option<IgnoredAny>,
}

/// Returns the payload of a token that is signed by this algorithm, or why it is not.
fn signed_payload(
    algorithm: Algorithm,
    token: &[u8],
    is_signature: impl Fn(&[u8], &[u8]) -> bool,
) -> core::result::Result<Vec<u8>, &'static str> {
    if token.len() > TOKEN_MAX_BYTES {
        return Err("the token is too long");
    }
    let mut ends = memchr::memchr_iter(b'.', token);
    let (Some(first), Some(second), None) = (ends.next(), ends.next(), ends.next()) else {
        return Err(FORM);
    };
    let part = |from: usize, to: usize| {
        let text = token.get(from..to).unwrap_or_default();
        URL_SAFE_NO_PAD.decode(text).map_err(|_| FORM)
    };
    let header: TokenHeader = serde_json::from_slice(&part(0, first)?).map_err(|_| FORM)?;
    if header.alg != algorithm.name() {
        return Err("the token is signed by another algorithm");
    }
    if header.crit.is_some() {
        return Err("the token asks for extensions that are not known");
    }
    let signature = part(second + 1, token.len())?;
    let message = token.get(..second).unwrap_or_default();
    if !is_signature(message, &signature) {
        return Err("the signature is not by this key");
    }
    let claims = part(first + 1, second)?;
    // In Lua an array is a table as well.
    if claims.trim_ascii_start().starts_with(b"{") { Ok(claims) } else { Err(FORM) }
}

/// The required claims.
struct Expected {
    issuer: Option<LuaString>,
    audience: Option<LuaString>,
    leeway: f64,
    required: Vec<LuaString>,
}

impl Expected {
    fn of(options: &CallOptions<'_>) -> Result<Expected> {
        let leeway = options.get("leeway")?.unwrap_or(0.0);
        if !(0.0..=LEEWAY_MAX_SECONDS).contains(&leeway) {
            let message = format!("jwt.verify: leeway is from 0 to {LEEWAY_MAX_SECONDS} seconds");
            return Err(Error::runtime(message));
        }
        Ok(Expected {
            issuer: options.get("iss")?,
            audience: options.get("aud")?,
            leeway,
            required: options.get("require")?.unwrap_or_default(),
        })
    }

    /// Returns why the claims are refused, if they are.
    fn refuse(&self, claims: &Table, now: f64) -> Result<Option<&'static str>> {
        for name in &self.required {
            let value: Value = claims.raw_get(name)?;
            if value.is_nil() || value.is_null() {
                return Ok(Some("a claim is missing that is required"));
            }
        }
        match time(claims, "exp")? {
            Time::Absent => {}
            Time::Seconds(end) if now < end + self.leeway => {}
            Time::Seconds(_) => return Ok(Some("the token has expired")),
            Time::Invalid => return Ok(Some("the claim exp is not a time")),
        }
        match time(claims, "nbf")? {
            Time::Absent => {}
            Time::Seconds(start) if start <= now + self.leeway => {}
            Time::Seconds(_) => return Ok(Some("the token is not valid yet")),
            Time::Invalid => return Ok(Some("the claim nbf is not a time")),
        }
        if let Some(issuer) = &self.issuer
            && !is_text(&claims.raw_get("iss")?, issuer)
        {
            return Ok(Some("the token is of another issuer"));
        }
        Ok(if self.is_audience(&claims.raw_get("aud")?)? {
            None
        } else {
            Some("the token is for another audience")
        })
    }

    /// Returns whether the claim `aud` names the audience that the caller states (RFC 7519 §4.1.3).
    fn is_audience(&self, claim: &Value) -> Result<bool> {
        match (&self.audience, claim) {
            (None, claim) => Ok(claim.is_nil()),
            (Some(audience), Value::Table(list)) => {
                for one in list.sequence_values::<Value>() {
                    if is_text(&one?, audience) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            (Some(audience), claim) => Ok(is_text(claim, audience)),
        }
    }
}

enum Time {
    Absent,
    Seconds(f64),
    Invalid,
}

fn time(claims: &Table, name: &str) -> Result<Time> {
    Ok(match claims.raw_get::<Value>(name)? {
        Value::Nil => Time::Absent,
        Value::Integer(seconds) => Time::Seconds(seconds as f64),
        Value::Number(seconds) => Time::Seconds(seconds),
        _ => Time::Invalid,
    })
}

fn is_text(value: &Value, text: &LuaString) -> bool {
    value.as_string().is_some_and(|value| value.as_bytes() == text.as_bytes())
}
