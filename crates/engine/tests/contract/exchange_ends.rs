//! The law about the ends of exchanges, which holds in every case: each exchange that the
//! application gets ends once, over HTTP/1 before the next one begins, and at the latest with its
//! connection.

use std::collections::HashMap;
use std::num::NonZeroU32;

use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;

/// The exchanges that have not ended, by their numbers.
#[derive(Default)]
pub(crate) struct OpenExchanges {
    open: HashMap<NonZeroU32, Address>,
    last: u32,
}

impl OpenExchanges {
    /// Records the beginning of a request; `is_http1` means that no other request can be open on
    /// its connection.
    pub(crate) fn begin(&mut self, exchange: &mut Exchange<'_>, is_http1: bool) {
        let address = exchange.address();
        law(!(is_http1 && self.open.values().any(|one| is_on(one, address))), "one at a time");
        law(exchange.end_number().is_none(), "no number is that of another exchange");
        self.last += 1;
        let number = NonZeroU32::new(self.last).expect("it counts from 1");
        law(exchange.notify_end(number), "an exchange that begins has not ended");
        law(exchange.end_number() == Some(number), "its number is known");
        self.open.insert(number, address);
    }

    /// An exchange has ended.
    pub(crate) fn ended(&mut self, number: NonZeroU32) {
        law(self.open.remove(&number).is_some(), "an exchange ends once");
    }

    /// A connection has ended.
    pub(crate) fn closed(&mut self, connection: Address) {
        law(!self.open.values().any(|one| is_on(one, connection)), "all end with the connection");
    }
}

fn is_on(exchange: &Address, connection: Address) -> bool {
    (exchange.slot, exchange.generation) == (connection.slot, connection.generation)
}

/// Ends the process of the test if a law is broken: a panic of the application would end one worker
/// alone, and perhaps after the case.
#[track_caller]
fn law(holds: bool, statement: &str) {
    if !holds {
        eprintln!("{}: {statement}", std::panic::Location::caller());
        std::process::abort();
    }
}
