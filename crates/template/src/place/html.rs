//! A place in HTML or XML: what a browser's tokenizer would be in (HTML, §13.2.5), as far as it
//! matters to a value.

use super::attribute::Value;
use super::context::Context;
use super::script::Script;
use super::style::Style;
use crate::limits::NAME_MAX_BYTES;

/// A place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Html {
    state: State,
    is_xml: bool,
    /// The tag that is open, in small letters; empty for one that closes.
    tag: Vec<u8>,
    /// The attribute that is being read, in small letters.
    name: Vec<u8>,
    /// A part of that name is a value.
    is_computed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// Behind `<` or in the name of a tag.
    Tag,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    /// In a value, between such quotes or, with 0, none.
    Value(u8, Value),
    /// `<!-- … -->`.
    Comment,
    /// `<! … >` or `<? … >`.
    Declaration,
    /// `<![CDATA[ … ]]>` of XML.
    Data,
    /// In an element that has no elements in it, up to its end tag.
    Raw(Element),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    Script(Script),
    Style(Style),
    /// References mean something: `title`, `textarea`.
    Text(&'static [u8]),
    /// Nothing does.
    Opaque(&'static [u8]),
}

const TEXT_ELEMENTS: &[&[u8]] = &[b"title", b"textarea"];
const OPAQUE_ELEMENTS: &[&[u8]] = &[b"xmp", b"iframe", b"noembed", b"noframes", b"plaintext"];

impl Element {
    fn of_tag(tag: &[u8]) -> Option<Self> {
        let known = |tags: &[&'static [u8]]| tags.iter().find(|&&known| known == tag).copied();
        match tag {
            b"script" => Some(Self::Script(Script::default())),
            b"style" => Some(Self::Style(Style::default())),
            _ => known(TEXT_ELEMENTS)
                .map(Self::Text)
                .or_else(|| known(OPAQUE_ELEMENTS).map(Self::Opaque)),
        }
    }

    fn name(&self) -> &'static [u8] {
        match self {
            Self::Script(_) => b"script",
            Self::Style(_) => b"style",
            Self::Text(name) | Self::Opaque(name) => name,
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        match self {
            Self::Script(script) => script.text(bytes),
            Self::Style(style) => style.text(bytes),
            Self::Text(_) | Self::Opaque(_) => {}
        }
    }
}

impl Html {
    /// The front of a document of XML.
    pub(crate) fn xml() -> Self {
        Self { is_xml: true, ..Self::default() }
    }

    pub(crate) fn text(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = self.step(rest).clamp(1, rest.len());
            rest = &rest[length..];
        }
    }

    /// Takes what is at the front; how many bytes it is.
    fn step(&mut self, here: &[u8]) -> usize {
        let byte = here[0];
        match &mut self.state {
            State::Text => self.outside(here),
            State::Comment => self.until(here, b"-->"),
            State::Declaration => self.until(here, b">"),
            State::Data => self.until(here, b"]]>"),
            State::Raw(element) => {
                let length = end_tag(here, element.name()).unwrap_or(here.len());
                element.text(&here[..length]);
                if length == 0 {
                    self.open_tag(false);
                    return 2;
                }
                length
            }
            State::Value(quote, value) => {
                let quote = *quote;
                let ends = |&byte: &u8| match quote {
                    0 => byte == b'>' || byte.is_ascii_whitespace(),
                    _ => byte == quote,
                };
                let length = here.iter().position(ends).unwrap_or(here.len());
                value.text(&here[..length]);
                if length == 0 && quote == 0 && byte == b'>' {
                    return self.close_tag();
                } else if length == 0 {
                    self.state = State::BeforeName;
                }
                length
            }
            _ => self.inside(byte),
        }
    }

    /// In text.
    fn outside(&mut self, here: &[u8]) -> usize {
        match here {
            [b'<', b'!', b'-', b'-', b'>', ..] => 5,
            [b'<', b'!', b'-', b'-', b'-', b'>', ..] => 6,
            [b'<', b'!', b'-', b'-', ..] => {
                self.state = State::Comment;
                4
            }
            _ if self.is_xml && here.starts_with(b"<![CDATA[") => {
                self.state = State::Data;
                9
            }
            [b'<', b'!' | b'?', ..] => {
                self.state = State::Declaration;
                2
            }
            [b'<', b'/', next, ..] if next.is_ascii_alphabetic() => {
                self.open_tag(false);
                2
            }
            [b'<', next, ..] if next.is_ascii_alphabetic() => {
                self.open_tag(true);
                1
            }
            // The name of the tag may be a value.
            [b'<'] => {
                self.open_tag(true);
                1
            }
            [b'<', b'/'] => {
                self.open_tag(false);
                2
            }
            _ => here.iter().skip(1).position(|&byte| byte == b'<').map_or(here.len(), |at| at + 1),
        }
    }

    /// Up to and with what ends it.
    fn until(&mut self, here: &[u8], end: &[u8]) -> usize {
        match here.windows(end.len()).position(|window| window == end) {
            Some(at) => {
                self.state = State::Text;
                at + end.len()
            }
            None => here.len(),
        }
    }

    /// A tag that opens keeps its name, for what its element has in it.
    fn open_tag(&mut self, opens: bool) {
        self.state = State::Tag;
        self.tag.clear();
        self.is_computed = !opens;
    }

    fn close_tag(&mut self) -> usize {
        let element = if self.is_xml { None } else { Element::of_tag(&self.tag) };
        self.state = element.map_or(State::Text, State::Raw);
        1
    }

    /// Inside of a tag, outside of values.
    fn inside(&mut self, byte: u8) -> usize {
        if byte == b'>' {
            return self.close_tag();
        }
        let is_space = byte.is_ascii_whitespace();
        match self.state {
            State::Tag if is_space || byte == b'/' => self.state = State::BeforeName,
            // Of a tag that closes, nothing is kept.
            State::Tag if !self.is_computed => push(&mut self.tag, byte),
            State::BeforeValue if is_space => {}
            State::BeforeValue => {
                let (quote, mut value) = (matches!(byte, b'"' | b'\''), self.new_value());
                if !quote {
                    value.text(&[byte]);
                }
                self.state = State::Value(if quote { byte } else { 0 }, value);
            }
            State::Name if is_space => self.state = State::AfterName,
            State::Name | State::AfterName if byte == b'=' => self.state = State::BeforeValue,
            State::Name | State::AfterName | State::BeforeName if byte == b'/' => {
                self.state = State::BeforeName;
            }
            State::BeforeName | State::AfterName if !is_space => {
                self.name.clear();
                self.is_computed = false;
                push(&mut self.name, byte);
                self.state = State::Name;
            }
            State::Name => push(&mut self.name, byte),
            _ => {}
        }
        1
    }

    /// The front of the value of the present attribute.
    fn new_value(&self) -> Value {
        let name = (!self.is_computed).then_some(self.name.as_slice());
        if self.is_xml { Value::Text } else { Value::of_attribute(name) }
    }

    pub(crate) fn value(&mut self) -> Result<Context, &'static str> {
        match &mut self.state {
            State::Text | State::Raw(Element::Text(_)) => Ok(Context::Text),
            State::Comment | State::Declaration => Ok(Context::Comment),
            State::Data => Err("a value in CDATA cannot be escaped; text outside of it can"),
            State::Raw(Element::Opaque(_)) => {
                Err("nothing can be escaped in this element, so it takes no values")
            }
            State::Raw(Element::Script(script)) => script.value(),
            State::Raw(Element::Style(style)) => Ok(style.value()),
            State::Value(0, _) => Err(NEEDS_QUOTES),
            State::Value(_, value) => value.value(),
            State::BeforeValue => {
                self.state = State::Value(0, self.new_value());
                Err(NEEDS_QUOTES)
            }
            State::Tag => {
                // What element it is shows at run time; one with a script in it is not foreseen.
                self.tag.clear();
                self.is_computed = true;
                Ok(Context::Name)
            }
            State::Name => {
                // What begins with `data-` stays harmless whatever follows.
                let is_harmless =
                    self.name.starts_with(b"data-") || self.name.starts_with(b"aria-");
                self.is_computed |= !is_harmless;
                Ok(Context::Name)
            }
            State::BeforeName | State::AfterName => {
                self.name.clear();
                self.is_computed = true;
                self.state = State::Name;
                Ok(Context::Name)
            }
        }
    }

    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        use State::{AfterName, BeforeName, Name};
        let between = |state: &State| matches!(state, BeforeName | Name | AfterName);
        let mut joined = self.clone();
        match (&self.state, &other.state) {
            (Name, Name) if self.name == other.name => {
                joined.is_computed |= other.is_computed;
            }
            (one, other) if between(one) && between(other) => {
                joined.state = AfterName;
                joined.is_computed = true;
            }
            (State::BeforeValue, State::BeforeValue) => {
                joined.is_computed |= other.is_computed || self.name != other.name;
            }
            (State::Value(one_quote, one), State::Value(quote, value)) if one_quote == quote => {
                joined.state = State::Value(*quote, one.joined(value)?);
            }
            (State::Raw(Element::Script(one)), State::Raw(Element::Script(script))) => {
                joined.state = State::Raw(Element::Script(one.joined(script)?));
            }
            (one, other) if one != other => return None,
            _ => {}
        }
        let is_in_tag = !matches!(
            joined.state,
            State::Text | State::Comment | State::Declaration | State::Data | State::Raw(_)
        );
        (!is_in_tag || self.tag == other.tag).then_some(joined)
    }
}

/// Nothing can be escaped so that it is one value whatever it is: a browser takes what follows an
/// empty one, the next attribute, for the value.
const NEEDS_QUOTES: &str =
    "a value in an attribute needs quotes around it, such as title=\"#[[…]]\"";

fn push(name: &mut Vec<u8>, byte: u8) {
    if name.len() < NAME_MAX_BYTES {
        name.push(byte.to_ascii_lowercase());
    }
}

/// Where the end tag of an element begins.
fn end_tag(here: &[u8], name: &[u8]) -> Option<usize> {
    let is_end = |rest: &[u8]| {
        let behind = rest.get(2 + name.len()..).unwrap_or_default();
        rest.starts_with(b"</")
            && rest.get(2..2 + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
            && behind.first().is_none_or(|&b| b.is_ascii_whitespace() || b == b'/' || b == b'>')
    };
    (0..here.len()).find(|&at| here[at] == b'<' && is_end(&here[at..]))
}
