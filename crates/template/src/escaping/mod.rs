//! The position of a value in a page, which decides its escaping.
//!
//! | Module | Holds |
//! |---|---|
//! | `context` | [`Context`]: the ways of escaping |
//! | `page_context` | [`PageContext`]: a position in a page of any kind; the kind of a file |
//! | `html` | a position in HTML or XML |
//! | `special_elements` | elements with no elements in them |
//! | `code_attributes` | attributes that hold code |
//! | `tag` | the facts of a tag that decide the meaning of its attributes |
//! | `attribute` | the value of an attribute |
//! | `url` | a position in a URL |
//! | `character_reference` | `&quot;` and the like, as a browser reads them |
//! | `script` | a position in JavaScript or JSON |
//! | `style` | a position in CSS |
//!
//! The scanners read the text of the template as a browser does. They need not find its mistakes,
//! only the position of values; a position where no value can be made safe refuses it.

mod attribute;
mod character_reference;
mod code_attributes;
mod context;
mod html;
mod page_context;
mod script;
mod special_elements;
mod style;
mod tag;
mod url;

pub use context::Context;
pub(crate) use context::Trust;
pub(crate) use page_context::PageContext;
