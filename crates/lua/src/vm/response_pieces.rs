//! The pieces that a handler has written and that were not joined to a string: each is passed from
//! the memory of Lua to the engine.
#![allow(unsafe_code, reason = "a table is read without a handle for each string of it")]

use std::ffi::CStr;
use std::slice;

use mlua::{Lua, Table, ffi};
use pinion_http::prepared_response::Piece;

/// A response as `responses.lua` builds it: strings and numbers from index 2 to the last one. The
/// value at index 1 is no part of it.
#[derive(Debug)]
pub(crate) struct WrittenPieces {
    response: Table,
    last: usize,
}

/// The index of the first piece.
const FIRST: usize = 2;

impl WrittenPieces {
    /// Creates it with the index of the last piece.
    pub(super) fn new(response: Table, last: usize) -> Self {
        Self { response, last }
    }

    /// Appends the pieces to `into`. No Lua may run before they are dropped: it could change the
    /// table, and collect them.
    ///
    /// # Errors
    /// Fails for a value that is neither a string nor a number, or when memory runs out.
    pub(crate) fn append_to<'p>(
        &'p self,
        lua: &Lua,
        into: &mut Vec<Piece<'p>>,
    ) -> Result<(), String> {
        let first = into.len();
        let mut collected = Ok(());
        // SAFETY: the table is alone on the stack, where there is room for two values more, and
        // `self` keeps it.
        let read = unsafe {
            lua.exec_raw::<()>(&self.response, |state| {
                collected = collect(state, self.last, into);
                if collected == Err(NUMBER) {
                    into.truncate(first);
                    convert_numbers(state, self.last);
                    collected = collect(state, self.last, into);
                }
                ffi::lua_settop(state, 0);
            })
        };
        read.map_err(|error| error.to_string())?;
        collected.map_err(|kind| {
            format!(
                "a piece of the response is a {}, where a string or a number is expected; write \
                 with res:write(text)",
                kind.to_string_lossy()
            )
        })
    }
}

/// The name of the type of numbers.
const NUMBER: &CStr = c"number";

/// Appends the strings of a table; fails with the type of the first value that is none. It runs no
/// Lua, not even a finalizer, because it allocates nothing in Lua: so all strings stay valid.
///
/// # Safety
/// The table is alone on the stack, where there is room for one value more, and stays unchanged as
/// long as the pieces are used.
unsafe fn collect(
    state: *mut ffi::lua_State,
    last: usize,
    into: &mut Vec<Piece<'_>>,
) -> Result<(), &'static CStr> {
    for place in FIRST..=last {
        // SAFETY: the caller's. The bytes of a string are those of the table, which keeps it; names
        // of types are constants.
        unsafe {
            ffi::lua_rawgeti(state, 1, place as _);
            let kind = ffi::lua_type(state, -1);
            if kind != ffi::LUA_TSTRING {
                ffi::lua_pop(state, 1);
                return Err(CStr::from_ptr(ffi::lua_typename(state, kind)));
            }
            let mut bytes = 0;
            let text = ffi::lua_tolstring(state, -1, &raw mut bytes);
            ffi::lua_pop(state, 1);
            into.push(Piece::Bytes(slice::from_raw_parts(text.cast(), bytes)));
        }
    }
    Ok(())
}

/// Replaces the numbers of a table by their strings. It allocates, so finalizers of the script may
/// run and change the table: no string of it may be in use.
///
/// # Safety
/// The table is alone on the stack, where there is room for one value more, in a protected call.
unsafe fn convert_numbers(state: *mut ffi::lua_State, last: usize) {
    for place in FIRST..=last {
        // SAFETY: the caller's.
        unsafe {
            ffi::lua_rawgeti(state, 1, place as _);
            if ffi::lua_type(state, -1) == ffi::LUA_TNUMBER {
                ffi::lua_tolstring(state, -1, std::ptr::null_mut());
                ffi::lua_rawseti(state, 1, place as _);
            } else {
                ffi::lua_pop(state, 1);
            }
        }
    }
}

#[cfg(test)]
impl super::Unsent {
    /// Returns all pieces as one text.
    pub(crate) fn to_vec(&self, lua: &Lua) -> Vec<u8> {
        let written = match self {
            Self::Text(text) => return text.as_bytes().to_vec(),
            Self::Pieces(written) => written,
        };
        let mut pieces = Vec::new();
        written.append_to(lua, &mut pieces).expect("strings and numbers");
        pieces.iter().flat_map(|piece| in_memory(piece).to_vec()).collect()
    }
}

/// Returns the bytes of a piece that a handler has written.
pub(crate) fn in_memory<'p>(piece: &Piece<'p>) -> &'p [u8] {
    match *piece {
        Piece::Bytes(bytes) => bytes,
        Piece::Archive(_) | Piece::External(_) => unreachable!("a handler writes bytes"),
    }
}

/// A reusable list of pieces, which is empty while it is not in use.
#[derive(Debug, Default)]
pub(crate) struct PieceList(Vec<Piece<'static>>);

impl PieceList {
    /// Takes the list, for pieces of any lifetime.
    pub(crate) fn take<'p>(&mut self) -> Vec<Piece<'p>> {
        std::mem::take(&mut self.0)
    }

    /// Puts the list back, and shrinks it if it has room for more than `most` pieces.
    pub(crate) fn give_back(&mut self, mut pieces: Vec<Piece<'_>>, most: usize) {
        pieces.clear();
        pieces.shrink_to(most);
        // An empty list has no lifetime, and collecting reuses its memory.
        self.0 = pieces.into_iter().map(|_| Piece::Bytes(&[])).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox;

    fn pieces_of(code: &str) -> Result<Vec<String>, String> {
        let lua = sandbox::open().expect("a VM");
        let response: Table = lua.load(code).eval().expect("a table");
        let written = WrittenPieces::new(response.clone(), response.raw_len());
        let mut pieces = Vec::new();
        written.append_to(&lua, &mut pieces)?;
        let text = |piece| String::from_utf8_lossy(in_memory(piece)).into_owned();
        Ok(pieces.iter().map(text).collect())
    }

    #[test]
    fn response_pieces_equal_the_result_of_table_concat() {
        for code in ["{ '' }", "{ 'no part of it', 'a', 'bc', '' }", "{ '', 1, 'x', 0.5, -2 }"] {
            let lua = sandbox::open().expect("a VM");
            let whole = format!("return table.concat({code}, '', 2)");
            let whole: String = lua.load(whole).eval().expect("a string");
            assert_eq!(pieces_of(&format!("return {code}")).expect(code).concat(), whole);
        }
        let many =
            "local t = {} for n = 1, 5000 do t[n] = n % 2 == 0 and n or 'n' .. n end return t";
        let expected: Vec<_> =
            (2..=5000).map(|n| if n % 2 == 0 { n.to_string() } else { format!("n{n}") }).collect();
        assert_eq!(pieces_of(many).expect("pieces"), expected);
    }

    #[test]
    fn a_piece_that_is_not_a_string_or_number_is_an_error() {
        for (code, kind) in [("{ '', 'a', {} }", "table"), ("{ '', true }", "boolean")] {
            let why = pieces_of(&format!("return {code}")).expect_err(code);
            assert!(why.contains(&format!("a piece of the response is a {kind}, ")), "{why}");
        }
    }

    /// Finalizers run while numbers are converted, because that allocates, and may put anything
    /// into the table. The result is a text or an error, and never memory that was freed. Only a
    /// VM without the sandbox has finalizers of scripts.
    #[cfg(feature = "lua54")]
    #[test]
    fn a_finalizer_that_changes_the_table_of_pieces_is_harmless() {
        let code = "
            collectgarbage('stop')
            local pieces, change = { '' }, ...
            for n = 2, 4000 do pieces[n] = n % 3 == 0 and 'text ' .. n or n end
            ran = 0
            local function finalize()
                ran = ran + 1
                for n = ran, #pieces, 100 do pieces[n] = change(n) end
            end
            for _ = 1, 100 do setmetatable({}, { __gc = finalize }) end
            collectgarbage('restart')
            return pieces";
        for (change, is_text) in [
            ("function(n) return 'new ' .. n end", true),
            ("function(n) return n + 0.5 end", false),
            ("function(n) return {} end", false),
        ] {
            let lua = Lua::new();
            let change: mlua::Function =
                lua.load(format!("return {change}")).eval().expect("a function");
            let response: Table = lua.load(code).call(change).expect("a table");
            let written = WrittenPieces::new(response.clone(), response.raw_len());
            let ran = || lua.globals().get::<usize>("ran").expect("a number");
            let ran_before = ran();
            let mut pieces = Vec::new();
            let result = written.append_to(&lua, &mut pieces);
            assert!(result.is_ok() || !is_text, "{result:?}");
            assert!(pieces.iter().all(|piece| in_memory(piece).is_ascii()));
            drop(pieces);
            assert!(ran() > ran_before, "no finalizer ran meanwhile");
        }
    }

    #[test]
    fn the_capacity_of_a_piece_list_is_reused() {
        let mut list = PieceList::default();
        let text = String::from("a piece");
        let mut pieces = list.take();
        pieces.extend([Piece::Bytes(text.as_bytes()); 10]);
        let room = pieces.as_ptr() as usize;
        list.give_back(pieces, 100);
        let pieces = list.take();
        assert_eq!((pieces.as_ptr() as usize, pieces.len()), (room, 0));
        assert!(pieces.capacity() >= 10);
        list.give_back(pieces, 5);
        assert_eq!(list.take().capacity(), 5);
    }
}
