-- wrk -s paths.lua URL -- FILE: a random line of FILE is the target of each request.
-- A file with one line makes the client do the same work for one hot path.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "report.lua")

init = function(arguments)
  requests = {}
  for line in io.lines(arguments[1]) do requests[#requests + 1] = wrk.format("GET", line) end
  while #requests < 2 do requests[#requests + 1] = requests[1] end
  math.randomseed(20260101)
end

request = function() return requests[math.random(#requests)] end
