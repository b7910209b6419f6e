//! Elements in which a browser reads no elements (HTML, §13.2.5.2 and on), and others with an
//! effect on values.

use super::context::Context;
use super::script::ScriptContext;
use super::style::StyleContext;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Script(ScriptContext),
    /// A `script` whose URLs decide which code the others load.
    ImportMap,
    Style(StyleContext),
    /// An element whose text may contain references: `title`, `textarea`.
    Text(&'static [u8]),
    /// An element whose text has no markup at all.
    Opaque(&'static [u8]),
    /// One of these within `svg` or `math`, where the elements around decide whether it contains
    /// elements.
    Foreign(&'static [u8]),
}

const TEXT_ELEMENTS: &[&[u8]] = &[b"title", b"textarea"];
const OPAQUE_ELEMENTS: &[&[u8]] = &[b"xmp", b"iframe", b"noembed", b"noframes", b"plaintext"];

/// Elements that a value may not name: elements that run or load code, or change how a browser
/// reads their content.
pub(super) const NOT_COMPUTED: &[&[u8]] = &[
    b"animate",
    b"animatecolor",
    b"animatemotion",
    b"animatetransform",
    b"annotation-xml",
    b"applet",
    b"base",
    b"embed",
    b"foreignobject",
    b"frame",
    b"frameset",
    b"iframe",
    b"image",
    b"link",
    b"math",
    b"meta",
    b"noembed",
    b"noframes",
    b"noscript",
    b"object",
    b"param",
    b"plaintext",
    b"portal",
    b"script",
    b"select",
    b"set",
    b"style",
    b"svg",
    b"template",
    b"textarea",
    b"title",
    b"xmp",
];

impl Element {
    /// Returns the description of the inside of the element, for errors.
    pub(super) fn described(&self) -> String {
        match self {
            Self::Script(_) => "a script".to_owned(),
            Self::ImportMap => "an import map".to_owned(),
            Self::Style(_) => "a style".to_owned(),
            Self::Text(name) | Self::Opaque(name) | Self::Foreign(name) => {
                format!("the element `{}`", String::from_utf8_lossy(name))
            }
        }
    }

    pub(super) fn of_tag(tag: &[u8], is_foreign: bool) -> Option<Self> {
        let known = |tags: &[&'static [u8]]| tags.iter().find(|&&known| known == tag).copied();
        let element = match tag {
            b"script" => Self::Script(ScriptContext::default()),
            b"style" => Self::Style(StyleContext::default()),
            _ => known(TEXT_ELEMENTS)
                .map(Self::Text)
                .or_else(|| known(OPAQUE_ELEMENTS).map(Self::Opaque))?,
        };
        Some(if is_foreign { Self::Foreign(element.name()) } else { element })
    }

    pub(super) fn name(&self) -> &'static [u8] {
        match self {
            Self::Script(_) | Self::ImportMap => b"script",
            Self::Style(_) => b"style",
            Self::Text(name) | Self::Opaque(name) | Self::Foreign(name) => name,
        }
    }

    pub(super) fn text(&mut self, bytes: &[u8]) {
        match self {
            Self::Script(script) => script.text(bytes),
            Self::Style(style) => style.text(bytes),
            Self::ImportMap | Self::Text(_) | Self::Opaque(_) | Self::Foreign(_) => {}
        }
    }

    pub(super) fn value(&mut self) -> Result<Context, &'static str> {
        match self {
            Self::Script(script) => script.value(),
            Self::ImportMap => Err(IMPORT_MAP),
            Self::Style(style) => style.value(),
            Self::Text(_) | Self::Foreign(b"title" | b"textarea") => Ok(Context::Text),
            Self::Foreign(b"style") => Ok(Context::Style),
            Self::Foreign(b"script") => Err(FOREIGN_SCRIPT),
            Self::Opaque(_) | Self::Foreign(_) => {
                Err("a value in this element cannot be escaped: browsers decode nothing in it")
            }
        }
    }
}

/// Returns whether an element may have this name, and any other name with this beginning.
pub(super) fn may_be_computed(front: &[u8]) -> bool {
    !front.is_empty() && !NOT_COMPUTED.iter().any(|name| name.starts_with(front))
}

const IMPORT_MAP: &str = "a value in an import map decides which code the page loads; write the \
     map as text, or insert one that you have encoded with `#[[!map]]`";

const FOREIGN_SCRIPT: &str = "a value in a script within `svg` or `math` cannot be escaped, as \
     browsers read references there; put the script outside of it";

/// Returns where the end tag of an element begins.
pub(super) fn end_tag(here: &[u8], name: &[u8]) -> Option<usize> {
    let is_end = |rest: &[u8]| {
        let behind = rest.get(2 + name.len()..).unwrap_or_default();
        rest.starts_with(b"</")
            && rest.get(2..2 + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
            && behind.first().is_none_or(|&b| b.is_ascii_whitespace() || b == b'/' || b == b'>')
    };
    (0..here.len()).find(|&at| here[at] == b'<' && is_end(&here[at..]))
}

/// Returns whether a text ends within such an end tag, which a following value could complete.
pub(super) fn is_cut_end_tag(text: &[u8], name: &[u8]) -> bool {
    let tag = text.iter().rposition(|&byte| byte == b'<').map(|at| &text[at..]);
    let front = tag.and_then(|tag| tag.strip_prefix(b"</"));
    front.is_some_and(|front| {
        name.get(..front.len()).is_some_and(|name| name.eq_ignore_ascii_case(front))
    })
}
