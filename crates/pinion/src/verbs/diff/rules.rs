//! The differences apart from single paths: rules, and the fields of the server's built-in
//! responses.

use super::Sides;
use super::fields::{FieldChange, between};
use crate::listed_entry::ListedRule;
use pinion_archive::{Archive, Role, SharedBlock};
use serde::Serialize;
use std::collections::HashSet;
use std::hash::Hash;

/// The changes of the rules. The member names are part of the `--json` contract.
#[derive(Debug, Serialize)]
pub(super) struct RuleChanges<R> {
    pub(super) added: Vec<R>,
    pub(super) removed: Vec<R>,
    /// The rules that both have come in another order.
    pub(super) reordered: bool,
}

/// Responses without a path of their own whose fields differ.
#[derive(Debug, Serialize)]
pub(super) struct BuiltIn {
    #[serde(rename = "answers")]
    pub(super) responses: &'static str,
    pub(super) fields: Vec<FieldChange>,
}

/// Returns the rules that only one of them has.
pub(super) fn rules(sides: &Sides) -> RuleChanges<ListedRule> {
    let listed = |archive: &Archive<'_>| {
        archive.rules().iter().map(|rule| ListedRule::new(&rule)).collect::<Vec<_>>()
    };
    between_lists(&listed(&sides.before.view()), &listed(&sides.after.view()))
}

fn between_lists<R: Clone + Eq + Hash>(before: &[R], after: &[R]) -> RuleChanges<R> {
    let (old, new): (HashSet<&R>, HashSet<&R>) = (before.iter().collect(), after.iter().collect());
    let only = |rules: &[R], other: &HashSet<&R>| {
        rules.iter().filter(|rule| !other.contains(rule)).cloned().collect()
    };
    let kept = before.iter().filter(|rule| new.contains(rule));
    RuleChanges {
        added: only(after, &old),
        removed: only(before, &new),
        reordered: !kept.eq(after.iter().filter(|rule| old.contains(rule))),
    }
}

/// Returns the built-in pages and redirects, as far as their fields differ.
pub(super) fn built_in(sides: &Sides) -> Vec<BuiltIn> {
    let (before, after) = (sides.before.view(), sides.after.view());
    [(Role::Generated, "built-in pages"), (Role::SlashRedirect, "redirects between slash forms")]
        .into_iter()
        .map(|(role, responses)| {
            let old = before.shared_for(role).unwrap_or(SharedBlock::EMPTY);
            let new = after.shared_for(role).unwrap_or(SharedBlock::EMPTY);
            BuiltIn { responses, fields: between(&old, &new) }
        })
        .filter(|built_in| !built_in.fields.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_removed_and_reordered_rules_are_found() {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (before, after, added, removed, reordered) in [
            ("a b", "a b", "", "", false),
            ("a b", "b a", "", "", true),
            ("a b", "c a d b", "c d", "", false),
            ("a b c", "b", "", "a c", false),
            ("a b c", "c x a", "x", "b", true),
        ] {
            let changes = between_lists(&list(before), &list(after));
            assert_eq!(changes.added.join(" "), added, "{before} -> {after}");
            assert_eq!(changes.removed.join(" "), removed, "{before} -> {after}");
            assert_eq!(changes.reordered, reordered, "{before} -> {after}");
        }
    }
}
