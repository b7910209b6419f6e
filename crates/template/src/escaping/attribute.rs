//! The value of an attribute, and its escaping.

use super::character_reference::decoded;
use super::code_attributes;
use super::context::{Context, TRUST_IS_IDLE, Trust};
use super::script::ScriptContext;
use super::style::StyleContext;
use super::tag::{TELLING, Tag, local};
use super::url::Url;

/// A position in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueContext {
    kind: Kind,
    /// The beginning of a reference that has not ended yet.
    cut: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// Text that decides the meaning of other attributes; none once it contains a value.
    Word(Option<Vec<u8>>),
    Url(Url),
    /// A URL of code that the page loads, or to which a form is sent, and the reason why no value
    /// may decide it.
    TrustedUrl(Url, &'static str),
    /// A time and a URL, of the page that follows this one.
    Refresh,
    Script(ScriptContext),
    Style(StyleContext),
    /// No value is possible here, for this reason.
    Refused(&'static str),
}

/// Attributes that are URLs, of all elements of HTML and SVG, without a prefix before a colon.
const URLS: &[&[u8]] = &[
    b"action",
    b"background",
    b"base",
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
];

impl ValueContext {
    /// Returns the beginning of the value of an attribute, by its name in small letters and its
    /// tag. The name is none if it is made at run time.
    pub(super) fn of_attribute(name: Option<&[u8]>, tag: &Tag) -> Self {
        let kind = match name {
            None => Kind::Refused(
                "a value in an attribute whose name is a value too; write the name out",
            ),
            Some(name) => Self::kind(name, local(name), tag),
        };
        Self { kind, cut: Vec::new() }
    }

    fn kind(name: &[u8], local: &[u8], tag: &Tag) -> Kind {
        let loads = || if tag.name == b"link" { LINK } else { LOADS };
        match name {
            b"srcdoc" => {
                Kind::Refused("a value in `srcdoc`, a page of HTML, cannot be escaped here")
            }
            b"style" => Kind::Style(StyleContext::default()),
            name if code_attributes::is_unknown_code(name) => Kind::Refused(HYPERSCRIPT),
            name if code_attributes::is_code(name) => Kind::Script(ScriptContext::default()),
            name if TELLING.contains(&name) => Kind::Word(Some(Vec::new())),
            _ if tag.refreshes(name) => Kind::Refresh,
            _ if tag.animates(local) => Kind::Refused(ANIMATES),
            _ if tag.loads(local) => Kind::TrustedUrl(Url::default(), loads()),
            _ if URLS.contains(&local) => Kind::Url(Url::default()),
            _ => Kind::Text,
        }
    }

    /// Returns the text of an attribute that decides the meaning of others, in small letters; none
    /// if not all of it is known.
    pub(super) fn word(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::Word(word) if self.cut.is_empty() => word.as_deref(),
            _ => None,
        }
    }

    /// Advances by some text, none of which ends the value.
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        if matches!(self.kind, Kind::Text | Kind::Refresh | Kind::Refused(_)) {
            return;
        }
        let bytes = [&self.cut, bytes].concat();
        let decoded = decoded(&bytes);
        self.cut = decoded.cut.to_vec();
        let taken = match &mut self.kind {
            Kind::Script(_) | Kind::Style(_) if decoded.has_unknown => Err(UNKNOWN_REFERENCE),
            Kind::Url(url) | Kind::TrustedUrl(url, _) if decoded.has_unknown => url.text(b"&"),
            Kind::Word(word) if decoded.has_unknown => {
                *word = None;
                Ok(())
            }
            _ => Ok(()),
        };
        let taken = taken.and_then(|()| {
            match &mut self.kind {
                Kind::Text | Kind::Refresh | Kind::Refused(_) | Kind::Word(None) => {}
                Kind::Word(Some(word)) => {
                    word.extend(decoded.text.iter().map(u8::to_ascii_lowercase));
                }
                Kind::Url(url) | Kind::TrustedUrl(url, _) => url.text(&decoded.text)?,
                Kind::Script(script) => script.text(&decoded.text),
                Kind::Style(style) => style.text(&decoded.text),
            }
            Ok(())
        });
        if let Err(why) = taken {
            self.kind = Kind::Refused(why);
        }
    }

    /// Returns the escaping of a value between quotes, and advances by it.
    pub(crate) fn value(&mut self, trust: Trust) -> Result<Context, &'static str> {
        let is_cut = !std::mem::take(&mut self.cut).is_empty();
        match &mut self.kind {
            Kind::Refused(why) => return Err(why),
            Kind::Url(url) | Kind::TrustedUrl(url, _) if is_cut => {
                // After the scheme, no sign has a dangerous meaning.
                url.text(b"&")?;
            }
            _ => {}
        }
        match &mut self.kind {
            Kind::TrustedUrl(url, why) if url.decides_origin() => {
                let context = url.value();
                return if trust == Trust::Nothing { Err(why) } else { Ok(context) };
            }
            Kind::Refresh if trust == Trust::Nothing => return Err(REFRESHES),
            Kind::Refresh => return Ok(Context::Attribute),
            _ if trust == Trust::Url => return Err(TRUST_IS_IDLE),
            _ => {}
        }
        match &mut self.kind {
            Kind::Refused(why) => Err(why),
            Kind::Url(url) | Kind::TrustedUrl(url, _) => Ok(url.value()),
            Kind::Word(word) => {
                *word = None;
                Ok(Context::Attribute)
            }
            Kind::Script(_) | Kind::Style(_) if is_cut => Err(CUT_REFERENCE),
            Kind::Text | Kind::Refresh => Ok(Context::Attribute),
            Kind::Style(style) => style.value(),
            Kind::Script(script) => match script.value()? {
                Context::Script => Ok(Context::ScriptAttribute),
                other => Ok(other),
            },
        }
    }

    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        let kind = match (&self.kind, &other.kind) {
            (Kind::Url(one), Kind::Url(other)) => Kind::Url(one.joined(other)),
            (Kind::TrustedUrl(one, why), Kind::TrustedUrl(other, _)) => {
                Kind::TrustedUrl(one.joined(other), why)
            }
            (Kind::Word(_), Kind::Word(_)) if self.kind != other.kind => Kind::Word(None),
            (Kind::Script(one), Kind::Script(other)) => Kind::Script(one.joined(other)?),
            // In both cases no value is possible here, although one may be in the other branch.
            (Kind::Refused(why), Kind::Url(_) | Kind::TrustedUrl(..))
            | (Kind::Url(_) | Kind::TrustedUrl(..), Kind::Refused(why)) => Kind::Refused(why),
            (one, other) => (one == other).then(|| one.clone())?,
        };
        (self.cut == other.cut).then(|| Self { kind, cut: self.cut.clone() })
    }
}

const UNKNOWN_REFERENCE: &str = "a reference such as `&copy;` stands before this value, and only \
     those that mean a sign of ASCII are known within scripts and styles; write the sign itself";

const CUT_REFERENCE: &str = "the text before this value, from the `&` on, may become a \
     reference together with it; write `&amp;` for the sign";

const LOADS: &str = "a value here decides which code the page loads, which page is shown within it \
     or where a form is sent; write the front of the URL as text, such as \"/js/#[[name]].js\", or \
     write `#[[value:trusted]]` if the value comes from you and not from a request";

const LINK: &str = "the value decides which styles or code this `link` loads; write the front of \
     the URL as text, such as \"/css/#[[name]].css\", write `#[[value:trusted]]` if the value \
     comes from you, or, if the link is one such as `canonical` or `icon`, write its `rel` before \
     its `href`";

const REFRESHES: &str = "a value in the `content` of a `meta` that refreshes decides which page \
     follows; write it as text, or write `#[[value:trusted]]` if the value comes from you and not \
     from a request";

const ANIMATES: &str = "what SVG animates may be an `href`, and then this is a URL that a click \
     runs; write an `attributeName` before this attribute that is none, or the value as text";

const HYPERSCRIPT: &str = "a value in a script of hyperscript cannot be escaped here; put it into \
     a `data-` attribute and read it from the script";
