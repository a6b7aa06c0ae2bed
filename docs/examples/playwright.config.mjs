export default {
  workers: 1,
  use: { baseURL: "http://127.0.0.1:8124" },
  webServer: {
    command: "task-service dev --json --port 8124 --control-port 8125 --control-path control",
    url: "http://127.0.0.1:8124/healthz",
  },
};
