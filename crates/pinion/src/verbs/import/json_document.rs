//! JSON as NGINX Unit reads it: with comments, and without two members of the same name.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// A value. The members of an object are in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JsonNode {
    Null,
    Bool(bool),
    /// A whole number that is not negative.
    Number(u64),
    /// Any other number, as it is shown.
    Fraction(String),
    Text(String),
    List(Vec<JsonNode>),
    Object(Vec<(String, JsonNode)>),
}

impl JsonNode {
    /// Reads a text.
    ///
    /// # Errors
    /// A phrase that names the fault, with its line and column.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_slice(&without_comments(text)).map_err(|error| error.to_string())
    }

    pub(super) fn members(&self) -> &[(String, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|(known, _)| known == name).map(|(_, node)| node)
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the texts of a text or of a list of texts; `None` for anything else.
    pub(super) fn texts(&self) -> Option<Vec<&str>> {
        match self {
            Self::Text(text) => Some(vec![text]),
            Self::List(nodes) => nodes.iter().map(Self::text).collect(),
            _ => None,
        }
    }
}

/// Returns the pointer to a member of the value that another pointer leads to (RFC 6901).
pub(super) fn pointer(to: &str, member: &str) -> String {
    format!("{to}/{}", member.replace('~', "~0").replace('/', "~1"))
}

impl<'de> Deserialize<'de> for JsonNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = JsonNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<JsonNode, E> {
        Ok(JsonNode::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<JsonNode, E> {
        Ok(JsonNode::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<JsonNode, E> {
        Ok(JsonNode::Number(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<JsonNode, E> {
        Ok(u64::try_from(value)
            .map_or_else(|_| JsonNode::Fraction(value.to_string()), JsonNode::Number))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<JsonNode, E> {
        Ok(JsonNode::Fraction(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<JsonNode, E> {
        Ok(JsonNode::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<JsonNode, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(JsonNode::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonNode, A::Error> {
        let (mut members, mut known) = (Vec::new(), BTreeSet::new());
        while let Some((name, node)) = map.next_entry::<String, JsonNode>()? {
            if !known.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("the member {name:?} is there twice")));
            }
            members.push((name, node));
        }
        Ok(JsonNode::Object(members))
    }
}

/// Returns a text with spaces in the place of its comments, so that lines and columns stay.
fn without_comments(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let length = match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                at += string_length(&bytes[at..]);
                continue;
            }
            (b'/', Some(b'/')) => {
                bytes[at..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - at)
            }
            (b'/', Some(b'*')) => {
                let end = bytes[at + 2..].windows(2).position(|pair| pair == b"*/");
                // A comment without an end is no JSON, and is reported.
                let Some(end) = end else { break };
                end + 4
            }
            _ => {
                at += 1;
                continue;
            }
        };
        let comment = &mut bytes[at..at + length];
        comment.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at += length;
    }
    bytes
}

/// Returns the length of the string at the beginning, with its quotes.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}
