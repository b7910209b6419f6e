-- The five functions as scripts see them. Rust searches and gives places in the subject as numbers;
-- here they become texts. What calls functions of the script is here altogether, so that they run
-- under the hook, may yield, and fail with a trace as any function does. Errors are raised here as
-- texts that begin with the line of the script.
--
-- Nothing global is used when a function is called: a script may have changed it. And nothing but
-- tail calls leads from the script's call to where an error is raised, or its level were wrong.

local native, code, SHORT_BYTES = ...
local NONE, FAILED, STALE, WRONG_NUMBER = code.none, code.failed, code.stale, code.wrong_number
local learn, reason, begin, at_most = native.learn, native.reason, native.begin, native.most
local find_short, find_long, plain_long = native.find_short, native.find_long, native.plain_long
local match_short, match_long = native.match_short, native.match_long
local walk_short, walk_long, replace = native.walk_short, native.walk_long, native.replace
local captures_of, walk_captures, repeatable = native.captures, native.walk_captures, native.rep
local error, type, concat = error, type, table.concat
local sub, byte, lua_find, lua_rep = string.sub, string.byte, string.find, string.rep

-- Which number a pattern has where it is kept in its compiled form: of all patterns, of those that
-- have no captures, and of those that have one or none. And which ones `find` takes literally.
local numbers, bare, single, literal = {}, {}, {}, {}

local function learned(pattern)
  local number, captures, is_literal, first = learn(pattern)
  if number >= 0 then
    if first then
      -- The others have been given up to make room.
      numbers, bare, single, literal = {}, {}, {}, {}
    end
    if is_literal then
      literal[pattern] = true
    end
    if captures == 0 then
      bare[pattern] = number
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

-- After a search that could not be made: raises an error, or, if this returns, all is well once
-- `subject` and `pattern` are made texts. `number_at` is where the function takes a number.
local function amiss(why, name, subject, pattern, number_at)
  if why == FAILED then
    error(reason(), 3)
  elseif why == WRONG_NUMBER then
    error("bad argument #" .. number_at .. " to '" .. name .. "' (" .. reason() .. ")", 3)
  elseif why == STALE then
    numbers[pattern], bare[pattern], single[pattern] = nil, nil, nil
  else
    check_text(subject, 1, name, 4)
    check_text(pattern, 2, name, 4)
  end
end

-- A capture or a whole match; a position has -1 for its end.
local function part(subject, first, last)
  if last == -1 then
    return first
  end
  return sub(subject, first, last)
end

-- All captures of a match, or the match itself where there are none.
local function values(subject, first, last, a, a_last, ...)
  if not a then
    return sub(subject, first, last)
  elseif not ... then
    return part(subject, a, a_last)
  end
  return part(subject, a, a_last), values(subject, first, last, ...)
end

local find, match

local function finish_find(subject, pattern, init, plain, first, last, a, ...)
  if not last then
    if first == NONE then
      return nil
    end
    amiss(first, "find", subject, pattern, 3)
    return find(subject .. "", pattern .. "", init, plain)
  elseif a then
    return first, last, values(subject, first, last, a, ...)
  end
  return first, last
end

function find(subject, pattern, init, plain)
  local short = type(subject) == "string" and #subject <= SHORT_BYTES
  if short and (plain or literal[pattern]) then
    -- At worst the product of two short lengths, and LuaJIT compiles it.
    return lua_find(subject, pattern, init, true)
  elseif plain then
    return finish_find(subject, pattern, init, plain, plain_long(subject, pattern, init))
  end
  local number = bare[pattern]
  if not number then
    number = numbers[pattern]
    if not number then
      number = learned(pattern)
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
    return values(subject, first, last, ...)
  elseif first == NONE then
    return nil
  end
  amiss(first, "match", subject, pattern, 3)
  return match(subject .. "", pattern .. "", init)
end

function match(subject, pattern, init)
  local number = single[pattern]
  if not number then
    number = numbers[pattern] or learned(pattern)
    return finish_match(subject, pattern, init, captures_of(subject, number, init))
  end
  local first, last
  if type(subject) == "string" and #subject <= SHORT_BYTES then
    first, last = match_short(subject, number, init)
  else
    first, last = match_long(subject, number, init)
  end
  if last then
    return part(subject, first, last)
  end
  return finish_match(subject, pattern, init, first)
end

local function gmatch(subject, pattern, init)
  check_text(subject, 1, "gmatch", 3)
  check_text(pattern, 2, "gmatch", 3)
  subject, pattern = subject .. "", pattern .. ""
  if byte(pattern) == 94 then
    -- Here `^` stands for itself: bound to the beginning, there were nothing to go through.
    pattern = "%" .. pattern
  end
  local at = begin(#subject, init)
  if at < 0 then
    amiss(at, "gmatch", subject, pattern, 3)
  end
  local walk = #subject <= SHORT_BYTES and walk_short or walk_long

  local again
  local function finish(now, first, last, ...)
    if first then
      at = now
      return values(subject, first, last, ...)
    elseif now == NONE then
      return nil
    end
    amiss(now, "gmatch", subject, pattern, 3)
    return again()
  end
  function again()
    local number = single[pattern]
    if number then
      local now, first, last, a, a_last = walk(subject, number, at)
      if a then
        first, last = a, a_last
      end
      if first then
        at = now
        return part(subject, first, last)
      end
      return finish(now)
    end
    return finish(walk_captures(subject, numbers[pattern] or learned(pattern), at))
  end
  return again
end

-- What stands for a match, and after it what `walk_captures` gave.
local function chosen(replacement, calls, subject, now, first, last, ...)
  if not first then
    return nil, now
  elseif calls then
    return replacement(values(subject, first, last, ...)), now, first, last
  end
  local key = values(subject, first, last, ...)
  return replacement[key], now, first, last
end

local function gsub_values(subject, pattern, replacement, most, calls)
  local pieces, length, copied = {}, 0, 1
  local at, count = 0, 0
  local walk = #subject <= SHORT_BYTES and walk_short or walk_long
  while count < most do
    local value, now, first, last, a, a_last
    local number = single[pattern]
    if number then
      now, first, last, a, a_last = walk(subject, number, at)
      if first then
        value = part(subject, a or first, a_last or last)
        if calls then
          value = replacement(value)
        else
          value = replacement[value]
        end
      end
    else
      number = numbers[pattern] or learned(pattern)
      value, now, first, last =
        chosen(replacement, calls, subject, walk_captures(subject, number, at))
    end
    if first then
      count, at = count + 1, now
      if value then
        local kind = type(value)
        if kind ~= "string" and kind ~= "number" then
          error("invalid replacement value (a " .. kind .. ")", 2)
        end
        pieces[length + 1] = sub(subject, copied, first - 1)
        pieces[length + 2] = value
        length, copied = length + 2, last + 1
      end
    elseif now == NONE then
      break
    else
      amiss(now, "gsub", subject, pattern, 4)
    end
  end
  if length == 0 then
    return subject, count
  end
  pieces[length + 1] = sub(subject, copied)
  return concat(pieces), count
end

local function gsub(subject, pattern, replacement, most)
  local kind = type(replacement)
  if kind == "string" or kind == "number" then
    local count, text = replace(subject, numbers[pattern] or learned(pattern), replacement, most)
    if count > 0 then
      return text, count
    elseif count == 0 then
      return subject, 0
    end
    amiss(count, "gsub", subject, pattern, 4)
    return gsub(subject .. "", pattern .. "", replacement, most)
  end
  check_text(subject, 1, "gsub", 3)
  check_text(pattern, 2, "gsub", 3)
  local count = at_most(most)
  if count < 0 then
    amiss(count, "gsub", subject, pattern, 4)
  elseif kind == "function" then
    return gsub_values(subject .. "", pattern .. "", replacement, count, true)
  elseif kind == "table" then
    return gsub_values(subject .. "", pattern .. "", replacement, count, false)
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
    -- Little work, and LuaJIT compiles it.
    return lua_rep(subject, count, separator)
  end
  local times = repeatable(#subject, count, #separator)
  if times < 0 then
    amiss(times, "rep", subject, "", 2)
  elseif times == 0 then
    return ""
  end
  return lua_rep(subject, times, separator)
end

return {find = find, gmatch = gmatch, gsub = gsub, match = match, rep = rep}
