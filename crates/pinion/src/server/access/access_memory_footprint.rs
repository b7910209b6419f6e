//! The memory that access control can use, for the bound of the whole server.

use super::limits::{
    CREDENTIAL_BYTES, CREDENTIALS_MAX, FAILING_CLIENTS_MAX, RATE_CLIENTS_MAX, WAITING_MAX_BYTES,
};
use super::rate_table::RateTable;
use super::rules::AccessRules;

/// The needs of the rules of all sites for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessFootprint {
    /// Some rule limits rates of requests.
    pub(crate) rates: bool,
    /// Some rule asks for passwords.
    pub(crate) passwords: bool,
}

impl AccessFootprint {
    /// Returns that of the rules of sites.
    pub(crate) fn of<'r>(rules: impl Iterator<Item = &'r AccessRules>) -> Self {
        rules.fold(Self::default(), |all, rules| Self {
            rates: all.rates || rules.limits_rates(),
            passwords: all.passwords || rules.asks_for_passwords(),
        })
    }

    /// Returns the most bytes that all workers together can use.
    pub(crate) fn bytes(self, workers: u64) -> u64 {
        let mut bytes = 0;
        if self.rates {
            bytes += RateTable::bytes(RATE_CLIENTS_MAX) as u64;
        }
        if self.passwords {
            bytes += RateTable::bytes(FAILING_CLIENTS_MAX) as u64;
            bytes += (CREDENTIALS_MAX * CREDENTIAL_BYTES) as u64;
            bytes += workers * WAITING_MAX_BYTES as u64;
        }
        bytes
    }
}
