//! Generates the Lua of a page.
//!
//! Consecutive text and values, up to [`RUN_MAX_PIECES`](crate::limits::RUN_MAX_PIECES), are
//! appended to the output at once, each as a piece of its own: a concatenation would make a new
//! text of Lua for each run, which costs more than the pieces. A value that calls a function may
//! write as well, so all text before it is sent first, and all values are computed before the first
//! is appended.
//!
//! ```lua
//! local __s,__e=... local __esc_html=__e.esc_html return function(__p,__o) local query=__p.query
//! do local __1=__esc_html(query.name)
//! local __n=__o.n __o[__n+1]=__s[1] __o[__n+2]=__1 __o[__n+3]=__s[2]
//! __n=__n+3 __o.n=__n if __n>__o.most then __o:full()end end
//! end
//! ```
//!
//! Each generated line comes from one line of one file, and the code of blocks is copied as it is.

use std::collections::HashMap;

use crate::compiled_template::{PAGE_VALUES, SourceLine};
use crate::escaping::Context;
use crate::include_expansion::{ExpandedPage, Flat};
use crate::limits::RUN_MAX_PIECES;
use crate::lua::ChunkReport;
use crate::source_pieces::{PieceKind, Show, TemplateSource};
use crate::value_suffix::Conversion;

/// Returns the source, the segments, and the origin of each line.
pub(crate) fn chunk(
    page: &ExpandedPage<'_>,
    report: &ChunkReport,
) -> (Vec<u8>, Vec<Vec<u8>>, Vec<SourceLine>) {
    let first = SourceLine { file: 0, line: 1 };
    let mut emitter = Emitter {
        page,
        out: Vec::new(),
        lines: vec![first],
        is_fresh: true,
        segments: Vec::new(),
        known: HashMap::new(),
        has_fragments: uses_fragments(report),
        run: Vec::new(),
    };
    emitter.head(report);
    let mut shown = report.shown.iter();
    for &flat in &page.flats {
        emitter.piece(flat, &mut shown);
    }
    emitter.flush();
    emitter.at(first);
    emitter.write(b" end");
    (emitter.out, emitter.segments, emitter.lines)
}

fn uses_fragments(report: &ChunkReport) -> bool {
    PAGE_VALUES
        .iter()
        .zip(&report.used_values)
        .any(|(name, is_used)| *name == "fragment" && *is_used)
}

struct Emitter<'a> {
    page: &'a ExpandedPage<'a>,
    out: Vec<u8>,
    lines: Vec<SourceLine>,
    /// Whether the last line is still empty.
    is_fresh: bool,
    segments: Vec<Vec<u8>>,
    /// The numbers of segments by their bytes.
    known: HashMap<Vec<u8>, usize>,
    /// Whether each block that waits also gets `fragment`, because it writes to an output of its
    /// own.
    has_fragments: bool,
    /// The parts of the run that are appended together.
    run: Vec<EmittedPart<'a>>,
}

/// A part of the output.
enum EmittedPart<'a> {
    Text { origin: SourceLine, bytes: Vec<u8> },
    Value { origin: SourceLine, source: &'a TemplateSource<'a>, show: &'a Show, context: Context },
}

impl<'a> Emitter<'a> {
    fn head(&mut self, report: &ChunkReport) {
        self.write(b"local __s,__e=...");
        for context in Context::ALL {
            let (name, function) = (context.variable(), context.function());
            let is_shown = report.shown.iter().any(|(used, _)| *used == context);
            // With this function, a format for texts accepts every value that can be shown.
            if is_shown || context == Context::Raw {
                self.write(format!(" local {name}=__e.{function}").as_bytes());
            }
        }
        self.write(b" local __format=__e.format return function(__p,__o)");
        for (name, _) in
            PAGE_VALUES.iter().zip(&report.used_values).filter(|(_, is_used)| **is_used)
        {
            self.write(format!(" local {name}=__p.{name}").as_bytes());
        }
    }

    /// Copies code; each end of a line in it becomes one of Lua.
    fn write(&mut self, code: &[u8]) {
        for &byte in code {
            self.out.push(byte);
            self.is_fresh = byte == b'\n';
            if byte == b'\n' {
                let Some(&last) = self.lines.last() else { return };
                self.lines.push(SourceLine { line: last.line + 1, ..last });
            }
        }
    }

    /// Starts a new line if the present one does not come from `origin`.
    fn at(&mut self, origin: SourceLine) {
        if self.lines.last() == Some(&origin) {
            return;
        }
        if !self.is_fresh {
            self.write(b"\n");
        }
        if let Some(last) = self.lines.last_mut() {
            *last = origin;
        }
    }

    fn piece(&mut self, flat: Flat, shown: &mut std::slice::Iter<'_, (Context, bool)>) {
        let page = self.page;
        let source = page.source(flat);
        let piece = &source.pieces[flat.piece];
        let origin = SourceLine { file: flat.source as u32, line: piece.line };
        match &piece.kind {
            PieceKind::Text(range) => self.text(origin, &source.bytes[range.clone()]),
            PieceKind::Show(rank) => {
                let Some(&(context, calls)) = shown.next() else { return };
                if calls || self.run.len() >= RUN_MAX_PIECES {
                    self.flush();
                }
                let show = &source.shows[*rank];
                self.run.push(EmittedPart::Value { origin, source, show, context });
            }
            PieceKind::Lua { bytes, .. } => {
                self.flush();
                self.at(origin);
                // The code of another piece may end without a separator.
                self.write(b" ");
                self.code(&source.bytes[bytes.clone()]);
                // The code may end with a comment.
                self.write(b"\n");
            }
            PieceKind::AsyncOpen => {
                self.flush();
                self.at(origin);
                let parameters: &[u8] =
                    if self.has_fragments { b"done,__o,write,fragment" } else { b"done,__o,write" };
                self.write(&[b" __p.async(function(", parameters, b")"].concat());
            }
            PieceKind::AsyncClose => {
                self.flush();
                self.at(origin);
                self.write(b" end);");
            }
            PieceKind::Include(_)
            | PieceKind::Layout(_)
            | PieceKind::SlotOpen(_)
            | PieceKind::SlotClose
            | PieceKind::Yield(_) => {}
        }
    }

    fn text(&mut self, origin: SourceLine, more: &[u8]) {
        if let Some(EmittedPart::Text { bytes, .. }) = self.run.last_mut() {
            bytes.extend_from_slice(more);
            return;
        }
        if self.run.len() >= RUN_MAX_PIECES {
            self.flush();
        }
        self.run.push(EmittedPart::Text { origin, bytes: more.to_vec() });
    }

    /// Copies code of a file. Lua counts a carriage return as the end of a line, and editors do
    /// not; to Lua all ends of lines are alike.
    fn code(&mut self, code: &[u8]) {
        let mut before = 0;
        for (at, &byte) in code.iter().enumerate() {
            if byte != b'\r' {
                continue;
            }
            self.write(&code[before..at]);
            before = at + 1;
            if code.get(at + 1) == Some(&b'\n') {
                continue;
            }
            let line = self.lines.last().map_or(1, |last| last.line);
            self.write(b"\n");
            if let Some(last) = self.lines.last_mut() {
                last.line = line;
            }
        }
        self.write(&code[before..]);
    }

    /// Writes the code that appends the collected run.
    fn flush(&mut self) {
        let run = std::mem::take(&mut self.run);
        let Some(EmittedPart::Text { origin, .. } | EmittedPart::Value { origin, .. }) =
            run.first()
        else {
            return;
        };
        self.at(*origin);
        let (mut pieces, mut values) = (Vec::with_capacity(run.len()), 0);
        self.write(b" do");
        for part in run {
            pieces.push(match part {
                EmittedPart::Text { bytes, .. } => format!("__s[{}]", self.segment(bytes)),
                EmittedPart::Value { origin, source, show, context } => {
                    values += 1;
                    self.at(origin);
                    self.write(format!(" local __{values}=").as_bytes());
                    self.value(source, show, context);
                    format!("__{values}")
                }
            });
        }
        self.write(b" local __n=__o.n");
        for (rank, piece) in pieces.iter().enumerate() {
            self.write(format!(" __o[__n+{}]={piece}", rank + 1).as_bytes());
        }
        let end =
            format!(" __n=__n+{} __o.n=__n if __n>__o.most then __o:full()end end", pieces.len());
        self.write(end.as_bytes());
    }

    fn value(&mut self, source: &TemplateSource<'_>, show: &Show, context: Context) {
        let is_plain = show
            .conversion
            .as_ref()
            .is_some_and(|conversion| conversion.is_number && context.takes_numbers());
        let (escape, raw) = (context.variable(), Context::Raw.variable());
        let (opening, closing): (String, &[u8]) = match &show.conversion {
            None => (format!("{escape}("), b")"),
            Some(Conversion { text, .. }) if is_plain => (format!("__format(\"{text}\","), b")"),
            Some(Conversion { text, is_text: true, .. }) => {
                (format!("{escape}(__format(\"{text}\",{raw}("), b")))")
            }
            Some(Conversion { text, .. }) => (format!("{escape}(__format(\"{text}\","), b"))"),
        };
        self.write(opening.as_bytes());
        let (Some(first), Some(last)) = (
            source.tokens(&show.tokens).first().copied(),
            source.tokens(&show.tokens).last().copied(),
        ) else {
            return;
        };
        if let Some(SourceLine { file, .. }) = self.lines.last().copied() {
            self.at(SourceLine { file, line: first.line });
        }
        // A call that returns several values shows its first one.
        self.write(b"(");
        self.code(&source.bytes[first.start as usize..last.end as usize]);
        self.write(b")");
        self.write(closing);
    }

    /// Returns the number of a segment, from 1 as Lua counts.
    fn segment(&mut self, bytes: Vec<u8>) -> usize {
        if let Some(&number) = self.known.get(&bytes) {
            return number;
        }
        self.segments.push(bytes.clone());
        self.known.insert(bytes, self.segments.len());
        self.segments.len()
    }
}
