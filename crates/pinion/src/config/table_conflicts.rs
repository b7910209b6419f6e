//! Finds missing tables of a file, and values that two of its tables both claim.

use super::fault::{ConfigFault, TextPlace};
use super::tables::{TableSection, Tables};
use crate::directive_value_parsers::http_values;
use crate::directives::config_file_tables::Table;
use crate::directives::verbs::Verb;
use crate::directives::{self, Default, Directive};
use crate::listen_address::{self, Address, Overlap};
use crate::raw_settings::Low;
use crate::settings::{
    LISTEN_KINDS, ListenKind, ServedContent, access_faults, access_tables_faults,
};
use pinion_spawner::limits::STARTS_MAX;
use std::collections::BTreeMap;
use std::path::Path;

/// Sites of one server: each has a thread of its own that loads it, and every worker looks at each
/// archive once a second.
const SITES_MAX: usize = 1000;

/// Returns all faults of this kind.
pub(crate) fn find(tables: &Tables, file: &Path) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    if let Some(site) = tables.sites.get(SITES_MAX) {
        let message = format!("[[site]] is one too many: {SITES_MAX} are the most");
        faults.push(ConfigFault::at(file, site.place, message));
    }
    if tables.content() == ServedContent::StoreOnly {
        without_site(tables, file, &mut faults);
    }
    let sites = tables.sites.iter().map(|section| (Table::Site, section));
    let certificates = tables.certificates.iter().map(|section| (Table::Certificate, section));
    let programs = tables.programs.iter().map(|section| (Table::Program, section));
    let nested = |table: Table| {
        let sections = tables.sites.iter().flat_map(move |site| site.tables(table));
        sections.map(move |section| (table, section))
    };
    let nested = nested(Table::Mount).chain(nested(Table::Access));
    for (table, section) in sites.chain(nested).chain(certificates).chain(programs) {
        for key in missing(table, section) {
            let header = table.header();
            faults.push(ConfigFault::at(file, section.place, format!("{header} lacks {key}")));
        }
    }
    hosts(&tables.sites, file, &mut faults);
    tables.sites.iter().for_each(|site| access(site, file, &mut faults));
    program_names(&tables.programs, file, &mut faults);
    tables.listeners.iter().for_each(|section| listener(section, file, &mut faults));
    listeners_twice(&tables.listeners, file, &mut faults);
    faults
}

/// Returns the required keys that a table lacks. A listener needs one of several keys.
fn missing(table: Table, section: &TableSection) -> impl Iterator<Item = &'static str> {
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

/// Finds the keys that a file without a site lacks to configure a server with only a store, and its
/// keys that need a site.
fn without_site(tables: &Tables, file: &Path, faults: &mut Vec<ConfigFault>) {
    if !tables.listeners.iter().any(leads_to_store) {
        let message = "no site: write [[site]], and below it path = \"public\"; for a server with \
                       only a store, write [[listen]], and below it store = \"127.0.0.1:6379\"";
        faults.push(ConfigFault::at(file, TextPlace::START, message));
        return;
    }
    let sections = tables.listeners.iter().chain(&tables.certificates).chain([&tables.server]);
    for (section, row) in sections.flat_map(|section| section.rows().map(move |row| (section, row)))
    {
        if let Some(message) = needs_site(row, key_of(row)) {
            faults.push(ConfigFault::at(file, section.place_of(row), message));
        }
    }
}

/// Returns whether clients of Redis find the store at a listener.
pub(super) fn leads_to_store(listener: &TableSection) -> bool {
    let mut kinds = LISTEN_KINDS.into_iter().filter(|kind| kind.is_store());
    kinds.any(|kind| listener.is_written(kind.row()))
}

/// Returns why a key or a flag has no effect without a site, unless it has one on a store alone.
/// `name` is how it is written.
pub(super) fn needs_site(row: &str, name: &str) -> Option<String> {
    if directives::of(Verb::Store).any(|known| known.name == row) {
        return None;
    }
    if LISTEN_KINDS.into_iter().any(|kind| kind.row() == row) {
        return Some(format!(
            "{name}: there is no site that could respond here; write [[site]], and below it path = \
             \"public\", or leave this listener out"
        ));
    }
    Some(format!("{name}: has no effect without a site; leave it out, or write [[site]]"))
}

/// Returns the key of a row, without its table.
fn key_of(row: &'static str) -> &'static str {
    directives::all()
        .find(|known| known.name == row)
        .and_then(|row| row.file)
        .map_or(row, |key| key.name)
}

/// Finds contradictions between the access tables of a site.
fn access(site: &TableSection, file: &Path, faults: &mut Vec<ConfigFault>) {
    let sections = site.tables(Table::Access);
    let lows: Vec<&Low> = sections.iter().map(|section| &section.low).collect();
    for (number, message) in access_tables_faults(&lows) {
        let section = sections.get(number);
        let place = section.map_or(site.place, |section| section.place_of("access-path"));
        faults.push(ConfigFault::at(file, place, message));
    }
    for section in sections {
        // A value that is wrong was given all the same.
        let is_given = |row: &str| section.low.given(row) || row == "access-cors-credentials";
        let found = access_faults(&section.low).into_iter();
        for (row, message) in found.filter(|_| section.rows().all(is_given)) {
            faults.push(ConfigFault::at(file, section.place_of(row), message));
        }
    }
}

/// Checks that programs have different names, by which the log tells them apart.
fn program_names(programs: &[TableSection], file: &Path, faults: &mut Vec<ConfigFault>) {
    if let Some(program) = programs.get(STARTS_MAX) {
        let message = format!("[[program]] is one too many: {STARTS_MAX} are the most");
        faults.push(ConfigFault::at(file, program.place, message));
    }
    let mut known = BTreeMap::new();
    for program in programs {
        let place = program.place_of("program-name");
        let Some(name) = program.low.values("program-name").next() else { continue };
        if let Some(TextPlace { line, .. }) = known.insert(name, place) {
            let name = name.display();
            let message = format!("name: {name} is the name of the program in line {line}, too");
            faults.push(ConfigFault::at(file, place, message));
        }
    }
}

/// Checks that a host belongs to one site, and so does every other host.
fn hosts(sites: &[TableSection], file: &Path, faults: &mut Vec<ConfigFault>) {
    let mut known = BTreeMap::new();
    let mut rest: Option<TextPlace> = None;
    for (number, site) in sites.iter().enumerate() {
        let values = site.low.values("hosts").filter_map(|text| text.to_str());
        for (text, place) in values.zip(site.places_of("hosts")) {
            let Ok(pattern) = http_values::host(text) else { continue };
            match known.get(&pattern) {
                Some((_, of)) if *of == number => {
                    let message =
                        format!("hosts: {pattern} is given twice in this list; remove one");
                    faults.push(ConfigFault::at(file, place, message));
                }
                Some((TextPlace { line, .. }, _)) => {
                    let message = format!(
                        "hosts: {pattern} is named in line {line} already; a host can belong to \
                         one site only, remove it from one of them"
                    );
                    faults.push(ConfigFault::at(file, place, message));
                }
                None => drop(known.insert(pattern, (place, number))),
            }
        }
        // A list that is wrong is a list all the same.
        if site.is_written("hosts") {
            continue;
        }
        match rest {
            Some(TextPlace { line, .. }) => {
                let message = format!(
                    "this site and the one in line {line} have no hosts, but only one site can \
                     serve the hosts that no other names; add hosts = [\"example.org\"] to one"
                );
                faults.push(ConfigFault::at(file, site.place, message));
            }
            None => rest = Some(site.place),
        }
    }
}

/// Checks that a listener has one kind, and that its keys and its address fit it.
fn listener(section: &TableSection, file: &Path, faults: &mut Vec<ConfigFault>) {
    let kinds = LISTEN_KINDS.into_iter().filter(|kind| section.is_written(kind.row()));
    let kinds: Vec<ListenKind> = kinds.collect();
    match kinds.as_slice() {
        [] => {
            let message = "[[listen]] lacks address, tls, quic, redirect-http, store or store-tls";
            faults.push(ConfigFault::at(file, section.place, message));
        }
        [_] => {}
        [.., last] => {
            let message = format!("{}: write a [[listen]] of its own for each address", last.row());
            faults.push(ConfigFault::at(file, section.place_of(last.row()), message));
        }
    }
    if let Some((key, address, place)) = address_of(section)
        && let Some(why) = kinds.iter().find_map(|kind| kind.cannot_be_at(&address))
    {
        faults.push(ConfigFault::at(file, place, format!("{key}: {address}: {why}")));
    }
    if section.is_written("client-ca") && !kinds.iter().any(|kind| kind.is_secured()) {
        let place = section.place_of("client-ca");
        let message = "client-ca: has no effect without tls, quic or store-tls";
        faults.push(ConfigFault::at(file, place, message));
    }
    if section.is_written("proxy-protocol") && kinds.contains(&ListenKind::Quic) {
        let place = section.place_of("proxy-protocol");
        let message = "proxy-protocol: has no effect with quic; leave it out";
        faults.push(ConfigFault::at(file, place, message));
    }
    let text = section.low.values("protocols").next().and_then(|text| text.to_str());
    let spoken = text.and_then(|text| http_values::protocols(text).ok());
    let silent = kinds.iter().find_map(|kind| spoken?.silent_at(*kind));
    if let Some(why) = silent {
        let place = section.place_of("protocols");
        faults.push(ConfigFault::at(file, place, format!("protocols: {why}")));
    }
}

/// Returns the address of a listener, its key and its place, if it is right.
pub(crate) fn address_of(section: &TableSection) -> Option<(&'static str, Address, TextPlace)> {
    let kind = LISTEN_KINDS.into_iter().find(|kind| section.is_written(kind.row()))?;
    let text = section.low.values(kind.row()).next().and_then(|text| text.to_str())?;
    Some((kind.key(), Address::parse(text).ok()?, section.place_of(kind.row())))
}

fn listeners_twice(listeners: &[TableSection], file: &Path, faults: &mut Vec<ConfigFault>) {
    let known: Vec<_> = listeners.iter().filter_map(address_of).collect();
    let is_datagram = |key: &str| key == ListenKind::Quic.key();
    let addresses = known.iter().map(|(key, address, _)| (address, is_datagram(key)));
    for Overlap { earlier, later, conflict } in listen_address::overlaps(addresses) {
        let pair = known.get(earlier).zip(known.get(later));
        let Some(((key, address, TextPlace { line, .. }), (later_key, later_address, place))) =
            pair
        else {
            continue;
        };
        let message =
            format!("{later_key} {later_address} and {key} {address} in line {line} {conflict}");
        faults.push(ConfigFault::at(file, *place, message));
    }
}
