-- `pinion.session`: a signed cookie with an ID, and a hash in the store with the values. The chunk
-- gets the functions of the host, the table `pinion`, and the methods of requests and responses. It
-- returns the methods of sessions and the function for the sessions of pages.

local host, pinion, request_methods, response_methods = ...

local error, floor, format, getmetatable, huge, pairs, pcall, rawget, rawset =
    error, math.floor, string.format, getmetatable, math.huge, pairs, pcall, rawget, rawset
local setmetatable, tonumber, tostring, type = setmetatable, tonumber, tostring, type
local find, gmatch, gsub, match, sub =
    string.find, string.gmatch, string.gsub, string.match, string.sub
local bad_argument, check_object = host.bad_argument, host.check_object
local call, multi = pinion.store.call, pinion.store.multi
local equal, hmac, random = pinion.crypto.equal, pinion.crypto.hmac_sha256, pinion.crypto.random
local site_key, base64_encode = pinion.crypto.key, pinion.codec.base64_encode
local cookie_text, set_cookie, unix_seconds =
    host.cookie, host.set_session_cookie, host.unix_seconds
local IDLE_SECONDS, AGE_SECONDS, SECONDS_MAX =
    host.SESSION_IDLE_SECONDS, host.SESSION_AGE_SECONDS, host.SESSION_SECONDS_MAX
local NAME_MAX_BYTES, VALUE_MAX_BYTES, VALUES_MAX, MAX_BYTES = host.SESSION_NAME_MAX_BYTES,
    host.SESSION_VALUE_MAX_BYTES, host.SESSION_VALUES_MAX, host.SESSION_MAX_BYTES
local KEY_MIN_BYTES = host.SESSION_KEY_MIN_BYTES

-- Random bytes of an ID and of a token, and the length of both in base64url. A signature has as
-- many bytes as an ID.
local ID_BYTES, ID_CHARS, NONCE_BYTES, NONCE_CHARS = 32, 43, 16, 22
-- The keys of sessions in the store, and the field with the time at which a session began. Names
-- of values cannot begin with a colon.
local KEY_PREFIX, BEGAN_FIELD = "session:", ":born"
-- A session that is only read is renewed after this share of its lifetime.
local RENEWAL_SHARE = 0.1
-- Keys of data that scripts do not see, in tables that they see.
local SESSIONS, STATE = {}, {}

local HAS_ENDED = "the session has ended: another request has destroyed it or given it another ID"
local HEAD_IS_SENT = "the headers have been sent already, so no session can begin or get another "
    .. "ID; do this before the first flush, and before 64 KiB are written"

local session_methods, Session = {}, { __name = "session" }

local function base64url(bytes)
    return base64_encode(bytes, { url = true })
end

local function cookie_signature(state, id)
    return base64url(hmac(state.key, "pinion session 1\0" .. state.name .. "\0" .. id))
end

local function token_signature(state, nonce)
    local text = "pinion csrf 1\0" .. state.name .. "\0" .. state.id .. "\0" .. nonce
    return base64url(hmac(state.key, text))
end

-- Calls a function of the store. Its errors have the position of the script.
local function call_store(level, work, ...)
    local ok, result = pcall(work, ...)
    if not ok then
        error(type(result) == "string" and gsub(result, "^pinion:%d+: ", "") or result, level + 1)
    end
    return result
end

-- Returns how many cookies of this name the request has. Which one of several the site has set
-- cannot be known: other hosts of its domain can set cookies of the same name.
local function cookie_count(request, name)
    local count = 0
    for pair in gmatch(request_methods.field(request, "Cookie") or "", "[^;]+") do
        if match(pair, "^%s*([^=]*)=") == name then
            count = count + 1
        end
    end
    return count
end

-- Returns the ID of the cookie, if this site has signed it.
local function cookie_id(state)
    local text = state.request.cookies[state.name]
    if type(text) ~= "string" or #text ~= ID_CHARS * 2 + 1 then
        return nil
    end
    local id, signature = sub(text, 1, ID_CHARS), sub(text, ID_CHARS + 2)
    local is_signed = sub(text, ID_CHARS + 1, ID_CHARS + 1) == "."
        and equal(signature, cookie_signature(state, id))
    return is_signed and cookie_count(state.request, state.name) == 1 and id or nil
end

local function head_is_open(state)
    local response = state.response
    return response.n and not response.has_begun
end

-- Sets the cookie, and replaces one that this request has set before. Deletes the cookie if the
-- session has no ID.
local function send_cookie(state, level)
    local id = state.id
    local value = id and id .. "." .. cookie_signature(state, id)
    local text, why = cookie_text(state.name, value, {
        max_age = id and state.lifetime or nil,
        secure = state.is_secure,
    })
    why = why or set_cookie(state.response.id, state.name, text)
    if why then
        error(why, level + 1)
    end
end

-- Stores when the session began, and its remaining lifetime in seconds if it is not used again.
local function set_lifetime(state, began, now)
    local left = state.age_seconds - (now - began)
    state.began, state.lifetime = began, left < state.idle_seconds and left or state.idle_seconds
end

-- Reads the session, when it is first needed. Returns its values; nil if there is no session.
local function load(state, level)
    if state.is_loaded then
        return state.values
    end
    local id = cookie_id(state)
    if not id then
        state.is_loaded = true
        return nil
    end
    local key = KEY_PREFIX .. id
    local replies = call_store(level + 1, multi, function(tx)
        tx.call("HGETALL", key)
        tx.call("TTL", key)
    end)
    if state.is_loaded then
        -- Another coroutine of the request has read the session in the meantime.
        return state.values
    end
    state.is_loaded = true
    local values, seconds_left = replies[1], replies[2]
    local began, now = tonumber(values[BEGAN_FIELD]), unix_seconds()
    if not began then
        return nil
    elseif now - began >= state.age_seconds then
        call_store(level + 1, call, "DEL", key)
        return nil
    end
    values[BEGAN_FIELD] = nil
    state.id, state.values = id, values
    set_lifetime(state, began, now)
    if seconds_left < state.lifetime * (1 - RENEWAL_SHARE) and head_is_open(state) then
        call_store(level + 1, call, "EXPIRE", key, state.lifetime)
        send_cookie(state, level + 1)
    end
    return values
end

-- Writes a value if there is a name, and begins the session if there is none. Returns true; nil and
-- the reason if the session has ended.
local function write(state, level, name, value)
    if state.has_ended then
        return nil, HAS_ENDED
    end
    local is_open, is_new = head_is_open(state), not state.id
    local id = state.id
    if is_new then
        if not is_open then
            error(HEAD_IS_SENT, level + 1)
        end
        local now = unix_seconds()
        id = base64url(random(ID_BYTES))
        set_lifetime(state, now, now)
    end
    local key = KEY_PREFIX .. id
    local replies = call_store(level + 1, multi, function(tx)
        if is_new then
            tx.call("HSET", key, BEGAN_FIELD, state.began)
        end
        if name and value then
            tx.call("HSET", key, name, value)
        elseif name then
            tx.call("HDEL", key, name)
        end
        -- The lifetime is extended only together with that of the cookie.
        if is_open then
            tx.call("EXPIRE", key, state.lifetime)
        else
            tx.call("EXPIRE", key, state.lifetime, "NX")
        end
        tx.call("HGET", key, BEGAN_FIELD)
    end)
    if type(replies[#replies]) ~= "string" then
        -- The session was deleted meanwhile, so the command has made a hash with the value alone.
        call_store(level + 1, call, "DEL", key)
        state.id, state.values, state.has_ended = nil, nil, true
        return nil, HAS_ENDED
    end
    if is_new then
        state.id, state.values = id, {}
    end
    if name then
        state.values[name] = value
    end
    if is_open then
        send_cookie(state, level + 1)
    end
    return true
end

-- Returns the text of a value; nil for nil, which deletes the value.
local function text_of(value, position, called, level)
    local kind = type(value)
    if kind == "number" then
        if value ~= value or value == huge or value == -huge then
            error("a value of a session is a finite number, not " .. tostring(value), level + 1)
        end
        local text = tostring(value)
        return tonumber(text) == value and text or format("%.17g", value)
    elseif kind ~= "string" and value ~= nil then
        bad_argument(position, called, "string, number or nil", value, level + 1)
    end
    return value
end

local function check_name(name, called, level)
    if type(name) ~= "string" then
        bad_argument(1, called, "string", name, level + 1)
    elseif name == "" or sub(name, 1, 1) == ":" then
        error("the name of a value of a session is not empty and begins with no colon", level + 1)
    end
end

-- Returns the limit that a value would exceed; nil if the session has room for it.
local function exceeded_limit(values, name, value)
    if #name > NAME_MAX_BYTES then
        return "the name of a value of a session has at most " .. NAME_MAX_BYTES .. " bytes, not "
            .. #name
    elseif #value > VALUE_MAX_BYTES then
        return "a value of a session has at most " .. VALUE_MAX_BYTES .. " bytes, not " .. #value
            .. "; keep the value in the store, and its key in the session"
    end
    local count, bytes = 1, #name + #value
    for other, text in pairs(values or {}) do
        if other ~= name then
            count, bytes = count + 1, bytes + #other + #text
        end
    end
    if count > VALUES_MAX then
        return "a session has at most " .. VALUES_MAX .. " values"
    elseif bytes > MAX_BYTES then
        return "the names and values of a session have at most " .. MAX_BYTES .. " bytes together"
    end
end

local function set(session, level, name, value)
    local state = rawget(session, STATE)
    local values = load(state, level + 1)
    local why = value and exceeded_limit(values, name, value)
    if why then
        return nil, why
    elseif not value and not (values and values[name]) then
        -- There is nothing to delete.
        return true
    end
    local is_written, reason = write(state, level + 1, name, value)
    return is_written, reason
end

function Session.__index(session, name)
    local method = session_methods[name]
    if method or type(name) ~= "string" then
        return method
    end
    local values = load(rawget(session, STATE), 2)
    return values and values[name]
end

function Session.__newindex(session, name, value)
    if session_methods[name] then
        error("session." .. name .. " is a method; a value of this name is written by "
            .. "session:set(\"" .. name .. "\", value)", 2)
    end
    check_name(name, "session:set", 2)
    local is_written, why = set(session, 2, name, text_of(value, 2, "session:set", 2))
    if not is_written then
        error(why, 2)
    end
end

function session_methods.get(session, name)
    check_object(session, Session, "session:get(name)", 2)
    check_name(name, "session:get", 2)
    local values = load(rawget(session, STATE), 2)
    return values and values[name]
end

-- Writes a value; nil deletes it. Returns true; nil and the reason if it was not written.
function session_methods.set(session, name, value)
    check_object(session, Session, "session:set(name, value)", 2)
    check_name(name, "session:set", 2)
    local is_written, why = set(session, 2, name, text_of(value, 2, "session:set", 2))
    return is_written, why
end

-- Gives the session another ID, so that the old one is worthless. Returns true; nil and the reason
-- if the session has ended.
function session_methods.rotate(session)
    check_object(session, Session, "session:rotate()", 2)
    local state = rawget(session, STATE)
    if not load(state, 2) then
        -- A session that begins later gets a new ID.
        return true
    elseif not head_is_open(state) then
        error(HEAD_IS_SENT, 2)
    end
    local id = base64url(random(ID_BYTES))
    local ok, why = pcall(multi, function(tx)
        tx.call("RENAME", KEY_PREFIX .. state.id, KEY_PREFIX .. id)
        tx.call("EXPIRE", KEY_PREFIX .. id, state.lifetime)
    end)
    if ok then
        state.id = id
        send_cookie(state, 2)
        return true
    elseif type(why) == "string" and find(why, "no such key", 1, true) then
        state.id, state.values, state.has_ended = nil, nil, true
        return nil, HAS_ENDED
    end
    error(type(why) == "string" and gsub(why, "^pinion:%d+: ", "") or why, 2)
end

-- Deletes the values and the cookie.
function session_methods.destroy(session)
    check_object(session, Session, "session:destroy()", 2)
    local state = rawget(session, STATE)
    local id = state.id or not state.is_loaded and cookie_id(state)
    if id then
        call_store(2, call, "DEL", KEY_PREFIX .. id)
    end
    state.is_loaded, state.id, state.values = true, nil, nil
    -- If the head has been sent, the cookie stays, but it is worthless without the values.
    if head_is_open(state) and (id or state.request.cookies[state.name]) then
        send_cookie(state, 2)
    end
end

-- Returns a token for a form. Each call returns another one, so that the length of a compressed
-- page reveals nothing about it. Begins the session if there is none.
function session_methods.csrf(session)
    check_object(session, Session, "session:csrf()", 2)
    local state = rawget(session, STATE)
    if not load(state, 2) then
        local is_written, why = write(state, 2)
        if not is_written then
            error(why, 2)
        end
    end
    local nonce = base64url(random(NONCE_BYTES))
    return nonce .. token_signature(state, nonce)
end

-- Returns whether a token belongs to this session.
function session_methods.check_csrf(session, token)
    check_object(session, Session, "session:check_csrf(token)", 2)
    local state = rawget(session, STATE)
    if type(token) ~= "string" or #token ~= NONCE_CHARS + ID_CHARS or not load(state, 2) then
        return false
    end
    local signature = token_signature(state, sub(token, 1, NONCE_CHARS))
    return equal(sub(token, NONCE_CHARS + 1), signature)
end

local OPTIONS = { name = "string", key = "string", seconds = "number", max_seconds = "number",
    secure = "boolean" }

local function check_options(options, level)
    for name, value in pairs(options) do
        local kind = OPTIONS[name]
        if not kind then
            error("a session has no option " .. format("%q", tostring(name)) .. "; its options are "
                .. "name, key, seconds, max_seconds and secure", level + 1)
        elseif type(value) ~= kind then
            error("the option " .. name .. " of a session is a " .. kind .. ", not a "
                .. type(value), level + 1)
        elseif kind == "number"
            and not (value >= 1 and value <= SECONDS_MAX and value == floor(value)) then
            error("the option " .. name .. " of a session is a whole number of seconds from 1 to "
                .. SECONDS_MAX, level + 1)
        end
    end
    if options.key and #options.key < KEY_MIN_BYTES then
        error("the option key of a session has at least " .. KEY_MIN_BYTES .. " random bytes, not "
            .. #options.key, level + 1)
    end
    local _, why = cookie_text(options.name or "session", "", nil)
    if why then
        error(why, level + 1)
    end
end

-- The session key of the site, which is derived when it is first needed.
local default_key

local function new_session(request, response, options)
    if not options.key and not default_key then
        default_key = site_key("session")
    end
    return setmetatable({
        [STATE] = {
            request = request,
            response = response,
            name = options.name or "session",
            key = options.key or default_key,
            idle_seconds = options.seconds or IDLE_SECONDS,
            age_seconds = options.max_seconds or AGE_SECONDS,
            is_secure = options.secure or options.secure == nil and request.tls == true,
        },
    }, Session)
end

local function is_request(value)
    local class = type(value) == "table" and getmetatable(value)
    return type(class) == "table" and class.__name == "request"
end

local function is_response(value)
    local class = type(value) == "table" and getmetatable(value)
    return type(class) == "table" and rawget(class, "__index") == response_methods
end

-- Returns the session of a request, always the same one for a name.
local function request_session(request, response, options)
    local sessions = rawget(request, SESSIONS)
    if not sessions then
        sessions = {}
        rawset(request, SESSIONS, sessions)
    end
    local name = options.name or "session"
    local session = sessions[name]
    if not session then
        session = new_session(request, response, options)
        sessions[name] = session
    end
    return session
end

function pinion.session(request, response, options)
    if not is_request(request) then
        bad_argument(1, "pinion.session", "req", request, 2)
    elseif not is_response(response) then
        bad_argument(2, "pinion.session", "res", response, 2)
    elseif options ~= nil and type(options) ~= "table" then
        bad_argument(3, "pinion.session", "table", options, 2)
    end
    if options then
        check_options(options, 2)
    end
    local session = request_session(request, response, options or {})
    return session
end

-- Returns the `session` of a page: that of a middleware, or one with the default options.
local function page_session(request, response)
    return request_session(request, response, {})
end

return session_methods, page_session
