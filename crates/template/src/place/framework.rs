//! Attributes that hold code: those of HTML itself, and those by which frameworks have pages say
//! what happens. A value in them is one of JavaScript.

/// What names of such attributes begin with.
const CODE: &[&[u8]] = &[
    b"on",
    // Vue, Alpine and Angular in their short forms.
    b"@",
    b":",
    b"(",
    b"[",
    b"*",
    // Vue, Alpine, AngularJS, Livewire, Unpoly.
    b"v-",
    b"x-",
    b"ng-",
    b"ng:",
    b"ng_",
    b"wire:",
    b"up-on-",
    // htmx: handlers, and values that may begin with `js:`.
    b"hx-on",
    b"hx-vals",
    b"hx-vars",
    b"hx-headers",
    b"hx-request",
    b"hx-trigger",
];

/// Whole names of such attributes, where others begin so and hold text.
const CODE_NAMES: &[&[u8]] = &[b"up-watch", b"data-init"];

/// The same as [`CODE`] behind `data-`, under which some of them have their names too, and those of
/// Datastar and Knockout. `data-class` and the like hold code in Datastar alone, and plain text in
/// most other pages; followed by a colon they are Datastar's.
const DATA_CODE: &[&[u8]] = &[
    b"on",
    b"attr:",
    b"bind",
    b"class:",
    b"computed",
    b"effect",
    b"init__",
    b"signals",
    b"style:",
    b"ng-",
    b"ng:",
    b"ng_",
    b"hx-on",
    b"hx-vals",
    b"hx-vars",
    b"hx-headers",
    b"hx-request",
    b"hx-trigger",
];

/// Attributes that begin so and hold text: the name of an element.
const TEXT: &[&[u8]] = &[b"x-ref"];

/// Attributes in a language that has no way of escaping which holds for JavaScript as well:
/// hyperscript.
const UNKNOWN_CODE: &[&[u8]] = &[b"_", b"script", b"data-script"];

/// Fronts of names that stay harmless whatever follows, but for what [`DATA`] is.
const HARMLESS: &[&[u8]] = &[b"aria-", DATA];

const DATA: &[u8] = b"data-";

/// Whether an attribute of this name, in small letters, holds code.
pub(super) fn is_code(name: &[u8]) -> bool {
    let begins = |fronts: &[&[u8]], name: &[u8]| fronts.iter().any(|front| name.starts_with(front));
    let in_data = name.strip_prefix(DATA).is_some_and(|behind| begins(DATA_CODE, behind));
    in_data || CODE_NAMES.contains(&name) || (begins(CODE, name) && !TEXT.contains(&name))
}

/// Whether an attribute of this name holds code that no value can be escaped for.
pub(super) fn is_unknown_code(name: &[u8]) -> bool {
    UNKNOWN_CODE.contains(&name)
}

/// Whether an attribute holds no code whose name begins so and goes on with a value. Behind `data-`
/// alone the way in which names are escaped sees to that.
pub(super) fn stays_harmless(front: &[u8]) -> bool {
    let begins = HARMLESS.iter().any(|known| front.starts_with(known));
    let may_become = |behind: &[u8]| {
        !behind.is_empty()
            && DATA_CODE.iter().any(|code| code.starts_with(behind) || behind.starts_with(code))
    };
    begins && !front.strip_prefix(DATA).is_some_and(may_become)
}
