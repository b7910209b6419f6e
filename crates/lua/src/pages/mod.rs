//! Pages of templates: compiled once for all workers, answered by a function of each VM.
//!
//! | module | contents |
//! |---|---|
//! | `escape` | how values are escaped |
//! | `encrypted_link` | parameters that are sent encrypted |
//! | `function_arity` | how many parameters a function has |
//! | `escape_free_text` | whether a text needs no escaping, for LuaJIT's compiler |
//! | `test_site` | a site whose pages are requested without a server, for tests |
//!
//! `pages.lua` makes the handlers of pages. `escapers.lua`, `page_output.lua` and `page_values.lua`
//! hold the functions that pages call.

mod encrypted_link;
mod escape;
#[cfg(feature = "luajit")]
mod escape_free_text;
mod function_arity;

use crate::bounded_output::BoundedResult;
use crate::library::{codec, json};
use crate::limits::{
    ESCAPED_MAX, ESCAPED_MAX_BYTES, PAGE_PIECES, RELAXED_MAX_BYTES, RESPONSE_BUFFER_BYTES,
};
use crate::router::Router;
use crate::script_load_error::ScriptProblem;
use crate::source_names::{SourceNames, Sources};
use crate::vm::relaxed;
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaString, Result, Table, Value};
use pinion_template::file_name::{self, Kind, Routes};
use pinion_template::{Context, Formatted, Template, compile};
use std::collections::BTreeMap;

pub(crate) use encrypted_link::LinkKey;

/// A page and the route that it answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HandlerPage {
    route: file_name::Route,
    template: Template,
}

impl HandlerPage {
    /// Returns the values with a format on a line of a file.
    pub(crate) fn formats_at(&self, file: &str, line: u32) -> impl Iterator<Item = &Formatted> {
        self.template.formats_at(file, line)
    }
}

/// All files that pages and scripts are made of, by their paths.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Compiles the pages among some files.
///
/// # Errors
/// Returns the first error of one of them, or of two that respond to the same requests.
pub(crate) fn compiled(
    files: &Files,
    names: &SourceNames,
) -> std::result::Result<Vec<HandlerPage>, ScriptProblem> {
    let mut pages = Vec::new();
    let mut routes = Routes::default();
    for path in files.keys() {
        let route = routes.add(path, names.name(path));
        let route =
            route.map_err(|why| ScriptProblem::of_text(&format!("{}: {why}", names.name(path))))?;
        let Some(route) = route else { continue };
        let template = compile(path, |path| files.get(path).map(Vec::as_slice));
        let mut template = template.map_err(|mut problem| {
            problem.file = names.name(&problem.file);
            ScriptProblem::of_text(&problem.to_string())
        })?;
        template.files.iter_mut().for_each(|file| *file = names.name(file));
        pages.push(HandlerPage { route, template });
    }
    Ok(pages)
}

/// Returns whether a file is Lua, for `require` or as the main script.
pub(crate) fn is_code(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    file_name::kind(name.as_bytes()) == Some(Kind::Script)
}

/// Creates the handlers of pages in one VM.
pub(crate) struct Maker {
    make: Function,
    /// The globals of pages.
    environment: Table,
}

/// The chunks that `pages.lua` calls, with their names in the table `host`.
const PAGE_PARTS: [(&str, &str); 3] = [
    ("page_escapers", include_str!("escapers.lua")),
    ("page_output", include_str!("page_output.lua")),
    ("page_values", include_str!("page_values.lua")),
];

/// Prepares a VM for pages before its main script has run, so that the script can break nothing.
///
/// # Errors
/// Fails when memory runs out.
pub(crate) fn prepare(lua: &Lua, prelude: &Table, key: Option<LinkKey>) -> Result<Maker> {
    let host = lua.create_table()?;
    host.raw_set("RESPONSE_BUFFER_BYTES", RESPONSE_BUFFER_BYTES)?;
    host.raw_set("PAGE_PIECES", PAGE_PIECES)?;
    host.raw_set("ESCAPED_MAX", ESCAPED_MAX)?;
    host.raw_set("ESCAPED_MAX_BYTES", ESCAPED_MAX_BYTES)?;
    let (escapers, takes_numbers) = (lua.create_table()?, lua.create_table()?);
    let markup = lua.create_table()?;
    for context in Context::ALL {
        let Some(escape) = escaper(context) else { continue };
        escapers.raw_set(context.function(), function(lua, escape)?)?;
        takes_numbers.raw_set(context.function(), context.takes_numbers())?;
        let is_markup = matches!(context, Context::Text | Context::Attribute);
        markup.raw_set(context.function(), is_markup)?;
    }
    host.raw_set("escapers", escapers)?;
    host.raw_set("takes_numbers", takes_numbers)?;
    host.raw_set("is_markup", markup)?;
    #[cfg(feature = "luajit")]
    host.raw_set("is_plain", escape_free_text::function(lua)?)?;
    host.raw_set("script", function(lua, escape::script)?)?;
    let (json, codec) = (json::table(lua)?, codec::table(lua)?);
    host.raw_set("json_encode", json.raw_get::<Function>("encode")?)?;
    host.raw_set("query", codec.raw_get::<Function>("query")?)?;
    host.raw_set("null", Value::NULL)?;
    let count = |_: &Lua, function: Function| Ok(function_arity::count(&function));
    host.raw_set("parameter_count", lua.create_function(count)?)?;
    let of = key.clone();
    let url =
        move |lua: &Lua, parts: encrypted_link::Parts| encrypted_link::url(lua, of.as_ref(), parts);
    host.raw_set("to_url", lua.create_function(url)?)?;
    let open = move |lua: &Lua, query| encrypted_link::open_query(lua, key.as_ref(), query);
    host.raw_set("open_query", lua.create_function(open)?)?;
    for (name, source) in PAGE_PARTS {
        host.raw_set(name, lua.load(source).set_name("=pinion").into_function()?)?;
    }
    let chunk = lua.load(include_str!("pages.lua")).set_name("=pinion");
    let (make, environment) = chunk.call((host, prelude))?;
    Ok(Maker { make, environment })
}

/// A function that escapes bytes; it returns `None` where nothing had to change.
type Escape = fn(&[u8]) -> BoundedResult<Option<Vec<u8>>>;

/// Returns the function that escapes for a context; contexts without one are in `escapers.lua`.
fn escaper(context: Context) -> Option<Escape> {
    Some(match context {
        Context::Text => escape::html,
        Context::Attribute => escape::attribute,
        Context::Name => escape::name,
        Context::Url => escape::url,
        Context::UrlPath => escape::url_path,
        Context::UrlRoot => escape::url_root,
        Context::UrlQuery => escape::url_query,
        Context::ScriptString => escape::script_string,
        Context::Style => escape::style,
        Context::Comment => escape::comment,
        Context::Script | Context::ScriptAttribute | Context::Raw => return None,
    })
}

/// A text that needs no escaping is returned as the same string of the VM.
fn function(lua: &Lua, escape: Escape) -> Result<Function> {
    lua.create_function(move |lua, text: LuaString| {
        let escaped = escape(&text.as_bytes());
        match escaped.map_err(|why| why.of("a value of a page"))? {
            None => Ok(text),
            Some(escaped) if escaped.len() <= RELAXED_MAX_BYTES => {
                relaxed(lua, || lua.create_string(escaped))
            }
            Some(escaped) => lua.create_string(escaped),
        }
    })
}

impl Maker {
    /// Creates handlers of all pages, and routes to those whose requests have none.
    ///
    /// # Errors
    /// Returns the error of Lua in a page, by the lines of its files, or of the router.
    pub(crate) fn make(
        &self,
        lua: &Lua,
        pages: &[HandlerPage],
        sources: &Sources,
        router: &mut Router,
    ) -> std::result::Result<(), ScriptProblem> {
        for (rank, page) in pages.iter().enumerate() {
            let HandlerPage { route, template } = page;
            let added = router.add_path(route.method, &route.path).map_err(|error| {
                let file = template.files.first().map_or("", String::as_str);
                ScriptProblem::of_text(&format!("{file}: {error}"))
            })?;
            if let Some(number) = added {
                self.page(lua, (number, rank), page)
                    .map_err(|error| ScriptProblem::new(&error).explained(sources))?;
            }
        }
        Ok(())
    }

    fn page(&self, lua: &Lua, (number, rank): (usize, usize), page: &HandlerPage) -> Result<()> {
        let template = &page.template;
        let chunk = lua.load(&template.lua[..]).set_name(format!("={}", chunk_name(rank)));
        let chunk = chunk.set_mode(ChunkMode::Text).set_environment(self.environment.clone());
        let chunk = chunk.into_function()?;
        let segments = template.segments.iter().map(|text| lua.create_string(text));
        let segments = lua.create_sequence_from(segments.collect::<Result<Vec<_>>>()?)?;
        let names = lua.create_sequence_from(template.value_names.iter().copied())?;
        let is_streamed = !template.value_names.contains(&"post_render");
        let (media, has_async) = (page.route.media, template.has_async);
        let is_parallel = has_async && template.parallel;
        let kind = (media, names, is_streamed, has_async, is_parallel);
        self.make.call((number, page.route.path.as_str(), chunk, segments, kind))
    }
}

/// Returns the name of the chunk of a page in a VM: it is short, because Lua cuts long names off,
/// and differs from all names of scripts.
fn chunk_name(rank: usize) -> String {
    format!("{CHUNK}{rank}>")
}

const CHUNK: &str = "<page ";

/// Replaces the lines of pages in a message of Lua by lines of their files.
pub(crate) fn explained(message: &str, pages: &[HandlerPage]) -> String {
    let mut shown = message.to_owned();
    let ranks =
        message.split(CHUNK).skip(1).filter_map(|rest| rest.split('>').next()?.parse().ok());
    let mut ranks: Vec<usize> = ranks.collect();
    ranks.sort_unstable();
    ranks.dedup();
    for rank in ranks {
        if let Some(page) = pages.get(rank) {
            let (chunk, file) = (chunk_name(rank), page.template.files.first());
            shown = page.template.explained(&shown, &chunk);
            // LuaJIT does not know the line of every function of a trace.
            shown = shown.replace(&chunk, file.map_or("", String::as_str));
        }
    }
    shown
}

#[cfg(test)]
pub(crate) mod test_site;
#[cfg(test)]
mod tests;
