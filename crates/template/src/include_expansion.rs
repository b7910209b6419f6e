//! Expands includes and layouts: one page from the pieces of many files.

use std::collections::HashMap;

use crate::compile_error::{FileFault, TemplateProblem};
use crate::include_path::resolve;
use crate::limits::{INCLUDE_DEPTH_MAX, INCLUDES_MAX, PAGE_MAX_BYTES};
use crate::lua::Parser;
use crate::source_pieces::{PieceKind, TemplateSource};
use crate::source_splitter::split;

/// A piece of a page: the index of its file, and its index in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flat {
    pub(crate) source: usize,
    pub(crate) piece: usize,
}

/// A page: files, and their pieces in the order of the output. Only text, values and Lua are left.
#[derive(Debug)]
pub(crate) struct ExpandedPage<'a> {
    pub(crate) sources: Vec<TemplateSource<'a>>,
    pub(crate) flats: Vec<Flat>,
    pub(crate) parallel: bool,
    /// Whether a file of it has a layout: then the order of the parts of the page differs from that
    /// in the file.
    pub(crate) with_layout: bool,
}

impl ExpandedPage<'_> {
    /// Returns the slot of the piece of this rank in its file, if it is in one.
    pub(crate) fn slot_of(&self, flat: usize) -> Option<&str> {
        let Flat { source, piece } = *self.flats.get(flat)?;
        let before = self.sources[source].pieces[..piece].iter().rev();
        let mut bounds = before.filter_map(|piece| match &piece.kind {
            PieceKind::SlotOpen(name) => Some(Some(name.as_str())),
            PieceKind::SlotClose => Some(None),
            _ => None,
        });
        bounds.next().flatten()
    }

    /// Returns the file of a piece.
    pub(crate) fn source(&self, flat: Flat) -> &TemplateSource<'_> {
        &self.sources[flat.source]
    }
}

/// Reads a page and all its includes and layouts.
pub(crate) fn expand<'a>(
    path: &str,
    lookup: &dyn Fn(&str) -> Option<&'a [u8]>,
) -> Result<ExpandedPage<'a>, TemplateProblem> {
    let bytes = lookup(path).ok_or_else(|| FileFault::new(1, "no such file").in_file(path))?;
    let mut expander = Expander {
        lookup,
        sources: Vec::new(),
        by_path: HashMap::new(),
        open: Vec::new(),
        includes: 0,
        size: 0,
        parallel: false,
        with_layout: false,
    };
    let first = expander.read(path, bytes)?;
    let flats = expander.page(first)?;
    let Expander { sources, parallel, with_layout, .. } = expander;
    let page = ExpandedPage { sources, flats, parallel, with_layout };
    for &flat in &page.flats {
        let source = page.source(flat);
        let piece = &source.pieces[flat.piece];
        if let PieceKind::Yield(_) = piece.kind {
            let message =
                "`<?yield ?>` outside of a layout; a page names one by `<?layout path ?>`";
            return Err(FileFault::new(piece.line, message).in_file(&source.path));
        }
    }
    Ok(page)
}

struct Expander<'a, 'b> {
    lookup: &'b dyn Fn(&str) -> Option<&'a [u8]>,
    sources: Vec<TemplateSource<'a>>,
    by_path: HashMap<String, usize>,
    /// The files that include the present one, outermost first.
    open: Vec<usize>,
    includes: usize,
    size: usize,
    parallel: bool,
    with_layout: bool,
}

/// The parts of a page for its layout.
#[derive(Default)]
struct LayoutParts {
    /// Code before all text: it runs before the layout does.
    opening: Vec<Flat>,
    content: Vec<Flat>,
    slots: HashMap<String, LayoutSlot>,
}

#[derive(Default)]
struct LayoutSlot {
    flats: Vec<Flat>,
    opened: Option<Flat>,
    is_taken: bool,
}

impl<'a> Expander<'a, '_> {
    fn read(&mut self, path: &str, bytes: &'a [u8]) -> Result<usize, TemplateProblem> {
        let source = split(path, bytes).map_err(|fault| fault.in_file(path))?;
        self.sources.push(source);
        self.by_path.insert(path.to_owned(), self.sources.len() - 1);
        Ok(self.sources.len() - 1)
    }

    /// Returns an error at a piece.
    fn fail<T>(&self, flat: Flat, message: impl Into<String>) -> Result<T, TemplateProblem> {
        let source = &self.sources[flat.source];
        Err(FileFault::new(source.pieces[flat.piece].line, message).in_file(&source.path))
    }

    fn kind(&self, flat: Flat) -> &PieceKind {
        &self.sources[flat.source].pieces[flat.piece].kind
    }

    /// Opens the file that a piece names; the caller closes it.
    fn open(&mut self, flat: Flat, written: &str) -> Result<usize, TemplateProblem> {
        self.includes += 1;
        if self.includes > INCLUDES_MAX {
            return self.fail(flat, format!("more than {INCLUDES_MAX} includes in one page"));
        }
        let Some(path) = resolve(&self.sources[flat.source].path, written) else {
            return self.fail(flat, format!("`{written}` leads above the root of the site"));
        };
        let chain = || {
            let files = self.open.iter().map(|&file| self.sources[file].path.as_str());
            files.chain([path.as_str()]).collect::<Vec<_>>().join(" → ")
        };
        if self.open.iter().any(|&file| self.sources[file].path == path) {
            return self.fail(flat, format!("files include each other: {}", chain()));
        }
        if self.open.len() > INCLUDE_DEPTH_MAX {
            let message =
                format!("more than {INCLUDE_DEPTH_MAX} files below each other: {}", chain());
            return self.fail(flat, message);
        }
        let source = match self.by_path.get(&path) {
            Some(&source) => source,
            None => match (self.lookup)(&path) {
                Some(bytes) => self.read(&path, bytes)?,
                None => return self.fail(flat, format!("there is no file {path}: {}", chain())),
            },
        };
        self.open.push(source);
        Ok(source)
    }

    /// Expands a page, or a layout, with its own layout around it.
    fn page(&mut self, source: usize) -> Result<Vec<Flat>, TemplateProblem> {
        if self.open.is_empty() {
            self.open.push(source);
        }
        let mut flats = Vec::new();
        self.include(source, &mut flats)?;
        let is_blank = |flat: &Flat| self.is_blank(*flat);
        let front = flats.iter().take_while(|flat| is_blank(flat)).count();
        let layout = flats.get(front).copied().filter(|flat| flat.source == source);
        let Some((flat, PieceKind::Layout(written))) =
            layout.map(|flat| (flat, self.kind(flat).clone()))
        else {
            self.refuse_stray(&flats)?;
            return Ok(flats);
        };
        let parts = self.parts(&flats[front + 1..])?;
        let layout = self.open(flat, &written)?;
        let around = self.page(layout)?;
        self.open.pop();
        self.with_layout = true;
        self.put_together((flat, layout), parts, &around)
    }

    /// Adds all pieces of a file, with those of the files that it includes in their places.
    fn include(&mut self, source: usize, flats: &mut Vec<Flat>) -> Result<(), TemplateProblem> {
        // Only the first line of the whole page counts.
        self.parallel |= flats.is_empty() && self.sources[source].parallel;
        for piece in 0..self.sources[source].pieces.len() {
            let flat = Flat { source, piece };
            self.size += self.sources[source].size(piece);
            if self.size > PAGE_MAX_BYTES {
                let most = PAGE_MAX_BYTES >> 20;
                return self.fail(
                    flat,
                    format!("the page is larger than {most} MiB with all that it includes"),
                );
            }
            if let PieceKind::Include(written) = self.kind(flat) {
                let written = written.clone();
                let included = self.open(flat, &written)?;
                self.include(included, flats)?;
                self.open.pop();
            } else {
                flats.push(flat);
            }
        }
        Ok(())
    }

    fn is_blank(&self, flat: Flat) -> bool {
        match self.kind(flat) {
            PieceKind::Text(range) => {
                self.sources[flat.source].bytes[range.clone()].trim_ascii().is_empty()
            }
            _ => false,
        }
    }

    /// Refuses tags that have a meaning only with a layout.
    fn refuse_stray(&self, flats: &[Flat]) -> Result<(), TemplateProblem> {
        for &flat in flats {
            match self.kind(flat) {
                PieceKind::Layout(_) => {
                    return self.fail(flat, "`<?layout ?>` is the first thing in a page");
                }
                PieceKind::SlotOpen(_) | PieceKind::SlotClose => {
                    let message = "a slot in a page without a layout; begin the page with \
                                   `<?layout path ?>`";
                    return self.fail(flat, message);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sorts the pieces of a page that has a layout.
    fn parts(&self, flats: &[Flat]) -> Result<LayoutParts, TemplateProblem> {
        let mut parts = LayoutParts::default();
        let opening = self.opening(flats, &mut parts.opening);
        let mut inside: Option<String> = None;
        let mut last = None;
        for &flat in &flats[opening..] {
            match (self.kind(flat), &inside) {
                (PieceKind::Layout(_), _) => {
                    return self.fail(flat, "`<?layout ?>` is the first thing in a page");
                }
                (PieceKind::SlotOpen(_), Some(name)) => {
                    return self.fail(flat, format!("the slot `{name}` is still open"));
                }
                (PieceKind::SlotOpen(name), None) => {
                    let slot = parts.slots.entry(name.clone()).or_default();
                    if slot.opened.replace(flat).is_some() {
                        return self.fail(flat, format!("a second slot `{name}`"));
                    }
                    inside = Some(name.clone());
                    last = Some(flat);
                }
                (PieceKind::SlotClose, None) => {
                    return self.fail(flat, "`<?/slot ?>` without `<?slot name ?>`");
                }
                (PieceKind::SlotClose, Some(_)) => inside = None,
                (_, Some(name)) => {
                    parts.slots.entry(name.clone()).or_default().flats.push(flat);
                }
                (_, None) => parts.content.push(flat),
            }
        }
        match (inside, last) {
            (Some(name), Some(flat)) => {
                self.fail(flat, format!("the slot `{name}` without its `<?/slot ?>`"))
            }
            _ => Ok(parts),
        }
    }

    /// Collects the code before all text of a page that is complete in itself, and returns the
    /// number of its pieces.
    fn opening(&self, flats: &[Flat], opening: &mut Vec<Flat>) -> usize {
        let mut at = 0;
        while let Some(&flat) = flats.get(at) {
            let source = &self.sources[flat.source];
            match self.kind(flat) {
                PieceKind::Lua { tokens, .. }
                    if Parser::is_whole(source.bytes, source.tokens(tokens)) =>
                {
                    opening.push(flat);
                    at += 1;
                }
                PieceKind::AsyncOpen => {
                    let is_end = |flat: &Flat| !matches!(self.kind(*flat), PieceKind::Lua { .. });
                    let length = flats[at + 1..].iter().position(is_end).unwrap_or_default();
                    let end = at + 1 + length;
                    let end_of = flats.get(end).map(|&flat| self.kind(flat));
                    if !matches!(end_of, Some(PieceKind::AsyncClose)) {
                        break;
                    }
                    opening.extend_from_slice(&flats[at..=end]);
                    at = end + 1;
                }
                _ if self.is_blank(flat) => at += 1,
                _ => break,
            }
        }
        at
    }

    /// Inserts the parts of a page into its layout. `flat` is the piece that names the layout.
    fn put_together(
        &mut self,
        (flat, layout): (Flat, usize),
        mut parts: LayoutParts,
        around: &[Flat],
    ) -> Result<Vec<Flat>, TemplateProblem> {
        let mut flats = parts.opening;
        let mut has_content = parts.content.iter().all(|flat| self.is_blank(*flat));
        for &piece in around {
            let PieceKind::Yield(name) = self.kind(piece) else {
                flats.push(piece);
                continue;
            };
            let part = if name.is_empty() {
                has_content = true;
                &parts.content
            } else {
                let Some(slot) = parts.slots.get_mut(name) else { continue };
                slot.is_taken = true;
                &slot.flats
            };
            self.size +=
                part.iter().map(|flat| self.sources[flat.source].size(flat.piece)).sum::<usize>();
            if self.size > PAGE_MAX_BYTES {
                let most = PAGE_MAX_BYTES >> 20;
                return self
                    .fail(piece, format!("the page is larger than {most} MiB with its layout"));
            }
            flats.extend_from_slice(part);
        }
        if !has_content {
            let layout = &self.sources[layout].path;
            let message = format!(
                "the layout {layout} has no `<?yield ?>` for the text outside of the slots"
            );
            return self.fail(flat, message);
        }
        let lost = parts.slots.iter().filter(|(_, slot)| !slot.is_taken);
        // The first one is reported, so that an error does not depend on the order of a map.
        let lost = lost.filter_map(|(name, slot)| Some((slot.opened?, name)));
        if let Some((slot, name)) = lost.min_by_key(|(slot, _)| (slot.source, slot.piece)) {
            let layout = &self.sources[layout].path;
            return self.fail(slot, format!("the layout {layout} has no `<?yield {name} ?>`"));
        }
        Ok(flats)
    }
}
