-- Against forged forms (CSRF): another site can make a browser send us a form, with our cookies. It
-- cannot read them, though, nor our pages. So each visitor gets a cookie with a random id, and each
-- form a token that only we can make for that id.

local token = {}

local codec, crypto = pinion.codec, pinion.crypto

-- The same in all workers and after a reload, so that forms that are open in a browser stay good.
local secret = crypto.key("forms")

local function signature(visitor, salt)
    return codec.hex_encode(crypto.hmac_sha256(secret, visitor .. ":" .. salt))
end

-- The id in a Cookie field; nil if there is none.
local function visitor_of(cookies)
    local visitor = ("; " .. (cookies or "")):match("; visitor=(%x+)")
    return visitor and #visitor == 32 and visitor or nil
end

-- A token for a form, and the Set-Cookie field for a visitor who comes for the first time.
function token.make(cookies)
    local visitor, cookie = visitor_of(cookies), nil
    if not visitor then
        visitor = codec.hex_encode(crypto.random(16))
        -- Add "; Secure" when the site is only served over HTTPS.
        cookie = "visitor=" .. visitor .. "; Path=/; HttpOnly; SameSite=Lax"
    end
    -- With a fresh salt no two pages have the same token, so that nobody learns it from how well
    -- pages compress.
    local salt = codec.hex_encode(crypto.random(16))
    return salt .. signature(visitor, salt), cookie
end

-- Whether a form was made by us for this visitor. `equal` takes as long for a near miss as for a
-- wild guess.
function token.is_good(text, cookies)
    local visitor = visitor_of(cookies)
    if not visitor or type(text) ~= "string" or #text ~= 96 then
        return false
    end
    return crypto.equal(text:sub(33), signature(visitor, text:sub(1, 32)))
end

return token
