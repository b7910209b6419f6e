//! The tables of a configuration file (`pinion.toml`), and how a row is found by its key.

use super::{Directive, Kind, all};

/// A table of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    /// `[[site]]`, once for each site.
    Site,
    /// `[[site.mount]]` below a site, once for each part of it that other servers respond to.
    Mount,
    /// `[[site.access]]` below a site, once for each part of it that not everyone may request.
    Access,
    /// `[[listen]]`, once for each address.
    Listen,
    /// `[[certificate]]`, once for each certificate.
    Certificate,
    /// `[[program]]`, once for each program.
    Program,
    /// `[tls]`
    Tls,
    /// `[server]`
    Server,
    /// `[limits]`
    Limits,
    /// `[log]`
    Log,
    /// `[store]`
    Store,
}

/// Where a directive stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The table.
    pub(crate) table: Table,
    /// Its name there.
    pub(crate) name: &'static str,
}

/// Every table, in the order of the reference.
pub(crate) const TABLES: &[Table] = &[
    Table::Site,
    Table::Mount,
    Table::Access,
    Table::Listen,
    Table::Certificate,
    Table::Program,
    Table::Tls,
    Table::Server,
    Table::Limits,
    Table::Log,
    Table::Store,
];

impl Table {
    /// Returns its name without brackets.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Mount => "site.mount",
            Self::Access => "site.access",
            Self::Listen => "listen",
            Self::Certificate => "certificate",
            Self::Program => "program",
            Self::Tls => "tls",
            Self::Server => "server",
            Self::Limits => "limits",
            Self::Log => "log",
            Self::Store => "store",
        }
    }

    /// Returns the table that it stands below, each time that table is written.
    pub(crate) fn parent(self) -> Option<Self> {
        matches!(self, Self::Mount | Self::Access).then_some(Self::Site)
    }

    /// Returns the key of its content in the table that it stands below, or in the file.
    pub(crate) fn own_name(self) -> &'static str {
        self.name().rsplit('.').next().unwrap_or_default()
    }

    /// Returns its name as it is written.
    pub(crate) fn header(self) -> String {
        if self.is_repeated() {
            format!("[[{}]]", self.name())
        } else {
            format!("[{}]", self.name())
        }
    }

    /// Returns its name with the brackets of a table of the other kind.
    pub(crate) fn wrong_header(self) -> String {
        if self.is_repeated() {
            format!("[{}]", self.name())
        } else {
            format!("[[{}]]", self.name())
        }
    }

    /// Returns the advice about [`Self::wrong_header`].
    pub(crate) fn written_wrong(self) -> String {
        let why = if self.is_repeated() {
            "a table of which there can be several"
        } else {
            "a table that is there once"
        };
        format!("write {} instead of {}: {why}", self.header(), self.wrong_header())
    }

    /// Returns whether it is written once for each thing it describes.
    pub(crate) fn is_repeated(self) -> bool {
        match self {
            Self::Site | Self::Mount | Self::Access => true,
            Self::Listen | Self::Certificate | Self::Program => true,
            Self::Tls | Self::Server | Self::Limits | Self::Log | Self::Store => false,
        }
    }

    /// Returns a description in one line without a full stop.
    pub(crate) fn brief(self) -> &'static str {
        match self {
            Self::Site => "A site; without any, the server has only a store",
            Self::Mount => "A part of the site above it that other servers respond to",
            Self::Access => "Who may request a part of the site above it, and how often",
            Self::Listen => "An address to listen on: `address`, `tls`, `redirect-http` or `store`",
            Self::Certificate => "A certificate for TLS",
            Self::Program => "A program that the server starts and keeps running",
            Self::Tls => "Settings of all TLS and QUIC listeners",
            Self::Server => "Settings of the server",
            Self::Limits => "Limits of the server",
            Self::Log => "The access log of the server",
            Self::Store => "Settings of the store",
        }
    }

    /// Returns a key of this table, for a row.
    pub(crate) const fn key(self, name: &'static str) -> Key {
        Key { table: self, name }
    }

    /// Returns the table of this name that stands in a file, below no other one.
    pub(crate) fn named(name: &str) -> Option<Self> {
        TABLES.iter().copied().find(|table| table.parent().is_none() && table.name() == name)
    }

    /// Returns the table of this name that stands below this one.
    pub(crate) fn child(self, name: &str) -> Option<Self> {
        let mut tables = TABLES.iter().copied();
        tables.find(|table| table.parent() == Some(self) && table.own_name() == name)
    }

    /// Returns its rows, in the order of the reference.
    pub(crate) fn rows(self) -> impl Iterator<Item = (&'static Directive, &'static str)> {
        all().filter_map(move |row| {
            let key = row.file.filter(|key| key.table == self)?;
            Some((row, key.name))
        })
    }

    /// Returns whether keys of this table stand in a table of this name below it, as in
    /// `limits = { open-files = 1024 }`.
    pub(crate) fn has_inner(self, name: &str) -> bool {
        let is_in = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        self.rows().any(|(_, key)| is_in(key))
    }

    /// Returns the row of a key whose value is true or false, or another one. A key that takes a
    /// value and can be switched off has two rows.
    pub(crate) fn row(self, key: &str, is_switched: bool) -> Option<&'static Directive> {
        let row = self.rows().find(|(_, name)| *name == key)?.0;
        let twin = row.twin().filter(|_| row.is_switch() != is_switched);
        Some(twin.unwrap_or(row))
    }
}

impl Directive {
    /// Returns whether the flag disables the setting that the key enables: `--no-security-headers`
    /// is `security-headers = false`.
    pub(crate) fn is_inverted(&self) -> bool {
        self.file.is_some_and(|key| self.name.strip_prefix("no-") == Some(key.name))
    }

    /// Returns the other row of its key: `cache-control` takes a value, or `false`.
    pub(crate) fn twin(&self) -> Option<&'static Directive> {
        let key = self.file?;
        all().find(|other| other.file == Some(key) && other.name != self.name)
    }

    /// Returns whether its value is true or false.
    pub(crate) fn is_switch(&self) -> bool {
        matches!(self.kind, Kind::Switch)
    }

    /// Returns whether the key takes a list.
    pub(crate) fn is_list(&self) -> bool {
        // Each listener has a table of its own, and each certificate; a listener has many proxies.
        let once = [Table::Listen, Table::Certificate];
        let once = self.file.is_some_and(|key| once.contains(&key.table))
            && !matches!(self.kind, Kind::Network);
        let is_repeated = self.repeatable && !once && !matches!(self.kind, Kind::Variable);
        is_repeated || matches!(self.kind, Kind::Codings | Kind::Protocols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_own_row() {
        for row in all() {
            let Some(key) = row.file else { continue };
            let found = key.table.row(key.name, row.is_switch()).expect("a row");
            assert_eq!(found.name, row.name);
            match row.twin() {
                Some(twin) => assert_ne!(twin.is_switch(), row.is_switch(), "{}", row.name),
                None => {
                    let found = key.table.row(key.name, !row.is_switch()).expect("a row");
                    assert_eq!(found.name, row.name);
                }
            }
            let is_plain = |b: u8| b.is_ascii_lowercase() || b"-.".contains(&b);
            assert!(key.name.bytes().all(is_plain), "{}", key.name);
            // A flag that takes something away is a key that grants it.
            let negative = row.name.starts_with("no-") && matches!(row.kind, Kind::Switch);
            assert_eq!(row.is_inverted(), negative, "{}", row.name);
        }
        for table in TABLES {
            let found = match table.parent() {
                Some(parent) => parent.child(table.own_name()),
                None => Table::named(table.own_name()),
            };
            assert_eq!(found, Some(*table));
            assert!(table.rows().next().is_some(), "{} is empty", table.name());
        }
    }
}
