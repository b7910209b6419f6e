//! The facts of a tag that decide the meaning of its attributes: its name, and attributes that
//! change the meaning of others.

/// A tag that is being read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tag {
    /// Its name in small letters, up to the first value in it.
    pub(super) name: Vec<u8>,
    /// Whether a part of its name is a value.
    pub(super) is_computed: bool,
    /// For a `link`: whether its `rel` loads no code. None: there was none yet.
    is_mere_link: Option<bool>,
    /// For an animation of SVG: whether it animates an attribute that is no URL.
    is_mere_animation: Option<bool>,
    /// For a `meta`: whether its `http-equiv` is or may be `refresh`.
    may_refresh: Option<bool>,
    /// For a `meta`: whether its `content` contains a value.
    has_content_value: bool,
    /// For a `script`: whether its `type` is that of an import map, in one branch of the code at
    /// least.
    is_import_map: Option<bool>,
}

/// Attributes whose static values change the meaning of other attributes of the tag.
pub(super) const TELLING: &[&[u8]] = &[b"rel", b"attributename", b"http-equiv", b"type"];

/// Kinds of a `link` that are hyperlinks or show an image, and load neither code nor styles.
const MERE_LINKS: &[&[u8]] = &[
    b"alternate",
    b"amphtml",
    b"apple-touch-icon",
    b"apple-touch-icon-precomposed",
    b"author",
    b"bookmark",
    b"canonical",
    b"contents",
    b"describedby",
    b"dns-prefetch",
    b"edit",
    b"external",
    b"first",
    b"help",
    b"hub",
    b"icon",
    b"index",
    b"last",
    b"license",
    b"mask-icon",
    b"me",
    b"next",
    b"nofollow",
    b"noopener",
    b"noreferrer",
    b"pingback",
    b"preconnect",
    b"prev",
    b"search",
    b"self",
    b"shortcut",
    b"shortlink",
    b"start",
    b"tag",
    b"up",
    b"via",
    b"webmention",
];

/// Elements and those of their attributes whose URL decides which code a page runs, which page is
/// shown as a part of it, or where its user's input is sent.
const LOADING: &[(&[u8], &[&[u8]])] = &[
    (b"applet", &[b"archive", b"code", b"codebase", b"object", b"src"]),
    (b"base", &[b"href"]),
    (b"button", &[b"formaction"]),
    (b"embed", &[b"src"]),
    (b"fencedframe", &[b"src"]),
    (b"form", &[b"action"]),
    (b"frame", &[b"src"]),
    (b"iframe", &[b"src"]),
    (b"input", &[b"formaction"]),
    (b"link", &[b"href"]),
    (b"object", &[b"archive", b"classid", b"codebase", b"data"]),
    (b"portal", &[b"src"]),
    (b"script", &[b"href", b"src"]),
    (b"turbo-frame", &[b"src"]),
    (b"turbo-stream-source", &[b"src"]),
];

/// Elements of SVG that change an attribute of another one, such as the `href` of a link.
const ANIMATIONS: &[&[u8]] =
    &[b"animate", b"animatecolor", b"animatemotion", b"animatetransform", b"set"];

/// Attributes of these that hold the new value of the other attribute.
const ANIMATED: &[&[u8]] = &[b"by", b"from", b"to", b"values"];

/// Attributes of any element from which htmx loads a part of the page.
const FETCHING: &[&[u8]] = &[
    b"hx-delete",
    b"hx-get",
    b"hx-patch",
    b"hx-post",
    b"hx-put",
    b"sse-connect",
    b"up-href",
    b"ws-connect",
];

impl Tag {
    /// Returns whether its name, without a prefix, is one of these.
    fn is_one_of(&self, names: &[&[u8]]) -> bool {
        names.contains(&local(&self.name))
    }

    /// Returns whether a URL of this attribute, by its name without a prefix, decides which code
    /// the page loads. If the name of the tag is a value, any of these elements is possible.
    pub(super) fn loads(&self, attribute: &[u8]) -> bool {
        if FETCHING.contains(&attribute.strip_prefix(b"data-").unwrap_or(attribute)) {
            return true;
        }
        let is_mere = local(&self.name) == b"link" && self.is_mere_link == Some(true);
        let may_be = |name: &[u8]| self.is_computed || local(&self.name) == name;
        !is_mere && LOADING.iter().any(|(name, all)| may_be(name) && all.contains(&attribute))
    }

    /// Returns whether this is an attribute whose value may become a URL that a click runs.
    pub(super) fn animates(&self, attribute: &[u8]) -> bool {
        let may_be = self.is_computed || self.is_one_of(ANIMATIONS);
        may_be && self.is_mere_animation != Some(true) && ANIMATED.contains(&attribute)
    }

    /// Returns whether a URL in this attribute decides which page follows.
    pub(super) fn refreshes(&self, attribute: &[u8]) -> bool {
        self.has_content(attribute) && self.may_refresh == Some(true)
    }

    /// Records a value in an attribute. A later attribute may still decide the kind of the tag.
    pub(super) fn note_value(&mut self, attribute: &[u8]) {
        self.has_content_value |= self.has_content(attribute);
    }

    /// Returns whether a `content` that turned out to decide which page follows contains a value.
    pub(super) fn refreshes_by_value(&self) -> bool {
        self.has_content_value && self.may_refresh == Some(true)
    }

    fn has_content(&self, attribute: &[u8]) -> bool {
        attribute == b"content" && self.is_one_of(&[b"meta"])
    }

    /// Returns whether the content of the element is an import map.
    pub(super) fn is_import_map(&self) -> bool {
        self.is_import_map == Some(true)
    }

    /// Records the value of an attribute, if the template has all of it. Browsers use the first one
    /// of a name.
    pub(super) fn note(&mut self, attribute: &[u8], value: Option<&[u8]>) {
        match attribute {
            b"rel" => {
                let is_mere = |word: &[u8]| MERE_LINKS.contains(&word);
                let mut words = value.map(|value| value.split(u8::is_ascii_whitespace));
                let is_mere = words
                    .as_mut()
                    .is_some_and(|words| words.all(|word| word.is_empty() || is_mere(word)));
                self.is_mere_link.get_or_insert(is_mere);
            }
            b"attributename" => {
                let is_mere = value.is_some_and(|name| local(name.trim_ascii()) != b"href");
                self.is_mere_animation.get_or_insert(is_mere);
            }
            b"http-equiv" => {
                let may_refresh = value.is_none_or(|name| name.trim_ascii() == b"refresh");
                self.may_refresh.get_or_insert(may_refresh);
            }
            b"type" => {
                let is_map = value.is_some_and(|kind| kind.trim_ascii() == b"importmap");
                self.is_import_map.get_or_insert(is_map);
            }
            _ => {}
        }
    }

    /// Treats a `link` as one that loads nothing, like links of feeds.
    pub(super) fn expect_feed(&mut self) {
        self.is_mere_link = Some(true);
    }

    /// Records an attribute whose name is a value, and so may be any of these.
    pub(super) fn note_unknown(&mut self) {
        TELLING.iter().for_each(|attribute| self.note(attribute, None));
    }

    /// Returns the common state of both tags, if their names agree.
    pub(super) fn joined(&self, other: &Self) -> Option<Self> {
        let both = |one: Option<bool>, other| if one == other { one } else { Some(false) };
        // Where one of them has no such attribute yet, the following text may have it.
        let either = |one: Option<bool>, other: Option<bool>| match (one, other) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            _ if one == other => one,
            _ => None,
        };
        (self.name == other.name).then(|| Self {
            name: self.name.clone(),
            is_computed: self.is_computed || other.is_computed,
            is_mere_link: both(self.is_mere_link, other.is_mere_link),
            is_mere_animation: both(self.is_mere_animation, other.is_mere_animation),
            may_refresh: either(self.may_refresh, other.may_refresh),
            has_content_value: self.has_content_value || other.has_content_value,
            is_import_map: either(self.is_import_map, other.is_import_map),
        })
    }
}

/// Returns a name without the prefix of its namespace.
pub(super) fn local(name: &[u8]) -> &[u8] {
    name.rsplit(|&byte| byte == b':').next().unwrap_or_default()
}
