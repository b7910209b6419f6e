//! Requests that are being answered, each under a number that no later one has.

use crate::answer::Answer;
use crate::content::Content;
use crate::limits::{CPU_MAX_MS, MEMORY_MAX_BYTES};
use crate::pattern::limits::DEFAULT_STEPS;
use crate::request::Request;
use mlua::Thread as Coroutine;
use pinion_http::coding::Coding;
use std::time::Duration;

/// The number of a request, as scripts hold it: a whole number that a double keeps. One that is
/// over has none of those that live.
pub(crate) type TaskId = f64;

/// So many can live at once in a worker; the numbers above say which tenant of its place it is.
const PLACES: usize = 1 << 20;

/// One request and how far its answer is.
#[derive(Debug, Default)]
pub(crate) struct Task {
    tenant: u64,
    is_live: bool,
    pub(crate) request: Request,
    pub(crate) answer: Answer,
    /// Where it goes on; none while it runs.
    pub(crate) coroutine: Option<Coroutine>,
    /// What it waits for.
    pub(crate) waits: Waits,
    pub(crate) content: Content,
    pub(crate) left: Left,
    /// The head has gone out.
    pub(crate) has_begun: bool,
    /// Its content may be compressed, and the client likes it in this coding.
    pub(crate) is_compressed: bool,
    pub(crate) coding: Option<Coding>,
    /// Bytes of content that have gone out.
    pub(crate) sent_bytes: u64,
    /// Its error handler runs.
    pub(crate) is_failing: bool,
    /// When it has to be done, in monotonic milliseconds.
    pub(crate) deadline_ms: u64,
}

/// What a task waits for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing: it runs, or is over.
    #[default]
    No,
    /// A time, in monotonic milliseconds.
    Until(u64),
    /// Content of the request.
    Content,
    /// Room for more of the answer.
    Room,
}

/// What a request may still use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    pub(crate) cpu: Duration,
    pub(crate) memory_bytes: usize,
    /// Steps of searches in strings.
    pub(crate) steps: u64,
}

impl Default for Left {
    fn default() -> Self {
        Self {
            cpu: Duration::from_millis(CPU_MAX_MS),
            memory_bytes: MEMORY_MAX_BYTES,
            steps: DEFAULT_STEPS,
        }
    }
}

/// All that live in a worker.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    places: Vec<Task>,
    free: Vec<usize>,
}

impl Tasks {
    /// A new one, as good as new but for the memory it has; none when there is no place left.
    pub(crate) fn begin(&mut self) -> Option<TaskId> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.places.len() == PLACES => return None,
            None => {
                self.places.push(Task::default());
                self.places.len() - 1
            }
        };
        let task = &mut self.places[at];
        task.is_live = true;
        task.answer.clear();
        task.waits = Waits::No;
        task.left = Left::default();
        (task.is_compressed, task.coding) = (true, None);
        (task.has_begun, task.is_failing, task.sent_bytes) = (false, false, 0);
        Some(((task.tenant + 1) * PLACES as u64 + at as u64) as f64)
    }

    /// One that lives.
    pub(crate) fn get(&mut self, id: TaskId) -> Option<&mut Task> {
        let number = id as u64;
        let task = self.places.get_mut((number % PLACES as u64) as usize)?;
        (task.is_live && task.tenant + 1 == number / PLACES as u64).then_some(task)
    }

    /// It is over.
    pub(crate) fn end(&mut self, id: TaskId) {
        let Some(task) = self.get(id) else { return };
        task.is_live = false;
        // A double counts them exactly for longer than any server runs.
        task.tenant += 1;
        task.coroutine = None;
        task.content = Content::default();
        self.free.push((id as u64 % PLACES as u64) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_never_that_of_another_request() {
        let mut tasks = Tasks::default();
        let mut seen = Vec::new();
        for _ in 0..100 {
            let (one, two) = (tasks.begin().expect("a place"), tasks.begin().expect("a place"));
            assert_ne!(one, two);
            assert!(!seen.contains(&one) && !seen.contains(&two));
            seen.extend([one, two]);
            tasks.end(one);
            assert!(tasks.get(one).is_none() && tasks.get(two).is_some());
            tasks.end(one);
            assert_eq!(tasks.free.len(), 1);
            tasks.end(two);
        }
        assert_eq!((tasks.free.len(), tasks.places.len()), (2, 2));
        let one = Tasks::default().begin();
        assert!(one.is_some_and(|one| one > 0.0));
        for id in [0.0, -1.0, 0.5, f64::NAN, f64::INFINITY, 1e18] {
            assert!(tasks.get(id).is_none(), "{id}");
        }
    }
}
