//! Addresses become listening sockets, before any thread starts.

use super::passed_sockets::PassedSockets;
use super::socket_files::SocketFiles;
use crate::failure::{Failure, without_number};
use crate::listen_address::{self, Address, Overlap};
use crate::settings::{Listen, ListenKind};
use anyhow::anyhow;
use pinion_engine::listener::{
    PassedSocket, bind_tcp, bind_udp, bind_unix, local_address, prepare_passed_tcp,
    prepare_passed_udp,
};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The socket.
    pub(crate) socket: OwnedFd,
    /// The URL for clients, with the port that the kernel chose if it was asked to.
    pub(crate) url: String,
    /// The settings of the listener.
    pub(crate) listen: Listen,
}

/// The prefix of the name of a Unix socket.
const UNIX: &str = "unix:";

/// A socket, and the part of its URL after the scheme; for a Unix socket all of it.
type Socket = (OwnedFd, String);

/// Checks the addresses as far as possible before anything is bound.
///
/// # Errors
/// [`Failure::Usage`] for an address that is given twice.
pub(crate) fn check(listeners: &[Listen]) -> Result<(), Failure> {
    overlapping(listeners).map_or(Ok(()), Err)
}

/// Binds addresses that [`check`] finds no fault with, or takes their sockets out of `passed`. The
/// files of Unix sockets that are bound here are added to `files`.
///
/// # Errors
/// [`Failure::Failed`] that names the obstacle, and [`Failure::Usage`] if no socket was passed that
/// a listener can use.
pub(crate) fn bind_all(
    listeners: &[Listen],
    files: &SocketFiles,
    passed: &mut PassedSockets,
) -> Result<Vec<Bound>, Failure> {
    let mut bound = Vec::new();
    for listen in listeners.iter().filter(|listen| listen.kind != ListenKind::Quic) {
        for (socket, authority) in bind(listen, files, passed)? {
            let url = match listen.kind {
                _ if authority.starts_with(UNIX) => authority,
                ListenKind::Tls | ListenKind::Quic => format!("https://{authority}/"),
                ListenKind::Http | ListenKind::Redirect => format!("http://{authority}/"),
                ListenKind::Store => format!("redis://{authority}/"),
                ListenKind::StoreTls => format!("rediss://{authority}/"),
            };
            bound.push(Bound { socket, url, listen: listen.clone() });
        }
    }
    Ok(bound)
}

/// Returns the failure of two listeners of which only one can listen, with the names of both.
fn overlapping(listeners: &[Listen]) -> Option<Failure> {
    let is_udp = |kind| kind == ListenKind::Quic;
    let addresses = listeners.iter().map(|listen| (&listen.address, is_udp(listen.kind)));
    let Overlap { earlier, later, conflict } =
        listen_address::overlaps(addresses).into_iter().next()?;
    let (earlier, later) = (listeners.get(earlier)?, listeners.get(later)?);
    let named = |listen: &Listen| format!("{} {}", listen.origin(), listen.address);
    let (first, second) = (named(earlier), named(later));
    Some(Failure::usage(if first == second {
        format!("{second} is given twice; give it once")
    } else {
        format!("{first} and {second} {conflict}")
    }))
}

/// A listening address of QUIC.
#[derive(Debug)]
pub(crate) struct BoundQuic {
    /// The sockets: one for each worker, or those that were passed.
    pub(crate) sockets: Vec<OwnedFd>,
    /// The URL for clients, and its protocol.
    pub(crate) url: String,
    /// The settings of the listener.
    pub(crate) listen: Listen,
}

/// Binds the addresses of QUIC, or takes their sockets out of `passed`.
///
/// # Errors
/// The errors of [`bind_all`].
pub(crate) fn bind_quic(
    listeners: &[Listen],
    workers: usize,
    passed: &mut PassedSockets,
) -> Result<Vec<BoundQuic>, Failure> {
    let mut bound = Vec::new();
    for listen in listeners.iter().filter(|listen| listen.kind == ListenKind::Quic) {
        let sockets = match &listen.address {
            Address::Inherited(name) => passed_udp(listen, name, workers, passed)?,
            _ => bind_ip(listen, |address| udp(address, workers))?,
        };
        for (sockets, authority) in sockets {
            let url = format!("https://{authority}/ (HTTP/3)");
            bound.push(BoundQuic { sockets, url, listen: listen.clone() });
        }
    }
    Ok(bound)
}

/// Binds one address of TCP; a host name may have several, and so may a name of passed sockets.
fn bind(
    listen: &Listen,
    files: &SocketFiles,
    passed: &mut PassedSockets,
) -> Result<Vec<Socket>, Failure> {
    match &listen.address {
        Address::Inherited(name) => {
            let sockets = passed.take_for(listen, name)?.into_iter();
            Ok(sockets.map(|(socket, kind)| passed_stream(socket, &kind)).collect())
        }
        Address::Unix(path) => {
            let bound = unix(path, files).map_err(|error| cannot_listen(listen, &error))?;
            Ok(vec![bound])
        }
        _ => bind_ip(listen, tcp),
    }
}

/// Binds every address that has a port and is meant by `listen`.
fn bind_ip<S>(
    listen: &Listen,
    bind: impl Fn(SocketAddr) -> io::Result<S>,
) -> Result<Vec<S>, Failure> {
    let bound = match &listen.address {
        Address::Any { port } => bind_any(*port, bind),
        Address::Ip(ip) => bind(*ip),
        Address::Name { host, port } => return bind_name(listen, host, *port, bind),
        // Both have ways of their own, and a Unix socket of QUIC was refused where it was read.
        Address::Unix(_) | Address::Inherited(_) => Err(io::ErrorKind::Unsupported.into()),
    };
    Ok(vec![bound.map_err(|error| cannot_listen(listen, &error))?])
}

/// Prepares a passed socket that listens, as those that are bound here are.
fn passed_stream(socket: OwnedFd, kind: &PassedSocket) -> Socket {
    let authority = match kind {
        PassedSocket::Unix(path) => format!("{UNIX}{}", path.display()),
        PassedSocket::Tcp(address) => {
            prepare_passed_tcp(&socket);
            address.to_string()
        }
        PassedSocket::Udp(_) | PassedSocket::NotListening | PassedSocket::Other => {
            unreachable!("no listener of streams takes {kind:?}")
        }
    };
    (socket, authority)
}

/// Takes the passed UDP sockets of a name: for each of their addresses one listener, with as many
/// sockets as were passed. Each socket is read by one worker, because the kernel delivers all
/// datagrams of a client to the same socket, and its connection must stay with one worker.
fn passed_udp(
    listen: &Listen,
    name: &str,
    workers: usize,
    passed: &mut PassedSockets,
) -> Result<Vec<(Vec<OwnedFd>, String)>, Failure> {
    let mut listeners: Vec<(Vec<OwnedFd>, String)> = Vec::new();
    for (socket, _) in passed.take_for(listen, name)? {
        prepare_passed_udp(&socket).map_err(|error| cannot_listen(listen, &error))?;
        let authority = local_address(&socket).map(|address| address.to_string());
        let authority = authority.unwrap_or_default();
        match listeners.iter_mut().find(|(_, known)| *known == authority) {
            Some((sockets, _)) => sockets.push(socket),
            None => listeners.push((vec![socket], authority)),
        }
    }
    let most = listeners.iter().map(|(sockets, _)| sockets.len()).max().unwrap_or_default();
    if most > workers {
        return Err(Failure::usage(format!(
            "{} {}: the service manager has passed {most} UDP sockets for one address, but there \
             can be only one for each worker, so at most {workers}; pass fewer or raise --workers",
            listen.origin(),
            listen.address,
        )));
    }
    Ok(listeners)
}

/// Binds every address of the machine: one IPv6 socket that takes IPv4 too, or IPv4 alone where the
/// kernel has no IPv6.
fn bind_any<S>(port: u16, bind: impl Fn(SocketAddr) -> io::Result<S>) -> io::Result<S> {
    match bind((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(error) if no_such_family(&error) => bind((Ipv4Addr::UNSPECIFIED, port).into()),
        bound => bound,
    }
}

/// Binds every address the name has here. Addresses that this machine lacks (`localhost` is often
/// both 127.0.0.1 and ::1 without IPv6) are left out as long as one remains.
fn bind_name<S>(
    listen: &Listen,
    host: &str,
    port: u16,
    bind: impl Fn(SocketAddr) -> io::Result<S>,
) -> Result<Vec<S>, Failure> {
    let (origin, address) = (listen.origin(), &listen.address);
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| anyhow!("{origin} {address}: no such host: {error}"))?;
    let mut bound = Vec::new();
    let mut missing = None;
    let mut seen = Vec::new();
    for ip in found {
        if seen.contains(&ip) {
            continue;
        }
        seen.push(ip);
        match bind(ip) {
            Ok(socket) => bound.push(socket),
            Err(error) if no_such_family(&error) => missing = Some(error),
            Err(error) => return Err(cannot_listen(listen, &error)),
        }
    }
    match missing {
        _ if !bound.is_empty() => Ok(bound),
        Some(error) => Err(cannot_listen(listen, &error)),
        None => Err(anyhow!("{origin} {address}: the host has no address").into()),
    }
}

fn tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = bind_tcp(address)?;
    let authority = local_address(&socket).unwrap_or(address).to_string();
    Ok((socket, authority))
}

/// Makes one socket for each worker.
fn udp(address: SocketAddr, workers: usize) -> io::Result<(Vec<OwnedFd>, String)> {
    let sockets = bind_udp(address, workers)?;
    let authority = sockets.first().and_then(local_address).unwrap_or(address).to_string();
    Ok((sockets, authority))
}

fn unix(path: &Path, files: &SocketFiles) -> io::Result<Socket> {
    let socket = bind_unix(path)?;
    files.add(path)?;
    Ok((socket, format!("{UNIX}{}", path.display())))
}

fn no_such_family(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

fn cannot_listen(listen: &Listen, error: &io::Error) -> Failure {
    let Listen { address, kind, position, .. } = listen;
    let (before, place) = match position {
        Some(_) => (format!("{}: ", listen.origin()), "in this line".to_owned()),
        None => (String::new(), format!("with {}", listen.origin())),
    };
    let why = match (error.kind(), address.port()) {
        (io::ErrorKind::AddrInUse, port) => match file_in_the_way(address) {
            Some(file) => {
                format!("{file} has this name; remove it or choose another path {place}")
            }
            None => {
                let shows = listing_command(*kind, port);
                format!(
                    "another program listens there already, `{shows}` shows which one; stop it \
                     or choose another address {place}"
                )
            }
        },
        (io::ErrorKind::AddrNotAvailable, _) => {
            format!("this machine has no such address; `ip address` lists them, choose one {place}")
        }
        (io::ErrorKind::PermissionDenied, None) => {
            format!("the folder of the socket cannot be written; choose another path {place}")
        }
        (io::ErrorKind::PermissionDenied, Some(_)) => format!(
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE; give it with \
             AmbientCapabilities=CAP_NET_BIND_SERVICE in a systemd unit, or with `sudo setcap \
             cap_net_bind_service=+ep {}`, or choose a port from 1024 {place}",
            program()
        ),
        (io::ErrorKind::NotFound, _) => {
            format!(
                "the folder of the socket does not exist; create it or choose another path {place}"
            )
        }
        _ => without_number(&error.to_string()),
    };
    anyhow!("{before}cannot listen on {address}: {why}").into()
}

/// Returns the command that shows which program listens at an address.
fn listing_command(kind: ListenKind, port: Option<u16>) -> String {
    match (kind, port) {
        (_, None) => "ss -lxp".to_owned(),
        (ListenKind::Quic, Some(port)) => format!("ss -lunp 'sport = :{port}'"),
        (_, Some(port)) => format!("ss -ltnp 'sport = :{port}'"),
    }
}

/// Returns the path of this program, for a command that changes its file.
fn program() -> String {
    let path = std::env::current_exe();
    path.map_or_else(|_| "pinion".to_owned(), |path| path.display().to_string())
}

/// Returns the kind of a file that has the name of a Unix socket and is none. A link counts as a
/// link, with any target.
fn file_in_the_way(address: &Address) -> Option<&'static str> {
    let Address::Unix(path) = address else { return None };
    let kind = path.symlink_metadata().ok()?.file_type();
    match kind {
        _ if kind.is_socket() => None,
        _ if kind.is_symlink() => Some("a symbolic link"),
        _ if kind.is_dir() => Some("a folder"),
        _ if kind.is_file() => Some("a regular file"),
        _ if kind.is_fifo() => Some("a named pipe"),
        _ => Some("a device"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::TcpStream;

    fn http(text: &str) -> Listen {
        Listen { address: Address::parse(text).expect("an address"), ..Listen::UNCONFIGURED }
    }

    /// Returns the URLs of a QUIC listener, or the reason why there is none.
    fn quic(text: &str) -> Result<Vec<String>, String> {
        let listen = Listen { kind: ListenKind::Quic, ..http(text) };
        match bind_quic(&[listen], 2, &mut PassedSockets::default()) {
            Ok(bound) => Ok(bound.into_iter().map(|bound| bound.url).collect()),
            Err(Failure::Failed(error)) => Err(error.to_string()),
            Err(other) => panic!("{text}: {other:?}"),
        }
    }

    fn bound(text: &str) -> Result<Vec<Bound>, Failure> {
        bind_all(&[http(text)], &SocketFiles::default(), &mut PassedSockets::default())
    }

    fn refusal(text: &str) -> String {
        match bound(text) {
            Err(Failure::Failed(error)) => error.to_string(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_url_has_the_port_that_the_kernel_chose() {
        let bound = bound("127.0.0.1:0").expect("bound");
        let url = bound[0].url.strip_prefix("http://").and_then(|url| url.strip_suffix('/'));
        let address: SocketAddr = url.expect("a URL").parse().expect("an address");
        assert_ne!(address.port(), 0);
        assert!(TcpStream::connect(address).is_ok(), "the kernel takes connections already");
    }

    #[test]
    fn a_port_alone_also_listens_on_ipv4() {
        let bound = bound("0").expect("bound");
        let port = local_address(&bound[0].socket).expect("an address").port();
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    }

    #[test]
    fn a_host_name_listens_on_its_addresses() {
        let bound = bound("localhost:0").expect("bound");
        assert!(bound.iter().all(|bound| bound.url.starts_with("http://")));
        let urls = quic("localhost:0").expect("bound");
        assert!(!urls.is_empty() && urls.iter().all(|url| url.starts_with("https://")));
    }

    #[test]
    fn addresses_of_a_name_that_this_machine_lacks_are_skipped() {
        let lacked = || io::Error::from(ErrorKind::AddrNotAvailable);
        let one = |address: SocketAddr| match address.port() {
            0 => Ok(address),
            _ => Err(lacked()),
        };
        let bound = bind_name(&http("localhost:0"), "localhost", 0, one).expect("bound");
        let mut once = bound.clone();
        once.dedup();
        assert_eq!(bound, once);
        let none = bind_name(&http("localhost:1"), "localhost", 1, one);
        assert!(matches!(none, Err(Failure::Failed(e)) if e.to_string().contains("no such addr")));
    }

    #[test]
    fn an_address_in_use_is_named() {
        let first = bound("127.0.0.1:0").expect("bound");
        let address = local_address(&first[0].socket).expect("an address");
        let message = refusal(&address.to_string());
        assert!(message.contains(&address.to_string()) && message.contains("already"), "{message}");
    }

    #[test]
    fn bind_errors_have_a_reason() {
        assert!(refusal("192.0.2.1:0").contains("this machine has no such address"));
        assert!(refusal("unix:/no/such/folder/x.sock").contains("does not exist"));
        assert!(refusal("no-such-host.invalid:80").contains("no such host"));
        let unknown = quic("no-such-host.invalid:80").expect_err("no such host");
        assert!(unknown.contains("--quic") && unknown.contains("no such host"), "{unknown}");
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        let low = cannot_listen(&http("80"), &denied);
        assert!(matches!(low, Failure::Failed(error) if error.to_string().contains("1024")));
    }

    /// Each kind of error says where the address is written: its flag, or its position in a file.
    #[test]
    fn bind_errors_name_the_flag_or_the_position() {
        let position = Some("a.toml:5:11".to_owned());
        for text in ["127.0.0.1:80", "unix:/a.sock"] {
            let of_flag = http(text);
            let of_file = Listen { position: position.clone(), ..http(text) };
            for kind in [
                ErrorKind::AddrInUse,
                ErrorKind::AddrNotAvailable,
                ErrorKind::PermissionDenied,
                ErrorKind::NotFound,
            ] {
                let message = |listen| match cannot_listen(listen, &kind.into()) {
                    Failure::Failed(error) => error.to_string(),
                    other => panic!("{other:?}"),
                };
                let (flag, file) = (message(&of_flag), message(&of_file));
                assert!(flag.starts_with("cannot listen on "), "{flag}");
                assert!(flag.ends_with(" with --listen"), "{flag}");
                let begin = format!("a.toml:5:11: address: cannot listen on {text}: ");
                assert!(file.starts_with(&begin) && file.ends_with(" in this line"), "{file}");
            }
        }
    }

    #[test]
    fn the_command_that_shows_another_program_names_the_port() {
        for (kind, port, expected) in [
            (ListenKind::Http, Some(8080), "ss -ltnp 'sport = :8080'"),
            (ListenKind::Redirect, Some(80), "ss -ltnp 'sport = :80'"),
            (ListenKind::Tls, Some(443), "ss -ltnp 'sport = :443'"),
            (ListenKind::Quic, Some(443), "ss -lunp 'sport = :443'"),
            (ListenKind::Http, None, "ss -lxp"),
        ] {
            assert_eq!(listing_command(kind, port), expected);
        }
    }

    #[test]
    fn the_file_of_a_dead_socket_is_replaced() {
        let path = std::env::temp_dir().join(format!("pinion-{}.sock", std::process::id()));
        let text = format!("unix:{}", path.display());
        let first = bind_unix(&path).expect("bound");
        assert!(refusal(&text).contains("already"));
        drop(first);
        assert!(path.exists() && bound(&text).is_ok());
        assert!(!path.exists(), "it goes with the list of files");
    }

    #[test]
    fn an_address_is_bound_once() {
        for text in ["unix:/no/such/folder/x.sock", "[::1]:1", "localhost:1", ":1"] {
            match check(&[text, text].map(http)) {
                Err(Failure::Usage(message)) => {
                    assert_eq!(message, format!("--listen {text} is given twice; give it once"));
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let any_port = ["127.0.0.1:0", "127.0.0.1:0"].map(http);
        assert!(check(&any_port).is_ok());
        let passed = &mut PassedSockets::default();
        let bound = bind_all(&any_port, &SocketFiles::default(), passed).expect("two ports");
        assert_eq!(bound.len(), 2);
    }
}
