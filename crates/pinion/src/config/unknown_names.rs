//! The messages about names that a file cannot have: unknown tables, unknown keys, keys of other
//! tables, and keys of other servers.

use super::name_suggestion::nearest;
use crate::directives;
use crate::directives::config_file_tables::{TABLES, Table};
use toml::de::DeValue;

/// Returns whether a table of this name was most likely meant as a site.
pub(super) fn means_site(name: &str) -> bool {
    nearest(name, table_names()) == Some(Table::Site.name())
}

/// Returns the message about a name at the top of a file that is no table.
pub(super) fn unknown_table(name: &str, value: &DeValue<'_>) -> String {
    let is_table = match value {
        DeValue::Table(_) => true,
        DeValue::Array(array) => {
            array.iter().any(|item| matches!(item.get_ref(), DeValue::Table(_)))
        }
        _ => false,
    };
    let homes = homes(name);
    let nested = TABLES.iter().find(|table| is_table && table.own_name() == name);
    match (is_table, nearest(name, table_names())) {
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
    }
}

/// Returns the message about a key that a table does not have.
pub(super) fn unknown_key(table: Table, name: &str) -> String {
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

/// Returns the names of all tables.
fn table_names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name())
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

/// Returns the names of all keys.
fn all_keys() -> impl Iterator<Item = &'static str> {
    directives::all().filter_map(|row| row.file.map(|key| key.name))
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use std::path::Path;

    #[test]
    fn a_misplaced_key_is_reported_with_its_table() {
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
                "[[site]]\npath = \"a\"\n[[site.mount]]\npath = \"/a\"\nwatch = true",
                "watch belongs in [[site]], not in [[site.mount]]",
            ),
        ] {
            let (_, faults) = tables::read(text, Path::new("pinion.toml")).expect("TOML");
            let [fault] = faults.as_slice() else { panic!("{text}: {faults:?}") };
            assert!(fault.message.contains(message), "{text}: {fault}");
        }
    }
}
