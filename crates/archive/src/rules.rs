//! The rules of a site that could not become entries: redirects and rewrites with placeholders,
//! splats, hosts or query conditions, in their order.
//!
//! They are read when the archive is opened: hashed, validated and copied, so that a request walks
//! over memory that never changes. Two tables are made of them then. Rules for one path only are
//! found by its hash; of the others each has a [`PathGate`], eight bytes that a path must begin
//! with, and a request looks only at those gates that have its first byte after the slash, or any.

use xxhash_rust::xxh3::xxh3_64;

use crate::damage::{ArchivePart, Damage, Fault};
use crate::limits::RULES_MAX;
use crate::rule::{PathPart, Rule};

/// All rules of an archive, in their order, owned.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    bytes: Box<[u8]>,
    /// The position at which each rule begins.
    starts: Box<[u32]>,
    /// The gates of the rules with placeholders: by the byte after the slash, those for any byte
    /// last, and then by their numbers.
    gates: Box<[PathGate]>,
    /// The position at which the gates of each byte begin, and those for any.
    gate_starts: Box<[usize]>,
    /// The other rules: hash of the path and number, sorted.
    exact: Box<[(u64, u32)]>,
}

/// The required first eight bytes of a path, as far as a rule determines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathGate {
    mask: u64,
    value: u64,
    /// The rule's.
    number: u32,
}

/// The number that stands for any byte, among the bytes after the slash.
const ANY_BYTE: usize = 256;

impl Rules {
    /// Returns the number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns a rule by its rank.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<Rule<'_>> {
        let start = *self.starts.get(number as usize)? as usize;
        Rule::split(self.bytes.get(start..)?, number).ok()
    }

    /// Returns all rules, in order.
    pub fn iter(&self) -> impl Iterator<Item = Rule<'_>> + use<'_> {
        (0..self.starts.len() as u32).filter_map(|number| self.get(number))
    }

    /// Returns the rules without placeholders whose path may be `path`, in order.
    pub fn exact(&self, path: &[u8]) -> impl Iterator<Item = Rule<'_>> + use<'_> {
        let hash = if self.exact.is_empty() { 0 } else { xxh3_64(without_slash(path)) };
        let first = self.exact.partition_point(|&(other, _)| other < hash);
        let from_first = self.exact.get(first..).unwrap_or_default();
        let equal = from_first.iter().take_while(move |&&(other, _)| other == hash);
        equal.filter_map(|&(_, number)| self.get(number))
    }

    /// Returns the rules with placeholders that come before rule number `end` and whose path may be
    /// `path`, in order.
    #[inline]
    pub fn patterns(&self, path: &[u8], end: u32) -> impl Iterator<Item = Rule<'_>> + use<'_> {
        let word = first_bytes(path);
        let byte = path.get(1).copied().unwrap_or_default();
        let gates = in_order(self.gates_of(byte.into()), self.gates_of(ANY_BYTE));
        let before = gates.take_while(move |gate| gate.number < end);
        let open = before.filter(move |gate| word & gate.mask == gate.value);
        open.filter_map(|gate| self.get(gate.number))
    }

    fn gates_of(&self, byte: usize) -> &[PathGate] {
        let start = self.gate_starts.get(byte).copied().unwrap_or_default();
        let end = self.gate_starts.get(byte + 1).copied().unwrap_or_default();
        self.gates.get(start..end).unwrap_or_default()
    }

    /// Validates a copy of the section. `offset` is where it begins in the file.
    pub(crate) fn parse(bytes: Box<[u8]>, offset: u64) -> Result<Rules, Damage> {
        let (mut starts, mut gates, mut exact) = (vec![], vec![], vec![]);
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let damage =
                |fault| Damage { part: ArchivePart::Rule, offset: offset + at as u64, fault };
            let number = starts.len() as u32;
            if starts.len() == RULES_MAX {
                return Err(damage(Fault::TooMany));
            }
            let rule = Rule::split(rest, number).map_err(damage)?;
            rule.validate().map_err(damage)?;
            // The section is at most `RULES_SECTION_MAX_BYTES` long.
            starts.push(at as u32);
            match exact_path(&rule) {
                Some(path) => exact.push((xxh3_64(&path), number)),
                None => gates.push(PathGate::of(&rule)),
            }
            at += rule.bytes();
        }
        exact.sort_unstable();
        gates.sort_unstable_by_key(|gate| (gate.byte(), gate.number));
        let start = |byte| gates.partition_point(|gate| gate.byte() < byte);
        Ok(Rules {
            bytes,
            starts: starts.into(),
            gate_starts: (0..=ANY_BYTE + 1).map(start).collect(),
            gates: gates.into(),
            exact: exact.into(),
        })
    }
}

impl PathGate {
    fn of(rule: &Rule<'_>) -> PathGate {
        let mut lead = vec![b'/'];
        for (rank, part) in rule.path().enumerate() {
            let text = match part {
                // The part before the last slash is enough.
                PathPart::Rest { prefix: b"" } => break,
                PathPart::Literal(text) | PathPart::Rest { prefix: text } => text,
                PathPart::Mixed(pattern) => pattern.lead(),
                PathPart::Capture => b"",
            };
            if rank > 0 {
                lead.push(b'/');
            }
            lead.extend_from_slice(text);
            if !matches!(part, PathPart::Literal(_)) {
                break;
            }
        }
        let known = lead.len().min(size_of::<u64>()) as u32;
        let mask = u64::MAX >> (u64::BITS - 8 * known);
        PathGate { mask, value: first_bytes(&lead) & mask, number: rule.number() }
    }

    /// Returns the byte after the slash that a path must have.
    fn byte(&self) -> usize {
        let any = self.mask & 0xff00 == 0;
        if any { ANY_BYTE } else { (self.value >> 8 & 0xff) as usize }
    }
}

/// Returns the gates of both lists by their numbers; each list is in order.
#[inline]
fn in_order<'g>(
    mut some: &'g [PathGate],
    mut others: &'g [PathGate],
) -> impl Iterator<Item = &'g PathGate> {
    core::iter::from_fn(move || {
        let list = match (some.first(), others.first()) {
            (Some(gate), Some(other)) if other.number < gate.number => &mut others,
            (None, _) => &mut others,
            _ => &mut some,
        };
        let (first, rest) = list.split_first()?;
        *list = rest;
        Some(first)
    })
}

/// Returns the path of a rule without placeholders, `None` for any other.
fn exact_path(rule: &Rule<'_>) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    for part in rule.path() {
        let PathPart::Literal(text) = part else { return None };
        path.push(b'/');
        path.extend_from_slice(text);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Some(path)
}

/// Returns a path without the slash at its end, which does not matter to a rule.
fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path)
}

/// Returns the first eight bytes, zeros after a shorter path.
#[inline]
fn first_bytes(path: &[u8]) -> u64 {
    if let Some(eight) = path.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    path.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_pattern::SegmentPattern;
    use crate::rule::{NewRule, TargetPart, encode};

    fn rules(paths: &[&[PathPart<'_>]]) -> Rules {
        let mut bytes = Vec::new();
        for path in paths {
            let target = &[TargetPart::Literal(b"/x")];
            let rule = NewRule { path, target, ..NewRule::EMPTY };
            bytes.extend_from_slice(&encode(&rule).expect("well-formed"));
        }
        Rules::parse(bytes.into(), 0).expect("well-formed")
    }

    fn numbers(rules: &Rules, path: &str) -> (Vec<u32>, Vec<u32>) {
        let numbers = |found: &mut dyn Iterator<Item = Rule<'_>>| {
            found.map(|rule| rule.number()).collect::<Vec<_>>()
        };
        let path = path.as_bytes();
        (numbers(&mut rules.exact(path)), numbers(&mut rules.patterns(path, u32::MAX)))
    }

    #[test]
    fn the_gate_lets_every_path_of_its_rule_through() {
        use PathPart::{Capture, Literal, Mixed, Rest};
        let rules = rules(&[
            &[Rest { prefix: b"" }],
            &[Literal(b"blog"), Rest { prefix: b"" }],
            &[Literal(b"blog"), Rest { prefix: b"2" }],
            &[Literal(b"blog"), Capture],
            &[Capture, Literal(b"blog")],
            &[Literal(b"documents"), Rest { prefix: b"" }],
            &[Literal(b"docs"), Mixed(SegmentPattern::of(b"\0\x02\0v-\x02"))],
        ]);
        for (path, expected) in [
            ("/", vec![0, 4]),
            ("/blog", vec![0, 1, 4]),
            ("/blog/", vec![0, 1, 3, 4]),
            ("/blog/2x", vec![0, 1, 2, 3, 4]),
            ("/blogs", vec![0, 1, 4]),
            ("/documents/a", vec![0, 4, 5]),
            ("/docs/v-", vec![0, 4, 6]),
            ("/docs/v", vec![0, 4]),
            ("/documen", vec![0, 4, 5]),
            ("/docume", vec![0, 4]),
        ] {
            assert_eq!(numbers(&rules, path), (vec![], expected), "{path}");
        }
        assert_eq!(rules.patterns(b"/blog", 1).count(), 1, "only those before a number");
    }

    #[test]
    fn exact_rules_are_found_by_either_slash_form_in_order() {
        use PathPart::Literal;
        let rules =
            rules(&[&[Literal(b"b")], &[], &[Literal(b"a"), Literal(b"b")], &[Literal(b"b")]]);
        for (path, expected) in [
            ("/b", vec![0, 3]),
            ("/b/", vec![0, 3]),
            ("/", vec![1]),
            ("/a/b/", vec![2]),
            ("/a", vec![]),
            ("/a/b//", vec![]),
        ] {
            assert_eq!(numbers(&rules, path), (expected, vec![]), "{path}");
        }
    }
}
