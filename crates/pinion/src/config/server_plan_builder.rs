//! Turns the file and the flags into the plan of a server.

use super::fault::{ConfigFault, TextPlace};
use super::mount_checks;
use super::table_conflicts::{self, leads_to_store, needs_site};
use super::tables::{self, TableSection, Tables};
use crate::directives::{self, config_file_tables::Table};
use crate::failure::Failure;
use crate::listen_address::Address;
use crate::plan::PlannedSite;
use crate::raw_settings::Low;
use crate::regular_file;
use crate::served_source::{self, ServedSource};
use crate::settings::{
    LISTEN_KINDS, Listen, ListenKind, ProgramFault, Serve, ServedContent, SiteSettings,
    check_program_files, content_flags, php_wish, supervised_program, without_effect,
};
use pinion_spawner::accounts::Accounts;
use pinion_spawner::start_table::ProgramStart;
use std::path::{Path, PathBuf};

/// MiB of a file: a thousand sites need a tenth of it, and more is another kind of file.
const CONFIG_MAX_MIB: u64 = 4;

/// The content of a configuration file, and all faults in it.
#[derive(Debug)]
pub(crate) struct LoadedFile {
    /// The server; `None` when it cannot be determined.
    pub(crate) serve: Option<Serve>,
    /// The sites that are right.
    pub(crate) sites: Vec<ConfiguredSite>,
    /// Each address.
    pub(crate) listeners: Vec<TableSection>,
    /// Each certificate.
    pub(crate) certificates: Vec<TableSection>,
    /// The programs that are right.
    pub(crate) programs: Vec<ProgramStart>,
    /// Settings that need privileges which this process lacks. They are no fault of the file.
    pub(crate) privilege_faults: Vec<ConfigFault>,
    /// Files of programs that are missing or cannot be executed. The programs are started anyway,
    /// again and again until the files are there.
    pub(crate) program_file_faults: Vec<ConfigFault>,
    /// The tables that stand once; none when the file is no TOML.
    pub(crate) server: Option<TableSection>,
    /// The faults, in the order of the file.
    pub(crate) faults: Vec<ConfigFault>,
    /// Settings without effect, found by a check of the files that the configuration names.
    pub(crate) warnings: Vec<String>,
    /// Files of the sites that are left out, and files that clients keep; found in the same way.
    pub(crate) notes: Vec<String>,
}

/// A site, and where it stands in the file.
#[derive(Debug)]
pub(crate) struct ConfiguredSite {
    /// The site.
    pub(crate) planned: PlannedSite,
    /// Its table.
    pub(crate) section: TableSection,
}

/// Reads a file below the flags of a command line. Paths are looked at, nothing is opened.
pub(crate) fn load(path: &Path, flags: &Low) -> LoadedFile {
    let mut loaded = LoadedFile {
        serve: None,
        sites: Vec::new(),
        listeners: Vec::new(),
        certificates: Vec::new(),
        programs: Vec::new(),
        privilege_faults: Vec::new(),
        program_file_faults: Vec::new(),
        server: None,
        faults: Vec::new(),
        warnings: Vec::new(),
        notes: Vec::new(),
    };
    match read_text(path).and_then(|text| parse(&text, path)) {
        Ok((tables, faults)) => {
            loaded.faults = faults;
            loaded.settle(tables, path, flags);
        }
        Err(faults) => loaded.faults = faults,
    }
    loaded.faults.sort_by_key(|fault| fault.place);
    loaded
}

/// Reads a text: everything that can be known of it without a look at anything else.
///
/// # Errors
/// It is no TOML.
pub(crate) fn parse(
    text: &str,
    path: &Path,
) -> Result<(Tables, Vec<ConfigFault>), Vec<ConfigFault>> {
    let (tables, mut faults) = tables::read(text, path)?;
    faults.extend(table_conflicts::find(&tables, path));
    Ok((tables, faults))
}

impl LoadedFile {
    fn settle(&mut self, tables: Tables, path: &Path, flags: &Low) {
        let content = tables.content();
        let Tables { sites, listeners, certificates, programs, server, .. } = tables;
        let mut low = server.low.clone();
        // Together, to see whether anything is another one than before.
        for (row, _) in Table::Listen.rows() {
            for value in listeners.iter().flat_map(|section| section.low.values(row.name)) {
                low.push(row.name, value.to_owned());
            }
        }
        if !flags.given("cert") {
            add_certificates(&mut low, &certificates);
        }
        let low = flags.over(&low);
        if low.given("log-format") && !low.given("access-log") {
            let message = "format: has no effect without access, the file to log to";
            self.faults.push(ConfigFault::at(path, server.place_of("log-format"), message));
        }
        // A key in a [[listen]] was checked there: it belongs to that listener alone.
        let of_listeners = ["client-ca", "proxy-protocol"];
        let of_listeners: Vec<&str> =
            of_listeners.into_iter().filter(|name| !flags.given(name)).collect();
        let sections = [&server].into_iter().chain(&listeners).chain(&certificates);
        self.refuse_without_effect(&low.without(&of_listeners), sections, path);
        self.refuse_replaced(&listeners, flags, path);
        if content == ServedContent::StoreOnly && listeners.iter().any(leads_to_store) {
            self.refuse_flags_of_sites(flags, path);
        }
        let lows: Vec<Low> = listeners.iter().map(|section| listener(section, flags)).collect();
        let lows: Vec<&Low> = [flags].into_iter().chain(&lows).collect();
        match Serve::with_listeners(&low, &lows, content) {
            Ok(mut serve) => {
                let of_file =
                    serve.listen.iter_mut().filter(|listen| !flags.given(listen.kind.row()));
                of_file.for_each(|listen| listen.position = position(listen, &listeners, path));
                self.serve = Some(serve);
            }
            // Otherwise it was reported already, with its line.
            Err(failure) if self.faults.is_empty() => self.fault(path, TextPlace::START, &failure),
            Err(_) => {}
        }
        for section in sites {
            self.site(section, path, flags);
        }
        self.programs(&programs, path);
        self.listeners = listeners;
        self.certificates = certificates;
        self.server = Some(server);
    }

    /// Refuses keys and flags that would be accepted silently.
    fn refuse_without_effect<'s>(
        &mut self,
        low: &Low,
        mut sections: impl Iterator<Item = &'s TableSection>,
        path: &Path,
    ) {
        let Some((name, why)) = without_effect(low, named) else { return };
        let section = sections.find(|section| section.is_written(name));
        let place = section.map_or(TextPlace::START, |section| section.place_of(name));
        self.faults.push(ConfigFault::at(path, place, format!("{} {why}", named(name))));
    }

    /// Refuses flags that would replace listeners with access keys: a flag puts its addresses in
    /// the place of those of the file. A client that a listener keeps out must not come in by that,
    /// and the proxies that it trusts must not be shut out.
    fn refuse_replaced(&mut self, listeners: &[TableSection], flags: &Low, path: &Path) {
        for (section, name) in listeners
            .iter()
            .flat_map(|section| ["client-ca", "proxy-protocol"].map(|name| (section, name)))
            .filter(|(section, name)| section.is_written(name) && !flags.given(name))
        {
            let rows = LISTEN_KINDS.into_iter().map(ListenKind::row);
            let flag = rows.filter(|row| section.is_written(row)).find(|row| flags.given(row));
            if let Some(flag) = flag {
                let why = format!("takes the place of this listener; give --{name} beside it");
                let message = format!("{name}: --{flag} {why}");
                self.faults.push(ConfigFault::at(path, section.place_of(name), message));
            }
        }
    }

    /// Refuses flags that have no effect on a server with only a store. Its keys were checked
    /// before.
    fn refuse_flags_of_sites(&mut self, flags: &Low, path: &Path) {
        let given = directives::of(flags.verb).map(|row| row.name).filter(|row| flags.given(row));
        for row in given {
            if let Some(message) = needs_site(row, &format!("--{row}")) {
                self.faults.push(ConfigFault::at(path, TextPlace::START, message));
            }
        }
    }

    fn site(&mut self, section: TableSection, path: &Path, flags: &Low) {
        let site = section.low.values("path").next().map(PathBuf::from);
        let source = match site {
            None => ServedSource::of_proxy(&section.low),
            Some(site) => match served_source::recognise(&site) {
                Ok(source) => Some(source),
                Err(failure) => return self.fault(path, section.place_of("path"), &failure),
            },
        };
        let faults = mount_checks::find(&section, path);
        // Without its servers a mount would be reported once more.
        let has_faults = !faults.is_empty() || mount_checks::have_wrong_servers(&section);
        self.faults.extend(faults);
        // Otherwise it was reported already that the path is missing.
        let Some(source) = source.filter(|_| !has_faults) else { return };
        let low = match &source {
            ServedSource::Folder(_) => flags.over(&section.low),
            ServedSource::Archive(_)
            | ServedSource::Releases(_)
            | ServedSource::Script(_)
            | ServedSource::Upstream(_) => {
                self.refuse_content(&section, &source, path);
                let useless = content_flags();
                let useless: Vec<&str> =
                    useless.filter(|flag| !source.takes_content_flag(flag)).collect();
                flags.without(&useless).over(&section.low)
            }
        };
        let is_written = section.is_written("no-php") && !section.low.given("no-php");
        let wish = php_wish(&section.low).or(is_written.then_some("php = true"));
        let settings = SiteSettings::from_low(&low);
        match settings.and_then(|settings| settings.with_php(&source, wish)) {
            Ok(settings) => {
                self.sites
                    .push(ConfiguredSite { planned: PlannedSite { source, settings }, section });
            }
            Err(failure) => self.fault(path, section.place, &failure),
        }
    }

    fn programs(&mut self, sections: &[TableSection], path: &Path) {
        if sections.is_empty() {
            return;
        }
        let accounts = match Accounts::read() {
            Ok(accounts) => accounts,
            Err(error) => return self.faults.push(ConfigFault::of(path, error.to_string())),
        };
        for section in sections {
            // A key that is missing or wrong was reported already.
            if !["program-name", "program-command"].iter().all(|name| section.low.given(name)) {
                continue;
            }
            match supervised_program(&section.low, &accounts) {
                Ok(program) => {
                    if let Err(ProgramFault { row, message, .. }) = check_program_files(&program) {
                        let fault = ConfigFault::at(path, section.place_of(row), message);
                        self.program_file_faults.push(fault);
                    }
                    self.programs.push(program);
                }
                Err(ProgramFault { row, message, is_privilege }) => {
                    let fault = ConfigFault::at(path, section.place_of(row), message);
                    if is_privilege {
                        self.privilege_faults.push(fault);
                    } else {
                        self.faults.push(fault);
                    }
                }
            }
        }
    }

    /// Refuses keys about a build that is over.
    fn refuse_content(&mut self, section: &TableSection, source: &ServedSource, path: &Path) {
        let is_useless = |flag: &&str| section.is_written(flag) && !source.takes_content_flag(flag);
        for flag in content_flags().filter(is_useless) {
            let row = directives::all().find(|row| row.name == flag);
            let key = row.and_then(|row| row.file).map_or(flag, |key| key.name);
            let why = match source {
                ServedSource::Upstream(_) => "a site without files; add the path of a folder",
                ServedSource::Script(_) => "a script, which has no files",
                _ => "an archive, which is built already; give it to `pinion build`",
            };
            let message = format!("{key}: has no effect on {why}");
            self.faults.push(ConfigFault::at(path, section.place_of(flag), message));
        }
    }

    fn fault(&mut self, path: &Path, place: TextPlace, failure: &Failure) {
        let message = failure.reason().unwrap_or_default();
        self.faults.push(ConfigFault::at(path, place, message));
    }
}

/// Adds the certificates, each with its key, so that the two stay together.
fn add_certificates(low: &mut Low, certificates: &[TableSection]) {
    for section in certificates {
        let Some(cert) = section.low.values("cert").next() else { continue };
        let key = section.low.values("key").next().unwrap_or(cert);
        low.push("cert", cert.to_owned());
        low.push("key", key.to_owned());
    }
}

/// Returns a listener as flags leave it: flags for addresses of a kind replace all of that kind,
/// every other one stands above the listener's own key.
fn listener(section: &TableSection, flags: &Low) -> Low {
    let addresses = LISTEN_KINDS.map(ListenKind::row);
    let hidden: Vec<&str> = addresses.into_iter().filter(|row| flags.given(row)).collect();
    flags.without(&addresses).over(&section.low.without(&hidden))
}

/// Returns the file, line and column of the address of a listener, if it is written in the file.
fn position(listen: &Listen, listeners: &[TableSection], path: &Path) -> Option<String> {
    let mut addresses = listeners.iter().filter_map(table_conflicts::address_of);
    let is_match = |(key, address, _): &(&str, Address, TextPlace)| {
        *key == listen.kind.key() && *address == listen.address
    };
    let (_, _, TextPlace { line, column }) = addresses.find(is_match)?;
    Some(format!("{}:{line}:{column}", path.display()))
}

/// Returns a row as a file has it: `[[listen]] tls`.
fn named(name: &'static str) -> String {
    let key = directives::all().find(|row| row.name == name).and_then(|row| row.file);
    key.map_or_else(|| format!("--{name}"), |key| format!("{} {}", key.table.header(), key.name))
}

/// Reads the text of a file.
fn read_text(path: &Path) -> Result<String, Vec<ConfigFault>> {
    let wrong = |message: String| vec![ConfigFault::of(path, message)];
    let bytes = regular_file::read(path, CONFIG_MAX_MIB).map_err(wrong)?;
    String::from_utf8(bytes).map_err(|error| {
        let sound = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(error.as_bytes().get(..sound).unwrap_or_default());
        vec![ConfigFault::at(path, TextPlace::of(&before, sound), "is not UTF-8 from here on")]
    })
}
