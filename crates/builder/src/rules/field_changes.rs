//! Applies `_headers` to the built-in fields of a response.

use std::collections::HashMap;

use pinion_http::joined_field_values;

use super::header_pattern::Captured;
use super::headers::{FieldRule, HeaderChange};
use crate::response_fields::NEVER_CACHED;

/// The changes for each path or folder, equal ones once.
pub(crate) struct Changes<'r> {
    rules: &'r [FieldRule],
    known: HashMap<Vec<Match>, ChangesId>,
    sets: Vec<Vec<HeaderChange>>,
}

/// Number of a set of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChangesId(usize);

/// A rule that applies.
#[derive(PartialEq, Eq, Hash)]
struct Match {
    rule: usize,
    /// The captures of its placeholders, where they make a difference.
    captured: Option<Captured>,
}

impl<'r> Changes<'r> {
    pub(crate) fn new(rules: &'r [FieldRule]) -> Changes<'r> {
        Changes { rules, known: HashMap::new(), sets: Vec::new() }
    }

    /// Returns the changes for the response under a URL, its path decoded.
    pub(crate) fn of_path(&mut self, path: &[u8]) -> ChangesId {
        let rules = self.rules.iter().enumerate();
        let matches = rules.filter_map(|(rule, FieldRule { pattern, changes, .. })| {
            let captured = pattern.captured(path)?;
            let used = changes.iter().any(|change| match change {
                HeaderChange::Set { value, .. } => pattern.is_used_in(value),
                HeaderChange::Remove { .. } => false,
            });
            Some(Match { rule, captured: used.then_some(captured) })
        });
        self.id(matches.collect())
    }

    /// Returns the changes for responses to any URL in and below a folder. The captures of a
    /// placeholder would differ there; such lines are left out.
    pub(crate) fn of_folder(&mut self, folder: &[u8]) -> ChangesId {
        let rules = self.rules.iter().enumerate();
        let covering = rules.filter(|(_, rule)| rule.pattern.covers_folder(folder));
        let matches = covering.map(|(rule, _)| Match { rule, captured: None });
        self.id(matches.collect())
    }

    /// Returns the id of an empty list of changes.
    pub(crate) fn none(&mut self) -> ChangesId {
        self.id(Vec::new())
    }

    pub(crate) fn get(&self, id: ChangesId) -> &[HeaderChange] {
        self.sets.get(id.0).map_or(&[], Vec::as_slice)
    }

    fn id(&mut self, matches: Vec<Match>) -> ChangesId {
        if let Some(&id) = self.known.get(&matches) {
            return id;
        }
        let id = ChangesId(self.sets.len());
        let mut set = Vec::new();
        for Match { rule, captured } in &matches {
            let Some(rule) = self.rules.get(*rule) else { continue };
            let changes = rule.changes.iter();
            set.extend(changes.filter_map(|change| filled(change, rule, captured.as_ref())));
        }
        self.sets.push(set);
        self.known.insert(matches, id);
        id
    }
}

/// Returns a line with its placeholders filled in; `None` when it has some and nothing was
/// captured.
fn filled(
    change: &HeaderChange,
    rule: &FieldRule,
    captured: Option<&Captured>,
) -> Option<HeaderChange> {
    match (change, captured) {
        (HeaderChange::Set { name, value }, Some(captured)) => {
            let value = rule.pattern.filled(value, captured);
            Some(HeaderChange::Set { name: name.clone(), value })
        }
        (HeaderChange::Set { value, .. }, None) if rule.pattern.is_used_in(value) => None,
        (change, _) => Some(change.clone()),
    }
}

/// The fields of a response, except its own: type, length, validators.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldList {
    fields: Vec<ChangedField>,
    /// Its media type according to `_headers`.
    pub(crate) content_type: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct ChangedField {
    name: String,
    value: String,
    /// Whether a rule has set the value.
    is_set_by_rule: bool,
}

impl FieldList {
    /// Returns the built-in fields, changed.
    pub(crate) fn new(built_in: &[(&str, &str)], changes: &[HeaderChange]) -> FieldList {
        let field = |&(name, value): &(&str, &str)| ChangedField {
            name: name.to_owned(),
            value: value.to_owned(),
            is_set_by_rule: false,
        };
        let mut list =
            FieldList { fields: built_in.iter().map(field).collect(), content_type: None };
        // Errors are never cached: a rule about all of a site means resources that exist.
        let is_error = built_in.contains(&("Cache-Control", NEVER_CACHED));
        let caches = ["cache-control", "expires"];
        let applies = |change: &&HeaderChange| {
            !(is_error && caches.iter().any(|name| change.name().eq_ignore_ascii_case(name)))
        };
        for change in changes.iter().filter(applies) {
            match change {
                HeaderChange::Set { name, value } => list.set(name, value),
                HeaderChange::Remove { name } => list.remove(name, built_in),
            }
        }
        list
    }

    /// Returns whether the fields are those of another list, for any media types.
    pub(crate) fn has_same_fields(&self, other: &FieldList) -> bool {
        let same = |one: &ChangedField, other: &ChangedField| one.pair() == other.pair();
        self.fields.len() == other.fields.len()
            && self.fields.iter().zip(&other.fields).all(|(one, other)| same(one, other))
            && self.not_modified() == other.not_modified()
    }

    /// Returns all fields.
    pub(crate) fn all(&self) -> Vec<(&str, &str)> {
        self.fields.iter().map(ChangedField::pair).collect()
    }

    /// Returns the fields of a 304: those that RFC 9110 §15.4.5 asks for, and those that rules have
    /// set, since a client keeps the fields of its stored response otherwise. None of them
    /// describes the content.
    pub(crate) fn not_modified(&self) -> Vec<(&str, &str)> {
        let in_any = ["cache-control", "vary", "expires"];
        let is = |field: &ChangedField, names: &[&str]| {
            names.iter().any(|name| field.name.eq_ignore_ascii_case(name))
        };
        let sent = self.fields.iter().filter(|field| {
            is(field, &in_any) || (field.is_set_by_rule && !is(field, &["content-language"]))
        });
        sent.map(ChangedField::pair).collect()
    }

    /// Changes the values of the fields of some names that rules have set.
    pub(crate) fn edit(&mut self, names: &[&str], change: impl Fn(&str) -> String) {
        let is_one =
            |field: &&mut ChangedField| names.iter().any(|n| field.name.eq_ignore_ascii_case(n));
        for field in self.fields.iter_mut().filter(is_one).filter(|field| field.is_set_by_rule) {
            field.value = change(&field.value);
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        if name.eq_ignore_ascii_case("content-type") {
            self.content_type = Some(value.to_owned());
            return;
        }
        let known = self.fields.iter_mut().find(|field| field.name.eq_ignore_ascii_case(name));
        match known {
            // RFC 9110 §5.3: the one field whose lines cannot be joined.
            Some(_) if name.eq_ignore_ascii_case("set-cookie") => self.push(name, value),
            // Without its own the wrong coding would be taken from a cache.
            Some(field) if field.is_set_by_rule || name.eq_ignore_ascii_case("vary") => {
                let mut joined = std::mem::take(&mut field.value).into_bytes();
                joined_field_values::join(&mut joined, 0, name.as_bytes(), value.as_bytes());
                field.value = String::from_utf8_lossy(&joined).into_owned();
                field.is_set_by_rule = true;
            }
            Some(field) => {
                *field = ChangedField {
                    name: name.to_owned(),
                    value: value.to_owned(),
                    is_set_by_rule: true,
                };
            }
            None => self.push(name, value),
        }
    }

    fn push(&mut self, name: &str, value: &str) {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.fields.push(ChangedField { name, value, is_set_by_rule: true });
    }

    fn remove(&mut self, name: &str, built_in: &[(&str, &str)]) {
        if name.eq_ignore_ascii_case("content-type") {
            self.content_type = None;
            return;
        }
        let kept = built_in.iter().find(|(known, _)| {
            known.eq_ignore_ascii_case(name) && name.eq_ignore_ascii_case("vary")
        });
        self.fields.retain_mut(|field| {
            if !field.name.eq_ignore_ascii_case(name) {
                return true;
            }
            let Some((_, value)) = kept else { return false };
            (field.value, field.is_set_by_rule) = ((*value).to_owned(), false);
            true
        });
    }
}

impl ChangedField {
    fn pair(&self) -> (&str, &str) {
        (&self.name, &self.value)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::headers::parse;
    use super::*;

    const BUILT_IN: [(&str, &str); 3] =
        [("Cache-Control", "no-cache"), ("Vary", "Accept-Encoding"), ("X-A", "a")];

    fn with(text: &str, find: impl FnOnce(&mut Changes<'_>) -> ChangesId) -> FieldList {
        let found = parse(Path::new("_headers"), text.as_bytes()).expect(text);
        let mut changes = Changes::new(&found.rules);
        let id = find(&mut changes);
        FieldList::new(&BUILT_IN, changes.get(id))
    }

    fn lines(fields: &[(&str, &str)]) -> String {
        fields.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("\n")
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let list = with(text, |changes| changes.of_path(b"/a/b"));
        assert_eq!(lines(&list.all()), expected, "{text}");
    }

    #[test]
    fn the_first_value_replaces_and_further_values_are_joined() {
        let all = "Cache-Control: no-cache\nVary: Accept-Encoding\nX-A: a";
        check("/b\n X-A: b", all);
        check("/*\n x-a: b", "Cache-Control: no-cache\nVary: Accept-Encoding\nx-a: b");
        check(
            "/*\n Cache-Control: public\n X-B: 1\n\
             /a/b\n cache-control: max-age=1\n X-B: 2\n X-b: 3",
            "Cache-Control: public, max-age=1\nVary: Accept-Encoding\nX-A: a\nX-B: 1, 2, 3",
        );
    }

    #[test]
    fn a_removed_field_is_absent_until_it_is_set_again() {
        check("/*\n ! X-A", "Cache-Control: no-cache\nVary: Accept-Encoding");
        check(
            "/*\n X-B: 1\n/a/*\n ! x-b\n ! cache-control\n X-B: 2",
            "Vary: Accept-Encoding\nX-A: a\nX-B: 2",
        );
    }

    #[test]
    fn vary_accept_encoding_cannot_be_removed() {
        check(
            "/*\n Vary: Origin\n ! X-A",
            "Cache-Control: no-cache\nVary: Accept-Encoding, Origin",
        );
        check(
            "/*\n Vary: Origin\n ! vary\n ! X-A",
            "Cache-Control: no-cache\nVary: Accept-Encoding",
        );
        check(
            "/*\n ! Cache-Control\n ! Vary\n ! X-A\n Set-Cookie: a=1\n Set-Cookie: b=2",
            "Vary: Accept-Encoding\nSet-Cookie: a=1\nSet-Cookie: b=2",
        );
    }

    #[test]
    fn list_valued_fields_have_no_duplicate_members() {
        check(
            "/*\n Vary: Origin\n Access-Control-Allow-Origin: *\n/a/*\n Vary: Accept-Encoding\n \
             Access-Control-Allow-Origin: *\n/a/b\n Vary: Origin, Accept\n",
            "Cache-Control: no-cache\nVary: Accept-Encoding, Origin, Accept\nX-A: a\n\
             Access-Control-Allow-Origin: *",
        );
    }

    #[test]
    fn a_304_has_the_fields_that_rules_have_set() {
        let list = with("/*\n CSP: x\n Content-Language: de\n Content-Type: a/b", |changes| {
            changes.of_path(b"/")
        });
        assert_eq!(list.content_type.as_deref(), Some("a/b"));
        let expected = "Cache-Control: no-cache\nVary: Accept-Encoding\nCSP: x";
        assert_eq!(lines(&list.not_modified()), expected);
    }

    #[test]
    fn errors_are_never_cached() {
        let text = "/*\n Cache-Control: public\n ! cache-control\n Expires: never\n X-B: 1";
        let found = parse(Path::new("_headers"), text.as_bytes()).expect("rules");
        let mut changes = Changes::new(&found.rules);
        let id = changes.of_folder(b"/");
        let list = FieldList::new(&[("Cache-Control", NEVER_CACHED)], changes.get(id));
        assert_eq!(lines(&list.all()), "Cache-Control: no-store\nX-B: 1");
    }

    #[test]
    fn folders_get_the_fields_of_rules_that_cover_them() {
        let text = "/*\n X-B: 1\n X-C: :splat\n/a/*\n X-D: 1\n/a/b\n X-E: 1";
        let list = with(text, |changes| changes.of_folder(b"/a/"));
        assert!(lines(&list.all()).ends_with("X-A: a\nX-B: 1\nX-D: 1"), "{list:?}");
        let list = with(text, |changes| changes.of_path(b"/a/b"));
        assert!(lines(&list.all()).ends_with("X-B: 1\nX-C: a/b\nX-D: 1\nX-E: 1"), "{list:?}");
    }

    #[test]
    fn equal_sets_of_fields_are_shared() {
        let found = parse(Path::new("_headers"), b"/*\n X: y\n/a*\n Z: :splat").expect("rules");
        let mut changes = Changes::new(&found.rules);
        assert_eq!(changes.of_path(b"/b"), changes.of_path(b"/c"));
        assert_ne!(changes.of_path(b"/ab"), changes.of_path(b"/ac"));
        assert_eq!(changes.of_path(b"/b"), changes.of_folder(b"/"));
    }
}
