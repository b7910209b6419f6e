//! Chromium without a window, controlled through its DevTools protocol. A visit returns the
//! responses that it got and its complaints.
//!
//! The messages go through a pair of pipes; each is a JSON document that ends in a NUL.

use crate::external_programs::program;
use crate::protocol::Protocol;
use crate::server::Server;
use crate::temporary_folder::Folder;
use crate::tls_certificates::key_hash;
use crate::{PATIENCE, is_reached};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

/// The shell moves the pipes to the descriptors that Chromium uses: commands on 3, responses on 4.
const WITH_PIPES: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";

const FLAGS: [&str; 9] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox", // tests may run as root, and the pages are trusted
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage", // containers give it too little
    "--disable-extensions",
    "--disable-gpu",
];

/// A running browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    /// The session of the page, once there is one.
    session: Option<String>,
    commands_sent: u64,
    /// Events that arrived meanwhile and are not processed yet.
    events: Vec<Value>,
    profile: Folder,
}

/// The result of opening one address.
#[derive(Debug, Default)]
pub struct Visit {
    /// The responses that the browser got, in their order.
    pub responses: Vec<Response>,
    /// The complaints of the browser: console, failed requests, uncaught exceptions, policies,
    /// issues.
    pub complaints: Vec<Complaint>,
}

/// One response that the browser got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The requested URL.
    pub url: String,
    /// The purpose of the request, in the words of the protocol: `Document`, `Script`, `Fetch` …
    pub purpose: String,
    /// The status that was received, or that of the stored response.
    pub status: u64,
    /// Whether the response came from the cache of the browser without a request.
    pub from_cache: bool,
    /// The encryption, if there was one.
    pub encryption: Option<Encryption>,
}

/// The encryption of a response, in the words of the browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// `TLS 1.3`, `QUIC` …
    pub protocol: String,
    /// The group in which the two sides agreed on a key.
    pub key_group: String,
}

/// One complaint of the browser.
#[derive(Clone, Debug)]
pub struct Complaint {
    /// The event that reported it, such as `Log.entryAdded`.
    pub event: String,
    /// The URL that it is about, if the event has one.
    pub url: Option<String>,
    /// The data of the event.
    pub params: Value,
}

impl Browser {
    /// Starts a browser with a fresh profile.
    ///
    /// # Panics
    /// Panics if it is not installed or does not start.
    #[track_caller]
    pub fn start() -> Browser {
        Browser::start_with(&[])
    }

    /// Starts a browser with a fresh profile that trusts this server, and uses the protocol of the
    /// server: by default, it would try HTTP/3 only with certificates from a public authority.
    ///
    /// # Panics
    /// Panics in the same cases as [`Browser::start`].
    #[track_caller]
    pub fn trusting(server: &Server) -> Browser {
        let certificate = server.certificate().expect("a server with a certificate");
        let key = key_hash(&certificate);
        let mut flags = vec![format!("--ignore-certificate-errors-spki-list={key}")];
        if server.protocol() == Protocol::Http3 {
            flags.push(format!("--origin-to-force-quic-on={}", server.address()));
            // RFC 9220, which is not enabled by default yet.
            flags.push("--enable-features=EnableWebsocketsOverHttp3".to_owned());
        }
        Browser::start_with(&flags)
    }

    #[track_caller]
    fn start_with(flags: &[String]) -> Browser {
        let profile = Folder::new("browser");
        let chromium = program("chromium", "chromium");
        let mut shell = program("sh", "dash");
        shell.args(["-c", WITH_PIPES]).arg(chromium.get_program()).args(FLAGS).args(flags);
        shell.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = shell.spawn().expect("a shell");
        let commands = child.stdin.take().expect("piped");
        let messages = messages(child.stdout.take().expect("piped"));
        let mut browser = Browser {
            child,
            commands,
            messages,
            session: None,
            commands_sent: 0,
            events: Vec::new(),
            profile,
        };
        browser.open_page();
        browser
    }

    /// Opens an address and waits until the page has loaded and the requests of its scripts are
    /// complete.
    #[track_caller]
    pub fn visit(&mut self, url: &str) -> Visit {
        self.events.clear();
        let navigated = self.command("Page.navigate", &json!({ "url": url }));
        let loader = &navigated["loaderId"];
        assert!(loader.is_string(), "{url}: {navigated}");
        let deadline = Instant::now() + PATIENCE;
        while !has_settled(&self.events, loader) {
            let event = self.next_message(deadline, url);
            self.events.push(event);
        }
        // Events that the last responses cause are reported before the page has been painted again.
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))");
        visit_of(&std::mem::take(&mut self.events))
    }

    /// Evaluates an expression that leads to another page, such as a click, and waits as
    /// [`Browser::visit`] does.
    #[track_caller]
    pub fn follow(&mut self, expression: &str) -> Visit {
        self.events.clear();
        // The expression counts as a gesture of the user, because Chromium complains about pages
        // that navigate without one.
        let arguments = json!({ "expression": expression, "userGesture": true });
        let done = self.command("Runtime.evaluate", &arguments);
        assert!(done["exceptionDetails"].is_null(), "{expression}: {done}");
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(loader) = asked_for_page(&self.events)
                && has_settled(&self.events, &loader)
            {
                return visit_of(&std::mem::take(&mut self.events));
            }
            let event = self.next_message(deadline, expression);
            self.events.push(event);
        }
    }

    /// Returns the value of a JavaScript expression on the page, or that of its promise.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let arguments = json!({
            "expression": expression,
            "returnByValue": true,
            "awaitPromise": true,
        });
        let done = self.command("Runtime.evaluate", &arguments);
        assert!(done["exceptionDetails"].is_null(), "{expression}: {done}");
        done["result"]["value"].clone()
    }

    /// Returns the title of the page, even while the page is being replaced.
    #[track_caller]
    pub fn title(&mut self) -> String {
        // While the page changes there is none, and the reply is an error.
        let history = &self.response_to("Page.getNavigationHistory", &json!({}))["result"];
        let current = history["currentIndex"].as_u64().unwrap_or_default() as usize;
        history["entries"][current]["title"].as_str().unwrap_or_default().to_owned()
    }

    /// Sets the size of the page, in CSS pixels.
    #[track_caller]
    pub fn resize(&mut self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.command("Emulation.setDeviceMetricsOverride", &size);
    }

    fn open_page(&mut self) {
        let target = self.command("Target.createTarget", &json!({ "url": "about:blank" }));
        let arguments = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.command("Target.attachToTarget", &arguments);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        assert!(self.session.is_some(), "a session: {attached}");
        for domain in ["Audits", "Log", "Network", "Page", "Runtime"] {
            self.command(&format!("{domain}.enable"), &json!({}));
        }
        self.command("Page.setLifecycleEventsEnabled", &json!({ "enabled": true }));
    }

    /// Sends a command and waits for its result; other messages are kept.
    #[track_caller]
    fn command(&mut self, method: &str, arguments: &Value) -> Value {
        let response = self.response_to(method, arguments);
        assert!(response["error"].is_null(), "{method}: {response}");
        response["result"].clone()
    }

    /// Sends a command and waits for its reply, which may be an error.
    #[track_caller]
    fn response_to(&mut self, method: &str, arguments: &Value) -> Value {
        self.commands_sent += 1;
        let id = self.commands_sent;
        let mut message = json!({ "id": id, "method": method, "params": arguments });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let bytes = format!("{message}\0");
        self.commands.write_all(bytes.as_bytes()).expect("the browser takes commands");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let message = self.next_message(deadline, method);
            if message["id"] == id {
                return message;
            }
            self.events.push(message);
        }
    }

    #[track_caller]
    fn next_message(&self, deadline: Instant, expected: &str) -> Value {
        let left = deadline.saturating_duration_since(Instant::now());
        self.messages.recv_timeout(left).unwrap_or_else(|error| panic!("{expected}: {error}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ended_already = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        if !is_reached(|| !matches!(self.child.try_wait(), Ok(None))) {
            let _ended_meanwhile = self.child.kill();
            let _ended_meanwhile = self.child.wait();
        }
        // The helper processes of the browser end a little later, and write to the profile until
        // then.
        is_reached(|| fs::remove_dir_all(self.profile.path()).is_ok());
    }
}

/// Reads the messages of the browser on a thread of their own until the browser ends.
fn messages(responses: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for message in BufReader::new(responses).split(b'\0').map_while(Result::ok) {
            let message = serde_json::from_slice(&message).expect("a JSON document");
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns the loader of the page that was requested last.
fn asked_for_page(events: &[Value]) -> Option<Value> {
    let asked = events.iter().rfind(|event| {
        event["method"] == "Network.requestWillBeSent" && event["params"]["type"] == "Document"
    })?;
    Some(asked["params"]["loaderId"].clone())
}

/// Returns whether all resources of a page have arrived, and all requests of its scripts are
/// complete.
fn has_settled(events: &[Value], loader: &Value) -> bool {
    let of = |method: &'static str| {
        let named = events.iter().filter(move |event| event["method"] == method);
        named.map(|event| &event["params"])
    };
    let is_loaded = of("Page.lifecycleEvent")
        .any(|event| event["name"] == "load" && event["loaderId"] == *loader);
    let mut asked = of("Network.requestWillBeSent").filter(|asked| asked["loaderId"] == *loader);
    let answered = || of("Network.responseReceived").chain(of("Network.loadingFailed"));
    let is_answered =
        |asked: &Value| answered().any(|response| response["requestId"] == asked["requestId"]);
    is_loaded && asked.all(is_answered)
}

/// Summarizes a sequence of events.
fn visit_of(events: &[Value]) -> Visit {
    let mut visit = Visit::default();
    for event in events {
        let (name, params) = (event["method"].as_str().unwrap_or_default(), &event["params"]);
        if name == "Network.responseReceived" {
            let response = &params["response"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            visit.responses.push(Response {
                url: text(&response["url"]),
                purpose: text(&params["type"]),
                status: wire_status(events, &params["requestId"])
                    .or(response["status"].as_u64())
                    .unwrap_or_default(),
                from_cache: response["fromDiskCache"] == true
                    || is_served_from_memory(events, &params["requestId"]),
                encryption: encryption(&response["securityDetails"]),
            });
        }
        if is_complaint(name, params) {
            let url = [&params["entry"]["url"], &params["response"]["url"]];
            let url = url.into_iter().find_map(Value::as_str).map(str::to_owned);
            visit.complaints.push(Complaint {
                event: name.to_owned(),
                url,
                params: params.clone(),
            });
        }
    }
    visit
}

/// Returns the encryption of a response. Unencrypted responses have no details.
fn encryption(details: &Value) -> Option<Encryption> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    details.is_object().then(|| Encryption {
        protocol: text(&details["protocol"]),
        key_group: text(&details["keyExchangeGroup"]),
    })
}

/// Returns the status as it was sent: the browser shows a revalidated page with its stored 200.
fn wire_status(events: &[Value], request: &Value) -> Option<u64> {
    let of_request = |event: &&Value| {
        event["method"] == "Network.responseReceivedExtraInfo"
            && event["params"]["requestId"] == *request
    };
    // If a request has several responses, such as a redirect and its target, the last one counts.
    events.iter().rfind(of_request)?["params"]["statusCode"].as_u64()
}

fn is_served_from_memory(events: &[Value], request: &Value) -> bool {
    events.iter().any(|event| {
        event["method"] == "Network.requestServedFromCache"
            && event["params"]["requestId"] == *request
    })
}

fn is_complaint(event: &str, params: &Value) -> bool {
    match event {
        "Audits.issueAdded" | "Runtime.exceptionThrown" => true,
        // The page itself has cancelled the request, for example because it was left.
        "Network.loadingFailed" => params["canceled"] != true,
        "Log.entryAdded" => matches!(params["entry"]["level"].as_str(), Some("error" | "warning")),
        "Network.responseReceived" => params["response"]["status"].as_u64() >= Some(400),
        "Runtime.consoleAPICalled" => {
            matches!(params["type"].as_str(), Some("assert" | "error" | "warning"))
        }
        _ => false,
    }
}
