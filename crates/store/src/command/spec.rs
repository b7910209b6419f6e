//! The rows of the table of commands: the properties of each command.

use std::ops::BitOr;

use super::call::Call;
use crate::error::Error;
use crate::resp::arguments::Arguments;

/// One command, or one subcommand.
#[derive(Debug)]
pub(crate) struct CommandSpec {
    /// The name of the command in lower case.
    pub(crate) name: &'static str,
    /// The number of arguments, including the name. A negative number is a minimum.
    pub(crate) arity: i32,
    pub(crate) flags: Flags,
    pub(crate) keys: KeyArguments,
    pub(crate) group: CommandGroup,
    /// The first version of Redis that has the command.
    pub(crate) since: &'static str,
    /// One sentence that describes the command.
    pub(crate) summary: &'static str,
    pub(crate) handler: Handler,
}

impl CommandSpec {
    /// Returns whether the command allows so many arguments, including its name.
    pub(crate) fn takes(&self, count: usize) -> bool {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }

    /// Returns the command with other keys.
    pub(crate) const fn with_keys(self, keys: KeyArguments) -> Self {
        Self { keys, ..self }
    }
}

/// The properties that most commands of one file have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandDefaults {
    pub(crate) group: CommandGroup,
    pub(crate) keys: KeyArguments,
}

impl CommandDefaults {
    /// Returns a command, for the table of commands. `arity` is the number of words of a call,
    /// including the name. If it is negative, the number is a minimum.
    pub(crate) const fn command(
        self,
        name: &'static str,
        arity: i32,
        flags: Flags,
        (since, summary): (&'static str, &'static str),
        handler: Handler,
    ) -> CommandSpec {
        let Self { group, keys } = self;
        CommandSpec { name, arity, flags, keys, group, since, summary, handler }
    }
}

/// The handler of a command. It writes the reply itself, unless it returns an error, which becomes
/// the reply.
pub(crate) type Handler = fn(&mut Call<'_, '_>) -> Result<(), Error>;

/// Properties of a command, as `COMMAND INFO` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    /// The command changes data.
    pub(crate) const WRITE: Self = Self(1);
    /// The command reads data.
    pub(crate) const READ_ONLY: Self = Self(1 << 1);
    /// The command may need more memory, so it is refused when the memory limit is reached.
    pub(crate) const DENY_OOM: Self = Self(1 << 2);
    /// The command takes constant or logarithmic time.
    pub(crate) const FAST: Self = Self(1 << 3);
    /// Clients that have not authenticated may use the command.
    pub(crate) const NO_AUTH: Self = Self(1 << 4);
    /// The command is not allowed in a transaction.
    pub(crate) const NO_MULTI: Self = Self(1 << 5);
    /// The command is for operators.
    pub(crate) const ADMIN: Self = Self(1 << 6);
    /// The command runs at once, even while a transaction is being queued.
    pub(crate) const NOT_QUEUED: Self = Self(1 << 7);
    /// The command takes some microseconds if its arguments are small, like the fast commands.
    /// `COMMAND INFO` does not list it as fast.
    pub(crate) const QUICK_IF_SMALL: Self = Self(1 << 8);
    /// The reply may change although the keys have not changed, because it depends on the time or
    /// on random numbers.
    pub(crate) const UNSTABLE: Self = Self(1 << 9);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether the flags include one of several others.
    pub(crate) fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns the union of both flags.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.and(other)
    }
}

/// The arguments of a command that are keys. Their shards are locked before the command runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyArguments {
    None,
    /// Arguments from `first` to `last`, which counts from the end if it is negative, each `step`.
    Range {
        first: usize,
        last: i32,
        step: usize,
    },
    /// The argument at `count` is the number of keys that follow it. One more key may come before
    /// it.
    Counted {
        count: usize,
        also: Option<usize>,
    },
    /// The indices of the keys are found by a function.
    Found(fn(&Arguments<'_>) -> Result<Vec<usize>, Error>),
    /// The indices are found by a function. If another function returns true, the command also uses
    /// keys that are derived from values, so all shards are locked.
    FoundOrAll {
        find: fn(&Arguments<'_>) -> Result<Vec<usize>, Error>,
        needs_all: fn(&Arguments<'_>) -> bool,
    },
    /// The command is about all keys, so all shards are locked.
    All,
}

impl KeyArguments {
    pub(crate) const FIRST: Self = Self::Range { first: 1, last: 1, step: 1 };
    pub(crate) const FIRST_TWO: Self = Self::Range { first: 1, last: 2, step: 1 };
    pub(crate) const REST: Self = Self::Range { first: 1, last: -1, step: 1 };
    pub(crate) const PAIRS: Self = Self::Range { first: 1, last: -1, step: 2 };
}

/// The group of a command in the documentation of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandGroup {
    Bitmap,
    Connection,
    Generic,
    Hash,
    List,
    RateLimit,
    Server,
    Set,
    SortedSet,
    String,
    Transactions,
}

impl CommandGroup {
    /// Returns the name of the group in the documentation.
    #[cfg(test)]
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Bitmap => "Bits of strings",
            Self::Connection => "Connection",
            Self::Generic => "Keys",
            Self::Hash => "Hashes",
            Self::List => "Lists",
            Self::RateLimit => "Rate limits",
            Self::Server => "Server",
            Self::Set => "Sets",
            Self::SortedSet => "Sorted sets",
            Self::String => "Strings",
            Self::Transactions => "Transactions",
        }
    }
}
