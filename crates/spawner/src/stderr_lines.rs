//! Turns the standard error of programs into lines of the log: the bytes are split into lines,
//! bounded in length and number, and control characters are escaped so that no line can imitate
//! another one.

use std::fmt::Write as _;

use crate::limits::{LINE_MAX_BYTES, LINES_BURST, LINES_PER_SECOND, LOG_LINE_MAX_BYTES};
use crate::nonblocking_log::LineLost;

/// The function that writes a line.
pub(crate) type LineOutput<'o> = &'o mut dyn FnMut(&[u8]) -> Result<(), LineLost>;

/// The splitter for the lines of one program.
#[derive(Debug)]
pub(crate) struct StderrLines {
    /// The prefix of each line, `pinion: NAME[PID]: `.
    prefix: String,
    /// The incomplete line, without the bytes that exceed the limit.
    line: Vec<u8>,
    /// The number of bytes of the incomplete line that are left out.
    cut_bytes: u64,
    bucket: LineBucket,
    left_out: u64,
    /// The time of the last bytes, in milliseconds.
    fed_ms: u64,
}

/// A token bucket of lines. It bounds the lines of a program, so that the program cannot fill the
/// log.
#[derive(Debug)]
pub struct LineBucket {
    /// The tokens, in thousandths of a line.
    tokens: u64,
    filled_ms: u64,
}

/// The tokens, in thousandths of a line.
const LINE: u64 = 1000;

impl Default for LineBucket {
    fn default() -> Self {
        Self { tokens: LINES_BURST * LINE, filled_ms: 0 }
    }
}

impl LineBucket {
    /// Takes a line out of the bucket. Returns whether there was one.
    pub fn take(&mut self, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.filled_ms);
        self.filled_ms = now_ms;
        let fresh = passed_ms.saturating_mul(LINES_PER_SECOND);
        self.tokens = self.tokens.saturating_add(fresh).min(LINES_BURST * LINE);
        let has_line = self.tokens >= LINE;
        if has_line {
            self.tokens -= LINE;
        }
        has_line
    }
}

impl StderrLines {
    pub(crate) fn new(name: &str, pid: i32) -> Self {
        Self {
            prefix: format!("pinion: {name}[{pid}]: "),
            line: Vec::new(),
            cut_bytes: 0,
            bucket: LineBucket::default(),
            left_out: 0,
            fed_ms: 0,
        }
    }

    /// Accepts the next bytes of the program and writes the lines that they complete. Lines beyond
    /// the rate, and lines that cannot be written, are counted.
    pub(crate) fn feed(&mut self, bytes: &[u8], now_ms: u64, output: LineOutput<'_>) {
        self.fed_ms = now_ms;
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let space = LINE_MAX_BYTES - self.line.len();
            let (kept, cut) = piece.split_at(piece.len().min(space));
            self.line.extend_from_slice(kept);
            self.cut_bytes += cut.len() as u64;
            if pieces.peek().is_some() {
                self.end_line(now_ms, output);
            }
        }
    }

    /// Writes the rest at the end of the program: a line without a line feed, and the number of
    /// lines that were left out.
    pub(crate) fn finish(&mut self, now_ms: u64, output: LineOutput<'_>) {
        if !self.line.is_empty() {
            self.end_line(now_ms, output);
        }
        self.report_left_out(output);
    }

    /// Returns whether lines were left out that were not reported in the log yet.
    pub(crate) fn has_left_out(&self) -> bool {
        self.left_out > 0
    }

    /// Returns whether the program has written nothing for a second. Then no next line is expected
    /// soon that would report the number of lines left out.
    pub(crate) fn is_quiet(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.fed_ms) >= 1000
    }

    /// Writes the number of lines that were left out.
    pub(crate) fn report_left_out(&mut self, output: LineOutput<'_>) {
        if self.left_out == 0 {
            return;
        }
        let line = format!("{}{} lines were left out\n", self.prefix, self.left_out);
        if output(line.as_bytes()).is_ok() {
            self.left_out = 0;
        }
    }

    fn end_line(&mut self, now_ms: u64, output: LineOutput<'_>) {
        if self.bucket.take(now_ms) {
            self.report_left_out(output);
            let mut line = self.prefix.clone().into_bytes();
            let cut = match self.cut_bytes {
                0 => String::from("\n"),
                bytes => format!(" ({bytes} bytes were left out)\n"),
            };
            escape(&self.line, LOG_LINE_MAX_BYTES - cut.len(), &mut line);
            line.extend_from_slice(cut.as_bytes());
            if output(&line).is_err() {
                self.left_out += 1;
            }
        } else {
            self.left_out += 1;
        }
        // A program that logs little does not keep the memory of one long line.
        self.line = Vec::new();
        self.cut_bytes = 0;
    }
}

/// Appends a text to a line of at most `max` bytes. Control characters and bytes that are not UTF-8
/// become escapes. The text is cut at the border of a character if it does not fit.
pub fn escape(text: &[u8], max: usize, line: &mut Vec<u8>) {
    let mut escaped = String::new();
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            escaped.clear();
            match character {
                '\t' => escaped.push_str("\\t"),
                '\r' => escaped.push_str("\\r"),
                control if control.is_ascii_control() => {
                    // Writing to a string cannot fail.
                    let _ = write!(escaped, "\\x{:02x}", u32::from(control));
                }
                control if control.is_control() => {
                    let _ = write!(escaped, "\\u{{{:x}}}", u32::from(control));
                }
                other => escaped.push(other),
            }
            if line.len() + escaped.len() > max {
                return;
            }
            line.extend_from_slice(escaped.as_bytes());
        }
        for byte in chunk.invalid() {
            if line.len() + 4 > max {
                return;
            }
            line.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines_of(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut written) = (StderrLines::new("app", 7), Vec::new());
        let mut output = |line: &[u8]| {
            written.push(String::from_utf8(line.to_vec()).expect("escaped"));
            Ok(())
        };
        for piece in pieces {
            lines.feed(piece, 0, &mut output);
        }
        lines.finish(0, &mut output);
        written
    }

    #[test]
    fn lines_are_whole_and_escaped() {
        let lines = lines_of(&[b"one\ntw", b"o\n\x1b[31mred\x7f\t\xff \xc2\x9b\r\n", b"rest"]);
        let expected = [
            "pinion: app[7]: one\n",
            "pinion: app[7]: two\n",
            "pinion: app[7]: \\x1b[31mred\\x7f\\t\\xff \\u{9b}\\r\n",
            "pinion: app[7]: rest\n",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_long_line_is_cut() {
        let lines = lines_of(&[&b"x".repeat(LINE_MAX_BYTES), b"yy\nz\n"]);
        assert!(lines[0].ends_with("xx (2 bytes were left out)\n"), "{}", lines[0]);
        assert_eq!(lines[1], "pinion: app[7]: z\n");
        let escaped = lines_of(&[&b"\x01".repeat(LINE_MAX_BYTES)]);
        assert!(escaped[0].len() <= LOG_LINE_MAX_BYTES && escaped[0].ends_with("\\x01\n"));
    }

    #[test]
    fn a_flood_of_lines_is_limited_and_counted() {
        let lines = lines_of(&[&b"y\n".repeat(10_000)]);
        let burst = usize::try_from(LINES_BURST).expect("fits");
        assert_eq!(lines.len(), burst + 1);
        assert_eq!(
            lines[burst],
            format!("pinion: app[7]: {} lines were left out\n", 10_000 - burst)
        );
    }

    #[test]
    fn the_allowance_of_lines_refills_over_time() {
        let mut bucket = LineBucket::default();
        assert!((0..LINES_BURST).all(|_| bucket.take(0)));
        assert!(!bucket.take(0));
        assert_eq!((0..1000).filter(|_| bucket.take(1000)).count() as u64, LINES_PER_SECOND);
        assert_eq!((0..1000).filter(|_| bucket.take(u64::MAX)).count() as u64, LINES_BURST);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let (mut lines, mut written) = (StderrLines::new("app", 7), Vec::new());
        lines.feed(b"a\nb\n", 0, &mut |_| Err(LineLost));
        assert!(lines.has_left_out());
        lines.feed(b"c\n", 0, &mut |line| {
            written.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        });
        assert_eq!(written, ["pinion: app[7]: 2 lines were left out\n", "pinion: app[7]: c\n"]);
    }

    proptest! {
        #[test]
        fn each_line_is_one_printable_line_however_it_is_split(
            text in prop::collection::vec(any::<u8>(), 0..6000),
            size in 1usize..700,
        ) {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            let lines = lines_of(&pieces);
            let whole = lines_of(&[&text]);
            prop_assert_eq!(&lines, &whole);
            let expected = text.split_inclusive(|byte| *byte == b'\n').count();
            prop_assert_eq!(lines.len(), expected);
            for line in lines {
                prop_assert!(line.len() <= LOG_LINE_MAX_BYTES);
                let printable = line.strip_suffix('\n').expect("a line");
                prop_assert!(!printable.contains(char::is_control), "{:?}", printable);
            }
        }
    }
}
