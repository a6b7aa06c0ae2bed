-- Sends the requests of a file in turn, each with its caller's token; reports as one line of JSON.
-- Arguments: method, body ("#" in it becomes a number), file of lines "token path", and requests
-- per second, or "" for as many as the connections can send.

local method, template, requests, number

function init(arguments)
  method, template = arguments[1], arguments[2]
  requests, number = {}, 0
  for line in io.lines(arguments[3]) do
    local token, path = line:match("^(%S+) (%S+)$")
    local headers = {["Authorization"] = "Bearer " .. token}
    if template ~= "" then
      headers["Content-Type"] = "application/json"
    end
    table.insert(requests, {path = path, headers = headers})
  end
  -- Two runs must not send the same numbers: a PATCH without effect is no change.
  math.randomseed(os.time())
  salt = math.random(1, 99999)
  if template == "" then
    for i, one in ipairs(requests) do
      requests[i] = wrk.format(method, one.path, one.headers)
    end
  end
  if arguments[4] ~= "" then
    pace(1e3 / tonumber(arguments[4]))
  end
end

-- Requests start at even intervals: a connection that is free waits for the next moment that no
-- other one has taken. wrk calls delay() before each request and does not count it as latency.
function pace(interval)
  local ffi = require("ffi")
  ffi.cdef("typedef struct {long s, us;} timeval; int gettimeofday(timeval *, void *);")
  local clock = ffi.new("timeval")
  local free
  function delay()
    ffi.C.gettimeofday(clock, nil)
    local now = tonumber(clock.s) * 1e3 + tonumber(clock.us) / 1e3
    free = math.max((free or now) + interval, now)
    return math.floor(free - now)
  end
end

function request()
  number = number + 1
  local one = requests[number % #requests + 1]
  if template == "" then
    return one
  end
  return wrk.format(method, one.path, one.headers, (template:gsub("#", salt .. "-" .. number)))
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.3f, "p50": %.3f, "p99": %.3f, "failed": %d}\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout
  ))
end
