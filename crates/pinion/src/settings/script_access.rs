//! The access of the Lua scripts of a site to things outside of it: other servers, and secrets.

use super::{read, row};
use crate::directive_value_parsers::{self, script_resource_values};
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::regular_file;
use crate::server::program_table::ProgramTable;
use pinion_client::address_policy::{AddressPolicy, PrivateAddresses};
use pinion_client::certificate_pin::CertificatePin;
use pinion_client::client_tls::{ServerAuthorities, ServerTrust};
use pinion_client::ip_network::IpNetwork;
use pinion_lua::fetch_client::FetchSettings;
use pinion_lua::secrets::Secrets;
use pinion_lua::shared_site_state::ScriptSite;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Most of a file with certificates: all roots of a system have a quarter of that.
const AUTHORITIES_MAX_MIB: u64 = 1;

/// Most of a file with a secret.
const SECRET_MAX_MIB: u64 = 1;

/// Which servers the scripts of a site may connect to, and which secrets they get.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScriptAccess {
    private: PrivateAddresses,
    networks: Vec<IpNetwork>,
    sockets: Vec<PathBuf>,
    authorities: Option<PathBuf>,
    pins: Vec<CertificatePin>,
    secrets: Vec<SecretFile>,
    programs: Vec<ProgramFile>,
}

/// A secret and the file that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretFile {
    /// Its name in scripts.
    pub(crate) name: String,
    /// Its path.
    pub(crate) path: PathBuf,
}

/// A program that scripts may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramFile {
    /// Its name in scripts.
    pub(crate) name: String,
    /// Its path: an absolute path.
    pub(crate) path: PathBuf,
}

impl ScriptAccess {
    /// Reads the settings of a site.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the flag and its bounds.
    pub(crate) fn from_low(low: &Low, private: PrivateAddresses) -> Result<Self, Failure> {
        let all = |name: &'static str| low.values(name);
        let mut access = Self { private, ..Self::default() };
        for text in all("fetch-network") {
            access.networks.push(read(
                row("fetch-network"),
                text,
                directive_value_parsers::ip_network,
            )?);
        }
        for text in all("fetch-pin") {
            access.pins.push(read(
                row("fetch-pin"),
                text,
                directive_value_parsers::certificate_pin,
            )?);
        }
        access.sockets = paths(low, "fetch-socket")?;
        access.authorities = paths(low, "fetch-ca")?.pop();
        if access.authorities.is_some() && !access.pins.is_empty() {
            return Err(Failure::usage(
                "--fetch-ca has no effect with --fetch-pin; leave out one of them".to_owned(),
            ));
        }
        for text in all("secret") {
            let secret = read(row("secret"), text, script_resource_values::secret)?;
            if access.secrets.iter().any(|other| other.name == secret.name) {
                let name = secret.name;
                return Err(Failure::usage(format!("--secret: {name:?} is given twice")));
            }
            access.secrets.push(secret);
        }
        for text in all("lua-program") {
            let program = read(row("lua-program"), text, script_resource_values::lua_program)?;
            if access.programs.iter().any(|other| other.name == program.name) {
                let name = program.name;
                return Err(Failure::usage(format!("--lua-program: {name:?} is given twice")));
            }
            access.programs.push(program);
        }
        Ok(access)
    }

    /// Returns the secrets and their files, in the order in which they are given.
    pub(crate) fn secrets(&self) -> &[SecretFile] {
        &self.secrets
    }

    /// Returns the programs, in the order in which they are given.
    pub(crate) fn programs(&self) -> &[ProgramFile] {
        &self.programs
    }

    /// Reads the files, and returns the site with their contents, and with programs of the table.
    ///
    /// # Errors
    /// [`Failure::Usage`]: one line with the file that cannot be read.
    pub(crate) fn give_to(
        &self,
        site: &ScriptSite,
        table: &ProgramTable,
    ) -> Result<ScriptSite, Failure> {
        let policy = AddressPolicy::new(
            self.private,
            self.networks.iter().copied(),
            self.sockets.iter().cloned(),
        );
        let secrets = self.secrets.iter().map(|secret| Ok((secret.name.clone(), secret.read()?)));
        let secrets = secrets.collect::<Result<Secrets, Failure>>()?;
        let site = site.with_access(FetchSettings::new(policy, self.trust()?), secrets);
        Ok(site.with_programs(table.programs(&self.programs)?))
    }

    /// Returns which servers are trusted.
    ///
    /// # Errors
    /// [`Failure::Usage`]: the file of authorities and its fault.
    pub(crate) fn trust(&self) -> Result<ServerTrust, Failure> {
        let Some(path) = &self.authorities else {
            return Ok(if self.pins.is_empty() {
                ServerTrust::SystemRoots
            } else {
                ServerTrust::Pins(self.pins.clone())
            });
        };
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::usage(format!("--fetch-ca: {} {why}", path.display()))
        };
        let text = regular_file::read(path, AUTHORITIES_MAX_MIB).map_err(|why| wrong(&why))?;
        let authorities = ServerAuthorities::from_pem(&text).map_err(|error| wrong(&error))?;
        Ok(ServerTrust::Authorities(authorities))
    }
}

/// Returns the paths of a flag.
///
/// # Errors
/// [`Failure::Usage`]: one is empty.
fn paths(low: &Low, name: &'static str) -> Result<Vec<PathBuf>, Failure> {
    let path = |text: &OsStr| {
        if text.is_empty() {
            Err(Failure::usage(format!("--{name}: the path is empty; give one")))
        } else {
            Ok(PathBuf::from(text))
        }
    };
    low.values(name).map(path).collect()
}

impl SecretFile {
    /// Reads it, without the end of its last line.
    ///
    /// # Errors
    /// [`Failure::Usage`]: the file and its fault.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Failure> {
        let wrong = |why: &str| {
            let (name, path) = (&self.name, self.path.display());
            Failure::usage(format!("--secret {name}: {path} {why}"))
        };
        let mut bytes =
            regular_file::read(&self.path, SECRET_MAX_MIB).map_err(|why| wrong(&why))?;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            bytes.pop_if(|byte| *byte == b'\r');
        }
        if bytes.is_empty() {
            return Err(wrong("is empty; write the secret into it"));
        }
        Ok(bytes)
    }
}
