//! Requests that Python applications respond to.

use super::super::request_log::RequestLog;
use super::{Gateway, OpenRequest};
use crate::settings::PythonMount;
use pinion_engine::app::{ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_gateway::proxy_error::ProxyError;
use pinion_gateway::python::Python;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::request_head::RequestHead;
use std::sync::Arc;

impl Gateway {
    /// Begins a request to a Python application. Answers it if that is not possible.
    pub(super) fn begin_python(
        &mut self,
        waiting: OpenRequest,
        (mount, defaults): (&Arc<PythonMount>, &Arc<[u8]>),
        (client, head): (&ClientIdentity, &RequestHead<'_>),
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let begun = match mount.app.get() {
            Some(app) => self.python().begin(app, defaults, (client, head), exchange),
            None => Err(ProxyError::NoServer),
        };
        match begun {
            Ok(()) => {
                self.waiting.insert(exchange.address(), waiting);
            }
            Err(error) => self.fail(waiting, &error, request_log, exchange),
        }
    }

    /// Returns the requests to Python applications, which are made for the first one.
    fn python(&mut self) -> &mut Python {
        let Self { shared, poster, is_stopping, .. } = self;
        self.python.get_or_insert_with(|| {
            let mut python = Python::new(shared.settings.uploads.clone(), poster.clone());
            if *is_stopping {
                python.stop();
            }
            Box::new(python)
        })
    }

    /// Handles an event of an exchange. Returns false if no Python application responds to it.
    pub(super) fn python_event(
        &mut self,
        event: &Event<'_>,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        let Some(python) = &mut self.python else { return false };
        if !python.has(exchange.address()) {
            return false;
        }
        if let Some(ended) = python.event(event, exchange) {
            let refusal = match event {
                Event::Refused(refusal) => Some(refusal.status()),
                _ => None,
            };
            self.ended(ended, refusal, request_log, exchange);
        }
        true
    }

    /// Returns whether an event on a connection is for a Python application.
    pub(crate) fn is_of_python(tag: u64) -> bool {
        Python::is_of_process(tag)
    }

    /// Handles an event on a connection to a process of a Python application.
    pub(crate) fn raw_of_python(
        &mut self,
        event: &ByteStreamEvent<'_>,
        request_log: &mut RequestLog,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        let Some(mut python) = self.python.take() else { return stream.abort() };
        python.byte_stream_event(event, stream, |ended, exchange| {
            self.ended(ended, None, request_log, exchange);
        });
        self.python = Some(python);
    }

    pub(super) fn flush_python(
        &mut self,
        request_log: &mut RequestLog,
        connections: &mut Connections<'_>,
    ) {
        let Some(mut python) = self.python.take() else { return };
        python.flush(connections, |ended, exchange| self.ended(ended, None, request_log, exchange));
        self.python = Some(python);
    }
}
