-- Protection against forged forms (CSRF): another site can make a browser send a form to this site,
-- with the cookies of this site, but it can read neither the cookies nor the pages. So each visitor
-- gets a cookie with a random ID, and each form a token that only this site can make for that ID.
-- (`pinion.session` has such tokens built in; this file shows how they work.)

local token = {}

local codec, crypto = pinion.codec, pinion.crypto

-- The key is the same in all workers and after a reload, so that forms that are open in browsers
-- stay valid.
local secret = crypto.key("forms")

local function signature(visitor, salt)
    return codec.hex_encode(crypto.hmac_sha256(secret, visitor .. ":" .. salt))
end

-- Returns the ID in a Cookie header; nil if there is none.
local function parse_visitor_id(cookies)
    local visitor = ("; " .. (cookies or "")):match("; visitor=(%x+)")
    return visitor and #visitor == 32 and visitor or nil
end

-- Returns a token for a form, and a Set-Cookie header for a new visitor.
function token.make(cookies)
    local visitor, cookie = parse_visitor_id(cookies), nil
    if not visitor then
        visitor = codec.hex_encode(crypto.random(16))
        -- Add "; Secure" when the site is only served over HTTPS.
        cookie = "visitor=" .. visitor .. "; Path=/; HttpOnly; SameSite=Lax"
    end
    -- The salt makes each token different, so that the length of a compressed page reveals nothing
    -- about it.
    local salt = codec.hex_encode(crypto.random(16))
    return salt .. signature(visitor, salt), cookie
end

-- Returns whether a token was made for this visitor. `equal` compares in constant time.
function token.is_valid(text, cookies)
    local visitor = parse_visitor_id(cookies)
    if not visitor or type(text) ~= "string" or #text ~= 96 then
        return false
    end
    return crypto.equal(text:sub(33), signature(visitor, text:sub(1, 32)))
end

return token
