//! Rules for response fields: which fields the responses to some paths have.
//!
//! The fields of an entry are stored with it, rules included. For everything else (errors, the
//! response to OPTIONS, redirects by patterns, pages that stand for others) the fields depend on
//! the path of the request, which is unknown before it comes. So the rules are stored too, and
//! applied to the fields of a block as they were before the rules ([`SharedBlock::plain`]).
//!
//! The section is read when the archive is opened: hashed, validated and copied.
//!
//! [`SharedBlock::plain`]: crate::SharedBlock::plain

use zerocopy::{FromBytes, IntoBytes};

use pinion_http::grammar::{is_token, is_value_byte};

use crate::damage::{ArchivePart, Damage, Fault};
use crate::field_lines::is_written_by_server;
use crate::field_pattern::{FieldPattern, PatternPart};
use crate::layout::FieldRuleHeader;
use crate::limits::{RULE_CAPTURES_MAX, RULES_MAX};
use crate::tagged_text::{PartIterator, Read, push_length, push_text, text};

/// A rule to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewFieldRule<'a> {
    /// The paths that it is about.
    pub pattern: FieldPattern<'a>,
    /// Its changes of the fields, in order.
    pub changes: &'a [NewFieldChange<'a>],
}

/// A change of the fields of one name.
#[derive(Clone, Copy, Debug)]
pub struct NewFieldChange<'a> {
    /// The name; not `Content-Type`, and none that the server writes itself.
    pub name: &'a [u8],
    /// The value that the field gets; None takes the field away.
    pub value: Option<&'a [ValuePart<'a>]>,
}

/// A part of the value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValuePart<'a> {
    /// These bytes.
    Literal(&'a [u8]),
    /// The text that a placeholder of the pattern stands for, escaped as in a path: that of the
    /// first `*` is number 0, the others count from 1.
    Capture(u8),
}

/// A stored rule, borrowed from [`FieldRules`].
#[derive(Clone, Copy, Debug)]
pub struct FieldRule<'a> {
    pattern: FieldPattern<'a>,
    changes: &'a [u8],
    bytes: u32,
}

/// A change of a stored rule.
#[derive(Clone, Copy, Debug)]
pub struct FieldChange<'a> {
    name: &'a [u8],
    value: Option<&'a [u8]>,
}

/// All rules for fields of an archive, in their order, owned.
#[derive(Clone, Debug, Default)]
pub struct FieldRules {
    bytes: Box<[u8]>,
    gates: Box<[FieldPathGate]>,
}

/// The properties of a rule that are known without looking at it.
#[derive(Clone, Copy, Debug)]
struct FieldPathGate {
    /// The mask of the first eight bytes of a path, ASCII letters in lower case.
    mask: u64,
    value: u64,
    /// The position at which the rule begins.
    start: u32,
    /// Whether the blocks that the server uses without being asked by an entry have all of it.
    is_everywhere: bool,
}

const TAKE: u8 = 0;
const GIVE: u8 = 1;

const LITERAL: u8 = 0;
const CAPTURE: u8 = 1;

fn value_part(bytes: &[u8]) -> Read<'_, ValuePart<'_>> {
    match bytes.split_first()? {
        (&LITERAL, rest) => text(rest).map(|(text, rest)| (ValuePart::Literal(text), rest)),
        (&CAPTURE, [number, rest @ ..]) => Some((ValuePart::Capture(*number), rest)),
        _ => None,
    }
}

fn change(bytes: &[u8]) -> Read<'_, FieldChange<'_>> {
    let (&tag, rest) = bytes.split_first()?;
    let (name, rest) = text(rest)?;
    match tag {
        TAKE => Some((FieldChange { name, value: None }, rest)),
        GIVE => text(rest).map(|(value, rest)| (FieldChange { name, value: Some(value) }, rest)),
        _ => None,
    }
}

impl<'a> FieldChange<'a> {
    /// Returns the name of the field, in any case.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// Returns the parts of the value that the field gets; `None` removes the field.
    #[must_use]
    pub fn value(&self) -> Option<impl Iterator<Item = ValuePart<'a>> + use<'a>> {
        self.value.map(|rest| PartIterator { rest, read: value_part })
    }

    fn has_captures(&self) -> bool {
        let mut parts = self.value().into_iter().flatten();
        parts.any(|part| matches!(part, ValuePart::Capture(_)))
    }

    fn validate(&self, has_star: bool, captures: usize) -> Result<(), Fault> {
        let is_content_type = self.name.eq_ignore_ascii_case(b"content-type");
        if !is_token(self.name) || is_written_by_server(self.name) || is_content_type {
            return Err(Fault::Syntax);
        }
        let mut rest = self.value.unwrap_or_default();
        while !rest.is_empty() {
            let (part, behind) = value_part(rest).ok_or(Fault::Syntax)?;
            match part {
                ValuePart::Literal(text) if !text.iter().all(|&byte| is_value_byte(byte)) => {
                    return Err(Fault::Syntax);
                }
                ValuePart::Capture(0) if !has_star => return Err(Fault::CaptureNumber),
                ValuePart::Capture(number) if usize::from(number) > captures => {
                    return Err(Fault::CaptureNumber);
                }
                ValuePart::Literal(_) | ValuePart::Capture(_) => {}
            }
            rest = behind;
        }
        Ok(())
    }
}

impl<'a> FieldRule<'a> {
    /// Returns the paths that it is about.
    #[must_use]
    pub fn pattern(&self) -> FieldPattern<'a> {
        self.pattern
    }

    /// Returns its changes of the fields, in order.
    pub fn changes(&self) -> impl Iterator<Item = FieldChange<'a>> + use<'a> {
        PartIterator { rest: self.changes, read: change }
    }

    /// Returns the rule at the start of `rest`. Only lengths and reserved bytes are checked.
    fn split(rest: &'a [u8]) -> Result<FieldRule<'a>, Fault> {
        let (header, _) = FieldRuleHeader::ref_from_prefix(rest).map_err(|_| Fault::Length)?;
        let bytes = header.bytes.get();
        let rule = rest.get(..bytes as usize).ok_or(Fault::Outside)?;
        let parts = rule.get(size_of::<FieldRuleHeader>()..).ok_or(Fault::Length)?;
        let cut = |parts: &'a [u8], bytes: usize| parts.split_at_checked(bytes);
        let pattern_bytes = usize::from(header.pattern_bytes.get());
        let (pattern, parts) = cut(parts, pattern_bytes).ok_or(Fault::Length)?;
        let changes_bytes = header.changes_bytes.get() as usize;
        let (changes, zeros) = cut(parts, changes_bytes).ok_or(Fault::Length)?;
        if !rule.len().is_multiple_of(8) || zeros.len() >= 8 {
            return Err(Fault::Length);
        }
        if header.reserved != [0; 6] || zeros.iter().any(|&byte| byte != 0) {
            return Err(Fault::Reserved);
        }
        Ok(FieldRule { pattern: FieldPattern::of(pattern), changes, bytes })
    }

    /// Checks everything: a rule that passes can be applied without further checks.
    fn validate(&self) -> Result<(), Fault> {
        self.pattern.validate()?;
        let is_star = |part| matches!(part, PatternPart::Star | PatternPart::Stars);
        let has_star = self.pattern.parts().any(is_star);
        let captures = self.pattern.captures();
        debug_assert!(captures <= RULE_CAPTURES_MAX);
        let mut rest = self.changes;
        while !rest.is_empty() {
            let (change, behind) = change(rest).ok_or(Fault::Syntax)?;
            change.validate(has_star, captures)?;
            rest = behind;
        }
        Ok(())
    }
}

impl FieldRules {
    /// Returns the number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gates.len()
    }

    /// Returns whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// Returns a rule by its rank.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<FieldRule<'_>> {
        let start = self.gates.get(number as usize)?.start as usize;
        FieldRule::split(self.bytes.get(start..)?).ok()
    }

    /// Returns all rules, in order.
    pub fn iter(&self) -> impl Iterator<Item = FieldRule<'_>> + use<'_> {
        (0..self.gates.len() as u32).filter_map(|number| self.get(number))
    }

    /// Returns the numbers of the rules about a path, which is decoded, in order. The second value
    /// says whether the rule is about every path and looks at none, so that the blocks that the
    /// server uses without being asked by an entry have been made with it.
    pub fn about<'p>(&'p self, path: &'p [u8]) -> impl Iterator<Item = (u32, bool)> + use<'p> {
        let word = first_bytes(path);
        let gates = (0..).zip(&self.gates);
        let open = gates.filter(move |(_, gate)| word & gate.mask == gate.value);
        let applies = move |(number, gate): (u32, &FieldPathGate)| {
            let is_about = gate.is_everywhere
                || self.get(number).is_some_and(|rule| rule.pattern.matched(path).is_some());
            is_about.then_some((number, gate.is_everywhere))
        };
        open.filter_map(applies)
    }

    /// Validates a copy of the section. `offset` is where it begins in the file.
    pub(crate) fn parse(bytes: Box<[u8]>, offset: u64) -> Result<FieldRules, Damage> {
        let mut gates = Vec::new();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let damage =
                |fault| Damage { part: ArchivePart::FieldRule, offset: offset + at as u64, fault };
            if gates.len() == RULES_MAX {
                return Err(damage(Fault::TooMany));
            }
            let rule = FieldRule::split(rest).map_err(damage)?;
            rule.validate().map_err(damage)?;
            // The section is at most `FIELD_RULES_SECTION_MAX_BYTES` long.
            gates.push(FieldPathGate::of(&rule, at as u32));
            at += rule.bytes as usize;
        }
        Ok(FieldRules { bytes, gates: gates.into() })
    }
}

impl FieldPathGate {
    fn of(rule: &FieldRule<'_>, start: u32) -> FieldPathGate {
        let lead = match rule.pattern.parts().next() {
            Some(PatternPart::Literal(text)) => text,
            _ => b"",
        };
        let known = lead.len().min(size_of::<u64>()) as u32;
        let mask = if known == 0 { 0 } else { u64::MAX >> (u64::BITS - 8 * known) };
        let is_everywhere =
            rule.pattern.is_of_everything() && !rule.changes().any(|change| change.has_captures());
        FieldPathGate { mask, value: first_bytes(lead) & mask, start, is_everywhere }
    }
}

/// Returns the bytes of a rule, or why a reader would refuse it.
pub(crate) fn encode(rule: &NewFieldRule<'_>) -> Result<Vec<u8>, Fault> {
    let mut changes = Vec::new();
    for NewFieldChange { name, value } in rule.changes {
        push_text(&mut changes, if value.is_some() { GIVE } else { TAKE }, name)?;
        let Some(parts) = value else { continue };
        let mut encoded = Vec::new();
        for part in *parts {
            match part {
                ValuePart::Literal(text) => push_text(&mut encoded, LITERAL, text)?,
                ValuePart::Capture(number) => encoded.extend_from_slice(&[CAPTURE, *number]),
            }
        }
        push_length(&mut changes, &encoded)?;
    }
    let pattern = rule.pattern.encoded();
    let used = size_of::<FieldRuleHeader>() + pattern.len() + changes.len();
    let total = u32::try_from(used.next_multiple_of(8)).map_err(|_| Fault::Length)?;
    let header = FieldRuleHeader {
        bytes: total.into(),
        changes_bytes: (changes.len() as u32).into(),
        pattern_bytes: u16::try_from(pattern.len()).map_err(|_| Fault::Length)?.into(),
        reserved: [0; 6],
    };
    let mut bytes = [header.as_bytes(), pattern, &changes].concat();
    bytes.resize(total as usize, 0);
    FieldRule::split(&bytes)?.validate()?;
    Ok(bytes)
}

/// Returns the first eight bytes, ASCII letters in lower case, zeros after a shorter path.
#[inline]
fn first_bytes(path: &[u8]) -> u64 {
    let mut eight = [0; size_of::<u64>()];
    for (slot, byte) in eight.iter_mut().zip(path) {
        *slot = byte.to_ascii_lowercase();
    }
    u64::from_le_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::PatternPart::{Capture, Literal, Star, Stars};
    use super::*;

    fn rules(patterns: &[&[PatternPart<'_>]], change: NewFieldChange<'_>) -> FieldRules {
        let mut bytes = Vec::new();
        for parts in patterns {
            let encoded = FieldPattern::encode(parts).expect("a pattern");
            let pattern = FieldPattern::of(&encoded);
            let rule = NewFieldRule { pattern, changes: &[change] };
            bytes.extend_from_slice(&encode(&rule).expect("well-formed"));
        }
        FieldRules::parse(bytes.into(), 0).expect("well-formed")
    }

    const GIVEN: NewFieldChange<'static> =
        NewFieldChange { name: b"X-A", value: Some(&[ValuePart::Literal(b"1")]) };

    #[test]
    fn the_gate_lets_every_path_of_its_field_rule_through() {
        let rules = rules(
            &[
                &[Stars],
                &[Literal(b"/tiles"), Stars],
                &[Literal(b"/documents/"), Star, Literal(b".css")],
                &[Literal(b"/"), Capture, Literal(b"/x")],
                &[],
            ],
            GIVEN,
        );
        for (path, expected) in [
            ("/", "0 4"),
            ("/tiles", "0 1"),
            ("/TILES/7.png", "0 1"),
            ("/tilesx", "0"),
            ("/documents/a/b.CSS", "0 2"),
            ("/docs/x/", "0 3"),
        ] {
            let found: Vec<String> =
                rules.about(path.as_bytes()).map(|(number, _)| number.to_string()).collect();
            assert_eq!(found.join(" "), expected, "{path}");
        }
        let everywhere: Vec<_> = rules.about(b"/tiles/").collect();
        assert_eq!(everywhere, [(0, true), (1, false)]);
    }

    #[test]
    fn a_field_rule_round_trips() {
        let parts = [ValuePart::Literal(b"a "), ValuePart::Capture(0), ValuePart::Capture(1)];
        let rules = rules(
            &[&[Literal(b"/"), Capture, Stars]],
            NewFieldChange { name: b"Link", value: Some(&parts) },
        );
        let rule = rules.get(0).expect("the rule");
        let change = rule.changes().next().expect("the change");
        assert_eq!(change.name(), b"Link");
        let value: Vec<_> = change.value().expect("a value").collect();
        assert_eq!(value, parts);
        assert_eq!(rules.about(b"/a/b").collect::<Vec<_>>(), [(0, false)]);
        assert_eq!((rules.len(), rules.iter().count(), rules.get(1).is_none()), (1, 1, true));
    }

    #[test]
    fn invalid_field_rules_are_not_encoded() {
        let encoded = FieldPattern::encode(&[Literal(b"/a"), Star]).expect("a pattern");
        let pattern = FieldPattern::of(&encoded);
        let fault = |name, value| {
            let changes = [NewFieldChange { name, value }];
            encode(&NewFieldRule { pattern, changes: &changes }).err()
        };
        assert_eq!(fault(b"X-A", None), None);
        assert_eq!(fault(b"X-A", Some(&[ValuePart::Capture(0)])), None);
        assert_eq!(fault(b"X-A", Some(&[ValuePart::Capture(1)])), Some(Fault::CaptureNumber));
        for name in [&b""[..], b"X A", b"Date", b"content-type", b"LOCATION"] {
            assert_eq!(fault(name, None), Some(Fault::Syntax), "{}", name.escape_ascii());
        }
        let split = [ValuePart::Literal(b"a\r\nX-B: 1")];
        assert_eq!(fault(b"X-A", Some(&split)), Some(Fault::Syntax));
    }
}
