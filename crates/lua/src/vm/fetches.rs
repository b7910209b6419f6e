//! The functions of the host for requests to other servers.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Lua, LuaString, Result, Table, Value};
use pinion_client::connection_pool::KeyLimits;
use pinion_client::http_client::RequestId;
use pinion_client::http_client::request::{
    ClientRequest, OwnedFields, ReadOutcome, RequestBody, ResponseStart, ServerProtocol,
};
use pinion_client::limits::{REDIRECTS_MAX, REQUEST_TIMEOUT_MS, RESPONSE_MAX_BYTES};
use pinion_client::request_url::RequestUrl;

use super::host_functions::{Host, Outcome, or_why, relaxed};
use crate::fetch_client::{Fetch, WorkerClient};
use crate::limits::{FETCH_PIECE_BYTES, FETCHES_PER_TASK_MAX};
use crate::operation_id::OperationId;
use crate::task::TaskId;

/// The arguments of `pinion.fetch`: method, URL, fields, body, whether the body comes in pieces,
/// its length, the time in seconds, redirects, bytes of the response, and the path of a socket.
type Arguments = (
    LuaString,
    LuaString,
    Option<Table>,
    Option<LuaString>,
    bool,
    Option<f64>,
    Option<f64>,
    Option<f64>,
    Option<f64>,
    Option<LuaString>,
);

impl Host {
    /// Returns the task with which the requests and programs end that the current one begins: a
    /// function of `pinion.gather` may return a response to the function that waits for it.
    pub(super) fn outgoing_owner(&self) -> TaskId {
        let current = self.work.current.get();
        self.tasks.borrow_mut().budget_owner(current).unwrap_or(current)
    }

    /// Records that a task owns an object that ends with it.
    pub(super) fn mark_owner(&self, owner: TaskId) {
        if let Some(task) = self.tasks.borrow_mut().get(owner) {
            task.is_owner = true;
        }
    }

    fn fetch_start(&self, arguments: &Arguments) -> std::result::Result<u64, String> {
        let owner = self.outgoing_owner();
        if self.fetches.borrow().count_of(owner) >= FETCHES_PER_TASK_MAX {
            return Err(format!(
                "a handler has at most {FETCHES_PER_TASK_MAX} responses that are not read to their \
                 end; read them, or call response:close()"
            ));
        }
        let client = self.work.client.borrow().clone();
        let Some(client) = client else { return Err("there is no client here".to_owned()) };
        let request = self.client_request(&client, arguments)?;
        let body_bytes = match &request.content {
            RequestBody::Whole(content) => content.len(),
            RequestBody::Pieces { .. } => 0,
        };
        let all_bytes = client.body_bytes.get() + body_bytes;
        if all_bytes > client.body_max_bytes() {
            return Err(format!(
                "the bodies of all requests that are being sent are more than {} MiB; send a long \
                 one in pieces, with a function as `body`",
                client.body_max_bytes() >> 20
            ));
        }
        let url = request.url.clone();
        let started = client.get().borrow_mut().start(request, self.clock.now().monotonic_ms);
        let id = started.map_err(|error| format!("{}: {error}", url.target()))?;
        client.body_bytes.set(all_bytes);
        self.fetches.borrow_mut().add(id, owner, Fetch { url, body_bytes });
        self.mark_owner(owner);
        self.work.begin_operation(OperationId::Fetch(id), owner);
        Ok(id.number())
    }

    fn client_request(
        &self,
        client: &WorkerClient,
        arguments: &Arguments,
    ) -> std::result::Result<ClientRequest, String> {
        let (method, url, fields, body, is_pieces, length, timeout, redirects, max_bytes, socket) =
            arguments;
        let method = method.to_str().map_err(|_| "the method is no token".to_owned())?;
        let mut url = client.url(&url.as_bytes())?;
        if let Some(socket) = socket {
            let path = socket.to_str().map_err(|_| "the socket's path is not UTF-8".to_owned())?;
            url = url.over_socket(Path::new(&*path)).map_err(|error| error.to_string())?;
        }
        let settings = self.work.worker_site.borrow().site.fetch_settings().clone();
        let whole = |number: f64| number as u64;
        let content = match body {
            None if *is_pieces => RequestBody::Pieces { length: length.map(whole) },
            None => RequestBody::Whole([].into()),
            Some(body) => RequestBody::Whole((&*body.as_bytes()).into()),
        };
        let timeout_ms = timeout.map_or(REQUEST_TIMEOUT_MS, |s| (s * 1000.0) as u64).max(1);
        Ok(ClientRequest {
            site: self.work.worker_site.borrow().site.number(),
            method: (&*method).into(),
            url,
            fields: fields.as_ref().map_or(Ok(OwnedFields::default()), owned_fields)?,
            content,
            policy: settings.policy().clone(),
            tls: Some(Arc::clone(settings.tls())),
            timeout_ms,
            redirects_max: redirects.map_or(REDIRECTS_MAX, |count| count as u32),
            content_max_bytes: max_bytes.map_or(RESPONSE_MAX_BYTES, whole),
            forwarded: None,
            protocol: ServerProtocol::Http,
            connections: KeyLimits::NONE,
        })
    }

    /// Registers the running task for news of a request. Returns the URL of the request.
    fn wait_for_fetch(&self, id: RequestId) -> Option<RequestUrl> {
        let mut fetches = self.fetches.borrow_mut();
        let fetch = fetches.get_mut(id)?;
        fetch.waiter = self.work.current.get();
        Some(fetch.value.url.clone())
    }

    /// Ends requests.
    pub(crate) fn close_fetches(&self, ids: &[RequestId]) {
        let Some(client) = self.work.client.borrow().clone() else { return };
        for id in ids {
            let Some(fetch) = self.fetches.borrow_mut().remove(*id) else { continue };
            client.body_bytes.set(client.body_bytes.get() - fetch.body_bytes);
            client.get().borrow_mut().close(*id);
            self.work.end_operation(OperationId::Fetch(*id));
        }
    }

    /// Ends the requests of a task that has ended.
    pub(crate) fn end_fetches_of(&self, task: TaskId) {
        if !self.fetches.borrow().is_empty() {
            let owned = self.fetches.borrow().owned_by(task);
            self.close_fetches(&owned);
        }
    }

    /// Returns whether a request takes another piece of its content, and whether none is wanted any
    /// more.
    fn fetch_takes(&self, id: RequestId) -> (bool, bool) {
        let client = self.work.client.borrow().clone();
        let (Some(client), Some(_)) = (client, self.wait_for_fetch(id)) else {
            return (false, true);
        };
        let mut client = client.get().borrow_mut();
        let is_refused = match client.response(id) {
            Err(_) => true,
            Ok(response) => response.is_some_and(|response| response.status >= 300),
        };
        (client.takes_content(id), is_refused)
    }

    fn fetch_write(&self, id: RequestId, piece: Option<&[u8]>) {
        let client = self.work.client.borrow().clone();
        if let (Some(client), Some(_)) = (client, self.wait_for_fetch(id)) {
            client.get().borrow_mut().write(id, piece);
        }
    }

    /// Returns the status, the URL and the text of the fields of a response; `None` and the reason
    /// if there is none, without a reason if it has not come yet.
    fn fetch_head(&self, lua: &Lua, id: RequestId) -> Result<FetchedHead> {
        let client = self.work.client.borrow().clone();
        let (Some(client), Some(asked)) = (client, self.wait_for_fetch(id)) else {
            return Ok((None, Some(lua.create_string(CLOSED)?), None));
        };
        let mut borrowed = client.get().borrow_mut();
        let failed = match borrowed.response(id) {
            Ok(None) => return Ok((None, None, None)),
            Ok(Some(ResponseStart { status, fields, url, .. })) => {
                let is_redirected = *url != asked;
                let url = is_redirected.then(|| lua.create_string(url.as_str())).transpose()?;
                let fields = lua.create_string(fields.lines())?;
                return Ok((Some(*status), url, Some(fields)));
            }
            Err(error) => error,
        };
        drop(borrowed);
        self.close_fetches(&[id]);
        let why = format!("{}: {failed}", asked.target());
        Ok((None, Some(lua.create_string(why)?), None))
    }

    /// Returns the next piece of a response; else whether there is none any more, and the reason.
    fn fetch_read(
        &self,
        lua: &Lua,
        id: RequestId,
        max: usize,
    ) -> Result<(Option<LuaString>, bool, Option<String>)> {
        let client = self.work.client.borrow().clone();
        let (Some(client), Some(url)) = (client, self.wait_for_fetch(id)) else {
            return Ok((None, true, None));
        };
        let mut piece = None;
        let give = |bytes: &[u8]| piece = Some(lua.create_string(bytes));
        let outcome = client.get().borrow_mut().read(id, max, give);
        match outcome {
            ReadOutcome::Pending => Ok((None, false, None)),
            ReadOutcome::Bytes(_) => Ok((piece.transpose()?, false, None)),
            ReadOutcome::End => {
                self.close_fetches(&[id]);
                Ok((None, true, None))
            }
            ReadOutcome::Failed(error) => {
                Ok((None, true, Some(format!("{}: {error}", url.target()))))
            }
        }
    }
}

/// The status of a response, its URL if it differs from the requested one, or why there is none,
/// and its field lines.
type FetchedHead = (Option<u16>, Option<LuaString>, Option<LuaString>);

/// The error of a response that was closed.
const CLOSED: &str = "the request was closed";

/// Converts the fields of a table: each value is a string or a number, or a list of them.
fn owned_fields(table: &Table) -> std::result::Result<OwnedFields, String> {
    let wrong = |_| "the option `fields` cannot be read".to_owned();
    let mut fields = OwnedFields::default();
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair.map_err(wrong)?;
        let Value::String(name) = name else {
            return Err("the option `fields` has names that are strings".to_owned());
        };
        let values = match value {
            Value::Table(list) => list.sequence_values().collect::<Result<_>>().map_err(wrong)?,
            value => vec![value],
        };
        for value in values {
            let text = match value {
                Value::String(text) => text.as_bytes().to_vec(),
                Value::Integer(number) => number.to_string().into_bytes(),
                Value::Number(number) => number.to_string().into_bytes(),
                other => {
                    let (name, kind) = (name.to_string_lossy(), other.type_name());
                    return Err(format!("the field {name} is a {kind}; write a string"));
                }
            };
            fields.push(&name.as_bytes(), &text);
        }
    }
    Ok(fields)
}

/// Returns the fields of a response under their names in lower case; those of several lines are
/// joined (RFC 9110 §5.3).
fn table_of(lua: &Lua, lines: &[u8]) -> Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in OwnedFields::parts_of(lines) {
        let name = lua.create_string(name.to_ascii_lowercase())?;
        let value = match table.raw_get::<Option<LuaString>>(&name)? {
            Some(before) => lua.create_string([&*before.as_bytes(), value].join(&b", "[..]))?,
            None => lua.create_string(value)?,
        };
        table.raw_set(name, value)?;
    }
    Ok(table)
}

/// Adds these functions to the table that `fetch.lua` receives, and its own functions as `fetch`.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let chunk = lua.load(include_str!("../fetch.lua")).set_name("=pinion");
    table.raw_set("fetch", chunk.into_function()?)?;
    let of = Rc::clone(host);
    let start = move |_: &Lua, arguments: Arguments| -> Result<Outcome<u64>> {
        Ok(or_why(of.fetch_start(&arguments)))
    };
    table.raw_set("fetch_start", lua.create_function(start)?)?;
    let of = Rc::clone(host);
    let takes = move |_: &Lua, id: u64| Ok(of.fetch_takes(RequestId::of_number(id)));
    table.raw_set("fetch_takes", lua.create_function(takes)?)?;
    let of = Rc::clone(host);
    let write = move |_: &Lua, (id, piece): (u64, Option<LuaString>)| {
        let piece = piece.as_ref().map(LuaString::as_bytes);
        of.fetch_write(RequestId::of_number(id), piece.as_deref());
        Ok(())
    };
    table.raw_set("fetch_write", lua.create_function(write)?)?;
    let of = Rc::clone(host);
    let head =
        move |lua: &Lua, id: u64| relaxed(lua, || of.fetch_head(lua, RequestId::of_number(id)));
    table.raw_set("fetch_head", lua.create_function(head)?)?;
    let fields = |lua: &Lua, lines: LuaString| relaxed(lua, || table_of(lua, &lines.as_bytes()));
    table.raw_set("fetch_fields", lua.create_function(fields)?)?;
    let of = Rc::clone(host);
    let read = move |lua: &Lua, (id, bytes): (u64, Option<f64>)| {
        let max = bytes.map_or(FETCH_PIECE_BYTES, |bytes| bytes as usize);
        let max = max.clamp(1, FETCH_PIECE_BYTES);
        relaxed(lua, || of.fetch_read(lua, RequestId::of_number(id), max))
    };
    table.raw_set("fetch_read", lua.create_function(read)?)?;
    let of = Rc::clone(host);
    let close = move |_: &Lua, id: u64| {
        of.close_fetches(&[RequestId::of_number(id)]);
        Ok(())
    };
    table.raw_set("fetch_close", lua.create_function(close)?)?;
    let of = Rc::clone(host);
    let secret = move |lua: &Lua, name: LuaString| {
        let place = of.work.worker_site.borrow();
        match place.site.secrets().get(&name.to_string_lossy()) {
            Ok(value) => Ok((Some(lua.create_string(value)?), None)),
            Err(why) => Ok((None, Some(why))),
        }
    };
    table.raw_set("secret", lua.create_function(secret)?)
}
