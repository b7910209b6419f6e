//! What a worker does with a request: the steps of a static site, and the yardstick without one.

use super::generation::{Generation, Published};
use super::journal::Journal;
use pinion_archive::Archive;
use pinion_engine::address::Address;
use pinion_engine::app::{App, Event, OwnAnswer, RawEvent};
use pinion_engine::clock::Now;
use pinion_engine::exchange::Exchange;
use pinion_engine::mapping::{MappingId, Mappings};
use pinion_engine::raw::RawStream;
use pinion_http::field::KnownField;
use pinion_http::negotiate::prefers_text;
use pinion_http::page;
use pinion_http::prepared::{Prepared, PreparedBody};
use pinion_http::request::{Framing, RequestHead};
use pinion_site::{Pieces, Work, answer, generated_fields};
use std::fmt;
use std::sync::Arc;

/// A static site, as one worker serves it.
pub(crate) struct StaticApp {
    published: Arc<Published>,
    /// What this worker serves from; none before its first pass.
    serving: Option<Serving>,
    work: Work,
    journal: Journal,
    /// The second in which the archive was last looked at.
    looked_unix_seconds: i64,
}

/// A generation and the name this worker's engine has for its mapping.
struct Serving {
    number: u64,
    generation: Arc<Generation>,
    mapping: MappingId,
}

impl StaticApp {
    /// Serves whatever is published, and what will be.
    pub(crate) fn new(published: Arc<Published>, journal: Journal) -> Self {
        Self { published, serving: None, work: Work::new(), journal, looked_unix_seconds: 0 }
    }

    /// The way of a request: find out what it gets, hand that to the engine, write it down.
    fn request(&mut self, head: &RequestHead<'_>, exchange: &mut Exchange<'_>) {
        let Some(serving) = &self.serving else { return };
        let generation = &*serving.generation;
        let began = self.journal.begin(exchange);
        let now = exchange.now();
        let archive = generation.archive();
        let mut pieces = Pieces::new();
        let answer = match generation.is_damaged() {
            false => answer(&archive, head, now.unix_seconds, &mut self.work, &mut pieces),
            true => broken(&archive, head),
        };
        let outdated = generation.is_outdated(&answer);
        // An answer is large: the one to be sent is pointed at.
        let instead;
        let answer = if outdated {
            instead = broken(&archive, head);
            &instead
        } else {
            &answer
        };
        exchange.prepared(answer, Some(serving.mapping));
        let status = answer.status;
        self.journal.answered(began, head, answer, exchange);
        if status == 500 {
            self.tell_damage(head, now, outdated);
        }
    }

    /// Why a 500 was answered.
    #[cold]
    fn tell_damage(&self, head: &RequestHead<'_>, now: Now, outdated: bool) {
        let Some(serving) = &self.serving else { return };
        let damage = self.work.damage();
        let why: &dyn fmt::Display = match &damage {
            _ if serving.generation.is_damaged() => {
                &"the archive was truncated or its disk failed; every request is answered 500 \
                  until a whole archive is loaded (SIGHUP)"
            }
            _ if outdated => {
                &"the file has changed since the folder was built; --watch or SIGHUP takes it up"
            }
            Some(damage) => damage,
            None => &"damage",
        };
        serving.generation.report().tell(now, head.target.raw, why);
    }
}

/// What cannot be answered. The fields come from memory of ours, whatever has become of the file.
fn broken<'x>(archive: &Archive<'x>, head: &RequestHead<'_>) -> Prepared<'x> {
    let text = prefers_text(head.values(KnownField::Accept));
    page::answer(500, text, generated_fields(archive))
}

/// Whether a request announces no more content than is allowed. The engine refuses one that does
/// and is not answered.
#[inline]
fn fits(head: &RequestHead<'_>, exchange: &mut Exchange<'_>) -> bool {
    head.framing == Framing::None || exchange.content_fits()
}

impl App for StaticApp {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        // A static answer is complete at once: no content is wanted, nothing is waited for.
        if let Event::Head(head) = event
            && fits(head, exchange)
        {
            self.request(head, exchange);
        }
    }

    fn raw(&mut self, _event: RawEvent<'_>, stream: &mut RawStream<'_>) {
        // No listener of this server speaks anything but HTTP.
        stream.close();
    }

    fn pass(&mut self, now: Now, mappings: &mut Mappings) {
        self.journal.pass();
        if let Some(serving) = &self.serving
            && now.unix_seconds != self.looked_unix_seconds
        {
            self.looked_unix_seconds = now.unix_seconds;
            serving.generation.look();
        }
        let held = self.serving.as_ref().map_or(0, |serving| serving.number);
        if self.published.number() == held {
            return;
        }
        let (number, generation) = self.published.current();
        let mapping = mappings.add(Arc::clone(generation.mapping()));
        if let Some(old) = self.serving.replace(Serving { number, generation, mapping }) {
            mappings.retire(old.mapping);
        }
    }

    fn page_fields(&self) -> &[u8] {
        match &self.serving {
            Some(serving) => generated_fields(&serving.generation.archive()),
            None => page::BUILT_IN_FIELDS,
        }
    }

    fn answered(&mut self, connection: Address, answer: OwnAnswer) {
        self.journal.engine_answered(connection, answer);
    }

    #[inline]
    fn sent(&mut self, connection: Address) {
        self.journal.left(connection, 0);
    }

    fn closed(&mut self, connection: Address, unsent_bytes: u64) {
        self.journal.left(connection, unsent_bytes);
    }
}

/// Every request gets the same bytes: what the server costs without a site.
pub(crate) struct DummyApp {
    journal: Journal,
}

/// 13 bytes, as kawipiko's and everybody's yardstick has them.
const DUMMY_BODY: &[u8] = b"hello, world\n";

const DUMMY: Prepared<'static> = Prepared {
    content_length: Some(DUMMY_BODY.len() as u64),
    body: PreparedBody::Bytes(DUMMY_BODY),
    ..Prepared::empty(200)
};

impl DummyApp {
    /// With or without an access log.
    pub(crate) fn new(journal: Journal) -> Self {
        Self { journal }
    }
}

impl App for DummyApp {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        if let Event::Head(head) = event
            && fits(head, exchange)
        {
            let began = self.journal.begin(exchange);
            exchange.prepared(&DUMMY, None);
            self.journal.answered(began, head, &DUMMY, exchange);
        }
    }

    fn raw(&mut self, _event: RawEvent<'_>, stream: &mut RawStream<'_>) {
        stream.close();
    }

    fn pass(&mut self, _now: Now, _mappings: &mut Mappings) {
        self.journal.pass();
    }

    fn answered(&mut self, connection: Address, answer: OwnAnswer) {
        self.journal.engine_answered(connection, answer);
    }

    #[inline]
    fn sent(&mut self, connection: Address) {
        self.journal.left(connection, 0);
    }

    fn closed(&mut self, connection: Address, unsent_bytes: u64) {
        self.journal.left(connection, unsent_bytes);
    }
}
