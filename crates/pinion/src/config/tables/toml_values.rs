//! Reads the value of a key: as texts in the form of flags, each checked by the row of the key.

use super::{TableReader, in_order};
use crate::config::fault::TextPlace;
use crate::directive_value_parsers;
use crate::directives::{Default, Directive, Kind};
use std::ffi::OsString;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

impl TableReader<'_> {
    /// Reads the variables of an environment, each as a text with its name and its value.
    pub(super) fn variables(
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
    pub(super) fn values(
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

#[cfg(test)]
mod tests {
    use super::super::{TableSection, read};
    use crate::command_line::{self, ParsedCommand};
    use crate::directives::Kind;
    use crate::directives::config_file_tables::{TABLES, Table};
    use crate::directives::verbs::Verb;
    use crate::raw_settings::Low;
    use std::ffi::OsString;
    use std::path::Path;

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
}
