//! The value of `Set-Cookie` (RFC 6265 §4.1), with safe defaults: the cookie is for the whole site,
//! out of reach of scripts in the page, and not sent by requests from other sites.

use mlua::{Table, Value};
use pinion_http::date;
use pinion_http::grammar::is_token;

/// Options that a cookie can have.
const OPTIONS: &[&str] =
    &["path", "domain", "max_age", "expires", "secure", "http_only", "same_site", "partitioned"];

/// Returns the text of a cookie; a cookie without a value is deleted.
///
/// # Errors
/// Returns the error, and its correction.
pub(crate) fn text(name: &Value, value: &Value, options: Option<&Table>) -> Result<String, String> {
    let name = match name.as_string() {
        Some(name) => name.to_string_lossy(),
        None => {
            return Err(format!(
                "bad argument #1 to 'res:cookie' (string expected, got {})",
                name.type_name()
            ));
        }
    };
    if !is_token(name.as_bytes()) {
        return Err(format!(
            "{name:?} is not a valid name of a cookie; use letters, digits, - and _, without spaces"
        ));
    }
    let is_gone = value.is_nil();
    let value = if is_gone { String::new() } else { shown(value, "the value")? };
    if let Some(bad) = value.chars().find(|&c| !is_cookie_char(c)) {
        return Err(format!(
            "the value of the cookie {name:?} has the character {bad:?}, which no cookie can have; \
             encode the value with pinion.codec.url_encode, and decode it when you read it"
        ));
    }
    let options = CookieOptions::read(options)?;
    let mut text = format!("{name}={value}");
    let mut add = |part: &str| {
        text.push_str("; ");
        text.push_str(part);
    };
    add(&format!("Path={}", options.path.as_deref().unwrap_or("/")));
    if let Some(domain) = &options.domain {
        add(&format!("Domain={domain}"));
    }
    match options.max_age {
        _ if is_gone => add("Max-Age=0"),
        Some(seconds) => add(&format!("Max-Age={seconds}")),
        None => {}
    }
    if let Some(expires) = options.expires {
        add(&format!("Expires={}", String::from_utf8_lossy(&date::format(expires))));
    }
    if options.http_only {
        add("HttpOnly");
    }
    let is_bound = name.starts_with("__Secure-") || name.starts_with("__Host-");
    let is_secure = options.secure || options.partitioned || options.same_site == "None";
    if is_secure || is_bound {
        add("Secure");
    }
    add(&format!("SameSite={}", options.same_site));
    if options.partitioned {
        add("Partitioned");
    }
    Ok(text)
}

struct CookieOptions {
    path: Option<String>,
    domain: Option<String>,
    max_age: Option<i64>,
    expires: Option<i64>,
    secure: bool,
    http_only: bool,
    same_site: &'static str,
    partitioned: bool,
}

impl CookieOptions {
    fn read(table: Option<&Table>) -> Result<Self, String> {
        let mut options = Self {
            path: None,
            domain: None,
            max_age: None,
            expires: None,
            secure: false,
            http_only: true,
            same_site: "Lax",
            partitioned: false,
        };
        let Some(table) = table else { return Ok(options) };
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            let key = bytes(&key).unwrap_or_default();
            match key.as_str() {
                "path" => options.path = Some(attribute(&value, "path")?),
                "domain" => options.domain = Some(attribute(&value, "domain")?),
                "max_age" => options.max_age = Some(number(&value, "max_age")?),
                "expires" => options.expires = Some(number(&value, "expires")?),
                "secure" => options.secure = flag(&value, "secure")?,
                "http_only" => options.http_only = flag(&value, "http_only")?,
                "partitioned" => options.partitioned = flag(&value, "partitioned")?,
                "same_site" => {
                    options.same_site = match bytes(&value).unwrap_or_default().as_str() {
                        "Strict" | "strict" => "Strict",
                        "Lax" | "lax" => "Lax",
                        "None" | "none" => "None",
                        other => {
                            return Err(format!(
                                "same_site is \"strict\", \"lax\" or \"none\", not {other:?}"
                            ));
                        }
                    }
                }
                other => {
                    let known = OPTIONS.join(", ");
                    return Err(format!(
                        "a cookie has no option {other:?}; its options are {known}"
                    ));
                }
            }
        }
        Ok(options)
    }
}

fn is_cookie_char(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, '"' | ',' | ';' | '\\')
}

fn bytes(value: &Value) -> Option<String> {
    value.as_string().map(mlua::LuaString::to_string_lossy)
}

fn shown(value: &Value, part: &str) -> Result<String, String> {
    match value {
        Value::Integer(number) => Ok(number.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        other => bytes(other)
            .ok_or_else(|| format!("{part} of a cookie is a string, not a {}", other.type_name())),
    }
}

fn attribute(value: &Value, part: &str) -> Result<String, String> {
    let text = shown(value, part)?;
    if text.chars().any(|c| c.is_control() || c == ';' || !c.is_ascii()) {
        Err(format!("{part} of a cookie has a character that ends it: {text:?}"))
    } else {
        Ok(text)
    }
}

fn number(value: &Value, part: &str) -> Result<i64, String> {
    let number = value.as_f64().or_else(|| value.as_i64().map(|number| number as f64));
    let number = number.filter(|number| number.abs() < 1e15);
    number.map(|number| number as i64).ok_or_else(|| format!("{part} of a cookie is a number"))
}

fn flag(value: &Value, part: &str) -> Result<bool, String> {
    value.as_boolean().ok_or_else(|| format!("{part} of a cookie is true or false"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlua::Lua;

    fn cookie(code: &str) -> Result<String, String> {
        let lua = Lua::new();
        let (name, value, options): (Value, Value, Option<Table>) =
            lua.load(format!("return {code}")).eval().expect(code);
        text(&name, &value, options.as_ref())
    }

    #[test]
    fn cookies_are_http_only_and_same_site_lax_by_default() {
        for (code, expected) in [
            ("'a', 'b'", "a=b; Path=/; HttpOnly; SameSite=Lax"),
            ("'a', 5", "a=5; Path=/; HttpOnly; SameSite=Lax"),
            ("'a', nil", "a=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"),
            (
                "'a', 'b', {path='/x', domain='example.org', max_age=60, same_site='strict'}",
                "a=b; Path=/x; Domain=example.org; Max-Age=60; HttpOnly; SameSite=Strict",
            ),
            ("'a', 'b', {http_only=false}", "a=b; Path=/; SameSite=Lax"),
            // Browsers refuse the others of these (RFC 6265bis §4.1.2.7, §4.1.3).
            ("'a', 'b', {same_site='none'}", "a=b; Path=/; HttpOnly; Secure; SameSite=None"),
            ("'__Host-a', 'b'", "__Host-a=b; Path=/; HttpOnly; Secure; SameSite=Lax"),
            (
                "'a', 'b', {expires=0}",
                "a=b; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; SameSite=Lax",
            ),
        ] {
            assert_eq!(cookie(code).as_deref(), Ok(expected), "{code}");
        }
    }

    #[test]
    fn invalid_cookie_names_values_and_options_are_refused() {
        for code in [
            "'a b', 'c'",
            "'', 'c'",
            "'a', 'b;c'",
            "'a', 'b\\r\\nX: y'",
            "'a', 'b c'",
            "'a', 'b', {path='/;Domain=x'}",
            "'a', 'b', {domain='x\\n'}",
            "'a', {}",
            "'a', 'b', {maxage=5}",
            "'a', 'b', {max_age='x'}",
            "'a', 'b', {max_age=1/0}",
            "'a', 'b', {same_site='x'}",
            "'a', 'b', {secure='yes'}",
            "'a=', 'b'",
        ] {
            cookie(code).expect_err(code);
        }
    }
}
