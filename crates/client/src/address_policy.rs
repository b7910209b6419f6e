//! The policy of the addresses that connections may be opened to. A script that fetches a URL of a
//! client must not reach the services of the private network for it (server-side request forgery).
//!
//! The policy decides about addresses, never about names: a name may resolve to another address
//! each time. So the caller checks the address that it connects to, directly before it does so, and
//! again for every redirect.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::address_class::{AddressClass, embedded};
use crate::ip_network::IpNetwork;

/// The key that allows loopback, private, shared and unique local addresses.
pub const ALLOW_PRIVATE_KEY: &str = "fetch-private";
/// The key that lists allowed networks.
pub const ALLOWED_NETWORKS_KEY: &str = "fetch-network";
/// The key that lists allowed Unix sockets.
pub const ALLOWED_SOCKETS_KEY: &str = "fetch-socket";

/// The policy of the addresses that connections may be opened to. The default allows global
/// addresses only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressPolicy {
    private: PrivateAddresses,
    networks: BTreeSet<IpNetwork>,
    sockets: BTreeSet<PathBuf>,
}

/// Whether loopback, private, shared and unique local addresses are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PrivateAddresses {
    /// Only those of listed networks are allowed.
    #[default]
    Refused,
    /// All of them are allowed.
    Allowed,
}

/// The setting that would allow a refused address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// The key for private addresses, or a network.
    AllowPrivate,
    /// A network that has the address.
    AllowNetwork,
    /// A network with this address alone.
    AllowOneAddress,
    /// No setting.
    None,
}

/// A connection that the policy does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("connections to {address} are {}", self.reason())]
pub struct AddressRefused {
    address: IpAddr,
    /// The address itself, or the IPv4 address inside.
    judged: IpAddr,
    class: AddressClass,
    remedy: Remedy,
}

/// A connection to a Unix socket that the policy does not allow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("connections to unix:{} are refused; add the path to {ALLOWED_SOCKETS_KEY}", .0.display())]
pub struct SocketRefused(pub PathBuf);

impl AddressPolicy {
    /// Creates a policy that allows global addresses, private ones as chosen, and those of
    /// `networks`.
    ///
    /// Networks also allow link-local addresses and those of documentation, benchmarks and
    /// protocols. The address of a metadata service is allowed only by a network of this one
    /// address, so a large network does not open it by accident. No network allows unspecified,
    /// multicast, broadcast and reserved addresses.
    #[must_use]
    pub fn new(
        private: PrivateAddresses,
        networks: impl IntoIterator<Item = IpNetwork>,
        sockets: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        Self {
            private,
            networks: networks.into_iter().collect(),
            sockets: sockets.into_iter().collect(),
        }
    }

    /// Checks the address of a connection that is about to be opened.
    ///
    /// An IPv6 address that is translated or sent through a tunnel is judged as the IPv4 address
    /// inside: IPv4-mapped, IPv4-compatible, NAT64, 6to4, Teredo. If several may be inside, all of
    /// them have to be allowed.
    ///
    /// # Errors
    /// Returns the class of the address, if it is not allowed, and the setting that would allow it.
    pub fn check(&self, address: IpAddr) -> Result<(), AddressRefused> {
        let inside = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(address) => embedded(address),
        };
        if inside.is_empty() {
            return self.judge(address, address);
        }
        inside.into_iter().try_for_each(|inner| self.judge(address, inner.into()))
    }

    /// Checks the path of a Unix socket to which a connection is about to be opened. Only listed
    /// paths are allowed, compared byte by byte.
    ///
    /// # Errors
    /// Fails if the path is not listed.
    pub fn check_socket(&self, path: &Path) -> Result<(), SocketRefused> {
        let is_listed = self.sockets.iter().any(|socket| socket.as_os_str() == path.as_os_str());
        if is_listed { Ok(()) } else { Err(SocketRefused(path.to_owned())) }
    }

    fn judge(&self, address: IpAddr, judged: IpAddr) -> Result<(), AddressRefused> {
        let class = AddressClass::of(judged);
        let remedy = match class {
            AddressClass::Global => return Ok(()),
            AddressClass::Loopback
            | AddressClass::Private
            | AddressClass::Shared
            | AddressClass::UniqueLocal => Remedy::AllowPrivate,
            AddressClass::LinkLocal
            | AddressClass::Documentation
            | AddressClass::Benchmarking
            | AddressClass::Protocol => Remedy::AllowNetwork,
            AddressClass::Metadata => Remedy::AllowOneAddress,
            AddressClass::Unspecified
            | AddressClass::Multicast
            | AddressClass::Broadcast
            | AddressClass::Reserved => Remedy::None,
        };
        let is_listed = || self.networks.iter().any(|network| network.contains(judged));
        let is_allowed = match remedy {
            Remedy::AllowPrivate => self.private == PrivateAddresses::Allowed || is_listed(),
            Remedy::AllowNetwork => is_listed(),
            Remedy::AllowOneAddress => self.networks.contains(&IpNetwork::of_address(judged)),
            Remedy::None => false,
        };
        let refused = AddressRefused { address, judged, class, remedy };
        if is_allowed { Ok(()) } else { Err(refused) }
    }
}

impl AddressRefused {
    /// Returns the address of the connection.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the reason why the address is refused and the setting that would allow it, as text
    /// that follows the address.
    #[must_use]
    pub fn reason(&self) -> String {
        let Self { address, judged, class, remedy } = *self;
        format!("refused ({}{class}){}", inner(address, judged), remedy.text(judged))
    }

    /// Returns the class of the address, or of the IPv4 address inside it.
    #[must_use]
    pub fn class(&self) -> AddressClass {
        self.class
    }
}

/// Returns the part of a message that names the address inside another one.
fn inner(address: IpAddr, judged: IpAddr) -> String {
    if address == judged { String::new() } else { format!("IPv4 address {judged} inside: ") }
}

impl Remedy {
    /// Returns the end of the message: the setting.
    fn text(self, judged: IpAddr) -> String {
        match self {
            Self::AllowPrivate => format!(
                "; set {ALLOW_PRIVATE_KEY}, or add a network such as {} to {ALLOWED_NETWORKS_KEY}",
                IpNetwork::of_address(judged)
            ),
            Self::AllowNetwork | Self::AllowOneAddress => {
                let network = IpNetwork::of_address(judged);
                format!("; to allow it, add {network} to {ALLOWED_NETWORKS_KEY}")
            }
            Self::None => "; no setting allows it".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
