//! What the table of commands says about each of them.

use std::ops::BitOr;

use super::call::Call;
use crate::error::Error;
use crate::resp::arguments::Arguments;

/// One command, or one subcommand.
#[derive(Debug)]
pub(crate) struct CommandSpec {
    /// Its name in lower case.
    pub(crate) name: &'static str,
    /// How many arguments it has, with its name; negative if there may be more.
    pub(crate) arity: i32,
    pub(crate) flags: Flags,
    pub(crate) keys: KeyArguments,
    pub(crate) group: CommandGroup,
    /// The version of Redis that has it first.
    pub(crate) since: &'static str,
    /// One sentence that says what it does.
    pub(crate) summary: &'static str,
    pub(crate) handler: Handler,
}

impl CommandSpec {
    /// Returns whether it has so many arguments, with its name.
    pub(crate) fn takes(&self, count: usize) -> bool {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }

    /// Returns the row with other keys.
    pub(crate) const fn with_keys(self, keys: KeyArguments) -> Self {
        Self { keys, ..self }
    }
}

/// What most rows of one file have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) group: CommandGroup,
    pub(crate) keys: KeyArguments,
}

impl Rows {
    /// Returns a row of the table.
    pub(crate) const fn row(
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

/// What a command does. It writes its reply, unless it returns an error, which is the reply then.
pub(crate) type Handler = fn(&mut Call<'_, '_>) -> Result<(), Error>;

/// Properties of a command, as `COMMAND INFO` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    /// It changes data.
    pub(crate) const WRITE: Self = Self(1);
    /// It reads data.
    pub(crate) const READ_ONLY: Self = Self(1 << 1);
    /// It may need more memory, so it is refused when there is none.
    pub(crate) const DENY_OOM: Self = Self(1 << 2);
    /// It takes the same time, or grows with a logarithm.
    pub(crate) const FAST: Self = Self(1 << 3);
    /// Clients that have not authenticated may use it.
    pub(crate) const NO_AUTH: Self = Self(1 << 4);
    /// It is not possible in a transaction.
    pub(crate) const NO_MULTI: Self = Self(1 << 5);
    /// It is for operators.
    pub(crate) const ADMIN: Self = Self(1 << 6);
    /// It runs at once, also in a transaction that is being queued.
    pub(crate) const NOT_QUEUED: Self = Self(1 << 7);
    /// It takes some microseconds if its arguments are small, as those that are fast do.
    pub(crate) const SHORT: Self = Self(1 << 8);
    /// Its reply may be another one although its keys have not changed: it depends on the time or
    /// on chance.
    pub(crate) const UNSTABLE: Self = Self(1 << 9);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether it has one of several flags.
    pub(crate) fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns all flags of both.
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

/// Which arguments of a command are keys. Their shards are locked before it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyArguments {
    None,
    /// Arguments from `first` to `last`, which counts from the end if it is negative, each `step`.
    Range {
        first: usize,
        last: i32,
        step: usize,
    },
    /// The argument at `count` says how many keys follow it; before that there may be one more.
    Counted {
        count: usize,
        also: Option<usize>,
    },
    /// Found by a function, which returns their positions.
    Found(fn(&Arguments<'_>) -> Result<Vec<usize>, Error>),
    /// Found by a function; if another one says so, also keys that follow from values, so all
    /// shards are locked.
    FoundOrAll {
        find: fn(&Arguments<'_>) -> Result<Vec<usize>, Error>,
        needs_all: fn(&Arguments<'_>) -> bool,
    },
    /// It is about all keys, so all shards are locked.
    All,
}

impl KeyArguments {
    pub(crate) const FIRST: Self = Self::Range { first: 1, last: 1, step: 1 };
    pub(crate) const FIRST_TWO: Self = Self::Range { first: 1, last: 2, step: 1 };
    pub(crate) const REST: Self = Self::Range { first: 1, last: -1, step: 1 };
    pub(crate) const PAIRS: Self = Self::Range { first: 1, last: -1, step: 2 };
}

/// Part of the documentation of Redis in which a command stands.
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
    /// Returns the name that the documentation has for it.
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
