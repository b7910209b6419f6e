-- `pinion.fs`, and the method of `res` that sends a file. The chunk gets the functions of the host,
-- the table `pinion`, the methods of responses, the function that waits, and the checks that the
-- head of a response has not been sent and that the response is that of the running request.

local host, pinion, methods, wait, check_head_is_open, check_own = ...

local concat, error, pairs, sort, tostring, type =
    table.concat, error, pairs, table.sort, tostring, type
local bad_argument = host.bad_argument

local function check_path(path, name, position)
    if type(path) ~= "string" then
        bad_argument(position or 1, name, "path such as \"data/notes.txt\"", path, 3)
    end
end

-- Returns the options, or an empty table if there are none. Refuses names that are not known.
local function checked_options(options, name, known)
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
    check_path(path, "pinion.fs.read")
    options = checked_options(options, "pinion.fs.read", READ)
    check_whole(options.from, "from")
    check_whole(options.bytes, "bytes")
    host.read_stored(path, options.from, options.bytes)
    return wait("job")
end

local writers = { write = host.write_file, append = host.append_file, create = host.create_file }

for name, start in pairs(writers) do
    pinion.fs[name] = function(path, content)
        check_path(path, "pinion.fs." .. name)
        if type(content) == "number" then
            content = tostring(content)
        elseif type(content) ~= "string" then
            bad_argument(2, "pinion.fs." .. name, "string", content, 2)
        end
        start(path, content)
        return wait("job")
    end
end

local path_functions = {
    list = host.list_files,
    stat = host.stat_file,
    remove = host.remove_file,
    make_folder = host.make_folder,
}

for name, start in pairs(path_functions) do
    pinion.fs[name] = function(path)
        check_path(path, "pinion.fs." .. name)
        start(path)
        return wait("job")
    end
end

function pinion.fs.rename(from, to)
    check_path(from, "pinion.fs.rename")
    check_path(to, "pinion.fs.rename", 2)
    host.rename_file(from, to)
    return wait("job")
end

local SENT = { type = true, download = true }

-- Sends a file as the response. Returns nil and the reason if there is none: the status is 404
-- then, unless the script sets another one.
function methods.file(response, path, options)
    check_head_is_open(response, "res:file(path)")
    check_own(response.id, 3)
    check_path(path, "res:file")
    options = checked_options(options, "res:file", SENT)
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
    check_head_is_open(response, "res:file(path)")
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

-- A script that `pinion run` runs has no folders.
if host.command_line then
    for name in pairs(pinion.fs) do
        pinion.fs[name] = function()
            return nil, "pinion run gives a script no folders, so pinion.fs." .. name
                .. " finds no files; run it with --lua-unsafe and use `io`"
        end
    end
end
