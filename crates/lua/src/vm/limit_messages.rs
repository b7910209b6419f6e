//! The messages of limits that a script has met: whose limit it is, its value, the flag or key that
//! raises it if there is one, and other remedies.

use super::Vm;
use crate::body::received_content::{BodyLimit, LimitSetter};
use crate::limits::{
    BACKGROUND_CPU_MAX_MS, BACKGROUND_WALL_MAX_MS, OLD_VMS_MAX, ROOM_WAIT_MAX_MS,
    ROOM_WAIT_ONCE_MS, START_CPU_MAX_MS,
};
use crate::script_quotas::Allowance;
use crate::task::{Awaited, Task, TaskId};

/// The owner of the limits that apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitOwner {
    /// The main script, while it starts.
    Start,
    /// A request, and the parts of its `gather`.
    Request,
    /// Background work.
    Background,
    /// A program at the command line.
    Program,
}

/// The time of a request that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeLimitKind {
    /// The time in total.
    Total,
    /// The time since a stream has written something.
    SinceWrite,
    /// The time in which the client takes the response.
    Client,
}

impl LimitOwner {
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "the start of the script",
            Self::Request => "the request",
            Self::Background => "the background work",
            Self::Program => "the program",
        }
    }
}

/// Returns the most CPU that the main script may take to start, in milliseconds.
pub(super) fn start_cpu_ms(allowance: &Allowance) -> u64 {
    START_CPU_MAX_MS.max(allowance.cpu_ms)
}

/// Returns the message of the limit of CPU.
pub(super) fn cpu(payer: LimitOwner, allowance: &Allowance) -> String {
    let (ms, flag, help) = match payer {
        LimitOwner::Request => (
            allowance.cpu_ms,
            "raise it with --lua-cpu",
            "move work after the response with pinion.spawn, or keep results with pinion.cached",
        ),
        LimitOwner::Background => (
            allowance.cpu_ms.max(BACKGROUND_CPU_MAX_MS),
            "raise it with a larger --lua-cpu",
            "split the work with pinion.spawn: each piece has a limit of its own",
        ),
        LimitOwner::Program => (
            allowance.cpu_ms.max(BACKGROUND_CPU_MAX_MS),
            "raise it with a larger --lua-cpu",
            "or leave that out for no limit",
        ),
        LimitOwner::Start => (
            start_cpu_ms(allowance),
            "raise it with a larger --lua-cpu",
            "move work out of the start with pinion.spawn",
        ),
    };
    format!(
        "{} has used up its CPU time of {ms} ms: look for a loop that does not end; if the work \
         takes that long, {flag}, {help}",
        payer.name()
    )
}

/// Returns the message of the memory limit of the payer; with `is_vm` that of its whole VM.
pub(super) fn memory(payer: LimitOwner, is_vm: bool, allowance: &Allowance) -> String {
    if is_vm || payer == LimitOwner::Start {
        return format!(
            "the script has used up its memory in this worker, {} MiB for all requests and all \
             that it keeps: raise it with --lua-vm-memory, or keep less in variables and in \
             pinion.cached",
            allowance.vm_memory_bytes >> 20
        );
    }
    format!(
        "{} has used up its memory of {} MiB: raise it with --lua-memory, or handle the data in \
         pieces, as req:pieces and res:stream do",
        payer.name(),
        allowance.memory_bytes >> 20
    )
}

/// Returns the message of the limit of steps, in which searches in strings and other work are
/// counted.
pub(super) fn steps(payer: LimitOwner, allowance: &Allowance) -> String {
    format!(
        "too many steps: {} has used up its {} steps for searches in strings and for JSON, which \
         no flag raises: use a simpler pattern or shorter texts, or split the work with \
         pinion.spawn",
        payer.name(),
        allowance.steps
    )
}

/// Returns the message of the limit of the body of a request; `route` is the pattern that has
/// matched, if one has, and `is_page` tells whether it is the pattern of a page.
pub(super) fn body(limit: BodyLimit, route: Option<&str>, is_page: bool) -> String {
    let BodyLimit { bytes, set_by } = limit;
    let of_route = route.map_or_else(String::new, |route| format!(" of the route {route:?}"));
    let raise = if is_page {
        "allow more with req:limit in a middleware".to_owned()
    } else if route.is_none() {
        "allow more with req:limit".to_owned()
    } else {
        format!("allow more with the option `body`{of_route} or with req:limit")
    };
    match set_by {
        LimitSetter::Default => {
            format!("the request body is larger than {bytes} bytes, the default: {raise}")
        }
        LimitSetter::Form => format!(
            "the request body is larger than {bytes} bytes, the default for a form with files: \
             {raise}"
        ),
        LimitSetter::Route => format!(
            "the request body is larger than {bytes} bytes, which the option `body`{of_route} \
             allows: raise that option"
        ),
        LimitSetter::Script => format!(
            "the request body is larger than {bytes} bytes, which a call of req:limit allows for \
             the request{of_route}: raise that value"
        ),
    }
}

/// Returns the message of the time limit of a request, `wall_ms`; `is_of_route` is true when its
/// route has set it.
pub(crate) fn time(wait: TimeLimitKind, wall_ms: u64, is_of_route: bool) -> String {
    let seconds = wall_ms as f64 / 1000.0;
    let raise = if is_of_route {
        "raise the option `time` of its route"
    } else {
        "raise it with --lua-time or with the option `time` of the route"
    };
    match wait {
        TimeLimitKind::Total => format!(
            "the request has taken longer than {seconds} s: {raise}, or do slow work after the \
             response with pinion.spawn"
        ),
        TimeLimitKind::SinceWrite => format!(
            "the response has written nothing for {seconds} s: write something more often, or \
             {raise}"
        ),
        TimeLimitKind::Client => format!(
            "the client reads the response too slowly: it may keep the handler waiting for {} s \
             at a time and for {} s in all, which no flag raises",
            ROOM_WAIT_ONCE_MS / 1000,
            ROOM_WAIT_MAX_MS / 1000
        ),
    }
}

/// Returns the message of the time limit of background work.
pub(crate) fn background_time(allowance: &Allowance) -> String {
    let seconds = background_wall_ms(allowance) as f64 / 1000.0;
    format!(
        "the background work has taken longer than {seconds} s: raise it with a larger \
         --lua-time, or do it in shorter runs with pinion.every"
    )
}

/// Returns the message of the time limit of a page, `wall_ms`, that waits for a call of a function
/// by its script.
pub(crate) fn never_done(awaited: Awaited, wall_ms: u64) -> String {
    let seconds = wall_ms as f64 / 1000.0;
    match awaited {
        Awaited::Block => format!(
            "the block `<?lua` that starts at this line has not called done() within {seconds} s, \
             and the page waits for that: call done() at its end, or write `<?lu` for code that \
             passes no callback"
        ),
        Awaited::Await => format!(
            "the function that starts at this line, which await has called, has not called its \
             parameter within {seconds} s, and the page waits for that"
        ),
    }
}

/// Returns the time limit of background work, in milliseconds: at least that of a request.
pub(crate) fn background_wall_ms(allowance: &Allowance) -> u64 {
    allowance.wall_ms.max(BACKGROUND_WALL_MAX_MS)
}

/// Returns the message for work in a script that was replaced too often.
pub(crate) fn replaced(task: &str) -> String {
    format!(
        "{task} was ended: the script was reloaded more than {OLD_VMS_MAX} times since it began, \
         which no flag raises"
    )
}

impl Vm {
    /// Returns the payer of a task.
    pub(super) fn payer(&self, id: TaskId) -> LimitOwner {
        if self.is_program {
            return LimitOwner::Program;
        } else if id == TaskId::NONE {
            return LimitOwner::Start;
        }
        let mut tasks = self.tasks();
        let payer = tasks.budget_owner(id).unwrap_or(id);
        match tasks.task(payer) {
            Some(Task::Background(_)) => LimitOwner::Background,
            Some(Task::Request(_)) | None => LimitOwner::Request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message of each limit names it, its value, and the way to raise it.
    #[test]
    fn every_limit_message_names_its_value_and_its_option() {
        let allowance = Allowance {
            cpu_ms: 7_001,
            memory_bytes: 3 << 20,
            vm_memory_bytes: 5 << 20,
            wall_ms: 700_500,
            steps: 123_456,
            ..Allowance::default()
        };
        for payer in
            [LimitOwner::Start, LimitOwner::Request, LimitOwner::Background, LimitOwner::Program]
        {
            let request_only = payer != LimitOwner::Start;
            for (why, value, flag) in [
                (cpu(payer, &allowance), "7001 ms", "--lua-cpu"),
                (memory(payer, true, &allowance), "5 MiB", "--lua-vm-memory"),
                (steps(payer, &allowance), "123456", "no flag"),
            ] {
                assert!(why.contains(value) && why.contains(flag), "{why}");
                assert!(!why.contains('\n') && why.len() < 260, "{why}");
            }
            let why = memory(payer, false, &allowance);
            let expected = if request_only { ("3 MiB", "--lua-memory") } else { ("5 MiB", "-vm-") };
            assert!(why.contains(expected.0) && why.contains(expected.1), "{why}");
        }
        for (why, value, flag) in [
            (time(TimeLimitKind::Total, 700_500, false), "700.5 s", "--lua-time"),
            (time(TimeLimitKind::SinceWrite, 700_500, false), "700.5 s", "--lua-time"),
            (time(TimeLimitKind::Total, 50, true), "0.05 s", "option `time` of its route"),
            (time(TimeLimitKind::SinceWrite, 50, true), "0.05 s", "option `time` of its route"),
            (time(TimeLimitKind::Client, 50, false), "300 s", "no flag"),
            (background_time(&allowance), "700.5 s", "--lua-time"),
            (background_time(&Allowance::default()), "600 s", "--lua-time"),
            (replaced("the request"), "4 times", "no flag"),
            (never_done(Awaited::Block, 50), "0.05 s", "done()"),
            (never_done(Awaited::Await, 50), "0.05 s", "await"),
        ] {
            assert!(why.contains(value) && why.contains(flag), "{why}");
        }
    }

    #[test]
    fn the_body_limit_message_names_value_route_and_setting() {
        use LimitSetter::{Default, Form, Route, Script};
        for (set_by, route, is_page, words) in [
            (Default, Some("/up"), false, &["the default:", "`body` of the route \"/up\""][..]),
            (Default, Some("/up"), true, &["the default:", "req:limit in a middleware"]),
            (Default, None, false, &["the default: allow more with req:limit"]),
            (Form, Some("/up"), false, &["a form with files", "`body` of the route \"/up\""]),
            (Route, Some("/up"), false, &["option `body` of the route \"/up\" allows: raise"]),
            (Script, Some("/up"), false, &["req:limit allows", "the request of the route \"/up\""]),
        ] {
            let why = body(BodyLimit { bytes: 7_001, set_by }, route, is_page);
            for word in words {
                assert!(why.contains("larger than 7001 bytes") && why.contains(word), "{why}");
            }
            assert!(!why.contains('\n') && why.len() < 200, "{why}");
        }
    }
}
