//! `pinion.codec`: bytes as hexadecimal digits and base64, text in URLs, forms and HTML.

#![expect(clippy::needless_pass_by_value, reason = "a function of Lua owns its arguments")]

mod html;
#[cfg(test)]
mod tests;
mod url;

use super::options::CallOptions;
use crate::bounded_output::{BoundedResult, check, room};
use base64::Engine as _;
use base64::engine::Config as _;
use base64::engine::general_purpose::{
    GeneralPurpose, STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD,
};
use mlua::{IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value};
use pinion_http::grammar::hex_digit;

pub(crate) fn table(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("hex_encode", lua.create_function(hex_encode)?)?;
    table.raw_set("hex_decode", lua.create_function(hex_decode)?)?;
    table.raw_set("base64_encode", lua.create_function(base64_encode)?)?;
    table.raw_set("base64_decode", lua.create_function(base64_decode)?)?;
    table.raw_set("url_encode", lua.create_function(url_encode)?)?;
    table.raw_set("url_decode", lua.create_function(url_decode)?)?;
    table.raw_set("query", lua.create_function(url::query)?)?;
    table.raw_set("parse_query", lua.create_function(url::parse_query)?)?;
    table.raw_set("html_escape", lua.create_function(html_escape)?)?;
    table.raw_set("html_unescape", lua.create_function(html_unescape)?)?;
    table.raw_set("is_utf8", lua.create_function(is_utf8)?)?;
    Ok(table)
}

/// `codec.is_utf8(data) -> boolean`: whether the bytes are text, as JSON has to be (RFC 8259 §8.1).
/// Data of clients need not be.
fn is_utf8(_: &Lua, data: LuaString) -> Result<bool> {
    Ok(std::str::from_utf8(&data.as_bytes()).is_ok())
}

/// Returns the decoded bytes, or nil and a message without the text, which may be a secret.
fn decoded(lua: &Lua, bytes: BoundedResult<Option<Vec<u8>>>, why: &str) -> Result<MultiValue> {
    match bytes {
        Ok(Some(bytes)) => lua.create_string(bytes)?.into_lua_multi(lua),
        Ok(None) => (Value::Nil, why).into_lua_multi(lua),
        Err(why) => (Value::Nil, why.to_string()).into_lua_multi(lua),
    }
}

/// `codec.hex_encode(data) -> string`: two lower-case digits for each byte.
fn hex_encode(lua: &Lua, data: LuaString) -> Result<LuaString> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS[usize::from(nibble & 15)];
    let bytes = data.as_bytes();
    let mut text = room(2 * bytes.len()).map_err(|why| why.of("codec.hex_encode"))?;
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]));
    lua.create_string(text)
}

/// `codec.hex_decode(text) -> string`, or `nil, why`. Digits of either case, and nothing else.
fn hex_decode(lua: &Lua, text: LuaString) -> Result<MultiValue> {
    let text = text.as_bytes();
    let (pairs, rest) = text.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(hex_digit(*high)? << 4 | hex_digit(*low)?));
    let bytes = || rest.is_empty().then(|| bytes.collect()).flatten();
    let bytes = check(text.len()).map(|()| bytes());
    decoded(lua, bytes, "the text is not pairs of hexadecimal digits")
}

/// `codec.base64_encode(data [, {url = true, pad = false}]) -> string` (RFC 4648)
///
/// `url` selects the alphabet of URLs and file names. The text is padded by default in the ordinary
/// alphabet, not in that of URLs; `pad` overrides this.
fn base64_encode(lua: &Lua, (data, options): (LuaString, Option<Table>)) -> Result<LuaString> {
    let engine = engine(lua, "codec.base64_encode", options)?;
    let data = data.as_bytes();
    let length = base64::encoded_len(data.len(), engine.config().encode_padding());
    check(length.unwrap_or(usize::MAX)).map_err(|why| why.of("codec.base64_encode"))?;
    lua.create_string(engine.encode(data))
}

/// `codec.base64_decode(text [, {url = true, pad = false}]) -> string`, or `nil, why`
///
/// Accepts exactly the texts that `base64_encode` returns with the same options: one text for each
/// string of bytes, no line ends, no other alphabet, no padding where there should be none.
fn base64_decode(lua: &Lua, (text, options): (LuaString, Option<Table>)) -> Result<MultiValue> {
    let engine = engine(lua, "codec.base64_decode", options)?;
    let text = text.as_bytes();
    let bytes = check(text.len()).map(|()| engine.decode(&text).ok());
    match bytes {
        Ok(None) => decoded(lua, Ok(None), &no_base64(&text)),
        bytes => decoded(lua, bytes, ""),
    }
}

/// Returns why a text cannot be decoded, and the options with which it can be if there are some.
#[cold]
fn no_base64(text: &[u8]) -> String {
    let forms = [
        (STANDARD, "without options"),
        (STANDARD_NO_PAD, "with { pad = false }"),
        (URL_SAFE_NO_PAD, "with { url = true }"),
        (URL_SAFE, "with { url = true, pad = true }"),
    ];
    match forms.iter().find(|(engine, _)| engine.decode(text).is_ok()) {
        Some((_, form)) => format!("the text is Base64 of another form; decode it {form}"),
        None => {
            "the text is not Base64: it has other characters than that, such as spaces or line \
                 ends, or a wrong length"
                .to_owned()
        }
    }
}

fn engine(lua: &Lua, function: &'static str, options: Option<Table>) -> Result<GeneralPurpose> {
    let options = CallOptions::of(lua, function, options, &["url", "pad"])?;
    let is_for_urls = options.get("url")?.unwrap_or(false);
    let is_padded = options.get("pad")?.unwrap_or(!is_for_urls);
    Ok(match (is_for_urls, is_padded) {
        (false, true) => STANDARD,
        (false, false) => STANDARD_NO_PAD,
        (true, true) => URL_SAFE,
        (true, false) => URL_SAFE_NO_PAD,
    })
}

/// `codec.url_encode(text [, {form = true}]) -> string`
///
/// Escapes all but letters, digits and `-._~`, so that the text can stand in any part of a URL
/// (RFC 3986 §2.3). `form` writes it as forms do: `+` for a space.
fn url_encode(lua: &Lua, (text, options): (LuaString, Option<Table>)) -> Result<LuaString> {
    let options = CallOptions::of(lua, "codec.url_encode", options, &["form"])?;
    let escaped = if options.get("form")?.unwrap_or(false) {
        url::escape_form(&text.as_bytes())
    } else {
        let mut out = Vec::new();
        url::escape_component(&mut out, &text.as_bytes()).map(|()| out)
    };
    lua.create_string(escaped.map_err(|why| why.of("codec.url_encode"))?)
}

/// `codec.url_decode(text [, {form = true}]) -> string`, or `nil, why` if a percent sign begins no
/// escape. A `+` is a space with `form`, else it is a `+`.
fn url_decode(lua: &Lua, (text, options): (LuaString, Option<Table>)) -> Result<MultiValue> {
    let options = CallOptions::of(lua, "codec.url_decode", options, &["form"])?;
    let bytes = url::unescape(&text.as_bytes(), options.get("form")?.unwrap_or(false));
    decoded(lua, bytes, "a percent sign without two hexadecimal digits after it")
}

/// `codec.html_escape(text) -> string`: `& < > " '` as references, for content and for quoted
/// attributes.
fn html_escape(lua: &Lua, text: LuaString) -> Result<LuaString> {
    let escaped = html::escape(&text.as_bytes());
    lua.create_string(escaped.map_err(|why| why.of("codec.html_escape"))?)
}

/// `codec.html_unescape(text) -> string`: undoes `html_escape`, and understands references by
/// number as well. Other names stay as they are.
fn html_unescape(lua: &Lua, text: LuaString) -> Result<LuaString> {
    let plain = html::unescape(&text.as_bytes());
    lua.create_string(plain.map_err(|why| why.of("codec.html_unescape"))?)
}
