//! A position in a page of any kind.

use super::context::{Context, TRUST_IS_IDLE, Trust};
use super::html::Html;
use super::script::ScriptContext;
use super::style::StyleContext;
use crate::page_types::{self, PageSyntax};

/// A position in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageContext {
    /// Plain text, in which nothing is escaped.
    Plain,
    Html(Box<Html>),
    Script(ScriptContext),
    Style(StyleContext),
}

impl PageContext {
    /// Returns the beginning of a file, by its name: `/a/b.dyn.html`.
    pub(crate) fn of_file(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        match page_types::syntax(extension) {
            PageSyntax::Plain => Self::Plain,
            PageSyntax::Script => Self::Script(ScriptContext::default()),
            PageSyntax::Style => Self::Style(StyleContext::default()),
            PageSyntax::Xml => Self::Html(Box::new(Html::xml())),
            PageSyntax::Html => Self::Html(Box::default()),
        }
    }

    /// Returns whether it is in a document of HTML.
    pub(crate) fn is_html(&self) -> bool {
        matches!(self, Self::Html(html) if !html.is_xml())
    }

    /// Returns a position where nothing is escaped.
    pub(crate) fn plain() -> Self {
        Self::Plain
    }

    /// Advances by some text of the template.
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain => {}
            Self::Html(html) => html.text(bytes),
            Self::Script(script) => script.text(bytes),
            Self::Style(style) => style.text(bytes),
        }
    }

    /// Returns why an earlier value could not be escaped, if the last text has shown it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Html(html) => html.fault(),
            Self::Plain | Self::Script(_) | Self::Style(_) => None,
        }
    }

    /// Returns the escaping of a value here, and advances by it.
    ///
    /// # Errors
    /// Returns why no value is possible here; raw values are not checked.
    pub(crate) fn value(&mut self, trust: Trust) -> Result<Context, &'static str> {
        let found = match self {
            Self::Html(html) => html.value(trust),
            Self::Script(script) => script.value(),
            Self::Style(style) => style.value(),
            Self::Plain => Ok(Context::Raw),
        };
        match trust {
            Trust::Raw => Ok(Context::Raw),
            Trust::Url if !matches!(self, Self::Html(_)) => Err(TRUST_IS_IDLE),
            Trust::Url | Trust::Nothing => found,
        }
    }

    /// Returns the description of the position, for errors: `HTML text`, ``the attribute `href` ``.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::Plain => "plain text".to_owned(),
            Self::Html(html) => html.described(),
            Self::Script(_) => "a script".to_owned(),
            Self::Style(_) => "a style".to_owned(),
        }
    }

    /// Returns the descriptions of two positions for the end of an error; an empty text if they are
    /// the same.
    pub(crate) fn both_described(&self, other: &Self) -> String {
        match (self.described(), other.described()) {
            (one, other) if one == other => String::new(),
            (one, other) => format!(" (in {one}, in {other})"),
        }
    }

    /// Returns the common position of both, if the following text has the same meaning after
    /// either.
    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Plain, Self::Plain) => Some(Self::Plain),
            (Self::Html(one), Self::Html(other)) => Some(Self::Html(Box::new(one.joined(other)?))),
            (Self::Script(one), Self::Script(other)) => Some(Self::Script(one.joined(other)?)),
            (Self::Style(one), Self::Style(other)) => Some(Self::Style(one.joined(other)?)),
            _ => None,
        }
    }
}
