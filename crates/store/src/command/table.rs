//! The table of all commands, in which a command is found by its name.

use std::sync::LazyLock;

use super::spec::CommandSpec;
use super::work_estimate::WorkEstimate;
use super::{
    bitmaps, client_commands, command_commands, config, connection, databases, dump, expiry,
    function_command, hashes, keys, lists, rate_limit, scan, server, sets, slow_log, sort,
    sorted_sets, strings, transactions,
};

/// The commands of each file.
const PARTS: &[&[CommandSpec]] = &[
    strings::COMMANDS,
    hashes::COMMANDS,
    sets::COMMANDS,
    strings::substrings::COMMANDS,
    strings::common_subsequence::COMMANDS,
    strings::msetex_and_delifeq::COMMANDS,
    bitmaps::COMMANDS,
    lists::COMMANDS,
    sorted_sets::COMMANDS,
    keys::COMMANDS,
    expiry::COMMANDS,
    dump::COMMANDS,
    sort::COMMANDS,
    rate_limit::COMMANDS,
    scan::COMMANDS,
    databases::COMMANDS,
    transactions::COMMANDS,
    connection::COMMANDS,
    client_commands::COMMANDS,
    function_command::COMMANDS,
    command_commands::COMMANDS,
    server::COMMANDS,
    config::COMMANDS,
    slow_log::COMMANDS,
];

/// Slots of the table: a power of two, several times as many as there are commands.
const SLOTS: usize = 2048;

/// The result of a lookup: one command with its kind of work estimate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandRow {
    pub(crate) command: &'static CommandSpec,
    pub(crate) work: WorkEstimate,
}

static TABLE: LazyLock<Vec<Option<(PackedName, CommandRow)>>> = LazyLock::new(|| {
    let mut slots = vec![None; SLOTS];
    for command in all() {
        let name = PackedName::of(command.name.as_bytes()).expect("the name of a command is short");
        let mut slot = name.slot();
        while slots[slot].is_some() {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = Some((name, CommandRow { command, work: WorkEstimate::of(command) }));
    }
    slots
});

/// Returns all commands.
pub(crate) fn all() -> impl Iterator<Item = &'static CommandSpec> {
    PARTS.iter().copied().flatten()
}

/// Returns the command with a name in upper or lower case.
pub(crate) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    find_row(name).map(|row| row.command)
}

/// Returns the row of the command with a name in upper or lower case.
pub(crate) fn find_row(name: &[u8]) -> Option<CommandRow> {
    let name = PackedName::of(name)?;
    let mut slot = name.slot();
    while let Some((found, row)) = TABLE[slot] {
        if found == name {
            return Some(row);
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}

/// A name in lower case: its first eight bytes, the other bytes, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedName(u64, u64, usize);

impl PackedName {
    /// Returns `None` if no command has such a name.
    fn of(name: &[u8]) -> Option<Self> {
        const MAX_BYTES: usize = 16;
        if name.len() > MAX_BYTES {
            return None;
        }
        let Some((first, others)) = name.split_at_checked(8) else {
            return Some(Self(lower_case(pack(name)), 0, name.len()));
        };
        Some(Self(lower_case(pack(first)), lower_case(pack(others)), name.len()))
    }

    /// Returns the slot of the name. A simple hash is enough, because the names are not secret and
    /// the table is fixed.
    fn slot(self) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        ((self.0 ^ self.1.rotate_left(32)).wrapping_mul(ODD) >> 32) as usize % SLOTS
    }
}

/// Packs up to eight bytes into a word. Different texts of the same length have different words.
#[inline]
fn pack(bytes: &[u8]) -> u64 {
    // Two reads of a fixed size, which overlap, instead of one for each byte.
    let (first, last) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>());
    if let (Some(first), Some(last)) = (first, last) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    match *bytes {
        [] => 0,
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, ..] => u64::from(u32::from_le_bytes([a, b, bytes[bytes.len() - 1], 0])),
    }
}

/// Returns eight bytes with the ASCII letters among them in lower case.
fn lower_case(bytes: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH_BITS: u64 = ONES << 7;
    let low = bytes & !HIGH_BITS;
    // The highest bit of each byte shows whether the other seven bits are at least this value.
    let from_a = low + ONES * (0x80 - b'A' as u64);
    let behind_z = low + ONES * (0x7f - b'Z' as u64);
    let is_upper = (from_a ^ behind_z) & !bytes & HIGH_BITS;
    bytes | is_upper >> 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_names_are_equal_exactly_if_the_names_are(
            name in prop::collection::vec(any::<u8>(), 0..18),
            zeros in 0..3_usize,
            bit in 0..18 * 8_usize,
        ) {
            let mut changed = name.clone();
            if let Some(byte) = changed.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            let (lower, upper) = (name.to_ascii_lowercase(), name.to_ascii_uppercase());
            let longer = [&name[..], &vec![0; zeros]].concat();
            let shifted = [&vec![0; zeros], &name[..]].concat();
            for other in [changed, lower, upper, longer, shifted] {
                let names = (PackedName::of(&name), PackedName::of(&other));
                let (Some(packed), Some(other_packed)) = names else { continue };
                prop_assert_eq!(packed == other_packed, name.eq_ignore_ascii_case(&other));
            }
        }

        #[test]
        fn only_names_of_commands_are_found(name in "[a-zA-Z_\\x00-\\x7f]{0,18}") {
            let is_name = all().any(|command| command.name.eq_ignore_ascii_case(&name));
            prop_assert_eq!(find(name.as_bytes()).is_some(), is_name);
        }
    }

    #[test]
    fn each_command_is_found_by_its_name() {
        for command in all() {
            let found = find(command.name.to_uppercase().as_bytes()).expect(command.name);
            assert!(std::ptr::eq(found, command), "{} is there twice", command.name);
            assert_eq!(command.name, command.name.to_lowercase());
            assert!(command.summary.ends_with('.'), "{}: {}", command.name, command.summary);
        }
        assert!(find(b"nothing").is_none());
    }

    /// The table of commands in the documentation is made from this one.
    #[test]
    fn the_documentation_names_each_command() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/store.md");
        let text = std::fs::read_to_string(path).expect("the documentation of the store");
        let mut groups = std::collections::BTreeMap::<_, Vec<_>>::new();
        for command in all() {
            groups.entry(command.group.title()).or_default().push(command.name.to_uppercase());
        }
        let mut missing = String::new();
        for (title, mut names) in groups {
            names.sort();
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let row = format!("| {title} | {} |", names.join(" "));
            if !text.lines().any(|line| line == row) {
                missing.push_str(&format!("{row}\n"));
            }
        }
        assert!(missing.is_empty(), "docs/store.md lacks these lines:\n{missing}");
    }
}
