//! Where in a page a value stands, and so how it must be escaped.
//!
//! | Module | Holds |
//! |---|---|
//! | `context` | [`Context`]: the ways of escaping |
//! | `page` | [`PageContext`]: a place in a page of any kind; which kind a file is |
//! | `html` | a place in HTML or XML |
//! | `element` | elements with no elements in them |
//! | `framework` | attributes that hold code |
//! | `tag` | what of a tag decides how its attributes are taken |
//! | `attribute` | what the value of an attribute is |
//! | `url` | a place in a URL |
//! | `reference` | `&quot;` and the like, as a browser reads them |
//! | `script` | a place in JavaScript or JSON |
//! | `style` | a place in CSS |
//!
//! The scanners follow what a browser does with the text of the template. They need not find what
//! is wrong with it, only where it stands; a place where no value can be made safe refuses it.

mod attribute;
mod context;
mod element;
mod framework;
mod html;
mod page;
mod reference;
mod script;
mod style;
mod tag;
mod url;

pub use context::Context;
pub(crate) use context::Trust;
pub(crate) use page::PageContext;
