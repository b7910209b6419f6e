-- The functions for patterns as scripts see them. Rust searches and returns positions in the
-- subject; this file makes strings of them. Everything that calls functions of the script is
-- written in Lua, so that they run under the hook, may yield, and have a traceback like any other
-- function. Errors are raised here as strings that begin with the line of the script.
--
-- The functions use no globals, because a script may have changed them. Only tail calls lead from
-- the call of the script to the call of `error`: otherwise its level would be wrong.

local native, code, SHORT_BYTES = ...
local NONE, FAILED, STALE, WRONG_NUMBER = code.none, code.failed, code.stale, code.wrong_number
local learn, reason, begin, checked_max = native.learn, native.reason, native.begin, native.most
local find_short, find_long, plain_long = native.find_short, native.find_long, native.plain_long
local match_short, match_long = native.match_short, native.match_long
local walk_short, walk_long, replace = native.walk_short, native.walk_long, native.replace
local captures_of, walk_captures, repeatable = native.captures, native.walk_captures, native.rep
local error, type, concat = error, type, table.concat
local sub, byte, lua_find, lua_rep = string.sub, string.byte, string.find, string.rep

-- The numbers of compiled patterns: of all, of those without captures, and of those with at most
-- one capture. `literal` has the patterns without special characters.
local numbers, without_captures, single, literal = {}, {}, {}, {}

-- Compiles a pattern. Returns its number, or a negative code.
local function compile(pattern)
  local number, captures, is_literal, first = learn(pattern)
  if number >= 0 then
    if first then
      -- The other compiled patterns were dropped to make room.
      numbers, without_captures, single, literal = {}, {}, {}, {}
    end
    if is_literal then
      literal[pattern] = true
    end
    if captures == 0 then
      without_captures[pattern] = number
    end
    if captures <= 1 then
      single[pattern] = number
    end
    numbers[pattern] = number
  end
  return number
end

local function check_text(value, position, name, level)
  local kind = type(value)
  if kind ~= "string" and kind ~= "number" then
    error("bad argument #" .. position .. " to '" .. name .. "' (string expected, got "
      .. kind .. ")", level)
  end
end

-- Handles the code of a search that was not made. Raises an error, or returns if the search can be
-- repeated with `subject` and `pattern` as strings. `number_position` is that of the argument that
-- is a number.
local function raise_or_retry(why, name, subject, pattern, number_position)
  if why == FAILED then
    error(reason(), 3)
  elseif why == WRONG_NUMBER then
    error("bad argument #" .. number_position .. " to '" .. name .. "' (" .. reason() .. ")", 3)
  elseif why == STALE then
    numbers[pattern], without_captures[pattern], single[pattern] = nil, nil, nil
  else
    check_text(subject, 1, name, 4)
    check_text(pattern, 2, name, 4)
  end
end

-- Returns a capture or a whole match; the end of a position capture is -1.
local function capture(subject, first, last)
  if last == -1 then
    return first
  end
  return sub(subject, first, last)
end

-- Returns all captures of a match, or the match itself if the pattern has no captures.
local function captures(subject, first, last, a, a_last, ...)
  if not a then
    return sub(subject, first, last)
  elseif not ... then
    return capture(subject, a, a_last)
  end
  return capture(subject, a, a_last), captures(subject, first, last, ...)
end

local find, match

local function finish_find(subject, pattern, init, plain, first, last, a, ...)
  if not last then
    if first == NONE then
      return nil
    end
    raise_or_retry(first, "find", subject, pattern, 3)
    return find(subject .. "", pattern .. "", init, plain)
  elseif a then
    return first, last, captures(subject, first, last, a, ...)
  end
  return first, last
end

function find(subject, pattern, init, plain)
  local short = type(subject) == "string" and #subject <= SHORT_BYTES
  if short and (plain or literal[pattern]) then
    -- This takes at most the product of two short lengths, and LuaJIT compiles it.
    return lua_find(subject, pattern, init, true)
  elseif plain then
    return finish_find(subject, pattern, init, plain, plain_long(subject, pattern, init))
  end
  local number = without_captures[pattern]
  if not number then
    number = numbers[pattern]
    if not number then
      number = compile(pattern)
      if number >= 0 then
        return find(subject, pattern, init, plain)
      end
    end
    return finish_find(subject, pattern, init, plain, captures_of(subject, number, init))
  end
  local first, last
  if short then
    first, last = find_short(subject, number, init)
  else
    first, last = find_long(subject, number, init)
  end
  if last then
    return first, last
  end
  return finish_find(subject, pattern, init, plain, first)
end

local function finish_match(subject, pattern, init, first, last, ...)
  if last then
    return captures(subject, first, last, ...)
  elseif first == NONE then
    return nil
  end
  raise_or_retry(first, "match", subject, pattern, 3)
  return match(subject .. "", pattern .. "", init)
end

function match(subject, pattern, init)
  local number = single[pattern]
  if not number then
    number = numbers[pattern] or compile(pattern)
    return finish_match(subject, pattern, init, captures_of(subject, number, init))
  end
  local first, last
  if type(subject) == "string" and #subject <= SHORT_BYTES then
    first, last = match_short(subject, number, init)
  else
    first, last = match_long(subject, number, init)
  end
  if last then
    return capture(subject, first, last)
  end
  return finish_match(subject, pattern, init, first)
end

local function gmatch(subject, pattern, init)
  check_text(subject, 1, "gmatch", 3)
  check_text(pattern, 2, "gmatch", 3)
  subject, pattern = subject .. "", pattern .. ""
  if byte(pattern) == 94 then
    -- In gmatch `^` means the character itself: an anchored pattern could match only once.
    pattern = "%" .. pattern
  end
  local position = begin(#subject, init)
  if position < 0 then
    raise_or_retry(position, "gmatch", subject, pattern, 3)
  end
  local walk = #subject <= SHORT_BYTES and walk_short or walk_long

  local next_match
  local function finish(position_or_code, first, last, ...)
    if first then
      position = position_or_code
      return captures(subject, first, last, ...)
    elseif position_or_code == NONE then
      return nil
    end
    raise_or_retry(position_or_code, "gmatch", subject, pattern, 3)
    return next_match()
  end
  function next_match()
    local number = single[pattern]
    if number then
      local position_or_code, first, last, a, a_last = walk(subject, number, position)
      if a then
        first, last = a, a_last
      end
      if first then
        position = position_or_code
        return capture(subject, first, last)
      end
      return finish(position_or_code)
    end
    return finish(walk_captures(subject, numbers[pattern] or compile(pattern), position))
  end
  return next_match
end

-- Returns the replacement of a match, and then the results of `walk_captures`.
local function replacement_of(replacement, is_function, subject, position, first, last, ...)
  if not first then
    return nil, position
  elseif is_function then
    return replacement(captures(subject, first, last, ...)), position, first, last
  end
  local key = captures(subject, first, last, ...)
  return replacement[key], position, first, last
end

-- Replaces matches by the results of a function or the values of a table.
local function gsub_by_values(subject, pattern, replacement, max, is_function)
  local pieces, length, copied = {}, 0, 1
  local position, count = 0, 0
  local walk = #subject <= SHORT_BYTES and walk_short or walk_long
  while count < max do
    local value, next_position, first, last, a, a_last
    local number = single[pattern]
    if number then
      next_position, first, last, a, a_last = walk(subject, number, position)
      if first then
        value = capture(subject, a or first, a_last or last)
        if is_function then
          value = replacement(value)
        else
          value = replacement[value]
        end
      end
    else
      number = numbers[pattern] or compile(pattern)
      value, next_position, first, last = replacement_of(replacement, is_function, subject,
        walk_captures(subject, number, position))
    end
    if first then
      count, position = count + 1, next_position
      if value then
        local kind = type(value)
        if kind ~= "string" and kind ~= "number" then
          error("invalid replacement value (a " .. kind .. ")", 2)
        end
        pieces[length + 1] = sub(subject, copied, first - 1)
        pieces[length + 2] = value
        length, copied = length + 2, last + 1
      end
    elseif next_position == NONE then
      break
    else
      raise_or_retry(next_position, "gsub", subject, pattern, 4)
    end
  end
  if length == 0 then
    return subject, count
  end
  pieces[length + 1] = sub(subject, copied)
  return concat(pieces), count
end

local function gsub(subject, pattern, replacement, max)
  local kind = type(replacement)
  if kind == "string" or kind == "number" then
    local count, text = replace(subject, numbers[pattern] or compile(pattern), replacement, max)
    if count > 0 then
      return text, count
    elseif count == 0 then
      return subject, 0
    end
    raise_or_retry(count, "gsub", subject, pattern, 4)
    return gsub(subject .. "", pattern .. "", replacement, max)
  end
  check_text(subject, 1, "gsub", 3)
  check_text(pattern, 2, "gsub", 3)
  local count = checked_max(max)
  if count < 0 then
    raise_or_retry(count, "gsub", subject, pattern, 4)
  elseif kind == "function" then
    return gsub_by_values(subject .. "", pattern .. "", replacement, count, true)
  elseif kind == "table" then
    return gsub_by_values(subject .. "", pattern .. "", replacement, count, false)
  end
  error("bad argument #3 to 'gsub' (string/function/table expected, got " .. kind .. ")", 2)
end

local function rep(subject, count, separator)
  check_text(subject, 1, "rep", 3)
  subject = subject .. ""
  if separator == nil then
    separator = ""
  else
    check_text(separator, 3, "rep", 3)
    separator = separator .. ""
  end
  local bytes = #subject + #separator
  if type(count) == "number" and count <= SHORT_BYTES and bytes <= SHORT_BYTES / 16 then
    -- This is little work, and LuaJIT compiles it.
    return lua_rep(subject, count, separator)
  end
  local times = repeatable(#subject, count, #separator)
  if times < 0 then
    raise_or_retry(times, "rep", subject, "", 2)
  elseif times == 0 then
    return ""
  end
  return lua_rep(subject, times, separator)
end

return {find = find, gmatch = gmatch, gsub = gsub, match = match, rep = rep}
