-- wrk -s pipeline.lua URL -- DEPTH: every write carries DEPTH requests.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "report.lua")

init = function(arguments)
  local requests = {}
  for i = 1, tonumber(arguments[1] or 16) do requests[i] = wrk.format("GET", nil) end
  batch = table.concat(requests)
end

request = function() return batch end
