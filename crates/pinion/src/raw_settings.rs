//! Settings in their written form, from the command line or a table of a configuration file: texts
//! by the name of their row. Values are not read yet; [`crate::settings`] does that for both
//! origins.

use crate::directives::{self, Directive, config_file_tables::Table, verbs::Verb};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Settings in their written form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Low {
    /// The verb.
    pub(crate) verb: Verb,
    /// The values by the name of a flag or an operand; a switch has no values.
    written: BTreeMap<&'static str, Vec<OsString>>,
    /// The tables below that of a site, by their kinds, in the order of the file.
    tables: BTreeMap<Table, Vec<Low>>,
}

impl Low {
    /// Makes empty settings.
    pub(crate) fn new(verb: Verb) -> Self {
        Self { verb, written: BTreeMap::new(), tables: BTreeMap::new() }
    }

    /// Sets a flag, an operand or a key; its earlier values are replaced.
    pub(crate) fn set(&mut self, name: &'static str, values: Vec<OsString>) {
        self.written.insert(name, values);
    }

    /// Adds one more value of a flag that is repeated.
    pub(crate) fn push(&mut self, name: &'static str, value: OsString) {
        self.written.entry(name).or_default().push(value);
    }

    /// Adds a table below that of a site.
    pub(crate) fn push_table(&mut self, table: Table, content: Self) {
        self.tables.entry(table).or_default().push(content);
    }

    /// Returns the tables of a kind below that of a site, in the order of the file.
    pub(crate) fn tables(&self, table: Table) -> &[Self] {
        self.tables.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Returns whether it was given.
    pub(crate) fn given(&self, name: &str) -> bool {
        self.written.contains_key(name)
    }

    /// Returns every value of a flag or operand, in the order they were written.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &OsStr> {
        self.written.get(name).into_iter().flatten().map(OsString::as_os_str)
    }

    /// Returns the values of these settings, and the values that stand in `below` alone. Two flags
    /// for one key hide each other.
    pub(crate) fn over(&self, below: &Self) -> Self {
        let rows = directives::all().filter(|row| self.given(row.name));
        let twins: Vec<&str> = rows.filter_map(Directive::twin).map(|twin| twin.name).collect();
        let mut both = below.without(&twins);
        both.verb = self.verb;
        let own = self.written.iter().map(|(name, values)| (*name, values.clone()));
        both.written.extend(own);
        both.tables.extend(self.tables.clone());
        both
    }

    /// Returns the settings without these names.
    pub(crate) fn without(&self, names: &[&str]) -> Self {
        let mut rest = self.clone();
        rest.written.retain(|name, _| !names.contains(name));
        rest
    }

    /// Returns the names of the settings that differ between the two, among them those of tables.
    pub(crate) fn differences<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'static str> {
        let names = self.written.keys().chain(other.written.keys());
        let differs = |name: &&'static str| self.written.get(*name) != other.written.get(*name);
        let mut names: Vec<&'static str> = names.copied().filter(differs).collect();
        let tables = self.tables.keys().chain(other.tables.keys());
        let tables = tables.filter(|table| self.tables.get(*table) != other.tables.get(*table));
        names.extend(tables.map(|table| table.name()));
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn low(texts: &[(&'static str, &[&str])]) -> Low {
        let mut low = Low::new(Verb::Serve);
        for (name, values) in texts {
            low.set(name, values.iter().map(OsString::from).collect());
        }
        low
    }

    #[test]
    fn the_upper_settings_hide_the_lower_by_name() {
        let flags = low(&[("listen", &["80"]), ("watch", &[])]);
        let file = low(&[("listen", &["90", "91"]), ("io", &["epoll"])]);
        let both = flags.over(&file);
        assert_eq!(both.values("listen").collect::<Vec<_>>(), ["80"]);
        assert_eq!(both.values("io").collect::<Vec<_>>(), ["epoll"]);
        assert!(both.given("watch") && !both.given("dummy"));
        assert_eq!(both.differences(&file).collect::<Vec<_>>(), ["listen", "watch"]);
        assert_eq!(both.differences(&both).count(), 0);
    }

    #[test]
    fn a_flag_hides_the_other_one_for_its_key() {
        let value = low(&[("cache-control", &["no-cache"]), ("jobs", &["2"])]);
        let off = low(&[("no-cache-control", &[]), ("jobs", &["2"])]);
        assert_eq!(value.over(&off), value);
        assert_eq!(off.over(&value), off);
    }
}
