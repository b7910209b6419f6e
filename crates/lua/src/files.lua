-- Files: those of the script's folders, and those that are sent. The chunk gets the host's
-- functions, the table of the site, the methods of answers, what waits, and what makes sure that
-- the head of an answer can still change, and that it is that of whoever runs.

local host, pinion, methods, wait, changes_head, check_own = ...

local concat, error, pairs, sort, tostring, type =
    table.concat, error, pairs, table.sort, tostring, type
local bad_argument = host.bad_argument

local function check(path, name, position)
    if type(path) ~= "string" then
        bad_argument(position or 1, name, "path such as \"data/notes.txt\"", path, 3)
    end
end

-- Options are a table, or left out, and have only these names.
local function options_of(options, name, known)
    if options == nil then
        return {}
    elseif type(options) ~= "table" then
        bad_argument(2, name, "table", options, 3)
    end
    for key in pairs(options) do
        if not known[key] then
            local names = {}
            for option in pairs(known) do
                names[#names + 1] = "`" .. option .. "`"
            end
            sort(names)
            error(name .. " has no option \"" .. tostring(key) .. "\"; its options are "
                .. concat(names, " and "), 3)
        end
    end
    return options
end

local function check_whole(value, name)
    if value ~= nil and (type(value) ~= "number" or value < 0 or value % 1 ~= 0) then
        error("the option `" .. name .. "` of pinion.fs.read is a whole number of bytes", 3)
    end
end

pinion.fs = {}

local READ = { from = true, bytes = true }

function pinion.fs.read(path, options)
    check(path, "pinion.fs.read")
    options = options_of(options, "pinion.fs.read", READ)
    check_whole(options.from, "from")
    check_whole(options.bytes, "bytes")
    host.read_stored(path, options.from, options.bytes)
    return wait("job")
end

local stored = { write = host.write_file, append = host.append_file, create = host.create_file }

for name, leave in pairs(stored) do
    pinion.fs[name] = function(path, content)
        check(path, "pinion.fs." .. name)
        if type(content) == "number" then
            content = tostring(content)
        elseif type(content) ~= "string" then
            bad_argument(2, "pinion.fs." .. name, "string", content, 2)
        end
        leave(path, content)
        return wait("job")
    end
end

local alone = {
    list = host.list_files,
    stat = host.stat_file,
    remove = host.remove_file,
    make_folder = host.make_folder,
}

for name, leave in pairs(alone) do
    pinion.fs[name] = function(path)
        check(path, "pinion.fs." .. name)
        leave(path)
        return wait("job")
    end
end

function pinion.fs.rename(from, to)
    check(from, "pinion.fs.rename")
    check(to, "pinion.fs.rename", 2)
    host.rename_file(from, to)
    return wait("job")
end

local SENT = { type = true, download = true }

-- Answers with a file. Nil and why when there is none: the status is 404 then, unless the script
-- has said or says something else.
function methods.file(response, path, options)
    changes_head(response, "res:file(path)")
    check_own(response.id, 3)
    check(path, "res:file")
    options = options_of(options, "res:file", SENT)
    for key in pairs(options) do
        if type(options[key]) ~= "string" then
            error("the option `" .. key .. "` of res:file is a string", 2)
        end
    end
    if response.n > 1 then
        error("res:file sends the whole response; write nothing before it", 2)
    end
    local why = host.open_file(response.id, path)
    if why then
        error(why, 2)
    end
    local is_open, missing = wait("job")
    if not is_open then
        response.is_settled = true
        host.miss_file(response.id)
        return nil, missing
    end
    changes_head(response, "res:file(path)")
    local is_sent, wrong = host.describe_file(response.id, path, options.type, options.download)
    if wrong then
        error(wrong, 2)
    end
    response.n, response.is_file = nil, true
    if is_sent then
        response.has_begun = true
        wait("file")
    end
    return true
end

-- A program at the command line has no folders.
if host.alone then
    for name in pairs(pinion.fs) do
        pinion.fs[name] = function()
            return nil, "pinion run gives a script no folders, so pinion.fs." .. name
                .. " finds no files; run it with --lua-unsafe and use `io`"
        end
    end
end
