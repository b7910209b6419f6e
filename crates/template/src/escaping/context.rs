//! The ways of escaping, and the declarations of trust by the author of a page.

/// The trust that the author of a page declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// No trust: `#[[x]]`.
    Nothing,
    /// The value may be a URL of code that the page loads: `#[[x:trusted]]`.
    Url,
    /// The value needs no escaping here: `#[[!x]]`.
    Raw,
}

/// The reason why a page is refused that declares trust where none is necessary.
pub(crate) const TRUST_IS_IDLE: &str = "`:trusted` is for a URL that decides which code the page \
     loads, or where a form is sent; here a value is escaped and needs no trust";

/// The way in which a value is escaped. Generated code calls the function of that name, which the
/// server lends; it takes one value of any type and returns a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// Text of HTML or XML: `&`, `<`, `>` and quotes as references.
    Text,
    /// The value of an attribute between quotes of either kind; as [`Text`](Self::Text), and with
    /// all signs escaped that could end the value.
    Attribute,
    /// The rest of the name of a tag, the name of an attribute, or one without value: only letters,
    /// digits, `-`, `_`, `:` and `.` stay, and nothing of a name that begins like the names of
    /// attributes that hold code, such as `on` and `hx-on`.
    Name,
    /// A whole URL in an attribute: signs with a meaning in URLs stay, white space, quotes, `<`,
    /// `>` and backticks are percent-encoded, `&` becomes `&amp;`.
    Url,
    /// A part of the path of a URL: all but unreserved characters and `/` is percent-encoded.
    UrlPath,
    /// As [`UrlPath`](Self::UrlPath), directly after a `/` with which the URL begins: a `/` at its
    /// front is percent-encoded too, and an empty one is `.`, so that no host begins here.
    UrlRoot,
    /// A part of a query or of a fragment: all but unreserved characters is percent-encoded.
    UrlQuery,
    /// A value of JavaScript or JSON, as JSON with its quotes; `<`, `>`, `&`, U+2028 and U+2029 as
    /// `\uXXXX`.
    Script,
    /// The inside of a string of JavaScript or JSON, of any quotes: both quotes, backtick, `$`,
    /// `\`, `<`, `>`, `&`, controls, U+2028 and U+2029 as `\uXXXX`.
    ScriptString,
    /// As [`Script`](Self::Script), and that as [`Attribute`](Self::Attribute): `onclick="f(…)"`.
    ScriptAttribute,
    /// CSS, inside and outside of strings: all but letters, digits, `-`, `_`, `.`, `%`, `#`
    /// and bytes from 0x80 on as `\XX `.
    Style,
    /// A comment of any language, or a declaration: only letters, digits, space, `_`, `.`, `,` and
    /// single `-` stay.
    Comment,
    /// No escaping: the value as a string.
    Raw,
}

impl Context {
    /// All ways of escaping.
    pub const ALL: [Self; 13] = [
        Self::Text,
        Self::Attribute,
        Self::Name,
        Self::Url,
        Self::UrlPath,
        Self::UrlRoot,
        Self::UrlQuery,
        Self::Script,
        Self::ScriptString,
        Self::ScriptAttribute,
        Self::Style,
        Self::Comment,
        Self::Raw,
    ];

    /// Returns the name of the function in Lua.
    #[must_use]
    pub fn function(self) -> &'static str {
        &self.variable()["__".len()..]
    }

    /// Returns the name of its variable in generated code.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Text => "__esc_html",
            Self::Attribute => "__esc_attr",
            Self::Name => "__esc_name",
            Self::Url => "__esc_url",
            Self::UrlPath => "__esc_url_path",
            Self::UrlRoot => "__esc_url_root",
            Self::UrlQuery => "__esc_url_query",
            Self::Script => "__esc_js",
            Self::ScriptString => "__esc_js_string",
            Self::ScriptAttribute => "__esc_js_attr",
            Self::Style => "__esc_css",
            Self::Comment => "__esc_comment",
            Self::Raw => "__esc_raw",
        }
    }

    /// Returns whether a formatted number needs no escaping here: it has digits, letters, signs,
    /// points and spaces at the most.
    #[must_use]
    pub fn takes_numbers(self) -> bool {
        use Context::{Attribute, Raw, Script, ScriptAttribute, ScriptString, Style, Text};
        matches!(self, Text | Attribute | Script | ScriptString | ScriptAttribute | Style | Raw)
    }
}
