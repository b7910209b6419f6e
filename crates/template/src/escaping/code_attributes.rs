//! Attributes that hold code: those of HTML itself, and those in which frameworks keep code. A
//! value in them is one of JavaScript.

/// The beginnings of the names of such attributes.
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

/// The names of [`CODE`] after `data-`, under which some of them exist too, and those of Datastar
/// and Knockout. `data-class` and the like hold code in Datastar alone, and plain text in most
/// other pages; followed by a colon they are Datastar's.
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

/// Beginnings of names that stay harmless with any continuation, except [`DATA`].
const HARMLESS: &[&[u8]] = &[b"aria-", DATA];

const DATA: &[u8] = b"data-";

/// Returns whether an attribute of this name, in small letters, holds code.
pub(super) fn is_code(name: &[u8]) -> bool {
    let begins = |fronts: &[&[u8]], name: &[u8]| fronts.iter().any(|front| name.starts_with(front));
    let in_data = name.strip_prefix(DATA).is_some_and(|behind| begins(DATA_CODE, behind));
    in_data || CODE_NAMES.contains(&name) || (begins(CODE, name) && !TEXT.contains(&name))
}

/// Returns whether an attribute of this name holds code for which no value can be escaped.
pub(super) fn is_unknown_code(name: &[u8]) -> bool {
    UNKNOWN_CODE.contains(&name)
}

/// Returns whether an attribute with this beginning, which a value continues, never holds code.
/// After `data-` alone the escaping of names ensures that.
pub(super) fn stays_harmless(front: &[u8]) -> bool {
    let begins = HARMLESS.iter().any(|known| front.starts_with(known));
    let may_become = |behind: &[u8]| {
        !behind.is_empty()
            && DATA_CODE.iter().any(|code| code.starts_with(behind) || behind.starts_with(code))
    };
    begins && !front.strip_prefix(DATA).is_some_and(may_become)
}
