//! The messages that applications write to their error streams, in the log of the server.

use super::log_limits::MESSAGE_LINE_MAX_BYTES;
use pinion_engine::stderr;
use pinion_gateway::proxy::ApplicationMessage;
use pinion_spawner::LineBucket;

/// Logs messages of applications, with a limited rate of lines.
#[derive(Default)]
pub(super) struct ApplicationMessageLog {
    /// Bounds the lines that are logged.
    lines: LineBucket,
    /// The number of lines that were left out since the last logged line.
    left_out: u64,
}

impl ApplicationMessageLog {
    /// Logs the lines of a message.
    #[cold]
    pub(super) fn log(&mut self, message: &ApplicationMessage, now_ms: u64) {
        let ApplicationMessage { server, text } = message;
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        for line in lines.filter(|line| !line.is_empty()) {
            if !self.lines.take(now_ms) {
                self.left_out += 1;
                continue;
            }
            if let count @ 1.. = std::mem::take(&mut self.left_out) {
                stderr::line(format_args!("pinion: {count} lines of applications were left out"));
            }
            let mut escaped = Vec::new();
            pinion_spawner::escape(line, MESSAGE_LINE_MAX_BYTES, &mut escaped);
            let line = String::from_utf8_lossy(&escaped);
            stderr::line(format_args!("pinion: {server}: {line}"));
        }
    }
}
