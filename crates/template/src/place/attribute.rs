//! What the value of an attribute is.

use super::context::Context;
use super::reference::decoded;
use super::script::Script;
use super::style::Style;
use super::url::Url;

/// A place in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    kind: Kind,
    /// The front of a reference that has not ended yet.
    cut: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Url(Url),
    Script(Script),
    Style(Style),
    /// No value can stand here; why.
    Refused(&'static str),
}

/// Attributes that are URLs, of all elements of HTML and SVG, without what stands before a colon.
const URLS: &[&[u8]] = &[
    b"action",
    b"background",
    b"base",
    b"by",
    b"cite",
    b"classid",
    b"codebase",
    b"data",
    b"formaction",
    b"from",
    b"href",
    b"icon",
    b"longdesc",
    b"manifest",
    b"ping",
    b"poster",
    b"profile",
    b"src",
    // With `by`, `from` and `values`: what SVG animates may be an `href`.
    b"to",
    b"usemap",
    b"values",
];

impl Value {
    /// The front of the value of an attribute, by its name in small letters. None: the name is
    /// made at run time.
    pub(crate) fn of_attribute(name: Option<&[u8]>) -> Self {
        let local = name.and_then(|name| name.rsplit(|&byte| byte == b':').next());
        let kind = match (name, local) {
            (None, _) => Kind::Refused("a value in an attribute whose name is a value too"),
            (Some(b"srcdoc"), _) => {
                Kind::Refused("a value in `srcdoc`, a page of HTML, cannot be escaped here")
            }
            (Some(b"style"), _) => Kind::Style(Style::default()),
            (Some(name), _) if name.starts_with(b"on") => Kind::Script(Script::default()),
            (_, Some(local)) if URLS.contains(&local) => Kind::Url(Url::default()),
            _ => Kind::Text,
        };
        Self { kind, cut: Vec::new() }
    }

    /// Goes on by some text, none of which ends the value.
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        if matches!(self.kind, Kind::Text | Kind::Refused(_)) {
            return;
        }
        let bytes = [&self.cut, bytes].concat();
        let decoded = decoded(&bytes);
        self.cut = decoded.cut.to_vec();
        let taken = match &mut self.kind {
            Kind::Script(_) | Kind::Style(_) if decoded.has_unknown => Err(UNKNOWN_REFERENCE),
            Kind::Url(url) if decoded.has_unknown => url.text(b"&"),
            _ => Ok(()),
        };
        let taken = taken.and_then(|()| {
            match &mut self.kind {
                Kind::Text | Kind::Refused(_) => {}
                Kind::Url(url) => url.text(&decoded.text)?,
                Kind::Script(script) => script.text(&decoded.text),
                Kind::Style(style) => style.text(&decoded.text),
            }
            Ok(())
        });
        if let Err(why) = taken {
            self.kind = Kind::Refused(why);
        }
    }

    /// A value between quotes; goes on by it.
    pub(crate) fn value(&mut self) -> Result<Context, &'static str> {
        let is_cut = !std::mem::take(&mut self.cut).is_empty();
        match &mut self.kind {
            Kind::Refused(why) => Err(why),
            Kind::Url(url) => {
                // Behind the scheme, no sign has a meaning that it must not have.
                if is_cut {
                    url.text(b"&")?;
                }
                Ok(url.value())
            }
            Kind::Script(_) | Kind::Style(_) if is_cut => Err(CUT_REFERENCE),
            Kind::Text => Ok(Context::Attribute),
            Kind::Style(style) => Ok(style.value()),
            Kind::Script(script) => match script.value()? {
                Context::Script => Ok(Context::ScriptAttribute),
                other => Ok(other),
            },
        }
    }

    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        let kind = match (&self.kind, &other.kind) {
            (Kind::Url(one), Kind::Url(other)) => Kind::Url(one.joined(other)),
            (Kind::Script(one), Kind::Script(other)) => Kind::Script(one.joined(other)?),
            // Either way no value can stand here, and the other one may.
            (Kind::Refused(why), Kind::Url(_)) | (Kind::Url(_), Kind::Refused(why)) => {
                Kind::Refused(why)
            }
            (one, other) => (one == other).then(|| one.clone())?,
        };
        (self.cut == other.cut).then(|| Self { kind, cut: self.cut.clone() })
    }
}

const UNKNOWN_REFERENCE: &str = "a reference such as `&copy;` stands before this value, and only \
     those that mean a sign of ASCII are known within scripts and styles; write the sign itself";

const CUT_REFERENCE: &str = "what stands before this value, from the `&` on, may become a \
     reference by it; write `&amp;` for the sign";
