//! Commands and flags of nginx, Caddy and other servers, and the ones to write here instead.

use super::takes;
use crate::directives::verbs::Verb;
use std::ffi::OsString;

/// Returns the advice about a command that other servers have.
pub(super) fn of_command(wrong: &str) -> Option<&'static str> {
    Some(match wrong {
        "file-server" | "file_server" => "write `pinion serve FOLDER`",
        "start" => "write `pinion serve public`",
        "quit" => STOP,
        "restart" => {
            "stop the server with `pinion stop` and start it again, or `systemctl restart pinion`"
        }
        "redis" | "redis-server" | "valkey-server" => "write `pinion store`",
        "reopen" => REOPEN,
        "test" | "validate" => "write `pinion check`",
        _ => return None,
    })
}

const STOP: &str = "write `pinion stop`";
const RELOAD: &str = "write `pinion reload`";
const REOPEN: &str = "write `pinion reopen-logs`";

/// Returns the advice about a flag that other servers have; `name` is without dashes.
pub(super) fn of_flag(name: &str, verb: Option<Verb>, arguments: &[OsString]) -> Option<String> {
    let name = name.replace('_', "-");
    let serves = verb.is_none_or(|verb| verb == Verb::Serve);
    Some(match name.as_str() {
        "c" | "conf" | "config" | "root" | "dir" | "directory" => {
            let row = verb.unwrap_or(Verb::Serve).row();
            let operand = row.operands.first().map_or("PATH", |operand| operand.name);
            format!("give the path alone: `pinion {} {operand}`", row.name)
        }
        "error-log" if serves => "errors are printed on stderr; redirect that".to_owned(),
        "s" | "signal" if serves => of_signal(&name, arguments).to_owned(),
        "t" | "T" if serves => "to check a configuration, write `pinion check PATH`".to_owned(),
        "v" if serves => "to show the version, write `pinion version`".to_owned(),
        _ => format!("did you mean --{}?", meant(&name).filter(|meant| has(verb, meant))?),
    })
}

/// Returns the advice about a flag of `pinion store` that Redis or `pinion serve` has; `name` is
/// without dashes.
pub(super) fn of_store_flag(name: &str) -> Option<String> {
    let meant = match name {
        "bind" | "l" | "listen" | "p" | "port" | "unixsocket" => {
            return Some("give the address alone: `pinion store 127.0.0.1:6379`".to_owned());
        }
        "password" | "requirepass" => "store-password",
        "eviction" | "maxmemory-policy" => "store-eviction",
        "maxmemory" | "memory" => "store-memory",
        "maxclients" => "max-connections",
        "tls" | "tls-port" => "store-tls",
        "tls-cert-file" => "cert",
        "tls-key-file" => "key",
        "tls-ca-cert-file" => "client-ca",
        _ => return None,
    };
    Some(format!("did you mean --{meant}?"))
}

/// Returns the flag that has another name elsewhere.
fn meant(name: &str) -> Option<&'static str> {
    Some(match name {
        "cert-file" | "certificate" | "ssl-cert" | "ssl-certificate" | "tls-cert" => "cert",
        "header" | "headers" => "fields",
        "key-file" | "private-key" | "ssl-certificate-key" | "ssl-key" | "tls-key" => "key",
        "log" | "log-file" | "logfile" | "logs" => "access-log",
        "p" => "port",
        "redirect" | "redirects" => "rules",
        _ => return None,
    })
}

/// Returns whether a verb has a flag of this name, or `pinion serve` without a verb.
fn has(verb: Option<Verb>, name: &str) -> bool {
    takes(verb.unwrap_or(Verb::Serve), name)
}

/// Returns the advice about `-s reload` and similar signals.
fn of_signal(name: &str, arguments: &[OsString]) -> &'static str {
    let mut words = arguments.iter().map(|word| word.to_string_lossy());
    let _before = words.find(|word| word.trim_start_matches('-').split('=').next() == Some(name));
    match words.next().as_deref() {
        Some("stop" | "quit") => STOP,
        Some("reopen") => REOPEN,
        Some("reload") => RELOAD,
        _ => "write `pinion reload` or `pinion stop`",
    }
}
