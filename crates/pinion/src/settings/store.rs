//! The settings of the store.

use super::{Listen, Low, Serve, ServedContent, choice, number, path};
use crate::failure::Failure;
use crate::listen_address::Address;
use crate::terminal::shown;
use pinion_store::settings::{EvictionPolicy, LiveSettings, Settings};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The settings of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreSettings {
    /// Whether a listener leads to the store, or scripts and pages have one.
    is_there: bool,
    /// The file with the password.
    password: Option<PathBuf>,
    /// `None` is a quarter of the memory.
    memory_bytes: Option<u64>,
    eviction: EvictionPolicy,
    /// The settings as the store has them.
    loaded: Option<Settings>,
}

/// Longest password, in bytes: as long as a client may send before it has authenticated.
const PASSWORD_MAX_BYTES: usize = 512;

/// The store has this part of the memory, unless something else is said: the rest is for the site,
/// scripts and connections.
const MEMORY_DIVISOR: u64 = 4;

impl StoreSettings {
    /// Reads the settings of the store. `listen` are all listeners.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the flag.
    pub(super) fn from_low(low: &Low, listen: &[Listen]) -> Result<Self, Failure> {
        let password = path(low, "store-password")?;
        let is_open = |listen: &&Listen| listen.kind.is_store() && is_remote(&listen.address);
        if let Some(open) = listen.iter().find(is_open).filter(|_| password.is_none()) {
            return Err(Failure::usage(format!(
                "{} {}: other machines can reach this address; give --store-password FILE, or \
                 use 127.0.0.1",
                open.origin(),
                open.address
            )));
        }
        let has_clients = listen.iter().any(|listen| listen.kind.is_store());
        let has_store = has_clients || low.given("store-memory");
        if password.is_some() && !has_clients {
            return Err(Failure::usage(
                "--store-password has no effect without --store or --store-tls",
            ));
        }
        if low.given("store-eviction") && !has_store {
            return Err(Failure::usage(
                "--store-eviction has no effect without --store, --store-tls or --store-memory",
            ));
        }
        let eviction = EvictionPolicy::parse(choice(low, "store-eviction")?.as_bytes());
        Ok(Self {
            is_there: has_store,
            password,
            memory_bytes: number::<u64>(low, "store-memory")?.map(|mebibytes| mebibytes << 20),
            eviction: eviction.unwrap_or_default(),
            loaded: None,
        })
    }

    /// Reads the password, and chooses the limit of a machine that has so much memory, if there is
    /// a store.
    ///
    /// # Errors
    /// The password cannot be read.
    pub(crate) fn load(&mut self, memory_bytes: u64) -> Result<(), Failure> {
        if self.is_there {
            let max_bytes = self.memory_bytes.unwrap_or(memory_bytes / MEMORY_DIVISOR);
            let live = LiveSettings {
                memory_max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
                eviction: self.eviction,
                ..LiveSettings::default()
            };
            let password = self.password.as_deref().map(read_password).transpose()?;
            self.loaded = Some(Settings { password, live, ..Settings::default() });
        }
        Ok(())
    }

    /// Returns whether there is a store.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Returns the settings that were [loaded](Self::load); `None` without a store.
    pub(crate) fn loaded(&self) -> Option<&Settings> {
        self.loaded.as_ref()
    }
}

/// Reads the command line of `pinion store`, whose operands are addresses as those of `--store`.
pub(super) fn store_only(low: &Low) -> Result<Serve, Failure> {
    let mut given = low.without(&[ADDRESS]);
    for address in low.values(ADDRESS) {
        check_address(address)?;
        given.push("store", address.to_owned());
    }
    if !given.given("store") && !given.given("store-tls") {
        given.push("store", ADDRESS_DEFAULT.into());
    }
    Serve::with_listeners(&given, &[&given], ServedContent::StoreOnly)
}

/// The operand of `pinion store`.
const ADDRESS: &str = "ADDRESS";

/// The default address of a store without a site: where clients of Redis look for it, reachable
/// from this machine alone.
const ADDRESS_DEFAULT: &str = "127.0.0.1:6379";

fn check_address(text: &OsStr) -> Result<(), Failure> {
    let shown = shown(text.as_encoded_bytes());
    let parsed = text.to_str().ok_or_else(|| "is not UTF-8".to_owned()).and_then(Address::parse);
    let Err(error) = parsed else { return Ok(()) };
    if Path::new(text).exists() {
        return Err(Failure::usage(format!(
            "{shown} is not an address; to serve a folder or a configuration, write `pinion serve \
             {shown}`"
        )));
    }
    Err(Failure::usage(format!("ADDRESS {shown}: {error}")))
}

/// Returns whether clients on other machines can reach an address.
fn is_remote(address: &Address) -> bool {
    match address {
        Address::Ip(ip) => !ip.ip().is_loopback(),
        Address::Name { host, .. } => host != "localhost",
        // A socket that is passed can be of any kind.
        Address::Any { .. } | Address::Inherited(_) => true,
        Address::Unix(_) => false,
    }
}

fn read_password(path: &Path) -> Result<Box<[u8]>, Failure> {
    let shown = path.display();
    let wrong = |why: String| Failure::usage(format!("--store-password {shown}: {why}"));
    let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.contains(&b'\n') || line.len() > PASSWORD_MAX_BYTES {
        return Err(wrong(format!(
            "the file has to have one line of 1 to {PASSWORD_MAX_BYTES} bytes"
        )));
    }
    Ok(line.into())
}

#[cfg(test)]
mod tests {
    use crate::command_line::{self, ParsedCommand};
    use crate::failure::Failure;
    use crate::settings::{ListenKind, Serve, Settings};
    use std::ffi::OsString;

    fn settings(line: &str) -> Result<Serve, Failure> {
        let arguments = line.split(' ').map(OsString::from);
        let ParsedCommand::Run(low) = command_line::parse(arguments)? else { panic!("{line}") };
        match Settings::from_low(&low)? {
            Settings::Store(serve) => Ok(*serve),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_standalone_store_listens_only_at_its_addresses() {
        let of = |line: &str| {
            let serve = settings(line).expect("right");
            assert!(serve.is_store_only() && serve.store.is_there(), "{line}");
            let listen = serve.listen.iter().map(|one| (one.kind, one.address.to_string()));
            listen.collect::<Vec<_>>()
        };
        let plain = |address: &str| (ListenKind::Store, address.to_owned());
        let tls = |address: &str| (ListenKind::StoreTls, address.to_owned());
        assert_eq!(of("pinion store"), [plain("127.0.0.1:6379")]);
        assert_eq!(of("pinion store unix:/a"), [plain("unix:/a")]);
        assert_eq!(of("pinion store --store-tls [::1]:1"), [tls("[::1]:1")]);
        assert_eq!(
            of("pinion store unix:/a [::1]:2 --store localhost:3 --store-tls unix:/b"),
            [plain("localhost:3"), plain("unix:/a"), plain("[::1]:2"), tls("unix:/b")]
        );
        assert_eq!(of("pinion store :6379 --store-password a"), [plain(":6379")]);
    }

    #[test]
    fn errors_of_a_standalone_store_contain_advice() {
        for (line, hint) in [
            ("pinion store 6379", "other machines can reach this address; give --store-password"),
            ("pinion store a.org", "ADDRESS a.org: "),
            ("pinion store Cargo.toml", "write `pinion serve Cargo.toml`"),
            ("pinion store --store port", "--store: "),
        ] {
            match settings(line) {
                Err(Failure::Usage(message)) => assert!(message.contains(hint), "{message}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
