-- The entries of the book, sorted by time with the newest first, and the checks of a new entry.

local book = { NAME_MAX = 60, MESSAGE_MAX = 1000 }

-- The most entries. A new one removes the oldest.
local ENTRIES_MAX = 100

-- The first entry of a new book. It shows that HTML in an entry is displayed as text.
local FIRST = {
    id = "first",
    name = "The <b>printer</b>",
    message = "Write what you like. A <script>alert('hello')</script> in here is nothing but text.",
    time = 1767261600,
}

-- `pinion.keep` outlives a reload, but not the server. Reading it makes a copy, so it is read once,
-- here, and written after each change.
local entries = pinion.keep.entries or { FIRST }

function book.entries()
    return entries
end

-- Adds an entry to the copy of this worker.
function book.add(entry)
    for _, known in ipairs(entries) do
        if known.id == entry.id then
            return
        end
    end
    entries[#entries + 1] = entry
    -- Messages of different workers arrive in any order. Sorting by time and then by ID gives all
    -- workers the same order.
    table.sort(entries, function(a, b)
        if a.time ~= b.time then
            return a.time > b.time
        end
        return a.id > b.id
    end)
    while #entries > ENTRIES_MAX do
        table.remove(entries)
    end
    pinion.keep.entries = entries
end

-- Adds an entry in all workers. Returns the entry.
function book.sign(name, message)
    local entry = {
        id = pinion.codec.hex_encode(pinion.crypto.random(8)),
        name = name,
        message = message,
        time = os.time(),
    }
    -- This worker adds the entry immediately, because the visitor sees the book next. The message
    -- comes to this worker as well; the ID prevents a second entry.
    book.add(entry)
    pinion.send("signed", entry)
    return entry
end

-- Returns the number of characters of a text in UTF-8: it counts the bytes that begin one.
local function length(text)
    local _, count = text:gsub("[^\128-\191]", "")
    return count
end

-- Returns a field of a form as text: with the same line endings, and without control characters and
-- outer spaces.
function book.clean(value)
    local text = type(value) == "string" and value or ""
    text = text:gsub("\r\n?", "\n"):gsub("[^%C\n]", "")
    return (text:gsub("^%s+", ""):gsub("%s+$", ""))
end

-- Returns messages for the visitor about a wrong entry, by the names of the fields; nil if the
-- entry is correct.
function book.errors(name, message)
    local errors = {}
    if name == "" then
        errors.name = "Tell us your name."
    elseif length(name) > book.NAME_MAX then
        errors.name = "Use at most " .. book.NAME_MAX .. " characters for your name."
    elseif name:find("\n") then
        errors.name = "Write your name in one line."
    end
    if message == "" then
        errors.message = "Write a few words."
    elseif length(message) > book.MESSAGE_MAX then
        errors.message = "Use at most " .. book.MESSAGE_MAX .. " characters; these are "
            .. length(message) .. "."
    end
    return next(errors) and errors
end

return book
