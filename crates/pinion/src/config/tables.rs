//! Reads a text into tables. The values that a key may have stand in its row of the directive table
//! and nowhere else; this module and [`toml_values`] know only how TOML writes them.

mod toml_values;

use super::fault::{ConfigFault, PlaceIndex, TextPlace};
use super::syntax_errors;
use super::unknown_names::{means_site, unknown_key, unknown_table};
use crate::directives::Kind;
use crate::directives::config_file_tables::Table;
use crate::directives::verbs::Verb;
use crate::raw_settings::Low;
use crate::settings::ServedContent;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The content of a file, by its tables.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Each `[[site]]`.
    pub(crate) sites: Vec<TableSection>,
    /// Each `[[listen]]`.
    pub(crate) listeners: Vec<TableSection>,
    /// Each `[[certificate]]`.
    pub(crate) certificates: Vec<TableSection>,
    /// Each `[[program]]`.
    pub(crate) programs: Vec<TableSection>,
    /// The tables that stand once, together: every name in them is another one.
    pub(crate) server: TableSection,
    /// Whether something is written that was most likely meant as a site.
    pub(crate) has_wrong_site: bool,
}

impl Tables {
    /// Returns the kind of content that clients find at the server. A table that was most likely
    /// meant as a site counts as one: the report of its mistake is enough.
    pub(crate) fn content(&self) -> ServedContent {
        if self.sites.is_empty() && !self.has_wrong_site {
            ServedContent::StoreOnly
        } else {
            ServedContent::Sites
        }
    }
}

/// One table.
#[derive(Debug)]
pub(crate) struct TableSection {
    /// Its values, as if they had been given as flags.
    pub(crate) low: Low,
    /// Where it begins.
    pub(crate) place: TextPlace,
    /// Where the value of each row stands, or each of its values.
    places: BTreeMap<&'static str, Vec<TextPlace>>,
    /// The tables below it, by their kinds. Their values are in [`Self::low`], too.
    tables: BTreeMap<Table, Vec<TableSection>>,
}

impl TableSection {
    fn new(place: TextPlace) -> Self {
        Self { low: Low::new(Verb::Serve), place, places: BTreeMap::new(), tables: BTreeMap::new() }
    }

    /// Returns whether a row has a key here, with a value that may be wrong.
    pub(crate) fn is_written(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Returns the rows that have a key here.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &'static str> {
        self.places.keys().copied()
    }

    /// Returns where the value of a row stands.
    pub(crate) fn place_of(&self, name: &str) -> TextPlace {
        self.places_of(name).next().unwrap_or(self.place)
    }

    /// Returns the tables of a kind below it, in the order of the file.
    pub(crate) fn tables(&self, table: Table) -> &[Self] {
        self.tables.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Returns where each value of a row stands.
    pub(crate) fn places_of(&self, name: &str) -> impl Iterator<Item = TextPlace> {
        self.places.get(name).into_iter().flatten().copied()
    }
}

/// Reads a text, and finds the faults in its keys and values. Relative paths in it are below the
/// folder of `file`.
///
/// # Errors
/// It is no TOML: nothing can be said about its keys.
pub(crate) fn read(
    text: &str,
    file: &Path,
) -> Result<(Tables, Vec<ConfigFault>), Vec<ConfigFault>> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut reader =
        TableReader { places: PlaceIndex::new(text), file, folder, faults: Vec::new() };
    let mut tables = Tables {
        sites: Vec::new(),
        listeners: Vec::new(),
        certificates: Vec::new(),
        programs: Vec::new(),
        server: TableSection::new(TextPlace::START),
        has_wrong_site: false,
    };
    let (document, errors) = DeTable::parse_recoverable(text);
    let found = errors.iter().map(|error| {
        (error.span().map_or(0, |span| span.start), error.message().replace('\n', ", "))
    });
    for (at, message) in syntax_errors::findings(text, &found.collect::<Vec<_>>()) {
        reader.fault(at, message);
    }
    // Tables that were recovered from a broken text would only repeat its errors.
    if !errors.is_empty() {
        return Err(reader.faults);
    }
    reader.document(document.get_ref(), &mut tables);
    Ok((tables, reader.faults))
}

struct TableReader<'t> {
    places: PlaceIndex<'t>,
    file: &'t Path,
    folder: &'t Path,
    faults: Vec<ConfigFault>,
}

impl TableReader<'_> {
    fn fault(&mut self, byte: usize, message: impl Into<String>) {
        let place = self.places.of(byte);
        self.faults.push(ConfigFault::at(self.file, place, message));
    }

    fn document(&mut self, document: &DeTable<'_>, tables: &mut Tables) {
        for (key, value) in in_order(document) {
            let at = key.span().start;
            let Some(table) = Table::named(key.get_ref()) else {
                tables.has_wrong_site |= means_site(key.get_ref());
                self.fault(at, unknown_table(key.get_ref(), value.get_ref()));
                continue;
            };
            match (table.is_repeated(), value.get_ref()) {
                (true, DeValue::Array(array)) => self.repeated(table, array, tables),
                (false, DeValue::Table(content)) => {
                    self.content(table, content, &mut tables.server);
                }
                (_, value) => {
                    tables.has_wrong_site |= table == Table::Site;
                    self.fault(at, misspelled(table, value));
                }
            }
        }
    }

    fn repeated(&mut self, table: Table, array: &DeArray<'_>, tables: &mut Tables) {
        for value in array.iter() {
            let at = value.span().start;
            let DeValue::Table(content) = value.get_ref() else {
                tables.has_wrong_site |= table == Table::Site;
                self.fault(at, misspelled(table, value.get_ref()));
                continue;
            };
            let mut section = TableSection::new(self.places.of(at));
            self.content(table, content, &mut section);
            match table {
                Table::Certificate => tables.certificates.push(section),
                Table::Listen => tables.listeners.push(section),
                Table::Program => tables.programs.push(section),
                _ => tables.sites.push(section),
            }
        }
    }

    fn content(&mut self, table: Table, content: &DeTable<'_>, section: &mut TableSection) {
        for (key, value) in in_order(content) {
            let (name, at) = (key.get_ref(), key.span().start);
            if let Some(child) = table.child(name) {
                self.below(child, at, value.get_ref(), section);
                continue;
            }
            match value.get_ref() {
                DeValue::Table(inner) if table.has_inner(name) => {
                    for (key, value) in in_order(inner) {
                        let name = format!("{name}.{}", key.get_ref());
                        self.entry(table, (&name, key.span().start), value, section);
                    }
                }
                _ if table.has_inner(name) => {
                    self.fault(at, format!("{name} is a table; write {name} = {{ KEY = VALUE }}"));
                }
                _ => self.entry(table, (name, at), value, section),
            }
        }
    }

    /// Reads the tables of a kind below another one.
    fn below(&mut self, table: Table, at: usize, value: &DeValue<'_>, parent: &mut TableSection) {
        let DeValue::Array(array) = value else {
            return self.fault(at, misspelled(table, value));
        };
        for value in array.iter() {
            let at = value.span().start;
            let DeValue::Table(content) = value.get_ref() else {
                self.fault(at, misspelled(table, value.get_ref()));
                continue;
            };
            let mut section = TableSection::new(self.places.of(at));
            self.content(table, content, &mut section);
            parent.low.push_table(table, section.low.clone());
            parent.tables.entry(table).or_default().push(section);
        }
    }

    /// Reads a key, which begins at a byte of the text, and its value.
    fn entry(
        &mut self,
        table: Table,
        (name, at): (&str, usize),
        value: &Spanned<DeValue<'_>>,
        section: &mut TableSection,
    ) {
        let is_switched = matches!(value.get_ref(), DeValue::Boolean(_));
        let Some(row) = table.row(name, is_switched) else {
            return self.fault(at, unknown_key(table, name));
        };
        let mut places = Vec::new();
        let texts = match (row.kind, value.get_ref()) {
            (Kind::Variable, DeValue::Table(variables)) => {
                self.variables(name, variables, &mut places)
            }
            _ => self.values(row, name, value, &mut places),
        };
        if let Some(texts) = texts {
            section.low.set(row.name, texts);
        }
        // A value that is wrong was given all the same.
        section.places.insert(row.name, places);
    }
}

/// Returns the fault of a table that is written as another kind of value.
fn misspelled(table: Table, value: &DeValue<'_>) -> String {
    match (table.is_repeated(), value) {
        (true, DeValue::Table(content))
            if let Some((key, _)) = in_order(content).first()
                && let Some(child) = table.child(key.get_ref()) =>
        {
            let (child, header) = (child.header(), table.header());
            format!("{child} belongs to a site: write {header} above it")
        }
        (true, DeValue::Table(_)) | (false, DeValue::Array(_)) => table.written_wrong(),
        _ => {
            let (name, header) = (table.name(), table.header());
            format!("{name} is a table; write {header}, and its keys below")
        }
    }
}

/// Returns the entries of a table as they are written.
fn in_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(&'t Spanned<toml::de::DeString<'i>>, &'t Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file has the maximum number of sites, each in lines of its own, and another file has as
    /// many hosts in one line. Both are read without a noticeable delay: the position of a value is
    /// found without a search through all lines before it.
    #[test]
    fn a_file_of_the_largest_size_is_read_at_once() {
        let sites = 100_000;
        let lines = |number: usize| format!("[[site]]\npath = \"a{number}\"\n");
        let long: String = (0..sites).map(lines).collect();
        let (tables, faults) = read(&long, Path::new("pinion.toml")).expect("TOML");
        assert_eq!((tables.sites.len(), faults.len()), (sites, 0));
        assert_eq!(tables.sites[sites - 1].place_of("path").line, 2 * sites);
        let hosts: Vec<String> = (0..sites).map(|number| format!("\"h{number}.org\"")).collect();
        let wide = format!("[[site]]\npath = \"a\"\nhosts = [{}]\n", hosts.join(","));
        let (tables, faults) = read(&wide, Path::new("pinion.toml")).expect("TOML");
        let last = tables.sites[0].places_of("hosts").last().expect("hosts");
        assert_eq!((last.line, faults.len()), (3, 0));
    }

    #[test]
    fn a_table_that_is_written_as_another_value_is_shown_as_a_table() {
        for (text, message) in [
            (
                "[[site.mount]]\nproxy = \"http://a\"",
                "[[site.mount]] belongs to a site: write [[site]] above it",
            ),
            (
                "[[site]]\npath = \"a\"\n[site.mount]\nproxy = \"http://a\"",
                "write [[site.mount]] instead of [site.mount]: a table of which",
            ),
            ("[site]", "write [[site]] instead of [site]: a table of which"),
            ("[[server]]", "write [server] instead of [[server]]: a table that is there once"),
            ("site = \"a\"", "site is a table; write [[site]], and its keys below"),
        ] {
            let (_, faults) = read(text, Path::new("pinion.toml")).expect("TOML");
            let [fault] = faults.as_slice() else { panic!("{text}: {faults:?}") };
            assert!(fault.message.contains(message), "{text}: {fault}");
        }
    }
}
