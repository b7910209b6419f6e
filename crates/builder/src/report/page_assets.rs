//! A page → the keys of the files that a browser loads for it.
//!
//! Included are the files that elements of the page name. Not included are files that style sheets
//! and scripts load, and files on other hosts.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};
use pinion_http::request_target::decode_path;

use crate::limits::ASSETS_MAX;

/// Relations of a `link` that a browser loads at once.
const LOADED: [&[u8]; 5] = [b"stylesheet", b"preload", b"modulepreload", b"icon", b"manifest"];

/// Returns the keys that the page under `key` names, each once, at most [`ASSETS_MAX`].
pub(crate) fn assets(key: &[u8], html: &[u8]) -> Vec<Box<[u8]>> {
    let mut found: Vec<Box<[u8]>> = Vec::new();
    let mut emitter = DefaultEmitter::default();
    // The text of a script is no markup.
    emitter.naively_switch_states(true);
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        let Token::StartTag(tag) = token else { continue };
        if &*tag.name == b"base" {
            // After a `base` element nothing is relative to the page; rare, and not worth more.
            break;
        }
        let new = named(&tag).and_then(|reference| resolved(key, reference));
        if let Some(new) = new.filter(|new| !found.contains(new)) {
            found.push(new);
        }
        if found.len() == ASSETS_MAX {
            break;
        }
    }
    found
}

/// Returns the URL that an element has a browser load.
fn named(tag: &StartTag<()>) -> Option<&[u8]> {
    let value = |name: &[u8]| tag.attributes.get(name).map(|value| &***value as &[u8]);
    match &**tag.name as &[u8] {
        b"link" => {
            let words = value(b"rel")?.split(u8::is_ascii_whitespace);
            let loaded =
                words.into_iter().any(|w| LOADED.iter().any(|l| w.eq_ignore_ascii_case(l)));
            value(b"href").filter(|_| loaded)
        }
        b"script" | b"img" | b"audio" | b"video" | b"source" | b"embed" | b"iframe" => {
            value(b"src").or_else(|| first_of_set(value(b"srcset")?))
        }
        b"object" => value(b"data"),
        b"image" | b"use" => value(b"href"),
        _ => None,
    }
}

/// Returns the first candidate of a `srcset`; a browser loads one of them.
fn first_of_set(set: &[u8]) -> Option<&[u8]> {
    set.split(u8::is_ascii_whitespace)
        .find(|word| !word.is_empty())
        .map(|word| word.strip_suffix(b",").unwrap_or(word))
}

/// Returns the key that a reference leads to from the page `key`; `None` for other hosts and
/// schemes.
fn resolved(key: &[u8], reference: &[u8]) -> Option<Box<[u8]>> {
    let reference = reference.trim_ascii();
    let end = reference.iter().position(|byte| b"?#".contains(byte)).unwrap_or(reference.len());
    let path = reference.get(..end)?;
    let first = path.split(|&byte| byte == b'/').next().unwrap_or_default();
    if path.is_empty() || path.starts_with(b"//") || first.contains(&b':') {
        return None;
    }
    let whole = if path.starts_with(b"/") {
        path.to_vec()
    } else {
        let folder = key.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        [&crate::path_aliases::escaped(key.get(..folder)?), path].concat()
    };
    let mut decoded = Vec::new();
    decode_path(&whole, &mut decoded).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str, html: &str) -> Vec<String> {
        let keys = assets(key.as_bytes(), html.as_bytes());
        keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }

    #[test]
    fn assets_that_a_browser_loads_are_found() {
        let html = r#"<!doctype html><LINK rel="Stylesheet" href="style.css?v=3">
            <link rel=canonical href=/other><link rel="shortcut icon" href="/favicon.svg">
            <script src=../app.js></script><script>"<img src=no.png>"</script>
            <img src="a%20b.png" alt=""><img srcset="small.png 1x, big.png 2x">
            <img src="https://cdn.example/x.png"><img src="//cdn.example/y.png">
            <img src="data:image/gif;base64,R0lG"><video src="film.mp4#t=3" poster=p.png></video>
            <a href=page.html>text</a><!-- <img src=gone.png> --><img src=style.css>"#;
        assert_eq!(
            of("/docs/index.html", html),
            [
                "/docs/style.css",
                "/favicon.svg",
                "/app.js",
                "/docs/a b.png",
                "/docs/small.png",
                "/docs/film.mp4",
            ]
        );
    }

    #[test]
    fn assets_outside_the_site_are_ignored() {
        assert_eq!(
            of("/a.html", "<img src=../../etc/passwd><img src=''><img src='%zz'>"),
            ["x"; 0]
        );
        assert_eq!(of("/a.html", "<base href=/b/><img src=x>"), ["x"; 0]);
        assert_eq!(of("/ü/a.html", "<img src=ö.png>"), ["/ü/ö.png"]);
    }

    #[test]
    fn the_number_of_assets_of_a_page_is_limited() {
        let html: String = (0..2 * ASSETS_MAX).map(|n| format!("<img src={n}.png>")).collect();
        assert_eq!(of("/a.html", &html).len(), ASSETS_MAX);
    }
}
