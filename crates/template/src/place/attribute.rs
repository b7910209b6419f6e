//! What the value of an attribute is.

use std::borrow::Cow;

use super::context::Context;
use super::script::Script;
use super::style::Style;

/// A place in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text,
    Url(Url),
    Script(Script),
    Style(Style),
    /// HTML again, or a value whose attribute has a name that is not known.
    Refused(&'static str),
}

/// How far into a URL; a later part is escaped more strictly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Url {
    Start,
    Path,
    Query,
}

/// Attributes that are URLs, of all elements of HTML and SVG.
const URLS: &[&[u8]] = &[
    b"action",
    b"background",
    b"cite",
    b"classid",
    b"codebase",
    b"data",
    b"formaction",
    b"href",
    b"icon",
    b"longdesc",
    b"manifest",
    b"ping",
    b"poster",
    b"profile",
    b"src",
    b"usemap",
    b"xlink:href",
    b"xml:base",
];

impl Value {
    /// The front of the value of an attribute, by its name in small letters. None: the name is
    /// made at run time.
    pub(crate) fn of_attribute(name: Option<&[u8]>) -> Self {
        match name {
            None => Self::Refused("a value in an attribute whose name is a value too"),
            Some(b"srcdoc") => {
                Self::Refused("a value in `srcdoc`, a page of HTML, cannot be escaped here")
            }
            Some(b"style") => Self::Style(Style::default()),
            Some(name) if name.starts_with(b"on") => Self::Script(Script::default()),
            Some(name) if URLS.contains(&name) => Self::Url(Url::Start),
            Some(_) => Self::Text,
        }
    }

    /// Goes on by some text, none of which ends the value.
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        match self {
            Self::Text | Self::Refused(_) => {}
            Self::Url(url) => {
                if bytes.iter().any(|byte| b"?#&".contains(byte)) {
                    *url = Url::Query;
                } else if !bytes.trim_ascii().is_empty() {
                    *url = (*url).max(Url::Path);
                }
            }
            Self::Script(script) => script.text(&plain_quotes(bytes)),
            Self::Style(style) => style.text(&plain_quotes(bytes)),
        }
    }

    /// A value between quotes; goes on by it.
    pub(crate) fn value(&mut self) -> Result<Context, &'static str> {
        match self {
            Self::Refused(why) => Err(why),
            Self::Url(url) => {
                let context = match url {
                    Url::Start => Context::Url,
                    Url::Path => Context::UrlPath,
                    Url::Query => Context::UrlQuery,
                };
                *url = (*url).max(Url::Path);
                Ok(context)
            }
            Self::Text => Ok(Context::Attribute),
            Self::Style(style) => Ok(style.value()),
            Self::Script(script) => match script.value()? {
                Context::Script => Ok(Context::ScriptAttribute),
                other => Ok(other),
            },
        }
    }

    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Url(one), Self::Url(other)) => Some(Self::Url(*one.max(other))),
            (Self::Script(one), Self::Script(other)) => Some(Self::Script(one.joined(other)?)),
            _ => (self == other).then(|| self.clone()),
        }
    }
}

/// Text with the quotes in it that are written as references, as a browser reads it.
fn plain_quotes(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.contains(&b'&') {
        return Cow::Borrowed(bytes);
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [byte, behind @ ..] = rest {
        let (byte, behind) = quote(rest).unwrap_or((*byte, behind));
        plain.push(byte);
        rest = behind;
    }
    Cow::Owned(plain)
}

/// A quote that is written as a reference, and what is behind it.
fn quote(here: &[u8]) -> Option<(u8, &[u8])> {
    const QUOTES: &[(&[u8], u8)] = &[
        (b"&quot;", b'"'),
        (b"&apos;", b'\''),
        (b"&#34;", b'"'),
        (b"&#39;", b'\''),
        (b"&#x22;", b'"'),
        (b"&#x27;", b'\''),
    ];
    QUOTES.iter().find_map(|&(name, quote)| {
        let (front, behind) = here.split_at_checked(name.len())?;
        front.eq_ignore_ascii_case(name).then_some((quote, behind))
    })
}
