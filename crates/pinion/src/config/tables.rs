//! Reads a text into tables. The values that a key may have stand in its row of the directive table
//! and nowhere else; this module knows only how TOML writes them.

use super::fault::{ConfigFault, PlaceIndex, TextPlace};
use super::name_suggestion::nearest;
use super::syntax_errors;
use crate::directive_value_parsers;
use crate::directives::config_file_tables::{TABLES, Table};
use crate::directives::verbs::Verb;
use crate::directives::{self, Default, Directive, Kind};
use crate::raw_settings::Low;
use crate::settings::ServedContent;
use std::collections::BTreeMap;
use std::ffi::OsString;
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
                let names_site = nearest(key.get_ref(), names()) == Some(Table::Site.name());
                tables.has_wrong_site |= names_site;
                self.unknown_table(key.get_ref(), at, value.get_ref());
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

    /// Reads the variables of an environment, each as a text with its name and its value.
    fn variables(
        &mut self,
        key: &str,
        variables: &DeTable<'_>,
        places: &mut Vec<TextPlace>,
    ) -> Option<Vec<OsString>> {
        let mut texts = Vec::new();
        for (name, value) in in_order(variables) {
            let (name, at) = (name.get_ref(), name.span().start);
            let text = match value.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                DeValue::Integer(number) => whole_number(number),
                _ => Err("a string is needed".to_owned()),
            };
            let variable = text.and_then(|text| {
                let variable = format!("{name}={text}");
                let is_name = !name.contains('=');
                let checked =
                    directive_value_parsers::check(&Kind::Variable, &variable).map(|()| variable);
                if is_name { checked } else { Err("a name has no =".to_owned()) }
            });
            match variable {
                Ok(variable) => {
                    places.push(self.places.of(at));
                    texts.push(variable.into());
                }
                Err(error) => self.fault(at, format!("{key}.{name}: {error}")),
            }
        }
        (!texts.is_empty()).then_some(texts)
    }

    /// Returns the values of a key as texts, and adds their positions; `None` when the value is the
    /// default, or is wrong.
    fn values(
        &mut self,
        row: &'static Directive,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        places: &mut Vec<TextPlace>,
    ) -> Option<Vec<OsString>> {
        let at = value.span().start;
        if let (Kind::Switch, DeValue::Boolean(on)) = (row.kind, value.get_ref()) {
            places.push(self.places.of(at));
            if matches!(row.default, Default::Auto(_)) {
                // `false` is not the default of this key.
                return Some(vec![on.to_string().into()]);
            }
            return (*on != row.is_inverted()).then(Vec::new);
        }
        let whole = std::slice::from_ref(value);
        let (items, is_array): (Vec<&Spanned<DeValue<'_>>>, bool) = match value.get_ref() {
            DeValue::Array(array) if row.is_list() => (array.iter().collect(), true),
            _ => (whole.iter().collect(), false),
        };
        if items.is_empty() {
            self.fault(at, format!("{key}: an empty list; leave the key out"));
            return None;
        }
        let mut texts = Vec::new();
        for item in items {
            let at = item.span().start;
            match text(row, item.get_ref()) {
                Ok(text) => texts.push((text, at)),
                Err(needed) => self.fault(at, format!("{key}: {needed}")),
            }
        }
        if let (true, Kind::Codings | Kind::Protocols) = (is_array, row.kind) {
            let list: Vec<String> = texts.into_iter().map(|(text, _)| text).collect();
            texts = vec![(list.join(","), at)];
        }
        // The right items of a list are checked further, so that their faults show too.
        let mut values = Vec::new();
        for (text, at) in texts {
            match directive_value_parsers::check(&row.kind, &text) {
                Ok(()) => {
                    places.push(self.places.of(at));
                    values.push(self.resolved(row, &text));
                }
                Err(error) => self.fault(at, format!("{key}: {error}")),
            }
        }
        (!values.is_empty()).then_some(values)
    }

    /// Returns a path of the file: a relative one is below the folder of the file.
    fn resolved(&self, row: &Directive, text: &str) -> OsString {
        let is_word = match row.name {
            "access-log" | "site-access-log" => text == "-",
            "control" => text == "off",
            _ => false,
        };
        match (row.kind, text.strip_prefix("unix:")) {
            (Kind::Folder | Kind::Path, _) if !is_word => self.folder.join(text).into(),
            // A folder of the site is below the folder of the site.
            (Kind::LiveFolder, _) if !text.starts_with('/') => text.into(),
            (Kind::SentFolder, _) if !text.starts_with('/') => self.folder.join(text).into(),
            (Kind::LiveFolder | Kind::LuaFolder | Kind::Secret | Kind::SentFolder, _) => {
                match text.split_once('=') {
                    Some((name, path)) => {
                        let mut folder = OsString::from(format!("{name}="));
                        folder.push(self.folder.join(path));
                        folder
                    }
                    None => text.into(),
                }
            }
            (Kind::Address, Some(path)) => {
                let mut address = OsString::from("unix:");
                address.push(self.folder.join(path));
                address
            }
            _ => text.into(),
        }
    }

    fn unknown_table(&mut self, name: &str, at: usize, value: &DeValue<'_>) {
        let is_table = match value {
            DeValue::Table(_) => true,
            DeValue::Array(array) => {
                array.iter().any(|item| matches!(item.get_ref(), DeValue::Table(_)))
            }
            _ => false,
        };
        let homes = homes(name);
        let nested = TABLES.iter().find(|table| is_table && table.own_name() == name);
        let message = match (is_table, nearest(name, names())) {
            _ if let Some((table, parent)) = nested.and_then(|one| Some((one, one.parent()?))) => {
                let (header, parent) = (table.header(), parent.header());
                format!("unknown table {name}; write {header}, below the {parent} it belongs to")
            }
            (false, _) if !homes.is_empty() => format!("{name} belongs in {homes}"),
            (true, Some(near)) => {
                let near = Table::named(near).map(Table::header).unwrap_or_default();
                format!("unknown table {name}; did you mean {near}?")
            }
            (true, None) => {
                let headers: Vec<String> = TABLES.iter().map(|table| table.header()).collect();
                format!("unknown table {name}; there are {}", headers.join(", "))
            }
            (false, _) => match nearest(name, all_keys()) {
                Some(near) => {
                    format!("unknown key {name}; did you mean {near} in {}?", self::homes(near))
                }
                None => format!("unknown key {name}; every key belongs in a table, like [server]"),
            },
        };
        self.fault(at, message);
    }
}

/// Returns the names of all tables.
fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name())
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

/// Returns a value in the form of a flag, or the kind of value that is needed instead.
fn text(row: &Directive, value: &DeValue<'_>) -> Result<String, String> {
    let found = match value {
        DeValue::String(text) => match row.kind {
            Kind::Nice | Kind::Number { .. } | Kind::Switch | Kind::Variable => "a string",
            _ => return Ok(text.to_string()),
        },
        DeValue::Integer(number) => match row.kind {
            Kind::Account | Kind::Address | Kind::Nice | Kind::Number { .. } | Kind::Size => {
                return whole_number(number);
            }
            _ => "a number",
        },
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    let needed = match row.kind {
        Kind::Number { min, max, unit } => match directive_value_parsers::whole_number(unit) {
            Some(number) => format!("{number} ({min} to {max})"),
            None => format!("a whole number ({})", row.bounds()),
        },
        Kind::Switch => "true or false".to_owned(),
        Kind::Nice => format!("a whole number ({})", row.bounds()),
        Kind::Variable => format!("a table ({})", row.bounds()),
        Kind::Address => format!("a string ({})", row.bounds()),
        _ if row.is_list() => format!("a string ({}) or a list of them", row.bounds()),
        _ => format!("a string ({})", row.bounds()),
    };
    let or_off = if row.twin().is_some() { ", true or false" } else { "" };
    Err(format!("{needed}{or_off} is needed, not {found}"))
}

/// Returns a whole number as a text in decimal.
fn whole_number(number: &toml::de::DeInteger<'_>) -> Result<String, String> {
    let value = i128::from_str_radix(number.as_str(), number.radix());
    value.map(|number| number.to_string()).map_err(|_| "too many digits".to_owned())
}

fn unknown_key(table: Table, name: &str) -> String {
    let keys = table.rows().map(|(_, key)| key);
    let header = table.header();
    if let Some(row) = directives::all().find(|row| row.name == name)
        && let Some(key) = row.file
        && key.table == table
    {
        let off = name.strip_prefix("no-").map_or("", |_| " = false");
        return format!("unknown key {name} in {header}; write {}{off}", key.name);
    }
    let (homes, hint) = (homes(name), habit(name));
    // A site has no `directory`, as a program has, and its author means the path.
    if let Some(hint) = hint.filter(|_| homes.is_empty() || table == Table::Site) {
        return format!("unknown key {name} in {header}; {hint}");
    }
    if !homes.is_empty() {
        return format!("{name} belongs in {homes}, not in {header}");
    }
    match nearest(name, keys) {
        Some(near) => format!("unknown key {name} in {header}; did you mean {near}?"),
        None => {
            let mut keys: Vec<&str> = table.rows().map(|(_, key)| key).collect();
            keys.sort_unstable();
            keys.dedup();
            format!("unknown key {name} in {header}; there are {}", keys.join(", "))
        }
    }
}

/// Returns the advice about a key that other servers have.
pub(super) fn habit(name: &str) -> Option<&'static str> {
    Some(match name {
        "root" | "dir" | "directory" | "folder" | "document-root" | "DocumentRoot" => {
            "write path = \"FOLDER\""
        }
        "port" => "write address = \":8080\" in a [[listen]]",
        "host" | "domain" | "server-name" | "server_name" | "ServerName" => {
            "write hosts = [\"example.org\"]"
        }
        "redirects" | "headers" => {
            "write rules, or put a file _redirects or _headers in the folder"
        }
        "auth_basic_user_file" | "auth_basic" | "basic_auth" | "basicauth" | "AuthUserFile" => {
            "write [[site.access]], and below it password-file = \"FILE\""
        }
        "limit_req" | "rate_limit" | "rate-limit" => {
            "write [[site.access]], and below it request-rate = \"10/s\""
        }
        "limit_conn" => "write [[site.access]], and below it max-concurrent-requests = 10",
        "error-page" | "error_page" | "404" => "put a file 404.html in the folder",
        "proxy_pass" | "proxy-pass" | "reverse_proxy" | "upstream" | "upstreams" | "backend"
        | "servers" => "write proxy = \"http://127.0.0.1:3000\", or a list",
        "tls-verify"
        | "tls_verify"
        | "verify"
        | "insecure"
        | "tls-insecure"
        | "skip-verify"
        | "proxy_ssl_verify"
        | "tls_insecure_skip_verify" => {
            "certificates are always verified; name the authority with tls-ca, or the certificate \
             with tls-pin"
        }
        _ => return None,
    })
}

/// Returns the tables that a key or a flag of this name stands in, as a phrase; empty when there is
/// none.
fn homes(name: &str) -> String {
    let of_flag = directives::all().filter(|row| row.name == name);
    let of_key = directives::all().filter(|row| row.file.is_some_and(|key| key.name == name));
    let mut found: Vec<String> = Vec::new();
    for row in of_key.chain(of_flag) {
        if let Some(key) = row.file {
            let home = if key.name == name {
                key.table.header()
            } else {
                format!("{} as {}", key.table.header(), key.name)
            };
            if !found.contains(&home) {
                found.push(home);
            }
        }
    }
    found.join(" and ")
}

fn all_keys() -> impl Iterator<Item = &'static str> {
    directives::all().filter_map(|row| row.file.map(|key| key.name))
}

/// Returns the required keys that a table lacks. A listener needs one of several keys.
pub(crate) fn missing(table: Table, section: &TableSection) -> impl Iterator<Item = &'static str> {
    let is_needed = move |row: &Directive| match row.name {
        "cert" => true,
        "path" => {
            let has_mounts = !section.tables(Table::Mount).is_empty();
            !section.is_written("proxy") && !has_mounts
        }
        _ => matches!(row.default, Default::Required),
    };
    table
        .rows()
        .filter(move |(row, _)| is_needed(row))
        .filter_map(|(row, key)| (!section.is_written(row.name)).then_some(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{self, ParsedCommand};

    /// A value of each kind, as a flag and as TOML have it.
    fn sample(kind: &Kind) -> (String, String) {
        let text = match kind {
            Kind::AbsolutePath | Kind::Argument => "/a/b",
            Kind::Account => "www-data",
            Kind::Nice => return ("-5".to_owned(), "-5".to_owned()),
            Kind::ProgramName => "app",
            Kind::Size => "512M",
            Kind::Variable => return ("A=b".to_owned(), "{ A = \"b\" }".to_owned()),
            Kind::Address => "unix:a",
            Kind::CanonicalHost => "a.org:8443",
            Kind::Choice(words) => words.last().copied().unwrap_or_default(),
            Kind::Codings => "gzip:9,br:5",
            Kind::Duration { max, .. } => max,
            Kind::FieldName => "X-Real-IP",
            Kind::FieldValue => "a, b",
            Kind::UrlPath => "/a",
            Kind::Glob => "*.psd",
            Kind::GlobCodings => "*.svg=br:11",
            Kind::Header => "A: b",
            Kind::Method => "POST",
            Kind::Host => "*.a.org",
            Kind::AltSvc => "off",
            Kind::Hsts => "1y,subdomains",
            Kind::Protocols => "h1,h2",
            Kind::CertificatePin => "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            Kind::IpNetwork => "10.0.0.0/8",
            Kind::LiveFolder | Kind::SentFolder => "/media=a/b",
            Kind::LuaFolder => "data=a/b:ro",
            Kind::Secret => "token=a/b",
            Kind::Program => "convert=/usr/bin/convert",
            Kind::Network => "10.0.0.0/8",
            Kind::Number { max, .. } => return (max.to_string(), max.to_string()),
            Kind::Folder | Kind::Path => "a/b",
            Kind::SiteFile => "index.html",
            Kind::SiteFolder => "wp-content/uploads",
            Kind::Switch => return (String::new(), "true".to_owned()),
            Kind::UpstreamUrl => "http://127.0.0.1:3000",
            Kind::Application => "127.0.0.1:9000",
            Kind::Balance => "header-hash:X-User",
            Kind::MountPath => "*.php",
            Kind::ServerName | Kind::UpstreamHost => "app.internal",
            Kind::Rate => "10/s",
            Kind::Origin => "https://example.org",
            Kind::PythonApplication => "/api=app:app",
            Kind::ScriptFolder => "/run=a/b",
            Kind::StorePages => "/live=page:",
            Kind::Upstream => "/api=http://127.0.0.1:3000",
        };
        (text.to_owned(), format!("\"{text}\""))
    }

    /// Reads a file whose only key is in this line, and returns its table.
    fn only(table: Table, line: &str) -> Low {
        let text = format!("{}\n{line}\n", table.header());
        let (tables, faults) = read(&text, Path::new("pinion.toml")).expect("TOML");
        assert_eq!(faults, [], "{text}");
        let sections = tables.sites.into_iter().chain(tables.listeners);
        let sections = sections.chain(tables.certificates).chain([tables.server]);
        let given = |section: &TableSection| !section.places.is_empty();
        sections.into_iter().find(given).expect("a key").low
    }

    #[test]
    fn a_key_is_its_flag() {
        for (table, row, key) in TABLES
            .iter()
            .flat_map(|table| table.rows().map(|(row, key)| (*table, row, key)))
            .filter(|(_, row, _)| row.verbs.contains(&Verb::Serve))
        {
            let (text, toml) = sample(&row.kind);
            let toml = if row.is_inverted() { "false".to_owned() } else { toml };
            let mut arguments = vec!["pinion".to_owned(), "serve".to_owned()];
            arguments.push(match row.kind {
                Kind::Switch => format!("--{}", row.name),
                _ => format!("--{}={text}", row.name),
            });
            let arguments = arguments.into_iter().map(OsString::from);
            let Ok(ParsedCommand::Run(flag)) = command_line::parse(arguments) else {
                panic!("{key}")
            };
            assert_eq!(only(table, &format!("{key} = {toml}")), flag);
            if row.is_list() {
                assert_eq!(only(table, &format!("{key} = [{toml}]")), flag);
            }
            if matches!(row.kind, Kind::Switch) {
                let off = only(table, &format!("{key} = {}", toml == "false"));
                assert_eq!(off, Low::new(Verb::Serve), "{key}");
            }
        }
    }

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
    fn relative_paths_are_below_the_folder_of_the_file() {
        let read = |line: &str| {
            let text = format!("[[site]]\npath = \"a\"\n{line}\n");
            read(&text, Path::new("etc/pinion.toml")).expect("TOML").0
        };
        let tables = read("[[listen]]\naddress = \"unix:run/x\"\n[log]\naccess = \"-\"");
        assert_eq!(tables.sites[0].low.values("path").collect::<Vec<_>>(), ["etc/a"]);
        let address: Vec<_> = tables.listeners[0].low.values("listen").collect();
        assert_eq!(address, ["unix:etc/run/x"]);
        assert_eq!(tables.server.low.values("access-log").collect::<Vec<_>>(), ["-"]);
        let tables = read("access-log = \"-\"");
        assert_eq!(tables.sites[0].low.values("site-access-log").collect::<Vec<_>>(), ["-"]);
        let tables = read("[log]\naccess = \"/var/log/x\"");
        assert_eq!(tables.server.low.values("access-log").collect::<Vec<_>>(), ["/var/log/x"]);
    }

    #[test]
    fn a_key_that_stands_elsewhere_is_sent_there() {
        for (text, message) in [
            ("[server]\nwatch = true", "watch belongs in [[site]], not in [server]"),
            ("[log]\naccess-log = \"x\"", "unknown key access-log in [log]; write access"),
            ("[server]\nlisten = \"x\"", "listen belongs in [[listen]] as address"),
            ("[[site]]\npath = \"a\"\nroot = \"x\"", "unknown key root in [[site]]; write path"),
            ("watsh = true", "unknown key watsh; did you mean watch in [[site]]?"),
            ("xyzzy = true", "every key belongs in a table"),
            (
                "[xyzzy]",
                "there are [[site]], [[site.mount]], [[site.access]], [[listen]], [[certificate]]",
            ),
            (
                "[[mount]]",
                "unknown table mount; write [[site.mount]], below the [[site]] it belongs to",
            ),
            (
                "[[site.mount]]\nproxy = \"http://a\"",
                "[[site.mount]] belongs to a site: write [[site]] above it",
            ),
            (
                "[[site]]\npath = \"a\"\n[site.mount]\nproxy = \"http://a\"",
                "write [[site.mount]] instead of [site.mount]: a table of which",
            ),
            (
                "[[site]]\npath = \"a\"\n[[site.mount]]\npath = \"/a\"\nwatch = true",
                "watch belongs in [[site]], not in [[site.mount]]",
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
