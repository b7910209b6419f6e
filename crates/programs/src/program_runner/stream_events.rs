//! Handles the events of the streams of programs, and of the stream of the spawner's answers.

use pinion_engine::app::{ByteStreamEvent, Gone};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_spawner::reply::{ReplyReader, SpawnerReply};

use super::{ProgramRunner, SpawnerLink};
use crate::program_run::{Exit, RunId, RunStage, RunStream};
use crate::run_error::{ReasonText, RunError, StageText};

impl ProgramRunner {
    pub(super) fn answers_event(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        match event {
            ByteStreamEvent::Open => stream.want(u64::MAX),
            ByteStreamEvent::Bytes(bytes) => {
                let mut found = Vec::new();
                let mut is_garbled = false;
                self.replies.feed(bytes, |reply| match reply {
                    Some(reply) => found.push(reply),
                    None => is_garbled = true,
                });
                for reply in found {
                    self.answered(reply);
                }
                if is_garbled {
                    stream.abort();
                    self.connection_is_lost();
                }
            }
            ByteStreamEvent::End => {
                stream.close();
                self.connection_is_lost();
            }
            ByteStreamEvent::Gone(_) => self.connection_is_lost(),
            _ => {}
        }
    }

    fn answered(&mut self, reply: SpawnerReply) {
        let id = RunId(reply.id());
        if !matches!(reply, SpawnerReply::Started { .. }) {
            self.ending.remove(&id);
        }
        let Some(run) = self.runs.get_mut(&id) else { return };
        match reply {
            SpawnerReply::Started { pid, .. } => {
                (run.stage, run.pid) = (RunStage::Running, Some(pid));
            }
            SpawnerReply::Exited { status, .. } => self.ended(id, Exit::Status(status)),
            SpawnerReply::Signaled { signal, .. } => self.ended(id, Exit::Signal(signal)),
            SpawnerReply::Failed { stage, errno, .. } => {
                run.stage = RunStage::NotStarted;
                let stage = StageText(stage);
                return self.fail(id, RunError::NotStarted { stage, errno });
            }
            SpawnerReply::Rejected { reason, .. } => match run.stage {
                // A stop or signal request reached the spawner after the end of the program.
                RunStage::Running | RunStage::Ended(_) => return,
                _ => {
                    run.stage = RunStage::NotStarted;
                    return self.fail(id, RunError::Rejected(ReasonText(reason)));
                }
            },
        }
        self.went_on(id);
    }

    /// Handles the end of the program of a run.
    fn ended(&mut self, id: RunId, exit: Exit) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.stage = RunStage::Ended(exit);
        if run.is_read {
            return;
        }
        run.is_read = true;
        self.to_do.push_back(id);
        let is_over = |id: &RunId| self.runs.get(id).is_none_or(|run| run.is_read);
        while self.unread.front().is_some_and(|(_, first)| is_over(first)) {
            self.unread.pop_front();
        }
    }

    /// Announces news of a run to the caller, and removes its deadline if the run is over.
    pub(super) fn went_on(&mut self, id: RunId) {
        if let Some(run) = self.runs.get(&id).filter(|run| run.is_over()) {
            self.deadlines.remove(&(run.due_ms, id));
        }
        self.announce(id);
    }

    /// Handles the end of the connection to the spawner. The spawner stops the programs that were
    /// started over the connection. The next program opens a new one.
    fn connection_is_lost(&mut self) {
        self.link = SpawnerLink::Unused;
        self.replies = ReplyReader::default();
        self.ending.clear();
        let lost = self.runs.iter().filter(|(_, run)| run.may_run());
        let lost: Vec<RunId> = lost.map(|(id, _)| *id).collect();
        for id in lost {
            self.fail(id, self.why_lost());
            if let Some(run) = self.runs.get_mut(&id) {
                run.stage = RunStage::NotStarted;
            }
        }
        self.to_stop.clear();
    }

    pub(super) fn why_lost(&self) -> RunError {
        if self.access.has_ended() { RunError::SpawnerGone } else { RunError::Disconnected }
    }

    pub(super) fn output_event(
        &mut self,
        id: RunId,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        let Some(run) = self.runs.get_mut(&id) else { return stream.abort() };
        match event {
            ByteStreamEvent::Open => {}
            ByteStreamEvent::Bytes(bytes) => {
                run.credit = run.credit.saturating_sub(bytes.len() as u64);
                run.output.extend(*bytes);
                self.announce(id);
            }
            ByteStreamEvent::End => {
                stream.close();
                run.output_stream = RunStream::Over;
                self.went_on(id);
            }
            ByteStreamEvent::Gone(Gone::Peer) => {
                run.output_stream = RunStream::Over;
                self.went_on(id);
            }
            // The stream has failed, so an unknown part of the output is missing.
            ByteStreamEvent::Gone(_) => {
                run.output_stream = RunStream::Over;
                return self.fail(id, RunError::OutputLost);
            }
            _ => {}
        }
        self.to_do.push_back(id);
    }

    pub(super) fn input_event(
        &mut self,
        id: RunId,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        let Some(run) = self.runs.get_mut(&id) else { return stream.abort() };
        match event {
            ByteStreamEvent::Writable => run.is_blocked = false,
            ByteStreamEvent::Gone(Gone::Stalled) => {
                run.input_stream = RunStream::Over;
                return self.fail(id, RunError::InputStalled);
            }
            // The program has stopped reading its input early, as `head` does.
            ByteStreamEvent::Gone(_) => {
                run.input_stream = RunStream::Over;
                self.announce(id);
            }
            ByteStreamEvent::End => {
                stream.abort();
                run.input_stream = RunStream::Over;
                self.announce(id);
            }
            _ => {}
        }
        self.to_do.push_back(id);
    }
}
