-- The entries, newest first, and what an entry must be like.

local book = { NAME_MAX = 60, MESSAGE_MAX = 1000 }

-- The oldest ones go when there are more.
local ENTRIES_MAX = 100

-- What a new book begins with. All that people write is text: this shows it.
local FIRST = {
    id = "first",
    name = "The <b>printer</b>",
    message = "Write what you like. A <script>alert('hello')</script> in here is nothing but text.",
    time = 1767261600,
}

-- `pinion.keep` outlives a reload. What it gives is a copy, so it is read once, here, and written
-- after each change. It is gone when the server ends.
local entries = pinion.keep.entries or { FIRST }

function book.entries()
    return entries
end

-- Takes an entry into the book of this worker.
function book.take(entry)
    for _, known in ipairs(entries) do
        if known.id == entry.id then
            return
        end
    end
    entries[#entries + 1] = entry
    -- Messages of two workers may come in any order. By its time, and by its id where times are the
    -- same, every worker puts an entry in the same place.
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

-- Signs the book in all workers. Gives the entry.
function book.sign(name, message)
    local entry = {
        id = pinion.codec.hex_encode(pinion.crypto.random(8)),
        name = name,
        message = message,
        time = os.time(),
    }
    -- This worker takes it at once, because the one who has signed will look at the book now. The
    -- message comes back to it too, and is not taken twice.
    book.take(entry)
    pinion.send("signed", entry)
    return entry
end

-- How many characters a text of UTF-8 has: the bytes that begin one.
local function length(text)
    local _, count = text:gsub("[^\128-\191]", "")
    return count
end

-- A field of a form as text: lines end in one way, control characters and outer spaces go away.
function book.clean(value)
    local text = type(value) == "string" and value or ""
    text = text:gsub("\r\n?", "\n"):gsub("[^%C\n]", "")
    return (text:gsub("^%s+", ""):gsub("%s+$", ""))
end

-- What is wrong with an entry, by fields, in words for the one who has written it. Nil if nothing.
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
