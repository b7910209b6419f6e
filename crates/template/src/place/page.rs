//! A place in a page of any kind.

use super::context::{Context, TRUST_IS_IDLE, Trust};
use super::html::Html;
use super::script::ScriptContext;
use super::style::StyleContext;

/// A place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageContext {
    /// Nothing is escaped.
    Plain,
    Html(Box<Html>),
    Script(ScriptContext),
    Style(StyleContext),
}

impl PageContext {
    /// The front of a file, by its name: `/a/b.dyn.html`. What no other rule knows is HTML, where
    /// forgetting to escape costs most.
    pub(crate) fn of_file(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension.to_ascii_lowercase().as_str() {
            "txt" | "csv" | "tsv" | "md" | "ics" | "vcf" | "text" => Self::Plain,
            "json" | "js" | "mjs" | "map" | "webmanifest" | "geojson" | "jsonld" => {
                Self::Script(ScriptContext::default())
            }
            "css" => Self::Style(StyleContext::default()),
            "xml" | "svg" | "xhtml" | "xht" | "mml" | "rss" | "atom" | "xsl" | "xslt" | "kml"
            | "gpx" | "opml" => Self::Html(Box::new(Html::xml())),
            _ => Self::Html(Box::default()),
        }
    }

    /// Whether it is one of a document of HTML.
    pub(crate) fn is_html(&self) -> bool {
        matches!(self, Self::Html(html) if !html.is_xml())
    }

    /// A place where nothing is escaped.
    pub(crate) fn plain() -> Self {
        Self::Plain
    }

    /// Goes on by some text of the template.
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain => {}
            Self::Html(html) => html.text(bytes),
            Self::Script(script) => script.text(bytes),
            Self::Style(style) => style.text(bytes),
        }
    }

    /// Returns why a value that stands before could not be escaped, if the text that was taken last
    /// has shown it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Html(html) => html.fault(),
            Self::Plain | Self::Script(_) | Self::Style(_) => None,
        }
    }

    /// How a value here is escaped; goes on by it.
    ///
    /// # Errors
    /// What is wrong with a value here, which a raw one is never asked.
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

    /// Returns what an error calls the place: `HTML text`, ``the attribute `href` ``.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::Plain => "plain text".to_owned(),
            Self::Html(html) => html.described(),
            Self::Script(_) => "a script".to_owned(),
            Self::Style(_) => "a style".to_owned(),
        }
    }

    /// Returns two places as an error adds them to what it says; nothing where they have the same
    /// description.
    pub(crate) fn both_described(&self, other: &Self) -> String {
        match (self.described(), other.described()) {
            (one, other) if one == other => String::new(),
            (one, other) => format!(" (in {one}, in {other})"),
        }
    }

    /// The one place that both stand for, if what follows can be taken in the same way.
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
