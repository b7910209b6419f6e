//! The input of the parser. A page is one program: text and values are statements in it, and blocks
//! that wait are functions.

use super::token::LuaToken;
use crate::include_expansion::ExpandedPage;
use crate::source_pieces::{PieceKind, Show, TemplateSource};

/// The next item of the input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item<'a> {
    Token(LuaToken),
    /// Text, as bytes.
    Text(&'a [u8]),
    Show(&'a Show),
    AsyncOpen,
    AsyncClose,
    End,
}

/// A position in a page, or in one expression of it.
#[derive(Clone, Debug)]
pub(crate) struct TokenStream<'a> {
    page: Option<&'a ExpandedPage<'a>>,
    /// The present piece, where there is a page.
    flat: usize,
    /// The tokens of the piece that are left.
    tokens: &'a [LuaToken],
    /// The file of the tokens.
    bytes: &'a [u8],
    path: &'a str,
    /// The line of the present piece, or of the last item that was read in it.
    line: u32,
    /// The piece and the last line of the last item that was read.
    behind: (usize, u32),
}

impl<'a> TokenStream<'a> {
    /// Creates the stream of a whole page.
    pub(crate) fn of_page(page: &'a ExpandedPage<'a>) -> Self {
        let path = page.sources.first().map_or("", |source| source.path.as_str());
        let mut stream = Self {
            page: Some(page),
            flat: 0,
            tokens: &[],
            bytes: &[],
            path,
            line: 1,
            behind: (0, 1),
        };
        stream.enter();
        stream
    }

    /// Creates a stream of some tokens of a file.
    pub(crate) fn of_tokens(bytes: &'a [u8], path: &'a str, tokens: &'a [LuaToken]) -> Self {
        let line = tokens.first().map_or(1, |token| token.line);
        Self { page: None, flat: 0, tokens, bytes, path, line, behind: (0, line) }
    }

    /// Creates a stream of the tokens of one value.
    pub(crate) fn of_show(&self, show: &Show) -> Self {
        let source = self.source();
        let tokens = source.map_or(&[][..], |source| source.tokens(&show.tokens));
        Self::of_tokens(self.bytes, self.path, tokens)
    }

    fn source(&self) -> Option<&'a TemplateSource<'a>> {
        let page = self.page?;
        Some(&page.sources[page.flats.get(self.flat)?.source])
    }

    fn kind(&self) -> Option<(&'a PieceKind, u32)> {
        let piece = &self.source()?.pieces[self.page?.flats[self.flat].piece];
        Some((&piece.kind, piece.line))
    }

    /// Opens the present piece.
    fn enter(&mut self) {
        while let (Some(source), Some((kind, line))) = (self.source(), self.kind()) {
            (self.bytes, self.path, self.line) = (source.bytes, &source.path, line);
            match kind {
                PieceKind::Lua { tokens, .. } if tokens.is_empty() => self.flat += 1,
                PieceKind::Lua { tokens, .. } => {
                    self.tokens = source.tokens(tokens);
                    return;
                }
                _ => return,
            }
        }
    }

    pub(crate) fn now(&self) -> Item<'a> {
        if let Some(&token) = self.tokens.first() {
            return Item::Token(token);
        }
        match self.kind() {
            Some((PieceKind::Text(range), _)) => Item::Text(&self.bytes[range.clone()]),
            Some((PieceKind::Show(rank), _)) => match self.source() {
                Some(source) => Item::Show(&source.shows[*rank]),
                None => Item::End,
            },
            Some((PieceKind::AsyncOpen, _)) => Item::AsyncOpen,
            Some((PieceKind::AsyncClose, _)) => Item::AsyncClose,
            // Includes, layouts and slots are no part of an expanded page.
            _ => Item::End,
        }
    }

    /// Returns the token after the present one, if both are of one piece.
    pub(crate) fn second(&self) -> Option<LuaToken> {
        self.tokens.get(1).copied()
    }

    pub(crate) fn advance(&mut self) {
        if let [token, rest @ ..] = self.tokens {
            self.line = token.last_line;
            self.behind = (self.flat, self.line);
            self.tokens = rest;
            if !rest.is_empty() {
                return;
            }
        }
        self.flat += usize::from(self.page.is_some());
        self.enter();
    }

    /// Returns the bytes of a token that [`now`](Self::now) has just returned.
    pub(crate) fn text(&self, token: LuaToken) -> &'a [u8] {
        token.of(self.bytes)
    }

    /// Returns the line of the next item; at the end, of the last one.
    pub(crate) fn line(&self) -> u32 {
        self.tokens.first().map_or(self.line, |token| token.line)
    }

    /// Returns the piece and the line where the last token that was read ends.
    pub(crate) fn behind(&self) -> (usize, u32) {
        self.behind
    }

    /// Returns whether the stream is that of one value, not of a page.
    pub(crate) fn is_value(&self) -> bool {
        self.page.is_none()
    }

    pub(crate) fn path(&self) -> &'a str {
        self.path
    }

    /// Returns the piece and the line of the next item.
    pub(crate) fn ahead(&self) -> (usize, u32) {
        (self.flat, self.line())
    }
}
