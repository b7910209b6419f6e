//! The behaviour of the simulated kernel: how often it is slow, short, out of order, or out of a
//! resource.

use rustix::io::Errno;

use super::random::Random;

/// The faults of a simulated kernel. Chances are per mille. The default is a kernel without faults.
#[derive(Debug, Clone)]
pub struct Faults {
    /// A transfer moves fewer bytes than it could, down to one.
    pub short: u32,
    /// A ready event is reported later than it could be.
    pub late: u32,
    /// The maximum delay of such an event, in milliseconds.
    pub late_ms: u64,
    /// An operation is interrupted (EINTR), or reported without reason.
    pub interrupt: u32,
    /// Accepting fails.
    pub accept: u32,
    /// Attaching a socket fails.
    pub attach: u32,
    /// A connection cannot be opened.
    pub connect: u32,
    /// A connection to a Unix socket is open at once, before its server has accepted it.
    pub open_at_once: u32,
    /// A receive or a send breaks the connection, unless it is a protected one.
    pub broken: u32,
    /// A send finds no memory for a moment (ENOBUFS, ENOMEM).
    pub shortage: u32,
    /// A receive that could go on ends and has to be requested again.
    pub disarm: u32,
    /// Buffers that the kernel may fill at once, in the shape of io_uring; 0 stands for many.
    pub buffers: u16,
    /// The maximum number of ready events that one wait brings, as a poller's batch is bounded; 0
    /// stands for all.
    pub batch: u16,
    /// The clock leaps forward when a wait ends.
    pub leap: u32,
    /// The maximum leap, in milliseconds.
    pub leap_ms: u64,
    /// The wall clock is set before a wait, forward or back.
    pub set: u32,
    /// The maximum change of the wall clock, in milliseconds.
    pub set_ms: u64,
    /// A datagram is lost, unless its peer is a protected one.
    pub loss: u32,
    /// A datagram arrives twice.
    pub duplicate: u32,
    /// A bit of a datagram is changed, unless its peer is a protected one.
    pub damage: u32,
    /// A datagram gets the ECN mark of a congested path, if it may be marked.
    pub congested: u32,
    /// A send of datagrams finds no room at the moment.
    pub full: u32,
    /// Milliseconds that a datagram is on its way.
    pub path_ms: u64,
    /// The maximum additional delay of a datagram, in milliseconds, so that others overtake it.
    pub jitter_ms: u64,
    /// Bytes of the longest datagram that is not lost for its length.
    pub path_bytes: usize,
    /// Only the fallible operation with this number fails, counted from 1; the chances of failing
    /// above do not count then.
    pub fail_at: Option<u64>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            short: 0,
            late: 0,
            late_ms: 0,
            interrupt: 0,
            accept: 0,
            attach: 0,
            connect: 0,
            open_at_once: 0,
            broken: 0,
            shortage: 0,
            disarm: 0,
            buffers: 0,
            batch: 0,
            leap: 0,
            leap_ms: 0,
            set: 0,
            set_ms: 0,
            loss: 0,
            duplicate: 0,
            damage: 0,
            congested: 0,
            full: 0,
            path_ms: 0,
            jitter_ms: 0,
            path_bytes: ETHERNET_PAYLOAD_BYTES,
            fail_at: None,
        }
    }
}

/// Bytes of the longest datagram over IPv4 on Ethernet.
const ETHERNET_PAYLOAD_BYTES: usize = 1472;

/// An operation that the kernel may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallible {
    Accept,
    Attach,
    Connect,
    Receive,
    Send,
    /// A datagram on its way, which is lost when this fails.
    Datagram,
}

impl Fallible {
    /// Returns the errors with which it can fail.
    fn errors(self) -> &'static [Errno] {
        match self {
            Self::Accept => &[
                Errno::MFILE,
                Errno::NFILE,
                Errno::NOMEM,
                Errno::NOBUFS,
                Errno::INTR,
                Errno::CONNABORTED,
                Errno::PROTO,
                Errno::HOSTUNREACH,
                Errno::PERM,
            ],
            Self::Attach => &[Errno::NOMEM, Errno::NOSPC],
            Self::Connect => &[Errno::MFILE, Errno::NOMEM, Errno::ADDRNOTAVAIL, Errno::NETUNREACH],
            Self::Receive => &[Errno::CONNRESET, Errno::TIMEDOUT, Errno::HOSTUNREACH],
            Self::Datagram => &[Errno::HOSTUNREACH],
            Self::Send => &[Errno::PIPE, Errno::CONNRESET, Errno::TIMEDOUT],
        }
    }
}

/// Returns whether accepting failed for a reason of the client, which is gone then.
pub(super) fn loses_client(error: Errno) -> bool {
    !matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::INTR)
}

/// The random decision whether operations fail.
#[derive(Debug)]
pub(super) struct Dice {
    pub(super) faults: Faults,
    /// The number of fallible operations so far.
    pub(super) operations: u64,
}

impl Dice {
    /// Returns the error of this operation, if it is to fail.
    pub(super) fn roll(
        &mut self,
        random: &mut Random,
        operation: Fallible,
        protected: bool,
    ) -> Option<Errno> {
        self.operations += 1;
        let fails = match self.faults.fail_at {
            Some(at) => self.operations == at,
            None => {
                let chance = match operation {
                    Fallible::Accept => self.faults.accept,
                    Fallible::Attach => self.faults.attach,
                    Fallible::Connect => self.faults.connect,
                    Fallible::Receive | Fallible::Send => self.faults.broken,
                    Fallible::Datagram => self.faults.loss,
                };
                !protected && random.chance(chance)
            }
        };
        fails.then(|| *random.pick(operation.errors()))
    }
}
