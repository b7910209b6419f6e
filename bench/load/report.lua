-- Loaded by every script here: prints the measurements of wrk as one line for the harness. Times
-- are microseconds.
done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    "measured requests=%d duration=%d bytes=%d p50=%d p75=%d p90=%d p99=%d p999=%d max=%d " ..
      "connect=%d read=%d write=%d status=%d timeout=%d\n",
    summary.requests, summary.duration, summary.bytes, latency:percentile(50),
    latency:percentile(75), latency:percentile(90), latency:percentile(99),
    latency:percentile(99.9), latency.max, errors.connect, errors.read, errors.write,
    errors.status, errors.timeout))
end
