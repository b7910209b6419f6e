//! Sockets that a service manager has bound and passed to this process (sd_listen_fds(3)). The
//! address `fd:NAME` takes those with this name, and `fd:N` the descriptor with this number.

use crate::failure::Failure;
use crate::listen_address::Address;
use crate::settings::{Listen, ListenKind};
use crate::warnings_and_notes;
use pinion_engine::listener::PassedSocket;
use pinion_engine::service_manager::{FIRST_DESCRIPTOR, take_descriptors};
use std::ffi::OsString;
use std::os::fd::{OwnedFd, RawFd};
use std::process;

/// The name of a socket for which the manager gives none (sd_listen_fds_with_names(3)).
const UNNAMED: &str = "unknown";

/// The sockets that no listener has taken yet.
#[derive(Debug, Default)]
pub(crate) struct PassedSockets {
    sockets: Vec<Passed>,
    /// The reason why there are none.
    missing: Option<String>,
}

#[derive(Debug)]
struct Passed {
    number: RawFd,
    name: String,
    socket: OwnedFd,
    kind: PassedSocket,
}

impl PassedSockets {
    /// Takes the sockets that the variables speak of: `LISTEN_PID`, `LISTEN_FDS` and
    /// `LISTEN_FDNAMES`. A fault in them matters only to a server that wants a socket.
    pub(crate) fn take([pid, count, names]: [Option<OsString>; 3]) -> Self {
        match count_for(process::id(), pid, count) {
            Ok(count) => Self::named(take_descriptors(count), names),
            Err(why) => Self { missing: Some(why), ..Self::default() },
        }
    }

    fn named(descriptors: Vec<(RawFd, OwnedFd)>, names: Option<OsString>) -> Self {
        let names = names.unwrap_or_default();
        let names = names.to_string_lossy();
        let names: Vec<&str> = names.split(':').collect();
        let passed = |(number, socket): (RawFd, OwnedFd)| {
            let at = usize::try_from(number - FIRST_DESCRIPTOR).unwrap_or_default();
            let name = names.get(at).filter(|name| !name.is_empty());
            let kind = PassedSocket::of(&socket);
            Passed { number, name: name.map_or(UNNAMED, |name| *name).to_owned(), socket, kind }
        };
        Self { sockets: descriptors.into_iter().map(passed).collect(), missing: None }
    }

    /// Takes the sockets for a listener with the address `fd:name`: those of UDP for HTTP/3, and
    /// those that listen for all others.
    ///
    /// # Errors
    /// [`Failure::Usage`]: there is no such socket, or none that the listener can use.
    pub(crate) fn take_for(
        &mut self,
        listen: &Listen,
        name: &str,
    ) -> Result<Vec<(OwnedFd, PassedSocket)>, Failure> {
        let wrong = |why: String| {
            Failure::usage(format!(
                "{} {}: {why}",
                listen.origin(),
                Address::Inherited(name.into())
            ))
        };
        if let Some(why) = &self.missing {
            return Err(wrong(why.clone()));
        }
        let has_name = self.sockets.iter().any(|passed| passed.name == name);
        let number = name.parse::<RawFd>().ok().filter(|_| !has_name);
        let is_named = |passed: &Passed| match number {
            Some(number) => passed.number == number,
            None => passed.name == name,
        };
        let is_meant =
            |passed: &Passed| is_named(passed) && suits(listen.kind, &passed.kind).is_ok();
        let meant: Vec<Passed> = self.sockets.extract_if(.., |passed| is_meant(passed)).collect();
        if meant.is_empty() {
            let unsuitable = self.sockets.iter().find(|passed| is_named(passed));
            let why = unsuitable.and_then(|passed| suits(listen.kind, &passed.kind).err());
            return Err(wrong(why.map_or_else(|| self.unknown(), str::to_owned)));
        }
        Ok(meant.into_iter().map(|passed| (passed.socket, passed.kind)).collect())
    }

    /// Returns why there is no socket of a name.
    fn unknown(&self) -> String {
        let all: Vec<String> = self.sockets.iter().map(Passed::to_string).collect();
        let which = match all.len() {
            0 => "no other listener has left one".to_owned(),
            _ => format!("there are {}", all.join(", ")),
        };
        format!(
            "the service manager has passed no socket with this name; {which} (FileDescriptorName= \
             in the socket unit names them)"
        )
    }

    /// Warns of sockets that no listener has taken, and closes them. Their clients would wait.
    pub(crate) fn report_unused(self) {
        for passed in self.sockets {
            warnings_and_notes::warning(format_args!(
                "the service manager has passed the socket {passed}, which no listener uses; its \
                 clients get no response"
            ));
        }
    }
}

/// The name, and in parentheses the number.
impl std::fmt::Display for Passed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "fd:{} (fd:{})", self.name, self.number)
    }
}

/// Checks that a socket can be one of a listener of a kind; the error is the reason why not.
fn suits(kind: ListenKind, socket: &PassedSocket) -> Result<(), &'static str> {
    match (kind == ListenKind::Quic, socket) {
        (true, PassedSocket::Udp(_)) | (false, PassedSocket::Tcp(_) | PassedSocket::Unix(_)) => {
            Ok(())
        }
        (true, _) => Err("HTTP/3 needs a UDP socket (ListenDatagram= in the socket unit)"),
        (false, PassedSocket::NotListening) => {
            Err("this socket does not listen; the socket unit needs Accept=no")
        }
        (false, _) => {
            Err("this is neither a TCP socket nor a Unix stream socket (ListenStream= in \
                           the socket unit)")
        }
    }
}

/// Returns how many sockets were passed to the process with the number `own`.
///
/// # Errors
/// The reason why there are none.
fn count_for(own: u32, pid: Option<OsString>, count: Option<OsString>) -> Result<u16, String> {
    let (Some(pid), Some(count)) = (pid, count) else {
        return Err(
            "there is no socket from a service manager (LISTEN_PID and LISTEN_FDS are not \
                    set); start the server by a socket unit or give an address to bind, like 8080"
                .to_owned(),
        );
    };
    let (pid, count) = (pid.to_string_lossy(), count.to_string_lossy());
    if pid.parse() != Ok(own) {
        return Err(format!(
            "the sockets are for the process {pid} (LISTEN_PID), and this is {own}; start the \
             server with exec"
        ));
    }
    match count.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!("LISTEN_FDS={count} is not a number of sockets")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Listen;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::{UnixDatagram, UnixListener};

    fn listen(kind: ListenKind) -> Listen {
        Listen { kind, ..Listen::UNCONFIGURED }
    }

    fn sockets(sockets: Vec<OwnedFd>, names: &str) -> PassedSockets {
        PassedSockets::named((FIRST_DESCRIPTOR..).zip(sockets).collect(), Some(names.into()))
    }

    fn tcp() -> OwnedFd {
        TcpListener::bind("127.0.0.1:0").expect("bound").into()
    }

    fn udp() -> OwnedFd {
        UdpSocket::bind("127.0.0.1:0").expect("bound").into()
    }

    #[track_caller]
    fn refusal(passed: &mut PassedSockets, kind: ListenKind, name: &str) -> String {
        match passed.take_for(&listen(kind), name) {
            Err(Failure::Usage(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_listener_takes_the_sockets_of_a_name_that_it_can_use() {
        let mut passed = sockets(vec![tcp(), udp(), tcp(), tcp()], "web:web:web:other");
        let taken = passed.take_for(&listen(ListenKind::Tls), "web").expect("two of TCP");
        assert!(matches!(taken[..], [(_, PassedSocket::Tcp(_)), (_, PassedSocket::Tcp(_))]));
        let taken = passed.take_for(&listen(ListenKind::Quic), "web").expect("one of UDP");
        assert!(matches!(taken[..], [(_, PassedSocket::Udp(_))]));
        let message = refusal(&mut passed, ListenKind::Http, "web");
        assert!(message.contains("there are fd:other (fd:6)"), "{message}");
        assert!(passed.take_for(&listen(ListenKind::Http), "other").is_ok());
        let message = refusal(&mut passed, ListenKind::Http, "other");
        assert!(message.contains("no other listener has left one"), "{message}");
    }

    #[test]
    fn a_number_is_that_of_a_descriptor_unless_it_is_a_name() {
        let mut passed = sockets(vec![tcp(), tcp(), tcp()], "5:a:b");
        let number = |passed: &PassedSockets| {
            passed.sockets.iter().map(|passed| passed.number).collect::<Vec<_>>()
        };
        passed.take_for(&listen(ListenKind::Http), "5").expect("the name");
        assert_eq!(number(&passed), [4, 5]);
        passed.take_for(&listen(ListenKind::Http), "5").expect("the number");
        assert_eq!(number(&passed), [4]);
        refusal(&mut passed, ListenKind::Http, "3");
    }

    #[test]
    fn sockets_without_a_name_are_unknown() {
        let mut passed = sockets(vec![tcp(), tcp()], "");
        let taken = passed.take_for(&listen(ListenKind::Http), UNNAMED).expect("both");
        assert_eq!(taken.len(), 2);
    }

    #[test]
    fn a_socket_of_the_wrong_kind_is_refused() {
        let connection = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
            TcpStream::connect(listener.local_addr().expect("an address")).expect("connected")
        };
        let unix_datagram = || UnixDatagram::unbound().expect("a socket");
        let file = || std::fs::File::open("/dev/null").expect("opened");
        for (socket, kind, why) in [
            (udp(), ListenKind::Http, "neither a TCP socket nor"),
            (tcp(), ListenKind::Quic, "needs a UDP socket"),
            (connection().into(), ListenKind::Tls, "does not listen"),
            (unix_datagram().into(), ListenKind::Quic, "needs a UDP socket"),
            (unix_datagram().into(), ListenKind::Redirect, "neither a TCP socket nor"),
            (file().into(), ListenKind::Http, "neither a TCP socket nor"),
        ] {
            let mut passed = sockets(vec![socket], "web");
            let message = refusal(&mut passed, kind, "web");
            assert!(message.starts_with(&format!("--{} fd:web: ", kind.row())), "{message}");
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn unix_sockets_have_their_path() {
        let path = std::env::temp_dir().join(format!("pinion-passed-{}.sock", process::id()));
        let socket = UnixListener::bind(&path).expect("bound");
        std::fs::remove_file(&path).expect("removed");
        let mut passed = sockets(vec![socket.into()], "web");
        let taken = passed.take_for(&listen(ListenKind::Http), "web").expect("taken");
        assert_eq!(taken[0].1, PassedSocket::Unix(path));
    }

    #[test]
    fn variables_are_for_one_process() {
        let count = |pid: Option<&str>, count: Option<&str>| {
            count_for(7, pid.map(Into::into), count.map(Into::into))
        };
        assert_eq!(count(Some("7"), Some("2")), Ok(2));
        for (pid, fds, why) in [
            (None, None, "are not set"),
            (Some("7"), None, "are not set"),
            (None, Some("1"), "are not set"),
            (Some("8"), Some("1"), "for the process 8 (LISTEN_PID), and this is 7"),
            (Some(""), Some("1"), "for the process  (LISTEN_PID)"),
            (Some("7"), Some("0"), "LISTEN_FDS=0 is not"),
            (Some("7"), Some("-1"), "LISTEN_FDS=-1 is not"),
            (Some("7"), Some("4294967296"), "LISTEN_FDS=4294967296 is not"),
            (Some("7"), Some("two"), "LISTEN_FDS=two is not"),
        ] {
            let message = count(pid, fds).expect_err("none");
            assert!(message.contains(why), "{message}");
        }
    }
}
