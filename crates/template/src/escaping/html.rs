//! A position in HTML or XML: the state of a browser's tokenizer (HTML, §13.2.5), as far as it
//! matters to a value.

use super::attribute::ValueContext;
use super::code_attributes;
use super::context::{Context, TRUST_IS_IDLE, Trust};
use super::special_elements::{Element, end_tag, is_cut_end_tag, may_be_computed};
use super::tag::{Tag, local};
use crate::compile_error::quoted;
use crate::limits::NAME_MAX_BYTES;

/// A position in HTML or XML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Html {
    state: State,
    is_xml: bool,
    /// The tag that is being read.
    tag: Tag,
    /// Whether it is an end tag.
    is_end: bool,
    /// Whether a `/` was the last byte that was read of it.
    has_slash: bool,
    /// The attribute that is being read, in small letters.
    name: Vec<u8>,
    /// Whether a part of the name of the tag or of the attribute is a value.
    is_computed: bool,
    /// The number of open elements around: in HTML, `svg` and `math`; in XML, scripts.
    foreign: usize,
    /// In XML, whether an `html` came before: only there elements have the meaning of HTML.
    is_page: bool,
    /// In XML, how many styles are open around.
    styles: usize,
    /// Whether the text ends with a part of an end tag of the element around, which a value could
    /// complete.
    is_cut: bool,
    /// The reason why the position is not known any more.
    lost: Option<&'static str>,
    /// The reason why an earlier value could not be escaped, which only the text after it has
    /// shown.
    fault: Option<&'static str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After `<` or in the name of a tag.
    Tag,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    /// In a value, between such quotes or, with 0, none.
    Value(u8, ValueContext),
    /// `<!-- … -->`.
    Comment,
    /// `<! … >` or `<? … >`.
    Declaration,
    /// `<![CDATA[ … ]]>` of XML.
    Data,
    /// In an element that has no elements in it, up to its end tag.
    Raw(Element),
}

impl Html {
    /// Returns the beginning of a document of XML.
    pub(crate) fn xml() -> Self {
        Self { is_xml: true, ..Self::default() }
    }

    /// Returns whether the document is one of XML.
    pub(crate) fn is_xml(&self) -> bool {
        self.is_xml
    }

    pub(crate) fn text(&mut self, bytes: &[u8]) {
        self.is_cut = false;
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = self.step(rest).clamp(1, rest.len());
            rest = &rest[length..];
        }
    }

    /// Reads the beginning of the text; returns how many bytes it has read.
    fn step(&mut self, here: &[u8]) -> usize {
        let byte = here[0];
        match &mut self.state {
            State::Text => self.outside(here),
            State::Comment => self.comment(here),
            State::Declaration => self.until(here, b">"),
            State::Data => self.until(here, b"]]>"),
            State::Raw(element) => {
                let length = end_tag(here, element.name()).unwrap_or(here.len());
                element.text(&here[..length]);
                if length == 0 {
                    self.open_tag(true);
                    return 2;
                }
                if matches!(element, Element::Foreign(_)) && here[..length].contains(&b'<') {
                    self.lost = Some(FOREIGN_TAG);
                }
                self.is_cut = is_cut_end_tag(&here[..length], element.name());
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
                if length == 0 {
                    self.end_value();
                    if quote == 0 && byte == b'>' {
                        return self.close_tag();
                    }
                    self.state = State::BeforeName;
                }
                length
            }
            _ => self.inside(byte),
        }
    }

    /// Reads text outside of tags.
    fn outside(&mut self, here: &[u8]) -> usize {
        match here {
            [b'<', b'!', b'-', b'-', b'>', ..] if !self.is_xml => 5,
            [b'<', b'!', b'-', b'-', b'-', b'>', ..] if !self.is_xml => 6,
            [b'<', b'!', b'-', b'-', ..] => {
                self.state = State::Comment;
                4
            }
            _ if self.is_xml && here.starts_with(b"<![CDATA[") => {
                self.state = State::Data;
                9
            }
            [b'<', b'!' | b'?', ..] => {
                if self.foreign > 0 && here.starts_with(b"<![CDATA[") {
                    self.lost = Some(FOREIGN_DATA);
                }
                self.state = State::Declaration;
                2
            }
            [b'<', b'/', next, ..] if next.is_ascii_alphabetic() => {
                self.open_tag(true);
                2
            }
            [b'<', next, ..] if next.is_ascii_alphabetic() => {
                self.open_tag(false);
                1
            }
            // The name of the tag may be a value.
            [b'<'] => {
                self.open_tag(false);
                1
            }
            [b'<', b'/'] => {
                self.open_tag(true);
                2
            }
            _ => here.iter().skip(1).position(|&byte| byte == b'<').map_or(here.len(), |at| at + 1),
        }
    }

    /// Reads up to and including `end`.
    fn until(&mut self, here: &[u8], end: &[u8]) -> usize {
        match here.windows(end.len()).position(|window| window == end) {
            Some(at) => {
                self.state = State::Text;
                at + end.len()
            }
            None => here.len(),
        }
    }

    fn comment(&mut self, here: &[u8]) -> usize {
        let is_end = |window: &[u8]| window == b"-->" || (window == b"--!" && !self.is_xml);
        match here.windows(3).position(is_end) {
            // Browsers accept `--!>` as an end too.
            Some(at) if here[at + 2] == b'!' && here.get(at + 3) != Some(&b'>') => at + 3,
            Some(at) => {
                self.state = State::Text;
                at + if here[at + 2] == b'!' { 4 } else { 3 }
            }
            None => here.len(),
        }
    }

    /// Ends the value of an attribute, and records its effect on the others.
    fn end_value(&mut self) {
        let State::Value(_, value) = &self.state else { return };
        if self.is_computed {
            self.tag.note_unknown();
        } else {
            self.tag.note(&self.name, value.word());
        }
        if self.tag.refreshes_by_value() {
            self.fault = Some(LATE_REFRESH);
        }
    }

    fn open_tag(&mut self, is_end: bool) {
        self.state = State::Tag;
        self.is_end = is_end;
        if self.is_xml && !self.is_page {
            self.tag.expect_feed();
        }
    }

    /// Ends a tag, of which nothing is kept: after any two tags the position is the same.
    fn close_tag(&mut self) -> usize {
        let tag = std::mem::take(&mut self.tag);
        let is_import_map = tag.is_import_map();
        let tag = tag.name;
        let is_end = std::mem::take(&mut self.is_end);
        let has_slash = std::mem::take(&mut self.has_slash);
        self.name.clear();
        self.is_computed = false;
        self.state = State::Text;
        let count = |open: usize| match (is_end, has_slash) {
            (true, _) => open.saturating_sub(1),
            (false, true) => open,
            (false, false) => open.saturating_add(1),
        };
        if self.is_xml {
            match local(&tag) {
                b"script" => self.foreign = count(self.foreign),
                b"style" => self.styles = count(self.styles),
                b"html" => self.is_page = true,
                _ => {}
            }
            return 1;
        }
        if matches!(tag.as_slice(), b"svg" | b"math") {
            self.foreign = count(self.foreign);
        }
        match Element::of_tag(&tag, self.foreign > 0).filter(|_| !is_end) {
            Some(Element::Foreign(_)) if has_slash => self.lost = Some(FOREIGN_SLASH),
            Some(Element::Script(_)) if is_import_map => {
                self.state = State::Raw(Element::ImportMap);
            }
            Some(element) => self.state = State::Raw(element),
            None => {}
        }
        1
    }

    /// Reads a byte inside of a tag, outside of values.
    fn inside(&mut self, byte: u8) -> usize {
        if byte == b'>' {
            return self.close_tag();
        }
        let is_space = byte.is_ascii_whitespace();
        self.has_slash = byte == b'/' && self.state != State::BeforeValue;
        match self.state {
            State::Tag if is_space || byte == b'/' => self.state = State::BeforeName,
            State::Tag if !self.is_computed => push(&mut self.tag.name, byte),
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

    /// Returns the beginning of the value of the present attribute.
    fn new_value(&self) -> ValueContext {
        ValueContext::of_attribute((!self.is_computed).then_some(self.name.as_slice()), &self.tag)
    }

    /// Returns why an earlier value could not be escaped, which only the text after it has shown.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        self.fault
    }

    pub(crate) fn value(&mut self, trust: Trust) -> Result<Context, &'static str> {
        let is_cut = std::mem::take(&mut self.is_cut);
        let is_in_quotes = matches!(self.state, State::Value(1.., _));
        // The position advances by the value, even if it is refused: it may be a raw one.
        let found = match self.value_here(trust) {
            Ok(_) if trust == Trust::Url && !is_in_quotes => Err(TRUST_IS_IDLE),
            found => found,
        };
        match self.lost {
            Some(why) => Err(why),
            None if is_cut => Err(CUT_END_TAG),
            None => found,
        }
    }

    fn value_here(&mut self, trust: Trust) -> Result<Context, &'static str> {
        match &mut self.state {
            State::Text if self.is_xml && self.foreign > 0 => Err(XML_SCRIPT),
            State::Text if self.styles > 0 => Ok(Context::Style),
            State::Text => Ok(Context::Text),
            State::Comment | State::Declaration => Ok(Context::Comment),
            State::Data => Err("a value in CDATA cannot be escaped; text outside of it can"),
            State::Raw(element) => element.value(),
            State::Value(0, _) => Err(NEEDS_QUOTES),
            State::Value(_, value) => {
                let found = value.value(trust);
                if trust == Trust::Nothing && !self.is_computed {
                    self.tag.note_value(&self.name);
                }
                found
            }
            State::BeforeValue => {
                self.state = State::Value(0, self.new_value());
                Err(NEEDS_QUOTES)
            }
            State::Tag => {
                let may_be = self.is_computed || (!self.is_xml && may_be_computed(&self.tag.name));
                self.is_computed = true;
                self.tag.is_computed = true;
                if may_be { Ok(Context::Name) } else { Err(NAME_OF_TAG) }
            }
            State::Name => {
                // Two values could be the two halves of a name that is not harmless.
                let is_second = self.name.contains(&VALUE_IN_NAME);
                self.is_computed |= is_second || !code_attributes::stays_harmless(&self.name);
                push(&mut self.name, VALUE_IN_NAME);
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

    /// Returns the description of the position, for errors.
    pub(crate) fn described(&self) -> String {
        let named = |kind: &str, name: &[u8], is_known: bool| match is_known && !name.is_empty() {
            true => format!("the {kind} `{}`", quoted(name)),
            false if kind.starts_with('a') => format!("an {kind}"),
            false => format!("a {kind}"),
        };
        match &self.state {
            State::Text if self.styles > 0 => "a style".to_owned(),
            State::Text if self.is_xml && self.foreign > 0 => "a script".to_owned(),
            State::Text if self.is_xml && !self.is_page => "XML text".to_owned(),
            State::Text => "HTML text".to_owned(),
            State::Tag => "the name of a tag".to_owned(),
            State::BeforeName | State::Name | State::AfterName => {
                named("tag", &self.tag.name, !self.tag.is_computed)
            }
            State::BeforeValue | State::Value(..) => {
                named("attribute", &self.name, !self.is_computed)
            }
            State::Comment => "a comment".to_owned(),
            State::Declaration => "a declaration".to_owned(),
            State::Data => "CDATA".to_owned(),
            State::Raw(element) => element.described(),
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
        joined.lost = self.lost.or(other.lost);
        joined.is_cut |= other.is_cut;
        joined.is_page |= other.is_page;
        let is_in_tag = !matches!(
            joined.state,
            State::Text | State::Comment | State::Declaration | State::Data | State::Raw(_)
        );
        let tag = self.tag.joined(&other.tag).filter(|_| self.is_end == other.is_end);
        let is_same_around = (self.foreign, self.styles) == (other.foreign, other.styles);
        if !is_same_around || (is_in_tag && tag.is_none()) {
            return None;
        }
        joined.tag = tag.unwrap_or_default();
        Some(joined)
    }
}

/// No escaping can ensure one value here: a browser takes the text after an empty value, the next
/// attribute, for the value.
const NEEDS_QUOTES: &str =
    "a value in an attribute needs quotes around it, such as title=\"#[[…]]\"";

const NAME_OF_TAG: &str = "a value in the name of a tag may make a script of it; begin the name as \
     no element does that runs or loads something, such as <h#[[level]]>, or write `&lt;` if no \
     tag is meant";

const LATE_REFRESH: &str = "the value in the `content` of this `meta` decides which page follows, \
     as its `http-equiv` is or may be `refresh`; write `http-equiv` before `content`, and \
     `#[[value:trusted]]` if the value comes from you and not from a request";

const CUT_END_TAG: &str = "a value right after `</` may end the element around; write `<\\/` in a \
     script, or put a sign between";

const XML_SCRIPT: &str = "a value in a script of XML cannot be escaped, as browsers read \
     references there; put it into an attribute such as `data-x` and read it from the script";

const FOREIGN_TAG: &str = "an element with `<` in it, such as `title` or `style` within `svg` or \
     `math`, stands before this value, and what browsers make of it depends on what is around; \
     have no tags in it, or put it outside";

const FOREIGN_SLASH: &str = "a tag such as `<title/>` within `svg` or `math` stands before this \
     value, and whether it is closed depends on what is around; write `<title></title>`";

const FOREIGN_DATA: &str = "CDATA within `svg` or `math` stands before this value, and what \
     browsers make of it depends on what is around; write text with references";

/// The byte that represents a value in the name of an attribute; no name has this byte.
const VALUE_IN_NAME: u8 = 0;

fn push(name: &mut Vec<u8>, byte: u8) {
    if name.len() < NAME_MAX_BYTES {
        name.push(byte.to_ascii_lowercase());
    }
}
